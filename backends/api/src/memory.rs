//! Allocations, and what is said of memories.

mod host;

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

pub use host::HostMemory;
use windlass_kernel::texel::TexelFormat;

/// What fresh memory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Zeros, at no cost worth a thought: pages that the system clears as they are touched, for one.
    Zeroed,
    /// Anything. The runtime clears what somebody reads before it was written, and nothing else.
    Any,
}

/// Whether the host reaches a memory by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostAccess {
    /// It does not: [`Allocation::host_ptr`] is `None`.
    None,
    /// It does, by ordinary loads and stores, at any time that no command uses the bytes: every allocation has a
    /// [`Allocation::host_ptr`].
    Coherent,
    /// It does, by ordinary loads and stores, from when a [`Command::Map`](crate::Command::Map) of the allocation has ended until
    /// the next [`Command::Unmap`](crate::Command::Unmap) of it is fed, and no other command uses the allocation meanwhile. Every
    /// allocation has a [`Allocation::host_ptr`], of use only then. A fresh one, and one that was imported, is not mapped.
    Mapped,
}

/// What a memory is for. Programs name a kind where they want something to stay in one place; what may go anywhere is kept in
/// the device's own memory, whatever its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryKind {
    /// Near the device.
    Device,
    /// Near the host, and reached by the device over whatever lies between them.
    Host,
    /// Where host and device both have it near, or the driver moves it to who uses it.
    Shared,
}

impl fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MemoryKind::Device => "device",
            MemoryKind::Host => "host",
            MemoryKind::Shared => "shared",
        })
    }
}

/// What is known of one of a context's memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Whether the host reaches it.
    pub host: HostAccess,
    /// What an allocation in it holds at first.
    pub fresh: Contents,
    /// What it is for.
    pub kind: MemoryKind,
    /// How many bytes it has, where that is known. The runtime refuses what can never fit when its group is submitted.
    pub bytes: Option<u64>,
    /// The alignment in bytes, of its address and its size, of host memory that [`Context::import`](crate::Context::import) makes
    /// allocations of; `None` where it makes none.
    pub imports: Option<usize>,
    /// Whether its linear memory has a [`Allocation::device_address`].
    pub addressed: bool,
    /// Which images it holds as such: [`MemoryObject::Image`]. All others, and those of memories without, the runtime keeps as
    /// linear memory. Only a memory out of the host's reach holds images.
    pub images: Option<ImageLimits>,
    /// The runtime keeps for the next buffers what others have let go of, and does not count on [`MemoryInfo::fresh`] there: for memory that
    /// costs something to allocate, to clear or to free. Not for memory that is [mapped](HostAccess::Mapped).
    pub kept: bool,
    /// The alignment in bytes of where [pieces](crate::Context::piece) of its linear memory may start; `None` where there are none. Where the host
    /// reaches it, it suits every element type.
    pub pieces: Option<usize>,
}

impl MemoryInfo {
    /// A memory of a device's own, out of the host's reach, whose fresh contents may be anything.
    ///
    /// ```
    /// use windlass_backend::{Contents, HostAccess, MemoryInfo};
    /// let video = MemoryInfo::new();
    /// assert_eq!((video.host, video.fresh), (HostAccess::None, Contents::Any));
    /// assert_eq!(video.fresh(Contents::Zeroed).fresh, Contents::Zeroed);
    /// ```
    pub const fn new() -> Self {
        MemoryInfo {
            host: HostAccess::None,
            fresh: Contents::Any,
            kind: MemoryKind::Device,
            bytes: None,
            imports: None,
            addressed: false,
            images: None,
            kept: false,
            pieces: None,
        }
    }

    /// Whether the host reaches it.
    pub const fn host(self, host: HostAccess) -> Self {
        MemoryInfo { host, ..self }
    }

    /// What an allocation in it holds at first.
    pub const fn fresh(self, fresh: Contents) -> Self {
        MemoryInfo { fresh, ..self }
    }

    /// What it is for.
    pub const fn kind(self, kind: MemoryKind) -> Self {
        MemoryInfo { kind, ..self }
    }

    /// How many bytes it has.
    pub const fn bytes(self, bytes: Option<u64>) -> Self {
        MemoryInfo { bytes, ..self }
    }

    /// It makes allocations of host memory whose address and size are multiples of this many bytes.
    pub const fn imports(self, alignment: usize) -> Self {
        MemoryInfo { imports: Some(alignment), ..self }
    }

    /// Its linear memory has addresses for kernels.
    pub const fn addressed(self) -> Self {
        MemoryInfo { addressed: true, ..self }
    }

    /// It holds these images.
    pub const fn images(self, images: ImageLimits) -> Self {
        MemoryInfo { images: Some(images), ..self }
    }

    /// What buffers let go of is kept for the next ones.
    pub const fn kept(self) -> Self {
        MemoryInfo { kept: true, ..self }
    }

    /// What is kept of its linear memory may be lent in pieces, which start at multiples of this many bytes.
    pub const fn pieces(self, alignment: usize) -> Self {
        MemoryInfo { pieces: Some(alignment), ..self }
    }

    /// Whether it holds an image as such.
    pub fn holds(&self, shape: &ImageShape) -> bool {
        self.images.is_some_and(|images| images.allow(shape))
    }
}

impl Default for MemoryInfo {
    fn default() -> Self {
        MemoryInfo::new()
    }
}

/// How much of a memory is in use, by this process or by all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that there are.
    pub total: u64,
}

impl Usage {
    /// So many of so many bytes.
    pub fn new(used: u64, total: u64) -> Self {
        Usage { used, total }
    }
}

/// What to allocate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryObject {
    /// Linear memory of this many bytes. A backend may round it up to its own granule.
    Buffer {
        /// The size; not zero.
        bytes: usize,
    },
    /// Texels, laid out as the device likes it. Only in memories that [hold](MemoryInfo::holds) it.
    Image(ImageShape),
}

impl MemoryObject {
    /// The size in bytes; of an image, of its texels without gaps.
    pub fn bytes(&self) -> usize {
        match self {
            MemoryObject::Buffer { bytes } => *bytes,
            MemoryObject::Image(shape) => shape.texels() * shape.format.bytes(),
        }
    }
}

/// Which images a memory holds.
///
/// ```
/// use windlass_backend::{ImageLimits, ImageShape};
/// use windlass_kernel::texel::TexelFormat;
/// let images = ImageLimits::new([2048, 16384, 16384]).format(TexelFormat::R32Float);
/// assert!(images.allow(&ImageShape::new([1, 480, 640], 2, TexelFormat::R32Float)));
/// assert!(!images.allow(&ImageShape::new([1, 480, 640], 2, TexelFormat::R32Uint)));
/// assert!(!images.allow(&ImageShape::new([1, 20_000, 640], 2, TexelFormat::R32Float)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageLimits {
    /// The most slices, rows, and texels in a row.
    pub extent: [usize; 3],
    /// A bit for each format.
    formats: u64,
}

impl ImageLimits {
    /// Images of up to so many slices, rows, and texels in a row, of no format yet.
    pub const fn new(extent: [usize; 3]) -> Self {
        ImageLimits { extent, formats: 0 }
    }

    /// Images of this format too.
    pub const fn format(self, format: TexelFormat) -> Self {
        ImageLimits { formats: self.formats | 1_u64 << format as u32, ..self }
    }

    /// Whether it holds an image of this shape.
    pub fn allow(&self, shape: &ImageShape) -> bool {
        let fits = shape.size.iter().zip(&self.extent).all(|(size, most)| size <= most);
        fits && self.formats & 1_u64 << shape.format as u32 != 0
    }
}

/// The extent of an image and the format of its texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageShape {
    /// Slices, rows, and texels in a row; none of them zero.
    pub size: [usize; 3],
    /// How many of its dimensions count: those that are left out are the first, and 1.
    pub dims: usize,
    /// What a texel is.
    pub format: TexelFormat,
}

impl ImageShape {
    /// An image of so many slices, rows, and texels in a row, of which the last `dims` count.
    ///
    /// ```
    /// use windlass_backend::{ImageShape, MemoryObject};
    /// use windlass_kernel::texel::TexelFormat;
    /// let shape = ImageShape::new([1, 480, 640], 2, TexelFormat::Rgba8Unorm);
    /// assert_eq!(shape.texels(), 307_200);
    /// assert_eq!(MemoryObject::Image(shape).bytes(), 1_228_800);
    /// ```
    pub const fn new(size: [usize; 3], dims: usize, format: TexelFormat) -> Self {
        ImageShape { size, dims, format }
    }

    /// How many texels it has.
    pub fn texels(&self) -> usize {
        self.size.iter().product()
    }
}

/// Memory that a backend, or the runtime itself, allocated.
///
/// Safe code dereferences its address, so to implement it is a promise:
///
/// ```compile_fail,E0200
/// struct Memory;
/// impl windlass_backend::Allocation for Memory {
///     fn bytes(&self) -> usize { 1 << 20 }
///     fn host_ptr(&self) -> Option<std::ptr::NonNull<u8>> { Some(std::ptr::NonNull::dangling()) }
/// }
/// ```
///
/// # Safety
///
/// - If there is a host address, [`Allocation::bytes`] bytes from it on are initialised memory that may be read and
///   written through it, aligned for every element type that there is: as long as the allocation lives, or, in
///   [`HostAccess::Mapped`] memory, while it is mapped. Both answers are the same each time.
/// - Nobody but the owner of the allocation, and the lanes that are fed it, uses that memory. One that was imported, or is a
///   [piece](crate::Context::piece), shares it with the allocation that it was made of, which it keeps alive.
pub unsafe trait Allocation: Any + Send + Sync {
    /// Its size in bytes.
    fn bytes(&self) -> usize;

    /// Its address, where the host may read and write it directly: at any time that no command uses it, or, in
    /// [`HostAccess::Mapped`] memory, while it is mapped.
    fn host_ptr(&self) -> Option<NonNull<u8>>;

    /// The address by which kernels of its context's devices reach it, where there are such. The same each time.
    fn device_address(&self) -> Option<u64> {
        None
    }

    /// What it is an image of, if it is one. The same each time.
    fn image(&self) -> Option<ImageShape> {
        None
    }
}

impl fmt::Debug for dyn Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("bytes", &self.bytes())
            .field("host_ptr", &self.host_ptr())
            .finish()
    }
}
