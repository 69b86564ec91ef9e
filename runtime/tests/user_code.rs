//! Decision 35: wakers, closures and host tasks that panic or submit again harm nobody.

#[path = "common/rig.rs"]
mod rig;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Wake, Waker};
use std::thread::ThreadId;

use rig::{Gate, Hold, Rig, bump, contents, fails, poll_once, until, wait};
use windlass::prelude::*;
use windlass::{Error, Result};

/// A waker that calls a closure, and counts.
struct Calls<F>(F, AtomicUsize);

impl<F: Fn() + Send + Sync + 'static> Calls<F> {
    fn new(f: F) -> Arc<Self> {
        Arc::new(Calls(f, AtomicUsize::new(0)))
    }

    fn count(&self) -> usize {
        self.1.load(Ordering::SeqCst)
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        self.1.fetch_add(1, Ordering::SeqCst);
        (self.0)();
    }
}

fn held(rig: &Rig, hold: &Hold) -> Event {
    let inside = hold.clone();
    rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap()
}

fn poll_with<F: Future>(future: F, waker: &Waker) {
    assert!(pin!(future).poll(&mut TaskContext::from_waker(waker)).is_pending());
}

#[test]
fn d35_a_waker_that_panics_harms_nobody_else_who_waits() {
    let rig = Rig::new();
    for place in 0..3 {
        let hold = Hold::new();
        let event = held(&rig, &hold);
        let (bad, good) = (Calls::new(|| panic!("the waker")), Calls::new(|| {}));
        let mut waiters = [event.clone(), event.clone(), event.clone()];
        for (i, waiter) in waiters.iter_mut().enumerate() {
            let waker = if i == place { Waker::from(bad.clone()) } else { Waker::from(good.clone()) };
            poll_with(waiter, &waker);
        }
        hold.let_go();
        until("everybody is woken", || bad.count() == 1 && good.count() == 2);
        wait(event).unwrap();
    }
    let x = Buffer::from(vec![1_u32; 4]);
    wait(bump(&rig.queue, &x)).unwrap();
    assert_eq!(contents(&x), [2; 4]);
    rig.settle();
}

#[test]
fn d35_a_waker_that_panics_does_not_reach_the_one_who_cancels() {
    let rig = Rig::new();
    let gate = Gate::new();
    let event = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        Ok(())
    });
    let event = event.unwrap();
    let (bad, good) = (Calls::new(|| panic!("the waker")), Calls::new(|| {}));
    let mut waiters = [event.clone(), event.clone()];
    poll_with(&mut waiters[0], &Waker::from(bad.clone()));
    poll_with(&mut waiters[1], &Waker::from(good.clone()));
    assert_eq!(event.cancel(), CancelOutcome::Skipped);
    // The cancelled group's place in the order may pass meanwhile, and then its lane's thread is the one that wakes.
    until("both are woken", || (bad.count(), good.count()) == (1, 1));
}

#[test]
fn d35_wakers_of_ready_and_drained_and_guards_that_panic() {
    let rig = Rig::new();
    let queue = Queue::builder().device(rig.device.clone()).max_in_flight(1).blocking_build().unwrap();
    let hold = Hold::new();
    let inside = hold.clone();
    let x = Buffer::from(vec![1_u32; 4]);
    let event = queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, move |_, _| inside.here())
    });
    let bad = Calls::new(|| panic!("the waker"));
    let waker = Waker::from(bad.clone());
    let mut ready = queue.ready();
    let mut drained = queue.drained();
    let mut read = x.host_read();
    poll_with(&mut ready, &waker);
    poll_with(&mut drained, &waker);
    poll_with(&mut read, &waker);
    hold.let_go();
    until("all three are woken", || bad.count() == 3);
    wait(event.unwrap()).unwrap();
    drop(wait(ready));
    wait(drained);
    assert_eq!(wait(read).unwrap()[..], [1; 4]);
    rig.settle();
}

#[test]
fn d35_a_waker_may_submit_poll_and_cancel() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 4]);
    let hold = Hold::new();
    let event = held(&rig, &hold);
    let (queue, cell, other) = (rig.queue.clone(), x.clone(), event.clone());
    let busy = Calls::new(move || {
        drop(bump(&queue, &cell));
        assert_eq!(other.clone().cancel(), CancelOutcome::Done);
        let _ = poll_once(&mut cell.host_read());
        let _ = other.status();
    });
    let mut waiters: Vec<Event> = (0..10).map(|_| event.clone()).collect();
    for waiter in &mut waiters {
        poll_with(waiter, &Waker::from(busy.clone()));
    }
    hold.let_go();
    until("the wakers have run", || busy.count() == 10);
    rig.settle();
    assert_eq!(contents(&x), [10; 4]);
}

#[test]
fn d35_a_closure_may_submit_inside_submit() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 4]);
    for in_order in [false, true] {
        let builder = Queue::builder().device(rig.device.clone());
        let queue = if in_order { builder.in_order() } else { builder }.blocking_build().unwrap();
        let outer = queue.submit(|cg| {
            let inner = bump(&queue, &x);
            let doubled = queue.submit(|cg| {
                let x = cg.read_write(&x);
                cg.host_for(4, x, |item, x| x.set(item.id(0), x.get(item.id(0)) * 2))
            })?;
            cg.depends_on(&inner);
            cg.depends_on(&doubled);
            let x = cg.read_write(&x);
            cg.host_for(4, x, |item, x| x.set(item.id(0), x.get(item.id(0)) + 5))
        });
        wait(outer.unwrap()).unwrap();
    }
    // (0 + 1) * 2 + 5 = 7, (7 + 1) * 2 + 5 = 21.
    assert_eq!(contents(&x), [21; 4]);
}

#[test]
fn d35_a_closure_that_panics_in_submit_gives_the_credit_back() {
    let rig = Rig::new();
    let queue = Queue::builder().device(rig.device.clone()).max_in_flight(2).blocking_build().unwrap();
    let x = Buffer::from(vec![0_u32; 4]);
    for round in 0..10 {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let group = |cg: &CommandGroup<'_>| -> Result<()> {
                cg.read_write(&x);
                panic!("the closure")
            };
            match round % 3 {
                0 => queue.submit(group),
                1 => queue.try_submit(group),
                _ => wait(queue.ready()).submit(group),
            }
        }));
        assert!(unwound.is_err(), "the panic is the caller's");
        let refused = queue.submit(|_| Err(Error::other("the closure")));
        assert!(refused.is_err());
    }
    let slots = (wait(queue.ready()), wait(queue.ready()));
    assert!(queue.try_submit(|_| Ok(())).unwrap_err().is_saturated(), "there are two places, no more");
    drop(slots);
    wait(bump(&queue, &x)).unwrap();
    assert_eq!(contents(&x), [1; 4]);
    assert_eq!(rig.stats().submitted, 1);
}

#[test]
fn d35_a_waiting_waker_that_panics_while_a_panic_unwinds_through_submit_does_not_abort() {
    let rig = Rig::new();
    let queue = Queue::builder().device(rig.device.clone()).max_in_flight(1).blocking_build().unwrap();
    let bad = Calls::new(|| panic!("the waker"));
    let mut ready = queue.ready();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        queue.submit(|_| {
            // Somebody waits for the place that this very submission has taken.
            poll_with(&mut ready, &Waker::from(bad.clone()));
            panic!("the closure")
        })
    }));
    assert!(unwound.is_err());
    assert_eq!(bad.count(), 1);
    drop(wait(ready));
}

#[test]
fn d35_what_a_kernel_owns_may_panic_when_it_is_dropped() {
    struct Bad;
    impl Drop for Bad {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("the destructor");
            }
        }
    }
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 4]);
    for round in 0..4 {
        let (bad, gate) = (Bad, Gate::new());
        let event = rig.queue.submit(|cg| {
            let x = cg.read_write(&x);
            match round {
                0 => cg.host_for(1, x, move |_, _| {
                    let _owned = &bad;
                }),
                1 => cg.host_task(async move |_| {
                    let _owned = &bad;
                    Ok(())
                }),
                2 => {
                    cg.on_cancel(OnCancel::KeepPrevious);
                    cg.after(gate.opened());
                    cg.host_for(1, x, move |_, _| {
                        let _owned = &bad;
                    })
                }
                _ => {
                    cg.after(async move {
                        let _owned = bad;
                        Ok::<_, Error>(())
                    });
                    Ok(())
                }
            }
        });
        let event = event.unwrap();
        if round == 2 {
            assert_eq!(event.cancel(), CancelOutcome::Skipped);
        }
        // How it ends is its own affair; that it ends, and that the next one is well, is ours.
        let _ = wait(event);
        let heal = rig.queue.submit(|cg| cg.fill(&cg.overwrite(&x), round));
        wait(heal.unwrap()).unwrap();
        assert_eq!(contents(&x), [round; 4]);
    }
    rig.settle();
}

#[test]
fn d35_user_code_never_runs_on_the_gate_thread() {
    let rig = Rig::new();
    let names = Arc::new(Mutex::new(Vec::<(Option<String>, ThreadId)>::new()));
    let here = |names: &Arc<Mutex<Vec<_>>>| {
        let thread = std::thread::current();
        names.lock().unwrap().push((thread.name().map(str::to_owned), thread.id()));
    };
    let (in_future, in_task, in_handler) = (names.clone(), names.clone(), names.clone());
    let told = Arc::new(AtomicBool::new(false));
    let done = told.clone();
    let queue = Queue::builder().device(rig.device.clone()).handler(move |_| {
        here(&in_handler);
        done.store(true, Ordering::SeqCst);
    });
    let queue = queue.blocking_build().unwrap();
    let event = queue.submit(|cg| {
        cg.after(async move {
            here(&in_future);
            Ok::<_, Error>(())
        });
        cg.host_task(async move |_| {
            here(&in_task);
            Ok(())
        })
    });
    wait(event.unwrap()).unwrap();
    drop(fails(&queue, "no"));
    until("the handler is called", || told.load(Ordering::SeqCst));
    let names = names.lock().unwrap();
    assert_eq!(names.len(), 3);
    for (name, _) in names.iter() {
        let name = name.as_deref().unwrap_or_default();
        assert!(!name.contains("gate") && !name.contains("windlass-host"), "user code ran on {name}");
    }
}

#[test]
fn d35_a_host_task_that_panics_fails_and_the_executor_goes_on() {
    let rig = Rig::new();
    for _ in 0..10 {
        let event = rig.queue.submit(|cg| cg.host_task(async move |_| panic!("the task")));
        let error = wait(event.unwrap()).unwrap_err();
        assert!(error.is_panic() && error.to_string().contains("the task"));
    }
    let event = rig.queue.submit(|cg| cg.host_task(async move |_| Ok(())));
    wait(event.unwrap()).unwrap();
}
