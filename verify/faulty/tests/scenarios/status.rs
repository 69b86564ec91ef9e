//! How far groups have come, as their events say it.

use windlass::prelude::*;
use windlass_faulty::Faulty;

use crate::rig::{Outside, Rig, blend, error, single, step};

/// What waits can be skipped, what is with the device cannot, and the event says which it is.
#[test]
fn a_group_waits_then_is_with_its_device_then_has_ended() {
    let rig = Rig::new(Faulty::builder().lanes(1).depth(1));
    let (queue, x) = (rig.queue(0), Buffer::from(vec![1_u32; 4]));
    drop(step(&queue, &x, 0));
    rig.settle();
    let gate = Outside::default();
    let gated = queue.submit(|cg| {
        cg.after(gate.future());
        Ok(())
    });
    let gated = gated.unwrap();
    let (fed, listed) = (step(&queue, &x, 1), step(&queue, &x, 2));
    let all = Event::all([fed.clone(), listed.clone()]);
    assert_eq!(gated.status(), Status::Pending, "it waits for a future");
    assert_eq!(fed.status(), Status::Submitted);
    assert_eq!(listed.status(), Status::Pending, "its lane has no room");
    assert_eq!(all.status(), Status::Pending, "one of them waits");
    assert_eq!((fed.cancel(), fed.status()), (CancelOutcome::TooLate, Status::Submitted));
    assert!(rig.control.run_one());
    rig.control.report(0);
    rig.runtime.run_until_stalled();
    assert_eq!((fed.status(), listed.status()), (Status::Done, Status::Submitted));
    assert_eq!(all.status(), Status::Submitted, "one is with the device, and none waits");
    assert_eq!((gated.cancel(), gated.status()), (CancelOutcome::Skipped, Status::Failed));
    rig.settle();
    assert_eq!((listed.status(), all.status()), (Status::Done, Status::Done));
    drop((queue, x, gated, fed, listed, all));
    rig.end();
}

/// A host task waits, runs, and has ended; nobody has to await it for that.
#[test]
fn a_host_task_runs_while_it_is_with_its_runtime() {
    let rig = single();
    let queue = rig.queue(0);
    let (start, end) = (Outside::default(), Outside::default());
    let (starts, ends) = (start.future(), end.future());
    let task = queue.submit(|cg| {
        cg.after(starts);
        cg.host_task(async move |_| {
            ends.await?;
            Err("not today".into())
        })
    });
    let task = task.unwrap();
    rig.settle();
    assert_eq!(task.status(), Status::Pending);
    start.resolve(Ok(()));
    rig.settle();
    assert_eq!(task.status(), Status::Running);
    end.resolve(Ok(()));
    rig.settle();
    assert_eq!(task.status(), Status::Failed);
    assert!(error(&task).to_string().contains("not today"));
    drop((queue, task));
    rig.end();
}

/// A group that reads from two lanes has run on one of them, which reports, and the other does not yet: it is not said to have
/// ended, nor to wait. Whichever lane it is on, one of the two orders is that one.
#[test]
fn what_has_run_is_not_done_before_its_inputs_are() {
    for [first, second] in [[0, 1], [1, 0]] {
        let rig = Rig::new(Faulty::builder().lanes(2));
        let queue = rig.queue(0);
        let (x, y) = (Buffer::from(vec![1_u32; 4]), Buffer::from(vec![1_u32; 4]));
        // The kernels are built, and no memory is to come.
        drop((step(&queue, &y, 0), blend(&queue, &x, &y, 0)));
        rig.settle();
        rig.control.delay_verdicts(true);
        let steps = [step(&queue, &x, 1), step(&queue, &y, 1)];
        let both = blend(&queue, &x, &y, 1);
        while rig.control.run_all() > 0 {}
        rig.control.report(first);
        rig.runtime.run_until_stalled();
        assert_eq!(steps.iter().filter(|event| event.has_ended()).count(), 1, "one lane has reported");
        assert_eq!(both.status(), Status::Submitted);
        rig.control.report(second);
        rig.runtime.run_until_stalled();
        assert_eq!(both.status(), Status::Done);
        rig.control.delay_verdicts(false);
        drop((queue, x, y, steps, both));
        rig.end();
    }
}
