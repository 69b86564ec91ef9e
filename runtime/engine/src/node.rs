//! What the engine keeps of a group, a step of a transfer, a host task or a guard while it is on its way.

use smallvec::SmallVec;

use super::heirs::Chain;
use super::ids::{LaneId, MemoryId};
use super::links::{DATA, EVENT, NONE};
use super::points::LastPoints;
use super::{Box3, HEAP, Mode, NodeId, Place, ProxyId, ReadSetId, Realm, RootId, Shell, Turn};

/// How far a node has come; see the engine's own documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Gated,
    Queued(LaneId),
    Feeding(LaneId, u64),
    Fed(LaneId, u64),
    Passed,
    Running,
}

/// How far a node has come, for who asks from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has been neither fed nor started, and can be skipped.
    Waits,
    /// It was given to its lane, and its verdict is to come, or that of what it read.
    OnLane,
    /// It runs on the host, or ran, and a verdict of what it read is to come.
    OnHost,
}

/// How a node is going to end, if not well.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum End<C> {
    /// It failed itself.
    Failed(C),
    /// Something it reads failed.
    Doomed(C),
    /// It was cancelled. Its output is the previous data, or `leaves` says why there is none.
    Cancelled { cause: C, leaves: Option<C> },
}

/// What a node does with a box of a root.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Of which root.
    pub root: RootId,
    /// In which memory.
    pub memory: MemoryId,
    pub(super) does: Does,
}

/// A step of a transfer by way of staging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    None,
    First,
    Second,
}

/// What a use makes of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Reads,
    Writes,
    /// It writes all of it, and looks at nothing.
    Replaces,
    /// It writes what this memory holds.
    Copies(MemoryId),
    /// It writes what the heap holds after so many writers there.
    CopiesHeap(u32),
}

impl Does {
    pub(super) fn writes(self) -> bool {
        self != Does::Reads
    }

    /// A use of a box of a root.
    pub(super) fn of(mode: Mode, bounds: &Box3, extent: &Box3) -> Self {
        match (mode.reads(), mode.writes()) {
            (_, false) => Does::Reads,
            (false, true) if bounds == extent => Does::Replaces,
            (_, true) => Does::Writes,
        }
    }
}

/// See the module documentation. The engine's table keeps blank ones, which are filled in when something is planned
/// and cleared when it settles.
pub(super) struct Node<S: Shell> {
    pub(super) work: Option<S::Work>,
    /// What it has to be given when it is fed or started; taken then.
    pub(super) commands: Option<S::Commands>,
    pub(super) end: Option<End<S::Cause>>,
    pub(super) place: Place,
    pub(super) state: State,
    pub(super) gates: u32,
    /// Nodes whose data this one reads, planned and not settled.
    pub(super) unsettled: u32,
    pub(super) took_down: u32,
    /// How many native commands it takes: one at least.
    pub(super) weight: u32,
    /// Its place in the order of submission; a transfer has that of the node that it was planned for.
    pub(super) submitted: u64,
    /// Its place in a chain, and whether another node follows it there.
    pub(super) chain: Chain,
    pub(super) is_followed: bool,
    /// The tick in which it was planned.
    pub(super) planned_at: u32,
    /// Edges to those that read what this one writes.
    pub(super) out: u32,
    /// Edges to those held back until this one has been fed.
    pub(super) out_fed: u32,
    pub(super) wanted: bool,
    /// It will not run: that was certain before it was fed or started.
    pub(super) certain: bool,
    /// Its owner knows.
    pub(super) told: bool,
    pub(super) is_transfer: bool,
    /// It moves what is swapped out, or comes back, and waits for nobody's memory there.
    pub(super) is_swap_step: bool,
    /// A transfer that should run on a copy lane, if there is one.
    pub(super) wants_copy_lane: bool,
    /// Which of the two steps by way of staging it is.
    pub(super) half: Half,
    /// It has its staging, or waits for nothing else; and if so, whether that comes back by itself.
    pub(super) staged: Option<bool>,
    /// A step that gives memory to the host, or takes it back.
    pub(super) hands_over: bool,
    pub(super) is_guard: bool,
    /// Something outside the engine holds it back, or did.
    pub(super) waits_outside: bool,
    /// It could have run, and left what it was to replace to one before it.
    pub(super) gave_up: bool,
    /// How often it has had room while others held it back.
    pub(super) early: u32,
    /// A cancelled node of this kind leaves what was there before as its output.
    pub(super) keeps_previous: bool,
    pub(super) uses: SmallVec<[Use; 2]>,
    /// Nodes of its own realm whose verdicts it waits for, as far as they had not settled when it was planned.
    pub(super) reads: SmallVec<[NodeId; 2]>,
    /// Points of other lanes to wait for natively.
    pub(super) waits: LastPoints,
    /// Read sets it reads in.
    pub(super) read_sets: SmallVec<[ReadSetId; 2]>,
    /// Proxies that carry this node's end elsewhere.
    pub(super) proxies: Vec<(Realm, ProxyId)>,
}

impl<S: Shell> Default for Node<S> {
    fn default() -> Self {
        Node {
            work: None,
            commands: None,
            end: None,
            place: Place::Host,
            state: State::Gated,
            gates: 0,
            unsettled: 0,
            took_down: 0,
            weight: 1,
            submitted: 0,
            chain: Chain::default(),
            is_followed: false,
            planned_at: 0,
            out: NONE,
            out_fed: NONE,
            wanted: false,
            certain: false,
            told: false,
            is_transfer: false,
            is_swap_step: false,
            wants_copy_lane: false,
            half: Half::None,
            staged: None,
            hands_over: false,
            is_guard: false,
            waits_outside: false,
            gave_up: false,
            early: 0,
            keeps_previous: false,
            uses: SmallVec::new(),
            reads: SmallVec::new(),
            waits: SmallVec::new(),
            read_sets: SmallVec::new(),
            proxies: Vec::new(),
        }
    }
}

impl<S: Shell> Node<S> {
    /// Whether it runs code of the program's, or waits for something outside, and so may hold others back for as long as the program likes.
    /// Guards do, and the runtime's own count as well.
    pub(super) fn is_of_program(&self) -> bool {
        self.waits_outside || self.place == Place::Host && !self.is_transfer
    }

    /// Of what it uses, what is replaced unread, in memories of devices.
    pub(super) fn replaced(&self) -> impl Iterator<Item = &Use> {
        self.uses.iter().filter(|used| used.does == Does::Replaces && used.memory != HEAP)
    }

    /// Whether it might give up what it replaces, which it does once.
    pub(super) fn may_give_up(&self) -> bool {
        !self.is_transfer && !self.gave_up && self.end.is_none() && self.replaced().next().is_some()
    }

    /// Whether it has been neither fed nor started.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Gated | State::Queued(_))
    }

    /// Why a node behind this one on an edge of these kinds fails, if that is certain.
    pub(super) fn takes_down(&self, kinds: u8) -> Option<&S::Cause> {
        if kinds & (DATA | EVENT) == 0 {
            return None;
        }
        match self.end.as_ref()? {
            End::Failed(cause) | End::Doomed(cause) | End::Cancelled { leaves: Some(cause), .. } => {
                Some(cause)
            }
            // The output is good, so its readers run. Only an explicit dependency asked for this group itself.
            End::Cancelled { cause, leaves: None } => (kinds & EVENT != 0).then_some(cause),
        }
    }

    /// It has failed itself, unless its end was certain before.
    pub(super) fn fails(&mut self, cause: S::Cause, turn: &mut Turn<S>) {
        match self.end {
            None => self.end = Some(End::Failed(cause)),
            Some(_) => turn.causes.push(cause),
        }
    }

    /// Leaves a blank node, which keeps no memory of its own.
    pub(super) fn clear(&mut self) {
        self.work = None;
        self.end = None;
        self.state = State::Gated;
        (self.gates, self.unsettled, self.took_down, self.weight) = (0, 0, 0, 1);
        (self.out, self.out_fed) = (NONE, NONE);
        (self.certain, self.told, self.gave_up, self.is_followed) = (false, false, false, false);
        (self.wanted, self.is_guard, self.keeps_previous) = (false, false, false);
        (self.is_transfer, self.wants_copy_lane, self.hands_over) = (false, false, false);
        (self.is_swap_step, self.waits_outside, self.early) = (false, false, 0);
        (self.half, self.staged) = (Half::None, None);
        self.commands = None;
        empty(&mut self.uses);
        empty(&mut self.reads);
        empty(&mut self.waits);
        empty(&mut self.read_sets);
        if self.proxies.capacity() > 0 {
            self.proxies = Vec::new();
        }
    }
}

/// Empties a list of plain values, most of which are short and stored inline.
fn empty<A: smallvec::Array<Item: Copy>>(list: &mut SmallVec<A>) {
    match list.spilled() {
        true => *list = SmallVec::new(),
        false => list.clear(),
    }
}
