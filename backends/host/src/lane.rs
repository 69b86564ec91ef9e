//! The lane: what is fed is checked and put into the worker's inbox.

use std::fmt;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use windlass_backend::{BackendError, Command, Failed, Lane, LaneNumber, LaneSink, Point, Wait};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::timeline::Head;

use crate::context::{Lanes, Timeline};
use crate::kernel;
use crate::memory::{CopyRows, FillRows, unsupported};
use crate::worker::{Group, Helpers, Inbox, Work, Worker, spawn, tell};

/// An in-order stream of work on a thread of its own.
///
/// # Reports
///
/// The timeline decides who tells the sink what (its page shows that no armed point is forgotten and that no failure
/// is named too late): `arm` itself where the point is passed already, else the worker right after that point. Neither
/// holds a lock meanwhile. Before it goes to sleep, the worker also tells what nobody asked for.
pub(crate) struct HostLane {
    number: LaneNumber,
    timeline: Arc<Timeline>,
    inbox: Arc<Inbox>,
    /// The worker's part of the timeline, until the worker takes it.
    head: Arc<Mutex<Option<Head<Failed>>>>,
    started: OnceLock<()>,
    sink: Arc<dyn LaneSink>,
    lanes: Arc<Lanes>,
    helpers: Arc<Helpers>,
}

impl HostLane {
    pub(crate) fn new(
        number: LaneNumber,
        sink: Arc<dyn LaneSink>,
        lanes: Arc<Lanes>,
        helpers: Arc<Helpers>,
    ) -> (Self, Arc<Timeline>) {
        let (timeline, head) = Timeline::new();
        let lane = HostLane {
            number,
            timeline: timeline.clone(),
            inbox: Arc::default(),
            head: Arc::new(Mutex::new(Some(head))),
            started: OnceLock::new(),
            sink,
            lanes,
            helpers,
        };
        (lane, timeline)
    }

    /// Everything that can be refused is refused here, before the group is in the inbox.
    #[inline(always)]
    fn work(&self, command: Command<'_>) -> Result<Work, BackendError> {
        match command {
            Command::Host(launch) => Ok(match self.helpers.step(&launch.range)? {
                None => Work::Alone(launch),
                Some(step) => self.helpers.share(launch, step),
            }),
            Command::Launch(launch) => {
                let step = self.helpers.step(&launch.range)?;
                let launch = kernel::launch(&launch)?;
                Ok(match step {
                    None => Work::Alone(launch),
                    Some(step) => self.helpers.share(launch, step),
                })
            }
            Command::Copy(copy) => Ok(Work::Copy(CopyRows::new(&copy)?)),
            Command::Fill(fill) => Ok(Work::Fill(FillRows::new(&fill)?)),
            other => Err(unsupported(&format!("{other:?}"))),
        }
    }

    /// The timelines of those waits that are not over.
    fn open_waits(&self, waits: &[Wait]) -> SmallVec<[(Arc<Timeline>, u64); 1]> {
        let open = |wait: &Wait| {
            let timeline = self.lanes.find(wait.lane)?;
            (timeline.passed() < wait.point.0).then_some((timeline, wait.point.0))
        };
        waits.iter().filter_map(open).collect()
    }

    /// Starts the worker, unless there is one.
    fn start(&self) -> Result<(), BackendError> {
        if self.started.get().is_some() {
            return Ok(());
        }
        let worker =
            Worker { inbox: self.inbox.clone(), sink: self.sink.clone(), helpers: self.helpers.clone() };
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

impl Lane for HostLane {
    fn feed(
        &self,
        point: Point,
        waits: &[Wait],
        mut commands: SmallVec<[Command<'_>; 1]>,
    ) -> Result<(), BackendError> {
        let mut group = Group { point, waits: self.open_waits(waits), work: SmallVec::new() };
        for command in commands.drain(..) {
            group.work.push(self.work(command)?);
        }
        self.start()?;
        self.inbox.push(group);
        Ok(())
    }

    /// Nothing to do: what is fed runs.
    fn flush(&self) {}

    fn arm(&self, point: Point) {
        self.timeline.arm(point.0, tell(&*self.sink));
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
            .field("timeline", &self.timeline)
            .finish_non_exhaustive()
    }
}
