//! Views for work-items that share memory: checked, atomic, never undefined.
//!
//! Outside a view's range a read gives zero and a write does nothing, on the host as on every device.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

use crate::DeviceCopy;
use crate::memory::{Span, Word, atomic32, atomic64};
use crate::native::AtomicOp;

/// Elements that the kernel only reads.
#[derive(Clone, Copy)]
pub struct View<'v, T> {
    span: Span,
    marker: PhantomData<(&'v (), fn() -> T)>,
}

/// Elements that the kernel reads and writes, shared by all its work-items.
///
/// Two items that write one element race: one of the values wins, or, for elements wider than the buffer's alignment,
/// a mixture of them. That is never undefined behaviour.
#[derive(Clone, Copy)]
pub struct ViewMut<'v, T> {
    span: Span,
    marker: PhantomData<(&'v (), fn() -> T)>,
}

/// Integers that work-items update by atomic read-modify-write operations.
#[derive(Clone, Copy)]
pub struct AtomicView<'v, T> {
    span: Span,
    marker: PhantomData<(&'v (), fn() -> T)>,
}

macro_rules! view {
    ($($name:ident)*) => {$(
        impl<'v, T: DeviceCopy> $name<'v, T> {
            /// A view of `span`'s elements.
            ///
            /// # Safety
            /// `T` is the element type of the span, and during `'v` the span's memory stays live and is reached
            /// only through spans with the same word.
            pub unsafe fn new(span: Span) -> Self {
                $name { span, marker: PhantomData }
            }

            /// How many elements there are.
            #[inline]
            pub fn len(&self) -> usize {
                self.span.len()
            }

            /// Whether there are none.
            pub fn is_empty(&self) -> bool {
                self.span.is_empty()
            }

            /// Element `at`, in row-major order; zeros outside the range.
            #[inline]
            pub fn get(&self, at: usize) -> T {
                self.span.load(at)
            }

            /// The element at these coordinates, outermost first; zeros outside the range.
            #[inline]
            pub fn at<const D: usize>(&self, at: [usize; D]) -> T {
                position(&self.span, at).map_or_else(T::zeroed, |i| self.span.load(i))
            }
        }

        impl<T> fmt::Debug for $name<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("len", &self.span.len()).finish()
            }
        }
    )*};
}
view!(View ViewMut AtomicView);

impl<T: DeviceCopy> ViewMut<'_, T> {
    /// Writes element `at`; outside the range, nothing happens.
    #[inline]
    pub fn set(&self, at: usize, value: T) {
        self.span.store(at, value)
    }

    /// Writes the element at these coordinates, outermost first; outside the range, nothing happens.
    #[inline]
    pub fn set_at<const D: usize>(&self, at: [usize; D], value: T) {
        if let Some(i) = position(&self.span, at) {
            self.span.store(i, value)
        }
    }
}

/// The row-major position of `at`, or `None` where a coordinate is out of its range.
pub(crate) fn position<const D: usize>(span: &Span, at: [usize; D]) -> Option<usize> {
    let size = &span.extent().size[3 - D..];
    let mut linear = 0;
    for d in 0..D {
        if at[d] >= size[d] {
            return None;
        }
        linear = linear * size[d] + at[d];
    }
    Some(linear)
}

/// The integers that have atomic operations on every device.
pub trait AtomicInteger: DeviceCopy + sealed::Sealed {
    #[doc(hidden)]
    fn update(span: &Span, at: usize, op: AtomicOp, value: Self) -> Self;
    /// What an operation makes of two values.
    #[doc(hidden)]
    fn combined(op: AtomicOp, old: Self, value: Self) -> Self;
}

mod sealed {
    #[allow(unnameable_types, reason = "sealing is what this trait is for")]
    pub trait Sealed {}
}

macro_rules! atomic_integer {
    ($($t:ident $word:ident $atomic:ident $wide:ident)*) => {$(
        impl sealed::Sealed for $t {}
        impl AtomicInteger for $t {
            #[inline]
            fn combined(op: AtomicOp, old: Self, value: Self) -> Self {
                match op {
                    AtomicOp::Add => old.wrapping_add(value),
                    AtomicOp::Sub => old.wrapping_sub(value),
                    AtomicOp::And => old & value,
                    AtomicOp::Or => old | value,
                    AtomicOp::Xor => old ^ value,
                    AtomicOp::Min => old.min(value),
                    AtomicOp::Max => old.max(value),
                    AtomicOp::Swap => value,
                }
            }

            #[inline]
            fn update(span: &Span, at: usize, op: AtomicOp, value: Self) -> Self {
                // Words of another size on the same memory would not be defined: such a root (by `reinterpret` from
                // a narrower type) has no atomics, and the runtime refuses it in prepare.
                assert_eq!(span.word(), Word::$word, "atomic access through words of another size");
                let Some(element) = span.element(at) else { return 0 };
                let (atomic, new, order) = ($atomic(element, 0), value as $wide, Ordering::Relaxed);
                (match op {
                    AtomicOp::Add => atomic.fetch_add(new, order),
                    AtomicOp::Sub => atomic.fetch_sub(new, order),
                    AtomicOp::And => atomic.fetch_and(new, order),
                    AtomicOp::Or => atomic.fetch_or(new, order),
                    AtomicOp::Xor => atomic.fetch_xor(new, order),
                    AtomicOp::Swap => atomic.swap(new, order),
                    // The word is unsigned, so its own minimum is not that of a signed element.
                    AtomicOp::Min | AtomicOp::Max => {
                        let keep = |old: $wide| Self::combined(op, old as $t, value) as $wide;
                        match atomic.fetch_update(order, order, |old| Some(keep(old))) {
                            Ok(old) | Err(old) => old,
                        }
                    }
                }) as $t
            }
        }
    )*};
}
atomic_integer!(u32 B4 atomic32 u32 i32 B4 atomic32 u32 u64 B8 atomic64 u64 i64 B8 atomic64 u64);

impl<T: AtomicInteger> AtomicView<'_, T> {
    /// Adds to element `at` and returns what it held; outside the range, nothing happens and zero is returned.
    pub fn fetch_add(&self, at: usize, value: T) -> T {
        T::update(&self.span, at, AtomicOp::Add, value)
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::Extent;

    fn span<T: DeviceCopy>(data: &mut [T], extent: Extent) -> Span {
        let start = NonNull::new(data.as_mut_ptr().cast::<u8>()).expect("a slice's pointer is not null");
        // SAFETY: tests keep `data` alive and use one word for it.
        unsafe { Span::new(start, extent, size_of::<T>(), Word::of::<T>()) }
    }

    #[test]
    fn outside_reads_zero_and_writes_nothing() {
        let mut data = [7_u32; 4];
        // SAFETY: the element type is u32 and the data outlives the view.
        let view = unsafe { ViewMut::<u32>::new(span(&mut data, Extent::line(3))) };
        assert_eq!((view.get(2), view.get(3), view.get(usize::MAX)), (7, 0, 0));
        view.set(3, 1);
        assert_eq!(data[3], 7, "element 3 is outside a window of 3");
    }

    #[test]
    fn a_window_of_a_grid_steps_over_its_pitch() {
        let mut data: Vec<u16> = (0..12).collect();
        // Rows of 4; the window is the 2 x 2 block at its start.
        let extent = Extent { size: [1, 2, 2], pitch: [8, 4] };
        // SAFETY: the element type is u16 and the data outlives the view.
        let view = unsafe { ViewMut::<u16>::new(span(&mut data, extent)) };
        assert_eq!([view.get(0), view.get(1), view.get(2), view.get(3)], [0, 1, 4, 5]);
        assert_eq!((view.at([1, 1]), view.at([1, 2])), (5, 0));
        view.set_at([0, 2], 9);
        assert_eq!(data[2], 2);
    }

    #[test]
    fn wide_elements_go_by_words() {
        let mut data = [[1_u32, 2, 3]; 2];
        // SAFETY: the element type is [u32; 3] and the data outlives the view.
        let view = unsafe { ViewMut::<[u32; 3]>::new(span(&mut data, Extent::line(2))) };
        view.set(1, [4, 5, 6]);
        assert_eq!(view.get(1), [4, 5, 6]);
        // SAFETY: as above.
        let bytes = unsafe { AtomicView::<[u32; 3]>::new(span(&mut data, Extent::line(2))) };
        assert_eq!(bytes.get(0), [1, 2, 3]);
    }

    #[test]
    fn atomics_add() {
        let mut data = [5_i32];
        // SAFETY: the element type is i32 and the data outlives the view.
        let view = unsafe { AtomicView::<i32>::new(span(&mut data, Extent::line(1))) };
        assert_eq!(view.fetch_add(0, -7), 5);
        assert_eq!(view.fetch_add(9, 1), 0);
        assert_eq!(data[0], -2);
    }
}
