//! Memory: what a context allocates, and the copies and fills that work on it.

mod copy;
mod fill;
mod kinds;
mod piece;

use std::any::Any;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use windlass_backend::{Allocation, BackendError, HostMemory, Region};
use windlass_sync::forked;

use crate::error;
use crate::feeding::Feeding;
use crate::sys::{Buffer, Context, Event, Mapped, Queue, Result, Shared, WaitList};

pub(crate) use copy::Transfer;
pub(crate) use fill::Filling;
pub(crate) use kinds::{Kind, Memories};

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
    /// What it is a piece of, to keep that.
    #[expect(dead_code, reason = "it is kept to be dropped")]
    whole: Option<Arc<dyn Allocation>>,
}

#[derive(Debug)]
enum Held {
    /// Out of the host's reach.
    Away(Buffer),
    /// Host memory that the device works on where it is.
    InPlace(Mapped),
    /// Host memory of the driver's, which the host has while it is mapped.
    Lent(Mapped),
    /// At one address for the host and for kernels. Where that is not `fine`, the host has it while it is mapped.
    Shared { mapped: Mapped, fine: bool },
}

impl Memory {
    fn new(context: &Arc<Context>, held: Held, bytes: usize, size: usize) -> Self {
        Memory { held, bytes, size, identity: Arc::default(), context: Arc::clone(context), whole: None }
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
        Self::over(context, Arc::new(memory), start.wrapping_neg() % ALIGN, bytes)
    }

    /// Zeros in host memory that is aligned by this much and no more, nor is its size.
    fn at_worst(
        context: &Arc<Context>,
        bytes: usize,
        alignment: usize,
    ) -> std::result::Result<Self, BackendError> {
        let bytes = bytes.next_multiple_of(ALIGN) + alignment;
        let memory = HostMemory::zeroed(bytes + 2 * ALIGN)?;
        let start = memory.host_ptr().map_or(0, |start| start.addr().get());
        Self::over(context, Arc::new(memory), start.wrapping_neg() % ALIGN + alignment, bytes)
    }

    /// The program's own memory, which the device works on.
    pub(crate) fn import(
        context: &Arc<Context>,
        memory: Arc<dyn Allocation>,
    ) -> std::result::Result<Self, BackendError> {
        let bytes = memory.bytes();
        Self::over(context, memory, 0, bytes)
    }

    /// So many bytes of host memory, from `at` on.
    fn over(
        context: &Arc<Context>,
        memory: Arc<dyn Allocation>,
        at: usize,
        bytes: usize,
    ) -> std::result::Result<Self, BackendError> {
        let size = rounded(bytes)?;
        let inside = at.checked_add(size).is_some_and(|end| end <= memory.bytes());
        assert!(inside, "{size} bytes from {at} on lie inside {}", memory.bytes());
        let Some(start) = memory.host_ptr() else {
            return Err(BackendError::Unsupported("to import memory out of the host's reach".into()));
        };
        // SAFETY: it was just asserted that this is inside the memory.
        let address = unsafe { start.add(at) };
        // SAFETY: so it is, and an allocation keeps its address. Who has the allocation to be made is the only one to use it, as of any.
        let mapped = unsafe { context.buffer_over(memory, address, size) };
        let mapped = mapped.map_err(|failure| error::allocation(failure, bytes))?;
        Ok(Memory::new(context, Held::InPlace(mapped), bytes, size))
    }

    /// Host memory of the driver's, with arbitrary contents.
    pub(crate) fn lent(
        context: &Arc<Context>,
        queue: &Queue,
        bytes: usize,
    ) -> std::result::Result<Self, BackendError> {
        let size = rounded(bytes)?;
        let made = || {
            // It has its address from a first mapping on.
            let mapped = queue.map(context.host_buffer(size)?, size)?;
            queue.unmap(&mapped)?;
            Ok(mapped)
        };
        let mapped = made().map_err(|failure| error::allocation(failure, bytes))?;
        Ok(Memory::new(context, Held::Lent(mapped), bytes, size))
    }

    /// Memory with arbitrary contents, at one address for the host and for kernels.
    pub(crate) fn shared(
        context: &Arc<Context>,
        fine: bool,
        uncertain: &Arc<OnceLock<()>>,
        bytes: usize,
    ) -> std::result::Result<Self, BackendError> {
        let size = rounded(bytes)?;
        let made = || {
            let shared = Shared::new(context, (size, ALIGN), fine, uncertain)?;
            let address = shared.address();
            // SAFETY: it was just allocated of that size, and stays where it is. Nobody else knows it.
            unsafe { context.buffer_over(shared, address, size) }
        };
        let mapped = made().map_err(|failure| error::allocation(failure, bytes))?;
        Ok(Memory::new(context, Held::Shared { mapped, fine }, bytes, size))
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
            Held::InPlace(mapped) | Held::Lent(mapped) | Held::Shared { mapped, .. } => &mapped.buffer,
        }
    }

    /// Where kernels find it.
    pub(crate) fn address(&self) -> Option<NonNull<u8>> {
        match &self.held {
            Held::Shared { mapped, .. } => Some(mapped.address),
            Held::Away(_) | Held::InPlace(_) | Held::Lent(_) => None,
        }
    }

    /// Whether the host has it at any time that no command uses it.
    fn is_always_shown(&self) -> bool {
        matches!(self.held, Held::InPlace(_) | Held::Shared { fine: true, .. })
    }

    /// Gives memory to the host that it has while that is mapped, or takes it back.
    fn hand_over(&self, to: To, queue: &Queue, waits: &WaitList<'_>) -> Result<Event> {
        match (&self.held, to) {
            (Held::Lent(mapped), To::Host) => queue.lend(mapped, self.size, waits),
            (Held::Lent(mapped), To::Devices) => queue.take_back(mapped, waits),
            // SAFETY: it is the allocation's address, and these are its bytes. It lives as long as this does.
            (Held::Shared { mapped, fine: false }, To::Host) => unsafe {
                queue.map_shared(mapped.address, self.size, waits)
            },
            // SAFETY: as above.
            (Held::Shared { mapped, fine: false }, To::Devices) => unsafe {
                queue.unmap_shared(mapped.address, waits)
            },
            // Nothing changes hands.
            _ => queue.marker(waits),
        }
    }

    pub(crate) fn identity(&self) -> &Arc<()> {
        &self.identity
    }

    fn size(&self) -> usize {
        self.size
    }

    /// Lets `see` have what the host sees, in the middle of which no command runs.
    fn show<R>(&self, queue: &Queue, see: impl FnOnce(&[Cell<u8>]) -> R) -> Result<Option<R>> {
        let hand_over = |to| {
            self.hand_over(to, queue, &WaitList::default())?;
            queue.finish()
        };
        hand_over(To::Host)?;
        // SAFETY: so many bytes of host memory, which live as long as this does. Only `is_seen` asks, for memory that it has just made
        // and nobody else knows, while no command runs and the host has it.
        let bytes = |start: NonNull<u8>| unsafe {
            std::slice::from_raw_parts(start.as_ptr().cast::<Cell<u8>>(), self.bytes)
        };
        let seen = self.host_ptr().map(|start| see(bytes(start)));
        hand_over(To::Devices)?;
        Ok(seen)
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
            Some(memory) if !memory.is_always_shown() => {
                Err(BackendError::Unsupported("memory of another OpenCL context".into()))
            }
            _ => Ok(None),
        }
    }
}

fn rounded(bytes: usize) -> std::result::Result<usize, BackendError> {
    bytes.checked_next_multiple_of(GRANULE).ok_or(BackendError::OutOfMemory { bytes })
}

/// Whom memory is handed over to that host and devices have in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Host,
    Devices,
}

/// A checked command that hands memory over.
pub(crate) struct Handover<'a> {
    memory: &'a Memory,
    to: To,
}

impl<'a> Handover<'a> {
    pub(crate) fn plan(
        context: &Arc<Context>,
        memory: &'a dyn Allocation,
        to: To,
    ) -> std::result::Result<Self, BackendError> {
        match Memory::of(memory, context)? {
            Some(memory) => Ok(Handover { memory, to }),
            None => Err(BackendError::Unsupported("to map memory that is not OpenCL's".into())),
        }
    }

    pub(crate) fn enqueue(&self, feeding: &mut Feeding<'_>) -> Result<()> {
        feeding.enqueue(|queue, waits| self.memory.hand_over(self.to, queue, waits))
    }
}

/// Whether the host sees what devices write to such memory, and they what it writes, once they have handed it over where they have to.
/// It is tried, since drivers do more than OpenCL promises, which is to show host memory only between a mapping and its end: those for
/// processors, which use the same memory anyhow, do it at any time. Oclgrind does not. And some do less.
fn is_seen(queue: &Queue, make: impl Fn(usize) -> std::result::Result<Memory, BackendError>) -> bool {
    let tried = || -> std::result::Result<bool, BackendError> {
        let (a, b) = (make(8192)?, make(8192)?);
        // As much as was made, which may be more.
        let bytes = a.bytes();
        let values = || (0..=u8::MAX).cycle();
        queue.fill(a.buffer(), &[0xA5; GRANULE], 0, bytes, &WaitList::default())?;
        queue.finish()?;
        let filled = a.show(queue, |bytes| bytes.iter().all(|byte| byte.get() == 0xA5))?;
        a.show(queue, |bytes| bytes.iter().zip(values()).for_each(|(byte, value)| byte.set(value)))?;
        queue.copy((a.buffer(), 0), (b.buffer(), 0), bytes, &WaitList::default())?;
        queue.finish()?;
        let copied =
            b.show(queue, |bytes| bytes.iter().zip(values()).all(|(byte, value)| byte.get() == value))?;
        Ok(filled == Some(true) && copied == Some(true))
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

// SAFETY: memory out of the host's reach shows none. What is in place is so many bytes of host memory, aligned by `ALIGN` (or as the
// program aligned what it gave): zeros, what the program gave, or what the driver mapped for the program's own buffer, and it is kept
// until the buffer is released, which happens when this is dropped or later. Shared memory is so many bytes, aligned by `ALIGN`, and kept
// as long, and lent memory was mapped at that address, to which each later mapping is held; both have what the driver left there, which
// is initialised as far as this process can tell: it was not allocated by Rust. A piece is so many bytes of such memory in place, which it keeps.
unsafe impl Allocation for Memory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        match &self.held {
            Held::Away(_) => None,
            Held::InPlace(mapped) | Held::Lent(mapped) | Held::Shared { mapped, .. } => Some(mapped.address),
        }
    }

    fn device_address(&self) -> Option<u64> {
        Some(self.address()?.as_ptr().expose_provenance() as u64)
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
        if !forked::is_child() {
            let _ = self.queue.unmap(&self.mapped);
        }
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
