//! The suite and its random programs on a scripted backend that is shaped like CUDA: deep lanes that hold few reports,
//! lanes that only copy, two devices in one domain, memory that holds rubbish, and reports from a driver's callback.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass::{Buffer, Context, Device, Event, Queue, Runtime};
use windlass_conformance::programs::{World, run as run_programs};
use windlass_conformance::{Kernels, Subject, expected, run};
use windlass_faulty::{Faulty, FaultyControl};

fn streams() -> (Runtime, FaultyControl) {
    let faulty = Faulty::builder().like_cuda().keeps_freed().auto().build();
    let control = faulty.control();
    (Runtime::builder().backend(faulty).build(), control)
}

fn assert_kept(control: &FaultyControl) {
    assert_eq!(control.breaches(), Vec::<String>::new());
    let audit = control.audit();
    assert!(audit.most_reports <= 56 && audit.deepest <= 1021, "{audit:?}");
}

#[test]
fn a_device_of_streams_conforms() {
    let (runtime, control) = streams();
    let device = Subject::find(&runtime, |d| d.backend().as_str() == "faulty").expect("it is always there");
    let subject = Subject::open("streams", &device, Kernels::new()).expect("it opens");
    run(&subject).compare(expected::of("streams")).unwrap_or_else(|text| panic!("{text}"));
    assert_kept(&control);
}

/// Several contexts of one domain, each on both devices, used by several threads.
#[test]
fn random_programs_on_two_devices_of_streams() {
    let (runtime, control) = streams();
    let devices = futures_lite::future::block_on(runtime.devices()).expect("scripted devices are found");
    let devices: Vec<Device> = devices.into_iter().filter(|d| d.backend().as_str() == "faulty").collect();
    let both = Context::blocking_open(&devices).expect("a context opens");
    let queue = |device: &Device, context: Option<&Context>| {
        let builder = Queue::builder().device(device.clone());
        let builder = context.into_iter().fold(builder, |b, context| b.context(context));
        builder.handler(|_| {}).blocking_build().expect("a queue opens")
    };
    let places = vec![
        queue(&devices[0], None),
        queue(&devices[1], None),
        queue(&devices[0], Some(&both)),
        queue(&devices[1], Some(&both)),
    ];
    let world = World { places, kernels: Kernels::new(), stays: Some(600) };
    let tally = run_programs(&world, 0..2_000).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tally.programs == 2_000 && tally.failed > 1_000, "{tally:?}");
    let audit = control.audit();
    assert!(audit.peer_copies > 1_000 && audit.on_copy_lanes > 1_000, "{audit:?}");
    assert_kept(&control);
}

/// The same devices, worked by a thread of their own in no order that the program knows: lanes fill up, reports come late, and
/// what was fed waits. Without it nothing would ever be in flight for longer than a call of `feed`.
#[test]
fn random_programs_on_devices_that_take_their_time() {
    let faulty = Faulty::builder().like_cuda().build();
    let control = faulty.control();
    let runtime = Runtime::builder().backend(faulty).build();
    let over = Arc::new(AtomicBool::new(false));
    let (works, ends) = (control.clone(), over.clone());
    let worker = std::thread::spawn(move || {
        let mut choice = 1_u64;
        while !ends.load(Ordering::Relaxed) {
            choice = choice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if !works.step_at(choice >> 33) {
                std::thread::yield_now();
            }
        }
    });
    let devices = futures_lite::future::block_on(runtime.devices()).expect("scripted devices are found");
    let devices: Vec<Device> = devices.into_iter().filter(|d| d.backend().as_str() == "faulty").collect();
    let queue = |device: &Device| {
        Queue::builder().device(device.clone()).handler(|_| {}).blocking_build().expect("a queue opens")
    };
    let world = World {
        places: vec![queue(&devices[0]), queue(&devices[1])],
        kernels: Kernels::new(),
        stays: Some(600),
    };
    let tally = run_programs(&world, 0..200).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(tally.programs, 200, "{tally:?}");

    // A backlog of groups of 1 to 64 commands: the lane is filled to its depth, and never beyond.
    let (queue, data) = (&world.places[0], Buffer::<u32>::new(64));
    for lane in 0..8 {
        control.hold(lane, true);
    }
    let groups: Vec<Event> = (0..500_usize)
        .map(|n| {
            let group = queue.submit(|cg| {
                let all = cg.read_write(&data);
                (0..=n % 64).try_for_each(|_| cg.fill(&all, n as u32))
            });
            group.expect("nothing to refuse")
        })
        .collect();
    for lane in 0..8 {
        control.hold(lane, false);
    }
    Event::all(groups).blocking_wait().expect("all of them run");
    over.store(true, Ordering::Relaxed);
    worker.join().expect("the devices do not panic");
    assert!(control.audit().deepest > 900, "{:?}", control.audit());
    assert_kept(&control);
}
