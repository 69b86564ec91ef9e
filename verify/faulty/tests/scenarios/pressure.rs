//! Devices that have no room left: what waits, what is given up, and what fails.

use futures_lite::future::block_on;
use windlass::prelude::*;
use windlass::{Residency, Runtime};
use windlass_faulty::Faulty;

use crate::rig::{Rig, error, outcome, set, single, step, stepped};

/// Bytes of a buffer here; two of them fit the devices' memory, and three do not.
const BYTES: usize = 64;
const CAP: usize = 150;

fn buffer() -> Buffer<u32> {
    Buffer::new(BYTES / 4)
}

fn sequence(k: u32) -> Vec<u32> {
    (0..BYTES as u32 / 4).map(|i| i * 7 + k).collect()
}

/// What is in flight gives its memory back when it ends, and is waited for.
/// Seen to fail where the first answer of the driver was the last word.
#[test]
fn memory_of_what_is_in_flight_is_waited_for() {
    for slow in [false, true] {
        let builder = Faulty::builder().lanes(1);
        let rig = Rig::new(if slow { builder.slow_allocate() } else { builder });
        let queue = rig.queue(0);
        // Beside what the device has for itself.
        rig.control.cap_memory(Some(rig.control.audit().bytes + CAP));
        let events: Vec<Event> = (0..20)
            .map(|k| {
                let x = buffer();
                drop(set(&queue, &x, k));
                // Its last handle goes at once.
                step(&queue, &x, 1)
            })
            .collect();
        rig.settle();
        events.iter().for_each(|event| outcome(event).unwrap());
        drop((queue, events));
        rig.end();
    }
}

/// Nothing that is under way gives anything back: that is said at once.
#[test]
fn what_no_end_makes_room_for_is_an_error() {
    let rig = single();
    let queue = rig.queue(0);
    rig.control.cap_memory(Some(CAP));
    let (x, y, z) = (buffer(), buffer(), buffer());
    let (a, b, c) = (set(&queue, &x, 1), set(&queue, &y, 2), set(&queue, &z, 3));
    let large = set(&queue, &Buffer::new(1000), 4);
    rig.settle();
    assert!(outcome(&a).is_ok() && outcome(&b).is_ok());
    for refused in [&c, &large] {
        assert!(error(refused).is_out_of_memory(), "{}", error(refused));
    }
    assert_eq!((rig.values(&x), rig.values(&y)), (sequence(1), sequence(2)));
    assert_eq!(rig.runtime.stats().evictions, 0, "memory that a buffer has is its own");
    drop((queue, x, y, z, a, b, c, large));
    rig.end();
}

/// Each of the two has one of its buffers and lacks the other.
/// Seen to hang where groups that have not begun were waited for.
#[test]
fn groups_with_half_of_their_memory_do_not_wait_for_each_other() {
    let rig = single();
    let queue = rig.queue(0);
    rig.control.cap_memory(Some(CAP));
    let held: Vec<Buffer<u32>> = (0..4).map(|_| buffer()).collect();
    let pair = |a: usize, b: usize| {
        queue
            .submit(|cg| {
                cg.overwrite(&held[a]);
                cg.overwrite(&held[b]);
                Ok(())
            })
            .unwrap()
    };
    let (first, second) = (pair(0, 1), pair(2, 3));
    rig.settle();
    assert!(outcome(&first).is_ok());
    assert!(error(&second).is_out_of_memory());
    drop((queue, held, first, second));
    rig.end();
}

fn evictable() -> Rig {
    let rig = Rig::with(Faulty::builder().lanes(1), |runtime| runtime.residency(Residency::Evictable));
    rig.control.cap_memory(Some(CAP));
    rig
}

/// Where the program allows it, what was not used for longest makes room; what only the device had comes to the host before.
#[test]
fn what_was_not_used_for_longest_makes_room() {
    let rig = evictable();
    let queue = rig.queue(0);
    let buffers: Vec<Buffer<u32>> = (0..6).map(|_| buffer()).collect();
    let mut expected: Vec<Vec<u32>> = Vec::new();
    for (k, x) in buffers.iter().enumerate() {
        let event = set(&queue, x, k as u32);
        rig.settle();
        assert!(outcome(&event).is_ok(), "buffer {k}: {:?}", outcome(&event));
        expected.push(sequence(k as u32));
    }
    assert_eq!(rig.runtime.stats().evictions, 4);
    // The last two are there: to use them moves nothing.
    let before = rig.runtime.stats().transfers;
    for at in [4, 5, 4] {
        drop(step(&queue, &buffers[at], 1));
        rig.settle();
        expected[at].iter_mut().for_each(|v| *v = stepped(*v, [1]));
    }
    assert_eq!(rig.runtime.stats().transfers, before);
    // The next one takes the place of 5, which was used before 4.
    drop(step(&queue, &buffers[0], 2));
    rig.settle();
    expected[0].iter_mut().for_each(|v| *v = stepped(*v, [2]));
    let before = rig.runtime.stats().transfers;
    drop(step(&queue, &buffers[4], 3));
    rig.settle();
    expected[4].iter_mut().for_each(|v| *v = stepped(*v, [3]));
    assert_eq!(rig.runtime.stats().transfers, before, "it has stayed");
    for (x, expected) in buffers.iter().zip(&expected) {
        assert_eq!(rig.values(x), *expected);
    }
    drop((queue, buffers));
    rig.end();
}

/// What the host has too goes first, however lately it was used: nothing has to be moved for it.
#[test]
fn what_is_elsewhere_too_goes_first() {
    let rig = evictable();
    let queue = rig.queue(0);
    let (old, read, new) = (buffer(), Buffer::from(sequence(9)), buffer());
    drop(set(&queue, &old, 1));
    rig.settle();
    let out = Buffer::<u32>::new(1);
    drop(queue.submit(|cg| cg.copy(&cg.read(&read.range(..1)), &cg.overwrite(&out))).unwrap());
    rig.settle();
    let before = rig.runtime.stats();
    drop(set(&queue, &new, 2));
    rig.settle();
    let after = rig.runtime.stats();
    assert_eq!((after.evictions - before.evictions, after.transfers - before.transfers), (1, 0));
    assert_eq!((rig.values(&old), rig.values(&new)), (sequence(1), sequence(2)));
    assert_eq!(rig.values(&out), [9]);
    drop((queue, old, read, new, out));
    rig.end();
}

/// What is used again while room is made is left alone: its user may wait for that very room.
/// Seen to hang where the list of what is idle was not looked at again.
#[test]
fn what_is_wanted_again_meanwhile_is_left_alone() {
    let rig = evictable();
    let queue = rig.queue(0);
    let (first, second) = (buffer(), buffer());
    for (k, x) in [(1, &first), (2, &second)] {
        drop(set(&queue, x, k));
        rig.settle();
    }
    // Two buffers of which only the device has the data. A large one needs the room of both; while the first is on its way to the host,
    // a group wants the second together with more.
    rig.control.hold(0, true);
    let large = Buffer::<u32>::new(CAP / 4 - 4);
    let wants_both = set(&queue, &large, 3);
    rig.settle();
    let other = buffer();
    let again = queue
        .submit(|cg| {
            cg.read_write(&second);
            cg.overwrite(&other);
            Ok(())
        })
        .unwrap();
    rig.control.hold(0, false);
    rig.settle();
    for event in [&wants_both, &again] {
        assert!(event.has_ended(), "one of the two is to have its memory, or both");
    }
    assert_eq!(rig.values(&first), sequence(1));
    drop((queue, first, second, large, other, wants_both, again));
    rig.end();
}

/// A buffer that goes while others wait leaves its room to them, though nothing ends.
/// Seen to fail where only the end of something was waited for.
#[test]
fn room_that_a_buffer_leaves_is_found() {
    let rig = Rig::new(Faulty::builder().lanes(2));
    let queue = rig.queue(0);
    rig.control.cap_memory(Some(CAP));
    let (used, idle, new) = (buffer(), buffer(), buffer());
    drop((set(&queue, &used, 1), set(&queue, &idle, 2)));
    rig.settle();
    rig.control.hold(0, true);
    rig.control.hold(1, true);
    let long = step(&queue, &used, 5);
    rig.settle();
    assert_eq!(rig.control.audit().in_flight, 1);
    let before = rig.control.audit().allocates;
    let waits = queue
        .submit(|cg| {
            cg.overwrite(&new);
            Ok(())
        })
        .unwrap();
    rig.settle();
    assert_eq!((long.status(), waits.status()), (Status::Submitted, Status::Pending));
    let asked = rig.control.audit().allocates - before;
    assert!(asked <= 4, "{asked} times is the driver asked, while nothing has become free");
    drop(idle);
    rig.settle();
    assert_eq!(rig.control.audit().in_flight, 2, "the new one has its memory");
    rig.control.hold(0, false);
    rig.control.hold(1, false);
    rig.settle();
    assert!(outcome(&long).is_ok() && outcome(&waits).is_ok());
    drop((queue, used, new, long, waits));
    rig.end();
}

/// A thousand groups at once, each with two fifths of the memory, on devices and threads that do as they like.
#[test]
fn a_thousand_groups_share_what_two_of_them_fill() {
    for residency in [Residency::Kept, Residency::Evictable] {
        let faulty = Faulty::builder().lanes(4).auto().build();
        let control = faulty.control();
        let runtime = Runtime::builder().backend(faulty).only_given_backends().residency(residency).build();
        let devices = block_on(runtime.devices()).unwrap();
        let queue = Queue::blocking_on(devices[0].clone()).unwrap();
        control.cap_memory(Some(CAP));
        let kept: Vec<Buffer<u32>> = (0..20).map(|_| buffer()).collect();
        let mut events = Vec::new();
        for k in 0..1000_u32 {
            let x = match (residency, k % 3) {
                (Residency::Evictable, 0) => kept[k as usize % kept.len()].clone(),
                _ => buffer(),
            };
            drop(set(&queue, &x, k));
            events.push((k, step(&queue, &x, k)));
        }
        for (k, event) in events {
            let ended = block_on(event);
            assert!(ended.is_ok(), "{residency:?}, group {k}: {ended:?}");
        }
        if residency == Residency::Evictable {
            for (at, x) in kept.iter().enumerate() {
                let last = (0..1000_u32).rfind(|k| k % 3 == 0 && *k as usize % kept.len() == at).unwrap();
                let seen = x.host_read().blocking_wait().unwrap();
                let expected: Vec<u32> = sequence(last).iter().map(|v| stepped(*v, [last])).collect();
                assert_eq!(seen[..], expected, "buffer {at}");
            }
        }
        drop((queue, kept));
        drop(devices);
        block_on(runtime.shutdown(std::time::Duration::from_secs(10)));
        assert_eq!(control.breaches(), Vec::<String>::new());
    }
}
