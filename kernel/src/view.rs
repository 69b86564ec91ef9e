//! Views for work-items that share memory: checked, atomic, never undefined.
//!
//! Outside a view's range a read gives zero and a write does nothing, on the host as on every device.

use std::fmt;

use crate::DeviceCopy;
use crate::memory::{AtomicElement, AtomicOp, Elements, Extent, Span};

/// Elements that the kernel only reads.
///
/// A view has one to three dimensions:
///
/// ```compile_fail,E0080
/// use windlass_kernel::{Block, HostBody, View};
/// let body = |block: Block<'_>| drop(View::<u32>::new(block.spans()[0]).at([0, 0, 0, 0]));
/// let body: Box<dyn HostBody> = Box::new(body);
/// ```
#[derive(Clone, Copy)]
pub struct View<'v, T> {
    elements: Elements<'v, T>,
}

/// Elements that the kernel reads and writes, shared by all its work-items.
///
/// Two items that write one element race: one of the values wins, or, for elements wider than the buffer's alignment,
/// a mixture of them. That is never undefined behaviour.
#[derive(Clone, Copy)]
pub struct ViewMut<'v, T> {
    elements: Elements<'v, T>,
}

/// Integers that work-items update by atomic read-modify-write operations.
#[derive(Clone, Copy)]
pub struct AtomicView<'v, T> {
    elements: Elements<'v, T>,
}

macro_rules! view {
    ($($name:ident $new:ident $panics:literal)*) => {$(
        impl<'v, T: DeviceCopy> $name<'v, T> {
            /// A view of a launch's memory.
            ///
            /// # Panics
            #[doc = $panics]
            #[track_caller]
            pub fn new(span: Span<'v>) -> Self {
                $name { elements: Elements::$new(span) }
            }

            /// How many elements there are.
            #[inline]
            pub fn len(&self) -> usize {
                self.elements.span().len()
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.elements.span().is_empty()
            }

            /// Element `at`, in row-major order; zeros outside the range.
            #[inline]
            pub fn get(&self, at: usize) -> T {
                self.elements.load(at)
            }

            /// The element at these coordinates, outermost first, of which there are one to three; zeros outside the
            /// range.
            #[inline]
            pub fn at<const D: usize>(&self, at: [usize; D]) -> T {
                position(self.elements.span().extent(), at).map_or_else(T::zeroed, |i| self.elements.load(i))
            }
        }

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("len", &self.elements.span().len()).finish()
            }
        }
    )*};
}
view! {
    View new "If the elements do not have the size of a `T`."
    ViewMut to_write "If the elements do not have the size of a `T`, or are only read."
    AtomicView to_write "If the elements do not have the size of a `T`, or are only read."
}

impl<T: DeviceCopy> ViewMut<'_, T> {
    /// Writes element `at`; outside the range, nothing happens.
    #[inline]
    pub fn set(&self, at: usize, value: T) {
        self.elements.store(at, value)
    }

    /// Writes the element at these coordinates, outermost first, of which there are one to three; outside the range,
    /// nothing happens.
    #[inline]
    pub fn set_at<const D: usize>(&self, at: [usize; D], value: T) {
        if let Some(i) = position(self.elements.span().extent(), at) {
            self.elements.store(i, value)
        }
    }
}

impl<T: AtomicElement> AtomicView<'_, T> {
    /// Adds to element `at` and returns what it held; outside the range, nothing happens and zero is returned.
    pub fn fetch_add(&self, at: usize, value: T) -> T {
        self.elements.update(at, AtomicOp::Add, value)
    }
}

/// The row-major position of `at`, or `None` where a coordinate is out of its range.
#[inline(always)]
pub(crate) fn position<const D: usize>(extent: &Extent, at: [usize; D]) -> Option<usize> {
    let size = extent.inner::<D>();
    let mut linear = 0;
    for d in 0..D {
        if at[d] >= size[d] {
            return None;
        }
        linear = linear * size[d] + at[d];
    }
    Some(linear)
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::{RawSpan, Word};

    fn span<T: DeviceCopy>(data: &mut [T], extent: Extent) -> Span<'_> {
        let start = NonNull::new(data.as_mut_ptr().cast::<u8>()).expect("a slice's pointer is not null");
        let raw = RawSpan::new(start, extent, size_of::<T>(), Word::of::<T>());
        // SAFETY: `data` is borrowed for as long as the span is, and the tests use one word for it.
        unsafe { raw.lend() }
    }

    #[test]
    fn outside_reads_zero_and_writes_nothing() {
        let mut data = [7_u32; 4];
        let view = ViewMut::<u32>::new(span(&mut data, Extent::line(3)));
        assert_eq!((view.get(2), view.get(3), view.get(usize::MAX)), (7, 0, 0));
        view.set(3, 1);
        assert_eq!(data[3], 7, "element 3 is outside a window of 3");
    }

    #[test]
    fn a_window_of_a_grid_steps_over_its_pitch() {
        let mut data: Vec<u16> = (0..12).collect();
        // Rows of 4; the window is the 2 x 2 block at its start.
        let extent = Extent { size: [1, 2, 2], pitch: [8, 4] };
        let view = ViewMut::<u16>::new(span(&mut data, extent));
        assert_eq!([view.get(0), view.get(1), view.get(2), view.get(3)], [0, 1, 4, 5]);
        assert_eq!((view.at([1, 1]), view.at([1, 2])), (5, 0));
        view.set_at([0, 2], 9);
        assert_eq!(data[2], 2);
    }

    #[test]
    fn wide_elements_go_by_words() {
        let mut data = [[1_u32, 2, 3]; 2];
        let view = ViewMut::<[u32; 3]>::new(span(&mut data, Extent::line(2)));
        view.set(1, [4, 5, 6]);
        assert_eq!(view.get(1), [4, 5, 6]);
        let bytes = AtomicView::<[u32; 3]>::new(span(&mut data, Extent::line(2)));
        assert_eq!(bytes.get(0), [1, 2, 3]);
    }

    #[test]
    fn atomics_add() {
        let mut data = [5_i32];
        let view = AtomicView::<i32>::new(span(&mut data, Extent::line(1)));
        assert_eq!(view.fetch_add(0, -7), 5);
        assert_eq!(view.fetch_add(9, 1), 0);
        assert_eq!(data[0], -2);
    }
}
