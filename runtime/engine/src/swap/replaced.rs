//! What is about to be replaced unread makes room for those that came before.
//!
//! A group that replaces what nobody reads any more could do so at once. But while a group before it lacks room in that memory, this may be
//! what can be had there for nothing: once it has been written again, something else has to be copied to the heap and back in its
//! place. A stencil whose groups run as far as they get would fill the memory with what they leave in several steps, where in order there is
//! room for two. So what is there goes to those that lack room, and the group asks for memory again, in its turn. All others run ahead:
//! what they use is there, and it stays as much as it was.

use smallvec::SmallVec;

use super::super::ids::MemoryId;
use super::super::{Engine, NodeId, RootId, Shell, Turn};
use super::Room;

/// A root for which there was no room in a memory.
#[derive(Debug)]
pub(in super::super) struct Lacking {
    root: RootId,
    memory: MemoryId,
    /// The first of those that wait for it. If that one ends without, nothing is given up for the others: it only costs copies.
    first: NodeId,
}

impl<S: Shell> Engine<S> {
    /// There is no room for a root in a memory where it was asked for. It counts as lacking until its allocation is
    /// [answered](Engine::allocated).
    pub fn lacks_room(&mut self, root: RootId, memory: MemoryId) {
        let slots = self.roots.get(root).into_iter().flat_map(|root| &root.slots);
        let waiting = slots.filter(|(of, _)| *of == memory).find_map(|(_, slot)| slot.waiting());
        let users = waiting.map(|waiting| self.listed_in(waiting)).unwrap_or_default();
        let submitted = |id: &NodeId| self.nodes.get(*id).map(|node| node.submitted);
        let earliest = users.iter().filter_map(submitted).min();
        let order = |id: &NodeId| (!self.lacks_only_memory(*id), id.sort_key());
        let users = users.into_iter().filter(|id| submitted(id).is_some() && submitted(id) == earliest);
        let Some(first) = users.min_by_key(order) else { return };
        self.has_room(root, memory);
        self.memories[memory.0 as usize].spare = 0;
        self.lacking.push(Lacking { root, memory, first });
    }

    /// Whether anybody lacks room anywhere, or is being given some. A host accessor that has a root's data in a device's memory, where the host
    /// reaches it, keeps that there for as long as the program likes; so it is better off with the heap's then.
    pub fn is_short_of_room(&self) -> bool {
        !self.lacking.is_empty() || !self.swaps.is_empty()
    }

    /// The roots that lack room in a memory.
    pub(super) fn lacking_in(&self, memory: MemoryId) -> impl Iterator<Item = RootId> {
        self.lacking.iter().filter(move |of| of.memory == memory).map(|of| of.root)
    }

    /// A root has the memory that it was asked for, or will not have it.
    #[inline]
    pub(in super::super) fn has_room(&mut self, root: RootId, memory: MemoryId) {
        self.lacking.retain(|of| (of.root, of.memory) != (root, memory));
    }

    /// Whether a group might [give up](Engine::gives_up_room) what it is about to replace, if nothing else held it back.
    ///
    /// Until it has been asked, its place behind another on a lane's list is not enough to keep it in order: once it has given up room and has
    /// it again, it goes to any lane, and has to have a wait for each of those before it. So it is asked when all of them have been fed.
    #[inline]
    pub(in super::super) fn may_give_up_room(&self, id: NodeId) -> bool {
        !self.lacking.is_empty() && self.nodes[id].may_give_up()
    }

    /// Has a group that nothing holds back give up what it is about to replace, if those that came before need it. Says whether it waits
    /// now.
    ///
    /// It does so once: what it is given then may be what others lack by that time, and two could give to each other for ever.
    #[cold]
    pub(in super::super) fn gives_up_room(&mut self, id: NodeId, turn: &mut Turn<S>) -> bool {
        let node = &self.nodes[id];
        let submitted = node.submitted;
        let replaced: SmallVec<[(RootId, MemoryId); 2]> =
            node.replaced().map(|used| (used.root, used.memory)).collect();
        let mut waits = false;
        for (root, memory) in replaced {
            if self.is_needed(root, memory, submitted) {
                let users = self.users_of(root, memory);
                self.nodes[id].gave_up = true;
                let is_given_up = self.swap_out(root, memory, users, turn) != Room::None;
                self.tally.given_up += u64::from(is_given_up);
                // Nothing held it back before.
                self.is_held_in_lines(id);
                waits |= is_given_up;
            }
        }
        waits
    }

    /// Whether those before a group that have all but room in a memory need what it is about to replace: they lack more than what is being
    /// emptied there, and what will be replaced later. That is [taken](Engine::make_room) for nothing, too, and fewer have to wait.
    ///
    /// What else holds a group back is not helped by room. So a group that waits for the program has nobody give up anything.
    fn is_needed(&mut self, root: RootId, memory: MemoryId, submitted: u64) -> bool {
        let own = self.roots[root].bytes;
        // It was among what is replaced later. To count again takes as long as there are nodes, which each group would do.
        let spare = &mut self.memories[memory.0 as usize].spare;
        if *spare >= own {
            *spare -= own;
            return false;
        }
        let is_before = |of: &&Lacking| {
            let first = self.nodes.get(of.first).filter(|_| of.memory == memory);
            first.is_some_and(|first| {
                first.submitted < submitted && first.end.is_none() && self.lacks_only_memory(of.first)
            })
        };
        let bytes = |root: RootId| self.roots[root].bytes;
        let lacking: usize = self.lacking.iter().filter(is_before).map(|of| bytes(of.root)).sum();
        let emptied = self.closing_slots.iter().filter(|(_, of)| *of == memory);
        let emptied: usize = emptied.map(|(root, _)| bytes(*root)).sum();
        // The rest of the question takes longer.
        if lacking <= emptied {
            return false;
        }
        self.keep_lines();
        let bytes = |root: RootId| self.roots[root].bytes;
        let may_go = |of: RootId| {
            let users = self.noted_users_of(of, memory);
            users.replaces() && self.may_be_swapped_out(of, memory, &users)
        };
        let later = self.lines.iter().flat_map(|lines| lines.of_kind_behind(memory, true, Some(submitted)));
        let later: usize = later.filter(|of| may_go(*of)).map(bytes).sum();
        let is_needed = lacking > emptied + later && may_go(root);
        self.memories[memory.0 as usize].spare = (emptied + later).saturating_sub(lacking);
        is_needed
    }
}
