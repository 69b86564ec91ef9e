//! Allocations, and the one kind that every backend meets: host memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

use windlass_kernel::DeviceCopy;
use windlass_kernel::texel::TexelFormat;

use crate::BackendError;

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
/// - Nobody but the owner of the allocation, and the lanes that are fed it, uses that memory. One that was imported shares it
///   with the allocation that it was made of, which it keeps alive.
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

/// Host memory: zeroed, or taken over from a `Vec`.
///
/// ```
/// use windlass_backend::{Allocation, HostMemory};
/// let memory = HostMemory::from_vec(vec![1_u32, 2, 3]);
/// assert_eq!(memory.bytes(), 12);
/// assert_eq!(memory.try_into_vec::<u32>().unwrap(), [1, 2, 3]);
/// ```
pub struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// What the allocator gave, and what it was asked for. The memory starts there, or a little later.
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is plain bytes that this value owns. All access is through raw pointers, whose users say why
// theirs is exclusive or ordered.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

/// Fresh memory starts on a cache line, which suits every element type and every vector width.
const ALIGN: usize = 64;

/// From how many bytes on memory is asked to come in huge pages.
const LARGE: usize = 8 << 20;

/// Has the system back large memory with huge pages, if it likes: who touches it for the first time waits for each page, and
/// several threads that do wait for each other.
fn ask_for_huge_pages(start: NonNull<u8>, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= LARGE && !cfg!(miri) {
        use rustix::mm::{Advice, madvise};
        const PAGE: usize = 2 << 20;
        let ahead = start.addr().get().wrapping_neg() % PAGE;
        let whole = (bytes - ahead) / PAGE * PAGE;
        // SAFETY: these pages lie inside the allocation that begins there and has so many bytes, `LARGE` being more than a page;
        // the advice changes nothing that is in them. A kernel without such pages refuses it.
        let _ = unsafe { madvise(start.add(ahead).as_ptr().cast(), whole, Advice::LinuxHugepage) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes, LARGE);
}

/// The alignment that `malloc` guarantees. Asking for more bypasses `calloc`, which gets zeroed pages for free.
///
/// Who watches memory is asked for all of it: in the room to be aligned in, an access behind the end would not be seen.
const MALLOC_ALIGN: usize = if cfg!(any(miri, windlass_watched)) { ALIGN } else { 16 };

impl HostMemory {
    /// `bytes` zeros, aligned for every element type.
    pub fn zeroed(bytes: usize) -> Result<Self, BackendError> {
        let none = || BackendError::OutOfMemory { bytes };
        if bytes == 0 {
            return Ok(HostMemory::empty());
        }
        let size = bytes.checked_add(ALIGN - MALLOC_ALIGN).ok_or_else(none)?;
        let layout = Layout::from_size_align(size, MALLOC_ALIGN).map_err(|_| none())?;
        // SAFETY: the layout's size is not zero.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(none)?;
        let ahead = base.addr().get().wrapping_neg() % ALIGN;
        // SAFETY: the base is a multiple of `MALLOC_ALIGN`, so the next multiple of `ALIGN` is at most `ALIGN - MALLOC_ALIGN` bytes on,
        // which is how many the allocation has beyond `bytes`.
        let start = unsafe { base.add(ahead) };
        ask_for_huge_pages(start, bytes);
        Ok(HostMemory { start, bytes, base, layout })
    }

    /// No memory.
    fn empty() -> Self {
        let layout = Layout::new::<[u64; 0]>();
        HostMemory { start: dangling(ALIGN), bytes: 0, base: dangling(ALIGN), layout }
    }

    /// Takes over a vector's memory; nothing is copied.
    pub fn from_vec<T: DeviceCopy>(vec: Vec<T>) -> Self {
        let mut vec = std::mem::ManuallyDrop::new(vec);
        let layout = match Layout::array::<T>(vec.capacity()) {
            Ok(layout) => layout,
            Err(_) => unreachable!("a vector's capacity has a valid layout"),
        };
        let start = NonNull::new(vec.as_mut_ptr().cast()).unwrap_or(dangling(layout.align()));
        HostMemory { start, bytes: vec.len() * size_of::<T>(), base: start, layout }
    }

    /// Gives the memory back as a vector without a copy, where it was one of the same layout; else returns itself.
    pub fn try_into_vec<T: DeviceCopy>(self) -> Result<Vec<T>, Self> {
        let fits = self.layout.align() == align_of::<T>()
            && self.start == self.base
            && size_of::<T>() != 0
            && self.layout.size().is_multiple_of(size_of::<T>())
            && self.bytes.is_multiple_of(size_of::<T>());
        if !fits {
            return Err(self);
        }
        let this = std::mem::ManuallyDrop::new(self);
        let (len, capacity) = (this.bytes / size_of::<T>(), this.layout.size() / size_of::<T>());
        // SAFETY: the memory comes from the global allocator with exactly the layout of `capacity` elements of `T`
        // (start, size and alignment were compared), its first `len` elements are initialised, `T` takes every bit pattern,
        // and ownership passes on because `self` is not dropped.
        Ok(unsafe { Vec::from_raw_parts(this.start.as_ptr().cast(), len, capacity) })
    }
}

fn dangling(align: usize) -> NonNull<u8> {
    NonNull::without_provenance(std::num::NonZero::new(align).unwrap_or(std::num::NonZero::<usize>::MIN))
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if self.layout.size() != 0 {
            // SAFETY: the memory was allocated by the global allocator with this layout, and is freed once.
            unsafe { dealloc(self.base.as_ptr(), self.layout) }
        }
    }
}

// SAFETY: the memory was allocated with at least `bytes` bytes from `start` on, all of them initialised (zeroed, or a vector's
// elements), and is freed only when this value is dropped.
unsafe impl Allocation for HostMemory {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn host_ptr(&self) -> Option<NonNull<u8>> {
        Some(self.start)
    }

    /// That of the host, for devices that work on its memory.
    fn device_address(&self) -> Option<u64> {
        Some(self.start.as_ptr().expose_provenance() as u64)
    }
}

impl fmt::Debug for HostMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostMemory").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_goes_in_and_comes_out_where_it_was() {
        let mut vec = Vec::with_capacity(10);
        vec.extend([1.5_f32, 2.5]);
        let address = vec.as_ptr();
        let memory = HostMemory::from_vec(vec);
        assert_eq!(memory.bytes(), 8);
        let memory = memory.try_into_vec::<f64>().expect_err("an f64 vector has another layout");
        let vec = memory.try_into_vec::<f32>().expect("this is its own layout");
        assert_eq!((vec.as_slice(), vec.capacity(), vec.as_ptr()), (&[1.5, 2.5][..], 10, address));
    }

    #[test]
    fn fresh_memory_starts_on_a_cache_line_and_is_zero() {
        for bytes in [1, 4, 63, 64, 65, 4096, 1 << 20] {
            let memory = HostMemory::zeroed(bytes).expect("there is that much");
            let start = memory.host_ptr().expect("host memory has an address");
            assert_eq!(start.addr().get() % ALIGN, 0);
            // SAFETY: the memory has that many bytes, is initialised, and nobody else knows it.
            let all = unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), bytes) };
            assert!(all.iter().all(|b| *b == 0));
            all.fill(1);
        }
    }

    #[test]
    fn empty_memory_owns_nothing() {
        assert_eq!(HostMemory::zeroed(0).expect("no bytes are always there").bytes(), 0);
        assert_eq!(
            HostMemory::from_vec(Vec::<u64>::new()).try_into_vec::<u64>().expect("same layout").len(),
            0
        );
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(matches!(HostMemory::zeroed(usize::MAX), Err(BackendError::OutOfMemory { .. })));
    }
}
