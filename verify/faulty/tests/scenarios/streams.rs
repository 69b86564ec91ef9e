//! Devices that are shaped like CUDA: lanes deep in commands that hold few reports, lanes that only copy, two devices in
//! one domain, memory that holds rubbish.

use std::time::Duration;

use windlass::prelude::*;
use windlass::{CompletionStrategy, Priority};
use windlass_faulty::Faulty;

use crate::rig::{Rig, blend, error, outcome, set, single, step, stepped};

fn streams() -> Rig {
    Rig::new(Faulty::builder().like_cuda())
}

/// A group of so many fills, each of one element.
fn fills(queue: &Queue, x: &Buffer<u32>, count: usize, value: u32) -> Event {
    let group = |cg: &CommandGroup<'_>| {
        (0..count).try_for_each(|at| cg.fill(&cg.overwrite(&x.range(at..at + 1)), value))
    };
    queue.submit(group).unwrap()
}

/// A lane never holds more commands than its depth, whatever groups weigh; one that is heavier is fed alone. The scripted
/// lane counts, and a call beyond its depth is a breach.
#[test]
fn no_call_exceeds_the_depth() {
    for (commands, reports) in [(1021, 56), (64, 3), (8, 2), (1, 1)] {
        for hold in [false, true] {
            let rig = Rig::new(Faulty::builder().lanes(2).depths(commands, reports).reports_by_callback());
            let queue = rig.queue(0);
            let buffers: Vec<_> = (0..3).map(|_| Buffer::<u32>::new(64)).collect();
            (0..2).for_each(|lane| rig.control.hold(lane, hold));
            let submitted = (0..400_usize).map(|n| fills(&queue, &buffers[n % 3], 1 + n * 7 % 64, n as u32));
            let events: Vec<_> = submitted.collect();
            (0..2).for_each(|lane| rig.control.hold(lane, false));
            rig.settle();
            assert!(events.iter().all(|e| outcome(e).is_ok()));
            let audit = rig.control.audit();
            assert!(audit.most_reports <= reports, "{audit:?}");
            assert!(audit.deepest <= commands.max(64), "{audit:?}");
            if hold && commands > 64 {
                assert!(audit.deepest > commands / 2, "the lane was filled: {audit:?}");
            }
            drop((queue, buffers, events));
            rig.end();
        }
    }
}

/// Data goes between two devices of one domain natively: the host wakes nobody, and stages nothing.
#[test]
fn devices_of_one_domain_need_no_host() {
    let rig = streams();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::<u32>::new(100);
    drop((set(&a, &x, 1), step(&b, &x, 2), step(&a, &x, 3)));
    rig.settle();
    let (before, native) = (rig.runtime.stats(), rig.control.audit());
    rig.control.delay_verdicts(true);
    let rounds = 20;
    let events: Vec<_> = (0..rounds).flat_map(|k| [step(&a, &x, k), step(&b, &x, k)]).collect();
    while rig.control.run_one() {}
    let (after, fed) = (rig.runtime.stats(), rig.control.audit());
    assert!(events.iter().all(|e| !e.has_ended()), "nothing has been reported");
    assert_eq!(fed.ran - native.ran, 4 * u64::from(rounds) - 1, "and yet all of it has run");
    assert_eq!(fed.peer_copies - native.peer_copies, 2 * u64::from(rounds) - 1);
    assert!(fed.peer_waits > native.peer_waits);
    let counts =
        (after.proxies - before.proxies, after.staged_transfers, after.tasks_spawned - before.tasks_spawned);
    assert_eq!(counts, (0, 0, 0), "proxies, staged transfers, tasks");
    rig.control.delay_verdicts(false);
    rig.settle();
    assert!(events.iter().all(|e| outcome(e).is_ok()));
    let ks = [2, 3].into_iter().chain((0..rounds).flat_map(|k| [k, k]));
    assert_eq!(rig.values(&x)[3], stepped(22, ks));
    drop((a, b, x, events));
    rig.end();
}

/// The same two devices where the driver cannot copy between them: data goes through the host.
#[test]
fn devices_without_a_link_are_staged() {
    let rig = streams();
    rig.control.no_peer_copies(true);
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::<u32>::new(100);
    drop((set(&a, &x, 1), step(&b, &x, 2)));
    rig.settle();
    assert_eq!((rig.control.audit().peer_copies, rig.runtime.stats().staged_transfers), (0, 1));
    assert_eq!(rig.values(&x)[3], stepped(22, [2]));
    drop((a, b, x));
    rig.end();
}

/// Loss stays with the context, whether the next call finds it or the context tells it.
#[test]
fn one_of_a_domain_is_lost_and_the_other_goes_on() {
    for told in [false, true] {
        let rig = streams();
        let (a, b) = (rig.queue(0), rig.queue(1));
        let (x, y) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8));
        drop((set(&a, &x, 1), set(&b, &y, 1), blend(&b, &y, &x, 0)));
        rig.settle();
        rig.control.delay_verdicts(true);
        let caught = step(&b, &y, 1);
        let waits = blend(&a, &x, &y, 1);
        let beside = Buffer::<u32>::new(8);
        let well = set(&a, &beside, 3);
        match told {
            true => rig.control.tell_loss(1, "pulled out"),
            false => rig.control.lose_context(1, "pulled out"),
        }
        rig.control.delay_verdicts(false);
        rig.settle();
        assert!(error(&caught).root().is_device_lost(), "{told}");
        assert!(error(&waits).root().is_device_lost(), "{told}");
        assert!(outcome(&well).is_ok());
        assert!(b.submit(|_| Ok(())).unwrap_err().is_device_lost());
        let again = set(&a, &x, 5);
        rig.settle();
        assert!(outcome(&again).is_ok());
        assert_eq!(rig.values(&x)[1], 12);
        drop((a, b, x, y, beside, caught, waits, well, again));
        rig.settle();
        assert_eq!(rig.control.breaches(), Vec::<String>::new());
    }
}

/// A context that tells its loss while nothing is under way: the next call says so.
#[test]
fn a_told_loss_needs_no_call() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(8);
    rig.finish(set(&queue, &x, 1)).unwrap();
    rig.control.tell_loss(0, "fell off the bus");
    rig.settle();
    let error = queue.submit(|_| Ok(())).unwrap_err();
    assert!(error.is_device_lost() && error.to_string().contains("fell off the bus"), "{error}");
    drop((queue, x));
}

/// What is overwritten first is not cleared; what nobody has written reads as zeros, and only that is cleared.
#[test]
fn only_what_is_read_unwritten_is_cleared() {
    let rig = streams();
    let queue = rig.queue(0);
    let filled = || rig.control.audit().bytes_filled;
    let x = Buffer::<u32>::new(100);
    rig.finish(set(&queue, &x, 1)).unwrap();
    rig.finish(step(&queue, &x, 1)).unwrap();
    assert_eq!(filled(), 0, "it was overwritten first");
    let y = Buffer::<u32>::new(100);
    rig.finish(step(&queue, &y, 7)).unwrap();
    assert_eq!((filled(), rig.values(&y)), (400, vec![7; 100]));
    let z = Buffer::<u32>::new(100);
    rig.finish(set(&queue, &z.range(0..40), 1)).unwrap();
    rig.finish(step(&queue, &z, 7)).unwrap();
    assert_eq!(filled(), 640, "the other 60 elements");
    assert_eq!(rig.values(&z)[39..42], [stepped(39 * 7 + 1, [7]), 7, 7]);
    // A kernel that may leave some of it as it was.
    let w = Buffer::<u32>::new(100);
    let half = |cg: &CommandGroup<'_>| {
        cg.parallel_for(50, windlass::KernelCall::new(&crate::rig::SET).buffer(cg.write(&w)).value(1))
    };
    rig.finish(queue.submit(half).unwrap()).unwrap();
    assert_eq!((filled(), rig.values(&w)[99]), (1040, 0));
    // Nobody has written it anywhere: the host needs no device for zeros.
    assert_eq!(rig.values(&Buffer::<u32>::new(3)), [0, 0, 0]);
    drop((queue, x, y, z, w));
    rig.end();
}

/// A copy of pageable memory goes direct as far as the driver takes it at once, and by staging beyond.
#[test]
fn small_uploads_are_direct() {
    let rig = streams();
    let queue = rig.queue(0);
    for (elements, staged) in [(1024, 0), (16 << 10, 0), ((16 << 10) + 1, 1)] {
        let x = Buffer::from(vec![1_u32; elements]);
        let before = rig.runtime.stats();
        rig.finish(step(&queue, &x, 1)).unwrap();
        let after = rig.runtime.stats();
        let counts = (after.transfers - before.transfers, after.staged_transfers - before.staged_transfers);
        assert_eq!(counts, (1, staged), "{elements} elements");
        assert_eq!(rig.values(&x)[5], 32);
    }
    assert!(rig.control.audit().on_copy_lanes >= 3, "{:?}", rig.control.audit());
    drop(queue);
    rig.end();
}

/// Lanes of another priority or another way to report are lanes of their own, of the same device and memory.
#[test]
fn kinds_of_lanes_share_the_device() {
    let rig = streams();
    let device = rig.devices().swap_remove(0);
    let queue = |priority| {
        let builder = Queue::builder().runtime(&rig.runtime).device(device.clone()).priority(priority);
        builder.completion(CompletionStrategy::Callback).blocking_build().unwrap()
    };
    let (usual, high, low) = (queue(Priority::Normal), queue(Priority::High), queue(Priority::Low));
    let lanes = rig.control.audit().lanes;
    drop(queue(Priority::High));
    assert_eq!(rig.control.audit().lanes, lanes, "opened once");
    let x = Buffer::<u32>::new(8);
    drop((set(&usual, &x, 1), step(&high, &x, 2), step(&low, &x, 3)));
    rig.settle();
    assert_eq!(rig.runtime.stats().transfers, 0);
    assert_eq!(rig.control.audit().on_urgent_lanes, 1);
    assert_eq!(rig.values(&x)[1], stepped(8, [2, 3]));
    drop((usual, high, low, x, device));
    rig.end();
}

/// A queue that profiles has the device's times, in order and on the host's clock.
#[test]
fn groups_are_timed_where_it_is_wanted() {
    let rig = streams();
    let device = rig.devices().swap_remove(0);
    let before = std::time::Instant::now();
    let builder = Queue::builder().runtime(&rig.runtime).device(device.clone());
    let profiled = builder.profiling().blocking_build().unwrap();
    let usual = rig.queue(0);
    let x = Buffer::<u32>::new(8);
    let events = [set(&profiled, &x, 1), step(&profiled, &x, 2), step(&usual, &x, 3)];
    assert_eq!(events[0].profile(), None, "it has not ended");
    rig.settle();
    let [first, second] = [0, 1].map(|at| events[at].profile().unwrap());
    assert!(first.started <= first.ended && first.ended <= second.started && second.started <= second.ended);
    assert!(first.started >= before && second.duration() < Duration::from_secs(60));
    assert_eq!(events[2].profile(), None, "its queue does not profile");
    drop((profiled, usual, x, events, device));
    rig.end();
}

/// A device that goes on may be in the middle of copying from the one that is lost: until it has ended, the memory of the lost
/// one stays. The scripted allocation knows who uses it, and calls it a breach if it is dropped before.
#[test]
fn memory_of_a_lost_device_stays_while_another_copies_from_it() {
    for told in [false, true] {
        let rig = streams();
        let (a, b) = (rig.queue(0), rig.queue(1));
        let (x, y) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8));
        drop((set(&a, &x, 1), set(&b, &y, 1)));
        rig.finish(blend(&b, &y, &x, 0)).unwrap();
        rig.finish(set(&a, &x, 2)).unwrap();
        let lanes = rig.control.audit().lanes;
        (lanes / 2..lanes).for_each(|lane| rig.control.hold(lane, true));
        let reader = blend(&b, &y, &x, 0);
        assert!(rig.control.audit().peer_copies >= 2, "the copy is with the second device");
        match told {
            true => rig.control.tell_loss(0, "pulled out"),
            false => {
                rig.control.lose_context(0, "pulled out");
                drop(set(&a, &x, 3));
            }
        }
        rig.settle();
        assert_eq!(rig.control.breaches(), Vec::<String>::new(), "{told}");
        let kept = rig.control.audit().allocations;
        (lanes / 2..lanes).for_each(|lane| rig.control.hold(lane, false));
        rig.settle();
        assert!(error(&reader).root().is_device_lost());
        assert_eq!(rig.control.audit().allocations, kept - 1, "the copy has ended");
        drop((a, b, x, y, reader));
        rig.end();
    }
}
