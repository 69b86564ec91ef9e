//! The same bytes as elements of another type, or in another shape.

use std::any::{TypeId, type_name};
use std::marker::PhantomData;

use windlass_kernel::{DeviceCopy, Extent, Word};

use super::{Buffer, Shape, Window};
use crate::error::{Error, Result};

impl<T: DeviceCopy, const D: usize> Buffer<T, D> {
    /// The same data as elements of another type, in another shape, or both: a handle to the same bytes, whose order with all other
    /// uses is kept. It has to come out even, at the start of a part, too; the buffer's rows have to follow each other, and the memory
    /// has to be aligned for the new elements. Anything else is an error.
    ///
    /// A kernel takes one of two views of other types that share bytes, not both.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let line = Buffer::from(vec![1.0_f32, -2.0, 3.0, -4.0]);
    /// let bits = line.reinterpret::<u32, 2>([2, 2])?;
    /// for sign in [&bits.range((.., 1..))] {
    ///     let queue = Queue::blocking_new()?;
    ///     queue.submit(|cg| cg.fill(&cg.overwrite(sign), 0))?;
    /// }
    /// assert_eq!(line.host_read().blocking_wait()?[..], [1.0, 0.0, 3.0, 0.0]);
    /// assert!(line.reinterpret::<[f32; 3], 1>(1).unwrap_err().is_invalid_input(), "a part of an element is left");
    /// # Ok(())
    /// # }
    /// ```
    pub fn reinterpret<U: DeviceCopy, const E: usize>(&self, shape: impl Shape<E>) -> Result<Buffer<U, E>> {
        const { assert!(size_of::<U>() != 0, "elements of no size cannot live in a buffer") };
        const { assert!(E >= 1 && E <= 3, "buffers have one to three dimensions") };
        self.check()?;
        let (from, to) = (type_name::<T>(), type_name::<U>());
        let (extent, len) = (shape.extent(), self.len());
        if self.root.is_image() {
            return Err(Error::invalid(format!(
                "an image's texels as elements of `{to}`: copy them to a buffer"
            )));
        }
        if !self.is_empty() && !self.bytes().is_contiguous() {
            let shape = self.shape();
            return Err(Error::invalid(format!(
                "a part {shape:?} of a grid as elements of `{to}`, and its rows do not follow each other: copy it to a buffer"
            )));
        }
        // An extent of zero makes the whole small, but how far rows and slices are apart has to be counted all the same.
        let counted =
            |least: usize| extent.iter().try_fold(size_of::<U>(), |n, e| n.checked_mul((*e).max(least)));
        let bytes = counted(0).filter(|_| counted(1).is_some_and(|bytes| isize::try_from(bytes).is_ok()));
        if bytes != Some(len * size_of::<T>()) {
            return Err(Error::invalid(format!(
                "{len} elements of `{from}`, which are {} bytes, as elements of `{to}` in shape {extent:?}, which are {}",
                len * size_of::<T>(),
                bytes.map_or("too many to count".into(), |bytes| bytes.to_string())
            )));
        }
        if !self.window.offset.is_multiple_of(size_of::<U>()) {
            return Err(Error::invalid(format!(
                "a part of a buffer that starts at byte {} as elements of `{to}`, which have {} bytes: devices count from the \
                 buffer's start, and there it is inside of one",
                self.window.offset,
                size_of::<U>()
            )));
        }
        let align = self.root.align();
        if !align.is_multiple_of(align_of::<U>()) {
            return Err(Error::invalid(format!(
                "elements of `{to}`, which are aligned to {} bytes, in memory that is aligned to {}: copy it to a buffer of them",
                align_of::<U>(),
                align
            )));
        }
        let mut size = [1; 3];
        size[3 - E..].copy_from_slice(&extent);
        let is_own = TypeId::of::<U>() == self.root.element_type();
        let window = Window {
            bounds: None,
            offset: self.window.offset,
            extent: Extent { size, pitch: [size[1] * size[2], size[2]] },
            word: if is_own { self.root.word() } else { smaller(self.root.word(), Word::of::<U>()) },
            is_cast: !is_own,
            problem: None,
        };
        Ok(Buffer { root: self.root.clone(), window, attached: self.attached.clone(), marker: PhantomData })
    }
}

/// A word that all elements of either kind are made of.
fn smaller(a: Word, b: Word) -> Word {
    if a.bytes() <= b.bytes() { a } else { b }
}
