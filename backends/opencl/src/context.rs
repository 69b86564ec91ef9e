//! Contexts: devices of one driver, opened together.

use std::sync::Arc;

use windlass_backend::{
    Allocation, AtomicOrders, AtomicScopes, BackendError, BuiltKernel, CompletionStrategy, Context,
    ContextInfo, DeviceKind, HostMemory, Lane, LaneSink, LaneSpec, MemoryObject, async_trait,
};
use windlass_kernel::{Kernel, KernelImage};

use crate::device::{self, Found};
use crate::kernel::Built;
use crate::lane::{Lanes, OpenClLane};
use crate::memory::{Memory, Staging};
use crate::sys::{self, DeviceId, Queue};

/// A context, with a queue of its own for each device on which it clears fresh memory.
pub(crate) struct OpenClContext {
    native: Arc<sys::Context>,
    info: ContextInfo,
    devices: Vec<DeviceId>,
    service: Vec<Arc<Queue>>,
    lanes: Arc<Lanes>,
}

impl OpenClContext {
    /// Opens the devices at these positions of a driver's list.
    pub(crate) fn open(found: &Found, positions: &[usize]) -> Result<Self, BackendError> {
        let missing = |at: &usize| BackendError::Unsupported(format!("no OpenCL device at position {at}"));
        let devices = positions
            .iter()
            .map(|at| found.devices.get(*at).copied().ok_or_else(|| missing(at)))
            .collect::<Result<Vec<_>, _>>()?;
        let native = sys::Context::new(found.platform, &devices)?;
        let service = devices
            .iter()
            .map(|device| native.queue(*device).map(Arc::new))
            .collect::<sys::Result<Vec<_>>>()?;
        let info = info(&devices);
        Ok(OpenClContext { native: Arc::new(native), info, devices, service, lanes: Arc::default() })
    }
}

fn info(devices: &[DeviceId]) -> ContextInfo {
    let devices: Vec<_> = devices.iter().zip(0..).map(|(d, i)| device::device_info(*d, i)).collect();
    let orders = devices.iter().map(|d| d.atomic_orders).min();
    let scopes = devices.iter().map(|d| d.atomic_scopes).min();
    ContextInfo {
        completions: vec![CompletionStrategy::Callback, CompletionStrategy::Waiter],
        feeds_from_sink: false,
        arms_freely: false,
        allocate_blocks: true,
        // NVIDIA's driver makes such a copy inside the enqueueing call. Others pin the memory there, which blocks as well.
        pageable_copies_block: devices.iter().any(|d| d.kind == DeviceKind::DiscreteGpu),
        atomic_orders: orders.unwrap_or(AtomicOrders::Relaxed),
        atomic_scopes: scopes.unwrap_or(AtomicScopes::WorkGroup),
        devices,
    }
}

#[async_trait]
impl Context for OpenClContext {
    fn info(&self) -> &ContextInfo {
        &self.info
    }

    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError> {
        let queue = self.native.queue(self.devices[spec.device])?;
        let (context, lanes) = (Arc::clone(&self.native), Arc::clone(&self.lanes));
        Ok(Arc::new(OpenClLane::open(context, lanes, queue, &spec, sink)))
    }

    fn allocate(&self, device: usize, object: MemoryObject) -> Result<Arc<dyn Allocation>, BackendError> {
        let MemoryObject::Buffer { bytes } = object else {
            return Err(BackendError::Unsupported(format!("{object:?} on an OpenCL device")));
        };
        if bytes as u64 > self.info.devices[device].limits.allocation {
            return Err(BackendError::OutOfMemory { bytes });
        }
        Ok(Arc::new(Memory::zeroed(&self.native, &self.service[device], bytes)?))
    }

    /// Memory that the driver pinned, where there is a bus to cross; else, or without such memory, the process's own.
    /// NVIDIA's driver copies to and from unpinned memory inside the enqueueing call, at a sixth of the speed.
    fn allocate_staging(&self, bytes: usize) -> Result<Arc<dyn Allocation>, BackendError> {
        let discrete = self.info.devices.iter().position(|d| d.kind == DeviceKind::DiscreteGpu);
        if let Some(device) = discrete
            && let Some(staging) = Staging::zeroed(&self.native, &self.service[device], bytes)
        {
            return Ok(Arc::new(staging));
        }
        Ok(Arc::new(HostMemory::zeroed(bytes)?))
    }

    async fn build(
        &self,
        device: usize,
        kernel: &Kernel,
        image: &KernelImage,
    ) -> Result<Arc<dyn BuiltKernel>, BackendError> {
        let built = Built::new(&self.native, (device, self.devices[device]), kernel, image)?;
        Ok(Arc::new(built))
    }
}
