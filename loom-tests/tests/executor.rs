//! The executor: wakes against polls, spawns against its end.
#![cfg(windlass_loom)]

use std::future::poll_fn;
use std::sync::Arc as StdArc;
use std::task::{Poll, Waker};

use loom::future::block_on;
use windlass_loom_tests::model;
use windlass_sync::cell::{EventCell, Registration};
use windlass_sync::executor::Executor;
use windlass_sync::facade::{AtomicUsize, Mutex, Ordering, lock, thread};

/// A place where a task leaves its waker for others.
type Left = StdArc<Mutex<Option<Waker>>>;

fn leave(left: &Left, waker: &Waker) {
    *lock(left) = Some(waker.clone());
}

fn wake(left: &Left) {
    let waker = lock(left).clone();
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Counts what is done to it, with a load and a store: loom sees it if two threads do so at once.
#[derive(Clone)]
struct Count(StdArc<AtomicUsize>);

impl Count {
    fn new() -> Self {
        Count(StdArc::new(AtomicUsize::new(0)))
    }

    fn add(&self) {
        self.0.store(self.get() + 1, Ordering::Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts its drop.
struct Dropped(Count);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.add();
    }
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("nothing there panics")
}

/// Waits for a signal.
fn signalled(cell: &EventCell<()>) -> impl Future<Output = ()> + '_ {
    let mut registration = Registration::default();
    poll_fn(move |cx| cell.poll_simply(&mut registration, cx))
}

fn signal(cell: &EventCell<()>) {
    cell.complete(()).into_iter().for_each(|w| w.wake());
}

/// Two wakes meet a poll. The last poll sees what was done before each of them, also where a wake changed nothing.
///
/// - Broken in `TaskState::stop`, a store of `IDLE`: a wake is lost, and "the task is done" does not hold.
/// - Broken in `TaskState::wake`, a return without the exchange where nothing changes: the same, with both woken.
/// - Broken in `TaskState::start`, `Relaxed` for `AcqRel`: the same.
/// - Broken in `Task::run`, no requeue after `AfterPoll::Again`: the same.
#[test]
fn no_wake_is_lost() {
    model(|| {
        let executor = Executor::new("model", 0);
        let (left, flags) = (Left::default(), StdArc::new([AtomicUsize::new(0), AtomicUsize::new(0)]));
        let done = Count::new();
        executor.spawn({
            let (left, flags, done) = (left.clone(), flags.clone(), done.clone());
            poll_fn(move |cx| {
                leave(&left, cx.waker());
                if flags.iter().any(|f| f.load(Ordering::Relaxed) == 0) {
                    return Poll::Pending;
                }
                done.add();
                Poll::Ready(())
            })
        });
        executor.run_until_stalled();
        let waker = lock(&left).clone().expect("the task was polled");
        let wakers = [0, 1].map(|i| {
            let (flags, waker) = (flags.clone(), waker.clone());
            thread::spawn(move || {
                flags[i].store(1, Ordering::Relaxed);
                waker.wake();
            })
        });
        executor.run_until_stalled();
        wakers.into_iter().for_each(join);
        executor.run_until_stalled();
        assert_eq!(done.get(), 1, "the task is done");
        assert_eq!(executor.stats().live, 0);
        executor.close();
    });
}

/// Two threads drive the executor while the task is woken: it is polled by one of them at a time, and each sees what
/// the other's poll did.
///
/// Broken in `TaskState::wake`, `RUNNING => QUEUED`, and the task put on the queue: "each poll sees the one before" finds
/// 1 for 2.
#[test]
fn a_task_is_polled_by_one_thread_at_a_time() {
    model(|| {
        let executor = Executor::new("model", 0);
        let (left, polls) = (Left::default(), Count::new());
        executor.spawn({
            let (left, polls) = (left.clone(), polls.clone());
            poll_fn(move |cx| {
                leave(&left, cx.waker());
                polls.add();
                Poll::Pending
            })
        });
        let other = {
            let executor = executor.clone();
            thread::spawn(move || executor.run_until_stalled())
        };
        let waker = {
            let left = left.clone();
            thread::spawn(move || wake(&left))
        };
        let ours = executor.run_until_stalled();
        let theirs = join(other);
        join(waker);
        let late = executor.run_until_stalled();
        assert_eq!(polls.get(), ours + theirs + late, "each poll sees the one before");
        executor.close();
    });
}

/// A worker sleeps, or is about to, when its task is woken; then the executor ends, and so does the worker.
///
/// - Broken in `Shared::work`, the queue looked at in a turn of the lock of its own, before the sleep: loom reports a
///   deadlock.
/// - Broken in `Shared::enqueue`, without `notify_one`: the same.
/// - Broken in `Executor::close`, without `notify_all`: the same.
/// - Broken in `Shared::work`, `told` not lowered after the sleep: the same.
#[test]
fn a_worker_is_told() {
    model(|| {
        let executor = Executor::new("model", 1);
        let cells = StdArc::new([EventCell::new(()), EventCell::new(()), EventCell::new(())]);
        executor.spawn({
            let cells = cells.clone();
            async move {
                signalled(&cells[0]).await;
                signalled(&cells[1]).await;
                signal(&cells[2]);
            }
        });
        signal(&cells[0]);
        signal(&cells[1]);
        block_on(signalled(&cells[2]));
        executor.close();
    });
}

/// Two workers share the tasks, one of which panics: all end, and nobody is left behind.
///
/// - Broken in `Shared::enqueue`, `told` raised without a notice: loom reports a deadlock.
/// - Broken in `Task::poll`, without `catch_unwind`: the panic gets out.
#[test]
fn two_workers_and_a_task_that_panics() {
    /// Tells that it was dropped.
    struct Guard(StdArc<[EventCell<()>; 3]>);

    impl Drop for Guard {
        fn drop(&mut self) {
            signal(&self.0[2]);
        }
    }

    model(|| {
        let executor = Executor::new("model", 2);
        let cells = StdArc::new([(); 3].map(EventCell::new));
        let guard = Guard(cells.clone());
        executor.spawn(async move {
            let _guard = guard;
            // Without the hook's message.
            std::panic::resume_unwind(Box::new("a task that panics"));
        });
        for i in [0, 1] {
            let cells = cells.clone();
            executor.spawn(async move { signal(&cells[i]) });
        }
        for cell in &*cells {
            block_on(signalled(cell));
        }
        executor.close();
        assert_eq!((executor.stats().live, executor.stats().spawned), (0, 3));
    });
}

/// A future that comes while the executor ends is dropped once, by one side or the other, whether it was polled or not.
///
/// - Broken in `Executor::spawn`, without the look at `closed`: "the future is dropped once" finds 0, as the task is
///   kept by the table.
/// - Broken in `Executor::close`, no task ended: the same, as the task's waker is kept.
#[test]
fn a_future_that_comes_too_late_is_dropped() {
    model(|| {
        let executor = Executor::new("model", 0);
        let (left, dropped) = (Left::default(), Count::new());
        let spawner = {
            let (executor, left, guard) = (executor.clone(), left.clone(), Dropped(dropped.clone()));
            thread::spawn(move || {
                executor.spawn(poll_fn(move |cx| {
                    let _guard = &guard;
                    leave(&left, cx.waker());
                    Poll::Pending
                }));
                executor.run_until_stalled();
            })
        };
        executor.close();
        join(spawner);
        assert_eq!(dropped.get(), 1, "the future is dropped once");
        assert_eq!(executor.run_until_stalled(), 0);
        drop(left);
    });
}

/// The executor ends while a task is polled and woken. Its future is dropped, though others keep its waker.
///
/// - Broken in `TaskState::end`, `RUNNING` and `WOKEN` counted as the caller's: "gives its future to one thread at a
///   time" is reached.
/// - Broken in `TaskState::stop`, `OVER` treated as a wake: "the future is dropped once" finds 0.
/// - Broken in `Task::end`, a future that is being polled left alone, and nobody told: the same.
#[test]
fn a_future_does_not_outlive_the_executor() {
    model(|| {
        let executor = Executor::new("model", 0);
        let (left, dropped) = (Left::default(), Count::new());
        executor.spawn({
            let (left, guard) = (left.clone(), Dropped(dropped.clone()));
            poll_fn(move |cx| {
                let _guard = &guard;
                leave(&left, cx.waker());
                Poll::Pending
            })
        });
        let driver = {
            let executor = executor.clone();
            thread::spawn(move || executor.run_until_stalled())
        };
        let waker = {
            let left = left.clone();
            thread::spawn(move || wake(&left))
        };
        executor.close();
        join(driver);
        join(waker);
        assert_eq!(dropped.get(), 1, "the future is dropped once");
        wake(&left);
        assert_eq!(executor.run_until_stalled(), 0);
    });
}
