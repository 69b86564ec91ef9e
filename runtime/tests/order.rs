//! Decisions 1, 2, 6, 12, 13 and 14: which group runs when, on which lane, and when that is known.

#[path = "common/rig.rs"]
mod rig;

use std::sync::mpsc;

use rig::{Gate, Hold, Meeting, Rig, bump, contents, fails, look, poll_once, put, until, wait};
use windlass::prelude::*;

#[test]
fn d01_two_threads_plan_x_and_y_and_y_reads_x() {
    let rig = Rig::with_lanes(2);
    let (hand_over, take) = mpsc::channel::<(Buffer<u32>, u32)>();
    std::thread::scope(|s| {
        let (one, other) = (rig.queue.clone(), rig.queue.clone());
        s.spawn(move || {
            for round in 0..3000 {
                let x = Buffer::<u32>::new(16);
                drop(put(&one, &x, round));
                // The other's native call may win the race with this one's: the data must not notice.
                hand_over.send((x, round)).unwrap();
            }
        });
        s.spawn(move || {
            let mut seen = Vec::new();
            for (x, round) in take {
                let (event, values) = look(&other, &x);
                seen.push((event, values, round));
            }
            for (event, values, round) in seen {
                wait(event).unwrap();
                assert_eq!(*values.lock().unwrap(), [round; 16]);
            }
        });
    });
    rig.settle();
}

#[test]
fn d01_many_threads_on_one_buffer_lose_no_update() {
    let rig = Rig::with_lanes(3);
    let x = Buffer::from(vec![0_u32; 8]);
    std::thread::scope(|s| {
        for _ in 0..4 {
            let queue = rig.queue.clone();
            let x = &x;
            s.spawn(move || (0..1000).for_each(|_| drop(bump(&queue, x))));
        }
    });
    assert_eq!(contents(&x), [4000; 8]);
}

#[test]
fn d01_when_a_gate_opens_everything_behind_it_goes_at_the_cost_of_one() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let gate = Gate::new();
    let first = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        cg.read_write(&x);
        Ok(())
    });
    let before = rig.stats();
    for _ in 0..9_999 {
        drop(bump(&rig.queue, &x));
    }
    let last = bump(&rig.queue, &x);
    let planned = rig.stats();
    assert_eq!(planned.proxies - before.proxies, 0, "edges in one context need no host");
    assert_eq!(planned.fed - before.fed, 0, "nothing was handed over");
    gate.open();
    wait(last).unwrap();
    wait(first.unwrap()).unwrap();
    assert!(rig.stats().tasks_spawned - before.tasks_spawned < 100, "{:?}", rig.stats());
    assert_eq!(contents(&x), [10_001; 8]);
}

#[test]
fn d01_a_gated_group_holds_back_only_those_that_depend_on_it() {
    let rig = Rig::with_lanes(2);
    let (x, y) = (Buffer::from(vec![0_u32; 8]), Buffer::from(vec![0_u32; 8]));
    let gate = Gate::new();
    let gated = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        cg.read_write(&x);
        Ok(())
    });
    let behind = bump(&rig.queue, &x);
    for _ in 0..600 {
        drop(bump(&rig.queue, &y));
    }
    wait(bump(&rig.queue, &y)).unwrap();
    assert!(!behind.has_ended());
    gate.open();
    wait(gated.unwrap()).unwrap();
    wait(behind).unwrap();
}

#[test]
fn d01_a_gated_group_holds_back_everything_later_in_an_in_order_queue() {
    let rig = Rig::new();
    let queue = Queue::builder().device(rig.device.clone()).in_order().blocking_build().unwrap();
    let gate = Gate::new();
    let gated = queue.submit(|cg| {
        cg.after(gate.opened());
        Ok(())
    });
    let later: Vec<Event> = (0..10).map(|_| bump(&queue, &Buffer::new(8))).collect();
    wait(bump(&rig.queue, &Buffer::new(8))).unwrap();
    assert!(later.iter().all(|e| !e.has_ended()));
    gate.open();
    wait(gated.unwrap()).unwrap();
    wait(Event::all(later)).unwrap();
}

#[test]
fn d01_an_in_order_queue_goes_on_after_a_failure() {
    let rig = Rig::new();
    let queue = Queue::builder().device(rig.device.clone()).in_order().blocking_build().unwrap();
    let bad = fails(&queue, "no");
    let next = bump(&queue, &Buffer::new(8));
    assert!(wait(bad).is_err());
    wait(next).unwrap();
}

#[test]
fn d01_as_many_groups_as_there_are_lanes_can_wait_for_each_other() {
    assert!(Runtime::new().host().unwrap().info().lanes >= 2, "even on one core");
    for lanes in [2, 3, 8] {
        let rig = Rig::with_lanes(lanes);
        assert_eq!(rig.device.info().lanes, lanes);
        for _ in 0..10 {
            let meeting = Meeting::of(lanes);
            let group = |meeting: Meeting| {
                rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| meeting.join())).unwrap()
            };
            let events: Vec<Event> = (0..lanes).map(|_| group(meeting.clone())).collect();
            wait(Event::all(events)).unwrap();
        }
    }
}

#[test]
fn d02_native_depth_is_bounded_and_the_rest_can_be_cancelled() {
    let rig = Rig::with_lanes(1);
    let depth = rig.device.info().depth.commands as u64;
    let hold = Hold::new();
    let inside = hold.clone();
    let first = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
    hold.wait_until_entered();
    let events: Vec<Event> =
        (0..5 * depth).map(|_| rig.queue.submit(|cg| cg.host_for(1, (), |_, ()| {})).unwrap()).collect();
    assert!(rig.stats().fed <= depth, "{} are with a lane of depth {depth}", rig.stats().fed);
    assert_eq!(events[0].cancel(), CancelOutcome::TooLate);
    assert_eq!(events[events.len() - 1].cancel(), CancelOutcome::Skipped);
    hold.let_go();
    wait(first).unwrap();
    wait(rig.queue.drained());
    assert_eq!(events[events.len() - 2].status(), Status::Done);
}

#[test]
fn d06_a_writer_behind_100_000_readers_costs_one_entry() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let cost = |readers: usize| {
        let guard = wait(async {
            bump(&rig.queue, &x).await.unwrap();
            x.host_write().await.unwrap()
        });
        for _ in 0..readers {
            drop(rig.queue.submit(|cg| {
                cg.read(&x);
                Ok(())
            }));
        }
        let before = rig.stats();
        let writer = bump(&rig.queue, &x);
        let after = rig.stats();
        drop(guard);
        wait(writer).unwrap();
        rig.settle();
        after.nodes_visited - before.nodes_visited
    };
    let few = cost(10);
    assert_eq!(cost(100_000), few, "a writer costs what it costs behind ten");
}

#[test]
fn d12_command_500_of_1000_un_awaited_ones_fails() {
    let rig = Rig::with_lanes(1);
    let queue = Queue::builder().device(rig.device.clone()).in_order().blocking_build().unwrap();
    let (x, y) = (Buffer::from(vec![0_u32; 8]), Buffer::from(vec![0_u32; 8]));
    let mut last = None;
    for i in 0..1000 {
        last = Some(match i {
            500 => queue.submit(|cg| {
                let x = cg.overwrite(&x);
                cg.host_for(1, x, |_, _| panic!("command 500"))
            }),
            700 => queue.submit(|cg| {
                cg.read(&x);
                Ok(())
            }),
            _ => Ok(bump(&queue, &y)),
        });
    }
    wait(last.unwrap().unwrap()).expect("the last one read none of that data");
    assert_eq!(contents(&y), [998; 8]);
    assert!(wait(x.host_read()).unwrap_err().root().is_panic(), "its readers fail");
    until("the handler is told", || !rig.told.so_far().is_empty());
    let told = rig.told.up_to_now(&queue);
    assert_eq!(told.len(), 1, "once");
    assert!(told[0].error().to_string().contains("command 500"));
}

#[test]
fn d12_the_last_of_1000_fails_if_it_read_the_data() {
    let rig = Rig::with_lanes(1);
    let x = Buffer::from(vec![0_u32; 8]);
    let mut last = None;
    for i in 0..1000 {
        last = Some(match i {
            500 => rig.queue.submit(|cg| {
                let x = cg.read_write(&x);
                cg.host_for(1, x, |_, _| panic!("command 500"))
            }),
            _ => Ok(bump(&rig.queue, &x)),
        });
    }
    let error = wait(last.unwrap().unwrap()).unwrap_err();
    assert!(error.is_dependency_failed() && error.root().to_string().contains("command 500"));
}

#[test]
fn d13_awaiting_group_1_does_not_wait_for_group_10_000() {
    let rig = Rig::with_lanes(1);
    let x = Buffer::from(vec![0_u32; 8]);
    let first = bump(&rig.queue, &x);
    for _ in 0..9_998 {
        drop(bump(&rig.queue, &x));
    }
    let hold = Hold::new();
    let inside = hold.clone();
    let last = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, move |_, _| inside.here())
    });
    wait(first).unwrap();
    assert!(!last.as_ref().unwrap().has_ended());
    hold.let_go();
    wait(last.unwrap()).unwrap();
}

#[test]
fn d13_a_lane_arms_a_sentinel_twice_per_depth_and_nothing_for_what_nobody_awaits() {
    let rig = Rig::with_lanes(1);
    let depth = rig.device.info().depth.commands as u64;
    let x = Buffer::from(vec![0_u32; 8]);
    let hold = Hold::new();
    let inside = hold.clone();
    drop(rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, move |_, _| inside.here())
    }));
    hold.wait_until_entered();
    let before = rig.stats();
    for _ in 0..10_000 {
        drop(bump(&rig.queue, &x));
    }
    hold.let_go();
    wait(rig.queue.drained());
    let armed = rig.stats().armed - before.armed;
    assert!(armed <= 2 * 10_000 / depth + 4, "{armed} sentinels for a lane of depth {depth}");
}

#[test]
fn d14_a_long_kernel_on_lane_1_does_not_delay_lane_2() {
    let rig = Rig::with_lanes(2);
    let hold = Hold::new();
    let inside = hold.clone();
    let mut long = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
    assert!(poll_once(&mut long).is_pending());
    hold.wait_until_entered();
    let x = Buffer::from(vec![0_u32; 8]);
    for _ in 0..1000 {
        wait(bump(&rig.queue, &x)).unwrap();
    }
    assert!(!long.has_ended());
    hold.let_go();
    wait(long).unwrap();
}
