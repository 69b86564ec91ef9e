//! A kernel with its arguments.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::Aspect;
use windlass_kernel::message::WORDS;
use windlass_kernel::{DeviceCopy, Here, Kernel, LaunchRange, Range, Slot, SlotAccess, bytes_of, run_here};

use super::accessor::{Accessor, Window as _, check_casts};
use super::declared::check_declared;
use super::messages::say;
use super::reached::{Pointers, Reached};
use super::shape::{may_be_covered, shape};
use crate::args::{Argument, Passed};
use crate::error::{Error, Result};
use crate::shell::build::{Values, image_on};
use crate::shell::context::DeviceSlot;
use crate::shell::work::{Binding, DeviceCommand, ImagePart, KernelArg, KernelLaunch, PlannedKernel};
use crate::shell::{Inner, State, limits};
use windlass_engine::Mode;
use windlass_kernel::shape::Shaping;

/// As much local memory as the host device gives a work-group.
const MOST_LOCAL_HERE: usize = 16 << 20;

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
    /// Made here, so that the arguments need not be moved: a call is, with each that is added.
    pub(super) launch: Box<KernelLaunch>,
    /// Beside them, what the kernel uses by addresses.
    pub(super) reached: Vec<Reached>,
    /// What is to be filled in of the pointers that it follows.
    pub(super) pointers: Pointers,
    /// What of them is the caller's memory, in their order.
    here: Vec<Here<'g>>,
    /// Values that the kernel is built with.
    overrides: Vec<(&'static str, f64)>,
    /// The first argument that no launch takes.
    refused: Option<Error>,
    /// Bytes of local memory that the kernel has, or is built with.
    local: usize,
    brand: PhantomData<fn(&'g ()) -> &'g ()>,
}

impl<'g> KernelCall<'g> {
    /// A call without arguments yet.
    pub fn new(kernel: &Kernel) -> Self {
        KernelCall {
            kernel: kernel.clone(),
            launch: Box::new(KernelLaunch::new()),
            reached: Vec::new(),
            pointers: Pointers::default(),
            here: Vec::new(),
            overrides: Vec::new(),
            refused: None,
            local: 0,
            brand: PhantomData,
        }
    }

    /// What is called.
    ///
    /// ```
    /// use windlass::prelude::*;
    ///
    /// #[windlass::kernel]
    /// fn double(v: &mut [u32]) {
    ///     v[global_id(0)] *= 2;
    /// }
    ///
    /// assert_eq!(double(&mut [1, 2][..]).kernel().name(), "double");
    /// ```
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The same call of the kernel in other forms ([`Kernel::in_forms`]). Another kernel is refused at the launch: its elements may be of
    /// other types.
    ///
    /// ```
    /// use windlass::image::{ImageFormat, Kernel, KernelImage};
    /// use windlass::KernelCall;
    /// let kernel = Kernel::new("nothing", [], [KernelImage::wgsl("main", "@compute @workgroup_size(64) fn main() {}")]);
    /// // SAFETY: it reaches no memory.
    /// let by_hand = unsafe { KernelImage::opencl_c("nothing", "__kernel void nothing() {}") };
    /// let call = KernelCall::new(&kernel).of(&kernel.in_forms([by_hand]));
    /// assert_eq!(call.kernel().images()[0].format(), ImageFormat::OpenClC);
    /// ```
    pub fn of(mut self, kernel: &Kernel) -> Self {
        if !kernel.is_form_of(&self.kernel) {
            let (other, own) = (kernel.name(), self.kernel.name());
            self.refused.get_or_insert(Error::invalid(format!(
                "kernel `{other}` is no form of `{own}`, whose call it is to be; make one by `Kernel::in_forms`"
            )));
            return self;
        }
        KernelCall { kernel: kernel.clone(), ..self }
    }

    /// The next argument: an accessor.
    ///
    /// ```
    /// use windlass::{KernelCall, image::{Kernel, KernelImage, Slot, SlotAccess}, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let text = KernelImage::wgsl("main", "@compute @workgroup_size(64) fn main() {}");
    /// let kernel = Kernel::new("nothing", [Slot::Buffer(SlotAccess::Read)], [text]);
    /// let (queue, x) = (Queue::blocking_on(Device::host())?, Buffer::<u32>::new(4));
    /// let event = queue.submit(|cg| cg.parallel_for(4, KernelCall::new(&kernel).buffer(cg.read(&x))));
    /// assert!(event.unwrap_err().is_unsupported(), "the host takes closures");
    /// # Ok(()) }
    /// ```
    pub fn buffer<A: Accessor<'g>>(mut self, accessor: A) -> Self {
        self.launch.args.push(KernelArg::Window(accessor.binding(), A::MODE.0));
        self
    }

    /// The next argument of a `#[kernel]` function.
    #[doc(hidden)]
    pub fn argument(mut self, argument: Argument<'g>) -> Self {
        let arg = match argument.0 {
            Passed::Accessor(window, mode) => KernelArg::Window(window, mode),
            Passed::Here(here) => {
                self.here.push(here);
                KernelArg::Here
            }
        };
        self.launch.args.push(arg);
        self
    }

    /// The next argument of a `#[kernel]` function, and its extents.
    #[doc(hidden)]
    pub fn view_argument<const D: usize>(self, argument: Argument<'g>) -> Self {
        let extents: SmallVec<[u8; 16]> =
            argument.extents::<D>().iter().flat_map(|extent| extent.to_ne_bytes()).collect();
        let mut call = self.argument(argument);
        call.launch.args.push(KernelArg::Value(extents));
        call
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
        if self.pointers.are_of_a_group() {
            let does = if self.pointers.is_empty() { "takes" } else { "follows" };
            return Err(Error::invalid(format!(
                "kernel `{name}` {does} pointers, and what runs here has slices: submit it to a queue, which `Device::host()` has, too"
            )));
        }
        let mut words = vec![0_u32; if self.kernel.messages().is_empty() { 0 } else { WORDS }];
        let mut here = self.here.into_iter();
        let mut args = SmallVec::<[Here<'_>; 4]>::new();
        for (at, arg) in self.launch.args.into_iter().enumerate() {
            args.push(match arg {
                KernelArg::Here => here.next().unwrap_or_else(|| unreachable!("each has its place")),
                KernelArg::Value(bytes) => Here::value(&bytes),
                KernelArg::Window(..) => {
                    return Err(Error::invalid(format!(
                        "argument {at} of kernel `{name}` is an accessor of a group, which has its memory on a device: \
                         what runs here takes a slice for it, as in `kernel(&values[..]).run_here(n)`, and for a view of \
                         two or three dimensions a slice with its shape, as in `kernel((&values[..], [rows, columns]))`"
                    )));
                }
                KernelArg::Local(_) => {
                    return Err(Error::invalid(format!(
                        "argument {at} of kernel `{name}` is local memory of a raw kernel, which does not run here; submit \
                         it to a queue"
                    )));
                }
            });
        }
        if self.local > MOST_LOCAL_HERE {
            return Err(Error::invalid(format!(
                "kernel `{name}` with {} bytes of local memory, and what runs here may have {MOST_LOCAL_HERE}",
                self.local
            )));
        }
        if !words.is_empty() {
            args.push(Here::write(&mut words));
        }
        let ran = run_here(&self.kernel, &mut args, range.range());
        drop(args);
        say(&self.kernel, &words);
        ran.map_err(|error| Error::invalid(error.to_string()))
    }

    /// The next argument: a plain value.
    ///
    /// ```
    /// use windlass::image::{Block, Kernel, KernelImage, Slot, SlotAccess, View, ViewMut};
    /// use windlass::{KernelCall, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let body = |block: Block<'_>| {
    ///     let (x, by) = (ViewMut::<u32>::new(block.spans()[0]), View::<u32>::new(block.spans()[1]));
    ///     block.items().for_each(|i| x.set(i, x.get(i) + by.get(0)));
    /// };
    /// let slots = [Slot::Buffer(SlotAccess::ReadWrite), Slot::Value(4)];
    /// let add = Kernel::new("add", slots, [KernelImage::host(std::sync::Arc::new(body))]);
    /// let (queue, x) = (Queue::blocking_on(Device::host())?, Buffer::from(vec![1_u32, 2]));
    /// queue.submit(|cg| cg.parallel_for(2, KernelCall::new(&add).buffer(cg.read_write(&x)).value(10_u32)))?;
    /// assert_eq!(x.host_read().blocking_wait()?[..], [11, 12]);
    /// # Ok(()) }
    /// ```
    pub fn value<T: DeviceCopy>(mut self, value: T) -> Self {
        self.launch.args.push(KernelArg::Value(SmallVec::from_slice(bytes_of(&value))));
        self
    }

    /// The next argument: local memory for this many elements.
    ///
    /// ```no_run
    /// use windlass::{KernelCall, NdRange, image::{Kernel, KernelImage, Slot}, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let text = "__kernel void fill(__local float *room) { room[get_local_id(0)] = 1; }";
    /// // SAFETY: work-groups have no more items than `room` has elements.
    /// let image = unsafe { KernelImage::opencl_c("fill", text) };
    /// let fill = Kernel::new("fill", [Slot::Local(0)], [image]);
    /// let queue = Queue::builder().select(Selector::backend("opencl")).blocking_build()?;
    /// let groups = NdRange { global: [256], local: [64] };
    /// queue.submit(|cg| cg.parallel_for(groups, KernelCall::new(&fill).local::<f32>(64)))?.blocking_wait()
    /// # }
    /// ```
    pub fn local<T: DeviceCopy>(mut self, len: usize) -> Self {
        match len.checked_mul(size_of::<T>()) {
            Some(bytes) if u32::try_from(len).is_ok() => self.launch.args.push(KernelArg::Local(bytes)),
            _ => return self.refuse_local(len, std::any::type_name::<T>()),
        }
        self
    }

    #[cold]
    fn refuse_local(mut self, len: usize, of: &str) -> Self {
        let (at, name) = (self.launch.args.len(), self.kernel.name());
        let what = if of.is_empty() { "elements".into() } else { format!("elements of `{of}`") };
        self.refused.get_or_insert(Error::invalid(format!(
            "argument {at} of kernel `{name}` is local memory for {len} {what}, and kernels count in 32 bits"
        )));
        // What stands behind it keeps its position.
        self.launch.args.push(KernelArg::Local(0));
        self
    }

    /// The range in the work-groups that the kernel asks for.
    pub(super) fn in_groups(&self, range: Range) -> Result<Range> {
        self.kernel.grouped_range(range).map_err(|error| Error::invalid(error.to_string()))
    }

    /// The number of work-items of a launch over this range, if it can be counted and divided.
    pub(super) fn check(&self, range: &Range) -> Result<usize> {
        range.check_for(self.kernel.name()).map_err(|error| Error::invalid(error.to_string()))
    }

    /// Checks the arguments against the kernel's slots, and gets the kernel built for the device.
    pub(super) fn plan(
        mut self,
        inner: &Arc<Inner>,
        slot: &DeviceSlot,
        range: Range,
    ) -> Result<DeviceCommand> {
        if let Some(error) = self.refused {
            return Err(error);
        }
        let kernel = self.kernel.clone();
        let (name, slots) = (kernel.name(), kernel.slots());
        if slots.len() != self.launch.args.len() {
            return Err(Error::invalid(format!(
                "kernel `{name}` takes {} arguments, and got {}",
                slots.len(),
                self.launch.args.len()
            )));
        }
        for (at, (arg, of)) in self.launch.args.iter().zip(slots).enumerate() {
            check_argument((name, at), arg, of, (inner, slot))?;
        }
        for Reached { window, .. } in &self.reached {
            check_address(format_args!("memory that kernel `{name}` reaches"), window, inner, slot)?;
        }
        self.fill_tables(inner)?;
        let args = &self.launch.args[..];
        let windows = || {
            args.iter().zip(slots).enumerate().filter_map(|(at, (arg, of))| Some((at, arg.window(of)?.0, of)))
        };
        let buffers =
            windows().filter(|(.., of)| matches!(of, Slot::Buffer(_))).map(|(at, window, _)| (at, window));
        check_lengths(&self.kernel, buffers.clone(), slot)?;
        let shown = args.iter().zip(slots).filter_map(|(arg, of)| arg.window(of));
        let reached = self.reached.iter().map(|Reached { window, access, .. }| (window, *access));
        let is_written = |access| access != SlotAccess::Read;
        check_casts(shown.chain(reached).map(|(window, access)| (window, is_written(access))))?;
        let mut pointers = windows().filter(|(.., of)| **of == Slot::Pointer);
        if let Some((at, ..)) = pointers.find(|(_, window, _)| window.has_gaps())
            && !slot.runs_host_bodies()
        {
            return Err(Error::unsupported(format!(
                "a pointer as argument {at} of kernel `{name}` to a part of a grid whose rows do not follow each other, on {}: \
                 pass the whole grid, or a copy of the part",
                slot.device
            )));
        }
        let local = args.iter().map(|arg| if let KernelArg::Local(bytes) = arg { *bytes } else { 0 });
        let passed = local.fold(0, usize::saturating_add);
        let local_memory = passed.saturating_add(self.local);
        let of = (&slot.device as &dyn fmt::Display, &slot.device.info.limits);
        limits::check_launch(name, of, buffers, &range, local_memory)?;
        let mut values = build_values(&self.kernel, self.overrides.into(), Some(&range))?;
        if let Some(shaping) = self.kernel.shaping().filter(|_| !slot.runs_host_bodies()) {
            let of = (self.kernel.is_grouped(), shaping);
            let shape = shape(of, &slot.device.info, &range);
            let covered = may_be_covered(of, &slot.device.info) && covers(shaping, args, &range);
            values.extend(shape.covered(covered).overrides());
        }
        let built = slot.build(inner, &self.kernel, values)?;
        check_declared(&self.kernel, args, built.declared())?;
        let mut launch = self.launch;
        (launch.range, launch.local_memory) = (range, passed);
        launch.reached.extend(self.reached.iter().map(|of| (of.window, of.access)));
        let planned = PlannedKernel { built, launch };
        if let Some(ready) = planned.built.ready() {
            planned.check(ready.limits())?;
        }
        Ok(DeviceCommand::Kernel(planned))
    }
}

/// Whether every argument that a kernel reaches at the item's own position has an element for each item of a launch.
fn covers(shaping: Shaping, args: &[KernelArg], range: &Range) -> bool {
    let items = range.extent();
    let has_all = |arg: &KernelArg| match arg {
        KernelArg::Window(Some(binding), _) => match shaping.dims {
            1 => binding.len() >= items[2],
            _ => binding.extent.size.iter().zip(items).all(|(has, wanted)| *has >= wanted),
        },
        _ => false,
    };
    let mut placed =
        args.iter().zip(0..).filter(|(_, at)| shaping.placed.checked_shr(*at).is_some_and(|of| of & 1 == 1));
    range.dims() == usize::from(shaping.dims) && placed.all(|(arg, _)| has_all(arg))
}

/// Refuses an argument that does not fit its slot, or that the device does not take there.
fn check_argument(
    (name, at): (&str, usize),
    arg: &KernelArg,
    of: &Slot,
    (inner, slot): (&Arc<Inner>, &DeviceSlot),
) -> Result<()> {
    let wrong = |what: &str| {
        Err(Error::invalid(format!(
            "argument {at} of kernel `{name}` is {what}, and the kernel takes {}",
            in_words(of)
        )))
    };
    match (arg, of) {
        (KernelArg::Window(None, _), _) => Ok(()),
        (KernelArg::Window(Some(binding), _), Slot::Image) => check_image((name, at), binding, inner, slot),
        (KernelArg::Window(Some(binding), _), _) if binding.image.is_some() => wrong("an image"),
        (KernelArg::Window(Some(binding), _), Slot::Pointer) => {
            check_address(format_args!("a pointer as argument {at} of kernel `{name}`"), binding, inner, slot)
        }
        (KernelArg::Window(_, mode), Slot::Buffer(SlotAccess::Read)) => {
            match mode.reads() || *mode == Mode::ReadWriteUninit {
                true => Ok(()),
                false => wrong("required for writing only"),
            }
        }
        (KernelArg::Window(_, mode), Slot::Buffer(SlotAccess::ReadWrite)) => match mode.writes() {
            true => Ok(()),
            false => wrong("required for reading only"),
        },
        (KernelArg::Value(v), Slot::Value(bytes)) if v.len() == *bytes => Ok(()),
        (KernelArg::Value(v), Slot::Value(_)) => wrong(&format!("a value of {} bytes", v.len())),
        (KernelArg::Local(bytes), Slot::Local(_)) if *bytes <= isize::MAX as usize => Ok(()),
        (KernelArg::Local(_), Slot::Local(_)) => wrong("more local memory than there can be"),
        (KernelArg::Window(..), _) => wrong("a buffer"),
        (KernelArg::Value(_), _) => wrong("a value"),
        (KernelArg::Local(_), _) => wrong("local memory"),
        (KernelArg::Here, _) => wrong("a slice of the caller's, which only `run_here` takes"),
    }
}

/// Refuses memory that has no address for the device's kernels.
fn check_address(
    what: fmt::Arguments<'_>,
    binding: &Binding,
    inner: &Arc<Inner>,
    slot: &DeviceSlot,
) -> Result<()> {
    if !slot.device.has(Aspect::Pointers) {
        return Err(Error::unsupported(format!("{what}, on {}", slot.device)));
    }
    // A window of nothing is one of blank memory, which is the device's own.
    let asked = || inner.enter_without_native_calls(|state, _| state.engine.home(binding.root));
    let home = if binding.is_empty() { None } else { asked() };
    if slot.has_addresses(home) {
        return Ok(());
    }
    if home.is_some_and(|home| !slot.reaches(home)) {
        return Err(Error::invalid(format!(
            "{what}, to a buffer that stays in memory which {} does not reach in the group's context: copy it, on a queue of its \
             own context, to one that goes where it is needed",
            slot.device
        )));
    }
    Err(Error::unsupported(format!(
        "{what}, to a buffer {} without addresses, on {}: keep it in memory that has some, by `Queue::buffer_in`",
        if home.is_some() { "that stays in memory" } else { "in memory" },
        slot.device
    )))
}

/// Refuses what is passed where the kernel takes an image, if it is none for the device.
fn check_image(
    (name, at): (&str, usize),
    binding: &Binding,
    inner: &Arc<Inner>,
    slot: &DeviceSlot,
) -> Result<()> {
    let wrong = |what: &str| {
        Err(Error::invalid(format!(
            "argument {at} of kernel `{name}` is {what}, and the kernel takes an image"
        )))
    };
    let Some(part) = binding.image else { return wrong("a buffer that is no image") };
    let image = |state: &mut State, _: &mut _| state.engine.object(binding.root)?.image;
    match (part, inner.enter_without_native_calls(image)) {
        _ if binding.is_empty() => wrong("an image without texels"),
        (ImagePart::Portion, _) => wrong("a part of an image, and kernels take images as a whole"),
        (ImagePart::Whole, Some(shape)) if !slot.holds(&shape) => Err(Error::unsupported(format!(
            "an image of {:?} texels in {:?} as argument {at} of kernel `{name}`, on {}: copy its texels to a buffer, and \
             have the kernel take that",
            shape.size, shape.format, slot.device
        ))),
        _ => Ok(()),
    }
}

/// What a slot takes, in words.
pub(super) fn in_words(slot: &Slot) -> String {
    match slot {
        Slot::Buffer(SlotAccess::Read) => "a buffer to read".into(),
        Slot::Buffer(SlotAccess::ReadWrite) => "a buffer to write".into(),
        Slot::Pointer => "a pointer".into(),
        Slot::Value(bytes) => format!("a value of {bytes} bytes"),
        Slot::Local(_) => "local memory".into(),
        other => format!("{other:?}"),
    }
}

/// Refuses buffers with more elements than the kernel can count on this device.
fn check_lengths<'a>(
    kernel: &Kernel,
    buffers: impl Iterator<Item = (usize, &'a Binding)>,
    slot: &DeviceSlot,
) -> Result<()> {
    for (at, binding) in buffers {
        // Few have so many, and the image is found for those alone.
        if u32::try_from(binding.len()).is_err() {
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
            "the `#[spec]` value of kernel `{}` for `{}` must be finite, got {number}: pass it as an ordinary argument",
            kernel.name(),
            of.map_or(*name, |of| of.parameter)
        )));
    }
    let is_known = |name: &str| kernel.overrides().iter().any(|of| of.name == name);
    if let Some((name, _)) = values.iter().find(|(name, _)| !is_known(name)) {
        return Err(Error::invalid(format!(
            "kernel `{}` is not built with a value for `{name}`",
            kernel.name()
        )));
    }
    if !kernel.is_grouped() {
        return Ok(values);
    }
    let name = kernel.name();
    let of_range = || Some(SmallVec::<[usize; 3]>::from_slice(&range?.local()?[3 - range?.dims()..]));
    let Some(local) = kernel.group().map(SmallVec::from_slice).or_else(of_range) else {
        return Err(Error::invalid(format!(
            "kernel `{name}` works in groups: launch it over `NdRange {{ global: […], local: […] }}`"
        )));
    };
    let items: usize = local.iter().product();
    values.push(("group_items", items as f64));
    // Those that the launch does not have are last, and 1.
    let extents = local.iter().copied().chain([1; 3]);
    values.extend(["local_0", "local_1", "local_2"].into_iter().zip(extents.map(|extent| extent as f64)));
    Ok(values)
}

impl fmt::Debug for KernelCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelCall")
            .field("kernel", &self.kernel.name())
            .field("args", &self.launch.args.len())
            .finish()
    }
}
