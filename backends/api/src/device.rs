//! What devices there are and what they can do, as plain data.

use std::fmt;

use windlass_kernel::ImageFormat;

/// A driver's view of the machine: its devices, possibly none.
#[derive(Clone, Debug)]
pub struct Platform {
    /// The driver's name for itself.
    pub name: String,
    /// Who made it.
    pub vendor: String,
    /// The native API's version, as the driver words it.
    pub version: String,
    /// Its devices.
    pub devices: Vec<DeviceInfo>,
}

/// What kind of hardware a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeviceKind {
    /// This process's own threads.
    Host,
    /// A CPU behind a driver.
    Cpu,
    /// A GPU that shares the host's memory.
    IntegratedGpu,
    /// A GPU with memory of its own.
    DiscreteGpu,
    /// Anything else.
    Other,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceKind::Host => "host",
            DeviceKind::Cpu => "cpu",
            DeviceKind::IntegratedGpu => "integrated gpu",
            DeviceKind::DiscreteGpu => "gpu",
            DeviceKind::Other => "other",
        })
    }
}

/// A feature that not every device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Aspect {
    /// 16-bit floats in kernels.
    Fp16,
    /// 64-bit floats in kernels.
    Fp64,
    /// 64-bit integers in kernels.
    Int64,
    /// Atomic operations on 64-bit integers.
    Atomic64,
    /// Sub-group operations.
    Subgroups,
    /// Runs closures of this program: a host device.
    HostBodies,
    /// Has only kernels that are built in.
    BuiltinOnly,
    /// Has a clock for event profiling.
    Profiling,
}

/// Which memory orders atomic operations may have, strongest that is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AtomicOrders {
    /// Relaxed only.
    Relaxed,
    /// Up to acquire-release.
    AcquireRelease,
    /// Up to sequentially consistent.
    SequentiallyConsistent,
}

/// How far atomic operations may reach, widest that is supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AtomicScopes {
    /// Within a work-group.
    WorkGroup,
    /// Within the device.
    Device,
    /// Across all devices and the host.
    System,
}

/// Numbers that bound what a device takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in one allocation.
    pub allocation: u64,
    /// Bytes that one kernel argument may show.
    pub binding: u64,
    /// The alignment in bytes of the offset at which an argument's range may start.
    pub binding_offset: usize,
    /// Buffer arguments of one kernel.
    pub bindings: usize,
    /// Work-items in one work-group.
    pub work_group_items: usize,
    /// Bytes of local memory for one work-group.
    pub local_memory: usize,
}

impl Default for Limits {
    /// No limits but the address space's: what a host device reports.
    fn default() -> Self {
        Limits {
            allocation: isize::MAX as u64,
            binding: isize::MAX as u64,
            binding_offset: 1,
            bindings: usize::MAX,
            work_group_items: usize::MAX,
            local_memory: usize::MAX,
        }
    }
}

/// Which of a context's memories a device uses. Devices that truly share memory report the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryIndex {
    /// This process's own heap: the device works on [`HostMemory`](crate::HostMemory) in place, and copies nothing.
    Heap,
    /// A memory of the context's own.
    Own(u32),
}

/// One device: what it is called and what it can do.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// The device's name.
    pub name: String,
    /// Who made it.
    pub vendor: String,
    /// The driver's version.
    pub driver: String,
    /// The kind of hardware.
    pub kind: DeviceKind,
    /// An identity of the hardware that is the same in every backend that shows it, where one is known.
    pub physical_id: Option<[u8; 16]>,
    /// Bytes of memory, where the driver tells.
    pub memory_bytes: Option<u64>,
    /// Units that run work-groups at the same time.
    pub compute_units: usize,
    /// Features, sorted.
    pub aspects: Vec<Aspect>,
    /// Memory orders of atomic operations.
    pub atomic_orders: AtomicOrders,
    /// Scopes of atomic operations.
    pub atomic_scopes: AtomicScopes,
    /// What bounds its use.
    pub limits: Limits,
    /// The kernel images it takes, best first.
    pub formats: Vec<ImageFormat>,
    /// The memory it works on.
    pub memory: MemoryIndex,
    /// How many lanes the runtime may open on it in one context.
    pub lanes: usize,
    /// How many groups one lane may hold at a time: below the driver's own limit, since a full driver blocks.
    pub lane_depth: usize,
}

impl DeviceInfo {
    /// Whether the device has a feature.
    pub fn has(&self, aspect: Aspect) -> bool {
        self.aspects.contains(&aspect)
    }
}
