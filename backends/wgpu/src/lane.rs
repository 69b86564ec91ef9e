//! The lane: where groups come in and verdicts go out.

use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{BackendError, Command, Lane, LaneSink, Point, Wait};

use crate::context::Gpu;
use crate::event::Completion;
use crate::ops;
use crate::submit::{Job, Worker};

/// The in-order stream of one device: wgpu has one queue.
pub(crate) struct WgpuLane {
    gpu: Arc<Gpu>,
    worker: Arc<Worker>,
    completion: Arc<Completion>,
}

impl WgpuLane {
    pub(crate) fn new(gpu: Arc<Gpu>, worker: Arc<Worker>, sink: Arc<dyn LaneSink>) -> Self {
        WgpuLane { gpu, worker, completion: Arc::new(Completion::new(sink)) }
    }
}

impl Lane for WgpuLane {
    /// Waits need nothing: a context has one device, and its submitter takes all groups in the order of their feeds,
    /// so whatever a wait may name is passed before this group starts.
    fn feed(
        &self,
        point: Point,
        _waits: &[Wait],
        commands: SmallVec<[Command<'_>; 1]>,
    ) -> Result<(), BackendError> {
        if let Some(lost) = self.gpu.faults.lost() {
            return Err(lost);
        }
        let ops = ops::pack(&self.gpu, commands)?;
        self.worker.push(Job { completion: Arc::clone(&self.completion), point, ops })
    }

    fn flush(&self) {
        self.worker.flush();
    }

    fn arm(&self, point: Point) {
        self.completion.arm(point);
    }
}
