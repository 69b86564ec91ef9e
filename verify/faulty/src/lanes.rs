//! A backend that is nothing but its lanes: one device that works on the heap, takes closures, and builds nothing. For tests and
//! benchmarks that are about one lane's behaviour, and write just that.

use std::sync::Arc;

use windlass_backend::{
    Allocation, Aspect, Backend, BackendError, BackendId, BuiltKernel, Context, ContextInfo, ContextSpec,
    DeviceInfo, DeviceKind, HostMemory, Lane, LaneDepth, LaneSink, LaneSpec, MemoryIndex, MemoryObject,
    Platform, Unavailable, async_trait,
};
use windlass_kernel::{ImageFormat, Kernel, KernelImage};

/// The device of a [`LanesOnly`] backend.
pub trait DeviceOfLanes: Send + Sync + 'static {
    /// The name of backend and device.
    fn name(&self) -> &'static str;

    /// How many lanes it has, and how much each of them holds.
    fn lanes(&self) -> (usize, LaneDepth);

    /// Whether its lanes report where the runtime may feed them.
    fn feeds_from_sink(&self) -> bool {
        true
    }

    /// A lane. Nothing that is fed to it runs, so it is to report groups in their order, and to touch no memory.
    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Arc<dyn Lane>;
}

/// See the module documentation.
#[derive(Debug)]
pub struct LanesOnly<D>(pub Arc<D>);

impl<D: DeviceOfLanes> LanesOnly<D> {
    fn device(&self) -> DeviceInfo {
        let (name, (lanes, depth)) = (self.0.name(), self.0.lanes());
        DeviceInfo::new(name, name, DeviceKind::Host, MemoryIndex::Heap)
            .aspects([Aspect::HostBodies])
            .formats([ImageFormat::Host])
            .lanes(lanes, depth)
    }
}

// SAFETY: its contexts are `OfLanes`.
#[async_trait]
unsafe impl<D: DeviceOfLanes> Backend for LanesOnly<D> {
    fn id(&self) -> BackendId {
        BackendId::new(self.0.name())
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        Ok(vec![Platform::new(self.0.name(), "", "", vec![self.device()])])
    }

    async fn open(&self, _: ContextSpec) -> Result<Arc<dyn Context>, BackendError> {
        let info = ContextInfo::new(vec![self.device()], Vec::new()).allocates_at_once();
        let info = if self.0.feeds_from_sink() { info.feeds_from_sink() } else { info };
        Ok(Arc::new(OfLanes { device: self.0.clone(), info }))
    }
}

struct OfLanes<D> {
    device: Arc<D>,
    info: ContextInfo,
}

// SAFETY: memory is `HostMemory`, and lanes touch none, as `DeviceOfLanes::open_lane` has it.
#[async_trait]
unsafe impl<D: DeviceOfLanes> Context for OfLanes<D> {
    fn info(&self) -> &ContextInfo {
        &self.info
    }

    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError> {
        Ok(self.device.open_lane(spec, sink))
    }

    fn allocate(&self, _: MemoryIndex, object: MemoryObject) -> Result<Arc<dyn Allocation>, BackendError> {
        Ok(Arc::new(HostMemory::zeroed(object.bytes())?))
    }

    async fn build(
        &self,
        _: usize,
        _: &Kernel,
        _: &KernelImage,
    ) -> Result<Arc<dyn BuiltKernel>, BackendError> {
        Err(BackendError::Unsupported("kernels".into()))
    }
}
