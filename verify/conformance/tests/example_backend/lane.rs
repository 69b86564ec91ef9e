//! Lanes, and the thread that works off what they are fed.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

use windlass_backend::{BackendError, Completion, Failed, Group, Lane, LaneSink, Note, Point, Timed};

use crate::device::{ContextState, Device};
use crate::work::Work;

/// What the thread is sent.
pub(crate) enum Message {
    Group(Job),
    Unplugged,
}

/// A group as the thread gets it.
pub(crate) struct Job {
    context: Arc<ContextState>,
    completion: Arc<Completion>,
    point: Point,
    timed: bool,
    work: Vec<Work>,
}

/// An in-order stream of work: it has its own points and reports, and shares the thread with all others.
pub(crate) struct ExampleLane {
    context: Arc<ContextState>,
    completion: Arc<Completion>,
    messages: Sender<Message>,
}

impl ExampleLane {
    pub(crate) fn new(
        context: Arc<ContextState>,
        sink: Arc<dyn LaneSink>,
        messages: Sender<Message>,
    ) -> Self {
        ExampleLane { context, completion: Completion::new(sink), messages }
    }
}

// SAFETY: the thread runs the commands of a group, each within windows that were checked to lie inside their allocations; a
// launch is one block of the whole range. It settles the point behind that, and nothing runs after its context's end was told.
unsafe impl Lane for ExampleLane {
    unsafe fn feed(&self, group: Group<'_>) -> Result<(), BackendError> {
        self.context.check()?;
        // `group.waits` are over when the thread gets here: it works in the order of feeding, and they were fed before.
        let work = group.commands.into_iter().map(Work::new).collect::<Result<_, _>>()?;
        let (context, completion) = (self.context.clone(), self.completion.clone());
        if group.report {
            completion.arm(group.point);
        }
        let job = Job { context, completion, point: group.point, timed: group.timed, work };
        let sent = self.messages.send(Message::Group(job));
        sent.map_err(|_| BackendError::Lost("the device's thread has ended".into()))
    }

    /// What is fed runs.
    fn flush(&self) {}

    fn arm(&self, point: Point) {
        self.completion.arm(point);
    }
}

/// The device's thread: it ends when the backend, its contexts and its lanes are gone.
pub(crate) fn work_off(inbox: Receiver<Message>, device: Arc<Device>) {
    for message in inbox {
        match message {
            Message::Group(job) => job.run(&device),
            // It is this thread that runs groups, so none of them is under way now.
            Message::Unplugged => device.lose_all(),
        }
    }
}

impl Job {
    fn run(self, device: &Device) {
        let Job { context, completion, point, timed, work } = self;
        let started = device.clock(Instant::now());
        let ended = run_all(&context, work);
        if context.is_abandoned() {
            return;
        }
        let mut notes: Vec<Note> = Vec::new();
        notes.extend(ended.err().map(|error| Failed::at(point, error).into()));
        notes.extend(timed.then(|| Timed::new(point, started, device.clock(Instant::now())).into()));
        completion.settle(point, |_| mem::take(&mut notes));
    }
}

/// Runs a group's commands in order, up to one that panics, and drops them all: once the point is passed, nothing of the
/// group is left.
fn run_all(context: &ContextState, work: Vec<Work>) -> Result<(), BackendError> {
    let ended = contain(|| context.check().map(|()| work.iter().for_each(Work::run)));
    let dropped = contain(|| {
        drop(work);
        Ok(())
    });
    ended.and(dropped)
}

/// Calls user code, which may panic and must not take the device's thread with it.
fn contain(run: impl FnOnce() -> Result<(), BackendError>) -> Result<(), BackendError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        // A payload may panic when it is dropped.
        mem::forget(panic);
        Err(BackendError::Panicked(text.unwrap_or_default()))
    })
}
