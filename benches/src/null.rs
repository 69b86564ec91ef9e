//! A backend that does nothing, at once: what remains is what the runtime itself costs above the native calls.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use smallvec::SmallVec;
use windlass::LaunchRange;
use windlass::image::{Block, HostBody};
use windlass_backend::{
    BackendError, Command, Group, HostCode, HostLaunch, Lane, LaneDepth, LaneSink, LaneSpec, Point, Verdict,
};
use windlass_faulty::{DeviceOfLanes, LanesOnly};

/// See the module documentation.
pub(crate) fn backend() -> LanesOnly<impl DeviceOfLanes> {
    LanesOnly(Arc::new(Null))
}

struct Null;

impl DeviceOfLanes for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn lanes(&self) -> (usize, LaneDepth) {
        (2, LaneDepth::new(256, 256))
    }

    fn open_lane(&self, _: LaneSpec, sink: Arc<dyn LaneSink>) -> Arc<dyn Lane> {
        Arc::new(NullLane { sink, fed: Mutex::default() })
    }
}

/// Passes what was fed when half of the armed run is in: like a device that is always ahead of its queue.
struct NullLane {
    sink: Arc<dyn LaneSink>,
    fed: Mutex<(Point, u32)>,
}

// SAFETY: it touches no memory, and reports what was fed in order.
unsafe impl Lane for NullLane {
    unsafe fn feed(&self, group: Group<'_>) -> Result<(), BackendError> {
        let point = group.point;
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
        let launch = HostLaunch::new(HostCode::Once(Box::new(Nothing)), 64.range(), SmallVec::new());
        let group = Group::new(Point(point), &[], SmallVec::from_buf([Command::Host(launch)]));
        // SAFETY: the group names no memory.
        let fed = unsafe { lane.feed(group) };
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
