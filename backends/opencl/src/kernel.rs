//! Kernels: OpenCL C text, and how its parameters follow from a kernel's slots.
//!
//! # The calling convention
//!
//! The parameters of the `__kernel` function are in the order of the slots:
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
//! Kernels in WGSL are translated and follow another convention, see [`crate::wgsl_args`]; those with fences are compiled as
//! the first version of OpenCL C that has them. An image with described parameters takes those, and so does a kernel that is
//! built into the device: see [`crate::described_args`].

use std::any::Any;
use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::sync::Arc;

use opencl3::device::{
    CL_DEVICE_EXTENSIONS, CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION,
};
use smallvec::SmallVec;
use windlass_backend::{BackendError, BuiltKernel, KernelLimits, KernelReport, Launch};
use windlass_kernel::{ImageFormat, Kernel, KernelImage, Parameter, Range, Slot};
use windlass_kernel_translate::{Cache, dump};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::process_exit;

use crate::args::{Bound, BoundArgs, Called, check_lines};
use crate::described_args;
use crate::device::{is_gpu, is_nvidia, local_memory, version};
use crate::driver::Driver;
use crate::error::unsupported;
use crate::feeding::Feeding;
use crate::memory::Memory;
use crate::sys::{self, Context, DeviceId, Extents, Program, Result};
use crate::wgsl_args::{self, Calling};

/// A kernel for one device of a context.
#[derive(Debug)]
pub(crate) struct Built {
    /// Locked from setting the first argument to enqueueing, since the native kernel holds the arguments and two lanes may
    /// launch it at once. The sink does not take this lock, so a driver may call back meanwhile.
    kernel: Mutex<Called>,
    /// The same for launches that reach memory beside their arguments. A native kernel keeps what it was told of that, and some drivers
    /// take no empty list, so this is one of its own, made when it is first needed.
    reaching: Mutex<Option<Called>>,
    program: Program,
    entry: CString,
    parameters: usize,
    name: String,
    slots: Box<[Slot]>,
    calling: How,
    /// How many work-items of this kernel fit one work-group.
    work_group_items: usize,
    /// Whether a launch that leaves its groups open is to name their size.
    names_groups: bool,
    local_memory: LocalMemory,
    registers: Option<usize>,
    compared_in_loops: Vec<String>,
    context: Arc<Context>,
    device: usize,
    id: DeviceId,
}

impl BuiltKernel for Built {
    fn report(&self) -> KernelReport {
        let native = &lock(&self.kernel).native;
        let mut report = KernelReport::default();
        report.local_memory = Some(self.local_memory.own);
        report.private_memory = native.private_memory(self.id).ok();
        report.registers = self.registers;
        report.in_step = native.preferred_multiple(self.id).ok();
        report.compared_in_loops = self.compared_in_loops.clone();
        report
    }

    fn limits(&self) -> KernelLimits {
        KernelLimits::new(self.work_group_items, self.local_memory.left())
    }
}

/// The local memory of one work-group, in bytes.
#[derive(Clone, Copy, Debug)]
struct LocalMemory {
    /// What the device has.
    device: usize,
    /// What the kernel declares itself.
    own: usize,
}

impl LocalMemory {
    /// What is left for arguments.
    fn left(self) -> usize {
        self.device.saturating_sub(self.own)
    }

    /// Refuses arguments that do not fit. The check is ours, since a driver cannot be relied upon for it: PoCL aborts the
    /// process when such a kernel starts. It includes kernels that exceed the device by themselves.
    fn check(self, kernel: &str, args: &[Bound<'_>]) -> std::result::Result<(), BackendError> {
        let LocalMemory { device, own } = self;
        let passed = args.iter().map(Bound::local_memory).fold(0, usize::saturating_add);
        if passed.saturating_add(own) <= device {
            return Ok(());
        }
        unsupported(format!(
            "{passed} bytes of local memory for the arguments of kernel `{kernel}`, which takes {own} itself: the device \
             has {device}"
        ))
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
    /// Compiles an image for the device at this position. Blocks for as long as the compiler takes, and keeps the process from exiting as
    /// long: what nobody waits for is built by threads of the runtime's, and a compiler that is used while the process exits may crash.
    pub(crate) fn new(
        context: &Arc<Context>,
        driver: Driver,
        (device, id): (usize, DeviceId),
        kernel: &Kernel,
        image: &KernelImage,
    ) -> std::result::Result<Self, BackendError> {
        let ends = || BackendError::Build {
            kernel: kernel.name().into(),
            log: "the process is about to exit: nothing is built any more".into(),
        };
        let _building = process_exit::build().ok_or_else(ends)?;
        match image.format() {
            ImageFormat::OpenClC
            | ImageFormat::Builtin
            | ImageFormat::SpirV
            | ImageFormat::Ptx
            | ImageFormat::Binary => {
                let (parameters, how) = match described_args::parameters(kernel, image)? {
                    Some(described) => (described.len(), How::Described(described)),
                    None => (parameters(kernel.slots())?, How::Convention),
                };
                let source = match image.format() {
                    ImageFormat::OpenClC => Source::Text(image.source()),
                    ImageFormat::SpirV => Source::Words(image.code()),
                    ImageFormat::Builtin => Source::Builtin,
                    _ => Source::Made(image.code()),
                };
                let code = Code { source, entry: image.entry(), options: c"" };
                Self::compile(context, driver, (device, id), kernel, code, parameters, how)
            }
            ImageFormat::Wgsl => {
                let (text, calling, compared_in_loops) = wgsl_args::read(kernel, image, driver, is_gpu(id))?;
                let options =
                    options(text.fences.then(|| version(&id.text(CL_DEVICE_VERSION))), kernel.is_fast());
                let code = Code { source: Source::Text(&text.source), entry: &text.entry, options };
                let how = How::Translated(calling);
                let built =
                    Self::compile(context, driver, (device, id), kernel, code, text.params.len(), how)?;
                // The text requires groups of this size, so it has been built for them. NVIDIA's driver speaks of a multiple of 32.
                let required = text.work_group.iter().map(|extent| *extent as usize).product();
                let work_group_items = built.work_group_items.max(required);
                Ok(Built { compared_in_loops, work_group_items, ..built })
            }
            other => unsupported(format!("a {other:?} image on an OpenCL device")),
        }
    }

    fn compile(
        context: &Arc<Context>,
        driver: Driver,
        (device, id): (usize, DeviceId),
        kernel: &Kernel,
        Code { source, entry, options }: Code<'_>,
        parameters: usize,
        calling: How,
    ) -> std::result::Result<Self, BackendError> {
        let failed = |log: String| BackendError::Build { kernel: kernel.name().into(), log };
        let name = CString::new(entry)
            .map_err(|_| failed(format!("`{}` is not a valid name for a kernel", entry.escape_debug())))?;
        let (program, registers) = match source {
            Source::Builtin => {
                let program = context.program_of_builtins(id, &name).map_err(|failure| {
                    let why = BackendError::from(failure);
                    failed(format!("{} has no built-in kernel `{entry}`: {why}", id.text(CL_DEVICE_NAME)))
                })?;
                // PoCL 3.1 requires this build. Other drivers may refuse to build a built-in kernel, which does no harm.
                let _ = program.build(id, c"");
                (program, None)
            }
            Source::Words(code) | Source::Made(code) => {
                let program = match source {
                    Source::Words(_) => context.program_of_words(code)?,
                    _ => context.program_of(id, code)?,
                };
                program.build(id, options).map_err(|failure| failed(log(&program, id, failure)))?;
                (program, None)
            }
            Source::Text(source) => {
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
                "it takes {found} parameters, but {slots:?} take {parameters}: a buffer takes three, its start, an offset and \
                 a length; if the kernel differs from that, describe its parameters with `KernelImage::with_parameters`"
            )));
        }
        Ok(Built {
            work_group_items: native.work_group_items(id)?,
            names_groups: driver.takes_long_to_choose && native.required_group(id)? == [0; 3],
            // No argument has been set yet, so this is what the kernel declares itself.
            local_memory: LocalMemory { device: local_memory(id), own: native.local_memory(id)? },
            kernel: Mutex::new(Called::new(native, parameters)),
            reaching: Mutex::default(),
            program,
            entry: name,
            parameters,
            name: kernel.name().into(),
            slots: kernel.slots().into(),
            calling,
            registers,
            compared_in_loops: Vec::new(),
            context: Arc::clone(context),
            device,
            id,
        })
    }
}

/// What a program is made of.
#[derive(Clone, Copy)]
enum Source<'a> {
    Text(&'a str),
    /// SPIR-V.
    Words(&'a [u8]),
    /// What a compiler has made for the device.
    Made(&'a [u8]),
    /// The device has it.
    Builtin,
}

/// What is compiled.
struct Code<'a> {
    source: Source<'a>,
    entry: &'a str,
    options: &'static CStr,
}

/// What the compiler is told: with fences the version of OpenCL C that has those of 2.0 on a device of this version, and whether
/// speed goes before exactness.
fn options(with_fences: Option<(u32, u32)>, fast: bool) -> &'static CStr {
    match (with_fences, fast) {
        (None, false) => c"",
        (None, true) => c"-cl-fast-relaxed-math",
        (Some((3.., _)), false) => c"-cl-std=CL3.0",
        (Some((3.., _)), true) => c"-cl-std=CL3.0 -cl-fast-relaxed-math",
        (Some(_), false) => c"-cl-std=CL2.0",
        (Some(_), true) => c"-cl-std=CL2.0 -cl-fast-relaxed-math",
    }
}

/// Why there is no program.
enum Unbuilt {
    /// The compiler does not take the text.
    Refused(String),
    Failed(sys::Failure),
}

/// Builds a text for a device: from the cache, if there is one with an entry for it, or else with the compiler, which may say how many
/// registers an item has.
fn built(
    context: &Context,
    id: DeviceId,
    source: &str,
    options: &CStr,
) -> std::result::Result<(Program, Option<usize>), Unbuilt> {
    let cache = Cache::named();
    let about =
        [CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION].map(|what| id.text(what));
    let language = options.to_str().unwrap_or_default();
    let key = [&["opencl", source, language][..], &about.each_ref().map(String::as_str)].concat();
    if let Some(code) = cache.as_ref().and_then(|cache| cache.get(&key)) {
        let program =
            context.program_of(id, &code).and_then(|program| program.build(id, options).map(|()| program));
        match program {
            Ok(program) => return Ok((program, None)),
            Err(failure) => {
                let error = BackendError::from(failure);
                tracing::warn!(%error, "the driver refuses a cached program binary; compiling the kernel again");
            }
        }
    }
    let program = context.program(source).map_err(Unbuilt::Failed)?;
    let is_nvidia = is_nvidia(&id.text(CL_DEVICE_EXTENSIONS).split_whitespace().collect::<Vec<_>>());
    let talking = if is_nvidia { &talkative(options) } else { options };
    program.build(id, talking).map_err(|failure| Unbuilt::Refused(log(&program, id, failure)))?;
    let registers = if is_nvidia { registers(&program.log(id)) } else { None };
    if let Some(cache) = cache
        && let Some(code) = program.code(id)
    {
        cache.put(&key, &code);
    }
    Ok((program, registers))
}

/// The options with which NVIDIA's compiler tells in its log what a kernel takes.
fn talkative(options: &CStr) -> CString {
    let all = [options.to_bytes(), b" -cl-nv-verbose"].concat();
    CString::new(all).unwrap_or_default()
}

/// How many registers an item has, by the log of NVIDIA's compiler.
fn registers(log: &str) -> Option<usize> {
    let (before, _) = log.split_once(" registers")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// How many parameters the slots take by the calling convention.
fn parameters(slots: &[Slot]) -> std::result::Result<usize, BackendError> {
    let of = |slot: &Slot| match slot {
        Slot::Buffer(_) | Slot::Constant => Ok(3),
        Slot::Pointer | Slot::Value(_) | Slot::Local(_) => Ok(1),
        other => Err(BackendError::Unsupported(format!("a kernel with {other:?} on an OpenCL device"))),
    };
    slots.iter().map(of).sum()
}

/// The compiler's log, or the failed call if the log is empty.
fn log(program: &Program, device: DeviceId, failure: sys::Failure) -> String {
    let log = program.log(device);
    if log.is_empty() { BackendError::from(failure).to_string() } else { log }
}

/// A checked launch.
pub(crate) struct Launching<'a> {
    built: &'a Built,
    args: BoundArgs<'a>,
    /// The addresses of what it uses beside them.
    reached: SmallVec<[NonNull<u8>; 2]>,
    /// Extents innermost first, as OpenCL has them.
    global: SmallVec<[usize; 3]>,
    /// Of its groups, where the launch says.
    local: Option<SmallVec<[usize; 3]>>,
}

impl<'a> Launching<'a> {
    pub(crate) fn plan(
        context: &Arc<Context>,
        device: usize,
        launch: &Launch<'a>,
    ) -> std::result::Result<Self, BackendError> {
        let kernel: &dyn Any = launch.kernel;
        let Some(built) = kernel.downcast_ref::<Built>() else {
            return unsupported("a kernel built by another backend");
        };
        if !Arc::ptr_eq(&built.context, context) || built.device != device {
            return unsupported("a kernel built for another OpenCL device");
        }
        assert_eq!(
            launch.args.len(),
            built.slots.len(),
            "kernel `{}` has a different number of arguments than slots",
            built.name
        );
        // Pushed one by one: collected, they would be moved once for each adapter.
        let mut args = BoundArgs::new();
        for (slot, arg) in built.slots.iter().zip(launch.args) {
            args.push(Bound::new(context, &built.name, slot, arg)?);
        }
        let mut reached = SmallVec::new();
        for of in launch.reached {
            match Memory::of(of.memory, context)?.and_then(Memory::address) {
                Some(address) => reached.push(address),
                None => {
                    let name = &built.name;
                    return unsupported(format!("kernel `{name}`, which reaches memory without an address"));
                }
            }
        }
        let args = match &built.calling {
            How::Translated(calling) => {
                let (args, [global, local]) = calling.plan(&built.name, launch, args)?;
                built.local_memory.check(&built.name, &args)?;
                let used = if local[1..] == [1, 1] && global[1..] == [1, 1] { 1 } else { 3 };
                let along = |items: [usize; 3]| SmallVec::from_slice(&items[..used]);
                return Ok(Launching {
                    built,
                    args,
                    reached,
                    global: along(global),
                    local: Some(along(local)),
                });
            }
            How::Described(described) => {
                check_lines(&built.name, &args)?;
                described_args::arrange(&built.name, described, launch.range, &args)?
            }
            How::Convention => {
                check_lines(&built.name, &args)?;
                args
            }
        };
        built.local_memory.check(&built.name, &args)?;
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
        Ok(Launching { built, args, reached, global, local })
    }

    pub(crate) fn enqueue(&self, feeding: &mut Feeding<'_>) -> Result<()> {
        let Launching { built, reached, .. } = self;
        if reached.is_empty() {
            return self.enqueue_as(&mut lock(&built.kernel), feeding);
        }
        let mut reaching = lock(&built.reaching);
        let kernel = match &mut *reaching {
            Some(kernel) => kernel,
            none => none.insert(Called::new(built.program.kernel(&built.entry)?, built.parameters)),
        };
        // SAFETY: they are the group's, and the runtime keeps them until it has ended. Each launch by this kernel names its own.
        unsafe { kernel.native.set_reached(reached) }?;
        self.enqueue_as(kernel, feeding)
    }

    fn enqueue_as(&self, kernel: &mut Called, feeding: &mut Feeding<'_>) -> Result<()> {
        let Launching { built, args, global, local, .. } = self;
        let mut at = 0;
        args.iter().try_for_each(|arg| arg.set(kernel, &mut at))?;
        let local = match local {
            None if built.names_groups => kernel.last_choice.fitting(global, built.work_group_items),
            said => said.as_deref(),
        };
        let extents = Extents { global, local };
        // The kernel stays inside the memory of its arguments, as was promised when the image was made
        // (`KernelImage::opencl_c`); `Bound::new` checked the arguments against their allocations.
        if feeding.is_told {
            // SAFETY: as was said.
            feeding.enqueue(|queue, waits| unsafe { queue.launch(&kernel.native, extents, waits) })
        } else {
            // SAFETY: as was said.
            feeding
                .enqueue_untold(|queue, waits| unsafe { queue.launch_untold(&kernel.native, extents, waits) })
        }
    }
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
    fn registers_are_read_from_the_log() {
        let log = "ptxas info    : Compiling entry function 'all' for 'sm_90'\n\
                   ptxas info    : Used 40 registers, used 1 barriers, 408 bytes cmem[0]\n";
        assert_eq!(registers(log), Some(40));
        assert_eq!(registers(""), None);
        assert_eq!(registers("Used many registers"), None);
    }

    #[test]
    fn the_last_dimension_is_the_first() {
        let range = NdRange { global: [6, 8], local: [2, 4] }.range();
        assert_eq!(innermost_first(&range, range.extent()).as_slice(), [8, 6]);
        assert_eq!(innermost_first(&range, range.local().expect("it is given")).as_slice(), [4, 2]);
        assert_eq!(innermost_first(&5.range(), 5.range().extent()).as_slice(), [5]);
    }
}
