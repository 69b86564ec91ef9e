//! Lanes: one in-order command queue each.
//!
//! # Waits between lanes
//!
//! A wait on another lane's point becomes a native wait on the last event at or before it. If that event has ended
//! already, well or badly, there is nothing to wait for. The other queue is flushed first, as OpenCL demands.
//!
//! OpenCL cannot keep one part of the contract: if an event in a command's wait list *fails later*, the driver ends the
//! command with an error instead of running it. The waiting group then fails too, with
//! `CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST`, although a wait should be about order only. Commands rarely fail once
//! enqueued (a crashed kernel, a lost device), so this is accepted.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use smallvec::SmallVec;
use windlass_backend::{
    BackendError, Command, CompletionStrategy, Group, Lane, LaneNumber, LaneSink, LaneSpec, Point, Wait,
};
use windlass_sync::facade::{Mutex, lock};

use crate::driver::Driver;
use crate::enqueued::Enqueued;
use crate::error::unsupported;
use crate::event::{Begun, Progress, Teller};
use crate::feeding::Feeding;
use crate::gate::Gate;
use crate::kernel;
use crate::memory::{self, Handover, To, Transfer};
use crate::native_call::Calling;
use crate::sys::{Context, Event, Failure, Queue, Result, WaitList};
use crate::watcher::{Watcher, Way};

/// The lanes of a context, by the numbers that waits use.
#[derive(Default)]
pub(crate) struct Lanes {
    by_number: Mutex<HashMap<LaneNumber, Weak<Stream>>>,
    /// Set by [`Context::abandon`](windlass_backend::Context::abandon): from then on nothing here waits for the device.
    given_up: OnceLock<()>,
    /// Set then, and where the driver cannot say whether a lane's commands have ended: they may go on for ever.
    uncertain: Arc<OnceLock<()>>,
}

impl Lanes {
    /// The lane with this number; `None` once it was dropped. That happens after its last verdict, so there is nothing left to
    /// wait for.
    fn get(&self, number: LaneNumber) -> Option<Arc<Stream>> {
        lock(&self.by_number).get(&number)?.upgrade()
    }

    /// Gives all of them up, those that are still to be opened included.
    pub(crate) fn abandon(&self) {
        let _ = (self.given_up.set(()), self.uncertain.set(()));
    }

    /// Whether commands may still run that have been reported, for those who have to know it later.
    pub(crate) fn uncertain(&self) -> &Arc<OnceLock<()>> {
        &self.uncertain
    }

    fn is_given_up(&self) -> bool {
        self.given_up.get().is_some()
    }

    /// The error with which everything is refused once they were given up.
    pub(crate) fn lost(&self) -> Option<BackendError> {
        self.is_given_up().then(|| BackendError::Lost("its context was given up".into()))
    }

    fn add(&self, number: LaneNumber, stream: &Arc<Stream>) {
        let mut lanes = lock(&self.by_number);
        lanes.retain(|_, stream| stream.strong_count() != 0);
        lanes.insert(number, Arc::downgrade(stream));
    }
}

/// A queue and its progress.
pub(crate) struct Stream {
    queue: Queue,
    gate: Gate,
    pub(crate) progress: Arc<Progress>,
    /// See [`Lanes`].
    uncertain: Arc<OnceLock<()>>,
}

impl Stream {
    /// Hands everything to the device, unless that was already done up to `point`.
    pub(crate) fn flush(&self, point: Point) {
        // `fed` is read before the native flush: what another thread feeds meanwhile may miss this flush, and is flushed by
        // its own.
        let Some(fed) = self.progress.unflushed(point) else { return };
        self.gate.open();
        match self.queue.flush() {
            Ok(()) => self.progress.flushed(fed),
            Err(failure) => self.flush_by_force(fed, failure),
        }
    }

    /// Waits until everything enqueued has ended.
    fn finish(&self) -> Result<()> {
        self.gate.open();
        self.queue.finish()
    }

    /// The group whose last event ends when `point`, which was fed, is passed, or some groups later; `None` if it has been.
    pub(crate) fn ender(&self, point: Point) -> Option<Arc<Enqueued>> {
        // Read before the marker is enqueued: what another thread feeds meanwhile may be in front of it or behind it.
        let (teller, fed) = self.progress.teller(point);
        match teller {
            Teller::Passed => None,
            Teller::Group(group) => Some(group),
            Teller::Nothing => match self.queue.marker(&WaitList::default()) {
                Ok(event) => self.progress.marked(point, fed, event),
                Err(failure) => {
                    self.flush_by_force(fed, failure);
                    None
                }
            },
        }
    }

    /// A queue that cannot be flushed most likely belongs to a lost device. But its commands may use host memory, which the
    /// runtime frees once they are reported. So before reporting a loss, make sure that none of them still runs, even if that
    /// means waiting.
    #[cold]
    fn flush_by_force(&self, fed: Point, failure: Failure) {
        match self.finish() {
            Ok(()) => self.progress.flushed(fed),
            Err(_) => {
                let _ = self.uncertain.set(());
                let error = BackendError::from(failure);
                self.progress.lose(BackendError::Lost(error.to_string()));
            }
        }
    }
}

/// A lane.
pub(crate) struct OpenClLane {
    stream: Arc<Stream>,
    context: Arc<Context>,
    lanes: Arc<Lanes>,
    device: usize,
    driver: Driver,
    /// Flushing is left to the watcher, which does it when an armed point is not passed soon, in case that the driver does not
    /// start work unasked here. The runtime keeps a point armed on every lane with work.
    watcher_flushes: bool,
    /// `None` where completion is by the driver's callbacks.
    watcher: Option<Watcher>,
    /// The queue is the program's, which puts commands of its own there: each group has an event then, since a marker behind the
    /// program's commands might wait for what waits for the group.
    is_shared: bool,
}

impl OpenClLane {
    pub(crate) fn open(
        context: Arc<Context>,
        lanes: Arc<Lanes>,
        queue: Queue,
        driver: Driver,
        spec: &LaneSpec,
        sink: Arc<dyn LaneSink>,
    ) -> Self {
        let (progress, uncertain) =
            (Arc::new(Progress::new(sink, driver.fails_as_a_whole)), lanes.uncertain.clone());
        let gate = Gate::default();
        let stream = Arc::new(Stream { queue, gate, progress, uncertain });
        lanes.add(spec.number, &stream);
        let way = match spec.completion.unwrap_or(driver.completions[0]) {
            CompletionStrategy::Waiter => Some(Way::Waiting),
            CompletionStrategy::Poller => Some(Way::Asking),
            _ => None,
        };
        let watcher_flushes = driver.starts_unasked && way == Some(Way::Asking);
        let (device, watcher) = (spec.device, way.map(Watcher::new));
        let is_shared = false;
        OpenClLane { stream, context, lanes, device, driver, watcher_flushes, watcher, is_shared }
    }

    /// The same lane on a queue on which the program has commands of its own.
    pub(crate) fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// The groups of other lanes to wait for, with their queues flushed. Those that have ended are left out.
    fn awaited(&self, waits: &[Wait]) -> Result<SmallVec<[Arc<Enqueued>; 2]>> {
        let mut groups = SmallVec::new();
        for wait in waits {
            let Some(stream) = self.lanes.get(wait.lane) else { continue };
            let Some(group) = stream.ender(wait.point) else { continue };
            // An event that has failed is below zero. It must not enter the wait list: the driver would fail the waiting command.
            if last(&group).status()? > 0 {
                stream.flush(group.point);
                groups.push(group);
            }
        }
        Ok(groups)
    }

    /// Checks a command and prepares its native calls, without making any.
    fn plan<'a>(&self, command: Command<'a>) -> std::result::Result<Step<'a>, BackendError> {
        match command {
            Command::Launch(launch) => {
                kernel::Launching::plan(&self.context, self.device, &launch).map(Step::Launch)
            }
            Command::Copy(copy) => Transfer::plan(&self.context, &copy).map(Step::Copy),
            Command::Fill(fill) => memory::Filling::plan(&self.context, &fill).map(Step::Fill),
            Command::Map(memory) => Handover::plan(&self.context, memory, To::Host).map(Step::Handover),
            Command::Unmap(memory) => Handover::plan(&self.context, memory, To::Devices).map(Step::Handover),
            Command::Native(call) => Ok(Step::Native(Calling::new(call))),
            Command::Host(_) => unsupported("host code on an OpenCL device"),
            other => unsupported(format!("{other:?} on an OpenCL device")),
        }
    }
}

/// The event that ends a group, which has one.
fn last(group: &Enqueued) -> &Event {
    group.events.last().expect("only groups with events are looked up")
}

/// A checked command.
enum Step<'a> {
    Launch(kernel::Launching<'a>),
    Copy(Transfer<'a>),
    Fill(memory::Filling<'a>),
    Handover(Handover<'a>),
    Native(Calling<'a>),
}

impl Step<'_> {
    fn enqueue(
        &mut self,
        lane: &OpenClLane,
        feeding: &mut Feeding<'_>,
    ) -> std::result::Result<(), BackendError> {
        match self {
            Step::Launch(launch) => Ok(launch.enqueue(feeding)?),
            Step::Copy(copy) => Ok(copy.enqueue(feeding)?),
            Step::Fill(fill) => Ok(fill.enqueue(feeding)?),
            Step::Handover(handover) => Ok(handover.enqueue(feeding)?),
            Step::Native(call) => {
                // The program's code may wait for what it enqueues.
                lane.stream.gate.open();
                call.enqueue(&lane.context, &lane.stream.queue, feeding)
            }
        }
    }
}

// SAFETY: native commands are enqueued with the boxes that the commands name, checked to lie inside their allocations, and
// the driver keeps its own memory until they have ended. A point is settled when the event that ends it, or the marker
// behind its waits, has ended, and the queue is in-order.
unsafe impl Lane for OpenClLane {
    unsafe fn feed(&self, group: Group<'_>) -> std::result::Result<(), BackendError> {
        let Group { point, waits, commands, report, at_leisure, timed, more, .. } = group;
        let _turn = self.driver.turn();
        let progress = &self.stream.progress;
        let Begun { wants_event, is_first } = progress.begin()?;
        let wants_event = wants_event || self.is_shared;
        if let Some(lost) = self.lanes.lost() {
            return Err(lost);
        }
        // All commands are checked before the first native call, so that a refusal leaves nothing enqueued.
        let mut steps = SmallVec::<[Step<'_>; 1]>::new();
        for command in commands {
            steps.push(self.plan(command)?);
        }
        let awaited = self.awaited(waits)?;
        let mut list = WaitList::default();
        awaited.iter().for_each(|group| list.push(last(group)));
        let holds = more && is_first && self.driver.wakes_for_each && !self.is_shared;
        let held = if holds { self.stream.gate.shut(&self.context) } else { None };
        held.iter().for_each(|event| list.push(event));
        let mut feeding = Feeding::new(&self.stream.queue, list);
        let last_tells = self.driver.fails_as_a_whole && !timed;
        // Of several commands the last one tells, since the memory of those before it is kept until then.
        let is_told = report || !last_tells || wants_event || steps.len() > 1;
        let mut left = steps.len();
        let mut fed = steps.iter_mut().try_for_each(|step| {
            left -= 1;
            feeding.is_told = is_told && (left == 0 || !last_tells);
            step.enqueue(self, &mut feeding)
        });
        if fed.is_ok() && feeding.commands == 0 {
            fed = feeding.barrier().map_err(BackendError::from);
        }
        // Nothing was enqueued, so the group was not fed, and the lane goes on without it.
        if feeding.commands == 0 && fed.is_err() {
            return fed;
        }
        // It broke off behind a launch that does not tell, or the commands behind such a one turned out to be empty.
        let lacks_end = feeding.commands > 0 && !feeding.ends_told && (is_told || fed.is_err());
        if lacks_end && feeding.enqueue(Queue::marker).is_err() {
            // It blocks, but to count as ended what may be running would be worse.
            let _ = self.stream.finish();
        }
        let Feeding { mut events, sources, commands, .. } = feeding;
        if last_tells {
            events.drain(..events.len().saturating_sub(1));
        }
        if fed.is_ok() && commands > 0 && events.is_empty() {
            progress.fed_untold(point);
        } else {
            // What was enqueued cannot be taken back, so a group that broke off in the middle counts as fed, and is reported as
            // failed once its commands have ended.
            let error = fed.err();
            progress.fed(Enqueued { timed, error, sources, ..Enqueued::new(point, events) });
        }
        match (report, at_leisure) {
            (false, _) => {}
            (true, false) => self.report(point, more),
            (true, true) => self.report_at_leisure(point, more),
        }
        Ok(())
    }

    fn flush(&self) {
        if self.lanes.is_given_up() {
            return;
        }
        let _turn = self.driver.turn();
        self.stream.progress.sweep();
        if !self.watcher_flushes {
            self.stream.flush(Point(u64::MAX));
        }
    }

    fn arm(&self, point: Point) {
        if self.lanes.is_given_up() {
            return;
        }
        let _turn = self.driver.turn();
        let progress = &self.stream.progress;
        progress.sweep();
        // The table cannot tell a point that was never fed from one that has been passed. Reporting the former would tell the
        // runtime that memory is free while commands still use it.
        if progress.has_fed(point) {
            self.report(point, false);
        }
    }

    fn arm_at_leisure(&self, point: Point) {
        let progress = &self.stream.progress;
        // See `arm`.
        if !self.lanes.is_given_up() && progress.has_fed(point) {
            self.report_at_leisure(point, false);
        }
    }

    fn look(&self, point: Point) {
        if !self.lanes.is_given_up() {
            self.stream.progress.look(point);
        }
    }
}

impl OpenClLane {
    /// Has `point`, which was fed, reported once it is passed. `more`: the runtime is about to feed others behind it, and to flush them.
    fn report(&self, point: Point, more: bool) {
        let progress = &self.stream.progress;
        let ender = self.stream.ender(point);
        // A report of what comes after covers it, too.
        let upto = ender.as_ref().map_or(point, |group| group.point.max(point));
        progress.arm(upto);
        match ender {
            // Everything up to the point has been read, or is a barrier without a native command: the point is passed.
            None => progress.settle(point),
            // A lost device's events may never end, so there is nothing to watch.
            Some(_) if progress.lost().is_some() => progress.settle(upto),
            Some(group) => self.watch(last(&group), upto, more),
        }
    }

    /// The same, some time after that.
    fn report_at_leisure(&self, point: Point, more: bool) {
        let progress = &self.stream.progress;
        let watches = self.watcher.as_ref().is_some_and(|watcher| {
            // Not settled by this thread: what is passed by now is for the watcher to find.
            progress.arm(point);
            progress.lost().is_none() && watcher.watch_at_leisure(&self.stream, point)
        });
        if !watches {
            self.report(point, more);
        }
    }

    /// Settles `point` once the event has ended.
    fn watch(&self, event: &Event, point: Point, more: bool) {
        // The event could never end while its command sits in an unflushed queue.
        if !self.watcher_flushes && !more {
            self.stream.flush(point);
        }
        if self.watcher.as_ref().is_some_and(|watcher| watcher.watch(&self.stream, point)) {
            return;
        }
        // There is no watcher, or its thread could not be started.
        if self.watcher_flushes {
            self.stream.flush(point);
        }
        let progress = Arc::clone(&self.stream.progress);
        // What has ended needs no callback. Oclgrind runs everything inside the flush, and never calls back for it.
        if event.status().is_ok_and(|status| status <= 0) {
            progress.settle(point);
            return;
        }
        if event.when_ended(move || progress.settle(point)).is_err() {
            self.wait_for(event, point);
        }
    }

    /// A driver that refuses a callback has run out of host memory, or worse. Blocking here breaks the contract, but to report
    /// the point early, or never, would be worse.
    #[cold]
    fn wait_for(&self, event: &Event, point: Point) {
        self.stream.flush(point);
        // A failed wait means that the command failed, which `settle` reads from its status.
        let _ = event.wait();
        self.stream.progress.settle(point);
    }
}

impl Drop for OpenClLane {
    /// The runtime drops a lane after its last verdict, so normally there is nothing to wait for. If it did not ask for one, the
    /// memory that commands read must still outlive them.
    fn drop(&mut self) {
        let progress = &self.stream.progress;
        if self.lanes.is_given_up() {
            // Leaked, since releasing a queue may wait for its commands.
            std::mem::forget(Arc::clone(&self.stream));
        } else if progress.is_idle() || !self.is_shared && self.stream.finish().is_ok() {
            progress.clear();
        } else if self.is_shared {
            // To finish it would be to wait for the program's own commands, which may wait for anything.
            std::mem::forget(Arc::clone(&self.stream));
        } else {
            // The queue cannot be finished, so its commands may still read the groups' memory. That memory is leaked.
            std::mem::forget(Arc::clone(progress));
        }
    }
}

impl fmt::Debug for OpenClLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClLane").field("device", &self.device).finish_non_exhaustive()
    }
}
