//! What the engine asks of the shell after a call: things to do once the engine has been let go of.

use smallvec::SmallVec;

use super::ids::{LaneId, MemoryId};
use super::{Node, NodeId, Outcome, ProxyId, RootId, Shell};

/// The engine's answer. The shell keeps one, fills it by calls, and works it off without holding the engine.
#[derive(Debug)]
pub(crate) struct Turn<S: Shell> {
    /// Nodes that have ended: their work, and how.
    pub(crate) settled: Vec<Settled<S>>,
    /// Lanes whose feed list has something that their native depth has room for.
    pub(crate) ready_lanes: SmallVec<[LaneId; 4]>,
    /// Host-side nodes with nothing left to wait for.
    pub(crate) start: Vec<NodeId>,
    /// Proxies that somebody now waits behind.
    pub(crate) proxies: Vec<ProxyId>,
    /// Proxies whose source has ended.
    pub(crate) fired: Vec<ProxyId>,
    /// Staged transfers whose time for staging has come: the two nodes of each, both held until the shell opens them.
    pub(crate) staged: Vec<Staged>,
    /// Allocations to make.
    pub(crate) allocate: Vec<(RootId, MemoryId, usize)>,
    /// Points somebody on the host waits for.
    pub(crate) arm: SmallVec<[(LaneId, u64); 2]>,
    /// Points that settle and refill their lanes, with the nodes there.
    pub(crate) sentinels: SmallVec<[(LaneId, u64, NodeId); 1]>,
    /// Allocations that nothing uses any more.
    pub(crate) freed: Vec<S::Memory>,
}

/// A node that has ended.
#[derive(Debug)]
pub(crate) struct Settled<S: Shell> {
    pub(crate) node: NodeId,
    pub(crate) work: S::Work,
    /// Empty unless it never ran.
    pub(crate) load: S::Load,
    pub(crate) outcome: Outcome<S::Cause>,
    /// How many nodes this one's own failure has taken down.
    pub(crate) took_down: u32,
}

/// A transfer, or a chunk of one, through host staging: a download, then an upload; one of them may be a
/// copy on the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub(crate) download: NodeId,
    pub(crate) upload: NodeId,
    /// Nothing but memory to come and the shell holds back the upload either: its staging comes back by itself.
    pub(crate) moves: bool,
}

impl<S: Shell> Turn<S> {
    pub(crate) fn new() -> Self {
        Turn {
            settled: Vec::new(),
            ready_lanes: SmallVec::new(),
            start: Vec::new(),
            proxies: Vec::new(),
            fired: Vec::new(),
            staged: Vec::new(),
            allocate: Vec::new(),
            arm: SmallVec::new(),
            sentinels: SmallVec::new(),
            freed: Vec::new(),
        }
    }

    /// Whether there is something in it that concerns proxies or staged transfers.
    pub(crate) fn has_links(&self) -> bool {
        !(self.proxies.is_empty() && self.fired.is_empty() && self.staged.is_empty())
    }

    pub(super) fn lane_ready(&mut self, lane: LaneId) {
        if !self.ready_lanes.contains(&lane) {
            self.ready_lanes.push(lane);
        }
    }
}

/// A settled node, on its way from the engine's tables to the turn.
pub(super) fn settled<S: Shell>(
    id: NodeId,
    node: &mut Node<S>,
    outcome: Outcome<S::Cause>,
) -> Option<Settled<S>> {
    let work = node.work.take()?;
    let load = std::mem::take(&mut node.load);
    Some(Settled { node: id, work, load, outcome, took_down: node.took_down })
}
