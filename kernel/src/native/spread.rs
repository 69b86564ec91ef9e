//! Whether the items of a launch keep apart where each writes, or reads, at sums of its position and of loops' counters.

use super::items::Launch;

/// Where the items of a launch reach in a slot: at all sums of one of `rests`, `along[d]` for each step of the position in
/// dimension `d`, and for each of `turns` its first number as often as less than its second says. Numbers that do not fit are
/// the largest.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    /// How far an item's elements are from its neighbour's, for each of the kernel's dimensions.
    pub along: [u64; 3],
    /// How far a loop goes at a turn, and how many turns it has at most.
    pub turns: &'a [(u64, u64)],
    /// What is added, for each access.
    pub rests: &'a [u64],
}

impl Reach<'_> {
    /// A sum that does not wrap.
    pub fn sum(terms: &[u64]) -> u64 {
        terms.iter().fold(0, |sum, term| sum.saturating_add(*term))
    }

    /// Whether all items of a launch of these extents reach elsewhere, below 2^32.
    ///
    /// Each step along a dimension, a loop's counter and the difference of what is added is a digit: worth so much, and of so many
    /// values. A sum tells what its digits are if each is worth more than all smaller ones come to together: then two items
    /// that reach the same element have the same position. Indices have 32 bits, so the largest sum must not wrap.
    fn tells_items(&self, extents: [u32; 3]) -> bool {
        let (Some(least), Some(most)) = (self.rests.iter().min(), self.rests.iter().max()) else {
            return true;
        };
        let positions = self.along.into_iter().zip(extents.map(u64::from));
        let between = (1, (most - least).saturating_add(1));
        // Turns that go nowhere tell nothing, and hide nothing.
        let turns = self.turns.iter().copied().filter(|(worth, _)| *worth > 0);
        let digits = positions.chain(turns).chain([between]);
        let mut digits: smallvec::SmallVec<[(u64, u64); 8]> =
            digits.filter(|(_, count)| *count > 1).collect();
        digits.sort_unstable();
        let mut smaller = 0_u128;
        for (worth, count) in digits {
            if u128::from(worth) <= smaller {
                return false;
            }
            // Both are below 2^64, and what comes out above 2^32 ends here.
            smaller += u128::from(worth) * u128::from(count - 1);
            if smaller > u128::from(u32::MAX) {
                return false;
            }
        }
        smaller + u128::from(*least) <= u128::from(u32::MAX)
    }
}

impl Launch<'_> {
    /// Whether no two items of the launch meet in a slot where they reach as `reach` says, and no other argument overlaps it.
    pub fn keeps_apart(&self, slot: usize, reach: &Reach<'_>) -> bool {
        self.is_by_itself(slot) && reach.tells_items(self.numbered(self.range().extent()))
    }

    /// Whether no two groups of the launch meet in a slot where they reach as `reach` says, with `along` for a step from group to
    /// group, and no other argument overlaps it.
    pub fn keeps_groups_apart(&self, slot: usize, reach: &Reach<'_>) -> bool {
        self.is_by_itself(slot) && reach.tells_items(self.group_counts())
    }

    /// The extent of the launch's groups in one of the kernel's dimensions.
    pub fn group_size(&self, dim: usize) -> u64 {
        self.group_sizes()[dim].into()
    }

    /// How many groups there are along one of the kernel's dimensions.
    pub fn group_count(&self, dim: usize) -> u64 {
        self.group_counts()[dim].into()
    }

    /// The launch's extent in one of the kernel's dimensions.
    pub fn size(&self, dim: usize) -> u64 {
        self.numbered(self.range().extent())[dim].into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Every reach of small numbers that is said to tell the items apart does.
    #[test]
    fn items_that_are_told_apart_never_meet() {
        let (mut apart, mut meeting) = (0, 0);
        let values = [0, 1, 2, 3, 4, 6, 7, 12];
        for a in values {
            for b in values {
                for turn in values {
                    for (turns, rests) in [(0, &[0][..]), (1, &[5]), (2, &[0, 1]), (3, &[0, 3]), (4, &[2, 4])]
                    {
                        for extents in [[1, 1, 1], [3, 1, 1], [2, 3, 1], [3, 4, 1]] {
                            let counters = [(turn, turns)];
                            let reach = Reach { along: [a, b, 0], turns: &counters, rests };
                            match reach.tells_items(extents) {
                                true => apart += 1,
                                false => {
                                    meeting += 1;
                                    continue;
                                }
                            }
                            let mut owners = HashMap::new();
                            for i in 0..extents[0].into() {
                                for j in 0..extents[1].into() {
                                    for t in 0..turns.max(1) {
                                        for rest in rests {
                                            let at = a * i + b * j + turn * t + rest;
                                            assert_eq!(
                                                *owners.entry(at).or_insert((i, j)),
                                                (i, j),
                                                "{reach:?} {extents:?}"
                                            );
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        assert!(apart > 500 && meeting > 500, "{apart} {meeting}");
    }

    #[test]
    fn what_wraps_meets() {
        let one = |along, extent| {
            Reach { along: [along, 0, 0], turns: &[], rests: &[7] }.tells_items([extent, 1, 1])
        };
        assert!(one(1, u32::MAX - 7));
        assert!(!one(1, u32::MAX - 5));
        assert!(!one(1 << 31, 3));
        assert!(!one(u64::MAX, 2));
        assert!(!one(0, 2));
        assert!(one(0, 1));
    }
}
