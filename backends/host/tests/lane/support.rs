//! A lane with a sink that remembers, and groups for it.

use std::sync::{Arc, Condvar, Mutex};

use futures::executor::block_on;
use smallvec::{SmallVec, smallvec};
use windlass_backend::{
    Backend, BackendError, Command, Context, ContextSpec, DeviceKey, Group, HostCode, HostLaunch, Lane,
    LaneNumber, LaneSink, LaneSpec, Point, Verdict, Wait,
};
use windlass_host::Host;
use windlass_kernel::{Block, LaunchRange};

/// Collects verdicts, and lets a thread wait for a point.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) verdicts: Mutex<Vec<Verdict>>,
    more: Condvar,
}

impl LaneSink for Told {
    fn passed(&self, verdict: Verdict) {
        self.verdicts.lock().expect("no test panics here").push(verdict);
        self.more.notify_all();
    }
}

impl Told {
    pub(crate) fn upto(&self) -> u64 {
        self.verdicts.lock().expect("no test panics here").iter().map(|v| v.upto.0).max().unwrap_or(0)
    }

    /// Waits until a verdict covers `point`; the test harness's own time limit ends it otherwise.
    pub(crate) fn wait(&self, point: u64) {
        let mut verdicts = self.verdicts.lock().expect("no test panics here");
        while !verdicts.iter().any(|v| v.upto.0 >= point) {
            verdicts = self.more.wait(verdicts).expect("no test panics here");
        }
    }

    pub(crate) fn failures(&self) -> Vec<(u64, u64, BackendError)> {
        let verdicts = self.verdicts.lock().expect("no test panics here");
        let all = verdicts.iter().flat_map(|v| v.failed.iter().map(move |f| (v.upto, f)));
        all.map(|(upto, f)| {
            assert!(f.last <= upto, "a verdict names what it covers");
            (f.first.0, f.last.0, f.error.clone())
        })
        .collect()
    }
}

pub(crate) struct Bench {
    pub(crate) context: Arc<dyn Context>,
    pub(crate) lanes: Vec<(Arc<dyn Lane>, Arc<Told>)>,
}

/// A context over the devices at these positions.
pub(crate) fn spec(devices: &[usize]) -> ContextSpec {
    let keys = devices.iter().map(|at| DeviceKey::new(format!("host-{at}")));
    ContextSpec::new(keys.collect(), Arc::new(()))
}

pub(crate) fn open(host: Host, devices: &[usize], lanes: u32) -> Bench {
    let context = block_on(host.open(spec(devices))).expect("the host is always there");
    let lanes = (0..lanes)
        .map(|n| {
            let told = Arc::new(Told::default());
            let lane =
                context.open_lane(LaneSpec::new(0, LaneNumber(n)), told.clone()).expect("a lane opens");
            (lane, told)
        })
        .collect();
    Bench { context, lanes }
}

pub(crate) fn one_lane() -> (Arc<dyn Context>, Arc<dyn Lane>, Arc<Told>) {
    let mut bench = open(Host::new(), &[0], 1);
    let (lane, told) = bench.lanes.remove(0);
    (bench.context, lane, told)
}

pub(crate) fn once<'a, R>(body: impl Fn() -> R + Send + Sync + 'static) -> SmallVec<[Command<'a>; 1]> {
    over(1.range(), move |_| {
        body();
    })
}

pub(crate) fn over<'a>(
    range: windlass_kernel::Range,
    body: impl Fn(Block<'_>) + Send + Sync + 'static,
) -> SmallVec<[Command<'a>; 1]> {
    smallvec![Command::Host(HostLaunch::new(HostCode::Once(Box::new(body)), range, SmallVec::new()))]
}

pub(crate) fn feed(lane: &Arc<dyn Lane>, point: u64, commands: SmallVec<[Command<'_>; 1]>) {
    try_feed(lane, point, &[], commands).expect("the group is fine");
    lane.flush();
}

pub(crate) fn try_feed<'a>(
    lane: &Arc<dyn Lane>,
    point: u64,
    waits: &'a [Wait],
    commands: SmallVec<[Command<'a>; 1]>,
) -> Result<(), BackendError> {
    // SAFETY: the tests keep the memory of their commands until they have waited for the point.
    unsafe { lane.feed(Group::new(Point(point), waits, commands)) }
}

/// Arms `point`, which was fed, and waits for its verdict.
pub(crate) fn finish(lane: &Arc<dyn Lane>, told: &Told, point: u64) {
    lane.arm(Point(point));
    told.wait(point);
}
