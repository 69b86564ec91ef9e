//! Host memory that a driver has pinned, as the heap's copy of a buffer: what comes there from a device comes in one native
//! copy, and nothing blocks for it.
//!
//! To pin memory takes a driver about a millisecond for each MiB, more than the copy itself; so it comes from the staging that
//! the context keeps, and goes back there. What no copy brings at once is cleared for each buffer (`windlass_engine::Pinning`): bytes
//! that nobody has written read as zeros, and never as another buffer's. What a buffer has does not count against the bound on staging, which is about
//! transfers; what is kept for the next one does.

use std::sync::Arc;

use windlass_backend::{Allocation, HostAccess, MemoryIndex};
use windlass_engine::MemoryId;
use windlass_sync::forked;
use windlass_sync::panics::catch;

use super::context::DeviceSlot;
use super::loans::{Class, Loans};
use super::memory::{Made, is_pinned};
use super::pool::{Pool, class_of};
use super::{Inner, MemoryShell, work};

/// Memory that is kept, if there is some of the size. It holds what was there before.
pub(super) fn take(by: &MemoryShell, bytes: usize, loans: &Loans) -> Option<Arc<dyn Allocation>> {
    let (pool, class) = (by.staging.upgrade()?, class_of(bytes));
    let memory = pool.take_away(class)?;
    lend(&memory, &pool, class, loans);
    Some(memory)
}

/// Memory that the driver pins now; where it does not, other host memory does: to block is better than to fail. May take its
/// time, and holds anything.
pub(super) fn make(by: &MemoryShell, bytes: usize, inner: &Inner) -> Made {
    let class = class_of(bytes);
    let made = catch(|| by.context.allocate_staging(class)).ok().and_then(Result::ok);
    let made = made.filter(|memory| memory.bytes() >= bytes && memory.host_ptr().is_some());
    match (made, by.staging.upgrade()) {
        (Some(memory), Some(pool)) => {
            lend(&memory, &pool, class, &inner.loans);
            Ok(memory)
        }
        _ => inner.host_memory(bytes, false),
    }
}

fn lend(memory: &Arc<dyn Allocation>, pool: &Arc<Pool>, bytes: usize, loans: &Loans) {
    loans.lend(memory, pool, Class { index: MemoryIndex::Heap, bytes });
}

/// Where the host best gathers what a device is to read: the copy there starts at once then, and nothing is copied on the host again.
#[derive(Debug)]
pub(crate) struct PinnedPlace {
    by: MemoryShell,
    memory: MemoryId,
    /// Copies of so many bytes do not block, wherever they are from.
    light: usize,
}

impl PinnedPlace {
    /// For the device's own memory, if copies there block.
    pub(crate) fn of(slot: &DeviceSlot) -> Option<Self> {
        let (memory, by) = slot.own()?;
        let light = by.context.info().pageable_upload_limit;
        let is_addressable = by.info.is_some_and(|of| of.host == HostAccess::Coherent);
        (light < usize::MAX && !is_addressable).then_some(PinnedPlace { by, memory, light })
    }

    /// Memory for so many bytes, if the context has some that nobody uses: to pin more takes longer than to copy them twice.
    pub(crate) fn filling(&self, bytes: usize, inner: &Arc<Inner>) -> Option<Filling> {
        if bytes <= self.light {
            return None;
        }
        let memory = take(&self.by, bytes, &inner.loans)?;
        let is_pinned = memory.bytes() >= bytes && memory.host_ptr().is_some() && is_pinned(&memory);
        let filling = Filling { memory: Some(memory), filled: 0, by: self.memory, inner: inner.clone() };
        is_pinned.then_some(filling)
    }
}

/// A [`Filling`] is over when it is a buffer's.
const UNBOUND: &str = "no buffer has it yet";

/// Pinned memory on its way to be a buffer's.
#[derive(Debug)]
pub(crate) struct Filling {
    /// Nobody else has a reference to it. Gone when the buffer has it.
    memory: Option<Arc<dyn Allocation>>,
    filled: usize,
    by: MemoryId,
    inner: Arc<Inner>,
}

impl Filling {
    /// Adds bytes behind those that there are.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let memory = self.memory.as_mut().expect(UNBOUND);
        work::put(memory, self.filled, bytes);
        self.filled += bytes.len();
    }

    /// How many bytes there are.
    pub(crate) fn filled(&self) -> usize {
        self.filled
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// For a buffer of as many bytes as there are: what lies behind them holds what was another's. And the memory whose driver has pinned it.
    pub(crate) fn finish(mut self) -> (Arc<dyn Allocation>, MemoryId) {
        (self.memory.take().expect(UNBOUND), self.by)
    }
}

/// If it was not for a buffer after all, it goes back to be kept.
impl Drop for Filling {
    fn drop(&mut self) {
        match self.memory.take() {
            Some(memory) if forked::is_child() => std::mem::forget(memory),
            memory => self.inner.free_all(memory),
        }
    }
}
