//! Contexts without handles: nothing more is submitted to them.
//!
//! Such a context may still be needed: the only copy of some data may lie in its memory, and readers elsewhere
//! have it fetched by the context's own lanes. So it stays until no root has an allocation there and its lanes
//! are idle. Then the shell is told to close it, and anything planned for it by mistake fails.
//!
//! The lanes of one queue's own ([`Engine::add_lane_group`]) go before their context does, with that queue: nothing can be planned
//! for them once it is gone, because transfers go to the lanes of the device that a memory is known by.
//!
//! The memory of a lost context is freed as soon as it has no users. Its own lanes have ended. But lanes of
//! other contexts may be in the middle of a copy from or to it, and so may host tasks and accessors: what they
//! use is *kept* until they have passed their points, or ended.

use smallvec::SmallVec;

use super::heirs::ShareId;
use super::ids::{ContextId, DeviceId, LaneId, MemoryId};
use super::machine::{Device, Memory};
use super::{Engine, NodeId, RootId, Shell, State, Turn, Use};

/// What is to go.
#[derive(Debug)]
pub(super) enum Closing<C> {
    /// A context, and the failure of anything that is planned for it later.
    Context(ContextId, C),
    /// The lanes of one queue's own.
    Lanes(DeviceId),
}

/// What becomes of an allocation once no user is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Freed,
    /// A device that hangs may still touch it.
    Leaked,
}

/// An allocation that a root has let go of.
#[derive(Debug)]
pub(super) struct Lost<M> {
    pub(super) root: RootId,
    pub(super) memory: MemoryId,
    /// The memory whose context has pinned it, if it is the heap's.
    pub(super) pinned_by: Option<MemoryId>,
    /// Its name, if other roots hold it as well.
    pub(super) share: Option<ShareId>,
    pub(super) allocation: M,
}

/// An allocation in the memory of a lost context, or pinned by one.
#[derive(Debug)]
pub(super) struct Kept<M> {
    memory: MemoryId,
    pinned_by: Option<MemoryId>,
    share: Option<ShareId>,
    allocation: M,
    fate: Fate,
    /// What uses it, on lanes of other contexts.
    users: SmallVec<[(LaneId, u64); 2]>,
    /// Nodes that use it on the host: what they hold of it must not be the last reference, which would be freed
    /// where they drop it.
    holders: SmallVec<[NodeId; 1]>,
}

impl<M> Kept<M> {
    /// The points that have to pass before it is freed.
    pub(super) fn users(&self) -> impl Iterator<Item = (LaneId, u64)> {
        self.users.iter().copied()
    }

    /// A device that hangs uses it.
    pub(super) fn leak(&mut self) {
        self.fate = Fate::Leaked;
    }
}

impl<S: Shell> Engine<S> {
    /// Frees allocations in lost memory, which their roots have let go of, as soon as no lane that goes on uses them.
    ///
    /// Those that are leaked are kept as long: until then the context stays open, so that no backend gives back to its driver
    /// what a host accessor reads.
    pub(super) fn keep_lost(&mut self, lost: Vec<Lost<S::Memory>>, fate: Fate) {
        let in_flight = self.nodes.iter().filter_map(|(_, node)| match node.state {
            State::Feeding(lane, point) | State::Fed(lane, point) => Some((lane, point, &node.uses)),
            _ => None,
        });
        // Few are in flight elsewhere: those of the lost context have ended by now.
        let in_flight: Vec<_> = in_flight.filter(|(l, p, _)| *p > self.lanes[l.0 as usize].passed).collect();
        let running = self.nodes.iter().filter(|(_, node)| matches!(node.state, State::Running));
        let running: Vec<_> = running.map(|(id, node)| (id, &node.uses)).collect();
        self.kept.extend(lost.into_iter().map(|Lost { root, memory, pinned_by, share, allocation }| {
            let uses = |u: &Use| (u.root, u.memory) == (root, memory);
            let users = in_flight.iter().filter(|(.., used)| used.iter().any(uses));
            let users = users.map(|(lane, point, _)| (*lane, *point)).collect();
            let holders = running.iter().filter(|(_, used)| used.iter().any(uses));
            let holders = holders.map(|(id, _)| *id).collect();
            Kept { memory, pinned_by, share, allocation, fate, users, holders }
        }));
    }

    #[cold]
    fn free_kept(&mut self, turn: &mut Turn<S>) {
        for kept in std::mem::take(&mut self.kept) {
            let passed = kept.users.iter().all(|(lane, point)| *point <= self.lanes[lane.0 as usize].passed);
            match passed && !kept.holders.iter().any(|id| self.nodes.contains(*id)) {
                true => {
                    self.frees(kept.allocation, kept.share, kept.fate == Fate::Leaked, turn);
                    self.slot_is_gone(kept.memory, kept.pinned_by);
                }
                false => self.kept.push(kept),
            }
        }
    }

    /// The last handle of a context is gone.
    pub fn close_when_unused(&mut self, context: ContextId, cause: S::Cause, turn: &mut Turn<S>) {
        self.closing.push(Closing::Context(context, cause));
        self.close_unused(turn);
    }

    /// The queue is gone whose own the lanes of this device are, which was [added](Engine::add_lane_group) for it, and all that was
    /// submitted to it has settled.
    pub fn close_lanes_when_unused(&mut self, device: DeviceId, turn: &mut Turn<S>) {
        self.closing.push(Closing::Lanes(device));
        self.close_unused(turn);
    }

    /// Something has ended that may have kept a context, or the memory of one that is lost.
    #[inline]
    pub(super) fn look_for_unused(&mut self, turn: &mut Turn<S>) {
        if !self.kept.is_empty() {
            self.free_kept(turn);
        }
        if !self.closing.is_empty() {
            self.close_unused(turn);
        }
    }

    #[cold]
    fn close_unused(&mut self, turn: &mut Turn<S>) {
        let closing = std::mem::take(&mut self.closing);
        for entry in closing {
            match entry {
                Closing::Context(context, _) if self.is_used(context) => self.closing.push(entry),
                Closing::Lanes(device) if self.has_work(&self.devices[device.0 as usize]) => {
                    self.closing.push(entry);
                }
                Closing::Context(context, cause) => self.close(context, cause, turn),
                Closing::Lanes(device) => {
                    // Taken from the device, so that they are closed once: its context's end comes later.
                    let device = &mut self.devices[device.0 as usize];
                    let lanes = [std::mem::take(&mut device.lanes), std::mem::take(&mut device.copy_lanes)];
                    for id in lanes.into_iter().flatten() {
                        // Its entry stays; the room that its lists have grown to does not.
                        let lane = &mut self.lanes[id.0 as usize];
                        (lane.list, lane.in_flight) = Default::default();
                        turn.lanes_closed.push(id);
                    }
                }
            }
        }
    }

    fn close(&mut self, context: ContextId, cause: S::Cause, turn: &mut Turn<S>) {
        // From here on it counts as lost: `ready` ends anything that is still planned for it.
        match &mut self.contexts[context.0 as usize].lost {
            lost @ None => *lost = Some(cause),
            Some(_) => turn.causes.push(cause),
        }
        let memories = &self.memories;
        let gone = |memory: &MemoryId| memories[memory.0 as usize].context == Some(context);
        self.links.retain(|(from, to)| !gone(from) && !gone(to));
        let of_context = self.devices.iter().filter(|d| d.context == context);
        turn.closed.extend(of_context.flat_map(Device::all_lanes));
    }

    fn is_used(&self, context: ContextId) -> bool {
        let mut devices = self.devices.iter().filter(|d| d.context == context);
        self.memories_of(context).any(|memory| self.memories[memory.0 as usize].slots > 0)
            || devices.any(|device| self.has_work(device))
    }

    fn has_work(&self, device: &Device) -> bool {
        device.all_lanes().any(|lane| !self.lanes[lane.0 as usize].is_idle())
    }

    /// Why a memory's context is lost, if it is.
    pub(super) fn lost_with(&self, memory: MemoryId) -> Option<&S::Cause> {
        let context = self.memories[memory.0 as usize].context?;
        self.contexts[context.0 as usize].lost.as_ref()
    }

    /// The memories that go with a context.
    pub(super) fn memories_of(&self, context: ContextId) -> impl Iterator<Item = MemoryId> {
        let own = move |(_, memory): &(usize, &Memory)| memory.context == Some(context);
        self.memories.iter().enumerate().filter(own).map(|(at, _)| MemoryId(at as u32))
    }

    /// Roots have gained allocations in this memory, or lost them.
    pub(super) fn count_slots(&mut self, memory: MemoryId, change: i32) {
        let slots = &mut self.memories[memory.0 as usize].slots;
        *slots = slots.wrapping_add_signed(change);
    }
}
