//! Invariants 5, 6, 8, 9 and 10: how work ends, who is told, and what is left of it.

#[path = "common/rig.rs"]
mod rig;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Waker};
use std::thread;

use rig::{Gate, Hold, Rig, bump, contents, fails, poll_once, put, until, wait};
use windlass::Error;
use windlass::prelude::*;

#[test]
fn invariant_05_work_runs_and_what_it_held_is_given_back_without_being_awaited() {
    struct Held(Arc<AtomicUsize>);
    impl Drop for Held {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let rig = Rig::new();
    let (ran, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..1000 {
        let x = Buffer::<u32>::new(64);
        let (count, held) = (ran.clone(), Held(dropped.clone()));
        drop(rig.queue.submit(|cg| {
            let x = cg.overwrite(&x);
            cg.host_for(1, x, move |_, _| {
                let _held = &held;
                count.fetch_add(1, Ordering::SeqCst);
            })
        }));
    }
    until("all have run", || ran.load(Ordering::SeqCst) == 1000);
    until("all was given back", || dropped.load(Ordering::SeqCst) == 1000 && rig.stats().live_buffers == 0);
    rig.settle();
}

#[test]
fn invariant_06_every_event_resolves_and_every_waiter_is_woken() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![0_u32; 8]);
    for round in 0..100 {
        let gate = Gate::new();
        let first = rig.queue.submit(|cg| {
            let opened = gate.opened();
            cg.after(async move {
                opened.await?;
                if round % 2 == 0 { Ok(()) } else { Err(Error::other("the future fails")) }
            });
            let x = cg.read_write(&x);
            cg.host_for(1, x, move |_, _| assert!(round % 4 != 0, "the kernel fails"))
        });
        let mut events = vec![first.unwrap(), bump(&elsewhere, &x), fails(&rig.queue, "no")];
        events.push(
            rig.queue
                .submit(|cg| {
                    let x = cg.read_write(&x);
                    cg.host_task(async move |host| {
                        host.view(&x)?;
                        if round % 3 == 0 {
                            panic!("the task")
                        }
                        Err("the task fails".into())
                    })
                })
                .unwrap(),
        );
        let waiters: Vec<_> = events
            .iter()
            .map(|event| {
                let event = event.clone();
                thread::spawn(move || wait(event).is_ok())
            })
            .collect();
        if round % 5 == 0 {
            events[0].cancel();
        }
        gate_open(gate, round % 5 != 0);
        let results: Vec<bool> = waiters.into_iter().map(|w| w.join().unwrap()).collect();
        let again: Vec<bool> = events.into_iter().map(|e| wait(e).is_ok()).collect();
        assert_eq!(results, again, "each resolves once");
        wait(put(&rig.queue, &x, 0)).unwrap();
    }
    rig.settle();
}

fn gate_open(gate: Gate, awaited: bool) {
    // A cancelled group has dropped its future, so nobody may be there to be told.
    if awaited {
        gate.open();
    }
}

#[test]
fn invariant_08_dropping_anything_at_any_moment_leaves_nothing() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    for round in 0..400 {
        let x = Buffer::from(vec![round; 64]);
        let gate = Gate::new();
        let gated = rig.queue.submit(|cg| {
            if round % 2 == 0 {
                cg.after(gate.opened());
            }
            let x = cg.read_write(&x);
            cg.host_for(1, x, |_, x| x.set(0, 1))
        });
        let mut event = gated.unwrap();
        let mut far = bump(&elsewhere, &x);
        let (mut read, mut write) = (x.host_read(), x.range(8..).host_write());
        let mut ready = rig.queue.ready();
        let mut drained = rig.queue.drained();
        let mut all = Event::all([event.clone(), far.clone()]);
        if round % 3 > 0 {
            let (_, _) = (poll_once(&mut event), poll_once(&mut far));
            let (_, _) = (poll_once(&mut read), poll_once(&mut write));
            let (_, _, _) = (poll_once(&mut ready), poll_once(&mut drained), poll_once(&mut all));
        }
        match round % 7 {
            0 => drop((x, event, far, read, write)),
            1 => drop((write, read, far, event, x)),
            2 => drop((all, x)),
            3 => drop((ready, drained, read, x)),
            4 => drop(event.cancel_on_drop()),
            5 => drop((rig.queue.clone(), write, event)),
            _ => {}
        }
        if round % 2 == 0 && round % 7 != 4 {
            gate.open();
        }
    }
    rig.settle();
    until("no buffer is kept", || rig.stats().live_buffers == 0);
    until("no future is kept", || rig.stats().live_tasks == 0);
    assert_eq!(rig.queue.in_flight() + elsewhere.in_flight(), 0);
}

#[test]
fn invariant_09_an_error_is_told_once_and_a_refusal_is_an_err() {
    let rig = Rig::with_lanes(1);
    let x = Buffer::<u32>::new(4);
    assert!(rig.queue.submit(|cg| cg.fill(&cg.overwrite(&x.range(9..)), 1)).is_err());
    assert!(wait(fails(&rig.queue, "observed")).is_err());
    drop(fails(&rig.queue, "not observed"));
    until("the handler is told", || !rig.told.so_far().is_empty());
    let told = rig.told.up_to_now(&rig.queue);
    assert_eq!(told.len(), 1);
    assert!(told[0].error().to_string().contains("not observed"));
}

#[test]
fn invariant_10_failure_follows_data_and_not_order() {
    let rig = Rig::new();
    let (x, y) = (Buffer::from(vec![0_u32; 8]), Buffer::from(vec![0_u32; 8]));
    let bad = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, |_, _| panic!("no"))
    });
    let bad = bad.unwrap();
    let copied = rig.queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y)));
    let ran = Arc::new(AtomicBool::new(false));
    let flag = ran.clone();
    let task = rig.queue.submit(|cg| {
        cg.read(&y);
        cg.host_task(async move |_| {
            flag.store(true, Ordering::SeqCst);
            Ok(())
        })
    });
    let ordered = rig.queue.submit(|cg| {
        cg.after_end(&bad);
        Ok(())
    });
    let healed = put(&rig.queue, &x, 3);
    for event in [copied.unwrap(), task.unwrap()] {
        let error = wait(event).unwrap_err();
        assert!(error.is_dependency_failed() && error.root().is_panic());
    }
    wait(Event::all([ordered.unwrap(), healed])).unwrap();
    assert!(wait(bad).is_err());
    assert!(!ran.load(Ordering::SeqCst), "a host task that reads what failed never runs");
    assert_eq!(contents(&x), [3; 8]);
}

#[test]
fn an_event_polled_by_several_tasks_wakes_the_last_waker_of_each() {
    let rig = Rig::new();
    let hold = Hold::new();
    let inside = hold.clone();
    let event = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
    let woken = Arc::new(AtomicUsize::new(0));
    struct Count(Arc<AtomicUsize>);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let mut moved = event.clone();
    for _ in 0..10 {
        // A task that moves to another executor brings another waker each time.
        let waker = Waker::from(Arc::new(Count(woken.clone())));
        assert!(pin!(&mut moved).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    }
    hold.let_go();
    wait(event).unwrap();
    until("the last waker is woken", || woken.load(Ordering::SeqCst) == 1);
    wait(moved).unwrap();
}

#[test]
fn sets_of_events_nest_and_can_be_cancelled_and_depended_on() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 4]);
    let gates = [Gate::new(), Gate::new()];
    let held = gates.each_ref().map(|gate| {
        let opened = gate.opened();
        let group = rig.queue.submit(|cg| {
            cg.after(opened);
            Ok(())
        });
        group.unwrap()
    });
    let [one, other] = held;
    let set = Event::all([Event::all([one, bump(&rig.queue, &x)]), other.into()]);
    let behind = rig.queue.submit(|cg| {
        cg.depends_on(&set);
        cg.fill(&cg.overwrite(&x), 7)
    });
    let behind = behind.unwrap();
    let ordered = rig.queue.submit(|cg| {
        cg.after_end(&set.clone());
        Ok(())
    });
    assert_eq!((set.status(), behind.status()), (Status::Pending, Status::Pending));
    for gate in gates {
        assert!(!behind.has_ended());
        gate.open();
    }
    wait(set.clone()).unwrap();
    set.blocking_wait().unwrap();
    wait(behind).unwrap();
    wait(ordered.unwrap()).unwrap();
    assert_eq!((set.status(), set.cancel()), (Status::Done, CancelOutcome::Done));
    assert_eq!(contents(&x), [7; 4]);
    wait(Event::all(Vec::<Event>::new())).unwrap();
}

#[test]
fn a_set_that_is_dropped_cancels_what_has_not_started() {
    let rig = Rig::new();
    let (gate, bad) = (Gate::new(), fails(&rig.queue, "in a set"));
    let opened = gate.opened();
    let waiting = rig.queue.submit(|cg| {
        cg.after(opened);
        Ok(())
    });
    let waiting = waiting.unwrap();
    let mut set = Event::all([bad.clone(), waiting.clone()]).cancel_on_drop();
    assert!(poll_once(&mut set).is_pending());
    drop(set);
    assert!(wait(waiting.clone()).unwrap_err().is_cancelled());
    let kept = Event::all([bad, waiting]).cancel_on_drop().into_event();
    assert!(wait(kept).unwrap_err().is_panic(), "the first error in their order");
    let behind = rig.queue.submit(|cg| {
        cg.depends_on(&Event::all([fails(&rig.queue, "one of them")]));
        Ok(())
    });
    assert!(wait(behind.unwrap()).unwrap_err().is_dependency_failed());
    rig.queue.drained().blocking_wait().unwrap();
}

#[test]
fn a_large_set_wakes_once_for_each_event_at_most() {
    let rig = Rig::new();
    let hold = Hold::new();
    let inside = hold.clone();
    let first = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
    let x = Buffer::from(vec![0_u32; 4]);
    let events = std::iter::once(first).chain((0..1000).map(|_| bump(&rig.queue, &x)));
    let all = Event::all(events);
    hold.let_go();
    wait(all).unwrap();
    assert_eq!(contents(&x), [1000; 4]);
}

#[test]
fn host_kernels_take_twelve_accessors() {
    let rig = Rig::new();
    let parts = Buffer::<u32>::new(12);
    let event = rig.queue.submit(|cg| {
        let p = |i: usize| cg.read_write(&parts.range(i..i + 1));
        let args = (p(0), p(1), p(2), p(3), p(4), p(5), p(6), p(7), p(8), p(9), p(10), p(11));
        cg.host_for(1, args, |_, views| {
            views.0.set(0, 1);
            views.11.set(0, 12);
        })
    });
    wait(event.unwrap()).unwrap();
    let event = rig.queue.submit(|cg| {
        let p = |i: usize| cg.read_write(&parts.range(i..i + 1));
        let args = (p(0), p(1), p(2), p(3), p(4), p(5), p(6), p(7), p(8), p(9), p(10), p(11));
        cg.host_chunks(1, args, |_, parts| parts.5[0] = 6)
    });
    wait(event.unwrap()).unwrap();
    assert_eq!(contents(&parts), [1, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 12]);
}
