//! Data on its way, and what stops it.

use std::task::Poll;

use windlass::prelude::*;
use windlass_faulty::{Faulty, Memory};

use crate::rig::{Outside, Rig, blend, error, native, outcome, pair, poll, set, single, step, stepped};

/// Only stale bytes move, once for all readers, and never what nobody has written.
#[test]
fn only_stale_bytes_move() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 100]);
    let fresh = Buffer::<u32>::new(100);
    let outs: Vec<_> = (0..4).map(|_| Buffer::<u32>::new(100)).collect();
    drop(step(&a, &x, 1));
    outs.iter().for_each(|out| drop(blend(&b, out, &x, 0)));
    drop(blend(&b, &outs[0], &fresh, 0));
    rig.settle();
    let stats = rig.runtime.stats();
    assert_eq!(
        (stats.transfers, stats.bytes_moved),
        (2, 800),
        "to the first device, and from there to the second"
    );
    assert_eq!(stats.staged_transfers, 1);
    assert_eq!(rig.control.audit().bytes_copied, 1200, "one of them in two steps");
    drop((a, b, x, fresh, outs));
    rig.end();
}

/// Devices of one context that share a memory never copy; those that do not copy without the host.
#[test]
fn one_context_copies_inside_or_not_at_all() {
    for (memory, direct) in [(Memory::Shared, 0), (Memory::Own, 1)] {
        let rig = Rig::new(Faulty::builder().device(memory).device(memory));
        let devices = rig.devices();
        let context = Context::blocking_open(&devices).unwrap();
        let [a, b] = [0, 1].map(|d| Queue::blocking_in_context(&context, &devices[d]).unwrap());
        let x = Buffer::<u32>::new(16);
        drop((set(&a, &x, 1), step(&b, &x, 2)));
        rig.settle();
        let stats = rig.runtime.stats();
        assert_eq!((stats.transfers, stats.staged_transfers, stats.proxies), (direct, 0, 0), "{memory:?}");
        assert_eq!(rig.values(&x)[3], stepped(22, [2]));
        drop((a, b, x, context, devices));
        rig.end();
    }
}

/// A failed transfer voids the copy it was to make, and never its source (decision 3). Its readers fail; later ones
/// fetch again.
#[test]
fn a_failed_transfer_voids_its_target_only() {
    // Of the copies after the warm-up, the first is the download and the second the upload.
    for step_that_fails in [0, 1] {
        let rig = pair();
        let (a, b) = (rig.queue(0), rig.queue(1));
        let (x, out) = (Buffer::from(vec![1_u32; 16]), Buffer::from(vec![0_u32; 16]));
        drop((step(&a, &x, 1), step(&b, &out, 1)));
        rig.settle();
        rig.control.fail_copy(step_that_fails, native("a bad cable"));
        let reader = blend(&b, &out, &x, 0);
        let beside = step(&a, &x, 2);
        rig.settle();
        assert_eq!(error(&reader).root().backend_error(), Some(&native("a bad cable")));
        assert!(outcome(&beside).is_ok(), "the source is well");
        let other = Buffer::from(vec![0_u32; 16]);
        let again = blend(&b, &other, &x, 0);
        rig.settle();
        assert!(outcome(&again).is_ok());
        assert_eq!(rig.values(&other), vec![stepped(1, [1, 2]); 16]);
        assert_eq!(rig.values(&x), vec![stepped(1, [1, 2]); 16]);
        drop((a, b, x, out, other, reader, beside, again));
        rig.end();
    }
}

/// The host's own reader fails with the transfer that was to serve it, and may ask again.
#[test]
fn a_failed_download_to_the_host() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 16]);
    drop(step(&queue, &x, 1));
    rig.settle();
    rig.control.fail_copy(0, native("a bad cable"));
    let refused = rig.finish(x.host_read()).unwrap_err();
    assert_eq!(refused.root().backend_error(), Some(&native("a bad cable")));
    assert_eq!(rig.values(&x), vec![stepped(1, [1]); 16]);
    drop((queue, x));
    rig.end();
}

#[test]
fn no_staging_memory_fails_the_readers_only() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let (x, out) = (Buffer::from(vec![1_u32; 16]), Buffer::from(vec![0_u32; 16]));
    drop((step(&a, &x, 1), step(&b, &out, 1)));
    rig.settle();
    rig.control.no_staging(true);
    let reader = blend(&b, &out, &x, 0);
    rig.settle();
    assert!(error(&reader).is_out_of_memory() && error(&reader).is_dependency_failed());
    rig.control.no_staging(false);
    let over = set(&b, &out, 1);
    let again = blend(&b, &out, &x, 0);
    rig.settle();
    assert!(outcome(&over).is_ok() && outcome(&again).is_ok());
    let stats = rig.runtime.stats();
    assert_eq!(
        (rig.control.audit().staging, stats.staging_allocations),
        (1, 1),
        "the one is kept for the next"
    );
    drop((a, b, x, out, reader, over, again));
    rig.end();
}

/// A transfer whose target cannot be allocated.
#[test]
fn no_memory_for_the_target_of_a_transfer() {
    for slow in [false, true] {
        let builder = Faulty::builder().device(Memory::Own).device(Memory::Own);
        let rig = Rig::new(if slow { builder.slow_allocate() } else { builder });
        let (a, b) = (rig.queue(0), rig.queue(1));
        let x = Buffer::from(vec![1_u32; 16]);
        // A kernel that is being built might lead to something, and is waited for.
        drop((step(&a, &x, 1), step(&b, &Buffer::new(1), 1)));
        rig.settle();
        (0..2).for_each(|n| rig.control.out_of_memory(n));
        let reader = step(&b, &x, 2);
        rig.settle();
        assert!(error(&reader).is_out_of_memory());
        assert!(rig.finish(x.host_read()).unwrap_err().is_out_of_memory(), "the newest version failed");
        drop((a, b, x, reader));
        rig.end();
    }
}

/// Host devices work in place; the host's accessors too.
#[test]
fn the_heap_needs_no_transfer() {
    let rig = Rig::new(Faulty::builder().device(Memory::Heap).device(Memory::Heap));
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 16]);
    for k in 0..10 {
        drop((step(&a, &x, k), step(&b, &x, k)));
    }
    let expected = (0..10).fold(1, |v, k| stepped(v, [k, k]));
    assert_eq!(rig.values(&x), vec![expected; 16]);
    let stats = rig.runtime.stats();
    assert_eq!((stats.transfers, stats.bytes_moved, rig.control.audit().allocates), (0, 0, 0));
    drop((a, b, x));
    rig.end();
}

/// A context of one's own on a device with visible memory: direct copies, no staging.
#[test]
fn visible_memory_is_copied_directly() {
    let rig = Rig::new(Faulty::builder().device(Memory::Visible).device(Memory::Own));
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 16]);
    drop((step(&a, &x, 1), step(&b, &x, 2), step(&a, &x, 3)));
    assert_eq!(rig.values(&x), vec![stepped(1, [1, 2, 3]); 16]);
    assert_eq!(rig.runtime.stats().staged_transfers, 0);
    drop((a, b, x));
    rig.end();
}

/// Rows of a grid move as boxes.
#[test]
fn boxes_of_grids_move_exactly() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let grid = Buffer::<u32, 2>::with_shape([6, 8], (0..48).collect()).unwrap();
    let fill = |queue: &Queue, part: &Buffer<u32, 2>, v: u32| {
        drop(queue.submit(|cg| cg.fill(&cg.overwrite(part), v)).unwrap());
    };
    fill(&a, &grid.range((1..3, 2..5)), 100);
    fill(&b, &grid.range((2..5, 4..7)), 200);
    let read = rig.finish(grid.host_read()).unwrap().to_vec();
    let expected = |y: usize, x: usize| match () {
        _ if (2..5).contains(&y) && (4..7).contains(&x) => 200,
        _ if (1..3).contains(&y) && (2..5).contains(&x) => 100,
        _ => (y * 8 + x) as u32,
    };
    assert_eq!(read, (0..48).map(|i| expected(i / 8, i % 8)).collect::<Vec<_>>());
    assert_eq!(rig.runtime.stats().bytes_moved, 4 * (9 + 5), "the first box has lost a corner");
    drop((a, b, grid));
    rig.end();
}

/// An accessor that wants nothing of what was there fetches none of it, and is there at once, also after a failure. Seen to fail
/// where an accessor that overwrites was planned as one that keeps.
#[test]
fn overwriting_from_the_host_fetches_nothing() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::<u32>::new(16);
    drop(set(&a, &x, 1));
    rig.settle();
    let before = rig.runtime.stats().transfers;
    let mut whole = Box::pin(x.host_overwrite());
    let Poll::Ready(guard) = poll(whole.as_mut()) else { panic!("nobody uses it") };
    let mut guard = guard.unwrap();
    let behind = step(&b, &x, 2);
    rig.settle();
    assert!(!behind.has_ended(), "what is on loan is not used");
    guard.fill(5);
    drop(guard);
    rig.settle();
    assert!(outcome(&behind).is_ok());
    assert_eq!(rig.runtime.stats().transfers, before + 1, "what was written went up, and nothing came down");
    assert_eq!(rig.values(&x), [stepped(5, [2]); 16]);

    // What failed is of no account to who replaces it.
    rig.control.fail_next(native("a bad kernel"));
    let failed = step(&a, &x, 3);
    rig.settle();
    assert!(error(&failed).root().backend_error().is_some() && x.poison().is_some());
    assert!(rig.finish(x.host_write()).is_err());
    rig.finish(x.host_overwrite()).unwrap().fill(9);
    assert!(x.poison().is_none());
    drop(step(&a, &x, 4));
    assert_eq!(rig.values(&x), [stepped(9, [4]); 16]);
    drop((a, b, whole, x, failed, behind));
    rig.end();
}

/// Beside others it keeps its place, and what was there before: it may be dropped without having had the data. So it does where
/// its part shares a word with other elements. Seen to fail where every accessor that overwrites fetched nothing.
#[test]
fn overwriting_from_the_host_loses_nothing() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(16);
    drop(set(&queue, &x, 1));
    rig.control.hold(0, true);
    let running = step(&queue, &x, 2);
    let mut dropped = Box::pin(x.range(..8).host_overwrite());
    let mut waiting = Box::pin(x.range(4..6).host_overwrite());
    assert!(poll(dropped.as_mut()).is_pending() && poll(waiting.as_mut()).is_pending());
    drop(dropped);
    rig.control.hold(0, false);
    rig.finish(waiting).unwrap().copy_from_slice(&[70, 80]);
    assert!(outcome(&running).is_ok());
    let mut expected: Vec<u32> = (0..16).map(|i| stepped(i * 7 + 1, [2])).collect();
    expected[4..6].copy_from_slice(&[70, 80]);
    assert_eq!(rig.values(&x), expected);

    let bytes = Buffer::from((0..16_u8).collect::<Vec<_>>());
    drop(queue.submit(|cg| cg.fill(&cg.overwrite(&bytes), 3)).unwrap());
    rig.settle();
    rig.finish(bytes.range(5..11).host_overwrite()).unwrap().fill(4);
    let there = rig.finish(bytes.host_read()).unwrap();
    assert_eq!(there[..], [3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3]);
    drop((queue, there, x, bytes, running));
    rig.end();
}

/// A transfer that was planned for a group which is cancelled before it moves anything does not count. Seen to fail where bytes were
/// counted when a transfer was planned.
#[test]
fn only_what_is_moved_counts() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::<u32>::new(1024);
    let gate = Outside::default();
    let never = a.submit(|cg| {
        cg.after(gate.future());
        cg.fill(&cg.overwrite(&x), 5)
    });
    let reader = step(&b, &x, 1);
    gate.resolve(Err("no"));
    rig.settle();
    assert!(outcome(&never.unwrap()).is_err() && outcome(&reader).is_err());
    assert_eq!(rig.runtime.stats().bytes_moved, 0);
    drop((set(&a, &x, 5), step(&b, &x, 1)));
    rig.settle();
    assert_eq!(rig.runtime.stats().bytes_moved, 4096);
    drop((a, b, x, reader, gate));
    rig.end();
}
