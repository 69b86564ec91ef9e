//! Pieces of memory: OpenCL's sub-buffers, where they were seen to work.

use std::sync::Arc;

use windlass_backend::{Allocation, BackendError};

use super::{GRANULE, Held, Memory, rounded};
use crate::error;
use crate::sys::{Context, Queue, Result, WaitList};

impl Memory {
    /// So many bytes of other memory, from `at` on.
    pub(crate) fn piece(
        context: &Arc<Context>,
        whole: &Arc<dyn Allocation>,
        at: usize,
        bytes: usize,
    ) -> std::result::Result<Self, BackendError> {
        let Some(of) = Memory::of(&**whole, context)? else {
            return Err(BackendError::Unsupported("pieces of memory that is not OpenCL's".into()));
        };
        let size = rounded(bytes)?;
        let inside = at.checked_add(size).is_some_and(|end| end <= of.size());
        assert!(inside, "{size} bytes from {at} on lie inside {}", of.size());
        let buffer = of.buffer().piece(at, size).map_err(|failure| error::allocation(failure, bytes))?;
        let held = match &of.held {
            Held::Away(_) => Held::Away(buffer),
            // SAFETY: the buffer was just made of that one, from `at` on, which was asserted to be inside.
            Held::InPlace(mapped) => Held::InPlace(unsafe { mapped.piece(buffer, at) }),
            Held::Lent(_) | Held::Shared { .. } => {
                return Err(BackendError::Unsupported("pieces of memory that changes hands".into()));
            }
        };
        Ok(Memory { whole: Some(whole.clone()), ..Memory::new(context, held, bytes, size) })
    }
}

/// Whether what is written to pieces that start at multiples of `alignment` is in the whole, and the other way round.
pub(super) fn are_seen(context: &Arc<Context>, queue: &Queue, alignment: usize, in_place: bool) -> bool {
    let tried = || -> std::result::Result<bool, BackendError> {
        let bytes = 2 * alignment.max(GRANULE);
        let make = |bytes| match in_place {
            true => Memory::in_place(context, bytes),
            false => Memory::allocate(context, queue, bytes),
        };
        let (whole, copy) = (make(bytes)?, make(bytes)?);
        let whole: Arc<dyn Allocation> = Arc::new(whole);
        let [low, high] = [0, bytes / 2].map(|at| Memory::piece(context, &whole, at, bytes / 2));
        let (low, high) = (low?, high?);
        let none = WaitList::default();
        queue.fill(low.buffer(), &[1; GRANULE], 0, bytes / 2, &none)?;
        queue.fill(high.buffer(), &[2; GRANULE], 0, bytes / 2, &none)?;
        let Some(of) = Memory::of(&*whole, context)? else { return Ok(false) };
        queue.copy((of.buffer(), 0), (copy.buffer(), 0), bytes, &none)?;
        let seen = read(queue, &copy, bytes)?;
        let is_shown =
            !in_place || high.show(queue, |bytes| bytes.iter().all(|byte| byte.get() == 2))? == Some(true);
        // And back: the upper half of what the whole is given is what the upper piece has.
        queue.fill(of.buffer(), &[3; GRANULE], 0, bytes, &none)?;
        queue.copy((high.buffer(), 0), (copy.buffer(), 0), bytes / 2, &none)?;
        let back = read(queue, &copy, bytes)?;
        let halves = |seen: &[u8], first, second| {
            let (low, high) = seen.split_at(bytes / 2);
            low.iter().all(|byte| *byte == first) && high.iter().all(|byte| *byte == second)
        };
        Ok(is_shown && halves(&seen, 1, 2) && halves(&back, 3, 2))
    };
    tried().unwrap_or(false)
}

/// What a command that has ended left in memory.
fn read(queue: &Queue, memory: &Memory, bytes: usize) -> Result<Vec<u8>> {
    let mut seen = vec![0; bytes];
    // SAFETY: so many bytes, which live until the queue has finished, right below, or for good, and nobody else uses before.
    let read = unsafe { queue.read(memory.buffer(), 0, bytes, seen.as_mut_ptr(), &WaitList::default()) };
    if let Err(failure) = queue.finish() {
        // It may still be written.
        std::mem::forget(seen);
        return Err(failure);
    }
    read.map(|_| seen)
}
