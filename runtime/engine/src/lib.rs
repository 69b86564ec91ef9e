//! Internal to Windlass. The engine decides: which group waits for which, which bytes move, which lane runs what, what
//! fails with what.
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
//! A root buffer is a partition into segments: boxes with one history. A segment knows its newest version (its
//! author, whether it is poisoned) and each replica's state (valid or stale, last writer, read sets of readers since).
//! Versions carry data and failure; replicas carry hazards. Validity advances when a group is planned, not when it
//! runs, so later groups plan against the future.
//!
//! # Edges
//!
//! An edge inside one native context costs a wait on the other lane's point, or nothing on the same lane. All others
//! are proxies, one for each (source, target context), which the shell runs as futures; one that only guards wait behind
//! needs no future, and opens where its source settles. What must fail together has an edge with `DATA` or `EVENT`.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod access;
mod behind;
mod boxes;
mod edges;
mod evict;
mod guard;
mod hazard;
mod heirs;
mod ids;
mod lanes;
mod links;
mod lose;
mod machine;
mod mapping;
mod node;
mod pinned;
mod plan;
mod points;
mod preds;
mod read_set;
mod record;
mod root;
mod segments;
mod settle;
mod stall;
mod steps;
mod swap;
mod transfer;
mod turn;
mod unused;

use std::collections::{HashMap, HashSet};
use std::fmt;

use slab::Slab;

pub use access::{Access, Mode, merge};
pub use boxes::Box3;
pub use evict::Idle;
pub use guard::GuardPlan;
use ids::Table;
pub use ids::{ContextId, DeviceId, DomainId, HEAP, Id, LaneId, MemoryId};
pub use lanes::{Fed, NativeArgs, Popped};
use links::Edge;
use machine::{Context, Device, Lane, Memory};
pub use machine::{Depth, MemoryTraits};
use node::{End, Node, State};
pub use node::{Progress, Use};
pub use pinned::Pinning;
pub use plan::{After, Plan};
use read_set::{ReadSet, ReadSetId};
pub use record::{Record, Recorded};
pub use root::{Initial, RootShape};
use root::{Root, Slot};
pub use settle::Cancelled;
pub use stall::Held;
pub use steps::{Step, Transfer};
pub use swap::Room;
pub use turn::{Allocate, Sentinel, Settled, Staged, Turn};

/// What the engine carries for its owner without looking inside.
pub trait Shell: Sized + 'static {
    /// What a node does.
    type Work: fmt::Debug;
    /// What a node has to be given when it is fed or started; nothing by default.
    type Commands: fmt::Debug;
    /// Why something failed; equal when it is the same failure.
    type Cause: Clone + PartialEq + fmt::Debug;
    /// An allocation.
    type Memory: Clone + fmt::Debug;
    /// What a root is, where an allocation of it is made.
    type Object: Clone + Default + fmt::Debug;

    /// The work of a step of a transfer.
    fn transfer(step: Transfer) -> Self::Work;

    /// Heap memory that is small enough that making it at once costs less than asking for it. None by default.
    fn small_heap(_bytes: usize) -> Option<Self::Memory> {
        None
    }

    /// Whether the program may keep what these commands see of the memory that they use. By default none do.
    fn show_memory(_commands: &Self::Commands) -> bool {
        false
    }

    /// Whether what was allocated for a root of so many bytes can be another's as it is. By default nothing can.
    fn fits(_old: (&Self::Object, usize), _new: (&Self::Object, usize)) -> bool {
        false
    }
}

/// Names a node.
pub type NodeId = Id<NodeTag>;
/// Names a root.
pub type RootId = Id<RootTag>;
/// Names a proxy.
pub type ProxyId = Id<ProxyTag>;

/// Marks ids of nodes.
#[derive(Debug)]
pub enum NodeTag {}
/// Marks ids of roots.
#[derive(Debug)]
pub enum RootTag {}
/// Marks ids of proxies.
#[derive(Debug)]
pub enum ProxyTag {}

/// Where a node runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the host side: host tasks and guards, which no lane runs.
    Host,
    /// On one of a device's lanes.
    Device(DeviceId),
}

/// Where native waits reach: the nodes of one domain. The host side has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Realm {
    Host,
    Domain(DomainId),
}

/// How a node ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome<C> {
    /// It ended well, and so did everything it read.
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
    /// One of the shell's futures opens what waits. If only guards wait, they are opened where the source settles.
    is_carried: bool,
}

/// Counts for observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Transfers that were planned; one that goes in chunks is one.
    pub transfers: u64,
    /// Bytes that they were planned to move.
    pub bytes_moved: u64,
    /// Clears that were planned: of never-written bytes that are read, in memory whose allocations are not zeroed.
    pub clears: u64,
    /// Bytes that they were planned to clear, and those that are cleared where host memory is pinned.
    pub bytes_cleared: u64,
    /// Proxies that the shell was asked to run.
    pub proxies: u64,
    /// Nodes, read sets and segments that planning has looked at: what a submission costs.
    pub nodes_visited: u64,
    /// Allocations that were made at once.
    pub small_heaps: u64,
    /// Allocations that roots have from others whose last users had not ended.
    pub inherited: u64,
    /// Allocations that groups gave up before they replaced what was there, for groups that came before.
    pub given_up: u64,
}

/// See the module documentation.
pub struct Engine<S: Shell> {
    nodes: Table<NodeTag, Node<S>>,
    roots: Table<RootTag, Root<S>>,
    proxies: Table<ProxyTag, Proxy>,
    read_sets: Slab<ReadSet>,
    edges: Slab<Edge>,
    contexts: Vec<Context<S::Cause>>,
    devices: Vec<Device>,
    memories: Vec<Memory>,
    domains: u32,
    /// Pairs of memories, the first of which lanes that work in the second copy from natively.
    links: HashSet<(MemoryId, MemoryId)>,
    lanes: Vec<Lane>,
    tally: Tally,
    ticks: u32,
    /// How many groups and guards were planned.
    submitted: u64,
    /// Steps of roots that are swapped out or come back, each with the root and the memory that it is about.
    swaps: HashMap<NodeId, (RootId, MemoryId)>,
    /// Roots with which nothing new runs in a memory, until what does has ended.
    closing_slots: Vec<(RootId, MemoryId)>,
    /// Roots that are being copied to the heap, or aside.
    leaving_slots: Vec<(RootId, MemoryId)>,
    /// Roots that have memory again, to which their data comes back.
    arriving_slots: Vec<(RootId, MemoryId)>,
    /// Roots for which there was no room where they were asked for.
    lacking: Vec<swap::Lacking>,
    /// Roots without handles that have memory which others might come to have.
    leavers: Vec<heirs::Leaver>,
    /// Allocations that several roots hold.
    shares: heirs::Shares,
    /// How many chains of nodes have begun.
    chains: u32,
    /// Host memory for what is swapped out while the heap's is used, once any is.
    aside: Option<MemoryId>,
    /// Who uses which root where, while there is a lack of room.
    lines: Option<Box<swap::Lines>>,
    /// A spare list for the predecessors of the node that is being planned.
    scratch: Option<Box<preds::Preds>>,
    /// Nodes that became ready but will not run: to be ended before the turn is over.
    pending: Vec<NodeId>,
    /// What lost nodes still had to wait for on lanes that are not lost: see `behind.rs`.
    behind_losses: points::LastPoints,
    /// Downloads whose time for staging has not come, and their uploads.
    unstaged: HashMap<NodeId, NodeId>,
    closing: Vec<unused::Closing<S::Cause>>,
    kept: Vec<unused::Kept<S::Memory>>,
    /// The most bytes of one staged transfer that go in one piece.
    staging_chunk: usize,
    /// The most bytes of a root whose allocation on the heap is pinned.
    pinned_most: usize,
    /// The most bytes of a copy that goes where it is read.
    small_copy: usize,
    /// What counts as room for many.
    many: usize,
    record: Option<Box<Record>>,
}

impl<S: Shell> fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("nodes", &self.nodes.len()).field("roots", &self.roots.len()).finish()
    }
}

impl<S: Shell> Default for Engine<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Shell> Engine<S> {
    /// An engine with the heap as its only memory, and nothing else.
    pub fn new() -> Self {
        Engine {
            nodes: Table::new(),
            roots: Table::new(),
            proxies: Table::new(),
            read_sets: Slab::new(),
            edges: Slab::new(),
            contexts: Vec::new(),
            devices: Vec::new(),
            memories: vec![Memory::new(None, MemoryTraits::heap())],
            domains: 0,
            links: HashSet::new(),
            lanes: Vec::new(),
            tally: Tally::default(),
            ticks: 0,
            submitted: 0,
            swaps: HashMap::new(),
            closing_slots: Vec::new(),
            leaving_slots: Vec::new(),
            leavers: Vec::new(),
            shares: heirs::Shares::default(),
            chains: 0,
            aside: None,
            arriving_slots: Vec::new(),
            lacking: Vec::new(),
            lines: None,
            scratch: None,
            pending: Vec::new(),
            behind_losses: points::LastPoints::new(),
            unstaged: HashMap::new(),
            closing: Vec::new(),
            kept: Vec::new(),
            staging_chunk: usize::MAX,
            pinned_most: usize::MAX,
            small_copy: 64 << 10,
            many: swap::MANY,
            record: None,
        }
    }

    /// Staged transfers of more than this many bytes are cut into chunks of at most this many.
    pub fn set_staging_chunk(&mut self, bytes: usize) {
        self.staging_chunk = bytes;
    }

    /// The heap's allocation of a root may be pinned if the root has at most this many bytes.
    pub fn set_pinned_most(&mut self, bytes: usize) {
        self.pinned_most = bytes;
    }

    /// Copies of up to this many bytes into a device's memory go to the lanes of their readers, even if there
    /// are copy lanes: waiting between two lanes takes longer.
    pub fn set_small_copy(&mut self, bytes: usize) {
        self.small_copy = bytes;
    }

    /// With room for so many roots of those that are wanted in a memory, data may come sooner for a few copies more than there must be.
    pub fn set_many(&mut self, roots: usize) {
        self.many = roots;
    }

    /// Starts to keep every node and edge, until they are [taken away](Engine::take_record).
    pub fn start_record(&mut self) {
        self.record.get_or_insert_default();
    }

    /// Keeps them no more.
    pub fn end_record(&mut self) {
        self.record = None;
    }

    /// What was kept since [`Engine::start_record`].
    pub fn record(&self) -> Option<&Record> {
        self.record.as_deref()
    }

    /// Counts since the beginning.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How many nodes have not settled.
    pub fn live_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// How many roots are used, or have a handle.
    pub fn live_roots(&self) -> usize {
        self.roots.len()
    }

    /// Everything else that is kept for nodes: edges, read sets and proxies, zero when nothing is outstanding.
    pub fn live_links(&self) -> usize {
        self.edges.len() + self.proxies.len() + self.read_sets.iter().filter(|(_, e)| !e.is_over()).count()
    }

    /// The work of a node that has not settled.
    pub fn work_mut(&mut self, node: NodeId) -> Option<&mut S::Work> {
        self.nodes.get_mut(node)?.work.as_mut()
    }

    /// What is to be done at this node; taken once.
    pub fn take_commands(&mut self, node: NodeId) -> Option<S::Commands> {
        self.nodes.get_mut(node)?.commands.take()
    }

    /// The work of all nodes.
    pub fn works(&self) -> impl Iterator<Item = &S::Work> {
        self.nodes.iter().filter_map(|(_, node)| node.work.as_ref())
    }

    /// Host accessors that wait for their memory.
    pub fn unstarted_guards(&self) -> Vec<NodeId> {
        let waits = |id: &NodeId| self.nodes.get(*id).is_some_and(|n| n.state == State::Gated);
        self.roots.iter().flat_map(|(_, root)| root.guards.iter().map(|(id, ..)| *id)).filter(waits).collect()
    }

    /// The boxes of roots that a node uses, until it has settled.
    pub fn uses(&self, node: NodeId) -> &[Use] {
        self.nodes.get(node).map_or(&[], |n| &n.uses)
    }

    /// A node that is about to be planned.
    fn fresh_node(&mut self, place: Place, work: impl FnOnce(NodeId) -> S::Work) -> NodeId {
        let id = self.nodes.reserve();
        self.enter_node(id, place, work(id));
        id
    }

    #[inline]
    fn enter_node(&mut self, id: NodeId, place: Place, work: S::Work) {
        let node = self.nodes.occupy_reserved(id);
        node.place = place;
        (node.planned_at, node.submitted) = (self.ticks, self.submitted);
        node.work = Some(work);
    }
}
