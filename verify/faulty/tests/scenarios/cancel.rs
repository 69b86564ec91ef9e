//! Decision 8: cancelling, at every stage.

use std::pin::pin;

use windlass::KernelCall;
use windlass::prelude::*;
use windlass_faulty::Faulty;

use crate::rig::{Outside, Rig, STEP, blend, error, outcome, pair, poll, single, step, stepped};

/// A group is skippable until it is fed; its readers fail, and those who write over it do not.
#[test]
fn cancel_says_skipped_too_late_or_done() {
    let rig = Rig::new(Faulty::builder().lanes(1).depth(1));
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
    drop((step(&queue, &x, 0), blend(&queue, &y, &x, 0)));
    rig.settle();
    let native = step(&queue, &x, 1);
    let listed = step(&queue, &x, 2);
    let reader = blend(&queue, &y, &x, 0);
    assert_eq!(native.cancel(), CancelOutcome::TooLate);
    assert_eq!(listed.cancel(), CancelOutcome::Skipped);
    assert_eq!(listed.cancel(), CancelOutcome::Done);
    assert!(error(&listed.clone()).is_cancelled(), "every clone sees it at once");
    rig.settle();
    assert!(outcome(&native).is_ok());
    assert_eq!(native.cancel(), CancelOutcome::Done);
    let doomed = error(&reader);
    assert!(doomed.is_dependency_failed() && doomed.root().is_cancelled());
    assert!(rig.finish(x.host_read()).unwrap_err().root().is_cancelled());
    assert!(rig.told().is_empty(), "a cancellation that was asked for is no error");
    drop((queue, x, y, native, listed, reader));
    rig.end();
}

/// One client that hangs up must not brick a shared buffer.
#[test]
fn keep_previous_leaves_what_was_there() {
    for (waits, device) in [(true, 0), (false, 0), (true, 1), (false, 1)] {
        let rig = pair();
        let (a, b) = (rig.queue(0), rig.queue(device));
        let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![0_u32; 8]));
        drop((step(&a, &x, 1), blend(&b, &y, &x, 0), step(&b, &y, 0)));
        rig.settle();
        let gate = Outside::default();
        let shared = b
            .submit(|cg| {
                cg.on_cancel(OnCancel::KeepPrevious);
                cg.after(gate.future());
                cg.parallel_for(8, KernelCall::new(&STEP).buffer(cg.read_write(&x)).value(5_u32))
            })
            .unwrap();
        let reader = blend(&a, &y, &x, 0);
        let with = a
            .submit(|cg| {
                cg.depends_on(&shared);
                Ok(())
            })
            .unwrap();
        if waits {
            rig.settle();
        }
        assert_eq!(shared.cancel(), CancelOutcome::Skipped);
        rig.settle();
        assert!(gate.was_dropped(), "the future goes with its group");
        assert!(error(&shared).is_cancelled() && outcome(&reader).is_ok());
        assert!(error(&with).is_dependency_failed(), "who asked to depend on it fails");
        assert_eq!(rig.values(&x), vec![stepped(1, [1]); 8]);
        drop((a, b, x, y, shared, reader, with, gate));
        rig.end();
    }
}

#[test]
fn cancel_on_drop_cancels_unless_it_is_done_or_taken_back() {
    let rig = Rig::new(Faulty::builder().lanes(1).depth(1));
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    drop(step(&queue, &x, 0));
    rig.settle();
    let running = step(&queue, &x, 1);
    let events: Vec<_> = (2..5).map(|k| step(&queue, &x, k)).collect();
    let dropped = events[2].clone().cancel_on_drop();
    let taken_back = events[0].clone().cancel_on_drop().into_event();
    let mut awaited = Box::pin(events[1].clone().cancel_on_drop());
    assert!(poll(awaited.as_mut()).is_pending());
    drop(dropped);
    assert!(error(&events[2]).is_cancelled());
    assert!(rig.finish(awaited.as_mut()).is_ok());
    drop(awaited);
    assert!(outcome(&taken_back).is_ok() && outcome(&running).is_ok() && outcome(&events[1]).is_ok());
    drop((queue, x, running, events, taken_back));
    rig.end();
}

/// A transfer that others need outlives the group that first asked for it.
#[test]
fn a_shared_transfer_outlives_who_asked_first() {
    let rig = pair();
    let (a, b) = (rig.queue(0), rig.queue(1));
    let (x, y, z) =
        (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![0_u32; 8]), Buffer::from(vec![0_u32; 8]));
    drop((step(&a, &x, 1), blend(&b, &y, &z, 0), step(&b, &z, 0)));
    rig.settle();
    let first = blend(&b, &y, &x, 0);
    let second = blend(&b, &z, &x, 0);
    assert_eq!(first.cancel(), CancelOutcome::Skipped);
    rig.settle();
    assert!(outcome(&second).is_ok());
    assert_eq!(rig.runtime.stats().staged_transfers, 1);
    drop((a, b, x, y, z, first, second));
    rig.end();
}

/// `after`: an error, a panic and a cancellation of what is awaited outside.
#[test]
fn outside_futures_end_their_groups() {
    let rig = single();
    let queue = rig.queue(0);
    let gates = [Outside::default(), Outside::default()];
    let submit = |gate: &Outside| {
        queue
            .submit(|cg| {
                cg.after(gate.future());
                Ok(())
            })
            .unwrap()
    };
    let events = [submit(&gates[0]), submit(&gates[1])];
    let panics = queue
        .submit(|cg| {
            cg.after(async {
                if true {
                    panic!("outside")
                }
                Ok::<_, String>(())
            });
            Ok(())
        })
        .unwrap();
    gates[0].resolve(Err("the network is down"));
    rig.settle();
    assert!(error(&events[0]).to_string().contains("the network is down"));
    assert!(error(&panics).is_panic());
    assert_eq!(events[1].cancel(), CancelOutcome::Skipped);
    rig.settle();
    assert!(gates[1].was_dropped());
    drop((queue, events, panics, gates));
    rig.end();
}

/// Decision 17: a host accessor dropped early leaves no trace.
#[test]
fn an_accessor_dropped_early_leaves_no_trace() {
    let rig = single();
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 8]);
    let first = step(&queue, &x, 1);
    {
        let mut read = pin!(x.host_write());
        assert!(poll(read.as_mut()).is_pending());
    }
    let second = step(&queue, &x, 2);
    rig.settle();
    assert!(outcome(&first).is_ok() && outcome(&second).is_ok());
    assert_eq!(rig.values(&x), vec![stepped(1, [1, 2]); 8]);
    drop((queue, x, first, second));
    rig.end();
}
