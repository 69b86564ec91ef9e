//! What is paid for, counted: wakes, futures, native calls.

use std::pin::pin;

use windlass::prelude::*;
use windlass_faulty::{Faulty, Memory, inside_poll};

use crate::rig::{Outside, Rig, blend, outcome, pair, poll, single, step, stepped};

const N: usize = 10_000;

/// Invariant 12 and decision 13: nobody waits, so a busy lane is heard of twice per native depth, and not for each
/// group. Edges inside one context are no futures.
#[test]
fn a_busy_lane_wakes_the_host_twice_per_depth() {
    let rig = Rig::new(Faulty::builder().lanes(2).depth(64));
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![1_u32; 4]), Buffer::from(vec![1_u32; 4]));
    drop((step(&queue, &x, 0), blend(&queue, &y, &x, 0)));
    rig.settle();
    let (before, spawned) = (rig.control.audit(), rig.runtime.stats().tasks_spawned);
    for k in 0..N as u32 / 2 {
        drop((step(&queue, &x, k), blend(&queue, &y, &x, k)));
    }
    rig.settle();
    let audit = rig.control.audit();
    assert_eq!(audit.ran - before.ran, N as u64);
    let most = 2 * N as u64 / 64 + 8;
    let (arms, verdicts) = (audit.arms - before.arms, audit.verdicts - before.verdicts);
    assert!(arms <= most && verdicts <= most, "{arms} arms and {verdicts} verdicts, and {most} allowed");
    let stats = rig.runtime.stats();
    // The reports come from outside, so refills are the reporting thread's own; what a turn hands over in mid-feed is
    // one future for each share of a lane, and none for any edge.
    assert_eq!(stats.proxies, 0);
    assert_eq!(stats.tasks_spawned, spawned, "a same-context edge is no future");
    drop((queue, x, y));
    rig.end();
}

/// A small upload is cheap: from `submit` until the group that reads it is with the device, the scheduler's lock is taken
/// three times, and no other thread has anything to do; what ends is heard of in one turn more.
#[test]
fn a_small_upload_takes_few_turns_and_no_thread() {
    let rig = Rig::new(Faulty::builder().like_cuda());
    let queue = rig.queue(0);
    let warm = Buffer::from(vec![1_u32; 1024]);
    drop(step(&queue, &warm, 0));
    rig.settle();
    let fresh = Buffer::from(vec![1_u32; 1024]);
    let before = rig.runtime.stats();
    let event = step(&queue, &fresh, 1);
    let after = rig.runtime.stats();
    // The look at the counts is a turn of its own.
    assert_eq!(after.turns - before.turns - 1, 3, "turns");
    assert_eq!(after.tasks_spawned, before.tasks_spawned, "work for another thread");
    assert_eq!((after.staged_transfers, after.bytes_moved - before.bytes_moved), (0, 4096));
    rig.settle();
    assert!(outcome(&event).is_ok());
    drop((queue, warm, fresh, event));
    rig.end();
}

/// Decision 13: awaiting group 1 of 10,000 does not wait for the others.
#[test]
fn the_first_of_many_is_known_first() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 4]);
    drop(step(&queue, &x, 0));
    rig.settle();
    let events: Vec<_> = (0..N as u32).map(|k| step(&queue, &x, k)).collect();
    let mut first = pin!(events[0].clone());
    assert!(poll(first.as_mut()).is_pending());
    rig.runtime.run_until_stalled();
    let mut steps = 0;
    while !events[0].has_ended() {
        assert!(rig.control.step());
        steps += 1;
    }
    assert!(steps <= 2, "one group, and its verdict");
    assert!(!events[1].has_ended());
    rig.settle();
    assert!(events.iter().all(|e| outcome(e).is_ok()));
    drop(events);
    drop((queue, x));
}

/// Invariant 7: polls of every kind make no native call, also where what they ask for needs some.
#[test]
fn no_poll_makes_a_native_call() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 64]);
    let event = step(&a, &x, 1);
    let mut awaited = pin!(event.clone());
    assert!(poll(awaited.as_mut()).is_pending());
    rig.settle();
    // The reader's first poll plans a transfer back to the host, and its order.
    let calls = |rig: &Rig| {
        let audit = rig.control.audit();
        (audit.feeds, audit.arms, audit.flushes, audit.allocates)
    };
    let before = calls(&rig);
    let mut read = pin!(x.host_read());
    assert!(poll(read.as_mut()).is_pending());
    assert_eq!(calls(&rig), before);
    drop(rig.finish(read).unwrap());
    let on_b = step(&b, &x, 2);
    let before = calls(&rig);
    let mut all = pin!(Event::all([on_b.clone(), event.clone()]));
    let mut drained = pin!(b.drained());
    let mut ready = pin!(b.ready());
    inside_poll(|| {
        assert!(poll(all.as_mut()).is_pending() && poll(drained.as_mut()).is_pending());
        assert!(poll(ready.as_mut()).is_ready());
    });
    assert_eq!(calls(&rig), before);
    rig.finish(drained);
    assert!(outcome(&on_b).is_ok());
    assert_eq!(rig.control.audit().calls_in_poll, 0);
    assert_eq!(rig.control.breaches(), Vec::<String>::new());
}

/// Invariants 7 and 8: what a program lets go of, and what runs inside its own tasks, makes no native call on its thread, also
/// where that lets groups go on, or where it finds that another thread wants a group's verdict. Somebody else makes them.
///
/// Seen to fail, each of them alone, with `Inner::enter` in its place.
#[test]
fn no_drop_makes_a_native_call() {
    let rig = single();
    let queue = rig.queue(0);
    let (x, z) = (Buffer::from(vec![1_u32; 64]), Buffer::from(vec![1_u32; 64]));
    drop((step(&queue, &x, 0), step(&queue, &z, 0)));
    rig.settle();
    // The first reports for the lane's own sake, and the poll leaves word that the second is wanted.
    let wanted = || {
        drop(step(&queue, &z, 1));
        let event = step(&queue, &z, 2);
        assert!(poll(pin!(event.clone())).is_pending());
        event
    };
    let goes_on = |what: &str, behind: Event, let_go: &mut dyn FnMut()| {
        assert!(!behind.has_ended(), "{what}");
        let wanted = wanted();
        let before = rig.control.audit();
        inside_poll(let_go);
        assert_eq!(rig.control.audit(), before, "{what}: native calls where it was let go of");
        rig.settle();
        assert!(outcome(&behind).is_ok() && outcome(&wanted).is_ok(), "{what}");
    };

    let mut guard = Some(rig.finish(x.host_write()).unwrap());
    goes_on("a guard", step(&queue, &x, 1), &mut || drop(guard.take()));

    let mut early = Some(Box::pin(x.host_write()));
    let held = rig.finish(x.host_read()).unwrap();
    assert!(poll(early.as_mut().unwrap().as_mut()).is_pending());
    let other = queue.submit(|cg| cg.fill(&cg.overwrite(&x), 5)).unwrap();
    drop(early.take());
    let mut held = Some(held);
    goes_on("a guard that others wait for", other, &mut || drop(held.take()));

    let gate = Outside::default();
    let gated = queue.submit(|cg| {
        cg.after(gate.future());
        Ok(())
    });
    let gated = gated.unwrap();
    let behind = queue.submit(|cg| {
        cg.after_end(&gated);
        cg.fill(&cg.overwrite(&x), 6)
    });
    let mut client = Some(gated.cancel_on_drop());
    goes_on("a cancelling future", behind.unwrap(), &mut || drop(client.take()));

    let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let entered = tokio.enter();
    let task = queue.submit(|cg| {
        let mut x = cg.read_write(&x);
        cg.host_task(async move |host| {
            host.view_mut(&mut x)?[0] = 7;
            Ok(())
        })
    });
    drop(entered);
    let behind = step(&queue, &x, 8);
    rig.settle();
    let mut turn = || tokio.block_on(async { tokio::task::yield_now().await });
    goes_on("a host task in a program's own runtime", behind, &mut turn);
    assert!(outcome(&task.unwrap()).is_ok());

    let entered = tokio.enter();
    let gated = queue.submit(|cg| {
        cg.after(std::future::ready(Ok::<(), std::io::Error>(())));
        cg.fill(&cg.overwrite(&x), 6)
    });
    drop(entered);
    goes_on("a future in a program's own runtime", gated.unwrap(), &mut turn);

    let last = wanted();
    let before = rig.control.audit();
    inside_poll(|| drop(x));
    assert_eq!(rig.control.audit(), before, "a buffer's last handle");
    rig.settle();
    let own = Context::blocking_open(&rig.devices()).unwrap();
    let again = wanted();
    let before = rig.control.audit();
    inside_poll(|| drop(own));
    assert_eq!(rig.control.audit(), before, "a context's last handle");
    rig.settle();
    assert!(outcome(&last).is_ok() && outcome(&again).is_ok());
    drop((z, queue, last, again));
    rig.end();
}

/// 10,000 groups behind one outside future cost one gate; those of another context one proxy.
#[test]
fn many_groups_behind_one_gate_cost_one_wake() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let (x, outs) =
        (Buffer::from(vec![1_u32; 4]), [Buffer::from(vec![0_u32; 4]), Buffer::from(vec![0_u32; 4])]);
    drop((blend(&a, &outs[0], &x, 0), blend(&b, &outs[1], &x, 0)));
    rig.settle();
    let gate = Outside::default();
    let before = rig.runtime.stats();
    let gated = a
        .submit(|cg| {
            cg.after(gate.future());
            cg.fill(&cg.overwrite(&x), 5)
        })
        .unwrap();
    let mut last = Vec::new();
    for k in 0..N as u32 / 2 {
        last = vec![blend(&a, &outs[0], &x, k), blend(&b, &outs[1], &x, k)];
    }
    let planned = rig.runtime.stats();
    // The copy of `x` to the other device: down, then up. That is one staged transfer, and the proxies of its ends.
    assert!(planned.proxies - before.proxies <= 2, "{planned:?}");
    assert!(planned.tasks_spawned - before.tasks_spawned <= 4, "{planned:?}");
    let ahead = (planned.nodes_visited - before.nodes_visited) / N as u64;
    assert!(ahead <= 8, "{ahead} nodes are looked at for each group");
    let spawned = planned.tasks_spawned;
    gate.resolve(Ok(()));
    rig.settle();
    assert!(rig.runtime.stats().tasks_spawned - spawned <= 4, "opening costs no future for each group");
    assert!(last.iter().chain([&gated]).all(|e| outcome(e).is_ok()));
    let expected = (0..N as u32 / 2).fold(stepped(0, [1]), |v, k| stepped(v, [5 + k]));
    assert_eq!((rig.values(&outs[0])[0], rig.values(&outs[1])[0]), (expected, expected));
    drop((a, b, x, outs, gated, last, gate));
    rig.end();
}

/// Done-when 4: a whole program runs from one thread, and what ran as futures was counted.
#[test]
fn a_whole_program_runs_from_one_thread() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let x = Buffer::from(vec![1_u32; 16]);
    let (first, second) = (step(&a, &x, 1), step(&b, &x, 2));
    let task = a
        .submit(|cg| {
            let mut x = cg.read_write(&x);
            cg.host_task(async move |host| {
                host.view_mut(&mut x)?.iter_mut().for_each(|v| *v += 1);
                Ok(())
            })
        })
        .unwrap();
    let third = step(&b, &x, 3);
    assert_eq!(rig.values(&x), vec![stepped(stepped(1, [1, 2]) + 1, [3]); 16]);
    let stats = rig.runtime.stats();
    assert_eq!((stats.builds, stats.host_tasks, stats.staged_transfers), (2, 1, 1));
    assert!(
        stats.proxies >= 3 && stats.tasks_spawned >= stats.builds + stats.staged_transfers + stats.proxies
    );
    drop((a, b, x, first, second, third, task));
    rig.end();
}

/// A host accessor opens where the group before it settles: no future carries that end over, as none does for an event
/// that is awaited. Nor does one where the data moves first, or where readers are waited for. All that may be spawned asks for
/// the end to be reported, which a `poll` may not do itself.
#[test]
fn a_host_accessor_opens_where_the_group_settles() {
    for memory in [Memory::Heap, Memory::Own] {
        let rig = Rig::new(Faulty::builder().device(memory).lanes(1));
        let queue = rig.queue(0);
        let (x, y) = (Buffer::from(vec![1_u32; 16]), Buffer::from(vec![0_u32; 16]));
        drop((blend(&queue, &y, &x, 1), step(&queue, &x, 1)));
        rig.settle();
        let spent = |work: &dyn Fn()| {
            let before = rig.runtime.stats();
            work();
            let after = rig.runtime.stats();
            let staged = after.staged_transfers - before.staged_transfers;
            (after.proxies - before.proxies, after.tasks_spawned - before.tasks_spawned - staged)
        };
        let reads = spent(&|| {
            drop(step(&queue, &x, 2));
            rig.values(&x);
        });
        assert!(reads <= (0, 1), "host_read, {memory:?}: {reads:?}");
        let writes = spent(&|| {
            drop(blend(&queue, &y, &x, 3));
            drop(rig.finish(x.host_write()).unwrap());
        });
        assert!(writes <= (0, 1), "host_write behind a reader, {memory:?}: {writes:?}");
        drop(step(&queue, &x, 4));
        let before = rig.runtime.stats();
        rig.finish(x.into_vec()).unwrap();
        assert_eq!(rig.runtime.stats().proxies, before.proxies, "into_vec, {memory:?}");
        drop((queue, y));
        rig.end();
    }
}
