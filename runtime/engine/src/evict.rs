//! Giving up one of a root's allocations because the program asks for it, and taking what is there for good after a failure.
//!
//! Both change what is known of copies between two turns, and order nothing by themselves: who wants them at a place of the
//! submission order holds a guard meanwhile.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::boxes::Box3;
use super::ids::MemoryId;
use super::segments::{Content, Replica, Segment};
use super::stall::Waits;
use super::swap::is_under_way;
use super::{Engine, HEAP, Node, NodeId, Root, RootId, Shell, Slot, State, Turn, Use, links};

/// A root that has memory somewhere which nobody uses now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle {
    /// The root.
    pub root: RootId,
    /// How many bytes it has there.
    pub bytes: usize,
    /// What it holds there is current elsewhere, too.
    pub is_clean: bool,
}

impl<S: Shell> Engine<S> {
    /// The roots whose memory could be given up: those that are current elsewhere first, and of each kind first what was used least
    /// lately.
    pub fn idle_in(&mut self, memory: MemoryId) -> Vec<Idle> {
        self.keep_lines();
        let all = self.lines.iter_mut().flat_map(|lines| lines.take_idle(memory));
        // Those that have been given up since, or are over, are forgotten.
        let is_there = |root: &RootId| {
            self.roots
                .get(*root)
                .is_some_and(|entry| entry.home.is_none() && entry.allocation(memory).is_some())
        };
        let all: Vec<RootId> = all.filter(is_there).collect();
        let mut idle: Vec<(u64, Idle)> = Vec::new();
        for root in all {
            self.lines.iter_mut().for_each(|lines| lines.rests(root, memory));
            let entry = &self.roots[root];
            let is_clean = entry.is_elsewhere(memory, |id| self.nodes.contains(id));
            idle.push((entry.used_at, Idle { root, bytes: entry.bytes, is_clean }));
        }
        idle.sort_by_key(|(used_at, idle)| (!idle.is_clean, *used_at));
        idle.into_iter().map(|(_, idle)| idle).collect()
    }

    /// Whether nobody who has not settled uses a root, in any memory.
    pub fn is_unused(&self, root: RootId) -> bool {
        self.roots.get(root).is_some_and(|root| root.users == 0)
    }

    /// Whether somebody uses a memory who will end by itself: without memory that is asked for and not there, and without anything from
    /// outside. When that is over, memory may have become free.
    pub fn is_busy(&mut self, memory: MemoryId) -> bool {
        self.keep_lines();
        let Some(lines) = &self.lines else { return false };
        if lines.is_busy(memory) {
            return true;
        }
        if !lines.is_any_under_way() {
            return false;
        }
        // What is in use elsewhere, by a copy that takes it there for one, may be given up then.
        let is_saved = |used: &Use| used.memory != memory && lines.is_idle(used.root, memory);
        let saves = |node: &Node<S>| is_under_way(node) && node.uses.iter().any(is_saved);
        if self.nodes.iter().any(|(_, node)| saves(node)) {
            return true;
        }
        // Those that wait for others which are under way will run too.
        let uses = |node: &Node<S>| node.uses.iter().any(|used| used.memory == memory);
        let mut waiting =
            self.nodes.iter().filter(|(_, node)| node.state == State::Gated && uses(node)).peekable();
        waiting.peek().is_some() && {
            let stuck = self.stuck_behind(|node| node.state == State::Running && node.is_guard);
            waiting.any(|(id, _)| !stuck.contains(&id))
        }
    }

    /// The nodes that wait, directly or not, for memory that is not there, for something outside, or for one of these.
    fn stuck_behind(&self, is_held: impl Fn(&Node<S>) -> bool) -> HashSet<NodeId> {
        let waits = Waits::of(self);
        let slots = self.roots.iter().flat_map(|(_, root)| &root.slots);
        let lists = slots.filter(|(_, slot)| slot.is_without_room()).filter_map(|(_, slot)| slot.waiting());
        let mut todo: Vec<NodeId> = lists.flat_map(|waiting| self.listed_in(waiting)).collect();
        todo.extend(self.nodes.iter().filter(|(_, node)| is_held(node)).map(|(id, _)| id));
        todo.extend(waits.held_from_outside(self));
        let mut stuck = HashSet::new();
        while let Some(id) = todo.pop() {
            if stuck.insert(id) {
                todo.extend(waits.directly_behind(id));
            }
        }
        stuck
    }

    /// Whether a root is used in a memory by any node that has not settled.
    pub(super) fn is_used_in(&self, root: RootId, memory: MemoryId) -> bool {
        let is_meant = |used: &Use| (used.root, used.memory) == (root, memory);
        match &self.lines {
            _ if self.roots[root].users == 0 => false,
            Some(lines) => lines.is_used(root, memory),
            None => self.nodes.iter().any(|(_, node)| node.uses.iter().any(is_meant)),
        }
    }

    /// Gives up a root's allocation in a device's memory, if it may go: it is there, nobody who has not settled uses it, and what it
    /// holds is current elsewhere too, and has come there. Says whether it has. The next user in that memory finds it as if the root had
    /// never been there.
    ///
    /// The copy in the heap is what others are made of, and a root that stays in one memory has no other: those never go.
    pub fn evict(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) -> bool {
        if memory == HEAP || !self.may_go(root, memory) {
            return false;
        }
        let Engine { roots, read_sets, nodes, .. } = self;
        let entry = &mut roots[root];
        let at = entry.slots.iter().position(|(of, slot)| *of == memory && matches!(slot, Slot::Ready(_)));
        let Some((_, Slot::Ready(allocation))) = at.map(|at| entry.slots.swap_remove(at)) else {
            return false;
        };
        // Only after the slot: a copy without an allocation, for however short a time, would be taken for one.
        entry.segments.iter_mut().for_each(|segment| segment.forget_copy(memory, read_sets));
        entry.copies.forget(memory);
        let extent = entry.extent;
        let all = entry.segments.overlapping(&extent);
        entry.segments.tidy(&all, nodes, read_sets);
        let share = entry.take_share(memory);
        self.frees(allocation, share, false, turn);
        self.slot_is_gone(memory, None);
        self.look_for_unused(turn);
        true
    }

    fn may_go(&self, root: RootId, memory: MemoryId) -> bool {
        let Some(entry) = self.roots.get(root).filter(|root| root.home.is_none()) else { return false };
        // A node that was planned counts on the memory whether it has begun or not: its uses say so from then on.
        entry.allocation(memory).is_some()
            && entry.is_elsewhere(memory, |id| self.nodes.contains(id))
            && !self.is_used_in(root, memory)
    }

    /// Takes for good what is left of data whose author failed: where that worked, if it did, or else where the root has been
    /// before. What has no memory that can be shown reads as zeros again.
    pub fn clear_poison(&mut self, root: RootId, bounds: &Box3, turn: &mut Turn<S>) {
        let fit = self.memories_fit_to_show(root);
        let Engine { roots, read_sets, nodes, .. } = self;
        let Some(entry) = roots.get_mut(root) else { return };
        let inside = entry.segments.carve(bounds, read_sets);
        for &at in &inside {
            let segment = entry.segments.get_mut(at);
            // Its author may be certain to fail without having settled yet (those who write beside each other count when they have). It keeps its place in the order, and may still be running; but
            // when it settles it finds the data its own no more, and who reads it from now on does not fail with it.
            let fails =
                |id: &NodeId| nodes.get(*id).is_some_and(|node| node.takes_down(links::DATA).is_some());
            let doomed = segment.author.filter(fails);
            if segment.content.poison().is_none() && doomed.is_none() {
                continue;
            }
            for copy in segment.replicas.iter_mut().filter(|copy| copy.fails_with == doomed) {
                copy.fails_with = None;
            }
            segment.author = None;
            segment.guards.clear();
            // Not one that is still being made: it may fail with what has failed.
            let is_made =
                |copy: &&Replica| copy.valid && !copy.fails_with.is_some_and(|id| nodes.contains(id));
            let worked_in = segment.replicas.iter().find(is_made).map(|copy| copy.memory);
            let shown = worked_in.filter(|memory| fit.contains(memory)).or(fit.first().copied());
            let content = if shown.is_some() { Content::Written } else { Content::Never };
            segment.content.become_other(content, &mut turn.causes);
            for copy in &mut segment.replicas {
                (copy.valid, copy.valid_unless, copy.cleared) = (shown.is_none(), None, false);
            }
            if let Some(memory) = shown {
                segment.replica_mut(memory).valid = true;
            }
        }
        entry.segments.tidy(&inside, nodes, read_sets);
    }

    /// Where an allocation of a root holds the root's own bytes or zeros throughout, the heap first. Elsewhere it may hold what was
    /// another root's, wherever nobody has written it.
    fn memories_fit_to_show(&self, root: RootId) -> SmallVec<[MemoryId; 2]> {
        let Some(entry) = self.roots.get(root).filter(|root| root.stuck.is_none()) else {
            return SmallVec::new();
        };
        let is_fit = |memory: MemoryId| {
            let zeroed = self.memories[memory.0 as usize].traits.zeroed;
            zeroed && !(memory == HEAP && entry.shows_others()) && self.lost_with(memory).is_none()
        };
        let ready = entry.slots.iter().filter(|(_, slot)| matches!(slot, Slot::Ready(_)));
        let mut fit: SmallVec<[MemoryId; 2]> =
            ready.map(|(memory, _)| *memory).filter(|memory| is_fit(*memory)).collect();
        fit.sort_unstable();
        fit
    }
}

impl<S: Shell> Root<S> {
    /// Whether all that is current in a memory is current in another one too. A copy that is still on its way does not count: if it does
    /// not come, this one is the last.
    fn is_elsewhere(&self, memory: MemoryId, is_live: impl Fn(NodeId) -> bool) -> bool {
        let has_come = |copy: &Replica| copy.valid && !copy.fails_with.is_some_and(&is_live);
        let is_kept = |segment: &Segment<S::Cause>| match segment.content {
            Content::Written => {
                let here =
                    segment.replica(memory).is_some_and(|copy| copy.valid || copy.valid_unless.is_some());
                !here || segment.replicas.iter().any(|copy| copy.memory != memory && has_come(copy))
            }
            Content::Never | Content::Poisoned(_) => true,
        };
        self.segments.iter().all(is_kept)
    }
}
