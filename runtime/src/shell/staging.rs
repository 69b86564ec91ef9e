//! Transfers between contexts that cannot reach each other's memory: down into host staging, up out of it.
//!
//! A transfer that is larger than a chunk was cut by the engine into pairs of nodes of their own, so that one chunk goes up
//! while the next comes down; here each pair is one future.

use std::sync::Arc;

use windlass_backend::{Allocation, BackendError, Context};

use super::pool::{Pool, class_of};
use super::proxy::Signalled;
use super::work::Work;
use super::{Inner, LaneShell, Signal};
use crate::engine::{NodeId, Staged};
use crate::error::{Cause, Error};

/// Staging memory in use, and the room that it takes in its pool.
struct Lease {
    memory: Arc<dyn Allocation>,
    class: usize,
    claimed: bool,
}

impl Inner {
    /// One future for each staged transfer: gets staging, lets the download go, waits for it, lets the upload go, and
    /// gives the staging back when that has ended.
    pub(super) fn spawn_staged(self: &Arc<Self>, staged: Staged, down: Arc<Signal>, up: Arc<Signal>) {
        let inner = self.clone();
        self.gates.spawn(async move {
            let Staged { download, upload, moves } = staged;
            let (lane, bytes) = inner.of_transfer(download);
            let lease = inner.lease(lane.as_deref(), bytes, moves).await;
            match &lease {
                Ok(lease) => inner.hand_out(lease, [download, upload]),
                Err(error) => {
                    let cause =
                        Cause(Error::backend(error.clone(), "allocating staging memory for a transfer"));
                    inner.enter(|state, _| state.engine.fail(download, cause));
                }
            }
            inner.open_step(download);
            Signalled::new(down).await;
            inner.open_step(upload);
            Signalled::new(up).await;
            if let (Some(lane), Ok(lease)) = (lane, lease) {
                inner.give_back(&lane.staging, lease);
            }
            inner.enter(|state, _| state.counters.live_steps -= 1);
        });
    }

    fn hand_out(self: &Arc<Self>, lease: &Lease, steps: [NodeId; 2]) {
        self.enter(|state, _| {
            for step in steps {
                if let Some(Work::Transfer(transfer)) = state.engine.work_mut(step) {
                    transfer.staging = Some(lease.memory.clone());
                }
            }
        });
    }

    fn open_step(self: &Arc<Self>, step: NodeId) {
        self.enter(|state, turn| {
            state.engine.want(step, turn);
            state.engine.open(step, turn);
        });
    }

    /// A lane of the context whose staging a transfer takes, and how much of it.
    fn of_transfer(self: &Arc<Self>, download: NodeId) -> (Option<Arc<LaneShell>>, usize) {
        self.enter(|state, _| {
            let lane = state.engine.any_lane_of(download).map(|lane| state.lane(lane).clone());
            let Some(Work::Transfer(transfer)) = state.engine.work_mut(download) else { return (lane, 0) };
            let step = transfer.step;
            let unit = state.engine.shape(step.root).map_or(0, |(_, unit, _)| unit);
            (lane, step.bounds.volume() * unit)
        })
    }

    /// Staging memory of at least so many bytes, in its turn. No thread waits for it.
    async fn lease(
        self: &Arc<Self>,
        lane: Option<&LaneShell>,
        bytes: usize,
        moves: bool,
    ) -> Result<Lease, BackendError> {
        let Some(lane) = lane else { return Err(BackendError::OutOfMemory { bytes }) };
        let (pool, class) = (&lane.staging, class_of(bytes));
        if let Some(turn) = moves.then(|| pool.claim(class)).flatten() {
            Signalled::new(turn).await;
        }
        let made = match pool.take(class) {
            Ok(memory) => Ok(memory),
            Err(unfit) => {
                self.reaper.take(unfit, self);
                let (pool, context) = (pool.clone(), lane.context.clone());
                self.off_thread(move || allocate(&pool, &*context, class)).await
            }
        };
        if made.is_err() && moves {
            wake(pool.disclaim(class));
        }
        made.map(|memory| Lease { memory, class, claimed: moves })
    }

    fn give_back(&self, pool: &Pool, lease: Lease) {
        self.reaper.take(pool.keep(lease.class, lease.memory), self);
        if lease.claimed {
            wake(pool.disclaim(lease.class));
        }
    }
}

/// Allocates on a thread that may block.
fn allocate(pool: &Pool, context: &dyn Context, class: usize) -> Result<Arc<dyn Allocation>, BackendError> {
    let made = context.allocate_staging(class).or_else(|error| match pool.clear() {
        kept if kept.is_empty() => Err(error),
        // What is kept in other sizes may be just what is missing.
        kept => {
            drop(kept);
            context.allocate_staging(class)
        }
    });
    pool.allocated(class, made.is_ok());
    made
}

/// Wakes those whose turn has come.
fn wake(turns: Vec<Arc<Signal>>) {
    for signal in turns {
        signal.complete(()).into_iter().for_each(|wakers| wakers.wake());
    }
}
