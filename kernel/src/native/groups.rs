//! Work-groups on the host: one thread runs a group's items, row after row, between one barrier and the next.

use std::cell::Cell;
use std::fmt;
use std::ops::Deref;

use super::items::{Item, Launch};
use super::number::Zero;
use super::rows::Row;
use super::views::{Atomics, Load, Store, linear, part_of, with_part};
use crate::DeviceCopy;
use crate::memory::{AtomicElement, AtomicOp};

/// A work-group: where it is, and how large.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    first: Item,
}

impl Launch<'_> {
    /// How many items a work-group has.
    pub fn group_items(&self) -> usize {
        self.range().local().map_or(1, |local| local.iter().product())
    }

    /// The groups' extents; 1 where there are none.
    pub(super) fn group_sizes(&self) -> [u32; 3] {
        self.range().local().map_or([1; 3], |local| self.numbered(local))
    }

    /// How many groups there are along each dimension.
    pub(super) fn group_counts(&self) -> [u32; 3] {
        let (size, local) = (self.numbered(self.range().extent()), self.group_sizes());
        std::array::from_fn(|dim| size[dim] / local[dim].max(1))
    }

    /// Calls `each` for all work-groups of the block.
    pub fn groups(&self, mut each: impl FnMut(&Group)) {
        if self.range().local().is_none() {
            return;
        }
        let (size, local) = (self.numbered(self.range().extent()), self.group_sizes());
        let count = self.group_counts().map(|count| count as usize);
        let items = self.group_items().max(1);
        // A block stands for as many groups as its items would fill, and so do those before it.
        let (at, end) = (self.first() / items, (self.first() + self.count()) / items);
        let mut group =
            [at / (count[1] * count[2]), at / count[2] % count[1], at % count[2]].map(|n| n as u32);
        for _ in at..end {
            let global = std::array::from_fn(|dim| group[dim] * local[dim]);
            each(&Group {
                first: Item { global, global_size: size, local: [0; 3], local_size: local, group },
            });
            for dim in (0..3).rev() {
                group[dim] += 1;
                if (group[dim] as usize) < count[dim] || dim == 0 {
                    break;
                }
                group[dim] = 0;
            }
        }
    }
}

impl Group {
    /// The group's first item.
    pub fn first_item(&self) -> Item {
        self.first
    }

    /// The group's last item.
    pub fn last_item(&self) -> Item {
        let mut last = self.first;
        for dim in 0..3 {
            last.local[dim] = last.local_size[dim].saturating_sub(1);
            last.global[dim] += last.local[dim];
        }
        last
    }

    /// How many items it has.
    #[inline]
    pub fn items(&self) -> usize {
        self.first.local_size.iter().map(|extent| *extent as usize).product()
    }

    /// How many items each of its rows has, in a launch of `D` dimensions.
    #[inline]
    pub fn row_items<const D: usize>(&self) -> usize {
        self.first.local_size[D - 1] as usize
    }

    /// The group's rows, in a launch of `D` dimensions.
    #[inline]
    pub fn rows<const D: usize>(&self) -> impl Iterator<Item = Row> {
        let (first, size) = (self.first, self.first.local_size);
        let count = size[D - 1];
        let rows = size[0] * size[1] * size[2] / count.max(1);
        (0..rows).map(move |row| {
            let mut at = first;
            // The dimensions outside the last one.
            let outer = match D {
                3 => [row / size[1], row % size[1], 0],
                2 => [row, 0, 0],
                _ => [0; 3],
            };
            for (dim, offset) in outer.into_iter().enumerate().take(D - 1) {
                at.local[dim] = offset;
                at.global[dim] += offset;
            }
            Row::new(at, (row * count) as usize, count as usize)
        })
    }
}

/// Places for values.
pub fn cells<T: Zero>(len: usize) -> Vec<Cell<T>> {
    (0..len).map(|_| Cell::new(T::ZERO)).collect()
}

/// Places for so few values that they may lie on the stack, of which compilers know that nothing else is there. They begin with a
/// line of the cache: loads of vectors that lie on two are slower.
#[repr(align(64))]
pub struct Few<T, const N: usize>([Cell<T>; N]);

impl<T, const N: usize> Deref for Few<T, N> {
    type Target = [Cell<T>];

    fn deref(&self) -> &[Cell<T>] {
        &self.0
    }
}

impl<T, const N: usize> fmt::Debug for Few<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Few").field("len", &N).finish_non_exhaustive()
    }
}

/// Places for few values.
#[inline(always)]
pub fn few_cells<T: Zero, const N: usize>() -> Few<T, N> {
    Few([const { Cell::new(T::ZERO) }; N])
}

/// Memory of a work-group.
pub struct Local<'a, T, const D: usize> {
    cells: &'a [Cell<T>],
    extents: [u32; D],
}

impl<T, const D: usize> Clone for Local<'_, T, D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const D: usize> Copy for Local<'_, T, D> {}

impl<T, const D: usize> fmt::Debug for Local<'_, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("extents", &self.extents).finish_non_exhaustive()
    }
}

impl<'a, T: Zero, const D: usize> Local<'a, T, D> {
    /// These places as memory of these extents.
    pub fn new(cells: &'a [Cell<T>], extents: [u32; D]) -> Self {
        Local { cells, extents }
    }

    /// Fills it from an element on with zeros, as every group finds it.
    pub fn clear(&self, from: u32) {
        self.cells.iter().skip(from as usize).for_each(|cell| cell.set(T::ZERO));
    }

    #[inline]
    fn cell(&self, at: [u32; D]) -> Option<&'a Cell<T>> {
        self.cells.get(linear(at, &self.extents)?)
    }
}

impl<T: Zero, const D: usize> Load<T, D> for Local<'_, T, D> {
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
        self.cell(at).map_or(T::ZERO, Cell::get)
    }
}

impl<T: DeviceCopy + Zero, const D: usize> Store<T, D> for Local<'_, T, D> {
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

    fn part<F: DeviceCopy>(&self, at: [u32; D], offset: usize) -> F {
        part_of(&self.get(at), offset)
    }

    fn set_part<F: DeviceCopy>(&self, at: [u32; D], offset: usize, value: F) {
        if let Some(cell) = self.cell(at) {
            cell.set(with_part(cell.get(), offset, value));
        }
    }
}

impl<T: AtomicElement + Zero> Atomics<T, 1> for Local<'_, T, 1> {
    fn count(&self) -> u32 {
        Load::count(self)
    }

    fn extent(&self, _: usize) -> u32 {
        Load::count(self)
    }

    fn load(&self, at: [u32; 1]) -> T {
        Load::get(self, at)
    }

    fn store(&self, at: [u32; 1], value: T) {
        if let Some(cell) = self.cell(at) {
            cell.set(value);
        }
    }

    fn update(&self, at: [u32; 1], op: AtomicOp, value: T) -> T {
        // One thread runs the whole group.
        self.cell(at).map_or(T::ZERO, |cell| cell.replace(T::combined(op, cell.get(), value)))
    }

    fn exchange_if(&self, at: [u32; 1], current: T, new: T) -> T {
        let Some(cell) = self.cell(at) else { return T::ZERO };
        let old = cell.get();
        if bytemuck::bytes_of(&old) == bytemuck::bytes_of(&current) {
            cell.set(new);
        }
        old
    }
}
