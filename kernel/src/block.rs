//! The convention of kernels in WGSL: how a launch's arguments reach the text, on every device that takes it.
//!
//! A kernel has slots of the kinds `Buffer` and `Value`. All its bindings are in group 0:
//!
//! - Binding `i` is the `i`-th `Slot::Buffer`, in the order of the slots, as a storage buffer: `read` or `read_write`
//!   as its `SlotAccess` says.
//! - Binding `N`, with `N` the number of buffer slots, is one uniform buffer, the *block*. It holds, as consecutive
//!   words:
//!   1. for each buffer slot two `u32`: the offset of its first element, counted in elements from the start of the
//!      binding, and its length in elements;
//!   2. the launch's extents as three `u32`, outermost first; those that the launch does not have are 1, and last;
//!   3. each `Slot::Value`'s bytes, in the order of the slots, each padded to a whole word;
//!   4. for each buffer slot two `u32`: how many elements its rows, and its slices, start apart, or zero where there is only one.
//!      Only what the attribute's views are given has gaps between them; other arguments are lines.
//!
//!   The words are not aligned further, so a wider value is declared as its scalars (four `f32`, not a `vec4<f32>`).
//!   The whole is padded to 16 bytes.
//!
//! The entry point's work-group size is one-dimensional, `@workgroup_size(S)` with a literal or constant `S`, but for texts
//! of the attribute, whose launches have a [shape](crate::shape). Groups are counted along x, and along y too where there are more than one dimension takes, so a kernel finds its place by
//!
//! ```wgsl
//! let at = (group.y * groups.x + group.x) * S + local.x;
//! ```
//!
//! with `group` the `workgroup_id`, `groups` the `num_workgroups` and `local` the `local_invocation_id`. The last
//! groups may reach beyond the launch: a kernel compares `at` with its extents, and each index with the slot's length.
//! A binding may show elements before and after the slot's own, so neither `arrayLength` nor a device's own bounds
//! checks know where the slot ends.

use std::fmt;

use crate::Range;

/// A number that does not fit the 32 bits that kernels in WGSL count with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany(pub usize);

impl fmt::Display for TooMany {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} elements or work-items, more than 32 bits count", self.0)
    }
}

impl std::error::Error for TooMany {}

/// A number as kernels count.
///
/// ```
/// assert_eq!(windlass_kernel::block::count(7), Ok(7));
/// assert!(windlass_kernel::block::count(1 << 32).is_err());
/// ```
pub fn count(number: usize) -> Result<u32, TooMany> {
    u32::try_from(number).map_err(|_| TooMany(number))
}

/// Where a buffer slot's argument lies in its binding, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first element.
    pub at: u32,
    /// How many there are.
    pub len: u32,
    /// How far apart rows start, and slices; zero where there is only one.
    pub pitches: [u32; 2],
}

impl Place {
    /// Elements that follow each other.
    pub fn line(at: u32, len: u32) -> Self {
        Place { at, len, pitches: [0; 2] }
    }
}

/// The block's bytes: `places` are the buffers', in the order of their slots.
///
/// ```
/// use windlass_kernel::{LaunchRange, block::{self, Place}};
/// let block = block::bytes(&[Place::line(2, 10)], 64.range(), [&5_u32.to_ne_bytes()[..]]).unwrap();
/// let words: Vec<u32> = block.as_chunks().0.iter().map(|w| u32::from_ne_bytes(*w)).collect();
/// assert_eq!(words, [2, 10, 64, 1, 1, 5, 0, 0]);
/// ```
pub fn bytes<'a>(
    places: &[Place],
    range: Range,
    values: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, TooMany> {
    let mut bytes = Vec::with_capacity(96);
    let mut put = |words: &[u32]| words.iter().for_each(|word| bytes.extend_from_slice(&word.to_ne_bytes()));
    for place in places {
        // A place without elements starts where there is memory: it may be the end of its buffer.
        put(&if place.len == 0 { [0, 0] } else { [place.at, place.len] });
    }
    put(&extents(range)?);
    for value in values {
        bytes.extend_from_slice(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    for pitch in places.iter().flat_map(|place| place.pitches) {
        bytes.extend_from_slice(&pitch.to_ne_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    Ok(bytes)
}

/// The extents as kernels number the dimensions: 0 is the outermost that the launch has.
fn extents(range: Range) -> Result<[u32; 3], TooMany> {
    let mut extents = [1; 3];
    for (to, from) in extents.iter_mut().zip(&range.extent()[3 - range.dims()..]) {
        *to = count(*from)?;
    }
    Ok(extents)
}

/// Whether a launch's work-groups are those that a kernel was built for: of `group` items. A kernel that does not work
/// in groups takes launches without any, and those of groups of its own size.
///
/// ```
/// use windlass_kernel::{LaunchRange, NdRange, block::check_groups};
/// let range = NdRange { global: [64, 64], local: [8, 16] }.range();
/// assert!(check_groups(range, 128, true).is_ok());
/// assert!(check_groups(range, 64, true).is_err());
/// assert!(check_groups(64.range(), 64, true).is_err());
/// assert!(check_groups(64.range(), 64, false).is_ok());
/// ```
pub fn check_groups(range: Range, group: u32, grouped: bool) -> Result<(), String> {
    match range.local() {
        None if grouped => Err("it works in groups, and the launch names none".into()),
        Some(local) if local.iter().product::<usize>() == group as usize => Ok(()),
        None => Ok(()),
        local => Err(format!("work-groups of {local:?} for a kernel whose work-groups are {group}")),
    }
}
