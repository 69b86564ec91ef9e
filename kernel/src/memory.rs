//! Kernel memory: windows over raw bytes of an allocation, whose elements are reached by relaxed atomic words.
//!
//! Several work-items may touch one element at once. On a host device that must not be undefined behaviour, so shared
//! access goes word by word through relaxed atomics. All accesses to one root buffer use words of the same size
//! (mixing sizes on one location is not defined), taken from the alignment of the root's element type; an element
//! wider than its word may tear, which gives an unspecified value and nothing worse.
//!
//! A window has two forms. A [`RawSpan`] is an address with a shape: anybody may make, keep and copy one, and nothing
//! can be read or written through it. A [`Span`] is a raw span that somebody has promised is good for a lifetime, and
//! whoever has one needs no promise of their own to use it.

mod atomic;
mod elements;
mod span;

pub use atomic::{AtomicElement, AtomicOp, Order, fence};
pub(crate) use elements::Elements;
pub use span::{RawSpan, Span};

/// The size of the atomic words by which a root buffer is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Word {
    /// One byte.
    B1,
    /// Two bytes.
    B2,
    /// Four bytes.
    B4,
    /// Eight bytes.
    B8,
}

impl Word {
    /// The word for buffers whose root has elements of type `T`: their alignment, eight bytes at most.
    pub const fn of<T>() -> Word {
        match align_of::<T>() {
            1 => Word::B1,
            2 => Word::B2,
            4 => Word::B4,
            _ => Word::B8,
        }
    }

    /// The word's size in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Word::B1 => 1,
            Word::B2 => 2,
            Word::B4 => 4,
            Word::B8 => 8,
        }
    }
}

/// The shape of a window in elements: extents outermost first, and the distance between rows and between slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Slices, rows, elements; unused leading dimensions are 1.
    pub size: [usize; 3],
    /// Elements from one slice to the next, and from one row to the next.
    pub pitch: [usize; 2],
}

impl Extent {
    /// A window over `len` consecutive elements.
    pub fn line(len: usize) -> Self {
        Extent { size: [1, 1, len], pitch: [len, len] }
    }

    /// How many elements the window shows.
    #[inline]
    pub fn len(&self) -> usize {
        self.size[0] * self.size[1] * self.size[2]
    }

    /// Whether it shows none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.size.contains(&0)
    }

    /// Whether the elements follow each other without a gap.
    pub fn is_contiguous(&self) -> bool {
        let rows = self.size[0] * self.size[1];
        rows <= 1
            || (self.pitch[1] == self.size[2]
                && (self.size[0] == 1 || self.pitch[0] == self.size[1] * self.size[2]))
    }

    /// How many elements follow each other from the first one on, and from each multiple of as many: all of them, those of a slice,
    /// or those of a row.
    ///
    /// ```
    /// use windlass_kernel::Extent;
    /// assert_eq!(Extent::line(12).run(), 12);
    /// assert_eq!(Extent { size: [2, 2, 3], pitch: [12, 3] }.run(), 6);
    /// assert_eq!(Extent { size: [2, 2, 3], pitch: [12, 4] }.run(), 3);
    /// ```
    pub fn run(&self) -> usize {
        let [_, rows, row] = self.size;
        match (self.is_contiguous(), rows == 1 || self.pitch[1] == row) {
            (true, _) => self.len(),
            (false, true) => rows * row,
            (false, false) => row,
        }
    }

    /// The sizes in `D` dimensions, outermost first. What has more is seen as if the outer ones were one: in one dimension it is all
    /// elements, row by row.
    ///
    /// ```
    /// use windlass_kernel::Extent;
    /// let extent = Extent { size: [1, 2, 3], pitch: [6, 3] };
    /// assert_eq!(extent.inner::<2>(), [2, 3]);
    /// assert_eq!(extent.inner::<1>(), [6]);
    /// ```
    ///
    /// There are one to three of them:
    ///
    /// ```compile_fail,E0080
    /// windlass_kernel::Extent::line(1).inner::<4>();
    /// ```
    #[inline(always)]
    pub fn inner<const D: usize>(&self) -> [usize; D] {
        const { assert!(D >= 1 && D <= 3, "memory has one to three dimensions") };
        let mut inner = [0; D];
        inner.copy_from_slice(&self.size[3 - D..]);
        self.size[..3 - D].iter().for_each(|outer| inner[0] *= outer);
        inner
    }

    /// The offset in elements of the row-major position `at`.
    #[inline(always)]
    fn offset(&self, at: usize) -> usize {
        if self.size[0] * self.size[1] == 1 {
            return at;
        }
        let (row, x) = (at / self.size[2], at % self.size[2]);
        let (z, y) = (row / self.size[1], row % self.size[1]);
        z * self.pitch[0] + y * self.pitch[1] + x
    }

    /// Where the last element ends, in elements from the start; `None` where that, or their number, cannot be counted.
    fn end(&self) -> Option<usize> {
        let [slices, rows, width] = self.size;
        if self.is_empty() {
            return Some(0);
        }
        slices.checked_mul(rows)?.checked_mul(width)?;
        let slice = (slices - 1).checked_mul(self.pitch[0])?;
        let row = (rows - 1).checked_mul(self.pitch[1])?;
        slice.checked_add(row)?.checked_add(width)
    }
}
