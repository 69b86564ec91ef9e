//! Discovery: what drivers and devices there are, as plain data.

use std::sync::{Mutex, PoisonError};

use opencl3::device as cl;
use opencl3::platform::platform::{CL_PLATFORM_NAME, CL_PLATFORM_VENDOR, CL_PLATFORM_VERSION};
use windlass_backend::{
    Aspect, AtomicOrders, AtomicScopes, DeviceInfo, DeviceKey, DeviceKind, Limits, MemoryIndex, Platform,
    Unavailable,
};
use windlass_kernel::ImageFormat;

use crate::details::details;
use crate::driver::Driver;
use crate::error;
use crate::ext::Division;
use crate::pci;
use crate::sys::{self, DeviceId, PlatformId};

/// The parameter space that a buffer takes: an address and two numbers.
const BUFFER_PARAMETER: usize = 24;

/// A driver with the devices that this backend can use.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) platform: PlatformId,
    /// Whole ones, each with the parts that were asked for behind it.
    pub(crate) devices: Vec<DeviceId>,
    /// Of each that is a part, which one of how many.
    parts: Vec<Option<[usize; 2]>>,
}

impl Found {
    /// The stable key of the device at a position. OpenCL has no unique names for devices, so those with equal names are
    /// numbered. The driver's version is part of it, since two versions of one driver may be installed at once.
    fn key(&self, at: usize) -> String {
        let platform = self.platform.text(CL_PLATFORM_VERSION);
        let own = self.name(at);
        let same = (0..at).filter(|before| self.name(*before) == own).count();
        format!("{platform}/{own}/{same}")
    }

    /// What the device at a position is called.
    fn name(&self, at: usize) -> String {
        let name = self.devices[at].text(cl::CL_DEVICE_NAME);
        match self.parts[at] {
            Some([part, of]) => format!("{name}, part {part} of {of}"),
            None => name,
        }
    }

    /// The position of the device with this key.
    pub(crate) fn position(&self, key: &DeviceKey) -> Option<usize> {
        (0..self.devices.len()).find(|at| self.key(*at) == key.as_str())
    }

    /// What is known of it.
    pub(crate) fn driver(&self) -> Driver {
        self.devices.first().map(|device| Driver::of(*device)).unwrap_or_default()
    }

    /// The device at a position, as plain data; it works on the memory with the given number.
    pub(crate) fn device_info(&self, at: usize, memory: u32) -> DeviceInfo {
        device_info(self.devices[at], self.name(at), self.key(at), memory)
    }
}

/// Held while drivers are asked for their devices, which is when they initialise themselves. PoCL 3.1 crashes when two
/// threads ask at once: the second is handed devices that the first has not filled in yet. It has the parts that were made before, so
/// that a part is the same object whenever it is listed.
static SETUP: Mutex<Vec<Parts>> = Mutex::new(Vec::new());

/// The parts of a device.
struct Parts {
    whole: DeviceId,
    division: Division,
    parts: Vec<DeviceId>,
}

/// Loads the loader and asks every driver for its devices.
pub(crate) fn find(division: Option<Division>) -> Result<Vec<Found>, Unavailable> {
    let mut known = SETUP.lock().unwrap_or_else(PoisonError::into_inner);
    let platforms = sys::platforms().map_err(error::unavailable)?;
    if platforms.is_empty() {
        return Err(error::no_platform());
    }
    Ok(platforms.into_iter().map(|platform| devices_of(platform, division, &mut known)).collect())
}

/// A driver that cannot list its devices stays in the list, without any, so that positions do not shift.
fn devices_of(platform: PlatformId, division: Option<Division>, known: &mut Vec<Parts>) -> Found {
    let mut whole = platform.devices().unwrap_or_default();
    whole.retain(|d| version(&d.text(cl::CL_DEVICE_VERSION)) >= (1, 2));
    // Buffers hold bytes as the host has them, and nothing turns them round on the way.
    let little = u64::from(cfg!(target_endian = "little"));
    whole.retain(|d| d.number(cl::CL_DEVICE_ENDIAN_LITTLE).is_none_or(|order| order == little));
    let (mut devices, mut parts) = (Vec::new(), Vec::new());
    for device in whole {
        devices.push(device);
        parts.push(None);
        let of = division.map(|division| parts_of(device, division, known)).unwrap_or_default();
        parts.extend((1..=of.len()).map(|part| Some([part, of.len()])));
        devices.extend(of);
    }
    Found { platform, devices, parts }
}

/// The parts of a device. None where there would be one alone, or where the driver does not divide it like this.
fn parts_of(whole: DeviceId, division: Division, known: &mut Vec<Parts>) -> Vec<DeviceId> {
    if let Some(known) = known.iter().find(|known| (known.whole, known.division) == (whole, division)) {
        return known.parts.clone();
    }
    let may_be_divided = size(whole, cl::CL_DEVICE_PARTITION_MAX_SUB_DEVICES) > 1;
    let parts = match may_be_divided.then(|| whole.parts(division.properties())) {
        Some(Ok(parts)) if parts.len() > 1 => parts,
        // It may be another time.
        Some(Err(_)) => return Vec::new(),
        _ => Vec::new(),
    };
    known.push(Parts { whole, division, parts: parts.clone() });
    parts
}

/// The version in a text such as `OpenCL 3.0 …`. Drivers before 1.2 lack calls that we make, for which the loader would jump to a
/// null address.
pub(crate) fn version(text: &str) -> (u32, u32) {
    let parse = || {
        let (major, minor) = text.split_whitespace().nth(1)?.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    parse().unwrap_or_default()
}

/// A driver as plain data.
pub(crate) fn platform_info(found: &Found) -> Platform {
    let devices =
        (0..found.devices.len()).zip(0..).map(|(at, memory)| found.device_info(at, memory)).collect();
    let about = |what| found.platform.text(what);
    Platform::new(about(CL_PLATFORM_NAME), about(CL_PLATFORM_VENDOR), about(CL_PLATFORM_VERSION), devices)
}

/// A device as plain data. Devices of one context are not said to share memory, since OpenCL does not tell whether they do.
fn device_info(device: DeviceId, name: String, key: String, memory: u32) -> DeviceInfo {
    let extensions = device.text(cl::CL_DEVICE_EXTENSIONS);
    let extensions: Vec<&str> = extensions.split_whitespace().collect();
    let aspects = aspects(device, &extensions);
    let formats = formats(device, &extensions, !aspects.contains(&Aspect::BuiltinOnly));
    let (orders, scopes) = atomics(device);
    let bytes = device.number(cl::CL_DEVICE_GLOBAL_MEM_SIZE).filter(|bytes| *bytes > 0);
    let units = size(device, cl::CL_DEVICE_MAX_COMPUTE_UNITS).max(1);
    let driver = Driver::of(device);
    DeviceInfo::new(key, name, kind(device), MemoryIndex::Own(memory))
        .made_by(device.text(cl::CL_DEVICE_VENDOR), device.text(cl::CL_DRIVER_VERSION))
        .hardware(physical_id(device, &extensions), bytes, units)
        .pci(pci::address(device, &extensions))
        .aspects(aspects)
        .atomics(orders, scopes)
        .limits(limits(device))
        .formats(formats)
        .builtin_kernels(builtin_kernels(device))
        .extensions(extensions.iter().map(|name| (*name).to_owned()))
        .details(details(device, &extensions))
        .lanes(driver.lanes, driver.depth)
}

/// The forms of kernels that a device takes, those first that were made for it.
fn formats(device: DeviceId, extensions: &[&str], compiles: bool) -> Vec<ImageFormat> {
    let mut formats = vec![ImageFormat::Binary];
    if compiles {
        formats.extend(is_nvidia(extensions).then_some(ImageFormat::Ptx));
        let takes_words = device.text(cl::CL_DEVICE_IL_VERSION).contains("SPIR-V")
            && version(&device.text(cl::CL_DEVICE_VERSION)) >= (2, 1);
        formats.extend(takes_words.then_some(ImageFormat::SpirV));
        formats.extend([ImageFormat::OpenClC, ImageFormat::Wgsl]);
    }
    formats.push(ImageFormat::Builtin);
    formats
}

/// The names of the kernels that a device has built in.
fn builtin_kernels(device: DeviceId) -> Vec<String> {
    let names = device.text(cl::CL_DEVICE_BUILT_IN_KERNELS);
    names.split(';').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Whether NVIDIA's compiler stands behind a device with these extensions.
pub(crate) fn is_nvidia(extensions: &[&str]) -> bool {
    extensions.contains(&"cl_nv_compiler_options")
}

pub(crate) fn size(device: DeviceId, what: opencl3::types::cl_device_info) -> usize {
    device.number(what).and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
}

pub(crate) fn is_set(device: DeviceId, what: opencl3::types::cl_device_info) -> bool {
    device.number(what).is_some_and(|n| n != 0)
}

pub(crate) fn is_gpu(device: DeviceId) -> bool {
    kind(device).is_gpu()
}

fn kind(device: DeviceId) -> DeviceKind {
    let kind = device.number(cl::CL_DEVICE_TYPE).unwrap_or(0);
    if kind & cl::CL_DEVICE_TYPE_GPU != 0 {
        let shared = is_set(device, cl::CL_DEVICE_HOST_UNIFIED_MEMORY);
        if shared { DeviceKind::IntegratedGpu } else { DeviceKind::DiscreteGpu }
    } else if kind & cl::CL_DEVICE_TYPE_CPU != 0 {
        DeviceKind::Cpu
    } else {
        DeviceKind::Other
    }
}

/// The identity that Vulkan shows too. A driver that fills it with zeros has none.
fn physical_id(device: DeviceId, extensions: &[&str]) -> Option<[u8; 16]> {
    if !extensions.contains(&"cl_khr_device_uuid") {
        return None;
    }
    let id: [u8; 16] = device.bytes(cl::CL_DEVICE_UUID_KHR).try_into().ok()?;
    (id != [0; 16]).then_some(id)
}

/// What the device can do.
fn aspects(device: DeviceId, extensions: &[&str]) -> Vec<Aspect> {
    let has = |name: &str| extensions.contains(&name);
    let full = device.text(cl::CL_DEVICE_PROFILE) != "EMBEDDED_PROFILE";
    let mut aspects = Vec::new();
    let mut add = |condition: bool, aspect| aspects.extend(condition.then_some(aspect));
    add(has("cl_khr_fp16"), Aspect::Fp16);
    add(has("cl_khr_fp64") || is_set(device, cl::CL_DEVICE_DOUBLE_FP_CONFIG), Aspect::Fp64);
    add(full || has("cles_khr_int64"), Aspect::Int64);
    add(has("cl_khr_int64_base_atomics") && has("cl_khr_int64_extended_atomics"), Aspect::Atomic64);
    add(
        has("cl_khr_subgroups")
            || has("cl_intel_subgroups")
            || is_set(device, cl::CL_DEVICE_MAX_NUM_SUB_GROUPS),
        Aspect::Subgroups,
    );
    add(!is_set(device, cl::CL_DEVICE_COMPILER_AVAILABLE), Aspect::BuiltinOnly);
    let shared = shared_memory(device);
    add(shared & cl::CL_DEVICE_SVM_COARSE_GRAIN_BUFFER != 0, Aspect::Pointers);
    add(shared & cl::CL_DEVICE_SVM_FINE_GRAIN_BUFFER != 0, Aspect::FineMemory);
    add(shared & cl::CL_DEVICE_SVM_FINE_GRAIN_SYSTEM != 0, Aspect::SystemMemory);
    add(shared & cl::CL_DEVICE_SVM_ATOMICS != 0, Aspect::SharedAtomics);
    add(true, Aspect::NativeCode);
    // Every version of OpenCL has it, in queues that are made for it.
    add(true, Aspect::Profiling);
    aspects
}

/// What memory a device shares with the host, by OpenCL's bits; none before version 2.0, whose drivers may lack the calls.
fn shared_memory(device: DeviceId) -> u64 {
    match version(&device.text(cl::CL_DEVICE_VERSION)) {
        (2.., _) => device.number(cl::CL_DEVICE_SVM_CAPABILITIES).unwrap_or(0),
        _ => 0,
    }
}

/// What OpenCL 3.0 reports, or else what each older version guarantees.
fn atomics(device: DeviceId) -> (AtomicOrders, AtomicScopes) {
    let version = version(&device.text(cl::CL_DEVICE_VERSION));
    match (version, device.number(cl::CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES)) {
        ((3.., _), Some(bits)) => atomics_of(bits),
        ((2, _), _) => (AtomicOrders::SequentiallyConsistent, AtomicScopes::Device),
        _ => (AtomicOrders::Relaxed, AtomicScopes::Device),
    }
}

/// The bits speak of OpenCL C 2.0's atomics. Those of OpenCL C 1.2, which every device has, are relaxed and reach
/// across the device; NVIDIA has no others, and reports no more than work-groups.
fn atomics_of(bits: u64) -> (AtomicOrders, AtomicScopes) {
    let has = |bit: u64| bits & bit != 0;
    let orders = if has(cl::CL_DEVICE_ATOMIC_ORDER_SEQ_CST) {
        AtomicOrders::SequentiallyConsistent
    } else if has(cl::CL_DEVICE_ATOMIC_ORDER_ACQ_REL) {
        AtomicOrders::AcquireRelease
    } else {
        AtomicOrders::Relaxed
    };
    let scopes =
        if has(cl::CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES) { AtomicScopes::System } else { AtomicScopes::Device };
    (orders, scopes)
}

/// The bytes of local memory that one work-group can have.
pub(crate) fn local_memory(device: DeviceId) -> usize {
    size(device, cl::CL_DEVICE_LOCAL_MEM_SIZE)
}

/// An argument's range may start at any element, since kernels are handed the offset beside the buffer.
fn limits(device: DeviceId) -> Limits {
    let allocation = device.number(cl::CL_DEVICE_MAX_MEM_ALLOC_SIZE).unwrap_or(0);
    Limits::default()
        .allocation(allocation)
        .binding(allocation, 1)
        .bindings(size(device, cl::CL_DEVICE_MAX_PARAMETER_SIZE) / BUFFER_PARAMETER)
        .work_group(size(device, cl::CL_DEVICE_MAX_WORK_GROUP_SIZE), local_memory(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_their_text() {
        assert_eq!(version("OpenCL 3.0 PoCL HSTR: pthread"), (3, 0));
        assert_eq!(version("OpenCL 1.1"), (1, 1));
        assert_eq!(version("rubbish"), (0, 0));
    }

    #[test]
    fn the_strongest_atomics_count() {
        let all = cl::CL_DEVICE_ATOMIC_ORDER_RELAXED
            | cl::CL_DEVICE_ATOMIC_ORDER_ACQ_REL
            | cl::CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP
            | cl::CL_DEVICE_ATOMIC_SCOPE_DEVICE;
        assert_eq!(atomics_of(all), (AtomicOrders::AcquireRelease, AtomicScopes::Device));
        assert_eq!(atomics_of(0), (AtomicOrders::Relaxed, AtomicScopes::Device));
    }
}
