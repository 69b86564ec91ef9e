//! A kernel as a set of images: the same computation in the languages of several devices.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::declared::Declared;
use crate::follows::FollowsPointers;
use crate::message::Message;
use crate::native::NativeKernel;
use crate::need::Need;
use crate::shape::Shaping;
use crate::{BadRange, Body, HostBody, Range, slice_bytes};

/// The language or binary form of a kernel image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ImageFormat {
    /// WGSL text, for wgpu.
    Wgsl,
    /// OpenCL C text.
    OpenClC,
    /// SPIR-V words of the kernel flavour, for OpenCL.
    SpirV,
    /// CUDA C++ text.
    CudaC,
    /// PTX text, for NVIDIA's devices.
    Ptx,
    /// What the compiler of one device has made, for that device.
    Binary,
    /// A kernel that the device has built in; the entry point is its name.
    Builtin,
    /// A body for host devices.
    Host,
}

/// How a kernel uses the memory behind one of its buffer parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotAccess {
    /// It only reads.
    Read,
    /// It may read and write.
    ReadWrite,
}

/// What a kernel expects at one position of its argument list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Slot {
    /// A range of a buffer in the device's global memory.
    Buffer(SlotAccess),
    /// Read-only memory that the device may cache as constant.
    Constant,
    /// An image object.
    Image,
    /// A sampler object.
    Sampler,
    /// Local memory of this many bytes, shared by one work-group.
    Local(usize),
    /// A plain value of this many bytes.
    Value(usize),
    /// A raw device pointer.
    Pointer,
}

/// What a parameter of a kernel in a device's own language is given. Numbers name slots of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Parameter {
    /// A pointer to the first byte of a buffer's memory. Without an [`Offset`](Parameter::Offset) of the same slot, ranges that
    /// start elsewhere are refused at the launch.
    Start(usize),
    /// Where the range starts, in elements, as an integer of this width.
    Offset(usize, Width),
    /// How many elements the range has, as an integer of this width.
    Len(usize, Width),
    /// The value, or the local memory, of a slot.
    Slot(usize),
    /// The launch's extent along a dimension, outermost first, as an integer of this width; 1 where it has no such dimension.
    Extent(usize, Width),
}

/// The width of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Width {
    /// 32 bits.
    W32,
    /// 64 bits.
    W64,
}

/// One form of a kernel, with the name of its entry point.
#[derive(Clone)]
pub struct KernelImage {
    pub(crate) format: ImageFormat,
    pub(crate) entry: Arc<str>,
    pub(crate) code: Arc<[u8]>,
    pub(crate) body: Option<Body>,
    guarded: bool,
    /// The code follows pointers, to what one of its values says that the launch reaches.
    pub(crate) reaches: bool,
    declared: Option<Declared>,
    ends: bool,
    overrides: Overrides,
    parameters: Option<Arc<[Parameter]>>,
    /// The name of the only device that takes it.
    device: Option<Arc<str>>,
}

/// Values for a text's overrides, by name.
pub type Overrides = Arc<[(Box<str>, f64)]>;

impl KernelImage {
    /// A kernel in WGSL, in the convention of [`block`](crate::block). It is checked when it is built, and every access
    /// is bounded, so a faulty one gives wrong values and no more.
    pub fn wgsl(entry: &str, text: &str) -> Self {
        Self::text(ImageFormat::Wgsl, entry, text)
    }

    /// A kernel in WGSL that compares every index with the length of what it goes into by itself, and clears its work-groups'
    /// memory itself, so that devices need not repeat that.
    ///
    /// # Safety
    /// No index in the text is ever outside: neither outside a fixed array or a work-group's memory, nor outside the range of a buffer
    /// slot as the [block](crate::block) states it, with the gaps between its rows where it has some. No element of a work-group's memory is
    /// read that the group has not written. This holds for whatever the kernel is called with and its overrides are set to, or nobody calls it
    /// with anything else: the block counts elements of whatever type is passed, and values are whatever is passed.
    pub unsafe fn guarded_wgsl(entry: &str, text: &str) -> Self {
        KernelImage { guarded: true, ..Self::wgsl(entry, text) }
    }

    /// The image of a text all of whose loops end, whatever it is called with, so that devices need not count their
    /// rounds.
    ///
    /// # Safety
    /// They do. A device's compiler may take for impossible what leads to a loop without an end.
    pub unsafe fn ending(self) -> Self {
        KernelImage { ends: true, ..self }
    }

    /// A kernel in OpenCL C.
    ///
    /// # Safety
    /// The kernel must stay inside the memory of its arguments and write only through parameters declared
    /// [`SlotAccess::ReadWrite`]: on a CPU device it runs inside this process.
    pub unsafe fn opencl_c(entry: &str, text: &str) -> Self {
        Self::text(ImageFormat::OpenClC, entry, text)
    }

    /// A kernel in PTX, for NVIDIA's devices under OpenCL. Its parameters are as those of [`KernelImage::opencl_c`].
    ///
    /// # Safety
    /// As for [`KernelImage::opencl_c`].
    pub unsafe fn ptx(entry: &str, text: &str) -> Self {
        Self::text(ImageFormat::Ptx, entry, text)
    }

    /// A kernel in SPIR-V of the kernel flavour, for OpenCL devices that take it. Its parameters are as those of
    /// [`KernelImage::opencl_c`].
    ///
    /// # Safety
    /// As for [`KernelImage::opencl_c`].
    pub unsafe fn spirv(entry: &str, words: &[u32]) -> Self {
        Self::of_bytes(ImageFormat::SpirV, entry, slice_bytes(words))
    }

    /// A kernel as the compiler of the device with this name has made it, in whatever form the device's driver has (under OpenCL
    /// `CL_PROGRAM_BINARIES`). Other devices do not take it, so a kernel may have several, and a text for all others. Its
    /// parameters are as those of [`KernelImage::opencl_c`].
    ///
    /// # Safety
    /// As for [`KernelImage::opencl_c`]; and the code is whole, since not every driver looks before it loads it.
    pub unsafe fn binary(device: &str, entry: &str, code: &[u8]) -> Self {
        KernelImage { device: Some(device.into()), ..Self::of_bytes(ImageFormat::Binary, entry, code) }
    }

    /// A kernel that a device has built in, by its name there; it takes each slot's buffer by its start, unless
    /// [`KernelImage::with_parameters`] says otherwise.
    ///
    /// # Safety
    /// As for [`KernelImage::opencl_c`].
    pub unsafe fn builtin(name: &str) -> Self {
        Self::text(ImageFormat::Builtin, name, "")
    }

    /// The image with a description of its parameters, for a kernel whose author knew nothing of Windlass.
    ///
    /// ```
    /// use windlass_kernel::{Kernel, KernelImage, Parameter, Slot, SlotAccess, Width};
    /// let text = "__kernel void scale(uint n, __global float *v, float by) { if (get_global_id(0) < n) v[get_global_id(0)] *= by; }";
    /// // SAFETY: it stays below `n`, which is the buffer's length.
    /// let image = unsafe { KernelImage::opencl_c("scale", text) };
    /// let image = image.with_parameters([Parameter::Len(0, Width::W32), Parameter::Start(0), Parameter::Slot(1)]);
    /// let kernel = Kernel::new("scale", [Slot::Buffer(SlotAccess::ReadWrite), Slot::Value(4)], [image]);
    /// assert_eq!(kernel.images()[0].parameters().map(<[_]>::len), Some(3));
    /// ```
    pub fn with_parameters(self, parameters: impl IntoIterator<Item = Parameter>) -> Self {
        KernelImage { parameters: Some(parameters.into_iter().collect()), ..self }
    }

    /// A kernel as a body that host devices call.
    pub fn host(body: Arc<dyn HostBody>) -> Self {
        Self::of_body(Body::open(body))
    }

    /// A kernel as the attribute's native code.
    pub(crate) fn native(kernel: NativeKernel) -> Self {
        Self::of_body(Body::native(kernel))
    }

    fn of_body(body: Body) -> Self {
        KernelImage { body: Some(body), guarded: true, ..Self::text(ImageFormat::Host, "host", "") }
    }

    fn text(format: ImageFormat, entry: &str, text: &str) -> Self {
        Self::of_bytes(format, entry, text.as_bytes())
    }

    fn of_bytes(format: ImageFormat, entry: &str, code: &[u8]) -> Self {
        KernelImage {
            format,
            entry: entry.into(),
            code: code.into(),
            body: None,
            guarded: false,
            reaches: false,
            declared: None,
            ends: false,
            overrides: Arc::new([]),
            parameters: None,
            device: None,
        }
    }

    /// The image's language.
    pub fn format(&self) -> ImageFormat {
        self.format
    }

    /// The name of the entry point in the code.
    pub fn entry(&self) -> &str {
        &self.entry
    }

    /// The code as bytes; for the text formats, UTF-8. Empty for host bodies and built-in kernels.
    pub fn code(&self) -> &[u8] {
        &self.code
    }

    /// The code of a text format; empty for the others.
    pub fn source(&self) -> &str {
        std::str::from_utf8(&self.code).unwrap_or_default()
    }

    /// Whether the code can count the elements of an argument. WGSL and what `#[kernel]` makes do so in 32 bits; code in a
    /// device's own language, and bodies, as they like.
    ///
    /// ```
    /// use windlass_kernel::KernelImage;
    /// let image = KernelImage::wgsl("main", "@compute @workgroup_size(64) fn main() {}");
    /// assert!(image.check_len("nothing", 0, 7).is_ok());
    /// let error = image.check_len("nothing", 2, 1 << 32).unwrap_err();
    /// assert!(error.to_string().starts_with("argument 2 of kernel `nothing` has 4294967296 elements"), "{error}");
    /// ```
    pub fn check_len(&self, kernel: &str, argument: usize, len: usize) -> Result<(), TooLong> {
        let counts_in_32_bits = match &self.body {
            Some(body) => body.is_native(),
            None => self.format == ImageFormat::Wgsl,
        };
        match counts_in_32_bits && u32::try_from(len).is_err() {
            true => Err(TooLong { kernel: kernel.into(), argument, len }),
            false => Ok(()),
        }
    }

    /// Whether the code keeps its own indices inside, so that nobody else has to.
    pub fn is_guarded(&self) -> bool {
        self.guarded
    }

    /// The same code, which follows pointers to what a value says.
    pub(crate) fn reaching(self) -> Self {
        KernelImage { reaches: true, ..self }
    }

    /// The same code, which the attribute wrote for such arguments.
    pub(crate) fn declaring(self, declared: Declared) -> Self {
        KernelImage { declared: Some(declared), ..self }
    }

    /// The arguments that the attribute wrote it for, if it did.
    #[doc(hidden)]
    pub fn declared(&self) -> Option<&Declared> {
        self.declared.as_ref()
    }

    /// Whether all of the code's loops are known to end.
    pub fn ends(&self) -> bool {
        self.ends
    }

    /// The image with values for its overrides; of a text that has overrides, a device builds a form for each set of
    /// values.
    pub fn with_overrides(&self, overrides: Overrides) -> Self {
        KernelImage { overrides, ..self.clone() }
    }

    /// Values for the text's overrides.
    pub fn overrides(&self) -> &Overrides {
        &self.overrides
    }

    /// What its parameters are given, where that was described.
    pub fn parameters(&self) -> Option<&[Parameter]> {
        self.parameters.as_deref()
    }

    /// The body, for [`ImageFormat::Host`].
    pub fn body(&self) -> Option<&Body> {
        self.body.as_ref()
    }
}

impl fmt::Debug for KernelImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelImage")
            .field("format", &self.format)
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}

/// An argument with more elements than a kernel can count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    kernel: Box<str>,
    argument: usize,
    len: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLong { kernel, argument, len } = self;
        let most = u32::MAX;
        write!(
            f,
            "argument {argument} of kernel `{kernel}` has {len} elements, and the kernel counts in 32 bits, up to {most}; \
             pass parts of the buffer"
        )
    }
}

impl std::error::Error for TooLong {}

/// A kernel: a name, the parameters it takes, and a set of images of which one must suit the device.
///
/// Cheap to clone; clones are the same kernel, so a device builds it once.
///
/// ```
/// use windlass_kernel::{Kernel, KernelImage, Slot, SlotAccess};
/// let image = KernelImage::wgsl("main", "@compute @workgroup_size(64) fn main() {}");
/// let kernel = Kernel::new("nothing", [Slot::Buffer(SlotAccess::ReadWrite)], [image]);
/// assert_eq!(kernel.name(), "nothing");
/// ```
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(crate) inner: Arc<KernelInner>,
}

#[derive(Clone, Debug)]
pub(crate) struct KernelInner {
    pub(crate) name: Box<str>,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) images: Box<[KernelImage]>,
    pub(crate) grouped: bool,
    /// Empty where each launch says what its groups are.
    pub(crate) group: Box<[usize]>,
    pub(crate) fast: bool,
    pub(crate) needs: Box<[Need]>,
    pub(crate) overrides: Box<[Override]>,
    pub(crate) shaping: Option<Shaping>,
    /// What its items say by `debug!`.
    pub(crate) messages: &'static [Message],
    /// Of which kernel this is another form.
    pub(crate) original: Option<Kernel>,
    pub(crate) pointers: FollowsPointers,
}

/// A value that a kernel is built with.
#[derive(Clone, Copy, Debug)]
pub struct Override {
    /// The parameter that it comes from.
    pub parameter: &'static str,
    /// The name that the text has for it.
    pub name: &'static str,
    /// A number as the parameter's type holds it; `None` where it does not fit.
    pub held: fn(f64) -> Option<f64>,
}

impl Kernel {
    /// A kernel from its parts.
    pub fn new(
        name: &str,
        slots: impl IntoIterator<Item = Slot>,
        images: impl IntoIterator<Item = KernelImage>,
    ) -> Self {
        Self::made(name, slots, images, false)
    }

    /// A kernel that is launched over [`NdRange`](crate::NdRange)s only: its text has the overrides `group_items`, the
    /// work-items of one work-group, which is its work-group's size, and `local_0` to `local_2`, the group's extents,
    /// outermost first, those that the launch does not have 1. A device whose last groups never reach beyond the launch
    /// sets `rows` to false, a `bool`. A text of the attribute has those of its [shape](crate::shape) besides.
    pub fn grouped(
        name: &str,
        slots: impl IntoIterator<Item = Slot>,
        images: impl IntoIterator<Item = KernelImage>,
    ) -> Self {
        Self::made(name, slots, images, true)
    }

    fn made(
        name: &str,
        slots: impl IntoIterator<Item = Slot>,
        images: impl IntoIterator<Item = KernelImage>,
        grouped: bool,
    ) -> Self {
        Kernel::of(KernelInner {
            name: name.into(),
            slots: slots.into_iter().collect(),
            images: images.into_iter().collect(),
            grouped,
            group: [].into(),
            fast: false,
            needs: [].into(),
            overrides: [].into(),
            shaping: None,
            messages: &[],
            original: None,
            pointers: FollowsPointers::No,
        })
    }

    pub(crate) fn of(mut inner: KernelInner) -> Self {
        inner.pointers = inner.follows();
        Kernel { inner: Arc::new(inner) }
    }

    /// The same kernel for devices that have these only.
    ///
    /// ```
    /// use windlass_kernel::{Kernel, KernelImage, Need, Slot};
    /// let image = KernelImage::wgsl("main", "@compute @workgroup_size(64) fn main() { let x: f64 = 1.0lf; }");
    /// let kernel = Kernel::new("doubles", [], [image]).needing([Need::Fp64]);
    /// assert_eq!(kernel.needs(), [Need::Fp64]);
    /// ```
    pub fn needing(self, needs: impl IntoIterator<Item = Need>) -> Self {
        Kernel::of(KernelInner { needs: needs.into_iter().collect(), ..(*self.inner).clone() })
    }

    /// A kernel that takes the same and is launched in the same way, in other forms: such as were written by hand for one device, or
    /// changed to be measured.
    ///
    /// ```
    /// use windlass_kernel::{ImageFormat, Kernel, KernelImage, Slot};
    /// let image = KernelImage::wgsl("main", "@compute @workgroup_size(64) fn main() {}");
    /// let kernel = Kernel::new("nothing", [], [image]);
    /// // SAFETY: it reaches no memory.
    /// let by_hand = unsafe { KernelImage::opencl_c("nothing", "__kernel void nothing() {}") };
    /// let kernel = kernel.in_forms([by_hand]);
    /// assert_eq!(kernel.images()[0].format(), ImageFormat::OpenClC);
    /// assert!(kernel.is_form_of(&kernel.in_forms([])));
    /// ```
    pub fn in_forms(&self, images: impl IntoIterator<Item = KernelImage>) -> Self {
        let (images, original) = (images.into_iter().collect(), Some(self.original().clone()));
        Kernel::of(KernelInner { images, original, ..(*self.inner).clone() })
    }

    /// Whether both are forms of one kernel, so that they take the same, and elements of the same types.
    pub fn is_form_of(&self, other: &Kernel) -> bool {
        self.original().id() == other.original().id()
    }

    fn original(&self) -> &Kernel {
        self.inner.original.as_ref().unwrap_or(self)
    }

    /// What it asks of a device that not all devices have.
    pub fn needs(&self) -> &[Need] {
        &self.inner.needs
    }

    /// The values that it is built with, in the order of the parameters; those of [`Kernel::grouped`] are not among them.
    pub fn overrides(&self) -> &[Override] {
        &self.inner.overrides
    }

    /// Whether it is launched over work-groups only.
    pub fn is_grouped(&self) -> bool {
        self.inner.grouped
    }

    /// The extents of the work-groups that it works in, outermost first, if it leaves no choice.
    pub fn group(&self) -> Option<&[usize]> {
        Some(&self.inner.group[..]).filter(|group| !group.is_empty())
    }

    /// Whether devices may be less exact for speed: fuse products and sums, reorder them, and take their own functions.
    pub fn is_fast(&self) -> bool {
        self.inner.fast
    }

    /// What a launch over a range comes to: a kernel that says what its work-groups are is launched in those, also where the
    /// range names none.
    ///
    /// # Errors
    /// If the range has other work-groups, or another number of dimensions.
    pub fn grouped_range(&self, range: Range) -> Result<Range, BadRange> {
        match self.group() {
            Some(group) => range.in_groups(group, self.name()),
            None => Ok(range),
        }
    }

    /// What its items say by `debug!`. Where there is anything, its last slot is for that, and launches bring the memory.
    pub fn messages(&self) -> &'static [Message] {
        self.inner.messages
    }

    /// What the shape of its launches depends on, if its text leaves that open.
    pub fn shaping(&self) -> Option<Shaping> {
        self.inner.shaping
    }

    /// The name that errors and traces use.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What the kernel expects, in order.
    pub fn slots(&self) -> &[Slot] {
        &self.inner.slots
    }

    /// The forms in which it exists.
    pub fn images(&self) -> &[KernelImage] {
        &self.inner.images
    }

    /// The first image in one of the formats that a device takes, in the device's order of preference. Of those that are for one
    /// device, the name decides.
    pub fn image_for(&self, formats: &[ImageFormat], device: &str) -> Option<&KernelImage> {
        // A part of a device is called by the whole's name and which one it is, and takes what the whole takes.
        let is_for = |image: &KernelImage| {
            image
                .device
                .as_deref()
                .is_none_or(|name| name == device || Some(name) == device.split(", part ").next())
        };
        let mut images = formats.iter().flat_map(|f| self.inner.images.iter().filter(|i| i.format == *f));
        images.find(|image| is_for(image))
    }

    /// A number that is the same for clones and different for other live kernels: the key of a build cache, which
    /// must hold a clone so that the number is not given out again.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.inner) as *const () as usize
    }
}
/// Clones of one kernel are the same, and nothing else is.
impl PartialEq for Kernel {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Kernel {}

impl Hash for Kernel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

/// The kernel that devices have built in by this name, and nothing else.
///
/// # Safety
/// The kernel keeps to the memory that it is given, and reads only what its slots say that it reads.
pub unsafe fn builtin(name: &str, slots: impl IntoIterator<Item = Slot>) -> Kernel {
    // SAFETY: the caller's promise.
    let image = unsafe { KernelImage::builtin(name) };
    Kernel::new(name, slots, [image])
}
