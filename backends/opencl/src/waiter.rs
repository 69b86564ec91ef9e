//! The waiter: a thread that waits for a lane's armed points, as an alternative to callbacks.
//!
//! OpenCL can wait for all of a set of events, but not for any of them. A thread that waited for a late point directly could
//! not notice that an early one is armed meanwhile. So it goes group by group: it waits for the first group that has not
//! ended, up to the last armed point, and then reports what has been passed. While no point is armed it sleeps.
//!
//! The thread starts when a point is armed for the first time, and ends when its lane is dropped. It holds events and no
//! queue, so that it never releases the last handle of one.

use std::sync::{Arc, Condvar, PoisonError};
use std::thread;

use windlass_backend::Point;
use windlass_sync::facade::{Mutex, lock};

use crate::event::Progress;

/// A lane's end of its waiter.
pub(crate) struct Waiter {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// The thread sleeps here while no point is armed.
    armed: Condvar,
}

#[derive(Default)]
struct State {
    armed: Vec<Point>,
    started: bool,
    closed: bool,
}

impl Waiter {
    pub(crate) fn new() -> Self {
        Waiter { shared: Arc::new(Shared { state: Mutex::default(), armed: Condvar::new() }) }
    }

    /// Has a point reported once it is passed. Returns false if the thread could not be started.
    pub(crate) fn watch(&self, progress: &Arc<Progress>, point: Point) -> bool {
        let mut state = lock(&self.shared.state);
        if !state.started {
            let (shared, progress) = (Arc::clone(&self.shared), Arc::clone(progress));
            let thread = thread::Builder::new().name("windlass-opencl".into());
            if thread.spawn(move || shared.run(&progress)).is_err() {
                return false;
            }
            state.started = true;
        }
        state.armed.push(point);
        drop(state);
        self.shared.armed.notify_one();
        true
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        lock(&self.shared.state).closed = true;
        self.shared.armed.notify_one();
    }
}

impl Shared {
    fn run(&self, progress: &Progress) {
        while let Some(last) = self.last_armed() {
            let passed = match progress.first_under_way(last) {
                Some(group) => {
                    if let Some(event) = group.events.last() {
                        // A failed wait means that the command failed, which `settle` reads from its status.
                        let _ = event.wait();
                    }
                    group.point
                }
                None => last,
            };
            let due = self.take_due(passed);
            if let Some(point) = due {
                progress.settle(point);
            }
            // This thread is ours and not the driver's, so it may release what it has retired.
            progress.sweep();
        }
    }

    /// Sleeps until a point is armed, and returns the last one; `None` once the lane was dropped.
    fn last_armed(&self) -> Option<Point> {
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            if let Some(last) = state.armed.iter().max() {
                return Some(*last);
            }
            state = self.armed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes all armed points up to `passed`, and returns the last: one report covers them all.
    fn take_due(&self, passed: Point) -> Option<Point> {
        let mut state = lock(&self.state);
        let due = state.armed.iter().copied().filter(|point| *point <= passed).max();
        state.armed.retain(|point| *point > passed);
        due
    }
}
