//! Completion: from native events to verdicts.
//!
//! Every command's event is kept, by group, until its status has been read: an in-order queue goes on after a failed
//! command, and later events do not show the failure. Nor can a driver's own propagation of failures be relied upon. It
//! differs between drivers, down to events that never end.
//!
//! # Settling
//!
//! [`Progress::settle`] is called by a callback on the last event at or before a point to be reported, or, if that point has
//! been passed already, by the thread that arms it. [`windlass_backend::Completion`] lets one thread at a time read
//! statuses, and decides which thread tells the sink what. This module does the native part: it finds the groups up to the
//! point in the table, reads their statuses, and retires them.
//!
//! A driver may fail to call back for a command that failed (PoCL 3.1 does, for one that waited for a failed event).
//! Its point is then reported together with the next armed one.
//!
//! The queue is in-order, so the callback for one command proves that everything before it has ended.
//!
//! # Groups that do not tell
//!
//! An event makes a launch dearer by a third on NVIDIA's driver, whose later events show earlier failures. So where many quick
//! groups are in flight, most go without one ([`Progress::begin`]). Such a group is not in the table. The next event speaks for
//! it: it ends later, by the time of a few groups, and if it fails, they all count as failed. If someone asks about a point behind
//! the last event, a marker is enqueued that speaks for everything so far ([`Stream::ender`](crate::lane::Stream::ender)). It
//! makes the asker wait for no group that might wait for the asker: what is in a queue waits for nothing that is not. On a queue on which the
//! program has commands of its own that does not hold, and each group has an event there.
//!
//! # Locks
//!
//! The table's lock is never held across a native call or a call of the sink. Drivers may run a callback on a thread inside a
//! native call, which would then take the lock twice; and they may hold locks of their own around a callback, which makes
//! holding ours across a native call a deadlock by lock order.
//!
//! # What a callback does
//!
//! It may run on one of the driver's threads, which must neither block nor release native objects. So it only reads statuses
//! and settles. The groups it retires, and with them their native events, stay in `spent` until a thread that feeds, arms or
//! flushes drops them ([`Progress::sweep`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use smallvec::{SmallVec, smallvec};
use windlass_backend::{BackendError, Completion, Failed, LaneSink, Note, Point};
use windlass_sync::facade::{Mutex, lock};

use crate::enqueued::Enqueued;
use crate::sys::Event;

/// A lane's progress. Callbacks share it, so it owns no queue: the last callback must not release one.
pub(crate) struct Progress {
    table: Mutex<Table>,
    completion: Arc<Completion>,
    /// See [`Driver::fails_as_a_whole`](crate::driver::Driver::fails_as_a_whole).
    fails_as_a_whole: bool,
}

/// How many groups may go without an event between two that have one.
const UNTOLD: usize = 31;
/// How many groups have to be in flight for that: more than a waiter [looks](windlass_backend::Lane::look) at one of.
const MANY: u64 = 5;
/// How long a group may take, by what the last report covered.
const QUICK: Duration = Duration::from_micros(20);

/// Between two looks of a waiter not more than this passes.
const LOOKED: Duration = Duration::from_micros(5);

struct Table {
    /// Groups whose statuses have not been read, in the order of their points.
    live: VecDeque<Arc<Enqueued>>,
    /// Retired groups, to be dropped outside callbacks.
    spent: Vec<Arc<Enqueued>>,
    /// The last point that was fed, and the last that was flushed to the device.
    fed: Option<Point>,
    flushed: Option<Point>,
    /// The first of the groups since the last event, and how many there are.
    untold: Option<(Point, usize)>,
    /// The last point whose status was read, and when.
    retired: (Point, Instant),
    /// Whether groups have been quick lately.
    is_quick: bool,
    /// When a waiter looked last.
    looked: Option<Instant>,
    /// Why nothing more will end.
    lost: Option<BackendError>,
}

impl Table {
    fn new() -> Self {
        Table {
            live: VecDeque::new(),
            spent: Vec::new(),
            fed: None,
            flushed: None,
            untold: None,
            retired: (Point(0), Instant::now()),
            is_quick: false,
            looked: None,
            lost: None,
        }
    }

    fn up_to(&self, point: Point) -> usize {
        self.live.partition_point(|g| g.point <= point)
    }

    /// Everything up to `point` has ended by now.
    fn note_pace(&mut self, point: Point) {
        let (last, since) = self.retired;
        let groups = u32::try_from(point.0.saturating_sub(last.0)).unwrap_or(u32::MAX);
        self.is_quick = groups > 0 && since.elapsed() < QUICK.saturating_mul(groups);
        self.retired = (point, Instant::now());
    }

    /// Forgets the groups up to `point` that no event speaks for. That none was needed means that the queue was finished, or that the
    /// device is lost, and they with it.
    fn retire_untold(&mut self, point: Point) -> Option<Note> {
        let (first, _) = self.untold.filter(|(first, _)| *first <= point)?;
        self.speak_for_untold(point);
        let lost = self.lost.clone()?;
        Some(Failed::run(first, point, lost).into())
    }

    /// Those without an event up to `point` are spoken for, or over.
    fn speak_for_untold(&mut self, point: Point) {
        self.untold = (self.fed > Some(point)).then(|| (Point(point.0 + 1), 1));
    }

    /// What tells that `point`, which was fed, has been passed.
    fn teller(&self, point: Point) -> Teller {
        match self.live.range(self.up_to(point)..).find(|g| !g.events.is_empty()) {
            Some(next) if next.first <= point => return Teller::Group(Arc::clone(next)),
            None if self.untold.is_some_and(|(first, _)| first <= point) => return Teller::Nothing,
            _ => {}
        }
        self.last_with_event(point).map_or(Teller::Passed, Teller::Group)
    }

    /// The last group with an event up to `point`.
    fn last_with_event(&self, point: Point) -> Option<Arc<Enqueued>> {
        self.live.range(..self.up_to(point)).rev().find(|g| !g.events.is_empty()).cloned()
    }

    /// Puts a group with an event at its place. It speaks for those without one before it.
    fn insert(&mut self, group: Enqueued) -> Arc<Enqueued> {
        let point = group.point;
        let spoken_for = self.untold.filter(|(first, _)| !group.events.is_empty() && *first <= point);
        let first = spoken_for.map_or(group.first, |(first, _)| first.min(group.first));
        if spoken_for.is_some() {
            self.speak_for_untold(point);
        }
        let group = Arc::new(Enqueued { first, ..group });
        // Almost always behind all others.
        match self.live.back().is_none_or(|last| last.point <= point) {
            true => self.live.push_back(Arc::clone(&group)),
            false => self.live.insert(self.up_to(point), Arc::clone(&group)),
        }
        group
    }
}

/// What tells that a point has been passed.
#[derive(Debug)]
pub(crate) enum Teller {
    /// It has been, as far as anything was enqueued for it.
    Passed,
    /// The group's last event.
    Group(Arc<Enqueued>),
    /// No event does.
    Nothing,
}

/// How a group is to be enqueued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) wants_event: bool,
    /// Nothing before it waits for a flush.
    pub(crate) is_first: bool,
}

impl Progress {
    pub(crate) fn new(sink: Arc<dyn LaneSink>, fails_as_a_whole: bool) -> Self {
        Progress { table: Mutex::new(Table::new()), completion: Completion::new(sink), fails_as_a_whole }
    }

    /// Records a group that was enqueued.
    pub(crate) fn fed(&self, group: Enqueued) {
        let mut table = lock(&self.table);
        table.fed = Some(group.point);
        table.insert(group);
    }

    /// Records a group that was enqueued without an event.
    pub(crate) fn fed_untold(&self, point: Point) {
        let mut table = lock(&self.table);
        table.fed = Some(point);
        let (first, count) = table.untold.unwrap_or((point, 0));
        table.untold = Some((first, count + 1));
    }

    /// What tells that `point`, which was fed, has been passed, and the last point that was fed.
    pub(crate) fn teller(&self, point: Point) -> (Teller, Point) {
        let table = lock(&self.table);
        (table.teller(point), table.fed.unwrap_or(point))
    }

    /// Records an event that ends after everything up to `upto`, and returns the group with the event that tells of `point`.
    pub(crate) fn marked(&self, point: Point, upto: Point, event: Event) -> Option<Arc<Enqueued>> {
        let mut table = lock(&self.table);
        match table.teller(point) {
            Teller::Passed => None,
            // Somebody else was faster.
            Teller::Group(group) => Some(group),
            Teller::Nothing => {
                // What was flushed is not the marker.
                table.flushed = None;
                Some(table.insert(Enqueued::new(upto, smallvec![event])))
            }
        }
    }

    /// Why nothing more may be fed, if so.
    pub(crate) fn lost(&self) -> Option<BackendError> {
        lock(&self.table).lost.clone()
    }

    /// Before a group is enqueued: drops what was retired, refuses the group on a lost lane, and says how it is to be enqueued. It goes without one where that saves most and costs least: among many quick ones in flight, so that whoever asks
    /// about it waits but a little longer than for all those before it.
    pub(crate) fn begin(&self) -> Result<Begun, BackendError> {
        let passed = self.completion.passed();
        let mut table = lock(&self.table);
        let in_flight = table.fed.map_or(0, |fed| fed.0.saturating_sub(passed.0));
        let spent = std::mem::take(&mut table.spent);
        let lost = table.lost.clone();
        let untold = table.untold.map_or(0, |(_, count)| count);
        let wants_event = !table.is_quick || in_flight < MANY || untold >= UNTOLD;
        let is_first = table.fed <= table.flushed;
        drop(table);
        // As in `sweep`.
        drop(spent);
        lost.map_or(Ok(Begun { wants_event, is_first }), Err)
    }

    /// The last group with an event up to `point`, one that was armed; `None` if there is no such group, because all up to `point` have
    /// been read, or are barriers.
    pub(crate) fn group_at(&self, point: Point) -> Option<Arc<Enqueued>> {
        lock(&self.table).last_with_event(point)
    }

    /// The first group up to `point` whose last event has not ended, as far as the driver says. Not for callbacks, since it may
    /// drop the last reference to a group.
    pub(crate) fn first_under_way(&self, point: Point) -> Option<Arc<Enqueued>> {
        let table = lock(&self.table);
        let end = table.up_to(point);
        let groups: SmallVec<[Arc<Enqueued>; 8]> = table.live.range(..end).cloned().collect();
        drop(table);
        groups.iter().find(|group| !group.has_ended()).cloned()
    }

    /// A waiter looks: reports what it looks at, if that has been passed.
    pub(crate) fn look(&self, point: Point) {
        let mut table = lock(&self.table);
        table.looked = Some(Instant::now());
        let teller = table.teller(point);
        drop(table);
        if let Teller::Group(group) = teller
            && group.has_ended()
        {
            // Its event may speak for the point, and then is what shows a failure.
            let upto = group.point.max(point);
            self.arm(upto);
            self.settle(upto);
        }
    }

    /// Whether a waiter looks, over and over, so that nobody else need ask.
    pub(crate) fn is_looked_at(&self) -> bool {
        lock(&self.table).looked.is_some_and(|when| when.elapsed() < LOOKED)
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

    /// Records that everything up to `point` was flushed to the device.
    pub(crate) fn flushed(&self, point: Point) {
        let mut table = lock(&self.table);
        table.flushed = table.flushed.max(Some(point));
    }

    /// The device is lost: commands that have not ended count as failed, and armed points are reported.
    pub(crate) fn lose(&self, error: BackendError) {
        let mut table = lock(&self.table);
        table.lost = Some(error);
        let fed = table.fed;
        drop(table);
        fed.into_iter().for_each(|point| self.settle(point));
    }

    /// Asks for a report of `point` when it is settled.
    pub(crate) fn arm(&self, point: Point) {
        self.completion.arm(point);
    }

    /// Everything up to `point` has ended: reads the statuses, and reports armed points.
    pub(crate) fn settle(&self, point: Point) {
        self.completion.settle(point, |upto| self.retire(upto));
    }

    /// Reads the statuses of all groups up to `point`, and retires them. If one failed because the device is gone, the lane takes
    /// no more. [`Completion`] calls this on one thread at a time, so the groups are still there when the lock is taken again.
    fn retire(&self, point: Point) -> Vec<Note> {
        let table = lock(&self.table);
        let end = table.up_to(point);
        let groups: SmallVec<[Arc<Enqueued>; 8]> = table.live.range(..end).cloned().collect();
        let lost = table.lost.clone();
        drop(table);
        // Reading a status is a native call, so it happens on a copy of the list, without the lock.
        let last = groups.iter().rev().find_map(|group| group.events.last());
        let ended_well = self.fails_as_a_whole && last.is_none_or(|event| event.status() == Ok(0));
        let mut notes: Vec<Note> = groups.iter().filter_map(|g| g.note(ended_well, lost.as_ref())).collect();
        // This may be a callback. The table still holds these groups, so no event is released here.
        drop(groups);
        let table = &mut *lock(&self.table);
        let lost = |note: &Note| match note {
            Note::Failed(failed) if failed.error.is_lost() => Some(failed.error.clone()),
            _ => None,
        };
        if let Some(lost) = notes.iter().find_map(lost) {
            table.lost = Some(lost);
        }
        notes.extend(table.retire_untold(point));
        let end = table.up_to(point);
        table.spent.extend(table.live.drain(..end));
        table.note_pace(point);
        notes
    }

    /// Drops what was retired. Not for callbacks: this releases native events.
    pub(crate) fn sweep(&self) {
        // Taken out first, so that the lock is free during the native calls of the drops.
        let spent = std::mem::take(&mut lock(&self.table).spent);
        drop(spent);
    }

    /// Whether the status of every fed group has been read.
    pub(crate) fn is_idle(&self) -> bool {
        let table = lock(&self.table);
        table.live.is_empty() && table.untold.is_none()
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

    use windlass_backend::Verdict;

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
        (Arc::clone(&sink), Progress::new(sink, false))
    }

    /// A group that broke off before its first command, so that there is no event to ask.
    fn feed(progress: &Progress, point: u64, error: Option<BackendError>) {
        let point = Point(point);
        progress.fed(Enqueued { error, ..Enqueued::new(point, SmallVec::new()) });
    }

    fn report(progress: &Progress, point: u64) {
        progress.arm(Point(point));
        progress.settle(Point(point));
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
        [1, 5, 5, 6].into_iter().for_each(|point| report(&progress, point));
        progress.settle(Point(4));
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
                let progress = move || report(&progress, 2);
                // Another thread hears of point 2 while point 1, which failed, is being reported.
                thread::spawn(progress).join().expect("it does not panic");
            }
        });
        let progress = progress.get_or_init(|| Arc::new(made));
        feed(progress, 1, error());
        feed(progress, 2, None);
        report(progress, 1);
        assert_eq!(reported(&sink), [(1, vec![1]), (2, vec![])]);
    }

    #[test]
    fn a_sink_that_panics_hears_of_later_points() {
        let (sink, progress) = lane(|verdict| assert_ne!(verdict.upto, Point(1), "the test's own panic"));
        feed(&progress, 1, None);
        feed(&progress, 2, None);
        report(&progress, 1);
        report(&progress, 2);
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

    /// A group whose event no driver knows: to ask about it fails, as it does on a lost device.
    fn tells(progress: &Progress, point: u64) {
        progress.fed(Enqueued::new(Point(point), smallvec![Event::unknown()]));
    }

    fn teller(progress: &Progress, point: u64) -> Option<(u64, u64)> {
        match progress.teller(Point(point)).0 {
            Teller::Passed => None,
            Teller::Group(group) => Some((group.first.0, group.point.0)),
            Teller::Nothing => Some((0, 0)),
        }
    }

    #[test]
    fn the_next_event_speaks_for_those_without_one() {
        let (sink, progress) = lane(|_| ());
        tells(&progress, 1);
        (2..=4).for_each(|point| progress.fed_untold(Point(point)));
        assert_eq!(teller(&progress, 1), Some((1, 1)));
        assert_eq!(teller(&progress, 3), Some((0, 0)), "nothing speaks for it yet");
        tells(&progress, 5);
        feed(&progress, 6, None);
        progress.fed_untold(Point(7));
        assert_eq!(teller(&progress, 2), Some((2, 5)));
        assert_eq!(teller(&progress, 6), Some((2, 5)), "a barrier adds nothing");
        assert_eq!(teller(&progress, 7), Some((0, 0)));
        progress.settle(Point(1));
        report(&progress, 5);
        let verdicts = lock(&sink.verdicts);
        let failed: Vec<_> = verdicts[0].failed.iter().map(|f| (f.first.0, f.last.0)).collect();
        assert_eq!((verdicts.len(), failed), (1, vec![(1, 5)]), "with its event all of them have failed");
    }

    #[test]
    fn a_marker_speaks_for_what_was_fed_before_it() {
        let (_, progress) = lane(|_| ());
        (1..=3).for_each(|point| progress.fed_untold(Point(point)));
        let marked = |point, upto| progress.marked(Point(point), Point(upto), Event::unknown());
        // Meanwhile another thread has fed one more.
        progress.fed_untold(Point(4));
        assert!(marked(2, 3).is_some_and(|group| (group.first.0, group.point.0) == (1, 3)));
        assert_eq!(teller(&progress, 4), Some((0, 0)));
        assert!(marked(1, 4).is_some_and(|group| group.point.0 == 3), "somebody else's is there already");
        tells(&progress, 5);
        assert_eq!(teller(&progress, 4), Some((4, 5)));
        // As above, but the other thread's group has an event, which is in front of the marker in the table.
        progress.fed_untold(Point(6));
        tells(&progress, 7);
        assert!(marked(6, 6).is_some_and(|group| (group.first.0, group.point.0) == (6, 7)));
    }

    /// When nothing was said of those behind the last event, they were reported as having ended well.
    #[test]
    fn groups_that_no_event_speaks_for_are_lost_with_their_device() {
        let (sink, progress) = lane(|_| ());
        (1..=3).for_each(|point| progress.fed_untold(Point(point)));
        assert!(!progress.is_idle());
        progress.arm(Point(3));
        progress.lose(BackendError::Lost("the test took it".into()));
        let failed: Vec<_> = lock(&sink.verdicts)[0].failed.iter().map(|f| (f.first.0, f.last.0)).collect();
        assert_eq!(failed, [(1, 3)]);
        assert!(progress.is_idle());
    }

    #[test]
    fn groups_go_without_an_event_only_among_many_quick_ones() {
        let (_, progress) = lane(|_| ());
        let wants = || progress.begin().expect("it is not lost").wants_event;
        (1..=100).for_each(|point| feed(&progress, point, None));
        assert!(wants(), "nothing is known of its pace");
        report(&progress, 100);
        lock(&progress.table).is_quick = true;
        assert!(wants(), "few are in flight");
        (101..=100 + MANY).for_each(|point| tells(&progress, point));
        assert!(!wants());
        (0..UNTOLD as u64).for_each(|more| progress.fed_untold(Point(200 + more)));
        assert!(wants());
        tells(&progress, 300);
        assert!(!wants());
        lock(&progress.table).is_quick = false;
        assert!(wants());
    }

    #[test]
    fn a_lane_that_reads_of_its_loss_takes_no_more() {
        let (sink, progress) = lane(|_| ());
        feed(&progress, 1, Some(BackendError::Lost("the test took it".into())));
        assert_eq!(progress.lost(), None);
        report(&progress, 1);
        assert_eq!(reported(&sink), [(1, vec![1])]);
        assert!(progress.lost().is_some_and(|e| e.is_lost()));
    }

    #[test]
    fn a_lost_lane_reports_everything() {
        let (sink, progress) = lane(|_| ());
        feed(&progress, 3, None);
        feed(&progress, 5, None);
        progress.arm(Point(5));
        progress.lose(BackendError::Lost("the test took it".into()));
        assert_eq!(reported(&sink), [(5, vec![])], "what has no command cannot have been lost");
        assert!(progress.lost().is_some_and(|e| e.is_lost()));
        assert_eq!(progress.unflushed(Point(5)), None);
    }
}
