//! What an event is inside: one cell, and what has to be known when it resolves.

use std::num::NonZeroU32;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_backend::Timed;
use windlass_sync::account::Generation;
use windlass_sync::cell::EventCell;
use windlass_sync::forked;

use super::queue::QueueCore;
use super::report::AsyncError;
use super::reserved::Reserved;
use super::task::TaskControl;
use super::waking::{Woken, catch_foreign};
use super::{Inner, NativeCalls, Signal};
use crate::error::{Cause, Error, Kind, Origin, Result};
use windlass_engine::{Cancelled, NodeId};

/// The state behind every clone of an event. The engine's node holds one reference until it has settled; when the
/// last goes, an error that no handle has returned is reported.
#[derive(Debug)]
pub(crate) struct EventInner {
    pub(crate) cell: EventCell<Result<()>, Note>,
    /// What the engine calls the group.
    pub(crate) node: NodeId,
    pub(crate) queue: Arc<QueueCore>,
    pub(crate) generation: Generation,
    /// Its note has bytes that it gives back.
    pub(crate) has_reserved: bool,
    /// Where the group was submitted.
    pub(crate) at: &'static Location<'static>,
}

/// What the cell carries beside its value.
#[derive(Debug, Default)]
pub(crate) struct Note {
    /// The lane will report this event's point without being asked.
    armed: bool,
    /// A handle has returned the error.
    observed: bool,
    /// The error is of this group itself, and this many failed of it, this one included.
    root: Option<NonZeroU32>,
    /// What few groups have.
    extra: Option<Box<Extra>>,
}

#[derive(Debug, Default)]
struct Extra {
    name: Option<Box<str>>,
    /// Ends the group's outside futures.
    cancel: Option<Arc<Signal>>,
    /// The group is a host task.
    task: Option<Arc<TaskControl>>,
    /// When it ran, by its device's clock.
    times: Option<Timed>,
    reserved: Option<Reserved>,
}

impl Note {
    pub(crate) fn new(
        name: Option<Box<str>>,
        cancel: Option<Arc<Signal>>,
        task: Option<Arc<TaskControl>>,
    ) -> Self {
        let has_extra = name.is_some() || cancel.is_some() || task.is_some();
        let extra = || Box::new(Extra { name, cancel, task, ..Extra::default() });
        Note { extra: has_extra.then(extra), ..Note::default() }
    }

    /// The group has these bytes until it ends.
    pub(crate) fn with_reserved(mut self, reserved: Option<Reserved>) -> Self {
        if reserved.is_some() {
            self.extra.get_or_insert_default().reserved = reserved;
        }
        self
    }

    /// What the user calls the group.
    pub(crate) fn name(&self) -> Option<Box<str>> {
        self.extra.as_ref()?.name.clone()
    }
}

impl EventInner {
    /// Of a group that has not ended.
    pub(crate) fn new(
        note: Note,
        node: NodeId,
        queue: Arc<QueueCore>,
        generation: Generation,
        at: &'static Location<'static>,
    ) -> Self {
        let has_reserved = note.extra.as_ref().is_some_and(|extra| extra.reserved.is_some());
        EventInner { cell: EventCell::new(note), node, queue, generation, has_reserved, at }
    }

    /// The lane's sentinel stands on this event.
    pub(super) fn mark_armed(&self) {
        self.cell.note(|note, _| note.armed = true);
    }

    /// The lane says when the group ran.
    pub(super) fn ran(&self, times: Timed) {
        self.cell.note(|note, _| note.extra.get_or_insert_default().times = Some(times));
    }

    /// When the group started and ended, by the host's clock.
    pub(crate) fn times(&self) -> Option<(Instant, Instant)> {
        let clock = self.queue.clock.filter(|_| !forked::is_child())?;
        let times = self.cell.note(|note, _| note.extra.as_ref()?.times)?;
        let moment = |device: u64| match device.checked_sub(clock.device) {
            Some(later) => Some(clock.host + Duration::from_nanos(later)),
            None => clock.host.checked_sub(Duration::from_nanos(clock.device - device)),
        };
        Some((moment(times.started)?, moment(times.ended)?))
    }

    /// Somebody waits for the first time: the lane is asked to report, unless it will anyway.
    pub(crate) fn want(&self) {
        if !self.cell.note(|note, _| std::mem::replace(&mut note.armed, true)) {
            self.inner().want(self.node);
        }
    }

    pub(crate) fn mark_observed(&self) {
        self.cell.note(|note, _| note.observed = true);
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.queue.inner
    }

    /// The group has ended.
    pub(super) fn settle(&self, result: Result<()>, took_down: u32, woken: &mut Woken) {
        let result = result.map_err(|error| self.own(error));
        if let Err(error) = &result {
            let root = !error.is_dependency_failed() && !error.is_cancelled();
            let all = NonZeroU32::MIN.saturating_add(took_down);
            self.cell.note(|note, _| note.root = root.then_some(all));
        }
        if self.has_reserved {
            let reserved = self.cell.note(|note, _| note.extra.as_mut()?.reserved.take());
            woken.single.extend(reserved.into_iter().flat_map(Reserved::end));
        }
        woken.cells.extend(self.cell.complete(result).filter(|w| !w.is_empty()));
    }

    /// What stops the group's host task, if it is one.
    pub(crate) fn task(&self) -> Option<Arc<TaskControl>> {
        self.cell.note(|note, _| note.extra.as_ref()?.task.clone())
    }

    /// Has a host task that has started stop at its next `await`. False if the group is none.
    pub(crate) fn stop_task(&self) -> bool {
        let Some(task) = self.task() else { return false };
        let woken = task.stop.complete(());
        woken.into_iter().for_each(|w| catch_foreign(|| w.wake()));
        true
    }

    /// An error as this group's.
    #[cold]
    fn own(&self, error: Error) -> Error {
        let group = self.cell.note(|note, _| note.name());
        error.of_group(Origin { group, at: self.at })
    }

    /// Nobody wants the group any more.
    pub(crate) fn cancel(self: &Arc<Self>, calls: NativeCalls) -> Cancelled {
        let node = self.node;
        let outcome = self.inner().enter_with(calls, |state, turn| {
            let cause = Cause(Error::new(Kind::Cancelled));
            let outcome = state.engine.cancel(node, cause, turn);
            if outcome == Cancelled::Skipped {
                state.engine.want(node, turn);
            }
            outcome
        });
        if outcome == Cancelled::Skipped {
            self.drop_outside();
        }
        outcome
    }

    /// The group's outside futures, if it has any, are dropped: it does not run any more.
    pub(crate) fn drop_outside(&self) {
        let cancel = self.cell.note(|note, _| note.extra.as_mut()?.cancel.take());
        let woken = cancel.and_then(|signal| signal.complete(()));
        woken.into_iter().for_each(|w| catch_foreign(|| w.wake()));
    }
}

impl Drop for EventInner {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        let (value, note) = self.cell.parts_mut();
        let (Some(all), Some(Err(error))) = (note.root.filter(|_| !note.observed), value.take()) else {
            return;
        };
        let took_down = all.get() - 1;
        let handler = self.queue.handler();
        self.inner().reporter.report(self.inner(), handler, AsyncError::new(error, took_down, self.at));
    }
}
