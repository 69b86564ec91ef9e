//! Completion: from the end of a submission to verdicts.

use std::mem;
use std::sync::{Arc, Mutex, mpsc};

use windlass_backend::{BackendError, Failed, LaneSink, Point, Verdict};
use windlass_sync::panics::{catch, contain};

use crate::context::Gpu;
use crate::encode::Download;
use crate::error::{failed, lock};
use crate::exit;
use crate::submit::Inbox;

/// What a lane knows of its points, and whom it tells.
pub(crate) struct Completion {
    sink: Arc<dyn LaneSink>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last point that was passed.
    passed: Option<Point>,
    /// Points that wait for their report.
    armed: Vec<Point>,
    /// Failures that no verdict has named yet.
    failed: Vec<Failed>,
    /// Whether the last point to pass failed, so that a further failure continues a run.
    failing: bool,
    /// A thread is handing out verdicts, and will look here again before it stops. So verdicts arrive in order, with
    /// no lock held, and `passed` may arm without recursion.
    reporting: bool,
}

impl Completion {
    pub(crate) fn new(sink: Arc<dyn LaneSink>) -> Self {
        Completion { sink, state: Mutex::default() }
    }

    /// Notes that a point was passed; points come in order.
    fn pass(&self, point: Point, error: Option<BackendError>) {
        let mut state = lock(&self.state);
        state.passed = Some(point);
        let failing = error.is_some();
        if let Some(error) = error {
            let extends = mem::replace(&mut state.failing, true);
            match state.failed.last_mut() {
                Some(run) if extends && run.error == error => run.last = point,
                _ => state.failed.push(Failed { first: point, last: point, error }),
            }
        }
        state.failing = failing;
    }

    /// Asks for a report of `point`, and gives it here and now where the point was passed.
    pub(crate) fn arm(&self, point: Point) {
        lock(&self.state).armed.push(point);
        self.report();
    }

    /// Hands out what is due, unless another thread is at it and will do so.
    fn report(&self) {
        if mem::replace(&mut lock(&self.state).reporting, true) {
            return;
        }
        loop {
            // A statement of its own: the lock must be gone when the sink is called.
            let verdict = lock(&self.state).take_or_stop();
            let Some(verdict) = verdict else { return };
            // The sink is the runtime's and has no business panicking; if it does, later verdicts must still arrive.
            contain(|| self.sink.passed(verdict));
        }
    }
}

impl State {
    /// The verdict that is due, or the end of reporting, decided under one lock so that no armed point falls between.
    fn take_or_stop(&mut self) -> Option<Verdict> {
        let due = self.passed.filter(|passed| self.armed.iter().any(|armed| armed <= passed));
        let Some(upto) = due else {
            self.reporting = false;
            return None;
        };
        self.armed.retain(|armed| *armed > upto);
        Some(Verdict { upto, failed: mem::take(&mut self.failed) })
    }
}

/// The end of one group.
pub(crate) struct End {
    pub(crate) completion: Arc<Completion>,
    pub(crate) point: Point,
    /// Why it failed, as far as that is known.
    pub(crate) error: Option<BackendError>,
}

/// A batch that was handed to the device, or failed to be.
pub(crate) struct Flight {
    /// The submission; `None` where none of the groups had native work.
    pub(crate) index: Result<Option<wgpu::SubmissionIndex>, BackendError>,
    /// The groups, in order.
    pub(crate) ends: Vec<End>,
    /// What it reads back, each with the position of its group in `ends`.
    pub(crate) downloads: Vec<(usize, Download)>,
}

/// The waiter thread: settles batches, oldest first, until the submitter is gone.
pub(crate) fn wait(gpu: &Gpu, inbox: &Inbox, flights: &mpsc::Receiver<Flight>) {
    for flight in flights {
        let ends = settle(gpu, flight);
        // Room for the next batch first: the device should not idle while the host is told.
        inbox.finished();
        tell(ends);
    }
}

/// Blocks until a batch has ended, and finds out how.
fn settle(gpu: &Gpu, Flight { index, mut ends, downloads }: Flight) -> Vec<End> {
    let ended = index.and_then(|index| index.map_or(Ok(()), |index| wait_for(gpu, index)));
    let _inside = exit::enter();
    let mut doubtful = ended.is_err();
    match ended {
        Ok(()) => {
            for (at, download) in downloads {
                if let Err(why) = download.finish(gpu) {
                    doubtful = true;
                    ends[at].error.get_or_insert(failed("Buffer::map_async", why));
                }
            }
        }
        Err(error) => ends.iter_mut().for_each(|end| {
            end.error.get_or_insert(error.clone());
        }),
    }
    if ends.iter().any(|end| end.error.is_some()) {
        look_for_loss(gpu, doubtful);
    }
    if let Some(error) = gpu.faults.lost() {
        // wgpu drops what is submitted to a lost device, and says nothing; so nothing here can be trusted.
        ends.iter_mut().for_each(|end| end.error = Some(error.clone()));
    } else if let Some(stray) = gpu.faults.take_stray() {
        // Whose error it is cannot be known, and to lose it would be worse than to blame too many.
        ends.iter_mut().for_each(|end| {
            end.error.get_or_insert(stray.clone());
        });
    }
    ends
}

/// Blocks until a submission has ended, in slices, so as not to be inside the driver when the process exits.
fn wait_for(gpu: &Gpu, index: wgpu::SubmissionIndex) -> Result<(), BackendError> {
    loop {
        let wait = wgpu::PollType::Wait { submission_index: Some(index.clone()), timeout: Some(exit::SLICE) };
        match poll(gpu, wait)? {
            Ok(_) => return Ok(()),
            Err(wgpu::PollError::Timeout) => {}
            Err(error) => return Err(failed("Device::poll", error.to_string())),
        }
    }
}

/// Where something failed, wgpu may know of a loss that it tells only in a poll; after a failure that a loss would
/// explain, only in one that finds the queue empty.
fn look_for_loss(gpu: &Gpu, doubtful: bool) {
    let how = if doubtful { wgpu::PollType::wait_indefinitely() } else { wgpu::PollType::Poll };
    // The poll's own outcome adds nothing to the failure at hand.
    let _ = poll(gpu, how);
}

/// Polls. wgpu panics where the driver fails in this call, which means that the device is gone.
///
/// It also panics where a wait has just run into its time limit, the submission ends right then, and another thread's
/// poll (each `Queue::submit` has one) settles it first: wgpu's "this should never be hit" compares the old state of
/// the fence with the new one of the queue. Nothing is wrong then. What this poll had collected to be called back is
/// dropped, and only read-backs have callbacks: `Download::finish` knows.
fn poll(gpu: &Gpu, how: wgpu::PollType) -> Result<Result<wgpu::PollStatus, wgpu::PollError>, BackendError> {
    let _inside = exit::enter();
    catch(|| gpu.device.poll(how)).or_else(|panic| {
        if overtaken(panic.message()) {
            return Ok(Err(wgpu::PollError::Timeout));
        }
        gpu.faults.lose("the driver failed in Device::poll");
        Err(BackendError::Lost("the driver failed in Device::poll".into()))
    })
}

/// Whether this panic only says that another thread was faster.
fn overtaken(message: &str) -> bool {
    message.starts_with("If the queue is empty, the current submission index")
}

/// Passes the points, then reports, so that one verdict covers all of a batch.
fn tell(ends: Vec<End>) {
    let mut told: Vec<Arc<Completion>> = Vec::new();
    for End { completion, point, error } in ends {
        completion.pass(point, error);
        if !told.last().is_some_and(|last| Arc::ptr_eq(last, &completion)) {
            told.push(completion);
        }
    }
    told.iter().for_each(|completion| completion.report());
}
