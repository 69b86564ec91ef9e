//! Helpers for work that falls into blocks: the owner of a task works it off, and idle helpers join in.
//!
//! A task is worked off even if no helper ever comes: the owner takes blocks too. So tasks whose blocks wait for
//! another task's cannot starve that one, however few helpers there are.
//!
//! Blocks are given out by atomic counters, which order nothing. What orders is their lock: a helper enters a
//! task and leaves it under the lock, and [`Helpers::run`] returns after it saw, under the lock, that all have left.
//! By then no helper holds the task any more, so its body is dropped by its owner and at no other time.
//!
//! A task's blocks lie in sections, one for each thread that may come, and a thread begins with its own: so it works
//! on neighbouring blocks, and, of tasks of one size, always on the same ones.

use std::fmt;

use crate::completion::soon;
use crate::facade::{Arc, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock};
use crate::panics::{Panicked, catch};

/// Work that falls into blocks, which may run at the same time.
pub trait Blocks: Send + Sync {
    /// How many blocks there are.
    fn count(&self) -> usize;

    /// Runs block `block`; called once for each.
    fn run(&self, block: usize);
}

/// A body, and which of its blocks have been taken. It is run once.
pub struct Task<B> {
    body: B,
    /// At least one.
    sections: Box<[Section]>,
    panic: Mutex<Option<Panicked>>,
}

/// Blocks that one thread begins with.
struct Section {
    next: AtomicUsize,
    end: usize,
}

impl Section {
    /// A block that nobody else takes.
    fn take(&self) -> Option<usize> {
        // Relaxed: the counter only makes sure that each block has one taker. Each thread goes beyond the end by
        // one at most, so it does not wrap.
        let block = self.next.fetch_add(1, Ordering::Relaxed);
        (block < self.end).then_some(block)
    }

    /// How many blocks have not been taken; a hint.
    fn left(&self) -> usize {
        // Relaxed: the counter only grows, so a stale value shows more blocks than there are. That costs a helper a
        // visit in vain, and never hides work.
        self.end.saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

impl<B: Blocks> Task<B> {
    /// A task of which no block has run, for so many threads.
    pub fn new(body: B, threads: usize) -> Self {
        let (count, threads) = (body.count(), threads.max(1));
        // The first `count % threads` sections have a block more.
        let first = |section: usize| count / threads * section + section.min(count % threads);
        let section = |at| Section { next: AtomicUsize::new(first(at)), end: first(at + 1) };
        Task { body, sections: (0..threads).map(section).collect(), panic: Mutex::new(None) }
    }

    /// Takes blocks, those of section `place` first, and runs them until none is left. After a panic none is.
    fn work(&self, place: usize) {
        let (before, from) = self.sections.split_at(place % self.sections.len());
        for section in from.iter().chain(before) {
            while let Some(block) = section.take() {
                // A helper must survive the panic of a task, and the owner must not unwind while helpers are in the
                // body. So the payload is kept, and the counters are moved to their ends, which stops the others after
                // their block.
                if let Err(panic) = catch(|| self.body.run(block)) {
                    for section in &self.sections {
                        section.next.fetch_max(section.end, Ordering::Relaxed);
                    }
                    lock(&self.panic).get_or_insert(panic);
                }
            }
        }
    }

    /// How many blocks have not been taken; a hint.
    fn left(&self) -> usize {
        self.sections.iter().map(Section::left).sum()
    }
}

/// Threads that help with tasks, and the tasks that want help.
pub struct Helpers<B> {
    state: Mutex<State<B>>,
    /// Idle helpers sleep here.
    offered: Condvar,
    /// Owners sleep here until their last helper has left.
    left: Condvar,
}

struct State<B> {
    offers: Vec<Offer<B>>,
    idle: usize,
    closed: bool,
}

struct Offer<B> {
    task: Arc<Task<B>>,
    helpers: usize,
}

impl<B> State<B> {
    fn position(&self, task: &Arc<Task<B>>) -> usize {
        match self.offers.iter().position(|o| Arc::ptr_eq(&o.task, task)) {
            Some(at) => at,
            None => unreachable!("only its owner takes an offer back, after the last helper left"),
        }
    }
}

impl<B: Blocks> Helpers<B> {
    /// No helpers yet. Each thread that calls [`Helpers::help`] is one.
    pub fn new() -> Self {
        Helpers {
            state: Mutex::new(State { offers: Vec::new(), idle: 0, closed: false }),
            offered: Condvar::new(),
            left: Condvar::new(),
        }
    }

    /// Runs all blocks of `task`, on this thread and on helpers that are idle, and returns when all have ended. The
    /// error is the first panic; blocks that had not started by then do not run.
    pub fn run(&self, task: &Arc<Task<B>>) -> Result<(), Panicked> {
        let shared = task.left() > 1;
        if shared {
            self.offer(task);
        }
        task.work(0);
        if shared {
            self.take_back(task);
        }
        match lock(&task.panic).take() {
            Some(payload) => Err(payload),
            None => Ok(()),
        }
    }

    fn offer(&self, task: &Arc<Task<B>>) {
        let mut state = lock(&self.state);
        state.offers.push(Offer { task: task.clone(), helpers: 0 });
        // A helper that is not idle looks for offers before it sleeps, under the lock that this one was pushed
        // under.
        let idle = state.idle > 0;
        drop(state);
        if idle {
            // One is enough: each helper that comes wakes more (see `enter`).
            self.offered.notify_one();
        }
    }

    fn take_back(&self, task: &Arc<Task<B>>) {
        // No block is left to take, but helpers that have entered may still be running theirs. The wait is often
        // short, so the owner looks again a few times before it sleeps.
        let alone = |state: &State<B>| state.offers[state.position(task)].helpers == 0;
        if !alone(&lock(&self.state)) {
            soon(|| alone(&lock(&self.state)));
        }
        let mut state = lock(&self.state);
        // The last look and the removal are under one lock: no helper can enter in between.
        while !alone(&state) {
            state = wait(&self.left, state);
        }
        let at = state.position(task);
        state.offers.swap_remove(at);
    }

    /// Helps until [`Helpers::close`], beginning with section `place` of each task; owners begin with the first one.
    pub fn help(&self, place: usize) {
        let mut state = lock(&self.state);
        loop {
            if let Some((task, wakes)) = self.enter(&mut state) {
                // After the lock is free: who is woken wants it at once.
                drop(state);
                (0..wakes).for_each(|_| self.offered.notify_one());
                task.work(place);
                state = lock(&self.state);
                self.leave(&mut state, task);
            } else if state.closed {
                return;
            } else {
                state.idle += 1;
                state = wait(&self.offered, state);
                state.idle -= 1;
            }
        }
    }

    /// Enters a task that has blocks left, and says how many others its caller has to wake: two at most, of those that
    /// sleep and would find a block. So threads wake each other as a tree; an owner that woke all of them would come
    /// late to its own first block, and in a chain the last one would come when most of the work is done.
    fn enter(&self, state: &mut State<B>) -> Option<(Arc<Task<B>>, usize)> {
        let idle = state.idle;
        let mut counted = state.offers.iter_mut().map(|offer| (offer.task.left(), offer));
        let (left, offer) = counted.find(|(left, _)| *left > 0)?;
        offer.helpers += 1;
        // One block is this helper's own.
        let wakes = idle.min(left - 1).min(2);
        Some((offer.task.clone(), wakes))
    }

    /// Lets go of the task. The offer holds it too, and the owner cannot take that back before the lock is free: so
    /// this is never the last reference.
    fn leave(&self, state: &mut State<B>, task: Arc<Task<B>>) {
        let at = state.position(&task);
        drop(task);
        state.offers[at].helpers -= 1;
        if state.offers[at].helpers == 0 {
            // All: several owners may sleep here.
            self.left.notify_all();
        }
    }

    /// Sends the helpers home once they find nothing to do.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.offered.notify_all();
    }
}

impl<B: Blocks> Default for Helpers<B> {
    fn default() -> Self {
        Self::new()
    }
}

fn wait<'a, T>(condvar: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    match condvar.wait(guard) {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

impl<B> fmt::Debug for Task<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("sections", &self.sections.len()).finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for Helpers<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Helpers").field("offers", &state.offers.len()).field("idle", &state.idle).finish()
    }
}

#[cfg(all(test, not(windlass_loom)))]
mod tests {
    use super::*;
    use crate::facade::thread;

    /// Counts the runs of each block; one of them may panic.
    struct Counts {
        runs: Vec<AtomicUsize>,
        bad: Option<usize>,
    }

    impl Blocks for Counts {
        fn count(&self) -> usize {
            self.runs.len()
        }

        fn run(&self, block: usize) {
            self.runs[block].fetch_add(1, Ordering::Relaxed);
            assert!(self.bad != Some(block), "block {block} is bad");
        }
    }

    fn counts(count: usize, bad: Option<usize>) -> Arc<Task<Counts>> {
        Arc::new(Task::new(Counts { runs: (0..count).map(|_| AtomicUsize::new(0)).collect(), bad }, 3))
    }

    fn with_helpers(count: usize, owner: impl Fn(&Helpers<Counts>) + Sync) {
        let helpers = Helpers::new();
        thread::scope(|s| {
            for place in 0..count {
                let helpers = &helpers;
                s.spawn(move || helpers.help(place));
            }
            let owners = [s.spawn(|| owner(&helpers)), s.spawn(|| owner(&helpers))];
            let ended = owners.map(|o| o.join());
            helpers.close();
            for end in ended {
                end.expect("the owner's checks hold");
            }
        });
    }

    #[test]
    fn each_block_runs_once_and_the_owner_is_left_alone_with_the_task() {
        with_helpers(3, |helpers| {
            for round in 0..200 {
                let mut task = counts(round, None);
                assert!(helpers.run(&task).is_ok());
                let task = Arc::get_mut(&mut task).expect("no helper holds the task any more");
                assert!(task.body.runs.iter_mut().all(|r| *r.get_mut() == 1));
            }
        });
    }

    #[test]
    fn a_panic_ends_the_task_and_not_the_helpers() {
        with_helpers(2, |helpers| {
            for _ in 0..20 {
                let task = counts(64, Some(5));
                let payload = helpers.run(&task).expect_err("block 5 panics");
                assert_eq!(payload.message(), "block 5 is bad");
                assert!(helpers.run(&counts(64, None)).is_ok());
            }
        });
    }
}
