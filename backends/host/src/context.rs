//! The context: memory, kernels, lanes, and who is called by which number.

use std::fmt;
use std::sync::{Arc, Weak};

use windlass_backend::{
    Allocation, AtomicOrders, AtomicScopes, BackendError, BuiltKernel, CompletionStrategy, Context,
    ContextInfo, DeviceInfo, Failed, HostMemory, Lane, LaneNumber, LaneSink, LaneSpec, MemoryObject,
    async_trait,
};
use windlass_kernel::{Kernel, KernelImage};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::timeline;

use crate::kernel::HostKernel;
use crate::lane::HostLane;
use crate::worker::Helpers;

/// A lane's progress.
pub(crate) type Timeline = timeline::Timeline<Failed>;

/// The timelines of a context's lanes, for waits. A lane keeps its timeline alive, and so does its worker while it
/// has work: a number without a timeline belongs to a lane that has ended, so all its points are passed.
#[derive(Default)]
pub(crate) struct Lanes {
    // Few, and found by a look at each.
    named: Mutex<Vec<(LaneNumber, Weak<Timeline>)>>,
}

impl Lanes {
    fn name(&self, number: LaneNumber, timeline: &Arc<Timeline>) {
        let mut named = lock(&self.named);
        named.retain(|(n, t)| *n != number && t.strong_count() > 0);
        named.push((number, Arc::downgrade(timeline)));
    }

    pub(crate) fn find(&self, number: LaneNumber) -> Option<Arc<Timeline>> {
        lock(&self.named).iter().find(|(n, _)| *n == number)?.1.upgrade()
    }
}

pub(crate) struct HostContext {
    info: ContextInfo,
    lanes: Arc<Lanes>,
    helpers: Arc<Helpers>,
}

impl HostContext {
    pub(crate) fn new(devices: Vec<DeviceInfo>, helpers: Arc<Helpers>) -> Self {
        let info = ContextInfo {
            devices,
            completions: vec![CompletionStrategy::Callback],
            feeds_from_sink: true,
            arms_freely: true,
            allocate_blocks: false,
            pageable_copies_block: false,
            atomic_orders: AtomicOrders::SequentiallyConsistent,
            atomic_scopes: AtomicScopes::System,
        };
        HostContext { info, lanes: Arc::default(), helpers }
    }
}

#[async_trait]
impl Context for HostContext {
    fn info(&self) -> &ContextInfo {
        &self.info
    }

    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError> {
        let (lane, timeline) = HostLane::new(spec.number, sink, self.lanes.clone(), self.helpers.clone());
        self.lanes.name(spec.number, &timeline);
        Ok(Arc::new(lane))
    }

    fn allocate(&self, _device: usize, object: MemoryObject) -> Result<Arc<dyn Allocation>, BackendError> {
        match object {
            MemoryObject::Buffer { bytes } => Ok(Arc::new(HostMemory::zeroed(bytes)?)),
            other => Err(BackendError::Unsupported(format!("{other:?} on a host device"))),
        }
    }

    async fn build(
        &self,
        _device: usize,
        kernel: &Kernel,
        image: &KernelImage,
    ) -> Result<Arc<dyn BuiltKernel>, BackendError> {
        match image.body() {
            Some(body) => Ok(Arc::new(HostKernel { body: body.clone() })),
            None => Err(BackendError::Build {
                kernel: kernel.name().into(),
                log: format!("a host device runs host bodies, not {:?}", image.format()),
            }),
        }
    }
}

impl fmt::Debug for HostContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostContext").field("devices", &self.info.devices.len()).finish_non_exhaustive()
    }
}
