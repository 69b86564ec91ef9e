//! Memory: what a context allocates, and the copies and fills that work on it.

mod copy;
mod fill;

use std::any::Any;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::Arc;

use windlass_backend::{Allocation, BackendError, HostMemory, Region};

use crate::error;
use crate::sys::{Buffer, Context, Mapped, Queue, Result, WaitList};

pub(crate) use copy::Transfer;
pub(crate) use fill::Filling;

/// Allocations are rounded up to this many bytes, so that kernels can access them by words.
const GRANULE: usize = 4;

/// What host memory is aligned to that devices work on: as OpenCL aligns a device's memory, by its longest type.
const ALIGN: usize = 128;

/// Memory of a context; see [`native`](crate::native). The driver keeps it until the commands that use it have ended.
#[derive(Debug)]
pub struct Memory {
    held: Held,
    bytes: usize,
    /// The size as the driver knows it, rounded up.
    size: usize,
    /// By which it is known also once it is gone.
    identity: Arc<()>,
    context: Arc<Context>,
}

#[derive(Debug)]
enum Held {
    /// Out of the host's reach.
    Away(Buffer),
    /// Host memory that the device works on where it is.
    InPlace(Mapped),
}

impl Memory {
    fn new(context: &Arc<Context>, held: Held, bytes: usize, size: usize) -> Self {
        Memory { held, bytes, size, identity: Arc::default(), context: Arc::clone(context) }
    }

    /// Memory with arbitrary contents. Many drivers allocate at first use; having the device touch the memory, and waiting for
    /// that, makes them say now whether there is room.
    pub(crate) fn allocate(
        context: &Arc<Context>,
        queue: &Queue,
        bytes: usize,
    ) -> std::result::Result<Self, BackendError> {
        let size = rounded(bytes)?;
        let buffer = touched_buffer(context, queue, size).map_err(|f| error::allocation(f, bytes))?;
        Ok(Memory::new(context, Held::Away(buffer), bytes, size))
    }

    /// Zeros in host memory, which the device works on.
    pub(crate) fn in_place(context: &Arc<Context>, bytes: usize) -> std::result::Result<Self, BackendError> {
        let size = rounded(bytes)?;
        let memory = HostMemory::zeroed(size.saturating_add(ALIGN))
            .map_err(|_| BackendError::OutOfMemory { bytes })?;
        let start = memory.host_ptr().map_or(0, |start| start.addr().get());
        let mapped = context.buffer_over(memory, start.wrapping_neg() % ALIGN, size);
        let mapped = mapped.map_err(|failure| error::allocation(failure, bytes))?;
        Ok(Memory::new(context, Held::InPlace(mapped), bytes, size))
    }

    /// Memory that the program made, with what it holds. Where devices work on the host's memory, `queue` is for asking the driver
    /// where it is.
    pub(crate) fn adopt(
        context: &Arc<Context>,
        buffer: Buffer,
        bytes: usize,
        queue: Option<&Queue>,
    ) -> std::result::Result<Self, BackendError> {
        let refused = |why: String| Err(BackendError::Unsupported(format!("native memory {why}")));
        if !bytes.is_multiple_of(GRANULE) {
            return refused(format!("as a buffer of {bytes} bytes: kernels use it by words of {GRANULE}"));
        }
        match buffer.size_in(context)? {
            None => return refused("that is no buffer of the queue's context".into()),
            Some(size) if size < bytes => return refused(format!("of {size} bytes for a buffer of {bytes}")),
            Some(_) => {}
        }
        let Some(queue) = queue else { return Ok(Memory::new(context, Held::Away(buffer), bytes, bytes)) };
        let address = buffer.host_address()?;
        if !address.is_multiple_of(ALIGN) {
            return refused(format!(
                "over host memory at {address:#x}, which is no multiple of {ALIGN}, on a device that works on host memory"
            ));
        }
        let mapped = queue.map(buffer, bytes)?;
        queue.unmap(&mapped)?;
        Ok(Memory::new(context, Held::InPlace(mapped), bytes, bytes))
    }

    pub(crate) fn buffer(&self) -> &Buffer {
        match &self.held {
            Held::Away(buffer) => buffer,
            Held::InPlace(mapped) => &mapped.buffer,
        }
    }

    pub(crate) fn identity(&self) -> &Arc<()> {
        &self.identity
    }

    fn size(&self) -> usize {
        self.size
    }

    /// The host's view of memory in place.
    fn host_bytes(&self) -> Option<&[Cell<u8>]> {
        let start = self.host_ptr()?;
        // SAFETY: so many bytes of host memory, which live as long as this does. Only `works_in_place` asks, for memory that it has
        // just made and nobody else knows, while no command runs.
        Some(unsafe { std::slice::from_raw_parts(start.as_ptr().cast(), self.bytes) })
    }

    /// The memory behind an allocation of this context; `None` for other memory that the host reaches, or that is not OpenCL's, an
    /// error for what another context has out of the host's reach.
    pub(crate) fn of<'a>(
        allocation: &'a dyn Allocation,
        context: &Arc<Context>,
    ) -> std::result::Result<Option<&'a Memory>, BackendError> {
        let allocation: &dyn Any = allocation;
        match allocation.downcast_ref::<Memory>() {
            Some(memory) if Arc::ptr_eq(&memory.context, context) => Ok(Some(memory)),
            Some(Memory { held: Held::Away(_), .. }) => {
                Err(BackendError::Unsupported("memory of another OpenCL context".into()))
            }
            _ => Ok(None),
        }
    }
}

fn rounded(bytes: usize) -> std::result::Result<usize, BackendError> {
    bytes.checked_next_multiple_of(GRANULE).ok_or(BackendError::OutOfMemory { bytes })
}

/// Whether a context's devices work on host memory where it is, and the host sees what they write, and they what it writes, as soon
/// as commands have ended. OpenCL promises that between a mapping and its end alone, and drivers for processors, which use the
/// same memory anyhow, do it at any time; Oclgrind does not. So it is tried.
pub(crate) fn works_in_place(context: &Arc<Context>, queue: &Queue) -> bool {
    const BYTES: usize = 8192;
    let tried = || -> std::result::Result<bool, BackendError> {
        let (a, b) = (Memory::in_place(context, BYTES)?, Memory::in_place(context, BYTES)?);
        queue.fill(a.buffer(), &[0xA5; GRANULE], 0, BYTES, &WaitList::default())?;
        queue.finish()?;
        let seen = a.host_bytes().is_some_and(|bytes| bytes.iter().all(|byte| byte.get() == 0xA5));
        let values = || (0..=u8::MAX).cycle();
        a.host_bytes().into_iter().flatten().zip(values()).for_each(|(byte, value)| byte.set(value));
        queue.copy((a.buffer(), 0), (b.buffer(), 0), BYTES, &WaitList::default())?;
        queue.finish()?;
        let mut copied = b.host_bytes().into_iter().flatten().zip(values());
        Ok(seen && copied.all(|(byte, value)| byte.get() == value))
    };
    tried().unwrap_or(false)
}

fn touched_buffer(context: &Context, queue: &Queue, size: usize) -> Result<Buffer> {
    let buffer = context.buffer(size)?;
    let filled = queue.fill(&buffer, &[0; GRANULE], 0, GRANULE, &WaitList::default())?;
    queue.flush()?;
    filled.wait()?;
    Ok(buffer)
}

// SAFETY: memory out of the host's reach shows none. What is in place is so many bytes of host memory, aligned by `ALIGN`: zeros, or
// what the driver mapped for the program's own buffer, and it is kept until the buffer is released, which happens when this is dropped
// or later.
unsafe impl Allocation for Memory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        match &self.held {
            Held::Away(_) => None,
            Held::InPlace(mapped) => Some(mapped.address),
        }
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
