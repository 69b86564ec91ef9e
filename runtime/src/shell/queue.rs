//! What a queue is inside: an account of what is in flight, a handler, and the tail of its order.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use windlass_backend::ClockSample;
use windlass_sync::account::{Account, Generation};
use windlass_sync::facade::{Mutex, lock};

use super::report::Handler;
use super::{Inner, Message};
use crate::shell::context::DeviceSlot;
use crate::shell::own_lanes::OwnLanes;
use windlass_engine::NodeId;

/// See the module documentation.
pub(crate) struct QueueCore {
    /// Goes first: it is closed by the engine, and before its context.
    _own_lanes: Option<OwnLanes>,
    /// The device it is on. Its context leaves what it had built to the scheduler's reaper, so it goes before that.
    pub(crate) slot: Arc<DeviceSlot>,
    pub(crate) inner: Arc<Inner>,
    pub(crate) account: Account,
    pub(crate) limit: u32,
    handler: Option<Handler>,
    /// When its groups start and end is noted, by the device's clock, of which this is a sample.
    pub(crate) clock: Option<ClockSample>,
    /// The last group, where groups run in the order of submission. Changed only under the engine's lock.
    tail: Option<Mutex<Option<NodeId>>>,
}

impl fmt::Debug for QueueCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueCore").field("account", &self.account).finish_non_exhaustive()
    }
}

/// A waiter for what a queue has under way, and not for any group of it: where lanes report at leisure what nobody waits for, they are
/// told.
#[derive(Debug, Default)]
pub(crate) struct Hurry {
    is_told: bool,
}

impl Hurry {
    /// It waits, and has been entered among those who do.
    pub(crate) fn begin(&mut self, core: &QueueCore) {
        let at_leisure = core.slot.context.native.info().reports_at_leisure;
        if at_leisure && !std::mem::replace(&mut self.is_told, true) {
            core.inner.state.leave(Message::Hurry(core.slot.id, true));
            core.inner.read_messages();
        }
    }

    /// It waits no more.
    pub(crate) fn end(&mut self, core: &QueueCore) {
        if std::mem::take(&mut self.is_told) {
            // In no hurry: whoever has the lock next reads it.
            core.inner.state.leave(Message::Hurry(core.slot.id, false));
        }
    }
}

impl QueueCore {
    /// For how long the waiters of its groups look by themselves, if at all.
    pub(crate) fn waiters_look(&self) -> Option<Duration> {
        Some(self.slot.context.native.info().waiters_look).filter(|long| !long.is_zero())
    }

    pub(crate) fn new(
        inner: Arc<Inner>,
        (slot, own_lanes): (Arc<DeviceSlot>, Option<OwnLanes>),
        limit: u32,
        in_order: bool,
        clock: Option<ClockSample>,
        handler: Option<Handler>,
    ) -> Self {
        QueueCore {
            _own_lanes: own_lanes,
            inner,
            slot,
            account: Account::new(i64::from(limit)),
            limit,
            handler,
            clock,
            tail: in_order.then(|| Mutex::new(None)),
        }
    }

    pub(crate) fn is_in_order(&self) -> bool {
        self.tail.is_some()
    }

    pub(crate) fn tail(&self) -> Option<NodeId> {
        self.tail.as_ref().and_then(|tail| *lock(tail))
    }

    pub(crate) fn set_tail(&self, node: NodeId) {
        if let Some(tail) = &self.tail {
            *lock(tail) = Some(node);
        }
    }

    pub(super) fn handler(&self) -> Option<Handler> {
        self.handler.clone()
    }

    /// A group was refused after all: gives its credit back. Returns the wakers of what waited for that.
    pub(crate) fn refused(&self, generation: Generation) -> Vec<Waker> {
        self.account.take_back(generation)
    }
}

/// A handler of errors that nobody observed.
pub(crate) type SharedHandler = Arc<dyn Fn(&[super::report::AsyncError]) + Send + Sync>;
