//! What a batch's callers, its flights and its keeper share: one lock over the policy.
//!
//! Nothing foreign runs under it: what is to be woken, dropped or launched is taken out, and seen to after the lock ([`Turn`]). Callers
//! do not wait for it: they leave a message, and whoever has the lock takes in what has come. What becomes of one item
//! is in its own [`Slot`](super::slot::Slot), so that callers who look for their answers do not meet there either.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use windlass_batching::{BatchId, Batching, Limits, Next, Refused};
use windlass_kernel::DeviceCopy;
use windlass_sync::combining::CombiningLock;
use windlass_sync::forked;

use super::coming::{Message, Queued};
use super::flight::{Gathered, Landing, Member};
use super::keeper::Bell;
use super::slot::Wants;
use super::turn::Turn;
use crate::error::{Error, Kind, Result};
use crate::group::CommandGroup;
use crate::queue::Queue;
use crate::shell::pinned::PinnedPlace;
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
    /// Where items are gathered for the queue's device, if not anywhere.
    pub(super) gathered_in: Option<PinnedPlace>,
}

/// See the module documentation.
pub(super) struct Shared<T: DeviceCopy, U: DeviceCopy> {
    pub(super) recipe: Recipe<T, U>,
    /// Whoever comes may find a batch to launch, which goes on beside whatever it has borrowed this from.
    this: Weak<Shared<T, U>>,
    pub(super) began: Instant,
    state: CombiningLock<State<T, U>, Message<T, U>>,
}

pub(super) struct State<T, U: DeviceCopy> {
    pub(super) policy: Batching<Queued<T, U>>,
    pub(super) keeper: Bell,
    /// When the keeper will look by itself.
    pub(super) looks_at: Option<Duration>,
    pub(super) clerk: Bell,
    /// The clerk is about to look what is to be done, as soon as those have come again who have just been answered.
    pub(super) clerk_looks: bool,
    /// The keeper looks now and then whether the clerk comes: its threads may have other things to do, and others wait for it.
    patrols: bool,
    /// For the clerk to hand out.
    landings: VecDeque<Landing<T, U>>,
    pub(super) count: Count,
}

#[derive(Default)]
pub(super) struct Count {
    items: u64,
    batches: u64,
    pub(super) refused: u64,
    expired: u64,
    pub(super) abandoned: u64,
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
    /// Items that were refused: when they came, or since another tenant's item had the place instead, which had fewer than its share.
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

impl<T: DeviceCopy, U: DeviceCopy> Shared<T, U> {
    pub(super) fn new(recipe: Recipe<T, U>, limits: Limits) -> Arc<Self> {
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
        let state = CombiningLock::new(state);
        Arc::new_cyclic(|this| Shared { recipe, this: this.clone(), began: Instant::now(), state })
    }

    /// Takes the lock, and then does what was left to do when it was released.
    pub(super) fn enter<R>(&self, work: impl FnOnce(&mut State<T, U>, &mut Turn<'_, T, U>) -> R) -> R {
        self.state.with(&mut Turn::new(self, false), work)
    }

    /// Leaves a message, and waits for nobody.
    pub(super) fn post(&self, message: Message<T, U>) {
        self.state.post(message, &mut Turn::new(self, false));
    }

    /// Leaves an item. If nobody has the lock its batch may be launched here, and those of others who have left theirs.
    pub(super) fn hand_in(&self, message: Message<T, U>) {
        self.state.post(message, &mut Turn::new(self, true));
    }

    /// To go on with beside a borrow. `None` while it is dropped.
    pub(super) fn this(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    /// The policy's clock.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
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
        self.enter(|state, turn| {
            let now = self.now();
            state.policy.ended(now, id, is_ok);
            let (is_clerks, waits) = (!many.is_empty(), state.policy.waiting() > 0);
            state.landings.extend(many);
            state.clerk_looks |= is_clerks;
            if is_clerks {
                turn.wakes(state.clerk.ring());
            }
            // The clerk sees to those who wait, too, and the keeper to the clerk.
            let begins_patrol = is_clerks && !state.patrols;
            state.patrols |= is_clerks;
            if begins_patrol || (waits && !is_clerks) {
                turn.wakes(state.keeper.ring());
            }
        });
    }

    /// Members of a batch that failed go to the device again, as one of their own.
    pub(super) fn again(&self, members: &[Member<T, U>]) -> BatchId {
        self.enter(|state, _| {
            state.count.retried += 1;
            state.policy.begin(self.now(), members.iter().map(|member| member.cost).sum())
        })
    }

    /// What is to be done now. Who has waited too long is answered.
    pub(super) fn look(&self) -> Next<Queued<T, U>> {
        self.enter(|state, turn| state.next(self.now(), turn))
    }

    /// The same by the clerk, who is done when there is nothing to do or there are answers to hand out.
    pub(super) fn look_as_clerk(&self) -> Next<Queued<T, U>> {
        self.enter(|state, turn| {
            if !state.landings.is_empty() {
                return Next::Wait;
            }
            let next = state.next(self.now(), turn);
            state.clerk_looks = !matches!(next, Next::Wait);
            // Those who came meanwhile left their deadlines to the clerk.
            if !state.clerk_looks && state.has_earlier_deadline() {
                turn.wakes(state.keeper.ring());
            }
            next
        })
    }

    /// Some answers that are to be handed out, and how many more such parts there are.
    pub(super) fn next_landing(&self) -> Option<(Landing<T, U>, usize)> {
        self.enter(|state, _| Some((state.landings.pop_front()?, state.landings.len())))
    }

    /// What the clerk should have handed out long since.
    pub(super) fn overdue_landing(&self) -> Option<Landing<T, U>> {
        self.enter(|state, _| {
            let is_overdue = state.landings.front().is_some_and(|landing| landing.since.elapsed() >= PATROL);
            if is_overdue { state.landings.pop_front() } else { None }
        })
    }

    /// How long the keeper may sleep: until a deadline passes or its patrol is due, and if there is neither until the bell rings.
    pub(super) fn until_next(&self) -> Option<Duration> {
        self.enter(|state, _| {
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
        })
    }

    pub(super) fn stats(&self) -> BatchStats {
        self.enter(|state, _| state.stats())
    }
}

impl<T: DeviceCopy, U: DeviceCopy> State<T, U> {
    /// What is to be done now. Who has waited too long is left to the turn to tell.
    pub(super) fn next(&mut self, now: Duration, turn: &mut Turn<'_, T, U>) -> Next<Queued<T, U>> {
        let next = self.policy.next(now);
        turn.has_looked();
        let late = self.policy.missed();
        self.count.expired += late.len() as u64;
        turn.late(late);
        if let Next::Launch(_, queued) = &next {
            self.count.batches += 1;
            self.count.items += queued.len() as u64;
        }
        next
    }

    /// The keeper sleeps until the earliest deadline that it knew of, and there is an earlier one.
    pub(super) fn has_earlier_deadline(&self) -> bool {
        let deadline = self.policy.earliest_deadline();
        deadline.is_some_and(|at| self.looks_at.is_none_or(|looks_at| at < looks_at))
    }

    fn stats(&self) -> BatchStats {
        let (count, model) = (&self.count, self.policy.model());
        BatchStats {
            items: count.items,
            batches: count.batches,
            refused: count.refused,
            expired: count.expired,
            abandoned: count.abandoned,
            retried: count.retried,
            waiting: self.policy.waiting(),
            in_flight: self.policy.in_flight(),
            time_per_batch: model.fixed(),
            time_per_cost: model.unit(),
            is_overloaded: self.policy.is_overloaded(),
        }
    }

    pub(super) fn refusal(&self, refused: Refused, bytes: usize) -> Error {
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

impl<T: DeviceCopy, U: DeviceCopy> Drop for Shared<T, U> {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        // Keeper and clerk end when they find nobody.
        let state = self.state.get_mut();
        wake_all([state.keeper.ring(), state.clerk.ring()].into_iter().flatten());
    }
}

impl<T: DeviceCopy, U: DeviceCopy> fmt::Debug for Shared<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("name", &self.recipe.name).field("stats", &self.stats()).finish()
    }
}
