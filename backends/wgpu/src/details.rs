//! What wgpu and Vulkan tell of a device's hardware beyond what anything here needs.

use wgpu::Features;
use windlass_backend::Details;

/// All that is told. WGSL has no addresses and does not say what floats do beyond the least, and Vulkan tells nothing of clocks and caches.
pub(crate) fn details(adapter: &wgpu::Adapter, about: &wgpu::AdapterInfo) -> Details {
    let limits = adapter.limits();
    let extent = [
        limits.max_compute_workgroup_size_z,
        limits.max_compute_workgroup_size_y,
        limits.max_compute_workgroup_size_x,
    ];
    let details = Details::new()
        .vendor_id(about.vendor)
        .work_group_extent(extent.map(|items| items as usize))
        .tick(tick(adapter).unwrap_or(0));
    match adapter.features().contains(Features::SUBGROUP) {
        true => details.subgroup_sizes([about.subgroup_min_size, about.subgroup_max_size]),
        false => details,
    }
}

/// From one tick of the device's clock to the next, in nanoseconds: one at least.
fn tick(adapter: &wgpu::Adapter) -> Option<u64> {
    // SAFETY: the handle is only read from, and dropped before the adapter.
    let native = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let period = native.physical_device_capabilities().properties().limits.timestamp_period;
    // Vulkan tells it as a float, in which zero is no clock.
    (period > 0.0).then(|| (period.round() as u64).max(1))
}
