//! Rows: items that follow each other along a launch's last dimension.

use std::cell::Cell;

use super::items::{Item, Launch};

/// A run of items along the last dimension, of a block or of a work-group.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    first: Item,
    at: usize,
    count: usize,
}

impl Row {
    pub(super) fn new(first: Item, at: usize, count: usize) -> Self {
        Row { first, at, count }
    }

    /// How many items of the block, or of the group, come before it.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// How many items it has.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of its first items are below `limit` in a dimension of the launch's `D`: of a dimension outside the last
    /// one all are, or none.
    #[inline]
    pub fn limited<const D: usize>(&self, dim: usize, limit: u32) -> usize {
        let left = limit.saturating_sub(self.first.global[dim]) as usize;
        if dim + 1 == D || left == 0 { left } else { self.count }
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

impl Launch<'_> {
    /// The block's items in a launch of one dimension, which are one row.
    #[inline]
    pub fn line(&self) -> Row {
        Row { first: self.line_item(self.first()), at: 0, count: self.count() }
    }

    /// The block's items, row by row.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let (first, end, dims) = (self.first(), self.end(), self.dims());
        let extent = self.range().extent();
        let size = self.numbered(extent);
        let [_, middle, inner] = extent.map(|extent| extent.max(1));
        // From row to row the position is counted up: a division each would be half of the cost of a short row.
        let mut position = [first / (middle * inner), first / inner % middle, first % inner];
        let mut at = first;
        std::iter::from_fn(move || {
            let left = end.checked_sub(at).filter(|left| *left > 0)?;
            let count = left.min(inner - position[2]);
            let mut item = Item { global_size: size, ..Item::default() };
            for (to, from) in item.global.iter_mut().zip(&position[3 - dims..]) {
                *to = *from as u32;
            }
            let row = Row { first: item, at: at - first, count };
            at += count;
            position[2] = 0;
            position[1] += 1;
            if position[1] == middle {
                position = [position[0] + 1, 0, 0];
            }
            Some(row)
        })
    }
}
