//! Memory that a new root has from one that is going, whose last user has not ended.
//!
//! A root without handles keeps its memory until its last user has ended, and a program that is far ahead of its device would ask for
//! more all the while. But the order of groups may already say that the new root's first user comes behind all of the old one's. If
//! that user writes all of it and looks at nothing, it can have the same memory: both roots hold it then, and whichever is
//! the last to let it go frees it.
//!
//! Nobody is to wait for that who would not wait anyway. So each node belongs to a *chain*: it follows one of its predecessors of the same
//! context there, unless another does already, and then begins a chain of its own. It comes after all those before it in its chain, and after all up to
//! the places of its predecessors in theirs. That is less than what the order says as a whole, and costs next to nothing to
//! know. The users of the old root in that memory are predecessors all the same: what chains say decides only whether it is worth it.
//!
//! Those users are all of the memory's own context. If a device of another hung while it copied there, the new root would lose
//! what it has there, and its users would fail for a device that they have nothing to do with. (They still do if a user of the memory's own
//! context comes behind that copy.)

use slab::Slab;
use smallvec::SmallVec;

use super::hazard::{Entry, User};
use super::ids::{ContextId, MemoryId};
use super::machine::Memory;
use super::node::Does;
use super::preds::Preds;
use super::segments::Segments;
use super::{Engine, HEAP, Mode, Node, NodeId, Place, ReadSet, ReadSetId, Root, RootId, Shell, Slot, Turn};

/// A place in a row of nodes each of which comes after those before it.
///
/// Numbers of chains may come again after many; who is taken for one behind another then waits for it, and no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain {
    number: u32,
    at: u32,
}

impl Chain {
    /// Whether it is one, and no node's that has none.
    fn is_some(self) -> bool {
        self.number != 0
    }

    /// Whether who comes after this place comes after that one.
    fn is_behind(self, that: Chain) -> bool {
        self.is_some() && self.number == that.number && self.at >= that.at
    }
}

/// What chains say of the readers of a read set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LastReader {
    #[default]
    Nobody,
    /// All that had not settled by then are in one chain, of this context, and this is the last of them.
    One(NodeId, Chain, Option<ContextId>),
    Several,
}

/// A root without handles that holds memory of a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaver {
    root: RootId,
    memory: MemoryId,
}

/// Few are looked at for each new root: those that have gone the longest come first, and of many the earliest are forgotten.
const MOST_LEAVERS: usize = 16;

/// A root in more pieces than these has more users to wait for than its memory is worth.
const MOST_SEGMENTS: usize = 4;

/// Allocations that several roots hold.
#[derive(Debug, Default)]
pub(super) struct Shares(Slab<Share>);

#[derive(Debug)]
struct Share {
    holders: u32,
    /// A device that hangs may still touch it.
    leaks: bool,
}

/// Names an allocation that several roots hold.
pub(super) type ShareId = u32;

/// A root's part in one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    memory: MemoryId,
    share: ShareId,
    /// Another has it from this root.
    is_handed_on: bool,
}

impl Shares {
    fn add(&mut self) -> ShareId {
        self.0.insert(Share { holders: 1, leaks: false }) as ShareId
    }

    /// One of those that hold it lets it go, and says whether it leaks. If that was the last, says whether any did.
    fn leave(&mut self, of: ShareId, leaks: bool) -> Option<bool> {
        let share = &mut self.0[of as usize];
        share.leaks |= leaks;
        share.holders -= 1;
        (share.holders == 0).then(|| self.0.remove(of as usize).leaks)
    }

    fn is_held_by_others(&self, of: ShareId) -> bool {
        self.0[of as usize].holders > 1
    }
}

impl<S: Shell> Root<S> {
    /// The name of its allocation in a memory, if others hold that as well, or did.
    pub(super) fn share(&self, memory: MemoryId) -> Option<ShareId> {
        self.shares.iter().find(|part| part.memory == memory).map(|part| part.share)
    }

    /// It lets go of what it has in a memory.
    pub(super) fn take_share(&mut self, memory: MemoryId) -> Option<ShareId> {
        let at = self.shares.iter().position(|part| part.memory == memory)?;
        Some(self.shares.swap_remove(at).share)
    }

    /// Whether what it has in a memory may become another's once all that is planned has run.
    fn may_leave_memory(&self, memory: MemoryId) -> bool {
        let is_plain = self.home.is_none() && self.stuck.is_none() && !self.is_kept;
        is_plain && self.allocation(memory).is_some()
    }
}

impl<S: Shell> Engine<S> {
    /// A root has lost its last handle, and has users.
    pub(super) fn leaves_heirs(&mut self, root: RootId) {
        let entry = &self.roots[root];
        for (memory, slot) in &entry.slots {
            if *memory == HEAP || !matches!(slot, Slot::Ready(_)) || !entry.may_leave_memory(*memory) {
                continue;
            }
            if self.leavers.len() == MOST_LEAVERS {
                self.leavers.remove(0);
            }
            self.leavers.push(Leaver { root, memory: *memory });
        }
    }

    /// A root has gone.
    pub(super) fn leaves_no_heirs(&mut self, root: RootId) {
        if !self.leavers.is_empty() {
            self.leavers.retain(|leaver| leaver.root != root);
        }
    }

    /// A new node takes its place in a chain, if what it uses may ever be handed on.
    #[inline]
    pub(super) fn joins_chain(&mut self, id: NodeId, preds: &Preds) {
        let zeroed = |memory: MemoryId| self.memories[memory.0 as usize].traits.zeroed;
        match self.nodes[id].place {
            Place::Device(device) if !zeroed(self.devices[device.0 as usize].memory) => {
                self.finds_chain(id, preds);
            }
            Place::Device(_) | Place::Host => {
                let Engine { nodes, read_sets, .. } = self;
                let node = &mut nodes[id];
                // The slot may have been that of a node in one.
                node.chain = Chain::default();
                for set in &node.read_sets {
                    read_sets[set.0 as usize].last_reader = LastReader::Several;
                }
            }
        }
    }

    fn finds_chain(&mut self, id: NodeId, preds: &Preds) {
        let last_reader = |set: &ReadSetId| match self.read_sets[set.0 as usize].last_reader {
            LastReader::One(reader, ..) => Some(reader),
            LastReader::Nobody | LastReader::Several => None,
        };
        let readers = preds.read_sets.iter().filter_map(last_reader);
        let context = self.context_at(self.nodes[id].place);
        let may_follow = |before: &Node<S>| {
            !before.is_followed && before.chain.is_some() && self.context_at(before.place) == context
        };
        let mut before = preds.nodes.iter().map(|(from, _)| *from).chain(readers);
        let before = before.find(|from| self.nodes.get(*from).is_some_and(may_follow));
        let chain = match before {
            Some(before) => {
                let node = &mut self.nodes[before];
                node.is_followed = true;
                Chain { at: node.chain.at.wrapping_add(1), ..node.chain }
            }
            None => {
                self.chains = self.chains.wrapping_add(1);
                Chain { number: self.chains, at: 0 }
            }
        };
        let Engine { nodes, read_sets, .. } = self;
        let node = &mut nodes[id];
        node.chain = chain;
        for set in &node.read_sets {
            read_sets[set.0 as usize].is_read_by(id, chain, context);
        }
    }

    /// The context of a place; the host has none.
    #[inline]
    fn context_at(&self, place: Place) -> Option<ContextId> {
        match place {
            Place::Host => None,
            Place::Device(device) => Some(self.devices[device.0 as usize].context),
        }
    }

    /// Gives a root that is about to be used in a memory for the first time the memory of one that is going, if there is such. `ahead` has all
    /// that the user comes after, and comes to have the users of the other as well.
    #[inline]
    pub(super) fn inherits(&mut self, user: User, root: RootId, ahead: &mut Preds) -> bool {
        !self.leavers.is_empty() && self.finds_leaver(user, root, ahead)
    }

    #[cold]
    fn finds_leaver(&mut self, user: User, root: RootId, ahead: &mut Preds) -> bool {
        let (id, memory) = (user.node, user.memory);
        // What nobody has written is to read as zeros where fresh memory does. While there is a lack of room, who has what
        // goes by other rules.
        let Memory { traits, context, .. } = self.memories[memory.0 as usize];
        if traits.zeroed || self.lines.is_some() || self.lost_with(memory).is_some() {
            return false;
        }
        let replaces = |root: RootId| {
            let mut uses = self.nodes[id].uses.iter();
            uses.any(|used| (used.root, used.memory, used.does) == (root, memory, Does::Replaces))
        };
        let entry = &self.roots[root];
        let is_first = entry.home.is_none() && !entry.slots.iter().any(|(of, _)| *of == memory);
        if !is_first || !replaces(root) {
            return false;
        }
        let places = self.places_behind(ahead);
        for at in 0..self.leavers.len() {
            let Leaver { root: from, memory: of } = self.leavers[at];
            if of != memory || !self.suits(from, root, memory) {
                continue;
            }
            let users = self.users_ahead(from, user);
            if self.comes_behind(&places, &users, context) {
                self.leavers.remove(at);
                ahead.nodes.extend(users.nodes);
                ahead.read_sets.extend(users.read_sets);
                self.hands_on(from, root, memory);
                return true;
            }
        }
        false
    }

    fn suits(&self, from: RootId, root: RootId, memory: MemoryId) -> bool {
        let (Some(old), Some(new)) = (self.roots.get(from), self.roots.get(root)) else { return false };
        let is_whole = Segments::len(&old.segments) <= MOST_SEGMENTS;
        is_whole
            && old.may_leave_memory(memory)
            && S::fits((&old.object, old.bytes), (&new.object, new.bytes))
    }

    /// What a user that overwrites all of a root in a memory comes after.
    fn users_ahead(&mut self, from: RootId, user: User) -> Preds {
        let Engine { roots, read_sets, record, .. } = self;
        let (mut preds, mut causes) = (Preds::default(), Vec::new());
        let mut uses =
            Entry { user, preds: &mut preds, read_sets, record, causes: &mut causes, joined: None };
        let segments = roots[from].segments.iter();
        segments.for_each(|segment| uses.hazards(segment, Mode::Overwrite));
        preds
    }

    /// The places in chains that who comes after these comes after.
    fn places_behind(&self, these: &Preds) -> SmallVec<[Chain; 8]> {
        let nodes = these.nodes.iter().filter_map(|(id, _)| self.nodes.get(*id)).map(|node| node.chain);
        let readers =
            these.read_sets.iter().filter_map(|set| match self.read_sets[set.0 as usize].last_reader {
                LastReader::One(_, chain, _) => Some(chain),
                LastReader::Nobody | LastReader::Several => None,
            });
        nodes.chain(readers).collect()
    }

    /// Whether who comes after these places comes after those users, and they are of this context.
    fn comes_behind(&self, places: &[Chain], those: &Preds, context: Option<ContextId>) -> bool {
        let last = |set: &ReadSetId| self.read_sets[set.0 as usize].last_reader;
        let is_passed = |chain: Chain| places.iter().any(|place| place.is_behind(chain));
        let mut nodes = those.nodes.iter().filter_map(|(id, _)| self.nodes.get(*id));
        nodes.all(|node| self.context_at(node.place) == context && is_passed(node.chain))
            && those.read_sets.iter().all(|set| match last(set) {
                LastReader::Nobody => true,
                LastReader::One(_, chain, of) => of == context && is_passed(chain),
                LastReader::Several => false,
            })
    }

    /// Two roots hold one allocation from here on.
    fn hands_on(&mut self, from: RootId, root: RootId, memory: MemoryId) {
        let old = &mut self.roots[from];
        let Some(allocation) = old.allocation(memory).cloned() else { return };
        let share = old.take_share(memory).unwrap_or_else(|| self.shares.add());
        old.shares.push(Part { memory, share, is_handed_on: true });
        self.shares.0[share as usize].holders += 1;
        let new = &mut self.roots[root];
        new.shares.push(Part { memory, share, is_handed_on: false });
        new.slots.push((memory, Slot::Ready(allocation)));
        self.count_slots(memory, 1);
        self.tally.inherited += 1;
    }

    /// Whether what a root has in a memory is another's as well, which has it from this one.
    pub(super) fn is_handed_on(&self, root: &Root<S>, memory: MemoryId) -> bool {
        let mut parts = root.shares.iter();
        parts.any(|part| {
            part.memory == memory && part.is_handed_on && self.shares.is_held_by_others(part.share)
        })
    }

    /// A root has let go of an allocation, which is freed if nobody else holds it.
    pub(super) fn frees(
        &mut self,
        allocation: S::Memory,
        share: Option<ShareId>,
        leaks: bool,
        turn: &mut Turn<S>,
    ) {
        let leaks = match share {
            None => Some(leaks),
            Some(share) => self.shares.leave(share, leaks),
        };
        match leaks {
            Some(true) => turn.leaked.push(allocation),
            Some(false) => turn.freed.push(allocation),
            // Another root has it, and so this is not the last of it.
            None => drop(allocation),
        }
    }

    /// Adds to these allocations the same ones as other roots hold them.
    pub(super) fn with_all_holders(&self, of: &mut Vec<(RootId, MemoryId)>) {
        let share = |(root, memory): &(RootId, MemoryId)| self.roots.get(*root)?.share(*memory);
        let shares: SmallVec<[ShareId; 4]> = of.iter().filter_map(share).collect();
        if shares.is_empty() {
            return;
        }
        for (id, root) in self.roots.iter() {
            let held = root.shares.iter().filter(|part| shares.contains(&part.share));
            of.extend(held.map(|part| (id, part.memory)));
        }
    }
}

impl ReadSet {
    /// A reader that has joined it has this place in its chain.
    fn is_read_by(&mut self, reader: NodeId, chain: Chain, context: Option<ContextId>) {
        self.last_reader = match self.last_reader {
            LastReader::One(_, last, _) if !chain.is_behind(last) && self.unsettled > 1 => {
                LastReader::Several
            }
            LastReader::Several if self.unsettled > 1 => LastReader::Several,
            // Those before it are over, or come before it in its chain.
            _ => LastReader::One(reader, chain, context),
        };
    }
}
