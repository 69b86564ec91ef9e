//! What there is to work with: contexts, devices, memories, lanes.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::ids::{ContextId, DeviceId, LaneId, MemoryId};
use super::{Engine, HEAP, NodeId, Place, Realm, Shell};

pub(super) struct Device {
    pub(super) context: ContextId,
    pub(super) memory: MemoryId,
    /// Among the devices of its context.
    pub(super) position: usize,
    pub(super) lanes: SmallVec<[LaneId; 2]>,
}

pub(super) struct Memory {
    /// A device that works on this memory, for transfers to run on; the heap may have none.
    pub(super) device: Option<DeviceId>,
    /// The host can read and write it directly.
    pub(super) addressable: bool,
    /// Copies between it and host memory of others go through staging of its own.
    pub(super) staged: bool,
    /// How many roots have an allocation here, or have asked for one.
    pub(super) slots: u32,
}

impl Memory {
    pub(super) fn new(addressable: bool) -> Self {
        Memory { device: None, addressable, staged: false, slots: 0 }
    }
}

pub(super) struct Context<C> {
    pub(super) lost: Option<C>,
}

pub(super) struct Lane {
    pub(super) device: DeviceId,
    pub(super) depth: usize,
    pub(super) list: VecDeque<NodeId>,
    pub(super) in_flight: VecDeque<(u64, NodeId)>,
    pub(super) last_point: u64,
    pub(super) passed: u64,
    /// The last point that was armed for the lane's own sake.
    pub(super) sentinel: u64,
    /// Somebody holds the feed token: takes nodes from the list and makes their native calls.
    pub(super) held: bool,
}

impl<S: Shell> Engine<S> {
    /// A native context.
    pub fn add_context(&mut self) -> ContextId {
        self.contexts.push(Context { lost: None });
        ContextId((self.contexts.len() - 1) as u32)
    }

    /// A memory, and whether the host reads and writes it directly.
    pub fn add_memory(&mut self, addressable: bool) -> MemoryId {
        self.memories.push(Memory::new(addressable));
        MemoryId((self.memories.len() - 1) as u32)
    }

    /// Copies between this memory, which the host does not reach, and host memory go through staging.
    pub fn stage_host_copies(&mut self, memory: MemoryId) {
        self.memories[memory.0 as usize].staged = true;
    }

    /// A device of a context, which works in this memory.
    pub fn add_device(&mut self, context: ContextId, memory: MemoryId) -> DeviceId {
        let id = DeviceId(self.devices.len() as u32);
        let position = self.devices.iter().filter(|d| d.context == context).count();
        self.devices.push(Device { context, memory, position, lanes: SmallVec::new() });
        let there = self.memories[memory.0 as usize].device;
        if there.is_none_or(|device| self.lost(device).is_some()) {
            self.memories[memory.0 as usize].device = Some(id);
        }
        id
    }

    /// The same device once more, for lanes that work in another way.
    pub fn add_twin(&mut self, device: DeviceId) -> DeviceId {
        let id = DeviceId(self.devices.len() as u32);
        let Device { context, memory, position, .. } = self.devices[device.0 as usize];
        self.devices.push(Device { context, memory, position, lanes: SmallVec::new() });
        id
    }

    /// A lane of a device, on which at most `depth` groups are in flight.
    pub fn add_lane(&mut self, device: DeviceId, depth: usize) -> LaneId {
        let id = LaneId(self.lanes.len() as u32);
        self.lanes.push(Lane {
            device,
            depth,
            list: VecDeque::new(),
            in_flight: VecDeque::new(),
            last_point: 0,
            passed: 0,
            sentinel: 0,
            held: false,
        });
        self.devices[device.0 as usize].lanes.push(id);
        id
    }

    /// The memory that a device works in.
    pub fn device_memory(&self, device: DeviceId) -> MemoryId {
        self.devices[device.0 as usize].memory
    }

    /// Why a device's context is lost, if it is.
    pub fn lost(&self, device: DeviceId) -> Option<&S::Cause> {
        self.contexts[self.devices[device.0 as usize].context.0 as usize].lost.as_ref()
    }

    pub(super) fn realm(&self, place: Place) -> Realm {
        match place {
            Place::Host => Realm::Host,
            Place::Device(d) => Realm::Context(self.devices[d.0 as usize].context),
        }
    }

    pub(super) fn memory_of(&self, place: Place) -> MemoryId {
        match place {
            Place::Host => HEAP,
            Place::Device(d) => self.device_memory(d),
        }
    }
}
