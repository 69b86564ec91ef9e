//! What a host task and its event know of each other: whether it is to stop, and what it may have written.
//!
//! A host task that has started is with nobody but its runtime, so it can be dropped where it awaits something. What its
//! group would have written then is as it was before, unless the task has had a view to write through, or the group has
//! discarded what was there: then nobody knows what is there now, and it has failed.

use std::sync::Arc;

use windlass_sync::facade::{Mutex, lock};

use super::waking::Woken;
use super::work::Work;
use super::{Inner, Signal};
use crate::error::{Cause, Error, Kind};
use windlass_engine::NodeId;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct TaskControl {
    /// The task is to stop.
    pub(crate) stop: Arc<Signal>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    may_have_written: bool,
    /// Groups that depend on the event, whatever becomes of the data.
    followers: Vec<NodeId>,
}

impl Default for TaskControl {
    fn default() -> Self {
        TaskControl { stop: Arc::new(Signal::new(())), state: Mutex::default() }
    }
}

impl TaskControl {
    /// The task has a view to write through, or its group discards what was there.
    pub(crate) fn writes(&self) {
        lock(&self.state).may_have_written = true;
    }

    /// Another group fails if this one does. Called under the lock, where the task's end is told as well.
    pub(crate) fn follow(&self, node: NodeId) {
        lock(&self.state).followers.push(node);
    }

    /// The task was dropped because it was to stop. What it may have written fails with it. If that is nothing, the engine
    /// is told that all is well, and only the event says otherwise, to those who depend on it as well.
    pub(super) fn stopped(&self, inner: &Arc<Inner>, node: NodeId) {
        let error = Error::new(Kind::Cancelled);
        let mut woken = Woken::default();
        inner.enter_without_native_calls(|state, turn| {
            let State { may_have_written, followers } = std::mem::take(&mut *lock(&self.state));
            if may_have_written {
                return state.engine.finish_host(node, Err(Cause(error)), turn);
            }
            if let Some(Work::Group(event)) = state.engine.work_mut(node) {
                event.settle(Err(error.clone()), 0, &mut woken);
            }
            let failed = Cause(Error::new(Kind::DependencyFailed { root: error }));
            followers.into_iter().for_each(|follower| state.engine.fail(follower, failed.clone(), turn));
            state.engine.finish_host(node, Ok(()), turn);
        });
        woken.wake();
    }
}
