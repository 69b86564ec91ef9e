//! The strings by which the devices hang.

use std::sync::Arc;
use std::task::Waker;

use windlass_backend::{BackendError, KernelLimits};

use crate::audit::Audit;
use crate::machine::{Action, Machine, Shared};
use crate::script::{Call, Nth, Refusal, Script};

/// Runs, fails and watches the devices of a [`Faulty`](crate::Faulty). Clones pull the same strings.
///
/// Numbers count from zero: `fail(0, error)` is the next one. Lanes are numbered in the order in which they were opened,
/// over all contexts.
#[derive(Clone, Debug)]
pub struct FaultyControl {
    shared: Arc<Shared>,
}

impl FaultyControl {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        FaultyControl { shared }
    }

    fn script<R>(&self, change: impl FnOnce(&mut Script) -> R) -> R {
        change(&mut self.shared.lock().script)
    }

    // What happens.

    /// Does the first thing that can happen: gives a verdict that is due, or runs the next group of a lane. False if
    /// nothing can.
    pub fn step(&self) -> bool {
        let first = self.shared.lock().actions().first().copied();
        first.is_some_and(|action| self.shared.perform(action))
    }

    /// Runs the next group of some lane, and reports nothing. False if no group can run.
    pub fn run_one(&self) -> bool {
        let actions = self.shared.lock().actions();
        let run = actions.into_iter().find(|a| matches!(a, Action::Run(_)));
        run.is_some_and(|action| self.shared.perform(action))
    }

    /// Does one of the things that can happen, chosen by a number. False if nothing can.
    pub fn step_at(&self, choice: u64) -> bool {
        let actions = self.shared.lock().actions();
        match actions.len() as u64 {
            0 => false,
            len => self.shared.perform(actions[(choice % len) as usize]),
        }
    }

    /// Does everything that can happen, and returns how much that was.
    pub fn run_all(&self) -> usize {
        self.shared.run_all()
    }

    /// Does everything that can happen, in an order that a seed chooses.
    pub fn run_random(&self, mut seed: u64) -> usize {
        let mut steps = 0;
        loop {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if !self.step_at(seed >> 33) {
                return steps;
            }
            steps += 1;
        }
    }

    /// Stops a lane, or lets it go on.
    pub fn hold(&self, lane: usize, held: bool) {
        self.shared.lock().lanes[lane].held = held;
    }

    /// Whether verdicts wait until [`FaultyControl::report`] is called.
    pub fn delay_verdicts(&self, delayed: bool) {
        self.script(|s| s.delayed = delayed);
    }

    /// Whether lanes leave out, for now, the reports that nobody waits for.
    pub fn no_leisure(&self, none: bool) {
        self.script(|s| s.no_leisure = none);
    }

    /// A lane reports what it has done, asked or not.
    pub fn report(&self, lane: usize) {
        self.shared.report(lane);
    }

    /// Whether everything runs and is reported inside `feed`, `flush` and `arm`, asked or not.
    pub fn report_inside_feed(&self, inside: bool) {
        self.script(|s| s.inside = inside);
    }

    /// Whether a verdict covers no more than the earliest armed point, and not all that has been done.
    pub fn report_exactly(&self, exact: bool) {
        self.script(|s| s.exact = exact);
    }

    // What goes wrong.

    /// The next group with commands fails when its turn comes.
    pub fn fail_next(&self, error: BackendError) {
        self.fail(0, error);
    }

    /// The n-th group with commands from now on fails when its turn comes.
    pub fn fail(&self, n: usize, error: BackendError) {
        self.script(|s| s.groups.push(Nth { left: n, what: error }));
    }

    /// The n-th group from now on that is nothing but a copy, as transfers are, fails when its turn comes.
    pub fn fail_copy(&self, n: usize, error: BackendError) {
        self.script(|s| s.copies.push(Nth { left: n, what: error }));
    }

    /// The group at a point of a lane fails when its turn comes.
    pub fn fail_point(&self, lane: usize, point: u64, error: BackendError) {
        self.script(|s| s.points.push((lane, point, error)));
    }

    /// The n-th feed of commands from now on is refused.
    pub fn refuse_feed(&self, n: usize, error: BackendError) {
        self.script(|s| s.feeds.push(Nth { left: n, what: Refusal::Error(error) }));
    }

    /// The n-th feed of commands from now on panics.
    pub fn panic_in_feed(&self, n: usize) {
        self.script(|s| s.feeds.push(Nth { left: n, what: Refusal::Panic }));
    }

    /// The next call of this kind panics.
    pub fn panic_in(&self, call: Call) {
        self.script(|s| s.panics.push(call));
    }

    /// The next context that is given up calls this, once it takes no more, before it returns to the runtime.
    pub fn on_abandon(&self, hook: impl FnOnce() + Send + 'static) {
        self.script(|s| s.on_abandon = Some(Box::new(hook)));
    }

    /// The next sequence is not recorded.
    pub fn fail_record(&self, error: BackendError) {
        self.script(|s| s.record = Some(error));
    }

    /// The next lane cannot be opened.
    pub fn fail_open_lane(&self, error: BackendError) {
        self.script(|s| s.open_lane = Some(error));
    }

    /// Every feed is refused, barriers included, until this is taken back.
    pub fn refuse_all_feeds(&self, error: Option<BackendError>) {
        self.script(|s| s.all_feeds = error);
    }

    /// Every launch of kernels of this name is refused.
    pub fn refuse_kernel(&self, name: &str, error: BackendError) {
        self.script(|s| s.kernels.push((name.to_owned(), error)));
    }

    /// The n-th allocation of a buffer from now on fails.
    pub fn out_of_memory(&self, n: usize) {
        self.script(|s| s.allocations.push(Nth { left: n, what: () }));
    }

    /// No more than this may be allocated in all.
    pub fn cap_memory(&self, bytes: Option<usize>) {
        self.script(|s| s.bytes_cap = bytes);
    }

    /// No more than this may be allocated beside staging, which is the host's on most devices.
    pub fn cap_buffers(&self, bytes: Option<usize>) {
        self.script(|s| s.buffers_cap = bytes);
    }

    /// Whether there is no staging memory.
    pub fn no_staging(&self, none: bool) {
        self.script(|s| s.no_staging = none);
    }

    /// The next build fails.
    pub fn fail_build(&self, log: &str) {
        self.script(|s| s.build = Some(log.to_owned()));
    }

    /// Whether builds take until this is called again with `false`. In a runtime that is driven by hand only for devices
    /// that [truly wait](crate::FaultyBuilder::truly_waits): others block the only thread.
    pub fn slow_builds(&self, slow: bool) {
        let waiting = self.script(|s| {
            s.slow_builds = slow;
            std::mem::take(&mut s.waiting_builds)
        });
        waiting.into_iter().for_each(Waker::wake);
    }

    /// What kernels that are built from now on take.
    pub fn kernel_limits(&self, limits: KernelLimits) {
        self.script(|s| s.kernel_limits = limits);
    }

    /// All open contexts' devices are gone.
    pub fn lose_devices(&self, why: &str) {
        let mut machine = self.shared.lock();
        let over: Vec<_> = (0..machine.contexts.len()).map(|at| machine.lose(at, why)).collect();
        drop(machine);
        drop(over);
    }

    /// As after a fault that a driver recovers from in a new process only: every context is lost, idle ones and those of other
    /// devices too, though each finds out by itself, and none can be opened any more.
    pub fn end_process(&self, why: &str) {
        self.script(|s| s.process_ended = Some(why.to_owned()));
        self.lose_devices(why);
    }

    /// The devices of one context are gone; contexts are numbered as they were opened.
    pub fn lose_context(&self, context: usize, why: &str) {
        let over = self.shared.lock().lose(context, why);
        drop(over);
    }

    /// The context itself tells that it is lost, though nothing of it is in flight.
    pub fn tell_loss(&self, context: usize, why: &str) {
        let mut machine = self.shared.lock();
        let over = machine.lose(context, why);
        let sink = machine.contexts[context].sink.clone();
        drop(machine);
        drop(over);
        sink.lost(BackendError::Lost(why.to_owned()));
    }

    /// Whether contexts of one domain refuse to copy each other's memory; to be said before they are opened.
    pub fn no_peer_copies(&self, none: bool) {
        self.script(|s| s.no_peer_copies = none);
    }

    /// Discovery says that there is no driver.
    pub fn unavailable(&self, reason: &str) {
        self.script(|s| s.unavailable = Some(reason.to_owned()));
    }

    /// The next context cannot be opened.
    pub fn fail_open(&self, error: BackendError) {
        self.script(|s| s.open = Some(error));
    }

    // What was seen.

    /// What was called, made and kept so far.
    pub fn audit(&self) -> Audit {
        self.shared.lock().audit
    }

    /// How often the runtime has broken the contract, and how. To be empty at the end of every test.
    pub fn breaches(&self) -> Vec<String> {
        self.shared.lock().breaches.clone()
    }

    /// How many groups were fed and have not run.
    pub fn waiting(&self) -> usize {
        let Machine { lanes, .. } = &*self.shared.lock();
        lanes.iter().map(|l| l.queue.len()).sum()
    }
}
