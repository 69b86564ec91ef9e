//! Positions in what a host accessor shows.

use std::ops::{Index, IndexMut, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use windlass_kernel::DeviceCopy;

use crate::group::sealed::Sealed;
use crate::host_access::{HostRead, HostWrite};

/// What a host accessor of `D` dimensions can be indexed with: a position in all dimensions, as in `guard[[y, x]]`; in two dimensions
/// a row, as in `guard[y][x]`; in one dimension an element; and ranges of elements, row by row.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let grid = Buffer::<u32, 2>::new([2, 3]);
/// let mut values = grid.host_write().blocking_wait()?;
/// values[[0, 2]] = 5;
/// values[1].fill(7);
/// assert_eq!(values[..], [0, 0, 5, 7, 7, 7]);
/// # Ok(()) }
/// ```
pub trait GuardIndex<T, const D: usize>: Sealed {
    /// What stands there.
    type Output: ?Sized;
    #[doc(hidden)]
    fn of(self, elements: &[T], shape: [usize; D]) -> &Self::Output;
    #[doc(hidden)]
    fn of_mut(self, elements: &mut [T], shape: [usize; D]) -> &mut Self::Output;
}

impl Sealed for usize {}

impl<T> GuardIndex<T, 1> for usize {
    type Output = T;
    fn of(self, elements: &[T], _: [usize; 1]) -> &T {
        &elements[self]
    }
    fn of_mut(self, elements: &mut [T], _: [usize; 1]) -> &mut T {
        &mut elements[self]
    }
}

impl<T> GuardIndex<T, 2> for usize {
    type Output = [T];
    fn of(self, elements: &[T], shape: [usize; 2]) -> &[T] {
        &elements[row(self, shape)]
    }
    fn of_mut(self, elements: &mut [T], shape: [usize; 2]) -> &mut [T] {
        &mut elements[row(self, shape)]
    }
}

#[track_caller]
fn row(at: usize, [rows, width]: [usize; 2]) -> Range<usize> {
    assert!(at < rows, "row {at} of {rows}");
    at * width..(at + 1) * width
}

impl<const D: usize> Sealed for [usize; D] {}

impl<T, const D: usize> GuardIndex<T, D> for [usize; D] {
    type Output = T;
    fn of(self, elements: &[T], shape: [usize; D]) -> &T {
        &elements[position(self, shape)]
    }
    fn of_mut(self, elements: &mut [T], shape: [usize; D]) -> &mut T {
        &mut elements[position(self, shape)]
    }
}

/// Row-major, outermost first.
#[track_caller]
fn position<const D: usize>(at: [usize; D], shape: [usize; D]) -> usize {
    assert!(at.iter().zip(shape).all(|(at, size)| *at < size), "position {at:?} of {shape:?}");
    at.iter().zip(shape).fold(0, |all, (at, size)| all * size + at)
}

macro_rules! ranges {
    ($($range:ty)*) => {$(
        impl Sealed for $range {}
        impl<T, const D: usize> GuardIndex<T, D> for $range {
            type Output = [T];
            fn of(self, elements: &[T], _: [usize; D]) -> &[T] {
                &elements[self]
            }
            fn of_mut(self, elements: &mut [T], _: [usize; D]) -> &mut [T] {
                &mut elements[self]
            }
        }
    )*};
}
ranges! { Range<usize> RangeFrom<usize> RangeFull RangeInclusive<usize> RangeTo<usize> RangeToInclusive<usize> }

impl<T: DeviceCopy, I: GuardIndex<T, D>, const D: usize> Index<I> for HostRead<T, D> {
    type Output = I::Output;
    #[track_caller]
    fn index(&self, at: I) -> &I::Output {
        at.of(self, self.shape())
    }
}

impl<T: DeviceCopy, I: GuardIndex<T, D>, const D: usize> Index<I> for HostWrite<T, D> {
    type Output = I::Output;
    #[track_caller]
    fn index(&self, at: I) -> &I::Output {
        at.of(self, self.shape())
    }
}

impl<T: DeviceCopy, I: GuardIndex<T, D>, const D: usize> IndexMut<I> for HostWrite<T, D> {
    #[track_caller]
    fn index_mut(&mut self, at: I) -> &mut I::Output {
        let shape = self.shape();
        at.of_mut(self, shape)
    }
}
