//! A backend that does nothing, at once: what remains is what the runtime itself costs above the native calls.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use smallvec::SmallVec;
use windlass::LaunchRange;
use windlass::image::{Block, HostBody, ImageFormat, Kernel, KernelImage};
use windlass_backend::{
    Allocation, Aspect, AtomicOrders, AtomicScopes, Backend, BackendError, BackendId, BuiltKernel, Command,
    CompletionStrategy, Context, ContextInfo, DeviceInfo, DeviceKind, HostCode, HostLaunch, HostMemory, Lane,
    LaneSink, LaneSpec, Limits, MemoryIndex, MemoryObject, Platform, Point, Unavailable, Verdict, Wait,
    async_trait,
};

/// See the module documentation.
pub(crate) struct Null;

#[async_trait]
impl Backend for Null {
    fn id(&self) -> BackendId {
        BackendId::new("null")
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        let (name, vendor, version) = ("null".into(), String::new(), String::new());
        Ok(vec![Platform { name, vendor, version, devices: vec![device()] }])
    }

    async fn open(&self, _: usize, _: &[usize]) -> Result<Arc<dyn Context>, BackendError> {
        Ok(Arc::new(NullContext(ContextInfo {
            devices: vec![device()],
            completions: vec![CompletionStrategy::Callback],
            feeds_from_sink: true,
            arms_freely: true,
            allocate_blocks: false,
            pageable_copies_block: false,
            atomic_orders: AtomicOrders::Relaxed,
            atomic_scopes: AtomicScopes::Device,
        })))
    }
}

fn device() -> DeviceInfo {
    DeviceInfo {
        name: "null".into(),
        vendor: String::new(),
        driver: String::new(),
        kind: DeviceKind::Host,
        physical_id: None,
        memory_bytes: None,
        compute_units: 1,
        aspects: vec![Aspect::HostBodies],
        atomic_orders: AtomicOrders::Relaxed,
        atomic_scopes: AtomicScopes::Device,
        limits: Limits::default(),
        formats: vec![ImageFormat::Host],
        memory: MemoryIndex::Heap,
        lanes: 2,
        lane_depth: 256,
    }
}

struct NullContext(ContextInfo);

#[async_trait]
impl Context for NullContext {
    fn info(&self) -> &ContextInfo {
        &self.0
    }

    fn open_lane(&self, _: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError> {
        Ok(Arc::new(NullLane { sink, fed: Mutex::default() }))
    }

    fn allocate(&self, _: usize, object: MemoryObject) -> Result<Arc<dyn Allocation>, BackendError> {
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

/// Passes what was fed when half of the armed run is in: like a device that is always ahead of its queue.
struct NullLane {
    sink: Arc<dyn LaneSink>,
    fed: Mutex<(Point, u32)>,
}

impl Lane for NullLane {
    fn feed(&self, point: Point, _: &[Wait], _: SmallVec<[Command<'_>; 1]>) -> Result<(), BackendError> {
        let mut fed = self.fed.lock().expect("nothing panics under this lock");
        fed.0 = point;
        fed.1 += 1;
        let report = fed.1 >= 32;
        if report {
            fed.1 = 0;
        }
        drop(fed);
        if report {
            self.sink.passed(Verdict::ok(point));
        }
        Ok(())
    }

    fn flush(&self) {}

    fn arm(&self, _: Point) {}
}

/// What the runtime's native calls cost without it: `n` launches, each made and handed over. Nanoseconds per launch.
pub(crate) fn native_calls(n: usize) -> f64 {
    let lane = NullLane { sink: Arc::new(Deaf), fed: Mutex::default() };
    let start = Instant::now();
    for point in 1..=n as u64 {
        let launch =
            HostLaunch { code: HostCode::Once(Box::new(Nothing)), range: 64.range(), spans: SmallVec::new() };
        let fed = lane.feed(Point(point), &[], SmallVec::from_buf([Command::Host(launch)]));
        std::hint::black_box(fed).expect("the lane takes everything");
    }
    start.elapsed().as_nanos() as f64 / n as f64
}

struct Deaf;

impl LaneSink for Deaf {
    fn passed(&self, verdict: Verdict) {
        std::hint::black_box(verdict);
    }
}

struct Nothing;

impl HostBody for Nothing {
    fn run(&self, _: Block<'_>) {}
}
