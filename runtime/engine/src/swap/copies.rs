//! What a root's allocations hold that the heap's does not: whether they have to be copied there before they go.

use smallvec::SmallVec;

use super::super::HEAP;
use super::super::ids::MemoryId;
use super::super::node::Does;

/// What a root's allocations hold that the heap's does not. In neither list are those that nobody has written.
#[derive(Debug, Default)]
pub(in super::super) struct Copies {
    /// Something was written there that may be nowhere else.
    pub(super) written: SmallVec<[MemoryId; 2]>,
    /// All that it holds is in the heap's as well.
    pub(super) like_heap: SmallVec<[MemoryId; 2]>,
    /// How many nodes that write the heap's have been planned.
    pub(in super::super) writers_in_heap: u32,
    /// Where copying it to the heap has failed, and is not tried again.
    pub(super) stay: SmallVec<[MemoryId; 1]>,
}

impl Copies {
    /// A use is planned.
    #[inline]
    pub(in super::super) fn enter(&mut self, memory: MemoryId, does: Does) {
        self.writers_in_heap = self.writers_in_heap.wrapping_add(u32::from(memory == HEAP && does.writes()));
    }

    /// Something has been written in a memory.
    #[inline]
    pub(in super::super) fn write(&mut self, memory: MemoryId, does: Does) {
        if memory == HEAP {
            if !self.like_heap.is_empty() {
                self.heap_changes(does);
            }
        } else if !self.written.contains(&memory) {
            // By way of staging the heap may have been written again before the copy has come.
            let is_like_heap = does == Does::CopiesHeap(self.writers_in_heap);
            if is_like_heap && self.like_heap.contains(&memory) {
                return;
            }
            self.forget(memory);
            if is_like_heap { &mut self.like_heap } else { &mut self.written }.push(memory);
        }
    }

    #[cold]
    fn heap_changes(&mut self, does: Does) {
        let still = |memory: &MemoryId| does == Does::Copies(*memory);
        let (same, other) = std::mem::take(&mut self.like_heap).into_iter().partition(still);
        self.like_heap = same;
        self.written.extend::<SmallVec<[MemoryId; 2]>>(other);
    }

    /// A memory has no allocation any more.
    pub(in super::super) fn forget(&mut self, memory: MemoryId) {
        if memory == HEAP {
            self.heap_changes(Does::Writes);
        }
        self.written.retain(|of| *of != memory);
        self.like_heap.retain(|of| *of != memory);
        self.stay.retain(|of| *of != memory);
    }
}
