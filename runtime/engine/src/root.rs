//! Roots: what a buffer is to the engine.

use smallvec::SmallVec;

use super::boxes::Box3;
use super::heirs::Part;
use super::ids::MemoryId;
use super::pinned::Pinned;
use super::segments::Segments;
use super::swap::{Copies, Swap};
use super::{Engine, HEAP, NodeId, RootId, Shell, Turn};

/// An allocation of a root in one memory.
pub(super) enum Slot<S: Shell> {
    /// Asked for; the edges lead to those that wait.
    Pending(u32),
    Ready(S::Memory),
    /// What it holds is swapped out, or is about to be, or comes back.
    Swapped(Box<Swap<S>>),
}

impl<S: Shell> Slot<S> {
    /// The edges to those that wait for it.
    pub(super) fn waiting(&self) -> Option<u32> {
        match self {
            Slot::Pending(waiting) => Some(*waiting),
            Slot::Swapped(swap) => Some(swap.waiting),
            Slot::Ready(_) => None,
        }
    }

    /// Whether those that wait for it do so until there is room.
    pub(super) fn is_without_room(&self) -> bool {
        match self {
            Slot::Pending(_) => true,
            Slot::Swapped(swap) => swap.is_away(),
            Slot::Ready(_) => false,
        }
    }
}

/// What a root is like.
#[derive(Debug)]
pub struct RootShape<S: Shell> {
    /// Its elements.
    pub extent: Box3,
    /// Bytes in one of them.
    pub unit: usize,
    /// Bytes in all.
    pub bytes: usize,
    /// See [`Shell::Object`].
    pub object: S::Object,
    /// The only memory that it is ever in, if it is not to go where it is needed.
    pub home: Option<MemoryId>,
}

/// What a root has when it is added.
#[derive(Debug)]
pub enum Initial<M> {
    /// No allocation.
    None,
    /// An allocation that was never written, and holds what fresh memory holds there.
    Fresh(M),
    /// An allocation that was never written, and holds zeros.
    Zeroed(M),
    /// An allocation with content.
    Written(M),
    /// The same in host memory that the driver behind another memory has pinned: copies between the two do not block.
    Pinned(M, MemoryId),
}

/// A root buffer.
pub(super) struct Root<S: Shell> {
    pub(super) segments: Segments<S::Cause>,
    pub(super) extent: Box3,
    pub(super) bytes: usize,
    /// Bytes in one element of a box.
    pub(super) unit: usize,
    /// What the shell needs to know of it to make an allocation.
    pub(super) object: S::Object,
    pub(super) slots: SmallVec<[(MemoryId, Slot<S>); 1]>,
    /// It stays in this memory, and all users use it there.
    pub(super) home: Option<MemoryId>,
    /// Its memory is mapped, or will be once all that is planned has run: the host's to use, and no device's.
    pub(super) is_mapped: bool,
    /// The last step that gave its memory to the host, or took it back. Later users fail with it.
    pub(super) handed_over: Option<NodeId>,
    /// Why such a step failed: it is not known which side has the memory, and it cannot be used any more.
    pub(super) stuck: Option<S::Cause>,
    /// What its allocations hold that the heap's does not.
    pub(super) copies: Copies,
    /// Where the heap's allocation is pinned, or is to be. In a box, since few are.
    pub(super) pinned: Option<Box<Pinned>>,
    /// The heap's allocation may hold what was another root's: its first user, who is to write all of it, has not ended, or not well.
    /// What nobody has written is cleared before it is read.
    pub(super) is_unclean: bool,
    pub(super) guards: Vec<(NodeId, Box3, bool)>,
    pub(super) users: u32,
    /// When it was last used, by [`Tally::nodes_visited`](super::Tally).
    pub(super) used_at: u64,
    pub(super) released: bool,
    /// The program may have kept what it has seen of its memory.
    pub(super) is_kept: bool,
    /// Of its allocations, those that others hold as well, or did.
    pub(super) shares: Vec<Part>,
}

impl<S: Shell> Default for Root<S> {
    fn default() -> Self {
        Root {
            segments: Segments::default(),
            extent: Box3::line(0, 0),
            bytes: 0,
            unit: 0,
            object: S::Object::default(),
            slots: SmallVec::new(),
            home: None,
            is_mapped: false,
            handed_over: None,
            stuck: None,
            copies: Copies::default(),
            pinned: None,
            is_unclean: false,
            guards: Vec::new(),
            users: 0,
            used_at: 0,
            released: false,
            is_kept: false,
            shares: Vec::new(),
        }
    }
}

impl<S: Shell> Root<S> {
    pub(super) fn allocation(&self, memory: MemoryId) -> Option<&S::Memory> {
        self.slots.iter().find_map(|(m, slot)| match slot {
            Slot::Ready(found) if *m == memory => Some(found),
            _ => None,
        })
    }

    /// The same where it is just being filled or emptied, and only the steps that do so use it.
    pub(super) fn memory_in(&self, memory: MemoryId) -> Option<&S::Memory> {
        self.slots.iter().find_map(|(m, slot)| match slot {
            Slot::Ready(found) if *m == memory => Some(found),
            Slot::Swapped(swap) if *m == memory => swap.memory.as_ref(),
            _ => None,
        })
    }
}

impl<S: Shell> Engine<S> {
    /// A root buffer of this shape, with what is given to it in the heap, or at home.
    pub fn add_root(&mut self, shape: RootShape<S>, given: Initial<S::Memory>) -> RootId {
        let id = self.reserve_root();
        self.add_root_as(id, shape, given);
        id
    }

    /// The name of a root that is to be [added](Engine::add_root_as): who has one can name the root before the engine knows it.
    pub fn reserve_root(&mut self) -> RootId {
        self.roots.reserve()
    }

    /// A name that no root is given.
    pub fn give_root_back(&mut self, id: RootId) {
        self.roots.give_back(id);
    }

    /// Whether there are no roots, and names of some are all that keeps much memory for them.
    pub fn wants_roots_back(&self) -> bool {
        self.roots.is_kept_by_reserved()
    }

    /// [`Engine::add_root`] under a reserved name.
    pub fn add_root_as(&mut self, id: RootId, shape: RootShape<S>, given: Initial<S::Memory>) {
        let RootShape { extent, unit, bytes, object, home } = shape;
        let memory = home.unwrap_or(HEAP);
        let is_zeroed = matches!(given, Initial::Zeroed(_));
        let pinned_by = match given {
            Initial::Pinned(_, by) => Some(by),
            _ => None,
        };
        let (allocation, content) = match given {
            Initial::None => (None, None),
            Initial::Fresh(allocation) | Initial::Zeroed(allocation) => (Some(allocation), None),
            Initial::Written(allocation) | Initial::Pinned(allocation, _) => (Some(allocation), Some(memory)),
        };
        self.count_slots(memory, i32::from(allocation.is_some()));
        pinned_by.into_iter().for_each(|by| self.count_slots(by, 1));
        let pinned = pinned_by.map(|by| Box::new(Pinned::full(by)));
        let mut segments = Segments::new(extent, content);
        if is_zeroed {
            segments.iter_mut().for_each(|segment| segment.replica_mut(memory).cleared = true);
        }
        let slots = allocation.map(|m| (memory, Slot::Ready(m))).into_iter().collect();
        *self.roots.occupy_reserved(id) =
            Root { segments, extent, bytes, unit, object, slots, home, pinned, ..Root::default() };
    }

    /// Takes an allocation that was made for a root before that is added; not where its context has gone meanwhile.
    pub fn receive(
        &self,
        memory: MemoryId,
        given: Initial<S::Memory>,
        turn: &mut Turn<S>,
    ) -> Result<Initial<S::Memory>, S::Cause> {
        let context = self.memories[memory.0 as usize].context;
        let context = context.map(|context| &self.contexts[context.0 as usize]);
        let Some((cause, hangs)) = context.and_then(|c| Some((c.lost.as_ref()?, c.hangs))) else {
            return Ok(given);
        };
        match given {
            Initial::None => {}
            Initial::Fresh(allocation)
            | Initial::Zeroed(allocation)
            | Initial::Written(allocation)
            | Initial::Pinned(allocation, _) => match hangs {
                true => turn.leaked.push(allocation),
                false => turn.freed.push(allocation),
            },
        }
        Err(cause.clone())
    }

    /// The last handle is gone: the root goes when its last user does.
    pub fn release_root(&mut self, root: RootId, turn: &mut Turn<S>) {
        let entry = &mut self.roots[root];
        entry.released = true;
        match entry.users {
            0 => self.reap_root(root, turn),
            _ => self.leaves_heirs(root),
        }
    }

    pub(super) fn reap_root(&mut self, id: RootId, turn: &mut Turn<S>) {
        let Some(root) = self.roots.get(id) else { return };
        if root.released && root.users == 0 {
            let Some(mut root) = self.roots.remove(id) else { return };
            root.segments.clear(&mut self.read_sets, &mut turn.causes);
            self.leaves_no_heirs(id);
            let unpinned = root.unpin();
            turn.causes.extend(root.stuck.take());
            for (memory, slot) in std::mem::take(&mut root.slots) {
                let share = root.take_share(memory);
                let pinned_by = unpinned.filter(|_| memory == HEAP);
                self.slot_is_gone(memory, pinned_by);
                // A device that hangs may still touch what is pinned for it, and freeing it might wait for the
                // device.
                let hangs = pinned_by.is_some_and(|by| self.given_up(by).is_some());
                match slot {
                    Slot::Ready(allocation) => self.frees(allocation, share, hangs, turn),
                    Slot::Pending(_) => {}
                    // Its steps and those that wait for it are users.
                    Slot::Swapped(swap) => {
                        if let Some(allocation) = swap.memory {
                            self.frees(allocation, share, false, turn);
                        }
                    }
                }
            }
            self.look_for_unused(turn);
        }
    }

    /// A root has lost an allocation, or no longer asks for one.
    pub(super) fn slot_is_gone(&mut self, memory: MemoryId, pinned_by: Option<MemoryId>) {
        self.count_slots(memory, -1);
        pinned_by.into_iter().for_each(|by| self.count_slots(by, -1));
    }

    /// What the shell said of a root when it was added.
    pub fn object(&self, root: RootId) -> Option<&S::Object> {
        self.roots.get(root).map(|root| &root.object)
    }

    /// The only memory that a root is ever in, if it stays in one.
    pub fn home(&self, root: RootId) -> Option<MemoryId> {
        self.roots.get(root)?.home
    }

    /// The allocation of a root in a memory, if it has been made.
    pub fn allocation(&self, root: RootId, memory: MemoryId) -> Option<&S::Memory> {
        self.roots.get(root)?.allocation(memory)
    }

    /// What has an allocation in a memory: what the shell said of each root when it was added, and the allocation.
    pub fn held_in(&self, memory: MemoryId) -> impl Iterator<Item = (&S::Object, &S::Memory)> {
        // What another has as well is counted as that one's.
        let roots = self.roots.iter().filter(move |(_, root)| !self.is_handed_on(root, memory));
        roots.filter_map(move |(_, root)| Some((&root.object, root.memory_in(memory)?)))
    }

    /// The memories that have an allocation of a root, or are to have one.
    pub fn memories_with(&self, root: RootId) -> impl Iterator<Item = MemoryId> {
        self.roots.get(root).into_iter().flat_map(|root| root.slots.iter().map(|(memory, _)| *memory))
    }

    /// A root's extent in its units, the bytes of a unit, and the bytes of all.
    pub fn shape(&self, root: RootId) -> Option<(Box3, usize, usize)> {
        self.roots.get(root).map(|r| (r.extent, r.unit, r.bytes))
    }
}
