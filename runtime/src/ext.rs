//! What only some devices have, whatever their backend: a device says whether it does, and a program that goes without runs
//! everywhere.
//!
//! What a single backend has stands in a module of that backend's: [`opencl::ext`](crate::opencl::ext), for one. Native objects are a
//! matter of [`interop`](crate::interop).

/// A kernel that devices have built in, by its name there; [`Device::builtin_kernels`](crate::Device::builtin_kernels) lists what a
/// device has. Others refuse it. It takes each slot's buffer by its start; one with other parameters is
/// [described](crate::image::KernelImage::with_parameters).
///
/// ```
/// use windlass::image::{Slot, SlotAccess};
/// use windlass::{KernelCall, ext, prelude::*};
/// # fn main() -> windlass::Result<()> {
/// let (queue, pixels) = (Queue::blocking_new()?, Buffer::<u32>::new(64));
/// if queue.device().builtin_kernels().iter().any(|name| name == "vendor.sharpen") {
///     let slots = [Slot::Buffer(SlotAccess::ReadWrite)];
///     // SAFETY: the vendor says that it changes one element for each work-item.
///     let sharpen = unsafe { ext::builtin("vendor.sharpen", slots) };
///     queue.submit(|cg| cg.parallel_for(64, KernelCall::new(&sharpen).buffer(cg.read_write(&pixels))))?;
/// }
/// # Ok(()) }
/// ```
#[doc(inline)]
pub use windlass_kernel::builtin;

/// A compute shader in SPIR-V of the shader flavour, as compilers of GLSL and HLSL make it, for every device that takes WGSL, OpenCL's
/// among them. Its bindings are as [WGSL's](crate::image::KernelImage::wgsl) are, all in set 0: buffer `i` is
/// binding `i`, and behind them a uniform block says where each begins, how long it
/// is, and what the launch's extents are. Specialisation constants are overrides. It is checked here and every access of it is bounded,
/// so a faulty one gives wrong values and no more.
///
/// # Errors
/// Words that are no such shader, have no such entry point or ask for what no kernel has, as a compiler's error.
///
/// ```
/// let error = windlass::ext::spirv_shader("main", &[0x0723_0203, 0x0001_0000]).unwrap_err();
/// assert!(error.to_string().contains("`main`"), "{error}");
/// ```
#[cfg(feature = "spirv")]
pub fn spirv_shader(entry: &str, words: &[u32]) -> crate::Result<crate::image::KernelImage> {
    use windlass_backend::BackendError;
    use windlass_kernel_translate::spirv::to_wgsl;
    use windlass_sync::panics::catch;

    use crate::error::Error;

    let refuse = |log: String| {
        Error::backend(BackendError::Build { kernel: entry.into(), log }, "reading a shader in SPIR-V")
    };
    // What is no SPIR-V at all may make its reader panic.
    let text = catch(|| to_wgsl(entry, words)).map_err(|panic| refuse(panic.to_string()))?;
    Ok(crate::image::KernelImage::wgsl(entry, &text.map_err(|error| refuse(error.to_string()))?))
}
