//! Memory in the forms in which a kernel's code reaches it. Outside the range reading gives zero and writing does
//! nothing, in all of them.

use std::cell::Cell;
use std::fmt;

use super::outside::Whose;
use crate::DeviceCopy;
use crate::memory::{AtomicElement, AtomicOp, Elements};
use crate::view::position;

/// Elements that can be read.
pub trait Load<T, const D: usize>: Copy {
    /// How many elements there are.
    fn count(&self) -> u32;
    /// How many along a dimension.
    fn extent(&self, dim: usize) -> u32;
    /// An element.
    fn get(&self, at: [u32; D]) -> T;
    /// All elements as a slice, in their order, where nobody writes them.
    #[inline]
    fn stretch(&self) -> Option<&[T]> {
        None
    }
}

/// Elements that can be written, too.
pub trait Store<T, const D: usize>: Load<T, D> {
    /// Writes an element.
    fn set(&self, at: [u32; D], value: T);
    /// All elements as cells, in their order, where no other thread reaches them.
    #[inline]
    fn cells(&self) -> Option<&[Cell<T>]> {
        None
    }
    /// A part of an element, `offset` bytes behind its start.
    fn part<F: DeviceCopy>(&self, at: [u32; D], offset: usize) -> F;
    /// Writes a part of an element.
    fn set_part<F: DeviceCopy>(&self, at: [u32; D], offset: usize, value: F);
}

/// Elements that can be changed atomically.
pub trait Atomics<T, const D: usize>: Copy {
    /// How many elements there are.
    fn count(&self) -> u32;
    /// How many along a dimension.
    fn extent(&self, dim: usize) -> u32;
    /// An element.
    fn load(&self, at: [u32; D]) -> T;
    /// Writes an element.
    fn store(&self, at: [u32; D], value: T);
    /// Changes an element, and gives what it was.
    fn update(&self, at: [u32; D], op: AtomicOp, value: T) -> T;
    /// Writes an element if it is `current`, and gives what it was.
    fn exchange_if(&self, at: [u32; D], current: T, new: T) -> T;
}

/// Elements that all items share, reached by relaxed atomic words.
#[derive(Clone, Copy, Debug)]
pub struct Shared<'a, T, const D: usize> {
    // By value, so that a loop's stores cannot be what it is read anew for.
    elements: Elements<'a, T>,
    extents: [u32; D],
    whose: Whose,
}

impl<'a, T: DeviceCopy, const D: usize> Shared<'a, T, D> {
    pub(super) fn new(elements: Elements<'a, T>, extents: [u32; D], whose: Whose) -> Self {
        Shared { elements, extents, whose }
    }

    #[inline]
    fn position(&self, at: [u32; D], writes: bool) -> Option<usize> {
        let position = position(self.elements.span().extent(), at.map(|i| i as usize));
        if position.is_none() {
            self.whose.outside(writes, &at, &self.extents);
        }
        position
    }
}

impl<T: DeviceCopy, const D: usize> Load<T, D> for Shared<'_, T, D> {
    #[inline]
    fn count(&self) -> u32 {
        self.elements.span().len() as u32
    }

    #[inline]
    fn extent(&self, dim: usize) -> u32 {
        self.extents[dim]
    }

    #[inline]
    fn get(&self, at: [u32; D]) -> T {
        self.position(at, false).map_or_else(T::zero, |at| self.elements.load(at))
    }
}

impl<T: DeviceCopy, const D: usize> Store<T, D> for Shared<'_, T, D> {
    #[inline]
    fn set(&self, at: [u32; D], value: T) {
        if let Some(at) = self.position(at, true) {
            self.elements.store(at, value);
        }
    }

    #[inline]
    fn part<F: DeviceCopy>(&self, at: [u32; D], offset: usize) -> F {
        part_of(&self.get(at), offset)
    }

    #[inline]
    fn set_part<F: DeviceCopy>(&self, at: [u32; D], offset: usize, value: F) {
        if let Some(at) = self.position(at, true) {
            self.elements.store_part(at, offset, value);
        }
    }
}

/// A part of a value, `offset` bytes behind its start.
pub(super) fn part_of<T: DeviceCopy, F: DeviceCopy>(value: &T, offset: usize) -> F {
    let bytes = &bytemuck::bytes_of(value)[offset..offset + size_of::<F>()];
    bytemuck::pod_read_unaligned(bytes)
}

/// A value with a part of it replaced.
pub(super) fn with_part<T: DeviceCopy, F: DeviceCopy>(mut whole: T, offset: usize, value: F) -> T {
    bytemuck::bytes_of_mut(&mut whole)[offset..offset + size_of::<F>()]
        .copy_from_slice(bytemuck::bytes_of(&value));
    whole
}

/// Where an element of so many dimensions is, if it is inside all but perhaps the only one.
#[inline]
pub(super) fn linear<const D: usize>(at: [u32; D], extents: &[u32; D]) -> Option<usize> {
    let mut linear = 0;
    for (at, extent) in at.iter().zip(extents) {
        // One dimension needs no comparison but the slice's own.
        if D > 1 && at >= extent {
            return None;
        }
        linear = linear * *extent as usize + *at as usize;
    }
    Some(linear)
}

/// Elements that nobody writes.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a, T, const D: usize> {
    slice: &'a [T],
    extents: [u32; D],
}

impl<'a, T, const D: usize> Plain<'a, T, D> {
    pub(crate) fn new(slice: &'a [T], extents: [u32; D]) -> Self {
        Plain { slice, extents }
    }

    /// How many elements there are from this one on.
    #[inline]
    pub fn count_from(&self, first: usize) -> usize {
        self.slice.len().saturating_sub(first)
    }

    /// `n` elements from this one on, which must be there.
    #[inline]
    pub fn run(&self, first: usize, n: usize) -> &'a [T] {
        if n == 0 { &[] } else { &self.slice[first..first + n] }
    }
}

impl<T: DeviceCopy, const D: usize> Load<T, D> for Plain<'_, T, D> {
    #[inline]
    fn count(&self) -> u32 {
        self.slice.len() as u32
    }

    #[inline]
    fn extent(&self, dim: usize) -> u32 {
        self.extents[dim]
    }

    #[inline]
    fn get(&self, at: [u32; D]) -> T {
        linear(at, &self.extents).and_then(|at| self.slice.get(at)).copied().unwrap_or_else(T::zero)
    }

    #[inline]
    fn stretch(&self) -> Option<&[T]> {
        Some(self.slice)
    }
}

/// A block's own elements of a slot.
#[derive(Debug)]
pub struct Own<'a, T> {
    slice: &'a mut [T],
    first: usize,
    len: usize,
}

impl<'a, T> Own<'a, T> {
    pub(crate) fn new(slice: &'a mut [T], first: usize, len: usize) -> Self {
        Own { slice, first, len }
    }

    /// How many elements the slot has.
    #[inline]
    pub fn total(&self) -> u32 {
        self.len as u32
    }

    /// How many of them are this block's.
    #[inline]
    pub fn count(&self) -> usize {
        self.slice.len()
    }

    /// The first `n` of this block's elements, and the others.
    #[inline]
    pub fn split(self, n: usize) -> (&'a mut [T], Own<'a, T>) {
        let (front, back) = self.slice.split_at_mut(n);
        (front, Own { slice: back, first: self.first + n, len: self.len })
    }
}

/// Own elements as a view, for items that are not in the fast loop.
pub struct Rest<'a, T> {
    cells: &'a [Cell<T>],
    first: usize,
    len: usize,
}

impl<T> Clone for Rest<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Rest<'_, T> {}

impl<T> fmt::Debug for Rest<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("first", &self.first).field("len", &self.len).finish_non_exhaustive()
    }
}

impl<'a, T> Rest<'a, T> {
    /// These elements as a view.
    pub fn new(own: Own<'a, T>) -> Self {
        Rest { cells: Cell::from_mut(own.slice).as_slice_of_cells(), first: own.first, len: own.len }
    }

    fn cell(&self, at: u32) -> Option<&'a Cell<T>> {
        self.cells.get((at as usize).wrapping_sub(self.first))
    }
}

impl<T: DeviceCopy> Load<T, 1> for Rest<'_, T> {
    fn count(&self) -> u32 {
        self.len as u32
    }

    fn extent(&self, _: usize) -> u32 {
        self.len as u32
    }

    fn get(&self, at: [u32; 1]) -> T {
        self.cell(at[0]).map_or_else(T::zero, Cell::get)
    }
}

impl<T: DeviceCopy> Store<T, 1> for Rest<'_, T> {
    fn set(&self, at: [u32; 1], value: T) {
        if let Some(cell) = self.cell(at[0]) {
            cell.set(value);
        }
    }

    fn part<F: DeviceCopy>(&self, at: [u32; 1], offset: usize) -> F {
        part_of(&self.get(at), offset)
    }

    fn set_part<F: DeviceCopy>(&self, at: [u32; 1], offset: usize, value: F) {
        if let Some(cell) = self.cell(at[0]) {
            cell.set(with_part(cell.get(), offset, value));
        }
    }
}

/// Elements of which each is one work-item's own, by its author's promise.
#[derive(Clone, Copy)]
pub struct Alone<'a, T, const D: usize> {
    cells: &'a [Cell<T>],
    extents: [u32; D],
}

impl<T, const D: usize> fmt::Debug for Alone<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alone").field("extents", &self.extents).finish_non_exhaustive()
    }
}

impl<'a, T, const D: usize> Alone<'a, T, D> {
    pub(crate) fn new(cells: &'a [Cell<T>], extents: [u32; D]) -> Self {
        Alone { cells, extents }
    }

    #[inline]
    fn cell(&self, at: [u32; D]) -> Option<&'a Cell<T>> {
        self.cells.get(linear(at, &self.extents)?)
    }
}

impl<T: DeviceCopy, const D: usize> Load<T, D> for Alone<'_, T, D> {
    #[inline]
    fn count(&self) -> u32 {
        self.cells.len() as u32
    }

    #[inline]
    fn extent(&self, dim: usize) -> u32 {
        self.extents[dim]
    }

    #[inline]
    fn get(&self, at: [u32; D]) -> T {
        self.cell(at).map_or_else(T::zero, Cell::get)
    }
}

impl<T: DeviceCopy, const D: usize> Store<T, D> for Alone<'_, T, D> {
    #[inline]
    fn cells(&self) -> Option<&[Cell<T>]> {
        Some(self.cells)
    }

    #[inline]
    fn set(&self, at: [u32; D], value: T) {
        if let Some(cell) = self.cell(at) {
            cell.set(value);
        }
    }

    #[inline]
    fn part<F: DeviceCopy>(&self, at: [u32; D], offset: usize) -> F {
        part_of(&self.get(at), offset)
    }

    #[inline]
    fn set_part<F: DeviceCopy>(&self, at: [u32; D], offset: usize, value: F) {
        if let Some(cell) = self.cell(at) {
            cell.set(with_part(cell.get(), offset, value));
        }
    }
}

/// Atomics that all items share.
#[derive(Clone, Copy, Debug)]
pub struct SharedAtomics<'a, T, const D: usize>(Shared<'a, T, D>);

impl<'a, T, const D: usize> SharedAtomics<'a, T, D> {
    pub(crate) fn new(shared: Shared<'a, T, D>) -> Self {
        SharedAtomics(shared)
    }
}

impl<T: AtomicElement, const D: usize> Atomics<T, D> for SharedAtomics<'_, T, D> {
    fn count(&self) -> u32 {
        Load::count(&self.0)
    }

    fn extent(&self, dim: usize) -> u32 {
        Load::<T, D>::extent(&self.0, dim)
    }

    fn load(&self, at: [u32; D]) -> T {
        self.0.get(at)
    }

    fn store(&self, at: [u32; D], value: T) {
        self.0.set(at, value);
    }

    #[inline]
    fn update(&self, at: [u32; D], op: AtomicOp, value: T) -> T {
        self.0.position(at, true).map_or_else(T::zero, |at| self.0.elements.update(at, op, value))
    }

    #[inline]
    fn exchange_if(&self, at: [u32; D], current: T, new: T) -> T {
        self.0.position(at, true).map_or_else(T::zero, |at| self.0.elements.exchange_if(at, current, new))
    }
}
