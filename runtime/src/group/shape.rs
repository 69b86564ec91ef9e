//! The shape of a `#[kernel]`'s launch: what suits the device, the kernel and the range.

use windlass_backend::DeviceInfo;
use windlass_kernel::shape::{Shape, Shaping};
use windlass_kernel::{Kernel, Range};

/// Work-items of a group where the kernel leaves that open: what hides a GPU's latencies, and what a CPU's compiler makes
/// one loop of.
const GROUP: u32 = 256;
/// Elements that an item of a light kernel takes on a GPU, whose loads then do not wait for each other.
const EACH: u32 = 4;
/// Launches with fewer items than this are spread over as many work-items as there are.
const SHARED: usize = 1 << 20;
/// Work-groups of a reduction for each of a GPU's units: as many as run at once.
const GROUPS_OF_UNIT: u32 = 8;
/// Elements of a reduction that an item takes at least on a CPU, whose groups run one after the other.
const REDUCED_EACH: u32 = 64;
/// Beyond this many items, numbers of what a last group has too much could wrap in 32 bits.
const COUNTED: usize = 1 << 31;

/// The shapes that a launch over this range may have, or, where that is not known, any launch: one of a kernel that leaves it
/// open. A kernel that works in groups has none before its range is known.
pub(crate) fn shapes(kernel: &Kernel, device: &DeviceInfo, range: Option<&Range>) -> Vec<Shape> {
    let Some(shaping) = kernel.shaping() else { return Vec::new() };
    match range {
        // Whether the arguments cover it is known when it is launched.
        Some(range) => {
            let shape = shape((kernel.is_grouped(), shaping), device, range);
            match may_be_covered((kernel.is_grouped(), shaping), device) {
                true => vec![shape.covered(true), shape],
                false => vec![shape],
            }
        }
        None if kernel.is_grouped() => Vec::new(),
        None => {
            let spread = spread(shaping, device);
            match shaping.light && !shaping.reduces && device.kind.is_gpu() {
                true => vec![spread.each(1), spread.each(EACH)],
                false if may_be_covered((false, shaping), device) => vec![spread.covered(true), spread],
                false => vec![spread],
            }
        }
    }
}

/// The shape of a launch.
pub(crate) fn shape((grouped, shaping): (bool, Shaping), device: &DeviceInfo, range: &Range) -> Shape {
    let (most, most_groups) = (device.limits.work_group_items, device.limits.groups_along);
    let folded = |items: usize| Shape::folded(u32::try_from(items).unwrap_or(u32::MAX));
    let items = range.checked_items().unwrap_or(usize::MAX);
    if let Some(local) = range.local() {
        let group = [local[2], local[1], local[0]];
        let size = local.iter().product();
        // What every device takes along its dimensions.
        let fits = shaping.dims == 1 || (group[0] <= 256 && group[1] <= 256 && group[2] <= 64);
        let few =
            range.extent().iter().zip(&local).all(|(whole, part)| whole / (*part).max(1) <= most_groups);
        let along =
            || Shape::along(shaping.dims, group.map(|extent| u32::try_from(extent).unwrap_or(u32::MAX)));
        return match grouped && range.dims() == usize::from(shaping.dims) && fits {
            true if few => along().in_one_row(),
            true if shaping.dims == 1 => along(),
            _ => folded(size),
        };
    }
    let along = spread(shaping, device);
    let [x, y, z] = along.group().map(|extent| extent as usize);
    let [slices, rows, columns] = range.extent();
    let few = shaping.dims == 1
        || [columns.div_ceil(x), rows.div_ceil(y), slices.div_ceil(z)]
            .iter()
            .all(|groups| *groups <= most_groups);
    if range.dims() != usize::from(shaping.dims) || !few || items > COUNTED {
        return folded((GROUP as usize).min(most));
    }
    match shaping.light && !shaping.reduces && device.kind.is_gpu() && items >= SHARED {
        true => along.each(EACH),
        false => along,
    }
}

/// A launch along the device's dimensions, of a kernel without work-groups of its own.
fn spread(shaping: Shaping, device: &DeviceInfo) -> Shape {
    let most = u32::try_from(device.limits.work_group_items).unwrap_or(u32::MAX).max(1);
    let items = GROUP.min(most);
    let shape = match shaping.dims {
        1 => Shape::along(1, [items, 1, 1]),
        dims => {
            let columns = 64.min(items);
            Shape::along(dims, [columns, items / columns, 1])
        }
    };
    match (shaping.reduces, device.kind.is_gpu()) {
        (false, _) => shape,
        (true, true) => {
            // A driver that does not say has more than one.
            let units = u32::try_from(device.compute_units).unwrap_or(u32::MAX).max(32);
            shape.at_most(units.saturating_mul(GROUPS_OF_UNIT)).each(if shaping.dims == 1 { 1 } else { 16 })
        }
        (true, false) => shape.each(REDUCED_EACH),
    }
}

/// Whether it matters that the arguments of a launch cover it: comparisons cost on CPUs, where each ends up as a mask, and in
/// launches that name their groups. GPUs do not feel them in others, and would have twice as many kernels to build.
pub(crate) fn may_be_covered((grouped, shaping): (bool, Shaping), device: &DeviceInfo) -> bool {
    shaping.placed != 0 && (grouped || !device.kind.is_gpu())
}
