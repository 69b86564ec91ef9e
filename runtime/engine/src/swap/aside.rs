//! Roots that are swapped out though the heap's memory of them is used: by a host accessor that waits for what is still to be written, for one.
//!
//! The heap cannot take in what they hold. So all of it goes into host memory of its own, *aside*, and comes back as it was: a box of
//! bytes of which no version is known, in no segment and no hazard. It is used by the steps of one swap alone, and goes with it.
//! Nobody who wants the root in the heap is in the way. Who copies it there from this memory is a user of this memory, and
//! waits for the slot.
//!
//! It is always two copies, of all bytes, where by way of the heap it may be one or none: so this is for those that could not leave otherwise.

use smallvec::SmallVec;

use super::super::ids::MemoryId;
use super::super::machine::{Memory, MemoryTraits};
use super::super::node::Does;
use super::super::preds::Preds;
use super::super::transfer::{Passage, Route, Steps};
use super::super::{Engine, HEAP, NodeId, RootId, Shell, Slot, Step, Transfer, Turn, Use};
use super::Phase;

impl<S: Shell> Engine<S> {
    /// Whether what a root holds in a memory cannot leave by way of the heap: somebody uses the heap's, or that is newer and has not come.
    pub(super) fn must_go_aside(&self, id: RootId, memory: MemoryId) -> bool {
        self.is_used_in(id, HEAP) || self.is_older(id, memory)
    }

    /// Whether a version that is in the heap, and has not come to a memory, may be newer than what those use who wait there. Of that one this is
    /// the only copy, and the heap has no place for it.
    pub(super) fn is_older(&self, id: RootId, memory: MemoryId) -> bool {
        let is_live = |node: NodeId| self.nodes.contains(node);
        let mut segments = self.roots[id].segments.iter();
        segments.any(|segment| segment.is_current_in(HEAP) && !segment.has_come_to(memory, is_live))
    }

    /// Whether a root has something aside, out of another memory: there is one place for it.
    pub(super) fn has_aside(&self, root: RootId) -> bool {
        let mut slots = self.roots[root].slots.iter();
        slots.any(|(_, slot)| matches!(slot, Slot::Swapped(swap) if swap.is_aside))
    }

    /// The memory for what is aside. It is the host's, and nobody else has anything there.
    fn aside(&mut self) -> MemoryId {
        if let Some(aside) = self.aside {
            return aside;
        }
        let traits = MemoryTraits { zeroed: false, ..MemoryTraits::heap() };
        let aside = MemoryId(self.memories.len() as u32);
        self.memories.push(Memory::new(None, traits));
        *self.aside.insert(aside)
    }

    /// Plans the way aside, and the way back for the user at this place of the order, for all that a root holds.
    pub(super) fn leave_aside(
        &mut self,
        root: RootId,
        memory: MemoryId,
        submitted: u64,
        turn: &mut Turn<S>,
    ) -> [Steps; 2] {
        let aside = self.aside();
        let out = self.move_aside(root, memory, (memory, aside), turn);
        let before = std::mem::replace(&mut self.submitted, submitted);
        let back = self.move_aside(root, memory, (aside, memory), turn);
        self.submitted = before;
        [out, back]
    }

    fn move_aside(
        &mut self,
        root: RootId,
        memory: MemoryId,
        (from, to): (MemoryId, MemoryId),
        turn: &mut Turn<S>,
    ) -> Steps {
        let entry = &self.roots[root];
        let (bounds, unit, bytes) = (entry.extent, entry.unit, entry.bytes);
        let whole = Transfer { root, from, to, bounds, bytes, step: Step::Direct };
        let Some(route) = self.route(root, from, to, bytes) else { return Steps::new() };
        self.tally.transfers += 1;
        self.tally.bytes_moved += bytes as u64;
        let mut parts = SmallVec::<[Transfer; 1]>::new();
        bounds.each_chunk(self.chunk(&route, unit), &mut |bounds| {
            parts.push(Transfer { bounds, bytes: bounds.volume() * unit, ..whole });
        });
        let passage = Passage { swapped: Some(memory), is_held: to == memory };
        parts.into_iter().map(|part| self.move_part_aside(&route, part, passage, turn)).collect()
    }

    fn move_part_aside(
        &mut self,
        route: &Route,
        part: Transfer,
        passage: Passage,
        turn: &mut Turn<S>,
    ) -> (NodeId, NodeId) {
        let (reader, writer) = self.step_nodes(route, part, passage);
        let Transfer { root, from, to, .. } = part;
        self.use_swapped(reader, Use { root, memory: from, does: Does::Reads });
        let written = Use { root, memory: to, does: Does::Copies(from) };
        // Before it waits for that memory: who uses what it waits for is no other's step.
        if reader == writer {
            self.use_swapped(writer, written);
        }
        let mut gates = u32::from(passage.is_held);
        if self.roots[root].allocation(to).is_none() && passage.swapped != Some(to) {
            gates += self.await_memory(reader, root, to, turn);
        }
        if reader != writer {
            self.join_halves(reader, writer, &mut Preds::default(), gates, turn);
            gates = 1;
            self.use_swapped(writer, written);
        }
        self.attach(writer, &mut Preds::default(), gates, turn);
        if reader != writer {
            self.has_upload(reader, turn);
        }
        (reader, writer)
    }

    /// What could not be copied aside stays where it is, so nothing has to come back.
    pub(super) fn stays_after_all(
        &mut self,
        root: RootId,
        memory: MemoryId,
        cause: S::Cause,
        turn: &mut Turn<S>,
    ) {
        let Some(swap) = self.swap_mut(root, memory) else { return turn.causes.push(cause) };
        swap.phase = Phase::Staying;
        let back = std::mem::take(&mut swap.back);
        self.swaps.retain(|_, of| *of != (root, memory));
        // Before the slot is ready: when they settle they count as having written, and what stays is noted after that.
        self.fail_steps(back, &cause, turn);
        self.let_users_go(root, memory, turn);
        turn.causes.push(cause);
    }

    /// The memory aside is not needed any more.
    pub(super) fn let_aside_go(&mut self, root: RootId, turn: &mut Turn<S>) {
        let Some(aside) = self.aside else { return };
        let Some(entry) = self.roots.get_mut(root) else { return };
        let Some(at) = entry.slots.iter().position(|(of, _)| *of == aside) else { return };
        // Those that wait for it have failed, and tell so when they settle.
        if let Slot::Ready(memory) = entry.slots.swap_remove(at).1 {
            turn.freed.push(memory);
        }
        entry.copies.forget(aside);
        self.slot_is_gone(aside, None);
        self.slot_has_changed(root, aside);
    }

    /// There is no memory for what is aside, and it is given up with what has come there: those that wait for it fail.
    pub(super) fn lose_aside(
        &mut self,
        root: RootId,
        memory: MemoryId,
        cause: &S::Cause,
        turn: &mut Turn<S>,
    ) {
        let Some(entry) = self.roots.get_mut(root) else { return };
        entry.copies.forget(memory);
        for segment in entry.segments.iter_mut() {
            segment.lose_copies(|of| of == memory, cause, &mut turn.causes);
        }
    }
}
