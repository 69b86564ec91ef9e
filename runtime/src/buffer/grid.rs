//! How a root's bytes are counted for the engine: in boxes of units, rounded out to pages where the program has asked for some.

use smallvec::SmallVec;
use windlass_backend::Region;
use windlass_engine::Box3;

/// The units of a root: a grid of elements, or a line of granules where elements are no whole granules.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    pub(super) extent: [usize; 3],
    /// Bytes in one.
    pub(super) unit: usize,
    /// Units that only count together, in each dimension.
    pub(super) page: [usize; 3],
    /// Bytes in all: the last unit of a line may have fewer than the others.
    pub(super) bytes: usize,
}

/// What some bytes come to in units: the smallest box with all of them, and the largest that has no others, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) outer: Box3,
    pub(super) inner: Option<Box3>,
}

impl Grid {
    pub(super) fn extent(&self) -> Box3 {
        Box3 { lo: [0; 3], hi: self.extent }
    }

    /// A box of units that is used as a whole.
    pub(super) fn of_box(&self, bounds: Box3) -> Cover {
        self.in_pages(Cover { outer: bounds, inner: Some(bounds) })
    }

    /// Bytes that need not be a box of units. Where their rows do not lie as the root's, whole rows or slices stand for them: what
    /// they leave out is theirs too, as far as order and validity go.
    pub(super) fn of_bytes(&self, bytes: &Region) -> Cover {
        let line = Region { width: bytes.bytes(), rows: 1, slices: 1, ..*bytes };
        let is_line = bytes.is_contiguous();
        let bytes = if is_line { &line } else { bytes };
        let cover = self.of_aligned(bytes).unwrap_or_else(|| self.of_rows(bytes, is_line));
        self.in_pages(cover)
    }

    /// Bytes whose rows are parts of the root's own rows, one below the other.
    fn of_aligned(&self, bytes: &Region) -> Option<Cover> {
        let [_, rows, row] = self.extent;
        let (row, slice) = (row * self.unit, rows * row * self.unit);
        let (at, column) = (bytes.offset / row, bytes.offset % row);
        let (z, y) = (at / rows, at % rows);
        let is_aligned = column + bytes.width <= row
            && y + bytes.rows <= rows
            && (bytes.rows == 1 || bytes.row_pitch == row)
            && (bytes.slices == 1 || bytes.slice_pitch == slice);
        if !is_aligned {
            return None;
        }
        let end = column + bytes.width;
        let whole_end = if bytes.end() == self.bytes { end.div_ceil(self.unit) } else { end / self.unit };
        let all = |from, to| Box3 { lo: [z, y, from], hi: [z + bytes.slices, y + bytes.rows, to] };
        let inner = all(column.div_ceil(self.unit), whole_end.max(column.div_ceil(self.unit)));
        Some(Cover {
            outer: all(column / self.unit, end.div_ceil(self.unit)),
            inner: Some(inner).filter(|inner| !inner.is_empty()),
        })
    }

    /// Bytes that go on from one row to the next: the rows that they touch, or the slices where they touch several.
    fn of_rows(&self, bytes: &Region, is_line: bool) -> Cover {
        let [_, rows, row] = self.extent;
        let (row_bytes, slice_bytes) = (row * self.unit, rows * row * self.unit);
        let (start, end) = (bytes.offset, bytes.end());
        let touched = |unit: usize| (start / unit, end.div_ceil(unit));
        let filled = |unit: usize| (start.div_ceil(unit), end / unit);
        let (first, last) = touched(row_bytes);
        let (outer, inner) = if last - first == 1 {
            let (from, to) =
                (start % row_bytes / self.unit, (start % row_bytes + end - start).div_ceil(self.unit));
            let (z, y) = (first / rows, first % rows);
            (Box3 { lo: [z, y, from], hi: [z + 1, y + 1, to] }, None)
        } else if first / rows == (last - 1) / rows {
            let z = first / rows;
            let of = |(from, to): (usize, usize)| Box3 {
                lo: [z, from - z * rows, 0],
                hi: [z + 1, to.max(from) - z * rows, row],
            };
            (of((first, last)), Some(of(filled(row_bytes))))
        } else {
            let of = |(from, to): (usize, usize)| Box3 { lo: [from, 0, 0], hi: [to.max(from), rows, row] };
            (of(touched(slice_bytes)), Some(of(filled(slice_bytes))))
        };
        Cover { outer, inner: inner.filter(|inner| is_line && !inner.is_empty()) }
    }

    fn in_pages(&self, cover: Cover) -> Cover {
        if self.page == [1; 3] {
            return cover;
        }
        let each = |of: fn(usize, usize, usize) -> usize, at: [usize; 3]| {
            [0, 1, 2].map(|d| of(at[d], self.page[d], self.extent[d]))
        };
        let (down, up) = (
            |at: usize, page: usize, _| at / page * page,
            |at: usize, page: usize, all: usize| at.div_ceil(page).saturating_mul(page).min(all),
        );
        // The last page may be cut off by the end.
        let down_to = |at: usize, page: usize, all: usize| if at == all { all } else { at / page * page };
        let Box3 { lo, hi } = cover.outer;
        let outer = Box3 { lo: each(down, lo), hi: each(up, hi) };
        let inner = cover.inner.map(|Box3 { lo, hi }| Box3 { lo: each(up, lo), hi: each(down_to, hi) });
        Cover { outer, inner: inner.filter(|inner| !inner.is_empty()) }
    }
}

impl Cover {
    /// What is used otherwise than the rest, because other bytes share its units.
    pub(super) fn edges(&self) -> SmallVec<[Box3; 6]> {
        match &self.inner {
            Some(inner) => self.outer.without(inner),
            None => SmallVec::from_iter([self.outer]),
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_testkit::Rng;

    use super::*;

    fn units(grid: &Grid, bounds: &Box3) -> Vec<usize> {
        let [slices, rows, row] = grid.extent;
        let all = (0..slices * rows * row).filter(|at| {
            let at = [at / (rows * row), at / row % rows, at % row];
            (0..3).all(|d| bounds.lo[d] <= at[d] && at[d] < bounds.hi[d])
        });
        all.collect()
    }

    /// Seen to fail where the last unit of a row counts as filled, and where what is filled is rounded out to pages.
    #[test]
    fn covers_hold_what_they_say() {
        let mut rng = Rng::new(81);
        let mut exact = 0;
        for _ in 0..40_000 {
            let extent = [1 + rng.below(3), 1 + rng.below(4), 1 + rng.below(6)];
            let unit = [1, 4, 12][rng.below(3)];
            let page = if rng.chance(50) { [1; 3] } else { [0; 3].map(|_| 1 + rng.below(3)) };
            let line = rng.chance(30);
            let extent = if line { [1, 1, extent.iter().product()] } else { extent };
            let all: usize = extent.iter().product::<usize>() * unit;
            let bytes = if line { all - rng.below(unit) } else { all };
            let grid = Grid { extent, unit, page, bytes };
            let (width, rows, slices) = (1 + rng.below(bytes), 1 + rng.below(3), 1 + rng.below(2));
            let row_pitch = if rng.chance(50) { extent[2] * unit } else { width + rng.below(4) };
            let slice_pitch =
                if rng.chance(50) { extent[1] * extent[2] * unit } else { rows * row_pitch + rng.below(4) };
            let offset = rng.below(bytes);
            let region = Region { offset, width, rows, slices, row_pitch, slice_pitch };
            let overlaps_itself =
                row_pitch < width && rows > 1 || slices > 1 && slice_pitch < rows * row_pitch;
            if region.end() > bytes || overlaps_itself {
                continue;
            }
            let has: Vec<bool> =
                (0..bytes).map(|at| region.row_offsets().any(|row| row <= at && at < row + width)).collect();
            let cover = grid.of_bytes(&region);
            let outer = units(&grid, &cover.outer);
            let of_unit = |u: usize| u * unit..((u + 1) * unit).min(bytes);
            for at in (0..bytes).filter(|at| has[*at]) {
                assert!(outer.contains(&(at / unit)), "{grid:?} {region:?} {cover:?} misses byte {at}");
            }
            if let Some(inner) = cover.inner {
                for at in units(&grid, &inner).into_iter().flat_map(of_unit) {
                    assert!(has[at], "{grid:?} {region:?} {cover:?} has byte {at} of somebody else's");
                }
                exact += usize::from(inner == cover.outer);
            }
            let edges: usize = cover.edges().iter().map(Box3::volume).sum();
            assert_eq!(edges + cover.inner.map_or(0, |inner| inner.volume()), cover.outer.volume());
            let paged = |at: usize, d: usize| at.is_multiple_of(page[d]) || at == extent[d];
            for bounds in [Some(cover.outer), cover.inner].into_iter().flatten() {
                assert!((0..3).all(|d| bounds.lo[d].is_multiple_of(page[d]) && paged(bounds.hi[d], d)));
            }
        }
        assert!(exact > 500, "{exact} were exact");
    }

    #[test]
    fn rows_that_are_the_roots_own_are_exact() {
        let grid = Grid { extent: [2, 4, 6], unit: 4, page: [1; 3], bytes: 2 * 4 * 6 * 4 };
        let exact = |region: Region, lo, hi| {
            let bounds = Box3 { lo, hi };
            assert_eq!(grid.of_bytes(&region), Cover { outer: bounds, inner: Some(bounds) }, "{region:?}");
        };
        let line = |offset, width| Region {
            offset,
            width,
            rows: 1,
            slices: 1,
            row_pitch: width,
            slice_pitch: width,
        };
        exact(line(4, 8), [0, 0, 1], [1, 1, 3]);
        exact(line(24, 48), [0, 1, 0], [1, 3, 6]);
        exact(line(96, 96), [1, 0, 0], [2, 4, 6]);
        exact(line(0, 192), [0, 0, 0], [2, 4, 6]);
        let part = Region { offset: 28, width: 8, rows: 2, slices: 2, row_pitch: 24, slice_pitch: 96 };
        exact(part, [0, 1, 1], [2, 3, 3]);
    }
}
