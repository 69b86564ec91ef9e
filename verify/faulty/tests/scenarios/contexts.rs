//! Contexts of the user's own: they go with their last handle, once nothing needs them any more.

use windlass::CompletionStrategy::{Callback, Waiter};
use windlass::prelude::*;

use crate::rig::{Outside, Rig, native as no_lane, outcome, single, step, stepped};

/// Native contexts and lanes that exist.
fn native(rig: &Rig) -> (usize, usize) {
    rig.settle();
    let audit = rig.control.audit();
    (audit.contexts, audit.lanes)
}

fn own_context(rig: &Rig) -> (Context, Queue) {
    let device = rig.devices().swap_remove(0);
    let context = Context::blocking_open(std::slice::from_ref(&device)).unwrap();
    let queue = Queue::blocking_in_context(&context, &device).unwrap();
    (context, queue)
}

/// Seen to fail with contexts closed only by the end of the runtime.
#[test]
fn a_context_that_nobody_holds_any_more_is_closed() {
    let rig = single();
    for _ in 0..3 {
        let (context, queue) = own_context(&rig);
        let x = Buffer::from(vec![1_u32; 8]);
        let event = step(&queue, &x, 3);
        assert_eq!(native(&rig), (1, 1));
        assert!(outcome(&event).is_ok());
        drop((context, event, x));
        assert_eq!(native(&rig), (1, 1), "the queue is left");
        drop(queue);
        assert_eq!(native(&rig), (0, 0));
    }
    rig.end();
}

/// Seen to fail with data in its memory not counted: the read fails, as the context has been closed.
#[test]
fn a_context_stays_while_the_only_copy_of_something_is_in_its_memory() {
    let rig = single();
    let (context, queue) = own_context(&rig);
    let x = Buffer::from(vec![1_u32; 8]);
    drop(step(&queue, &x, 3));
    drop((context, queue));
    assert_eq!(native(&rig), (1, 1), "x was written there");
    assert_eq!(rig.values(&x), [stepped(1, [3]); 8]);
    drop(x);
    assert_eq!(native(&rig), (0, 0));
    rig.end();
}

/// Seen to fail with contexts closed only by the end of the runtime.
#[test]
fn a_context_ends_what_it_was_given_before_it_goes() {
    let rig = single();
    let (context, queue) = own_context(&rig);
    let gate = Outside::default();
    let x = Buffer::from(vec![1_u32; 8]);
    drop(step(&queue, &x, 1));
    let gated = queue.submit(|cg| {
        cg.after(gate.future());
        Ok(())
    });
    drop((gated, context, queue, x));
    assert_eq!(native(&rig), (1, 1), "a group is under way");
    gate.resolve(Ok(()));
    assert_eq!(native(&rig), (0, 0));
    assert_eq!(rig.control.audit().ran, 3, "an upload and two groups");
    rig.end();
}

/// What is dropped where `poll` must not make native calls is closed elsewhere, as the audit of [`Rig::end`] checks.
#[test]
fn a_context_whose_runtime_goes_first_is_closed_with_it() {
    let rig = single();
    let (context, queue) = own_context(&rig);
    let x = Buffer::from(vec![1_u32; 8]);
    drop(step(&queue, &x, 1));
    rig.settle();
    drop((x, queue));
    drop(context);
    // Nobody runs what that left to be done: the end of the runtime does it.
    let Rig { control, runtime, .. } = rig;
    drop(runtime);
    crate::rig::assert_clean(&control);
}

/// Queues that learn of their work's end in different ways are of one context: they share memory, and wait for each other
/// natively. Seen to fail with lanes that are opened for each queue.
#[test]
fn queues_that_differ_in_how_work_is_reported_share_a_context() {
    let rig = single();
    let device = rig.devices().swap_remove(0);
    let queue =
        |strategy| Queue::builder().device(device.clone()).completion(strategy).blocking_build().unwrap();
    let queues = [queue(Callback), queue(Waiter), queue(Waiter), rig.queue(0)];
    assert_eq!(native(&rig), (1, 2), "one lane for each way");
    let x = Buffer::from(vec![1_u32; 8]);
    let events: Vec<_> = (0..16).map(|k| step(&queues[k % 4], &x, k as u32)).collect();
    rig.settle();
    assert!(events.iter().all(|event| outcome(event).is_ok()));
    assert_eq!(rig.control.audit().bytes_copied, 32, "one upload");
    assert_eq!(rig.runtime.stats().proxies, 0, "no edge goes by the host");
    assert_eq!(rig.values(&x), [stepped(1, 0..16); 8]);
    drop((queues, events, x, device));
    rig.end();
}

/// Lanes that cannot be opened are the new queue's problem, and nobody else's. Seen to fail with the context counted as lost.
#[test]
fn a_queue_whose_lanes_cannot_be_opened_leaves_its_context_alone() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    let before = step(&queue, &x, 1);
    rig.control.fail_open_lane(no_lane("not today"));
    let device = queue.device().clone();
    let build = || Queue::builder().device(device.clone()).completion(Waiter).blocking_build();
    assert!(build().is_err());
    let other = build().unwrap();
    let after = [step(&queue, &x, 2), step(&other, &x, 3)];
    rig.settle();
    assert!(outcome(&before).is_ok() && after.iter().all(|event| outcome(event).is_ok()));
    assert_eq!(rig.values(&x), [stepped(1, [1, 2, 3]); 8]);
    drop((queue, other, x, before, after, device));
    rig.end();
}
