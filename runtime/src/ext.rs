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
