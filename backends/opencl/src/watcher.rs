//! The watcher: a thread that watches a lane's armed points, as an alternative to callbacks.
//!
//! It waits for them, or asks for them again and again, as [`Way`] says. While no point is armed it sleeps.
//!
//! The thread starts when a point is armed for the first time, and ends when its lane is dropped. It holds events, and its queue
//! only for the time of a flush.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::{Arc, Condvar, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use windlass_backend::Point;
use windlass_sync::facade::{Mutex, lock};

use crate::event::Progress;
use crate::lane::Stream;

/// How a watcher learns that a group has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By waiting for its event. OpenCL can wait for all of a set of events, but not for any of them, and a thread that waited for a
    /// late point directly could not notice that an early one is armed meanwhile. So it goes group by group: it waits for the
    /// first group that has not ended, up to the last armed point, and then reports what has been passed.
    Waiting,
    /// By asking for the status of the first armed point's event, at the intervals of a [`Pace`].
    Asking,
}

/// A lane's end of its watcher.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    way: Way,
}

struct Shared {
    state: Mutex<State>,
    /// The thread sleeps here while no point is armed.
    armed: Condvar,
}

#[derive(Default)]
struct State {
    armed: BTreeSet<Point>,
    /// Those of them that somebody waits for.
    pressing: BTreeSet<Point>,
    started: bool,
    sleep: Sleep,
    closed: bool,
}

/// What the thread is to be woken for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sleep {
    #[default]
    Awake,
    /// For a point that somebody waits for: it comes back to the others by itself.
    AtLeisure,
    /// For any point.
    Deep,
}

impl Watcher {
    pub(crate) fn new(way: Way) -> Self {
        let shared = Arc::new(Shared { state: Mutex::default(), armed: Condvar::new() });
        Watcher { shared, way }
    }

    /// Has a point reported once it is passed. Returns false if the thread could not be started.
    pub(crate) fn watch(&self, stream: &Arc<Stream>, point: Point) -> bool {
        self.add(stream, point, true)
    }

    /// Has a point that nobody waits for reported some time after it is passed. Returns false if the thread cannot do that.
    pub(crate) fn watch_at_leisure(&self, stream: &Arc<Stream>, point: Point) -> bool {
        self.way == Way::Asking && self.add(stream, point, false)
    }

    fn add(&self, stream: &Arc<Stream>, point: Point, is_pressing: bool) -> bool {
        let mut state = lock(&self.shared.state);
        if !state.started {
            let (shared, way) = (Arc::clone(&self.shared), self.way);
            let (progress, stream) = (Arc::clone(&stream.progress), Arc::downgrade(stream));
            let thread = thread::Builder::new().name("windlass-opencl".into());
            if thread.spawn(move || shared.run(&progress, &stream, way)).is_err() {
                return false;
            }
            state.started = true;
        }
        state.armed.insert(point);
        if is_pressing {
            state.pressing.insert(point);
        }
        let wakes = match state.sleep {
            Sleep::Awake => false,
            Sleep::AtLeisure => is_pressing,
            Sleep::Deep => true,
        };
        drop(state);
        if wakes {
            self.shared.armed.notify_one();
        }
        true
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        lock(&self.shared.state).closed = true;
        self.shared.armed.notify_one();
    }
}

impl Shared {
    fn run(&self, progress: &Progress, stream: &Weak<Stream>, way: Way) {
        if way == Way::Asking {
            sleep_exactly();
        }
        let (mut pace, mut pressed) = (Pace::start(), false);
        while let Some(Armed { first, last, is_pressing }) = self.armed(progress, way) {
            // Who has just come to wait is not to pay for how slowly this thread has asked before.
            if is_pressing && !pressed {
                pace = Pace::start();
            }
            pressed = is_pressing;
            let passed = match way {
                Way::Waiting => Some(wait(progress, last)),
                Way::Asking if is_pressing => self.ask(progress, stream, first, &pace),
                Way::Asking => self.ask_at_leisure(progress, stream, first, &pace),
            };
            let Some(passed) = passed else { continue };
            if let Some(point) = self.take_due(passed) {
                progress.settle(point);
            }
            pace = Pace::start();
        }
    }

    /// The first and the last armed point. While none is, looks out for one for a moment, so that who feeds one group after
    /// another need not wake this thread for each, and then sleeps. `None` once the lane was dropped.
    fn armed(&self, progress: &Progress, way: Way) -> Option<Armed> {
        let since = Instant::now();
        let mut swept = false;
        let mut state = lock(&self.state);
        loop {
            if state.closed {
                return None;
            }
            if let (Some(&first), Some(&last)) = (state.armed.first(), state.armed.last()) {
                let pressing = state.pressing.first().copied();
                let is_pressing = pressing.is_some();
                return Some(Armed { first: pressing.unwrap_or(first), last, is_pressing });
            }
            if way == Way::Asking && since.elapsed() < Pace::UNPAUSED {
                drop(state);
                Pace::spin(Pace::BRIEFLY);
                state = lock(&self.state);
            } else if !swept {
                // This thread is ours and not the driver's, so it may release what it has retired. It does so when nobody waits for
                // anything, since drivers make those who enqueue wait meanwhile.
                drop(state);
                progress.sweep();
                swept = true;
                state = lock(&self.state);
            } else {
                state.sleep = Sleep::Deep;
                state = self.armed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.sleep = Sleep::Awake;
            }
        }
    }

    /// Asks whether the first point that somebody waits for has been passed, at this pace. If so, says up to which such point all have
    /// been: one report then covers them. A point below the first may be armed meanwhile, so one call sleeps only once.
    fn ask(&self, progress: &Progress, stream: &Weak<Stream>, first: Point, pace: &Pace) -> Option<Point> {
        if !has_passed(progress, first, pace) {
            let stream = stream.upgrade()?;
            // By now the work should run, even if the driver is one that starts it without being asked to.
            stream.flush(first);
            // Others may be in front of it for whose report the lane is refilled.
            let point = self.armed_before(first)?;
            return ended(progress, &stream, point);
        }
        let mut passed = first;
        while let Some(next) = self.pressing_after(passed) {
            if progress.group_at(next).is_some_and(|group| !group.has_ended()) {
                break;
            }
            passed = next;
        }
        Some(passed)
    }

    /// Asks for points that nobody waits for, once, after a time in which nobody came to wait for one. Whoever enqueues meanwhile is not
    /// disturbed, and as a rule this finds that many groups have ended.
    fn ask_at_leisure(
        &self,
        progress: &Progress,
        stream: &Weak<Stream>,
        first: Point,
        pace: &Pace,
    ) -> Option<Point> {
        let mut state = lock(&self.state);
        if state.pressing.is_empty() && !state.closed {
            state.sleep = Sleep::AtLeisure;
            let slept = self.armed.wait_timeout(state, pace.leisure());
            (state, _) = slept.unwrap_or_else(PoisonError::into_inner);
            state.sleep = Sleep::Awake;
        }
        if !state.pressing.is_empty() || state.closed {
            return None;
        }
        drop(state);
        // What the last report has retired is released here, where nobody waits for this thread.
        progress.sweep();
        let stream = stream.upgrade()?;
        ended(progress, &stream, first)
    }

    /// The first armed point, if it lies before another one.
    fn armed_before(&self, point: Point) -> Option<Point> {
        lock(&self.state).armed.first().copied().filter(|first| *first < point)
    }

    fn pressing_after(&self, point: Point) -> Option<Point> {
        lock(&self.state).pressing.range((Bound::Excluded(point), Bound::Unbounded)).next().copied()
    }

    /// Takes all armed points up to `passed`. If there are any, one report up to there covers them all.
    fn take_due(&self, passed: Point) -> Option<Point> {
        let mut state = lock(&self.state);
        let after = Point(passed.0 + 1);
        state.pressing = state.pressing.split_off(&after);
        let later = state.armed.split_off(&after);
        std::mem::replace(&mut state.armed, later).pop_last().map(|_| passed)
    }
}

/// The first armed point, of those that somebody waits for, if there are any, and the last of all.
struct Armed {
    first: Point,
    last: Point,
    is_pressing: bool,
}

/// Asks for a point at this pace until it has been passed; false once this thread has slept.
fn has_passed(progress: &Progress, point: Point, pace: &Pace) -> bool {
    while let Some(group) = progress.group_at(point) {
        if pace.is_fresh() && progress.is_looked_at() {
            // A driver makes others wait while it answers, and a waiter asks by itself. Not for longer than this thread does without
            // sleep, since it may be another point that the waiter looks at.
            drop(group);
            Pace::spin(Pace::BRIEFLY);
        } else if group.has_ended() {
            return true;
        } else if pace.rest(progress.has_fed(Point(point.0 + 1))) {
            return false;
        }
    }
    // What others have retired this thread releases, so that who feeds next need not.
    progress.sweep();
    true
}

/// Asks once whether a point has been passed, and says up to where all has been then. If no event speaks for it by now, a marker does from
/// here on.
fn ended(progress: &Progress, stream: &Stream, point: Point) -> Option<Point> {
    let Some(group) = stream.ender(point) else { return Some(point) };
    if !group.has_ended() {
        stream.flush(group.point);
        return None;
    }
    // It may speak for more than the point, and shows then how that ended.
    let upto = group.point.max(point);
    progress.arm(upto);
    Some(upto)
}

/// Has this thread's sleeps end in time: Linux lets them take 50 us longer, by which one of 0.2 ms would be a fifth late.
fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1_000));
}

/// Waits for the first group up to a point that has not ended, and returns what has been passed then.
fn wait(progress: &Progress, last: Point) -> Point {
    let Some(group) = progress.first_under_way(last) else { return last };
    if let Some(event) = group.events.last() {
        // A failed wait means that the command failed, which `settle` reads from its status.
        let _ = event.wait();
    }
    group.point
}

/// How often a thread asks. At first it does not sleep in between, since what is short ends within that time and a thread that sleeps is
/// late by tens of microseconds; then it does, for a part of the time that it has taken so far. So a group is noticed late by
/// that part of its time at most, and what takes long costs next to nothing.
///
/// A driver makes those who enqueue wait while it answers. So where more has been fed behind the group, and the device does not run dry, the
/// thread asks less often.
#[derive(Clone, Copy, Debug)]
struct Pace {
    since: Instant,
}

impl Pace {
    const UNPAUSED: Duration = Duration::from_micros(30);
    /// Between two questions while more was fed.
    const BUSY: Duration = Duration::from_micros(40);
    /// Between two looks that cost nobody anything.
    const BRIEFLY: Duration = Duration::from_nanos(200);
    const PART: u32 = 16;
    const SHORTEST: Duration = Duration::from_micros(20);
    const LONGEST: Duration = Duration::from_millis(4);
    /// What nobody waits for is asked for no sooner than this.
    const LEISURE: Duration = Duration::from_micros(400);

    fn start() -> Self {
        Pace { since: Instant::now() }
    }

    /// How long to sleep after so much time.
    fn pause(taken: Duration) -> Option<Duration> {
        (taken >= Self::UNPAUSED).then(|| (taken / Self::PART).clamp(Self::SHORTEST, Self::LONGEST))
    }

    /// How long to sleep where nobody waits.
    fn leisure(&self) -> Duration {
        Self::pause(self.since.elapsed()).map_or(Self::LEISURE, |pause| pause.max(Self::LEISURE))
    }

    /// Whether it is too early to sleep.
    fn is_fresh(&self) -> bool {
        Self::pause(self.since.elapsed()).is_none()
    }

    /// Lets some time pass before the next question, and returns whether that was a sleep.
    fn rest(&self, is_busy: bool) -> bool {
        match Self::pause(self.since.elapsed()) {
            Some(pause) => thread::sleep(pause),
            None if is_busy => Self::spin(Self::BUSY),
            None => std::hint::spin_loop(),
        }
        !self.is_fresh()
    }

    fn spin(long: Duration) {
        let since = Instant::now();
        while since.elapsed() < long {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_the_time_taken() {
        let pause = |micros| Pace::pause(Duration::from_micros(micros)).map(|pause| pause.as_micros());
        assert_eq!(pause(29), None);
        assert_eq!([30, 1_600, 500_000].map(pause), [Some(20), Some(100), Some(4_000)]);
    }
}
