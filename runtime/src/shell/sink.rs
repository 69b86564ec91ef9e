//! The completion bridge's end: lanes report here, from any thread, a driver's callback or the caller's own thread in
//! the middle of a native call included.
//!
//! A report becomes a message for whoever has the engine's lock. If nobody has, the reporting thread takes it and works it off at once: it resolves
//! events and wakes their waiters with no hop, and where native calls are allowed it refills the lane. If the report
//! arrives inside a native call that this very thread is making, it only leaves the message: the thread holds a lane's
//! token, so it will take the lock right after the call, or leave that to who has it, and foreign wakers must not run before that.

use std::cell::Cell;
use std::fmt;
use std::sync::{Arc, Weak};

use windlass_backend::{BackendError, ContextSink, LaneSink, Verdict};
use windlass_sync::facade::{Mutex, lock, thread_local};

use super::{Inner, Message, NativeCalls};
use crate::error::{Cause, Error};
use windlass_engine::{ContextId, LaneId};

thread_local! {
    /// This thread is inside a native call and will look for messages after it.
    static IN_NATIVE_CALL: Cell<bool> = const { Cell::new(false) };
    /// This thread has left messages during a native call.
    static LEFT_MESSAGES: Cell<bool> = const { Cell::new(false) };
}

/// Whether native calls on this thread have left messages since this was last asked.
pub(super) fn take_left_messages() -> bool {
    LEFT_MESSAGES.with(Cell::take)
}

/// Runs native calls; what they report on this thread meanwhile waits as a message.
pub(super) fn defer_reports<R>(calls: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            IN_NATIVE_CALL.with(|inside| inside.set(self.0));
        }
    }
    let _restore = Restore(IN_NATIVE_CALL.with(|inside| inside.replace(true)));
    calls()
}

/// One lane's sink. It does not keep the runtime alive: groups in flight do.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) inner: Weak<Inner>,
    pub(crate) lane: LaneId,
    pub(crate) may_feed: bool,
}

impl LaneSink for Sink {
    fn passed(&self, verdict: Verdict) {
        let Some(inner) = self.inner.upgrade() else { return };
        let message = Message::Passed(self.lane, verdict);
        if IN_NATIVE_CALL.with(Cell::get) {
            LEFT_MESSAGES.with(|left| left.set(true));
            // `feed` takes the lock or posts after its calls in any case; for `arm` the mark says that it has to look.
            return inner.state.leave(message);
        }
        let calls = if self.may_feed { NativeCalls::Here } else { NativeCalls::Elsewhere };
        inner.post(calls, message);
    }
}

/// Where a context tells that it is lost. It may do so before the engine knows it: then the loss waits for that.
pub(crate) struct ContextLoss {
    inner: Weak<Inner>,
    state: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    context: Option<ContextId>,
    lost: Option<BackendError>,
}

impl ContextLoss {
    pub(crate) fn new(inner: &Arc<Inner>) -> Self {
        ContextLoss { inner: Arc::downgrade(inner), state: Mutex::default() }
    }

    /// The engine knows the context by this id.
    pub(crate) fn set_context(&self, context: ContextId) {
        let mut state = lock(&self.state);
        state.context = Some(context);
        let lost = state.lost.take();
        drop(state);
        lost.into_iter().for_each(|error| self.tell(context, error));
    }

    /// Leaves a message: this may be a driver's callback, on any thread, inside a native call of this very thread too.
    fn tell(&self, context: ContextId, error: BackendError) {
        let Some(inner) = self.inner.upgrade() else { return };
        let cause = Cause(Error::backend(error, "using a device"));
        // Not `post`, which would work it off here if the lock is free, with wakers and all.
        inner.state.leave(Message::Lost(context, cause));
        inner.drainer.call(&inner.gates);
    }
}

impl ContextSink for ContextLoss {
    fn lost(&self, error: BackendError) {
        // Both sides look and write under one lock: a loss either finds the id here, or is found by `set_context`.
        let mut state = lock(&self.state);
        let context = state.context;
        if context.is_none() {
            state.lost.get_or_insert(error.clone());
        }
        drop(state);
        if let Some(context) = context {
            self.tell(context, error);
        }
    }
}

impl fmt::Debug for ContextLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextLoss").finish_non_exhaustive()
    }
}
