//! What runs before what, and what at the same time.

use windlass::prelude::*;
use windlass_faulty::{Faulty, Memory};

use crate::rig::{Outside, Rig, blend, outcome, pair, set, single, step, stepped};

/// Decision 1: a completion that is fired inside the native call, by a chain over two lanes and by independent groups.
#[test]
fn a_completion_inside_the_native_call() {
    for builder in [Faulty::builder(), Faulty::builder().reports_by_callback()] {
        let rig = Rig::new(builder.lanes(2).depth(2));
        let queue = rig.queue(0);
        let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![2_u32; 8]));
        drop((step(&queue, &x, 0), blend(&queue, &y, &x, 0)));
        rig.settle();
        rig.control.report_inside_feed(true);
        let events: Vec<_> = (1..40).flat_map(|k| [step(&queue, &x, k), blend(&queue, &y, &x, k)]).collect();
        rig.settle();
        assert!(events.iter().all(|e| outcome(e).is_ok()));
        let (mut a, mut b) = (stepped(1, [0]), 0);
        b = stepped(2 + b, [a]);
        for k in 1..40 {
            a = stepped(a, [k]);
            b = stepped(b, [a.wrapping_add(k)]);
        }
        assert_eq!((rig.values(&x)[0], rig.values(&y)[0]), (a, b));
        drop((queue, x, y, events));
        rig.end();
    }
}

/// Decision 1: a wait on a point that is not fed yet is held by the runtime. The devices check every wait they are
/// given; here most predecessors stand on a list when their readers are planned.
#[test]
fn waits_are_given_only_on_fed_points() {
    for seed in 0..60_u64 {
        let rig = Rig::new(Faulty::builder().lanes(3).depth(1 + seed as usize % 2));
        let queue = rig.queue(0);
        let buffers: Vec<_> = (0..4).map(|i| Buffer::from(vec![i as u32; 4])).collect();
        let mut model = [0_u32, 1, 2, 3];
        let mut at = seed;
        for k in 0..60 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(k);
            let (x, y) = ((at >> 40) as usize % 4, (at >> 50) as usize % 4);
            if x == y {
                drop(step(&queue, &buffers[x], k as u32));
                model[x] = stepped(model[x], [k as u32]);
            } else {
                drop(blend(&queue, &buffers[x], &buffers[y], k as u32));
                model[x] = stepped(model[x], [model[y].wrapping_add(k as u32)]);
            }
            if at >> 61 == 0 {
                rig.runtime.run_until_stalled();
                rig.control.step_at(at >> 30);
            }
        }
        rig.runtime.run_until_stalled();
        rig.control.run_random(seed);
        for (buffer, expected) in buffers.iter().zip(model) {
            assert_eq!(rig.values(buffer), vec![expected; 4], "seed {seed}");
        }
        drop((queue, buffers));
        rig.end();
    }
}

/// Decision 2: what is native is bounded; what is submitted is not, and `submit` returns though nothing runs.
#[test]
fn native_depth_is_bounded() {
    const N: usize = 10_000;
    for chained in [false, true] {
        let rig = Rig::new(Faulty::builder().lanes(2).depth(16));
        let queue = rig.queue(0);
        let x = Buffer::from(vec![1_u32; if chained { 1 } else { N }]);
        drop(step(&queue, &x.range(0..1), 0));
        rig.settle();
        let part = |i: usize| if chained { x.clone() } else { x.range(i..i + 1) };
        for i in 0..N {
            drop(step(&queue, &part(i), 1));
        }
        assert!(rig.control.waiting() <= 32, "nothing has run, and only this much is native");
        assert_eq!(queue.in_flight(), N as u64);
        rig.settle();
        let audit = rig.control.audit();
        assert_eq!((audit.deepest, queue.in_flight()), (16, 0));
        let steps = if chained { N as u32 } else { 1 };
        assert_eq!(rig.values(&x)[0], stepped(1, std::iter::once(0).chain((0..steps).map(|_| 1))));
        drop((queue, x));
        rig.end();
    }
}

/// Invariant 2: groups that the data does not order are native at the same time, and end in any order.
#[test]
fn independent_groups_overlap() {
    let rig = Rig::new(Faulty::builder().lanes(2));
    let (queue, other) = (rig.queue(0), rig.queue(0));
    let x = Buffer::from(vec![1_u32; 20]);
    drop((step(&queue, &x, 0), blend(&queue, &Buffer::<u32>::new(1), &x, 0)));
    rig.settle();
    // Two ranges of one buffer; two readers; two queues; and an order of ending that is not the order of submission.
    for second in [&queue, &other] {
        let (a, b) = (x.range(0..10), x.range(10..20));
        let (ra, rb) = (Buffer::from(vec![0_u32; 20]), Buffer::from(vec![0_u32; 20]));
        drop((step(&queue, &ra, 0), step(&queue, &rb, 0)));
        rig.settle();
        let (first, last) = (step(&queue, &a, 1), step(second, &b, 1));
        assert_eq!(rig.control.waiting(), 2);
        rig.control.hold(0, true);
        rig.control.run_all();
        let done = [&first, &last].map(|e| e.status() == Status::Done);
        assert!(done[0] != done[1], "one is held, and the other does not wait for it: {done:?}");
        rig.control.hold(0, false);
        rig.settle();
        assert!(outcome(&first).is_ok() && outcome(&last).is_ok());
        let readers = (blend(&queue, &ra, &x, 0), blend(second, &rb, &x, 0));
        rig.control.hold(1, true);
        rig.control.run_all();
        assert!(
            (readers.0.status() == Status::Done) != (readers.1.status() == Status::Done),
            "one is held, and the other does not wait for it: {readers:?}"
        );
        rig.control.hold(1, false);
        rig.settle();
    }
    drop((queue, other, x));
    rig.end();
}

/// Decision 1: a group behind a gate holds back only those that depend on it, and in an in-order queue all later ones.
#[test]
fn a_gated_group_holds_back_only_its_dependents() {
    for in_order in [false, true] {
        let rig = single();
        let builder = Queue::builder().runtime(&rig.runtime);
        let queue = if in_order { builder.in_order() } else { builder }.blocking_build().unwrap();
        let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
        drop((step(&queue, &x, 0), step(&queue, &y, 0)));
        rig.settle();
        let gate = Outside::default();
        let gated = queue
            .submit(|cg| {
                cg.after(gate.future());
                cg.fill(&cg.overwrite(&x), 7)
            })
            .unwrap();
        let dependent = step(&queue, &x, 1);
        let free = step(&queue, &y, 1);
        rig.settle();
        assert!(!dependent.has_ended());
        assert_eq!(free.status(), if in_order { Status::Pending } else { Status::Done });
        gate.resolve(Ok(()));
        rig.settle();
        assert!([&gated, &dependent, &free].into_iter().all(|e| outcome(e).is_ok()));
        assert_eq!(rig.values(&x)[0], stepped(7, [1]));
        drop((queue, x, y, gated, dependent, free, gate));
        rig.end();
    }
}

/// Decision 4: A writes v1 on dev1; R on dev3 reads v1 by a transfer still pending; D writes v2 no-init on dev2; E on
/// dev1 reads v2: its transfer must not overwrite v1 before R's has read it.
#[test]
fn hazards_are_per_replica() {
    for seed in 0..200_u64 {
        let own = || Faulty::builder().device(Memory::Own).device(Memory::Own).device(Memory::Own);
        let rig = Rig::new(own());
        let [dev1, dev2, dev3] = [0, 1, 2].map(|d| rig.queue(d));
        let x = Buffer::from(vec![1_u32; 4]);
        let (r_out, e_out) = (Buffer::from(vec![0_u32; 4]), Buffer::from(vec![0_u32; 4]));
        drop((step(&dev1, &x, 0), step(&dev2, &r_out, 0), step(&dev3, &e_out, 0)));
        let warm = (blend(&dev3, &r_out, &e_out, 0), blend(&dev1, &e_out, &r_out, 0), set(&dev2, &x, 9));
        rig.settle();
        drop(warm);
        let a = set(&dev1, &x, 100);
        let r = blend(&dev3, &r_out, &x, 1);
        let d = set(&dev2, &x, 500);
        let e = blend(&dev1, &e_out, &x, 2);
        rig.runtime.run_until_stalled();
        let mut at = seed;
        let mut quiet = 0;
        while quiet < 3 {
            at = at.wrapping_mul(31).wrapping_add(7);
            let went = rig.control.step_at(at) as usize + rig.runtime.run_until_stalled();
            quiet = if went == 0 { quiet + 1 } else { 0 };
        }
        assert!([&a, &r, &d, &e].into_iter().all(|e| outcome(e).is_ok()));
        let from = |base: u32, k: u32| -> Vec<u32> { (0..4).map(|i| i * 7 + base + k).collect() };
        assert_eq!(rig.values(&r_out), from(100, 1), "R reads v1, seed {seed}");
        assert_eq!(rig.values(&e_out), from(500, 2), "E reads v2, seed {seed}");
        drop((dev1, dev2, dev3, x, r_out, e_out, (a, r, d, e)));
        rig.end();
    }
}

/// Decision 5: a no-init write to [0, 10) makes the rest of the buffer stale nowhere, and moves nothing.
#[test]
fn boxes_are_exact() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 1024]);
    drop((step(&a, &x, 0), step(&b, &Buffer::<u32>::new(1), 0)));
    rig.settle();
    let before = rig.runtime.stats().bytes_moved;
    drop(set(&b, &x.range(0..10), 5));
    rig.settle();
    assert_eq!(rig.runtime.stats().bytes_moved, before, "nothing is fetched for a no-init write");
    drop(step(&a, &x, 1));
    rig.settle();
    assert_eq!(rig.runtime.stats().bytes_moved - before, 40, "exactly what is stale");
    let values = rig.values(&x);
    assert_eq!((values[1], values[10]), (stepped(12, [1]), stepped(1, [0, 1])));
    drop((a, b, x));
    rig.end();
}
