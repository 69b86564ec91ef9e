//! Kernel memory: a typed window over raw bytes of an allocation, reached by relaxed atomic words.
//!
//! Several work-items may touch one element at once. On a host device that must not be undefined behaviour, so shared
//! access goes word by word through relaxed atomics. All accesses to one root buffer use words of the same size
//! (mixing sizes on one location is not defined), taken from the alignment of the root's element type; an element
//! wider than its word may tear, which gives an unspecified value and nothing worse.

use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::DeviceCopy;

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
    pub fn len(&self) -> usize {
        self.size[0] * self.size[1] * self.size[2]
    }

    /// Whether it shows none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements follow each other without a gap.
    pub fn is_contiguous(&self) -> bool {
        let rows = self.size[0] * self.size[1];
        rows <= 1
            || (self.pitch[1] == self.size[2]
                && (self.size[0] == 1 || self.pitch[0] == self.size[1] * self.size[2]))
    }

    /// The offset in elements of the row-major position `at`.
    #[inline]
    fn offset(&self, at: usize) -> usize {
        if self.size[0] * self.size[1] == 1 {
            return at;
        }
        let (row, x) = (at / self.size[2], at % self.size[2]);
        let (z, y) = (row / self.size[1], row % self.size[1]);
        z * self.pitch[0] + y * self.pitch[1] + x
    }
}

/// A window of elements in an allocation of host memory.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    start: NonNull<u8>,
    extent: Extent,
    element: usize,
    word: Word,
    writable: bool,
}

// SAFETY: a span is an address with a shape. Every way to use it is either atomic or `unsafe` with its own contract.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

impl Span {
    /// A window that starts at `start` and shows `extent` elements of `element` bytes.
    ///
    /// # Safety
    /// - All bytes of the window are initialised and inside one allocation, which outlives every use of the span.
    /// - `start` is aligned for `word`, and `element` is a multiple of the word's size.
    /// - While the span is in use, memory of the window is reached only through spans with the same word, or by
    ///   accesses that are ordered before or after it.
    pub unsafe fn new(start: NonNull<u8>, extent: Extent, element: usize, word: Word) -> Self {
        debug_assert!(element.is_multiple_of(word.bytes()));
        debug_assert!(start.addr().get().is_multiple_of(word.bytes()));
        Span { start, extent, element, word, writable: true }
    }

    /// The same window for somebody who has the right to read it only.
    pub fn read_only(self) -> Self {
        Span { writable: false, ..self }
    }

    /// Whether who has the span may write what it shows.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// The window's shape.
    pub fn extent(&self) -> &Extent {
        &self.extent
    }

    /// How many elements the window shows.
    #[inline]
    pub fn len(&self) -> usize {
        self.extent.len()
    }

    /// Whether the window shows nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many bytes an element has.
    pub fn element_bytes(&self) -> usize {
        self.element
    }

    /// The address of the first element.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Whether the elements follow each other, so that a slice can show them.
    pub fn is_contiguous(&self) -> bool {
        self.extent.is_contiguous()
    }

    /// Whether two windows share a byte (by their outer bounds, so interleaved columns count as sharing).
    pub fn overlaps(&self, other: &Span) -> bool {
        let ends = |s: &Span| {
            let start = s.start.addr().get();
            let last = if s.is_empty() { 0 } else { (s.extent.offset(s.len() - 1) + 1) * s.element };
            (start, start + last)
        };
        let ((a, b), (c, d)) = (ends(self), ends(other));
        a < d && c < b
    }

    /// The elements as a slice that nobody writes meanwhile.
    ///
    /// # Safety
    /// `T` is the element type, the window is contiguous and aligned for `T`, and nothing writes it during `'a`.
    pub unsafe fn as_slice<'a, T: DeviceCopy>(&self) -> &'a [T] {
        debug_assert!(self.is_contiguous() && size_of::<T>() == self.element);
        // SAFETY: the caller's promises, and `Span::new`'s that the memory is live and initialised.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len()) }
    }

    /// Elements `items` of the window as a slice that nobody else reaches meanwhile.
    ///
    /// # Safety
    /// As for [`Span::as_slice`], `items` lies inside the window, and nothing else touches these elements during `'a`.
    pub unsafe fn as_mut_slice<'a, T: DeviceCopy>(&self, items: std::ops::Range<usize>) -> &'a mut [T] {
        debug_assert!(self.is_contiguous() && size_of::<T>() == self.element && items.end <= self.len());
        // SAFETY: the range lies inside the window, so the pointer and the length stay inside the allocation; the
        // rest are the caller's promises.
        unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr().cast::<T>().add(items.start), items.len())
        }
    }

    /// The window as cells.
    ///
    /// # Safety
    /// As for [`Span::as_slice`], but that other threads may touch those elements that this one does not touch.
    pub unsafe fn as_cells<'a, T: DeviceCopy>(&self) -> &'a [Cell<T>] {
        debug_assert!(self.is_contiguous() && size_of::<T>() == self.element);
        // SAFETY: a `Cell<T>` lies in memory as a `T`; the pointer and the length are the window's, and the rest are the
        // caller's promises.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<Cell<T>>(), self.len()) }
    }

    /// The address of element `at`, or `None` outside the window.
    #[inline]
    pub(crate) fn element(&self, at: usize) -> Option<*mut u8> {
        if at >= self.len() {
            return None;
        }
        // SAFETY: `at` is inside the window, whose bytes lie in one allocation by `Span::new`'s contract.
        Some(unsafe { self.start.as_ptr().add(self.extent.offset(at) * self.element) })
    }

    /// Loads element `at` by relaxed words; outside the window, zeros.
    #[inline]
    pub(crate) fn load<T: DeviceCopy>(&self, at: usize) -> T {
        debug_assert_eq!(size_of::<T>(), self.element);
        let mut value = T::zeroed();
        if let Some(from) = self.element(at) {
            let bytes = bytemuck::bytes_of_mut(&mut value);
            match self.word {
                Word::B1 => words(bytes, |b: &mut [u8; 1], i| {
                    *b = atomic8(from, i).load(Ordering::Relaxed).to_ne_bytes()
                }),
                Word::B2 => words(bytes, |b: &mut [u8; 2], i| {
                    *b = atomic16(from, i).load(Ordering::Relaxed).to_ne_bytes()
                }),
                Word::B4 => words(bytes, |b: &mut [u8; 4], i| {
                    *b = atomic32(from, i).load(Ordering::Relaxed).to_ne_bytes()
                }),
                Word::B8 => words(bytes, |b: &mut [u8; 8], i| {
                    *b = atomic64(from, i).load(Ordering::Relaxed).to_ne_bytes()
                }),
            }
        }
        value
    }

    /// Stores element `at` by relaxed words; outside the window, nothing.
    #[inline]
    pub(crate) fn store<T: DeviceCopy>(&self, at: usize, mut value: T) {
        debug_assert_eq!(size_of::<T>(), self.element);
        let Some(to) = self.element(at) else { return };
        let bytes = bytemuck::bytes_of_mut(&mut value);
        match self.word {
            Word::B1 => words(bytes, |b: &mut [u8; 1], i| {
                atomic8(to, i).store(u8::from_ne_bytes(*b), Ordering::Relaxed)
            }),
            Word::B2 => words(bytes, |b: &mut [u8; 2], i| {
                atomic16(to, i).store(u16::from_ne_bytes(*b), Ordering::Relaxed)
            }),
            Word::B4 => words(bytes, |b: &mut [u8; 4], i| {
                atomic32(to, i).store(u32::from_ne_bytes(*b), Ordering::Relaxed)
            }),
            Word::B8 => words(bytes, |b: &mut [u8; 8], i| {
                atomic64(to, i).store(u64::from_ne_bytes(*b), Ordering::Relaxed)
            }),
        }
    }

    /// Stores a part of element `at`, `offset` bytes behind its start, and nothing beside it; outside the window,
    /// nothing. A part that is no whole number of words is merged into its words, so that what others write beside it
    /// at the same time is not lost.
    #[inline]
    pub(crate) fn store_part<F: DeviceCopy>(&self, at: usize, offset: usize, value: F) {
        let bytes = bytemuck::bytes_of(&value);
        assert!(offset + bytes.len() <= self.element, "a part of an element lies inside it");
        let Some(to) = self.element(at) else { return };
        match self.word {
            Word::B1 => merge::<1>(offset, bytes, |i, keep, new| {
                let change = |old: u8| Some(old & u8::from_ne_bytes(keep) | u8::from_ne_bytes(new));
                let _ = atomic8(to, i).fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
            }),
            Word::B2 => merge::<2>(offset, bytes, |i, keep, new| {
                let change = |old: u16| Some(old & u16::from_ne_bytes(keep) | u16::from_ne_bytes(new));
                let _ = atomic16(to, i).fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
            }),
            Word::B4 => merge::<4>(offset, bytes, |i, keep, new| match keep {
                [0, 0, 0, 0] => atomic32(to, i).store(u32::from_ne_bytes(new), Ordering::Relaxed),
                _ => {
                    let change = |old: u32| Some(old & u32::from_ne_bytes(keep) | u32::from_ne_bytes(new));
                    let _ = atomic32(to, i).fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
                }
            }),
            Word::B8 => merge::<8>(offset, bytes, |i, keep, new| match keep {
                [0, 0, 0, 0, 0, 0, 0, 0] => atomic64(to, i).store(u64::from_ne_bytes(new), Ordering::Relaxed),
                _ => {
                    let change = |old: u64| Some(old & u64::from_ne_bytes(keep) | u64::from_ne_bytes(new));
                    let _ = atomic64(to, i).fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
                }
            }),
        }
    }

    /// Changes element `at`, one word of four bytes, atomically; outside the window, nothing.
    pub(crate) fn update_word(&self, at: usize, new: impl Fn(u32) -> u32) {
        assert_eq!(self.word, Word::B4, "atomic access through words of another size");
        if let Some(element) = self.element(at) {
            let step = |old| Some(new(old));
            let _ = atomic32(element, 0).fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        }
    }

    /// The window's word.
    pub(crate) fn word(&self) -> Word {
        self.word
    }
}

/// The orders of [`fence`].
pub use std::sync::atomic::Ordering as Order;

/// Orders this thread's accesses to kernel memory, which are relaxed.
pub fn fence(order: Order) {
    std::sync::atomic::fence(order);
}

/// Calls `each` for every whole word of `bytes`.
#[inline]
fn words<const N: usize>(bytes: &mut [u8], mut each: impl FnMut(&mut [u8; N], usize)) {
    let (chunks, _) = bytes.as_chunks_mut::<N>();
    for (i, word) in chunks.iter_mut().enumerate() {
        each(word, i);
    }
}

/// Calls `each` for every word of `N` bytes that a part at `offset` touches, with the bits of it that stay, and those
/// that are new.
#[inline]
fn merge<const N: usize>(offset: usize, bytes: &[u8], mut each: impl FnMut(usize, [u8; N], [u8; N])) {
    let (first, end) = (offset / N, (offset + bytes.len()).div_ceil(N));
    for word in first..end {
        let (mut keep, mut new) = ([0xff; N], [0; N]);
        for i in 0..N {
            if let Some(byte) = (word * N + i).checked_sub(offset).and_then(|at| bytes.get(at)) {
                (keep[i], new[i]) = (0, *byte);
            }
        }
        each(word, keep, new);
    }
}

macro_rules! atomic_word {
    ($($name:ident $atomic:ident $int:ident)*) => {$(
        /// Word `i` behind an element's address that [`Span::element`] gave out.
        #[inline]
        pub(crate) fn $name<'a>(element: *mut u8, i: usize) -> &'a $atomic {
            // SAFETY: `element` points at a live element of a span, `i` is below the element's number of words, the
            // span's start is aligned for this word and elements are multiples of it; concurrent accesses go
            // through words of the same size by `Span::new`'s contract.
            unsafe { $atomic::from_ptr(element.cast::<$int>().add(i)) }
        }
    )*};
}
atomic_word!(atomic8 AtomicU8 u8 atomic16 AtomicU16 u16 atomic32 AtomicU32 u32 atomic64 AtomicU64 u64);
