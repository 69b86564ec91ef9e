//! Who has been waiting for whom for long.
//!
//! The engine has no clock: its owner tells it now and then that a *tick* has passed, and nodes remember the tick in
//! which they were planned.

use super::edges::NONE;
use super::{Engine, NodeId, Shell, State};

/// A node that others have been waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What they wait for; none where it is something outside.
    pub by: Option<NodeId>,
    /// One of those that wait, the one planned first.
    pub first: NodeId,
    /// How many wait directly.
    pub count: usize,
}

impl<S: Shell> Engine<S> {
    /// A tick has passed.
    pub fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Nodes that have been gated for at least this many ticks, by what holds them: something that runs or is held on
    /// the host side, something on a lane, or something outside.
    pub fn held_for(&self, ticks: u32) -> Vec<Held> {
        let old = |id: &NodeId| {
            let waits = |n: &super::Node<S>| n.state == State::Gated && self.ticks - n.planned_at >= ticks;
            self.nodes.get(*id).is_some_and(waits)
        };
        let mut held = Vec::new();
        let mut explained: Vec<NodeId> = Vec::new();
        for (id, node) in self.nodes.iter().filter(|(_, n)| n.state != State::Gated) {
            let proxied =
                node.proxies.iter().filter_map(|(_, proxy)| Some(self.proxies.get(*proxy)?.waiting));
            let mut waiting: Vec<NodeId> =
                proxied.chain([node.out_fed]).flat_map(|head| self.listed_in(head)).filter(old).collect();
            waiting.sort_by_key(|id| (self.nodes[*id].planned_at, id.sort_key()));
            if let Some(&first) = waiting.first() {
                held.push(Held { by: Some(id), first, count: waiting.len() });
                explained.append(&mut waiting);
            }
        }
        // What waits for something that waits itself is explained by that; the rest waits for something outside.
        let outside = self.nodes.iter().map(|(id, _)| id).filter(|id| old(id) && !explained.contains(id));
        let behind_gated: Vec<NodeId> = self
            .nodes
            .iter()
            .filter(|(_, n)| n.state == State::Gated)
            .flat_map(|(_, n)| {
                let proxied =
                    n.proxies.iter().filter_map(|(_, proxy)| Some(self.proxies.get(*proxy)?.waiting));
                proxied.chain([n.out_fed]).flat_map(|head| self.listed_in(head)).collect::<Vec<_>>()
            })
            .collect();
        held.extend(outside.filter(|id| !behind_gated.contains(id)).map(|first| Held {
            by: None,
            first,
            count: 1,
        }));
        held
    }

    /// Those that wait for a guard to end, each with the guard, if nothing but that can let anybody go on any more:
    /// nothing is on a lane or runs, and nobody waits for something outside.
    pub fn deadlocked(&self) -> Vec<(NodeId, NodeId)> {
        let held = |n: &super::Node<S>| n.state == State::Running && n.is_guard;
        if self.nodes.iter().any(|(_, n)| n.state != State::Gated && !held(n)) {
            return Vec::new();
        }
        if self.held_for(0).iter().any(|h| h.by.is_none()) {
            return Vec::new();
        }
        let guards = self.nodes.iter().filter(|(_, n)| held(n));
        let behind = guards.flat_map(|(guard, n)| {
            let proxied = n.proxies.iter().filter_map(|(_, proxy)| Some(self.proxies.get(*proxy)?.waiting));
            let waiting = proxied.flat_map(|head| self.listed_in(head));
            waiting.map(move |waiting| (waiting, guard)).collect::<Vec<_>>()
        });
        behind.filter(|(waiting, _)| self.nodes.contains(*waiting)).collect()
    }

    pub(super) fn listed_in(&self, mut head: u32) -> Vec<NodeId> {
        let mut list = Vec::new();
        while head != NONE {
            let edge = self.edges[head as usize];
            list.push(edge.to);
            head = edge.next;
        }
        list
    }
}
