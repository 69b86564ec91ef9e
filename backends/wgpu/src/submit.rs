//! The submitter: from the lanes' feeds to batches on the device's queue.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};

use windlass_backend::BackendError;
use windlass_sync::facade::{Mutex, lock};

use crate::encode::{self, Download};
use crate::error::failed;
use crate::event::wait;
use crate::flight::{End, Flight};
use crate::gpu::Gpu;
use crate::inbox::{Ending, Inbox, Job};
use crate::memory::overlap;
use crate::ops::{Op, Ops};
use crate::stage::Stage;

/// A device's two threads, seen from the lanes.
///
/// The thread that drops the last reference to a device destroys it, and a driver that is called while the process exits may
/// crash (NVIDIA's does, nearly every time). A thread that is never joined may run into the exit, so it must not be the one:
/// threads that `close` joins release the device, and abandoned ones leak it.
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

    /// Refuses everything once the context was closed or given up.
    pub(crate) fn check_open(&self) -> Result<(), BackendError> {
        self.inbox.check_open()
    }

    /// Lets the submitter take what was pushed.
    pub(crate) fn flush(&self) {
        self.inbox.flush();
    }

    /// Gives the threads up: nothing waits for them from here on.
    pub(crate) fn abandon(&self) {
        self.inbox.close(Ending::Abandoned);
    }

    /// Lets the threads finish what was fed, and joins them, unless they were given up. If a sink calls this, on one of these
    /// very threads, they are not joined either.
    pub(crate) fn close(&self) {
        let threads = mem::take(&mut *lock(&self.threads));
        let own = threads.iter().any(|t| t.thread().id() == thread::current().id());
        self.inbox.close(if own { Ending::Abandoned } else { Ending::Joined });
        if self.inbox.ending() == Some(Ending::Joined) {
            // An `Err` is a thread that panicked; it has ended too.
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
    /// Does not join: the device may never finish.
    fn drop(&mut self) {
        self.inbox.close(Ending::Abandoned);
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
                // Host memory is read while encoding, and written when a batch has ended. So submit what there is, and wait
                // until it has written, before this group is encoded.
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
        // Counted before it is sent, or the waiter could finish a batch that was never submitted.
        self.inbox.submitted();
        self.submitted += 1;
        // The waiter ends after this thread, so the receiver is still there.
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

    /// Encodes a group. If that fails, the group still takes its place among the ends, and the others are unaffected.
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
