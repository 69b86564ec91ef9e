//! Decision 15: the stall report.

#[path = "common/rig.rs"]
mod rig;

use std::time::Duration;

use rig::{Hold, bump, until, wait};
use windlass::Holder;
use windlass::prelude::*;

#[test]
fn d15_waiting_behind_a_guard_is_reported_with_both_source_lines_and_is_no_error() {
    let runtime = Runtime::builder().stall_after(Duration::from_millis(20)).build();
    let queue = Queue::on(runtime.host().unwrap()).unwrap();
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
    assert_eq!(behind.status(), Status::Pending);
    drop(guard);
    wait(behind).unwrap();
    until("it is over", || runtime.stalls().is_empty());
}

#[test]
fn d15_waiting_behind_a_running_group_or_a_future_is_reported() {
    let runtime = Runtime::builder().stall_after(Duration::from_millis(20)).build();
    let queue = Queue::on(runtime.host().unwrap()).unwrap();
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
    assert_eq!(outside.unwrap().cancel(), Cancel::Skipped);
    until("it is over", || runtime.stalls().is_empty());
}
