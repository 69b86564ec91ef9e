//! How the points of a lane end: from native events to verdicts.
//!
//! Every command's event is kept, by groups, until its status was read, because an in-order queue goes on after a
//! failed command and the later events do not show the failure. A driver's own propagation of failures is not relied
//! upon either: it differs between drivers, down to events that never end.
//!
//! # Settling
//!
//! A callback on the last event at or before an armed point calls [`Progress::ended`]; an armed point that has been
//! passed already calls [`Progress::settle`] at once. Either way:
//!
//! 1. The point is left in `asked`. If somebody is settling, they will see it, and this thread goes its way.
//! 2. Else this thread settles: it takes what is asked and the groups up to there, reads their statuses, retires
//!    them and calls the sink, until nothing is asked.
//!
//! So verdicts reach the sink one after the other, though from any thread. Were two threads to report at the same
//! time, the one with good news could overtake the one that read the failure of an earlier point.
//!
//! A driver may fail to call back for a command that failed (PoCL 3.1 does, for one that waited for a failed event).
//! Its point is then reported together with the next armed one.
//!
//! That the callback came is the proof that everything before it has ended, since the queue is in-order.
//!
//! # Locks
//!
//! The table's lock is never held across a native call or a call of the sink: drivers may call back on the thread
//! inside a native call, and may hold locks of their own around a callback.
//!
//! # What a callback does
//!
//! It may run on a thread of the driver's, which must not wait or release anything. So it reads statuses and calls
//! the sink; the groups it retired, and with them the native events, wait in `spent` until a thread that is feeding,
//! arming or flushing drops them.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{BackendError, Failed, LaneSink, Point, Verdict};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::panics::contain;

use crate::sys::Event;

/// What was fed at one point.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) point: Point,
    /// One for each native command, in order. None for a barrier that had nothing to wait for.
    pub(crate) events: SmallVec<[Event; 1]>,
    /// Why the rest of the group was not enqueued, if that failed after the first command.
    pub(crate) error: Option<BackendError>,
    /// Host memory that the commands read.
    #[expect(dead_code, reason = "it is held until the group is dropped, and read by the driver")]
    pub(crate) sources: Vec<Vec<u8>>,
}

impl Group {
    /// Why the group failed, if it did. `lost` is the reason of those commands that will never end.
    fn failure(&self, lost: Option<&BackendError>) -> Option<BackendError> {
        let status = |event: &Event| match event.status() {
            Ok(code) if code < 0 => Some(crate::error::command(code)),
            Ok(0) => None,
            // Above zero: not ended, as far as the driver says, though the callback of this or a later event came.
            Ok(_) => lost.cloned(),
            // The event is live and the question is fair, so the driver has lost what is behind it.
            Err(failure) => Some(crate::error::lost(failure)),
        };
        self.events.iter().find_map(status).or_else(|| self.error.clone())
    }

    fn failed(&self, lost: Option<&BackendError>) -> Option<Failed> {
        let error = self.failure(lost)?;
        Some(Failed { first: self.point, last: self.point, error })
    }
}

/// How far a lane has come. Callbacks share it, so it owns no queue: the last callback must not release one.
pub(crate) struct Progress {
    table: Mutex<Table>,
    sink: Arc<dyn LaneSink>,
}

#[derive(Default)]
struct Table {
    /// Groups whose statuses were not read, in the order of their points.
    live: VecDeque<Arc<Group>>,
    /// Groups that were retired and not dropped yet.
    spent: Vec<Arc<Group>>,
    /// The last point that was fed, handed to the device, and covered by a verdict (given, or being given).
    fed: Option<Point>,
    flushed: Option<Point>,
    passed: Option<Point>,
    /// The last point that a verdict is due for.
    asked: Option<Point>,
    /// Whether a thread is settling.
    settling: bool,
    /// Why nothing will end any more.
    lost: Option<BackendError>,
}

impl Table {
    fn up_to(&self, point: Point) -> usize {
        self.live.partition_point(|g| g.point <= point)
    }
}

impl Progress {
    pub(crate) fn new(sink: Arc<dyn LaneSink>) -> Self {
        Progress { table: Mutex::default(), sink }
    }

    /// Notes a group that was enqueued.
    pub(crate) fn fed(&self, group: Group) {
        let mut table = lock(&self.table);
        table.fed = Some(group.point);
        table.live.push_back(Arc::new(group));
    }

    /// Why nothing may be fed any more, if so.
    pub(crate) fn lost(&self) -> Option<BackendError> {
        lock(&self.table).lost.clone()
    }

    /// The group whose last event ends when `point` is passed; `None` if it has been passed, as far as is known.
    pub(crate) fn group_at(&self, point: Point) -> Option<Arc<Group>> {
        let table = lock(&self.table);
        let end = table.up_to(point);
        table.live.range(..end).rev().find(|g| !g.events.is_empty()).cloned()
    }

    /// The first group up to `point` whose last event has not ended, as far as the driver says. Not for callbacks.
    pub(crate) fn first_under_way(&self, point: Point) -> Option<Arc<Group>> {
        let table = lock(&self.table);
        let end = table.up_to(point);
        let groups: SmallVec<[Arc<Group>; 8]> = table.live.range(..end).cloned().collect();
        drop(table);
        let runs = |group: &&Arc<Group>| {
            group.events.last().is_some_and(|event| event.status().is_ok_and(|status| status > 0))
        };
        groups.iter().find(runs).cloned()
    }

    /// Whether something was fed at or above `point`.
    pub(crate) fn has_fed(&self, point: Point) -> bool {
        lock(&self.table).fed >= Some(point)
    }

    /// The last fed point, unless everything up to `point` was handed to the device.
    pub(crate) fn unflushed(&self, point: Point) -> Option<Point> {
        let table = lock(&self.table);
        let fed = table.fed?;
        let due = table.lost.is_none() && table.flushed < Some(point.min(fed));
        due.then_some(fed)
    }

    /// Notes that everything up to `point` was handed to the device.
    pub(crate) fn flushed(&self, point: Point) {
        let mut table = lock(&self.table);
        table.flushed = table.flushed.max(Some(point));
    }

    /// Gives up: whatever has not ended counts as failed. Reports all of it.
    pub(crate) fn lose(&self, error: BackendError) {
        let mut table = lock(&self.table);
        table.lost = Some(error);
        let fed = table.fed;
        drop(table);
        fed.into_iter().for_each(|point| self.settle(point));
    }

    /// Reports `point`, which an event's callback says has been passed, unless a later one was reported.
    pub(crate) fn ended(&self, point: Point) {
        if lock(&self.table).passed < Some(point) {
            self.settle(point);
        }
    }

    /// Reports `point`, which has been passed.
    pub(crate) fn settle(&self, point: Point) {
        let mut table = lock(&self.table);
        table.asked = table.asked.max(Some(point));
        if std::mem::replace(&mut table.settling, true) {
            return;
        }
        drop(table);
        while let Some((asked, groups, lost)) = self.take_asked() {
            let failed: Vec<_> = groups.iter().filter_map(|g| g.failed(lost.as_ref())).collect();
            // The table still holds these groups, so no event is released here.
            drop(groups);
            let verdict = Verdict { upto: self.retire(asked, &failed), failed };
            // A sink that panics breaks its contract, but must not take the lane's later verdicts with it, and the
            // panic must not unwind into a driver.
            contain(|| self.sink.passed(verdict));
        }
    }

    /// What is to be settled next; ends the settling if that is nothing.
    #[allow(clippy::type_complexity, reason = "the three parts go separate ways at once")]
    fn take_asked(&self) -> Option<(Point, SmallVec<[Arc<Group>; 8]>, Option<BackendError>)> {
        let mut table = lock(&self.table);
        let Some(asked) = table.asked.take() else {
            table.settling = false;
            return None;
        };
        let end = table.up_to(asked);
        Some((asked, table.live.range(..end).cloned().collect(), table.lost.clone()))
    }

    /// Retires everything up to `asked`, and says how far the lane has been passed. If something failed because the
    /// device is gone, nothing more is to be fed.
    fn retire(&self, asked: Point, failed: &[Failed]) -> Point {
        let table = &mut *lock(&self.table);
        if let Some(lost) = failed.iter().find(|f| f.error.is_lost()) {
            table.lost = Some(lost.error.clone());
        }
        let end = table.up_to(asked);
        table.spent.extend(table.live.drain(..end));
        let upto = table.passed.map_or(asked, |passed| passed.max(asked));
        table.passed = Some(upto);
        upto
    }

    /// Drops what was retired. Not for callbacks: this releases native events.
    pub(crate) fn sweep(&self) {
        let spent = std::mem::take(&mut lock(&self.table).spent);
        drop(spent);
    }

    /// Whether every fed group's status was read.
    pub(crate) fn is_idle(&self) -> bool {
        lock(&self.table).live.is_empty()
    }

    /// Forgets every group. Not for callbacks, and not while a command still reads a group's memory.
    pub(crate) fn clear(&self) {
        let live = std::mem::take(&mut lock(&self.table).live);
        drop(live);
        self.sweep();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A sink that runs something in each call, and keeps the verdicts in the order in which calls returned.
    struct Sink<F> {
        during: F,
        verdicts: Mutex<Vec<Verdict>>,
    }

    impl<F: Fn(&Verdict) + Send + Sync> LaneSink for Sink<F> {
        fn passed(&self, verdict: Verdict) {
            (self.during)(&verdict);
            lock(&self.verdicts).push(verdict);
        }
    }

    fn lane<F: Fn(&Verdict) + Send + Sync + 'static>(during: F) -> (Arc<Sink<F>>, Progress) {
        let sink = Arc::new(Sink { during, verdicts: Mutex::default() });
        (Arc::clone(&sink), Progress::new(sink))
    }

    /// A group that broke off before its first command, so that there is no event to ask.
    fn feed(progress: &Progress, point: u64, error: Option<BackendError>) {
        progress.fed(Group { point: Point(point), events: SmallVec::new(), error, sources: Vec::new() });
    }

    fn reported<F>(sink: &Sink<F>) -> Vec<(u64, Vec<u64>)> {
        let points = |v: &Verdict| (v.upto.0, v.failed.iter().map(|f| f.first.0).collect());
        lock(&sink.verdicts).iter().map(points).collect()
    }

    fn error() -> Option<BackendError> {
        Some(BackendError::Unsupported("a test's".into()))
    }

    #[test]
    fn a_failure_is_named_by_the_first_verdict_that_covers_it() {
        let (sink, progress) = lane(|_| ());
        [None, error(), None].into_iter().zip([1, 4, 6]).for_each(|(e, point)| feed(&progress, point, e));
        [1, 5, 5, 6].into_iter().for_each(|point| progress.settle(Point(point)));
        progress.ended(Point(4));
        assert_eq!(reported(&sink), [(1, vec![]), (5, vec![4]), (5, vec![]), (6, vec![])]);
        assert!(progress.is_idle());
    }

    #[test]
    fn verdicts_never_overtake_each_other() {
        let progress: Arc<std::sync::OnceLock<Arc<Progress>>> = Arc::default();
        let inner = Arc::clone(&progress);
        let (sink, made) = lane(move |verdict| {
            if verdict.upto == Point(1) {
                let progress = Arc::clone(inner.get().expect("it is set before the first verdict"));
                // Another thread hears of point 2 while point 1, which failed, is being reported.
                thread::spawn(move || progress.ended(Point(2))).join().expect("it does not panic");
            }
        });
        let progress = progress.get_or_init(|| Arc::new(made));
        feed(progress, 1, error());
        feed(progress, 2, None);
        progress.ended(Point(1));
        assert_eq!(reported(&sink), [(1, vec![1]), (2, vec![])]);
    }

    #[test]
    fn a_sink_that_panics_hears_of_later_points() {
        let (sink, progress) = lane(|verdict| assert_ne!(verdict.upto, Point(1), "the test's own panic"));
        feed(&progress, 1, None);
        feed(&progress, 2, None);
        progress.settle(Point(1));
        progress.settle(Point(2));
        assert_eq!(reported(&sink), [(2, vec![])]);
    }

    #[test]
    fn what_was_flushed_is_not_flushed_again() {
        let (_, progress) = lane(|_| ());
        assert_eq!(progress.unflushed(Point(9)), None, "nothing was fed");
        feed(&progress, 3, None);
        feed(&progress, 5, None);
        assert_eq!(progress.unflushed(Point(3)), Some(Point(5)));
        progress.flushed(Point(5));
        assert_eq!(progress.unflushed(Point(u64::MAX)), None);
        feed(&progress, 6, None);
        assert_eq!(progress.unflushed(Point(5)), None);
        assert_eq!(progress.unflushed(Point(u64::MAX)), Some(Point(6)));
    }

    #[test]
    fn a_lane_that_reads_of_its_loss_takes_no_more() {
        let (sink, progress) = lane(|_| ());
        feed(&progress, 1, Some(BackendError::Lost("the test took it".into())));
        assert_eq!(progress.lost(), None);
        progress.ended(Point(1));
        assert_eq!(reported(&sink), [(1, vec![1])]);
        assert!(progress.lost().is_some_and(|e| e.is_lost()));
    }

    #[test]
    fn a_lost_lane_reports_everything() {
        let (sink, progress) = lane(|_| ());
        feed(&progress, 3, None);
        feed(&progress, 5, None);
        progress.lose(BackendError::Lost("the test took it".into()));
        assert_eq!(reported(&sink), [(5, vec![])], "what has no command cannot have been lost");
        assert!(progress.lost().is_some_and(|e| e.is_lost()));
        assert_eq!(progress.unflushed(Point(5)), None);
    }
}
