//! Memory: what a context allocates, and the copies and fills that work on it.

mod copy;
mod fill;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use windlass_backend::{Allocation, BackendError, Region};

use crate::error;
use crate::sys::{Buffer, Context, Mapped, Queue, Result, WaitList};

pub(crate) use copy::Transfer;
pub(crate) use fill::Filling;

/// Allocations are rounded up to this many bytes, so that kernels can access them by words.
const GRANULE: usize = 4;

/// Memory of a context; see [`native`](crate::native). The driver keeps it until the commands that use it have ended.
#[derive(Debug)]
pub struct Memory {
    buffer: Buffer,
    bytes: usize,
    /// The size as the driver knows it, rounded up.
    size: usize,
    /// By which it is known also once it is gone.
    identity: Arc<()>,
    context: Arc<Context>,
}

impl Memory {
    /// Memory with arbitrary contents. Many drivers allocate at first use; having the device touch the memory, and waiting for
    /// that, makes them say now whether there is room.
    pub(crate) fn new(
        context: &Arc<Context>,
        queue: &Queue,
        bytes: usize,
    ) -> std::result::Result<Self, BackendError> {
        let size = bytes.checked_next_multiple_of(GRANULE).ok_or(BackendError::OutOfMemory { bytes })?;
        let buffer = touched_buffer(context, queue, size).map_err(|f| error::allocation(f, bytes))?;
        Ok(Memory { buffer, bytes, size, identity: Arc::default(), context: Arc::clone(context) })
    }

    /// Memory that the program made, with what it holds.
    pub(crate) fn adopt(
        context: &Arc<Context>,
        buffer: Buffer,
        bytes: usize,
    ) -> std::result::Result<Self, BackendError> {
        let refused = |why: String| Err(BackendError::Unsupported(format!("native memory {why}")));
        if !bytes.is_multiple_of(GRANULE) {
            return refused(format!("as a buffer of {bytes} bytes: kernels use it by words of {GRANULE}"));
        }
        match buffer.size_in(context)? {
            None => refused("that is no buffer of the queue's context".into()),
            Some(size) if size < bytes => refused(format!("of {size} bytes for a buffer of {bytes}")),
            Some(_) => Ok(Memory {
                buffer,
                bytes,
                size: bytes,
                identity: Arc::default(),
                context: Arc::clone(context),
            }),
        }
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    pub(crate) fn identity(&self) -> &Arc<()> {
        &self.identity
    }

    fn size(&self) -> usize {
        self.size
    }

    /// The memory behind an allocation of this context; `None` for memory that is not OpenCL's, an error for another context's.
    pub(crate) fn of<'a>(
        allocation: &'a dyn Allocation,
        context: &Arc<Context>,
    ) -> std::result::Result<Option<&'a Memory>, BackendError> {
        let allocation: &dyn Any = allocation;
        match allocation.downcast_ref::<Memory>() {
            Some(memory) if !Arc::ptr_eq(&memory.context, context) => {
                Err(BackendError::Unsupported("memory of another OpenCL context".into()))
            }
            found => Ok(found),
        }
    }
}

fn touched_buffer(context: &Context, queue: &Queue, size: usize) -> Result<Buffer> {
    let buffer = context.buffer(size)?;
    let filled = queue.fill(&buffer, &[0; GRANULE], 0, GRANULE, &WaitList::default())?;
    queue.flush()?;
    filled.wait()?;
    Ok(buffer)
}

// SAFETY: it shows the host no memory.
unsafe impl Allocation for Memory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        None
    }
}

/// The runtime names only boxes inside their allocations. The driver checks the bounds of its own memory but not those of host
/// memory, so both are checked here.
fn assert_inside(region: &Region, allocation: &dyn Allocation) {
    assert!(region.end() <= allocation.bytes(), "{region:?} leaves an allocation of {}", allocation.bytes());
}

/// Host memory pinned by a discrete device's driver: copies through it run at the bus's full speed.
#[derive(Debug)]
pub(crate) struct Staging {
    mapped: Mapped,
    bytes: usize,
    queue: Arc<Queue>,
}

impl Staging {
    /// `None` where the driver has no such memory to give. It holds what the driver left there: copies overwrite it before it is
    /// read, and the runtime clears what they do not.
    pub(crate) fn new(context: &Context, queue: &Arc<Queue>, bytes: usize) -> Option<Self> {
        let buffer = context.host_buffer(bytes).ok()?;
        let mapped = queue.map(buffer, bytes).ok()?;
        Some(Staging { mapped, bytes, queue: Arc::clone(queue) })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Dropping an allocation may block. If the driver refuses, the mapping leaks, and nothing refers to it any more.
        let _ = self.queue.unmap(&self.mapped);
    }
}

// SAFETY: the driver mapped so many bytes at that address for reading and writing until they are unmapped, which happens when
// this is dropped, and they belong to this allocation alone. A mapping for reading shows the buffer's bytes: some that the driver chose,
// since nobody has written it, but bytes of its own memory, and so initialised. Drivers align mappings to 128 bytes.
unsafe impl Allocation for Staging {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        Some(self.mapped.address)
    }
}
