//! What the devices are like.

use std::time::Duration;

use windlass_backend::{
    Aspect, AtomicOrders, AtomicScopes, BackendId, CompletionStrategy, Contents, ContextInfo, DeviceInfo,
    DeviceKey, DeviceKind, DomainId, HostAccess, ImageLimits, LaneDepth, Limits, MemoryIndex, MemoryInfo,
    MemoryKind, NativeApi, Platform,
};
use windlass_kernel::ImageFormat;
use windlass_kernel::texel::TexelFormat;

use crate::Faulty;

/// The memory that a device works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// This process's heap, in place.
    Heap,
    /// Its own, which the host cannot reach: data moves by copies, and between contexts through staging.
    Own,
    /// Its own, which the host can reach.
    Visible,
    /// Out of the host's reach, and the same for all devices of a context that say so.
    Shared,
}

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) id: BackendId,
    pub(crate) devices: Vec<Memory>,
    pub(crate) lanes: usize,
    pub(crate) copy_lanes: usize,
    pub(crate) depth: LaneDepth,
    pub(crate) auto: bool,
    pub(crate) feeds_from_sink: bool,
    pub(crate) allocate_blocks: bool,
    /// Most bytes of a copy from and to foreign host memory that do not block.
    pub(crate) pageable: (usize, usize),
    /// Whether all contexts are of one domain.
    pub(crate) one_domain: bool,
    /// What fresh memory holds.
    pub(crate) fresh: Contents,
    /// What all devices of a context reach beside their own memory.
    pub(crate) reaches: Vec<(MemoryKind, HostAccess)>,
    /// The alignment of host memory that those take over.
    pub(crate) imports: Option<usize>,
    /// What buffers let go of is kept for the next ones.
    pub(crate) keeps_freed: bool,
    /// The alignment of pieces that are made of that.
    pub(crate) pieces: Option<usize>,
    /// Devices' own memory holds images.
    pub(crate) images: bool,
    /// Devices' own memory is allocated in order with what they do.
    pub(crate) stream_ordered: bool,
    pub(crate) aspects: Vec<Aspect>,
    pub(crate) limits: Limits,
    pub(crate) truly_waits: bool,
    /// For how long waiters look by themselves.
    pub(crate) waiters_look: Duration,
    pub(crate) reports_at_leisure: bool,
    pub(crate) fed_aside: bool,
    /// What each device's own memory is said to have.
    pub(crate) memory_bytes: u64,
}

/// The images that memory with images holds.
const IMAGES: ImageLimits = ImageLimits::new([2048, 16384, 16384])
    .format(TexelFormat::Rgba8Unorm)
    .format(TexelFormat::R32Uint)
    .format(TexelFormat::R32Float);

/// A [`Faulty`] to be built: one device with memory of its own, two lanes of depth 64, unless more is said.
#[derive(Debug)]
pub struct FaultyBuilder {
    config: Config,
}

impl Default for FaultyBuilder {
    fn default() -> Self {
        let id = BackendId::new(<Faulty as NativeApi>::BACKEND);
        let devices = Vec::new();
        let config = Config {
            id,
            devices,
            lanes: 2,
            copy_lanes: 0,
            depth: LaneDepth::new(64, 64),
            auto: false,
            feeds_from_sink: true,
            allocate_blocks: false,
            pageable: (usize::MAX, usize::MAX),
            one_domain: false,
            fresh: Contents::Any,
            reaches: Vec::new(),
            imports: None,
            keeps_freed: false,
            pieces: None,
            images: false,
            stream_ordered: false,
            aspects: Vec::new(),
            limits: Limits::default(),
            truly_waits: false,
            waiters_look: Duration::ZERO,
            reports_at_leisure: false,
            fed_aside: false,
            memory_bytes: 1 << 40,
        };
        FaultyBuilder { config }
    }
}

impl FaultyBuilder {
    /// Another name, for runtimes with several of these.
    pub fn id(mut self, id: &str) -> Self {
        self.config.id = BackendId::from(id.to_owned());
        self
    }

    /// Adds a device.
    pub fn device(mut self, memory: Memory) -> Self {
        self.config.devices.push(memory);
        self
    }

    /// Lanes of each device.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.config.lanes = lanes;
        self
    }

    /// How many commands one lane may hold, and as many groups that report.
    pub fn depth(self, depth: usize) -> Self {
        self.depths(depth, depth)
    }

    /// How many commands one lane may hold, and how many groups that report.
    pub fn depths(mut self, commands: usize, reports: usize) -> Self {
        self.config.depth = LaneDepth::new(commands, reports);
        self
    }

    /// Lanes of each device that only copy, beside the others.
    pub fn copy_lanes(mut self, lanes: usize) -> Self {
        self.config.copy_lanes = lanes;
        self
    }

    /// All contexts are of one domain: they wait for each other's lanes, and copy each other's memory.
    pub fn one_domain(mut self) -> Self {
        self.config.one_domain = true;
        self
    }

    /// Fresh memory reads as zeros, as the system's pages do. Unless this is said it holds rubbish.
    pub fn zeroed_memory(mut self) -> Self {
        self.config.fresh = Contents::Zeroed;
        self
    }

    /// A memory of this kind, which all devices of a context reach beside their own.
    pub fn reaches(mut self, kind: MemoryKind, host: HostAccess) -> Self {
        self.config.reaches.push((kind, host));
        self
    }

    /// The memories that devices reach beside their own take over host memory that is aligned to so many bytes.
    pub fn imports(mut self, alignment: usize) -> Self {
        self.config.imports = Some(alignment);
        self
    }

    /// What buffers let go of in devices' own memory is kept for the next ones, in runtimes with threads.
    pub fn keeps_freed(mut self) -> Self {
        self.config.keeps_freed = true;
        self
    }

    /// The same, and pieces of it are lent, which start at multiples of so many bytes.
    pub fn keeps_in_pieces(mut self, alignment: usize) -> Self {
        self.config.pieces = Some(alignment);
        self.keeps_freed()
    }

    /// Memory out of the host's reach holds images, with gaps between their rows.
    pub fn images(mut self) -> Self {
        self.config.images = true;
        self
    }

    /// Memory out of the host's reach is there when a stream for it has come so far, and lanes wait for it; to free it waits for
    /// nobody.
    pub fn stream_ordered_memory(mut self) -> Self {
        self.config.stream_ordered = true;
        self
    }

    /// A feature of all devices.
    pub fn aspect(mut self, aspect: Aspect) -> Self {
        self.config.aspects.push(aspect);
        self
    }

    /// What bounds the use of all devices.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Says that builds are futures which wait and never block.
    pub fn truly_waits(mut self) -> Self {
        self.config.truly_waits = true;
        self
    }

    /// Two GPUs as CUDA shows them: streams of 1,021 commands of which 56 may report, copy engines, one domain with direct
    /// copies, stream-ordered memory with any contents, images, pinned and managed memory, pointers, a clock, priorities, graphs,
    /// native code; waiters look for 50 us, what nobody waits for is reported at leisure, and lanes are fed aside; uploads of up to 64 KiB out of pageable memory return at once, downloads into it never do, and frees of pinned
    /// memory, builds and pinning block while a kernel runs.
    pub fn like_cuda(self) -> Self {
        let limits = Limits::default().work_group(1024, 48 << 10);
        self.device(Memory::Own)
            .device(Memory::Own)
            .lanes(4)
            .copy_lanes(2)
            .depths(1021, 56)
            .one_domain()
            .reports_by_callback()
            .waiters_look(Duration::from_micros(50))
            .reports_at_leisure()
            .fed_aside()
            .pageable_limits(64 << 10, 0)
            .limits(limits)
            .reaches(MemoryKind::Host, HostAccess::Coherent)
            .reaches(MemoryKind::Shared, HostAccess::Coherent)
            .imports(1)
            .images()
            .stream_ordered_memory()
            .aspect(Aspect::Pointers)
            .aspect(Aspect::Profiling)
            .aspect(Aspect::Priorities)
            .aspect(Aspect::Sequences)
            .aspect(Aspect::NativeCode)
    }

    /// Its lanes report at leisure what nobody waits for.
    pub fn reports_at_leisure(mut self) -> Self {
        self.config.reports_at_leisure = true;
        self
    }

    /// While a device has enough to do, its lanes are fed by others than those who submit.
    pub fn fed_aside(mut self) -> Self {
        self.config.fed_aside = true;
        self
    }

    /// Says that each device has so much memory of its own. What it really gives is up to its script.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.config.memory_bytes = bytes;
        self
    }

    /// Waiters look by themselves for so long.
    pub fn waiters_look(mut self, long: Duration) -> Self {
        self.config.waiters_look = long;
        self
    }

    /// Runs what it is fed at once, on the thread that feeds it: a device that needs no control.
    pub fn auto(mut self) -> Self {
        self.config.auto = true;
        self
    }

    /// Reports as a driver's callback would: the runtime may make no native calls from there.
    pub fn reports_by_callback(mut self) -> Self {
        self.config.feeds_from_sink = false;
        self
    }

    /// Says that its allocations may block, so that they are made off every path that must not.
    pub fn slow_allocate(mut self) -> Self {
        self.config.allocate_blocks = true;
        self
    }

    /// Says that copies with host memory that a context did not allocate block whoever feeds them.
    pub fn slow_pageable_copies(self) -> Self {
        self.pageable_limits(0, 0)
    }

    /// Up to how many bytes copies from and to foreign host memory do not block.
    pub fn pageable_limits(mut self, upload: usize, download: usize) -> Self {
        self.config.pageable = (upload, download);
        self
    }

    /// The backend.
    pub fn build(mut self) -> Faulty {
        if self.config.devices.is_empty() {
            self.config.devices.push(Memory::Own);
        }
        Faulty::new(self.config)
    }
}

impl Config {
    pub(crate) fn platform(&self) -> Platform {
        let devices = (0..self.devices.len()).map(|at| self.device(at, MemoryIndex::Own(0))).collect();
        Platform::new("scripted devices", "windlass", env!("CARGO_PKG_VERSION"), devices)
    }

    /// The position of the device that is called so.
    pub(crate) fn position(&self, key: &DeviceKey) -> Option<usize> {
        (0..self.devices.len()).find(|at| Self::key(*at) == key.as_str())
    }

    fn key(at: usize) -> String {
        format!("faulty-{at}")
    }

    /// What kernels its devices take.
    fn format(&self) -> ImageFormat {
        match self.aspects.contains(&Aspect::BuiltinOnly) {
            true => ImageFormat::Builtin,
            false => ImageFormat::Host,
        }
    }

    /// What a device says of itself; `own` is its memory, where that is not the heap.
    fn device(&self, at: usize, own: MemoryIndex) -> DeviceInfo {
        let on_host = matches!(self.devices[at], Memory::Heap | Memory::Visible);
        let host_bodies = on_host.then_some(Aspect::HostBodies);
        let memory = if self.devices[at] == Memory::Heap { MemoryIndex::Heap } else { own };
        DeviceInfo::new(Self::key(at), format!("faulty {at}"), DeviceKind::Other, memory)
            .made_by("windlass", env!("CARGO_PKG_VERSION"))
            .hardware(None, Some(1 << 30), 1)
            .aspects(self.aspects.iter().copied().chain(host_bodies))
            .atomics(AtomicOrders::SequentiallyConsistent, AtomicScopes::System)
            .limits(self.limits)
            .formats([self.format()])
            .lanes(self.lanes, self.depth)
            .copy_lanes(self.copy_lanes)
    }

    fn memory(&self) -> MemoryInfo {
        let memory = MemoryInfo::new().fresh(self.fresh);
        if self.aspects.contains(&Aspect::Pointers) { memory.addressed() } else { memory }
    }

    /// A context over the devices at these positions. Devices that share memory come first to the first such memory.
    pub(crate) fn context(&self, devices: &[usize]) -> ContextInfo {
        let (mut memories, mut shared) = (Vec::new(), None);
        let mut infos: Vec<DeviceInfo> = Vec::new();
        for &at in devices {
            let mut add = |host| {
                let memory = self.memory().host(host).bytes(Some(self.memory_bytes));
                let memory = if self.keeps_freed { memory.kept() } else { memory };
                let memory = self.pieces.map_or(memory, |alignment| memory.pieces(alignment));
                let holds_images = self.images && host == HostAccess::None;
                memories.push(if holds_images { memory.images(IMAGES) } else { memory });
                MemoryIndex::Own(memories.len() as u32 - 1)
            };
            let own = match self.devices[at] {
                Memory::Heap => MemoryIndex::Heap,
                Memory::Own => add(HostAccess::None),
                Memory::Visible => add(HostAccess::Coherent),
                Memory::Shared => *shared.get_or_insert_with(|| add(HostAccess::None)),
            };
            infos.push(self.device(at, own));
        }
        let mut reached = Vec::new();
        for &(kind, host) in &self.reaches {
            let memory = self.memory().host(host).kind(kind);
            reached.push(MemoryIndex::Own(memories.len() as u32));
            memories.push(self.imports.map_or(memory, |alignment| memory.imports(alignment)));
        }
        let infos = infos.into_iter().map(|info| info.reaches(reached.clone())).collect();
        // A device on the heap may be asked for memory of its own: a context of the user's has some.
        memories.push(MemoryInfo::new().fresh(self.fresh).host(HostAccess::Coherent));
        let mut info = ContextInfo::new(infos, memories)
            .completions([CompletionStrategy::Callback, CompletionStrategy::Waiter])
            .pageable_limits(self.pageable.0, self.pageable.1)
            .waiters_look(self.waiters_look);
        if self.one_domain {
            info = info.domain(DomainId(7));
        }
        if self.reports_at_leisure {
            info = info.reports_at_leisure();
        }
        if self.fed_aside {
            info = info.fed_aside();
        }
        if self.feeds_from_sink {
            info = info.feeds_from_sink();
        }
        if !self.allocate_blocks {
            info = info.allocates_at_once();
        }
        if self.truly_waits {
            info = info.truly_waits();
        }
        info
    }
}
