//! Kernels: OpenCL C text, and how its parameters follow from a kernel's slots.
//!
//! # The calling convention
//!
//! The parameters of the `__kernel` function stand in the order of the slots:
//!
//! - A [`Slot::Buffer`] or [`Slot::Constant`] takes **three** parameters: `__global T *base` (`__constant T *base`),
//!   `ulong offset`, `ulong len`. The elements are `base[offset]` to `base[offset + len - 1]`, both numbers counting
//!   elements. An offset beside the buffer, instead of a sub-buffer, leaves ranges free to start anywhere: OpenCL's
//!   sub-buffers start at multiples of up to 512 bytes. The kernel sees a gapless run; a box with gaps is refused.
//! - A [`Slot::Value`] takes one parameter of that size.
//! - A [`Slot::Local`] takes one parameter, `__local T *`.
//!
//! OpenCL's dimension 0 varies fastest, as the range's *last* dimension does: over `[rows, columns]`,
//! `get_global_id(0)` is the column and `get_global_id(1)` the row.
//!
//! ```c
//! __kernel void scale(__global float *v, ulong v_at, ulong v_len, float factor) {
//!     size_t i = get_global_id(0);
//!     if (i < v_len) v[v_at + i] *= factor;
//! }
//! ```
//!
//! The text is compiled without options, that is, as OpenCL C 1.2.
//!
//! Kernels in WGSL are translated, and follow another convention: see [`crate::translated`]; those with fences are compiled as the
//! first version that has them. An image whose parameters were
//! described takes those, and so does a kernel that the device has built in: see [`crate::described`].

use std::any::Any;
use std::ffi::{CStr, CString};
use std::sync::Arc;

use opencl3::device::{CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION};
use smallvec::SmallVec;
use windlass_backend::{Arg, BackendError, BuiltKernel, KernelLimits, Launch, Region};
use windlass_kernel::{ImageFormat, Kernel, KernelImage, Parameter, Range, Slot};
use windlass_kernel_translate::{Cache, dump};
use windlass_sync::facade::{Mutex, lock};

use crate::described;
use crate::device::version;
use crate::feeding::Feeding;
use crate::memory::Memory;
use crate::sys::{self, Context, DeviceId, Program, Result};
use crate::translated::{self, Calling};

/// A kernel for one device of a context.
#[derive(Debug)]
pub(crate) struct Built {
    /// Locked from the first argument to the enqueueing, since the native kernel holds the arguments and two lanes
    /// may launch it at once. The sink does not need this lock, so a driver that calls back meanwhile does no harm.
    kernel: Mutex<sys::Kernel>,
    name: String,
    slots: Box<[Slot]>,
    calling: How,
    /// How many work-items of this kernel fit one work-group.
    work_group_items: usize,
    context: Arc<Context>,
    device: usize,
}

impl BuiltKernel for Built {
    fn limits(&self) -> KernelLimits {
        KernelLimits::new(self.work_group_items, usize::MAX)
    }
}

/// How a kernel's parameters follow from its slots.
#[derive(Debug)]
enum How {
    /// By the convention of texts in OpenCL C.
    Convention,
    Translated(Calling),
    Described(Box<[Parameter]>),
}

impl Built {
    /// Compiles an image for the device at this position. Blocks for as long as the compiler takes.
    pub(crate) fn new(
        context: &Arc<Context>,
        (device, id): (usize, DeviceId),
        kernel: &Kernel,
        image: &KernelImage,
    ) -> std::result::Result<Self, BackendError> {
        match image.format() {
            ImageFormat::OpenClC | ImageFormat::Builtin => {
                let (parameters, how) = match described::parameters(kernel, image)? {
                    Some(described) => (described.len(), How::Described(described)),
                    None => (parameters(kernel.slots())?, How::Convention),
                };
                let source = (image.format() == ImageFormat::OpenClC).then(|| image.source());
                let code = Code { source, entry: image.entry(), options: c"" };
                Self::compile(context, (device, id), kernel, code, parameters, how)
            }
            ImageFormat::Wgsl => {
                let (text, calling) = translated::read(kernel, image)?;
                let options = if text.fences { language_with_fences(id) } else { c"" };
                let code = Code { source: Some(&text.source), entry: &text.entry, options };
                Self::compile(
                    context,
                    (device, id),
                    kernel,
                    code,
                    text.params.len(),
                    How::Translated(calling),
                )
            }
            other => unsupported(format!("a {other:?} image on an OpenCL device")),
        }
    }

    fn compile(
        context: &Arc<Context>,
        (device, id): (usize, DeviceId),
        kernel: &Kernel,
        Code { source, entry, options }: Code<'_>,
        parameters: usize,
        calling: How,
    ) -> std::result::Result<Self, BackendError> {
        let failed = |log: String| BackendError::Build { kernel: kernel.name().into(), log };
        let name = CString::new(entry)
            .map_err(|_| failed(format!("`{}` is no name of a kernel", entry.escape_debug())))?;
        // Without a text it is one that the device has built in.
        let program = match source {
            None => {
                let program = context.program_of_builtins(id, &name).map_err(|failure| {
                    let why = BackendError::from(failure);
                    failed(format!("{} has no built-in kernel `{entry}`: {why}", id.text(CL_DEVICE_NAME)))
                })?;
                // PoCL (3.1) wants it built; others may refuse to build what is built.
                let _ = program.build(id, c"");
                program
            }
            Some(source) => {
                dump(kernel.name(), &id.text(CL_DEVICE_NAME), "cl", source);
                built(context, id, source, options).map_err(|error| match error {
                    Unbuilt::Refused(log) => failed(log),
                    Unbuilt::Failed(failure) => failure.into(),
                })?
            }
        };
        let native = program
            .kernel(&name)
            .map_err(|f| failed(format!("no kernel `{entry}`: {}", log(&program, id, f))))?;
        let found = native.arguments()?;
        if found != parameters {
            let slots = kernel.slots();
            return Err(failed(format!(
                "it takes {found} parameters, but {slots:?} make {parameters}: a buffer is three of them, its start, an \
                 offset and a length; say what they are with `KernelImage::with_parameters`"
            )));
        }
        Ok(Built {
            work_group_items: native.work_group_items(id)?,
            kernel: Mutex::new(native),
            name: kernel.name().into(),
            slots: kernel.slots().into(),
            calling,
            context: Arc::clone(context),
            device,
        })
    }
}

/// What is compiled: a text, or nothing for what the device has built in.
struct Code<'a> {
    source: Option<&'a str>,
    entry: &'a str,
    options: &'static CStr,
}

/// The language's version that has the fences of OpenCL C 2.0, on a device that said it has them.
fn language_with_fences(id: DeviceId) -> &'static CStr {
    match version(&id.text(CL_DEVICE_VERSION)) {
        (3.., _) => c"-cl-std=CL3.0",
        _ => c"-cl-std=CL2.0",
    }
}

/// Why there is no program.
enum Unbuilt {
    /// The compiler does not take the text.
    Refused(String),
    Failed(sys::Failure),
}

/// A text, built for a device: as it was kept by an earlier process, if there is a cache, or by the compiler.
fn built(
    context: &Context,
    id: DeviceId,
    source: &str,
    options: &CStr,
) -> std::result::Result<Program, Unbuilt> {
    let cache = Cache::named();
    let about =
        [CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION].map(|what| id.text(what));
    let language = options.to_str().unwrap_or_default();
    let key = [&["opencl", source, language][..], &about.each_ref().map(String::as_str)].concat();
    if let Some(code) = cache.as_ref().and_then(|cache| cache.get(&key)) {
        let program =
            context.program_of(id, &code).and_then(|program| program.build(id, options).map(|()| program));
        match program {
            Ok(program) => return Ok(program),
            Err(failure) => {
                let error = BackendError::from(failure);
                tracing::warn!(%error, "the driver refuses what it made before; the kernel is compiled anew");
            }
        }
    }
    let program = context.program(source).map_err(Unbuilt::Failed)?;
    program.build(id, options).map_err(|failure| Unbuilt::Refused(log(&program, id, failure)))?;
    if let Some(cache) = cache
        && let Some(code) = program.code(id)
    {
        cache.put(&key, &code);
    }
    Ok(program)
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> std::result::Result<T, BackendError> {
    Err(BackendError::Unsupported(what.into()))
}

/// How many parameters the slots make.
fn parameters(slots: &[Slot]) -> std::result::Result<usize, BackendError> {
    let of = |slot: &Slot| match slot {
        Slot::Buffer(_) | Slot::Constant => Ok(3),
        Slot::Value(_) | Slot::Local(_) => Ok(1),
        other => Err(BackendError::Unsupported(format!("a kernel with {other:?} on an OpenCL device"))),
    };
    slots.iter().map(of).sum()
}

/// What the compiler said; the failed call, where it said nothing.
fn log(program: &Program, device: DeviceId, failure: sys::Failure) -> String {
    let log = program.log(device);
    if log.is_empty() { BackendError::from(failure).to_string() } else { log }
}

/// A checked launch.
pub(crate) struct Launching<'a> {
    built: &'a Built,
    args: Vec<Bound<'a>>,
    /// Extents innermost first, as OpenCL has them.
    global: SmallVec<[usize; 3]>,
    local: Option<SmallVec<[usize; 3]>>,
}

/// An argument as the native calls take it.
pub(crate) enum Bound<'a> {
    Buffer {
        memory: &'a Memory,
        offset: u64,
        len: u64,
    },
    /// A buffer's start alone.
    Memory(&'a Memory),
    Value(SmallVec<[u8; 16]>),
    Local(usize),
}

impl<'a> Launching<'a> {
    pub(crate) fn plan(
        context: &Arc<Context>,
        device: usize,
        launch: &Launch<'a>,
    ) -> std::result::Result<Self, BackendError> {
        let kernel: &dyn Any = launch.kernel;
        let Some(built) = kernel.downcast_ref::<Built>() else {
            return unsupported("a kernel that another backend built");
        };
        if !Arc::ptr_eq(&built.context, context) || built.device != device {
            return unsupported("a kernel that was built for another OpenCL device");
        }
        assert_eq!(
            launch.args.len(),
            built.slots.len(),
            "kernel `{}` got other arguments than slots",
            built.name
        );
        let bind = |(slot, arg)| bind(context, &built.name, slot, arg);
        let args =
            built.slots.iter().zip(launch.args).map(bind).collect::<std::result::Result<Vec<_>, _>>()?;
        let args = match &built.calling {
            How::Translated(calling) => {
                let (args, [global, local]) = calling.plan(&built.name, launch, args)?;
                let line = |items| SmallVec::from_iter([items]);
                return Ok(Launching { built, args, global: line(global), local: Some(line(local)) });
            }
            How::Described(described) => described::arrange(&built.name, described, launch.range, &args)?,
            How::Convention => args,
        };
        let local = launch.range.local().map(|local| innermost_first(&launch.range, local));
        if let Some(local) = &local
            && local.iter().product::<usize>() > built.work_group_items
        {
            let (name, most) = (&built.name, built.work_group_items);
            let what =
                format!("a work-group of {local:?} for kernel `{name}`, which takes {most} work-items");
            return Err(BackendError::Unsupported(what));
        }
        let global = innermost_first(&launch.range, launch.range.extent());
        Ok(Launching { built, args, global, local })
    }

    pub(crate) fn enqueue(&self, feeding: &mut Feeding<'_>) -> Result<()> {
        feeding.enqueue(|queue, waits| {
            let mut kernel = lock(&self.built.kernel);
            let mut at = 0;
            self.args.iter().try_for_each(|arg| arg.set(&mut kernel, &mut at))?;
            // SAFETY: whoever made the image promised (`KernelImage::opencl_c`) that the kernel stays inside the
            // memory of its arguments, which `bind` checked against their allocations.
            unsafe { queue.launch(&kernel, &self.global, self.local.as_deref(), waits) }
        })
    }
}

impl<'a> Bound<'a> {
    /// The memory of a buffer argument.
    pub(crate) fn memory(&self) -> Option<&'a Memory> {
        match self {
            Bound::Buffer { memory, .. } | Bound::Memory(memory) => Some(memory),
            Bound::Value(_) | Bound::Local(_) => None,
        }
    }

    /// Sets the argument's parameters, the first of which is number `at`, and moves on.
    fn set(&self, kernel: &mut sys::Kernel, at: &mut usize) -> Result<()> {
        let first = *at;
        match self {
            Bound::Buffer { memory, offset, len } => {
                *at += 3;
                kernel.set_buffer(first, memory.buffer())?;
                kernel.set_value(first + 1, &offset.to_ne_bytes())?;
                kernel.set_value(first + 2, &len.to_ne_bytes())
            }
            Bound::Memory(memory) => {
                *at += 1;
                kernel.set_buffer(first, memory.buffer())
            }
            Bound::Value(bytes) => {
                *at += 1;
                kernel.set_value(first, bytes)
            }
            Bound::Local(bytes) => {
                *at += 1;
                kernel.set_local(first, *bytes)
            }
        }
    }
}

fn bind<'a>(
    context: &Arc<Context>,
    kernel: &str,
    slot: &Slot,
    arg: &Arg<'a>,
) -> std::result::Result<Bound<'a>, BackendError> {
    match (slot, *arg) {
        (Slot::Buffer(_) | Slot::Constant, Arg::Buffer(arg)) => {
            let (offset, len) = elements(&arg.region, arg.memory.bytes(), arg.element)?;
            match Memory::of(arg.memory, context)? {
                Some(memory) => Ok(Bound::Buffer { memory, offset, len }),
                None => Err(BackendError::Unsupported("a kernel on memory that is not OpenCL's".into())),
            }
        }
        (Slot::Value(size), Arg::Value(bytes)) if bytes.len() == *size => {
            Ok(Bound::Value(SmallVec::from_slice(bytes)))
        }
        (Slot::Local(_), Arg::Local(bytes)) => Ok(Bound::Local(bytes)),
        (slot, arg) => {
            Err(BackendError::Unsupported(format!("{arg:?} for {slot:?} of OpenCL kernel `{kernel}`")))
        }
    }
}

/// Where a region starts, and how long it is, in elements.
pub(crate) fn elements(
    region: &Region,
    bytes: usize,
    element: usize,
) -> std::result::Result<(u64, u64), BackendError> {
    assert!(region.end() <= bytes, "{region:?} leaves an allocation of {bytes}");
    let whole =
        element != 0 && region.offset.is_multiple_of(element) && region.bytes().is_multiple_of(element);
    if !whole || !region.is_contiguous() {
        return unsupported(format!(
            "{region:?} of {element}-byte elements for a kernel on an OpenCL device"
        ));
    }
    Ok(((region.offset / element) as u64, (region.bytes() / element) as u64))
}

/// The extents in OpenCL's order, one for each dimension of the range.
fn innermost_first(range: &Range, extents: [usize; 3]) -> SmallVec<[usize; 3]> {
    extents.into_iter().rev().take(range.dims()).collect()
}

#[cfg(test)]
mod tests {
    use windlass_kernel::{LaunchRange, NdRange, SlotAccess};

    use super::*;

    #[test]
    fn a_buffer_takes_three_parameters() {
        let slots = [Slot::Buffer(SlotAccess::Read), Slot::Value(4), Slot::Local(64), Slot::Constant];
        assert_eq!(parameters(&slots), Ok(8));
        assert!(matches!(parameters(&[Slot::Image]), Err(BackendError::Unsupported(_))));
    }

    #[test]
    fn the_last_dimension_is_the_first() {
        let range = NdRange { global: [6, 8], local: [2, 4] }.range();
        assert_eq!(innermost_first(&range, range.extent()).as_slice(), [8, 6]);
        assert_eq!(innermost_first(&range, range.local().expect("it is given")).as_slice(), [4, 2]);
        assert_eq!(innermost_first(&5.range(), 5.range().extent()).as_slice(), [5]);
    }

    #[test]
    fn regions_are_counted_in_elements() {
        assert_eq!(elements(&Region::line(16, 32), 64, 8), Ok((2, 4)));
        assert!(elements(&Region::line(4, 32), 64, 8).is_err(), "it starts inside an element");
        let gaps = Region { offset: 0, width: 8, rows: 2, slices: 1, row_pitch: 16, slice_pitch: 32 };
        assert!(elements(&gaps, 64, 8).is_err());
    }
}
