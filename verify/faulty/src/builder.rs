//! What the devices are like.

use windlass_backend::{
    Aspect, AtomicOrders, AtomicScopes, BackendId, DeviceInfo, DeviceKind, Limits, MemoryIndex, Platform,
};
use windlass_kernel::ImageFormat;

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

/// The one memory of all devices with [`Memory::Shared`].
const SHARED: u32 = 1000;

#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) id: BackendId,
    pub(crate) devices: Vec<Memory>,
    pub(crate) lanes: usize,
    pub(crate) depth: usize,
    pub(crate) auto: bool,
    pub(crate) feeds_from_sink: bool,
    pub(crate) allocate_blocks: bool,
    pub(crate) pageable_copies_block: bool,
}

/// A [`Faulty`] to be built: one device with memory of its own, two lanes of depth 64, unless more is said.
#[derive(Debug)]
pub struct FaultyBuilder {
    config: Config,
}

impl Default for FaultyBuilder {
    fn default() -> Self {
        let id = BackendId::new("faulty");
        let devices = Vec::new();
        let config = Config {
            id,
            devices,
            lanes: 2,
            depth: 64,
            auto: false,
            feeds_from_sink: true,
            allocate_blocks: false,
            pageable_copies_block: false,
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

    /// How much one lane may hold.
    pub fn depth(mut self, depth: usize) -> Self {
        self.config.depth = depth;
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
    pub fn slow_pageable_copies(mut self) -> Self {
        self.config.pageable_copies_block = true;
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
        Platform {
            name: "scripted devices".into(),
            vendor: "windlass".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            devices: (0..self.devices.len()).map(|at| self.info(at, at)).collect(),
        }
    }

    /// What a device says of itself at this position of a context.
    pub(crate) fn info(&self, at: usize, position: usize) -> DeviceInfo {
        let memory = self.devices[at];
        let on_host = matches!(memory, Memory::Heap | Memory::Visible);
        DeviceInfo {
            name: format!("faulty {at}"),
            vendor: "windlass".into(),
            driver: env!("CARGO_PKG_VERSION").into(),
            kind: DeviceKind::Other,
            physical_id: None,
            memory_bytes: Some(1 << 30),
            compute_units: 1,
            aspects: on_host.then_some(Aspect::HostBodies).into_iter().collect(),
            atomic_orders: AtomicOrders::SequentiallyConsistent,
            atomic_scopes: AtomicScopes::System,
            limits: Limits::default(),
            formats: vec![ImageFormat::Host],
            memory: match memory {
                Memory::Heap => MemoryIndex::Heap,
                Memory::Own | Memory::Visible => MemoryIndex::Own(position as u32),
                Memory::Shared => MemoryIndex::Own(SHARED),
            },
            lanes: self.lanes,
            lane_depth: self.depth,
        }
    }
}
