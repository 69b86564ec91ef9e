//! What a batch's callers, its flights and its driver share: one lock over the policy and the table of calls.
//!
//! Nothing foreign runs under it: what is to be woken or dropped is taken out, and seen to after the lock.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use slab::Slab;
use windlass_batching::{BatchId, Batching, Item as Offer, Limits, LineId, Next, Refused, Ticket};
use windlass_kernel::DeviceCopy;
use windlass_sync::facade::{Mutex, MutexGuard, lock};

use super::answer::Answer;
use super::flight::{Gathered, Member};
use super::item::Item;
use crate::error::{Error, Kind, Result};
use crate::event::Event;
use crate::group::CommandGroup;
use crate::queue::Queue;
use crate::shell::waking::wake_all;

type Launch<T, U> = dyn for<'g> Fn(&CommandGroup<'g>, &Gathered<T, U>) -> Result<()> + Send + Sync;

/// How batches are computed.
pub(super) struct Recipe<T: DeviceCopy, U: DeviceCopy> {
    pub(super) queue: Queue,
    pub(super) name: Cow<'static, str>,
    pub(super) launch: Box<Launch<T, U>>,
    pub(super) answer_len: Box<dyn Fn(usize) -> usize + Send + Sync>,
    pub(super) with_starts: bool,
}

/// See the module documentation.
pub(super) struct Shared<T: DeviceCopy, U: DeviceCopy> {
    pub(super) recipe: Recipe<T, U>,
    began: Instant,
    state: Mutex<State<T, U>>,
}

pub(super) struct State<T, U> {
    pub(super) policy: Batching<usize>,
    calls: Slab<CallState<T, U>>,
    flights: HashMap<BatchId, Wants>,
    pub(super) driver: Driver,
    count: Count,
}

/// Who sees to what nobody else does: time that passes, and batches that are worth waiting for.
#[derive(Default)]
pub(super) struct Driver {
    pub(super) told: bool,
    pub(super) waker: Option<Waker>,
    /// When it will look by itself.
    pub(super) until: Option<Duration>,
}

impl Driver {
    /// It is to look. Who gets a waker wakes it, after the lock.
    fn tell(&mut self) -> Option<Waker> {
        self.told = true;
        self.waker.take()
    }
}

/// Callers of a flight that still want their answers.
struct Wants {
    callers: usize,
    event: Option<Event>,
}

enum CallState<T, U> {
    Waiting { ticket: Ticket, item: Item<T>, cost: f64, waker: Option<Waker> },
    Flying { flight: BatchId, waker: Option<Waker> },
    /// In a part of a batch that failed, on its own or to be launched again.
    Retried { waker: Option<Waker> },
    Done(Result<Answer<U>>),
    /// Its caller has gone.
    Abandoned,
}

#[derive(Default)]
struct Count {
    items: u64,
    batches: u64,
    refused: u64,
    expired: u64,
    abandoned: u64,
    retried: u64,
}

/// What a batch has done, has and has learned.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BatchStats {
    /// Items that were launched.
    pub items: u64,
    /// Batches that were launched.
    pub batches: u64,
    /// Items that were refused when they came.
    pub refused: u64,
    /// Items whose deadlines passed while they waited.
    pub expired: u64,
    /// Items whose callers went before they had an answer.
    pub abandoned: u64,
    /// Launches of parts of batches that had failed.
    pub retried: u64,
    /// Items that wait just now.
    pub waiting: usize,
    /// Batches that are on the device just now.
    pub in_flight: usize,
    /// What each batch takes beside what its items do, as far as has been learned.
    pub time_per_batch: Duration,
    /// What each unit of cost takes: each element, unless items were handed in with costs of their own.
    pub time_per_cost: Duration,
    /// Items queue for longer than the patience that was asked for, and the newest go first.
    pub is_overloaded: bool,
}

/// An item, and what is asked of its answer.
pub(super) struct Wanted<T> {
    pub(super) item: Item<T>,
    pub(super) deadline: Option<Instant>,
    pub(super) cost: Option<f64>,
}

/// What whoever looks after the batch has to do next.
pub(super) enum Then<T> {
    Launch(BatchId, Vec<Member<T>>),
    LookAgain,
    Wait,
}

impl<T: DeviceCopy, U: DeviceCopy> Shared<T, U> {
    pub(super) fn new(recipe: Recipe<T, U>, limits: Limits) -> Self {
        let state = State {
            policy: Batching::new(limits),
            calls: Slab::new(),
            flights: HashMap::new(),
            driver: Driver::default(),
            count: Count::default(),
        };
        Shared { recipe, began: Instant::now(), state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<T, U>> {
        lock(&self.state)
    }

    /// The policy's clock.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// An item comes. If the device has nothing to do and no more is about to come, its batch is launched here.
    pub(super) fn take_in(self: &Arc<Self>, line: LineId, wanted: Wanted<T>) -> Result<usize> {
        let Wanted { item, deadline, cost } = wanted;
        let len = item.len()?;
        let deadline = deadline.map(|at| at.saturating_duration_since(self.began));
        let cost = cost.unwrap_or(len as f64);
        if !(cost >= 0.0 && cost.is_finite()) {
            return Err(Error::invalid(format!("an item that costs {cost}: it is a number from zero on")));
        }
        let mut state = self.state();
        let entry = state.calls.vacant_key();
        let offer = Offer { key: entry, bytes: len * size_of::<T>(), cost, deadline };
        let now = self.now();
        let ticket = match state.policy.offer(now, line, offer) {
            Ok(ticket) => ticket,
            Err(refused) => {
                state.count.refused += 1;
                return Err(state.refusal(refused, &offer));
            }
        };
        let key = state.calls.insert(CallState::Waiting { ticket, item, cost, waker: None });
        debug_assert_eq!(key, entry);
        let (then, late) = state.next(now);
        let tell = match then {
            Then::LookAgain => state.driver.tell(),
            // The driver sleeps until the earliest deadline that it knew of.
            _ if deadline.is_some_and(|at| state.driver.until.is_none_or(|until| at < until)) => state.driver.tell(),
            _ => None,
        };
        drop(state);
        wake_all(late.into_iter().chain(tell));
        if let Then::Launch(id, members) = then {
            self.launch(id, members);
        }
        Ok(key)
    }

    pub(super) fn poll_answer(&self, key: usize, waker: &Waker) -> Poll<Result<Answer<U>>> {
        let mut state = self.state();
        let slot = match &mut state.calls[key] {
            CallState::Waiting { waker, .. } | CallState::Flying { waker, .. } | CallState::Retried { waker } => waker,
            CallState::Done(_) => {
                let CallState::Done(answer) = state.calls.remove(key) else { unreachable!("it is done") };
                return Poll::Ready(answer);
            }
            CallState::Abandoned => unreachable!("who has gone polls no more"),
        };
        if !slot.as_ref().is_some_and(|old| old.will_wake(waker)) {
            let old = slot.replace(waker.clone());
            drop(state);
            drop(old);
        }
        Poll::Pending
    }

    /// Its caller goes.
    pub(super) fn give_up(&self, key: usize) {
        let mut state = self.state();
        let left = mem::replace(&mut state.calls[key], CallState::Abandoned);
        state.count.abandoned += u64::from(!matches!(left, CallState::Done(_)));
        let mut event = None;
        match &left {
            CallState::Waiting { ticket, .. } => {
                state.policy.withdraw(*ticket);
                state.calls.remove(key);
            }
            CallState::Flying { flight, .. } => {
                if let Some(wants) = state.flights.get_mut(flight) {
                    wants.callers -= 1;
                    // Nobody wants any of it.
                    event = wants.event.clone().filter(|_| wants.callers == 0);
                }
            }
            CallState::Done(_) => drop(state.calls.remove(key)),
            CallState::Retried { .. } | CallState::Abandoned => {}
        }
        drop(state);
        if let Some(event) = event {
            event.cancel();
        }
        drop(left);
    }

    /// The flight's group is submitted. If all its callers have gone meanwhile, it is cancelled.
    pub(super) fn flies(&self, id: BatchId, event: &Event) {
        let mut state = self.state();
        let Some(wants) = state.flights.get_mut(&id) else { return };
        wants.event = Some(event.clone());
        let unwanted = wants.callers == 0;
        drop(state);
        if unwanted {
            event.cancel();
        }
    }

    /// A batch has ended; its members are answered by `answers`, or left to be launched again.
    pub(super) fn landed(&self, id: BatchId, members: &[Member<T>], answers: Option<Result<Arc<Vec<U>>>>) {
        let mut wakers = Vec::with_capacity(members.len() + 1);
        let mut state = self.state();
        let now = self.now();
        let is_ok = matches!(answers, Some(Ok(_)));
        state.policy.ended(now, id, is_ok);
        state.flights.remove(&id);
        for member in members {
            let next = match &answers {
                Some(Ok(all)) => CallState::Done(Ok(Answer::new(all.clone(), member.answer.clone()))),
                Some(Err(error)) => CallState::Done(Err(error.clone())),
                None => CallState::Retried { waker: None },
            };
            wakers.extend(state.put(member.key, next));
        }
        if state.policy.waiting() > 0 {
            wakers.extend(state.driver.tell());
        }
        drop(state);
        wake_all(wakers);
    }

    /// Members of a batch that failed go to the device again, as one of their own.
    pub(super) fn again(&self, members: &[Member<T>]) -> BatchId {
        let mut state = self.state();
        let cost = members.iter().map(|member| member.cost).sum();
        let id = state.policy.begin(self.now(), cost);
        state.count.retried += 1;
        let mut callers = 0;
        for member in members {
            if let CallState::Retried { waker } = &mut state.calls[member.key] {
                let waker = waker.take();
                state.calls[member.key] = CallState::Flying { flight: id, waker };
                callers += 1;
            }
        }
        state.flights.insert(id, Wants { callers, event: None });
        id
    }

    /// What is to be done now. Who has waited too long is answered.
    pub(super) fn look(&self) -> Then<T> {
        let mut state = self.state();
        let (then, late) = state.next(self.now());
        drop(state);
        wake_all(late);
        then
    }

    pub(super) fn stats(&self) -> BatchStats {
        let state = self.state();
        let (count, model) = (&state.count, state.policy.model());
        BatchStats {
            items: count.items,
            batches: count.batches,
            refused: count.refused,
            expired: count.expired,
            abandoned: count.abandoned,
            retried: count.retried,
            waiting: state.policy.waiting(),
            in_flight: state.policy.in_flight(),
            time_per_batch: model.fixed(),
            time_per_cost: model.unit(),
            is_overloaded: state.policy.is_overloaded(),
        }
    }
}

impl<T, U> State<T, U> {
    /// What is to be done now, and who is to be woken because they have waited too long.
    fn next(&mut self, now: Duration) -> (Then<T>, Vec<Waker>) {
        let next = self.policy.next(now);
        let late = self.policy.overdue(now);
        let late = late.into_iter().filter_map(|key| {
            self.count.expired += 1;
            let error = Error::new(Kind::Timeout("the item's deadline passed before a batch could take it".into()));
            self.put(key, CallState::Done(Err(error)))
        });
        let late = late.collect();
        let then = match next {
            Next::Launch(id, keys) => Then::Launch(id, self.take_off(id, keys)),
            Next::LookAgain => Then::LookAgain,
            Next::Wait => Then::Wait,
        };
        (then, late)
    }

    /// Items are on their way to the device.
    fn take_off(&mut self, id: BatchId, keys: Vec<usize>) -> Vec<Member<T>> {
        self.count.batches += 1;
        self.count.items += keys.len() as u64;
        self.flights.insert(id, Wants { callers: keys.len(), event: None });
        let members = keys.into_iter().map(|key| {
            let call = &mut self.calls[key];
            let CallState::Waiting { waker, .. } = call else { unreachable!("the policy has those that wait") };
            let flying = CallState::Flying { flight: id, waker: waker.take() };
            let CallState::Waiting { item, cost, .. } = mem::replace(call, flying) else { unreachable!("seen above") };
            Member { key, item, cost, answer: 0..0 }
        });
        members.collect()
    }

    /// Moves a call on, unless its caller has gone; says who is to be woken.
    fn put(&mut self, key: usize, mut next: CallState<T, U>) -> Option<Waker> {
        let call = &mut self.calls[key];
        let waker = match call {
            CallState::Waiting { waker, .. } | CallState::Flying { waker, .. } | CallState::Retried { waker } => waker.take(),
            CallState::Abandoned => {
                if !matches!(next, CallState::Retried { .. }) {
                    self.calls.remove(key);
                }
                return None;
            }
            CallState::Done(_) => return None,
        };
        if let CallState::Retried { waker: kept } = &mut next {
            *kept = waker;
            *call = next;
            return None;
        }
        *call = next;
        waker
    }

    fn refusal(&self, refused: Refused, offer: &Offer<usize>) -> Error {
        let overloaded = |what, wait| Error::new(Kind::Overloaded { what, wait });
        match refused {
            Refused::Full(wait) => overloaded("as many items wait for a batch as may", wait),
            Refused::Late(wait) => overloaded("the item would be late", wait),
            Refused::TooLarge => Error::invalid(format!(
                "an item of {} bytes, where a batch may have {}: raise `max_bytes`",
                offer.bytes,
                self.policy.limits().bytes
            )),
        }
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Drop for Shared<T, U> {
    fn drop(&mut self) {
        // The driver ends when it finds nobody.
        let waker = self.state().driver.tell();
        wake_all(waker);
    }
}

impl<T: DeviceCopy, U: DeviceCopy> fmt::Debug for Shared<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("name", &self.recipe.name).field("stats", &self.stats()).finish()
    }
}
