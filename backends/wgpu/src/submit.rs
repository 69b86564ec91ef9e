//! Submitting: from the lanes' feeds to batches on the device's queue.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, JoinHandle};

use windlass_backend::BackendError;
use windlass_sync::facade::{Mutex, lock};

use crate::encode::{self, Download, Item};
use crate::error::failed;
use crate::event::wait;
use crate::flight::{End, Flight, Notice};
use crate::gpu::Gpu;
use crate::inbox::{Ending, Inbox, Job, Taken};
use crate::ops::{self, Op, Touched};
use crate::stage::Stage;
use crate::times::Times;

/// A device's two threads, seen from the lanes.
///
/// The thread that drops the last reference to a device destroys it, and a driver that is called while the process exits may
/// crash (NVIDIA's does, nearly every time). A thread that is never joined may run into the exit, so it must not be the one:
/// threads that `close` joins release the device, and abandoned ones leak it.
pub(crate) struct Worker {
    submitter: Arc<Submitter>,
    started: OnceLock<Result<(), BackendError>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Worker {
    pub(crate) fn new(gpu: Arc<Gpu>) -> Arc<Self> {
        let submitter = Arc::new(Submitter { gpu, inbox: Inbox::default(), outbox: Mutex::default() });
        Arc::new(Worker { submitter, started: OnceLock::new(), threads: Mutex::default() })
    }

    /// Queues a group, and starts the threads if it is the first.
    pub(crate) fn push(&self, job: Job) -> Result<(), BackendError> {
        self.started.get_or_init(|| self.start()).clone()?;
        self.submitter.inbox.push(job)
    }

    /// Refuses everything once the context was closed or given up.
    pub(crate) fn check_open(&self) -> Result<(), BackendError> {
        self.submitter.inbox.check_open()
    }

    /// Lets what was pushed be submitted, here or by the submitter's thread.
    pub(crate) fn flush(&self) {
        if let Some(taken) = self.submitter.inbox.flush() {
            self.submitter.turn(taken, Patience::None);
        }
    }

    /// Gives the threads up: nothing waits for them from here on.
    pub(crate) fn abandon(&self) {
        self.submitter.inbox.close(Ending::Abandoned);
    }

    /// Lets the threads finish what was fed, and joins them, unless they were given up. If a sink calls this, on one of these
    /// very threads, they are not joined either.
    pub(crate) fn close(&self) {
        let inbox = &self.submitter.inbox;
        let threads = mem::take(&mut *lock(&self.threads));
        let own = threads.iter().any(|t| t.thread().id() == thread::current().id());
        inbox.close(if own { Ending::Abandoned } else { Ending::Joined });
        if inbox.ending() == Some(Ending::Joined) {
            // An `Err` is a thread that panicked; it has ended too.
            threads.into_iter().for_each(|thread| drop(thread.join()));
        }
    }

    fn start(&self) -> Result<(), BackendError> {
        let (send, notices) = mpsc::channel();
        lock(&self.submitter.outbox).waiter = Some(send);
        self.spawn("wl-wgpu-wait", move |submitter| wait(&submitter.gpu, &submitter.inbox, &notices))?;
        self.spawn("wl-wgpu-submit", Submitter::run)
    }

    fn spawn(&self, name: &str, work: impl FnOnce(&Submitter) + Send + 'static) -> Result<(), BackendError> {
        let submitter = Arc::clone(&self.submitter);
        let body = move || {
            work(&submitter);
            if submitter.inbox.ending() != Some(Ending::Joined) {
                mem::forget(submitter);
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
        self.submitter.inbox.close(Ending::Abandoned);
    }
}

/// What submits: its own thread, or one that feeds an idle device. The inbox lets one at a time have something to submit.
pub(crate) struct Submitter {
    gpu: Arc<Gpu>,
    inbox: Inbox,
    outbox: Mutex<Outbox>,
}

#[derive(Default)]
struct Outbox {
    /// To the waiter, which ends with it; until the first group was fed there is none.
    waiter: Option<mpsc::Sender<Notice>>,
    /// Batches so far, which is also the number of the one that is being made.
    submitted: u64,
    /// Host memory that unfinished batches will write, with the batch's number.
    written: Vec<(u64, Touched)>,
}

/// Whether who submits may wait until the device has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Patience {
    None,
    Unlimited,
}

impl Submitter {
    /// The submitter's thread.
    fn run(&self) {
        while let Some(taken) = self.inbox.next() {
            self.turn(taken, Patience::Unlimited);
        }
        lock(&self.outbox).waiter = None;
    }

    /// Submits what was taken, as one batch, or as several where host memory has to be written before the next is encoded.
    /// Without patience, the rest is given back then.
    fn turn(&self, Taken { mut jobs, finished }: Taken, patience: Patience) {
        let outbox = &mut *lock(&self.outbox);
        if patience == Patience::None {
            // The device is idle, so the waiter may be asleep.
            outbox.tell(Notice::Soon);
        }
        outbox.written.retain(|(batch, _)| *batch >= finished);
        while !jobs.is_empty() {
            let together = outbox.gather(&jobs);
            if together == 0 && patience == Patience::None {
                break;
            }
            if together == 0 {
                self.inbox.idle();
                outbox.written.clear();
                continue;
            }
            let batch = jobs.drain(..together).collect();
            self.launch(batch, outbox);
        }
        self.inbox.handed_over(jobs);
    }

    /// Submits a batch and hands it to the waiter.
    fn launch(&self, jobs: Vec<Job>, outbox: &mut Outbox) {
        let flight = Batch::encode(&self.gpu, jobs).submit(&self.gpu);
        // Counted before it is sent, or the waiter could finish a batch that was never submitted.
        self.inbox.submitted();
        outbox.submitted += 1;
        outbox.tell(Notice::Flight(Box::new(flight)));
    }
}

impl Outbox {
    /// The waiter ends after the submitter's thread, which is the last to submit, so it hears everything.
    fn tell(&self, notice: Notice) {
        if let Some(waiter) = &self.waiter {
            let _ = waiter.send(notice);
        }
    }

    /// How many of the jobs, from the first on, make up the next batch: those before the first that uses host memory which an
    /// unfinished batch or they themselves will write. One with native code is a batch by itself: its commands can be submitted
    /// only once, and so not again without those of a job beside it that could not be encoded.
    fn gather(&mut self, jobs: &VecDeque<Job>) -> usize {
        for (at, job) in jobs.iter().enumerate() {
            let waits = |op: &Op| self.written.iter().any(|(_, written)| op.waits_for(written));
            if !self.written.is_empty() && job.ops.iter().any(waits) {
                return at;
            }
            let is_native = job.ops.iter().any(|op| matches!(op, Op::Native(_)));
            if is_native && at > 0 {
                return at;
            }
            self.written.extend(job.ops.iter().filter_map(Op::written).map(|w| (self.submitted, w)));
            if is_native {
                return 1;
            }
        }
        jobs.len()
    }
}

/// A group's operations, and whether it is to be timed.
struct Ops {
    ops: ops::Ops,
    timed: bool,
}

impl Ops {
    fn items(&self) -> impl Iterator<Item = Item<'_>> {
        let stamp = self.timed.then_some(Item::Stamp);
        stamp.into_iter().chain(self.ops.iter().map(Item::Op)).chain(stamp)
    }
}

/// Groups that are submitted at once.
struct Batch {
    stage: Stage,
    commands: Vec<wgpu::CommandBuffer>,
    ends: Vec<End>,
    downloads: Vec<Download>,
    times: Vec<Times>,
}

impl Batch {
    /// Encodes groups, all with one encoder. If that fails, each gets its own, so that the error belongs to one, and the others
    /// run.
    fn encode(gpu: &Gpu, jobs: Vec<Job>) -> Batch {
        let (mut ends, mut all) = (Vec::with_capacity(jobs.len()), Vec::with_capacity(jobs.len()));
        for Job { completion, point, timed, ops } in jobs {
            ends.push(End { completion, point, error: None, times: None });
            // A group without work runs at no time.
            let timed = timed && !ops.is_empty();
            all.push(Ops { ops, timed });
        }
        let (stage, commands) = (Stage::new(&gpu.limits), Vec::new());
        let mut batch = Batch { stage, commands, ends, downloads: Vec::new(), times: Vec::new() };
        let together = batch.add(gpu, 0, &all);
        match together {
            Ok(()) => {}
            Err(error) if all.len() == 1 => batch.ends[0].error = Some(error),
            Err(_) => {
                for (at, ops) in all.chunks(1).enumerate() {
                    batch.ends[at].error = batch.add(gpu, at, ops).err();
                }
            }
        }
        batch
    }

    /// Encodes groups, of which the first is at this place in the batch.
    fn add(&mut self, gpu: &Gpu, first: usize, groups: &[Ops]) -> Result<(), BackendError> {
        let mut items = groups.iter().flat_map(Ops::items).peekable();
        if items.peek().is_none() {
            return Ok(());
        }
        let timed = groups.iter().zip(first..).filter(|(group, _)| group.timed).map(|(_, at)| at);
        let timed: Vec<usize> = timed.collect();
        let (stage, stamps) = (&mut self.stage, 2 * timed.len());
        let encoded = gpu.guarded("CommandEncoder::finish", || encode::encode(gpu, stage, items, stamps))?;
        self.commands.extend(encoded.commands);
        self.downloads.extend(encoded.downloads);
        self.times.extend(encoded.stamps.map(|from| Times { from, ends: timed }));
        Ok(())
    }

    fn submit(self, gpu: &Gpu) -> Flight {
        let Batch { stage, commands, ends, downloads, times } = self;
        let index =
            gpu.guarded("Queue::submit", || Ok((!commands.is_empty()).then(|| gpu.queue.submit(commands))));
        Flight { index, ends, downloads, times, stage }
    }
}
