//! Transfers between contexts that cannot reach each other's memory: down into host staging, up out of it.

use std::sync::Arc;

use windlass_backend::{Allocation, BackendError};

use super::proxy::Signalled;
use super::work::Work;
use super::{Inner, Signal};
use crate::engine::{NodeId, Staged};
use crate::error::{Cause, Error};

impl Inner {
    /// One future for each staged transfer: gets staging, lets the download go, waits for it, lets the upload go, and
    /// gives the staging back when that has ended.
    pub(super) fn spawn_staged(self: &Arc<Self>, staged: Staged, down: Arc<Signal>, up: Arc<Signal>) {
        let inner = self.clone();
        self.gates.spawn(async move {
            let Staged { download, upload, bytes } = staged;
            let staging = inner.staging(download, bytes).await;
            if let Err(error) = &staging {
                let cause = Cause(Error::backend(error.clone(), "allocating staging memory for a transfer"));
                inner.enter(|state, _| state.engine.fail(download, cause));
            } else if let Ok(staging) = &staging {
                inner.enter(|state, _| {
                    for step in [download, upload] {
                        if let Some(Work::Transfer(transfer)) = state.engine.work_mut(step) {
                            transfer.staging = Some(staging.clone());
                        }
                    }
                });
            }
            inner.open_step(download);
            Signalled::new(down).await;
            inner.open_step(upload);
            Signalled::new(up).await;
            inner.enter(|state, _| state.counters.live_steps -= 1);
            inner.reaper.take(staging, &inner);
        });
    }

    fn open_step(self: &Arc<Self>, step: NodeId) {
        self.enter(|state, turn| {
            state.engine.want(step, turn);
            state.engine.open(step, turn);
        });
    }

    async fn staging(
        self: &Arc<Self>,
        download: NodeId,
        bytes: usize,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        let context = self.enter(|state, _| {
            let lane = state.engine.any_lane_of(download)?;
            Some(state.lane(lane).context.clone())
        });
        let Some(context) = context else { return Err(BackendError::OutOfMemory { bytes }) };
        self.off_thread(move || context.allocate_staging(bytes)).await
    }
}
