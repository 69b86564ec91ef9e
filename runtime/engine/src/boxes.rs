//! Boxes of elements, and covering a set of them with as few boxes as possible.

use smallvec::SmallVec;

/// A half-open box in three dimensions, outermost first; a line is `[0..1, 0..1, lo..hi]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Box3 {
    /// The first element in each dimension.
    pub lo: [usize; 3],
    /// The end in each dimension, which is not inside.
    pub hi: [usize; 3],
}

impl Box3 {
    /// A part of a line.
    pub fn line(lo: usize, hi: usize) -> Self {
        Box3 { lo: [0, 0, lo], hi: [1, 1, hi] }
    }

    /// Whether there is no element in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        (0..3).any(|d| self.lo[d] >= self.hi[d])
    }

    /// How many elements it has.
    #[inline]
    pub fn volume(&self) -> usize {
        (0..3).map(|d| self.hi[d].saturating_sub(self.lo[d])).product()
    }

    /// Whether they share an element: an empty box overlaps nothing.
    #[inline]
    pub fn overlaps(&self, other: &Box3) -> bool {
        (0..3).all(|d| self.lo[d].max(other.lo[d]) < self.hi[d].min(other.hi[d]))
    }

    /// Whether every element of the other is in this one.
    #[inline]
    pub fn contains(&self, other: &Box3) -> bool {
        (0..3).all(|d| self.lo[d] <= other.lo[d] && other.hi[d] <= self.hi[d])
    }

    /// What they share; an empty box if they share nothing.
    #[inline]
    pub fn intersection(&self, other: &Box3) -> Box3 {
        let mut both = *self;
        for d in 0..3 {
            both.lo[d] = both.lo[d].max(other.lo[d]);
            both.hi[d] = both.hi[d].min(other.hi[d]);
        }
        both
    }

    /// What is left of this box without `hole`, which lies inside it: at most two pieces per dimension.
    pub fn without(&self, hole: &Box3) -> SmallVec<[Box3; 6]> {
        let mut pieces = SmallVec::new();
        let mut rest = *self;
        for d in 0..3 {
            if rest.lo[d] < hole.lo[d] {
                let mut below = rest;
                below.hi[d] = hole.lo[d];
                pieces.push(below);
                rest.lo[d] = hole.lo[d];
            }
            if hole.hi[d] < rest.hi[d] {
                let mut above = rest;
                above.lo[d] = hole.hi[d];
                pieces.push(above);
                rest.hi[d] = hole.hi[d];
            }
        }
        pieces
    }

    /// Cuts the box into boxes of at most `most` elements (not zero): along its outermost dimension, as far as that goes.
    pub(crate) fn each_chunk(&self, most: usize, take: &mut impl FnMut(Box3)) {
        let volume = self.volume();
        let longer = (0..3).find(|&d| self.hi[d] - self.lo[d] > 1);
        let Some(d) = longer.filter(|_| volume > most) else { return take(*self) };
        let slab = volume / (self.hi[d] - self.lo[d]);
        let step = (most / slab).max(1);
        for lo in (self.lo[d]..self.hi[d]).step_by(step) {
            let mut chunk = *self;
            (chunk.lo[d], chunk.hi[d]) = (lo, (lo + step).min(self.hi[d]));
            chunk.each_chunk(most, take);
        }
    }

    /// The box that two boxes form together, if they do: equal in two dimensions, touching in the third.
    pub(crate) fn joined(&self, other: &Box3) -> Option<Box3> {
        let mut differing = (0..3).filter(|&d| self.lo[d] != other.lo[d] || self.hi[d] != other.hi[d]);
        let d = differing.next()?;
        if differing.next().is_some() {
            return None;
        }
        let touches = self.hi[d] == other.lo[d] || other.hi[d] == self.lo[d];
        touches.then(|| {
            let mut both = *self;
            both.lo[d] = both.lo[d].min(other.lo[d]);
            both.hi[d] = both.hi[d].max(other.hi[d]);
            both
        })
    }
}

/// A piece to be covered, and the colours (sources) that could serve it.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub bounds: Box3,
    pub colours: SmallVec<[u32; 4]>,
}

/// A box of a cover, and the colour that serves all of it: the lowest that can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covered {
    pub bounds: Box3,
    pub colour: u32,
}

/// How much work, in steps times blocks, the exact search may do before the best cover found so far is good enough.
const SEARCH_WORK: usize = 200_000;
/// The most blocks to be covered for which the exact search is tried; it goes as deep as this.
const SEARCH_BLOCKS: usize = 64;
/// The most blocks a grid may have. Pieces that share few coordinates make grids far larger than themselves.
const GRID_BLOCKS: usize = 1 << 14;
/// The most colours a grid may have: a block's are the bits of a word.
const GRID_COLOURS: usize = u64::BITS as usize;

/// Partitions disjoint pieces into boxes, each of one colour: the fewest possible on a line and on small grids, few
/// everywhere. A piece that no colour serves is left out.
pub(crate) fn cover(pieces: &[Piece]) -> Vec<Covered> {
    let covered = |p: &Piece| Some(Covered { bounds: p.bounds, colour: *p.colours.iter().min()? });
    let [first, rest @ ..] = pieces else { return Vec::new() };
    let same = |d: usize| {
        rest.iter().all(|p| (p.bounds.lo[d], p.bounds.hi[d]) == (first.bounds.lo[d], first.bounds.hi[d]))
    };
    match [same(0), same(1), same(2)] {
        [true, true, _] => runs(pieces, 2).iter().filter_map(covered).collect(),
        [true, _, true] => runs(pieces, 1).iter().filter_map(covered).collect(),
        [_, true, true] => runs(pieces, 0).iter().filter_map(covered).collect(),
        _ => match Grid::new(pieces) {
            Some(grid) => grid.search(),
            None => runs(&runs(&runs(pieces, 2), 1), 0).iter().filter_map(covered).collect(),
        },
    }
}

/// Joins pieces along one dimension, each run as long as there is a common colour. Where they differ in nothing else,
/// there are no fewer runs than these.
fn runs(pieces: &[Piece], d: usize) -> Vec<Piece> {
    let mut sorted = pieces.to_vec();
    let (e, f) = ((d + 1) % 3, (d + 2) % 3);
    sorted.sort_unstable_by_key(|Piece { bounds: b, .. }| (b.lo[e], b.hi[e], b.lo[f], b.hi[f], b.lo[d]));
    let mut runs: Vec<Piece> = Vec::new();
    for piece in sorted {
        if let Some(last) = runs.last_mut()
            && last.colours.iter().any(|c| piece.colours.contains(c))
            && let Some(both) = last.bounds.joined(&piece.bounds)
        {
            last.bounds = both;
            last.colours.retain(|c| piece.colours.contains(c));
        } else {
            runs.push(piece);
        }
    }
    runs
}

/// The pieces on the grid of their own coordinates: every piece is a set of whole grid blocks.
struct Grid {
    cuts: [Vec<usize>; 3],
    /// All colours, in their order.
    known: Vec<u32>,
    /// Per block, those of all colours that could serve it, as bits; zero where nothing is to be covered.
    colours: Vec<u64>,
}

/// A box in grid coordinates.
#[derive(Clone, Copy)]
struct Blocks {
    lo: [usize; 3],
    hi: [usize; 3],
}

struct Search {
    best: Vec<(Blocks, u64)>,
    steps: usize,
}

impl Grid {
    /// None if it would be too large, or too colourful.
    fn new(pieces: &[Piece]) -> Option<Self> {
        let cuts = std::array::from_fn(|d| {
            let mut cuts: Vec<usize> = pieces.iter().flat_map(|p| [p.bounds.lo[d], p.bounds.hi[d]]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            cuts
        });
        let mut known: Vec<u32> = pieces.iter().flat_map(|p| p.colours.iter().copied()).collect();
        known.sort_unstable();
        known.dedup();
        let mut grid = Grid { cuts, known, colours: Vec::new() };
        let blocks = grid.extent(0).saturating_mul(grid.extent(1)).saturating_mul(grid.extent(2));
        if blocks > GRID_BLOCKS || grid.known.len() > GRID_COLOURS {
            return None;
        }
        grid.colours = vec![0; blocks];
        for piece in pieces {
            let at = |d: usize, x: usize| grid.cuts[d].partition_point(|&c| c < x);
            let lo = [0, 1, 2].map(|d| at(d, piece.bounds.lo[d]));
            let hi = [0, 1, 2].map(|d| at(d, piece.bounds.hi[d]));
            let bit = |c: &u32| 1 << grid.known.partition_point(|k| k < c);
            let colours = piece.colours.iter().map(bit).fold(0, |all, c| all | c);
            for block in (Blocks { lo, hi }).each() {
                let i = grid.index(block);
                grid.colours[i] = colours;
            }
        }
        Some(grid)
    }

    fn extent(&self, d: usize) -> usize {
        self.cuts[d].len() - 1
    }

    fn index(&self, at: [usize; 3]) -> usize {
        (at[0] * self.extent(1) + at[1]) * self.extent(2) + at[2]
    }

    /// Branch and bound over "which box covers the first block not covered yet", from what a simple walk finds.
    fn search(self) -> Vec<Covered> {
        let mut search = Search { best: self.walk(), steps: 0 };
        if self.colours.iter().filter(|c| **c != 0).count() <= SEARCH_BLOCKS {
            self.descend(&mut self.colours.clone(), 0, &mut Vec::new(), &mut search);
        }
        let bounds = |b: Blocks| Box3 {
            lo: [0, 1, 2].map(|d| self.cuts[d][b.lo[d]]),
            hi: [0, 1, 2].map(|d| self.cuts[d][b.hi[d]]),
        };
        let covered = |(b, colours): &(Blocks, u64)| Covered {
            bounds: bounds(*b),
            colour: self.known[colours.trailing_zeros() as usize],
        };
        search.best.iter().map(covered).collect()
    }

    /// A cover by boxes that grow from the first block not covered, as far as they can in one dimension after the
    /// other.
    fn walk(&self) -> Vec<(Blocks, u64)> {
        let mut open = self.colours.clone();
        let mut found = Vec::new();
        for first in 0..open.len() {
            if open[first] == 0 {
                continue;
            }
            let lo = self.place(first);
            let mut blocks = Blocks { lo, hi: lo.map(|x| x + 1) };
            let mut colours = open[first];
            for d in [2, 1, 0] {
                while blocks.hi[d] < self.extent(d) {
                    let mut next = blocks;
                    (next.lo[d], next.hi[d]) = (blocks.hi[d], blocks.hi[d] + 1);
                    let common = next.each().fold(colours, |c, b| c & open[self.index(b)]);
                    if common == 0 {
                        break;
                    }
                    (blocks.hi[d], colours) = (next.hi[d], common);
                }
            }
            blocks.each().for_each(|b| open[self.index(b)] = 0);
            found.push((blocks, colours));
        }
        found
    }

    fn descend(&self, open: &mut [u64], from: usize, taken: &mut Vec<(Blocks, u64)>, search: &mut Search) {
        search.steps += 1;
        let Some(first) = (from..open.len()).find(|&i| open[i] != 0) else {
            if taken.len() < search.best.len() {
                search.best.clone_from(taken);
            }
            return;
        };
        if taken.len() + 1 >= search.best.len() || search.steps * open.len() > SEARCH_WORK {
            return;
        }
        for (blocks, colours) in self.boxes_from(open, first) {
            let saved: SmallVec<[u64; 16]> = blocks.each().map(|b| open[self.index(b)]).collect();
            blocks.each().for_each(|b| open[self.index(b)] = 0);
            taken.push((blocks, colours));
            self.descend(open, first + 1, taken, search);
            taken.pop();
            blocks.each().zip(saved).for_each(|(b, colours)| open[self.index(b)] = colours);
        }
    }

    fn place(&self, index: usize) -> [usize; 3] {
        let (y, x) = (self.extent(1), self.extent(2));
        [index / (y * x), index / x % y, index % x]
    }

    /// Every box of open blocks with a common colour whose first block is `first`, largest first.
    fn boxes_from(&self, open: &[u64], first: usize) -> Vec<(Blocks, u64)> {
        let lo = self.place(first);
        let mut found = Vec::new();
        let common = |lo, hi| (Blocks { lo, hi }).each().fold(u64::MAX, |c, b| c & open[self.index(b)]);
        for z in lo[0] + 1..=self.extent(0) {
            for y in lo[1] + 1..=self.extent(1) {
                let mut widest = false;
                for x in lo[2] + 1..=self.extent(2) {
                    let hi = [z, y, x];
                    let colours = common(lo, hi);
                    if colours == 0 {
                        break;
                    }
                    found.push((Blocks { lo, hi }, colours));
                    widest = true;
                }
                if !widest {
                    break;
                }
            }
        }
        found.sort_by_key(|(b, _)| std::cmp::Reverse(b.count()));
        found
    }
}

impl Blocks {
    fn each(self) -> impl Iterator<Item = [usize; 3]> {
        let Blocks { lo, hi } = self;
        (lo[0]..hi[0])
            .flat_map(move |z| (lo[1]..hi[1]).flat_map(move |y| (lo[2]..hi[2]).map(move |x| [z, y, x])))
    }

    fn count(&self) -> usize {
        (0..3).map(|d| self.hi[d] - self.lo[d]).product()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(lo: usize, hi: usize, colours: &[u32]) -> Piece {
        Piece { bounds: Box3::line(lo, hi), colours: colours.into() }
    }

    #[test]
    fn chunks_are_cut_along_the_outermost_dimension() {
        let chunks = |bounds: Box3, most| {
            let mut all = Vec::new();
            bounds.each_chunk(most, &mut |chunk| all.push((chunk.lo, chunk.hi)));
            all
        };
        let bounds = Box3 { lo: [0, 1, 2], hi: [1, 4, 7] };
        assert_eq!(chunks(bounds, 15), [(bounds.lo, bounds.hi)]);
        assert_eq!(chunks(bounds, 14), [([0, 1, 2], [1, 3, 7]), ([0, 3, 2], [1, 4, 7])]);
        let rows_of_two = chunks(bounds, 2);
        assert_eq!((rows_of_two.len(), rows_of_two[2]), (9, ([0, 1, 6], [1, 2, 7])), "a row is cut in turn");
        assert_eq!(chunks(Box3::line(3, 6), 1).len(), 3);
    }

    fn flat(y: std::ops::Range<usize>, x: std::ops::Range<usize>) -> Piece {
        Piece {
            bounds: Box3 { lo: [0, y.start, x.start], hi: [1, y.end, x.end] },
            colours: [0].as_slice().into(),
        }
    }

    #[test]
    fn pieces_around_a_hole_cover_the_rest() {
        let whole = Box3 { lo: [0; 3], hi: [4, 4, 4] };
        let hole = Box3 { lo: [1, 1, 1], hi: [2, 3, 4] };
        let pieces = whole.without(&hole);
        assert_eq!(pieces.iter().map(Box3::volume).sum::<usize>(), whole.volume() - hole.volume());
        assert!(pieces.iter().all(|p| !p.overlaps(&hole)));
    }

    #[test]
    fn a_line_takes_the_longest_common_source() {
        // 0..4 from either, 4..8 only from source 1, 8..10 only from source 0; 12..14 apart.
        let cover =
            cover(&[piece(0, 4, &[0, 1]), piece(4, 8, &[1]), piece(8, 10, &[0]), piece(12, 14, &[0, 1])]);
        let boxes: Vec<_> = cover.iter().map(|c| (c.bounds.lo[2], c.bounds.hi[2], c.colour)).collect();
        assert_eq!(boxes, [(0, 8, 1), (8, 10, 0), (12, 14, 0)]);
    }

    #[test]
    fn an_l_and_a_cross_take_the_fewest_boxes() {
        assert_eq!(cover(&[flat(0..2, 0..1), flat(1..2, 1..3)]).len(), 2);
        // A plus sign: three boxes, where greedy from the top would take three as well, and five pieces were given.
        let cross =
            [flat(0..1, 1..2), flat(1..2, 0..1), flat(1..2, 1..2), flat(1..2, 2..3), flat(2..3, 1..2)];
        assert_eq!(cover(&cross).len(), 3);
        // A case where the largest first box is wrong: the wide top row must be cut.
        let steps = [flat(0..1, 0..3), flat(1..3, 0..1), flat(1..3, 2..3)];
        assert_eq!(cover(&steps).len(), 3);
    }

    #[test]
    fn large_covers_are_found_in_bounded_time_and_depth() {
        let comb: Vec<_> = (0..100_000).map(|i| piece(2 * i, 2 * i + 1, &[0])).collect();
        assert_eq!(cover(&comb).len(), 100_000);
        let split: Vec<_> = (0..100_000).map(|i| piece(i, i + 1, &[0])).collect();
        assert_eq!(cover(&split).len(), 1);
        let colourful: Vec<_> = (0..1_000).map(|i| piece(i, i + 1, &[i as u32 / 10, 500])).collect();
        assert_eq!(cover(&colourful).len(), 1);
        // More colours than a grid may have: apart where each tile has its own, together where they share one as well.
        let tile = |i: usize, colours: &[u32]| Piece {
            colours: colours.into(),
            ..flat(i / 10..i / 10 + 1, i % 10..i % 10 + 1)
        };
        let tiles: Vec<_> = (0..100).map(|i| tile(i, &[i as u32])).collect();
        assert_eq!(cover(&tiles).len(), 100);
        let tiles: Vec<_> = (0..100).map(|i| tile(i, &[i as u32, 100])).collect();
        assert_eq!(cover(&tiles), [Covered { bounds: flat(0..10, 0..10).bounds, colour: 100 }]);
        let chessboard: Vec<_> = (0..10_000).filter(|i| (i / 100 + i % 100) % 2 == 0).collect();
        let fields: Vec<_> =
            chessboard.iter().map(|i| flat(i / 100..i / 100 + 1, i % 100..i % 100 + 1)).collect();
        assert_eq!(cover(&fields).len(), 5_000);
        // A staircase of boxes that share no coordinate: its grid would have a million blocks.
        let stairs: Vec<_> = (0..1_000).map(|i| flat(2 * i..2 * i + 1, 2 * i..2 * i + 1)).collect();
        assert_eq!(cover(&stairs).len(), 1_000);
    }
}
