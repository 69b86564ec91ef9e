//! The lane: what is fed is checked and put into the worker's inbox.

use std::fmt;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use windlass_backend::{
    BackendError, Command, Completion, Group, Head, HostLaunch, Lane, LaneNumber, LaneSink, Point, Wait,
};
use windlass_sync::facade::{Mutex, lock};

use crate::cutting::{Cut, Way};
use crate::kernel;
use crate::lanes::Lanes;
use crate::memory::{CopyRows, FillRows, unsupported};
use crate::worker::{HelperThreads, Inbox, Job, Work, Worker, spawn};

/// An in-order stream of work on a thread of its own.
///
/// # Reports
///
/// The completion book decides who tells the sink what: `arm` itself where the point is passed already, else the worker right
/// after that point. Neither holds a lock meanwhile. Before it goes to sleep, the worker also tells what nobody asked for.
pub(crate) struct HostLane {
    number: LaneNumber,
    completion: Arc<Completion>,
    inbox: Arc<Inbox>,
    /// The worker's part of the book, until the worker takes it.
    head: Arc<Mutex<Option<Head>>>,
    started: OnceLock<()>,
    lanes: Arc<Lanes>,
    helpers: Arc<HelperThreads>,
}

impl HostLane {
    pub(crate) fn new(
        number: LaneNumber,
        sink: Arc<dyn LaneSink>,
        lanes: Arc<Lanes>,
        helpers: Arc<HelperThreads>,
    ) -> Self {
        let (completion, head) = Completion::with_head(sink);
        lanes.name(number, &completion);
        HostLane {
            number,
            completion,
            inbox: Arc::default(),
            head: Arc::new(Mutex::new(Some(head))),
            started: OnceLock::new(),
            lanes,
            helpers,
        }
    }

    /// Everything that can be refused is refused here, before the group is in the inbox.
    #[inline(always)]
    fn work(&self, command: Command<'_>) -> Result<Work, BackendError> {
        match command {
            Command::Host(launch) => Ok(self.by(self.helpers.way(&launch.range)?, launch)),
            Command::Launch(launch) => {
                Ok(self.by(self.helpers.way(&launch.range)?, kernel::launch(&launch)?))
            }
            Command::Copy(copy) => Ok(Work::Copy(CopyRows::new(&copy)?)),
            Command::Fill(fill) => Ok(Work::Fill(FillRows::new(&fill)?)),
            other => Err(unsupported(&format!("{other:?}"))),
        }
    }

    #[inline(always)]
    fn by(&self, way: Way, launch: HostLaunch) -> Work {
        match way {
            Way::Whole => Work::Whole(launch),
            Way::Tried => Work::Tried(launch),
            Way::Shared(step) => Work::Shared(self.helpers.share(Cut::new(launch, step))),
        }
    }

    /// The books of those waits that are not over.
    fn open_waits(&self, waits: &[Wait]) -> SmallVec<[(Arc<Completion>, Point); 1]> {
        waits.iter().filter_map(|wait| self.lanes.open(wait)).collect()
    }

    /// Starts the worker, unless there is one.
    fn start(&self) -> Result<(), BackendError> {
        if self.started.get().is_some() {
            return Ok(());
        }
        let worker = Worker { inbox: self.inbox.clone(), helpers: self.helpers.clone() };
        // A thread that does not start drops its closure; the head stays in the slot for the next attempt.
        let slot = self.head.clone();
        let run = move || {
            let head = lock(&slot).take();
            if let Some(head) = head {
                worker.run(head);
            }
        };
        spawn(format!("windlass-host-{}", self.number.0), run).map_err(|error| BackendError::Native {
            call: "thread::spawn",
            code: error.raw_os_error().unwrap_or_default().into(),
            message: error.to_string(),
        })?;
        let _ = self.started.set(());
        Ok(())
    }
}

// SAFETY: the worker uses memory only by the windows and spans that the commands of a group name, checked to lie inside their
// allocations; it advances the book after the last command of a group has ended and been dropped; and the book's word
// carries what was written to whoever learns of the point.
unsafe impl Lane for HostLane {
    unsafe fn feed(&self, mut group: Group<'_>) -> Result<(), BackendError> {
        let (point, timed) = (group.point, group.timed);
        let mut job = Job { point, waits: self.open_waits(group.waits), work: SmallVec::new(), timed };
        for command in group.commands.drain(..) {
            job.work.push(self.work(command)?);
        }
        self.start()?;
        if group.report {
            // Before the worker can pass it, so that it is the worker who tells.
            self.completion.arm(point);
        }
        self.inbox.push(job);
        Ok(())
    }

    /// Nothing to do: what is fed runs.
    fn flush(&self) {}

    fn arm(&self, point: Point) {
        self.completion.arm(point);
    }
}

impl Drop for HostLane {
    fn drop(&mut self) {
        self.inbox.close();
    }
}

impl fmt::Debug for HostLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostLane")
            .field("number", &self.number)
            .field("completion", &self.completion)
            .finish_non_exhaustive()
    }
}
