//! The devices' memory, and windows into any memory that a command names.

use std::any::Any;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass_backend::{Allocation, BackendError, HostMemory, Region};

use crate::audit::Audit;
use crate::machine::Shared;

/// What an allocation owns; groups that use it keep it from being freed under them, and note that it was let go of.
pub(crate) struct Block {
    memory: HostMemory,
    /// Groups that use it, fed and not reported.
    used: AtomicUsize,
}

impl Block {
    pub(crate) fn hold(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.used.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What fresh memory holds, staging and such as is not said to be zeroed: nobody may rely on zeros there.
const RUBBISH: u8 = 0x5a;

/// What memory was allocated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This context, whose lanes alone may use it.
    Context(usize),
    /// Copies to and from this context, by the lanes of any.
    StagingOf(usize),
}

/// Memory of a context, or staging; see [`native`](crate::native).
pub struct FaultyMemory {
    pub(crate) block: Arc<Block>,
    owner: Owner,
    visible: bool,
    shared: Arc<Shared>,
}

impl FaultyMemory {
    pub(crate) fn new(
        bytes: usize,
        owner: Owner,
        (visible, spoilt): (bool, bool),
        shared: &Arc<Shared>,
    ) -> Result<Self, BackendError> {
        let memory = HostMemory::zeroed(bytes)?;
        if let (true, Some(start)) = (spoilt, memory.host_ptr()) {
            // SAFETY: the memory has so many bytes, and nobody else knows of it yet.
            unsafe { ptr::write_bytes(start.as_ptr(), RUBBISH, bytes) }
        }
        let block = Block { memory, used: AtomicUsize::new(0) };
        let mut machine = shared.lock();
        let audit = &mut machine.audit;
        audit.bytes += bytes;
        *owner.count(audit) += 1;
        drop(machine);
        Ok(FaultyMemory { block: Arc::new(block), owner, visible, shared: shared.clone() })
    }
}

impl Owner {
    fn count(self, audit: &mut Audit) -> &mut usize {
        match self {
            Owner::Context(_) => &mut audit.allocations,
            Owner::StagingOf(_) => &mut audit.staging,
        }
    }
}

/// Whether memory is neither a context's own nor its staging, nor another context's.
pub(crate) fn is_foreign(memory: &dyn Allocation, context: usize) -> bool {
    let own = (memory as &dyn Any).downcast_ref::<FaultyMemory>();
    own.is_none_or(|own| matches!(own.owner, Owner::StagingOf(of) if of != context))
}

/// Whether memory is that of another context.
pub(crate) fn is_of_peer(memory: &dyn Allocation, context: usize) -> bool {
    let own = (memory as &dyn Any).downcast_ref::<FaultyMemory>();
    own.is_some_and(|own| matches!(own.owner, Owner::Context(of) if of != context))
}

// SAFETY: the block's `HostMemory` has so many initialised bytes at that address as long as this lives.
unsafe impl Allocation for FaultyMemory {
    fn bytes(&self) -> usize {
        self.block.memory.bytes()
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        self.block.memory.host_ptr().filter(|_| self.visible)
    }
}

impl fmt::Debug for FaultyMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyMemory").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Drop for FaultyMemory {
    fn drop(&mut self) {
        let mut machine = self.shared.lock();
        machine.called();
        machine.may_block();
        machine.audit.bytes -= self.block.memory.bytes();
        let audit = &mut machine.audit;
        *self.owner.count(audit) -= 1;
        drop(machine);
        let users = self.block.used.load(Ordering::Relaxed);
        if users > 0 {
            self.shared
                .note_breach(&format!("an allocation was dropped before the verdicts of {users} groups"));
        }
    }
}

/// Whose memory a command may use.
#[derive(Clone, Copy)]
pub(crate) struct Reach<'a> {
    /// The lane's own context.
    pub(crate) context: usize,
    /// Contexts whose memory copies may use as well.
    pub(crate) peers: &'a [usize],
}

impl Reach<'_> {
    fn includes(self, owner: Owner) -> bool {
        matches!(owner, Owner::Context(of) if of == self.context || self.peers.contains(&of))
    }

    /// The lane's own context alone.
    pub(crate) fn alone(self) -> Self {
        Reach { peers: &[], ..self }
    }
}

/// A box of some memory, checked to lie inside it.
#[derive(Clone)]
pub(crate) struct Window {
    start: NonNull<u8>,
    pub(crate) region: Region,
    /// Keeps the devices' own memory; the host's is kept by the runtime.
    pub(crate) block: Option<Arc<Block>>,
}

// SAFETY: a window is an address with a shape, and a reference count that is `Send`; those who use the address say why
// they may.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// An error says what is wrong with it: a breach of the contract.
    pub(crate) fn new(memory: &dyn Allocation, region: Region, reach: Reach<'_>) -> Result<Self, String> {
        let end = checked_end(&region);
        if end.is_none_or(|end| end > memory.bytes()) {
            return Err(format!("{region:?} of an allocation of {} bytes", memory.bytes()));
        }
        let known = (memory as &dyn Any).downcast_ref::<FaultyMemory>();
        let (start, block) = match known {
            Some(own) if !own.visible && !reach.includes(own.owner) => {
                return Err("memory of another context".into());
            }
            Some(own) => (own.block.memory.host_ptr(), Some(own.block.clone())),
            None => (memory.host_ptr(), None),
        };
        let start = start.ok_or("memory of another backend, without an address")?;
        Ok(Window { start, region, block })
    }

    /// A box of a context's own memory, for native code.
    pub(crate) fn of(memory: &FaultyMemory, region: Region) -> Result<Self, String> {
        match memory.owner {
            Owner::Context(context) => Window::new(memory, region, Reach { context, peers: &[] }),
            Owner::StagingOf(_) => Err("staging memory".into()),
        }
    }

    /// The address of the first byte.
    pub(crate) fn first(&self) -> NonNull<u8> {
        // SAFETY: `new` checked that the region, its offset included, ends inside the allocation.
        unsafe { self.start.add(self.region.offset) }
    }

    /// Whether two windows share a byte.
    pub(crate) fn meets(&self, other: &Window) -> bool {
        let width = |w: &Window| w.region.width as isize;
        let far = |a: *mut u8, b: *mut u8| a.addr() as isize - b.addr() as isize;
        self.rows().any(|a| other.rows().any(|b| far(a, b) < width(other) && far(b, a) < width(self)))
    }

    fn rows(&self) -> impl Iterator<Item = *mut u8> {
        let start = self.start.as_ptr();
        // SAFETY: a row's offset is not above the region's end, which `new` checked.
        self.region.row_offsets().map(move |offset| unsafe { start.add(offset) })
    }

    /// Copies a box of the same shape here.
    pub(crate) fn copy_from(&self, from: &Window) {
        for (from, to) in from.rows().zip(self.rows()) {
            // SAFETY: both rows have `width` bytes inside allocations that live until the point is passed, and nobody
            // else writes the one or touches the other meanwhile: the runtime's promise.
            unsafe { ptr::copy(from, to, self.region.width) }
        }
    }

    /// Fills the box with a pattern; what of the pattern does not fit at a row's end is left out.
    pub(crate) fn fill(&self, pattern: &[u8]) {
        for row in self.rows() {
            for at in (0..self.region.width).step_by(pattern.len().max(1)) {
                let len = pattern.len().min(self.region.width - at);
                // SAFETY: `at + len` is not above the row's width, whose bytes are inside the allocation; the rest is
                // as for `copy_from`.
                unsafe { ptr::copy_nonoverlapping(pattern.as_ptr(), row.add(at), len) }
            }
        }
    }
}

/// `Region::end` in arithmetic that does not wrap.
fn checked_end(region: &Region) -> Option<usize> {
    if region.width.checked_mul(region.rows)?.checked_mul(region.slices)? == 0 {
        return Some(region.offset);
    }
    let slices = (region.slices - 1).checked_mul(region.slice_pitch)?;
    let rows = (region.rows - 1).checked_mul(region.row_pitch)?;
    region.offset.checked_add(slices)?.checked_add(rows)?.checked_add(region.width)
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("memory", &self.memory).finish_non_exhaustive()
    }
}
