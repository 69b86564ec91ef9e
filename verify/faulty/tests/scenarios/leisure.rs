//! Lanes that report at leisure what nobody waits for: here not at all, so that whoever waits has to be seen.

use std::task::Poll;

use windlass::prelude::*;
use windlass_faulty::Faulty;

use crate::rig::{Rig, STEP, call, outcome, step, stepped};

/// A rig whose lanes report at leisure, and do not come to that, with a buffer that is on the device.
fn rig() -> (Rig, Queue, Buffer<u32>) {
    let rig = Rig::new(Faulty::builder().lanes(1).reports_at_leisure());
    let (queue, x) = (rig.queue(0), Buffer::from(vec![1_u32; 8]));
    drop(step(&queue, &x, 0));
    rig.settle();
    rig.control.no_leisure(true);
    (rig, queue, x)
}

fn end(rig: Rig, rest: (Queue, Buffer<u32>)) {
    rig.control.no_leisure(false);
    drop(rest);
    rig.end();
}

#[test]
fn nobody_waits_and_nothing_is_reported() {
    let (rig, queue, x) = rig();
    let event = step(&queue, &x, 3);
    rig.settle();
    assert!(!event.has_ended());
    rig.control.no_leisure(false);
    rig.settle();
    assert_eq!(event.status(), Status::Done);
    drop(event);
    end(rig, (queue, x));
}

/// Seen to fail when a point at leisure counted as one that is reported anyway.
#[test]
fn an_event_that_is_awaited_is_reported() {
    let (rig, queue, x) = rig();
    let event = step(&queue, &x, 3);
    rig.settle();
    rig.finish(event.clone()).expect("nothing fails");
    drop(event);
    end(rig, (queue, x));
}

#[test]
fn a_host_accessor_has_its_data() {
    let (rig, queue, x) = rig();
    drop(step(&queue, &x, 3));
    assert_eq!(rig.values(&x), [stepped(1, [0, 3]); 8]);
    end(rig, (queue, x));
}

#[test]
fn a_host_task_runs_behind_a_group() {
    let (rig, queue, x) = rig();
    drop(step(&queue, &x, 3));
    let task = queue.submit(|cg| {
        let x = cg.read(&x);
        cg.host_task(async move |memory| {
            let _ = (memory, x);
            Ok(())
        })
    });
    rig.finish(task.expect("it is taken")).expect("nothing fails");
    end(rig, (queue, x));
}

/// Seen to fail when who waits for a queue to drain told nobody.
#[test]
fn a_queue_drains() {
    let (rig, queue, x) = rig();
    let events: Vec<Event> = (0..3).map(|k| step(&queue, &x, k)).collect();
    rig.settle();
    assert!(!events[0].has_ended());
    rig.finish(queue.drained());
    events.iter().for_each(|event| outcome(event).expect("nothing fails"));
    // They are in a hurry no longer.
    let event = step(&queue, &x, 7);
    rig.settle();
    assert!(!event.has_ended());
    drop((events, event));
    end(rig, (queue, x));
}

/// Each has the place of the one before it, whose group is submitted when the next one already waits. Seen to fail when who waits for
/// a place told nobody.
#[test]
fn places_come_free() {
    let (rig, _, x) = rig();
    let device = rig.devices().swap_remove(0);
    let queue = Queue::builder().runtime(&rig.runtime).device(device).max_in_flight(1);
    let queue = rig.finish(queue.build()).expect("it opens");
    let mut waits: Vec<_> = (1..4).map(|_| Box::pin(queue.ready())).collect();
    for k in 1..4 {
        let slot = rig.finish(std::future::poll_fn(|cx| {
            let polled: Vec<_> = waits.iter_mut().map(|wait| wait.as_mut().poll(cx)).collect();
            polled.into_iter().next().unwrap_or(Poll::Pending)
        }));
        drop(waits.remove(0));
        drop(slot.submit(|cg| call(cg, &STEP, &x, k)).expect("it is taken"));
    }
    drop(waits);
    rig.finish(queue.drained());
    end(rig, (queue, x));
}
