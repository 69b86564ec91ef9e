//! Lanes that are fed aside: while a device has enough to do, submitters leave its groups to others, and none is forgotten.

use std::pin::pin;

use windlass::prelude::*;
use windlass_faulty::{Faulty, inside_submit};

use crate::rig::{Outside, Rig, outcome, poll, step, stepped};

/// How many groups under way are enough, and how many on the list are worth waking a thread for.
const ENOUGH: u32 = 16;
const WORTH_A_CALL: u32 = 8;

/// A device that holds still, with enough to do.
struct Busy {
    rig: Rig,
    queue: Queue,
    x: Buffer<u32>,
    events: Vec<Event>,
    /// What had been fed before.
    before: u64,
}

impl Busy {
    fn new() -> Self {
        let rig = Rig::new(Faulty::builder().lanes(1).depth(64).reports_at_leisure().fed_aside());
        let (queue, x) = (rig.queue(0), Buffer::from(vec![1_u32; 4]));
        drop(step(&queue, &x, 0));
        rig.settle();
        rig.control.hold(0, true);
        let before = rig.control.audit().feeds;
        let mut busy = Busy { rig, queue, x, events: Vec::new(), before };
        busy.submit(ENOUGH);
        assert_eq!(busy.fed(), ENOUGH, "until then who submits feeds");
        busy
    }

    fn submit(&mut self, groups: u32) {
        let first = self.events.len() as u32;
        self.events.extend((first..first + groups).map(|k| step(&self.queue, &self.x, k)));
    }

    fn fed(&self) -> u32 {
        (self.rig.control.audit().feeds - self.before) as u32
    }

    /// All of them run, in their order.
    fn end(self) {
        let Busy { rig, queue, x, events, .. } = self;
        rig.control.hold(0, false);
        rig.settle();
        assert!(events.iter().all(|event| outcome(event).is_ok()));
        assert_eq!(rig.values(&x)[0], stepped(stepped(1, [0]), 0..events.len() as u32));
        drop((queue, x, events));
        rig.end();
    }
}

/// Seen to fail where each group called the executor, and where none did.
#[test]
fn few_groups_wait_and_many_call_the_executor_once() {
    let mut busy = Busy::new();
    busy.submit(WORTH_A_CALL - 1);
    busy.rig.runtime.run_until_stalled();
    assert_eq!(busy.fed(), ENOUGH, "few wait");
    let tasks = busy.rig.runtime.stats().tasks_spawned;
    busy.submit(3);
    assert_eq!(busy.fed(), ENOUGH, "who submits does not feed");
    assert_eq!(busy.rig.runtime.stats().tasks_spawned - tasks, 1, "one call is enough");
    busy.rig.runtime.run_until_stalled();
    assert_eq!(busy.fed(), ENOUGH + WORTH_A_CALL + 2);
    busy.end();
}

/// Nobody waits for anything, and nobody submits any more. Seen to hang where a lane was left of which no report was out.
#[test]
fn the_next_verdict_comes_back_to_those_that_wait() {
    let mut busy = Busy::new();
    busy.submit(3);
    busy.rig.runtime.run_until_stalled();
    assert_eq!(busy.fed(), ENOUGH);
    busy.end();
}

/// Seen to fail where a group that is awaited stayed on the list.
#[test]
fn what_somebody_waits_for_is_fed() {
    for way in 0..3 {
        let mut busy = Busy::new();
        busy.submit(3);
        assert_eq!(busy.fed(), ENOUGH);
        let (last, queue, x) = (busy.events[ENOUGH as usize + 2].clone(), busy.queue.clone(), busy.x.clone());
        let (mut event, mut drained, mut guard) = (pin!(last), pin!(queue.drained()), pin!(x.host_read()));
        match way {
            0 => assert!(poll(event.as_mut()).is_pending()),
            1 => assert!(poll(guard.as_mut()).is_pending()),
            _ => assert!(poll(drained.as_mut()).is_pending()),
        }
        busy.rig.runtime.run_until_stalled();
        let copies = u32::from(way == 1);
        assert_eq!(busy.fed(), ENOUGH + 3 + copies, "way {way}");
        busy.rig.control.hold(0, false);
        busy.rig.settle();
        match way {
            0 => assert!(poll(event.as_mut()).is_ready()),
            1 => assert!(poll(guard.as_mut()).is_ready()),
            _ => assert!(poll(drained.as_mut()).is_ready()),
        }
        drop(busy);
    }
}

/// Those that were left can be cancelled, as all that has not been fed.
#[test]
fn what_was_left_can_be_cancelled() {
    let mut busy = Busy::new();
    busy.submit(2);
    assert_eq!(busy.events[ENOUGH as usize + 1].cancel(), CancelOutcome::Skipped);
    busy.rig.control.hold(0, false);
    busy.rig.settle();
    let (cancelled, others) = busy.events.split_last().expect("there are some");
    assert!(outcome(cancelled).is_err_and(|error| error.is_cancelled()));
    assert!(others.iter().all(|event| outcome(event).is_ok()));
}

/// Nobody waits for them, and no thread of the runtime's is asked.
#[test]
fn what_was_left_is_fed_by_a_flush() {
    let mut busy = Busy::new();
    busy.submit(3);
    assert_eq!(busy.fed(), ENOUGH);
    assert_eq!(busy.events[ENOUGH as usize + 2].status(), Status::Pending);
    let tasks = busy.rig.runtime.stats().tasks_spawned;
    inside_submit(|| busy.queue.flush());
    assert_eq!(busy.fed(), ENOUGH + 3, "at once");
    assert_eq!(busy.events[ENOUGH as usize + 2].status(), Status::Submitted);
    inside_submit(|| busy.queue.flush());
    assert_eq!((busy.fed(), busy.rig.runtime.stats().tasks_spawned), (ENOUGH + 3, tasks));
    busy.end();
}

/// What waits for something goes on waiting, and no lane is given more than it has room for.
#[test]
fn a_flush_feeds_what_is_ready_and_has_room() {
    let rig = Rig::new(Faulty::builder().lanes(1).depth(2));
    let (queue, x) = (rig.queue(0), Buffer::from(vec![1_u32; 4]));
    drop(step(&queue, &x, 0));
    rig.settle();
    rig.control.hold(0, true);
    let before = rig.control.audit().feeds;
    let gate = Outside::default();
    let gated = queue.submit(|cg| {
        cg.after(gate.future());
        Ok(())
    });
    let gated = gated.unwrap();
    let events: Vec<Event> = (0..3).map(|k| step(&queue, &x, k)).collect();
    inside_submit(|| queue.flush());
    assert_eq!(rig.control.audit().feeds - before, 2, "so many have room");
    assert_eq!([&gated, &events[2]].map(|event| event.status()), [Status::Pending; 2]);
    gate.resolve(Ok(()));
    rig.control.hold(0, false);
    rig.settle();
    assert!(events.iter().chain([&gated]).all(|event| outcome(event).is_ok()));
    drop((queue, x, gated, events));
    rig.end();
}
