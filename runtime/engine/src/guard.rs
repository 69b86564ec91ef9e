//! Host accessors: guards that hold a box from the moment they have it until they are dropped.
//!
//! A guard is the only user that conflicts by region on every replica. It waits for all earlier users that it
//! conflicts with, in whatever memory they work, and all later ones wait for it.
//!
//! A guard is not an author. If it is dropped before it has its memory, or refused because what it reads has
//! failed, it wrote nothing; once it has its memory it cannot fail. So readers of what it may write fail with
//! the data that was there before, and not with the guard, and copies elsewhere are kept in reserve until it has
//! ended.

use super::boxes::Box3;
use super::hazard::{Kind, User};
use super::ids::MemoryId;
use super::links::NOTHING;
use super::machine::MemoryTraits;
use super::plan::kept;
use super::preds::Preds;
use super::segments::Inside;
use super::{Access, Engine, HEAP, Mode, NodeId, Place, Realm, Recorded, RootId, Shell, Slot, Turn};

/// A host accessor to be planned.
#[derive(Debug)]
pub struct GuardPlan<W> {
    /// Of which root.
    pub root: RootId,
    /// Which elements; may be none.
    pub bounds: Box3,
    /// How they are used.
    pub mode: Mode,
    /// It wants them in the heap, also where they are elsewhere within the host's reach.
    pub in_heap: bool,
    /// It comes after readers before it too, if it only reads: who evicts waits for all that use the memory.
    pub behind_readers: bool,
    /// What the node does.
    pub work: W,
}

impl<S: Shell> Engine<S> {
    /// Gives up a root's memory in the heap to the only user that is left of it.
    pub fn take_heap(&mut self, root: RootId) -> Option<S::Memory> {
        let entry = self.roots.get_mut(root).filter(|r| r.users == 1 && r.pinned.is_none())?;
        let at = entry.slots.iter().position(|(m, slot)| *m == HEAP && matches!(slot, Slot::Ready(_)))?;
        self.memories[HEAP.0 as usize].slots -= 1;
        let (_, slot) = entry.slots.swap_remove(at);
        self.slot_has_changed(root, HEAP);
        match slot {
            Slot::Ready(memory) => Some(memory),
            Slot::Pending(_) | Slot::Swapped(_) => None,
        }
    }

    /// Takes a host accessor in, at this place of the submission order. The shell is told to start it when it may
    /// have the memory, and ends it with [`Engine::finish_host`].
    ///
    /// `spare` is memory that reads as zeros, of the root's size: a guard that overwrites takes it where the heap has no copy yet,
    /// and can start at once. To make it here would be to clear any number of bytes under the owner's lock.
    pub fn plan_guard(
        &mut self,
        plan: GuardPlan<S::Work>,
        spare: &mut Option<S::Memory>,
        turn: &mut Turn<S>,
    ) -> NodeId {
        let GuardPlan { root, bounds, mode, in_heap, behind_readers, work } = plan;
        let memory = if in_heap {
            self.memory_of(Place::Host, root)
        } else {
            self.shown_in(&[Access { root, bounds, mode }])
        };
        // A guard may be dropped before it has its memory, and then the previous data is needed, so an
        // overwriting guard keeps it like any other. Not if it has its memory in this very turn: nothing can
        // come in between.
        let at_once = mode == Mode::Overwrite && self.take_memory_at_once(root, &bounds, memory, spare, turn);
        let mode = if at_once { mode } else { kept(mode) };
        self.submitted += 1;
        let id = self.fresh_node(Place::Host, |_| work);
        self.note_node(id, Recorded::Guard);
        self.nodes[id].keeps_previous = true;
        self.nodes[id].is_guard = true;
        let mut preds = self.take_scratch();
        self.users_everywhere(root, &bounds, mode.writes() || behind_readers, &mut preds);
        let access = Access { root, bounds, mode };
        let usable = self.hand_over(id, &access, turn);
        if usable && !self.doom_by_content(id, &access) {
            self.fetch(&[access], memory, turn);
        }
        let kind = if self.nodes[id].end.is_some() { Kind::RefusedGuard } else { Kind::Guard };
        let user = User { node: id, realm: Realm::Host, memory, kind };
        self.apply(user, &access, &mut preds, turn);
        let gates = match self.roots[root].allocation(memory) {
            Some(_) => 0,
            None => self.await_memory(id, root, memory, turn),
        };
        self.roots[root].guards.push((id, bounds, mode.writes()));
        self.attach(id, &mut preds, gates, turn);
        self.note_certain(id, turn);
        self.scratch = Some(preds);
        self.finish_pending(turn);
        id
    }

    /// In which memory the host has what is asked for of one root. What is current in a device's memory that the host reaches is used
    /// there, so that nothing is moved, neither now nor for the device's next group. Who only reads has it in the heap where it is current
    /// there, too, which keeps no context open.
    pub(super) fn shown_in(&self, accesses: &[Access]) -> MemoryId {
        let Some(root) = accesses.first().map(|access| access.root) else { return HEAP };
        let entry = &self.roots[root];
        if let Some(home) = entry.home {
            return home;
        }
        let mut inside = Inside::new();
        accesses.iter().for_each(|access| inside.extend(entry.segments.overlapping(&access.bounds)));
        let Some(first) = inside.first() else { return HEAP };
        let is_current =
            |memory: &MemoryId| inside.iter().all(|at| entry.segments.get(*at).is_current_in(*memory));
        if accesses.iter().all(|access| !access.mode.writes()) && is_current(&HEAP) {
            return HEAP;
        }
        let is_shown =
            |memory: &MemoryId| *memory != HEAP && self.memories[memory.0 as usize].traits.addressable;
        let all = entry.segments.get(*first).replicas.iter().map(|replica| replica.memory);
        all.filter(|memory| is_shown(memory) && is_current(memory)).min().unwrap_or(HEAP)
    }

    /// Gives a guard on a root without other users its memory, if there is some, made of `spare` where the root has none yet.
    /// Whether it has: then it is started in the turn in which it is planned.
    fn take_memory_at_once(
        &mut self,
        root: RootId,
        bounds: &Box3,
        memory: MemoryId,
        spare: &mut Option<S::Memory>,
        turn: &mut Turn<S>,
    ) -> bool {
        let MemoryTraits { mapped, zeroed, .. } = self.memories[memory.0 as usize].traits;
        let lost = self.lost_with(memory).is_some();
        // Behind a loss it waits for more than the users of the root.
        let Engine { lanes, behind_losses, .. } = self;
        let waits = behind_losses.iter().any(|(lane, point)| *point > lanes[lane.0 as usize].passed);
        let entry = &mut self.roots[root];
        if lost
            || waits
            || entry.users > 0
            || bounds.is_empty()
            || entry.stuck.is_some()
            || mapped != entry.is_mapped
        {
            return false;
        }
        // What it leaves unwritten is to be the root's own, or zeros.
        let segments = &entry.segments;
        if !zeroed && segments.overlapping(bounds).into_iter().any(|at| segments.get(at).is_rubbish(memory)) {
            return false;
        }
        let is_fit = entry.allocation(memory).is_some() && !(memory == HEAP && entry.shows_others());
        is_fit || memory == HEAP && self.take_spare(root, bounds, spare, turn)
    }

    /// A guard has ended, or will never have its memory.
    pub(super) fn end_guard(&mut self, id: NodeId, wrote: bool) {
        let Some(root) = self.nodes[id].uses.first().map(|u| u.root) else { return };
        let root = &mut self.roots[root];
        let Some(&(_, bounds, true)) = root.guards.iter().find(|(guard, ..)| *guard == id) else { return };
        for at in root.segments.overlapping(&bounds) {
            root.segments.get_mut(at).end_guard(id, wrote);
        }
    }

    /// A guard is dropped before it has its memory: later users no longer conflict with it.
    pub(super) fn let_go_of_guard(&mut self, id: NodeId) {
        // The order through it remains where it is needed. In its memory the segments still name it, so later
        // users there, and later guards, come behind it, and behind all that it waits for. In other memories it stood only for other
        // guards, and later users conflict with those directly. Without this, each of many accessors that are
        // given up while the data is held would wait for all before it, instead of for one or two.
        self.end_guard(id, false);
        let Some(root) = self.nodes[id].uses.first().map(|u| u.root) else { return };
        self.roots[root].guards.retain(|(guard, ..)| *guard != id);
    }

    /// Every earlier group that a guard conflicts with, in whatever memory it works. Transfers do not count, as
    /// they change no data: where one was the last to write a copy, the last group before it does.
    fn users_everywhere(&mut self, root: RootId, bounds: &Box3, exclusive: bool, preds: &mut Preds) {
        let segments = &self.roots[root].segments;
        for i in segments.overlapping(bounds) {
            for replica in &segments.get(i).replicas {
                preds.node(replica.last_group, NOTHING);
                if exclusive {
                    replica.read_sets.iter().for_each(|e| preds.after_read_set(*e, &mut self.read_sets));
                }
            }
        }
    }
}
