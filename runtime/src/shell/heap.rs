//! Host memory for buffers, where no driver pins it: new, or what another buffer has let go of.

use std::sync::Arc;

use windlass_backend::{Allocation, BackendError, MemoryIndex, Region};

use super::Inner;
use super::kept::{Kept, Others, Taken, rounded};
use super::loans::Class;
use super::memory::{KEPT_FROM, Made, Wanted, heap};
use super::work::zero;

/// What memory of the program's allocator counts as among what is kept, where no memory is a device's.
const ALLOCATORS: MemoryIndex = MemoryIndex::Own(0);

impl Wanted {
    /// Host memory. What is large comes from the system page by page, which takes longer than to write it: so that is kept
    /// for the next buffer. To be called where foreign code may block, if the program has an allocator [for it](Inner::allocator_for).
    pub(super) fn make_heap(&self, inner: &Arc<Inner>) -> Made {
        let (bytes, may_hold_anything) = (self.object.bytes(), self.may_hold_others());
        let Some((kept, class)) = self.kept_heap(inner) else {
            return inner.host_memory(bytes, may_hold_anything);
        };
        if let Some(memory) = self.take_kept_heap(inner, true) {
            return Ok(memory);
        }
        let made = match inner.allocator_for(bytes) {
            None => heap(class.bytes)?,
            Some(allocator) => match allocator.make(class.bytes, may_hold_anything) {
                // It may have none because of what is kept of it, or none for what was added.
                Err(BackendError::OutOfMemory { .. }) => {
                    inner.give_back_kept_heap();
                    match allocator.make(bytes, may_hold_anything)? {
                        made if bytes == class.bytes => made,
                        made => return Ok(made),
                    }
                }
                made => made?,
            },
        };
        kept.lent(class).into_iter().for_each(|gone| inner.reaper.free(gone, inner));
        inner.loans.lend(&made, kept, class);
        Ok(made)
    }

    /// Where host memory of its size is kept, and as what. What is nearly as large is the same, so that it serves batches, whose sizes
    /// differ a little. Nobody sees what is beyond the buffer.
    fn kept_heap<'a>(&self, inner: &'a Inner) -> Option<(&'a Arc<Kept>, Class)> {
        let bytes = self.object.bytes();
        let kept = inner.heap_kept.as_ref().filter(|_| bytes >= KEPT_FROM)?;
        // The allocator's is never the process's own, also where sizes are the same once they are rounded up.
        let index = if inner.allocator_for(bytes).is_some() { ALLOCATORS } else { MemoryIndex::Heap };
        Some((kept, Class { index, bytes: rounded(bytes) }))
    }

    /// Host memory that another buffer has let go of, where that is written before anybody reads it. Where the program's allocator would be
    /// asked, which knows why it gives what it gives, it is as good as new for others too, once it has been cleared.
    pub(super) fn take_kept_heap(&self, inner: &Inner, may_clear: bool) -> Option<Arc<dyn Allocation>> {
        let (kept, class) = self.kept_heap(inner)?;
        let clears = !self.may_hold_others();
        if clears && !(may_clear && inner.allocator_for(self.object.bytes()).is_some()) {
            return None;
        }
        let Taken { memory, terms } = kept.take(class, Others::Larger)?;
        inner.loans.lend_again(&memory, kept, terms);
        if clears {
            zero(&*memory, &Region::line(0, memory.bytes()));
        }
        Some(memory)
    }
}
