//! Who gives room to whom.
//!
//! That goes by the order of submission. A group that waits for room takes it from the root whose next user is the
//! farthest behind, and from none that is used before the group itself; and only the first of all that have not been fed may take any.
//! What is used the latest costs the fewest copies (Belady's rule), and since the first can always run, all come to run.
//! If nothing runs, since the first waits for the program, another group may take what it needs from anybody: it runs at once.

use std::collections::{HashMap, HashSet};

use super::super::ids::MemoryId;
use super::super::links::NONE;
use super::super::node::{Does, Half};
use super::super::segments::Segment;
use super::super::{Engine, HEAP, Node, NodeId, RootId, Shell, Slot, State, Turn, Use};
use super::Phase;

/// What came of a wish for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// A root has been swapped out, and its memory is free.
    Freed,
    /// A root is being swapped out.
    Begun,
    /// What is to be swapped out is in use, or it is another's turn.
    Later,
    /// There is nothing that could be.
    None,
}

/// Who uses a root in a memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Users {
    /// The first of those that have not been fed, if there is any: its place in the order, and what it does.
    pub(super) next: Option<(u64, Does)>,
    /// A lane has it, or is about to.
    pub(super) in_flight: bool,
    /// The host uses it, or a copy has its staging, which it would hold while the root is away.
    is_fixed: bool,
}

impl Users {
    fn add<S: Shell>(&mut self, node: &Node<S>, does: Does) {
        match node.state {
            State::Gated => {
                self.is_fixed |= node.staged.is_some();
                let order = (node.submitted, does == Does::Replaces);
                // Who reads a part of what it replaces does not replace it.
                let is_next = |(submitted, does)| order < (submitted, does == Does::Replaces);
                // What fails does not need it.
                if node.end.is_none() && self.next.is_none_or(is_next) {
                    self.next = Some((node.submitted, does));
                }
            }
            State::Running => self.is_fixed = true,
            State::Queued(_) | State::Feeding(..) | State::Fed(..) | State::Passed => self.in_flight = true,
        }
    }

    /// What is there is replaced next, and need neither be saved nor come back.
    pub(super) fn replaces(&self) -> bool {
        self.next.is_some_and(|(_, does)| does == Does::Replaces)
    }
}

impl<S: Shell> Engine<S> {
    /// Which of these roots, all of which wait for room in a memory, comes first.
    pub fn most_urgent(&self, memory: MemoryId, wanting: impl Iterator<Item = RootId>) -> Option<RootId> {
        let never = (true, u64::MAX);
        wanting.min_by_key(|root| (self.urgency(*root, memory).unwrap_or(never), root.sort_key()))
    }

    /// Whether anybody waits for memory of a root to be made there.
    pub fn is_wanted(&self, root: RootId, memory: MemoryId) -> bool {
        let slots = self.roots.get(root).into_iter().flat_map(|root| &root.slots);
        slots.filter(|(of, _)| *of == memory).any(|(_, slot)| slot.is_without_room())
    }

    /// Whether something else holds back the first user that waits for a slot, and its place in the order.
    fn urgency(&self, root: RootId, memory: MemoryId) -> Option<(bool, u64)> {
        let slot = &self.roots.get(root)?.slots.iter().find(|(of, _)| *of == memory)?.1;
        let users = self.listed_in(slot.waiting()?).into_iter().filter_map(|id| self.nodes.get(id));
        let urgency = |node: &Node<S>| (!self.lacks_only_memory(node), node.submitted);
        let (is_held, submitted) = users.filter(|node| node.end.is_none()).map(urgency).min()?;
        // Who writes the heap's copy waits for the way back.
        let is_waited_for = match slot {
            Slot::Swapped(swap) => swap.back.iter().any(|step| self.holds_up_writers(*step)),
            Slot::Pending(_) | Slot::Ready(_) => false,
        };
        Some((is_held && !is_waited_for, submitted))
    }

    /// Whether anybody waits for a reader to end, or to be fed.
    fn holds_up_writers(&self, reader: NodeId) -> bool {
        let Some(node) = self.nodes.get(reader) else { return false };
        let groups = node.read_sets.iter().flat_map(|set| &self.read_sets[set.0 as usize].groups);
        !node.proxies.is_empty() || groups.into_iter().any(|of| of.waiting != NONE || !of.proxies.is_empty())
    }

    /// Whether a gated node would run if it had its memory.
    pub(super) fn lacks_only_memory(&self, node: &Node<S>) -> bool {
        let is_missing = |used: &&Use| {
            let slots = &self.roots[used.root].slots;
            slots.iter().any(|(memory, slot)| *memory == used.memory && slot.waiting().is_some())
        };
        let missing = node.uses.iter().filter(is_missing).count() as u32;
        let others = match node.half {
            Half::None => 0,
            // The shell holds back both, and the first waits for the memory of the second, too.
            Half::First => 2,
            Half::Second => 1,
        };
        node.gates <= missing + others
    }

    /// Makes room in a device's memory for a root that waits for some, if it is its turn, by swapping another root out.
    pub fn make_room(&mut self, memory: MemoryId, root: RootId, turn: &mut Turn<S>) -> Room {
        let Some((is_held, mine)) = self.urgency(root, memory) else { return Room::None };
        if self.is_being_emptied(memory) {
            return Room::Later;
        }
        let users = self.users_of_roots_in(memory);
        let best = self.farthest(memory, &users, |next| next > mine);
        // That costs nothing, whoever's turn it is; later it may have been written again.
        if let Some((found, users)) = best.filter(|(_, users)| users.replaces()) {
            return self.swap_out(found, memory, users, turn);
        }
        let first = users.values().filter_map(|users| users.next).map(|(submitted, _)| submitted).min();
        if first.is_none_or(|first| mine <= first) {
            // What is used for the last time costs nothing, or once: that is waited for.
            let is_last = |(root, users): (&RootId, &Users)| {
                users.in_flight && users.next.is_none() && self.roots[*root].home.is_none()
            };
            if users.iter().any(is_last) {
                return Room::Later;
            }
            if let Some((found, users)) = best {
                return self.swap_out(found, memory, users, turn);
            }
        }
        // It may be the turn of others that run before this one. Their memory is emptied for this one when they have run. What it uses
        // itself, beside what it lacks, is left to it, whoever uses that before: otherwise it would never have both.
        let own: HashSet<RootId> = self.roots_of(mine, memory);
        let others =
            users.iter().filter(|(root, _)| !own.contains(root)).map(|(root, users)| (*root, *users));
        let other = self.farthest(memory, &others.collect(), |_| true);
        match other {
            None => Room::None,
            Some((_, users)) if users.in_flight || is_held || self.is_busy(memory) => Room::Later,
            // The first of all waits for the program, or for one that does.
            Some((found, users)) => self.swap_out(found, memory, users, turn),
        }
    }

    /// What is used in a memory by those that were submitted at a place of the order.
    fn roots_of(&self, submitted: u64, memory: MemoryId) -> HashSet<RootId> {
        let nodes = self.nodes.iter().filter(|(_, node)| node.submitted == submitted);
        let used = nodes.flat_map(|(_, node)| &node.uses).filter(|used| used.memory == memory);
        used.map(|used| used.root).collect()
    }

    fn is_being_emptied(&self, memory: MemoryId) -> bool {
        let is_leaving = |root: RootId| {
            let slots = self.roots.get(root).into_iter().flat_map(|root| &root.slots);
            slots.filter(|(of, _)| *of == memory).any(|(_, slot)| match slot {
                Slot::Swapped(swap) => matches!(swap.phase, Phase::Closing | Phase::Leaving),
                Slot::Pending(_) | Slot::Ready(_) => false,
            })
        };
        self.swaps.values().chain(&self.closing_slots).any(|(root, of)| *of == memory && is_leaving(*root))
    }

    /// Who uses which root in a memory, of those that have not ended.
    pub(super) fn users_of_roots_in(&self, memory: MemoryId) -> HashMap<RootId, Users> {
        let mut found: HashMap<RootId, Users> = HashMap::new();
        for (_, node) in self.nodes.iter() {
            for used in node.uses.iter().filter(|used| used.memory == memory) {
                found.entry(used.root).or_default().add(node, used.does);
            }
        }
        found
    }

    /// Who uses a root in a memory.
    pub(super) fn users_of(&self, root: RootId, memory: MemoryId) -> Users {
        let mut users = Users::default();
        for (_, node) in self.nodes.iter() {
            let meant = node.uses.iter().filter(|used| (used.root, used.memory) == (root, memory));
            meant.for_each(|used| users.add(node, used.does));
        }
        users
    }

    /// Of the roots in a memory that could be swapped out, the one whose next user is the farthest behind.
    fn farthest(
        &self,
        memory: MemoryId,
        users: &HashMap<RootId, Users>,
        may_go: impl Fn(u64) -> bool,
    ) -> Option<(RootId, Users)> {
        let candidates = users.iter().filter(|(_, users)| users.next.is_some_and(|(next, _)| may_go(next)));
        let mut candidates: Vec<(RootId, Users)> = candidates.map(|(root, users)| (*root, *users)).collect();
        let rank = |users: &Users| (users.replaces(), users.next.map(|(next, _)| next));
        candidates.sort_unstable_by_key(|(root, users)| (rank(users), root.sort_key()));
        // The rest of the question takes longer, and most often the first is the answer.
        candidates.into_iter().rev().find(|(root, users)| self.may_be_swapped_out(*root, memory, users))
    }

    pub(super) fn may_be_swapped_out(&self, id: RootId, memory: MemoryId, users: &Users) -> bool {
        self.roots[id].allocation(memory).is_some() && self.may_leave(id, memory, users)
    }

    pub(super) fn may_leave(&self, id: RootId, memory: MemoryId, users: &Users) -> bool {
        let root = &self.roots[id];
        let is_plain = root.home.is_none()
            && root.stuck.is_none()
            && !root.shows_others()
            && !root.copies.stay.contains(&memory);
        if users.is_fixed || !is_plain || memory == HEAP {
            return false;
        }
        // A version that is in the heap, and has not come here, may be newer than what those use who wait here. Of that one this is the
        // only copy, and the heap has no place for it.
        let is_live = |id| self.nodes.contains(id);
        let is_older = |segment: &Segment<S::Cause>| {
            segment.is_current_in(HEAP) && !segment.has_come_to(memory, is_live)
        };
        (users.replaces() || !root.segments.iter().any(is_older))
            && self.lost_with(memory).is_none()
            && !self.users_in(HEAP).any(|used| used.root == id)
    }
}

/// Roots are swapped out without anybody's asking for room, for tests.
impl<S: Shell> Engine<S> {
    /// Roots that somebody is going to use in a memory and that could be swapped out there now.
    pub fn could_be_swapped_out(&self, memory: MemoryId) -> Vec<RootId> {
        let users = self.users_of_roots_in(memory);
        let may = |(root, users): &(&RootId, &Users)| {
            users.next.is_some() && self.may_be_swapped_out(**root, memory, users)
        };
        let mut roots: Vec<RootId> = users.iter().filter(may).map(|(root, _)| *root).collect();
        roots.sort_unstable_by_key(|root| root.sort_key());
        roots
    }

    /// Swaps one of those out.
    pub fn swap_out_now(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let users = self.users_of(root, memory);
        if self.may_be_swapped_out(root, memory, &users) {
            self.swap_out(root, memory, users, turn);
        }
    }
}
