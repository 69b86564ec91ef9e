//! Memory that is emptied so that others have room, and filled again before its next user runs.
//!
//! Who planned to find data in a device's memory counts on it, so it cannot be [given up](Engine::evict) there. But it can be away
//! for a while: no planned order changes, and no copy becomes stale or current, by what happens here. A root is *swapped out* in a memory
//! while all of its users there are gated. From then on they wait for the slot, too. First what the heap does not hold is copied
//! there (the slot is *leaving*); then the memory is freed and asked for again (it is *away*); when it has been made, the data
//! comes back (it is *arriving*); and then the slot is ready, and its users are let go.
//!
//! The heap's own allocation of the root takes the data in, so nobody may count on that meanwhile: a root that has users in the heap
//! is left alone. What was current in the heap stays there as it is. The rest was stale, and is overwritten. The steps back are
//! planned together with those to the heap, as readers there: later writers of the heap's copy come behind them, though the
//! steps may wait for room for long. The steps are not entered in the memory that is swapped out itself. Nobody else
//! touches it until they are over.
//!
//! Who gives room to whom goes by the order of submission. A group that waits for room takes it from the root whose next user is the
//! farthest behind, and from none that is used before the group itself; and only the first of all that have not been fed may take any.
//! What is used the latest costs the fewest copies (Belady's rule), and since the first can always run, all come to run.
//! If nothing runs, since the first waits for the program, another group may take what it needs from anybody: it runs at once.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::boxes::Box3;
use super::ids::MemoryId;
use super::links::{GATE, NONE, push};
use super::node::Does;
use super::segments::{Content, Segment, Source};
use super::transfer::{Passage, Steps};
use super::{
    Allocate, Engine, HEAP, Node, NodeId, Outcome, Root, RootId, Shell, Slot, State, Step, Transfer, Turn,
    Use,
};

/// A slot whose data is away, or on its way.
pub(super) struct Swap<S: Shell> {
    /// While there is any.
    pub(super) memory: Option<S::Memory>,
    /// The edges to those that wait for it.
    pub(super) waiting: u32,
    phase: Phase,
    /// How many last steps of moves have not ended: those of the way out, then those of the way back.
    left: u32,
    /// The first steps of the way back, held until there is memory, and how many last steps there are.
    back: SmallVec<[NodeId; 1]>,
    /// The first failure of a step.
    failed: Option<S::Cause>,
    /// The memory is in a lost context, and counted there.
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing new runs with it, and what does has not ended.
    Closing,
    /// It is copied to the heap.
    Leaving,
    /// A copy to the heap has failed: it is as it was, as soon as the steps back have ended.
    Staying,
    Away,
    Arriving,
}

impl<S: Shell> Swap<S> {
    /// There is no memory now, and it waits for room.
    pub(super) fn is_away(&self) -> bool {
        self.phase == Phase::Away
    }

    /// Its context is lost.
    pub(super) fn take_lost(&mut self) -> Option<S::Memory> {
        self.is_lost |= self.memory.is_some();
        self.memory.take()
    }
}

/// What a root's allocations hold that the heap's does not. In neither list are those that nobody has written.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Something was written there that may be nowhere else.
    written: SmallVec<[MemoryId; 2]>,
    /// All that it holds is in the heap's as well.
    like_heap: SmallVec<[MemoryId; 2]>,
    /// How many nodes that write the heap's have been planned.
    pub(super) writers_in_heap: u32,
    /// Copying it to the heap has failed, and is not tried again.
    stay: bool,
}

impl Copies {
    /// A use is planned.
    #[inline]
    pub(super) fn enter(&mut self, memory: MemoryId, does: Does) {
        self.writers_in_heap = self.writers_in_heap.wrapping_add(u32::from(memory == HEAP && does.writes()));
    }

    /// Something has been written in a memory.
    #[inline]
    pub(super) fn write(&mut self, memory: MemoryId, does: Does) {
        if memory == HEAP {
            if !self.like_heap.is_empty() {
                self.heap_changes(does);
            }
        } else if !self.written.contains(&memory) {
            // By way of staging the heap may have been written again before the copy has come.
            let is_like_heap = does == Does::CopiesHeap(self.writers_in_heap);
            if is_like_heap && self.like_heap.contains(&memory) {
                return;
            }
            self.forget(memory);
            if is_like_heap { &mut self.like_heap } else { &mut self.written }.push(memory);
        }
    }

    #[cold]
    fn heap_changes(&mut self, does: Does) {
        let still = |memory: &MemoryId| does == Does::Copies(*memory);
        let (same, other) = std::mem::take(&mut self.like_heap).into_iter().partition(still);
        self.like_heap = same;
        self.written.extend::<SmallVec<[MemoryId; 2]>>(other);
    }

    /// A memory has no allocation any more.
    pub(super) fn forget(&mut self, memory: MemoryId) {
        if memory == HEAP {
            self.heap_changes(Does::Writes);
        }
        self.written.retain(|of| *of != memory);
        self.like_heap.retain(|of| *of != memory);
    }
}

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
#[derive(Clone, Copy, Debug)]
struct Users {
    /// The first of those that have not been fed, if there is any: its place in the order, and what it does.
    next: Option<(u64, Does)>,
    /// A lane has it, or is about to.
    in_flight: bool,
    /// The host uses it, or a copy has its staging, which it would hold while the root is away.
    is_fixed: bool,
}

impl Users {
    /// What is there is replaced next, and need neither be saved nor come back.
    fn replaces(&self) -> bool {
        self.next.is_some_and(|(_, does)| does == Does::Replaces)
    }
}

/// What is to move: to the heap, and back again.
#[derive(Default)]
struct Cargo {
    out: SmallVec<[Box3; 2]>,
    back: SmallVec<[Box3; 2]>,
    /// What was never written, and reads as zeros.
    cleared: SmallVec<[Box3; 2]>,
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
        let slots = &self.roots.get(root)?.slots;
        let waiting = slots.iter().find(|(of, _)| *of == memory)?.1.waiting()?;
        let users = self.listed_in(waiting).into_iter().filter_map(|id| Some((id, self.nodes.get(id)?)));
        let urgency = |(_, node): (NodeId, &Node<S>)| (!self.lacks_only_memory(node), node.submitted);
        users.filter(|(_, node)| node.end.is_none()).map(urgency).min()
    }

    /// Whether a gated node would run if it had its memory.
    fn lacks_only_memory(&self, node: &Node<S>) -> bool {
        let is_missing = |used: &&Use| {
            let slots = &self.roots[used.root].slots;
            slots.iter().any(|(memory, slot)| *memory == used.memory && slot.waiting().is_some())
        };
        let missing = node.uses.iter().filter(is_missing).count() as u32;
        // One gate of a staged copy is the shell's, and its first step waits for the memory of the second.
        node.gates <= missing + if node.is_half { 2 } else { 0 }
    }

    /// Whether a step has its staging, or waits for nothing but that.
    pub(super) fn is_staged(&self, id: NodeId, node: &Node<S>) -> bool {
        let waits = |(first, second): (&NodeId, &NodeId)| *first == id || *second == id;
        node.is_half && !self.unstaged.iter().any(waits)
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
        // It may be the turn of others that run before this one. Their memory is emptied for this one when they have run.
        let other = self.farthest(memory, &users, |next| next != mine);
        match other {
            None => Room::None,
            Some((_, users)) if users.in_flight || is_held || self.is_busy(memory) => Room::Later,
            // The first of all waits for the program, or for one that does.
            Some((found, users)) => self.swap_out(found, memory, users, turn),
        }
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
    fn users_of_roots_in(&self, memory: MemoryId) -> HashMap<RootId, Users> {
        let mut found: HashMap<RootId, Users> = HashMap::new();
        for (id, node) in self.nodes.iter() {
            for used in node.uses.iter().filter(|used| used.memory == memory) {
                let none = Users { next: None, in_flight: false, is_fixed: false };
                let users = found.entry(used.root).or_insert(none);
                match node.state {
                    // What fails does not need it.
                    State::Gated if node.end.is_some() => {}
                    State::Gated => {
                        let order = (node.submitted, used.does == Does::Replaces);
                        let is_next = users.next.is_none_or(|(submitted, does)| {
                            // Who reads a part of what it replaces does not replace it.
                            order < (submitted, does == Does::Replaces)
                        });
                        users.next = if is_next { Some((node.submitted, used.does)) } else { users.next };
                        users.is_fixed |= self.is_staged(id, node);
                    }
                    State::Running => users.is_fixed = true,
                    _ => users.in_flight = true,
                }
            }
        }
        found
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

    fn may_be_swapped_out(&self, id: RootId, memory: MemoryId, users: &Users) -> bool {
        self.roots[id].allocation(memory).is_some() && self.may_leave(id, memory, users)
    }

    fn may_leave(&self, id: RootId, memory: MemoryId, users: &Users) -> bool {
        let root = &self.roots[id];
        let is_plain =
            root.home.is_none() && root.stuck.is_none() && !root.shows_others() && !root.copies.stay;
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

    /// From here on nothing new runs with a root's memory. What does is waited for.
    fn swap_out(&mut self, root: RootId, memory: MemoryId, users: Users, turn: &mut Turn<S>) -> Room {
        let slots = &mut self.roots[root].slots;
        let Some(at) = slots.iter().position(|(of, _)| *of == memory) else { return Room::None };
        let Slot::Ready(allocation) = slots.swap_remove(at).1 else { return Room::None };
        let (waiting, left) = self.hold_users(root, memory);
        let swap = Swap {
            memory: Some(allocation),
            waiting,
            phase: Phase::Closing,
            left,
            back: SmallVec::new(),
            failed: None,
            is_lost: false,
        };
        self.roots[root].slots.push((memory, Slot::Swapped(Box::new(swap))));
        if users.in_flight {
            self.closing_slots.push((root, memory));
            return Room::Begun;
        }
        self.leave(root, memory, turn);
        match self.swap_mut(root, memory).is_some_and(|swap| swap.is_away()) {
            true => Room::Freed,
            false => Room::Begun,
        }
    }

    /// A user of a root in a memory that is being closed has settled.
    #[cold]
    pub(super) fn closing_user_ended(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let Some(swap) = self.swap_mut(root, memory) else { return };
        swap.left -= 1;
        if swap.left > 0 {
            return;
        }
        self.closing_slots.retain(|of| *of != (root, memory));
        let users = self.users_of_roots_in(memory).get(&root).copied();
        match users.is_some_and(|users| self.may_leave(root, memory, &users)) {
            true => self.leave(root, memory, turn),
            // Somebody has come meanwhile who wants it elsewhere.
            false => self.is_back(root, memory, turn),
        }
    }

    /// Nobody uses a root's memory now: what it holds is copied to the heap, as far as that does not have it and somebody wants it, and the
    /// way back is planned.
    fn leave(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let users = self.users_of_roots_in(memory).get(&root).copied();
        let (submitted, does) = users.and_then(|users| users.next).unwrap_or((self.submitted, Does::Reads));
        let cargo = self.cargo(root, memory, does);
        let out = self.move_all(root, (memory, HEAP), &cargo.out, turn);
        self.note_what_the_heap_has(root, memory, &cargo.out);
        let before = std::mem::replace(&mut self.submitted, submitted);
        let mut back = self.move_all(root, (HEAP, memory), &cargo.back, turn);
        back.extend(
            cargo.cleared.iter().filter_map(|bounds| self.clear_swapped(root, memory, *bounds, turn)),
        );
        self.submitted = before;
        let last_steps = out.iter().chain(&back).map(|(_, last)| *last);
        self.swaps.extend(last_steps.map(|last| (last, (root, memory))));
        let Some(swap) = self.swap_mut(root, memory) else { return };
        swap.phase = Phase::Leaving;
        swap.left = out.len() as u32;
        swap.back = back.into_iter().map(|(first, _)| first).collect();
        if out.is_empty() {
            self.goes_away(root, memory, turn);
        }
    }

    /// Has all users of a root in a memory wait for its slot that have not been queued. Returns their list, and how many uses the others
    /// make of it.
    fn hold_users(&mut self, root: RootId, memory: MemoryId) -> (u32, u32) {
        let is_meant = |used: &&Use| used.root == root && used.memory == memory;
        let count = |(id, node): (NodeId, &Node<S>)| (id, node.uses.iter().filter(is_meant).count());
        let (gated, others): (Vec<(NodeId, &Node<S>)>, Vec<_>) =
            self.nodes.iter().partition(|(_, node)| node.state == State::Gated);
        let left: usize = others.into_iter().map(|user| count(user).1).sum();
        let mut users: Vec<(NodeId, usize)> =
            gated.into_iter().map(count).filter(|(_, uses)| *uses > 0).collect();
        // What would bring something there takes no staging before.
        let brings = |second: &NodeId| {
            self.nodes[*second].uses.iter().any(|used| is_meant(&used) && used.does.writes())
        };
        let first_steps = self.unstaged.iter().filter(|(_, second)| brings(second));
        users.extend(first_steps.map(|(first, _)| (*first, 1)));
        let mut waiting = NONE;
        for (id, uses) in users {
            (0..uses).for_each(|_| push(&mut self.edges, &mut waiting, id, GATE));
            self.nodes[id].gates += uses as u32;
        }
        (waiting, left as u32)
    }

    /// Which boxes the heap has to take in, and which have to come back from there.
    fn cargo(&self, root: RootId, memory: MemoryId, next: Does) -> Cargo {
        let entry = &self.roots[root];
        let (is_written, is_like_heap) =
            (entry.copies.written.contains(&memory), entry.copies.like_heap.contains(&memory));
        if next == Does::Replaces || !(is_written || is_like_heap) {
            return Cargo::default();
        }
        let (mut out, mut back, mut cleared) = (Vec::new(), Vec::new(), Vec::new());
        let source = || SmallVec::from_iter([Source { memory, pending: None }]);
        for segment in entry.segments.iter() {
            let (here, in_heap) = (segment.is_current_in(memory), segment.is_current_in(HEAP));
            let is_cleared = segment.replica(memory).is_some_and(|replica| replica.cleared);
            match segment.content {
                // What has failed may have come after those that wait here: they are to find what was there before.
                Content::Written | Content::Poisoned(_) => {
                    if is_written && !in_heap {
                        out.push((segment.bounds, source()));
                    }
                    if here || !in_heap {
                        back.push((segment.bounds, source()));
                    }
                }
                Content::Never if is_cleared => cleared.push((segment.bounds, source())),
                Content::Never => {}
            }
        }
        let fewest = |boxes: &[_]| self.shortest(boxes).into_iter().map(|(bounds, _)| bounds).collect();
        Cargo { out: fewest(&out), back: fewest(&back), cleared: fewest(&cleared) }
    }

    /// Plans the moves of some boxes between the heap and memory that is swapped out.
    fn move_all(
        &mut self,
        root: RootId,
        (from, to): (MemoryId, MemoryId),
        boxes: &[Box3],
        turn: &mut Turn<S>,
    ) -> Steps {
        let mut segments = std::mem::take(&mut self.roots[root].segments);
        let unit = self.roots[root].unit;
        let passage = match to {
            HEAP => Passage { swapped: Some(from), is_held: false },
            to => Passage { swapped: Some(to), is_held: true },
        };
        let mut steps = Steps::new();
        for &bounds in boxes {
            let whole =
                Transfer { root, from, to, bounds, bytes: bounds.volume() * unit, step: Step::Direct };
            steps.extend(self.swap_box(&mut segments, whole, passage, turn).into_iter().flatten());
        }
        self.roots[root].segments = segments;
        steps
    }

    /// The heap's copy has just been entered as the target of these boxes, and counts as current there. It is, where the newest version has
    /// been written already; where it is still to be, this one is older.
    fn note_what_the_heap_has(&mut self, root: RootId, memory: MemoryId, boxes: &[Box3]) {
        let Engine { roots, nodes, .. } = self;
        let segments = &mut roots[root].segments;
        for bounds in boxes {
            for at in segments.overlapping(bounds) {
                let segment = segments.get_mut(at);
                let is_live = |id| nodes.contains(id);
                // A guard that waits for this memory may write a newer one.
                let may_change = segment.guards.iter().copied().any(is_live);
                let is_newest = segment.has_come_to(memory, is_live) && !may_change;
                segment.replica_mut(HEAP).valid = is_newest;
            }
        }
    }

    /// A step uses memory that is swapped out.
    pub(super) fn use_swapped(&mut self, node: NodeId, used: Use) {
        self.nodes[node].uses.push(used);
        self.roots[used.root].users += 1;
    }

    fn swap_mut(&mut self, root: RootId, memory: MemoryId) -> Option<&mut Swap<S>> {
        let slots = self.roots.get_mut(root)?.slots.iter_mut();
        slots.filter(|(of, _)| *of == memory).find_map(|(_, slot)| match slot {
            Slot::Swapped(swap) => Some(&mut **swap),
            _ => None,
        })
    }

    /// Why a step of such a move has failed, if this is one that has.
    #[inline]
    pub(super) fn why_swap_failed(&self, id: NodeId, outcome: &Outcome<S::Cause>) -> Option<S::Cause> {
        match outcome {
            Outcome::Done => None,
            _ if !self.swaps.contains_key(&id) => None,
            Outcome::Failed(cause) | Outcome::Doomed(cause) | Outcome::Cancelled(cause) => {
                Some(cause.clone())
            }
        }
    }

    /// A node has settled, which may have been the last step of a move.
    #[cold]
    pub(super) fn swap_step_ended(&mut self, id: NodeId, failed: Option<S::Cause>, turn: &mut Turn<S>) {
        let Some((root, memory)) = self.swaps.remove(&id) else { return };
        let Some(swap) = self.swap_mut(root, memory) else { return turn.causes.extend(failed) };
        swap.left -= 1;
        let (left, phase, waiting) = (swap.left, swap.phase, swap.waiting);
        match failed {
            Some(cause) if swap.failed.is_none() => {
                swap.failed = Some(cause.clone());
                // At once, so that their owners know; those that come later find it when the last step has ended.
                match phase {
                    Phase::Arriving => self.doom_list(waiting, &cause, turn),
                    Phase::Closing | Phase::Leaving | Phase::Staying | Phase::Away => {}
                }
                turn.causes.push(cause);
            }
            failed => turn.causes.extend(failed),
        }
        match phase {
            _ if left > 0 => {}
            Phase::Leaving => self.has_left(root, memory, turn),
            Phase::Closing | Phase::Staying | Phase::Away | Phase::Arriving => {
                self.is_back(root, memory, turn)
            }
        }
    }

    /// The last copy to the heap has ended.
    fn has_left(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let Some(swap) = self.swap_mut(root, memory) else { return };
        let Some(cause) = swap.failed.take() else { return self.goes_away(root, memory, turn) };
        turn.causes.push(cause);
        swap.phase = Phase::Staying;
        // The steps back for which the heap was to have something are doomed with its copy. The others bring what is there.
        self.let_steps_back_go(root, memory, turn);
    }

    /// All that was to be saved has been: the memory is freed, and asked for again.
    fn goes_away(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let Some(swap) = self.swap_mut(root, memory) else { return };
        swap.phase = Phase::Away;
        turn.freed.extend(swap.memory.take());
        let entry = &mut self.roots[root];
        entry.copies.forget(memory);
        turn.allocate.push(Allocate { root, memory, bytes: entry.bytes, pinned: None });
    }

    /// There is memory again, or there will be none.
    pub(super) fn comes_back(
        &mut self,
        root: RootId,
        memory: MemoryId,
        made: Result<S::Memory, S::Cause>,
        turn: &mut Turn<S>,
    ) {
        let Some(swap) = self.swap_mut(root, memory) else { return };
        swap.phase = Phase::Arriving;
        match made {
            Ok(made) => {
                swap.memory = Some(made);
                self.let_steps_back_go(root, memory, turn);
            }
            Err(cause) => {
                // The slot goes now, and the next user asks again. What becomes of the steps no longer matters to it.
                let back = std::mem::take(&mut swap.back);
                swap.failed = Some(cause.clone());
                self.swaps.retain(|_, of| *of != (root, memory));
                self.is_back(root, memory, turn);
                for step in back {
                    self.fail(step, cause.clone(), turn);
                    self.open_gate(step, turn);
                }
                turn.causes.push(cause);
            }
        }
        self.finish_pending(turn);
    }

    fn let_steps_back_go(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let Some(swap) = self.swap_mut(root, memory) else { return };
        let back = std::mem::take(&mut swap.back);
        swap.left = back.len() as u32;
        match back.is_empty() {
            true => self.is_back(root, memory, turn),
            false => back.into_iter().for_each(|step| self.open_gate(step, turn)),
        }
    }

    /// The last step back has ended: those that wait are let go, with the memory or without.
    fn is_back(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let Engine { roots, nodes, .. } = self;
        let Some(entry) = roots.get_mut(root) else { return };
        let Some(at) = entry.slots.iter().position(|(of, _)| *of == memory) else { return };
        let Slot::Swapped(swap) = entry.slots.swap_remove(at).1 else { return };
        let Swap { memory: made, waiting, phase, failed, is_lost, .. } = *swap;
        let stays = phase == Phase::Staying;
        // What has not left is as it was.
        match made {
            Some(made) if stays || failed.is_none() => {
                entry.slots.push((memory, Slot::Ready(made)));
                entry.copies.stay |= stays;
                turn.causes.extend(failed);
                self.open_slot(waiting, None, turn);
            }
            made => {
                turn.freed.extend(made);
                entry.stay_in_heap(memory, |id| nodes.contains(id));
                if !is_lost {
                    self.slot_is_gone(memory, None);
                }
                self.open_slot(waiting, failed, turn);
            }
        }
    }
}

impl<S: Shell> Root<S> {
    /// A memory does not get its data back. The heap has it, but for what was still to be written there.
    fn stay_in_heap(&mut self, memory: MemoryId, is_live: impl Fn(NodeId) -> bool) {
        self.copies.forget(memory);
        for segment in self.segments.iter_mut() {
            segment
                .replicas
                .iter_mut()
                .filter(|copy| copy.memory == memory)
                .for_each(|copy| copy.cleared = false);
            // What is still to be written or brought there will not be, and its node tells. A guard that was to have it there fails, and
            // has written nothing.
            if segment.has_come_to(memory, &is_live) {
                segment.replica_mut(memory).valid = false;
                segment.replica_mut(HEAP).valid = true;
            }
            // Nor is this copy there any more if a guard does not write a newer version.
            if segment.replica(memory).is_some_and(|copy| copy.valid_unless.is_some())
                && segment.is_settled_in(memory, &is_live)
            {
                let reserved = segment.replica_mut(memory).valid_unless.take();
                segment.replica_mut(HEAP).valid_unless = reserved;
            }
        }
    }
}

impl<C: Clone + PartialEq> Segment<C> {
    /// Whether a memory holds the newest version now, and not only once all that is planned has run.
    fn has_come_to(&self, memory: MemoryId, is_live: impl Fn(NodeId) -> bool) -> bool {
        self.is_current_in(memory) && self.is_settled_in(memory, is_live)
    }

    /// Whether nobody is still to write the newest version, or to bring it to a memory.
    fn is_settled_in(&self, memory: MemoryId, is_live: impl Fn(NodeId) -> bool) -> bool {
        let mut writers =
            self.replica(memory).and_then(|copy| copy.fails_with).into_iter().chain(self.author);
        !writers.any(is_live)
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
        let users = self.users_of_roots_in(memory).get(&root).copied();
        if let Some(users) = users.filter(|users| self.may_be_swapped_out(root, memory, users)) {
            self.swap_out(root, memory, users, turn);
        }
    }

    /// Whether something holds a node back.
    pub fn is_gated(&self, id: NodeId) -> bool {
        self.nodes.get(id).is_some_and(|node| node.state == State::Gated)
    }
}
