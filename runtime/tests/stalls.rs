//! Decision 15: the stall report.

#[path = "common/rig.rs"]
mod rig;

use std::task::Poll;
use std::time::Duration;

use rig::{Hold, bump, until, wait};
use windlass::prelude::*;
use windlass::{DeadlockPolicy, Holder};

#[test]
fn d15_waiting_behind_a_guard_is_reported_with_both_source_lines_and_is_no_error() {
    let runtime = Runtime::builder().stall_after(Duration::from_millis(20)).build();
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    let x = Buffer::from(vec![1_u32; 8]);
    wait(bump(&queue, &x)).unwrap();
    let guard = wait(x.host_write()).unwrap();
    let guard_line = line!() - 1;
    let behind = queue.submit(|cg| {
        cg.name("the one that waits");
        cg.read(&x);
        Ok(())
    });
    let behind_line = line!() - 5;
    let behind = behind.unwrap();
    let mut found = Vec::new();
    until("the stall is reported", || {
        found = runtime.stalls();
        !found.is_empty()
    });
    let stall = &found[0];
    assert_eq!((stall.holder, stall.count), (Holder::Guard, 1));
    assert_eq!(stall.holder_at.map(|at| (at.file(), at.line())), Some((file!(), guard_line)));
    assert_eq!(stall.waiting_at.map(|at| (at.file(), at.line())), Some((file!(), behind_line)));
    assert!(stall.to_string().contains("the one that waits"), "{stall}");
    assert!(!behind.has_ended());
    drop(guard);
    wait(behind).unwrap();
    until("it is over", || runtime.stalls().is_empty());
}

#[test]
fn d15_waiting_behind_a_running_group_or_a_future_is_reported() {
    let runtime = Runtime::builder().stall_after(Duration::from_millis(20)).build();
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    let hold = Hold::new();
    let inside = hold.clone();
    let task = queue.submit(|cg| {
        cg.host_task(async move |_| {
            inside.here();
            Ok(())
        })
    });
    let task = task.unwrap();
    let behind = queue.submit(|cg| {
        cg.depends_on(&task);
        Ok(())
    });
    let outside = queue.submit(|cg| {
        cg.after(std::future::pending::<windlass::Result<()>>());
        Ok(())
    });
    until("both are reported", || {
        let holders: Vec<Holder> = runtime.stalls().iter().map(|s| s.holder).collect();
        holders.contains(&Holder::Group) && holders.contains(&Holder::Outside)
    });
    hold.let_go();
    wait(behind.unwrap()).unwrap();
    assert_eq!(outside.unwrap().cancel(), CancelOutcome::Skipped);
    until("it is over", || runtime.stalls().is_empty());
}

#[test]
fn d15_who_waits_for_room_in_a_queue_is_reported() {
    let runtime = Runtime::builder().stall_after(Duration::from_millis(20)).build();
    let queue = Queue::builder().device(runtime.host().unwrap()).max_in_flight(1).blocking_build().unwrap();
    let full = queue.submit(|cg| {
        cg.after(std::future::pending::<windlass::Result<()>>());
        Ok(())
    });
    let (mut first, mut second) = (queue.ready(), queue.ready());
    let line = line!() - 1;
    assert!(rig::poll_once(&mut first).is_pending() && rig::poll_once(&mut second).is_pending());
    let credits = || runtime.stalls().into_iter().find(|stall| stall.holder == Holder::Credits);
    let stall = credits().expect("two wait for room");
    assert_eq!(stall.count, 2);
    assert_eq!(stall.waiting_at.map(|at| (at.file(), at.line())), Some((file!(), line)));
    assert!(stall.to_string().contains("room in a queue"), "{stall}");
    drop(first);
    assert_eq!(credits().map(|stall| stall.count), Some(1), "who gives up is not named any more");
    assert_eq!(full.unwrap().cancel(), CancelOutcome::Skipped);
    until("there is room", || rig::poll_once(&mut second).is_ready());
    assert_eq!(credits(), None);
}

/// A runtime in which waiting for a guard that nobody lets go of is an error.
fn strict() -> Runtime {
    let strict = Runtime::builder().deadlock_policy(DeadlockPolicy::Error);
    strict.stall_after(Duration::from_millis(20)).build()
}

#[test]
fn d15_a_test_may_have_deadlocks_fail() {
    let runtime = strict();
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    let x = Buffer::from(vec![1_u32; 8]);
    wait(bump(&queue, &x)).unwrap();
    let guard = wait(x.host_write()).unwrap();
    let guard_line = line!() - 1;
    let behind = bump(&queue, &x);
    let after_that = queue.submit(|cg| {
        cg.depends_on(&behind);
        Ok(())
    });
    let accessor = x.host_read();
    let error = wait(behind).unwrap_err();
    assert!(error.is_deadlock(), "{error}");
    assert!(error.to_string().contains(&format!("{}:{guard_line}", file!())), "{error}");
    let error = wait(after_that.unwrap()).unwrap_err();
    assert!(error.is_dependency_failed() && error.root().is_deadlock(), "{error}");
    assert!(wait(accessor).unwrap_err().root().is_deadlock());
    drop(guard);
    // What the deadlock took down had not begun.
    wait(queue.submit(|cg| cg.fill(&cg.overwrite(&x), 5)).unwrap()).unwrap();
    assert_eq!(wait(x.host_read()).unwrap()[..], [5; 8]);
}

#[test]
fn d15_what_may_still_go_on_is_no_deadlock() {
    let runtime = Runtime::builder().manual().deadlock_policy(DeadlockPolicy::Error).build();
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    let x = Buffer::from(vec![1_u32; 8]);
    let first = bump(&queue, &x);
    let (mut access, mut guard) = (x.host_write(), None);
    until("the guard is granted", || {
        runtime.run_until_stalled();
        if let Poll::Ready(granted) = rig::poll_once(&mut access) {
            guard = Some(granted.unwrap());
        }
        guard.is_some()
    });
    assert_eq!(first.status(), Status::Done);
    let latch = rig::Gate::new();
    let opened = latch.opened();
    let gated = queue.submit(|cg| {
        cg.after(opened);
        Ok(())
    });
    let behind = bump(&queue, &x);
    // Whoever opens the gate may be whoever drops the guard.
    runtime.run_until_stalled();
    assert!(!behind.has_ended());
    latch.open();
    until("only the guard is left", || {
        runtime.run_until_stalled();
        behind.status() == Status::Failed
    });
    assert!(wait(behind).unwrap_err().is_deadlock());
    assert_eq!(gated.unwrap().status(), Status::Done);
}
