//! What a node of the engine is to the shell: a group's commands with their places in memory, a step of a transfer, a
//! host accessor.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{Allocation, BackendError, KernelLimits, Region};
use windlass_kernel::{Extent, HostBody, LaunchRange, Range, RawSpan, Slot, SlotAccess, Word};
use windlass_sync::last::is_last;

use super::event::EventInner;
use super::host_side::{GuardCell, HostTaskCommand};
use super::limits::check_kernel;
use super::recorded::Recorded;
use crate::error::Error;
use crate::shell::build::Built;
use windlass_engine::{Mode, RootId, Step, Transfer};

/// See the module documentation.
#[derive(Debug)]
pub(crate) enum Work {
    /// A submitted group: its event carries what it does.
    Group(Arc<EventInner>),
    Transfer(Box<TransferWork>),
    Guard(Arc<GuardCell>),
}

impl Work {
    /// A group's event.
    #[inline]
    pub(crate) fn event(&self) -> Option<&Arc<EventInner>> {
        match self {
            Work::Group(event) => Some(event),
            Work::Transfer(_) | Work::Guard(_) => None,
        }
    }
}

/// A step of a transfer, with its staging memory where it has some.
#[derive(Debug)]
pub(crate) struct TransferWork {
    pub(crate) step: Transfer,
    pub(crate) staging: Option<Arc<dyn Allocation>>,
    /// It was handed over, or made on the host.
    pub(crate) is_made: bool,
}

impl TransferWork {
    /// How many bytes of what was planned it has not moved, now that it has ended. Of the two steps of a staged transfer the first
    /// counts.
    pub(super) fn bytes_not_moved(&self) -> u64 {
        match self.step.step {
            Step::Direct | Step::Download if !self.is_made => self.step.bytes as u64,
            _ => 0,
        }
    }
}

/// A window of a root: which bytes, of what elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) root: RootId,
    /// Of the first element, in bytes.
    pub(crate) offset: usize,
    /// In elements.
    pub(crate) extent: Extent,
    pub(crate) element: u32,
    pub(crate) word: Word,
    /// Its elements are of another type than the root's own.
    pub(crate) is_cast: bool,
    /// Of a root that is an image, how much the window shows.
    pub(crate) image: Option<ImagePart>,
}

/// How much of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImagePart {
    Whole,
    Portion,
}

impl Binding {
    /// How many elements the window shows.
    pub(crate) fn len(&self) -> usize {
        self.extent.size.iter().product()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.extent.size.contains(&0)
    }

    /// The bytes.
    pub(crate) fn region(&self) -> Region {
        window_region(self.offset, &self.extent, self.element as usize)
    }

    /// Whether its elements do not follow each other: of a buffer, and there are some.
    pub(crate) fn has_gaps(&self) -> bool {
        self.image.is_none() && !self.is_empty() && !self.region().is_contiguous()
    }

    /// Whether two windows show the same elements in the same way.
    pub(crate) fn is_same(&self, other: &Binding) -> bool {
        let key = |window: &Binding| (window.root, window.offset, window.extent, window.element);
        key(self) == key(other)
    }

    /// Whether two windows of one root share a byte.
    pub(crate) fn overlaps(&self, other: &Binding) -> bool {
        if self.root != other.root || self.is_empty() || other.is_empty() {
            return false;
        }
        share_a_byte(&self.region(), &other.region())
    }

    /// The window in host memory.
    pub(crate) fn span(&self, memory: &dyn Allocation) -> Option<RawSpan> {
        window_span(memory, self.offset, self.extent, self.element as usize, self.word)
    }
}

/// Whether two boxes of one memory, neither of them empty, share a byte. The rows of each lie in order, and none over another, as
/// those of windows do: so it takes as many steps as there are rows.
pub(crate) fn share_a_byte(a: &Region, b: &Region) -> bool {
    if a.end() <= b.offset || b.end() <= a.offset {
        return false;
    }
    if a.is_contiguous() && b.is_contiguous() {
        return true;
    }
    let (mut xs, mut ys) = (a.row_offsets(), b.row_offsets());
    let (mut x, mut y) = (xs.next(), ys.next());
    while let (Some(of_a), Some(of_b)) = (x, y) {
        if of_a + a.width <= of_b {
            x = xs.next();
        } else if of_b + b.width <= of_a {
            y = ys.next();
        } else {
            return true;
        }
    }
    false
}

/// The bytes of a window.
pub(crate) fn window_region(offset: usize, extent: &Extent, element: usize) -> Region {
    let Extent { size: [slices, rows, row], pitch: [slice_pitch, row_pitch] } = *extent;
    Region {
        offset,
        width: row * element,
        rows,
        slices,
        row_pitch: row_pitch * element,
        slice_pitch: slice_pitch * element,
    }
}

/// A window in its root's host memory; `None` where the host cannot reach it.
///
/// What makes it fit to be lent: the window was checked against its root's size, which the allocation has at least. The allocation
/// lives until its user has ended: a node of the engine, or a host accessor of a buffer without a runtime. Conflicting users
/// are kept apart by the engine, or by the accessor's buffer, and all of them use the root's one word. Host memory is aligned
/// for every word that a root can have: fresh memory by more than a word, a backend's as [`Allocation`] demands, a vector's by
/// its element's own alignment, from which the word was taken.
pub(crate) fn window_span(
    memory: &dyn Allocation,
    offset: usize,
    extent: Extent,
    element: usize,
    word: Word,
) -> Option<RawSpan> {
    let start = memory.host_ptr()?;
    assert!(
        window_region(offset, &extent, element).end() <= memory.bytes(),
        "a window lies inside its memory"
    );
    // SAFETY: the offset is inside the allocation, as was just asserted.
    let start = unsafe { start.add(offset) };
    Some(RawSpan::new(start, extent, element, word))
}

/// An argument of a kernel, as its call was given it. What a window is to the kernel, a buffer, a pointer or an image, is said by
/// the slot that it stands in.
#[derive(Clone)]
pub(crate) enum KernelArg {
    /// An accessor, with how it was required. One whose requirement was refused has no window; the group reports why.
    Window(Option<Binding>, Mode),
    Value(SmallVec<[u8; 16]>),
    Local(usize),
    /// Memory of the caller's, for `run_here`: the next in the call's list. No launch takes it.
    Here,
}

impl KernelArg {
    /// The window that it shows, and how the kernel uses that through this slot.
    pub(crate) fn window(&self, slot: &Slot) -> Option<(&Binding, SlotAccess)> {
        let KernelArg::Window(Some(binding), mode) = self else { return None };
        let access = match slot {
            Slot::Buffer(access) => *access,
            _ if mode.writes() => SlotAccess::ReadWrite,
            _ => SlotAccess::Read,
        };
        Some((binding, access))
    }
}

impl fmt::Debug for KernelArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KernelArg::Window(..) => f.write_str("an accessor"),
            KernelArg::Value(bytes) => write!(f, "a value of {} bytes", bytes.len()),
            KernelArg::Local(bytes) => write!(f, "{bytes} bytes of local memory"),
            KernelArg::Here => f.write_str("memory of the caller's"),
        }
    }
}

/// A command of a group before it meets its memory.
pub(crate) enum Planned<'g> {
    /// Taken when it is fed.
    Host(Option<Box<dyn PlannedBody + 'g>>),
    Device(DeviceCommand),
    Replay(Arc<Recorded>),
    /// Taken when it is fed.
    Native(Option<Box<dyn PlannedNative + 'g>>),
    HostTask(Box<HostTaskCommand<'g>>),
}

impl Planned<'_> {
    /// How many native commands it comes to.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Planned::Replay(recorded) => recorded.weight(),
            _ => 1,
        }
    }

    /// What a trace calls it.
    pub(crate) fn described(&self) -> Box<str> {
        match self {
            Planned::Device(DeviceCommand::Kernel(kernel)) => kernel.built.name().into(),
            Planned::Device(DeviceCommand::Copy(_)) => "copy".into(),
            Planned::Device(DeviceCommand::Fill(_)) => "fill".into(),
            Planned::Host(_) => "host code".into(),
            Planned::Replay(recorded) => format!("{} recorded commands", recorded.weight()).into(),
            Planned::Native(_) => "native code".into(),
            Planned::HostTask(_) => "host task".into(),
        }
    }
}

/// A command that any device may take, and that may be run again.
#[derive(Clone, Debug)]
pub(crate) enum DeviceCommand {
    Kernel(PlannedKernel),
    Copy(Box<PlannedCopy>),
    Fill(Box<PlannedFill>),
}

/// A host body that knows its range and its memory.
pub(crate) trait PlannedBody: HostBody {
    fn range(&self) -> Range;
    fn windows(&self) -> &[Binding];
}

/// Code of the program that calls a native API, once it is known which memory it may use. Never panics.
pub(crate) trait PlannedNative: Send {
    /// See [`NativeCode::call`](windlass_backend::NativeCode::call); the memory is that of these roots, in their order.
    fn call(
        self: Box<Self>,
        roots: &[RootId],
        place: &mut dyn Any,
        memory: &[&dyn Allocation],
    ) -> Result<(), BackendError>;
}

/// A kernel and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct PlannedKernel {
    pub(crate) built: Arc<Built>,
    pub(crate) launch: Box<KernelLaunch>,
}

/// What a kernel is launched with. It is large, and so stays where the call was made until its group has ended.
#[derive(Clone, Debug)]
pub(crate) struct KernelLaunch {
    /// Known once the call is planned.
    pub(crate) range: Range,
    pub(crate) args: SmallVec<[KernelArg; 4]>,
    /// Windows that it uses beside them, by addresses.
    pub(crate) reached: Vec<(Binding, SlotAccess)>,
    /// Bytes of local memory that its arguments ask for.
    pub(crate) local_memory: usize,
}

impl KernelLaunch {
    /// One without arguments.
    pub(crate) fn new() -> Self {
        KernelLaunch { range: 0.range(), args: SmallVec::new(), reached: Vec::new(), local_memory: 0 }
    }
}

impl PlannedKernel {
    /// The arguments, each with its slot.
    pub(crate) fn slotted(&self) -> impl Iterator<Item = (&KernelArg, &Slot)> {
        self.launch.args.iter().zip(self.built.slots())
    }

    /// Refuses what the kernel does not take as it was built.
    pub(crate) fn check(&self, limits: KernelLimits) -> Result<(), Error> {
        check_kernel(self.built.name(), limits, &self.launch.range, self.launch.local_memory)
    }
}

/// A copy between windows of one shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlannedCopy {
    pub(crate) from: Binding,
    pub(crate) to: Binding,
}

/// A window filled with a pattern.
#[derive(Clone, Debug)]
pub(crate) struct PlannedFill {
    pub(crate) to: Binding,
    pub(crate) pattern: SmallVec<[u8; 16]>,
}

impl fmt::Debug for Planned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Planned::Host(_) => "Host",
            Planned::Device(DeviceCommand::Kernel(_)) => "Kernel",
            Planned::Device(DeviceCommand::Copy(_)) => "Copy",
            Planned::Device(DeviceCommand::Fill(_)) => "Fill",
            Planned::Replay(_) => "Replay",
            Planned::Native(_) => "Native",
            Planned::HostTask(_) => "HostTask",
        })
    }
}

/// Clears a box of memory that the host reaches. No buffer has it yet, and no command uses it: it has just been made, or was kept for
/// a buffer to come.
pub(super) fn zero(memory: &dyn Allocation, region: &Region) {
    let Some(start) = memory.host_ptr() else { return };
    assert!(region.end() <= memory.bytes(), "what is cleared lies inside its memory");
    for row in region.row_offsets() {
        // SAFETY: an allocation with a host address has that many bytes there, which may be written, and no row ends behind its
        // region, which ends inside. The callers, `Place::allocate`, `memory.rs`, `heap.rs` and `allocator.rs`, have it before its root does, so that no node
        // of the engine and no guard uses it.
        unsafe { std::ptr::write_bytes(start.add(row).as_ptr(), 0, region.width) }
    }
}

/// Writes bytes to memory that the host reaches and that nobody else has.
pub(super) fn put(memory: &mut Arc<dyn Allocation>, at: usize, bytes: &[u8]) {
    assert!(is_last(memory), "no buffer and no command has it");
    let start = memory.host_ptr().expect("memory that the host reaches");
    assert!(at + bytes.len() <= memory.bytes(), "what is written lies inside its memory");
    // SAFETY: an allocation with a host address has that many bytes there, which may be written. This is the only reference to it (the weak
    // ones of `Loans` never become more), so that nobody reads or writes it meanwhile, and no slice of it is `bytes`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(at).as_ptr(), bytes.len()) }
}

/// Copies a box from one host memory to another; `None` if either is out of the host's reach, or smaller than its box.
pub(crate) fn copy_on_host(
    (from, from_region): (&dyn Allocation, Region),
    (to, to_region): (&dyn Allocation, Region),
) -> Option<()> {
    let size = |r: &Region| (r.width, r.rows, r.slices);
    let inside = from_region.end() <= from.bytes() && to_region.end() <= to.bytes();
    if !inside || size(&from_region) != size(&to_region) {
        return None;
    }
    let (source, target) = (from.host_ptr()?, to.host_ptr()?);
    for (at, to) in from_region.row_offsets().zip(to_region.row_offsets()) {
        // SAFETY: no row ends behind its region, and both regions end inside their allocations, which the caller
        // borrows. The engine lets nobody write the one or touch the other meanwhile: this is a node of its own, or one of the parts
        // that it was cut into, which have no byte in common.
        unsafe {
            std::ptr::copy(source.add(at).as_ptr(), target.add(to).as_ptr(), from_region.width);
        }
    }
    Some(())
}

/// The view of a window without a byte.
pub(crate) fn empty_span(binding: &Binding) -> RawSpan {
    let start = std::ptr::NonNull::<u64>::dangling().cast();
    RawSpan::new(start, Extent::line(0), binding.element as usize, binding.word)
}
