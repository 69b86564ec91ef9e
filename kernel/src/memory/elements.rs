//! A window's elements, reached by relaxed atomic words.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::{AtomicElement, AtomicOp, Span, Word};
use crate::DeviceCopy;

/// The elements of a span as values of `T`: whoever has this has had their size compared.
#[derive(Debug)]
pub(crate) struct Elements<'a, T> {
    span: Span<'a>,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for Elements<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Elements<'_, T> {}

impl<'a, T> Elements<'a, T> {
    #[inline(always)]
    pub(crate) fn span(&self) -> &Span<'a> {
        &self.span
    }
}

/// The words of one element.
enum Words<'a> {
    B1(&'a [AtomicU8]),
    B2(&'a [AtomicU16]),
    B4(&'a [AtomicU32]),
    B8(&'a [AtomicU64]),
}

impl<'a, T: DeviceCopy> Elements<'a, T> {
    /// The elements of a span.
    ///
    /// # Panics
    /// If they do not have the size of a `T`.
    #[track_caller]
    pub(crate) fn new(span: Span<'a>) -> Self {
        let element = span.element_bytes();
        assert!(size_of::<T>() == element, "{} bytes for elements of {element}", size_of::<T>());
        Elements { span, marker: PhantomData }
    }

    /// [`Elements::new`] to be written.
    ///
    /// # Panics
    /// If they have another size, or are only read.
    #[track_caller]
    pub(crate) fn to_write(span: Span<'a>) -> Self {
        assert!(span.is_writable(), "this memory is only read");
        Self::new(span)
    }

    /// The words of element `at`; `None` outside the window.
    #[inline(always)]
    fn words(&self, at: usize) -> Option<Words<'a>> {
        let element = self.span.element(at)?;
        macro_rules! words {
            ($form:ident $atomic:ident) => {{
                let count = size_of::<T>() / size_of::<$atomic>();
                // SAFETY: the element has the size of a `T` (`new`), so all of these words are its own; it is live and
                // initialised for `'a`, by the promise of who lent the span. The span's start is aligned for the word
                // and its elements are multiples of it (`RawSpan::new`), so each word is aligned. Others reach the
                // same bytes through words of this size, by the same promise, and an atomic lies as its integer does.
                Words::$form(unsafe { std::slice::from_raw_parts(element.cast::<$atomic>(), count) })
            }};
        }
        Some(match self.span.word() {
            Word::B1 => words!(B1 AtomicU8),
            Word::B2 => words!(B2 AtomicU16),
            Word::B4 => words!(B4 AtomicU32),
            Word::B8 => words!(B8 AtomicU64),
        })
    }

    /// The words of element `at`, to be written.
    ///
    /// # Panics
    /// If the memory is only read.
    #[inline(always)]
    fn words_to_write(&self, at: usize) -> Option<Words<'a>> {
        // Others may read what is only read as plain slices.
        assert!(self.span.is_writable(), "this memory is only read");
        self.words(at)
    }

    /// Loads element `at` by relaxed words; outside the window, zeros.
    #[inline(always)]
    pub(crate) fn load(&self, at: usize) -> T {
        let mut value = T::zeroed();
        let Some(words) = self.words(at) else { return value };
        let bytes = bytemuck::bytes_of_mut(&mut value);
        macro_rules! load {
            ($words:ident) => {
                for (to, word) in bytes.as_chunks_mut().0.iter_mut().zip($words) {
                    *to = word.load(Ordering::Relaxed).to_ne_bytes();
                }
            };
        }
        match words {
            Words::B1(words) => load!(words),
            Words::B2(words) => load!(words),
            Words::B4(words) => load!(words),
            Words::B8(words) => load!(words),
        }
        value
    }

    /// Stores element `at` by relaxed words; outside the window, nothing.
    ///
    /// # Panics
    /// If the memory is only read.
    #[inline(always)]
    pub(crate) fn store(&self, at: usize, value: T) {
        let Some(words) = self.words_to_write(at) else { return };
        let bytes = bytemuck::bytes_of(&value);
        macro_rules! store {
            ($int:ident $words:ident) => {
                for (from, word) in bytes.as_chunks().0.iter().zip($words) {
                    word.store($int::from_ne_bytes(*from), Ordering::Relaxed);
                }
            };
        }
        match words {
            Words::B1(words) => store!(u8 words),
            Words::B2(words) => store!(u16 words),
            Words::B4(words) => store!(u32 words),
            Words::B8(words) => store!(u64 words),
        }
    }

    /// Stores a part of element `at`, `offset` bytes behind its start, and nothing beside it; outside the window,
    /// nothing. A part that is no whole number of words is merged into its words, so that what others write beside it
    /// at the same time is not lost.
    ///
    /// # Panics
    /// If the part does not lie inside the element, or the memory is only read.
    #[inline(always)]
    pub(crate) fn store_part<F: DeviceCopy>(&self, at: usize, offset: usize, value: F) {
        let bytes = bytemuck::bytes_of(&value);
        let inside = offset.checked_add(bytes.len()).is_some_and(|end| end <= size_of::<T>());
        assert!(inside, "a part of an element lies inside it");
        let Some(words) = self.words_to_write(at) else { return };
        macro_rules! store_part {
            ($int:ident $words:ident) => {
                merge(offset, bytes, |at, keep, new| {
                    let (keep, new) = ($int::from_ne_bytes(keep), $int::from_ne_bytes(new));
                    match keep {
                        0 => $words[at].store(new, Ordering::Relaxed),
                        _ => {
                            let change = |old| Some(old & keep | new);
                            let _ = $words[at].fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
                        }
                    }
                })
            };
        }
        match words {
            Words::B1(words) => store_part!(u8 words),
            Words::B2(words) => store_part!(u16 words),
            Words::B4(words) => store_part!(u32 words),
            Words::B8(words) => store_part!(u64 words),
        }
    }
}

impl<T: AtomicElement> Elements<'_, T> {
    /// Changes element `at` atomically, and gives what it was; outside the window, nothing, and zero.
    ///
    /// # Panics
    /// If the memory is only read, or its word is not the element's size: such a root (by `reinterpret` from a narrower
    /// type) has no atomics, and the runtime refuses it in prepare.
    #[inline(always)]
    pub(crate) fn update(&self, at: usize, op: AtomicOp, value: T) -> T {
        let Some(words) = self.words_to_write(at) else { return T::zeroed() };
        let order = Ordering::Relaxed;
        macro_rules! update {
            ($int:ident $word:ident) => {{
                let new: $int = bytemuck::cast(value);
                let old = match op {
                    AtomicOp::Add if !T::IS_FLOAT => $word.fetch_add(new, order),
                    AtomicOp::Sub if !T::IS_FLOAT => $word.fetch_sub(new, order),
                    AtomicOp::And => $word.fetch_and(new, order),
                    AtomicOp::Or => $word.fetch_or(new, order),
                    AtomicOp::Xor => $word.fetch_xor(new, order),
                    AtomicOp::Swap => $word.swap(new, order),
                    // The word is an unsigned integer, so its own minimum is not that of a signed element.
                    AtomicOp::Min | AtomicOp::Max | AtomicOp::Add | AtomicOp::Sub => {
                        let keep = |old: $int| bytemuck::cast(T::combined(op, bytemuck::cast(old), value));
                        match $word.fetch_update(order, order, |old| Some(keep(old))) {
                            Ok(old) | Err(old) => old,
                        }
                    }
                };
                bytemuck::cast(old)
            }};
        }
        match words {
            Words::B4([word]) => update!(u32 word),
            Words::B8([word]) => update!(u64 word),
            _ => panic!("atomic access through words of another size"),
        }
    }
}

impl<T: AtomicElement> Elements<'_, T> {
    /// Writes element `at` if it holds `current`, bit for bit, and gives what it held; outside the window, nothing, and zero.
    ///
    /// # Panics
    /// As [`Elements::update`].
    #[inline(always)]
    pub(crate) fn exchange_if(&self, at: usize, current: T, new: T) -> T {
        let Some(words) = self.words_to_write(at) else { return T::zeroed() };
        let order = Ordering::Relaxed;
        macro_rules! exchange {
            ($word:ident) => {{
                let (current, new) = (bytemuck::cast(current), bytemuck::cast(new));
                match $word.compare_exchange(current, new, order, order) {
                    Ok(old) | Err(old) => bytemuck::cast(old),
                }
            }};
        }
        match words {
            Words::B4([word]) => exchange!(word),
            Words::B8([word]) => exchange!(word),
            _ => panic!("atomic access through words of another size"),
        }
    }
}

impl<T: DeviceCopy> Elements<'_, T> {
    /// Combines the numbers that element `at` is made of with those of a value, each atomically; outside the window, nothing.
    ///
    /// # Panics
    /// If the memory is only read, or its word is not a number's size.
    pub(crate) fn combine<N: DeviceCopy>(&self, at: usize, value: T, combined: impl Fn(N, N) -> N) {
        let Some(words) = self.words_to_write(at) else { return };
        let numbers: &[N] = bytemuck::cast_slice(bytemuck::bytes_of(&value));
        macro_rules! combine {
            ($int:ident $words:ident) => {
                for (word, number) in $words.iter().zip(numbers) {
                    let new = |old: $int| Some(bytemuck::cast(combined(bytemuck::cast(old), *number)));
                    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, new);
                }
            };
        }
        match words {
            Words::B4(words) if size_of::<N>() == 4 => combine!(u32 words),
            Words::B8(words) if size_of::<N>() == 8 => combine!(u64 words),
            _ => panic!("atomic access through words of another size"),
        }
    }
}

/// Calls `each` for every word of `N` bytes that a part at `offset` touches, with its number, the bits of it that stay,
/// and those that are new.
#[inline(always)]
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
