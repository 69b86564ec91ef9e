//! Everything that can go wrong with a group, at each stage of its life.

use windlass::prelude::*;
use windlass::{KernelCall, Unavailable};
use windlass_faulty::{Faulty, Memory};

use crate::rig::{
    PANICS, Rig, STEP, blend, call, error, launch, native, outcome, pair, set, single, step, stepped,
};

/// A refused feed fails its group alone; what reads its data fails with it, what does not goes on.
#[test]
fn a_refused_feed_fails_its_group_and_its_readers() {
    let rig = single();
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![2_u32; 8]));
    let (warm, other) = (step(&queue, &x, 0), step(&queue, &y, 0));
    rig.settle();
    rig.control.refuse_feed(0, native("no"));
    let refused = step(&queue, &x, 1);
    let reader = blend(&queue, &y, &x, 1);
    let bystander = step(&queue, &y.range(0..0), 1);
    rig.settle();
    assert!(outcome(&warm).is_ok() && outcome(&other).is_ok() && outcome(&bystander).is_ok());
    assert_eq!(error(&refused).backend_error(), Some(&native("no")));
    let doomed = error(&reader);
    assert!(doomed.is_dependency_failed());
    assert_eq!(doomed.root().backend_error(), Some(&native("no")));
    assert!(rig.finish(x.host_read()).unwrap_err().is_dependency_failed());
    assert!(rig.told().is_empty(), "everything was observed");
    drop((queue, x, y, warm, other, refused, reader, bystander));
    rig.end();
}

#[test]
fn a_panic_in_feed_fails_its_group_and_the_lane_goes_on() {
    let rig = single();
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![2_u32; 8]));
    drop(step(&queue, &x, 0));
    drop(step(&queue, &y, 0));
    rig.settle();
    rig.control.panic_in_feed(0);
    let bad = step(&queue, &x, 1);
    let good = step(&queue, &y, 1);
    rig.settle();
    assert!(error(&bad).is_panic());
    assert!(outcome(&good).is_ok());
    assert_eq!(rig.values(&y), vec![stepped(2, [0, 1]); 8]);
    drop((queue, x, y, bad, good));
    rig.end();
}

/// A native refusal comes with a verdict on the same lane in the same moment: inside `feed`.
#[test]
fn failures_reported_inside_feed() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    drop(step(&queue, &x, 0));
    rig.settle();
    rig.control.report_inside_feed(true);
    rig.control.fail_next(native("at once"));
    let bad = step(&queue, &x, 1);
    assert_eq!(bad.status(), Status::Failed, "no call after submit was needed");
    let over = set(&queue, &x, 5);
    assert!(!over.has_ended(), "a kernel has to be built first");
    rig.settle();
    assert!(outcome(&over).is_ok());
    assert_eq!(error(&bad).backend_error(), Some(&native("at once")));
    assert_eq!(rig.values(&x)[1], 12);
    drop((queue, x, bad, over));
    rig.end();
}

#[test]
fn a_failure_verdict_fails_the_group_at_its_point() {
    let rig = single();
    let queue = rig.queue(0);
    let buffers: Vec<_> = (0..3).map(|i| Buffer::from(vec![i as u32; 4])).collect();
    buffers.iter().for_each(|b| drop(step(&queue, b, 0)));
    rig.settle();
    rig.control.fail(1, native("one of three"));
    let events: Vec<_> = buffers.iter().map(|b| step(&queue, b, 1)).collect();
    rig.settle();
    assert!(outcome(&events[0]).is_ok() && outcome(&events[2]).is_ok());
    assert_eq!(error(&events[1]).backend_error(), Some(&native("one of three")));
    drop((queue, buffers, events));
    rig.end();
}

#[test]
fn a_kernel_that_panics_is_an_error_of_its_group() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    let bad = launch(&queue, &PANICS, &x, 1);
    rig.settle();
    assert!(error(&bad).is_panic());
    drop((queue, x, bad));
    rig.end();
}

/// What the backend keeps of freed memory is asked for before anybody is told that there is none.
#[test]
fn memory_that_a_trim_sets_free_is_memory() {
    for slow in [false, true] {
        let builder = Faulty::builder().lanes(1);
        let rig = Rig::new(if slow { builder.slow_allocate() } else { builder });
        let queue = rig.queue(0);
        let x = Buffer::<u32>::new(8);
        rig.control.out_of_memory(0);
        let event = set(&queue, &x, 3);
        rig.settle();
        assert!(outcome(&event).is_ok());
        assert_eq!((rig.control.audit().trims, rig.values(&x)[0]), (1, 3));
        drop((queue, x, event));
        rig.end();
    }
}

/// An allocation that fails fails those that need it. The next one asks again.
#[test]
fn out_of_memory_fails_who_waits_and_is_asked_again() {
    for slow in [false, true] {
        let builder = Faulty::builder().lanes(1);
        let rig = Rig::new(if slow { builder.slow_allocate() } else { builder });
        let queue = rig.queue(0);
        let x = Buffer::from(vec![1_u32; 8]);
        // A kernel that is being built might lead to something, and is waited for.
        drop(step(&queue, &Buffer::new(1), 1));
        rig.settle();
        // It is asked once more after a trim.
        (0..2).for_each(|n| rig.control.out_of_memory(n));
        let first = step(&queue, &x, 1);
        rig.settle();
        assert!(error(&first).is_out_of_memory());
        let again = set(&queue, &x, 3);
        rig.settle();
        assert!(outcome(&again).is_ok());
        assert_eq!(rig.values(&x)[0], 3);
        drop((queue, x, first, again));
        rig.end();
    }
}

/// Which buffers those are: by where they were first used, the largest first, and only those of that memory.
#[test]
fn who_is_out_of_memory_learns_who_has_it() {
    let rig = crate::rig::pair();
    let [queue, other] = [rig.queue(0), rig.queue(1)];
    let buffer = |bytes: usize| Buffer::<u32>::new(bytes / 4);
    let (small, large, far) = ([buffer(32), buffer(16)], buffer(200), buffer(400));
    let fill = |queue: &Queue, x: &Buffer<u32>| queue.submit(|cg| cg.fill(&cg.overwrite(x), 1)).unwrap();
    let first = queue.submit(|cg| cg.fill(&cg.overwrite(&large), 2));
    let (first, first_at) = (first.unwrap(), line!() - 1);
    let events = [fill(&queue, &small[0]), fill(&queue, &small[1]), fill(&other, &far), first];
    rig.settle();
    assert!(events.iter().all(|event| outcome(event).is_ok()));
    rig.control.cap_memory(Some(rig.control.audit().bytes + 8));
    let more = buffer(64);
    let refused = fill(&queue, &more);
    rig.settle();
    let (text, at) = (error(&refused).to_string(), error(&refused).location().unwrap());
    let said = ["allocating 64 bytes", "faulty 0", "3 buffers of 248 bytes together"].map(str::to_owned);
    let places = [
        format!("(1 buffer of 200 bytes from {}:{first_at}:", file!()),
        format!(", 2 buffers of 48 bytes together from {at})"),
    ];
    assert!(said.iter().chain(&places).all(|part| text.contains(part)), "{text}");
    assert!(!text.contains("400"), "that is another memory: {text}");
    drop((queue, other, small, large, far, more, events, refused));
    rig.end();
}

#[test]
fn a_memory_cap_is_an_error_and_frees_make_room() {
    let rig = single();
    let queue = rig.queue(0);
    rig.control.cap_memory(Some(100));
    let x = Buffer::<u32>::new(16);
    let y = Buffer::<u32>::new(16);
    let (a, b) = (set(&queue, &x, 1), set(&queue, &y, 1));
    rig.settle();
    assert!(outcome(&a).is_ok() && error(&b).is_out_of_memory());
    assert!(error(&b).to_string().contains("64 of 100 are in use in all"), "{}", error(&b));
    drop(x);
    rig.settle();
    let again = set(&queue, &y, 1);
    rig.settle();
    assert!(outcome(&again).is_ok());
    drop((queue, y, a, b, again));
    rig.end();
}

/// Decision 9: a build is a gate, worked off once for all who need the kernel.
#[test]
fn a_build_is_a_gate_and_single_flight() {
    let rig = Rig::new(Faulty::builder().lanes(1).zeroed_memory());
    let queue = rig.queue(0);
    let buffers: Vec<_> = (0..5).map(|_| Buffer::<u32>::new(4)).collect();
    let events: Vec<_> = buffers.iter().map(|b| step(&queue, b, 1)).collect();
    rig.control.run_all();
    assert!(events.iter().all(|e| !e.has_ended()));
    let audit = rig.control.audit();
    assert_eq!(
        (audit.builds, audit.feeds),
        (0, 0),
        "submit builds nothing and feeds no group without its kernel"
    );
    rig.settle();
    assert!(events.iter().all(|e| outcome(e).is_ok()));
    assert_eq!((rig.control.audit().builds, rig.runtime.stats().builds), (1, 1));
    drop((queue, buffers, events));
    rig.end();
}

/// A build that takes long holds back those who need the kernel, and nobody else.
#[test]
fn a_slow_build_holds_back_only_its_groups() {
    let faulty = Faulty::builder().build();
    let control = faulty.control();
    let runtime = Runtime::builder().backend(faulty).only_given_backends().build();
    let queue = Queue::builder().runtime(&runtime).blocking_build().unwrap();
    let x = Buffer::<u32>::new(4);
    let run = |event: &Event| {
        let mut rounds = 0;
        while !event.has_ended() {
            control.run_all();
            std::thread::sleep(std::time::Duration::from_millis(1));
            rounds += 1;
            assert!(rounds < 20_000, "a hang");
        }
    };
    control.slow_builds(true);
    let slow: Vec<_> = (0..3).map(|_| step(&queue, &x, 1)).collect();
    let y = Buffer::<u32>::new(4);
    let fill = queue.submit(|cg| cg.fill(&cg.overwrite(&y), 7)).unwrap();
    run(&fill);
    assert!(slow.iter().all(|e| !e.has_ended()));
    control.slow_builds(false);
    slow.iter().for_each(run);
    assert_eq!(control.audit().builds, 1);
    assert_eq!(control.breaches(), Vec::<String>::new());
}

/// A build that fails fails all who wait for it, and is an error at the call from then on.
#[test]
fn a_failed_build_fails_who_waits_and_then_at_the_call() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(4);
    rig.control.fail_build("line 3: no");
    let (a, b) = (step(&queue, &x, 1), step(&queue, &x, 2));
    rig.settle();
    assert!(error(&a).to_string().contains("line 3: no"), "{}", error(&a));
    assert!(outcome(&b).is_err());
    assert!(queue.submit(|cg| call(cg, &STEP, &x, 3)).unwrap_err().to_string().contains("line 3: no"));
    drop((queue, x, a, b));
    rig.end();
}

#[test]
fn an_unavailable_backend_says_why() {
    let faulty = Faulty::builder().id("absent").build();
    faulty.control().unavailable("there is no driver");
    let runtime = Runtime::builder().backend(faulty).only_given_backends().manual().build();
    let refused = Queue::builder().runtime(&runtime).select(Selector::backend("absent")).blocking_build();
    let refused = refused.unwrap_err();
    assert!(refused.is_unavailable() && refused.to_string().contains("there is no driver"), "{refused}");
    let status = futures_lite::future::block_on(runtime.backends());
    let why = Unavailable::new("there is no driver", "ask for another script");
    assert_eq!(status[0].1, Err(why));
}

#[test]
fn a_context_that_does_not_open_is_an_error_and_is_tried_again() {
    let rig = single();
    let device = rig.devices().swap_remove(0);
    rig.control.fail_open(native("busy"));
    let open = || Queue::builder().runtime(&rig.runtime).device(device.clone()).blocking_build();
    assert_eq!(open().unwrap_err().backend_error(), Some(&native("busy")));
    let queue = open().unwrap();
    drop((queue, device));
    rig.end();
}

/// Decision 12: command 500 of 1,000 un-awaited ones fails. The handler hears it once, with a count; its readers fail;
/// the last event is `Ok` only if it read none of that data.
#[test]
fn command_500_of_1000_fails() {
    for reads in [false, true] {
        let rig = single();
        let queue = rig.queue(0);
        let buffers: Vec<_> = (0..1000).map(|_| Buffer::from(vec![1_u32; 4])).collect();
        buffers.iter().for_each(|b| drop(step(&queue, b, 0)));
        rig.settle();
        rig.control.fail(500, native("number 500"));
        buffers.iter().for_each(|b| drop(step(&queue, b, 1)));
        drop(blend(&queue, &buffers[7], &buffers[500], 0));
        let last = blend(&queue, &buffers[999], &buffers[if reads { 500 } else { 8 }], 0);
        rig.settle();
        match reads {
            true => assert_eq!(error(&last).root().backend_error(), Some(&native("number 500"))),
            false => assert!(outcome(&last).is_ok()),
        }
        let told = rig.told();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(told[0].error().backend_error(), Some(&native("number 500")));
        assert_eq!(told[0].took_down(), if reads { 2 } else { 1 });
        drop((queue, buffers, last, told));
        rig.end();
    }
}

/// Decision 3: A writes v1 slowly; D writes v2 no-init elsewhere and succeeds; A then fails and poisons v1 alone.
#[test]
fn versions_fail_regions_do_not() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 8]);
    drop((step(&a, &x, 0), set(&b, &x, 0), step(&a, &x, 0)));
    rig.settle();
    rig.control.hold(0, true);
    rig.control.hold(1, true);
    rig.control.fail(1, native("slow and bad"));
    let slow = step(&a, &x, 1);
    let reader = blend(&a, &Buffer::<u32>::new(8), &x, 0);
    let fresh = set(&b, &x, 2);
    rig.settle();
    assert!(outcome(&fresh).is_ok(), "a no-init write elsewhere waits for nobody");
    rig.control.hold(0, false);
    rig.control.hold(1, false);
    rig.settle();
    assert_eq!(error(&slow).backend_error(), Some(&native("slow and bad")));
    assert!(error(&reader).is_dependency_failed());
    assert_eq!(rig.values(&x)[1], 9, "the newest version is well");
    drop((a, b, x, slow, reader, fresh));
    rig.end();
}

/// `depends_on` carries failure, `after_end` does not.
#[test]
fn explicit_order_carries_failure_or_not() {
    let rig = Rig::new(Faulty::builder().device(Memory::Heap));
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    let bad = launch(&queue, &PANICS, &x, 1);
    let with = queue
        .submit(|cg| {
            cg.depends_on(&bad);
            Ok(())
        })
        .unwrap();
    let after = queue
        .submit(|cg| {
            cg.after_end(&bad);
            Ok(())
        })
        .unwrap();
    let keep = queue
        .submit(|cg| {
            cg.after_end(&bad);
            cg.parallel_for(
                4,
                KernelCall::new(&STEP).buffer(cg.read_write(&Buffer::<u32>::new(4))).value(1_u32),
            )
        })
        .unwrap();
    rig.settle();
    assert!(error(&bad).is_panic() && error(&with).is_dependency_failed());
    assert!(outcome(&after).is_ok() && outcome(&keep).is_ok());
    drop((queue, x, bad, with, after, keep));
    rig.end();
}
