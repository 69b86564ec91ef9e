//! The submitter: from the lanes' feeds to batches on the device's queue.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

use windlass_backend::{BackendError, Completion, Point};

use crate::encode::{self, Download, Stage};
use crate::error::{failed, lock};
use crate::event::wait;
use crate::flight::{End, Flight};
use crate::gpu::Gpu;
use crate::memory::overlap;
use crate::ops::{Op, Ops};

/// One to run and one to follow it without a gap; what comes meanwhile makes the next batch.
const IN_FLIGHT: u64 = 2;

/// A group that was fed.
pub(crate) struct Job {
    pub(crate) completion: Arc<Completion>,
    pub(crate) point: Point,
    pub(crate) ops: Ops,
}

/// A device's two threads, seen from the lanes.
///
/// Whoever drops the last reference to a device destroys it, and a driver that is called while the process exits
/// crashes (NVIDIA's does, nearly each time). A thread that nobody waits for may run into the exit, so it must not be
/// the one: threads that `close` joins let go of the device, those that were merely abandoned leak it.
pub(crate) struct Worker {
    gpu: Arc<Gpu>,
    inbox: Arc<Inbox>,
    started: OnceLock<Result<(), BackendError>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Worker {
    pub(crate) fn new(gpu: Arc<Gpu>) -> Arc<Self> {
        Arc::new(Worker { gpu, inbox: Arc::default(), started: OnceLock::new(), threads: Mutex::default() })
    }

    /// Queues a group, and starts the threads if it is the first.
    pub(crate) fn push(&self, job: Job) -> Result<(), BackendError> {
        self.started.get_or_init(|| self.start()).clone()?;
        self.inbox.push(job)
    }

    /// Lets the submitter take what was pushed.
    pub(crate) fn flush(&self) {
        self.inbox.flush();
    }

    /// Nobody waits for the threads any more.
    pub(crate) fn abandon(&self) {
        self.inbox.close(Ending::Abandoned);
    }

    /// Lets the threads finish what was fed, and waits for them, unless they were given up. A sink's own thread is not
    /// waited for.
    pub(crate) fn close(&self) {
        let threads = mem::take(&mut *lock(&self.threads));
        let own = threads.iter().any(|t| t.thread().id() == thread::current().id());
        self.inbox.close(if own { Ending::Abandoned } else { Ending::Joined });
        if self.inbox.ending() == Some(Ending::Joined) {
            // A thread that panicked has ended too, which is all that is asked.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
    }

    fn start(&self) -> Result<(), BackendError> {
        let (send, flights) = mpsc::channel();
        self.spawn("wl-wgpu-wait", move |gpu, inbox| wait(gpu, inbox, &flights))?;
        self.spawn("wl-wgpu-submit", move |gpu, inbox| submit(gpu, inbox, &send))
    }

    fn spawn(
        &self,
        name: &str,
        work: impl FnOnce(&Gpu, &Inbox) + Send + 'static,
    ) -> Result<(), BackendError> {
        let (gpu, inbox) = (Arc::clone(&self.gpu), Arc::clone(&self.inbox));
        let body = move || {
            work(&gpu, &inbox);
            if inbox.ending() != Some(Ending::Joined) {
                mem::forget(gpu);
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(body);
        lock(&self.threads).push(thread.map_err(|e| failed("thread::spawn", e.to_string()))?);
        Ok(())
    }
}

impl Drop for Worker {
    /// Nobody waits here: a device may take for ever.
    fn drop(&mut self) {
        self.inbox.close(Ending::Abandoned);
    }
}

/// How the threads were told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// Somebody waits for them.
    Joined,
    /// Nobody does.
    Abandoned,
}

/// What passes between the lanes, the submitter and the waiter. Only the submitter ever waits here.
#[derive(Default)]
pub(crate) struct Inbox {
    line: Mutex<Line>,
    moved: Condvar,
}

#[derive(Default)]
struct Line {
    jobs: VecDeque<Job>,
    /// Whether the jobs are to go; until then a run of feeds gathers, and wakes nobody.
    flushed: bool,
    ending: Option<Ending>,
    /// Batches that went to the waiter, and batches that came back.
    submitted: u64,
    finished: u64,
}

impl Line {
    fn ready(&self) -> bool {
        let wanted = self.ending.is_some() || self.flushed && !self.jobs.is_empty();
        wanted && (self.jobs.is_empty() || self.submitted - self.finished < IN_FLIGHT)
    }
}

impl Inbox {
    fn push(&self, job: Job) -> Result<(), BackendError> {
        let mut line = lock(&self.line);
        if line.ending.is_some() {
            return Err(BackendError::Lost("its context was closed".into()));
        }
        line.jobs.push_back(job);
        Ok(())
    }

    fn flush(&self) {
        let mut line = lock(&self.line);
        if !line.jobs.is_empty() {
            line.flushed = true;
            self.moved.notify_one();
        }
    }

    /// Takes nothing more; the first ending stands.
    fn close(&self, ending: Ending) {
        lock(&self.line).ending.get_or_insert(ending);
        self.moved.notify_one();
    }

    fn ending(&self) -> Option<Ending> {
        lock(&self.line).ending
    }

    /// A batch is off the device.
    pub(crate) fn finished(&self) {
        lock(&self.line).finished += 1;
        self.moved.notify_one();
    }

    /// Everything that is waiting, once there is something and the device has room for it, with the number of
    /// batches finished so far; `None` at the end.
    fn next(&self) -> Option<(VecDeque<Job>, u64)> {
        let mut line = self.wait_until(Line::ready);
        line.flushed = false;
        let jobs = mem::take(&mut line.jobs);
        if jobs.is_empty() { None } else { Some((jobs, line.finished)) }
    }

    /// Waits until the device has nothing of ours.
    fn idle(&self) {
        drop(self.wait_until(|line| line.submitted == line.finished));
    }

    fn wait_until(&self, condition: impl Fn(&Line) -> bool) -> MutexGuard<'_, Line> {
        let line = lock(&self.line);
        self.moved.wait_while(line, |line| !condition(line)).unwrap_or_else(PoisonError::into_inner)
    }
}

/// The submitter thread.
fn submit(gpu: &Gpu, inbox: &Inbox, flights: &mpsc::Sender<Flight>) {
    let mut submitter = Submitter { gpu, inbox, flights, submitted: 0, written: Vec::new() };
    while let Some((jobs, finished)) = inbox.next() {
        submitter.written.retain(|(batch, _)| *batch >= finished);
        submitter.turn(jobs);
    }
}

struct Submitter<'a> {
    gpu: &'a Gpu,
    inbox: &'a Inbox,
    flights: &'a mpsc::Sender<Flight>,
    /// Batches so far, which is also the number of the one that is being made.
    submitted: u64,
    /// Host memory that unfinished batches will write, with the batch's number.
    written: Vec<(u64, Range<usize>)>,
}

impl Submitter<'_> {
    fn turn(&mut self, jobs: VecDeque<Job>) {
        let mut batch = Batch::new(self.gpu);
        for job in jobs {
            if self.reads_what_is_to_be_written(&job.ops) {
                // Host memory is read when encoding and written when a batch ends; this one's turn is after that.
                self.launch(mem::replace(&mut batch, Batch::new(self.gpu)));
                self.inbox.idle();
                self.written.clear();
            }
            let read_back = batch.downloads.len();
            batch.add(self.gpu, job);
            let new = batch.downloads[read_back..].iter();
            self.written.extend(new.map(|(_, download)| (self.submitted, download.to().addresses())));
        }
        self.launch(batch);
    }

    fn reads_what_is_to_be_written(&self, ops: &Ops) -> bool {
        !self.written.is_empty()
            && ops.iter().any(|op| match op {
                Op::Upload(from, _) => self.written.iter().any(|(_, w)| overlap(w, &from.addresses())),
                _ => false,
            })
    }

    /// Submits a batch and hands it to the waiter.
    fn launch(&mut self, batch: Batch) {
        if batch.ends.is_empty() {
            return;
        }
        let flight = batch.submit(self.gpu);
        lock(&self.inbox.line).submitted += 1;
        self.submitted += 1;
        // The waiter ends after us, so there is somebody to receive it.
        let _ = self.flights.send(flight);
    }
}

/// Groups that are submitted at once.
struct Batch {
    stage: Stage,
    commands: Vec<wgpu::CommandBuffer>,
    ends: Vec<End>,
    downloads: Vec<(usize, Download)>,
}

impl Batch {
    fn new(gpu: &Gpu) -> Self {
        Batch {
            stage: Stage::new(&gpu.limits),
            commands: Vec::new(),
            ends: Vec::new(),
            downloads: Vec::new(),
        }
    }

    /// Encodes a group. One that fails takes its place among the ends, and harms no other.
    fn add(&mut self, gpu: &Gpu, Job { completion, point, ops }: Job) {
        let error = if ops.is_empty() { None } else { self.encode(gpu, ops).err() };
        self.ends.push(End { completion, point, error });
    }

    fn encode(&mut self, gpu: &Gpu, ops: Ops) -> Result<(), BackendError> {
        let stage = &mut self.stage;
        let (commands, downloads) =
            gpu.guarded("CommandEncoder::finish", || encode::group(gpu, stage, ops))?;
        self.commands.push(commands);
        let at = self.ends.len();
        self.downloads.extend(downloads.into_iter().map(|download| (at, download)));
        Ok(())
    }

    fn submit(self, gpu: &Gpu) -> Flight {
        let Batch { stage, commands, ends, downloads } = self;
        let index = gpu.guarded("Queue::submit", || {
            stage.arguments.close();
            stage.uploads.close();
            Ok((!commands.is_empty()).then(|| gpu.queue.submit(commands)))
        });
        Flight { index, ends, downloads }
    }
}
