//! Groups that will not run, whatever they are still ordered behind: their events say so at once, and their credits are free.

#[path = "common/rig.rs"]
mod rig;

use rig::{Gate, Rig, bump, poll_once, put, until, wait};
use windlass::prelude::*;

/// A group that is held back by a gate, and the gate.
fn held(queue: &Queue, buffer: &Buffer<u32>) -> (Event, Gate) {
    let gate = Gate::new();
    let opened = gate.opened();
    let event = queue.submit(|cg| {
        cg.after(opened);
        cg.fill(&cg.overwrite(buffer), 1)
    });
    (event.unwrap(), gate)
}

/// A buffer whose data has failed.
fn broken(queue: &Queue) -> Buffer<u32> {
    let bad = Buffer::from(vec![0_u32; 8]);
    let failing = queue.submit(|cg| {
        let bad = cg.read_write(&bad);
        cg.host_for(1, bad, |_, _| panic!("no data"))
    });
    assert!(wait(failing.unwrap()).is_err());
    bad
}

#[test]
fn a_cancelled_group_gives_its_credit_back_when_it_is_skipped() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let (first, gate) = held(&rig.queue, &x);
    let queue = Queue::builder().device(rig.device.clone()).max_in_flight(2).blocking_build().unwrap();
    let behind = [bump(&queue, &x), bump(&queue, &x)];
    assert!(queue.try_submit(|_| Ok(())).unwrap_err().is_saturated());
    let mut drained = queue.drained();
    assert!(poll_once(&mut drained).is_pending());
    // The last first: it would fail with what it reads.
    for event in behind.iter().rev() {
        assert_eq!(event.cancel(), CancelOutcome::Skipped);
        assert_eq!((event.status(), event.cancel()), (Status::Failed, CancelOutcome::Done));
    }
    assert_eq!(queue.in_flight(), 0, "all its events have resolved");
    wait(drained);
    assert_takes_two(&queue);
    assert!(!first.has_ended());
    gate.open();
    wait(first).unwrap();
    rig.settle();
    // No credit has come back twice.
    assert_takes_two(&queue);
}

/// Two groups are taken, and no third before they have ended.
fn assert_takes_two(queue: &Queue) {
    let gate = Gate::new();
    let take = || {
        let opened = gate.opened();
        queue.try_submit(|cg| {
            cg.after(opened);
            Ok(())
        })
    };
    let taken = [take().unwrap(), take().unwrap()];
    assert!(take().unwrap_err().is_saturated());
    assert_eq!(queue.in_flight(), 2);
    gate.open();
    taken.into_iter().for_each(|event| wait(event).unwrap());
    wait(queue.drained());
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn a_group_with_a_failed_input_fails_at_once() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let bad = broken(&rig.queue);
    let (first, gate) = held(&rig.queue, &x);
    let queue = Queue::builder().device(rig.device.clone()).max_in_flight(8).blocking_build().unwrap();
    let doomed = queue.submit(|cg| {
        let (bad, x) = (cg.read(&bad), cg.read_write(&x));
        cg.host_for(8, (bad, x), |_, _| {})
    });
    let doomed = doomed.unwrap();
    // What it would have written is known to fail too.
    let follows = bump(&queue, &x);
    for event in [&doomed, &follows] {
        assert_eq!((event.status(), event.cancel()), (Status::Failed, CancelOutcome::Done));
        let error = wait(event.clone()).unwrap_err();
        assert!(error.is_dependency_failed() && error.root().is_panic(), "{error}");
    }
    let mut read = x.host_read();
    until("an accessor of what will not be there fails", || poll_once(&mut read).is_ready());
    assert_eq!(queue.in_flight(), 0);
    // The order through them stands: who writes anew still comes after the first.
    let last = put(&queue, &x, 7);
    assert_eq!((first.status(), last.status()), (Status::Pending, Status::Pending));
    assert_eq!(queue.in_flight(), 1);
    gate.open();
    wait(last).unwrap();
    assert_eq!(rig::contents(&x), [7; 8]);
    drop(read);
    rig.settle();
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn those_behind_a_group_that_fails_before_it_starts_fail_with_it() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![0_u32; 8]), Buffer::from(vec![0_u32; 8]));
    let (first, gate) = held(&rig.queue, &x);
    let bad = Gate::new();
    let fails = bad.opened();
    let group = rig.queue.submit(|cg| {
        cg.after(async move {
            fails.await?;
            Err::<(), windlass::BoxError>("not today".into())
        });
        let (x, y) = (cg.read(&x), cg.read_write(&y));
        cg.host_for(8, (x, y), |_, _| {})
    });
    let (group, reader) = (group.unwrap(), bump(&rig.queue, &y));
    assert_eq!((group.status(), reader.status()), (Status::Pending, Status::Pending));
    bad.open();
    // Both are told by one thread, one after the other.
    until("it has failed", || group.status() == Status::Failed);
    until("its reader has failed", || reader.status() == Status::Failed);
    assert!(!first.has_ended());
    assert!(wait(reader).unwrap_err().is_dependency_failed());
    assert!(wait(group).unwrap_err().to_string().contains("not today"));
    gate.open();
    wait(first).unwrap();
}
