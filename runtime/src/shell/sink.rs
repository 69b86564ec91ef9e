//! The completion bridge's end: lanes report here, from any thread, a driver's callback or the caller's own thread in
//! the middle of a native call included.
//!
//! A report becomes mail for the desk. If nobody sits there, the reporting thread works it off at once: it resolves
//! events and wakes their waiters with no hop, and where native calls are allowed it refills the lane. If the report
//! arrives inside a native call that this very thread is making, it only leaves the mail: the thread holds a lane's
//! token, so it will sit down again right after the call, and foreign wakers must not run before it has let go.

use std::cell::Cell;
use std::sync::Weak;

use windlass_backend::{LaneSink, Verdict};
use windlass_sync::facade::thread_local;

use super::{Chores, Inner, Mail};
use windlass_engine::LaneId;

thread_local! {
    /// This thread is inside a native call and will look for mail after it.
    static IN_NATIVE_CALL: Cell<bool> = const { Cell::new(false) };
    /// This thread has left mail during a native call.
    static LEFT_MAIL: Cell<bool> = const { Cell::new(false) };
}

/// Whether native calls on this thread have left mail since this was last asked.
pub(super) fn left_mail() -> bool {
    LEFT_MAIL.with(Cell::take)
}

/// Runs native calls; what they report on this thread meanwhile waits as mail.
pub(super) fn quietly<R>(calls: impl FnOnce() -> R) -> R {
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
        let mail = Mail::Passed(self.lane, verdict);
        if IN_NATIVE_CALL.with(Cell::get) {
            LEFT_MAIL.with(|left| left.set(true));
            return inner.desk.leave(mail);
        }
        Chores::with(!self.may_feed, |chores| {
            inner.desk.post(mail, chores);
            inner.perform(chores);
        });
    }
}
