//! Host memory that a driver has pinned, as the heap's copy of a buffer: what comes there from a device comes in one native
//! copy, and nothing blocks for it.
//!
//! To pin memory takes a driver about a millisecond for each MiB, more than the copy itself; so it comes from the staging that
//! the context keeps, and goes back there. What no copy brings at once is cleared for each buffer (`windlass_engine::Pinning`): bytes
//! that nobody has written read as zeros, and never as another buffer's. What a buffer has does not count against the bound on staging, which is about
//! transfers; what is kept for the next one does.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use windlass_backend::Allocation;
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::panics::catch;

use super::MemoryShell;
use super::memory::{Made, heap};
use super::pool::{Pool, class_of};

/// Which of the heap's memory is to go back to which pool.
#[derive(Debug, Default)]
pub(crate) struct Pinned {
    lent: Mutex<HashMap<usize, Loan>>,
}

/// Where an allocation is to go back to. As long as it is noted here its address is nobody else's.
#[derive(Debug)]
struct Loan {
    memory: Weak<dyn Allocation>,
    pool: Weak<Pool>,
    class: usize,
}

impl Pinned {
    /// Memory that is kept, if there is some of the size. It holds what was there before.
    pub(super) fn take(&self, by: &MemoryShell, bytes: usize) -> Option<Arc<dyn Allocation>> {
        let (pool, class) = (by.staging.upgrade()?, class_of(bytes));
        let memory = pool.take_away(class)?;
        self.lend(&memory, &pool, class);
        Some(memory)
    }

    /// Memory that the driver pins now; where it does not, the process's own does: to block is better than to fail. May take its
    /// time, and holds anything.
    pub(super) fn make(&self, by: &MemoryShell, bytes: usize) -> Made {
        let class = class_of(bytes);
        let made = catch(|| by.context.allocate_staging(class)).ok().and_then(Result::ok);
        let made = made.filter(|memory| memory.bytes() >= bytes && memory.host_ptr().is_some());
        match (made, by.staging.upgrade()) {
            (Some(memory), Some(pool)) => {
                self.lend(&memory, &pool, class);
                Ok(memory)
            }
            _ => heap(bytes),
        }
    }

    fn lend(&self, memory: &Arc<dyn Allocation>, pool: &Arc<Pool>, class: usize) {
        let entry = Loan { memory: Arc::downgrade(memory), pool: Arc::downgrade(pool), class };
        let mut lent = lock(&self.lent);
        if lent.len() == lent.capacity() {
            lent.retain(|_, entry| entry.memory.strong_count() > 0);
        }
        lent.insert(address(memory), entry);
    }

    /// Takes memory that is let go of, and hands back what is to be freed. A recorded sequence, which keeps what it uses,
    /// or a buffer may still have it; then it does not go back to the pool here.
    pub(super) fn give_back(&self, memory: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>> {
        // In the pool it would become another buffer's while it is still in use. Two that let go at once may both see
        // the other here; then it is freed instead of kept, which costs the next buffer a pinning and nothing else.
        if Arc::strong_count(&memory) > 1 {
            return vec![memory];
        }
        let lent = lock(&self.lent).remove(&address(&memory));
        match lent.and_then(|entry| Some((entry.pool.upgrade()?, entry.class))) {
            Some((pool, class)) => pool.bring_back(class, memory),
            None => vec![memory],
        }
    }
}

fn address(memory: &Arc<dyn Allocation>) -> usize {
    Arc::as_ptr(memory).addr()
}
