//! Lanes: one in-order command queue each.
//!
//! # Waits between lanes
//!
//! A wait on another lane's point becomes a native wait on the last event at or before it. If that event has ended
//! already, well or badly, there is nothing to wait for. The other queue is flushed first, as OpenCL demands.
//!
//! One part of the contract is out of OpenCL's reach: a command whose wait list holds an event that *fails later* is
//! ended by the driver with an error instead of run. The waiting group then fails too, with
//! `CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST`, although it should only be ordered behind. Commands that fail
//! after they were enqueued are rare enough (a crashed kernel, a lost device) to accept that.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

use smallvec::SmallVec;
use windlass_backend::{
    BackendError, Command, CompletionStrategy, Group, Lane, LaneNumber, LaneSink, LaneSpec, Point, Wait,
};
use windlass_sync::facade::{Mutex, lock};

use crate::event::{Enqueued, Progress};
use crate::feeding::Feeding;
use crate::kernel;
use crate::memory::{self, Transfer};
use crate::native::Calling;
use crate::sys::{Context, Event, Failure, Queue, Result, WaitList};
use crate::waiter::Waiter;

/// The lanes of a context, by the numbers that waits call them.
#[derive(Default)]
pub(crate) struct Lanes {
    by_number: Mutex<HashMap<LaneNumber, Weak<Stream>>>,
    /// Set when nobody waits for them any more.
    given_up: OnceLock<()>,
}

impl Lanes {
    /// The lane of this number; `None` once it was dropped, which happens only after its last verdict.
    fn get(&self, number: LaneNumber) -> Option<Arc<Stream>> {
        lock(&self.by_number).get(&number)?.upgrade()
    }

    /// Nobody waits for any of them any more.
    pub(crate) fn abandon(&self) {
        let _ = self.given_up.set(());
    }

    fn is_given_up(&self) -> bool {
        self.given_up.get().is_some()
    }

    fn lost(&self) -> Option<BackendError> {
        self.is_given_up().then(|| BackendError::Lost("its context was given up".into()))
    }

    fn add(&self, number: LaneNumber, stream: &Arc<Stream>) {
        let mut lanes = lock(&self.by_number);
        lanes.retain(|_, stream| stream.strong_count() != 0);
        lanes.insert(number, Arc::downgrade(stream));
    }
}

/// A queue and how far it has come.
struct Stream {
    queue: Queue,
    progress: Arc<Progress>,
}

impl Stream {
    /// Hands everything to the device, unless that was done up to `point`.
    fn flush(&self, point: Point) {
        let Some(fed) = self.progress.unflushed(point) else { return };
        match self.queue.flush() {
            Ok(()) => self.progress.flushed(fed),
            Err(failure) => self.flush_by_force(fed, failure),
        }
    }

    /// A queue that cannot be flushed is most likely a lost device. But its commands may hold host memory, which the
    /// runtime frees once they are reported; so make sure that none of them runs any more, by waiting if need be.
    #[cold]
    fn flush_by_force(&self, fed: Point, failure: Failure) {
        match self.queue.finish() {
            Ok(()) => self.progress.flushed(fed),
            Err(_) => {
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
    /// None where the driver calls back.
    waiter: Option<Waiter>,
}

impl OpenClLane {
    pub(crate) fn open(
        context: Arc<Context>,
        lanes: Arc<Lanes>,
        queue: Queue,
        spec: &LaneSpec,
        sink: Arc<dyn LaneSink>,
    ) -> Self {
        let stream = Arc::new(Stream { queue, progress: Arc::new(Progress::new(sink)) });
        lanes.add(spec.number, &stream);
        let waits = spec.completion == Some(CompletionStrategy::Waiter);
        OpenClLane { stream, context, lanes, device: spec.device, waiter: waits.then(Waiter::new) }
    }

    /// The groups of other lanes that must have ended, with their queues flushed. Those that have are left out.
    fn awaited(&self, waits: &[Wait]) -> Result<SmallVec<[Arc<Enqueued>; 2]>> {
        let mut groups = SmallVec::new();
        for wait in waits {
            let Some(stream) = self.lanes.get(wait.lane) else { continue };
            let Some(group) = stream.progress.group_at(wait.point) else { continue };
            if last(&group).status()? > 0 {
                stream.flush(group.point);
                groups.push(group);
            }
        }
        Ok(groups)
    }

    /// Checks a command and prepares its native calls, of which it makes none.
    fn plan<'a>(&self, command: Command<'a>) -> std::result::Result<Step<'a>, BackendError> {
        match command {
            Command::Launch(launch) => {
                kernel::Launching::plan(&self.context, self.device, &launch).map(Step::Launch)
            }
            Command::Copy(copy) => Transfer::plan(&self.context, &copy).map(Step::Copy),
            Command::Fill(fill) => memory::Filling::plan(&self.context, &fill).map(Step::Fill),
            Command::Native(call) => Ok(Step::Native(Calling::new(call))),
            Command::Host(_) => unsupported("host code on an OpenCL device"),
            _ => unsupported("this command"),
        }
    }
}

fn unsupported<T>(what: &str) -> std::result::Result<T, BackendError> {
    Err(BackendError::Unsupported(format!("{what} (OpenCL)")))
}

/// The event that ends a group which has any.
fn last(group: &Enqueued) -> &Event {
    group.events.last().expect("only groups with events are looked up")
}

/// A checked command.
enum Step<'a> {
    Launch(kernel::Launching<'a>),
    Copy(Transfer<'a>),
    Fill(memory::Filling<'a>),
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
            Step::Native(call) => call.enqueue(&lane.context, &lane.stream.queue, feeding),
        }
    }
}

// SAFETY: native commands are enqueued with the boxes that the commands name, checked to lie inside their allocations, and
// the driver keeps its own memory until they have ended. A point is settled when the event that ends it, or the marker
// behind its waits, has ended, and the queue is in-order.
unsafe impl Lane for OpenClLane {
    unsafe fn feed(&self, group: Group<'_>) -> std::result::Result<(), BackendError> {
        let Group { point, waits, commands, report, .. } = group;
        let progress = &self.stream.progress;
        progress.sweep();
        if let Some(lost) = progress.lost().or_else(|| self.lanes.lost()) {
            return Err(lost);
        }
        let mut steps: SmallVec<[Step<'_>; 1]> =
            commands.into_iter().map(|c| self.plan(c)).collect::<std::result::Result<_, _>>()?;
        let awaited = self.awaited(waits)?;
        let mut list = WaitList::default();
        awaited.iter().for_each(|group| list.push(last(group)));
        let mut feeding = Feeding::new(&self.stream.queue, list);
        let mut fed = steps.iter_mut().try_for_each(|step| step.enqueue(self, &mut feeding));
        if fed.is_ok() && feeding.events.is_empty() {
            fed = feeding.barrier().map_err(BackendError::from);
        }
        let Feeding { events, sources, .. } = feeding;
        let error = fed.err();
        if events.is_empty()
            && let Some(error) = error
        {
            return Err(error);
        }
        // What was enqueued cannot be taken back, so a group that broke off in the middle is fed, and fails.
        progress.fed(Enqueued { point, events, error, sources });
        if report {
            self.report(point);
        }
        Ok(())
    }

    fn flush(&self) {
        if self.lanes.is_given_up() {
            return;
        }
        self.stream.progress.sweep();
        self.stream.flush(Point(u64::MAX));
    }

    fn arm(&self, point: Point) {
        if self.lanes.is_given_up() {
            return;
        }
        let progress = &self.stream.progress;
        progress.sweep();
        // To the table a point that was never fed looks like one that has been passed, which would be the worst answer.
        if progress.has_fed(point) {
            self.report(point);
        }
    }
}

impl OpenClLane {
    /// Has `point`, which was fed, reported once it is passed.
    fn report(&self, point: Point) {
        let progress = &self.stream.progress;
        progress.arm(point);
        match progress.group_at(point) {
            // A barrier may stand behind groups that have been reported, and is then passed as well.
            None => progress.settle(point),
            Some(_) if progress.lost().is_some() => progress.settle(point),
            Some(group) => {
                // Nobody is to wait for what the device was never given.
                self.stream.flush(point);
                self.watch(last(&group), point);
            }
        }
    }

    /// Settles `point` once the event has ended.
    fn watch(&self, event: &Event, point: Point) {
        let progress = Arc::clone(&self.stream.progress);
        if self.waiter.as_ref().is_some_and(|waiter| waiter.watch(&progress, point)) {
            return;
        }
        // Nobody need be called for what has ended, and Oclgrind, whose flushing blocks, never would.
        if event.status().is_ok_and(|status| status <= 0) {
            progress.settle(point);
            return;
        }
        if event.when_ended(move || progress.settle(point)).is_err() {
            self.wait_for(event, point);
        }
    }

    /// A driver that refuses a callback has run out of host memory at best. Waiting here is wrong, but reporting the
    /// point before it was passed, or never, would be worse.
    #[cold]
    fn wait_for(&self, event: &Event, point: Point) {
        // A failed wait says that the command failed, which settling finds out for itself.
        let _ = event.wait();
        self.stream.progress.settle(point);
    }
}

impl Drop for OpenClLane {
    /// The runtime drops a lane after its last verdict, so there is nothing to wait for. Should it not have asked for
    /// one, the memory that commands read must outlive them all the same.
    fn drop(&mut self) {
        let progress = &self.stream.progress;
        if self.lanes.is_given_up() {
            // To release the queue may be to wait for it.
            std::mem::forget(Arc::clone(&self.stream));
        } else if progress.is_idle() || self.stream.queue.finish().is_ok() {
            progress.clear();
        } else {
            // Nobody can say what a queue that cannot be finished still reads, so that memory is given up.
            std::mem::forget(Arc::clone(progress));
        }
    }
}

impl fmt::Debug for OpenClLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenClLane").field("device", &self.device).finish_non_exhaustive()
    }
}
