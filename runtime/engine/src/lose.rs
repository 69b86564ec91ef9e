//! Contexts that are gone: lost, or given up because they hang.
//!
//! Of a *lost* context nothing runs or touches memory any more. What it was fed ends, its memory goes, and data that was
//! nowhere else is lost with it.
//!
//! A context that is *abandoned* is lost in every way, and moreover nobody knows what its device still does. A command that was
//! fed and has not ended may end in a year, and then write: into the context's own memory, but also into the heap, or into a
//! peer's memory, where it was to copy to or from. So each allocation that such a command uses is given up. Nothing uses it any more
//! and nobody frees it; the shell leaks it. What only it held is lost, and whoever comes next gets another. Who is in
//! the middle of using it, on the host or on other lanes, goes on with it, and fails in the end: others look elsewhere by then.
//! The context's own memory is leaked in any case: to free it might be to wait for the device.

use super::edges::{DATA, EVENT};
use super::ids::{ContextId, LaneId, MemoryId};
use super::segments::Content;
use super::unused::Kept;
use super::{End, Engine, HEAP, Node, NodeId, RootId, Shell, Slot, State, Turn, Use};

/// Memory that nobody is to use any more.
#[derive(Default)]
struct Gone {
    memories: Vec<MemoryId>,
    /// Allocations in other memories, or in these, that may be touched at any time.
    given_up: Vec<(RootId, MemoryId)>,
}

impl Gone {
    fn has(&self, root: RootId, memory: MemoryId) -> bool {
        self.memories.contains(&memory) || self.given_up.contains(&(root, memory))
    }
}

impl<S: Shell> Engine<S> {
    /// A context is about to be given up. However its end comes to be known from here on, it ends as one that hangs: what
    /// a backend says of such a device (that it is lost, for one) is no word on what the device still does.
    pub fn will_abandon(&mut self, context: ContextId) {
        let entry = &mut self.contexts[context.0 as usize];
        entry.hangs |= entry.lost.is_none();
    }

    /// Whether a context is given up, or is about to be.
    pub fn is_abandoned(&self, context: ContextId) -> bool {
        self.contexts[context.0 as usize].hangs
    }

    /// Why the context of a memory was given up, if it was.
    pub(super) fn given_up(&self, memory: MemoryId) -> Option<&S::Cause> {
        let context = &self.contexts[self.memories[memory.0 as usize].context?.0 as usize];
        context.lost.as_ref().filter(|_| context.hangs)
    }

    /// A context is gone: everything on its lanes ends, and data that was nowhere else is lost. If it is being given up, what its
    /// lanes may still touch is in [`Turn::leaked`], never to be freed.
    pub fn lose(&mut self, context: ContextId, cause: S::Cause, turn: &mut Turn<S>) {
        let entry = &mut self.contexts[context.0 as usize];
        if entry.lost.is_some() {
            return turn.causes.push(cause);
        }
        entry.lost = Some(cause.clone());
        let hangs = entry.hangs;
        let mut gone = Gone { memories: self.memories_of(context).collect(), given_up: Vec::new() };
        if hangs {
            self.give_up(context, &mut gone, turn);
        }
        self.fail_users(&gone, &cause, turn);
        self.end_lanes(context, &cause, turn);
        self.lose_data(&gone, &cause, hangs, turn);
        self.finish_pending(turn);
        self.look_for_unused(turn);
    }

    /// What has been fed to a context's lanes and has not ended, or is just being fed.
    pub fn in_flight_of(&self, context: ContextId) -> impl Iterator<Item = NodeId> {
        let is_out = move |node: &Node<S>| match node.state {
            State::Feeding(lane, point) | State::Fed(lane, point) => {
                self.context_of(lane) == context && point > self.lanes[lane.0 as usize].passed
            }
            _ => false,
        };
        self.nodes.iter().filter(move |(_, node)| is_out(node)).map(|(id, _)| id)
    }

    /// Takes from their roots the allocations that commands in flight on a context's lanes use.
    fn give_up(&mut self, context: ContextId, gone: &mut Gone, turn: &mut Turn<S>) {
        let uses = |id| self.nodes[id].uses.iter().map(|u: &Use| (u.root, u.memory));
        gone.given_up.extend(self.in_flight_of(context).flat_map(uses));
        gone.given_up.sort_unstable_by_key(|(root, memory)| (root.sort_key(), memory.0));
        gone.given_up.dedup();
        for &(root, memory) in &gone.given_up {
            let slots = &mut self.roots[root].slots;
            let at = slots.iter().position(|(of, slot)| *of == memory && matches!(slot, Slot::Ready(_)));
            if let Some((_, Slot::Ready(allocation))) = at.map(|at| slots.swap_remove(at)) {
                let pinned_by = self.roots[root].pinned_by.take_if(|_| memory == HEAP);
                turn.leaked.push(allocation);
                self.slot_is_gone(memory, pinned_by);
            }
        }
        // So is lost memory of others that waited for these lanes.
        let kept = std::mem::take(&mut self.kept);
        let still_out = |(lane, point): (LaneId, u64)| {
            self.context_of(lane) == context && point > self.lanes[lane.0 as usize].passed
        };
        let hangs = |kept: &Kept<S::Memory>| kept.users().any(still_out);
        let (hung, rest): (Vec<_>, Vec<_>) = kept.into_iter().partition(hangs);
        self.kept = rest;
        for kept in hung {
            let (memory, allocation) = kept.into_allocation();
            turn.leaked.push(allocation);
            self.count_slots(memory, -1);
        }
    }

    /// Whoever uses what is gone fails, wherever it runs: transfers in another context may be on their way to or from
    /// there too.
    fn fail_users(&mut self, gone: &Gone, cause: &S::Cause, turn: &mut Turn<S>) {
        let is_user = |node: &Node<S>| node.uses.iter().any(|u| gone.has(u.root, u.memory));
        let is_over = |node: &Node<S>| match node.state {
            State::Passed => true,
            State::Feeding(lane, point) => point <= self.lanes[lane.0 as usize].passed,
            _ => false,
        };
        let users = self.nodes.iter().filter(|(_, n)| is_user(n) && !is_over(n));
        let mut users: Vec<NodeId> = users.map(|(id, _)| id).collect();
        // All of them fail themselves, before any takes others down.
        users.retain(|id| self.will_fail(*id, cause, turn));
        users.into_iter().for_each(|id| self.doom_behind(id, cause, DATA | EVENT, turn));
    }

    fn end_lanes(&mut self, context: ContextId, cause: &S::Cause, turn: &mut Turn<S>) {
        let lanes = 0..self.lanes.len() as u32;
        let lanes: Vec<_> = lanes.map(LaneId).filter(|lane| self.context_of(*lane) == context).collect();
        for lane in lanes {
            let entry = &mut self.lanes[lane.0 as usize];
            // Whoever waits for its points natively waits no more: what has not been fed is not to name them.
            entry.passed = entry.last_point;
            (entry.weight, entry.reports, entry.owes_reports) = (0, 0, false);
            let in_flight = std::mem::take(&mut entry.in_flight).into_iter().map(|flight| flight.node);
            let listed = std::mem::take(&mut entry.list).into_iter().map(|(id, _)| id);
            for id in in_flight.chain(listed) {
                let Some(node) = self.nodes.get_mut(id) else { continue };
                node.end.get_or_insert(End::Failed(cause.clone()));
                self.finish(id, turn);
            }
        }
    }

    fn lose_data(&mut self, gone: &Gone, cause: &S::Cause, hangs: bool, turn: &mut Turn<S>) {
        let roots: Vec<_> = self.roots.iter().map(|(id, _)| id).collect();
        let mut lost = Vec::new();
        for id in roots {
            let root = &mut self.roots[id];
            for segment in root.segments.iter_mut() {
                for replica in segment.replicas.iter_mut().filter(|r| gone.has(id, r.memory)) {
                    (replica.valid, replica.valid_unless, replica.cleared) = (false, None, false);
                }
                if matches!(segment.content, Content::Written) && segment.is_nowhere() {
                    segment.content.become_other(Content::Poisoned(cause.clone()), &mut turn.causes);
                }
            }
            for at in (0..root.slots.len()).rev() {
                let gone_memory = root.slots[at].0;
                if gone.memories.contains(&gone_memory)
                    && let Slot::Ready(_) = root.slots[at].1
                    && let (_, Slot::Ready(memory)) = root.slots.swap_remove(at)
                {
                    lost.push((id, gone_memory, memory));
                }
            }
        }
        match hangs {
            true => {
                for (_, memory, allocation) in lost {
                    turn.leaked.push(allocation);
                    self.count_slots(memory, -1);
                }
            }
            false => self.free_lost(lost),
        }
    }
}
