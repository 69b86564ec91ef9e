//! A backend of one device, as small as one can be that keeps the whole contract. `docs/backend.md` walks through it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use windlass_backend::{
    Allocation, Aspect, AtomicOrders, AtomicScopes, Backend, BackendError, BackendId, BuiltKernel,
    ClockSample, Contents, Context, ContextInfo, ContextSpec, DeviceInfo, DeviceKind, DomainId, HostAccess,
    Lane, LaneDepth, LaneSink, LaneSpec, Limits, MemoryIndex, MemoryInfo, MemoryObject, Platform,
    Unavailable, Usage, async_trait,
};
use windlass_kernel::{ImageFormat, Kernel, KernelImage};

use crate::device::{ContextState, Device, lock};
use crate::lane::{ExampleLane, Message, work_off};
use crate::memory::ExampleMemory;
use crate::work::ExampleKernel;

pub(crate) const ID: BackendId = BackendId::new("example");

/// What the one device is called for good.
const KEY: &str = "example-0";

/// Bytes of memory that it has.
pub(crate) const MEMORY: u64 = 256 << 20;

/// The backend. Its device is a thread, which works off what all lanes of all contexts are fed, in the order of feeding.
pub(crate) struct Example {
    device: Arc<Device>,
    messages: Sender<Message>,
    /// The thread's end of the channel, until a context is opened and the thread started.
    inbox: Mutex<Option<Receiver<Message>>>,
}

impl Example {
    pub(crate) fn new() -> Self {
        let (messages, inbox) = channel();
        Example { device: Arc::default(), messages, inbox: Mutex::new(Some(inbox)) }
    }

    /// What takes the device away from those who have it open.
    pub(crate) fn plug(&self) -> Plug {
        Plug(self.messages.clone())
    }

    fn start(&self) -> Result<(), BackendError> {
        let Some(inbox) = lock(&self.inbox).take() else {
            return Ok(());
        };
        let device = self.device.clone();
        let started = thread::Builder::new().name("example".into()).spawn(|| work_off(inbox, device));
        started.map(drop).map_err(|error| BackendError::Native {
            call: "thread::spawn",
            code: error.raw_os_error().unwrap_or(0).into(),
            message: error.to_string(),
        })
    }
}

pub(crate) struct Plug(Sender<Message>);

impl Plug {
    pub(crate) fn pull(&self) {
        // If the thread is gone, nobody has the device open.
        let _ = self.0.send(Message::Unplugged);
    }
}

// SAFETY: the contexts that it opens are `ExampleContext`s, which keep the contract.
#[async_trait]
unsafe impl Backend for Example {
    fn id(&self) -> BackendId {
        ID
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        Ok(vec![Platform::new("Example", "Nobody", "1.0", vec![device_info()])])
    }

    async fn open(&self, spec: ContextSpec) -> Result<Arc<dyn Context>, BackendError> {
        if let Some(key) = spec.devices.iter().find(|key| key.as_str() != KEY) {
            return Err(BackendError::Lost(format!("there is no device `{key}`")));
        }
        self.start()?;
        let devices = spec.devices.iter().map(|_| device_info()).collect();
        Ok(Arc::new(ExampleContext {
            info: context_info(devices),
            state: self.device.open(spec.sink),
            device: self.device.clone(),
            messages: self.messages.clone(),
        }))
    }
}

fn device_info() -> DeviceInfo {
    DeviceInfo::new(KEY, "Example device", DeviceKind::Other, MemoryIndex::Own(0))
        .made_by("Nobody", "1.0")
        .hardware(None, Some(MEMORY), 1)
        .aspects([Aspect::Profiling])
        .atomics(AtomicOrders::SequentiallyConsistent, AtomicScopes::Device)
        .limits(Limits::default().allocation(MEMORY).work_group(1024, 1 << 20))
        .formats([ImageFormat::Host])
        .lanes(2, LaneDepth::new(64, 64))
}

fn context_info(devices: Vec<DeviceInfo>) -> ContextInfo {
    let memory = MemoryInfo::new().host(HostAccess::Coherent).fresh(Contents::Zeroed);
    ContextInfo::new(devices, vec![memory])
        .domain(DomainId(0))
        .feeds_from_sink()
        .allocates_at_once()
        .truly_waits()
}

pub(crate) struct ExampleContext {
    info: ContextInfo,
    state: Arc<ContextState>,
    device: Arc<Device>,
    messages: Sender<Message>,
}

// SAFETY: `ExampleMemory` is zeroed host memory of the size that was asked for, made for one caller. What lanes do is said at
// `ExampleLane`.
#[async_trait]
unsafe impl Context for ExampleContext {
    fn info(&self) -> &ContextInfo {
        &self.info
    }

    fn open_lane(&self, _spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError> {
        self.state.check()?;
        Ok(Arc::new(ExampleLane::new(self.state.clone(), sink, self.messages.clone())))
    }

    fn allocate(
        &self,
        memory: MemoryIndex,
        object: MemoryObject,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        self.state.check()?;
        match (memory, object) {
            (MemoryIndex::Own(0), MemoryObject::Buffer { bytes }) => {
                Ok(Arc::new(ExampleMemory::new(bytes, self.device.clone())?))
            }
            other => Err(BackendError::Unsupported(format!("{other:?} on the example device"))),
        }
    }

    fn usage(&self, _memory: MemoryIndex) -> Option<Usage> {
        Some(Usage::new(self.device.used(), MEMORY))
    }

    fn clock(&self, _device: usize) -> Option<ClockSample> {
        let host = Instant::now();
        Some(ClockSample::new(self.device.clock(host), host))
    }

    async fn build(
        &self,
        _device: usize,
        kernel: &Kernel,
        image: &KernelImage,
    ) -> Result<Arc<dyn BuiltKernel>, BackendError> {
        match image.body() {
            Some(body) => Ok(Arc::new(ExampleKernel { body: body.clone() })),
            None => Err(BackendError::Build {
                kernel: kernel.name().into(),
                log: format!("the example device takes {:?}, not {:?}", ImageFormat::Host, image.format()),
            }),
        }
    }

    fn abandon(&self) {
        self.state.abandon();
    }
}
