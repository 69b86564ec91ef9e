//! The engine decides: which group waits for which, which bytes move, which lane runs what, what fails with what.
//!
//! It is tables of typed ids and nothing else: no threads, no clock, no atomics, no device handles, no user code. The
//! shell calls it under one lock with what happened (*planned / opened / fed / passed / cancelled*) and works off the
//! [`Turn`] it fills, after letting go of it.
//!
//! # Nodes
//!
//! A node is a group, a step of a transfer, a host task, or a host accessor's guard. Its life:
//!
//! 1. *Gated*: `gates` counts what keeps it from being queued: predecessors that need the host (through a proxy),
//!    predecessors in its own context that have not been fed, an outside future, memory to come.
//! 2. *Queued*: on its lane's feed list. Everything it waits for natively has been fed, or stands before it in this
//!    list. Host-side nodes have no lane: when their last gate opens, the shell is told to start them.
//! 3. *Feeding*, then *fed*: it has a point; the shell is making, then has made, the native call.
//! 4. *Passed*: its lane's verdict covers it, but not yet the verdicts of all that it read (`unsettled`).
//! 5. Settled: gone from the table. What it wrote is marked, those that wait are opened or doomed, its event resolves.
//!
//! A node that is cancelled or doomed (something it reads has failed) takes the same path with an empty command list:
//! others rely on the order *through* it, so it must not leave early.
//!
//! # Data
//!
//! A root buffer is a partition into [`cells`]: boxes with one history. A cell knows its newest version (who
//! wrote it, whether it is poisoned) and each replica's state (valid or stale, last writer, epochs of readers since).
//! Versions carry data and failure; replicas carry hazards. Validity advances when a group is planned, not when it
//! runs, so later groups plan against the future.
//!
//! # Edges
//!
//! An edge inside one native context costs a wait on the other lane's point, or nothing on the same lane. All others
//! are proxies, one for each (source, target context), which the shell runs as futures. What must fail together has an
//! edge with [`DATA`](edges::DATA) or [`EVENT`](edges::EVENT).

mod access;
mod boxes;
mod cells;
mod edges;
mod epoch;
mod guard;
mod hazard;
mod ids;
mod lanes;
mod mutant;
mod node;
#[cfg(any(test, feature = "mutants"))]
pub(crate) mod oracle;
mod plan;
mod record;
mod retire;
mod settle;
mod stall;
#[cfg(test)]
mod tests;
mod transfer;
mod turn;

use std::collections::{HashMap, VecDeque};
use std::fmt;

use slab::Slab;
use smallvec::SmallVec;

pub(crate) use access::{Access, Mode, merge};
pub(crate) use boxes::Box3;
use cells::Cells;
use edges::Edge;
use epoch::{Epoch, EpochId};
pub(crate) use guard::GuardPlan;
pub(crate) use ids::{ContextId, DeviceId, HEAP, Id, LaneId, MemoryId, Table};
pub(crate) use lanes::Fed;
use mutant::Faults;
#[allow(unreachable_pub, reason = "public where the oracle is")]
pub use mutant::Mutant;
pub(crate) use node::Use;
use node::{End, Node, State};
pub(crate) use plan::{After, Plan};
pub(crate) use record::{Record, Recorded};
pub(crate) use settle::Cancelled;
pub(crate) use stall::Held;
pub(crate) use transfer::{Step, Transfer};
pub(crate) use turn::{Settled, Staged, Turn};

/// What the engine carries for its owner without looking inside.
pub(crate) trait Shell: Sized + 'static {
    /// What a node does.
    type Work: fmt::Debug;
    /// What a node has to be given when it is fed or started; nothing by default.
    type Load: Default + fmt::Debug;
    /// Why something failed; equal when it is the same failure.
    type Cause: Clone + PartialEq + fmt::Debug;
    /// An allocation.
    type Memory: Clone + fmt::Debug;

    /// The work of a step of a transfer.
    fn transfer(step: Transfer) -> Self::Work;

    /// Heap memory that is so small that making it here and now costs less than asking for it. None by default.
    fn small_heap(_bytes: usize) -> Option<Self::Memory> {
        None
    }
}

pub(crate) type NodeId = Id<NodeTag>;
pub(crate) type RootId = Id<RootTag>;
pub(crate) type ProxyId = Id<ProxyTag>;

/// Marks ids of nodes.
#[derive(Debug)]
pub(crate) enum NodeTag {}
/// Marks ids of roots.
#[derive(Debug)]
pub(crate) enum RootTag {}
/// Marks ids of proxies.
#[derive(Debug)]
pub(crate) enum ProxyTag {}

/// Where a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the host side: host tasks and guards, which no lane runs.
    Host,
    /// On one of a device's lanes.
    Device(DeviceId),
}

/// Among which nodes native waits work: those of one native context. The host side has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Realm {
    Host,
    Context(ContextId),
}

/// How a node ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome<C> {
    /// Well, and everything it read was well.
    Done,
    /// It failed itself.
    Failed(C),
    /// It did not count, because something it read had failed.
    Doomed(C),
    /// It was cancelled before it was fed.
    Cancelled(C),
}

#[derive(Default)]
struct Proxy {
    waiting: u32,
}

/// An allocation of a root in one memory.
#[derive(Debug)]
enum Slot<M> {
    /// Asked for; the edges lead to those that wait.
    Pending(u32),
    Ready(M),
}

/// A root buffer.
struct Root<S: Shell> {
    cells: Cells<S::Cause>,
    extent: Box3,
    bytes: usize,
    /// Bytes in one element of a box.
    unit: usize,
    slots: SmallVec<[(MemoryId, Slot<S::Memory>); 1]>,
    guards: Vec<(NodeId, Box3, bool)>,
    users: u32,
    released: bool,
}

impl<S: Shell> Default for Root<S> {
    fn default() -> Self {
        Root {
            cells: Cells::default(),
            extent: Box3::line(0, 0),
            bytes: 0,
            unit: 0,
            slots: SmallVec::new(),
            guards: Vec::new(),
            users: 0,
            released: false,
        }
    }
}

impl<S: Shell> Root<S> {
    fn allocation(&self, memory: MemoryId) -> Option<&S::Memory> {
        self.slots.iter().find_map(|(m, slot)| match slot {
            Slot::Ready(found) if *m == memory => Some(found),
            _ => None,
        })
    }
}

struct Device {
    context: ContextId,
    memory: MemoryId,
    /// Among the devices of its context.
    position: usize,
    lanes: SmallVec<[LaneId; 2]>,
}

struct Memory {
    /// A device that works on this memory, for transfers to run on; the heap may have none.
    device: Option<DeviceId>,
    /// The host can read and write it directly.
    addressable: bool,
    /// Copies between it and host memory of others go through staging of its own.
    staged: bool,
    /// How many roots have an allocation here, or have asked for one.
    slots: u32,
}

impl Memory {
    fn new(addressable: bool) -> Self {
        Memory { device: None, addressable, staged: false, slots: 0 }
    }
}

struct Context<C> {
    lost: Option<C>,
}

struct Lane {
    device: DeviceId,
    depth: usize,
    list: VecDeque<NodeId>,
    in_flight: VecDeque<(u64, NodeId)>,
    last_point: u64,
    passed: u64,
    /// The last point that was armed for the lane's own sake.
    sentinel: u64,
    /// Somebody holds the feed token: takes nodes from the list and makes their native calls.
    held: bool,
}

/// Counts for observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) transfers: u64,
    pub(crate) bytes_moved: u64,
    pub(crate) proxies: u64,
    pub(crate) nodes_visited: u64,
    /// Allocations that were made at once.
    pub(crate) small_heaps: u64,
}

/// See the module documentation.
pub(crate) struct Engine<S: Shell> {
    nodes: Table<NodeTag, Node<S>>,
    roots: Table<RootTag, Root<S>>,
    proxies: Table<ProxyTag, Proxy>,
    epochs: Slab<Epoch>,
    edges: Slab<Edge>,
    contexts: Vec<Context<S::Cause>>,
    devices: Vec<Device>,
    memories: Vec<Memory>,
    lanes: Vec<Lane>,
    tally: Tally,
    ticks: u32,
    /// Room for the predecessors of the node that is being planned.
    scratch: Option<Box<hazard::Preds>>,
    /// Nodes that came to their turn only to end there.
    pending: Vec<NodeId>,
    /// Downloads whose time for staging has not come, and their uploads.
    unstaged: HashMap<NodeId, NodeId>,
    retiring: Vec<retire::Retiring<S::Cause>>,
    /// The most bytes of one staged transfer that go in one piece.
    staging_chunk: usize,
    record: Option<Box<Record>>,
    faults: Faults,
}

impl<S: Shell> fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("nodes", &self.nodes.len()).field("roots", &self.roots.len()).finish()
    }
}

impl<S: Shell> Engine<S> {
    pub(crate) fn new() -> Self {
        Engine {
            nodes: Table::new(),
            roots: Table::new(),
            proxies: Table::new(),
            epochs: Slab::new(),
            edges: Slab::new(),
            contexts: Vec::new(),
            devices: Vec::new(),
            memories: vec![Memory::new(true)],
            lanes: Vec::new(),
            tally: Tally::default(),
            ticks: 0,
            scratch: None,
            pending: Vec::new(),
            unstaged: HashMap::new(),
            retiring: Vec::new(),
            staging_chunk: usize::MAX,
            record: None,
            faults: Faults::default(),
        }
    }

    /// Staged transfers of more than this many bytes are cut into chunks of at most this many.
    pub(crate) fn set_staging_chunk(&mut self, bytes: usize) {
        self.staging_chunk = bytes;
    }

    /// Whether a deliberate fault is switched on. Constant `false` without the feature.
    #[inline(always)]
    fn is(&self, mutant: Mutant) -> bool {
        self.faults.is(mutant)
    }

    /// As many as there are, or one with this deliberate fault.
    #[inline(always)]
    fn all_but_with(&self, mutant: Mutant) -> usize {
        if self.is(mutant) { 1 } else { usize::MAX }
    }

    #[cfg(any(test, feature = "mutants"))]
    pub(crate) fn set_mutant(&mut self, mutant: Option<Mutant>) {
        self.faults = Faults(mutant);
        self.nodes.forgetful = self.is(Mutant::SlotReusedEarly);
    }

    /// Starts to keep every node and edge, for tests that compare them.
    pub(crate) fn start_record(&mut self) {
        self.record = Some(Box::default());
    }

    pub(crate) fn record(&self) -> Option<&Record> {
        self.record.as_deref()
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    pub(crate) fn live_nodes(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn live_roots(&self) -> usize {
        self.roots.len()
    }

    /// Everything else that is kept for nodes: edges, epochs and proxies, zero when nothing is outstanding.
    pub(crate) fn live_links(&self) -> usize {
        self.edges.len() + self.proxies.len() + self.epochs.iter().filter(|(_, e)| !e.is_over()).count()
    }

    pub(crate) fn add_context(&mut self) -> ContextId {
        self.contexts.push(Context { lost: None });
        ContextId((self.contexts.len() - 1) as u32)
    }

    pub(crate) fn add_memory(&mut self, addressable: bool) -> MemoryId {
        self.memories.push(Memory::new(addressable));
        MemoryId((self.memories.len() - 1) as u32)
    }

    /// Copies between this memory, which the host does not reach, and host memory go through staging.
    pub(crate) fn stage_host_copies(&mut self, memory: MemoryId) {
        self.memories[memory.0 as usize].staged = true;
    }

    pub(crate) fn add_device(&mut self, context: ContextId, memory: MemoryId) -> DeviceId {
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
    pub(crate) fn add_twin(&mut self, device: DeviceId) -> DeviceId {
        let id = DeviceId(self.devices.len() as u32);
        let Device { context, memory, position, .. } = self.devices[device.0 as usize];
        self.devices.push(Device { context, memory, position, lanes: SmallVec::new() });
        id
    }

    pub(crate) fn add_lane(&mut self, device: DeviceId, depth: usize) -> LaneId {
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

    pub(crate) fn device_memory(&self, device: DeviceId) -> MemoryId {
        self.devices[device.0 as usize].memory
    }

    /// Why a device's context is lost, if it is.
    pub(crate) fn lost(&self, device: DeviceId) -> Option<&S::Cause> {
        self.contexts[self.devices[device.0 as usize].context.0 as usize].lost.as_ref()
    }

    /// A root buffer of this shape. With `data` its content stands in the heap already; without, it has never been
    /// written.
    pub(crate) fn add_root(
        &mut self,
        extent: Box3,
        unit: usize,
        bytes: usize,
        data: Option<S::Memory>,
    ) -> RootId {
        let written = data.is_some();
        self.count_slots(HEAP, i32::from(written));
        let slots = data.map(|m| (HEAP, Slot::Ready(m))).into_iter().collect();
        let cells = Cells::new(extent, written);
        self.roots.insert(Root { cells, extent, bytes, unit, slots, ..Root::default() })
    }

    /// The last handle is gone: the root goes when its last user does.
    pub(crate) fn release_root(&mut self, root: RootId, turn: &mut Turn<S>) {
        self.roots[root].released = true;
        self.reap_root(root, turn);
    }

    fn reap_root(&mut self, id: RootId, turn: &mut Turn<S>) {
        let Some(root) = self.roots.get(id) else { return };
        if root.released && (root.users == 0 || self.is(Mutant::RootGoesEarly)) {
            let Some(mut root) = self.roots.remove(id) else { return };
            root.cells.drop_epochs(&mut self.epochs);
            for (memory, slot) in root.slots {
                self.count_slots(memory, -1);
                if let Slot::Ready(allocation) = slot {
                    turn.freed.push(allocation);
                }
            }
            self.look_for_unused(turn);
        }
    }

    fn realm(&self, place: Place) -> Realm {
        match place {
            Place::Host => Realm::Host,
            Place::Device(d) => Realm::Context(self.devices[d.0 as usize].context),
        }
    }

    fn memory_of(&self, place: Place) -> MemoryId {
        match place {
            Place::Host => HEAP,
            Place::Device(d) => self.device_memory(d),
        }
    }

    pub(crate) fn work_mut(&mut self, node: NodeId) -> Option<&mut S::Work> {
        self.nodes.get_mut(node)?.work.as_mut()
    }

    /// What is to be done at this node; taken once.
    pub(crate) fn take_load(&mut self, node: NodeId) -> Option<S::Load> {
        self.nodes.get_mut(node)?.take_load()
    }

    /// The work of all nodes.
    pub(crate) fn works(&self) -> impl Iterator<Item = &S::Work> {
        self.nodes.iter().filter_map(|(_, node)| node.work.as_ref())
    }

    /// Host accessors that wait for their memory.
    pub(crate) fn unstarted_guards(&self) -> Vec<NodeId> {
        let waits = |id: &NodeId| self.nodes.get(*id).is_some_and(|n| n.state == State::Gated);
        self.roots.iter().flat_map(|(_, root)| root.guards.iter().map(|(id, ..)| *id)).filter(waits).collect()
    }

    /// The allocation of a root in a memory, if it has been made.
    pub(crate) fn allocation(&self, root: RootId, memory: MemoryId) -> Option<&S::Memory> {
        self.roots.get(root)?.allocation(memory)
    }

    /// A root's extent in its units, the bytes of a unit, and the bytes of all.
    pub(crate) fn shape(&self, root: RootId) -> Option<(Box3, usize, usize)> {
        self.roots.get(root).map(|r| (r.extent, r.unit, r.bytes))
    }

    pub(crate) fn uses(&self, node: NodeId) -> &[Use] {
        self.nodes.get(node).map_or(&[], |n| &n.uses)
    }

    /// A node that is about to be planned.
    fn fresh_node(&mut self, place: Place, work: impl FnOnce(NodeId) -> S::Work) -> NodeId {
        let (id, node) = self.nodes.occupy();
        node.place = place;
        node.planned_at = self.ticks;
        node.work = Some(work(id));
        id
    }
}
