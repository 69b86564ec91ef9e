//! The lane: takes groups, and reports verdicts.

use std::sync::Arc;

use windlass_backend::{BackendError, Completion, Group, Lane, LaneSink, Point};

use crate::gpu::Gpu;
use crate::inbox::Job;
use crate::ops;
use crate::submit::Worker;

/// The in-order stream of one device: wgpu has one queue.
pub(crate) struct WgpuLane {
    gpu: Arc<Gpu>,
    worker: Arc<Worker>,
    completion: Arc<Completion>,
}

impl WgpuLane {
    pub(crate) fn new(gpu: Arc<Gpu>, worker: Arc<Worker>, sink: Arc<dyn LaneSink>) -> Self {
        WgpuLane { gpu, worker, completion: Completion::new(sink) }
    }
}

// SAFETY: commands become boxes of device memory, which wgpu itself keeps and checks, and of host memory, checked to lie inside
// their allocations and used only before the point is settled. The waiter settles a point when the submission with all of
// its commands has ended and what it read back is in place.
unsafe impl Lane for WgpuLane {
    /// Waits need no native call: a context has one device, whose submitter takes the groups of all lanes in the order in which
    /// they were fed. So every point that a wait can name is passed before this group starts.
    unsafe fn feed(&self, group: Group<'_>) -> Result<(), BackendError> {
        if let Some(lost) = self.gpu.faults.lost() {
            return Err(lost);
        }
        let ops = ops::pack(&self.gpu, group.commands)?;
        if group.report {
            // Before the push, or the waiter could pass the point first. If the push is refused, the runtime feeds a barrier at
            // this point, and the arming holds for that.
            self.completion.arm(group.point);
        }
        let (completion, point) = (Arc::clone(&self.completion), group.point);
        // A device of the program's own may lack what the listed one has.
        let timed = group.timed && self.gpu.tells_times;
        self.worker.push(Job { completion, point, timed, ops })
    }

    fn flush(&self) {
        self.worker.flush();
    }

    fn arm(&self, point: Point) {
        self.completion.arm(point);
    }
}
