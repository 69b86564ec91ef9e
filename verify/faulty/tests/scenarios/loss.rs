//! Decision 34: a lost device, whatever was under way.

use windlass::prelude::*;
use windlass_faulty::{Faulty, Memory};

use crate::rig::{Outside, Rig, STEP, call, error, native, outcome, pair, poll, set, single, step, stepped};

/// Work that waits outside, stands on the feed list, is native, and is done but not reported: all of it ends, once.
#[test]
fn everything_under_way_ends_with_the_device() {
    let rig = Rig::new(Faulty::builder().lanes(1).depth(2));
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    drop(step(&queue, &x, 0));
    rig.settle();
    rig.control.delay_verdicts(true);
    let gate = Outside::default();
    let gated = queue
        .submit(|cg| {
            cg.after(gate.future());
            Ok(())
        })
        .unwrap();
    let events: Vec<_> = (0..6).map(|k| step(&queue, &x, k)).collect();
    rig.control.run_one();
    assert!(events.iter().all(|e| !e.has_ended()));
    rig.control.lose_devices("pulled out");
    rig.control.delay_verdicts(false);
    rig.settle();
    let first_done = outcome(&events[0]);
    assert!(first_done.is_ok(), "it had ended well: {first_done:?}");
    assert!(events[1..].iter().all(|e| error(e).is_device_lost()), "{events:?}");
    assert!(queue.submit(|_| Ok(())).unwrap_err().is_device_lost());
    gate.resolve(Ok(()));
    rig.settle();
    assert!(error(&gated).is_device_lost());
    assert!(rig.finish(x.host_read()).unwrap_err().is_device_lost());
    drop((queue, x, events, gated, gate));
    rig.end();
}

/// A device that is lost while nothing is under way is found out by the next group, which still resolves.
#[test]
fn an_idle_device_that_is_gone_fails_the_next_group() {
    for lanes in [1, 2] {
        let rig = Rig::new(Faulty::builder().lanes(lanes));
        let queue = rig.queue(0);
        let x = Buffer::<u32>::new(8);
        drop(set(&queue, &x, 0));
        rig.settle();
        rig.control.lose_devices("asleep for ever");
        let next = set(&queue, &x, 1);
        rig.settle();
        assert!(error(&next).is_device_lost());
        assert!(queue.submit(|_| Ok(())).unwrap_err().is_device_lost());
        drop((queue, x, next));
        rig.end();
    }
}

/// A lane that takes not even a barrier is past help: its context counts as lost, and nobody waits for ever.
#[test]
fn a_lane_that_refuses_everything_counts_as_lost() {
    let rig = single();
    let queue = rig.queue(0);
    let (x, y) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8));
    drop((set(&queue, &x, 0), set(&queue, &y, 0)));
    rig.settle();
    let before = step_and_hold(&rig, &queue, &x);
    rig.control.refuse_all_feeds(Some(native("closed")));
    let events = [set(&queue, &y, 1), queue.submit(|_| Ok(())).unwrap_or_else(|_| before.clone())];
    rig.control.hold(0, false);
    rig.settle();
    assert!(events.iter().chain([&before]).all(|e| e.status() == Status::Failed), "{events:?}");
    assert!(queue.submit(|_| Ok(())).unwrap_err().is_device_lost());
    drop((queue, x, y, events, before));
    rig.settle();
    assert_eq!(rig.runtime.stats().live_nodes, 0);
}

fn step_and_hold(rig: &Rig, queue: &Queue, x: &Buffer<u32>) -> Event {
    rig.control.hold(0, true);
    step(queue, x, 1)
}

/// What was on another device survives, and so does what was copied away in time.
#[test]
fn the_rest_survives() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let (x, y, z) =
        (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![2_u32; 8]), Buffer::from(vec![3_u32; 8]));
    drop((step(&a, &x, 1), step(&b, &y, 1), step(&a, &z, 1)));
    assert_eq!(rig.values(&z), vec![stepped(3, [1]); 8]);
    rig.settle();
    rig.control.lose_context(0, "gone");
    let last = a.submit(|_| Ok(()));
    rig.settle();
    drop(last);
    rig.settle();
    assert!(a.submit(|_| Ok(())).unwrap_err().is_device_lost());
    let go_on = step(&b, &y, 2);
    assert_eq!(rig.values(&y), vec![stepped(2, [1, 2]); 8]);
    assert_eq!(rig.values(&z), vec![stepped(3, [1]); 8], "the host has a copy");
    let lost = step(&b, &x, 2);
    let over = set(&b, &x, 3);
    rig.settle();
    assert!(outcome(&go_on).is_ok() && error(&lost).is_device_lost() && outcome(&over).is_ok());
    assert_eq!(rig.values(&x)[2], 17);
    drop((a, b, x, y, z, go_on, lost, over));
    rig.end();
}

/// Either end of a transfer may go while it is under way, at any step of it.
#[test]
fn a_device_lost_in_transfer() {
    for gone in [0, 1] {
        for steps in 0..12 {
            let rig = pair();
            let (a, b) = (rig.queue(0), rig.queue(1));
            let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
            drop((step(&a, &x, 0), step(&b, &y, 0)));
            rig.settle();
            let source = step(&a, &x, 1);
            let reader = step(&b, &x, 2);
            for _ in 0..steps {
                rig.control.step();
                rig.runtime.run_until_stalled();
            }
            rig.control.lose_context(gone, "in the middle");
            rig.settle();
            assert!(reader.has_ended() && source.has_ended(), "{gone} {steps}");
            let read = rig.finish(x.host_read()).map(|v| v.to_vec());
            match outcome(&reader) {
                Ok(()) if gone == 0 => assert_eq!(read.unwrap(), vec![stepped(1, [0, 1, 2]); 8]),
                Ok(()) => assert!(read.is_err()),
                Err(e) => assert!(e.is_device_lost() && read.is_err(), "{gone} {steps}: {e} {read:?}"),
            }
            drop((a, b, x, y, source, reader));
            rig.end();
        }
    }
}

/// A host device shares the heap: what stands there outlives it.
#[test]
fn the_heap_outlives_a_lost_host_device() {
    let rig = Rig::new(Faulty::builder().device(Memory::Heap).device(Memory::Heap).lanes(1));
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 8]);
    let (first, second) = (step(&a, &x, 1), step(&b, &x, 2));
    rig.settle();
    rig.control.lose_context(0, "gone");
    let next = step(&a, &x, 3);
    rig.settle();
    assert!(outcome(&first).is_ok() && outcome(&second).is_ok() && error(&next).is_device_lost());
    let over = set(&b, &x, 3);
    assert_eq!(rig.values(&x)[1], 10);
    drop((a, b, x, first, second, next, over));
    rig.end();
}

/// A device that was lost and has come back is opened anew for the next queue; queues of the lost context stay lost.
#[test]
fn a_lost_device_is_opened_anew() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    rig.finish(step(&queue, &x, 1)).unwrap();
    assert_eq!(rig.values(&x)[0], 32);
    rig.control.lose_devices("reset");
    let caught = step(&queue, &x, 2);
    rig.settle();
    assert!(error(&caught).is_device_lost());
    let found = rig.finish(rig.runtime.rediscover()).unwrap();
    assert_eq!(found, rig.devices());
    let again = rig.queue(0);
    assert!(queue.submit(|_| Ok(())).unwrap_err().is_device_lost());
    rig.finish(set(&again, &x, 3)).unwrap();
    assert_eq!(rig.values(&x)[1], 10);
    drop((queue, again, x, caught, found));
    rig.end();
}

/// After a fault that takes the whole process's devices, idle contexts and other devices fail as well when they are next used, new queues
/// are refused, and the host goes on: nothing hangs, and nothing is silently wrong.
#[test]
fn a_fault_that_ends_the_process_ends_every_context() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let (busy, idle) = (rig.queue(0), rig.queue(1));
    let (x, y) = (Buffer::<u32>::new(8), Buffer::from(vec![3_u32; 8]));
    drop((set(&busy, &x, 1), step(&idle, &y, 1)));
    rig.settle();
    let hit = step(&busy, &x, 2);
    rig.control.end_process("an illegal address");
    rig.settle();
    assert!(error(&hit).is_device_lost());
    let next = idle.submit(|cg| call(cg, &STEP, &y, 2));
    rig.settle();
    assert!(next.and_then(|event| outcome(&event)).unwrap_err().is_device_lost());
    assert!(idle.submit(|_| Ok(())).unwrap_err().is_device_lost());
    for device in rig.devices() {
        let again = Queue::builder().runtime(&rig.runtime).device(device).blocking_build();
        assert!(again.unwrap_err().is_device_lost());
    }
    let task = idle.submit(|cg| cg.host_task(async |_| Ok(())));
    rig.settle();
    assert!(task.is_ok_and(|event| outcome(&event).is_ok()), "a host task needs no device");
    let read = rig.finish(x.host_read());
    assert!(read.unwrap_err().root().is_device_lost());
    drop((busy, idle, x, y, hit));
    rig.end();
}

/// A write guard that waits for its data is to have it in a device's memory, and the host's copy is kept for the case that it writes nothing.
/// When that device is lost the guard fails, and the host's copy counts again. Seen to fail where it did not.
#[test]
fn a_guard_that_waits_takes_no_data_along() {
    let rig = Rig::new(Faulty::builder().device(Memory::Visible).lanes(1));
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::<u32>::new(8));
    let copied = queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y))).unwrap();
    rig.settle();
    rig.control.hold(0, true);
    let last = step(&queue, &x.range(0..4), 1);
    let mut guard = Box::pin(x.range(2..6).host_write());
    assert!(poll(guard.as_mut()).is_pending());
    rig.control.lose_devices("gone");
    assert!(rig.finish(guard).unwrap_err().is_device_lost());
    assert!(outcome(&copied).is_ok() && error(&last).is_device_lost());
    assert_eq!(rig.values(&x.range(4..8)), vec![1; 4], "the host has it");
    assert!(rig.finish(x.range(0..4).host_read()).unwrap_err().is_device_lost());
    drop((queue, x, y, copied, last));
    rig.end();
}
