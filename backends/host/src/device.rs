//! What a host device says about itself.

use windlass_backend::{
    Aspect, AtomicOrders, AtomicScopes, DeviceInfo, DeviceKind, Limits, MemoryIndex, Platform,
};
use windlass_kernel::ImageFormat;

/// Groups that a lane holds at a time. Nothing here blocks beyond it. A tiny group takes 0.1 to 0.2 us, so this many
/// keep a worker busy for as long as it takes to wake a thread that refills the lane (40 us on a virtual machine); the
/// rest is better kept in the runtime, where it can still be cancelled.
const LANE_DEPTH: usize = 256;

pub(crate) fn platform(devices: usize, lanes: usize, cores: usize) -> Platform {
    Platform {
        name: "Windlass host threads".into(),
        vendor: "Windlass".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        devices: (0..devices).map(|at| info(at, lanes, cores)).collect(),
    }
}

/// The device at position `at` of the platform.
pub(crate) fn info(at: usize, lanes: usize, cores: usize) -> DeviceInfo {
    DeviceInfo {
        name: format!("host {at}"),
        vendor: "Windlass".into(),
        driver: env!("CARGO_PKG_VERSION").into(),
        kind: DeviceKind::Host,
        physical_id: None,
        memory_bytes: memory_bytes(),
        compute_units: cores,
        aspects: aspects(),
        atomic_orders: AtomicOrders::SequentiallyConsistent,
        atomic_scopes: AtomicScopes::System,
        // Bodies have no local memory: what a block needs, its body has on its stack.
        limits: Limits { local_memory: 0, ..Limits::default() },
        formats: vec![ImageFormat::Host],
        memory: memory(at),
        lanes,
        lane_depth: LANE_DEPTH,
    }
}

fn aspects() -> Vec<Aspect> {
    let mut aspects = vec![
        Aspect::HostBodies,
        Aspect::Fp16,
        Aspect::Subgroups,
        Aspect::Fp64,
        Aspect::Int64,
        Aspect::Atomic64,
    ];
    aspects.sort();
    aspects
}

fn memory(at: usize) -> MemoryIndex {
    match u32::try_from(at) {
        Ok(0) => MemoryIndex::Heap,
        Ok(at) => MemoryIndex::Own(at),
        Err(_) => unreachable!("nobody makes four billion devices"),
    }
}

/// The machine's memory, where the system says.
fn memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
    Some(kib * 1024)
}
