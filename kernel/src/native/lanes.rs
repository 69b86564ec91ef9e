//! Items of a work-group side by side: what lets a compiler use vector instructions for them.
//!
//! Between two barriers the items of a group may run in any order, so [`LANES`] neighbours may go through a stretch of
//! code statement by statement. Comparing every index would keep their memory accesses apart. So before a row of items
//! starts, the code finds the [`Bounds`] of all indices that it will use; where they are inside, the lanes reach their
//! elements through a [`Run`], and otherwise the items go one by one as ever. A wrong answer here would be a panic in
//! the middle of a kernel, never an access outside: a run is made of a slice as all slices are.

use std::cell::Cell;

use super::rows::Row;

/// How many items go side by side.
pub const LANES: usize = 16;

/// The elements of neighbouring items: one for each, or the same one for all.
#[derive(Debug)]
pub enum Run<'a, C> {
    /// One after the other.
    Along(&'a [C; LANES]),
    /// One for all.
    Same(&'a C),
}

impl<'a, C> Run<'a, C> {
    /// The elements from `at` on, `stride` from one item to the next: 1 or 0.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline(always)]
    pub fn new(all: &'a [C], at: usize, stride: usize) -> Self {
        // One comparison each: these stand in innermost loops.
        match stride {
            0 => Run::Same(&all[at]),
            _ => Run::Along(all[at..at + LANES].first_chunk().expect("so many were asked for")),
        }
    }

    /// The element of an item.
    #[inline(always)]
    pub fn of(&self, lane: usize) -> &'a C {
        match self {
            Run::Along(all) => &all[lane],
            Run::Same(one) => one,
        }
    }
}

/// The elements of a row's items: one for each, or the same one for all.
#[derive(Debug)]
pub enum Line<'a, C> {
    /// One after the other.
    Along(&'a [C]),
    /// One for all.
    Same(&'a C),
    /// Each so far from the last one.
    Apart(&'a [C], usize),
}

impl<'a, C> Line<'a, C> {
    /// The elements of `n` items, at least one, from `at` on, `stride` from one item to the next.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline(always)]
    pub fn new(all: &'a [C], at: usize, stride: usize, n: usize) -> Self {
        match stride {
            0 => Line::Same(&all[at]),
            1 => Line::Along(&all[at..][..n]),
            _ => Line::Apart(&all[at..][..(n - 1) * stride + 1], stride),
        }
    }

    /// The element of an item.
    #[inline(always)]
    pub fn of(&self, item: usize) -> &'a C {
        match self {
            Line::Along(all) => &all[item],
            Line::Same(one) => one,
            Line::Apart(all, stride) => &all[item * stride],
        }
    }
}

impl<T: Copy> Line<'_, Cell<T>> {
    /// Sets the elements of `n` items to those of values that nobody writes.
    #[inline(always)]
    pub fn copy(&self, from: &Line<'_, T>, n: usize) {
        match (self, from) {
            (Line::Along(to), Line::Along(from)) => copy_all(to, from),
            _ => (0..n).for_each(|item| self.of(item).set(*from.of(item))),
        }
    }
}

/// As parameters the compiler knows the two to be apart, which makes this one move of memory. Inlined it forgets that.
#[inline(never)]
fn copy_all<T: Copy>(to: &[Cell<T>], from: &[T]) {
    to.iter().zip(from).for_each(|(to, from)| to.set(*from));
}

/// What an item's loop of so many turns reaches that goes on by `by` along the last dimension at each, if all of that is inside.
#[inline(always)]
pub fn span<C, const D: usize>(
    all: Option<&[C]>,
    at: [u32; D],
    extents: [u32; D],
    turns: usize,
    by: usize,
) -> Option<&[C]> {
    let all = all?;
    let len = if turns == 0 { 0 } else { (turns - 1) * by + 1 };
    let mut linear = 0;
    for (dim, (at, extent)) in at.iter().zip(&extents).enumerate() {
        let end = *at as usize + if dim + 1 == D { len } else { 1 };
        // One dimension needs no comparison but the slice's own, and that no index wraps.
        if end > if D == 1 { 1 << 32 } else { *extent as usize } {
            return None;
        }
        linear = linear * *extent as usize + *at as usize;
    }
    all.get(linear..)?.get(..len)
}

/// The smallest and the largest value that an expression over 32-bit numbers can have, as if it did not wrap; `None`
/// where they are too large to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds(Option<(i64, i64)>);

impl Bounds {
    /// One value.
    #[inline(always)]
    pub fn at(value: impl Into<i64>) -> Self {
        let value = value.into();
        Bounds(Some((value, value)))
    }

    /// Two values and all between them.
    #[inline(always)]
    pub fn between(a: u32, b: u32) -> Self {
        Bounds(Some((a.min(b).into(), a.max(b).into())))
    }

    /// The counter of a loop over `from..to`; what it has in a loop that never runs does not matter.
    #[inline(always)]
    pub fn counter(from: u32, to: u32) -> Self {
        Bounds::between(from, to.saturating_sub(1).max(from))
    }

    /// The sum.
    #[inline(always)]
    pub fn plus(self, other: Self) -> Self {
        self.pair(other, |a, b| Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)))
    }

    /// The difference.
    #[inline(always)]
    pub fn minus(self, other: Self) -> Self {
        self.pair(other, |a, b| Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)))
    }

    /// The product with a number.
    #[inline(always)]
    pub fn times(self, factor: impl Into<i64>) -> Self {
        self.pair(Bounds::at(factor), |a, (factor, _)| {
            let (low, high) = (a.0.checked_mul(factor)?, a.1.checked_mul(factor)?);
            Some((low.min(high), low.max(high)))
        })
    }

    #[inline(always)]
    fn pair(self, other: Self, of: impl FnOnce((i64, i64), (i64, i64)) -> Option<(i64, i64)>) -> Self {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Bounds(of(a, b)),
            _ => Bounds(None),
        }
    }

    /// Whether all of them are indices of so many elements.
    #[inline(always)]
    pub fn within(self, len: usize) -> bool {
        matches!(self.0, Some((low, high)) if low >= 0 && high < indexed(len))
    }
}

/// How many of so many elements an index can name.
#[inline(always)]
fn indexed(len: usize) -> i64 {
    len.min(1 << 32) as i64
}

/// Those of a row's items, one after the other, whose accesses are all inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// The first of them.
    pub start: usize,
    /// The first one behind them.
    pub end: usize,
}

impl Inside {
    /// How many items a row has at least for it to be worth the while.
    pub const LEAST: usize = 8;

    /// All of so many items.
    #[inline(always)]
    pub fn of(count: usize) -> Self {
        Inside { start: 0, end: count }
    }

    /// Without those for which an index is outside of so many elements: for the first item it is within `bounds`, and for each
    /// next one it is `stride` more. Indices that wrap are not followed, so both numbers may be of any that mean the same in
    /// 32 bits.
    #[inline(always)]
    pub fn cut(self, bounds: Bounds, stride: u32, len: usize) -> Self {
        let (Some((low, high)), Ok(stride)) = (bounds.0, i32::try_from(stride)) else {
            return Inside { start: 0, end: 0 };
        };
        // How far the first item is in front of the first element, and how many steps it has to behind the last one.
        let (before, left) = (0_i64.saturating_sub(low), indexed(len).saturating_sub(high));
        let (start, end) = match (stride, i64::from(stride)) {
            (0, _) if before <= 0 && left > 0 => return self,
            (0, _) => (0, 0),
            // The usual one, without a division.
            (1, _) => (before.max(0), left.max(0)),
            (_, stride) => (
                before.max(0).saturating_add(stride - 1) / stride,
                left.max(0).saturating_add(stride - 1) / stride,
            ),
        };
        let (start, end) = (self.start.max(start as usize), self.end.min(end as usize));
        Inside { start, end: end.max(start) }
    }

    /// Its items.
    #[inline(always)]
    pub fn items(self) -> std::ops::Range<usize> {
        self.start..self.end
    }

    /// Those of `count` items that it leaves out.
    #[inline(always)]
    pub fn others(self, count: usize) -> impl Iterator<Item = usize> {
        (0..self.start.min(count)).chain(self.end.max(self.start.min(count))..count)
    }

    /// Whole groups of `each`, as if the items were theirs.
    #[inline(always)]
    pub fn whole(self, each: usize) -> Self {
        let start = self.start.div_ceil(each);
        Inside { start, end: (self.end / each).max(start) }
    }
}

impl Row {
    /// How far the position along a dimension goes from one item of a row to the next, in a launch of `D`.
    #[inline(always)]
    pub fn stride<const D: usize>(dim: usize) -> u32 {
        u32::from(dim + 1 == D)
    }

    /// Those of `n` items for which a value that is `first` for the first one, and one more for each next, is below
    /// `limit`; `None` where the value wraps.
    #[inline(always)]
    pub fn below(n: usize, first: u32, limit: u32) -> Option<(usize, usize)> {
        let wraps = (first as usize).checked_add(n).is_none_or(|end| end > u32::MAX as usize);
        (!wraps).then(|| (0, n.min(limit.saturating_sub(first) as usize)))
    }

    /// Those for which it is `value`.
    #[inline(always)]
    pub fn only(n: usize, first: u32, value: u32) -> Option<(usize, usize)> {
        // Right where the value wraps, too.
        let at = value.wrapping_sub(first) as usize;
        Some(if at < n { (at, at + 1) } else { (0, 0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_of_the_numbers_themselves() {
        let index = Bounds::between(3, 7).times(16).plus(Bounds::counter(0, 16));
        assert!(index.within(128) && !index.within(127));
        assert!(!Bounds::between(0, 3).minus(Bounds::at(1)).within(100), "it wraps");
        assert!(!Bounds::at(u32::MAX).plus(Bounds::at(1)).within(100), "it wraps");
        let large = Bounds::at(u32::MAX).times(u32::MAX).times(u32::MAX);
        assert!(!large.minus(large).within(100), "too large to say");
        assert!(Bounds::counter(5, 5).within(6));
    }

    #[test]
    fn rows_are_cut_where_a_condition_ends() {
        assert_eq!(Row::below(16, 4, 10), Some((0, 6)));
        assert_eq!(Row::below(16, 12, 10), Some((0, 0)));
        assert_eq!(Row::below(16, u32::MAX - 3, 2), None);
        assert_eq!(Row::only(16, 4, 6), Some((2, 3)));
        assert_eq!(Row::only(16, 4, 3), Some((0, 0)));
        assert_eq!(Row::only(16, u32::MAX, 1), Some((2, 3)));
    }

    /// Beside looking at each item's own index.
    #[test]
    fn the_items_inside_are_those_whose_indices_are() {
        for (first, spread) in [(-40, 0), (-3, 0), (-3, 5), (0, 0), (2, 1), (9, 0), (12, 3), (40, 0)] {
            for stride in [0_u32, 1, 2, 3, 7, u32::MAX] {
                for len in [0, 1, 5, 12, 30] {
                    for count in [0, 1, 4, 13] {
                        let bounds = Bounds(Some((first, first + spread)));
                        let inside = Inside::of(count).cut(bounds, stride, len);
                        let is_inside = |item: &usize| {
                            let at = first + i64::from(stride) * *item as i64;
                            stride != u32::MAX && at >= 0 && at + spread < len as i64
                        };
                        let wanted: Vec<usize> = (0..count).filter(is_inside).collect();
                        assert_eq!(
                            inside.items().collect::<Vec<_>>(),
                            wanted,
                            "{first} {stride} {len} {count}"
                        );
                        let mut all: Vec<usize> = inside.others(count).chain(inside.items()).collect();
                        all.sort_unstable();
                        assert_eq!(all, (0..count).collect::<Vec<_>>(), "{first} {stride} {len} {count}");
                    }
                }
            }
        }
        let far = Bounds(Some((i64::MIN, i64::MAX)));
        assert!(Inside::of(3).cut(far, 2, 5).items().is_empty());
        assert!(Inside::of(3).cut(Bounds(None), 0, 5).items().is_empty());
        let wraps = Inside::of(4).cut(Bounds::at(u32::MAX - 1), 1, usize::MAX);
        assert_eq!(wraps.items(), 0..2, "index 0 comes behind the last one that there is");
        assert_eq!(Inside { start: 3, end: 14 }.whole(4), Inside { start: 1, end: 3 });
    }

    #[test]
    fn lines_are_the_elements_of_items() {
        let all: Vec<usize> = (0..20).collect();
        for (stride, n) in [(0, 5), (1, 5), (3, 6), (7, 2), (9, 1)] {
            let line = Line::new(&all, 2, stride, n);
            for item in 0..n {
                assert_eq!(*line.of(item), 2 + item * stride);
            }
        }
    }

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_run_outside_is_refused() {
        Run::new(&[1, 2], 3, 0);
    }
}
