//! Decision 25: credits by groups.

#[path = "common/rig.rs"]
mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::{Gate, Rig, poll_once, until, wait};
use windlass::prelude::*;
use windlass::{Error, Result};

fn limited(rig: &Rig, groups: u32) -> Queue {
    Queue::builder().device(rig.device.clone()).max_in_flight(groups).blocking_build().unwrap()
}

fn behind(gate: &Gate) -> impl FnOnce(&CommandGroup<'_>) -> Result<()> {
    let opened = gate.opened();
    move |cg| {
        cg.after(opened);
        Ok(())
    }
}

#[test]
fn d25_ready_reserves_and_a_dropped_slot_returns_it() {
    let rig = Rig::new();
    let queue = limited(&rig, 2);
    let (a, b) = (wait(queue.ready()), wait(queue.ready()));
    let mut third = queue.ready();
    assert!(poll_once(&mut third).is_pending());
    assert!(queue.try_submit(|_| Ok(())).unwrap_err().is_saturated());
    drop(a);
    let c = wait(third);
    let mut fourth = queue.ready();
    assert!(poll_once(&mut fourth).is_pending());
    wait(b.submit(|_| Ok(())).unwrap()).unwrap();
    drop(wait(fourth));
    drop(c);
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn d25_plain_submit_is_never_refused_and_ready_waits_until_the_debt_is_repaid() {
    let rig = Rig::new();
    let queue = limited(&rig, 2);
    let gates: Vec<Gate> = (0..5).map(|_| Gate::new()).collect();
    let events: Vec<Event> = gates.iter().map(|gate| queue.submit(behind(gate)).unwrap()).collect();
    let mut ready = queue.ready();
    // Five are out where two may be: four have to end before there is room for one.
    for (ended, (gate, event)) in gates.into_iter().zip(events).enumerate() {
        assert_eq!(poll_once(&mut ready).is_ready(), ended >= 4, "after {ended}");
        if ended == 4 {
            return;
        }
        assert!(queue.try_submit(|_| Ok(())).unwrap_err().is_saturated());
        gate.open();
        wait(event).unwrap();
    }
}

#[test]
fn d25_waiters_are_served_in_order_and_nobody_jumps_the_queue() {
    let rig = Rig::new();
    let queue = limited(&rig, 1);
    let slot = wait(queue.ready());
    let mut waiters: Vec<_> = (0..4).map(|_| queue.ready()).collect();
    waiters.iter_mut().for_each(|w| assert!(poll_once(w).is_pending()));
    // The second gives up; the place passes it by.
    drop(waiters.remove(1));
    drop(slot);
    for at in 0..3 {
        for later in waiters.iter_mut().skip(at + 1) {
            assert!(poll_once(later).is_pending(), "later ones wait");
        }
        let slot = wait(&mut waiters[at]);
        assert!(queue.try_submit(|_| Ok(())).unwrap_err().is_saturated());
        drop(slot);
    }
    wait(queue.try_submit(|_| Ok(())).unwrap()).unwrap();
}

#[test]
fn d25_a_waiter_that_was_served_and_goes_away_hands_the_place_on() {
    let rig = Rig::new();
    let queue = limited(&rig, 1);
    let slot = wait(queue.ready());
    let (mut first, mut second) = (queue.ready(), queue.ready());
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    drop(slot);
    drop(first);
    drop(wait(second));
}

#[test]
fn d25_the_place_is_free_at_the_verdict_however_the_group_ends() {
    let rig = Rig::new();
    let queue = limited(&rig, 1);
    for round in 0..300 {
        let slot = wait(queue.ready());
        let event = match round % 5 {
            0 => slot.submit(|_| Ok(())),
            1 => slot.submit(|cg| cg.host_for(1, (), |_, ()| panic!("it fails"))),
            2 => slot.submit(|cg| cg.host_task(async |_| Err("it fails".into()))),
            3 => slot.submit(|cg| {
                cg.after(async { Err(Error::other("it fails")) });
                Ok(())
            }),
            _ => slot.submit(|_| Err(Error::other("it is refused"))),
        };
        if let Ok(event) = event {
            if round % 2 == 0 {
                event.cancel();
            }
            drop(event);
        }
    }
    drop(wait(queue.ready()));
    wait(queue.drained());
}

#[test]
fn d25_no_more_than_the_limit_is_ever_in_flight() {
    let rig = Rig::new();
    let queue = limited(&rig, 8);
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for _ in 0..500 {
                    let (running, most) = (running.clone(), most.clone());
                    let slot = wait(queue.ready());
                    let event = slot.submit(|cg| {
                        most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        cg.host_for(1, (), move |_, ()| {
                            running.fetch_sub(1, Ordering::SeqCst);
                        })
                    });
                    drop(event);
                }
            });
        }
    });
    wait(queue.drained());
    until("all have run", || running.load(Ordering::SeqCst) == 0);
    assert!(most.load(Ordering::SeqCst) <= 8, "{most:?}");
    assert_eq!(rig.stats().submitted, 2000);
}

#[test]
fn d25_a_limit_of_nothing_is_refused() {
    let rig = Rig::new();
    let queue = Queue::builder().device(rig.device.clone()).max_in_flight(0).blocking_build();
    assert!(queue.unwrap_err().is_invalid_input());
}

#[test]
fn d25_owned_places_and_places_at_once() {
    let rig = Rig::new();
    let queue = Queue::builder().device(rig.device.clone()).max_in_flight(2).blocking_build().unwrap();
    let (first, second) = (wait(queue.ready_owned()), queue.try_ready_owned().unwrap());
    assert!(queue.try_ready().unwrap_err().is_saturated());
    let mut waiting = queue.ready_owned();
    assert!(poll_once(&mut waiting).is_pending());
    // Nothing of it is borrowed.
    let task = std::thread::spawn(move || wait(first.submit(|_| Ok(())).unwrap()));
    task.join().unwrap().unwrap();
    let third = wait(waiting);
    drop((second, third));
    let now = queue.try_ready().unwrap();
    wait(now.submit(|_| Ok(())).unwrap()).unwrap();
    until("all places are free", || {
        let both = (queue.try_ready(), queue.try_ready());
        both.0.is_ok() && both.1.is_ok()
    });
}

fn budgeted(bytes: u64) -> (Runtime, [Queue; 2]) {
    let runtime = Runtime::builder().bytes_in_flight(bytes).build();
    let queues = [(), ()].map(|()| {
        Queue::builder().runtime(&runtime).select(Selector::backend("host")).blocking_build().unwrap()
    });
    (runtime, queues)
}

/// Two queues of one runtime have one budget, in which bytes come back when their groups end, however that is. Seen to fail where a
/// group that had ended kept them.
#[test]
fn d25_bytes_are_reserved_for_all_queues_until_groups_end() {
    let (_runtime, [one, two]) = budgeted(100);
    let gate = Gate::new();
    let first = wait(one.ready_for(60)).submit(behind(&gate)).unwrap();
    let mut second = two.ready_for(50);
    assert!(poll_once(&mut second).is_pending());
    assert!(poll_once(&mut two.ready()).is_ready(), "who reserves nothing is not held up");
    drop(wait(two.ready_for(0)));
    let mut third = one.ready_owned_for(10);
    assert!(poll_once(&mut third).is_pending(), "it stands behind the second");
    gate.open();
    wait(first).unwrap();
    let (slot, other) = (wait(second), wait(third));
    assert!(poll_once(&mut one.ready_for(50)).is_pending());
    // Refused, cancelled, failed and given back.
    assert!(slot.submit(|_| Err(Error::other("not today"))).is_err());
    drop(other);
    let gate = Gate::new();
    let cancelled = wait(two.ready_for(100)).submit(behind(&gate)).unwrap();
    cancelled.cancel();
    let failed = wait(one.ready_for(100)).submit(|cg| cg.host_task(async |_| Err("no".into()))).unwrap();
    assert!(wait(failed).is_err());
    drop(gate);
    drop(wait(one.ready_for(100)));
}

/// Seen to fail where what is more than all waited for ever.
#[test]
fn d25_a_group_of_more_than_all_bytes_runs_alone() {
    let (_runtime, [one, two]) = budgeted(100);
    let slot = wait(one.ready_for(1));
    let mut large = two.ready_for(u64::MAX);
    assert!(poll_once(&mut large).is_pending());
    drop(slot);
    let large = wait(large).submit(|_| Ok(())).unwrap();
    wait(large).unwrap();
    drop(wait(one.ready_for(100)));
    // Who goes away while it waits is not waited for.
    let held = wait(one.ready_for(100));
    let mut gone = two.ready_for(5);
    assert!(poll_once(&mut gone).is_pending());
    drop(gone);
    drop(held);
    drop(wait(one.ready_for(100)));
}
