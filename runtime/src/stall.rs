//! The stall report: who waits for whom, with both source lines.
//!
//! Waiting behind a host guard, a host task or an outside future is never an error by itself: the program may be about
//! to let go. So after a while a warning names both sides, once, and the work goes on waiting.

use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Weak};
use std::time::Duration;

use windlass_sync::facade::{Mutex, lock};

use crate::engine::Held;
use crate::shell::work::Work;
use crate::shell::{Inner, State};

/// Something that has been waiting for long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// What it waits for, as far as the runtime knows.
    pub holder: Holder,
    /// Where the thing that holds others up was asked for.
    pub holder_at: Option<&'static Location<'static>>,
    /// The name of the group that waits, if it has one.
    pub waiting: Option<String>,
    /// Where the first of those that wait was submitted.
    pub waiting_at: Option<&'static Location<'static>>,
    /// How many wait.
    pub count: usize,
}

/// What holds others up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A host accessor's guard that is still alive.
    Guard,
    /// A group or host task that is running, or is with its device.
    Group,
    /// A future given to `after`, a kernel build or an allocation.
    Outside,
    /// The queue's limit of groups in flight.
    Credits,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.waiting.as_deref().unwrap_or("a group");
        write!(f, "{} waiting", self.count)?;
        if let Some(at) = self.waiting_at {
            write!(f, ", first {name} submitted at {at},")?;
        }
        match self.holder {
            Holder::Guard => f.write_str(" for a host guard that is held")?,
            Holder::Group => f.write_str(" for a group that has not ended")?,
            Holder::Outside => f.write_str(" for a future, a build or memory")?,
            Holder::Credits => f.write_str(" for room in a queue")?,
        }
        match self.holder_at {
            Some(at) => write!(f, ", asked for at {at}"),
            None => Ok(()),
        }
    }
}

/// How often a runtime looks, and when it starts to speak.
#[derive(Debug)]
pub(crate) struct Watch {
    after: Duration,
    state: Mutex<WatchState>,
}

#[derive(Debug, Default)]
struct WatchState {
    started: bool,
    told: Vec<Stall>,
}

/// Ticks in the time after which a wait is reported.
const TICKS: u32 = 5;

impl Watch {
    pub(crate) fn new(after: Duration) -> Self {
        Watch { after, state: Mutex::default() }
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
    let stalls = report(&inner, TICKS);
    let mut state = lock(&inner.watch.state);
    let news: Vec<Stall> = stalls.iter().filter(|s| !state.told.contains(s)).cloned().collect();
    state.told = stalls;
    drop(state);
    for stall in news {
        tracing::warn!(%stall, "work has been waiting for {:?}", tick * TICKS);
    }
    true
}

/// Everything that has been held back for at least this many ticks.
pub(crate) fn report(inner: &Arc<Inner>, ticks: u32) -> Vec<Stall> {
    inner.enter(|state, _| state.engine.held_for(ticks).iter().map(|held| describe(state, held)).collect())
}

fn describe(state: &mut State, held: &Held) -> Stall {
    let (waiting_at, waiting) = match state.engine.work_mut(held.first) {
        Some(Work::Group(event)) => {
            (Some(event.at), event.cell.note(|n, _| n.name.as_deref().map(str::to_owned)))
        }
        Some(Work::Guard(guard)) => (Some(guard.at), None),
        _ => (None, None),
    };
    let (holder, holder_at) = match held.by.map(|by| state.engine.work_mut(by)) {
        None => (Holder::Outside, None),
        Some(Some(Work::Guard(guard))) => (Holder::Guard, Some(guard.at)),
        Some(Some(Work::Group(event))) => (Holder::Group, Some(event.at)),
        Some(_) => (Holder::Group, None),
    };
    Stall { holder, holder_at, waiting, waiting_at, count: held.count }
}
