//! Names of buffers and groups, taken from the engine some at a time: who has one goes on at once, and leaves word of what it has named
//! to whoever has the engine's lock next.

use std::sync::Arc;

use windlass_backend::Allocation;
use windlass_engine::{Initial, NodeId, RootId, RootShape, Turn};
use windlass_sync::facade::{Mutex, lock};

use super::{Effects, Inner, Message, State, Windlass};

/// How many are taken at once.
const AT_ONCE: usize = 32;

/// Names that nothing has yet. Their locks are taken under the engine's, and nothing under them.
#[derive(Debug)]
pub(crate) struct Names {
    roots: Mutex<Vec<RootId>>,
    /// None once a device has been lost or the runtime has closed: from then on who submits waits for the lock, and is told.
    nodes: Mutex<Option<Vec<NodeId>>>,
}

impl Default for Names {
    fn default() -> Self {
        Names { roots: Mutex::default(), nodes: Mutex::new(Some(Vec::new())) }
    }
}

/// A buffer that the engine is to know.
#[derive(Debug)]
pub(crate) struct NewRoot {
    id: RootId,
    shape: RootShape<Windlass>,
    given: Initial<Arc<dyn Allocation>>,
}

impl Inner {
    /// Names a buffer. The engine knows it once it has been told, which whoever takes the lock next is; so does who names it, or who
    /// drops it.
    pub(crate) fn name_root(
        self: &Arc<Self>,
        shape: RootShape<Windlass>,
        given: Initial<Arc<dyn Allocation>>,
        effects: &mut Effects,
    ) -> RootId {
        let free = lock(&self.names.roots).pop();
        let id = free.unwrap_or_else(|| self.take_roots(effects));
        self.state.leave(Message::Root(Box::new(NewRoot { id, shape, given })));
        id
    }

    #[cold]
    fn take_roots(self: &Arc<Self>, effects: &mut Effects) -> RootId {
        let taken = |state: &mut State, _: &mut Turn<Windlass>| {
            let id = state.engine.reserve_root();
            (id, (1..AT_ONCE).map(|_| state.engine.reserve_root()).collect::<Vec<_>>())
        };
        let (id, others) = self.with_state(effects, taken);
        lock(&self.names.roots).extend(others);
        id
    }

    /// A name for a group, if there is one at hand: who finds the lock taken does not wait for it here.
    pub(crate) fn name_node(&self) -> Option<NodeId> {
        lock(&self.names.nodes).as_mut()?.pop()
    }
}

impl State {
    pub(super) fn add_named(&mut self, new: NewRoot) {
        self.engine.add_root_as(new.id, new.shape, new.given);
    }

    /// A buffer has gone. After the last of very many the names go back, for which the engine keeps a large table.
    pub(super) fn release(&mut self, root: RootId, turn: &mut Turn<Windlass>) {
        self.engine.release_root(root, turn);
        if self.engine.wants_roots_back() {
            let free = std::mem::take(&mut *lock(&self.names.roots));
            free.into_iter().for_each(|id| self.engine.give_root_back(id));
        }
    }

    /// Sees to it that there are names of groups for those who find the lock taken.
    pub(crate) fn fill_nodes(&mut self) {
        if let Some(free) = lock(&self.names.nodes).as_mut().filter(|free| free.len() < AT_ONCE / 2) {
            free.extend((0..AT_ONCE).map(|_| self.engine.reserve_node()));
        }
    }

    /// Something is refused from now on: who submits is to be told, and not the event of what was left as a message.
    pub(super) fn name_no_more(&mut self) {
        let free = lock(&self.names.nodes).take();
        free.into_iter().flatten().for_each(|id| self.engine.give_node_back(id));
    }

    /// Nothing is under way. After very many groups the names go back, for which the engine keeps a large table.
    pub(super) fn give_nodes_back(&mut self) {
        if self.engine.wants_nodes_back() {
            let free = lock(&self.names.nodes).as_mut().map(std::mem::take);
            free.into_iter().flatten().for_each(|id| self.engine.give_node_back(id));
        }
    }
}
