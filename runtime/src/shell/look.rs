//! Waiters that look before they sleep.
//!
//! A thread that reports the end of a group has to wake the thread that waits for it, which takes longer than what is short
//! takes on some devices. There a waiter with little before it asks the lane by itself, for a moment: each time that it is
//! polled, and it asks its executor to be polled again, behind whatever else there is to do. So its thread never sleeps,
//! and nobody has to wake it; and no task is held up for longer than it takes to ask a driver once.
//!
//! The report comes as any other: whichever thread asks first gives it. The groups that can go on then are fed by the
//! executor, as behind any poll ([`NativeCalls::Elsewhere`](super::NativeCalls)).

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use windlass_backend::Point;
use windlass_engine::{NodeId, RootId};
use windlass_sync::panics::catch;

use super::feed::dead_lane;
use super::{Inner, LaneShell, sink};

/// Whether a waiter looks by itself.
#[derive(Debug)]
pub(crate) enum Look {
    /// It has not been asked whether it may.
    Due,
    On(Looking),
    Over,
}

impl Look {
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Look::Over)
    }

    /// Looks, if it is one to do so and the time for it is not over; `first` says what at, the first time.
    pub(crate) fn again(&mut self, inner: &Arc<Inner>, first: impl FnOnce() -> Option<Looking>) -> bool {
        if let Look::Due = self {
            *self = first().map_or(Look::Over, Look::On);
        }
        let looks = matches!(self, Look::On(looking) if looking.look(inner));
        if !looks {
            *self = Look::Over;
        }
        looks
    }
}

/// What a waiter looks at, and until when.
#[derive(Debug)]
pub(crate) struct Looking {
    /// Not kept: an event may outlive the lanes of its device, which are closed with their context.
    lane: Weak<LaneShell>,
    point: Point,
    until: Instant,
}

impl Looking {
    /// Asks the lane, unless the time for that is over; says whether it was not.
    pub(crate) fn look(&self, inner: &Arc<Inner>) -> bool {
        let Some(lane) = self.lane.upgrade().filter(|_| Instant::now() < self.until) else { return false };
        let asked = sink::defer_reports(|| catch(|| lane.native.look(self.point)));
        if let Err(panic) = asked {
            let cause = dead_lane(&panic, "looking at a lane");
            inner.enter_without_native_calls(|state, turn| state.lose_lane(lane.id, cause, turn));
        }
        // The lane reported from inside the call, where no more was done than to leave a message.
        if sink::take_left_messages() {
            inner.enter_without_native_calls(|_, _| {});
        }
        true
    }
}

impl Inner {
    /// For how long who waits for a copy of a root looks by itself, if at all: what is said where it lies.
    pub(crate) fn readers_look(self: &Arc<Self>, root: RootId) -> Option<Duration> {
        // Most programs have no such device, and take no turn of the lock for the question.
        self.somebody_looks.get()?;
        self.enter_without_native_calls(|state, _| {
            let contexts = state.engine.memories_with(root).filter_map(|memory| state.memories.get(&memory));
            let longest = contexts.map(|memory| memory.context.info().waiters_look).max();
            longest.filter(|long| !long.is_zero())
        })
    }

    /// What the waiter for a node may look at for so long, if there is little before it.
    pub(crate) fn looking(self: &Arc<Self>, node: NodeId, long: Duration) -> Option<Looking> {
        let found = self.enter_without_native_calls(|state, _| {
            let (lane, point) = state.engine.alone_on(node)?;
            Some((Arc::downgrade(state.lanes[lane.0 as usize].as_ref()?), Point(point)))
        });
        let (lane, point) = found?;
        Some(Looking { lane, point, until: Instant::now() + long })
    }
}
