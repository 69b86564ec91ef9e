//! The word of a task.
//!
//! | value | set when | what it means for others |
//! |---|---|---|
//! | `IDLE` | a poll returned pending and no wake came meanwhile | a wake must queue it |
//! | `QUEUED` | it was spawned, or woken while idle | it is on the queue, or about to be: a wake does nothing |
//! | `RUNNING` | a worker took it from the queue | a wake leaves `WOKEN` |
//! | `WOKEN` | it was woken while running | its worker queues it again: a further wake does nothing |
//! | `OVER` | its future is done, or is not wanted any more | a wake does nothing, and it is not polled; it stays so |
//!
//! The future belongs to the worker while the word is `RUNNING` or `WOKEN`, and to the thread that makes the word `OVER`
//! while it is not. A task that is ended while it runs is `OVER` at once; its worker finds that out when the poll returns, and
//! then drops the future.
//!
//! All moves are read-modify-write operations with `AcqRel`, so that what a waker did before the wake is seen by the
//! poll that follows, also where the wake changes nothing.

use crate::facade::{AtomicU32, Ordering};

const IDLE: u32 = 0;
const QUEUED: u32 = 1;
const RUNNING: u32 = 2;
const WOKEN: u32 = 3;
const OVER: u32 = 4;

/// See the module documentation.
#[derive(Debug)]
pub(super) struct TaskState(AtomicU32);

/// What the worker does after a poll that returned pending.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum AfterPoll {
    /// Leave it: a wake will queue it.
    Idle,
    /// It was woken meanwhile: queue it.
    Again,
    /// It is over: drop its future.
    Over,
}

impl TaskState {
    pub(super) fn queued() -> Self {
        TaskState(AtomicU32::new(QUEUED))
    }

    /// A worker took it from the queue. Whether it is to be polled. Acquire: the poll sees what the wakers did.
    pub(super) fn start(&self) -> bool {
        self.0.compare_exchange(QUEUED, RUNNING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The poll returned pending.
    pub(super) fn stop(&self) -> AfterPoll {
        match self.0.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => AfterPoll::Idle,
            Err(OVER) => AfterPoll::Over,
            // `WOKEN`, and only `end` can still change that: a wake leaves it as it is.
            Err(_) => match self.0.compare_exchange(WOKEN, QUEUED, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => AfterPoll::Again,
                Err(_) => AfterPoll::Over,
            },
        }
    }

    /// It is not to be polled any more. Whether the caller has the future to drop now.
    pub(super) fn end(&self) -> bool {
        matches!(self.0.swap(OVER, Ordering::AcqRel), IDLE | QUEUED)
    }

    /// It was woken. Whether the caller must put it on the queue.
    pub(super) fn wake(&self) -> bool {
        let mut now = self.0.load(Ordering::Relaxed);
        loop {
            let next = match now {
                IDLE => QUEUED,
                RUNNING => WOKEN,
                // Written again all the same: the poll that follows must see what this waker did (see the module).
                other => other,
            };
            match self.0.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return now == IDLE,
                Err(seen) => now = seen,
            }
        }
    }
}
