//! A block's items in launches of more dimensions than one, row by row.

use super::items::{Item, Launch};

/// Items of a block that follow each other along the last dimension.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    first: Item,
    at: usize,
    count: usize,
}

impl Stretch {
    /// How many items of the block come before it.
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
    pub fn below<const D: usize>(&self, dim: usize, limit: u32) -> usize {
        let left = limit.saturating_sub(self.first.global[dim]) as usize;
        if dim + 1 == D || left == 0 { left } else { self.count }
    }

    /// Item `k` of it, in a launch of `D` dimensions.
    #[inline]
    pub fn item<const D: usize>(&self, k: usize) -> Item {
        let mut item = self.first;
        item.global[D - 1] += k as u32;
        item
    }
}

impl Launch<'_> {
    /// The block's items, row by row.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> {
        let (first, end, dims) = (self.first(), self.end(), self.dims());
        let extent = self.range().extent();
        let size = self.numbered(extent);
        let [_, middle, inner] = extent;
        let mut at = first;
        std::iter::from_fn(move || {
            let left = end.checked_sub(at).filter(|left| *left > 0)?;
            let count = left.min(inner - at % inner);
            let padded = [at / (middle * inner), at / inner % middle, at % inner];
            let mut item = Item { global_size: size, ..Item::default() };
            for (to, from) in item.global.iter_mut().zip(&padded[3 - dims..]) {
                *to = *from as u32;
            }
            let row = Stretch { first: item, at: at - first, count };
            at += count;
            Some(row)
        })
    }
}
