//! Items of a work-group side by side: what lets a compiler use vector instructions for them.
//!
//! Between two barriers the items of a group may run in any order, so [`LANES`] neighbours may go through a stretch of
//! code statement by statement. Comparing every index would keep their memory accesses apart. So before a row of items
//! starts, the code finds the [`Bounds`] of all indices that it will use; where they are inside, the lanes reach their
//! elements through a [`Run`], and otherwise the items go one by one as ever. A wrong answer here would be a panic in
//! the middle of a kernel, never an access outside: a run is made of a slice as all slices are.

use std::cell::Cell;

use super::groups::Row;

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
    pub fn new(all: &'a [C], at: u32, stride: u32) -> Self {
        // One comparison each: these stand in innermost loops.
        let at = at as usize;
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
}

impl<'a, C> Line<'a, C> {
    /// The elements of `n` items from `at` on, `stride` from one item to the next: 1 or 0.
    ///
    /// # Panics
    /// If they are not inside.
    #[inline(always)]
    pub fn new(all: &'a [C], at: u32, stride: u32, n: usize) -> Self {
        let at = at as usize;
        match stride {
            0 => Line::Same(&all[at]),
            _ => Line::Along(&all[at..][..n]),
        }
    }

    /// The element of an item.
    #[inline(always)]
    pub fn of(&self, item: usize) -> &'a C {
        match self {
            Line::Along(all) => &all[item],
            Line::Same(one) => one,
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

/// The smallest and the largest value that an expression over 32-bit numbers can have, as if it did not wrap; `None`
/// where they are too large to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds(Option<(i64, i64)>);

impl Bounds {
    /// One value.
    #[inline(always)]
    pub fn at(value: u32) -> Self {
        Bounds(Some((value.into(), value.into())))
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
    pub fn times(self, factor: u32) -> Self {
        self.pair(Bounds::at(factor), |a, f| Some((a.0.checked_mul(f.0)?, a.1.checked_mul(f.0)?)))
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
        matches!(self.0, Some((low, high)) if low >= 0 && (high as u64) < len as u64)
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

    #[test]
    #[should_panic(expected = "out of bounds")]
    fn a_run_outside_is_refused() {
        Run::new(&[1, 2], 3, 0);
    }
}
