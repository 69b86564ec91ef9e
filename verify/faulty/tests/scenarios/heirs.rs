//! Memory that new buffers have from others whose last handles have gone, but not their last users.

use windlass::prelude::*;
use windlass_faulty::Faulty;

use crate::rig::*;

impl Rig {
    fn ordered_queue(&self) -> Queue {
        let device = self.devices().swap_remove(0);
        Queue::builder().runtime(&self.runtime).device(device).in_order().blocking_build().unwrap()
    }

    /// Allocations that came from the driver, or were kept, and those that came from buffers that were going.
    fn made(&self) -> (u64, u64) {
        let stats = self.runtime.stats();
        (stats.allocations - stats.allocations_reused, stats.allocations_reused)
    }
}

/// A hundred buffers are used one behind the other while the device stands still: it has memory for one of them, and for the sum.
///
/// Seen to fail where no root had the memory of another: the device had a hundred and one.
#[test]
fn a_program_that_is_ahead_has_memory_for_one_buffer_at_a_time() {
    let rig = single();
    let queue = rig.ordered_queue();
    let sum = Buffer::<u32>::new(100);
    set(&queue, &sum, 0);
    rig.settle();
    rig.control.hold(0, true);
    for k in 0..100 {
        let one = Buffer::<u32>::new(100);
        set(&queue, &one, k);
        blend(&queue, &sum, &one, 1);
        drop(one);
        rig.runtime.run_until_stalled();
    }
    assert_eq!(rig.control.audit().allocations, 2);
    assert_eq!(rig.made(), (2, 99));
    rig.control.hold(0, false);
    let should = |i: u32| (0..100).fold(i * 7, |x, k| kernels_blend(x, i * 7 + k, 1));
    assert_eq!(rig.values(&sum), (0..100).map(should).collect::<Vec<u32>>());
    rig.settle();
    assert_eq!(rig.control.audit().allocations, 1, "the sum's");
    drop((queue, sum));
    rig.end();
}

/// `x * 31 + y + k`, as the devices do it.
fn kernels_blend(x: u32, y: u32, k: u32) -> u32 {
    x.wrapping_mul(31).wrapping_add(y).wrapping_add(k)
}

/// Who comes behind nobody has memory of its own, and so has a buffer of another size.
#[test]
fn who_would_have_to_wait_or_does_not_fit_has_memory_of_its_own() {
    let rig = single();
    let (queue, other) = (rig.ordered_queue(), rig.queue(0));
    rig.control.hold(0, true);
    let first = Buffer::<u32>::new(8);
    set(&queue, &first, 1);
    rig.runtime.run_until_stalled();
    drop(first);
    let (small, apart) = (Buffer::<u32>::new(4), Buffer::<u32>::new(8));
    set(&queue, &small, 2);
    set(&other, &apart, 3);
    rig.runtime.run_until_stalled();
    assert_eq!(rig.made(), (3, 0));
    rig.control.hold(0, false);
    assert_eq!(rig.values(&small), [2, 9, 16, 23]);
    assert_eq!(rig.values(&apart)[..3], [3, 10, 17]);
    drop((queue, other, small, apart));
    rig.end();
}

/// What native code has seen of a buffer's memory it may have kept: no other buffer comes to have that.
///
/// Seen to fail where the engine was not told.
#[test]
fn what_native_code_has_seen_is_nobody_elses() {
    let rig = Rig::new(Faulty::builder().like_cuda().lanes(1));
    let queue = rig.ordered_queue();
    rig.control.hold(0, true);
    let seen = Buffer::<u32>::new(8);
    set(&queue, &seen, 1);
    let looks = queue.submit(|cg| {
        let _seen = cg.read(&seen);
        cg.interop_task::<Faulty>(|_| Ok(()))
    });
    looks.unwrap();
    rig.runtime.run_until_stalled();
    drop(seen);
    let next = Buffer::<u32>::new(8);
    set(&queue, &next, 2);
    rig.runtime.run_until_stalled();
    assert_eq!(rig.made(), (2, 0));
    rig.control.hold(0, false);
    assert_eq!(rig.values(&next)[..2], [2, 9]);
    drop((queue, next));
    rig.end();
}

/// The device is lost, or given up, while two buffers have one allocation: it is let go of once.
#[test]
fn memory_that_two_buffers_have_is_lost_once() {
    for hangs in [false, true] {
        let rig = single();
        let queue = rig.ordered_queue();
        rig.control.hold(0, true);
        let first = Buffer::<u32>::new(8);
        set(&queue, &first, 1);
        rig.runtime.run_until_stalled();
        drop(first);
        let second = Buffer::<u32>::new(8);
        let event = set(&queue, &second, 2);
        rig.runtime.run_until_stalled();
        assert_eq!(rig.made(), (1, 1));
        match hangs {
            true => queue.context().abandon(),
            false => rig.control.lose_devices("gone"),
        }
        rig.settle();
        assert!(event.has_ended() && outcome(&event).is_err());
        drop((queue, second, event));
        rig.settle();
        let audit = rig.control.audit();
        assert_eq!(audit.allocations, usize::from(hangs), "{audit:?}");
    }
}
