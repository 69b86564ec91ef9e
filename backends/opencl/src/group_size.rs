//! The work-groups of launches that leave their size open, where the driver is not to choose it.

use smallvec::SmallVec;

/// What a group has at most. Larger ones gain nothing where groups are independent.
const USUAL: usize = 256;

/// What a group has at least, or else the driver may know better.
const LEAST: usize = 32;

/// The choice for the last launch of a kernel: the next one is most often as large, and to choose may take hundreds of divisions.
#[derive(Debug, Default)]
pub(crate) struct LastChoice {
    global: SmallVec<[usize; 3]>,
    local: Option<SmallVec<[usize; 3]>>,
}

impl LastChoice {
    /// See [`fitting`].
    pub(crate) fn fitting(&mut self, global: &[usize], most: usize) -> Option<&[usize]> {
        if self.global[..] != *global {
            self.local = fitting(global, most);
            self.global = SmallVec::from_slice(global);
        }
        self.local.as_deref()
    }
}

/// Extents that divide those of the launch, innermost first, and fit the kernel; `None` where there are only small ones.
fn fitting(global: &[usize], most: usize) -> Option<SmallVec<[usize; 3]>> {
    let mut left = most.min(USUAL);
    let mut local: SmallVec<[usize; 3]> = SmallVec::new();
    for &extent in global {
        let along = divisor(extent, left);
        left /= along;
        local.push(along);
    }
    let items = |extents: &[usize]| extents.iter().fold(1, |all: usize, along| all.saturating_mul(*along));
    (items(&local) >= LEAST.min(items(global))).then_some(local)
}

/// The largest divisor up to `most`.
fn divisor(extent: usize, most: usize) -> usize {
    (1..=most.min(extent)).rev().find(|size| extent.is_multiple_of(*size)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(global: &[usize], most: usize) -> Option<Vec<usize>> {
        fitting(global, most).map(|local| local.to_vec())
    }

    #[test]
    fn groups_divide_the_launch() {
        assert_eq!(chosen(&[1], 1024), Some(vec![1]));
        assert_eq!(chosen(&[20], 1024), Some(vec![20]));
        assert_eq!(chosen(&[1 << 20], 1024), Some(vec![256]));
        assert_eq!(chosen(&[1 << 20], 64), Some(vec![64]));
        assert_eq!(chosen(&[1000, 6], 1024), Some(vec![250, 1]));
        assert_eq!(chosen(&[16, 48], 1024), Some(vec![16, 16]));
        assert_eq!(chosen(&[3, 3, 3], 1024), Some(vec![3, 3, 3]));
    }

    #[test]
    fn a_choice_holds_for_one_size() {
        let mut last = LastChoice::default();
        for global in [[20, 1], [20, 1], [1009, 1], [512, 2], [512, 2]] {
            assert_eq!(last.fitting(&global, 64).map(<[usize]>::to_vec), chosen(&global, 64), "{global:?}");
        }
    }

    #[test]
    fn the_driver_chooses_where_only_small_groups_divide() {
        assert_eq!(chosen(&[1009], 1024), None, "a prime number");
        assert_eq!(chosen(&[2 * 1009], 1024), None);
    }
}
