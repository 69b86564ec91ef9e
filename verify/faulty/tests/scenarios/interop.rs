//! Programs that reach past the runtime: native commands inside groups, native contexts out and in.

use windlass::Priority;
use windlass::interop::NativeApi;
use windlass::prelude::*;
use windlass_faulty::native::{Devices, FaultyContext, FaultyMemory, OwnQueue, Place};
use windlass_faulty::{Faulty, Memory};

use crate::rig::{Rig, error, native, outcome, set, single, step, stepped};

/// What native code enqueues is ordered with everything else of its group, and of others.
#[test]
fn native_commands_have_their_place_in_the_order() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::<u32>::new(16);
    drop(set(&a, &x, 1));
    let group = a.submit(|cg| {
        let part = cg.read_write(&x.range(4..8));
        cg.fill(&part, 3)?;
        cg.interop_task::<Faulty>(move |mut native| {
            let (memory, shown) = native.memory(&part).ok_or("the accessor has elements")?;
            let mut region = shown.region().ok_or("a buffer's memory is linear")?;
            assert_eq!((region.offset, region.width), (16, 16));
            region.width = 8;
            native.place().enqueue_fill(memory, region, 7);
            Ok(())
        })
    });
    drop(step(&b, &x, 5));
    rig.settle();
    assert!(outcome(&group.unwrap()).is_ok());
    let values = rig.values(&x);
    let sevens = u32::from_ne_bytes([7; 4]);
    assert_eq!(values[3], stepped(22, [5]));
    assert_eq!(values[4..8], [sevens, sevens, 3, 3].map(|v| stepped(v, [5])));
    drop((a, b, x));
    rig.end();
}

/// An error or a panic of native code is its group's failure, and what is ordered through the group goes on.
#[test]
fn native_code_that_fails_fails_its_group() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(4);
    let refused = queue.submit(|cg| cg.interop_task::<Faulty>(|_| Err("the driver said no".into()))).unwrap();
    let panicked = queue.submit(|cg| {
        cg.write(&x);
        cg.interop_task::<Faulty>(|_| panic!("oh no"))
    });
    let reader = queue.submit(|cg| {
        cg.read(&x);
        Ok(())
    });
    let beside = set(&queue, &Buffer::<u32>::new(4), 1);
    rig.settle();
    assert!(error(&refused).to_string().contains("the driver said no"));
    assert!(error(&panicked.unwrap()).to_string().contains("oh no"));
    assert!(error(&reader.unwrap()).is_dependency_failed());
    assert!(outcome(&beside).is_ok());
    drop((queue, x, refused, beside));
    rig.end();
}

/// Where a device does not take native code, or is of another backend, the call says so.
#[test]
fn native_code_elsewhere_is_refused() {
    struct Other;
    impl NativeApi for Other {
        const BACKEND: &'static str = "other";
        type Context = FaultyContext;
        type Place = Place;
        type Memory = FaultyMemory;
        type Object = Devices;
        type MemoryObject = std::convert::Infallible;
        type QueueObject = std::convert::Infallible;
    }
    let rig = single();
    let queue = rig.queue(0);
    let problem = queue.submit(|cg| cg.interop_task::<Faulty>(|_| Ok(()))).unwrap_err();
    assert!(problem.is_unsupported(), "{problem}");
    let problem = queue.submit(|cg| cg.interop_task::<Other>(|_| Ok(()))).unwrap_err();
    assert!(problem.to_string().contains("backend `other`"), "{problem}");
    drop(queue);
    rig.end();
}

/// A context is seen as its backend made it, and stays open as long as somebody looks.
#[test]
fn a_native_context_goes_out_and_one_comes_in() {
    let rig = Rig::new(Faulty::builder().device(Memory::Own).device(Memory::Own));
    let queue = rig.queue(0);
    assert_eq!(queue.native::<Faulty>().unwrap().number(), 0);
    let context = Context::blocking_from_native::<Faulty>(&rig.runtime, Devices(vec![1])).unwrap();
    let device = context.devices().swap_remove(0);
    assert_eq!(device, rig.devices()[1]);
    let own = Queue::blocking_in_context(&context, &device).unwrap();
    let native = own.native::<Faulty>().unwrap();
    assert_eq!(native.number(), 1);
    let x = Buffer::<u32>::new(8);
    drop((set(&own, &x, 1), step(&queue, &x, 2)));
    assert_eq!(rig.values(&x)[3], stepped(22, [2]));
    drop((context, own, x));
    rig.settle();
    assert_eq!(rig.control.audit().contexts, 2, "somebody looks at it");
    drop(native);
    rig.settle();
    assert_eq!(rig.control.audit().contexts, 1);
    drop((queue, device));
    rig.end();
}

fn own_queue(queue: &Queue) -> OwnQueue {
    queue.native::<Faulty>().unwrap().create_queue(0)
}

fn over(queue: &Queue) -> Queue {
    Queue::blocking_from_native::<Faulty>(&queue.context(), own_queue(queue)).unwrap()
}

/// Nothing but its own groups comes to the lane of a native queue, other lanes wait for it, and it goes when it is idle and nobody has
/// the queue or an event of it any more, while the context stays.
#[test]
fn a_native_queue_is_a_lane_of_one_queues_own() {
    let rig = single();
    let queue = rig.queue(0);
    let own = over(&queue);
    assert_eq!(rig.control.audit().lanes, 2);
    rig.control.hold(1, true);
    let (x, y) = (Buffer::<u32>::new(16), Buffer::<u32>::new(16));
    let first = set(&own, &x, 1);
    let beside = set(&queue, &y, 2);
    rig.settle();
    assert!(outcome(&beside).is_ok() && !first.has_ended());
    let behind = step(&queue, &x, 3);
    drop(own);
    rig.settle();
    assert!(!first.has_ended() && !behind.has_ended());
    assert_eq!(rig.control.audit().lanes, 2, "its group is under way");
    rig.control.hold(1, false);
    rig.settle();
    assert!(outcome(&first).is_ok() && outcome(&behind).is_ok());
    assert_eq!(rig.control.audit().lanes, 2, "somebody has an event of it");
    drop(first);
    rig.settle();
    assert_eq!(rig.control.audit().lanes, 1);
    assert_eq!(rig.values(&x)[3], stepped(22, [3]));
    // As often as one likes, and several at a time.
    for k in 0..5 {
        let (one, other) = (over(&queue), over(&queue));
        drop((step(&one, &x, k), step(&other, &x, k), step(&queue, &x, k), one, other));
        rig.settle();
        assert_eq!(rig.control.audit().lanes, 1);
    }
    assert_eq!(rig.values(&x)[3], stepped(22, [3].into_iter().chain((0..5).flat_map(|k| [k; 3]))));
    drop((queue, x, y, beside, behind));
    rig.end();
}

/// A context stays as long as a queue over a native one is there, and goes with it.
#[test]
fn a_queue_over_a_native_one_keeps_its_context() {
    let rig = Rig::new(Faulty::builder().device(Memory::Own).device(Memory::Own));
    let context = Context::blocking_from_native::<Faulty>(&rig.runtime, Devices(vec![0, 1])).unwrap();
    let native = context.native::<Faulty>().unwrap().create_queue(1);
    let own = Queue::blocking_from_native::<Faulty>(&context, native).unwrap();
    assert_eq!(*own.device(), context.devices()[1], "the native queue says where it is");
    drop(context);
    let x = Buffer::<u32>::new(8);
    drop(set(&own, &x, 1));
    rig.settle();
    assert_eq!(rig.control.audit().contexts, 1);
    drop((own, x));
    rig.settle();
    assert_eq!(rig.control.audit().live(), 0);
    rig.end();
}

/// What is under way on the lane of a native queue ends with its device, lost or given up, and so does what waits for it.
#[test]
fn a_native_queue_ends_with_its_device() {
    for given_up in [false, true] {
        let rig = single();
        let queue = rig.queue(0);
        let own = over(&queue);
        rig.control.hold(1, true);
        let x = Buffer::<u32>::new(8);
        let (first, behind) = (set(&own, &x, 1), step(&queue, &x, 2));
        rig.settle();
        match given_up {
            true => queue.context().abandon(),
            false => rig.control.lose_devices("pulled out"),
        }
        rig.control.hold(1, false);
        rig.settle();
        assert!(error(&first).is_device_lost() && error(&behind).is_device_lost());
        assert!(own.submit(|_| Ok(())).unwrap_err().is_device_lost());
        drop((own, first, behind, x, queue));
        rig.settle();
        assert_eq!(rig.runtime.stats().live_nodes, 0);
        assert_eq!(rig.control.audit().lanes, 1, "the runtime's own context is kept, with its own lane");
        assert_eq!(rig.control.breaches(), Vec::<String>::new());
    }
}

/// A group that fails there, when it is fed or later, fails alone.
#[test]
fn a_failure_on_a_native_queue_is_its_groups() {
    let rig = single();
    let queue = rig.queue(0);
    let own = over(&queue);
    let (x, y) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8));
    rig.control.refuse_feed(0, native("not this one"));
    let refused = set(&own, &x, 1);
    let good = set(&own, &y, 1);
    rig.settle();
    rig.control.fail_next(native("crashed"));
    let crashed = step(&own, &y, 1);
    rig.settle();
    assert!(outcome(&good).is_ok());
    assert!(error(&refused).to_string().contains("not this one"));
    assert!(error(&crashed).to_string().contains("crashed"));
    let again = set(&own, &y, 4);
    rig.settle();
    assert!(outcome(&again).is_ok());
    drop((own, queue, x, y, refused, good, crashed, again));
    rig.end();
}

/// What a native queue is not like is refused before a lane is opened, and an error of the backend's in opening it is the call's.
#[test]
fn a_native_queue_that_does_not_fit_is_refused() {
    let rig = Rig::new(Faulty::builder().lanes(1).aspect(Aspect::Profiling).aspect(Aspect::Priorities));
    let queue = rig.queue(0);
    let other = Context::blocking_open(&rig.devices()).unwrap();
    let from = |native: OwnQueue| Queue::builder().context(&queue.context()).native_queue::<Faulty>(native);
    let lanes = rig.control.audit().lanes;
    let refusals = [
        (Queue::builder().context(&other).native_queue::<Faulty>(own_queue(&queue)), "another context"),
        (from(own_queue(&queue).out_of_order()), "any order"),
        (from(own_queue(&queue)).profiling(), "does not time"),
        (from(own_queue(&queue)).priority(Priority::High), "high priority"),
        (Queue::builder().native_queue::<Faulty>(own_queue(&queue)), "without its context"),
        (from(queue.native::<Faulty>().unwrap().create_queue(7)), "does not have"),
    ];
    for (builder, why) in refusals {
        let refused = builder.blocking_build().unwrap_err();
        assert!(refused.is_unsupported() || refused.is_invalid_input(), "{refused}");
        assert!(refused.to_string().contains(why), "{refused}, and not: {why}");
    }
    assert_eq!(rig.control.audit().lanes, lanes);
    rig.control.fail_open_lane(native("there are no more"));
    let refused = from(own_queue(&queue)).blocking_build().unwrap_err();
    assert!(refused.to_string().contains("there are no more"), "{refused}");
    let timed = from(own_queue(&queue).timed()).profiling().in_order().blocking_build().unwrap();
    let event = set(&timed, &Buffer::<u32>::new(4), 1);
    rig.settle();
    assert!(event.profile().is_some());
    drop((queue, other, timed, event));
    rig.end();
}
