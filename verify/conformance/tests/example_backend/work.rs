//! Commands as the thread keeps and runs them.

use std::any::Any;
use std::ptr;

use windlass_backend::{Arg, BackendError, BufferArg, BuiltKernel, Command, HostMemory, Region};
use windlass_kernel::{Block, Body, Extent, Range, RawSpan, SlotAccess, Word};

use crate::memory::Window;

/// A kernel that was built: there is nothing to do to a body.
pub(crate) struct ExampleKernel {
    pub(crate) body: Body,
}

impl BuiltKernel for ExampleKernel {}

/// A command that owns what it needs, but for the memory that the runtime keeps.
pub(crate) enum Work {
    Copy { from: Window, to: Window },
    Fill { to: Window, pattern: Vec<u8> },
    Kernel { body: Body, range: Range, args: Vec<Bound> },
}

impl Work {
    /// Everything that can be refused is refused here, before the group is handed over.
    pub(crate) fn new(command: Command<'_>) -> Result<Work, BackendError> {
        match command {
            Command::Copy(copy) => {
                let (from, to) = copy.regions()?;
                Ok(Work::Copy { from: Window::new(copy.from, from)?, to: Window::new(copy.to, to)? })
            }
            Command::Fill(fill) => {
                let to = Window::new(fill.memory, fill.region()?)?;
                Ok(Work::Fill { to, pattern: fill.pattern.to_vec() })
            }
            Command::Launch(launch) => {
                let Some(kernel) = (launch.kernel as &dyn Any).downcast_ref::<ExampleKernel>() else {
                    return Err(BackendError::Unsupported("a kernel that another backend built".into()));
                };
                let args = launch.args.iter().map(Bound::new).collect::<Result<_, _>>()?;
                Ok(Work::Kernel { body: kernel.body.clone(), range: launch.range, args })
            }
            other => Err(BackendError::Unsupported(format!("{other:?} on the example device"))),
        }
    }

    pub(crate) fn run(&self) {
        match self {
            Work::Copy { from, to } => {
                for (source, target) in from.rows().zip(to.rows()) {
                    // SAFETY: both rows lie inside allocations that the runtime keeps until the point is passed, and from
                    // which it keeps everybody else whose accesses would matter. They may overlap.
                    unsafe { ptr::copy(source, target, to.region.width) }
                }
            }
            Work::Fill { to, pattern } => {
                for row in to.rows() {
                    for at in (0..to.region.width).step_by(pattern.len()) {
                        // SAFETY: as above; the width is a multiple of the pattern's length.
                        unsafe { ptr::copy_nonoverlapping(pattern.as_ptr(), row.add(at), pattern.len()) }
                    }
                }
            }
            Work::Kernel { body, range, args } => {
                let spans: Vec<RawSpan> = args.iter().map(|arg| arg.span).collect();
                // SAFETY: this is the launch's only block. Each span lies inside an allocation, initialised when it was made,
                // that its argument or, until the point is passed, the runtime keeps. The runtime says the word, the same for
                // all who use the allocation, and keeps away until then who would read what the launch writes, or write
                // what it reads.
                let block = unsafe { Block::new(0..range.items(), *range, &spans) };
                // SAFETY: there is no other block.
                unsafe { body.run(block) }
            }
        }
    }
}

/// A kernel's argument.
pub(crate) struct Bound {
    span: RawSpan,
    /// What the span of a value points to.
    _value: Option<HostMemory>,
}

impl Bound {
    fn new(arg: &Arg<'_>) -> Result<Bound, BackendError> {
        match arg {
            Arg::Buffer(BufferArg { memory, region, element, access, word, .. }) => {
                let window = Window::new(*memory, *region)?;
                // Kernels of grids and of images ask for the box's shape, and find nothing outside it.
                let Some(extent) = region.extent(*element) else {
                    return Err(BackendError::Unsupported(format!("{region:?} of {element}-byte elements")));
                };
                let span = RawSpan::new(window.first(), extent, *element, *word);
                let span = if *access == SlotAccess::Read { span.read_only() } else { span };
                Ok(Bound { span, _value: None })
            }
            Arg::Value(bytes) => {
                let memory = HostMemory::zeroed(bytes.len())?;
                let first = Window::new(&memory, Region::line(0, bytes.len()))?.first();
                // SAFETY: the memory was made for these bytes, and nobody else knows of it.
                unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), first.as_ptr(), bytes.len()) };
                let span = RawSpan::new(first, Extent::line(1), bytes.len(), Word::B1);
                Ok(Bound { span: span.read_only(), _value: Some(memory) })
            }
            other => Err(BackendError::Unsupported(format!("{other:?} on the example device"))),
        }
    }
}
