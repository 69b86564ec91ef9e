//! A kernel with its arguments.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::Aspect;
use windlass_kernel::{DeviceCopy, Here, Kernel, LaunchRange, Range, Slot, SlotAccess, bytes_of, run_here};

use super::accessor::{Accessor, Window as _};
use crate::args::Argument;
use crate::error::{Error, Result};
use crate::shell::build::Values;
use crate::shell::build::image_on;
use crate::shell::context::DeviceSlot;
use crate::shell::work::{Binding, DeviceCommand, PlannedArg, PlannedKernel};
use crate::shell::{Inner, limits};
use windlass_engine::Mode;

/// A kernel and the arguments for one launch, in the order of its slots.
///
/// ```
/// use windlass::{KernelCall, image::{Block, Kernel, KernelImage, Slot}};
/// # fn main() -> windlass::Result<()> {
/// # use windlass::prelude::*;
/// let kernel = Kernel::new("noop", [Slot::Value(4)], [KernelImage::host(std::sync::Arc::new(|_: Block<'_>| {}))]);
/// let queue = Queue::blocking_on(Device::host())?;
/// queue.submit(|cg| cg.parallel_for(1, KernelCall::new(&kernel).value(1.0_f32)))?.blocking_wait()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing until it is given to `parallel_for`"]
pub struct KernelCall<'g> {
    kernel: Kernel,
    args: SmallVec<[CallArg<'g>; 4]>,
    /// Values that the kernel is built with.
    overrides: Values,
    /// The first argument that no launch takes.
    refused: Option<Error>,
    /// Bytes of local memory that the kernel has, or is built with.
    local: usize,
    brand: PhantomData<fn(&'g ()) -> &'g ()>,
}

pub(crate) enum CallArg<'g> {
    /// An accessor whose requirement was refused has no window; the group reports why.
    Buffer(Option<Binding>, Mode),
    Value(SmallVec<[u8; 16]>),
    Local(usize),
    /// Memory of the caller's, for `run_here`.
    Here(Here<'g>),
}

impl<'g> CallArg<'g> {
    pub(crate) fn of<A: Accessor<'g>>(accessor: &A) -> Self {
        CallArg::Buffer(accessor.binding(), A::MODE.0)
    }

    /// The extents of what the argument shows, outermost first, as kernels count them.
    fn extents<const D: usize>(&self) -> [u32; D] {
        let size = match self {
            CallArg::Buffer(Some(binding), _) => binding.extent.size,
            CallArg::Here(here) => here.size(),
            _ => [0; 3],
        };
        std::array::from_fn(|dim| u32::try_from(size[3 - D + dim]).unwrap_or(u32::MAX))
    }
}

impl<'g> KernelCall<'g> {
    /// A call without arguments yet.
    pub fn new(kernel: &Kernel) -> Self {
        KernelCall {
            kernel: kernel.clone(),
            args: SmallVec::new(),
            overrides: SmallVec::new(),
            refused: None,
            local: 0,
            brand: PhantomData,
        }
    }

    /// The next argument: an accessor.
    pub fn buffer<A: Accessor<'g>>(mut self, accessor: A) -> Self {
        self.args.push(CallArg::of(&accessor));
        self
    }

    /// The next argument of a `#[kernel]` function.
    #[doc(hidden)]
    pub fn argument(mut self, argument: Argument<'g>) -> Self {
        self.args.push(argument.0);
        self
    }

    /// The next argument of a `#[kernel]` function, and its extents.
    #[doc(hidden)]
    pub fn view_argument<const D: usize>(mut self, argument: Argument<'g>) -> Self {
        let extents: SmallVec<[u8; 16]> =
            argument.0.extents::<D>().iter().flat_map(|extent| extent.to_ne_bytes()).collect();
        self.args.push(argument.0);
        self.args.push(CallArg::Value(extents));
        self
    }

    /// A length of local memory, which the kernel is built with.
    #[doc(hidden)]
    pub fn local_argument<T: DeviceCopy>(mut self, name: &'static str, len: usize) -> Self {
        let Ok(counted) = u32::try_from(len) else { return self.refuse_local(len, "") };
        self.local = self.local.saturating_add(len.saturating_mul(size_of::<T>()));
        self.overrides.push((name, f64::from(counted)));
        self.value(counted)
    }

    /// Bytes of local memory that the kernel has whatever it is called with.
    #[doc(hidden)]
    pub fn own_local(mut self, bytes: usize) -> Self {
        self.local = self.local.saturating_add(bytes);
        self
    }

    /// A value that the kernel is built with.
    #[doc(hidden)]
    pub fn spec_argument<T: DeviceCopy>(mut self, name: &'static str, value: T, number: f64) -> Self {
        self.overrides.push((name, number));
        self.value(value)
    }

    /// Runs the call on this thread, over slices of the caller's: a kernel's unit test. Neither a queue nor a device
    /// has anything to do with it. A view of two or three dimensions takes a slice with its shape:
    /// `(&values[..], [rows, columns])`.
    ///
    /// ```
    /// #[windlass::kernel]
    /// fn double(v: &mut [u32]) {
    ///     let i = global_id(0);
    ///     v[i] = v[i] * 2;
    /// }
    ///
    /// let mut v = vec![1, 2, 3];
    /// double(&mut v[..]).run_here(3).unwrap();
    /// assert_eq!(v, [2, 4, 6]);
    /// ```
    pub fn run_here(self, range: impl LaunchRange) -> Result<()> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let name = self.kernel.name();
        let mut args = SmallVec::<[Here<'g>; 4]>::new();
        for (at, arg) in self.args.into_iter().enumerate() {
            args.push(match arg {
                CallArg::Here(here) => here,
                CallArg::Value(bytes) => Here::value(&bytes),
                CallArg::Buffer(..) => {
                    return Err(Error::invalid(format!(
                        "argument {at} of kernel `{name}` is an accessor of a group, which has its memory on a device: \
                         what runs here takes a slice for it, as in `kernel(&values[..]).run_here(n)`, and for a view of \
                         two or three dimensions a slice with its shape, as in `kernel((&values[..], [rows, columns]))`"
                    )));
                }
                CallArg::Local(_) => {
                    return Err(Error::invalid(format!(
                        "argument {at} of kernel `{name}` is local memory of a raw kernel, which does not run here; submit \
                         it to a queue"
                    )));
                }
            });
        }
        run_here(&self.kernel, &mut args, range.range()).map_err(|error| Error::invalid(error.to_string()))
    }

    /// The next argument: a plain value.
    pub fn value<T: DeviceCopy>(mut self, value: T) -> Self {
        self.args.push(CallArg::Value(SmallVec::from_slice(bytes_of(&value))));
        self
    }

    /// The next argument: local memory for this many elements.
    pub fn local<T: DeviceCopy>(mut self, len: usize) -> Self {
        match len.checked_mul(size_of::<T>()) {
            Some(bytes) if u32::try_from(len).is_ok() => self.args.push(CallArg::Local(bytes)),
            _ => return self.refuse_local(len, std::any::type_name::<T>()),
        }
        self
    }

    #[cold]
    fn refuse_local(mut self, len: usize, of: &str) -> Self {
        let (at, name) = (self.args.len(), self.kernel.name());
        let what = if of.is_empty() { "elements".into() } else { format!("elements of `{of}`") };
        self.refused.get_or_insert(Error::invalid(format!(
            "argument {at} of kernel `{name}` is local memory for {len} {what}, and kernels count in 32 bits"
        )));
        // What stands behind it keeps its position.
        self.args.push(CallArg::Local(0));
        self
    }

    /// The number of work-items of a launch over this range, if it can be counted and divided.
    pub(super) fn check(&self, range: &Range) -> Result<usize> {
        range.check_for(self.kernel.name()).map_err(|error| Error::invalid(error.to_string()))
    }

    /// Checks the arguments against the kernel's slots, and gets the kernel built for the device.
    pub(super) fn plan(self, inner: &Arc<Inner>, slot: &DeviceSlot, range: Range) -> Result<DeviceCommand> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let name = self.kernel.name();
        let (slots, device) = (self.kernel.slots(), slot);
        if slots.len() != self.args.len() {
            return Err(Error::invalid(format!(
                "kernel `{name}` takes {} arguments, and got {}",
                slots.len(),
                self.args.len()
            )));
        }
        let mut args = SmallVec::new();
        for (i, (arg, slot)) in self.args.into_iter().zip(slots).enumerate() {
            let wrong = |what: &str| {
                Error::invalid(format!(
                    "argument {i} of kernel `{name}` is {what}, and the kernel expects {slot:?}"
                ))
            };
            args.push(match (arg, slot) {
                (CallArg::Buffer(None, _), _) => continue,
                (CallArg::Buffer(Some(b), mode), Slot::Image) => {
                    image_argument(b, mode, device).map_err(|what| wrong(&what))?
                }
                (CallArg::Buffer(Some(b), _), _) if b.is_image => return Err(wrong("an image")),
                (CallArg::Buffer(Some(b), mode), Slot::Pointer) => {
                    match device.device.has(Aspect::Pointers) {
                        true => PlannedArg::Pointer(b, access_of(mode)),
                        false => {
                            let what = format!("a pointer as argument {i} of kernel `{name}`");
                            return Err(Error::unsupported(format!("{what}, on {}", device.device)));
                        }
                    }
                }
                (CallArg::Buffer(Some(b), mode), Slot::Buffer(SlotAccess::Read)) => {
                    match mode.reads() || mode == Mode::ReadWriteUninit {
                        true => PlannedArg::Buffer(b, SlotAccess::Read),
                        false => return Err(wrong("required for writing only")),
                    }
                }
                (CallArg::Buffer(Some(b), mode), Slot::Buffer(SlotAccess::ReadWrite)) => {
                    match mode.writes() {
                        true => PlannedArg::Buffer(b, SlotAccess::ReadWrite),
                        false => return Err(wrong("required for reading only")),
                    }
                }
                (CallArg::Value(v), Slot::Value(bytes)) => match v.len() == *bytes {
                    true => PlannedArg::Value(v),
                    false => return Err(wrong(&format!("a value of {} bytes", v.len()))),
                },
                (CallArg::Local(bytes), Slot::Local(_)) if bytes > isize::MAX as usize => {
                    return Err(wrong("more local memory than there can be"));
                }
                (CallArg::Local(bytes), Slot::Local(_)) => PlannedArg::Local(bytes),
                (CallArg::Buffer(..), _) => return Err(wrong("a buffer")),
                (CallArg::Value(_), _) => return Err(wrong("a value")),
                (CallArg::Local(_), _) => return Err(wrong("local memory")),
                (CallArg::Here(_), _) => {
                    return Err(wrong("a slice of the caller's, which only `run_here` takes"));
                }
            });
        }
        check_lengths(&self.kernel, &args, slot)?;
        let gaps = args
            .iter()
            .filter_map(PlannedArg::window)
            .any(|(b, _)| !b.is_image && !b.is_empty() && !b.region().is_contiguous());
        if gaps && !slot.runs_host_bodies() {
            let name = self.kernel.name();
            let what = "an argument that is a part of a grid whose rows do not follow each other";
            return Err(Error::unsupported(format!("{what}, for kernel `{name}` on {}", slot.device)));
        }
        let local = args.iter().map(|arg| if let PlannedArg::Local(bytes) = arg { *bytes } else { 0 });
        let passed = local.fold(0, usize::saturating_add);
        let local_memory = passed.saturating_add(self.local);
        let of = (&slot.device as &dyn fmt::Display, &slot.device.info.limits);
        limits::check_launch(name, of, &args, &range, local_memory)?;
        let values = build_values(&self.kernel, self.overrides, Some(&range))?;
        let built = slot.build(inner, &self.kernel, values)?;
        let planned = PlannedKernel { range, args, built, local_memory: passed };
        if let Some(ready) = planned.built.ready() {
            planned.check(ready.limits())?;
        }
        Ok(DeviceCommand::Kernel(Box::new(planned)))
    }
}

/// Refuses arguments with more elements than the kernel can count on this device.
fn access_of(mode: Mode) -> SlotAccess {
    if mode.writes() { SlotAccess::ReadWrite } else { SlotAccess::Read }
}

/// An accessor where the kernel takes an image; or what is wrong with it.
fn image_argument(
    binding: Binding,
    mode: Mode,
    slot: &DeviceSlot,
) -> std::result::Result<PlannedArg, String> {
    match () {
        () if !binding.is_image => Err("a buffer that is no image".into()),
        () if !slot.holds_images() => Err(format!("an image, which {} does not have as such", slot.device)),
        () if binding.is_empty() => Err("an image without texels".into()),
        () if binding.offset != 0 || !binding.region().is_contiguous() => {
            Err("a part of an image, and kernels take images as a whole".into())
        }
        () => Ok(PlannedArg::Image(binding, access_of(mode))),
    }
}

fn check_lengths(kernel: &Kernel, args: &[PlannedArg], slot: &DeviceSlot) -> Result<()> {
    for (at, arg) in args.iter().enumerate() {
        // Few have so many, and the image is found for those alone.
        if let PlannedArg::Buffer(binding, _) = arg
            && u32::try_from(binding.len()).is_err()
        {
            let image = image_on(kernel, &slot.device.info)?;
            let checked = image.check_len(kernel.name(), at, binding.len());
            checked.map_err(|error| Error::invalid(error.to_string()))?;
        }
    }
    Ok(())
}

/// The values that a kernel is built with for a launch: those of the call, and what its work-groups are. Most kernels
/// have none, and cost nothing here.
pub(crate) fn build_values(kernel: &Kernel, mut values: Values, range: Option<&Range>) -> Result<Values> {
    if let Some((name, number)) = values.iter().find(|(_, number)| !number.is_finite()) {
        let of = kernel.overrides().iter().find(|of| of.name == *name);
        return Err(Error::invalid(format!(
            "kernel `{}` is to be built with {number} for `{}`, and devices take numbers only; pass it as a plain value",
            kernel.name(),
            of.map_or(*name, |of| of.parameter)
        )));
    }
    if !kernel.is_grouped() {
        return Ok(values);
    }
    let name = kernel.name();
    let Some((range, local)) = range.and_then(|range| Some((range, range.local()?))) else {
        return Err(Error::invalid(format!(
            "kernel `{name}` works in groups: launch it over `NdRange {{ global: […], local: […] }}`"
        )));
    };
    let items: usize = local.iter().product();
    values.push(("group_items", items as f64));
    // Those that the launch does not have are last, and 1.
    let extents = local[3 - range.dims()..].iter().copied().chain([1; 3]);
    values.extend(["local_0", "local_1", "local_2"].into_iter().zip(extents.map(|extent| extent as f64)));
    Ok(values)
}

impl fmt::Debug for CallArg<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallArg::Buffer(..) => f.write_str("an accessor"),
            CallArg::Value(bytes) => write!(f, "a value of {} bytes", bytes.len()),
            CallArg::Local(bytes) => write!(f, "{bytes} bytes of local memory"),
            CallArg::Here(here) => here.fmt(f),
        }
    }
}

impl fmt::Debug for KernelCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelCall")
            .field("kernel", &self.kernel.name())
            .field("args", &self.args.len())
            .finish()
    }
}
