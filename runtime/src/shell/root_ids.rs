//! Names of buffers, taken from the engine some at a time: who binds a buffer to its runtime has a name for it at once, and leaves word
//! of it to whoever has the engine's lock next.

use std::sync::Arc;

use windlass_backend::Allocation;
use windlass_engine::{Initial, RootId, RootShape, Turn};
use windlass_sync::facade::{Mutex, lock};

use super::{Effects, Inner, Message, State, Windlass};

/// How many are taken in one turn of the lock.
const AT_ONCE: usize = 32;

/// Names that no buffer has yet. Its own lock is taken under the engine's, and nothing under it.
#[derive(Debug, Default)]
pub(crate) struct RootIds {
    free: Mutex<Vec<RootId>>,
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
        let free = lock(&self.root_ids.free).pop();
        let id = free.unwrap_or_else(|| self.take_names(effects));
        self.state.leave(Message::Root(Box::new(NewRoot { id, shape, given })));
        id
    }

    #[cold]
    fn take_names(self: &Arc<Self>, effects: &mut Effects) -> RootId {
        let taken = |state: &mut State, _: &mut Turn<Windlass>| {
            let id = state.engine.reserve_root();
            (id, (1..AT_ONCE).map(|_| state.engine.reserve_root()).collect::<Vec<_>>())
        };
        let (id, others) = self.with_state(effects, taken);
        lock(&self.root_ids.free).extend(others);
        id
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
            let free = std::mem::take(&mut *lock(&self.root_ids.free));
            free.into_iter().for_each(|id| self.engine.give_root_back(id));
        }
    }
}
