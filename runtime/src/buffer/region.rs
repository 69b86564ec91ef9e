//! Shapes of buffers, and ranges within them.

use std::ops::{Bound, RangeBounds};

/// The extents of a buffer: `usize` for a line, `[usize; D]` for one to three dimensions.
///
/// ```
/// use windlass::{access::Shape, prelude::*};
///
/// /// As many ones as there is room for.
/// fn ones<const D: usize>(shape: impl Shape<D>) -> windlass::Result<Buffer<u32, D>> {
///     let extent = shape.extent();
///     Buffer::with_shape(extent, vec![1; extent.iter().product()])
/// }
///
/// assert_eq!(ones(8).unwrap().shape(), [8]);
/// assert_eq!(ones([2, 3, 4]).unwrap().len(), 24);
/// ```
pub trait Shape<const D: usize> {
    /// The extents, outermost first.
    fn extent(self) -> [usize; D];
}

impl Shape<1> for usize {
    fn extent(self) -> [usize; 1] {
        [self]
    }
}

impl<const D: usize> Shape<D> for [usize; D] {
    fn extent(self) -> [usize; D] {
        self
    }
}

/// A part of a buffer: a range for a line, a tuple of ranges for a grid.
///
/// ```
/// use windlass::{access::Region, prelude::*};
/// assert_eq!((2..).bounds([10]), [(2, 10)]);
/// assert_eq!((.., 1..=3).bounds([4, 6]), [(0, 4), (1, 4)]);
/// let grid = Buffer::<u32, 2>::new([4, 6]);
/// assert_eq!(grid.range((.., 1..=3)).shape(), [4, 3]);
/// ```
pub trait Region<const D: usize> {
    /// The first element and one past the last, for each dimension.
    fn bounds(self, shape: [usize; D]) -> [(usize, usize); D];
}

fn ends(range: &impl RangeBounds<usize>, size: usize) -> (usize, usize) {
    let from = match range.start_bound() {
        Bound::Included(&at) => at,
        Bound::Excluded(&at) => at.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(&at) => at.saturating_add(1),
        Bound::Excluded(&at) => at,
        Bound::Unbounded => size,
    };
    (from, to)
}

impl<R: RangeBounds<usize>> Region<1> for R {
    fn bounds(self, shape: [usize; 1]) -> [(usize, usize); 1] {
        [ends(&self, shape[0])]
    }
}

impl<Y: RangeBounds<usize>, X: RangeBounds<usize>> Region<2> for (Y, X) {
    fn bounds(self, shape: [usize; 2]) -> [(usize, usize); 2] {
        [ends(&self.0, shape[0]), ends(&self.1, shape[1])]
    }
}

impl<Z: RangeBounds<usize>, Y: RangeBounds<usize>, X: RangeBounds<usize>> Region<3> for (Z, Y, X) {
    fn bounds(self, shape: [usize; 3]) -> [(usize, usize); 3] {
        [ends(&self.0, shape[0]), ends(&self.1, shape[1]), ends(&self.2, shape[2])]
    }
}
