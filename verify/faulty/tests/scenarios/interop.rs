//! Programs that reach past the runtime: native commands inside groups, native contexts out and in.

use windlass::interop::NativeApi;
use windlass::prelude::*;
use windlass_faulty::native::{Devices, FaultyContext, FaultyMemory, Place};
use windlass_faulty::{Faulty, Memory};

use crate::rig::{Rig, error, outcome, set, single, step, stepped};

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
