//! The waiter: a thread that waits for a lane's armed points, where callbacks are not wanted.
//!
//! OpenCL can wait for all of some events, and not for any of them. While the thread waits for a late point somebody may
//! ask for an early one, so it goes from group to group, whichever points are armed: it waits for the first group that
//! has not ended, up to the last armed point, and then reports what has been passed. Between armed points it sleeps.
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

    /// Has a point reported once it is passed. False if there is no thread to do it.
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
                        // A failed wait says that the command failed, which settling finds out for itself.
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
            // This thread may release what it has retired.
            progress.sweep();
        }
    }

    /// The last armed point, waiting for one; `None` if there will be no more.
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

    /// The last of the armed points up to `passed`, which are armed no more.
    fn take_due(&self, passed: Point) -> Option<Point> {
        let mut state = lock(&self.state);
        let due = state.armed.iter().copied().filter(|point| *point <= passed).max();
        state.armed.retain(|point| *point > passed);
        due
    }
}
