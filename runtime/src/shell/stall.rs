//! The stall report: who waits for whom, with both source lines.
//!
//! Waiting behind a host guard, a host task or an outside future is never an error by itself: the program may be about
//! to let go. So after a while a warning names both sides, once, and the work goes on waiting. A test may ask for an
//! error instead ([`DeadlockPolicy`]), which comes once nothing but the program itself could let anybody go on.

use std::panic::Location;
use std::sync::{Arc, Weak};
use std::time::Duration;

use slab::Slab;
use windlass_sync::facade::{Mutex, lock};

use crate::error::stall::{Holder, Stall, Waiter};
use crate::error::{Cause, Error, Kind};
use crate::shell::queue::QueueCore;
use crate::shell::report::log;
use crate::shell::work::Work;
use crate::shell::{Inner, State};
use windlass_engine::Held;

/// What becomes of work behind host guards once nothing else is going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeadlockPolicy {
    /// It waits: whoever holds the guard may be about to let go.
    #[default]
    Report,
    /// It fails. For tests, in which an error says more than a hang.
    Error,
}

/// How often a runtime looks, and when it starts to speak.
#[derive(Debug)]
pub(crate) struct Watch {
    after: Duration,
    policy: DeadlockPolicy,
    state: Mutex<WatchState>,
}

#[derive(Debug, Default)]
struct WatchState {
    started: bool,
    ticks: u32,
    told: Vec<Stall>,
    /// Waiters for room in a queue.
    ready: Slab<ReadyWait>,
}

/// Somebody waits for room in a queue.
#[derive(Debug)]
struct ReadyWait {
    at: &'static Location<'static>,
    since: u32,
    queue: Weak<QueueCore>,
}

/// Ticks in the time after which a wait is reported.
const TICKS: u32 = 5;

impl Watch {
    pub(crate) fn new(after: Duration, policy: DeadlockPolicy) -> Self {
        Watch { after, policy, state: Mutex::default() }
    }

    /// Notes who waits for room in a queue; the key is for [`Watch::end_wait`].
    pub(crate) fn waits(&self, queue: &Arc<QueueCore>, at: &'static Location<'static>) -> usize {
        self.start(&queue.inner);
        let mut state = lock(&self.state);
        let since = state.ticks;
        state.ready.insert(ReadyWait { at, since, queue: Arc::downgrade(queue) })
    }

    /// That wait is over.
    pub(crate) fn end_wait(&self, key: usize) {
        let over = lock(&self.state).ready.try_remove(key);
        drop(over);
    }

    /// Those who have waited for room in a queue for at least this many ticks, by queue.
    fn full_queues(&self, ticks: u32) -> Vec<Stall> {
        let state = lock(&self.state);
        let mut queues: Vec<(&Weak<QueueCore>, Stall)> = Vec::new();
        for (_, wait) in state.ready.iter().filter(|(_, wait)| state.ticks - wait.since >= ticks) {
            match queues.iter_mut().find(|(queue, _)| queue.ptr_eq(&wait.queue)) {
                Some((_, stall)) => stall.count += 1,
                None => {
                    let stall = Stall {
                        holder: Holder::Credits,
                        holder_at: None,
                        waiter: Waiter::Submission,
                        waiting: None,
                        waiting_at: Some(wait.at),
                        count: 1,
                    };
                    queues.push((&wait.queue, stall));
                }
            }
        }
        queues.into_iter().map(|(_, stall)| stall).collect()
    }

    /// Starts to look, when something is held back for the first time.
    pub(crate) fn start(&self, inner: &Arc<Inner>) {
        let mut state = lock(&self.state);
        if std::mem::replace(&mut state.started, true) || inner.manual {
            return;
        }
        drop(state);
        let (weak, tick) = (Arc::downgrade(inner), self.after / TICKS);
        let watch = move || while look(&weak, tick) {};
        // Without a thread to spare there is no report, and nothing else is lost.
        drop(std::thread::Builder::new().name("windlass-watch".into()).spawn(watch));
    }
}

/// One look; false when the runtime is gone.
fn look(inner: &Weak<Inner>, tick: Duration) -> bool {
    std::thread::sleep(tick);
    let Some(inner) = inner.upgrade() else { return false };
    inner.enter(|state, _| state.engine.tick());
    lock(&inner.watch.state).ticks += 1;
    let stalls = report(&inner, TICKS);
    let mut state = lock(&inner.watch.state);
    let news: Vec<Stall> = stalls.iter().filter(|s| !state.told.contains(s)).cloned().collect();
    state.told = stalls;
    drop(state);
    for stall in news {
        log(|| tracing::warn!(%stall, "work has been waiting for {:?}", tick * TICKS));
    }
    let stuck = !lock(&inner.watch.state).told.is_empty();
    if stuck {
        break_deadlock(&inner);
    }
    true
}

/// Where a test has asked for that, fails what only the end of a guard could let go on.
pub(crate) fn break_deadlock(inner: &Arc<Inner>) {
    if inner.watch.policy != DeadlockPolicy::Error {
        return;
    }
    // Their nodes keep their places in the order, behind the guard.
    inner.enter(|state, turn| {
        for (waiting, guard) in state.engine.deadlocked() {
            let held = Held { by: Some(guard), first: waiting, count: 1 };
            let error = Error::new(Kind::Deadlock(describe(state, &held)));
            state.engine.fail(waiting, Cause(error), turn);
        }
    });
}

/// Everything that has been held back for at least this many ticks.
pub(crate) fn report(inner: &Arc<Inner>, ticks: u32) -> Vec<Stall> {
    let mut stalls: Vec<Stall> = inner.enter(|state, _| {
        let held = state.engine.held_for(ticks);
        held.iter().map(|held| describe(state, held)).collect()
    });
    stalls.extend(inner.watch.full_queues(ticks));
    stalls
}

fn describe(state: &mut State, held: &Held) -> Stall {
    let (waiter, waiting_at, waiting) = match state.engine.work_mut(held.first) {
        Some(Work::Group(event)) => {
            (Waiter::Group, Some(event.at), event.cell.note(|n, _| n.name().map(String::from)))
        }
        Some(Work::Guard(guard)) => (Waiter::HostAccessor, Some(guard.at), None),
        _ => (Waiter::Group, None, None),
    };
    let (holder, holder_at) = match held.by.map(|by| state.engine.work_mut(by)) {
        None => (Holder::Outside, None),
        Some(Some(Work::Guard(guard))) => (Holder::Guard, Some(guard.at)),
        Some(Some(Work::Group(event))) => (Holder::Group, Some(event.at)),
        Some(_) => (Holder::Group, None),
    };
    Stall { holder, holder_at, waiter, waiting, waiting_at, count: held.count }
}
