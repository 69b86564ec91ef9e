//! What a lane is fed.

use std::fmt;

use smallvec::SmallVec;
use windlass_kernel::{Block, Body, HostBody, Range, RawSpan, SlotAccess, Word};

use crate::{Allocation, BuiltKernel};

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

    /// The offsets of the box's rows, in order.
    pub fn row_offsets(self) -> impl Iterator<Item = usize> {
        (0..self.slices).flat_map(move |z| {
            (0..self.rows).map(move |y| self.offset + z * self.slice_pitch + y * self.row_pitch)
        })
    }
}

/// A copy between two boxes of the same width, rows and slices.
#[derive(Clone, Copy, Debug)]
pub struct CopyBox<'a> {
    /// Where the bytes come from.
    pub from: &'a dyn Allocation,
    /// Which bytes.
    pub from_region: Region,
    /// Where they go.
    pub to: &'a dyn Allocation,
    /// To which bytes.
    pub to_region: Region,
}

/// A box filled with copies of a pattern.
#[derive(Clone, Copy, Debug)]
pub struct Fill<'a> {
    /// The memory.
    pub memory: &'a dyn Allocation,
    /// The bytes to fill; the width is a multiple of the pattern's length.
    pub region: Region,
    /// One element's bytes.
    pub pattern: &'a [u8],
}

/// A kernel argument.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Arg<'a> {
    /// A box of an allocation.
    Buffer {
        /// The allocation.
        memory: &'a dyn Allocation,
        /// The box that the kernel sees.
        region: Region,
        /// The element's size in bytes.
        element: usize,
        /// The word by which a host device reaches the allocation, the same for all its users.
        word: Word,
        /// How the kernel uses it.
        access: SlotAccess,
    },
    /// A plain value's bytes.
    Value(&'a [u8]),
    /// This many bytes of local memory.
    Local(usize),
}

/// A kernel over a range.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The kernel, as this context built it.
    pub kernel: &'a dyn BuiltKernel,
    /// The work-items; never zero of them.
    pub range: Range,
    /// The arguments, matching the kernel's slots.
    pub args: &'a [Arg<'a>],
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
pub struct HostLaunch {
    /// The code.
    pub code: HostCode,
    /// The work-items.
    pub range: Range,
    /// The memory it works on; live until the point is passed.
    pub spans: SmallVec<[RawSpan; 2]>,
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
}
