//! Host memory that a driver has pinned, as the heap's copy of a buffer: what comes there from a device comes in one native
//! copy, and nothing blocks for it.
//!
//! To pin memory takes a driver about a millisecond for each MiB, more than the copy itself; so it comes from the staging that
//! the context keeps, and goes back there. What no copy brings at once is cleared for each buffer (`windlass_engine::Pinning`): bytes
//! that nobody has written read as zeros, and never as another buffer's. What a buffer has does not count against the bound on staging, which is about
//! transfers; what is kept for the next one does.

use std::sync::Arc;

use windlass_backend::{Allocation, MemoryIndex};
use windlass_sync::panics::catch;

use super::MemoryShell;
use super::loans::{Class, Loans};
use super::memory::{Made, heap};
use super::pool::{Pool, class_of};

/// Memory that is kept, if there is some of the size. It holds what was there before.
pub(super) fn take(by: &MemoryShell, bytes: usize, loans: &Loans) -> Option<Arc<dyn Allocation>> {
    let (pool, class) = (by.staging.upgrade()?, class_of(bytes));
    let memory = pool.take_away(class)?;
    lend(&memory, &pool, class, loans);
    Some(memory)
}

/// Memory that the driver pins now; where it does not, the process's own does: to block is better than to fail. May take its
/// time, and holds anything.
pub(super) fn make(by: &MemoryShell, bytes: usize, loans: &Loans) -> Made {
    let class = class_of(bytes);
    let made = catch(|| by.context.allocate_staging(class)).ok().and_then(Result::ok);
    let made = made.filter(|memory| memory.bytes() >= bytes && memory.host_ptr().is_some());
    match (made, by.staging.upgrade()) {
        (Some(memory), Some(pool)) => {
            lend(&memory, &pool, class, loans);
            Ok(memory)
        }
        _ => heap(bytes),
    }
}

fn lend(memory: &Arc<dyn Allocation>, pool: &Arc<Pool>, bytes: usize, loans: &Loans) {
    loans.lend(memory, pool, Class { index: MemoryIndex::Heap, bytes });
}
