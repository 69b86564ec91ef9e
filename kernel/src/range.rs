//! Index spaces: how many work-items there are, in one to three dimensions.

use std::fmt;

/// A range of work-items, row-major: the last dimension varies fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    extent: [usize; 3],
    dims: u8,
    /// Zeros where the launch names no work-group.
    local: [u32; 3],
}

impl Range {
    fn new<const D: usize>(extent: [usize; D], local: Option<[usize; D]>) -> Self {
        let pad = |from: [usize; D]| {
            let mut to = [1; 3];
            to[3 - D..].copy_from_slice(&from);
            to
        };
        // A size that does not fit is one that no range has, and is refused with the range.
        let local = local.map_or([0; 3], |l| pad(l).map(|n| u32::try_from(n).unwrap_or(u32::MAX)));
        Range { extent: pad(extent), dims: D as u8, local }
    }

    /// The number of dimensions, one to three.
    pub fn dims(&self) -> usize {
        self.dims as usize
    }

    /// The extents, outermost first; unused leading dimensions are 1.
    pub fn extent(&self) -> [usize; 3] {
        self.extent
    }

    /// The work-group's extents in the same layout, where the launch names them.
    pub fn local(&self) -> Option<[usize; 3]> {
        (self.local != [0; 3]).then(|| self.local.map(|n| n as usize))
    }

    /// How many work-items the range holds, or `None` where the product does not fit a `usize`.
    pub fn checked_items(&self) -> Option<usize> {
        self.extent[0].checked_mul(self.extent[1])?.checked_mul(self.extent[2])
    }

    /// How many work-items the range holds, if its items can be counted and its work-groups divide it.
    pub fn check(&self) -> Result<usize, BadRange> {
        let shown = self.shown();
        let Some(items) = self.checked_items() else {
            return Err(BadRange(format!("a range of {shown:?} has more work-items than can be counted")));
        };
        let Some(local) = self.local() else { return Ok(items) };
        let divides = |(whole, part): (&usize, &usize)| *part != 0 && whole.is_multiple_of(*part);
        match items == 0 || self.extent.iter().zip(&local).all(divides) {
            true => Ok(items),
            false => {
                let local = &local[3 - self.dims()..];
                Err(BadRange(format!("work-groups of {local:?} do not divide a range of {shown:?}")))
            }
        }
    }

    /// [`Range::check`] for kernels, which count items and go along dimensions in 32 bits.
    ///
    /// ```
    /// use windlass_kernel::LaunchRange;
    /// assert_eq!([1 << 16, (1 << 16) - 1].range().check_for("k"), Ok(0xffff_0000));
    /// assert!([1 << 16, 1 << 16].range().check_for("k").is_err());
    /// let error = [0, 1 << 32].range().check_for("k").unwrap_err();
    /// assert!(error.to_string().contains("kernel `k` over a range of [0, 4294967296]"), "{error}");
    /// ```
    pub fn check_for(&self, kernel: &str) -> Result<usize, BadRange> {
        let items = self.check()?;
        let most = u32::MAX;
        match self.extent.iter().chain([&items]).all(|n| *n <= most as usize) {
            true => Ok(items),
            false => Err(BadRange(format!(
                "kernel `{kernel}` over a range of {:?}: kernels count in 32 bits, so a launch goes up to {most} along each \
                 dimension and in all; launch it over parts of the range",
                self.shown()
            ))),
        }
    }

    /// The range in these work-groups, which it must have if it names any.
    pub(crate) fn in_groups(self, group: &[usize], kernel: &str) -> Result<Range, BadRange> {
        let dims = self.dims();
        if group.len() != dims {
            return Err(BadRange(format!(
                "kernel `{kernel}` works in groups of {group:?}, and a range of {:?} has another number of dimensions",
                self.shown()
            )));
        }
        match self.local() {
            Some(local) if local[3 - dims..] != *group => Err(BadRange(format!(
                "kernel `{kernel}` works in groups of {group:?}, and is launched in groups of {:?}; leave them to it",
                &local[3 - dims..]
            ))),
            _ => {
                let mut local = [1; 3];
                local[3 - dims..].iter_mut().zip(group).for_each(|(to, from)| *to = *from as u32);
                Ok(Range { local, ..self })
            }
        }
    }

    /// The extents of the dimensions that the range has.
    fn shown(&self) -> &[usize] {
        &self.extent[3 - self.dims()..]
    }

    /// How many work-items the range holds.
    ///
    /// # Panics
    /// If that number does not fit a `usize`; the runtime refuses such a range when the group is prepared.
    pub fn items(&self) -> usize {
        self.checked_items().expect("a range's item count was checked when its group was prepared")
    }
}

/// A range that nothing can be launched over, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRange(String);

impl fmt::Display for BadRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRange {}

/// A range whose work-items form groups that share local memory and barriers.
///
/// ```
/// use windlass_kernel::{LaunchRange, NdRange};
/// let range = NdRange { global: [1024], local: [64] }.range();
/// assert_eq!(range.items(), 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NdRange<const D: usize> {
    /// Work-items in all, per dimension.
    pub global: [usize; D],
    /// Work-items in one group, per dimension; each must divide its global extent.
    pub local: [usize; D],
}

/// Everything that a kernel may be launched over: `usize`, `[usize; 1..=3]`, [`NdRange`].
///
/// ```
/// use windlass_kernel::LaunchRange;
/// assert_eq!((1 << 20).range().items(), 1 << 20);
/// assert_eq!([2, 3, 4].range().items(), 24);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a range of work-items",
    note = "a launch takes a `usize`, `[usize; 1]` to `[usize; 3]`, or an `NdRange`; write `n as usize` for another integer"
)]
pub trait LaunchRange: Copy {
    /// The range as a plain value.
    fn range(self) -> Range;
}

impl LaunchRange for usize {
    fn range(self) -> Range {
        Range::new([self], None)
    }
}

macro_rules! launch_range {
    ($($d:literal)*) => {$(
        impl LaunchRange for [usize; $d] {
            fn range(self) -> Range {
                Range::new(self, None)
            }
        }
        impl LaunchRange for NdRange<$d> {
            fn range(self) -> Range {
                Range::new(self.global, Some(self.local))
            }
        }
    )*};
}
launch_range!(1 2 3);

/// A plain range (no work-groups) whose items a host closure receives as [`Item`]s.
pub trait IndexRange: LaunchRange + Send + Sync + 'static {
    /// What the closure is handed for each work-item.
    type Item: Copy;
    /// The item at position `linear` of the row-major order.
    fn item(self, linear: usize) -> Self::Item;
}

/// One work-item of a range: where it is, and how large the range is.
///
/// ```
/// use windlass_kernel::IndexRange;
/// let item = [2, 5].item(7);
/// assert_eq!((item.id(0), item.id(1), item.linear()), (1, 2, 7));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item<const D: usize> {
    id: [usize; D],
    extent: [usize; D],
}

impl<const D: usize> Item<D> {
    /// The item's position in dimension `dim` (0 is the outermost).
    pub fn id(&self, dim: usize) -> usize {
        self.id[dim]
    }

    /// The range's extent in dimension `dim`.
    pub fn extent(&self, dim: usize) -> usize {
        self.extent[dim]
    }

    /// The item's position in the row-major order of the whole range.
    #[inline]
    pub fn linear(&self) -> usize {
        let mut at = 0;
        for d in 0..D {
            at = at * self.extent[d] + self.id[d];
        }
        at
    }

    fn at(extent: [usize; D], linear: usize) -> Self {
        let mut id = [0; D];
        let mut rest = linear;
        for d in (1..D).rev() {
            id[d] = rest % extent[d];
            rest /= extent[d];
        }
        id[0] = rest;
        Item { id, extent }
    }
}

impl IndexRange for usize {
    type Item = Item<1>;
    #[inline]
    fn item(self, linear: usize) -> Item<1> {
        Item { id: [linear], extent: [self] }
    }
}

macro_rules! index_range {
    ($($d:literal)*) => {$(
        impl IndexRange for [usize; $d] {
            type Item = Item<$d>;
            #[inline]
            fn item(self, linear: usize) -> Item<$d> {
                Item::at(self, linear)
            }
        }
    )*};
}
index_range!(1 2 3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_order_is_row_major() {
        let extent = [2, 3, 4];
        for linear in 0..24 {
            let item = extent.item(linear);
            assert_eq!(item.id(2) + item.id(1) * 4 + item.id(0) * 12, linear);
            assert_eq!(item.linear(), linear);
        }
    }

    #[test]
    fn ranges_pad_to_the_outside() {
        assert_eq!([5, 7].range().extent(), [1, 5, 7]);
        assert_eq!(NdRange { global: [8], local: [4] }.range().local(), Some([1, 1, 4]));
        assert_eq!([usize::MAX, 2].range().checked_items(), None);
        assert_eq!([3, 0].range().items(), 0);
    }
}
