//! How a launch of a `#[kernel]` is laid out on a device: the work-groups, and how many elements one work-item takes.
//!
//! The attribute's texts leave this open, as overrides, since it depends on the device and on the launch:
//!
//! | override | what |
//! |---|---|
//! | `dims` | 1 to 3: the launch goes along so many of the device's own dimensions, x being the launch's last one. 0: it is *folded*, all of its items being counted along x, which no device's limits for single dimensions can refuse |
//! | `group_x`, `group_y`, `group_z` | the work-group's extents along the device's dimensions |
//! | `covered` | every argument that the kernel reaches at its own position has an element for each work-item: these accesses are compared once, with the launch's extents |
//! | `rows` | work-groups that are counted along one dimension may go on along a second one, since there are more than the device takes along one |
//! | `each` | how many elements of the launch's first dimension one item takes, where the kernel has no work-groups of its own |
//!
//! In a launch of one dimension an item's elements are `group_x` apart, so that neighbours reach for neighbours; in others
//! they follow each other, so that what one row needs is there for the next. Kernels with reductions find out by
//! themselves how many elements an item has, from the number of groups: [`Shape::at_most`].

use std::fmt;

use crate::block::{TooMany, check_groups, count};
use crate::{KernelImage, Range};

/// What a kernel is, as far as its shape depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaping {
    /// How many dimensions it asks about.
    pub dims: u8,
    /// Whether an item is so little work that it is better done for several elements: it has no loops.
    pub light: bool,
    /// Whether it has reductions.
    pub reduces: bool,
    /// The slots of arguments that it reaches at the item's own position, a bit for each.
    pub placed: u64,
}

/// The layout of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    dims: u8,
    group: [u32; 3],
    each: u32,
    most: u32,
    covered: bool,
    rows: bool,
}

/// As who asks how fast a kernel is wants it said, x first.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = usize::from(self.dims.max(1)).min(3);
        let extents: Vec<String> = self.group[..used].iter().map(u32::to_string).collect();
        write!(f, "work-groups of {}", extents.join(" x "))?;
        if self.dims == 0 {
            f.write_str(", all items counted along one dimension")?;
        }
        if self.each > 1 {
            write!(f, ", {} elements an item", self.each)?;
        }
        if self.covered {
            f.write_str(", where each argument has an element for each item")?;
        }
        Ok(())
    }
}

const NAMES: [&str; 8] = ["dims", "group_x", "group_y", "group_z", "each", "most_groups", "covered", "rows"];

impl Shape {
    /// All items counted along one dimension, in work-groups of so many.
    pub fn folded(group: u32) -> Self {
        Shape::along(0, [group, 1, 1])
    }

    /// The device's own dimensions, with work-groups of these extents, x first.
    pub fn along(dims: u8, group: [u32; 3]) -> Self {
        Shape { dims, group, each: 1, most: u32::MAX, covered: false, rows: true }
    }

    /// With so many elements for an item.
    #[must_use]
    pub fn each(self, each: u32) -> Self {
        Shape { each: each.max(1), ..self }
    }

    /// With so many work-groups at most, which share the launch.
    #[must_use]
    pub fn at_most(self, most: u32) -> Self {
        Shape { most: most.max(1), ..self }
    }

    /// Of launches in which every argument that is reached at the items' own positions has an element for each, if `covered`.
    #[must_use]
    pub fn covered(self, covered: bool) -> Self {
        Shape { covered, ..self }
    }

    /// Of launches with no more work-groups than the device takes along one dimension.
    #[must_use]
    pub fn in_one_row(self) -> Self {
        Shape { rows: false, ..self }
    }

    /// As values of overrides.
    pub fn overrides(self) -> [(&'static str, f64); NAMES.len()] {
        let ([x, y, z], [covered, rows]) = (self.group, [self.covered, self.rows].map(u32::from));
        let values = [u32::from(self.dims), x, y, z, self.each, self.most, covered, rows];
        std::array::from_fn(|at| (NAMES[at], f64::from(values[at])))
    }

    /// The shape that an image is built for, if its overrides say one.
    pub fn of(image: &KernelImage) -> Option<Self> {
        let value = |name: &str| {
            let found = image.overrides().iter().find(|(known, _)| &**known == name)?;
            Some(found.1 as u32)
        };
        let [dims, x, y, z, each, most, covered, rows] = NAMES.map(value);
        let (dims, group) = (u8::try_from(dims?).ok()?, [x?, y?, z?]);
        Some(Shape { dims, group, each: each?, most: most?, covered: covered? != 0, rows: rows? != 0 })
    }

    /// The shape of a text's launches, whose entry point has this work-group size: that of the image, or, where that says
    /// none, what [`block`](crate::block) says of texts that count their items along one dimension.
    pub fn of_text(image: &KernelImage, work_group: [u32; 3]) -> Result<Self, String> {
        match (Shape::of(image), work_group) {
            (Some(shape), _) => Ok(shape),
            (None, [group, 1, 1]) if group > 0 => Ok(Shape::folded(group)),
            (None, size) => Err(format!("the work-group size is {size:?}; only the first may differ from 1")),
        }
    }

    /// How many of the device's dimensions launches go along; 0 where they are folded.
    pub fn dims(self) -> u8 {
        self.dims
    }

    /// How many elements of the launch's first dimension an item takes.
    pub fn elements_each(self) -> u32 {
        self.each
    }

    /// Whether launches have an element for each item in every argument that is reached at the items' own positions.
    pub fn is_covered(self) -> bool {
        self.covered
    }

    /// The work-group's extents, x first.
    pub fn group(self) -> [u32; 3] {
        self.group
    }

    /// Whether a launch's work-groups are those of this shape: those that the launch names, where the kernel works in groups.
    pub fn check(self, range: Range, grouped: bool) -> Result<(), String> {
        check_groups(range, self.group.iter().product(), grouped)
    }

    /// How many work-groups a launch takes, x first, on a device that takes `most` along one dimension; those of what is
    /// counted along one are folded where they are more. `None` where the device does not take so many.
    ///
    /// ```
    /// use windlass_kernel::{LaunchRange, shape::Shape};
    /// let line = Shape::along(1, [256, 1, 1]).each(4);
    /// assert_eq!(line.groups(10_000.range(), 65_535), Ok(Some([10, 1, 1])));
    /// assert_eq!(line.groups(1_000_000.range(), 100), Ok(Some([98, 10, 1])));
    /// let plane = Shape::along(2, [64, 4, 1]).each(4);
    /// assert_eq!(plane.groups([100, 100].range(), 65_535), Ok(Some([2, 7, 1])));
    /// assert_eq!(plane.groups([10_000, 1].range(), 100), Ok(None));
    /// ```
    pub fn groups(self, range: Range, most: u32) -> Result<Option<[u32; 3]>, TooMany> {
        let [x, y, z] = self.group.map(|extent| extent.max(1));
        if self.dims > 1 {
            let [slices, rows, columns] = range.extent();
            // The first dimension of the launch is the device's last.
            let [rows_each, slices_each] = if self.dims == 2 { [self.each, 1] } else { [1, self.each] };
            let groups = [
                count(columns)?.div_ceil(x),
                count(rows)?.div_ceil(y.saturating_mul(rows_each)),
                count(slices)?.div_ceil(z.saturating_mul(slices_each)),
            ];
            return Ok(groups.iter().all(|groups| *groups <= most).then_some(groups));
        }
        let items = count(range.checked_items().unwrap_or(usize::MAX))?;
        let groups = items.div_ceil(x.saturating_mul(self.each)).min(self.most);
        let rows = groups.div_ceil(most.max(1)).max(1);
        Ok((rows <= most).then_some([groups.div_ceil(rows), rows, 1]))
    }
}
