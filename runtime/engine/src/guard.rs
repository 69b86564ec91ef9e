//! Host accessors: guards that hold a box from the moment they have it until they are dropped.
//!
//! A guard is the one user that conflicts by region on every replica. It waits for everybody before it who conflicts,
//! wherever they work, and everybody after it who conflicts waits for it.
//!
//! A guard is no author. One that is let go of before it has its memory, or is refused because what it reads has failed,
//! wrote nothing; one that has its memory cannot fail. So those who read what it may write fail with what was there
//! before, and not with the guard, and copies elsewhere stay in reserve until it has ended.

use super::boxes::Box3;
use super::edges::NOTHING;
use super::hazard::{Kind, Preds, User};
use super::machine::MemoryTraits;
use super::plan::kept;
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
    /// What the node does.
    pub work: W,
}

impl<S: Shell> Engine<S> {
    /// Gives up a root's memory in the heap to the only user that is left of it.
    pub fn take_heap(&mut self, root: RootId) -> Option<S::Memory> {
        let entry = self.roots.get_mut(root).filter(|r| r.users == 1 && r.pinned_by.is_none())?;
        let at = entry.slots.iter().position(|(m, slot)| *m == HEAP && matches!(slot, Slot::Ready(_)))?;
        self.memories[HEAP.0 as usize].slots -= 1;
        match entry.slots.swap_remove(at).1 {
            Slot::Ready(memory) => Some(memory),
            Slot::Pending(_) => None,
        }
    }

    /// Takes a host accessor in, at this place of the submission order. The shell is told to start it when it may
    /// have the memory, and ends it with [`Engine::finish_host`].
    pub fn plan_guard(&mut self, plan: GuardPlan<S::Work>, turn: &mut Turn<S>) -> NodeId {
        let GuardPlan { root, bounds, mode, work } = plan;
        // It may be let go of before it has its memory, and then what was there before has to be at hand; not if it has that
        // before anybody else can say a word.
        let at_once = mode == Mode::Overwrite && self.has_memory_at_once(root, &bounds);
        let mode = if at_once { mode } else { kept(mode) };
        let id = self.fresh_node(Place::Host, |_| work);
        self.note_node(id, Recorded::Guard);
        self.nodes[id].keeps_previous = true;
        self.nodes[id].is_guard = true;
        let mut preds = self.take_scratch();
        self.users_everywhere(root, &bounds, mode.writes(), &mut preds);
        let access = Access { root, bounds, mode };
        let memory = self.memory_of(Place::Host, root);
        let usable = self.hand_over(id, &access, turn);
        if usable && !self.doom_by_content(id, &access) {
            self.fetch(&[access], memory, turn);
        }
        let kind = if self.nodes[id].end.is_some() { Kind::RefusedGuard } else { Kind::Guard };
        let user = User { node: id, realm: Realm::Host, memory, kind };
        let gates = self.apply(user, &access, &mut preds, turn);
        self.roots[root].guards.push((id, bounds, mode.writes()));
        self.attach(id, &mut preds, gates, turn);
        self.note_certain(id, turn);
        self.scratch = Some(preds);
        self.finish_pending(turn);
        id
    }

    /// Whether a guard on a root has nobody to wait for, and memory: it is started in the turn in which it is planned.
    fn has_memory_at_once(&mut self, root: RootId, bounds: &Box3) -> bool {
        let memory = self.memory_of(Place::Host, root);
        let MemoryTraits { mapped, zeroed, .. } = self.memories[memory.0 as usize].traits;
        let lost = self.memories[memory.0 as usize]
            .context
            .is_some_and(|c| self.contexts[c.0 as usize].lost.is_some());
        let entry = &mut self.roots[root];
        if lost || entry.users > 0 || bounds.is_empty() || entry.stuck.is_some() || mapped != entry.is_mapped
        {
            return false;
        }
        // What it leaves unwritten is to be the root's own, or zeros.
        let segments = &entry.segments;
        if !zeroed && segments.overlapping(bounds).into_iter().any(|at| segments.get(at).is_rubbish(memory)) {
            return false;
        }
        if entry.allocation(memory).is_none() {
            let may_ask =
                memory == HEAP && entry.slots.iter().all(|(m, _)| *m != HEAP) && entry.pinned_by.is_none();
            let Some(made) = may_ask.then(|| S::heap_now(entry.bytes)).flatten() else { return false };
            entry.slots.push((HEAP, Slot::Ready(made)));
            self.count_slots(HEAP, 1);
        }
        true
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

    /// A guard that never had its memory is let go of: nobody who comes later conflicts with it. The order through it stands
    /// where there is one, by the segments: whoever uses the heap's copy still comes behind it, and so behind all that it waits
    /// for. In other memories it stands for nothing but other guards, with which those conflict themselves. So accessors
    /// that are given up while somebody holds the data are behind one or two others each, and not behind all before them.
    pub(super) fn let_go_of_guard(&mut self, id: NodeId) {
        self.end_guard(id, false);
        let Some(root) = self.nodes[id].uses.first().map(|u| u.root) else { return };
        self.roots[root].guards.retain(|(guard, ..)| *guard != id);
    }

    /// Every earlier group that a guard conflicts with, in whatever memory it works. Transfers are none: they change
    /// no data, and where one wrote a copy last, the group that wrote it before counts.
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
