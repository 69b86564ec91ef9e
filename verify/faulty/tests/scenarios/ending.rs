//! Shutdown, abort, and data on its way back to the program.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass::prelude::*;
use windlass_faulty::{Faulty, Memory};

use crate::rig::{Outside, PANICS, Rig, error, launch, outcome, poll, set, single, step, stepped};

/// A never-ready `after`, a held guard with a group behind it, a waiting guard, and unfed groups: none of them blocks
/// the end, and everything that can be resolved is.
#[test]
fn nothing_blocks_shutdown() {
    for abort in [true, false] {
        let rig = Rig::new(Faulty::builder().device(Memory::Heap).lanes(1).depth(1));
        let queue = rig.queue(0);
        let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
        drop((step(&queue, &x, 0), step(&queue, &y, 0)));
        rig.settle();
        let never = Outside::default();
        let gated = queue
            .submit(|cg| {
                cg.after(never.future());
                Ok(())
            })
            .unwrap();
        let guard = rig.finish(x.host_read()).unwrap();
        let behind_guard = step(&queue, &x, 1);
        let native = step(&queue, &y, 1);
        let unfed = step(&queue, &y, 2);
        let mut waiting = Box::pin(y.host_write());
        assert!(poll(waiting.as_mut()).is_pending());
        let remaining = match abort {
            true => rig.runtime.abort(),
            false => {
                let mut ending = pin!(rig.runtime.shutdown(Duration::ZERO));
                match poll(ending.as_mut()) {
                    std::task::Poll::Ready(remaining) => remaining,
                    std::task::Poll::Pending => panic!("the deadline has passed"),
                }
            }
        };
        assert!(remaining.groups >= 2, "the native group and the guard: {remaining:?}");
        rig.settle();
        assert!([&gated, &behind_guard, &unfed].into_iter().all(|e| error(e).is_cancelled()));
        assert!(outcome(&native).is_ok(), "what was native has run");
        assert!(rig.finish(waiting.as_mut()).is_err());
        assert!(never.was_dropped());
        assert!(queue.submit(|_| Ok(())).unwrap_err().is_shut_down());
        assert_eq!(guard[0], stepped(1, [0]), "the guard stays good");
        drop(guard);
        rig.settle();
        assert_eq!(rig.runtime.abort().groups, 0);
        drop((queue, x, y, gated, behind_guard, native, unfed, waiting, never));
        rig.end();
    }
}

/// `shutdown` waits for what is under way.
#[test]
fn shutdown_drains() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    let events: Vec<_> = (0..200).map(|k| step(&queue, &x, k)).collect();
    let remaining = rig.finish(rig.runtime.shutdown(Duration::from_secs(60)));
    assert_eq!(remaining.groups, 0);
    assert!(events.iter().all(|e| outcome(e).is_ok()));
    drop((queue, x, events));
    rig.end();
}

/// `into_vec` gives the vector back that went in, wherever the data has been.
#[test]
fn into_vec_waits_for_everything_before_it() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 64]);
    let events: Vec<_> = (0..10).map(|k| step(&queue, &x, k)).collect();
    let vec = rig.finish(x.into_vec()).unwrap();
    assert_eq!(vec, vec![stepped(1, 0..10); 64]);
    assert!(events.iter().all(|e| outcome(e).is_ok()));
    // Not the last handle: a copy.
    let y = Buffer::from(vec![2_u32; 8]);
    drop(step(&queue, &y, 1));
    let kept = y.clone();
    assert_eq!(rig.finish(y.into_vec()).unwrap(), vec![stepped(2, [1]); 8]);
    assert_eq!(rig.values(&kept), vec![stepped(2, [1]); 8]);
    // A part.
    assert_eq!(rig.finish(kept.range(2..5).into_vec()).unwrap().len(), 3);
    drop((queue, kept, events));
    rig.end();
}

/// Decision 17 and 15: a read guard holds back writers only, a write guard everybody, and neither for ever.
#[test]
fn guards_hold_back_whom_they_must() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    let out = Buffer::<u32>::new(8);
    drop((step(&queue, &x, 0), crate::rig::blend(&queue, &out, &x, 0)));
    let guard = rig.finish(x.host_read()).unwrap();
    let (reader, writer) = (crate::rig::blend(&queue, &out, &x, 1), step(&queue, &x, 1));
    let elsewhere = set(&queue, &Buffer::<u32>::new(8), 1);
    rig.settle();
    assert_eq!((reader.status(), writer.status()), (Status::Done, Status::Pending));
    assert_eq!(guard[0], stepped(1, [0]));
    drop(guard);
    rig.settle();
    assert!(outcome(&writer).is_ok() && outcome(&elsewhere).is_ok());
    let mut guard = rig.finish(x.host_write()).unwrap();
    let behind = crate::rig::blend(&queue, &out, &x, 1);
    rig.settle();
    assert!(!behind.has_ended());
    guard[0] = 77;
    drop(guard);
    rig.settle();
    assert!(outcome(&behind).is_ok());
    assert_eq!(rig.values(&x)[..2], [77, stepped(1, [0, 1])]);
    drop((queue, x, out, reader, writer, elsewhere, behind));
    rig.end();
}

/// Decision 18: an error whose handle returned it is not told; one that nobody took is told once, when its last handle
/// is gone.
#[test]
fn an_error_is_told_once_and_only_if_nobody_saw_it() {
    let rig = single();
    let told = Arc::new(Mutex::new(0));
    let heard = told.clone();
    let count = move |errors: &[windlass::AsyncError]| *heard.lock().unwrap() += errors.len();
    let queue = Queue::builder().runtime(&rig.runtime).handler(count).blocking_build().unwrap();
    let x = Buffer::from(vec![1_u32; 8]);
    let seen = launch(&queue, &PANICS, &x, 0);
    rig.settle();
    assert!(error(&seen).is_panic());
    drop(seen);
    rig.settle();
    assert_eq!(*told.lock().unwrap(), 0);
    let unseen = launch(&queue, &PANICS, &Buffer::<u32>::new(8), 0);
    rig.settle();
    assert_eq!(*told.lock().unwrap(), 0, "a handle is left");
    drop(unseen);
    rig.settle();
    assert_eq!(*told.lock().unwrap(), 1);
    assert!(rig.told().is_empty(), "the queue's handler stands before the runtime's");
    drop((queue, x));
    rig.end();
}

/// A handler, a waker and a closure that panic or submit again harm nobody (decision 35).
#[test]
fn a_handler_may_panic_and_submit() {
    let rig = single();
    let plain = rig.queue(0);
    let (again, calls) = (plain.clone(), Arc::new(Mutex::new(0)));
    let counted = calls.clone();
    let handler = move |_: &[windlass::AsyncError]| {
        *counted.lock().unwrap() += 1;
        drop(again.submit(|_| Ok(())).unwrap());
        panic!("a handler that panics");
    };
    let queue = Queue::builder().runtime(&rig.runtime).handler(handler).blocking_build().unwrap();
    for _ in 0..3 {
        drop(launch(&queue, &PANICS, &Buffer::<u32>::new(8), 0));
        rig.settle();
    }
    assert_eq!((*calls.lock().unwrap(), plain.in_flight()), (3, 0));
    let good = step(&plain, &Buffer::<u32>::new(8), 0);
    rig.settle();
    assert!(outcome(&good).is_ok());
    drop((plain, queue, good));
    rig.end();
}
