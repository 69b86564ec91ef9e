//! Making and freeing allocations, and dropping other native objects, off every path that must not block.

use std::sync::Arc;

use windlass_backend::{Allocation, BackendError, HostMemory, MemoryObject, Sequence};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::panics::catch;

use super::waking::shielded;
use super::{Effects, Inner, LaneShell, MemoryShell, close};
use crate::error::{Cause, Error};
use crate::shell::build::Builds;
use windlass_engine::{HEAP, MemoryId, RootId};

/// Host memory up to this size is freed where it is dropped: the allocator gives it back to itself, not to the
/// operating system.
const SMALL: usize = 128 << 10;

type Made = Result<Arc<dyn Allocation>, BackendError>;

/// An allocation to be made; on the heap, unless a context owns the memory.
struct Wanted {
    owner: Option<MemoryShell>,
    bytes: usize,
}

impl Wanted {
    fn blocks(&self) -> bool {
        self.owner.as_ref().is_some_and(|m| m.context.info().allocate_blocks)
    }

    fn make(&self) -> Made {
        let Some(MemoryShell { context, index, .. }) = &self.owner else {
            return HostMemory::zeroed(self.bytes).map(|m| Arc::new(m) as Arc<dyn Allocation>);
        };
        let made = catch(|| context.allocate(*index, MemoryObject::Buffer { bytes: self.bytes }));
        made.unwrap_or_else(|panic| Err(BackendError::Panicked(panic.message().into())))
    }

    /// On a thread that may block: what the driver keeps of freed memory is given back before it is said that there is none.
    fn make_with_room(self, made: Option<Made>) -> (Self, Made) {
        let mut made = made.unwrap_or_else(|| self.make());
        if let (true, Some(MemoryShell { context, index, .. })) = (is_out_of_memory(&made), &self.owner) {
            made = match catch(|| context.trim(*index)) {
                Ok(()) => self.make(),
                Err(panic) => Err(BackendError::Panicked(panic.message().into())),
            };
        }
        (self, made)
    }
}

fn is_out_of_memory(made: &Made) -> bool {
    matches!(made, Err(BackendError::OutOfMemory { .. }))
}

impl Inner {
    /// Makes an allocation that the engine asked for: here, where that cannot block, else on the blocking pool.
    pub(super) fn allocate(
        self: &Arc<Self>,
        root: RootId,
        memory: MemoryId,
        bytes: usize,
        owner: Option<MemoryShell>,
        effects: &mut Effects,
    ) {
        if memory == HEAP {
            let made = self.count(memory, bytes, None, Wanted { owner: None, bytes }.make());
            return self.with_state(effects, |state, turn| state.engine.allocated(root, memory, made, turn));
        }
        let wanted = Wanted { owner, bytes };
        let mut made = None;
        if !effects.in_callback && !wanted.blocks() {
            let here = wanted.make();
            if !is_out_of_memory(&here) {
                let made = self.count(memory, bytes, wanted.owner.as_ref(), here);
                return self
                    .with_state(effects, |state, turn| state.engine.allocated(root, memory, made, turn));
            }
            made = Some(here);
        }
        let inner = self.clone();
        self.gates.spawn(async move {
            let (wanted, made) = inner.off_thread(move || wanted.make_with_room(made)).await;
            let made = inner.count(memory, bytes, wanted.owner.as_ref(), made);
            inner.enter(|state, turn| state.engine.allocated(root, memory, made, turn));
        });
    }

    /// Notes what was allocated, or says why it was not.
    fn count(
        &self,
        memory: MemoryId,
        bytes: usize,
        owner: Option<&MemoryShell>,
        made: Made,
    ) -> Result<Arc<dyn Allocation>, Cause> {
        let error = match made {
            Ok(allocation) => {
                self.in_use.made(memory, &allocation);
                return Ok(allocation);
            }
            Err(error) => error,
        };
        let device = owner.and_then(MemoryShell::device_name);
        let on = device.map_or_else(|| "in host memory".into(), |name| format!("on {name}"));
        let mut doing = format!("allocating {bytes} bytes for a buffer {on}");
        if let BackendError::OutOfMemory { .. } = error {
            let there = self.in_use.now(memory);
            let held: usize = there.iter().map(|allocation| allocation.bytes()).sum();
            doing += &format!(", where {} buffers have {held}", there.len());
            let usage = owner.and_then(|m| catch(|| m.context.usage(m.index)).ok().flatten());
            if let Some(usage) = usage {
                doing += &format!(" and {} of {} are in use in all", usage.used, usage.total);
            }
            self.free_all(there);
        }
        Err(Cause(Error::backend(error, doing)))
    }

    pub(crate) fn free_all(&self, dead: impl IntoIterator<Item = Arc<dyn Allocation>>) {
        dead.into_iter().for_each(|memory| self.reaper.free(memory, self));
    }

    /// Runs something that may block where that harms nobody; in a runtime that is driven by hand, here.
    pub(crate) async fn off_thread<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        match self.manual {
            true => work(),
            false => blocking::unblock(work).await,
        }
    }
}

/// Drops native objects on a thread that may block, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Reaper {
    queue: Arc<Mutex<Queue>>,
}

/// What is to be dropped.
#[derive(Debug)]
pub(crate) enum Dead {
    Memory(#[expect(dead_code, reason = "it is kept to be dropped")] Arc<dyn Allocation>),
    Kernels(#[expect(dead_code, reason = "they are kept to be dropped")] Builds),
    Sequences(#[expect(dead_code, reason = "they are kept to be dropped")] Vec<Arc<dyn Sequence>>),
    /// Lanes of contexts that are closed with them.
    Lanes(Vec<Arc<LaneShell>>),
}

/// Ends what it holds when it is dropped, and so also if the executor is closed before.
#[derive(Debug)]
struct Burial(Option<Dead>);

impl Burial {
    /// Waits, on a thread that may block, until other threads have let go of the lanes: who fed one last has given its token
    /// back, and does so at any moment. A runtime that is driven by hand has no such threads to wait for.
    fn wait_for_feeders(&self) {
        let Some(Dead::Lanes(lanes)) = &self.0 else { return };
        while lanes.iter().any(|lane| Arc::strong_count(lane) > 1) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Burial {
    fn drop(&mut self) {
        if let Some(Dead::Lanes(lanes)) = self.0.take() {
            close(lanes);
        }
    }
}

#[derive(Debug, Default)]
struct Queue {
    dead: Vec<Burial>,
    at_work: bool,
}

impl Reaper {
    /// Frees what needs no thread of its own here, and the rest as [`Reaper::bury`] says.
    pub(crate) fn free(&self, memory: Arc<dyn Allocation>, inner: &Inner) {
        // Host memory of a backend's own (pinned, for one) takes a native call to free.
        let heap = (&*memory as &dyn std::any::Any).is::<HostMemory>();
        match heap && memory.bytes() <= SMALL {
            true => drop(memory),
            false => self.bury(Dead::Memory(memory), inner),
        }
    }

    /// Drops something on the blocking pool; in a runtime that is driven by hand, on its executor, so that no `poll` or
    /// `drop` makes a native call there either.
    pub(crate) fn bury(&self, dead: Dead, inner: &Inner) {
        if inner.manual {
            let burial = Burial(Some(dead));
            return inner.gates.spawn(async move { drop(burial) });
        }
        let mut queue = lock(&self.queue);
        queue.dead.push(Burial(Some(dead)));
        if std::mem::replace(&mut queue.at_work, true) {
            return;
        }
        drop(queue);
        let queue = self.queue.clone();
        blocking::unblock(move || {
            loop {
                let mut entry = lock(&queue);
                let dead = std::mem::take(&mut entry.dead);
                entry.at_work = !dead.is_empty();
                drop(entry);
                if dead.is_empty() {
                    return;
                }
                for burial in dead {
                    burial.wait_for_feeders();
                    shielded(|| drop(burial));
                }
            }
        })
        .detach();
    }

    /// How much waits to be dropped.
    pub(crate) fn waiting(&self) -> usize {
        let queue = lock(&self.queue);
        queue.dead.len() + usize::from(queue.at_work)
    }
}
