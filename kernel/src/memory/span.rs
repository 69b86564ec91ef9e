//! Windows of host memory, as addresses and as memory that may be used.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::ptr::NonNull;

use super::{Extent, Word};
use crate::DeviceCopy;

/// The address and the shape of a window: what a backend keeps of an argument until its launch runs.
///
/// It says nothing about what is there, so it may be made and kept by anybody. Memory comes of it by
/// [`RawSpan::lend`], and for a launch by [`Block::new`](crate::Block::new).
#[derive(Clone, Copy, Debug)]
pub struct RawSpan {
    start: NonNull<u8>,
    extent: Extent,
    element: usize,
    word: Word,
    writable: bool,
    /// What the extent says, kept because slices are asked for often.
    contiguous: bool,
}

// SAFETY: it is an address with a shape, through which nothing is reached without `lend`, which is `unsafe`.
unsafe impl Send for RawSpan {}
// SAFETY: as above.
unsafe impl Sync for RawSpan {}

impl RawSpan {
    /// A window that starts at `start` and shows `extent` elements of `element` bytes.
    ///
    /// # Panics
    /// If `start` is not aligned for `word`, `element` is not a multiple of it, or the window has more bytes than can
    /// be addressed.
    #[inline]
    pub fn new(start: NonNull<u8>, extent: Extent, element: usize, word: Word) -> Self {
        // A word has a power of two of bytes: to look at the bits below it costs a tenth of a division, and this is done for
        // each argument of each launch.
        let below = word.bytes() - 1;
        assert!(element & below == 0, "elements of {element} bytes, by words of {word:?}");
        assert!(start.addr().get() & below == 0, "a window starts inside a word of {word:?}");
        let bytes = extent.end().and_then(|end| end.checked_mul(element));
        let fits = bytes.is_some_and(|bytes| isize::try_from(bytes).is_ok());
        assert!(fits, "a window of {extent:?} elements of {element} bytes is larger than any memory");
        RawSpan { start, extent, element, word, writable: true, contiguous: extent.is_contiguous() }
    }

    /// The same window for somebody who has the right to read it only.
    pub fn read_only(self) -> Self {
        RawSpan { writable: false, ..self }
    }

    /// Whether who has the span may write what it shows.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The window's shape.
    #[inline]
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// How many elements the window shows.
    #[inline]
    pub fn len(&self) -> usize {
        self.extent.len()
    }

    /// Whether the window shows nothing.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.extent.is_empty()
    }

    /// How many bytes an element has.
    #[inline]
    pub fn element_bytes(&self) -> usize {
        self.element
    }

    /// The address of the first element.
    #[inline]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The window's word.
    #[inline]
    pub(crate) fn word(&self) -> Word {
        self.word
    }

    /// Whether the elements follow each other, so that a slice can show them.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.contiguous
    }

    /// Whether the elements follow each other, and are aligned as values of `T` are.
    #[inline]
    pub(crate) fn fits_slice<T>(&self) -> bool {
        self.is_contiguous() && self.start.addr().get().is_multiple_of(align_of::<T>())
    }

    /// Whether two windows share a byte (by their outer bounds, so interleaved columns count as sharing).
    pub fn overlaps(&self, other: &RawSpan) -> bool {
        let ends = |span: &RawSpan| {
            let start = span.start.addr().get();
            // `new` has seen that this can be counted.
            (start, start + span.extent.end().unwrap_or(0) * span.element)
        };
        let ((a, b), (c, d)) = (ends(self), ends(other));
        a < d && c < b
    }

    /// The window as memory, for a lifetime.
    ///
    /// # Safety
    /// During `'a`:
    /// - all bytes of the window are initialised and lie inside one allocation, which lives;
    /// - everybody else who reaches these bytes does so through spans with the same word, except that who only reads
    ///   them may do so in any way while no writable span of them is in use;
    /// - if the span is writable, whoever lends it has the right to write the bytes.
    #[inline]
    pub unsafe fn lend<'a>(self) -> Span<'a> {
        Span { raw: self, lent: PhantomData }
    }

    /// All of some windows as memory.
    ///
    /// # Safety
    /// Each of them could be lent by [`RawSpan::lend`] for `'a`.
    pub(crate) unsafe fn lend_all<'a>(spans: &'a [RawSpan]) -> &'a [Span<'a>] {
        // SAFETY: a `Span` is a `RawSpan` and nothing else (`repr(transparent)`), so the slices have one layout. What a
        // span says beyond a raw one is what the caller promises.
        unsafe { &*(std::ptr::from_ref(spans) as *const [Span<'a>]) }
    }
}

/// A window of elements in host memory that may be used for a lifetime: a launch's argument as the launch's code has it.
///
/// It can be read and, where it is [writable](RawSpan::is_writable), written by anybody who has it, through
/// [`View`](crate::View)s, which go by relaxed atomic words. To see it as a slice takes a promise.
///
/// A span is good for as long as its launch:
///
/// ```compile_fail
/// use windlass_kernel::{Block, HostBody};
/// let kept = std::sync::Mutex::new(None);
/// let body: Box<dyn HostBody> = Box::new(move |block: Block<'_>| *kept.lock().unwrap() = Some(block.spans()[0]));
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Span<'a> {
    raw: RawSpan,
    lent: PhantomData<&'a [u8]>,
}

/// The window's address and shape.
impl Deref for Span<'_> {
    type Target = RawSpan;
    #[inline]
    fn deref(&self) -> &RawSpan {
        &self.raw
    }
}

impl<'a> Span<'a> {
    /// The same window for somebody who is to read it only.
    pub fn read_only(self) -> Self {
        Span { raw: self.raw.read_only(), ..self }
    }

    /// Elements `items` of the window as a window of their own, without gaps.
    ///
    /// ```
    /// # use std::ptr::NonNull;
    /// # use windlass_kernel::{Extent, RawSpan, Word};
    /// // Two columns of a grid of four.
    /// let mut grid = [0, 1, 2, 3, 4, 5, 6, 7_u32];
    /// let columns = Extent { size: [1, 2, 2], pitch: [8, 4] };
    /// let raw = RawSpan::new(NonNull::from(&mut grid).cast(), columns, 4, Word::B4);
    /// // SAFETY: they are the grid's, which lives, and nobody else touches it.
    /// let span = unsafe { raw.lend() };
    /// // SAFETY: as above.
    /// assert_eq!(unsafe { span.line(2..4).as_slice::<u32>() }, [4, 5]);
    /// ```
    ///
    /// # Panics
    /// If `items` does not lie inside the window, or inside one [run](Extent::run) of elements that follow each other.
    pub fn line(&self, items: Range<usize>) -> Span<'a> {
        let (len, run) = (self.len(), self.extent().run());
        let is_inside = items.start <= items.end && items.end <= len;
        assert!(is_inside, "elements {items:?} of a window of {len}");
        let is_one_run = items.is_empty() || items.start / run == (items.end - 1) / run;
        assert!(is_one_run, "elements {items:?} of a window in which {run} follow each other");
        let start = self.element(items.start).and_then(NonNull::new).unwrap_or(self.raw.start);
        let raw = RawSpan { start, extent: Extent::line(items.len()), contiguous: true, ..self.raw };
        Span { raw, lent: PhantomData }
    }

    /// What has to be so if the window is to be a slice, and costs nothing to see.
    #[inline]
    #[track_caller]
    fn assert_slice_of<T>(&self) {
        let element = self.raw.element;
        assert!(size_of::<T>() == element, "{} bytes for elements of {element}", size_of::<T>());
        assert!(
            self.raw.fits_slice::<T>(),
            "a slice of a window with gaps, or that is not aligned for its type"
        );
    }

    /// The elements as a slice that nobody writes meanwhile.
    ///
    /// # Safety
    /// Nothing writes the window during `'a`.
    ///
    /// # Panics
    /// If the elements are not as large as a `T`, not aligned for it, or do not follow each other.
    #[inline]
    pub unsafe fn as_slice<T: DeviceCopy>(&self) -> &'a [T] {
        self.assert_slice_of::<T>();
        // SAFETY: the window is in one piece, of elements of this size, and aligned for them, as was just asserted. The
        // memory is live and initialised for `'a`, by the promise of who lent the span, and every bit pattern is a `T`.
        // Nobody writes it, by the caller's promise.
        unsafe { std::slice::from_raw_parts(self.raw.start.as_ptr().cast(), self.len()) }
    }

    /// Elements `items` of the window as a slice that nobody else reaches meanwhile.
    ///
    /// # Safety
    /// Nothing else touches these elements during `'a`, and the span is writable.
    ///
    /// # Panics
    /// If the elements are not as large as a `T`, not aligned for it, or do not follow each other, or if `items` does
    /// not lie inside the window.
    #[inline]
    pub unsafe fn as_mut_slice<T: DeviceCopy>(&self, items: Range<usize>) -> &'a mut [T] {
        self.assert_slice_of::<T>();
        let len = self.len();
        assert!(items.start <= items.end && items.end <= len, "elements {items:?} of a window of {len}");
        // SAFETY: as for `as_slice`; `items` lies inside the window, so the pointer and the length stay inside the
        // allocation, and nobody else touches these elements, by the caller's promise.
        unsafe {
            std::slice::from_raw_parts_mut(self.raw.start.as_ptr().cast::<T>().add(items.start), items.len())
        }
    }

    /// The window as cells.
    ///
    /// # Safety
    /// During `'a` other threads touch only elements that this one does not, and the span is writable.
    ///
    /// # Panics
    /// If the elements are not as large as a `T`, not aligned for it, or do not follow each other.
    pub unsafe fn as_cells<T: DeviceCopy>(&self) -> &'a [Cell<T>] {
        self.assert_slice_of::<T>();
        // SAFETY: as for `as_slice`; a `Cell<T>` lies in memory as a `T`, and no two threads touch one of them, by the
        // caller's promise.
        unsafe { std::slice::from_raw_parts(self.raw.start.as_ptr().cast::<Cell<T>>(), self.len()) }
    }

    /// The address of element `at`, or `None` outside the window.
    #[inline(always)]
    pub(super) fn element(&self, at: usize) -> Option<*mut u8> {
        if at >= self.len() {
            return None;
        }
        // SAFETY: `at` is inside the window, whose bytes lie in one allocation by the promise of who lent the span.
        Some(unsafe { self.raw.start.as_ptr().add(self.extent().offset(at) * self.raw.element) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw<T: DeviceCopy>(data: &mut [T], extent: Extent) -> RawSpan {
        let start = NonNull::new(data.as_mut_ptr().cast::<u8>()).expect("a slice's pointer is not null");
        RawSpan::new(start, extent, size_of::<T>(), Word::of::<T>())
    }

    #[test]
    #[should_panic(expected = "elements 8..32 of a window of 16")]
    fn a_slice_beyond_its_window_is_refused() {
        let mut data = [0_u32; 16];
        let raw = raw(&mut data, Extent::line(16));
        // SAFETY: the data outlives the span, and nobody else touches it.
        unsafe { raw.lend().as_mut_slice::<u32>(8..32) };
    }

    #[test]
    #[should_panic(expected = "a window with gaps")]
    fn a_slice_of_a_window_with_gaps_is_refused() {
        let mut data = [0_u32; 16];
        let raw = raw(&mut data, Extent { size: [1, 2, 2], pitch: [8, 4] });
        // SAFETY: as above.
        unsafe { raw.lend().as_slice::<u32>() };
    }

    #[test]
    fn lines_of_a_window_with_gaps_are_its_runs() {
        let mut data: [u32; 24] = std::array::from_fn(|at| at as u32);
        let raw = raw(&mut data, Extent { size: [2, 2, 3], pitch: [12, 4] });
        // SAFETY: the data outlives the span, and nobody else touches it.
        let span = unsafe { raw.lend() };
        let line = |items: Range<usize>| {
            // SAFETY: as above.
            unsafe { span.line(items).as_slice::<u32>() }
        };
        assert_eq!([line(0..3), line(4..6), line(9..12)], [&[0, 1, 2][..], &[5, 6], &[16, 17, 18]]);
        assert!(line(12..12).is_empty() && line(2..2).is_empty());
    }

    #[test]
    #[should_panic(expected = "elements 2..4 of a window in which 3 follow each other")]
    fn a_line_over_a_gap_is_refused() {
        let mut data = [0_u32; 24];
        let raw = raw(&mut data, Extent { size: [2, 2, 3], pitch: [12, 4] });
        // SAFETY: as above.
        unsafe { raw.lend() }.line(2..4);
    }

    #[test]
    #[should_panic(expected = "elements 4..5 of a window of 4")]
    fn a_line_beyond_its_window_is_refused() {
        let mut data = [0_u32; 16];
        let raw = raw(&mut data, Extent { size: [1, 2, 2], pitch: [8, 4] });
        // SAFETY: as above.
        unsafe { raw.lend() }.line(4..5);
    }

    #[test]
    #[should_panic(expected = "8 bytes for elements of 4")]
    fn a_slice_of_another_type_is_refused() {
        let mut data = [0_u32; 16];
        let raw = raw(&mut data, Extent::line(16));
        // SAFETY: as above.
        unsafe { raw.lend().as_cells::<u64>() };
    }

    #[test]
    #[should_panic(expected = "larger than any memory")]
    fn a_window_that_cannot_be_counted_is_refused() {
        raw(&mut [0_u32], Extent { size: [1 << 40, 1 << 40, 1], pitch: [1, 1] });
    }

    #[test]
    fn windows_share_what_their_outer_bounds_share() {
        let mut data = [0_u32; 16];
        let whole = raw(&mut data, Extent::line(16));
        let front = raw(&mut data[..8], Extent::line(8));
        let back = raw(&mut data[8..], Extent::line(8));
        assert!(whole.overlaps(&front) && back.overlaps(&whole) && !front.overlaps(&back));
        let columns = raw(&mut data[..8], Extent { size: [1, 2, 2], pitch: [0, 8] });
        assert!(columns.overlaps(&back), "its second row is there");
        assert!(!raw(&mut data, Extent::line(0)).overlaps(&whole));
    }
}
