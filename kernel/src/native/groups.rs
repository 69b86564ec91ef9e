//! Work-groups on the host: one thread runs a group's items, row after row, between one barrier and the next.

use std::cell::Cell;
use std::fmt;

use super::items::{Item, Launch};
use super::number::Zero;
use super::views::{Atomics, Load, Store, part_of, with_part};
use crate::DeviceCopy;
use crate::memory::{AtomicElement, AtomicOp};

/// A work-group: where it is, and how large.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    first: Item,
}

/// A run of items along a group's last dimension.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    first: Item,
    at: usize,
    count: usize,
}

impl Launch<'_> {
    /// How many items a work-group has.
    pub fn group_items(&self) -> usize {
        self.range().local().map_or(1, |local| local.iter().product())
    }

    /// Calls `each` for all work-groups of the block.
    pub fn groups(&self, mut each: impl FnMut(&Group)) {
        let Some(local) = self.range().local() else { return };
        let (size, local) = (self.numbered(self.range().extent()), self.numbered(local));
        let count: [usize; 3] = std::array::from_fn(|dim| (size[dim] / local[dim].max(1)) as usize);
        let items = self.group_items().max(1);
        // A block holds whole groups, and those before it hold the items before it.
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
            Row { first: at, at: (row * count) as usize, count: count as usize }
        })
    }
}

impl Row {
    /// How many items it has.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Item `k` of it.
    #[inline]
    pub fn item<const D: usize>(&self, k: usize) -> Item {
        let mut item = self.first;
        item.local[D - 1] = k as u32;
        item.global[D - 1] += k as u32;
        item
    }

    /// The row's part of what there is for each item of the group.
    #[inline]
    pub fn of<'a, T>(&self, all: &'a [Cell<T>]) -> &'a [Cell<T>] {
        &all[self.at..self.at + self.count]
    }
}

/// Places for values.
pub fn cells<T: Zero>(len: usize) -> Vec<Cell<T>> {
    (0..len).map(|_| Cell::new(T::ZERO)).collect()
}

/// Memory of a work-group.
pub struct Local<'a, T>(&'a [Cell<T>]);

impl<T> Clone for Local<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Local<'_, T> {}

impl<T> fmt::Debug for Local<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("len", &self.0.len()).finish()
    }
}

impl<'a, T: Zero> Local<'a, T> {
    /// These places as memory.
    pub fn new(cells: &'a [Cell<T>]) -> Self {
        Local(cells)
    }

    /// The places.
    #[inline]
    pub fn cells(&self) -> &'a [Cell<T>] {
        self.0
    }

    /// Fills it from an element on with zeros, as every group finds it.
    pub fn clear(&self, from: u32) {
        self.0.iter().skip(from as usize).for_each(|cell| cell.set(T::ZERO));
    }
}

impl<T: Zero> Load<T, 1> for Local<'_, T> {
    #[inline]
    fn count(&self) -> u32 {
        self.0.len() as u32
    }

    #[inline]
    fn extent(&self, _: usize) -> u32 {
        self.0.len() as u32
    }

    #[inline]
    fn get(&self, at: [u32; 1]) -> T {
        self.0.get(at[0] as usize).map_or(T::ZERO, Cell::get)
    }
}

impl<T: DeviceCopy + Zero> Store<T, 1> for Local<'_, T> {
    #[inline]
    fn set(&self, at: [u32; 1], value: T) {
        if let Some(cell) = self.0.get(at[0] as usize) {
            cell.set(value);
        }
    }

    fn part<F: DeviceCopy>(&self, at: [u32; 1], offset: usize) -> F {
        part_of(&self.get(at), offset)
    }

    fn set_part<F: DeviceCopy>(&self, at: [u32; 1], offset: usize, value: F) {
        if let Some(cell) = self.0.get(at[0] as usize) {
            cell.set(with_part(cell.get(), offset, value));
        }
    }
}

impl<T: AtomicElement + Zero> Atomics<T, 1> for Local<'_, T> {
    fn count(&self) -> u32 {
        self.0.len() as u32
    }

    fn extent(&self, _: usize) -> u32 {
        self.0.len() as u32
    }

    fn load(&self, at: [u32; 1]) -> T {
        Load::get(self, at)
    }

    fn store(&self, at: [u32; 1], value: T) {
        if let Some(cell) = self.0.get(at[0] as usize) {
            cell.set(value);
        }
    }

    fn update(&self, at: [u32; 1], op: AtomicOp, value: T) -> T {
        // One thread runs the whole group.
        self.0.get(at[0] as usize).map_or(T::ZERO, |cell| cell.replace(T::combined(op, cell.get(), value)))
    }

    fn exchange_if(&self, at: [u32; 1], current: T, new: T) -> T {
        let Some(cell) = self.0.get(at[0] as usize) else { return T::ZERO };
        let old = cell.get();
        if bytemuck::bytes_of(&old) == bytemuck::bytes_of(&current) {
            cell.set(new);
        }
        old
    }
}
