//! The executor: a slab of tasks, a queue of those that were woken, and threads that start when there is work.
//!
//! Gates, proxies and the steps of transfers are futures on it; a second one runs user code that brings no
//! runtime. With no threads it is driven by [`Executor::run_until_stalled`], from any thread.
//!
//! # A task's life
//!
//! The word of a task (see `executor/state.rs`) says whether it is idle, queued, running, running and woken meanwhile,
//! or over. A wake makes an idle task queued and puts it on the queue, and leaves a mark on a running one; the worker
//! that polled it looks for the mark and queues it again. So a task is on the queue at most once, is polled by one thread
//! at a time, and no wake is lost. Closing the executor makes every task's word say that it is over; a task that is
//! running just then is dropped by its worker, after the poll. So wakers that outlive the executor hold no future.
//!
//! # Sleep
//!
//! A worker takes from the queue and sleeps on its condition variable, both under the queue's mutex, and a wake pushes
//! under that mutex before it notifies: the worker is either still awake, and sees the entry, or asleep, and is told.

mod state;

use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc as StdArc;
use std::task::{Context, Poll, Wake, Waker};

use slab::Slab;

use crate::facade::{Condvar, Mutex, MutexGuard, lock, try_lock};
use crate::panics::{Panicked, catch, contain};
#[cfg(not(windlass_loom))]
use crate::threads::forbid_blocking;
use state::{AfterPoll, TaskState};

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How many tasks a worker polls before it looks at the queue's lock again.
const BUDGET: usize = 64;

/// See the module documentation. Clones are handles to the same executor.
#[derive(Clone, Debug)]
pub struct Executor {
    shared: StdArc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: &'static str,
    max_threads: usize,
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    woken: VecDeque<StdArc<Task>>,
    tasks: Slab<StdArc<Task>>,
    threads: usize,
    sleeping: usize,
    /// Sleepers that have been told and have not woken yet: a burst of wakes makes one system call for each.
    told: usize,
    closed: bool,
    spawned: u64,
    polls: u64,
}

/// One future and the word that says what may be done with it.
struct Task {
    state: TaskState,
    key: Mutex<usize>,
    future: Mutex<Option<BoxFuture>>,
    shared: StdArc<Shared>,
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").finish_non_exhaustive()
    }
}

/// What an executor has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExecutorStats {
    /// Tasks that were ever spawned.
    pub spawned: u64,
    /// Tasks that have not ended.
    pub live: usize,
    /// Polls of tasks.
    pub polls: u64,
    /// Threads that are running.
    pub threads: usize,
}

impl Executor {
    /// An executor that starts up to `max_threads` threads, when there is work for them. None: a manual one.
    pub fn new(name: &'static str, max_threads: usize) -> Self {
        let queue = Mutex::new(Queue::default());
        Executor { shared: StdArc::new(Shared { name, max_threads, queue, ready: Condvar::new() }) }
    }

    /// Takes in a future. It is polled soon, and dropped when it is done or panics.
    pub fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let task = StdArc::new(Task {
            state: TaskState::queued(),
            key: Mutex::new(usize::MAX),
            future: Mutex::new(Some(Box::pin(future))),
            shared: self.shared.clone(),
        });
        let mut queue = lock(&self.shared.queue);
        // `close` has taken the table already, so a task that was entered now would never be dropped. Its future is
        // dropped without the lock: that is foreign code, and may wake or spawn.
        if queue.closed {
            drop(queue);
            return task.end();
        }
        queue.spawned += 1;
        // The key is set and the task queued under one lock: a worker that finishes it at once finds its key.
        *lock(&task.key) = queue.tasks.insert(task.clone());
        self.shared.enqueue(queue, task);
    }

    /// Polls woken tasks on this thread until none is left; returns how many polls that took.
    pub fn run_until_stalled(&self) -> usize {
        let mut polls = 0;
        while let Some(task) = self.shared.next_task() {
            task.run();
            polls += 1;
        }
        polls
    }

    /// Ends the executor: threads end after their current task, and all futures are dropped, those that are being
    /// polled right now as soon as their polls return.
    pub fn close(&self) {
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        let woken = mem::take(&mut queue.woken);
        let tasks = mem::take(&mut queue.tasks);
        drop(queue);
        // Tasks that are in a worker's batch, or are being polled, are in the table as well. The former are over
        // when the worker comes to them (`TaskState::start` fails); the latter are dropped by their worker.
        self.shared.ready.notify_all();
        for (_, task) in tasks {
            task.end();
        }
        drop(woken);
    }

    /// What it has done so far.
    pub fn stats(&self) -> ExecutorStats {
        let queue = lock(&self.shared.queue);
        ExecutorStats {
            spawned: queue.spawned,
            live: queue.tasks.len(),
            polls: queue.polls,
            threads: queue.threads,
        }
    }
}

impl Shared {
    fn next_task(&self) -> Option<StdArc<Task>> {
        let mut queue = lock(&self.queue);
        let task = queue.woken.pop_front();
        queue.polls += u64::from(task.is_some());
        task
    }

    /// Puts a task on the queue, and makes sure that a thread takes it.
    fn enqueue(self: &StdArc<Self>, mut queue: MutexGuard<'_, Queue>, task: StdArc<Task>) {
        queue.woken.push_back(task);
        // One of three holds. A sleeper has not been told yet: tell it. All sleepers have been told: each looks
        // at the queue before it sleeps again, so it finds this entry. None sleeps: the workers that run look at
        // the queue when their batch is done, and one more thread is started if there may be.
        let start = queue.sleeping == 0 && queue.threads < self.max_threads && !queue.closed;
        queue.threads += usize::from(start);
        let tell = queue.sleeping > queue.told;
        queue.told += usize::from(tell);
        drop(queue);
        if tell {
            self.ready.notify_one();
        } else if start {
            self.start_thread();
        }
    }

    #[cfg(not(windlass_loom))]
    fn start_thread(self: &StdArc<Self>) {
        let shared = self.clone();
        let started = std::thread::Builder::new().name(self.name.into()).spawn(move || {
            forbid_blocking();
            shared.work();
        });
        if started.is_err() {
            // The machine has no thread left for us now. The next wake tries again.
            lock(&self.queue).threads -= 1;
        }
    }

    #[cfg(windlass_loom)]
    fn start_thread(self: &StdArc<Self>) {
        let shared = self.clone();
        let _ = self.name;
        crate::facade::thread::spawn(move || shared.work());
    }

    /// A worker's life: take a few woken tasks, poll them, sleep when there are none.
    fn work(self: StdArc<Self>) {
        let mut batch = Vec::with_capacity(BUDGET);
        loop {
            let mut queue = lock(&self.queue);
            while queue.woken.is_empty() && !queue.closed {
                queue.sleeping += 1;
                queue = match self.ready.wait(queue) {
                    Ok(queue) => queue,
                    Err(poisoned) => poisoned.into_inner(),
                };
                queue.sleeping -= 1;
                // After a spurious wake-up this takes back a notice meant for another sleeper. Then one more is
                // told than need be; an entry is never left without a thread, since the one that woke up takes
                // it.
                queue.told = queue.told.saturating_sub(1);
            }
            if queue.closed {
                queue.threads -= 1;
                return;
            }
            // A fair share only: a worker that took all would poll one after the other what idle threads could
            // poll now.
            let share = (queue.woken.len() / queue.threads.max(1)).clamp(1, BUDGET);
            batch.extend(queue.woken.drain(..share));
            queue.polls += batch.len() as u64;
            drop(queue);
            batch.drain(..).for_each(|task: StdArc<Task>| task.run());
        }
    }
}

impl Task {
    /// Polls the future once, and again later if it was woken meanwhile.
    fn run(self: StdArc<Self>) {
        if !self.state.start() {
            return;
        }
        let after = match self.poll() {
            Ok(Poll::Pending) => self.state.stop(),
            // A task that panics is over. Drop guards in its future notify what waits for it.
            Ok(Poll::Ready(())) | Err(_) => AfterPoll::Over,
        };
        match after {
            AfterPoll::Idle => {}
            AfterPoll::Again => self.requeue(),
            // The word first, so that wakes from the future's own drop do nothing; then the table; the drop
            // comes last, as it is foreign code and may take any time.
            AfterPoll::Over => {
                self.state.end();
                self.leave();
                self.drop_future();
            }
        }
    }

    /// The future, for the thread that the task's word gives it to.
    fn future(&self) -> MutexGuard<'_, Option<BoxFuture>> {
        match try_lock(&self.future) {
            Some(slot) => slot,
            None => unreachable!("the task's word gives its future to one thread at a time"),
        }
    }

    fn poll(self: &StdArc<Self>) -> Result<Poll<()>, Panicked> {
        let waker = Waker::from(self.clone());
        let mut slot = self.future();
        let Some(future) = slot.as_mut() else { return Ok(Poll::Ready(())) };
        catch(|| future.as_mut().poll(&mut Context::from_waker(&waker)))
    }

    fn drop_future(&self) {
        let future = self.future().take();
        contain(|| drop(future));
    }

    /// Ends the task without polling it again.
    fn end(&self) {
        if self.state.end() {
            self.drop_future();
        }
    }

    fn requeue(self: StdArc<Self>) {
        let shared = self.shared.clone();
        let queue = lock(&shared.queue);
        // A closed executor has ended the task, or is about to; on the queue it would keep itself and `shared`
        // alive.
        if !queue.closed {
            shared.enqueue(queue, self);
        }
    }

    fn leave(&self) {
        let key = *lock(&self.key);
        // `close` may have emptied the table. Nothing is entered after that, so the key cannot name another task.
        let task = lock(&self.shared.queue).tasks.try_remove(key);
        drop(task);
    }
}

impl Wake for Task {
    fn wake(self: StdArc<Self>) {
        if self.state.wake() {
            self.requeue();
        }
    }

    fn wake_by_ref(self: &StdArc<Self>) {
        if self.state.wake() {
            self.clone().requeue();
        }
    }
}
