//! What a batch's callers, its flights and its keeper share: one lock over the policy.
//!
//! Nothing foreign runs under it: what is to be woken or dropped is taken out, and seen to after the lock. What becomes of one
//! item is in its own [`Slot`], so that callers who look for their answers do not meet at that lock.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_batching::{BatchId, Batching, Item as Offer, Limits, LineId, MOST_COST, Next, Refused, Ticket};
use windlass_kernel::DeviceCopy;
use windlass_sync::facade::{Mutex, MutexGuard, lock};
use windlass_sync::forked;

use super::answer::Answer;
use super::flight::{Gathered, Landing, Member};
use super::keeper::Bell;
use super::payload::Payload;
use super::slot::{Slot, Wants};
use crate::error::{Error, Kind, Result};
use crate::group::CommandGroup;
use crate::queue::Queue;
use crate::shell::Inner;
use crate::shell::waking::wake_all;

type Launch<T, U> = dyn for<'g> Fn(&CommandGroup<'g>, &Gathered<T, U>) -> Result<()> + Send + Sync;

/// How often the keeper looks as long as it does.
const PATROL: Duration = Duration::from_millis(2);

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

/// An item that waits: where its answer goes, and what it costs.
pub(super) struct Queued<T, U: DeviceCopy> {
    slot: Arc<Slot<T, U>>,
    cost: f64,
}

pub(super) struct State<T, U: DeviceCopy> {
    pub(super) policy: Batching<Queued<T, U>>,
    pub(super) keeper: Bell,
    /// When the keeper will look by itself.
    pub(super) looks_at: Option<Duration>,
    pub(super) clerk: Bell,
    /// The clerk is about to look what is to be done, as soon as those have come again who have just been answered.
    clerk_looks: bool,
    /// The keeper looks now and then whether the clerk comes: its threads may have other things to do, and others wait for it.
    patrols: bool,
    /// For the clerk to hand out.
    landings: VecDeque<Landing<T, U>>,
    count: Count,
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

/// What a caller has of its item that waits.
pub(super) struct InLine<T, U: DeviceCopy> {
    pub(super) slot: Arc<Slot<T, U>>,
    ticket: Ticket,
    /// If there is a deadline: how long it was expected to take from the batch's end until its caller has the answer.
    fetching: Option<Duration>,
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
    pub(super) fn new(recipe: Recipe<T, U>, limits: Limits) -> Self {
        let state = State {
            policy: Batching::new(limits),
            keeper: Bell::default(),
            looks_at: None,
            clerk: Bell::default(),
            clerk_looks: false,
            patrols: false,
            landings: VecDeque::new(),
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
    pub(super) fn take_in(self: &Arc<Self>, line: LineId, wanted: Wanted<T>) -> Result<InLine<T, U>> {
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
        let slot = Arc::new(Slot::new(item));
        let key = Queued { slot: slot.clone(), cost };
        let offer = Offer { key, bytes: len * size_of::<T>(), cost, deadline };
        let mut state = self.state();
        let now = self.now();
        let bytes = offer.bytes;
        let ticket = match state.policy.offer(now, line, offer) {
            Ok(ticket) => ticket,
            Err(refused) => {
                state.count.refused += 1;
                return Err(state.refusal(refused, bytes));
            }
        };
        let (next, late) = state.next(now);
        let is_for_keeper = match next {
            Next::LookAgain => !state.clerk_looks,
            // It sleeps until the earliest deadline that it knew of.
            _ if state.policy.waiting() == 0 => false,
            _ => deadline.is_some_and(|at| state.looks_at.is_none_or(|looks_at| at < looks_at)),
        };
        let ring = if is_for_keeper { state.keeper.ring() } else { None };
        let fetching = deadline.map(|_| state.policy.fetching());
        drop(state);
        wake_all(ring);
        say_late(late);
        if let Next::Launch(id, queued) = next {
            self.launch(id, queued);
        }
        Ok(InLine { slot, ticket, fetching, is_awaited: false })
    }

    /// A caller has its answer. If that has taken longer than was expected, later promises allow for it.
    pub(super) fn fetched(&self, own: &InLine<T, U>, answer: &Result<Answer<U>>) {
        let (Some(expected), Ok(answer)) = (own.fetching, answer) else { return };
        let delay = answer.age();
        if own.is_awaited && delay > expected {
            self.state().policy.fetched(delay);
        }
    }

    /// An item's caller goes. A batch that is closing just now finds nobody in the slot.
    pub(super) fn give_up(&self, own: &InLine<T, U>) {
        let was_wanted = own.slot.abandon();
        let mut state = self.state();
        state.count.abandoned += u64::from(was_wanted);
        let waited = state.policy.withdraw(own.ticket);
        drop(state);
        drop(waited);
    }

    /// Items are on their way to the device: who still wants them.
    pub(super) fn take_off(queued: Vec<Queued<T, U>>) -> (Vec<Member<T, U>>, Arc<Wants>) {
        let wants = Arc::new(Wants::default());
        let members = queued.into_iter().filter_map(|Queued { slot, cost }| {
            let item = slot.take_off(&wants)?;
            Some(Member { slot: Some(slot), item, cost, answer: 0..0 })
        });
        let members: Vec<_> = members.collect();
        wants.come(members.len());
        (members, wants)
    }

    /// A batch has ended. Many answers are handed out by the clerk, who is nearer to those who wait for them than the thread that has
    /// seen the end.
    pub(super) fn ended(&self, id: BatchId, is_ok: bool, many: Vec<Landing<T, U>>) {
        let mut state = self.state();
        let now = self.now();
        state.policy.ended(now, id, is_ok);
        let (is_clerks, waits) = (!many.is_empty(), state.policy.waiting() > 0);
        state.landings.extend(many);
        state.clerk_looks |= is_clerks;
        let hand_out = if is_clerks { state.clerk.ring() } else { None };
        // The clerk sees to those who wait, too, and the keeper to the clerk.
        let begins_patrol = is_clerks && !state.patrols;
        state.patrols |= is_clerks;
        let look = if begins_patrol || (waits && !is_clerks) { state.keeper.ring() } else { None };
        drop(state);
        wake_all([look, hand_out].into_iter().flatten());
    }

    /// Members of a batch that failed go to the device again, as one of their own.
    pub(super) fn again(&self, members: &[Member<T, U>]) -> BatchId {
        let mut state = self.state();
        state.count.retried += 1;
        let now = self.now();
        state.policy.begin(now, members.iter().map(|member| member.cost).sum())
    }

    /// What is to be done now. Who has waited too long is answered.
    pub(super) fn look(&self) -> Next<Queued<T, U>> {
        let mut state = self.state();
        let now = self.now();
        let (next, late) = state.next(now);
        drop(state);
        say_late(late);
        next
    }

    /// The same by the clerk, who is done when there is nothing to do or there are answers to hand out.
    pub(super) fn look_as_clerk(&self) -> Next<Queued<T, U>> {
        let mut state = self.state();
        if !state.landings.is_empty() {
            return Next::Wait;
        }
        let now = self.now();
        let (next, late) = state.next(now);
        state.clerk_looks = !matches!(next, Next::Wait);
        // Those who came meanwhile left their deadlines to the clerk.
        let deadline = state.policy.earliest_deadline();
        let is_earlier = deadline.is_some_and(|at| state.looks_at.is_none_or(|looks_at| at < looks_at));
        let ring = if is_earlier && !state.clerk_looks { state.keeper.ring() } else { None };
        drop(state);
        wake_all(ring);
        say_late(late);
        next
    }

    /// Some answers that are to be handed out, and how many more such parts there are.
    pub(super) fn next_landing(&self) -> Option<(Landing<T, U>, usize)> {
        let mut state = self.state();
        let landing = state.landings.pop_front()?;
        Some((landing, state.landings.len()))
    }

    /// What the clerk should have handed out long since.
    pub(super) fn overdue_landing(&self) -> Option<Landing<T, U>> {
        let mut state = self.state();
        let is_overdue = state.landings.front().is_some_and(|landing| landing.since.elapsed() >= PATROL);
        if is_overdue { state.landings.pop_front() } else { None }
    }

    /// How long the keeper may sleep: until a deadline passes or its patrol is due, and if there is neither until the bell rings.
    pub(super) fn until_next(&self) -> Option<Duration> {
        let mut state = self.state();
        let deadline = state.policy.earliest_deadline();
        state.looks_at = deadline;
        // A clerk that is about to look may not come to that, and whoever hands in an item leaves it to the clerk.
        let is_idle = !state.clerk_looks
            && state.policy.waiting() == 0
            && state.policy.in_flight() == 0
            && state.landings.is_empty();
        state.patrols &= !is_idle;
        let patrol = state.patrols.then_some(PATROL);
        let deadline = deadline.map(|deadline| deadline.saturating_sub(self.now()));
        deadline.into_iter().chain(patrol).min()
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

impl<T, U: DeviceCopy> State<T, U> {
    /// What is to be done now, and who has waited too long.
    fn next(&mut self, now: Duration) -> (Next<Queued<T, U>>, Vec<Queued<T, U>>) {
        let next = self.policy.next(now);
        let late = self.policy.missed();
        self.count.expired += late.len() as u64;
        if let Next::Launch(_, queued) = &next {
            self.count.batches += 1;
            self.count.items += queued.len() as u64;
        }
        (next, late)
    }

    fn refusal(&self, refused: Refused, bytes: usize) -> Error {
        let overloaded = |what, wait| Error::new(Kind::Overloaded { what, wait });
        match refused {
            Refused::Full(wait) => overloaded("as many items wait for a batch as may", wait),
            Refused::Late(wait) => overloaded("the item would be late", wait),
            Refused::TooLarge => Error::invalid(format!(
                "an item of {bytes} bytes, where a batch may have {}: raise `max_bytes`",
                self.policy.limits().bytes
            )),
        }
    }
}

fn say_late<T, U: DeviceCopy>(late: Vec<Queued<T, U>>) {
    for queued in late {
        let what = "the item's deadline passed before a batch could take it";
        wake_all(queued.slot.answer(Err(Error::new(Kind::Timeout(what.into()))), Payload::from(Vec::new())));
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Drop for Shared<T, U> {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        // Keeper and clerk end when they find nobody.
        let mut state = self.state();
        let rings = [state.keeper.ring(), state.clerk.ring()];
        drop(state);
        wake_all(rings.into_iter().flatten());
    }
}

impl<T: DeviceCopy, U: DeviceCopy> fmt::Debug for Shared<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("name", &self.recipe.name).field("stats", &self.stats()).finish()
    }
}
