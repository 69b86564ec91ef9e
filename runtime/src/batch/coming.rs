//! How items come to a batch, and go before their answers: as messages, which whoever has the batch's lock takes in. So callers in
//! many threads do not queue for it: with sixteen that did, a request took twice the processors' time, a third of it in the kernel's spin lock.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_batching::{FETCHED_SOON, Item, LineId, MOST_COST, Ticket};
use windlass_kernel::DeviceCopy;

use super::answer::Answer;
use super::payload::Payload;
use super::slot::Slot;
use super::state::Shared;
use crate::error::{Error, Result};
use crate::shell::Inner;

/// What callers leave for whoever has the lock.
pub(super) enum Message<T, U: DeviceCopy> {
    /// An item, which came at that time.
    Came(Duration, LineId, Item<Queued<T, U>>),
    Gone {
        ticket: Ticket,
        was_wanted: bool,
    },
    /// An answer has waited for so long until its caller had it.
    Fetched(Duration),
}

/// An item that waits: where its answer goes, and what it costs.
pub(super) struct Queued<T, U: DeviceCopy> {
    pub(super) slot: Arc<Slot<T, U>>,
    pub(super) cost: f64,
}

/// What a caller has of its item that waits.
pub(super) struct InLine<T, U: DeviceCopy> {
    pub(super) slot: Arc<Slot<T, U>>,
    ticket: Ticket,
    has_deadline: bool,
    /// Its caller has asked for the answer before it was there.
    pub(super) is_awaited: bool,
}

/// An item, and what is asked of its answer.
pub(super) struct Wanted<T> {
    pub(super) item: Payload<T>,
    pub(super) deadline: Option<Instant>,
    pub(super) cost: Option<f64>,
}

impl<T: DeviceCopy, U: DeviceCopy> Shared<T, U> {
    /// An item comes. If the device has nothing to do and no more is about to come, its batch is launched here, or by whoever has the
    /// lock. If it may not wait, that is its answer.
    pub(super) fn take_in(&self, line: LineId, wanted: Wanted<T>) -> Result<InLine<T, U>> {
        Inner::check_process()?;
        let Wanted { item, deadline, cost } = wanted;
        let len = item.len()?;
        let deadline = deadline.map(|at| at.saturating_duration_since(self.began));
        let cost = cost.unwrap_or(len as f64);
        if !(0.0..=MOST_COST).contains(&cost) {
            return Err(Error::invalid(format!(
                "an item that costs {cost}: it is a number from 0 to {MOST_COST:e}"
            )));
        }
        let bytes = item.bytes();
        let slot = Arc::new(Slot::new(item));
        let now = self.now();
        // Who came first goes first, though others may leave their messages before it. At the same nanosecond, slots differ.
        let number = now.as_nanos() << 64 | Arc::as_ptr(&slot).addr() as u128;
        let ticket = Ticket::new(line, deadline, number);
        let key = Queued { slot: slot.clone(), cost };
        self.hand_in(Message::Came(now, line, Item { key, bytes, cost, deadline, number }));
        Ok(InLine { slot, ticket, has_deadline: deadline.is_some(), is_awaited: false })
    }

    /// A caller has its answer. If one with a deadline has waited for that for long, later promises allow for it.
    pub(super) fn fetched(&self, own: &InLine<T, U>, answer: &Result<Answer<U>>) {
        if !own.has_deadline || !own.is_awaited {
            return;
        }
        let delay = answer.as_ref().map_or(Duration::ZERO, Answer::age);
        if delay > FETCHED_SOON {
            self.post(Message::Fetched(delay));
        }
    }

    /// An item's caller goes. A batch that is closing just now finds nobody in the slot.
    pub(super) fn give_up(&self, own: &InLine<T, U>) {
        let was_wanted = own.slot.abandon();
        self.post(Message::Gone { ticket: own.ticket, was_wanted });
    }
}
