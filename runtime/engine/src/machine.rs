//! What there is to work with: contexts, devices, memories, lanes.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::ids::{ContextId, DeviceId, DomainId, LaneId, MemoryId};
use super::{Engine, HEAP, NodeId, Place, Realm, RootId, Shell};

pub(super) struct Device {
    pub(super) context: ContextId,
    pub(super) memory: MemoryId,
    pub(super) lanes: SmallVec<[LaneId; 2]>,
    /// Those that copy and clear, and do nothing else; transfers go there if there are any.
    pub(super) copy_lanes: SmallVec<[LaneId; 2]>,
    /// Its lanes report at leisure what nobody waits for.
    pub(super) at_leisure: bool,
    /// How many wait for what it has under way as a whole.
    pub(super) hurried: usize,
}

impl Device {
    fn new(context: ContextId, memory: MemoryId) -> Self {
        let (lanes, copy_lanes) = (SmallVec::new(), SmallVec::new());
        Device { context, memory, lanes, copy_lanes, at_leisure: false, hurried: 0 }
    }

    pub(super) fn all_lanes(&self) -> impl Iterator<Item = LaneId> {
        self.lanes.iter().chain(&self.copy_lanes).copied()
    }
}

/// What is known of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryTraits {
    /// The host can read and write it directly.
    pub addressable: bool,
    /// The host reads and writes it while it is mapped. Only what stays there for good is in such a memory.
    pub mapped: bool,
    /// A fresh allocation reads as zeros.
    pub zeroed: bool,
    /// Copies of more bytes than this out of foreign host memory go through staging.
    pub upload_limit: usize,
    /// Copies of more bytes than this into foreign host memory go through staging.
    pub download_limit: usize,
}

impl MemoryTraits {
    /// The process's own memory.
    pub fn heap() -> Self {
        MemoryTraits {
            addressable: true,
            mapped: false,
            zeroed: true,
            upload_limit: usize::MAX,
            download_limit: usize::MAX,
        }
    }
}

/// What a lane may hold at a time: commands, and groups that report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Commands in flight. A group of more than this many is fed alone.
    pub commands: u32,
    /// Groups in flight that are to report.
    pub reports: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Memory {
    /// The context that it belongs to; the heap belongs to none, nor does what is aside.
    pub(super) context: Option<ContextId>,
    /// A device that works on this memory, for transfers to run on; those of the host may have none.
    pub(super) device: Option<DeviceId>,
    pub(super) traits: MemoryTraits,
    /// How many roots have an allocation here, or have asked for one.
    pub(super) slots: u32,
    /// So many bytes may be replaced before it is counted again whether those that lack room here get enough of it otherwise.
    pub(super) spare: usize,
}

impl Memory {
    pub(super) fn new(context: Option<ContextId>, traits: MemoryTraits) -> Self {
        Memory { context, device: None, traits, slots: 0, spare: 0 }
    }
}

pub(super) struct Context<C> {
    pub(super) domain: DomainId,
    pub(super) lost: Option<C>,
    /// It is given up, or is about to be: see [`Engine::will_abandon`](super::Engine::will_abandon).
    pub(super) hangs: bool,
}

pub(super) struct Lane {
    pub(super) device: DeviceId,
    pub(super) depth: Depth,
    /// Groups that are ready to be fed, with their weights.
    pub(super) list: VecDeque<(NodeId, u32)>,
    pub(super) in_flight: VecDeque<Flight>,
    /// The commands of all that is in flight, and how many of those groups report.
    pub(super) weight: u32,
    pub(super) reports: u32,
    /// Commands that were fed since the last group that reports.
    pub(super) silent: u32,
    /// The host waits for a group in flight that does not report, because the budget of reports was used up.
    pub(super) owes_reports: bool,
    pub(super) last_point: u64,
    pub(super) passed: u64,
    /// The last point that reports for the lane's own sake.
    pub(super) sentinel: u64,
    /// A thread holds the feed token: it takes nodes from the list and makes their native calls.
    pub(super) held: bool,
}

/// A group that a lane has been given, and that no verdict has covered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) point: u64,
    pub(super) node: NodeId,
    pub(super) weight: u32,
    pub(super) report: Report,
}

/// Whether a group in flight reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Report {
    /// It does not, and has not been asked to.
    No,
    /// It has been asked to, when the budget of reports was used up.
    Owed,
    /// It does, for the lane's own sake, and may take its time.
    AtLeisure,
    /// It does.
    Yes,
}

impl Report {
    /// Whether it is one of those that the budget is for.
    pub(super) fn is_out(self) -> bool {
        matches!(self, Report::AtLeisure | Report::Yes)
    }
}

impl<S: Shell> Engine<S> {
    /// A set of contexts whose lanes wait for each other natively.
    pub fn add_domain(&mut self) -> DomainId {
        self.domains += 1;
        DomainId(self.domains - 1)
    }

    /// A native context of a domain.
    pub fn add_context(&mut self, domain: DomainId) -> ContextId {
        self.contexts.push(Context { domain, lost: None, hangs: false });
        ContextId((self.contexts.len() - 1) as u32)
    }

    /// A memory of a context.
    pub fn add_memory(&mut self, context: ContextId, traits: MemoryTraits) -> MemoryId {
        self.memories.push(Memory::new(Some(context), traits));
        MemoryId((self.memories.len() - 1) as u32)
    }

    /// Lanes of devices that work in `to` copy from `from` by themselves; both are of one domain.
    pub fn add_link(&mut self, from: MemoryId, to: MemoryId) {
        self.links.insert((from, to));
    }

    /// A device of a context, which works in this memory.
    pub fn add_device(&mut self, context: ContextId, memory: MemoryId) -> DeviceId {
        let id = DeviceId(self.devices.len() as u32);
        self.devices.push(Device::new(context, memory));
        self.add_reach(id, memory);
        // Transfers of a memory go to a device whose own memory it is, even if another could reach it before.
        let of = self.memories[memory.0 as usize].device;
        if of.is_some_and(|of| self.devices[of.0 as usize].memory != memory) {
            self.memories[memory.0 as usize].device = Some(id);
        }
        id
    }

    /// A device works in this memory as well, on what stays there for good.
    pub fn add_reach(&mut self, device: DeviceId, memory: MemoryId) {
        let there = self.memories[memory.0 as usize].device;
        if there.is_none_or(|device| self.lost(device).is_some()) {
            self.memories[memory.0 as usize].device = Some(device);
        }
    }

    /// The same device once more, for lanes that work in another way.
    pub fn add_lane_group(&mut self, device: DeviceId) -> DeviceId {
        let id = DeviceId(self.devices.len() as u32);
        let Device { context, memory, at_leisure, .. } = self.devices[device.0 as usize];
        self.devices.push(Device { at_leisure, ..Device::new(context, memory) });
        id
    }

    /// Lanes of this device report at leisure what nobody waits for.
    pub fn report_at_leisure(&mut self, device: DeviceId) {
        self.devices[device.0 as usize].at_leisure = true;
    }

    /// A lane of a device.
    pub fn add_lane(&mut self, device: DeviceId, depth: Depth) -> LaneId {
        let id = self.new_lane(device, depth);
        self.devices[device.0 as usize].lanes.push(id);
        id
    }

    /// A lane of a device that copies and clears, and does nothing else.
    pub fn add_copy_lane(&mut self, device: DeviceId, depth: Depth) -> LaneId {
        let id = self.new_lane(device, depth);
        self.devices[device.0 as usize].copy_lanes.push(id);
        id
    }

    fn new_lane(&mut self, device: DeviceId, depth: Depth) -> LaneId {
        let id = LaneId(self.lanes.len() as u32);
        self.lanes.push(Lane {
            device,
            depth,
            list: VecDeque::new(),
            in_flight: VecDeque::new(),
            weight: 0,
            reports: 0,
            silent: 0,
            owes_reports: false,
            last_point: 0,
            passed: 0,
            sentinel: 0,
            held: false,
        });
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
            Place::Device(d) => {
                let context = self.devices[d.0 as usize].context;
                Realm::Domain(self.contexts[context.0 as usize].domain)
            }
        }
    }

    /// Where a root is used by what runs in this place.
    pub(super) fn memory_of(&self, place: Place, root: RootId) -> MemoryId {
        match (self.roots[root].home, place) {
            (Some(home), _) => home,
            (None, Place::Host) => HEAP,
            (None, Place::Device(d)) => self.device_memory(d),
        }
    }
}
