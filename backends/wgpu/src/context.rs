//! A context over one device.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windlass_backend::{
    Allocation, Aspect, BackendError, BuiltKernel, ClockSample, CompletionStrategy, Contents, Context,
    ContextInfo, ContextSink, DeviceInfo, HostMemory, Lane, LaneSink, LaneSpec, MemoryIndex, MemoryInfo,
    MemoryObject, NativeQueue, async_trait, native_object,
};
use windlass_kernel::{Kernel, KernelImage};
use windlass_kernel_translate::dump;

use crate::error::{Faults, failed, unsupported};
use crate::gpu::Gpu;
use crate::lane::WgpuLane;
use crate::memory::{Memory, padded};
use crate::native::DeviceHandle;
use crate::submit::Worker;
use crate::{device, kernel, ops, pinned, times};
use windlass_sync::process_exit::{self, Native};

/// A wgpu device, opened; see [`native`](crate::native).
pub struct WgpuContext {
    info: ContextInfo,
    gpu: Arc<Gpu>,
    worker: Arc<Worker>,
    /// Both clocks when it was opened: later the device might be busy, and nothing else tells what its clock says.
    clock: Option<ClockSample>,
}

impl WgpuContext {
    /// Opens a device with all its limits, and those of its features that this backend uses.
    pub(crate) async fn open(
        adapter: &wgpu::Adapter,
        info: DeviceInfo,
        sink: Arc<dyn ContextSink>,
    ) -> Result<Self, BackendError> {
        let wanted = wgpu::DeviceDescriptor {
            label: Some("windlass"),
            required_features: device::features(adapter),
            required_limits: adapter.limits(),
            ..Default::default()
        };
        let opened = adapter.request_device(&wanted).await;
        let (device, queue) = opened.map_err(|e| failed("Adapter::request_device", e.to_string()))?;
        let faults = Faults::watch(&device, sink, None);
        faults.catch_strays(&device);
        Ok(Self::over(device, queue, info, faults))
    }

    /// Makes a context of a device that the program opened, described as it is.
    pub(crate) fn adopt(handle: DeviceHandle, info: DeviceInfo, sink: Arc<dyn ContextSink>) -> Self {
        let DeviceHandle { device, queue, on_lost } = handle;
        let faults = Faults::watch(&device, sink, on_lost);
        Self::over(device, queue, info, faults)
    }

    fn over(device: wgpu::Device, queue: wgpu::Queue, info: DeviceInfo, faults: Arc<Faults>) -> Self {
        process_exit::watch();
        let limits = device.limits();
        let loses_negations = device.adapter_info().driver == "NVIDIA";
        let (device, queue) = (Native::new(device), Native::new(queue));
        let is_real = info.kind.is_gpu();
        let tells_times = info.has(Aspect::Profiling);
        let (bytes, spare) = Default::default();
        let gpu = Arc::new(Gpu {
            device,
            queue,
            limits,
            is_real,
            tells_times,
            loses_negations,
            faults,
            bytes,
            spare,
        });
        let clock = tells_times.then(|| times::sample(&gpu).ok()).flatten();
        WgpuContext { info: context_info(info), worker: Worker::new(Arc::clone(&gpu)), gpu, clock }
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Refuses positions other than that of the one device.
    fn only(&self, device: usize) -> Result<(), BackendError> {
        if device == 0 { Ok(()) } else { unsupported(format!("device {device} of a context over one")) }
    }
}

/// For how long who waits for a group on a GPU looks by itself: a launch behind an idle while ends after 130 to 160 us, and to be
/// woken then would take it a third of that again. What it looks at is the report, which the waiter's thread makes: of the driver
/// one thread at a time can ask.
const WAITERS_LOOK: Duration = Duration::from_micros(250);

fn context_info(device: DeviceInfo) -> ContextInfo {
    let waiters_look = if device.kind.is_gpu() { WAITERS_LOOK } else { Duration::ZERO };
    // wgpu itself clears memory that is read before it was written.
    let memory = MemoryInfo::new().fresh(Contents::Zeroed).kept();
    // `passed` runs on our waiter thread, or inside the runtime's own call of `arm`. Allocating takes well under a millisecond,
    // even while another thread waits for the device. Without `truly_waits`: `build` compiles inside its one poll.
    ContextInfo::new(vec![device.memory(MemoryIndex::Own(0))], vec![memory])
        // What is copied to staging and from it here is copied by the one thread that submits, or that waits.
        .pageable_limits(ops::LIGHT, ops::LIGHT)
        .completions([CompletionStrategy::Waiter])
        .feeds_from_sink()
        .allocates_at_once()
        .waiters_look(waiters_look)
}

impl fmt::Debug for WgpuContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WgpuContext").field("info", &self.info).finish_non_exhaustive()
    }
}

// SAFETY: memory is a buffer of wgpu's, zeroed by it unless the program gave it, of the requested size or more, and without a host address; staging is
// `HostMemory`, or a buffer that is mapped for as long as it lives. Lanes work on what their commands name: see `WgpuLane`.
#[async_trait]
unsafe impl Context for WgpuContext {
    fn info(&self) -> &ContextInfo {
        &self.info
    }

    /// Any number of lanes would work, one after the other: they share the submitter.
    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError> {
        self.worker.check_open()?;
        self.only(spec.device)?;
        Ok(Arc::new(WgpuLane::new(Arc::clone(&self.gpu), Arc::clone(&self.worker), sink)))
    }

    fn native_queue(&self, _queue: &dyn Any) -> Result<NativeQueue, BackendError> {
        unsupported(
            "a queue of wgpu's as one of the runtime's: a wgpu device has one queue, which all queues of its context share as it is: \
             make a context of the device (`DeviceHandle`), and queues of that",
        )
    }

    fn allocate(
        &self,
        _memory: MemoryIndex,
        object: MemoryObject,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        self.worker.check_open()?;
        let MemoryObject::Buffer { bytes } = object else {
            return unsupported(format!("{object:?} on a wgpu device"));
        };
        let most = self.gpu.limits.max_buffer_size;
        if bytes as u64 > most || padded(bytes) as u64 > most {
            return unsupported(format!("an allocation of {bytes} bytes on a device that allows {most}"));
        }
        let created =
            self.gpu.guarded("Device::create_buffer", || Ok(Memory::create(&self.gpu.device, bytes)));
        match created {
            Ok(memory) => Ok(Arc::new(memory)),
            Err(BackendError::OutOfMemory { .. }) => Err(BackendError::OutOfMemory { bytes }),
            Err(error) => Err(error),
        }
    }

    fn adopt_memory(
        &self,
        _memory: MemoryIndex,
        object: Box<dyn Any + Send>,
        bytes: usize,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        self.worker.check_open()?;
        Ok(Arc::new(Memory::adopt(native_object(object)?, bytes)?))
    }

    fn allocate_staging(&self, bytes: usize) -> Result<Arc<dyn Allocation>, BackendError> {
        self.worker.check_open()?;
        match pinned::allocate(&self.gpu, bytes) {
            // Of such memory there may be less than of the host's.
            Err(BackendError::OutOfMemory { .. }) => Ok(Arc::new(HostMemory::zeroed(bytes)?)),
            made => Ok(Arc::new(made?)),
        }
    }

    fn clock(&self, _device: usize) -> Option<ClockSample> {
        self.clock
    }

    async fn build(
        &self,
        device: usize,
        kernel: &Kernel,
        image: &KernelImage,
    ) -> Result<Arc<dyn BuiltKernel>, BackendError> {
        self.worker.check_open()?;
        self.only(device)?;
        let values = image.overrides().iter().map(|(name, value)| format!("// {name} = {value}\n"));
        let text = values.chain([image.source().to_owned()]).collect::<String>();
        dump(kernel.name(), &self.info.devices[device].name, "wgsl", &text);
        Ok(Arc::new(kernel::build(&self.gpu, kernel, image)?))
    }

    fn abandon(&self) {
        self.worker.abandon();
    }

    async fn close(&self) {
        self.worker.close();
    }
}
