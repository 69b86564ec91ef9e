//! The host memory through which data goes from one context to another: how much of it there is, and for whom.

use windlass::prelude::*;
use windlass_faulty::{Faulty, Memory};

use crate::rig::{Outside, Rig, blend, outcome, pair, set, step, stepped};

/// A page, which is the smallest size of staging, and the elements it holds.
const PAGE: usize = 4 << 10;
const OF_PAGE: usize = PAGE / 4;

/// Two devices with one lane each, chunks of a page, and so many bytes of staging.
fn in_pages(bytes: usize) -> Rig {
    let devices = Faulty::builder().device(Memory::Own).device(Memory::Own).lanes(1);
    Rig::with(devices, |runtime| runtime.staging(bytes).staging_chunk(PAGE))
}

#[test]
fn staging_is_kept_for_the_next_transfer() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 100]);
    for k in 0..100 {
        drop((step(&a, &x, k), step(&b, &x, k)));
    }
    rig.settle();
    let stats = rig.runtime.stats();
    assert_eq!((stats.staged_transfers, stats.staging_allocations), (199, 2), "one for each way");
    assert_eq!((stats.staging_bytes, rig.control.audit().staging), (2 * PAGE, 2));
    drop((a, b, x));
    rig.end();
}

/// Nothing is kept beyond the bound: memory of another size goes for it, and without a bound to keep within, all goes.
#[test]
fn kept_staging_is_bounded() {
    for (bytes, left) in [(8 * PAGE, 8 * PAGE), (0, 0)] {
        let rig = Rig::with(Faulty::builder().device(Memory::Own).device(Memory::Own), |r| r.staging(bytes));
        let (a, b) = (rig.queue(0), rig.queue(1));
        for pages in [1, 2, 8] {
            let x = Buffer::from(vec![1_u32; pages * OF_PAGE]);
            drop((step(&a, &x, 1), step(&b, &x, 2)));
            rig.settle();
        }
        let stats = rig.runtime.stats();
        assert_eq!((stats.staging_allocations, stats.staging_bytes), (3, left));
        assert_eq!(stats.staging_most, 8 * PAGE, "what was kept went before there was more");
        assert_eq!(rig.control.audit().staging, left / (8 * PAGE));
        drop((a, b));
        rig.end();
    }
}

/// A transfer of many chunks holds no more staging than the bound, and is on its way up while it is on its way down.
#[test]
fn a_large_transfer_goes_in_chunks_both_ways_at_once() {
    let rig = in_pages(2 * PAGE);
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from((0..10 * OF_PAGE as u32).collect::<Vec<_>>());
    let warm = Buffer::from(vec![0_u32; 1]);
    drop((step(&a, &x, 1), step(&b, &warm, 1)));
    rig.settle();
    let (before, copied) = (rig.runtime.stats(), rig.control.audit().bytes_copied);
    let moved = |rig: &Rig| (rig.control.audit().bytes_copied - copied) as usize;
    // Lanes count in the order in which they were opened: the first device's, then the second's.
    rig.control.hold(1, true);
    let reader = step(&b, &x, 2);
    rig.settle();
    assert_eq!(moved(&rig), 2 * PAGE, "down with two chunks, and no third before one of them is up");
    rig.control.hold(0, true);
    rig.control.hold(1, false);
    rig.settle();
    assert_eq!(moved(&rig), 4 * PAGE, "both are up, while those behind them are still to come down");
    assert_eq!(rig.control.waiting(), 2, "and have been handed to the device");
    rig.control.hold(0, false);
    rig.settle();
    assert!(outcome(&reader).is_ok());
    let stats = rig.runtime.stats();
    assert_eq!((stats.transfers - before.transfers, stats.staged_transfers), (1, 10));
    assert_eq!((stats.staging_most, stats.staging_allocations), (2 * PAGE, 2));
    let all: Vec<u32> = (0..10 * OF_PAGE as u32).map(|v| stepped(v, [1, 2])).collect();
    assert_eq!(rig.values(&x), all);
    drop((a, b, x, warm, reader));
    rig.end();
}

/// Staging in the hands of a transfer that waits for something outside is no reason to hold others back: what they
/// carry may be just what it waits for.
#[test]
fn who_waits_for_something_outside_holds_nobody_back() {
    let rig = in_pages(PAGE);
    let (a, b) = (rig.queue(0), rig.queue(1));
    let (x, y) = (Buffer::from(vec![1_u32; OF_PAGE]), Buffer::from(vec![1_u32; 8 * OF_PAGE]));
    let out = Buffer::from(vec![0_u32; OF_PAGE]);
    drop((step(&b, &x, 1), step(&a, &y, 1), step(&b, &out, 0)));
    rig.settle();
    let gate = Outside::default();
    let held = b.submit(|cg| {
        cg.after(gate.future());
        cg.copy(&cg.read(&x), &cg.overwrite(&out))
    });
    let held = held.unwrap();
    // The newest version is written elsewhere, and then wanted where the group above still reads the old one.
    let (over, behind) = (set(&a, &x, 7), step(&b, &x, 2));
    rig.settle();
    assert_eq!(rig.runtime.stats().staging_bytes, PAGE, "it is down, and waits to go up");
    let other = step(&b, &y, 2);
    rig.settle();
    assert!(outcome(&over).is_ok() && outcome(&other).is_ok());
    assert_eq!((held.status(), behind.status()), (Status::Pending, Status::Pending));
    gate.resolve(Ok(()));
    rig.settle();
    assert!(outcome(&held).is_ok() && outcome(&behind).is_ok());
    assert_eq!(rig.values(&y)[0], stepped(1, [1, 2]));
    drop((a, b, x, y, out, held, over, behind, other, gate));
    rig.end();
}

/// Where memory is short, what is kept in other sizes goes first.
#[test]
fn kept_staging_goes_where_memory_is_short() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let (small, large) = (Buffer::from(vec![1_u32; OF_PAGE]), Buffer::from(vec![1_u32; 4 * OF_PAGE]));
    let out = Buffer::new(4 * OF_PAGE);
    drop((step(&a, &small, 1), step(&b, &small, 1), step(&a, &large, 1), set(&b, &large.range(0..1), 0)));
    rig.settle();
    drop(set(&b, &out, 1));
    rig.settle();
    rig.control.cap_memory(Some(rig.control.audit().bytes + 3 * PAGE));
    let reader = blend(&b, &out, &large, 0);
    rig.settle();
    assert!(outcome(&reader).is_ok());
    assert_eq!(rig.runtime.stats().staging_bytes, 4 * PAGE, "the page is gone");
    drop((a, b, small, large, out, reader));
    rig.end();
}

/// Where copies with memory that the context did not allocate would block, none is fed: the host's data goes through
/// staging both ways, and between two such contexts through staging of both. The same bytes move.
#[test]
fn the_hosts_data_goes_through_staging_where_pageable_copies_block() {
    for (slow, staged, foreign) in [(false, 1, 3), (true, 3, 0)] {
        let devices = Faulty::builder().device(Memory::Own).device(Memory::Own);
        let rig = Rig::new(if slow { devices.slow_pageable_copies() } else { devices });
        let (a, b) = (rig.queue(0), rig.queue(1));
        let grid = Buffer::<u32, 2>::with_shape([6, 8], (0..48).collect()).unwrap();
        let box_of = grid.range((1..5, 2..7));
        let add = |queue: &Queue, k: u32| {
            let group = |cg: &CommandGroup<'_>| {
                let _all = cg.read_write(&box_of);
                cg.fill(&cg.overwrite(&grid.range((2..3, 3..4))), k)
            };
            drop(queue.submit(group).unwrap());
        };
        add(&a, 100);
        add(&b, 200);
        let mut expected: Vec<u32> = (0..48).collect();
        expected[2 * 8 + 3] = 200;
        assert_eq!(rig.finish(grid.host_read()).unwrap().to_vec(), expected);
        let (stats, audit) = (rig.runtime.stats(), rig.control.audit());
        assert_eq!((stats.transfers, stats.bytes_moved), (3, 3 * 4 * 20));
        assert_eq!((stats.staged_transfers, audit.foreign_copies), (staged, foreign), "slow: {slow}");
        assert_eq!(rig.control.audit().calls_in_poll, 0);
        drop((a, b, box_of, grid));
        rig.end();
    }
}

/// The host's half of a transfer fails with its staging, and is tried again by the next reader.
#[test]
fn without_staging_the_hosts_data_does_not_move() {
    let rig = Rig::new(Faulty::builder().slow_pageable_copies());
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 16]);
    rig.control.no_staging(true);
    let reader = blend(&queue, &Buffer::new(16), &x, 0);
    rig.settle();
    assert!(outcome(&reader).unwrap_err().is_out_of_memory());
    rig.control.no_staging(false);
    let again = step(&queue, &x, 1);
    assert_eq!(rig.values(&x), vec![stepped(1, [1]); 16]);
    drop((queue, x, reader, again));
    rig.end();
}

/// The last bytes of a buffer need not fill a granule, whatever way they take, and fresh staging holds rubbish.
#[test]
fn odd_bytes_go_through_staging() {
    for slow in [false, true] {
        let devices = Faulty::builder().device(Memory::Own).device(Memory::Own);
        let rig = Rig::new(if slow { devices.slow_pageable_copies() } else { devices });
        let (a, b) = (rig.queue(0), rig.queue(1));
        let x = Buffer::from((0..7).collect::<Vec<u8>>());
        for (queue, at) in [(&a, 0..4), (&b, 4..7)] {
            let group = |cg: &CommandGroup<'_>| {
                let _all = cg.read_write(&x);
                cg.fill(&cg.read_write(&x.range(at.clone())), 9)
            };
            drop(queue.submit(group).unwrap());
        }
        assert_eq!(rig.finish(x.host_read()).unwrap().to_vec(), [9; 7], "slow: {slow}");
        drop((a, b, x));
        rig.end();
    }
}
