//! What devices there are and what they can do, as plain data.
//!
//! Every description is made by a constructor that takes what each must have, and changed by methods that return it, so
//! that a later edition can add to it without breaking a backend.

use std::borrow::Cow;
use std::fmt;

use windlass_kernel::ImageFormat;

use crate::details::Details;
use crate::pci::PciAddress;

/// A driver's view of the machine: its devices, possibly none.
#[derive(Clone, Debug)]
#[non_exhaustive]
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

impl Platform {
    /// A platform with these devices.
    ///
    /// ```
    /// let platform = windlass_backend::Platform::new("ACME Compute", "ACME", "3.0", Vec::new());
    /// assert_eq!(platform.name, "ACME Compute");
    /// ```
    pub fn new(
        name: impl Into<String>,
        vendor: impl Into<String>,
        version: impl Into<String>,
        devices: Vec<DeviceInfo>,
    ) -> Self {
        Platform { name: name.into(), vendor: vendor.into(), version: version.into(), devices }
    }
}

/// What a backend calls a device: the same text for the same device, however often drivers are asked, and whatever
/// else has appeared or gone meanwhile. A backend that cannot tell two equal cards apart counts them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceKey(Cow<'static, str>);

impl DeviceKey {
    /// A key, unique among the devices of its backend.
    ///
    /// ```
    /// use windlass_backend::DeviceKey;
    /// assert_eq!(DeviceKey::new("0000:3b:00.0").as_str(), "0000:3b:00.0");
    /// ```
    pub fn new(key: impl Into<Cow<'static, str>>) -> Self {
        DeviceKey(key.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
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

impl DeviceKind {
    /// Whether it is a GPU of either kind.
    ///
    /// ```
    /// use windlass_backend::DeviceKind;
    ///
    /// assert!(DeviceKind::IntegratedGpu.is_gpu() && !DeviceKind::Cpu.is_gpu());
    /// ```
    pub fn is_gpu(self) -> bool {
        matches!(self, DeviceKind::IntegratedGpu | DeviceKind::DiscreteGpu)
    }
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
    /// Says when groups started and ended, by a clock of its own: see [`Context::clock`](crate::Context::clock).
    Profiling,
    /// Takes lanes of other than normal [`Priority`](crate::Priority).
    Priorities,
    /// Takes recorded sequences of commands as one: see [`Context::record`](crate::Context::record).
    Sequences,
    /// Takes addresses of memory as kernel arguments: see [`Arg::Pointer`](crate::Arg::Pointer).
    Pointers,
    /// The host may use some bytes of [shared](crate::MemoryKind::Shared) memory while kernels use others of the same buffer.
    FineMemory,
    /// Kernels that find the address of any memory of this process may use it.
    SystemMemory,
    /// Atomic operations on [shared](crate::MemoryKind::Shared) memory are seen by the host and by other devices while kernels run.
    SharedAtomics,
    /// Lets the program's own code call the native API inside a group: see [`Command::Native`](crate::Command::Native).
    NativeCode,
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

/// Numbers that bound what a device takes. The runtime refuses what exceeds one of them when a group is submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Work-groups along one dimension of a launch.
    pub groups_along: usize,
}

impl Limits {
    /// The most bytes in one allocation.
    pub fn allocation(self, bytes: u64) -> Self {
        Limits { allocation: bytes, ..self }
    }

    /// The most bytes that one argument may show, and the alignment of the offset at which its range may start.
    pub fn binding(self, bytes: u64, offset: usize) -> Self {
        Limits { binding: bytes, binding_offset: offset, ..self }
    }

    /// The most buffer arguments of a kernel.
    pub fn bindings(self, count: usize) -> Self {
        Limits { bindings: count, ..self }
    }

    /// The most work-items in one work-group, and the most bytes of local memory that it may have.
    pub fn work_group(self, items: usize, local_memory: usize) -> Self {
        Limits { work_group_items: items, local_memory, ..self }
    }

    /// The most work-groups along one dimension. Launches of `#[kernel]` with more are folded.
    pub fn groups_along(self, groups: usize) -> Self {
        Limits { groups_along: groups, ..self }
    }
}

impl Default for Limits {
    /// No limits but the address space's.
    ///
    /// ```
    /// use windlass_backend::Limits;
    /// let limits = Limits::default().work_group(1024, 48 << 10).bindings(64);
    /// assert_eq!((limits.work_group_items, limits.bindings), (1024, 64));
    /// ```
    fn default() -> Self {
        Limits {
            allocation: isize::MAX as u64,
            binding: isize::MAX as u64,
            binding_offset: 1,
            bindings: usize::MAX,
            work_group_items: usize::MAX,
            local_memory: usize::MAX,
            groups_along: usize::MAX,
        }
    }
}

/// Which of a context's memories a device uses. Devices that truly share memory report the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MemoryIndex {
    /// This process's own heap: the device works in place on [`HostMemory`](crate::HostMemory), and on any other memory that the
    /// host reaches, such as what another context has pinned. It copies nothing.
    Heap,
    /// A memory of the context's own, by its position in [`ContextInfo::memories`](crate::ContextInfo::memories).
    Own(u32),
}

/// How many commands and reports a lane may hold before a native call could block. Both numbers are the driver's, less a
/// margin.
///
/// ```
/// use windlass_backend::LaneDepth;
/// // A driver that queues 1,021 launches, but only 56 whose end a thread can sleep for.
/// let depth = LaneDepth::new(896, 48);
/// assert_eq!((depth.commands, depth.reports), (896, 48));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneDepth {
    /// Native commands in flight. A group of more commands than this is fed alone, to an empty lane.
    pub commands: usize,
    /// Groups in flight that report: fed with [`Group::report`](crate::Group::report), or armed later.
    pub reports: usize,
}

impl LaneDepth {
    /// So many commands, and so many groups that report; each one at least.
    pub const fn new(commands: usize, reports: usize) -> Self {
        LaneDepth {
            commands: if commands == 0 { 1 } else { commands },
            reports: if reports == 0 { 1 } else { reports },
        }
    }
}

/// One device: what it is called and what it can do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// What the backend calls it for good.
    pub key: DeviceKey,
    /// The device's name.
    pub name: String,
    /// Who made it.
    pub vendor: String,
    /// The driver's version.
    pub driver: String,
    /// The kind of hardware.
    pub kind: DeviceKind,
    /// The hardware's own identity, which Vulkan calls `deviceUUID`: the same in every backend that tells it.
    pub physical_id: Option<[u8; 16]>,
    /// Where it is plugged in: the same in every backend that tells it.
    pub pci: Option<PciAddress>,
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
    /// The names of the kernels that it has built in.
    pub builtin_kernels: Vec<String>,
    /// What its native API calls the extensions and features that it has, sorted.
    pub extensions: Vec<String>,
    /// What else its driver tells of the hardware.
    pub details: Details,
    /// The memory it works on.
    pub memory: MemoryIndex,
    /// Other memories of its context that its commands may use in place, those that suit it best first: where the runtime keeps
    /// what is to stay in a memory of some [kind](crate::MemoryKind). Each belongs to one of the context's devices, or to several
    /// that have it in common.
    pub reaches: Vec<MemoryIndex>,
    /// How many lanes for computing the runtime may open on it in one context.
    pub lanes: usize,
    /// How many more it may open that only copy, beside those that compute.
    pub copy_lanes: usize,
    /// What one lane may hold at a time.
    pub depth: LaneDepth,
}

impl DeviceInfo {
    /// A device with one lane, no aspects and no limits, which takes no kernels; the rest is said by the methods.
    ///
    /// ```
    /// use windlass_backend::{Aspect, DeviceInfo, DeviceKind, LaneDepth, MemoryIndex};
    /// let info = DeviceInfo::new("gpu-0", "ACME 9000", DeviceKind::DiscreteGpu, MemoryIndex::Own(0))
    ///     .made_by("ACME", "470.1")
    ///     .aspects([Aspect::Fp64, Aspect::Fp16])
    ///     .lanes(4, LaneDepth::new(512, 64))
    ///     .copy_lanes(2);
    /// assert!(info.has(Aspect::Fp16) && info.lanes == 4);
    /// ```
    pub fn new(
        key: impl Into<Cow<'static, str>>,
        name: impl Into<String>,
        kind: DeviceKind,
        memory: MemoryIndex,
    ) -> Self {
        DeviceInfo {
            key: DeviceKey::new(key),
            name: name.into(),
            vendor: String::new(),
            driver: String::new(),
            kind,
            physical_id: None,
            pci: None,
            memory_bytes: None,
            compute_units: 1,
            aspects: Vec::new(),
            atomic_orders: AtomicOrders::Relaxed,
            atomic_scopes: AtomicScopes::Device,
            limits: Limits::default(),
            formats: Vec::new(),
            builtin_kernels: Vec::new(),
            extensions: Vec::new(),
            details: Details::new(),
            memory,
            reaches: Vec::new(),
            lanes: 1,
            copy_lanes: 0,
            depth: LaneDepth::new(64, 64),
        }
    }

    /// Its vendor, and its driver's version.
    pub fn made_by(self, vendor: impl Into<String>, driver: impl Into<String>) -> Self {
        DeviceInfo { vendor: vendor.into(), driver: driver.into(), ..self }
    }

    /// The hardware: its identity across backends, its bytes of memory, and the units that run work-groups.
    pub fn hardware(
        self,
        physical_id: Option<[u8; 16]>,
        memory_bytes: Option<u64>,
        compute_units: usize,
    ) -> Self {
        DeviceInfo { physical_id, memory_bytes, compute_units, ..self }
    }

    /// Its place on the machine's bus, by which it is known in other backends that do not tell the same identity.
    pub fn pci(self, pci: Option<PciAddress>) -> Self {
        DeviceInfo { pci, ..self }
    }

    /// Its features, in any order.
    pub fn aspects(self, aspects: impl IntoIterator<Item = Aspect>) -> Self {
        let mut aspects: Vec<Aspect> = aspects.into_iter().collect();
        aspects.sort();
        aspects.dedup();
        DeviceInfo { aspects, ..self }
    }

    /// Orders and scopes of atomic operations: relaxed and within the device unless said.
    pub fn atomics(self, orders: AtomicOrders, scopes: AtomicScopes) -> Self {
        DeviceInfo { atomic_orders: orders, atomic_scopes: scopes, ..self }
    }

    /// What bounds its use.
    pub fn limits(self, limits: Limits) -> Self {
        DeviceInfo { limits, ..self }
    }

    /// The kernel images it takes, best first.
    pub fn formats(self, formats: impl IntoIterator<Item = ImageFormat>) -> Self {
        DeviceInfo { formats: formats.into_iter().collect(), ..self }
    }

    /// The names of the kernels that it has built in.
    pub fn builtin_kernels(self, names: impl IntoIterator<Item = String>) -> Self {
        DeviceInfo { builtin_kernels: names.into_iter().collect(), ..self }
    }

    /// What its native API calls the extensions and features that it has, in any order.
    pub fn extensions(self, names: impl IntoIterator<Item = String>) -> Self {
        let mut extensions: Vec<String> = names.into_iter().collect();
        extensions.sort_unstable();
        DeviceInfo { extensions, ..self }
    }

    /// What else is known of the hardware.
    pub fn details(self, details: Details) -> Self {
        DeviceInfo { details, ..self }
    }

    /// The memory it works on, where a context numbers memories otherwise than discovery did.
    pub fn memory(self, memory: MemoryIndex) -> Self {
        DeviceInfo { memory, ..self }
    }

    /// Other memories of its context that it uses in place, those that suit it best first.
    pub fn reaches(self, reaches: impl IntoIterator<Item = MemoryIndex>) -> Self {
        DeviceInfo { reaches: reaches.into_iter().collect(), ..self }
    }

    /// How many lanes it has for computing, and what one may hold.
    pub fn lanes(self, lanes: usize, depth: LaneDepth) -> Self {
        DeviceInfo { lanes: lanes.max(1), depth, ..self }
    }

    /// How many lanes it has beside those that only copy.
    pub fn copy_lanes(self, copy_lanes: usize) -> Self {
        DeviceInfo { copy_lanes, ..self }
    }

    /// Whether the device has a feature.
    pub fn has(&self, aspect: Aspect) -> bool {
        self.aspects.contains(&aspect)
    }
}
