//! Who gives room to whom.
//!
//! That goes by the order of submission. A group that waits for room takes it from the root whose next user is the
//! farthest behind, and from none that is used before the group itself; and the first of all that have not been fed comes first.
//! What is used the latest costs the fewest copies (Belady's rule), and since the first can always run, all come to run. Those that come next
//! may take some [ahead](super::ahead).
//! If nothing runs, since the first waits for the program, another group may take what it needs from anybody: it runs at once.

use smallvec::SmallVec;

use super::super::boxes::Box3;
use super::super::ids::MemoryId;
use super::super::links::NONE;
use super::super::node::Half;
use super::super::{Engine, HEAP, Node, NodeId, RootId, Shell, Slot, Turn, Use};
use super::{Cargo, Lines};

/// The place in the order of what comes back for nobody.
const NOBODY: u64 = u64::MAX;

/// With room for so many roots it costs little to have room for one less.
pub(in super::super) const MANY: usize = 9;

/// With room for many so many times it costs little to have room for three less.
const SEVERAL: usize = 4;

/// What came of asking for room. It may be about [another's wish](Engine::make_room).
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

/// Room that is asked for in a memory.
#[derive(Clone, Copy, Debug)]
struct Wish {
    root: RootId,
    /// The first user's place in the order.
    place: u64,
    /// Something beside memory holds that one back.
    is_held: bool,
    /// The first user, if only others that run or will hold it back: its data may come meanwhile.
    waits_for_others: Option<NodeId>,
}

impl Wish {
    fn order(&self) -> (bool, u64, (u32, u32)) {
        (self.is_held, self.place, self.root.sort_key())
    }
}

/// Who uses a root in a memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Users {
    /// The first of those that have not been fed and need it, if there is any: its place in the order, and whether it replaces what is there.
    pub(super) next: Option<(u64, bool)>,
    /// A lane has it, or is about to.
    pub(super) in_flight: bool,
    /// The host uses it, or a copy has its staging, which it would hold while the root is away.
    pub(super) is_fixed: bool,
}

impl Users {
    /// What is there is replaced next, and need neither be saved nor come back.
    pub(super) fn replaces(&self) -> bool {
        self.next.is_some_and(|(_, replaces)| replaces)
    }
}

impl<S: Shell> Engine<S> {
    /// Which of these roots, all of which wait for room in a memory, comes first.
    pub fn most_urgent(&mut self, memory: MemoryId, wanting: impl Iterator<Item = RootId>) -> Option<RootId> {
        self.keep_lines();
        let all_will_run = self.all_will_run(memory);
        wanting.min_by_key(|root| match self.wish(*root, memory, all_will_run) {
            Some(wish) => wish.order(),
            None => (true, u64::MAX, root.sort_key()),
        })
    }

    /// Whether anybody waits for memory of a root to be made there.
    pub fn is_wanted(&self, root: RootId, memory: MemoryId) -> bool {
        let slots = self.roots.get(root).into_iter().flat_map(|root| &root.slots);
        slots.filter(|(of, _)| *of == memory).any(|(_, slot)| slot.is_without_room())
    }

    /// Whether time comes before copies in a memory, something runs there, and nothing that is planned waits for the program now. A guard
    /// that is asked for later, or a lost context, may hold some back after all, with room that others could use sooner; that is taken from
    /// them, unless the host has their data. If nothing runs there, who could run comes before who could not.
    fn all_will_run(&self, memory: MemoryId) -> bool {
        let will_run = |lines: &Lines| lines.is_busy(memory) && !lines.is_any_of_program();
        self.lines.as_ref().is_some_and(|lines| will_run(lines)) && self.is_roomy(memory)
    }

    /// The wish for room of the first user that waits for a slot. Where [all will run](Engine::all_will_run) it is the first in the order; else
    /// the first that nothing else holds back, if there is one.
    fn wish(&self, root: RootId, memory: MemoryId, all_will_run: bool) -> Option<Wish> {
        let slot = &self.roots.get(root)?.slots.iter().find(|(of, _)| *of == memory)?.1;
        slot.waiting()?;
        let lines = self.lines.as_ref()?;
        if all_will_run && let Some((waits_for_others, place)) = self.first_that_will_run(root, memory, lines)
        {
            return Some(Wish { root, place, is_held: false, waits_for_others });
        }
        let Some((is_held, place)) = lines.first_needing(root, memory) else {
            // Nobody needs it there any more, but there is no other copy of what is aside.
            let is_aside = matches!(slot, Slot::Swapped(swap) if swap.is_aside);
            return is_aside.then_some(Wish { root, place: NOBODY, is_held: true, waits_for_others: None });
        };
        // Who writes the heap's copy waits for the way back.
        let is_waited_for = match slot {
            Slot::Swapped(swap) => swap.back.iter().any(|step| self.holds_up_writers(*step)),
            Slot::Pending(_) | Slot::Ready(_) => false,
        };
        Some(Wish { root, place, is_held: is_held && !is_waited_for, waits_for_others: None })
    }

    /// The place of the first that needs a slot, whatever holds it back, and which node that is, if anything does.
    ///
    /// It has room so early once for each of its uses. Others that could run may take it back; if what it waits for lacks room in another memory,
    /// they could take from each other for as long as that lasts.
    fn first_that_will_run(
        &self,
        root: RootId,
        memory: MemoryId,
        lines: &Lines,
    ) -> Option<(Option<NodeId>, u64)> {
        let (is_held, place, first) = lines.first_needing_at_all(root, memory)?;
        if !is_held {
            return Some((None, place));
        }
        let node = first.and_then(|first| self.nodes.get(first))?;
        let may_have_it = (node.early as usize) < node.uses.len();
        (may_have_it && !lines.is_fetching_held(root, memory, place)).then_some((first, place))
    }

    /// Whether anybody waits for a reader to end, or to be fed.
    fn holds_up_writers(&self, reader: NodeId) -> bool {
        let Some(node) = self.nodes.get(reader) else { return false };
        let groups = node.read_sets.iter().flat_map(|set| &self.read_sets[set.0 as usize].groups);
        !node.proxies.is_empty() || groups.into_iter().any(|of| of.waiting != NONE || !of.proxies.is_empty())
    }

    /// Whether a gated node would run if it had its memory.
    pub(super) fn lacks_only_memory(&self, id: NodeId) -> bool {
        let node = &self.nodes[id];
        let missing = self.missing(node);
        let others = match node.half {
            Half::None => 0,
            // The shell holds back both, and the first waits for the memory of the second, too.
            Half::First => 1 + self.unstaged.get(&id).map_or(0, |second| self.missing(&self.nodes[*second])),
            Half::Second => 1,
        };
        node.gates <= missing + others
    }

    /// For how many of its uses a node waits for memory.
    fn missing(&self, node: &Node<S>) -> u32 {
        let is_missing = |used: &&Use| {
            let slots = &self.roots[used.root].slots;
            slots.iter().any(|(memory, slot)| *memory == used.memory && slot.waiting().is_some())
        };
        node.uses.iter().filter(is_missing).count() as u32
    }

    /// Makes room in a device's memory for a root that waits for some, if it is its turn, by swapping another root out; or for the next that
    /// waits for some, while a root leaves for the first. Room is whoever's takes it first.
    pub fn make_room(&mut self, memory: MemoryId, root: RootId, turn: &mut Turn<S>) -> Room {
        self.keep_lines();
        let all_will_run = self.all_will_run(memory);
        let Some(asked) = self.wish(root, memory, all_will_run) else { return Room::None };
        let Some(wish) = self.wish_to_serve(memory, asked, all_will_run) else { return Room::Later };
        let Wish { root, place: mine, is_held, .. } = wish;
        // Who is held takes nothing from who is not: that one is the more urgent, and would take it back at once.
        let best =
            self.farthest(memory, Some(mine), |root| !is_held || !self.has_who_could_run(*root, memory));
        // That costs nothing, whoever's turn it is; later it may have been written again.
        if let Some(best) = best.filter(|(_, users)| users.replaces()) {
            return self.swap_out_for(&wish, best, memory, turn);
        }
        let (first, has_last) = self.first_in(memory);
        if first.is_none_or(|first| mine <= first) {
            // What is used for the last time costs nothing, or once: that is waited for.
            if has_last {
                return Room::Later;
            }
            if let Some(best) = best {
                let best = self.sooner_than(best, memory, mine);
                return self.swap_out_for(&wish, best, memory, turn);
            }
        } else if let Some(first) = first.filter(|_| !is_held && !has_last)
            && let Some((_, users)) = best
            && let Some(found) = self.gives_room_ahead((root, memory), (first, mine), users)
        {
            return self.swap_out_for(&wish, found, memory, turn);
        }
        if root != asked.root {
            return Room::Later;
        }
        // It may be the turn of others that run before this one. Their memory is emptied for this one when they have run. What it uses
        // itself, beside what it lacks, is left to it, whoever uses that before: otherwise it would never have both.
        let is_own =
            |root: &RootId| self.lines.as_ref().is_some_and(|lines| lines.has_at(*root, memory, mine));
        let by_heap = self.farthest(memory, None, |root| !is_own(root));
        match by_heap.or_else(|| self.farthest_aside(memory, mine)) {
            // Sooner or later something there is let go of.
            None if mine == NOBODY && first.is_some() => Room::Later,
            None => Room::None,
            Some((_, users)) if users.in_flight || is_held || self.is_busy(memory) => Room::Later,
            // The first of all waits for the program, or for one that does.
            Some((found, users)) => self.swap_out(found, memory, users, turn),
        }
    }

    /// Whether a user of a root in a memory lacks nothing but memory.
    fn has_who_could_run(&self, root: RootId, memory: MemoryId) -> bool {
        let first = self.lines.as_ref().and_then(|lines| lines.first_needing(root, memory));
        first.is_some_and(|(is_held, _)| !is_held)
    }

    /// Swaps a root out for a wish.
    fn swap_out_for(
        &mut self,
        wish: &Wish,
        (found, users): (RootId, Users),
        memory: MemoryId,
        turn: &mut Turn<S>,
    ) -> Room {
        if let Some(node) = wish.waits_for_others.and_then(|first| self.nodes.get_mut(first)) {
            node.early += 1;
        }
        self.swap_out(found, memory, users, turn)
    }

    /// The place of the first in a memory that has not been fed, and whether anything there is used for the last time, and waited for.
    fn first_in(&self, memory: MemoryId) -> (Option<u64>, bool) {
        let lines = self.lines.as_ref();
        let has_last = lines.is_some_and(|lines| lines.has_last(memory)) && !self.is_roomy(memory);
        (lines.and_then(|lines| lines.first(memory)), has_last)
    }

    /// For whom a root may be swapped out now. That is whoever asks, who is the most urgent; and while one, or two, are being swapped out, the
    /// first, or second, of the others that could run, so that it need not wait for a copy that could be made meanwhile.
    fn wish_to_serve(&self, memory: MemoryId, asked: Wish, all_will_run: bool) -> Option<Wish> {
        let emptied = self.emptied_in(memory);
        if emptied == 0 {
            return Some(asked);
        }
        if emptied > self.leeway(memory) {
            return None;
        }
        let others = self.lacking_in(memory).filter(|root| *root != asked.root);
        let others = others.filter_map(|root| self.wish(root, memory, all_will_run));
        let others = others.filter(|wish| !wish.is_held && wish.order() > asked.order());
        let mut others: SmallVec<[Wish; 8]> = others.collect();
        others.sort_unstable_by_key(Wish::order);
        others.get(emptied - 1).copied()
    }

    /// How many roots in a memory are being swapped out.
    fn emptied_in(&self, memory: MemoryId) -> usize {
        let emptied = self.closing_slots.iter().chain(&self.leaving_slots);
        emptied.filter(|(_, of)| *of == memory).count()
    }

    /// Whether a wait for a copy costs more in a memory than a copy that could have been saved. To give room [ahead](super::ahead), or several times at once,
    /// is as if there were room for so many less. Where that is one of three, it costs many copies; of ten, few. And where nearly all that is
    /// wanted has room, next to nothing would be copied, and nobody waits for long.
    pub(super) fn is_roomy(&self, memory: MemoryId) -> bool {
        self.leeway(memory) > 0
    }

    /// How many roots may be on their way out of a memory at once, beside one: none where it is [not roomy](Engine::is_roomy), and two where there
    /// is room for many several times. With two, the groups for which they leave may be farther ahead as well.
    pub(super) fn leeway(&self, memory: MemoryId) -> usize {
        let (there, wanted) = self.lines.as_ref().map_or((0, 0), |lines| lines.how_many(memory));
        let arriving = self.arriving_slots.iter().filter(|(_, of)| *of == memory).count();
        // Room that has just become free, and is nobody's, is not counted.
        let room = there + self.emptied_in(memory) + arriving;
        if 3 * room > 2 * wanted {
            return 0;
        }
        match room / self.many.max(1) {
            0 => 0,
            1..SEVERAL => 1,
            SEVERAL.. => 2,
        }
    }

    /// Who uses a root in a memory.
    pub(super) fn users_of(&mut self, root: RootId, memory: MemoryId) -> Users {
        self.keep_lines();
        self.noted_users_of(root, memory)
    }

    /// The same where the lines of users are kept.
    pub(super) fn noted_users_of(&self, root: RootId, memory: MemoryId) -> Users {
        self.lines.as_ref().map_or(Users::default(), |lines| lines.users(root, memory))
    }

    /// Of the roots in a memory that could be swapped out, the one whose next user is the farthest behind; only behind a place of the
    /// order, if one is given. Of several that one group uses next, the one for which the fewest bytes are moved for each that becomes free.
    pub(super) fn farthest(
        &self,
        memory: MemoryId,
        behind: Option<u64>,
        may_go: impl Fn(&RootId) -> bool,
    ) -> Option<(RootId, Users)> {
        self.farthest_of(memory, behind, |root, users| {
            may_go(root) && self.may_be_swapped_out(*root, memory, users)
        })
    }

    fn farthest_of(
        &self,
        memory: MemoryId,
        behind: Option<u64>,
        may_go: impl Fn(&RootId, &Users) -> bool,
    ) -> Option<(RootId, Users)> {
        let candidates = self.lines.iter().flat_map(|lines| lines.behind(memory, behind));
        let mut candidates = candidates.map(|root| (root, self.noted_users_of(root, memory)));
        let may_go = |(root, users): &(RootId, Users)| may_go(root, users);
        let first = candidates.find(may_go)?;
        let next = first.1.next;
        let alike = candidates.take_while(|(_, users)| users.next == next).filter(may_go);
        let moved = |(root, users): (RootId, Users)| {
            (self.moved_for_each_byte(root, memory, users.replaces()), (root, users))
        };
        let cheapest = std::iter::once(first).chain(alike).map(moved).min_by(|(a, _), (b, _)| a.total_cmp(b));
        cheapest.map(|(_, of)| of)
    }

    /// How many bytes are copied for each that becomes free if a root is swapped out: none where nobody reads what is there, one where it
    /// only comes back, and two where it has to be copied to the heap before; less where a part of it is of use.
    fn moved_for_each_byte(&self, root: RootId, memory: MemoryId, is_replaced: bool) -> f64 {
        if !is_replaced && self.must_go_aside(root, memory) {
            return 2.0;
        }
        let Cargo { out, back, .. } = self.cargo(root, memory, is_replaced);
        let units: usize = out.iter().chain(&back).map(Box3::volume).sum();
        let root = &self.roots[root];
        (units * root.unit) as f64 / root.bytes.max(1) as f64
    }

    /// The root that is used next the latest of those that have to go aside, but for what is used at this place of the order.
    fn farthest_aside(&self, memory: MemoryId, mine: u64) -> Option<(RootId, Users)> {
        let lines = self.lines.as_ref()?;
        self.farthest_of(memory, None, |root, users| {
            !lines.has_at(*root, memory, mine) && self.may_be_swapped_aside(*root, memory, users)
        })
    }

    /// Whether a root could leave a memory by way of the heap.
    pub(super) fn may_be_swapped_out(&self, id: RootId, memory: MemoryId, users: &Users) -> bool {
        self.may_be_swapped_aside(id, memory, users) && self.may_go_by_heap(id, memory, users)
    }

    /// The same if it may go [aside](super::aside).
    fn may_be_swapped_aside(&self, id: RootId, memory: MemoryId, users: &Users) -> bool {
        self.roots[id].allocation(memory).is_some()
            && self.may_leave(id, memory, users)
            && (!self.has_aside(id) || self.may_go_by_heap(id, memory, users))
    }

    /// Whether what a root holds need not go aside: it is replaced next, or the heap can take it in.
    pub(super) fn may_go_by_heap(&self, id: RootId, memory: MemoryId, users: &Users) -> bool {
        !self.is_used_in(id, HEAP) && (users.replaces() || !self.is_older(id, memory))
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
        self.lost_with(memory).is_none()
    }
}

/// Roots are swapped out without anybody's asking for room, for tests.
impl<S: Shell> Engine<S> {
    /// Roots that somebody is going to use in a memory and that could be swapped out there now.
    pub fn could_be_swapped_out(&mut self, memory: MemoryId) -> Vec<RootId> {
        self.keep_lines();
        let all = self.lines.iter().flat_map(|lines| lines.behind(memory, None));
        let may =
            |root: &RootId| self.may_be_swapped_aside(*root, memory, &self.noted_users_of(*root, memory));
        let mut roots: Vec<RootId> = all.filter(may).collect();
        roots.sort_unstable_by_key(|root| root.sort_key());
        roots
    }

    /// Swaps one of those out.
    pub fn swap_out_now(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<S>) {
        let users = self.users_of(root, memory);
        if self.may_be_swapped_aside(root, memory, &users) {
            self.swap_out(root, memory, users, turn);
        }
    }
}
