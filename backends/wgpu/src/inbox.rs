//! What passes between a device's lanes, its submitter and its waiter.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, PoisonError};

use windlass_backend::{BackendError, Completion, Point};
use windlass_sync::facade::{Condvar, Mutex, MutexGuard, lock};

use crate::ops::Ops;

/// One batch to run, and one to follow it without a gap. What is fed meanwhile makes up the next.
const IN_FLIGHT: u64 = 2;

/// A group that was fed.
pub(crate) struct Job {
    pub(crate) completion: Arc<Completion>,
    pub(crate) point: Point,
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

/// The queue from the lanes to the submitter, and the count of batches between submitter and waiter. Only the submitter ever
/// waits here, so one notification reaches it.
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
    ending: Option<Ending>,
    /// Batches handed to the waiter, and batches it has finished.
    submitted: u64,
    finished: u64,
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
        wanted && (self.jobs.is_empty() || self.submitted - self.finished < IN_FLIGHT)
    }
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

    pub(crate) fn flush(&self) {
        let mut line = lock(&self.line);
        if !line.jobs.is_empty() {
            line.flushed = true;
            self.moved.notify_one();
        }
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
        lock(&self.line).finished += 1;
        self.moved.notify_one();
    }

    /// Waits until there are jobs and the device has room for them, and takes them all, with the number of batches finished so
    /// far; `None` at the end.
    pub(crate) fn next(&self) -> Option<(VecDeque<Job>, u64)> {
        let mut line = self.wait_until(Line::ready);
        line.flushed = false;
        let jobs = mem::take(&mut line.jobs);
        if jobs.is_empty() { None } else { Some((jobs, line.finished)) }
    }

    /// Waits until every batch has been finished.
    pub(crate) fn idle(&self) {
        drop(self.wait_until(|line| line.submitted == line.finished));
    }

    fn wait_until(&self, condition: impl Fn(&Line) -> bool) -> MutexGuard<'_, Line> {
        let line = lock(&self.line);
        self.moved.wait_while(line, |line| !condition(line)).unwrap_or_else(PoisonError::into_inner)
    }
}
