//! Contexts that are gone: lost, or given up because they hang.
//!
//! In a *lost* context nothing runs or touches memory any more. What it was fed ends, its memory goes, and data
//! that was nowhere else is lost with it.
//!
//! Others rely on the order through nodes that end with their context: see `behind.rs`.
//!
//! An *abandoned* context is lost in every way, but it is not known what its device still does. A command that
//! was fed and has not ended may end at any later time, and write: into the context's own memory, but also into
//! the heap or a peer's memory, if it was to copy there. So each allocation that such a command uses is given
//! up: it is not used again and never freed; the shell leaks it. Data that only it held is lost, and later users
//! get another allocation. Nodes that are using it right now, on the host or on other lanes, finish with it, and
//! fail: later readers look elsewhere by then. The context's own memory is leaked in any case, because freeing
//! it might wait for the device.

use super::ids::{ContextId, LaneId, MemoryId};
use super::links::{DATA, EVENT};
use super::unused::{Fate, Kept, Lost};
use super::{Allocate, End, Engine, HEAP, Node, NodeId, Place, Root, RootId, Shell, Slot, State, Turn, Use};

/// Memory that must not be used any more.
#[derive(Default)]
struct Gone {
    memories: Vec<MemoryId>,
    /// Allocations in other memories, or in these, that may be touched at any time.
    given_up: Vec<(RootId, MemoryId)>,
}

impl Gone {
    fn has(&self, root: RootId, memory: MemoryId) -> bool {
        self.memories.contains(&memory) || self.given_up.contains(&(root, memory))
    }
}

impl<S: Shell> Engine<S> {
    /// A context is about to be given up. However its end is reported from now on, it ends as one that hangs: a
    /// backend's report on such a device, for example that it is lost, does not say what the device still does.
    pub fn will_abandon(&mut self, context: ContextId) {
        let entry = &mut self.contexts[context.0 as usize];
        entry.hangs |= entry.lost.is_none();
    }

    /// Whether a context is given up, or is about to be.
    pub fn is_abandoned(&self, context: ContextId) -> bool {
        self.contexts[context.0 as usize].hangs
    }

    /// Why the context of a memory was given up, if it was.
    pub(super) fn given_up(&self, memory: MemoryId) -> Option<&S::Cause> {
        let context = &self.contexts[self.memories[memory.0 as usize].context?.0 as usize];
        context.lost.as_ref().filter(|_| context.hangs)
    }

    /// A context is gone: everything on its lanes ends, and data that was nowhere else is lost. If it is being given up, what its
    /// lanes may still touch is in [`Turn::leaked`], never to be freed.
    pub fn lose(&mut self, context: ContextId, cause: S::Cause, turn: &mut Turn<S>) {
        let entry = &mut self.contexts[context.0 as usize];
        if entry.lost.is_some() {
            return turn.causes.push(cause);
        }
        entry.lost = Some(cause.clone());
        let hangs = entry.hangs;
        // They are built anew if anybody asks: too much changes in them here.
        self.lines = None;
        let mut gone = Gone { memories: self.memories_of(context).collect(), given_up: Vec::new() };
        if hangs {
            self.give_up(context, &mut gone);
        }
        self.fail_users(&gone, &cause, turn);
        self.end_waiting_guards(&gone);
        self.hand_on_lanes_waits(context, turn);
        self.end_lanes(context, &cause, turn);
        self.ask_elsewhere(&gone, turn);
        self.lose_data(&gone, &cause, hangs, turn);
        self.forget_doomed_copies(turn);
        self.lines = None;
        self.finish_pending(turn);
        self.look_for_unused(turn);
    }

    /// Host memory that the lost context was to pin is asked of the heap instead. The driver may never answer, and users of the
    /// host's copy on other devices wait for it; if it does answer, [`Engine::pinned`] finds that it is late.
    fn ask_elsewhere(&mut self, gone: &Gone, turn: &mut Turn<S>) {
        let is_asked =
            |(memory, slot): &(MemoryId, Slot<S>)| *memory == HEAP && matches!(slot, Slot::Pending(_));
        let wanting = self.roots.iter().filter(|(_, root)| {
            root.pinned_by().is_some_and(|by| gone.memories.contains(&by)) && root.slots.iter().any(is_asked)
        });
        let wanting: Vec<RootId> = wanting.map(|(id, _)| id).collect();
        for root in wanting {
            self.could_not_pin(root);
            let bytes = self.roots[root].bytes;
            turn.allocate.push(Allocate { root, memory: HEAP, bytes, pinned: None, is_replaced: false });
        }
    }

    /// What has been fed to a context's lanes and has not ended, or is just being fed.
    pub fn in_flight_of(&self, context: ContextId) -> impl Iterator<Item = NodeId> {
        let is_out = move |node: &Node<S>| match node.state {
            State::Feeding(lane, point) | State::Fed(lane, point) => {
                self.context_of(lane) == context && point > self.lanes[lane.0 as usize].passed
            }
            _ => false,
        };
        self.nodes.iter().filter(move |(_, node)| is_out(node)).map(|(id, _)| id)
    }

    /// Takes from their roots the allocations that commands in flight on a context's lanes use.
    fn give_up(&mut self, context: ContextId, gone: &mut Gone) {
        let mut hung = Vec::new();
        let uses = |id| self.nodes[id].uses.iter().map(|u: &Use| (u.root, u.memory));
        gone.given_up.extend(self.in_flight_of(context).flat_map(uses));
        self.with_all_holders(&mut gone.given_up);
        gone.given_up.sort_unstable_by_key(|(root, memory)| (root.sort_key(), memory.0));
        gone.given_up.dedup();
        for &(root, memory) in &gone.given_up {
            let entry = &mut self.roots[root];
            let Some(at) = entry.slots.iter().position(|(of, _)| *of == memory) else { continue };
            let Some(allocation) = entry.take_lost(at) else { continue };
            let pinned_by = if memory == HEAP { entry.unpin() } else { None };
            entry.copies.forget(memory);
            hung.push(Lost { root, memory, pinned_by, share: entry.take_share(memory), allocation });
        }
        // So is lost memory of others that waited for these lanes.
        let mut kept = std::mem::take(&mut self.kept);
        let still_out = |(lane, point): (LaneId, u64)| {
            self.context_of(lane) == context && point > self.lanes[lane.0 as usize].passed
        };
        kept.iter_mut().filter(|kept| kept.users().any(still_out)).for_each(Kept::leak);
        self.kept = kept;
        self.keep_lost(hung, Fate::Leaked);
    }

    /// Every node that uses what is gone fails, wherever it runs: transfers of other contexts may be copying to
    /// or from there. So does every node of the context that has not ended in another way, whatever holds it back.
    fn fail_users(&mut self, gone: &Gone, cause: &S::Cause, turn: &mut Turn<S>) {
        let runs_there = |node: &Node<S>| match node.place {
            Place::Device(device) => node.end.is_none() && self.lost(device).is_some(),
            Place::Host => false,
        };
        let is_user =
            |node: &Node<S>| runs_there(node) || node.uses.iter().any(|u| gone.has(u.root, u.memory));
        let is_over = |node: &Node<S>| match node.state {
            State::Passed => true,
            State::Feeding(lane, point) => point <= self.lanes[lane.0 as usize].passed,
            _ => false,
        };
        let users = self.nodes.iter().filter(|(_, n)| is_user(n) && !is_over(n));
        let mut users: Vec<NodeId> = users.map(|(id, _)| id).collect();
        // All fail themselves before any takes others down: otherwise the outcome of a user that reads from
        // another would depend on the order of the table.
        users.retain(|id| self.will_fail(*id, cause, turn));
        users.into_iter().for_each(|id| self.doom_behind(id, cause, DATA | EVENT, turn));
    }

    /// Guards that were to have lost memory, and have not got it, write nothing: other copies that were kept for that case are what there
    /// is, and not lost with it.
    fn end_waiting_guards(&mut self, gone: &Gone) {
        let waits = |node: &Node<S>| {
            node.is_guard && node.is_waiting() && node.uses.iter().any(|u| gone.has(u.root, u.memory))
        };
        let waiting = self.nodes.iter().filter(|(_, node)| waits(node));
        let waiting: Vec<NodeId> = waiting.map(|(id, _)| id).collect();
        waiting.into_iter().for_each(|id| self.end_guard(id, false));
    }

    /// Copies that are certain not to come are stale from here on, though who was to bring them may wait for verdicts for long: who
    /// comes now has the data from elsewhere. Without this it would fail with the copy, as if it had been there before the loss.
    fn forget_doomed_copies(&mut self, turn: &mut Turn<S>) {
        let brings_nothing = |node: &Node<S>| node.is_transfer && !node.hands_over;
        let causes = self.nodes.iter().filter(|(_, node)| brings_nothing(node));
        let causes = causes.filter_map(|(id, node)| Some((id, node.takes_down(DATA)?.clone())));
        for (id, cause) in causes.collect::<Vec<_>>() {
            self.mark_failed(id, &cause, turn);
            turn.causes.push(cause);
        }
    }

    fn end_lanes(&mut self, context: ContextId, cause: &S::Cause, turn: &mut Turn<S>) {
        let lanes = 0..self.lanes.len() as u32;
        let lanes: Vec<_> = lanes.map(LaneId).filter(|lane| self.context_of(*lane) == context).collect();
        for lane in lanes {
            let entry = &mut self.lanes[lane.0 as usize];
            // Nodes that have not been fed must not name these points natively, and waits for passed points are
            // dropped.
            entry.passed = entry.last_point;
            (entry.weight, entry.reports, entry.owes_reports) = (0, 0, false);
            let in_flight = std::mem::take(&mut entry.in_flight).into_iter().map(|flight| flight.node);
            let listed = std::mem::take(&mut entry.list).into_iter().map(|(id, _)| id);
            for id in in_flight.chain(listed) {
                let Some(node) = self.nodes.get_mut(id) else { continue };
                node.end.get_or_insert(End::Failed(cause.clone()));
                self.finish(id, turn);
            }
        }
    }

    fn lose_data(&mut self, gone: &Gone, cause: &S::Cause, hangs: bool, turn: &mut Turn<S>) {
        let roots: Vec<_> = self.roots.iter().map(|(id, _)| id).collect();
        let mut lost = Vec::new();
        for id in roots {
            let root = &mut self.roots[id];
            for segment in root.segments.iter_mut() {
                segment.lose_copies(|memory| gone.has(id, memory), cause, &mut turn.causes);
            }
            for at in (0..root.slots.len()).rev() {
                let (memory, is_ready) = (root.slots[at].0, matches!(root.slots[at].1, Slot::Ready(_)));
                if !gone.memories.contains(&memory) {
                    continue;
                }
                let Some(allocation) = root.take_lost(at) else { continue };
                if is_ready {
                    root.copies.forget(memory);
                }
                let share = root.take_share(memory);
                lost.push(Lost { root: id, memory, pinned_by: None, share, allocation });
            }
        }
        self.keep_lost(lost, if hangs { Fate::Leaked } else { Fate::Freed });
    }
}

impl<S: Shell> Root<S> {
    /// Takes what is lost out of a slot, which goes if it was there for its users.
    fn take_lost(&mut self, at: usize) -> Option<S::Memory> {
        match &mut self.slots[at].1 {
            Slot::Ready(_) => match self.slots.swap_remove(at).1 {
                Slot::Ready(allocation) => Some(allocation),
                Slot::Pending(_) | Slot::Swapped(_) => None,
            },
            Slot::Swapped(swap) => swap.take_lost(),
            Slot::Pending(_) => None,
        }
    }
}
