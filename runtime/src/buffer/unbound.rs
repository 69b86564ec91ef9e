//! Host accessors of a buffer that no queue has used yet.
//!
//! Such a buffer belongs to no runtime, and a host accessor does not decide to which it will: it is served here. Only host
//! accessors use the data then, so they are all that has to be kept apart: each waits for those before it whose part
//! overlaps its own, where one of the two writes.
//!
//! When a queue binds the buffer, the accessors that are still there take their places in the engine, in their order and
//! ahead of the first group. One that has its memory keeps it; one that waits is granted it by the engine.
//!
//! One lock covers all of it, the binding included: an accessor finds itself either here or in its place, never between.

use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{Allocation, HostMemory};
use windlass_sync::cell::Wakers;
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;

use super::Root;
use crate::error::{Error, Result};
use crate::shell::host_side::{Coming, GuardCell};
use crate::shell::waking::catch_foreign;
use crate::shell::{Inner, State, Windlass};
use windlass_engine::{Box3, Mode, RootId, Turn};

/// The data of a buffer without a runtime, and who uses it.
#[derive(Debug, Default)]
pub(super) struct Unbound {
    pub(super) data: Option<Arc<dyn Allocation>>,
    /// Somebody may have written the data, or it came from the program.
    pub(super) is_written: bool,
    accessors: Vec<Arc<Accessor>>,
}

#[derive(Debug)]
struct Accessor {
    /// In the engine's units.
    bounds: Box3,
    mode: Mode,
    guard: Arc<GuardCell>,
    /// In whose order it has its place once the buffer is bound. Changed under the buffer's lock only.
    place: Mutex<Option<Arc<Inner>>>,
}

/// A host accessor that was asked for before the buffer had a runtime; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Early {
    root: Arc<Root>,
    accessor: Arc<Accessor>,
}

impl Unbound {
    pub(super) fn new(data: Option<HostMemory>) -> Self {
        let data = data.map(|memory| Arc::new(memory) as Arc<dyn Allocation>);
        Unbound { is_written: data.is_some(), data, accessors: Vec::new() }
    }

    fn memory(&mut self, bytes: usize) -> Result<Arc<dyn Allocation>> {
        if let Some(memory) = &self.data {
            return Ok(memory.clone());
        }
        let made = HostMemory::zeroed(bytes).map_err(|e| {
            Error::backend(e, format!("allocating {bytes} bytes for a buffer in host memory"))
        })?;
        Ok(self.data.insert(Arc::new(made)).clone())
    }

    /// Grants their memory to those who wait for nobody any more.
    fn grant(&mut self, bytes: usize) -> SmallVec<[Wakers; 1]> {
        let mut woken = SmallVec::new();
        for at in 0..self.accessors.len() {
            let accessor = self.accessors[at].clone();
            let waits = |before: &Arc<Accessor>| {
                let writes = before.mode.writes() || accessor.mode.writes();
                writes && before.bounds.overlaps(&accessor.bounds)
            };
            if accessor.guard.cell.get().is_some() || self.accessors[..at].iter().any(waits) {
                continue;
            }
            let memory = self.memory(bytes);
            self.is_written |= accessor.mode.writes() && memory.is_ok();
            woken.extend(accessor.guard.settle_early(memory));
        }
        woken
    }

    pub(super) fn has_accessors(&self) -> bool {
        !self.accessors.is_empty()
    }

    /// Gives the accessors their places in the engine, in the turn in which the buffer is bound.
    pub(super) fn take_places(
        &mut self,
        root: RootId,
        inner: &Arc<Inner>,
        state: &mut State,
        turn: &mut Turn<Windlass>,
    ) {
        for accessor in self.accessors.drain(..) {
            let coming = Coming {
                guard: accessor.guard.clone(),
                root,
                bounds: accessor.bounds,
                mode: accessor.mode,
                in_heap: true,
                behind_readers: false,
                spare: None,
            };
            state.plan_accessor(coming, turn);
            *lock(&accessor.place) = Some(inner.clone());
        }
    }
}

impl Early {
    /// Takes its place among the buffer's accessors. `None` if the buffer has been bound meanwhile.
    pub(crate) fn enter(
        root: &Arc<Root>,
        bounds: Box3,
        mode: Mode,
        at: &'static Location<'static>,
    ) -> Option<Self> {
        let guard = Arc::new(GuardCell::new(at));
        let accessor = Arc::new(Accessor { bounds, mode, guard, place: Mutex::new(None) });
        let mut unbound = lock(&root.unbound);
        if root.owner().is_some() {
            return None;
        }
        unbound.accessors.push(accessor.clone());
        // Nobody waits for this one yet, and its coming lets nobody else go on.
        let _ = unbound.grant(root.bytes());
        drop(unbound);
        Some(Early { root: root.clone(), accessor })
    }

    pub(crate) fn guard(&self) -> &Arc<GuardCell> {
        &self.accessor.guard
    }

    /// Gives up the buffer's memory, if this accessor is its only user and no runtime has it.
    pub(crate) fn take_memory(&self) -> Option<Arc<dyn Allocation>> {
        let mut unbound = lock(&self.root.unbound);
        let alone = unbound.accessors.len() == 1 && self.root.owner().is_none();
        alone.then(|| unbound.data.take()).flatten()
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        let mut unbound = lock(&self.root.unbound);
        let place = lock(&self.accessor.place).take();
        unbound.accessors.retain(|accessor| !Arc::ptr_eq(accessor, &self.accessor));
        let woken = match place {
            None => unbound.grant(self.root.bytes()),
            Some(_) => SmallVec::new(),
        };
        drop(unbound);
        for wakers in woken {
            catch_foreign(|| wakers.wake());
        }
        if let Some(inner) = place {
            inner.end_accessor(&self.accessor.guard);
        }
    }
}
