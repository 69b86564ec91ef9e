//! Which nodes have been waiting for long, and for what.
//!
//! The engine has no clock: its owner tells it from time to time that a *tick* has passed, and nodes remember
//! the tick in which they were planned.

use std::collections::{HashMap, HashSet};

use super::links::NONE;
use super::machine::Lane;
use super::{ContextId, Engine, NodeId, Place, Progress, ReadSetId, Realm, Shell, State, Turn};

/// A node that others have been waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// What they wait for; none where it is something outside.
    pub by: Option<NodeId>,
    /// One of those that wait, the one planned first; no transfer.
    pub first: NodeId,
    /// How many wait directly, or for a transfer that does.
    pub count: usize,
}

impl<S: Shell> Engine<S> {
    /// A tick has passed.
    pub fn tick(&mut self) {
        self.ticks += 1;
    }

    /// Nodes that have been gated for at least this many ticks, by what holds them: something that runs or is held on
    /// the host side, something on a lane, or something outside. A transfer that waits stands for the nodes behind it, as it
    /// was not submitted itself.
    pub fn held_for(&self, ticks: u32) -> Vec<Held> {
        let old = |id: &NodeId| self.nodes.get(*id).is_some_and(|node| self.ticks - node.planned_at >= ticks);
        let waits = Waits::of(self);
        let mut held = Vec::new();
        let mut note = |by: Option<NodeId>, mut waiting: Vec<NodeId>| {
            waiting.retain(old);
            if let Some(&first) = waiting.first() {
                held.push(Held { by, first, count: waiting.len() });
            }
        };
        // A node that waits for another gated node is explained by what holds that one: only the heads of such
        // chains are reported, with a holder that is not gated, or with none if it is something outside.
        for (id, _) in self.nodes.iter().filter(|(_, node)| node.state != State::Gated) {
            note(Some(id), waits.behind(id, self));
        }
        for id in waits.held_from_outside(self) {
            let is_transfer = self.nodes[id].is_transfer;
            note(None, if is_transfer { waits.behind(id, self) } else { vec![id] });
        }
        held
    }

    /// Nodes that wait for a guard to end, each with the guard, if only the end of a guard can let any node
    /// continue: nothing is on a lane or runs, and no node waits for something outside.
    pub fn deadlocked(&self) -> Vec<(NodeId, NodeId)> {
        let held = |n: &super::Node<S>| n.state == State::Running && n.is_guard;
        if self.nodes.iter().any(|(_, n)| n.state != State::Gated && !held(n)) {
            return Vec::new();
        }
        if self.held_for(0).iter().any(|h| h.by.is_none()) {
            return Vec::new();
        }
        let waits = Waits::of(self);
        let guards = self.nodes.iter().filter(|(_, n)| held(n)).map(|(guard, _)| guard);
        let behind = |guard| waits.behind(guard, self).into_iter().map(move |waiting| (waiting, guard));
        guards.flat_map(behind).collect()
    }

    /// How far the lanes of a context have come, in points, with those of all contexts that its lanes may wait for natively; none if
    /// nothing of its own is in flight.
    pub fn progress_of(&self, context: ContextId) -> Option<u64> {
        let context_of = |lane: &Lane| self.devices[lane.device.0 as usize].context;
        // What is just being handed over is not with the device.
        let is_with_device = |lane: &Lane| {
            let oldest = lane.in_flight.front().and_then(|flight| self.nodes.get(flight.node));
            oldest.is_some_and(|node| !matches!(node.state, State::Feeding(..)))
        };
        let domain = self.contexts[context.0 as usize].domain;
        let of_domain = |lane: &&Lane| self.contexts[context_of(lane).0 as usize].domain == domain;
        let is_busy = self.lanes.iter().any(|lane| context_of(lane) == context && is_with_device(lane));
        is_busy.then(|| self.lanes.iter().filter(of_domain).map(|lane| lane.passed).sum())
    }

    /// Has the oldest group in flight on each lane of a context report, which may not have been asked to.
    pub fn ask_oldest(&mut self, context: ContextId, turn: &mut Turn<S>) {
        let of_context = |lane: &&Lane| self.devices[lane.device.0 as usize].context == context;
        let oldest = self.lanes.iter().filter(of_context).filter_map(|lane| lane.in_flight.front());
        let oldest: Vec<NodeId> = oldest.map(|flight| flight.node).collect();
        oldest.into_iter().for_each(|node| self.want(node, turn));
    }

    /// How far a node has come that has not settled.
    pub fn progress(&self, id: NodeId) -> Option<Progress> {
        let node = self.nodes.get(id)?;
        Some(match (node.state, node.place) {
            (State::Gated | State::Queued(_), _) => Progress::Waits,
            (State::Running, _) | (State::Passed, Place::Host) => Progress::OnHost,
            (State::Feeding(..) | State::Fed(..) | State::Passed, _) => Progress::OnLane,
        })
    }

    /// Whether something holds a node back.
    pub fn is_gated(&self, id: NodeId) -> bool {
        self.nodes.get(id).is_some_and(|node| node.state == State::Gated)
    }

    fn is_transfer(&self, id: NodeId) -> bool {
        self.nodes.get(id).is_some_and(|node| node.is_transfer)
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

/// The nodes that wait directly behind each node.
pub(super) struct Waits {
    behind: HashMap<NodeId, Vec<NodeId>>,
}

impl Waits {
    /// Those that wait directly for a node.
    pub(super) fn directly_behind(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        self.behind.get(&id).into_iter().flatten().copied()
    }

    /// Those that wait for no node: for memory, or for something outside.
    pub(super) fn held_from_outside<S: Shell>(&self, engine: &Engine<S>) -> Vec<NodeId> {
        let explained: HashSet<NodeId> = self.behind.values().flatten().copied().collect();
        let gated = engine.nodes.iter().filter(|(_, node)| node.state == State::Gated).map(|(id, _)| id);
        gated.filter(|id| !explained.contains(id)).collect()
    }

    pub(super) fn of<S: Shell>(engine: &Engine<S>) -> Self {
        let mut waits = Waits { behind: HashMap::new() };
        let mut readers: HashMap<(ReadSetId, Realm), Vec<NodeId>> = HashMap::new();
        for (id, node) in engine.nodes.iter() {
            let proxied =
                node.proxies.iter().filter_map(|(_, proxy)| Some(engine.proxies.get(*proxy)?.waiting));
            let mut list: Vec<NodeId> =
                proxied.chain([node.out_fed]).flat_map(|head| engine.listed_in(head)).collect();
            // An upload out of staging is held by the owner until its download has ended, not by a gate of the
            // engine's.
            if node.is_transfer {
                list.extend(engine.listed_in(node.out).into_iter().filter(|id| engine.is_transfer(*id)));
            }
            waits.note(id, list, engine);
            let realm = engine.realm(node.place);
            for read_set in &node.read_sets {
                readers.entry((*read_set, realm)).or_default().push(id);
            }
        }
        for ((read_set, realm), readers) in readers {
            waits.note_readers(read_set, realm, &readers, engine);
        }
        waits
    }

    fn note<S: Shell>(&mut self, by: NodeId, mut list: Vec<NodeId>, engine: &Engine<S>) {
        list.retain(|id| engine.is_gated(*id));
        if !list.is_empty() {
            self.behind.entry(by).or_default().extend(list);
        }
    }

    /// A writer waits for all readers of a read set, and one of them is named: one that does not wait itself, if there is one.
    fn note_readers<S: Shell>(
        &mut self,
        read_set: ReadSetId,
        realm: Realm,
        readers: &[NodeId],
        engine: &Engine<S>,
    ) {
        let order = |id: &&NodeId| (engine.is_gated(**id), engine.nodes[**id].planned_at, id.sort_key());
        let was_fed = |id: &&NodeId| matches!(engine.nodes[**id].state, State::Fed(..) | State::Passed);
        let groups = &engine.read_sets[read_set.0 as usize].groups;
        let Some(group) = groups.iter().find(|group| group.realm == realm) else { return };
        if let Some(&by) = readers.iter().filter(|id| !was_fed(id)).min_by_key(order) {
            self.note(by, engine.listed_in(group.waiting), engine);
        }
        if let Some(&by) = readers.iter().min_by_key(order) {
            let proxied = group.proxies.iter().filter_map(|(_, proxy)| engine.proxies.get(*proxy));
            self.note(by, proxied.flat_map(|proxy| engine.listed_in(proxy.waiting)).collect(), engine);
        }
    }

    /// Those that wait behind a node and are no transfers, the one planned first at the head: directly, or by way of
    /// transfers.
    fn behind<S: Shell>(&self, id: NodeId, engine: &Engine<S>) -> Vec<NodeId> {
        let (mut seen, mut found, mut todo) = (HashSet::new(), Vec::new(), vec![id]);
        while let Some(by) = todo.pop() {
            for &waiting in self.behind.get(&by).into_iter().flatten().filter(|id| seen.insert(**id)) {
                match engine.is_transfer(waiting) {
                    true => todo.push(waiting),
                    false => found.push(waiting),
                }
            }
        }
        found.sort_by_key(|id| (engine.nodes[*id].planned_at, id.sort_key()));
        found
    }
}
