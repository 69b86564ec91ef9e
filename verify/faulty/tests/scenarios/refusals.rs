//! Submissions that are refused leave everything as it was.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use windlass::prelude::*;
use windlass::{Error, KernelCall, Result};
use windlass_faulty::Faulty;

use crate::rig::{Rig, STEP, call, poll, single, step};

/// What a closure holds. When it is dropped it goes back into the runtime, so nobody may hold the engine's lock then.
struct Captured {
    drops: Arc<AtomicUsize>,
    runtime: Runtime,
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
        assert_eq!(self.runtime.stats().live_nodes, 0);
    }
}

/// How a group comes to be refused.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Err,
    Panic,
    LostDevice,
    ShutDown,
    ShutDownTask,
    BadRange,
    MissingArgument,
    FailedBuild,
}

/// By which call.
#[derive(Clone, Copy, Debug)]
enum Entry {
    Submit,
    TrySubmit,
    Slot,
}

const WAYS: [Way; 8] = [
    Way::Err,
    Way::Panic,
    Way::LostDevice,
    Way::ShutDown,
    Way::ShutDownTask,
    Way::BadRange,
    Way::MissingArgument,
    Way::FailedBuild,
];

fn queue_of_one(rig: &Rig) -> Queue {
    let device = rig.devices().swap_remove(0);
    Queue::builder().runtime(&rig.runtime).device(device).max_in_flight(1).blocking_build().unwrap()
}

/// Makes the runtime one that refuses, where it is not the group's own fault.
fn prepare(way: Way, rig: &Rig, queue: &Queue, x: &Buffer<u32>) {
    match way {
        Way::LostDevice => {
            rig.control.lose_devices("pulled out");
            drop(step(queue, x, 0));
        }
        Way::ShutDown | Way::ShutDownTask => {
            rig.runtime.abort();
        }
        Way::FailedBuild => {
            rig.control.fail_build("does not compile");
            drop(step(queue, x, 0));
        }
        _ => {}
    }
    rig.settle();
}

/// The group, with something of the user's in every place that can hold it.
fn group(way: Way, x: &Buffer<u32>, captured: [Captured; 2], cg: &CommandGroup<'_>) -> Result<()> {
    let [outside, task] = captured;
    cg.after(async move {
        let _held = outside;
        std::future::pending::<Result<()>>().await
    });
    match way {
        Way::ShutDownTask => {
            return cg.host_task(async move |_| {
                let _held = &task;
                Ok(())
            });
        }
        Way::MissingArgument => {
            cg.parallel_for(8, KernelCall::new(&STEP).buffer(cg.read_write(x)))?;
        }
        Way::BadRange => {
            cg.read(&x.range(2..99));
        }
        _ => call(cg, &STEP, x, 1)?,
    }
    match way {
        Way::Err => Err(Error::other("the program changed its mind")),
        Way::Panic => panic!("in the closure"),
        _ => Ok(()),
    }
}

fn enter(queue: &Queue, entry: Entry, group: impl FnOnce(&CommandGroup<'_>) -> Result<()>) -> Result<Event> {
    match entry {
        Entry::Submit => queue.submit(group),
        Entry::TrySubmit => queue.try_submit(group),
        Entry::Slot => {
            let Poll::Ready(slot) = poll(pin!(queue.ready())) else { panic!("there is room") };
            slot.submit(group)
        }
    }
}

#[test]
fn a_refused_group_leaves_everything_as_it_was() {
    for way in WAYS {
        for entry in [Entry::Submit, Entry::TrySubmit, Entry::Slot] {
            let rig = single();
            let (queue, x) = (queue_of_one(&rig), Buffer::from(vec![1_u32; 8]));
            prepare(way, &rig, &queue, &x);
            refuse(&rig, &queue, &x, way, entry);
            drop((queue, x));
            rig.end();
        }
    }
}

fn refuse(rig: &Rig, queue: &Queue, x: &Buffer<u32>, way: Way, entry: Entry) {
    let (before, drops) = (rig.runtime.stats(), Arc::new(AtomicUsize::new(0)));
    let captured = [(); 2].map(|()| Captured { drops: drops.clone(), runtime: rig.runtime.clone() });
    let (mut drained, mut ready) = (pin!(queue.drained()), pin!(queue.ready()));
    let refused = catch_unwind(AssertUnwindSafe(|| {
        enter(queue, entry, |cg| {
            assert_eq!(queue.in_flight(), 1);
            assert!(poll(drained.as_mut()).is_pending() && poll(ready.as_mut()).is_pending());
            group(way, x, captured, cg)
        })
    }));
    match (way, refused) {
        (Way::Panic, Err(_)) => {}
        (_, Ok(Err(_))) => {}
        (_, other) => panic!("{way:?} by {entry:?}: {other:?}"),
    }
    let named = format!("{way:?} by {entry:?}");
    assert_eq!(drops.load(Ordering::SeqCst), 2, "{named}: what its closures hold is dropped, once");
    assert_eq!(queue.in_flight(), 0, "{named}");
    assert!(poll(drained).is_ready(), "{named}: who waits for the end is served");
    let Poll::Ready(slot) = poll(ready) else { panic!("{named}: who waits for room is served") };
    // There is room for one, and for no more than that.
    assert!(poll(pin!(queue.ready())).is_pending(), "{named}");
    assert!(queue.try_submit(|_| Ok(())).unwrap_err().is_saturated(), "{named}");
    drop(slot);
    assert!(poll(pin!(queue.ready())).is_ready(), "{named}");
    rig.settle();
    let after = rig.runtime.stats();
    let kept = |s: &windlass::Stats| (s.submitted, s.live_nodes, s.live_links, s.live_tasks, s.frees_waiting);
    assert_eq!(kept(&after), kept(&before), "{named}");
}

/// A plain submission goes into debt; refused, it repays its own debt and no more.
#[test]
fn a_refused_group_repays_its_own_debt_and_no_more() {
    let rig = single();
    let queue = queue_of_one(&rig);
    let Poll::Ready(slot) = poll(pin!(queue.ready())) else { panic!("there is room") };
    let mut waiter = Box::pin(queue.ready());
    assert!(poll(waiter.as_mut()).is_pending());
    for _ in 0..3 {
        queue.submit(|_| Err(Error::other("no"))).unwrap_err();
        assert!(poll(waiter.as_mut()).is_pending(), "the slot is still out");
    }
    drop(slot);
    assert!(poll(waiter.as_mut()).is_ready());
    drop(waiter);
    drop(queue);
    rig.end();
}

/// Such a device still moves and fills data, and a second queue may take what it does not.
#[test]
fn row_16_a_device_of_built_in_kernels_alone_refuses_others() {
    let rig = Rig::new(Faulty::builder().aspect(Aspect::BuiltinOnly));
    let (queue, v) = (queue_of_one(&rig), Buffer::from(vec![1_u32; 8]));
    assert!(queue.device().has(Aspect::BuiltinOnly));
    let refused = queue.submit(|cg| call(cg, &STEP, &v, 1)).unwrap_err();
    assert!(refused.is_unsupported(), "{refused}");
    let filled = queue.submit(|cg| cg.fill(&cg.write(&v.range(4..)), 7)).unwrap();
    rig.settle();
    assert_eq!(filled.status(), Status::Done);
    assert_eq!(rig.values(&v), [1, 1, 1, 1, 7, 7, 7, 7]);
    drop((queue, v, filled));
    rig.end();
}
