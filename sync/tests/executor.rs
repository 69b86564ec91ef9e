//! The executor: counts, panics, its end.
#![cfg(not(windlass_loom))]

use std::future::{pending, poll_fn, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use windlass_sync::executor::{Executor, ExecutorStats};

/// Nothing here takes this long, or in Miri this long; what does has hung.
const HANG: Duration = Duration::from_secs(if cfg!(miri) { 600 } else { 30 });

/// Counts its drop.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A future that leaves its waker and never ends, and counts its drop.
fn stuck(left: &Arc<Mutex<Option<Waker>>>, drops: &Arc<AtomicUsize>) -> impl Future<Output = ()> + use<> {
    let (left, guard) = (left.clone(), Guard(drops.clone()));
    poll_fn(move |cx| {
        let _guard = &guard;
        *left.lock().expect("nobody panics here") = Some(cx.waker().clone());
        Poll::Pending
    })
}

#[test]
fn run_until_stalled_counts_its_polls() {
    let executor = Executor::new("test", 0);
    assert_eq!(executor.run_until_stalled(), 0);
    executor.spawn(ready(()));
    executor.spawn(pending());
    let mut left = 3;
    executor.spawn(poll_fn(move |cx| {
        left -= 1;
        if left == 0 {
            return Poll::Ready(());
        }
        // Several wakes of a running task are one more poll.
        cx.waker().wake_by_ref();
        cx.waker().wake_by_ref();
        Poll::Pending
    }));
    assert_eq!(executor.run_until_stalled(), 5);
    assert_eq!(executor.run_until_stalled(), 0);
    assert_eq!(executor.stats(), ExecutorStats { spawned: 3, live: 1, polls: 5, threads: 0 });
    // What is left would keep the executor, and be kept by it.
    executor.close();
}

#[test]
fn a_woken_task_is_queued_once_and_an_ended_one_not_at_all() {
    let executor = Executor::new("test", 0);
    let (left, drops) = (Arc::default(), Arc::default());
    executor.spawn(stuck(&left, &drops));
    assert_eq!(executor.run_until_stalled(), 1);
    let waker = left.lock().expect("nobody panics here").take().expect("the task was polled");
    for _ in 0..10 {
        waker.wake_by_ref();
    }
    assert_eq!(executor.run_until_stalled(), 1);
    executor.close();
    assert_eq!(drops.load(Ordering::SeqCst), 1);
    waker.wake();
    assert_eq!(executor.run_until_stalled(), 0);
}

#[test]
fn a_task_that_spawns_is_followed_to_the_end() {
    fn chain(executor: Executor, left: usize) {
        if left > 0 {
            let next = executor.clone();
            executor.spawn(async move { chain(next, left - 1) });
        }
    }
    let executor = Executor::new("test", 0);
    chain(executor.clone(), 1000);
    assert_eq!(executor.run_until_stalled(), 1000);
    assert_eq!(executor.stats().live, 0);
}

#[test]
fn a_task_that_panics_is_dropped_and_harms_nobody() {
    let executor = Executor::new("test", 0);
    let drops = Arc::new(AtomicUsize::new(0));
    let guard = Guard(drops.clone());
    executor.spawn(poll_fn(move |_| -> Poll<()> {
        let _guard = &guard;
        // Without the hook's message.
        std::panic::resume_unwind(Box::new(()))
    }));
    executor.spawn(ready(()));
    assert_eq!(executor.run_until_stalled(), 2);
    assert_eq!((drops.load(Ordering::SeqCst), executor.stats().live), (1, 0));
}

/// Panics when it is dropped.
struct Bad;

impl Drop for Bad {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new(()));
        }
    }
}

#[test]
fn a_panic_in_a_drop_harms_nobody() {
    let executor = Executor::new("test", 0);
    // As a payload, in a future that is done, in one that is dropped with the executor, and in one that comes too late.
    executor.spawn(poll_fn(|_| -> Poll<()> { std::panic::resume_unwind(Box::new(Bad)) }));
    let bad = Bad;
    executor.spawn(poll_fn(move |_| {
        let _bad = &bad;
        Poll::Ready(())
    }));
    assert_eq!(executor.run_until_stalled(), 2);
    assert_eq!(executor.stats().live, 0);
    for _ in 0..2 {
        let bad = Bad;
        executor.spawn(poll_fn(move |_| {
            let _bad = &bad;
            Poll::Pending
        }));
        executor.close();
    }
}

#[test]
fn close_drops_every_future_once() {
    let executor = Executor::new("test", 0);
    let (left, drops) = (Arc::default(), Arc::default());
    executor.spawn(stuck(&left, &drops));
    executor.run_until_stalled();
    executor.spawn(stuck(&left, &drops));
    executor.close();
    assert_eq!(drops.load(Ordering::SeqCst), 2, "one that was polled, and one that never was");
    executor.spawn(stuck(&left, &drops));
    assert_eq!(drops.load(Ordering::SeqCst), 3, "one that came too late");
    executor.close();
    assert_eq!((executor.run_until_stalled(), drops.load(Ordering::SeqCst)), (0, 3));
}

#[test]
fn a_task_that_closes_its_executor_is_dropped_after_its_poll() {
    let executor = Executor::new("test", 0);
    let (left, drops) = (Arc::<Mutex<Option<Waker>>>::default(), Arc::new(AtomicUsize::new(0)));
    let (inner, at_close) = (executor.clone(), Arc::new(AtomicUsize::new(usize::MAX)));
    let (kept, guard, seen) = (left.clone(), Guard(drops.clone()), at_close.clone());
    executor.spawn(poll_fn(move |cx| {
        *kept.lock().expect("nobody panics here") = Some(cx.waker().clone());
        inner.close();
        seen.store(guard.0.load(Ordering::SeqCst), Ordering::SeqCst);
        Poll::Pending
    }));
    executor.run_until_stalled();
    assert_eq!(at_close.load(Ordering::SeqCst), 0, "not while it is polled");
    assert_eq!(drops.load(Ordering::SeqCst), 1, "though its waker is kept");
}

#[test]
fn threads_start_with_the_first_work_and_end_with_the_executor() {
    let executor = Executor::new("test", 2);
    assert_eq!(executor.stats().threads, 0);
    let (told, tells) = mpsc::channel();
    for i in 0..100 {
        let told = told.clone();
        executor.spawn(async move { told.send(i).expect("the test listens") });
    }
    let mut heard: Vec<i32> = (0..100).map(|_| tells.recv_timeout(HANG).expect("every task runs")).collect();
    heard.sort_unstable();
    assert!(heard.into_iter().eq(0..100));
    assert!((1..=2).contains(&executor.stats().threads));
    executor.close();
    let deadline = std::time::Instant::now() + HANG;
    while executor.stats().threads > 0 {
        assert!(std::time::Instant::now() < deadline, "the threads end");
        std::thread::yield_now();
    }
}

#[test]
fn two_tasks_that_wait_for_each_other_need_two_threads() {
    let executor = Executor::new("test", 2);
    let (there, back) = (mpsc::channel(), mpsc::channel());
    let done = mpsc::channel();
    executor.spawn(async move {
        there.0.send(()).expect("the other listens");
        back.1.recv_timeout(HANG).expect("the other answers");
        done.0.send(()).expect("the test listens");
    });
    executor.spawn(async move {
        there.1.recv_timeout(HANG).expect("the other asks");
        back.0.send(()).expect("the other listens");
    });
    done.1.recv_timeout(HANG).expect("both run at the same time");
    executor.close();
}
