//! A device's limits: what a call can know to exceed one is refused in the call, in the words of the call.

use std::fmt;

use windlass_backend::{KernelLimits, Limits};
use windlass_kernel::Range;

use super::work::Binding;
use crate::error::{Error, Result};

/// Refuses a launch that exceeds a limit of the device; its buffers by their positions.
pub(crate) fn check_launch<'a>(
    name: &str,
    (device, limits): (&dyn fmt::Display, &Limits),
    buffers: impl Iterator<Item = (usize, &'a Binding)> + Clone,
    range: &Range,
    local_memory: usize,
) -> Result<()> {
    let count = buffers.clone().count();
    if count > limits.bindings {
        let most = limits.bindings;
        return Err(Error::invalid(format!(
            "kernel `{name}` has {count} buffer arguments, and {device} takes {most}"
        )));
    }
    for (at, binding) in buffers {
        check_binding(name, (device, limits), at, binding)?;
    }
    check_groups(name, device, range, local_memory, (limits.work_group_items, limits.local_memory))
}

fn check_binding(
    name: &str,
    (device, limits): (&dyn fmt::Display, &Limits),
    at: usize,
    binding: &Binding,
) -> Result<()> {
    if binding.is_empty() {
        return Ok(());
    }
    let region = binding.region();
    let bytes = (region.end() - region.offset) as u64;
    if bytes > limits.binding {
        let most = limits.binding;
        return Err(Error::invalid(format!(
            "argument {at} of kernel `{name}` shows {bytes} bytes, and {device} takes {most}: launch over parts of the buffer"
        )));
    }
    if !region.offset.is_multiple_of(limits.binding_offset.max(1)) {
        let (offset, granule) = (region.offset, limits.binding_offset);
        return Err(Error::invalid(format!(
            "argument {at} of kernel `{name}` starts at byte {offset} of its buffer, and {device} takes multiples of {granule}"
        )));
    }
    Ok(())
}

/// Refuses work-groups with more items or local memory than there may be; each with what the limit is.
fn check_groups(
    name: &str,
    of: &dyn fmt::Display,
    range: &Range,
    local_memory: usize,
    (most_items, most_local): (usize, usize),
) -> Result<()> {
    if let Some(local) = range.local() {
        let items = local.iter().fold(1_usize, |items, extent| items.saturating_mul(*extent));
        if items > most_items {
            return Err(Error::invalid(format!(
                "work-groups of {:?} for kernel `{name}` are {items} items, and {of} takes {most_items}",
                &local[3 - range.dims()..]
            )));
        }
    }
    if local_memory > most_local {
        return Err(Error::invalid(format!(
            "a work-group of kernel `{name}` asks for {local_memory} bytes of local memory, and {of} has {most_local}"
        )));
    }
    Ok(())
}

/// Refuses a launch that exceeds what one kernel takes on its device. Known when the kernel has been built: in the call, or
/// before the group is fed.
pub(super) fn check_kernel(
    name: &str,
    limits: KernelLimits,
    range: &Range,
    local_memory: usize,
) -> Result<()> {
    let most = (limits.work_group_items, limits.local_memory);
    check_groups(name, &"the kernel as it was built for the device", range, local_memory, most)
}
