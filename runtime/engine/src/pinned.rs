//! The heap's copy of a root in memory that a driver has pinned, so that copies with its devices do not block.
//!
//! Such memory is kept by the shell from one root to the next, and holds what the last one had. To clear all of it would be to write
//! twice what the first copy brings anyway. So the shell is told which boxes to clear: those that no copy of the turn in which the
//! memory is asked for writes. If one of these copies fails, its box may show what another root had there. Nobody reads
//! it, since it is stale; but a host accessor that overwrites would show it, and such a root is given other memory first.

use super::boxes::Box3;
use super::{Engine, HEAP, MemoryId, Root, RootId, Shell, Slot, Turn};

/// How the heap's copy of a root is pinned, or is to be.
#[derive(Debug)]
pub(super) struct Pinned {
    by: MemoryId,
    /// What the copies bring for which the memory is asked for.
    arriving: Vec<Box3>,
    /// One of them has failed.
    shows_others: bool,
}

/// Memory that a driver is to pin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// The context of this memory is to make it: copies between the two do not block then, whatever their size.
    pub by: MemoryId,
    /// What has to read as zeros.
    pub clear: Vec<Box3>,
}

impl Pinned {
    /// All of it has been written by its own root, before the engine knew of that.
    pub(super) fn full(by: MemoryId) -> Self {
        Pinned { by, arriving: Vec::new(), shows_others: false }
    }
}

impl<S: Shell> Root<S> {
    /// The memory for which the heap's copy is pinned.
    pub(super) fn pinned_by(&self) -> Option<MemoryId> {
        self.pinned.as_ref().map(|pinned| pinned.by)
    }

    /// The heap's copy is gone, or not pinned after all. Says for which memory it was.
    pub(super) fn unpin(&mut self) -> Option<MemoryId> {
        self.pinned.take().map(|pinned| pinned.by)
    }

    /// Whether the heap's copy may show what another root had there.
    pub(super) fn shows_others(&self) -> bool {
        self.is_unclean || self.pinned.as_ref().is_some_and(|pinned| pinned.shows_others)
    }

    /// A copy to this memory has failed.
    pub(super) fn expose(&mut self, memory: MemoryId) {
        if let Some(pinned) = self.pinned.as_mut().filter(|_| memory == HEAP) {
            pinned.shows_others = true;
        }
    }

    /// What to ask the shell for.
    pub(super) fn pinning(&self) -> Option<Pinning> {
        let pinned = self.pinned.as_ref()?;
        let mut clear = vec![self.extent];
        for hole in &pinned.arriving {
            let without = |rest: &Box3| match rest.overlaps(hole) {
                true => rest.without(&rest.intersection(hole)),
                false => std::iter::once(*rest).collect(),
            };
            clear = clear.iter().flat_map(without).collect();
        }
        Some(Pinning { by: pinned.by, clear })
    }
}

impl<S: Shell> Engine<S> {
    /// If a root comes to the heap for the first time, from a memory whose copies block, its allocation there is
    /// pinned, so that they do not, now or later. A [large](Engine::set_pinned_most) root is not worth it: pinning that
    /// much takes longer than an additional copy.
    pub(super) fn pin_heap(&mut self, root: RootId, moves: &[(Box3, MemoryId)]) {
        let Some((bounds, from)) = moves.first() else { return };
        let source = self.memories[from.0 as usize].traits;
        let entry = &mut self.roots[root];
        let there = entry.slots.iter().any(|(memory, _)| *memory == HEAP);
        let is_small = entry.bytes <= self.pinned_most;
        let bytes = bounds.volume() * entry.unit;
        if !there && is_small && !source.addressable && bytes > source.download_limit {
            let arriving = moves.iter().map(|(bounds, _)| *bounds).collect();
            entry.pinned = Some(Box::new(Pinned { by: *from, arriving, shows_others: false }));
        }
    }

    /// The heap's memory that a root is about to be [allocated](Engine::allocated) holds what was another root's, as it
    /// [may](super::Allocate::is_replaced).
    pub fn holds_others(&mut self, root: RootId) {
        if let Some(entry) = self.roots.get_mut(root) {
            entry.is_unclean = true;
        }
    }

    /// Whether the heap's memory of a root may show what another root had there.
    pub fn shows_others_in_heap(&self, root: RootId) -> bool {
        self.roots.get(root).is_some_and(Root::shows_others)
    }

    /// Host memory that the context of `by` was asked to pin has been made, pinned or not, or could not be.
    pub fn pinned(
        &mut self,
        root: RootId,
        by: MemoryId,
        made: Result<S::Memory, S::Cause>,
        is_pinned: bool,
        turn: &mut Turn<S>,
    ) {
        // The context has gone meanwhile, or the root has. Other memory was asked for in its place (`ask_elsewhere`), and the root
        // takes what comes for the heap's own, which reads as zeros; this may show what another root had.
        if self.roots.get(root).and_then(Root::pinned_by) != Some(by) {
            return match made {
                Ok(made) if is_pinned && self.given_up(by).is_some() => turn.leaked.push(made),
                Ok(made) => turn.freed.push(made),
                Err(cause) => turn.causes.push(cause),
            };
        }
        if !is_pinned {
            self.could_not_pin(root);
        }
        self.allocated(root, HEAP, made, turn);
    }

    /// The heap's memory of a root is not pinned, or is about to be allocated and could not be: copies to and from it block like
    /// those of any other.
    pub(super) fn could_not_pin(&mut self, root: RootId) {
        if let Some(by) = self.roots.get_mut(root).and_then(Root::unpin) {
            self.count_slots(by, -1);
        }
    }

    /// Puts memory that reads as zeros where the heap has no copy of a root that nobody uses, or one that may show what another root
    /// had there, and of which nothing is kept. Says whether it has.
    pub(super) fn take_spare(
        &mut self,
        root: RootId,
        bounds: &Box3,
        spare: &mut Option<S::Memory>,
        turn: &mut Turn<S>,
    ) -> bool {
        let entry = &mut self.roots[root];
        let at = entry.slots.iter().position(|(memory, _)| *memory == HEAP);
        let Some(at) = at else {
            let Some(made) = spare.take_if(|_| entry.pinned.is_none()) else { return false };
            entry.slots.push((HEAP, Slot::Ready(made)));
            self.count_slots(HEAP, 1);
            return true;
        };
        let Slot::Ready(memory) = &mut entry.slots[at].1 else { return false };
        let Some(made) = spare.take_if(|_| *bounds == entry.extent) else { return false };
        turn.freed.push(std::mem::replace(memory, made));
        entry.is_unclean = false;
        self.could_not_pin(root);
        true
    }
}
