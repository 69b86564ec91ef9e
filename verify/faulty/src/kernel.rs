//! Commands as a lane keeps them, and how they run.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{
    Arg, BackendError, BufferArg, BuiltKernel, Command, CopyBox, Fill, HostLaunch, HostMemory, ImageArg,
    KernelLimits, Launch, Part, Region, Texels,
};
use windlass_kernel::{Block, Body, Extent, Range, RawSpan, SlotAccess, Word};

use crate::machine::{Shared, Uses};
use crate::memory::Block as Memory;
use crate::native::{Enqueued, Place};
use crate::sequence::FaultySequence;
use crate::window::{Reach, Window};

/// A kernel as a context built it.
pub(crate) struct FaultyKernel {
    pub(crate) name: String,
    pub(crate) body: Body,
    pub(crate) limits: KernelLimits,
    pub(crate) context: usize,
    pub(crate) shared: Arc<Shared>,
}

impl BuiltKernel for FaultyKernel {
    fn limits(&self) -> KernelLimits {
        self.limits
    }
}

impl Drop for FaultyKernel {
    fn drop(&mut self) {
        let mut machine = self.shared.lock();
        machine.called();
        machine.may_block();
        machine.audit.kernels -= 1;
    }
}

/// Why a command is not taken.
pub(crate) enum Refused {
    /// The runtime has broken the contract.
    Breach(String),
    Error(BackendError),
}

impl From<String> for Refused {
    fn from(what: String) -> Self {
        Refused::Breach(what)
    }
}

/// A command that is ready to run.
pub(crate) enum Job {
    Kernel {
        body: Body,
        range: Range,
        args: Vec<Bound>,
    },
    Host(Box<HostLaunch>),
    Copy(Box<CopyJob>),
    Fill {
        to: Window,
        pattern: SmallVec<[u8; 16]>,
    },
    /// Memory goes to the host, or comes back.
    ChangeHands {
        block: Arc<Memory>,
        to_host: bool,
    },
    Replay(Arc<FaultySequence>),
    /// What native code of the program has put here.
    Native(Vec<Enqueued>),
}

pub(crate) struct CopyJob {
    from: Window,
    to: Window,
}

/// A kernel's argument with its memory.
pub(crate) struct Bound {
    window: Window,
    element: usize,
    word: Word,
    writes: bool,
    /// What a pointer points to.
    target: Option<Window>,
    /// A value's own memory.
    _value: Option<HostMemory>,
}

impl Job {
    pub(crate) fn new(command: Command<'_>, reach: Reach<'_>, uses: &mut Uses) -> Result<Self, Refused> {
        let job = match command {
            Command::Launch(launch) => kernel(&launch, reach.alone())?,
            Command::Host(launch) => Job::Host(Box::new(launch)),
            Command::Copy(copy) => Job::Copy(Box::new(copy_job(&copy, reach)?)),
            Command::Fill(Fill { memory, part, pattern, .. }) => {
                let to = Window::new(memory, part, reach.alone())?;
                if pattern.is_empty() || !to.region.width.is_multiple_of(pattern.len()) {
                    return Err(format!("a fill of {part:?} by a pattern of {}", pattern.len()).into());
                }
                Job::Fill { to, pattern: SmallVec::from_slice(pattern) }
            }
            Command::Map(memory) | Command::Unmap(memory) => {
                let whole = Window::new(memory, Region::line(0, memory.bytes()), reach.alone())?;
                let block = whole.block.ok_or_else(|| "memory of others was to change hands".to_owned())?;
                uses.push(block.clone());
                Job::ChangeHands { block, to_host: matches!(command, Command::Map(_)) }
            }
            Command::Replay(sequence) => Job::Replay(FaultySequence::of(sequence)?),
            Command::Native(call) => {
                let mut place = Place::default();
                call.call(&mut place).map_err(Refused::Error)?;
                Job::Native(place.enqueued)
            }
            other => {
                return Err(Refused::Error(BackendError::Unsupported(format!(
                    "{other:?} on a scripted device"
                ))));
            }
        };
        if let Job::Replay(sequence) = &job {
            if sequence.context != reach.context {
                return Err("a sequence that another context recorded".to_owned().into());
            }
            uses.extend(sequence.uses().iter().cloned());
        }
        uses.extend(job.windows().filter_map(|w| w.block.clone()));
        Ok(job)
    }

    /// The windows that it writes.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Window> {
        let list: SmallVec<[&Window; 4]> = match self {
            Job::Kernel { args, .. } => args.iter().filter(|a| a.writes).map(Bound::shown).collect(),
            Job::Copy(copy) => SmallVec::from_iter([&copy.to]),
            Job::Fill { to, .. } => SmallVec::from_iter([to]),
            Job::Host(_) | Job::Replay(_) | Job::Native(_) | Job::ChangeHands { .. } => SmallVec::new(),
        };
        list.into_iter()
    }

    pub(crate) fn windows(&self) -> impl Iterator<Item = &Window> {
        let list: SmallVec<[&Window; 4]> = match self {
            Job::Kernel { args, .. } => args.iter().map(Bound::shown).collect(),
            Job::Host(_) | Job::Replay(_) | Job::Native(_) | Job::ChangeHands { .. } => SmallVec::new(),
            Job::Copy(copy) => SmallVec::from_iter([&copy.from, &copy.to]),
            Job::Fill { to, .. } => SmallVec::from_iter([to]),
        };
        list.into_iter()
    }

    pub(crate) fn run(&self) {
        match self {
            Job::Kernel { body, range, args } => {
                let spans: SmallVec<[RawSpan; 4]> = args.iter().map(Bound::span).collect();
                // SAFETY: this is the launch's only block. Each window lies in one allocation, which is kept by its
                // block, by its argument or by the runtime until the point is passed, and was initialised when it was
                // made. Its word is the same for everybody, and conflicting groups are kept away until the point is
                // passed: the runtime's promise. A value has memory of its own.
                let block = unsafe { Block::new(0..range.items(), *range, &spans) };
                // SAFETY: as above, there is no other block.
                unsafe { body.run(block) };
            }
            Job::Host(launch) => {
                let HostLaunch { code, range, spans, .. } = &**launch;
                // SAFETY: as above.
                let block = unsafe { Block::new(0..range.items(), *range, spans) };
                // SAFETY: as above.
                unsafe { code.run(block) };
            }
            Job::Copy(copy) => copy.to.copy_from(&copy.from),
            Job::Fill { to, pattern } => to.fill(pattern),
            Job::ChangeHands { block, to_host } => {
                if let Err(what) = block.change_hands(*to_host) {
                    panic!("{what}");
                }
            }
            Job::Replay(sequence) => sequence.jobs().for_each(Job::run),
            Job::Native(enqueued) => enqueued.iter().for_each(|job| job()),
        }
    }

    /// What a command that fails leaves behind: rubbish, wherever it might have written.
    pub(crate) fn spoil(&self) {
        const RUBBISH: &[u8] = &[0xa5];
        self.written().for_each(|window| window.fill(RUBBISH));
        match self {
            Job::Replay(sequence) => sequence.jobs().for_each(Job::spoil),
            Job::ChangeHands { block, .. } => block.stay_with_nobody(),
            _ => {}
        }
    }

    /// What is wrong with a command of which the host has memory.
    pub(crate) fn is_in_hosts_way(&self) -> Option<&'static str> {
        let with_host = |window: &Window| window.block.as_ref().is_some_and(|block| block.is_with_host());
        let in_way = match self {
            Job::Replay(sequence) => sequence.uses().iter().any(|block| block.is_with_host()),
            job => job.windows().any(with_host),
        };
        in_way.then_some("a command uses memory that the host has")
    }

    pub(crate) fn bytes_copied(&self) -> u64 {
        match self {
            Job::Copy(copy) => copy.to.region.bytes() as u64,
            Job::Replay(sequence) => sequence.jobs().map(Job::bytes_copied).sum(),
            _ => 0,
        }
    }
}

impl Job {
    pub(crate) fn bytes_filled(&self) -> u64 {
        match self {
            Job::Fill { to, .. } => to.region.bytes() as u64,
            Job::Replay(sequence) => sequence.jobs().map(Job::bytes_filled).sum(),
            _ => 0,
        }
    }
}

/// The names of the kernels that a command launches.
pub(crate) fn names_of<'a>(command: &'a Command<'_>) -> SmallVec<[&'a str; 1]> {
    match command {
        Command::Launch(launch) => {
            let kernel = (launch.kernel as &dyn Any).downcast_ref::<FaultyKernel>();
            kernel.map(|kernel| kernel.name.as_str()).into_iter().collect()
        }
        Command::Replay(sequence) => {
            let sequence = (&**sequence as &dyn Any).downcast_ref::<FaultySequence>();
            sequence.into_iter().flat_map(FaultySequence::kernels).collect()
        }
        _ => SmallVec::new(),
    }
}

fn copy_job(copy: &CopyBox<'_>, reach: Reach<'_>) -> Result<CopyJob, Refused> {
    let from = Window::new(copy.from, copy.from_part, reach)?;
    let to = Window::new(copy.to, copy.to_part, reach)?;
    let (a, b) = (&from.region, &to.region);
    if (a.width, a.rows, a.slices) != (b.width, b.rows, b.slices) {
        return Err(format!("a copy from {a:?} to {b:?}").into());
    }
    Ok(CopyJob { from, to })
}

fn kernel(launch: &Launch<'_>, reach: Reach<'_>) -> Result<Job, Refused> {
    let Some(kernel) = (launch.kernel as &dyn Any).downcast_ref::<FaultyKernel>() else {
        return Err("a kernel that another backend built".to_owned().into());
    };
    if kernel.context != reach.context {
        return Err("a kernel that another context built".to_owned().into());
    }
    if launch.range.items() == 0 {
        return Err("a launch of no work-items".to_owned().into());
    }
    if launch.reached.iter().any(|reached| reached.memory.device_address().is_none()) {
        return Err("memory without an address that a kernel reaches by it".to_owned().into());
    }
    // Code that follows pointers has what they lead to behind its arguments.
    let lent = if kernel.body.follows_pointers() { launch.reached } else { &[] };
    let all = launch.args.iter().copied().chain(lent.iter().copied().map(Arg::Buffer));
    let args = all.map(|arg| bind(&arg, reach)).collect::<Result<_, Refused>>()?;
    Ok(Job::Kernel { body: kernel.body.clone(), range: launch.range, args })
}

fn bind(arg: &Arg<'_>, reach: Reach<'_>) -> Result<Bound, Refused> {
    match arg {
        Arg::Buffer(BufferArg { memory, region, element, word, access, .. }) => {
            if *element == 0 || !region.width.is_multiple_of(*element) {
                return Err(format!("{region:?} as an argument of elements of {element} bytes").into());
            }
            let window = Window::new(*memory, *region, reach)?;
            let writes = *access == SlotAccess::ReadWrite;
            Ok(Bound { window, element: *element, word: *word, writes, target: None, _value: None })
        }
        Arg::Pointer(BufferArg { memory, region, access, .. }) => {
            let address = memory.device_address();
            let address = address.ok_or_else(|| "a pointer to memory without an address".to_owned())?;
            let target = Window::new(*memory, *region, reach)?;
            let writes = *access == SlotAccess::ReadWrite;
            let bytes = (address + region.offset as u64).to_ne_bytes();
            Ok(Bound { target: Some(target), writes, ..value(&bytes, reach)? })
        }
        Arg::Image(ImageArg { memory, access, .. }) => {
            let shape = memory.image().ok_or_else(|| "no image as an image".to_owned())?;
            let all = Part::Texels(Texels { origin: [0; 3], size: shape.size });
            let window = Window::new(*memory, all, reach)?;
            let (element, writes) = (shape.format.bytes(), *access == SlotAccess::ReadWrite);
            Ok(Bound { window, element, word: Word::B4, writes, target: None, _value: None })
        }
        Arg::Value(bytes) => value(bytes, reach),
        // One for the whole launch: scripted devices run one work-item after the other.
        Arg::Local(bytes) => {
            let memory = HostMemory::zeroed((*bytes).max(1)).map_err(Refused::Error)?;
            let window = Window::new(&memory, Region::line(0, *bytes), reach)?;
            Ok(Bound { window, element: 1, word: Word::B1, writes: true, target: None, _value: Some(memory) })
        }
        other => Err(Refused::Error(BackendError::Unsupported(format!("{other:?} on a scripted device")))),
    }
}

fn value(bytes: &[u8], reach: Reach<'_>) -> Result<Bound, Refused> {
    let len = bytes.len().max(1);
    let memory = HostMemory::zeroed(len).map_err(Refused::Error)?;
    let window = Window::new(&memory, Region::line(0, len), reach)?;
    window.fill(bytes);
    Ok(Bound { window, element: len, word: Word::B1, writes: false, target: None, _value: Some(memory) })
}

impl Bound {
    /// The memory that the kernel uses by it.
    fn shown(&self) -> &Window {
        self.target.as_ref().unwrap_or(&self.window)
    }

    fn first(&self) -> NonNull<u8> {
        self.window.first()
    }

    fn span(&self) -> RawSpan {
        let Region { width, rows, slices, row_pitch, slice_pitch, .. } = self.window.region;
        let size = [slices, rows, width / self.element];
        let extent = Extent { size, pitch: [slice_pitch / self.element, row_pitch / self.element] };
        let span = RawSpan::new(self.first(), extent, self.element, self.word);
        if self.writes { span } else { span.read_only() }
    }
}
