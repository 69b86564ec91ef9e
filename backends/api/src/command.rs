//! What a lane is fed.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_kernel::{Block, Body, Extent, HostBody, Range, RawSpan, SlotAccess, Word};

use crate::{Allocation, BackendError, BuiltKernel, NativeCall, Sequence};

/// A box of bytes in an allocation, in one to three dimensions.
///
/// ```
/// use windlass_backend::Region;
/// let line = Region::line(16, 64);
/// assert_eq!((line.bytes(), line.end()), (64, 80));
/// let block = Region { offset: 4, width: 8, rows: 2, slices: 1, row_pitch: 32, slice_pitch: 0 };
/// assert_eq!((block.bytes(), block.end()), (16, 4 + 32 + 8));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// The first byte.
    pub offset: usize,
    /// Bytes in a row.
    pub width: usize,
    /// Rows in a slice.
    pub rows: usize,
    /// Slices.
    pub slices: usize,
    /// Bytes from one row to the next.
    pub row_pitch: usize,
    /// Bytes from one slice to the next.
    pub slice_pitch: usize,
}

impl Region {
    /// `bytes` consecutive bytes.
    pub fn line(offset: usize, bytes: usize) -> Self {
        Region { offset, width: bytes, rows: 1, slices: 1, row_pitch: bytes, slice_pitch: bytes }
    }

    /// How many bytes the box holds.
    pub fn bytes(&self) -> usize {
        self.width * self.rows * self.slices
    }

    /// One past the last byte.
    pub fn end(&self) -> usize {
        if self.bytes() == 0 {
            return self.offset;
        }
        self.offset + (self.slices - 1) * self.slice_pitch + (self.rows - 1) * self.row_pitch + self.width
    }

    /// Whether the bytes follow each other without a gap.
    pub fn is_contiguous(&self) -> bool {
        let rows = self.rows * self.slices;
        rows <= 1
            || (self.row_pitch == self.width
                && (self.slices == 1 || self.slice_pitch == self.rows * self.width))
    }

    /// How many elements of so many bytes its rows, and its slices, start apart, or zero where there is only one. `None` where the
    /// box does not consist of whole elements.
    ///
    /// ```
    /// use windlass_backend::Region;
    /// let block = Region { offset: 4, width: 8, rows: 2, slices: 1, row_pitch: 32, slice_pitch: 7 };
    /// assert_eq!((block.pitches(4), block.pitches(3)), (Some([8, 0]), None));
    /// ```
    pub fn pitches(&self, element: usize) -> Option<[usize; 2]> {
        let whole = |bytes: usize| bytes.checked_div(element).filter(|n| n * element == bytes);
        whole(self.width)?;
        let row = if self.rows > 1 || self.slices > 1 { whole(self.row_pitch)? } else { 0 };
        let slice = if self.slices > 1 { whole(self.slice_pitch)? } else { 0 };
        Some([row, slice])
    }

    /// The box's shape in elements of so many bytes, as a span of it has to have it: kernels count rows and slices. `None` where the
    /// box does not consist of whole elements.
    ///
    /// ```
    /// use windlass_backend::Region;
    /// let block = Region { offset: 4, width: 8, rows: 2, slices: 1, row_pitch: 32, slice_pitch: 7 };
    /// let extent = block.extent(4).expect("a row is two elements");
    /// assert_eq!((extent.size, extent.pitch), ([1, 2, 2], [0, 8]));
    /// assert_eq!(block.extent(3), None);
    /// ```
    pub fn extent(&self, element: usize) -> Option<Extent> {
        let [row, slice] = self.pitches(element)?;
        Some(Extent { size: [self.slices, self.rows, self.width / element], pitch: [slice, row] })
    }

    /// The offsets of the box's rows, in order.
    pub fn row_offsets(self) -> impl Iterator<Item = usize> {
        (0..self.slices).flat_map(move |z| {
            (0..self.rows).map(move |y| self.offset + z * self.slice_pitch + y * self.row_pitch)
        })
    }
}

/// A box of texels in an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texels {
    /// The first slice, row, and texel in a row.
    pub origin: [usize; 3],
    /// Slices, rows, and texels in a row.
    pub size: [usize; 3],
}

impl Texels {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.size.iter().product()
    }
}

/// What of an allocation a command is about: of linear memory bytes, of an image texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// A box of bytes.
    Bytes(Region),
    /// A box of texels.
    Texels(Texels),
}

impl Part {
    /// The box of bytes; of texels there is none.
    pub fn region(self) -> Option<Region> {
        match self {
            Part::Bytes(region) => Some(region),
            Part::Texels(_) => None,
        }
    }
}

impl From<Region> for Part {
    fn from(region: Region) -> Self {
        Part::Bytes(region)
    }
}

/// A copy between two boxes: of the same width, rows and slices, or with as many slices, rows and texels in a row on the side of
/// an image. There a texel has as many bytes as [`TexelFormat::bytes`](windlass_kernel::texel::TexelFormat::bytes) says.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CopyBox<'a> {
    /// Where it comes from.
    pub from: &'a dyn Allocation,
    /// Which part.
    pub from_part: Part,
    /// Where it goes.
    pub to: &'a dyn Allocation,
    /// To which part.
    pub to_part: Part,
}

impl<'a> CopyBox<'a> {
    /// A copy from one box to another.
    pub fn new(
        from: (&'a dyn Allocation, impl Into<Part>),
        to: (&'a dyn Allocation, impl Into<Part>),
    ) -> Self {
        CopyBox { from: from.0, from_part: from.1.into(), to: to.0, to_part: to.1.into() }
    }

    /// The boxes of bytes from and to which it goes, if there is an image on neither side: for backends that have none.
    pub fn regions(&self) -> Result<(Region, Region), BackendError> {
        let none = || BackendError::Unsupported("a copy from or to an image".into());
        self.from_part.region().zip(self.to_part.region()).ok_or_else(none)
    }
}

/// A box filled with copies of a pattern.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Fill<'a> {
    /// The memory.
    pub memory: &'a dyn Allocation,
    /// What to fill; the width of a box of bytes is a multiple of the pattern's length. Of an image the pattern is a texel, or a
    /// single zero.
    pub part: Part,
    /// One element's bytes.
    pub pattern: &'a [u8],
}

impl<'a> Fill<'a> {
    /// A box of a memory, filled with a pattern.
    pub fn new(memory: &'a dyn Allocation, part: impl Into<Part>, pattern: &'a [u8]) -> Self {
        Fill { memory, part: part.into(), pattern }
    }

    /// The box of bytes to fill, if it is not in an image: for backends that have none.
    pub fn region(&self) -> Result<Region, BackendError> {
        self.part.region().ok_or_else(|| BackendError::Unsupported("a fill of an image".into()))
    }
}

/// A box of an allocation as a kernel's argument.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BufferArg<'a> {
    /// The allocation.
    pub memory: &'a dyn Allocation,
    /// The box that the kernel sees.
    pub region: Region,
    /// The element's size in bytes.
    pub element: usize,
    /// How the kernel uses it.
    pub access: SlotAccess,
    /// The word by which a host device reaches the allocation, the same for all its users.
    pub word: Word,
}

impl<'a> BufferArg<'a> {
    /// A box of elements of this size. On host devices it is reached by words of `word`.
    pub fn new(
        memory: &'a dyn Allocation,
        region: Region,
        element: usize,
        access: SlotAccess,
        word: Word,
    ) -> Self {
        BufferArg { memory, region, element, access, word }
    }
}

/// An image as a kernel's argument, as a whole.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ImageArg<'a> {
    /// The allocation: an image.
    pub memory: &'a dyn Allocation,
    /// How the kernel uses it.
    pub access: SlotAccess,
}

impl<'a> ImageArg<'a> {
    /// An image, and how it is used.
    pub fn new(memory: &'a dyn Allocation, access: SlotAccess) -> Self {
        ImageArg { memory, access }
    }
}

/// A kernel argument.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Arg<'a> {
    /// A box of an allocation.
    Buffer(BufferArg<'a>),
    /// A plain value's bytes.
    Value(&'a [u8]),
    /// This many bytes of local memory.
    Local(usize),
    /// The address of the first byte of a box of an allocation with a [`Allocation::device_address`]; for devices that work on the heap, of
    /// any that the host reaches. The kernel uses the box as the argument says. Only for devices with [`Aspect::Pointers`](crate::Aspect::Pointers).
    Pointer(BufferArg<'a>),
    /// An image. Only for devices whose memory holds images.
    Image(ImageArg<'a>),
}

/// A kernel over a range.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Launch<'a> {
    /// The kernel, as this context built it.
    pub kernel: &'a dyn BuiltKernel,
    /// The work-items; never zero of them.
    pub range: Range,
    /// The arguments, matching the kernel's slots.
    pub args: &'a [Arg<'a>],
    /// What it uses beside them, by addresses that it finds in their memory or values: boxes of allocations with a
    /// [`Allocation::device_address`]. A host device lends them, behind the arguments, to a body that
    /// [follows pointers](Body::follows_pointers).
    pub reached: &'a [BufferArg<'a>],
}

impl<'a> Launch<'a> {
    /// A kernel over a range, with arguments for its slots.
    pub fn new(kernel: &'a dyn BuiltKernel, range: Range, args: &'a [Arg<'a>]) -> Self {
        Launch { kernel, range, args, reached: &[] }
    }

    /// It uses this memory, too, by addresses that it finds.
    pub fn reaching(self, reached: &'a [BufferArg<'a>]) -> Self {
        Launch { reached, ..self }
    }
}

/// The code of a host launch.
pub enum HostCode {
    /// A closure of one group.
    Once(Box<dyn HostBody>),
    /// The host image of a kernel.
    Shared(Body),
}

impl HostCode {
    /// Runs the block's items over the launch's memory.
    ///
    /// # Safety
    /// All blocks of the block's launch are run by this code, and by nothing else.
    pub unsafe fn run(&self, block: Block<'_>) {
        match self {
            HostCode::Once(body) => body.run(block),
            // SAFETY: the caller's promise.
            HostCode::Shared(body) => unsafe { body.run(block) },
        }
    }
}

impl fmt::Debug for HostCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostCode")
    }
}

/// Code of this program over a range, for devices with [`Aspect::HostBodies`](crate::Aspect::HostBodies).
#[derive(Debug)]
#[non_exhaustive]
pub struct HostLaunch {
    /// The code.
    pub code: HostCode,
    /// The work-items.
    pub range: Range,
    /// The memory it works on; live until the point is passed.
    pub spans: SmallVec<[RawSpan; 2]>,
}

impl HostLaunch {
    /// Code over a range, on memory.
    pub fn new(code: HostCode, range: Range, spans: SmallVec<[RawSpan; 2]>) -> Self {
        HostLaunch { code, range, spans }
    }
}

/// One command of a group.
#[derive(Debug)]
#[non_exhaustive]
pub enum Command<'a> {
    /// Run a kernel.
    Launch(Launch<'a>),
    /// Run a host body.
    Host(HostLaunch),
    /// Copy a box.
    Copy(CopyBox<'a>),
    /// Fill a box.
    Fill(Fill<'a>),
    /// Give an allocation of [`HostAccess::Mapped`](crate::HostAccess::Mapped) memory to the host, as a whole: once the group's
    /// point is passed the host uses it through its address.
    Map(&'a dyn Allocation),
    /// Take it back from the host, with what the host has written.
    Unmap(&'a dyn Allocation),
    /// Run a sequence that this context has recorded for the lane's device: one native command. Only for devices with
    /// [`Aspect::Sequences`](crate::Aspect::Sequences). The handle is the lane's to keep for as long as the driver needs it.
    Replay(Arc<dyn Sequence>),
    /// Let the program's own code hand commands to the native API: counts as one. Only for devices with
    /// [`Aspect::NativeCode`](crate::Aspect::NativeCode).
    Native(NativeCall<'a>),
}
