//! Planning: what a group waits for, what has to move first, and what its writes make of the data.

use smallvec::SmallVec;

use super::boxes::{Box3, Piece, cover};
use super::hazard::{Entry, Kind, User, guards_ahead};
use super::ids::{DeviceId, MemoryId};
use super::node::Does;
use super::preds::Preds;
use super::segments::{Inside, Segment, Segments, Source};
use super::{
    Access, Allocate, End, Engine, HEAP, Mode, NodeId, Place, Recorded, Root, RootId, Shell, Slot, Turn, Use,
    links,
};

/// An explicit predecessor.
#[derive(Clone, Copy, Debug)]
pub struct After {
    /// The predecessor; one that has settled does not count.
    pub node: NodeId,
    /// Whether its failure is shared.
    pub carries_failure: bool,
}

/// A group to be planned.
#[derive(Debug)]
pub struct Plan<'a, S: Shell> {
    /// The device to run on; none for host tasks.
    pub device: Option<DeviceId>,
    /// What it touches; requirements on the same root are next to each other.
    pub accesses: &'a [Access],
    /// What it comes after whatever it touches.
    pub after: &'a [After],
    /// The group before it in its in-order queue.
    pub in_order: Option<NodeId>,
    /// Things outside that hold it back: each is one later call of `open`.
    pub gates: u32,
    /// If it is cancelled, the previous data remains the newest version. Its writes are planned as keeping ones,
    /// so that the previous data is there.
    pub keep_previous: bool,
    /// Something it depends on explicitly had failed before.
    pub doomed: Option<S::Cause>,
    /// How many native commands it takes; a group without any, which is a barrier, counts as one.
    pub weight: u32,
    /// See [`Shell::Commands`].
    pub commands: S::Commands,
}

/// Where a stale piece can be had.
type Sources = SmallVec<[Source; 4]>;

impl<S: Shell> Engine<S> {
    /// Takes a group in, at this place of the submission order. Never fails: what can be refused was refused before.
    /// `work` is told the node's name.
    pub fn plan(
        &mut self,
        plan: Plan<'_, S>,
        work: impl FnOnce(NodeId) -> S::Work,
        turn: &mut Turn<S>,
    ) -> NodeId {
        let id = self.reserve_node();
        self.plan_as(id, plan, work(id), turn);
        id
    }

    /// The name of a group that is to be [planned](Engine::plan_as): who has one can name the group before the engine knows it.
    pub fn reserve_node(&mut self) -> NodeId {
        self.nodes.reserve()
    }

    /// A name that no group is given.
    pub fn give_node_back(&mut self, id: NodeId) {
        self.nodes.give_back(id);
    }

    /// Whether nothing is under way, and names of groups to come are all that keeps much memory for them.
    pub fn wants_nodes_back(&self) -> bool {
        self.nodes.is_kept_by_reserved()
    }

    /// [`Engine::plan`] under a reserved name.
    pub fn plan_as(&mut self, id: NodeId, plan: Plan<'_, S>, work: S::Work, turn: &mut Turn<S>) {
        let place = plan.device.map_or(Place::Host, Place::Device);
        let realm = self.realm(place);
        self.submitted += 1;
        self.enter_node(id, place, work);
        if S::show_memory(&plan.commands) {
            plan.accesses.iter().for_each(|access| self.roots[access.root].is_kept = true);
        }
        let node = &mut self.nodes[id];
        node.commands = Some(plan.commands);
        node.weight = plan.weight.max(1);
        node.waits_outside = plan.gates > 0;
        node.keeps_previous = plan.keep_previous;
        node.end = plan.doomed.map(End::Doomed);
        self.note_node(id, Recorded::Group);
        let mut kept_accesses: SmallVec<[Access; 2]> = SmallVec::new();
        let accesses = match plan.keep_previous {
            false => plan.accesses,
            true => {
                kept_accesses.extend(plan.accesses.iter().map(|a| Access { mode: kept(a.mode), ..*a }));
                &kept_accesses[..]
            }
        };
        // Found out before anything is moved: where it is moved to is where it is used.
        let mut shown: SmallVec<[(RootId, MemoryId); 2]> = SmallVec::new();
        if place == Place::Host {
            let by_root = accesses.chunk_by(|a, b| a.root == b.root);
            shown.extend(by_root.map(|of_root| (of_root[0].root, self.shown_in(of_root))));
        }
        let used_in = |engine: &Self, root: RootId| match shown.iter().find(|(of, _)| *of == root) {
            Some((_, memory)) => *memory,
            None => engine.memory_of(place, root),
        };
        // All transfers are planned before the first use is entered: they are to read and write the copies as
        // they are before this group, and this group comes behind them like behind any other writer.
        let (mut at_hand, mut usable) = (true, true);
        for access in accesses {
            usable &= self.hand_over(id, access, turn);
            at_hand &= self.is_at_hand(access, used_in(self, access.root));
        }
        if usable && !at_hand {
            self.bring(id, accesses, used_in, turn);
        }
        let mut preds = self.take_scratch();
        let mut gates = plan.gates;
        for access in accesses {
            let memory = used_in(self, access.root);
            let user = User { node: id, realm, memory, kind: Kind::Author };
            self.apply(user, access, &mut preds, turn);
        }
        for after in plan.after {
            preds.node(Some(after.node), if after.carries_failure { links::EVENT } else { links::NOTHING });
        }
        preds.node(plan.in_order, links::NOTHING);
        // Only now: what it comes after may let it have the memory of what is going.
        for access in accesses {
            let memory = used_in(self, access.root);
            let user = User { node: id, realm, memory, kind: Kind::Author };
            if self.roots[access.root].allocation(memory).is_none()
                && !self.inherits(user, access.root, &mut preds)
            {
                gates += self.await_memory(id, access.root, memory, turn);
            }
        }
        self.attach(id, &mut preds, gates, turn);
        self.note_certain(id, turn);
        self.scratch = Some(preds);
        self.finish_pending(turn);
    }

    /// Whether a requirement needs no transfer, and no failure of its data is known. Most are of this kind.
    #[inline]
    fn is_at_hand(&self, access: &Access, memory: MemoryId) -> bool {
        !access.mode.reads()
            || self.roots[access.root].segments.is_at_hand(memory, self.is_zeroed(access.root, memory))
    }

    /// Whether what nobody has written reads as zeros in a memory as it is.
    #[inline]
    fn is_zeroed(&self, root: RootId, memory: MemoryId) -> bool {
        self.memories[memory.0 as usize].traits.zeroed && !(memory == HEAP && self.roots[root].shows_others())
    }

    /// Brings what a node reads to where it uses it, unless the node is doomed: then it will not run, and
    /// nothing is moved.
    #[inline(never)]
    fn bring(
        &mut self,
        id: NodeId,
        accesses: &[Access],
        used_in: impl Fn(&Self, RootId) -> MemoryId,
        turn: &mut Turn<S>,
    ) {
        // Every access is looked at before anything is moved: the last one may be the one that is poisoned.
        let doomed = accesses.iter().any(|access| self.doom_by_content(id, access));
        if !doomed {
            for of_root in accesses.chunk_by(|a, b| a.root == b.root) {
                self.fetch(of_root, used_in(self, of_root[0].root), turn);
            }
        }
    }

    /// A node that reads a poisoned version is doomed from the start. Says whether this one is.
    pub(super) fn doom_by_content(&mut self, node: NodeId, access: &Access) -> bool {
        if !access.mode.reads() {
            return false;
        }
        let segments = &self.roots[access.root].segments;
        // A guard's box may be empty, and then reads nothing.
        let poison =
            segments.overlapping(&access.bounds).into_iter().find_map(|i| segments.get(i).content.poison());
        let Some(cause) = poison.cloned() else { return false };
        self.nodes[node].end.get_or_insert(End::Doomed(cause));
        true
    }

    /// Plans the transfers that bring what these requirements read into `memory`.
    pub(super) fn fetch(&mut self, accesses: &[Access], memory: MemoryId, turn: &mut Turn<S>) {
        // The segments are taken out, so that the engine can be changed while they are. Nothing below looks for
        // them in the root: transfers are handed the partition.
        let root = accesses[0].root;
        let zeroed = self.is_zeroed(root, memory);
        let mut segments = std::mem::take(&mut self.roots[root].segments);
        let mut stale: SmallVec<[(Box3, Sources); 4]> = SmallVec::new();
        let mut rubbish: SmallVec<[Box3; 4]> = SmallVec::new();
        // First everything is collected, as boxes: planning a transfer cuts and joins segments, after which
        // positions mean others; and pieces of several accesses may go in one transfer.
        for access in accesses {
            if !access.mode.reads() {
                continue;
            }
            for at in segments.overlapping(&access.bounds) {
                let segment = segments.get(at);
                if segment.is_stale(memory) {
                    let sources = self.sources(segment, memory);
                    stale.push((segment.bounds.intersection(&access.bounds), sources));
                } else if !zeroed && segment.is_rubbish(memory) {
                    rubbish.push(segment.bounds.intersection(&access.bounds));
                }
            }
        }
        self.clear_boxes(root, &mut segments, memory, &rubbish, turn);
        let moves = self.shortest(&stale);
        // Before their routes are chosen: a copy to pinned memory does not block, so it need not be staged.
        if memory == HEAP {
            self.pin_heap(root, &moves);
        }
        for (bounds, source) in moves {
            self.transfer(root, &mut segments, source, memory, bounds, turn);
        }
        self.roots[root].segments = segments;
    }

    /// Plans clears of bytes that were never written, in as few boxes as possible.
    pub(super) fn clear_boxes(
        &mut self,
        root: RootId,
        segments: &mut Segments<S::Cause>,
        memory: MemoryId,
        rubbish: &[Box3],
        turn: &mut Turn<S>,
    ) {
        let source = || Sources::from_slice(&[Source { memory, pending: None }]);
        let rubbish: SmallVec<[(Box3, Sources); 4]> = rubbish.iter().map(|b| (*b, source())).collect();
        for (bounds, _) in self.shortest(&rubbish) {
            self.clear(root, segments, memory, bounds, turn);
        }
    }

    /// Which memories other than `target` hold a segment, each with the node that may still fail to write it there.
    fn sources(&self, segment: &Segment<S::Cause>, target: MemoryId) -> Sources {
        // A writer that has settled without poisoning the segment can no longer fail, so it is no reason to keep
        // this piece apart from others.
        let may_fail = |id: &NodeId| self.nodes.contains(*id);
        segment
            .sources()
            .filter(|s| s.memory != target)
            .map(|s| Source { pending: s.pending.filter(may_fail), ..s })
            .collect()
    }

    /// The fewest boxes, each with one source, that cover what is stale.
    pub(super) fn shortest(&self, stale: &[(Box3, Sources)]) -> SmallVec<[(Box3, MemoryId); 2]> {
        match stale {
            [] => return SmallVec::new(),
            [(bounds, sources)] => {
                let first = sources.iter().map(|s| s.memory).min();
                return first.map(|memory| (*bounds, memory)).into_iter().collect();
            }
            _ => {}
        }
        // A colour is a memory together with the writer that may still fail there, and a box of the cover has
        // one colour. So a transfer never carries data of two writers that may fail apart: a reader of the part
        // that is well would otherwise fail with the transfer.
        let mut known: Vec<Source> = stale.iter().flat_map(|(_, s)| s.iter().copied()).collect();
        known.sort_unstable_by_key(Source::sort_key);
        known.dedup();
        let colour = |s: &Source| known.partition_point(|k| k.sort_key() < s.sort_key()) as u32;
        let piece = |(bounds, sources): &(Box3, Sources)| Piece {
            bounds: *bounds,
            colours: sources.iter().map(colour).collect(),
        };
        let pieces: Vec<Piece> = stale.iter().map(piece).collect();
        cover(&pieces).into_iter().map(|c| (c.bounds, known[c.colour as usize].memory)).collect()
    }

    /// Enters one use of a box: collects what it comes after, and records it for later uses to come after.
    /// The root's allocation may be [missing](Engine::await_memory).
    pub(super) fn apply(&mut self, user: User, access: &Access, preds: &mut Preds, turn: &mut Turn<S>) {
        let &Access { root, bounds, mode } = access;
        let Engine { nodes, roots, read_sets, record, tally, .. } = self;
        let entry = &mut roots[root];
        // Hazards are found per memory. Guards conflict with users of every memory.
        if !entry.guards.is_empty() {
            guards_ahead(&entry.guards, &bounds, mode.writes(), preds);
        }
        preds.node(entry.handed_over.filter(|_| !bounds.is_empty()), links::DATA);
        let segments = &mut entry.segments;
        let mut uses = Entry { user, preds, read_sets, record, causes: &mut turn.causes, joined: None };
        match segments.only_mut().filter(|segment| bounds.contains(&segment.bounds)) {
            // A root of one history, used as a whole: nothing to search for, to cut or to join.
            Some(segment) => {
                tally.nodes_visited += 1;
                // In this order: entering the use replaces the users that the hazards are found by.
                if !uses.use_alone(segment, mode) {
                    uses.hazards(segment, mode);
                    uses.enter(segments, &[0], mode);
                    // Users that have settled may stay named here: an id that outlives its node names nothing.
                    if segments.get(0).needs_tidying() {
                        segments.tidy(&[0], nodes, uses.read_sets);
                    }
                }
            }
            None => {
                let (met, inside) = apply_to_part(&mut uses, segments, &bounds, mode);
                tally.nodes_visited += met;
                segments.tidy(&inside, nodes, uses.read_sets);
            }
        }
        let joined = uses.joined;
        let node = &mut nodes[user.node];
        if let Some(read_set) = joined {
            node.read_sets.push(read_set);
        }
        let does = Does::of(mode, &bounds, &entry.extent);
        let used = Use { root, memory: user.memory, does };
        node.uses.push(used);
        entry.copies.enter(user.memory, does);
        entry.users += 1;
        entry.used_at = tally.nodes_visited;
        self.joins_line(user.node, used);
    }

    /// Notes that a node uses a root's allocation in `memory`. Returns one gate if that is not there yet, and
    /// asks for it if no other node has.
    pub(super) fn use_root(
        &mut self,
        id: NodeId,
        root: RootId,
        memory: MemoryId,
        does: Does,
        turn: &mut Turn<S>,
    ) -> u32 {
        let used = Use { root, memory, does };
        self.nodes[id].uses.push(used);
        let entry = &mut self.roots[root];
        entry.users += 1;
        entry.copies.enter(memory, does);
        self.joins_line(id, used);
        match self.roots[root].allocation(memory) {
            Some(_) => 0,
            None => self.await_memory(id, root, memory, turn),
        }
    }

    /// Holds a node back until a root's allocation is there, if it is not. Returns one gate then.
    #[inline(never)]
    pub(super) fn await_memory(
        &mut self,
        id: NodeId,
        root: RootId,
        memory: MemoryId,
        turn: &mut Turn<S>,
    ) -> u32 {
        // A lost context allocates nothing, and the node fails without: asked for all the same, what it answered would lie in
        // the slot of a root that cannot be used, and keep the context from being closed.
        if self.lost_with(memory).is_some() {
            return 0;
        }
        // The first user asks, and leaves a pending slot; later ones find it, and wait on its list. So an
        // allocation is asked for once, however many groups are planned before it is made.
        let entry = &mut self.roots[root];
        let at = match entry.slots.iter().position(|(m, _)| *m == memory) {
            Some(at) => at,
            None => {
                let pinned_by = entry.pinned_by().filter(|_| memory == HEAP);
                let may_be_small = memory == HEAP && pinned_by.is_none();
                let small = may_be_small.then(|| S::small_heap(entry.bytes)).flatten();
                match &small {
                    Some(_) => self.tally.small_heaps += 1,
                    None => {
                        let pinned = pinned_by.and_then(|_| entry.pinning());
                        let clear = pinned.iter().flat_map(|pinned| &pinned.clear);
                        let cleared: usize = clear.map(|bounds| bounds.volume() * entry.unit).sum();
                        self.tally.bytes_cleared += cleared as u64;
                        let replaces = |used: &Use| (used.root, used.does) == (root, Does::Replaces);
                        // If that one fails, what it has left has to be cleared, which takes a device.
                        let is_replaced = may_be_small
                            && self.memories[HEAP.0 as usize].device.is_some()
                            && self.nodes[id].uses.iter().any(replaces);
                        turn.allocate.push(Allocate {
                            root,
                            memory,
                            bytes: entry.bytes,
                            pinned,
                            is_replaced,
                        });
                    }
                }
                entry.slots.push((memory, small.map_or(Slot::Pending(links::NONE), Slot::Ready)));
                // A slot counts from the request on, and for the pinning memory as well: a context stays open as
                // long as an allocation of its own is there or may yet come (`is_used`).
                self.memories[memory.0 as usize].slots += 1;
                pinned_by.into_iter().for_each(|by| self.memories[by.0 as usize].slots += 1);
                entry.slots.len() - 1
            }
        };
        let waiting = match &mut entry.slots[at].1 {
            Slot::Pending(waiting) => waiting,
            Slot::Swapped(swap) => &mut swap.waiting,
            Slot::Ready(_) => return 0,
        };
        links::push(&mut self.edges, waiting, id, links::GATE);
        self.waits_in_line(id, root, memory);
        1
    }

    /// The shell has made an allocation, or has not been able to. Of one that was to be pinned it says [so](Engine::pinned).
    pub fn allocated(
        &mut self,
        root: RootId,
        memory: MemoryId,
        made: Result<S::Memory, S::Cause>,
        turn: &mut Turn<S>,
    ) {
        self.has_room(root, memory);
        // The context was given up while the allocation was being made. To free it might wait for the device.
        let made = match (made, self.given_up(memory).cloned()) {
            (Ok(made), Some(cause)) => {
                turn.leaked.push(made);
                Err(cause)
            }
            (made, _) => made,
        };
        let slot = |root: &Root<S>| root.slots.iter().position(|(m, _)| *m == memory);
        let Some((entry, at)) = self.roots.get_mut(root).and_then(|r| slot(r).map(|at| (r, at))) else {
            return match made {
                Ok(made) => turn.freed.push(made),
                Err(cause) => turn.causes.push(cause),
            };
        };
        if matches!(entry.slots[at].1, Slot::Swapped(_)) {
            return self.comes_back(root, memory, made, turn);
        }
        let (before, failed) = match made {
            Ok(made) => (std::mem::replace(&mut entry.slots[at].1, Slot::Ready(made)), None),
            // The slot goes, so that the next user asks again: memory may have become free.
            Err(cause) => {
                let pinned_by = if memory == HEAP { entry.unpin() } else { None };
                let slot = entry.slots.swap_remove(at).1;
                entry.copies.forget(memory);
                entry.is_unclean &= memory != HEAP;
                self.slot_is_gone(memory, pinned_by);
                (slot, Some(cause))
            }
        };
        self.slot_has_changed(root, memory);
        let Slot::Pending(waiting) = before else { return };
        self.open_slot(waiting, failed, turn);
        self.finish_pending(turn);
    }

    /// Lets go those that wait for a slot, with its memory or with the reason why there is none.
    pub(super) fn open_slot(&mut self, waiting: u32, failed: Option<S::Cause>, turn: &mut Turn<S>) {
        // First doomed, then opened: a node that became ready in between would be queued to run without its memory.
        if let Some(cause) = failed {
            self.doom_list(waiting, &cause, turn);
            turn.causes.push(cause);
        }
        self.open_list(waiting, None, turn);
    }
}

/// Enters a use of a part of a root, or of a root of several histories. Returns how many segments it met, and
/// the positions of those that it uses now.
#[inline(never)]
fn apply_to_part<C: Clone + PartialEq>(
    entry: &mut Entry<'_, C>,
    segments: &mut Segments<C>,
    bounds: &Box3,
    mode: Mode,
) -> (u64, Inside) {
    let met = segments.overlapping(bounds);
    for &i in &met {
        entry.hazards(segments.get(i), mode);
    }
    // Cut after the hazards were collected, because the pieces share the history of what they were cut from, and
    // before the use is entered, so that it marks no more than its own box.
    let inside = segments.carve(bounds, entry.read_sets);
    entry.enter(segments, &inside, mode);
    (met.len() as u64, inside)
}

/// A write that leaves what was there before where it does not write.
pub(super) fn kept(mode: Mode) -> Mode {
    match mode {
        Mode::Overwrite => Mode::Write,
        Mode::ReadWriteUninit => Mode::ReadWrite,
        other => other,
    }
}

impl<S: Shell> Engine<S> {
    /// Into how many segments a root is cut, for tests.
    pub fn segments_of(&self, root: RootId) -> usize {
        self.roots.get(root).map_or(0, |r| Segments::len(&r.segments))
    }
}
