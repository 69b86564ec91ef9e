//! What a host device says about itself.

use windlass_backend::{
    Aspect, AtomicOrders, AtomicScopes, Contents, DeviceInfo, DeviceKey, DeviceKind, HostAccess, LaneDepth,
    Limits, MemoryIndex, MemoryInfo, Platform,
};
use windlass_kernel::ImageFormat;

use crate::details::details;

/// Commands that a lane holds at a time. Nothing here blocks beyond it. A tiny group takes 0.1 to 0.2 us, so this many
/// keep a worker busy for as long as it takes to wake a thread that refills the lane (40 us on a virtual machine); the
/// rest is better kept in the runtime, where it can still be cancelled.
const LANE_DEPTH: usize = 256;

pub(crate) fn platform(devices: usize, lanes: usize, cores: usize) -> Platform {
    let devices = (0..devices).map(|at| info(at, lanes, cores)).collect();
    Platform::new("Windlass host threads", "Windlass", env!("CARGO_PKG_VERSION"), devices)
}

/// What the device at a position is called for good.
fn key(at: usize) -> String {
    format!("host-{at}")
}

/// The position of the device that is called so.
pub(crate) fn position(key: &DeviceKey, devices: usize) -> Option<usize> {
    (0..devices).find(|at| self::key(*at) == key.as_str())
}

/// The device at position `at` of the platform.
pub(crate) fn info(at: usize, lanes: usize, cores: usize) -> DeviceInfo {
    // Bodies have no local memory of the device's: what a block needs, its body has on its stack or allocates.
    let limits = Limits::default().work_group(usize::MAX, LOCAL_MEMORY);
    DeviceInfo::new(key(at), format!("host {at}"), DeviceKind::Host, memory(at))
        .made_by("Windlass", env!("CARGO_PKG_VERSION"))
        .hardware(None, memory_bytes(), cores)
        .aspects([
            Aspect::HostBodies,
            Aspect::Fp16,
            Aspect::Subgroups,
            Aspect::Fp64,
            Aspect::Int64,
            Aspect::Atomic64,
            Aspect::Profiling,
            Aspect::Pointers,
            Aspect::FineMemory,
            Aspect::SystemMemory,
            Aspect::SharedAtomics,
        ])
        .atomics(AtomicOrders::SequentiallyConsistent, AtomicScopes::System)
        .limits(limits)
        .formats([ImageFormat::Host])
        .details(details())
        .lanes(lanes, LaneDepth::new(LANE_DEPTH, LANE_DEPTH))
}

/// Bytes of local memory that a work-group may have. A block allocates them for each group that it runs at a time; as much
/// as a GPU has would be enough, and this is far from what could end the process.
const LOCAL_MEMORY: usize = 16 << 20;

/// The first device works on the heap in place; each other has a memory of its own.
fn memory(at: usize) -> MemoryIndex {
    match at {
        0 => MemoryIndex::Heap,
        _ => MemoryIndex::Own(0),
    }
}

/// The memories of a context over the devices at these positions, which are numbered here.
pub(crate) fn number_memories(devices: Vec<DeviceInfo>) -> (Vec<DeviceInfo>, Vec<MemoryInfo>) {
    let mut memories = Vec::new();
    let own = MemoryInfo::new().host(HostAccess::Coherent).fresh(Contents::Zeroed).addressed();
    let numbered = devices.into_iter().map(|device| match device.memory {
        MemoryIndex::Heap => device,
        MemoryIndex::Own(_) => {
            memories.push(own);
            device.memory(MemoryIndex::Own(memories.len() as u32 - 1))
        }
    });
    (numbered.collect(), memories)
}

/// The machine's memory, where the system says.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
    Some(kib * 1024)
}
