//! Decision 15: who is said to wait for whom, where data moves.

use windlass::prelude::*;
use windlass::{Holder, Waiter};
use windlass_faulty::Faulty;

use crate::rig::{Rig, poll, single, step};

/// The data has to move first: the group that waits is named, and not its transfer, which nobody has submitted.
#[test]
fn a_group_whose_data_has_to_move_is_named_with_its_line() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    let guard = rig.finish(x.host_write()).unwrap();
    let guard_line = line!() - 1;
    let behind = queue.submit(|cg| {
        cg.name("the one that waits");
        cg.fill(&cg.read_write(&x.range(0..4)), 1)
    });
    let behind_line = line!() - 4;
    let stalls = rig.runtime.stalls();
    let [stall] = &stalls[..] else { panic!("one waits for one: {stalls:?}") };
    assert_eq!((stall.holder, stall.waiter, stall.count), (Holder::Guard, Waiter::Group, 1));
    assert_eq!(stall.holder_at.map(|at| (at.file(), at.line())), Some((file!(), guard_line)));
    assert_eq!(stall.waiting_at.map(|at| (at.file(), at.line())), Some((file!(), behind_line)));
    assert!(stall.to_string().contains("the one that waits"), "{stall}");
    drop(guard);
    rig.settle();
    drop((queue, x, behind));
    rig.end();
}

/// A `host_write` that waits for readers is no group, and does not wait for something outside.
#[test]
fn a_host_accessor_behind_readers_is_told_to_wait_for_them() {
    let rig = Rig::new(Faulty::builder().lanes(1));
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
    drop(step(&queue, &x, 1));
    rig.settle();
    rig.control.hold(0, true);
    let reads = queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y))).unwrap();
    let reads_line = line!() - 1;
    let mut access = Box::pin(x.range(0..2).host_write());
    let access_line = line!() - 1;
    assert!(poll(access.as_mut()).is_pending());
    let stalls = rig.runtime.stalls();
    assert!(stalls.iter().all(|stall| stall.holder == Holder::Group), "{stalls:?}");
    let by_reader = stalls.iter().find(|s| s.holder_at.is_some_and(|at| at.line() == reads_line));
    let stall = by_reader.expect("the reader is named");
    assert_eq!(
        (stall.waiter, stall.waiting_at.map(|at| at.line())),
        (Waiter::HostAccessor, Some(access_line))
    );
    assert!(stall.to_string().contains("a host accessor asked for at"), "{stall}");
    rig.control.hold(0, false);
    drop(rig.finish(access).unwrap());
    drop((queue, x, y, reads));
    rig.end();
}
