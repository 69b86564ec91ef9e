//! Native calls that panic, and lanes that cannot be opened.

use windlass::prelude::*;
use windlass_faulty::{Call, Faulty, Memory};

use crate::rig::{Rig, assert_clean, error, native, outcome, pair, set, single, step, stepped};

/// `flush` and `arm` cannot refuse: a lane that panics there counts as lost. The group was taken, and ends once.
#[test]
fn a_lane_that_panics_counts_as_lost() {
    for call in [Call::Flush, Call::Arm] {
        let rig = single();
        let queue = rig.queue(0);
        let x = Buffer::<u32>::new(8);
        rig.finish(set(&queue, &x, 0)).unwrap();
        rig.finish(step(&queue, &x, 1)).unwrap();
        rig.control.panic_in(call);
        // The first is fed with a report; the second is asked about when somebody waits for it.
        let reported = (call == Call::Arm).then(|| step(&queue, &x, 1));
        let event = step(&queue, &x, 1);
        assert!(rig.finish(event).unwrap_err().root().is_device_lost(), "{call:?}");
        assert!(queue.submit(|_| Ok(())).unwrap_err().is_device_lost());
        drop(reported);
        rig.settle();
        assert_eq!(queue.in_flight(), 0, "{call:?}");
        drop((queue, x));
        let Rig { control, runtime, .. } = rig;
        drop(runtime);
        assert_eq!(control.audit().live(), 0);
    }
}

#[test]
fn an_allocation_that_panics_fails_its_group() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(8);
    rig.control.panic_in(Call::Allocate);
    let event = set(&queue, &x, 0);
    rig.settle();
    assert!(error(&event).to_string().contains("panic"), "{:?}", error(&event));
    rig.finish(set(&queue, &x, 3)).unwrap();
    assert_eq!(rig.values(&x)[0], 3);
    drop((queue, x, event));
    rig.end();
}

/// The transfer fails, and what waits for staging behind it gets some.
#[test]
fn staging_whose_allocation_panics_fails_its_group() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::<u32>::new(8);
    rig.finish(set(&a, &x, 7)).unwrap();
    rig.control.panic_in(Call::AllocateStaging);
    let event = step(&b, &x, 1);
    rig.settle();
    assert!(error(&event).to_string().contains("panic"), "{:?}", error(&event));
    rig.finish(set(&a, &x, 3)).unwrap();
    rig.finish(step(&b, &x, 1)).unwrap();
    assert_eq!(rig.values(&x)[0], stepped(3, [1]));
    drop((a, b, x, event));
    rig.end();
}

/// A device of the heap that could not be opened gets no copies to and from the heap, and can be opened later.
#[test]
fn a_lane_that_cannot_be_opened_is_an_error_and_nothing_counts_on_it() {
    let rig = Rig::new(Faulty::builder().device(Memory::Heap).device(Memory::Visible).lanes(2));
    let devices = rig.devices();
    let open = |device: usize| {
        Queue::builder().runtime(&rig.runtime).device(devices[device].clone()).blocking_build()
    };
    rig.control.fail_open_lane(native("no lane"));
    assert!(open(0).unwrap_err().to_string().contains("no lane"));
    rig.control.panic_in(Call::OpenLane);
    assert!(open(0).unwrap_err().to_string().contains("panic"));
    let visible = open(1).unwrap();
    let x = Buffer::from(vec![1_u32; 8]);
    rig.finish(step(&visible, &x, 2)).unwrap();
    assert_eq!(rig.values(&x), [stepped(1, [2]); 8]);
    let heap = open(0).unwrap();
    rig.finish(step(&heap, &x, 3)).unwrap();
    rig.finish(step(&visible, &x, 4)).unwrap();
    assert_eq!(rig.values(&x), [stepped(1, [2, 3, 4]); 8]);
    drop((visible, heap, x, devices));
    let Rig { control, runtime, .. } = rig;
    drop(runtime);
    assert_clean(&control);
}

/// A value whose drop panics with a payload whose drop panics.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        std::panic::panic_any(Payload);
    }
}

struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        panic!("dropping a payload");
    }
}

/// What a group captured that a lane refuses is dropped by the thread that feeds the lane, and its panic costs no other group
/// anything: the lane keeps its feeder.
#[test]
fn what_a_refused_group_captured_may_panic_twice() {
    let rig = Rig::new(Faulty::builder().device(Memory::Heap).lanes(1));
    let queue = rig.queue(0);
    rig.control.refuse_feed(0, native("no"));
    let mine = Mine;
    let refused = queue.submit(|cg| {
        cg.host_for(1, (), move |_, ()| {
            let _ = &mine;
        })
    });
    rig.settle();
    assert!(outcome(&refused.unwrap()).is_err());
    let next = queue.submit(|cg| cg.host_for(1, (), |_, ()| {})).unwrap();
    rig.settle();
    assert!(outcome(&next).is_ok());
    drop((queue, next));
    rig.end();
}
