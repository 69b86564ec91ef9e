//! What somebody who has a batch's lock takes in, and what is to be done about it after the lock.

use std::task::Waker;
use std::time::Duration;

use windlass_batching::{BatchId, Item, LineId, Next, Refused};
use windlass_kernel::DeviceCopy;
use windlass_sync::combining::Combiner;

use super::coming::{Message, Queued};
use super::payload::Payload;
use super::state::{Shared, State};
use crate::error::{Error, Kind};
use crate::shell::waking::wake_all;

/// See the module documentation.
pub(super) struct Turn<'s, T: DeviceCopy, U: DeviceCopy> {
    shared: &'s Shared<T, U>,
    /// Batches are launched by whoever comes, and by those who are there for that: their launching is a program's code, and nobody who
    /// only says that something has ended, or who looks or goes, is to run that.
    may_launch: bool,
    /// Somebody has come.
    has_come: bool,
    launches: Vec<(BatchId, Vec<Queued<T, U>>)>,
    /// Who is told so.
    answers: Vec<(Queued<T, U>, Error)>,
    gone: Vec<Queued<T, U>>,
    wakes: Vec<Waker>,
}

impl<'s, T: DeviceCopy, U: DeviceCopy> Turn<'s, T, U> {
    pub(super) fn new(shared: &'s Shared<T, U>, may_launch: bool) -> Self {
        Turn {
            shared,
            may_launch,
            has_come: false,
            launches: Vec::new(),
            answers: Vec::new(),
            gone: Vec::new(),
            wakes: Vec::new(),
        }
    }

    /// Somebody has looked after those who have come.
    pub(super) fn has_looked(&mut self) {
        self.has_come = false;
    }

    pub(super) fn wakes(&mut self, ring: Option<Waker>) {
        self.wakes.extend(ring);
    }

    pub(super) fn late(&mut self, late: Vec<Queued<T, U>>) {
        let what = "the item's deadline passed before a batch could take it";
        self.answers.extend(late.into_iter().map(|queued| (queued, Error::new(Kind::Timeout(what.into())))));
    }

    /// Those whose places another tenant's item has.
    fn displaced(&mut self, state: &mut State<T, U>) {
        for (queued, wait) in state.policy.displaced() {
            state.count.refused += 1;
            self.answers.push((queued, state.refusal(Refused::Full(wait), 0)));
        }
    }

    fn comes(&mut self, state: &mut State<T, U>, now: Duration, line: LineId, item: Item<Queued<T, U>>) {
        let bytes = item.bytes;
        match state.policy.offer(now, line, item) {
            Ok(_) => {
                self.has_come = true;
                self.displaced(state);
            }
            Err((refused, queued)) => {
                state.count.refused += 1;
                self.answers.push((queued, state.refusal(refused, bytes)));
            }
        }
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Combiner<State<T, U>, Message<T, U>> for Turn<'_, T, U> {
    fn message(&mut self, state: &mut State<T, U>, message: Message<T, U>) {
        match message {
            Message::Came(now, line, item) => self.comes(state, now, line, item),
            Message::Gone { ticket, was_wanted } => {
                state.count.abandoned += u64::from(was_wanted);
                self.gone.extend(state.policy.withdraw(ticket));
            }
            Message::Fetched(delay) => state.policy.fetched(delay),
        }
    }

    /// Whoever takes in items sees to them, or has the keeper do it. A clerk that is about to look sees to their batch; but it may be a while
    /// until its runtime gets to that, and only the keeper has a clock: it is rung in any case when there is a deadline before those that it knows.
    fn before_unlock(&mut self, state: &mut State<T, U>) {
        if !std::mem::take(&mut self.has_come) {
            return;
        }
        if !self.may_launch {
            if !state.clerk_looks || state.has_earlier_deadline() {
                self.wakes(state.keeper.ring());
            }
            return;
        }
        let next = loop {
            match state.next(self.shared.now(), self) {
                Next::Launch(id, queued) => self.launches.push((id, queued)),
                other => break other,
            }
        };
        let is_for_keeper = match next {
            Next::LookAgain => !state.clerk_looks || state.has_earlier_deadline(),
            _ => state.policy.waiting() > 0 && state.has_earlier_deadline(),
        };
        if is_for_keeper {
            self.wakes(state.keeper.ring());
        }
    }

    fn after_unlock(&mut self) {
        wake_all(self.wakes.drain(..));
        for (queued, error) in self.answers.drain(..) {
            wake_all(queued.slot.answer(Err(error), Payload::from(Vec::new())));
        }
        self.gone.clear();
        for (id, queued) in self.launches.drain(..) {
            if let Some(shared) = self.shared.this() {
                shared.launch(id, queued);
            }
        }
    }
}
