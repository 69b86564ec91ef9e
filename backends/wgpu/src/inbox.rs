//! What passes between a device's lanes, whoever submits, and its waiter.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};

use windlass_backend::{BackendError, Completion, Point};
use windlass_sync::facade::{Condvar, Mutex, MutexGuard, lock};

use crate::ops::{Op, Ops};

/// One batch to run, and one to follow it without a gap. What is fed meanwhile makes up the next.
const IN_FLIGHT: u64 = 2;

/// A group that was fed.
pub(crate) struct Job {
    pub(crate) completion: Arc<Completion>,
    pub(crate) point: Point,
    pub(crate) timed: bool,
    pub(crate) ops: Ops,
}

/// How the threads were told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// `close` waits for them.
    Joined,
    /// Nothing waits for them: the device may never finish.
    Abandoned,
}

/// The queue from the lanes to whoever submits, and the count of batches between that one and the waiter. Only the submitter's
/// thread ever waits here, so one notification reaches it.
#[derive(Default)]
pub(crate) struct Inbox {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Default)]
struct Line {
    jobs: VecDeque<Job>,
    /// Whether the jobs are to be submitted; until then a run of feeds gathers without waking the submitter.
    flushed: bool,
    /// Whether somebody is submitting what was taken, so that nothing behind it may be.
    taken: bool,
    /// Whether the submitter was woken for what is here.
    called: bool,
    ending: Option<Ending>,
    /// Batches handed to the waiter, and batches it has finished.
    submitted: u64,
    finished: u64,
    /// Whether the submitter waits until the two are equal.
    awaits_all: bool,
}

impl Line {
    fn check_open(&self) -> Result<(), BackendError> {
        match self.ending {
            None => Ok(()),
            Some(_) => Err(BackendError::Lost("its context was closed or given up".into())),
        }
    }

    fn ready(&self) -> bool {
        // What was fed before an ending is still submitted, in its turn; only then does `next` return `None`.
        let wanted = self.ending.is_some() || self.flushed && !self.jobs.is_empty();
        wanted && !self.taken && (self.jobs.is_empty() || self.submitted - self.finished < IN_FLIGHT)
    }

    /// Everything that is waiting, for the one who calls.
    fn take(&mut self) -> Taken {
        (self.flushed, self.taken) = (false, true);
        Taken { jobs: mem::take(&mut self.jobs), finished: self.finished }
    }
}

/// Jobs to be submitted, by the one who has taken them, and nobody else until [`Inbox::handed_over`].
pub(crate) struct Taken {
    pub(crate) jobs: VecDeque<Job>,
    /// How many batches had been finished.
    pub(crate) finished: u64,
}

impl Inbox {
    pub(crate) fn push(&self, job: Job) -> Result<(), BackendError> {
        let mut line = lock(&self.line);
        line.check_open()?;
        line.jobs.push_back(job);
        Ok(())
    }

    /// Refuses everything once the context was closed or given up.
    pub(crate) fn check_open(&self) -> Result<(), BackendError> {
        lock(&self.line).check_open()
    }

    /// Lets what was pushed be submitted: by the caller, who is handed it, if that takes next to no time, because the device has
    /// nothing to do and there is little; else by the submitter.
    ///
    /// An idle device is so given its work one wake-up of a thread earlier. A busy one is left to the submitter, since there a
    /// submission may block until the last one has ended, and since what gathers meanwhile is submitted for less.
    pub(crate) fn flush(&self) -> Option<Taken> {
        let mut line = lock(&self.line);
        if line.jobs.is_empty() {
            return None;
        }
        line.flushed = true;
        // Whoever feeds one group after another would else be faster than the submitter, and submit each by itself.
        let is_idle = line.submitted == line.finished && line.ending.is_none() && !line.called;
        if is_idle && line.ready() && is_little(&line.jobs) {
            return Some(line.take());
        }
        self.wake_if_ready(&mut line);
        None
    }

    /// What was taken has been submitted, but for what is given back: the submitter goes on with it.
    pub(crate) fn handed_over(&self, rest: VecDeque<Job>) {
        let mut line = lock(&self.line);
        line.taken = false;
        line.flushed |= !rest.is_empty();
        rest.into_iter().rev().for_each(|job| line.jobs.push_front(job));
        self.wake_if_ready(&mut line);
    }

    /// Takes nothing more; only the first ending counts.
    pub(crate) fn close(&self, ending: Ending) {
        lock(&self.line).ending.get_or_insert(ending);
        self.moved.notify_one();
    }

    pub(crate) fn ending(&self) -> Option<Ending> {
        lock(&self.line).ending
    }

    /// A batch is about to go to the waiter.
    pub(crate) fn submitted(&self) {
        lock(&self.line).submitted += 1;
    }

    /// A batch has left the device.
    pub(crate) fn finished(&self) {
        let mut line = lock(&self.line);
        line.finished += 1;
        // Not for nothing: it would be woken for each batch, by the thread whose report somebody waits for.
        if line.awaits_all && line.submitted == line.finished {
            self.moved.notify_one();
        } else {
            self.wake_if_ready(&mut line);
        }
    }

    /// Waits until there are jobs and the device has room for them, and takes them all; `None` at the end.
    pub(crate) fn next(&self) -> Option<Taken> {
        let mut line = self.wait_until(Line::ready);
        line.called = false;
        (!line.jobs.is_empty()).then(|| line.take())
    }

    /// Waits until every batch has been finished.
    pub(crate) fn idle(&self) {
        lock(&self.line).awaits_all = true;
        // What finishes just now finds nobody waiting, and then there is nothing to wait for.
        self.wait_until(|line| line.submitted == line.finished).awaits_all = false;
    }

    /// To wake it for nothing would cost every feed of a busy device a call to the system.
    fn wake_if_ready(&self, line: &mut Line) {
        if line.ready() {
            line.called = true;
            self.moved.notify_one();
        }
    }

    fn wait_until(&self, condition: impl Fn(&Line) -> bool) -> MutexGuard<'_, Line> {
        let line = lock(&self.line);
        self.moved.wait_while(line, |line| !condition(line)).unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many operations are little.
const LITTLE: usize = 16;

fn is_little(jobs: &VecDeque<Job>) -> bool {
    let ops = jobs.iter().flat_map(|job| &job.ops);
    jobs.len() <= LITTLE && ops.clone().take(LITTLE + 1).count() <= LITTLE && ops.clone().all(Op::is_light)
}
