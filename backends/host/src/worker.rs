//! The thread behind a lane, what it takes from its inbox, and the helpers it shares large ranges with.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use smallvec::SmallVec;
use windlass_backend::{BackendError, Completion, Failed, Head, HostLaunch, Note, Point, Timed};
use windlass_kernel::Range;
use windlass_sync::completion::soon;
use windlass_sync::facade::{Condvar, Mutex, lock};
use windlass_sync::helpers::{Helpers, Task};
use windlass_sync::panics::{Panicked, catch};
use windlass_sync::threads::forbid_blocking;

use crate::cutting::{Cut, Way, run_tried, run_whole, way};
use crate::memory::{CopyRows, FillRows};

/// A command as the worker runs it.
#[allow(
    clippy::large_enum_variant,
    reason = "the large one is the frequent one, and a box would be one more allocation"
)]
pub(crate) enum Work {
    /// A range for this thread alone.
    Whole(HostLaunch),
    /// A range for this thread, unless the helpers turn out to be worth their wake-ups.
    Tried(HostLaunch),
    /// A range shared with the helpers.
    Shared(Arc<Task<Cut>>),
    Copy(CopyRows),
    Fill(FillRows),
    /// Nothing any more.
    Over,
}

/// All that was fed at one point.
pub(crate) struct Job {
    pub(crate) point: Point,
    /// Points of other lanes that were not passed when the group was fed.
    pub(crate) waits: SmallVec<[(Arc<Completion>, Point); 1]>,
    pub(crate) work: SmallVec<[Work; 1]>,
    /// When it starts and ends is wanted.
    pub(crate) timed: bool,
}

/// The host devices' clock: nanoseconds since the first use of it.
pub(crate) fn clock(at: Instant) -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    // The first use may be a moment later than `at`.
    let since = at.saturating_duration_since(*START.get_or_init(|| at));
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Where a lane's groups wait for its worker.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<Waiting>,
    woken: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// The worker sleeps, and nobody has woken it.
    asleep: bool,
    closed: bool,
}

impl Inbox {
    /// Adds a group, and wakes the worker if it sleeps.
    #[inline]
    pub(crate) fn push(&self, job: Job) {
        let mut state = lock(&self.state);
        state.jobs.push_back(job);
        let asleep = mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.woken.notify_one();
        }
    }

    /// Ends the worker once it has run everything.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.woken.notify_one();
    }

    /// Exchanges the empty `batch` for what is there, and says whether that is anything.
    fn take(&self, batch: &mut VecDeque<Job>) -> bool {
        mem::swap(&mut lock(&self.state).jobs, batch);
        !batch.is_empty()
    }

    /// Fills the empty `batch`; false at the end of the lane. Calls `dry` before the thread goes to sleep.
    fn wait(&self, batch: &mut VecDeque<Job>, dry: impl FnOnce()) -> bool {
        if self.take(batch) || soon(|| self.take(batch)) {
            return true;
        }
        dry();
        let mut state = lock(&self.state);
        while state.jobs.is_empty() && !state.closed {
            state.asleep = true;
            state = match self.woken.wait(state) {
                Ok(guard) => guard,
                Err(poisoned) => poisoned.into_inner(),
            };
        }
        state.asleep = false;
        mem::swap(&mut state.jobs, batch);
        !batch.is_empty()
    }
}

/// What a worker needs besides its [`Head`].
pub(crate) struct Worker {
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) helpers: Arc<HelperThreads>,
}

impl Worker {
    /// Runs a lane until it is closed and empty.
    pub(crate) fn run(self, mut head: Head) {
        let mut batch = VecDeque::new();
        while self.inbox.wait(&mut batch, || head.tell_rest()) {
            for job in &mut batch {
                for (lane, point) in &job.waits {
                    lane.blocking_wait(*point);
                }
                let started = job.timed.then(Instant::now);
                let ended = self.run_work(&mut job.work);
                match (ended, started) {
                    (Ok(()), None) => head.advance(job.point),
                    (ended, started) => head.advance_with(job.point, notes(job.point, ended, started)),
                }
            }
            batch.clear();
        }
    }

    /// Runs a group's commands in order, up to one that panics, and drops them all: when the point is passed, nothing
    /// of the group is left. That may panic, too.
    fn run_work(&self, work: &mut SmallVec<[Work; 1]>) -> Result<(), Panicked> {
        let mut ended = catch(|| work.iter_mut().try_for_each(|w| self.run_one(w))).flatten();
        // A panic in a drop leaves the commands before that one.
        while !work.is_empty() {
            let dropped = catch(|| work.clear());
            ended = ended.and(dropped);
        }
        ended
    }

    fn run_one(&self, work: &mut Work) -> Result<(), Panicked> {
        match work {
            Work::Whole(launch) => run_whole(launch),
            Work::Tried(launch) => {
                if let Some(first) = run_tried(launch, self.helpers.cores()) {
                    self.run_rest(work, first)?;
                }
            }
            Work::Shared(task) => self.helpers.run(task)?,
            Work::Copy(copy) => copy.run(),
            Work::Fill(fill) => fill.run(),
            Work::Over => {}
        }
        Ok(())
    }

    /// A launch that was tried turned out to be worth help. What is left of it is dropped with the group's commands, and no sooner.
    #[cold]
    fn run_rest(&self, work: &mut Work, first: usize) -> Result<(), Panicked> {
        let Work::Tried(launch) = mem::replace(work, Work::Over) else { return Ok(()) };
        let task = self.helpers.share(Cut::rest(launch, first, self.helpers.cores()));
        *work = Work::Shared(task.clone());
        self.helpers.run(&task)
    }
}

/// What is to be said of a group that has just ended.
#[cold]
fn notes(point: Point, ended: Result<(), Panicked>, started: Option<Instant>) -> SmallVec<[Note; 2]> {
    let failed = ended.err().map(|panic| Failed::at(point, BackendError::Panicked(panic.message().into())));
    let times = started.map(|started| Timed::new(point, clock(started), clock(Instant::now())));
    failed.map(Note::from).into_iter().chain(times.map(Note::from)).collect()
}

/// Threads that help lanes with large ranges: one for each core but one, started at the first such range.
pub(crate) struct HelperThreads {
    cores: usize,
    tasks: Arc<Helpers<Cut>>,
    started: Mutex<bool>,
}

impl HelperThreads {
    pub(crate) fn new(cores: usize) -> Arc<Self> {
        Arc::new(HelperThreads { cores, tasks: Arc::default(), started: Mutex::new(false) })
    }

    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    /// How a range is run.
    pub(crate) fn way(&self, range: &Range) -> Result<Way, BackendError> {
        way(range, self.cores)
    }

    /// Blocks for the helpers as well.
    pub(crate) fn share(&self, cut: Cut) -> Arc<Task<Cut>> {
        self.start();
        Arc::new(Task::new(cut, self.cores))
    }

    /// Starts the helpers. One that does not start is one that does not help.
    fn start(&self) {
        if mem::replace(&mut *lock(&self.started), true) {
            return;
        }
        for number in 1..self.cores {
            let tasks = self.tasks.clone();
            let _ = spawn(format!("windlass-help-{number}"), move || tasks.help(number));
        }
    }

    fn run(&self, task: &Arc<Task<Cut>>) -> Result<(), Panicked> {
        self.tasks.run(task)
    }
}

impl Drop for HelperThreads {
    fn drop(&mut self) {
        self.tasks.close();
    }
}

impl fmt::Debug for HelperThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HelperThreads").field("cores", &self.cores).finish_non_exhaustive()
    }
}

/// Starts a thread that nobody joins, and on which kernels must not wait.
pub(crate) fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let marked = move || {
        forbid_blocking();
        run();
    };
    thread::Builder::new().name(name).spawn(marked).map(drop)
}
