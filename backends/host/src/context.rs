//! The context: memory, kernels, lanes.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use windlass_backend::{
    Allocation, BackendError, BuiltKernel, ClockSample, Context, ContextInfo, DeviceInfo, DomainId,
    HostMemory, Lane, LaneSink, LaneSpec, MemoryIndex, MemoryInfo, MemoryObject, async_trait,
};
use windlass_kernel::{Kernel, KernelImage};

use crate::kernel::HostKernel;
use crate::lane::HostLane;
use crate::lanes::Lanes;
use crate::worker::{HelperThreads, clock};

pub(crate) struct HostContext {
    info: ContextInfo,
    lanes: Arc<Lanes>,
    helpers: Arc<HelperThreads>,
}

impl HostContext {
    pub(crate) fn new(
        devices: Vec<DeviceInfo>,
        memories: Vec<MemoryInfo>,
        lanes: Arc<Lanes>,
        helpers: Arc<HelperThreads>,
    ) -> Self {
        let info = ContextInfo::new(devices, memories).domain(DOMAIN).feeds_from_sink().fed_anywhere();
        HostContext { info: info.allocates_at_once().truly_waits(), lanes, helpers }
    }
}

/// All host contexts of a backend wait for each other's lanes, and reach each other's memory.
const DOMAIN: DomainId = DomainId(0);

// SAFETY: memory is `HostMemory`, zeroed, of the size that was asked for, and given to nobody else. Lanes work on what their
// commands name: see `HostLane`.
#[async_trait]
unsafe impl Context for HostContext {
    fn info(&self) -> &ContextInfo {
        &self.info
    }

    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError> {
        Ok(Arc::new(HostLane::new(spec.number, sink, self.lanes.clone(), self.helpers.clone())))
    }

    fn allocate(
        &self,
        _memory: MemoryIndex,
        object: MemoryObject,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        match object {
            MemoryObject::Buffer { bytes } => Ok(Arc::new(HostMemory::zeroed(bytes)?)),
            other => Err(BackendError::Unsupported(format!("{other:?} on a host device"))),
        }
    }

    fn clock(&self, _device: usize) -> Option<ClockSample> {
        let host = Instant::now();
        Some(ClockSample::new(clock(host), host))
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
