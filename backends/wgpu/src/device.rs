//! Discovery: which Vulkan devices there are, as plain data.

use std::sync::Arc;
use std::thread;

use ash::vk;
use wgpu::{Backends, DeviceType, Features};
use windlass_backend::{
    Aspect, AtomicOrders, AtomicScopes, BackendError, DeviceInfo, DeviceKey, DeviceKind, LaneDepth, Limits,
    MemoryIndex, Platform, Unavailable,
};
use windlass_kernel::ImageFormat;

use crate::details::details;
use crate::error::unsupported;
use windlass_sync::process_exit::Native;

/// wgpu sets no limit. This is enough to keep a device busy, and leaves the rest where it can still be cancelled.
const LANE_DEPTH: LaneDepth = LaneDepth::new(256, 256);

/// A platform with the adapters behind its devices, in the same order.
pub(crate) struct Found {
    pub(crate) platform: Platform,
    pub(crate) adapters: Vec<wgpu::Adapter>,
}

impl Found {
    /// The adapter with this key, and its description.
    pub(crate) fn adapter(&self, key: &DeviceKey) -> Option<(&wgpu::Adapter, &DeviceInfo)> {
        let at = self.platform.devices.iter().position(|info| info.key == *key)?;
        Some((&self.adapters[at], &self.platform.devices[at]))
    }
}

/// Loads the Vulkan loader, if there is one.
pub(crate) fn load() -> Arc<Native<wgpu::Instance>> {
    let mut wanted = wgpu::InstanceDescriptor::new_without_display_handle();
    wanted.backends = Backends::VULKAN;
    // The default depends on the build profile, and debug builds would load a validation layer if one happens to be installed.
    wanted.flags = wgpu::InstanceFlags::empty();
    Arc::new(Native::new(wgpu::Instance::new(wanted)))
}

/// Lists the adapters, one platform for each driver, in the order in which the loader names them.
pub(crate) async fn find(instance: &wgpu::Instance) -> Result<Vec<Found>, Unavailable> {
    let mut found: Vec<Found> = Vec::new();
    for adapter in instance.enumerate_adapters(Backends::VULKAN).await {
        let computes = wgpu::DownlevelFlags::COMPUTE_SHADERS;
        if !adapter.get_downlevel_capabilities().flags.contains(computes) {
            continue;
        }
        let about = adapter.get_info();
        let at = found.iter().position(|f| f.platform.name == about.driver).unwrap_or_else(|| {
            found.push(Found { platform: platform(&about), adapters: Vec::new() });
            found.len() - 1
        });
        let Found { platform, adapters } = &mut found[at];
        platform.devices.push(describe(&adapter, about, &platform.devices));
        adapters.push(adapter);
    }
    if found.is_empty() { Err(missing()) } else { Ok(found) }
}

/// wgpu does not distinguish a missing loader from one without drivers: neither gives an instance.
fn missing() -> Unavailable {
    Unavailable::new(
        "there is no Vulkan loader, or it finds no driver with a device that computes",
        "install the loader (libvulkan1 on Debian, vulkan-loader on Fedora) and the device's Vulkan driver (for a CPU: \
         Mesa's lavapipe); a driver elsewhere is named by its manifest in VK_DRIVER_FILES",
    )
}

fn platform(about: &wgpu::AdapterInfo) -> Platform {
    let version = format!("Vulkan, {}", about.driver_info);
    Platform::new(about.driver.clone(), vendor(about.vendor), version, Vec::new())
}

/// The stable key of an adapter: its place on the bus, if the driver tells, and a number among those that are otherwise equal.
fn key(about: &wgpu::AdapterInfo, before: &[DeviceInfo]) -> String {
    let place = place(about);
    let same = before.iter().filter(|info| info.key.as_str().starts_with(&place)).count();
    format!("{place}/{same}")
}

fn place(about: &wgpu::AdapterInfo) -> String {
    format!("{}/{}/{}", about.driver, about.device_pci_bus_id, about.name)
}

/// The first listed device where this one is, as it was opened. Which of several that a driver does not tell apart makes no
/// difference here, since no second device is opened.
pub(crate) fn listed(found: &[Found], device: &wgpu::Device) -> Result<DeviceInfo, BackendError> {
    let about = device.adapter_info();
    let all = found.iter().flat_map(|found| &found.platform.devices);
    let is_it = |info: &&DeviceInfo| info.key.as_str().starts_with(&place(&about));
    match all.into_iter().find(is_it).filter(|_| about.backend == wgpu::Backend::Vulkan) {
        Some(info) => Ok(info.clone().limits(limits(&device.limits())).aspects(aspects(device.features()))),
        None => {
            unsupported(format!("a device of {:?} on {}, which is not listed", about.backend, about.name))
        }
    }
}

/// What it takes to tell when groups run.
const TIMESTAMPS: Features = Features::TIMESTAMP_QUERY.union(Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);

/// The optional features that this backend uses, as far as the device has them.
pub(crate) fn features(adapter: &wgpu::Adapter) -> Features {
    let wanted = Features::SHADER_F16
        | Features::SHADER_F64
        | Features::SHADER_I16
        | Features::SHADER_INT64
        | Features::SHADER_INT64_ATOMIC_MIN_MAX
        | Features::SHADER_INT64_ATOMIC_ALL_OPS
        | Features::SHADER_FLOAT32_ATOMIC
        | Features::SUBGROUP
        | Features::SUBGROUP_BARRIER
        | Features::IMMEDIATES
        | Features::PIPELINE_CACHE
        | TIMESTAMPS;
    adapter.features() & wanted
}

fn describe(adapter: &wgpu::Adapter, about: wgpu::AdapterInfo, before: &[DeviceInfo]) -> DeviceInfo {
    let (kind, memory) = (kind(about.device_type), MemoryIndex::Own(0));
    DeviceInfo::new(key(&about, before), about.name.clone(), kind, memory)
        .made_by(vendor(about.vendor), format!("{} {}", about.driver, about.driver_info))
        .hardware(physical_id(adapter, kind), memory_bytes(adapter), compute_units(kind))
        .pci(about.device_pci_bus_id.parse().ok())
        .aspects(aspects(features(adapter)))
        // WGSL's atomics are relaxed, and reach all of the device's work-items.
        .atomics(AtomicOrders::Relaxed, AtomicScopes::Device)
        .limits(limits(&adapter.limits()))
        .formats([ImageFormat::Wgsl])
        .extensions(adapter.features().iter_names().map(|(name, _)| name.to_owned()))
        .details(details(adapter, &about))
        .lanes(1, LANE_DEPTH)
}

fn limits(limits: &wgpu::Limits) -> Limits {
    let items = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x);
    Limits::default()
        .allocation(limits.max_buffer_size & !3)
        // A binding starts where the device wants it; the kernel is handed the rest of the offset in elements.
        .binding(limits.max_storage_buffer_binding_size, 1)
        .bindings(limits.max_storage_buffers_per_shader_stage as usize)
        .work_group(items as usize, limits.max_compute_workgroup_storage_size as usize)
        .groups_along(limits.max_compute_workgroups_per_dimension as usize)
}

fn aspects(features: Features) -> Vec<Aspect> {
    let table = [
        (Features::SHADER_F16, Aspect::Fp16),
        (Features::SHADER_F64, Aspect::Fp64),
        (Features::SHADER_INT64, Aspect::Int64),
        (Features::SHADER_INT64_ATOMIC_ALL_OPS, Aspect::Atomic64),
        (Features::SUBGROUP.union(Features::SUBGROUP_BARRIER), Aspect::Subgroups),
        (TIMESTAMPS, Aspect::Profiling),
    ];
    let has = table.into_iter().filter(|(feature, _)| features.contains(*feature));
    has.map(|(_, aspect)| aspect).chain([Aspect::NativeCode]).collect()
}

fn kind(of: DeviceType) -> DeviceKind {
    match of {
        DeviceType::Cpu => DeviceKind::Cpu,
        DeviceType::IntegratedGpu => DeviceKind::IntegratedGpu,
        DeviceType::DiscreteGpu => DeviceKind::DiscreteGpu,
        DeviceType::VirtualGpu | DeviceType::Other => DeviceKind::Other,
    }
}

/// Vulkan does not say how many units a GPU has. For a CPU it is the number of threads.
fn compute_units(kind: DeviceKind) -> usize {
    match kind {
        DeviceKind::Cpu => thread::available_parallelism().map_or(1, |n| n.get()),
        _ => 1,
    }
}

/// The identity that drivers of other APIs give the same device. A processor has none: its driver makes one up, which nobody else has.
fn physical_id(adapter: &wgpu::Adapter, kind: DeviceKind) -> Option<[u8; 16]> {
    if kind == DeviceKind::Cpu {
        return None;
    }
    // SAFETY: the handle is only read from, and dropped before the adapter.
    let native = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let shared = native.shared_instance();
    let device_version = native.physical_device_capabilities().properties().api_version;
    if shared.instance_api_version().min(device_version) < vk::API_VERSION_1_1 {
        return None;
    }
    let mut identity = vk::PhysicalDeviceIDProperties::default();
    let mut properties = vk::PhysicalDeviceProperties2::default().push_next(&mut identity);
    // SAFETY: the physical device is the instance's own, which the adapter keeps alive; both are of a version that has the call, and the
    // structure, which lives on this stack.
    unsafe {
        shared.raw_instance().get_physical_device_properties2(native.raw_physical_device(), &mut properties);
    }
    (identity.device_uuid != [0; 16]).then_some(identity.device_uuid)
}

/// The size of the device-local heaps, which wgpu itself does not tell.
fn memory_bytes(adapter: &wgpu::Adapter) -> Option<u64> {
    const DEVICE_LOCAL: u32 = 1;
    // SAFETY: the handle is only read from, and dropped before the adapter.
    let native = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let instance = native.shared_instance().raw_instance();
    // SAFETY: the physical device is the instance's own, and the adapter keeps the instance alive.
    let memory = unsafe { instance.get_physical_device_memory_properties(native.raw_physical_device()) };
    let heaps = memory.memory_heaps.iter().take(memory.memory_heap_count as usize);
    let bytes: u64 = heaps.filter(|heap| heap.flags.as_raw() & DEVICE_LOCAL != 0).map(|heap| heap.size).sum();
    (bytes > 0).then_some(bytes)
}

fn vendor(id: u32) -> String {
    match id {
        0x1002 => "AMD".into(),
        0x106b => "Apple".into(),
        0x10de => "NVIDIA".into(),
        0x13b5 => "Arm".into(),
        0x5143 => "Qualcomm".into(),
        0x8086 => "Intel".into(),
        0x1_0005 => "Mesa".into(),
        other => format!("vendor {other:#06x}"),
    }
}
