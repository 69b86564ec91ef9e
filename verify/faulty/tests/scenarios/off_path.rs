//! Decisions 9, 23 and 35: what does not happen inside `submit`, `drop` or a driver's callback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass::prelude::*;
use windlass_faulty::Faulty;

use crate::rig::{PANICS, Rig, launch, outcome, pair, set, single, step, stepped};

/// Memory that takes long to make is a gate, worked off once for all who need it, and no call of `submit`'s. Whoever
/// needs none of it goes ahead.
///
/// Seen to fail when all allocations were made on the spot.
#[test]
fn decision_9_memory_to_come_is_a_gate_and_single_flight() {
    let rig = Rig::new(Faulty::builder().lanes(1).slow_allocate());
    let queue = rig.queue(0);
    let (old, fresh) = (Buffer::<u32>::new(4), Buffer::<u32>::new(4));
    rig.finish(set(&queue, &old, 1)).unwrap();
    rig.settle();
    let before = rig.control.audit();
    let waiting: Vec<_> = (0..3).map(|k| set(&queue, &fresh, k)).collect();
    let free = set(&queue, &old, 2);
    let after = rig.control.audit();
    assert_eq!(after.allocates, before.allocates, "submit allocates nothing");
    assert_eq!(after.feeds, before.feeds + 1, "and feeds what needs nothing");
    rig.control.run_all();
    assert!(waiting.iter().all(|e| !e.has_ended()));
    rig.settle();
    assert!(waiting.iter().chain([&free]).all(|e| outcome(e).is_ok()));
    assert_eq!(rig.control.audit().allocates, before.allocates + 1);
    drop((queue, old, fresh, waiting, free));
    rig.end();
}

/// Freeing an unrelated buffer may block for the kernel that runs: it is neither the drop's call nor the verdict's, and
/// waits for no kernel but those that use the buffer.
///
/// Seen to fail when memory was freed where it was let go of.
#[test]
fn decision_23_freeing_an_unrelated_buffer_while_a_kernel_runs_is_left_to_the_reaper() {
    for builder in [Faulty::builder(), Faulty::builder().reports_by_callback()] {
        let rig = Rig::new(builder.lanes(1));
        let queue = rig.queue(0);
        let (used, unrelated) = (Buffer::<u32>::new(4), Buffer::<u32>::new(4));
        drop((set(&queue, &used, 1), set(&queue, &unrelated, 1)));
        rig.settle();
        rig.control.hold(0, true);
        let running = set(&queue, &used, 2);
        assert_eq!(rig.control.audit().allocations, 2);
        drop((used, unrelated));
        assert_eq!(rig.control.audit().allocations, 2, "the drop frees nothing");
        rig.runtime.run_until_stalled();
        assert_eq!(rig.control.audit().allocations, 1, "the reaper does, though the kernel runs");
        assert!(!running.has_ended());
        rig.control.hold(0, false);
        rig.control.run_all();
        assert_eq!(running.status(), Status::Done);
        assert_eq!(rig.control.audit().allocations, 1, "nor does the verdict");
        rig.settle();
        assert_eq!(rig.control.audit().allocations, 0);
        drop((queue, running));
        rig.end();
    }
}

/// Pinned memory takes long to make: the staging of a transfer is made neither by the submission that needs it nor by a
/// verdict.
///
/// Seen to fail when a transfer was begun on the thread that had planned it.
#[test]
fn decision_23_pinning_memory_for_a_transfer_is_no_call_of_submits() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 1 << 10]);
    rig.finish(step(&a, &x, 0)).unwrap();
    rig.finish(set(&b, &Buffer::<u32>::new(4), 0)).unwrap();
    rig.settle();
    let writer = step(&a, &x, 1);
    let reader = step(&b, &x, 2);
    rig.control.run_all();
    assert_eq!((writer.status(), rig.control.audit().staging), (Status::Done, 0));
    rig.settle();
    assert!(outcome(&reader).is_ok());
    assert_eq!((rig.control.audit().staging, rig.runtime.stats().staged_transfers), (1, 1));
    assert_eq!(rig.values(&x), vec![stepped(1, [0, 1, 2]); 1 << 10]);
    drop((a, b, x, writer, reader));
    rig.end();
}

/// Host tasks, outside futures and handlers do not run where a driver reports, be it a callback or not.
///
/// Seen to fail when a handler was called where the error had come to light.
#[test]
fn decision_35_host_side_user_code_does_not_run_inside_a_drivers_report() {
    for builder in [Faulty::builder(), Faulty::builder().reports_by_callback()] {
        let rig = Rig::new(builder.lanes(1));
        let ran = Arc::new(AtomicUsize::new(0));
        let count = || {
            let ran = ran.clone();
            move || {
                ran.fetch_add(1, Ordering::SeqCst);
            }
        };
        let (handled, done) = (count(), count());
        let queue = Queue::builder().runtime(&rig.runtime).handler(move |_| handled());
        let queue = queue.blocking_build().unwrap();
        let (x, y) = (Buffer::from(vec![1_u32; 4]), Buffer::from(vec![1_u32; 4]));
        drop(launch(&queue, &PANICS, &y, 0));
        rig.finish(step(&queue, &x, 0)).unwrap();
        rig.settle();
        assert_eq!(ran.swap(0, Ordering::SeqCst), 1, "the handler, in the warm-up");
        let first = step(&queue, &x, 1);
        drop(launch(&queue, &PANICS, &Buffer::<u32>::new(4), 0));
        let (awaited, outside) = (first.clone(), count());
        let gated = queue.submit(|cg| {
            cg.after(async move {
                let result = awaited.await;
                outside();
                result
            });
            Ok(())
        });
        let task = queue.submit(|cg| {
            cg.depends_on(&first);
            cg.host_task(async move |_| {
                done();
                Ok(())
            })
        });
        // The outside future asks for its event, and waits.
        rig.runtime.run_until_stalled();
        assert!(rig.control.run_all() > 0);
        assert_eq!(
            (first.status(), ran.load(Ordering::SeqCst)),
            (Status::Done, 0),
            "nothing ran by a report"
        );
        rig.settle();
        assert_eq!(ran.load(Ordering::SeqCst), 3, "the handler, the future and the task");
        let (gated, task) = (gated.unwrap(), task.unwrap());
        assert!(outcome(&gated).is_ok() && outcome(&task).is_ok());
        drop((queue, x, y, first, gated, task));
        rig.end();
    }
}

/// What a device held when it was lost is freed by the reaper too, and not by the report of the loss.
///
/// Seen to fail when memory was freed where it was let go of.
#[test]
fn decision_23_what_a_lost_device_held_is_left_to_the_reaper() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(4);
    drop(set(&queue, &x, 1));
    rig.settle();
    let running = set(&queue, &x, 2);
    drop(x);
    rig.control.lose_devices("pulled out");
    rig.control.run_all();
    assert_eq!((running.status(), rig.control.audit().allocations), (Status::Failed, 1));
    rig.settle();
    assert_eq!(rig.control.audit().allocations, 0);
    drop((queue, running));
    rig.end();
}

/// A build that truly waits is a future on the executor: nothing blocks for it, what needs it waits, and everything else goes on.
/// Seen to fail where such a build was waited for on the thread that polls it: this runtime has no other.
#[test]
fn a_build_that_truly_waits_blocks_nobody() {
    let rig = Rig::new(Faulty::builder().lanes(1).truly_waits());
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::<u32>::new(8));
    rig.control.slow_builds(true);
    let waits = step(&queue, &x, 1);
    let fills = queue.submit(|cg| cg.fill(&cg.overwrite(&y), 5)).unwrap();
    rig.settle();
    assert!(!waits.has_ended() && outcome(&fills).is_ok());
    rig.control.slow_builds(false);
    rig.settle();
    assert!(outcome(&waits).is_ok());
    assert_eq!(rig.values(&x), [stepped(1, [1]); 8]);
    drop((queue, x, y, waits, fills));
    rig.end();
}
