//! What the engine asks of the shell after a call: things to do once the engine has been let go of.

use smallvec::SmallVec;

use super::ids::{LaneId, MemoryId};
use super::{NodeId, Outcome, Pinning, ProxyId, RootId, Shell};

/// The engine's answer. The shell keeps one, fills it by calls, and works it off without holding the engine.
#[derive(Debug)]
pub struct Turn<S: Shell> {
    /// Nodes that have ended: their work, and how.
    pub settled: Vec<Settled<S>>,
    /// Groups and guards that will not run, for which nothing has been told: see [`Engine::tell`](super::Engine::tell).
    pub certain: Vec<NodeId>,
    /// Lanes whose feed list has something that their native depth has room for.
    pub ready_lanes: SmallVec<[LaneId; 4]>,
    /// Host-side nodes with nothing left to wait for.
    pub start: Vec<NodeId>,
    /// Proxies that a node other than a guard now waits behind.
    pub proxies: Vec<ProxyId>,
    /// Those of them whose source has ended.
    pub fired: Vec<ProxyId>,
    /// Staged transfers whose time for staging has come: the two nodes of each, both held until the shell opens them.
    pub staged: Vec<Staged>,
    /// Allocations to make.
    pub allocate: Vec<Allocate>,
    /// Points that the host waits for.
    pub arm: SmallVec<[(LaneId, u64); 2]>,
    /// Points that settle and refill their lanes, with the nodes there.
    pub sentinels: SmallVec<[Sentinel; 1]>,
    /// Allocations that nothing uses any more.
    pub freed: Vec<S::Memory>,
    /// Allocations that a device that was given up may still touch: they must never be freed.
    pub leaked: Vec<S::Memory>,
    /// Causes that the engine has let go of, perhaps the last of their failure: the error inside may be the user's, and
    /// its drop may come back to the engine.
    pub causes: Vec<S::Cause>,
    /// Lanes of contexts that are no longer needed.
    pub closed: Vec<LaneId>,
    /// Lanes of one queue's own, which is gone, in contexts that go on.
    pub lanes_closed: Vec<LaneId>,
}

/// A point that is to be armed for its lane's own sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sentinel {
    /// The lane.
    pub lane: LaneId,
    /// Its point.
    pub point: u64,
    /// The node there.
    pub node: NodeId,
    /// Its report may take its time: what comes to be waited for is armed then.
    pub at_leisure: bool,
}

/// A node that has ended.
#[derive(Debug)]
pub struct Settled<S: Shell> {
    /// Its name, which is no node any more.
    pub node: NodeId,
    /// What it did, or was to do.
    pub work: S::Work,
    /// Where it never ran, which is rare.
    pub commands: Option<Box<S::Commands>>,
    /// How it ended.
    pub outcome: Outcome<S::Cause>,
    /// How many nodes this one's own failure has taken down.
    pub took_down: u32,
    /// [`Engine::tell`](super::Engine::tell) has said before how it would end.
    pub told: bool,
}

/// An allocation to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocate {
    /// Of which root.
    pub root: RootId,
    /// Where.
    pub memory: MemoryId,
    /// How many bytes.
    pub bytes: usize,
    /// The heap's, and it is best pinned. What is not, is to read as zeros.
    pub pinned: Option<Pinning>,
    /// The heap's, and its first user writes all of it: it may hold anything, if the engine is [told](super::Engine::holds_others).
    pub is_replaced: bool,
}

/// A transfer, or a chunk of one, through host staging: a download, then an upload; one of them may be a
/// copy on the host.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// Into staging.
    pub download: NodeId,
    /// Out of staging.
    pub upload: NodeId,
    /// Nothing but the shell holds back the upload either: its staging comes back by itself.
    pub moves: bool,
}

impl<S: Shell> Default for Turn<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Shell> Turn<S> {
    /// A turn in which nothing has happened.
    pub fn new() -> Self {
        Turn {
            settled: Vec::new(),
            certain: Vec::new(),
            ready_lanes: SmallVec::new(),
            start: Vec::new(),
            proxies: Vec::new(),
            fired: Vec::new(),
            staged: Vec::new(),
            allocate: Vec::new(),
            arm: SmallVec::new(),
            sentinels: SmallVec::new(),
            freed: Vec::new(),
            leaked: Vec::new(),
            causes: Vec::new(),
            closed: Vec::new(),
            lanes_closed: Vec::new(),
        }
    }

    /// Whether it asks for anything but to resolve events, to feed and arm lanes, and to drop causes. Few turns do.
    #[inline]
    pub fn asks_for_more(&self) -> bool {
        let links = self.proxies.len() | self.fired.len() | self.staged.len();
        let rest = self.start.len() | self.allocate.len() | self.freed.len() | self.leaked.len();
        links | rest | self.closed.len() | self.lanes_closed.len() != 0
    }

    pub(super) fn lane_ready(&mut self, lane: LaneId) {
        if !self.ready_lanes.contains(&lane) {
            self.ready_lanes.push(lane);
        }
    }
}
