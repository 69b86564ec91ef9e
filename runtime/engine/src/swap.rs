//! Memory that is emptied so that others have room, and filled again before its next user runs.
//!
//! Who planned to find data in a device's memory counts on it, so it cannot be [given up](Engine::evict) there. But it can be away
//! for a while: no planned order changes, and no copy becomes stale or current, by what happens here. A root is *swapped out* in a memory
//! by having all of its users there wait for the slot that have not been queued. What was queued runs to its end (the slot is *closing*);
//! then what the heap does not hold is copied there (it is *leaving*); the memory is freed and asked for again (it is *away*); when it has
//! been made, the data comes back (it is *arriving*); and then the slot is ready, and its users are let go. If a copy to the
//! heap fails, the data stays where it is (*staying*).
//!
//! The heap's own allocation of the root takes the data in, so nobody may count on that meanwhile: the data of a root that has users in the
//! heap goes [aside], if it has to go. What was current in the heap stays there as it is. The rest was stale, and is overwritten. The steps back are
//! planned together with those to the heap, as readers there: later writers of the heap's copy come behind them, though the
//! steps may wait for room for long. The steps are not entered in the memory that is swapped out itself. Nobody else
//! touches it until they are over.

mod ahead;
mod aside;
mod copies;
mod keep;
mod lines;
mod replaced;
mod room;

use smallvec::SmallVec;

pub(super) use copies::Copies;
pub(super) use lines::{Lines, is_under_way};
pub(super) use replaced::Lacking;
pub(super) use room::MANY;
pub use room::Room;
use room::Users;

use super::boxes::Box3;
use super::ids::MemoryId;
use super::links::{GATE, NONE, push};
use super::node::Half;
use super::segments::{Content, Segment, Source};
use super::transfer::{Passage, Steps};
use super::{
    Allocate, Engine, HEAP, NodeId, Outcome, Root, RootId, Shell, Slot, State, Step, Transfer, Turn, Use,
};

/// A slot whose data is away, or on its way.
pub(super) struct Swap<S: Shell> {
    /// While there is any.
    pub(super) memory: Option<S::Memory>,
    /// The edges to those that wait for it.
    pub(super) waiting: u32,
    phase: Phase,
    /// What has not ended: while it is being closed, uses by those that were queued before; then last steps of the way out; then of the
    /// way back.
    left: u32,
    /// The first steps of the way back, held until there is memory.
    back: SmallVec<[NodeId; 1]>,
    /// The first failure of a step.
    failed: Option<S::Cause>,
    /// The memory is in a lost context, and counted there.
    is_lost: bool,
    /// What is there may go [aside], and not into the heap; and whether it has.
    may_go_aside: bool,
    is_aside: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing new runs with it, and what does has not ended.
    Closing,
    /// It is copied to the heap, or aside.
    Leaving,
    /// A copy from there has failed: it is as it was, as soon as the steps back have ended.
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

/// What is to move: to the heap, and back again.
#[derive(Default)]
struct Cargo {
    out: SmallVec<[Box3; 2]>,
    back: SmallVec<[Box3; 2]>,
    /// What was never written, and reads as zeros.
    cleared: SmallVec<[Box3; 2]>,
}

impl<S: Shell> Engine<S> {
    /// From here on nothing new runs with a root's memory. What does is waited for.
    fn swap_out(&mut self, root: RootId, memory: MemoryId, users: Users, turn: &mut Turn<S>) -> Room {
        let Some(next) = users.next else { return Room::None };
        let slots = &mut self.roots[root].slots;
        let Some(at) = slots.iter().position(|(of, _)| *of == memory) else { return Room::None };
        let Slot::Ready(allocation) = slots.swap_remove(at).1 else { return Room::None };
        let may_go_aside = !self.may_go_by_heap(root, memory, &users);
        let (waiting, left, first_steps) = self.hold_users(root, memory);
        let swap = Swap {
            memory: Some(allocation),
            waiting,
            phase: Phase::Closing,
            left,
            back: SmallVec::new(),
            failed: None,
            is_lost: false,
            may_go_aside,
            is_aside: false,
        };
        self.roots[root].slots.push((memory, Slot::Swapped(Box::new(swap))));
        self.slot_has_changed(root, memory);
        first_steps.into_iter().for_each(|first| self.waits_in_line(first, root, memory));
        if users.in_flight {
            self.closing_slots.push((root, memory));
            return Room::Begun;
        }
        self.leave(root, memory, next, turn);
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
        let (is_there, may_go_aside) = (swap.memory.is_some(), swap.may_go_aside);
        self.closing_slots.retain(|of| *of != (root, memory));
        let users = self.users_of(root, memory);
        // What was to go by way of the heap, and cannot now, is worth two copies to nobody.
        let may_leave = is_there
            && self.may_leave(root, memory, &users)
            && (may_go_aside && !self.has_aside(root) || self.may_go_by_heap(root, memory, &users));
        match users.next.filter(|_| may_leave) {
            Some(next) => self.leave(root, memory, next, turn),
            // Somebody has come meanwhile who wants it elsewhere, or nobody wants it here any more, or it is lost.
            None => self.let_users_go(root, memory, turn),
        }
    }

    /// Nobody uses a root's memory now: what it holds is copied to the heap, as far as that does not have it and somebody wants it, and the
    /// way back is planned.
    fn leave(
        &mut self,
        root: RootId,
        memory: MemoryId,
        (submitted, replaces): (u64, bool),
        turn: &mut Turn<S>,
    ) {
        // Whose data is replaced next leaves nothing behind, and takes nothing from the heap.
        if !replaces && self.must_go_aside(root, memory) {
            let [out, back] = self.leave_aside(root, memory, submitted, turn);
            return self.leaves_by(root, memory, (out, back, true), turn);
        }
        let cargo = self.cargo(root, memory, replaces);
        let out = self.move_all(root, (memory, HEAP), &cargo.out, turn);
        self.note_what_the_heap_has(root, memory, &cargo.out);
        let before = std::mem::replace(&mut self.submitted, submitted);
        let mut back = self.move_all(root, (HEAP, memory), &cargo.back, turn);
        back.extend(
            cargo.cleared.iter().filter_map(|bounds| self.clear_swapped(root, memory, *bounds, turn)),
        );
        self.submitted = before;
        self.leaves_by(root, memory, (out, back, false), turn);
    }

    /// The steps there and back have been planned.
    fn leaves_by(
        &mut self,
        root: RootId,
        memory: MemoryId,
        (out, back, is_aside): (Steps, Steps, bool),
        turn: &mut Turn<S>,
    ) {
        let last_steps = out.iter().chain(&back).map(|(_, last)| *last);
        self.swaps.extend(last_steps.map(|last| (last, (root, memory))));
        let Some(swap) = self.swap_mut(root, memory) else { return };
        swap.phase = Phase::Leaving;
        swap.is_aside = is_aside;
        swap.left = out.len() as u32;
        swap.back = back.into_iter().map(|(first, _)| first).collect();
        match out.is_empty() {
            true => self.goes_away(root, memory, turn),
            false => self.leaving_slots.push((root, memory)),
        }
    }

    /// Has all users of a root in a memory wait for its slot that have not been queued. Returns their list, how many uses the others
    /// make of it, and the steps among those that wait that only fetch what comes there.
    fn hold_users(&mut self, root: RootId, memory: MemoryId) -> (u32, u32, Vec<NodeId>) {
        let is_meant = |used: &&Use| used.root == root && used.memory == memory;
        self.keep_lines();
        let mut all: Vec<NodeId> = self.lines.iter().flat_map(|lines| lines.all(root, memory)).collect();
        all.sort_unstable_by_key(|id| id.sort_key());
        // One that uses several boxes may be in the line twice.
        all.dedup();
        let count = |id: NodeId| (id, self.nodes[id].uses.iter().filter(is_meant).count());
        let (gated, others): (Vec<NodeId>, Vec<_>) =
            all.into_iter().partition(|id| self.nodes[*id].state == State::Gated);
        let left: usize = others.into_iter().map(|user| count(user).1).sum();
        let mut users: Vec<(NodeId, usize)> = gated.into_iter().map(count).collect();
        // What would bring something there takes no staging before.
        let first_steps = self.first_steps_to(&users, is_meant);
        users.extend(first_steps.iter().map(|first| (*first, 1)));
        let mut waiting = NONE;
        for (id, uses) in users {
            (0..uses).for_each(|_| push(&mut self.edges, &mut waiting, id, GATE));
            self.nodes[id].gates += uses as u32;
        }
        (waiting, left as u32, first_steps)
    }

    /// The steps without staging whose second steps are among these users, and bring what is meant.
    fn first_steps_to(&self, users: &[(NodeId, usize)], is_meant: impl Fn(&&Use) -> bool) -> Vec<NodeId> {
        let has_no_staging = |(id, _): &(NodeId, usize)| {
            self.nodes[*id].half == Half::Second && self.nodes[*id].staged.is_none()
        };
        if !users.iter().any(has_no_staging) {
            return Vec::new();
        }
        let brings = |second: &NodeId| {
            self.nodes[*second].uses.iter().any(|used| is_meant(&used) && used.does.writes())
        };
        let first_steps = self.unstaged.iter().filter(|(_, second)| brings(second));
        let mut first_steps: Vec<NodeId> = first_steps.map(|(first, _)| *first).collect();
        // The table's order is another one each time.
        first_steps.sort_unstable_by_key(|first| first.sort_key());
        first_steps
    }

    /// Which boxes the heap has to take in, and which have to come back from there.
    fn cargo(&self, root: RootId, memory: MemoryId, is_replaced: bool) -> Cargo {
        let entry = &self.roots[root];
        let (is_written, is_like_heap) =
            (entry.copies.written.contains(&memory), entry.copies.like_heap.contains(&memory));
        if is_replaced || !(is_written || is_like_heap) {
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
            steps.extend(self.move_whole(&mut segments, whole, passage, turn).into_iter().flatten());
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
        self.joins_line(node, used);
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
            Phase::Leaving => self.out_ended(root, memory, turn),
            Phase::Closing | Phase::Staying | Phase::Away | Phase::Arriving => {
                self.let_users_go(root, memory, turn)
            }
        }
    }

    /// The last copy to the heap has ended.
    fn out_ended(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        self.leaving_slots.retain(|of| *of != (root, memory));
        let Some(swap) = self.swap_mut(root, memory) else { return };
        let is_aside = swap.is_aside;
        let Some(cause) = swap.failed.take() else { return self.goes_away(root, memory, turn) };
        if is_aside {
            return self.stays_after_all(root, memory, cause, turn);
        }
        turn.causes.push(cause);
        let Some(swap) = self.swap_mut(root, memory) else { return };
        swap.phase = Phase::Staying;
        // The steps back for which the heap was to have something are doomed with its copy. The others bring what is there.
        self.let_steps_back_go(root, memory, turn);
    }

    /// All that was to be saved has been: the memory is freed, and asked for again.
    fn goes_away(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let is_lost = self.lost_with(memory).is_some();
        let Some(swap) = self.swap_mut(root, memory) else { return };
        // A lost context is asked for nothing: see `await_memory`.
        let Some(allocation) = swap.memory.take_if(|_| !is_lost) else {
            return self.let_users_go(root, memory, turn);
        };
        swap.phase = Phase::Away;
        let entry = &mut self.roots[root];
        entry.copies.forget(memory);
        turn.allocate.push(Allocate { root, memory, bytes: entry.bytes, pinned: None, is_replaced: false });
        let share = entry.take_share(memory);
        self.frees(allocation, share, false, turn);
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
                self.arriving_slots.push((root, memory));
                self.let_steps_back_go(root, memory, turn);
            }
            Err(cause) => {
                // The slot goes now, and the next user asks again. What becomes of the steps no longer matters to it.
                let back = std::mem::take(&mut swap.back);
                swap.failed = Some(cause.clone());
                self.swaps.retain(|_, of| *of != (root, memory));
                self.let_users_go(root, memory, turn);
                self.fail_steps(back, &cause, turn);
                turn.causes.push(cause);
            }
        }
        self.finish_pending(turn);
    }

    /// Steps that were held until there was memory will not run.
    fn fail_steps(&mut self, steps: SmallVec<[NodeId; 1]>, cause: &S::Cause, turn: &mut Turn<S>) {
        for step in steps {
            self.fail(step, cause.clone(), turn);
            self.open_gate(step, turn);
        }
    }

    fn let_steps_back_go(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let Some(swap) = self.swap_mut(root, memory) else { return };
        let back = std::mem::take(&mut swap.back);
        swap.left = back.len() as u32;
        match back.is_empty() {
            true => self.let_users_go(root, memory, turn),
            false => back.into_iter().for_each(|step| self.open_gate(step, turn)),
        }
    }

    /// The last step back has ended: those that wait are let go, with the memory or without.
    fn let_users_go(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let Engine { roots, nodes, .. } = self;
        let Some(entry) = roots.get_mut(root) else { return };
        let Some(at) = entry.slots.iter().position(|(of, _)| *of == memory) else { return };
        let Slot::Swapped(swap) = entry.slots.swap_remove(at).1 else { return };
        let Swap { memory: made, waiting, phase, failed, is_lost, is_aside, .. } = *swap;
        let stays = phase == Phase::Staying;
        self.leaving_slots.retain(|of| *of != (root, memory));
        self.arriving_slots.retain(|of| *of != (root, memory));
        // What has not left is as it was.
        match made {
            Some(made) if stays || failed.is_none() => {
                entry.slots.push((memory, Slot::Ready(made)));
                entry.copies.stay.extend(stays.then_some(memory));
                turn.causes.extend(failed);
                self.slot_has_changed(root, memory);
                self.open_slot(waiting, None, turn);
            }
            made => {
                let share = entry.take_share(memory);
                match (&failed, phase) {
                    (Some(cause), _) if is_aside => self.lose_aside(root, memory, cause, turn),
                    // The heap has what was copied there. Of what has not left the device that is lost has taken the last copy, even if
                    // that is still to be noted: its nodes end before its data does.
                    (_, Phase::Leaving | Phase::Away | Phase::Arriving) if !is_aside => {
                        entry.stay_in_heap(memory, |id| nodes.contains(id));
                    }
                    _ => entry.copies.forget(memory),
                }
                if let Some(made) = made {
                    self.frees(made, share, false, turn);
                }
                if !is_lost {
                    self.slot_is_gone(memory, None);
                }
                self.slot_has_changed(root, memory);
                self.open_slot(waiting, failed, turn);
            }
        }
        if is_aside {
            self.let_aside_go(root, turn);
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
