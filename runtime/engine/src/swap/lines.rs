//! Who uses which root where, in the order of submission.
//!
//! Whoever looks for room asks for the next user of a root, or for the root whose next user is the farthest behind. To find that
//! out from the table of nodes takes as long as there are nodes, and each swap asks several times. So while there is a lack of room it is
//! kept up to date, at a cost that only grows with the logarithm of their number. A program that has room keeps nothing of this:
//! the first who asks has it [built](super::super::Engine::keep_lines), and it goes when nobody has lacked room for as long as that took.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::super::ids::MemoryId;
use super::super::node::Does;
use super::super::{HEAP, Node, NodeId, RootId, Shell, State, Use};
use super::room::Users;

/// Where a user stands: its place in the order of submission, whether it replaces what is there (who reads a part of what it replaces
/// does not), and its id.
type Place = (u64, bool, (u32, u32));

/// The last of all ids.
const LAST: (u32, u32) = (u32::MAX, u32::MAX);

/// The users of all roots in all memories.
#[derive(Default)]
pub(in super::super) struct Lines {
    of: HashMap<(RootId, MemoryId), Line>,
    memories: HashMap<MemoryId, InMemory>,
    /// Those that are gated, and would run if they had their memory.
    free: HashSet<NodeId>,
    /// Steps that wait for memory which others use: those that fetch what is brought there.
    fetching: HashMap<NodeId, (RootId, MemoryId)>,
    /// How many nodes will end by themselves.
    under_way: usize,
    /// How many nodes are [the program's](Node::is_of_program).
    of_program: usize,
    /// How many nodes have ended since anybody lacked room, and how many may before all this goes.
    pub(super) quiet: usize,
    patience: usize,
}

/// The users of one root in one memory.
#[derive(Debug, Default, PartialEq)]
struct Line {
    /// All that have not settled.
    all: BTreeMap<Place, NodeId>,
    /// Those that are gated, and whose failure is not certain: these need it.
    live: BTreeSet<Place>,
    /// Those that wait for the slot whenever it is not ready, and need it, each with whether something else holds it back: the live ones, but
    /// for the steps of a swap, and the fetching ones.
    needing: BTreeSet<(bool, Place)>,
    fetching: BTreeMap<Place, NodeId>,
    in_flight: u32,
    fixed: u32,
    /// The root is there, and may be elsewhere.
    is_there: bool,
    has_home: bool,
}

/// What is known of the roots in one memory.
#[derive(Debug, Default)]
struct InMemory {
    /// The next users of all roots.
    next: BTreeMap<(u64, (u32, u32)), RootId>,
    /// The roots that are there and have a next user, those last that should go first: whether they are replaced next, and by whom.
    there: BTreeMap<Next, RootId>,
    /// How many roots are used for the last time, by somebody in flight.
    last: usize,
    /// Roots that are there and that nobody uses, and some that have been.
    idle: BTreeMap<(u32, u32), RootId>,
    /// How many uses are under way.
    busy: usize,
}

/// Whether a root is replaced next, the place of its next user in the order, and its id.
type Next = (bool, u64, (u32, u32));

/// What of a line counts in its memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Rank {
    next: Option<(u64, bool)>,
    is_there: bool,
    is_last: bool,
}

impl Line {
    fn next(&self) -> Option<(u64, bool)> {
        self.live.first().map(|(submitted, replaces, _)| (*submitted, *replaces))
    }

    /// One that uses several boxes stands here once, and counts for each.
    fn is_over(&self) -> bool {
        self.all.is_empty() && self.fetching.is_empty() && (self.in_flight, self.fixed) == (0, 0)
    }

    fn rank(&self) -> Rank {
        let next = self.next();
        let is_last = self.in_flight > 0 && next.is_none() && !self.has_home;
        Rank { next, is_there: self.is_there, is_last }
    }
}

impl InMemory {
    fn enter(&mut self, root: RootId, rank: Rank) {
        self.last += usize::from(rank.is_last);
        if let Some((submitted, replaces)) = rank.next {
            self.next.insert((submitted, root.sort_key()), root);
            if rank.is_there {
                self.there.insert((replaces, submitted, root.sort_key()), root);
            }
        }
    }

    fn leave(&mut self, root: RootId, rank: Rank) {
        self.last -= usize::from(rank.is_last);
        if let Some((submitted, replaces)) = rank.next {
            self.next.remove(&(submitted, root.sort_key()));
            self.there.remove(&(replaces, submitted, root.sort_key()));
        }
    }
}

fn place<S: Shell>(id: NodeId, node: &Node<S>, does: Does) -> Place {
    (node.submitted, does == Does::Replaces, id.sort_key())
}

/// Whether a node will end by itself: see [`Engine::is_busy`](super::super::Engine::is_busy).
pub(in super::super) fn is_under_way<S: Shell>(node: &Node<S>) -> bool {
    match node.state {
        // It waits for staging, which comes back, and for nothing of the program's.
        State::Gated => node.staged == Some(true),
        // The program has it, for as long as it likes.
        State::Running => !node.is_guard,
        State::Queued(_) | State::Feeding(..) | State::Fed(..) | State::Passed => true,
    }
}

/// What changes.
impl Lines {
    /// Without users. When so many nodes have ended and nobody has lacked room meanwhile, it is [over](Lines::is_over).
    pub(super) fn new(patience: usize) -> Self {
        Lines { patience, ..Lines::default() }
    }

    pub(super) fn is_over(&self) -> bool {
        self.quiet > self.patience
    }

    /// A line that is to be changed, which there may not be yet.
    fn open(&mut self, (root, memory): (RootId, MemoryId)) {
        if let Entry::Vacant(vacant) = self.of.entry((root, memory)) {
            vacant.insert(Line::default());
            self.memories.entry(memory).or_default().idle.remove(&root.sort_key());
        }
    }

    /// Changes a line, and what is known of it in its memory. Without users it goes.
    fn change(&mut self, (root, memory): (RootId, MemoryId), change: impl FnOnce(&mut Line, &mut InMemory)) {
        let Some(line) = self.of.get_mut(&(root, memory)) else { return };
        let here = self.memories.entry(memory).or_default();
        let before = line.rank();
        change(line, here);
        let after = line.rank();
        if before != after {
            here.leave(root, before);
            here.enter(root, after);
        }
        if line.is_over() {
            if line.is_there {
                here.idle.insert(root.sort_key(), root);
            }
            self.of.remove(&(root, memory));
        }
    }

    /// Whether a root has memory there, and whether it is never anywhere else.
    pub(super) fn slot(&mut self, of: (RootId, MemoryId), is_ready: bool, has_home: bool) {
        self.open(of);
        self.change(of, |line, _| (line.is_there, line.has_home) = (is_ready && !has_home, has_home));
    }

    /// Nobody waits for a slot any more: there is memory, or there will be none.
    pub(super) fn nobody_waits(&mut self, of: (RootId, MemoryId)) {
        let Some(line) = self.of.get_mut(&of) else { return };
        for (place, id) in std::mem::take(&mut line.fetching) {
            line.needing.remove(&(!self.free.contains(&id), place));
            self.fetching.remove(&id);
        }
    }

    pub(super) fn enter_use<S: Shell>(&mut self, id: NodeId, node: &Node<S>, used: Use, slot: (bool, bool)) {
        let place = place(id, node, used.does);
        let (is_held, is_step) = (!self.free.contains(&id), node.is_swap_step && used.memory != HEAP);
        self.open((used.root, used.memory));
        self.change((used.root, used.memory), |line, here| {
            line.is_there = slot.0 && !slot.1;
            line.has_home = slot.1;
            line.all.insert(place, id);
            here.busy += usize::from(is_under_way(node));
            match node.state {
                State::Gated => {
                    line.fixed += u32::from(node.staged.is_some());
                    if node.end.is_none() {
                        line.live.insert(place);
                        line.needing.extend((!is_step).then_some((is_held, place)));
                    }
                }
                State::Running => line.fixed += 1,
                State::Queued(_) | State::Feeding(..) | State::Fed(..) | State::Passed => line.in_flight += 1,
            }
        });
    }

    /// A node counts as being under way, and as the program's, by what it is now.
    pub(super) fn enter_node<S: Shell>(&mut self, node: &Node<S>) {
        self.under_way += usize::from(is_under_way(node));
        self.of_program += usize::from(node.is_of_program());
    }

    pub(super) fn leave_node<S: Shell>(&mut self, id: NodeId, node: &Node<S>) {
        self.under_way -= usize::from(is_under_way(node));
        self.of_program -= usize::from(node.is_of_program());
        let is_held = !self.free.contains(&id);
        for used in &node.uses {
            let place = place(id, node, used.does);
            self.change((used.root, used.memory), |line, here| {
                line.all.remove(&place);
                line.live.remove(&place);
                line.needing.remove(&(is_held, place));
                here.busy -= usize::from(is_under_way(node));
                match node.state {
                    State::Gated => line.fixed -= u32::from(node.staged.is_some()),
                    State::Running => line.fixed -= 1,
                    State::Queued(_) | State::Feeding(..) | State::Fed(..) | State::Passed => {
                        line.in_flight -= 1;
                    }
                }
            });
        }
    }

    /// Its end is certain, or has come: it needs no memory.
    pub(super) fn end<S: Shell>(&mut self, id: NodeId, node: &Node<S>) {
        let is_held = !self.free.contains(&id);
        for used in &node.uses {
            let place = place(id, node, used.does);
            self.change((used.root, used.memory), |line, _| {
                line.live.remove(&place);
                line.needing.remove(&(is_held, place));
            });
        }
        if let Some(of) = self.fetching.remove(&id) {
            self.change(of, |line, _| {
                line.fetching.retain(|_, fetching| *fetching != id);
                line.needing.remove(&(is_held, place(id, node, Does::Reads)));
            });
        }
        self.free.remove(&id);
    }

    /// A node waits for a slot. Those that use the root do so anyway.
    pub(super) fn wait<S: Shell>(&mut self, id: NodeId, node: &Node<S>, of: (RootId, MemoryId)) {
        let uses = node.uses.iter().any(|used| (used.root, used.memory) == of);
        if uses || node.end.is_some() || self.fetching.insert(id, of).is_some() {
            return;
        }
        let (is_held, place) = (!self.free.contains(&id), place(id, node, Does::Reads));
        self.open(of);
        self.change(of, |line, _| {
            line.fetching.insert(place, id);
            line.needing.insert((is_held, place));
        });
    }

    /// Something less holds a node back, or something more.
    pub(super) fn hold<S: Shell>(&mut self, id: NodeId, node: &Node<S>, is_held: bool) {
        let is_changed = if is_held { self.free.remove(&id) } else { self.free.insert(id) };
        if !is_changed {
            return;
        }
        let uses = node.uses.iter().map(|used| ((used.root, used.memory), used.does));
        for (of, does) in uses.chain(self.fetching.get(&id).map(|of| (*of, Does::Reads))) {
            let place = place(id, node, does);
            if let Some(line) = self.of.get_mut(&of)
                && line.needing.remove(&(!is_held, place))
            {
                line.needing.insert((is_held, place));
            }
        }
    }
}

/// What is asked.
impl Lines {
    /// Who uses a root in a memory.
    pub(super) fn users(&self, root: RootId, memory: MemoryId) -> Users {
        let line = self.of.get(&(root, memory));
        line.map_or(Users::default(), |line| Users {
            next: line.next(),
            in_flight: line.in_flight > 0,
            is_fixed: line.fixed > 0,
        })
    }

    /// All users of a root in a memory, in the order of submission.
    pub(super) fn all(&self, root: RootId, memory: MemoryId) -> impl Iterator<Item = NodeId> {
        self.of.get(&(root, memory)).into_iter().flat_map(|line| line.all.values().copied())
    }

    /// Whether one that was submitted at this place uses a root in a memory.
    pub(super) fn has_at(&self, root: RootId, memory: MemoryId, submitted: u64) -> bool {
        let line = self.of.get(&(root, memory));
        let at = (submitted, false, (0, 0))..=(submitted, true, LAST);
        line.is_some_and(|line| line.all.range(at).next().is_some())
    }

    pub(in super::super) fn is_used(&self, root: RootId, memory: MemoryId) -> bool {
        self.of.get(&(root, memory)).is_some_and(|line| !line.all.is_empty())
    }

    /// Whether something else holds back the first that needs a slot and waits for it if it is not ready, and its place in the order. Those
    /// that nothing holds back come first.
    pub(super) fn first_needing(&self, root: RootId, memory: MemoryId) -> Option<(bool, u64)> {
        let (is_held, (submitted, ..)) = self.of.get(&(root, memory))?.needing.first()?;
        Some((*is_held, *submitted))
    }

    /// Whether anything that has not settled is the program's. Otherwise nothing waits for the program, and all will run.
    pub(super) fn is_any_of_program(&self) -> bool {
        self.of_program > 0
    }

    /// The first of all that need a slot: whether something else holds it back, its place in the order, and which node it is, if it uses the
    /// root there itself.
    pub(super) fn first_needing_at_all(
        &self,
        root: RootId,
        memory: MemoryId,
    ) -> Option<(bool, u64, Option<NodeId>)> {
        let line = self.of.get(&(root, memory))?;
        let held = (true, (0, false, (0, 0)));
        let firsts = [line.needing.first(), line.needing.range(held..).next()];
        let (is_held, place) =
            firsts.into_iter().flatten().min_by_key(|(is_held, place)| (*place, *is_held))?;
        Some((*is_held, place.0, line.all.get(place).copied()))
    }

    /// Whether something beside memory holds back a step that is to fetch a root's data for the group at a place.
    pub(super) fn is_fetching_held(&self, root: RootId, memory: MemoryId, place: u64) -> bool {
        let line = self.of.get(&(root, memory)).into_iter();
        let at = (place, false, (0, 0))..=(place, true, LAST);
        line.flat_map(|line| line.fetching.range(at.clone())).any(|(_, id)| !self.free.contains(id))
    }

    /// How many roots are in a memory that somebody is going to use there, and how many there are that somebody is.
    pub(super) fn how_many(&self, memory: MemoryId) -> (usize, usize) {
        self.memories.get(&memory).map_or((0, 0), |here| (here.there.len(), here.next.len()))
    }

    /// The place of the first in a memory that has not been fed.
    pub(super) fn first(&self, memory: MemoryId) -> Option<u64> {
        self.memories.get(&memory)?.next.first_key_value().map(|((submitted, _), _)| *submitted)
    }

    /// The places from one place of the order on and before another where a group stands that has not been fed, and that is the next to
    /// use some root.
    pub(super) fn groups_between(&self, memory: MemoryId, from: u64, to: u64) -> impl Iterator<Item = u64> {
        let mut last = None;
        let places = self.next_between(memory, from, to).map(|(submitted, _)| submitted);
        places.filter(move |submitted| last.replace(*submitted) != Some(*submitted))
    }

    /// The latest place at which any of the roots is wanted again that are used before a place by those that have not been fed. None if the
    /// memory of one is to be had for nothing behind them: it is not used again, or replaced.
    pub(super) fn latest_after(&self, memory: MemoryId, place: u64) -> Option<u64> {
        let mut latest = 0;
        for (_, root) in self.next_between(memory, 0, place) {
            let line = self.of.get(&(root, memory))?;
            // It never goes.
            if line.has_home {
                continue;
            }
            let later = line.live.range((place, false, (0, 0))..).next();
            let (submitted, ..) = later.filter(|(_, replaces, _)| !replaces)?;
            latest = latest.max(*submitted);
        }
        Some(latest)
    }

    fn next_between(&self, memory: MemoryId, from: u64, to: u64) -> impl Iterator<Item = (u64, RootId)> {
        let here = self.memories.get(&memory).into_iter();
        here.flat_map(move |here| here.next.range((from, (0, 0))..(to, (0, 0))))
            .map(|((submitted, _), root)| (*submitted, *root))
    }

    /// Whether any root in a memory is used for the last time, by somebody in flight.
    pub(super) fn has_last(&self, memory: MemoryId) -> bool {
        self.memories.get(&memory).is_some_and(|here| here.last > 0)
    }

    /// The roots in a memory whose next users come behind a place of the order, those first that should go first: of each kind the one
    /// that is used the latest, and what is replaced next before all else.
    pub(super) fn behind(&self, memory: MemoryId, after: Option<u64>) -> impl Iterator<Item = RootId> {
        [true, false].into_iter().flat_map(move |replaces| self.of_kind_behind(memory, replaces, after))
    }

    /// The same of those that are replaced next, or of the others.
    pub(super) fn of_kind_behind(
        &self,
        memory: MemoryId,
        replaces: bool,
        after: Option<u64>,
    ) -> impl Iterator<Item = RootId> {
        let here = self.memories.get(&memory).into_iter();
        let from = (replaces, after.map_or(0, |after| after.saturating_add(1)), (0, 0));
        here.flat_map(move |here| {
            here.there.range(from..=(replaces, u64::MAX, LAST)).rev().map(|(_, root)| *root)
        })
    }

    /// Takes out the roots that are there and that nobody uses; those that are still so are to be [put back](Lines::rests).
    pub(in super::super) fn take_idle(&mut self, memory: MemoryId) -> impl Iterator<Item = RootId> + use<> {
        let here = self.memories.entry(memory).or_default();
        std::mem::take(&mut here.idle).into_values()
    }

    pub(in super::super) fn rests(&mut self, root: RootId, memory: MemoryId) {
        self.memories.entry(memory).or_default().idle.insert(root.sort_key(), root);
    }

    /// Whether a root is there and nobody uses it, or nobody did a moment ago.
    pub(in super::super) fn is_idle(&self, root: RootId, memory: MemoryId) -> bool {
        self.memories.get(&memory).is_some_and(|here| here.idle.contains_key(&root.sort_key()))
    }

    /// Whether a use of a memory is under way.
    pub(in super::super) fn is_busy(&self, memory: MemoryId) -> bool {
        self.memories.get(&memory).is_some_and(|here| here.busy > 0)
    }

    /// Whether anything is under way anywhere.
    pub(in super::super) fn is_any_under_way(&self) -> bool {
        self.under_way > 0
    }
}

/// What is compared with lines that were built anew.
impl Lines {
    /// Something that they say otherwise. What holds a node back is of no interest but for those that need memory.
    pub(super) fn differs_from(&self, anew: &Lines, needs: impl Fn(NodeId) -> bool) -> Option<String> {
        let mut keys = self.of.keys().chain(anew.of.keys());
        if let Some(of) = keys.find(|of| self.of.get(of) != anew.of.get(of)) {
            return Some(format!("{of:?}: {:?}, and not {:?}", self.of.get(of), anew.of.get(of)));
        }
        let none = InMemory::default();
        let memories = self.memories.keys().chain(anew.memories.keys());
        let memories = memories.map(|memory| (self.memories.get(memory), anew.memories.get(memory)));
        let mut memories = memories.map(|(kept, built)| (kept.unwrap_or(&none), built.unwrap_or(&none)));
        if let Some((kept, built)) = memories.find(|(kept, built)| !kept.is_as(built)) {
            return Some(format!("{kept:?}, and not {built:?}"));
        }
        let (kept, built) = (
            (self.under_way, self.of_program, &self.fetching),
            (anew.under_way, anew.of_program, &anew.fetching),
        );
        if kept != built {
            return Some(format!("{kept:?}, and not {built:?}"));
        }
        let other = self.free.symmetric_difference(&anew.free).find(|id| needs(**id));
        other.map(|id| format!("{id:?} waits for its memory alone: {}", self.free.contains(id)))
    }
}

impl InMemory {
    /// Roots that have gone may rest here for some time.
    fn is_as(&self, anew: &InMemory) -> bool {
        let said = |here: &InMemory| (here.last, here.busy);
        let all_rest = anew.idle.keys().all(|root| self.idle.contains_key(root));
        said(self) == said(anew) && self.next == anew.next && self.there == anew.there && all_rest
    }
}
