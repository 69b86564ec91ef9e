//! A backend with one lane whose groups end when the model says so, in the middle of a native call if need be.
//!
//! It is the other side of the runtime's protocols, so its own state is kept under a model's mutex, which it lets go of
//! before it reports. It checks the contract's half that is the runtime's: one thread feeds at a time, points
//! rise, and only what was fed is armed.

use std::sync::{Arc, Weak};

use windlass::{Queue, Runtime};
use windlass_backend::{BackendError, Group, Lane, LaneDepth, LaneSink, LaneSpec, Point, Verdict};
use windlass_faulty::{DeviceOfLanes, LanesOnly};
use windlass_sync::facade::{AtomicUsize, Mutex, MutexGuard, Ordering, lock};

/// How the lane behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    /// Groups end inside the call that feeds them, and are reported there.
    AtOnce,
    /// Groups end when [`Device::finish`] is called, inside a driver's callback: no native call is allowed there.
    ByCallback,
    /// The same, on a thread of the backend's own.
    ByThread,
}

/// The only device, as the model sees it.
#[derive(Debug)]
pub struct Device {
    this: Weak<Device>,
    habit: Habit,
    depth: usize,
    state: Mutex<State>,
    /// Threads inside `feed`, changed with a load and a store.
    feeding: AtomicUsize,
}

#[derive(Default)]
struct State {
    sink: Option<Arc<dyn LaneSink>>,
    fed: u64,
    passed: u64,
    armed: Vec<u64>,
    commands: usize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("fed", &self.fed).field("passed", &self.passed).finish_non_exhaustive()
    }
}

impl Device {
    /// A runtime that is driven by hand, over this device only, with a queue.
    pub fn runtime(habit: Habit, depth: usize) -> (Runtime, Queue, Arc<Device>) {
        let device = Arc::new_cyclic(|this| Device {
            this: this.clone(),
            habit,
            depth,
            state: Mutex::new(State::default()),
            feeding: AtomicUsize::new(0),
        });
        let runtime =
            Runtime::builder().backend(LanesOnly(device.clone())).only_given_backends().manual().build();
        let queue = Queue::builder().runtime(&runtime).blocking_build();
        (runtime, queue.expect("the script is always there"), device)
    }

    /// Ends everything that was fed; reports it if that was asked for.
    pub fn finish(&self) {
        self.finish_upto(u64::MAX);
    }

    /// Ends what was fed at or below a point, counted from 1.
    pub fn finish_upto(&self, point: u64) {
        let mut state = lock(&self.state);
        state.passed = state.fed.min(point).max(state.passed);
        report(state);
    }

    /// How many commands were fed.
    pub fn commands(&self) -> usize {
        lock(&self.state).commands
    }

    /// Whether everything that was fed has ended.
    pub fn is_idle(&self) -> bool {
        let state = lock(&self.state);
        state.passed == state.fed
    }
}

/// Tells the runtime how far the lane is, if it wants to know.
fn report(mut state: MutexGuard<'_, State>) {
    let (passed, asked) = (state.passed, state.armed.len());
    state.armed.retain(|point| *point > passed);
    let sink = state.sink.clone().filter(|_| state.armed.len() < asked);
    drop(state);
    if let Some(sink) = sink {
        sink.passed(Verdict::ok(Point(passed)));
    }
}

impl DeviceOfLanes for Device {
    fn name(&self) -> &'static str {
        "script"
    }

    fn lanes(&self) -> (usize, LaneDepth) {
        (1, LaneDepth::new(self.depth, self.depth))
    }

    fn feeds_from_sink(&self) -> bool {
        self.habit != Habit::ByCallback
    }

    fn open_lane(&self, _: LaneSpec, sink: Arc<dyn LaneSink>) -> Arc<dyn Lane> {
        // Other contexts' lanes are opened and not used.
        lock(&self.state).sink.get_or_insert(sink);
        Arc::new(Line(self.this.upgrade().expect("who opens a lane has the device")))
    }
}

/// The only lane.
struct Line(Arc<Device>);

// SAFETY: it touches no memory, and reports what was fed in order.
unsafe impl Lane for Line {
    unsafe fn feed(&self, group: Group<'_>) -> Result<(), BackendError> {
        let (device, point) = (&self.0, group.point);
        assert_eq!(device.feeding.load(Ordering::Relaxed), 0, "one thread feeds at a time");
        device.feeding.store(1, Ordering::Relaxed);
        let mut state = lock(&device.state);
        assert!(point.0 > state.fed, "points rise");
        state.fed = point.0;
        state.commands += group.commands.len();
        if group.report {
            state.armed.push(point.0);
        }
        if device.habit == Habit::AtOnce {
            state.passed = point.0;
            state.armed.push(point.0);
            report(state);
        } else {
            drop(state);
        }
        device.feeding.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn flush(&self) {}

    fn arm(&self, point: Point) {
        let mut state = lock(&self.0.state);
        assert!(point.0 <= state.fed, "only what was fed is armed");
        state.armed.push(point.0);
        report(state);
    }
}
