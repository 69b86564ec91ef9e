//! Contexts: devices of one driver, opened together.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use windlass_backend::{
    Allocation, Aspect, BackendError, BuiltKernel, ClockSample, Context, ContextInfo, DeviceInfo, DeviceKey,
    DeviceKind, HostMemory, Lane, LaneSink, LaneSpec, MemoryIndex, MemoryObject, NativeQueue, async_trait,
    native_object, native_object_of,
};
use windlass_kernel::{Kernel, KernelImage};
use windlass_sync::process_exit;

use crate::compiler;
use crate::device::Found;
use crate::driver::{Driver, Turn};
use crate::error::unsupported;
use crate::kernel::Built;
use crate::lane::{Lanes, OpenClLane};
use crate::memory::{Kind, Memories, Memory, Staging};
use crate::native::{MemoryHandle, QueueHandle};
use crate::sys::{self, DeviceId, Queue, WaitList};

/// A context of OpenCL devices; see [`native`](crate::native).
pub struct OpenClContext {
    native: Arc<sys::Context>,
    info: ContextInfo,
    devices: Vec<DeviceId>,
    driver: Driver,
    /// One queue per device, apart from all lanes, to touch fresh memory and map staging.
    service: Vec<Arc<Queue>>,
    lanes: Arc<Lanes>,
    memories: Memories,
}

impl fmt::Debug for OpenClContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClContext").field("info", &self.info).finish_non_exhaustive()
    }
}

impl OpenClContext {
    pub(crate) fn native(&self) -> &sys::Context {
        &self.native
    }

    /// Opens the devices with these keys, which must all belong to one driver.
    pub(crate) fn open(all: &[Found], keys: &[DeviceKey], copies: bool) -> Result<Self, BackendError> {
        let missing = |key: &DeviceKey| BackendError::Lost(format!("there is no OpenCL device `{key}` now"));
        let has = |found: &&Found| keys.first().is_some_and(|key| found.position(key).is_some());
        let found = all.iter().find(has).ok_or_else(|| {
            keys.first().map_or(BackendError::Unsupported("a context without devices".into()), missing)
        })?;
        let position = |key| found.position(key).ok_or_else(|| missing(key));
        let positions = keys.iter().map(position).collect::<Result<Vec<_>, _>>()?;
        let devices: Vec<DeviceId> = positions.iter().map(|&at| found.devices[at]).collect();
        let native = sys::Context::new(found.platform, &devices)?;
        Self::over(native, found, &positions, copies)
    }

    /// Makes a context of one that the program made. Its devices are those that are listed, parts that were asked for included.
    pub(crate) fn adopt(all: &[Found], native: sys::Context, copies: bool) -> Result<Self, BackendError> {
        let devices = native.devices()?;
        let positions_in = |found: &Found| {
            let position = |device: &DeviceId| found.devices.iter().position(|listed| listed == device);
            devices.iter().map(position).collect::<Option<Vec<_>>>()
        };
        let of = all.iter().find_map(|found| Some((found, positions_in(found)?)));
        match of.filter(|(_, positions)| !positions.is_empty()) {
            Some((found, positions)) => Self::over(native, found, &positions, copies),
            None => Err(BackendError::Unsupported(format!(
                "a context over {} devices, of which one is not listed: a part of one that the program made, for instance",
                devices.len()
            ))),
        }
    }

    /// A context over a driver's devices at these positions. See [`OpenCl::copying`](crate::OpenCl::copying) for `copies`.
    fn over(
        native: sys::Context,
        found: &Found,
        positions: &[usize],
        copies: bool,
    ) -> Result<Self, BackendError> {
        let devices: Vec<DeviceId> = positions.iter().map(|&at| found.devices[at]).collect();
        let service = devices
            .iter()
            .map(|device| native.queue(*device).map(Arc::new))
            .collect::<sys::Result<Vec<_>>>()?;
        let (native, driver) = (Arc::new(native), found.driver());
        devices.iter().take(1).for_each(|id| compiler::load(&native, driver, (found.platform, *id)));
        // After all that the driver loads, whose exit handlers are to run later than ours.
        process_exit::watch();
        let infos: Vec<_> = positions.iter().zip(0..).map(|(&at, i)| found.device_info(at, i)).collect();
        let memories = Memories::find(&native, &service, &infos, (driver, copies));
        let infos = infos.into_iter().map(|device| device.reaches(memories.reached())).collect();
        let info = info(driver, infos, memories);
        Ok(OpenClContext { native, info, devices, driver, service, lanes: Arc::default(), memories })
    }

    fn lane_over(&self, queue: Queue, spec: &LaneSpec, sink: Arc<dyn LaneSink>) -> OpenClLane {
        let (context, lanes) = (Arc::clone(&self.native), Arc::clone(&self.lanes));
        OpenClLane::open(context, lanes, queue, self.driver, spec, sink)
    }

    /// What a command queue is like that the program made, if it can be a lane.
    fn describe(&self, queue: &Queue) -> Result<NativeQueue, BackendError> {
        if !queue.is_of(&self.native)? {
            return unsupported(
                "a command queue of another `cl_context` than the context that it is to be a queue of: make a context of its own \
                 one (`ContextHandle`), or the command queue in this one",
            );
        }
        if !queue.is_in_order()? {
            return unsupported(
                "a command queue that runs its commands in any order, and groups have an order there: make it without \
                 `CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE`",
            );
        }
        let device = queue.device()?;
        let Some(position) = self.devices.iter().position(|listed| *listed == device) else {
            return unsupported(
                "a command queue on a device that is not one of its context's here: make it on one that the runtime lists",
            );
        };
        let times = queue.is_timed()? && self.info.devices[position].has(Aspect::Profiling);
        Ok(NativeQueue::new(position).times(times))
    }

    /// Refuses a call on a context that was given up, before it reaches a driver that may never return from it. What it gives is held during
    /// the call.
    fn enter(&self) -> Result<Option<Turn>, BackendError> {
        self.lanes.lost().map_or_else(|| Ok(self.driver.turn()), Err)
    }
}

fn info(driver: Driver, devices: Vec<DeviceInfo>, memories: Memories) -> ContextInfo {
    // NVIDIA's driver performs a copy to or from pageable memory inside the enqueueing call; other drivers pin the memory
    // there, which blocks as well. The exception is a write of a few KiB, which NVIDIA's driver buffers and returns from at
    // once, even behind a running kernel.
    let across_a_bus = devices.iter().any(|d| d.kind == DeviceKind::DiscreteGpu);
    let (upload, download) = if across_a_bus { (4 << 10, 0) } else { (usize::MAX, usize::MAX) };
    let info = ContextInfo::new(devices, memories.infos())
        .completions(driver.completions.iter().copied())
        .pageable_limits(upload, download)
        .waiters_look(driver.waiters_look);
    let info = if driver.is_slowed_by_questions { info.reports_at_leisure() } else { info };
    if driver.takes_long_to_feed { info.fed_aside() } else { info }
}

// SAFETY: memory is a buffer of the driver's, of the requested size or more, as `Memories` says of each, and over zeroed host memory
// where that is said; staging is a mapping by the driver, or `HostMemory`. Lanes work on what their commands name: see `OpenClLane`.
#[async_trait]
unsafe impl Context for OpenClContext {
    fn info(&self) -> &ContextInfo {
        &self.info
    }

    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError> {
        let _turn = self.enter()?;
        let device = self.devices[spec.device];
        let queue = if spec.timed { self.native.timed_queue(device) } else { self.native.queue(device) }?;
        Ok(Arc::new(self.lane_over(queue, &spec, sink)))
    }

    fn native_queue(&self, queue: &dyn Any) -> Result<NativeQueue, BackendError> {
        let _turn = self.enter()?;
        let QueueHandle(queue) = native_object_of(queue)?;
        self.describe(queue)
    }

    fn adopt_lane(
        &self,
        queue: Box<dyn Any + Send>,
        spec: LaneSpec,
        sink: Arc<dyn LaneSink>,
    ) -> Result<Arc<dyn Lane>, BackendError> {
        let _turn = self.enter()?;
        let QueueHandle(queue) = native_object(queue)?;
        // Asked again, since a lane over a queue that runs its commands in any order would report what has not ended.
        let of = self.describe(&queue)?;
        if of.device != spec.device || spec.timed && !of.times {
            return unsupported(format!("{spec:?} over a command queue that is {of:?}"));
        }
        Ok(Arc::new(self.lane_over(queue, &spec, sink).shared()))
    }

    fn allocate(
        &self,
        memory: MemoryIndex,
        object: MemoryObject,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        let _turn = self.enter()?;
        let Memories { in_place, shared, .. } = self.memories;
        let (MemoryObject::Buffer { bytes }, Some(kind)) = (object, self.memories.kind(memory)) else {
            return Err(BackendError::Unsupported(format!("{object:?} in {memory:?} on an OpenCL device")));
        };
        Ok(Arc::new(match kind {
            Kind::Own(_) | Kind::Host if in_place => Memory::in_place(&self.native, bytes)?,
            Kind::Own(at) => Memory::allocate(&self.native, &self.service[at], bytes)?,
            Kind::Host => Memory::lent(&self.native, &self.service[0], bytes)?,
            Kind::Shared => {
                Memory::shared(&self.native, shared == Some(true), self.lanes.uncertain(), bytes)?
            }
        }))
    }

    fn piece(
        &self,
        whole: &Arc<dyn Allocation>,
        at: usize,
        bytes: usize,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        let _turn = self.enter()?;
        Ok(Arc::new(Memory::piece(&self.native, whole, at, bytes)?))
    }

    fn import(
        &self,
        memory: MemoryIndex,
        host: Arc<dyn Allocation>,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        let _turn = self.enter()?;
        match self.memories.kind(memory) {
            Some(Kind::Own(_) | Kind::Host) if self.memories.imports => {
                Ok(Arc::new(Memory::import(&self.native, host)?))
            }
            _ => Err(BackendError::Unsupported(format!("host memory as an OpenCL device's {memory:?}"))),
        }
    }

    fn adopt_memory(
        &self,
        _memory: MemoryIndex,
        object: Box<dyn Any + Send>,
        bytes: usize,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        let _turn = self.enter()?;
        let MemoryHandle(buffer) = native_object(object)?;
        let queue = self.service.first().filter(|_| self.memories.in_place);
        Ok(Arc::new(Memory::adopt(&self.native, buffer, bytes, queue.map(|queue| &**queue))?))
    }

    /// Pinned memory for devices across a bus; ordinary host memory for all others, and as the fallback. NVIDIA's driver
    /// copies to and from pageable memory inside the enqueueing call, at a sixth of the speed.
    fn allocate_staging(&self, bytes: usize) -> Result<Arc<dyn Allocation>, BackendError> {
        let _turn = self.enter()?;
        let discrete = self.info.devices.iter().position(|d| d.kind == DeviceKind::DiscreteGpu);
        if let Some(device) = discrete
            && let Some(staging) = Staging::new(&self.native, &self.service[device], bytes)
        {
            return Ok(Arc::new(staging));
        }
        Ok(Arc::new(HostMemory::zeroed(bytes)?))
    }

    fn abandon(&self) {
        self.lanes.abandon();
    }

    /// By a marker in a queue of its own, which knows when it was enqueued: later calls of OpenCL ask the clock itself, and are
    /// optional.
    fn clock(&self, device: usize) -> Option<ClockSample> {
        let _turn = self.enter().ok()?;
        let queue = self.native.timed_queue(self.devices[device]).ok()?;
        let host = Instant::now();
        let marker = queue.marker(&WaitList::default()).ok()?;
        queue.finish().ok()?;
        Some(ClockSample::new(marker.enqueued_at().ok()?, host))
    }

    async fn build(
        &self,
        device: usize,
        kernel: &Kernel,
        image: &KernelImage,
    ) -> Result<Arc<dyn BuiltKernel>, BackendError> {
        let _turn = self.enter()?;
        let built = Built::new(&self.native, self.driver, (device, self.devices[device]), kernel, image)?;
        Ok(Arc::new(built))
    }
}
