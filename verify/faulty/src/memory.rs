//! The devices' memory, and windows into any memory that a command names.

use std::any::Any;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use windlass_backend::{Allocation, BackendError, HostAccess, HostMemory, ImageShape, Part, Region, Texels};

use crate::audit::Audit;
use crate::machine::Shared;

/// What an allocation owns; groups that use it keep it from being freed under them, and note that it was let go of.
pub(crate) struct Block {
    /// What devices see.
    memory: Bytes,
    /// What the host sees of memory that is mapped for it: only then the same.
    view: Option<Bytes>,
    side: AtomicU8,
    /// Memory is there when the devices' memory stream has come to it. Until then nobody is to use it.
    is_there: AtomicBool,
    spoilt: bool,
    /// Groups that use it, fed and not reported.
    used: AtomicUsize,
}

enum Bytes {
    Own(HostMemory),
    Imported(Arc<dyn Allocation>),
}

impl Bytes {
    fn start(&self) -> Option<NonNull<u8>> {
        match self {
            Bytes::Own(memory) => memory.host_ptr(),
            Bytes::Imported(memory) => memory.host_ptr(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Bytes::Own(memory) => memory.bytes(),
            Bytes::Imported(memory) => memory.bytes(),
        }
    }

    /// As a window, whose allocation is kept by whoever asks.
    fn window(&self) -> Option<Window> {
        Some(Window { start: self.start()?, region: Region::line(0, self.len()), block: None })
    }
}

/// Who has memory that is mapped for the host.
const WITH_DEVICES: u8 = 0;
const WITH_HOST: u8 = 1;
/// It failed to change hands.
const WITH_NOBODY: u8 = 2;

impl Block {
    /// Gives memory to the host or takes it back, and what is in it with it. An error says what the runtime did wrong.
    pub(crate) fn change_hands(&self, to_host: bool) -> Result<(), String> {
        let (before, after) = if to_host { (WITH_DEVICES, WITH_HOST) } else { (WITH_HOST, WITH_DEVICES) };
        let side = self.side.swap(after, Ordering::Relaxed);
        let (Some(view), Some(memory)) = (self.view.as_ref().and_then(Bytes::window), self.memory.window())
        else {
            return Err("memory that is not mapped for the host changed hands".into());
        };
        match to_host {
            true => view.copy_from(&memory),
            false => {
                memory.copy_from(&view);
                view.fill(&[RUBBISH]);
            }
        }
        match side == before || side == WITH_NOBODY {
            true => Ok(()),
            false => Err("memory changed hands to who had it".into()),
        }
    }

    /// It was to change hands, and did not.
    pub(crate) fn stay_with_nobody(&self) {
        self.side.store(WITH_NOBODY, Ordering::Relaxed);
    }

    pub(crate) fn is_with_host(&self) -> bool {
        self.side.load(Ordering::Relaxed) == WITH_HOST
    }

    /// The memory stream has come to it.
    pub(crate) fn arrive(&self) {
        if self.spoilt {
            self.memory.window().into_iter().for_each(|window| window.fill(&[RUBBISH]));
        }
        self.is_there.store(true, Ordering::Release);
    }

    pub(crate) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Acquire)
    }

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

/// What memory is to be like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) owner: Owner,
    pub(crate) host: HostAccess,
    /// It holds rubbish at first.
    pub(crate) spoilt: bool,
    pub(crate) image: Option<ImageShape>,
    /// Kernels are told its address.
    pub(crate) has_address: bool,
    /// It is there when the memory stream has come to it.
    pub(crate) is_ordered: bool,
}

impl Kind {
    /// Of staging.
    pub(crate) fn staging(context: usize) -> Self {
        let owner = Owner::StagingOf(context);
        let host = HostAccess::Coherent;
        Kind { owner, host, spoilt: true, image: None, has_address: false, is_ordered: false }
    }
}

/// Memory of a context, or staging; see [`native`](crate::native).
pub struct FaultyMemory {
    pub(crate) block: Arc<Block>,
    kind: Kind,
    shared: Arc<Shared>,
}

impl FaultyMemory {
    pub(crate) fn new(bytes: usize, kind: Kind, shared: &Arc<Shared>) -> Result<Self, BackendError> {
        let bytes = kind.image.map_or(bytes, |shape| layout(&shape).0);
        let memory = Bytes::Own(HostMemory::zeroed(bytes)?);
        let view = match kind.host {
            HostAccess::Mapped => Some(Bytes::Own(HostMemory::zeroed(bytes)?)),
            _ => None,
        };
        view.as_ref().and_then(Bytes::window).into_iter().for_each(|window| window.fill(&[RUBBISH]));
        Ok(Self::with(memory, view, kind, shared))
    }

    /// An allocation of the host's memory.
    pub(crate) fn import(
        host: Arc<dyn Allocation>,
        kind: Kind,
        shared: &Arc<Shared>,
    ) -> Result<Self, BackendError> {
        let host = Bytes::Imported(host);
        let (memory, view) = match kind.host {
            HostAccess::Mapped => {
                let memory = Bytes::Own(HostMemory::zeroed(host.len())?);
                memory.window().zip(host.window()).into_iter().for_each(|(to, from)| to.copy_from(&from));
                (memory, Some(host))
            }
            _ => (host, None),
        };
        Ok(Self::with(memory, view, kind, shared))
    }

    fn with(memory: Bytes, view: Option<Bytes>, kind: Kind, shared: &Arc<Shared>) -> Self {
        let (bytes, Kind { owner, spoilt, is_ordered, .. }) = (memory.len(), kind);
        let block = Arc::new(Block {
            memory,
            view,
            side: AtomicU8::new(WITH_DEVICES),
            is_there: AtomicBool::new(false),
            spoilt,
            used: AtomicUsize::new(0),
        });
        if !is_ordered {
            block.arrive();
        }
        let mut machine = shared.lock();
        let audit = &mut machine.audit;
        audit.bytes += bytes;
        *owner.count(audit) += 1;
        if is_ordered {
            machine.coming.push_back(Arc::downgrade(&block));
        }
        drop(machine);
        FaultyMemory { block, kind, shared: shared.clone() }
    }
}

/// The bytes of an image, with those from one row to the next and from one slice to the next. Nobody else is to know that
/// there are gaps.
fn layout(shape: &ImageShape) -> (usize, usize, usize) {
    let [slices, rows, row] = shape.size;
    let row_pitch = (row + 3) * shape.format.bytes();
    (slices * rows * row_pitch, row_pitch, rows * row_pitch)
}

/// Where texels of an image are.
fn place_of(texels: &Texels, shape: &ImageShape) -> Region {
    let (texel, (_, row_pitch, slice_pitch)) = (shape.format.bytes(), layout(shape));
    let [z, y, x] = texels.origin;
    let [slices, rows, row] = texels.size;
    let offset = z * slice_pitch + y * row_pitch + x * texel;
    Region { offset, width: row * texel, rows, slices, row_pitch, slice_pitch }
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
    own.is_none_or(|own| matches!(own.kind.owner, Owner::StagingOf(of) if of != context))
}

/// Whether memory is that of another context.
pub(crate) fn is_of_peer(memory: &dyn Allocation, context: usize) -> bool {
    let own = (memory as &dyn Any).downcast_ref::<FaultyMemory>();
    own.is_some_and(|own| matches!(own.kind.owner, Owner::Context(of) if of != context))
}

// SAFETY: the block's memory, and the host's view of it, have so many initialised bytes at their addresses as long as this lives.
unsafe impl Allocation for FaultyMemory {
    fn bytes(&self) -> usize {
        self.block.memory.len()
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        match self.kind.host {
            HostAccess::Coherent => self.block.memory.start(),
            HostAccess::Mapped => self.block.view.as_ref()?.start(),
            _ => None,
        }
    }

    fn device_address(&self) -> Option<u64> {
        self.block.memory.start().filter(|_| self.kind.has_address).map(|start| start.addr().get() as u64)
    }

    fn image(&self) -> Option<ImageShape> {
        self.kind.image
    }
}

impl fmt::Debug for FaultyMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyMemory").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Drop for FaultyMemory {
    fn drop(&mut self) {
        let mut machine = self.shared.lock();
        machine.called();
        if !self.kind.is_ordered {
            machine.may_block();
        }
        machine.audit.bytes -= self.block.memory.len();
        let audit = &mut machine.audit;
        *self.kind.owner.count(audit) -= 1;
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
    pub(crate) fn new(
        memory: &dyn Allocation,
        part: impl Into<Part>,
        reach: Reach<'_>,
    ) -> Result<Self, String> {
        let region = match (part.into(), memory.image()) {
            (Part::Bytes(region), None) => region,
            (Part::Texels(texels), Some(shape)) => {
                let inside = |d: usize| texels.origin[d] + texels.size[d] <= shape.size[d];
                if !(0..3).all(inside) {
                    return Err(format!("{texels:?} of {shape:?}"));
                }
                place_of(&texels, &shape)
            }
            (part, image) => return Err(format!("{part:?} of an allocation that is {image:?}")),
        };
        let end = checked_end(&region);
        if end.is_none_or(|end| end > memory.bytes()) {
            return Err(format!("{region:?} of an allocation of {} bytes", memory.bytes()));
        }
        let known = (memory as &dyn Any).downcast_ref::<FaultyMemory>();
        let (start, block) = match known {
            Some(own) if own.kind.host != HostAccess::Coherent && !reach.includes(own.kind.owner) => {
                return Err("memory of another context".into());
            }
            Some(own) => (own.block.memory.start(), Some(own.block.clone())),
            None => (memory.host_ptr(), None),
        };
        let start = start.ok_or("memory of another backend, without an address")?;
        Ok(Window { start, region, block })
    }

    /// A box of a context's own memory, for native code.
    pub(crate) fn of(memory: &FaultyMemory, region: Region) -> Result<Self, String> {
        match memory.kind.owner {
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
        f.debug_struct("Block").field("bytes", &self.memory.len()).finish_non_exhaustive()
    }
}
