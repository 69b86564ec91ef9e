//! Decisions 7 and 8: explicit order, and cancelling.

#[path = "common/rig.rs"]
mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rig::{Gate, Hold, Rig, bump, contents, fails, look, put, until, wait};
use windlass::prelude::*;
use windlass::{BoxError, Error, Result};

/// A group behind a gate that overwrites the buffer with nines.
fn gated(queue: &Queue, gate: &Gate, x: &Buffer<u32>, left: OnCancel) -> Event {
    let len = x.len();
    let event = queue.submit(|cg| {
        cg.after(gate.opened());
        cg.on_cancel(left);
        let x = cg.overwrite(x);
        cg.host_for(len, x, |item, x| x.set(item.id(0), 9))
    });
    event.unwrap()
}

/// Sets a flag when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn d07_depends_on_carries_failure_and_after_end_only_orders() {
    let rig = Rig::new();
    let hold = Hold::new();
    let inside = hold.clone();
    let bad = rig.queue.submit(|cg| {
        cg.host_for(1, (), move |_, ()| {
            inside.here();
            panic!("no")
        })
    });
    let bad = bad.unwrap();
    let follows = |also: bool| {
        let bad = bad.clone();
        move |cg: &CommandGroup<'_>| {
            match also {
                true => cg.depends_on(&bad),
                false => cg.after_end(&bad),
            }
            Ok(())
        }
    };
    let (depends, ordered) =
        (rig.queue.submit(follows(true)).unwrap(), rig.queue.submit(follows(false)).unwrap());
    hold.wait_until_entered();
    assert_eq!([depends.has_ended(), ordered.has_ended()], [false; 2]);
    hold.let_go();
    let error = wait(depends).unwrap_err();
    assert!(error.is_dependency_failed() && error.root().is_panic());
    wait(ordered).unwrap();
    // The same where the event has ended already.
    assert!(wait(bad.clone()).is_err());
    assert!(wait(rig.queue.submit(follows(true)).unwrap()).unwrap_err().is_dependency_failed());
    wait(rig.queue.submit(follows(false)).unwrap()).unwrap();
    // And in another context.
    let elsewhere = rig.elsewhere();
    assert!(wait(elsewhere.submit(follows(true)).unwrap()).unwrap_err().is_dependency_failed());
    wait(elsewhere.submit(follows(false)).unwrap()).unwrap();
}

#[test]
fn d07_after_fails_the_group_if_its_future_fails_or_panics() {
    let rig = Rig::new();
    let ok = rig.queue.submit(|cg| {
        cg.after(async { Ok::<_, Error>(()) });
        Ok(())
    });
    wait(ok.unwrap()).unwrap();
    let bad = rig.queue.submit(|cg| {
        cg.after(async { Err::<(), _>(Error::other("the database is down")) });
        cg.host_for(1, (), |_, ()| unreachable!("it does not run"))
    });
    assert!(wait(bad.unwrap()).unwrap_err().to_string().contains("the database is down"));
    let panics = rig.queue.submit(|cg| {
        cg.after(async { panic!("oh") as Result<()> });
        cg.host_for(1, (), |_, ()| unreachable!("it does not run"))
    });
    assert!(wait(panics.unwrap()).unwrap_err().is_panic());
    rig.settle();
}

#[test]
fn d07_cancelling_the_group_drops_the_future() {
    let rig = Rig::new();
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Flag(dropped.clone());
    let event = rig.queue.submit(|cg| {
        cg.after(async move {
            let _flag = flag;
            std::future::pending::<Result<()>>().await
        });
        Ok(())
    });
    let event = event.unwrap();
    assert_eq!(event.cancel(), CancelOutcome::Skipped);
    assert!(wait(event).unwrap_err().is_cancelled());
    until("the future is dropped", || dropped.load(Ordering::SeqCst));
    rig.settle();
}

#[test]
fn d08_cancel_says_skipped_too_late_or_done() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    let gate = Gate::new();
    let waiting = gated(&rig.queue, &gate, &x, OnCancel::Fail);
    assert_eq!(waiting.cancel(), CancelOutcome::Skipped);
    assert_eq!(waiting.cancel(), CancelOutcome::Done);
    let hold = Hold::new();
    let inside = hold.clone();
    let running = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
    hold.wait_until_entered();
    assert_eq!(running.cancel(), CancelOutcome::TooLate);
    hold.let_go();
    wait(running.clone()).unwrap();
    assert_eq!(running.cancel(), CancelOutcome::Done);
    let task = Hold::new();
    let inside = task.clone();
    let started = rig.queue.submit(|cg| {
        cg.host_task(async move |_| {
            inside.here();
            Ok(())
        })
    });
    let started = started.unwrap();
    task.wait_until_entered();
    assert_eq!(started.cancel(), CancelOutcome::Stopping);
    assert_eq!(started.cancel(), CancelOutcome::Stopping);
    // It never awaits, so it comes to its end.
    task.let_go();
    wait(started).unwrap();
}

#[test]
fn d08_every_clone_sees_it_and_a_skipped_group_wrote_nothing() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    let gate = Gate::new();
    let event = gated(&rig.queue, &gate, &x, OnCancel::KeepPrevious);
    let clones = [event.clone(), event.clone()];
    let waiter = std::thread::spawn({
        let event = event.clone();
        move || wait(event)
    });
    event.cancel();
    for clone in clones {
        assert_eq!(clone.status(), Status::Failed);
        assert!(wait(clone).unwrap_err().is_cancelled());
    }
    assert!(waiter.join().unwrap().unwrap_err().is_cancelled());
    assert_eq!(contents(&x), [1; 8]);
}

#[test]
fn d08_readers_of_a_cancelled_write_fail_with_it() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    let gate = Gate::new();
    let event = gated(&rig.queue, &gate, &x, OnCancel::Fail);
    let before = bump(&rig.queue, &x);
    let host = rig.queue.submit(|cg| {
        let x = cg.read(&x);
        cg.host_task(async move |host| {
            host.view(&x)?;
            unreachable!("it never runs")
        })
    });
    assert_eq!(event.cancel(), CancelOutcome::Skipped);
    for reader in [before, host.unwrap(), bump(&rig.queue, &x), bump(&rig.elsewhere(), &x)] {
        let error = wait(reader).unwrap_err();
        assert!(error.is_dependency_failed() && error.root().is_cancelled(), "{error}");
    }
    assert!(wait(x.host_read()).unwrap_err().root().is_cancelled());
    wait(put(&rig.queue, &x, 2)).unwrap();
    assert_eq!(contents(&x), [2; 8]);
    assert!(rig.told.up_to_now(&rig.queue).is_empty(), "a cancellation that was asked for is no error");
}

#[test]
fn d08_one_client_that_hangs_up_must_not_brick_a_shared_buffer() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 64]);
    for round in 0..50 {
        let gate = Gate::new();
        let queue = if round % 2 == 0 { &rig.queue } else { &elsewhere };
        let request = gated(queue, &gate, &x, OnCancel::KeepPrevious).cancel_on_drop();
        let (others, seen) = look(if round % 3 == 0 { &rig.queue } else { &elsewhere }, &x);
        let next = bump(&rig.queue, &x);
        drop(request);
        wait(others).unwrap();
        wait(next).unwrap();
        assert_eq!(*seen.lock().unwrap(), [round + 1; 64]);
    }
    assert_eq!(contents(&x), [51; 64]);
    rig.settle();
}

#[test]
fn d08_cancel_on_drop_lets_what_is_done_or_taken_out_alone() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    let mut done = bump(&rig.queue, &x).cancel_on_drop();
    wait(&mut done).unwrap();
    drop(done);
    let gate = Gate::new();
    let kept = gated(&rig.queue, &gate, &x, OnCancel::Fail).cancel_on_drop().into_event();
    gate.open();
    wait(kept).unwrap();
    assert_eq!(contents(&x), [9; 8]);
}

#[test]
fn d08_a_transfer_that_others_need_outlives_the_group_that_first_asked_for_it() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let x = Buffer::from(vec![1_u32; 1024]);
    let hold = Hold::new();
    let inside = hold.clone();
    let writer = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, move |_, x| {
            inside.here();
            x.set(0, 5);
        })
    });
    // Contexts of one domain wait natively: without something to wait for outside it would be with its device by now.
    let first = elsewhere.submit(|cg| {
        cg.after(std::future::pending::<windlass::Result<()>>());
        let x = cg.read(&x);
        cg.host_for(1, x, |_, _| ())
    });
    let (second, seen) = look(&elsewhere, &x);
    assert_eq!(first.unwrap().cancel(), CancelOutcome::Skipped);
    hold.let_go();
    wait(writer.unwrap()).unwrap();
    wait(second).unwrap();
    assert_eq!(seen.lock().unwrap()[..2], [5, 1]);
    assert_eq!(rig.stats().transfers, 1);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long there: two thousand rounds")]
fn d08_cancelling_at_any_moment_is_all_or_nothing() {
    let rig = Rig::with_lanes(2);
    let x = Buffer::from(vec![0_u32; 4]);
    let (mut ran, mut skipped) = (0, 0);
    for _ in 0..2000 {
        let event = rig.queue.submit(|cg| {
            cg.on_cancel(OnCancel::KeepPrevious);
            let x = cg.read_write(&x);
            cg.host_for(4, x, |item, x| x.set(item.id(0), x.get(item.id(0)) + 1))
        });
        let event = event.unwrap();
        match event.cancel() {
            CancelOutcome::Skipped => {
                assert!(wait(event).unwrap_err().is_cancelled());
                skipped += 1;
            }
            CancelOutcome::TooLate | CancelOutcome::Stopping | CancelOutcome::Done => {
                wait(event).unwrap();
                ran += 1;
            }
        }
    }
    assert_eq!(ran + skipped, 2000);
    assert_eq!(contents(&x), [ran; 4]);
    rig.settle();
}

#[test]
fn d08_a_failed_group_is_done() {
    let rig = Rig::new();
    let event = fails(&rig.queue, "no");
    assert!(wait(event.clone()).is_err());
    assert_eq!(event.cancel(), CancelOutcome::Done);
}

/// What a task has done before it waits for ever.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Nothing,
    Reads,
    Writes,
}

/// A host task that has started, and waits for ever.
fn stuck(rig: &Rig, x: &Buffer<u32>, does: Does) -> (Event, Arc<AtomicBool>) {
    let (dropped, started) = (Arc::new(AtomicBool::new(false)), Hold::new());
    let (flag, inside) = (Flag(dropped.clone()), started.clone());
    let event = rig.queue.submit(|cg| {
        let mut x = cg.read_write(x);
        cg.host_task(async move |host| {
            let _flag = flag;
            match does {
                Does::Nothing => {}
                Does::Reads => assert_eq!(host.view(&x)?[0], 1),
                Does::Writes => host.view_mut(&mut x)?[0] = 5,
            }
            inside.let_go();
            inside.here();
            std::future::pending::<Result<(), BoxError>>().await
        })
    });
    started.wait_until_entered();
    (event.unwrap(), dropped)
}

/// Seen to fail: the task ran on, and held credit and buffer for ever.
#[test]
fn d08_a_host_task_that_has_started_is_dropped_where_it_waits() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    for (does, on_tokio) in
        [Does::Nothing, Does::Reads, Does::Writes].into_iter().flat_map(|d| [(d, false), (d, true)])
    {
        let rig = Rig::new();
        let x = Buffer::from(vec![1_u32; 4]);
        let (event, dropped) = match on_tokio {
            true => tokio.block_on(async { stuck(&rig, &x, does) }),
            false => stuck(&rig, &x, does),
        };
        let reader = bump(&rig.queue, &x);
        let depends = rig.queue.submit(|cg| {
            cg.depends_on(&event);
            Ok(())
        });
        let ordered = rig.queue.submit(|cg| {
            cg.after_end(&event);
            Ok(())
        });
        assert_eq!(event.cancel(), CancelOutcome::Stopping, "{does:?}");
        assert!(wait(event.clone()).unwrap_err().is_cancelled());
        assert!(dropped.load(Ordering::SeqCst), "before its event resolves");
        assert_eq!(event.cancel(), CancelOutcome::Done);
        let error = wait(depends.unwrap()).unwrap_err();
        assert!(error.is_dependency_failed() && error.root().is_cancelled(), "{does:?}: {error}");
        wait(ordered.unwrap()).unwrap();
        let later = rig.queue.submit(|cg| {
            cg.depends_on(&event);
            Ok(())
        });
        assert!(wait(later.unwrap()).unwrap_err().is_dependency_failed());
        match does {
            Does::Writes => {
                assert!(wait(reader).unwrap_err().root().is_cancelled());
                assert!(x.poison().is_some_and(|cause| cause.is_cancelled()));
            }
            _ => {
                wait(reader).unwrap();
                assert_eq!(contents(&x), [2; 4]);
            }
        }
        rig.settle();
        assert_eq!(rig.queue.in_flight(), 0);
        assert!(rig.told.up_to_now(&rig.queue).is_empty(), "a cancellation that was asked for is no error");
    }
}

#[test]
fn d08_a_stopped_host_task_that_discards_leaves_nothing_to_read() {
    for keep in [false, true] {
        let rig = Rig::new();
        let x = Buffer::from(vec![1_u32; 4]);
        let started = Hold::new();
        started.let_go();
        let inside = started.clone();
        let event = rig.queue.submit(|cg| {
            if keep {
                cg.on_cancel(OnCancel::KeepPrevious);
            }
            cg.overwrite(&x);
            cg.host_task(async move |_| {
                inside.here();
                std::future::pending::<Result<(), BoxError>>().await
            })
        });
        started.wait_until_entered();
        drop(event.unwrap().cancel_on_drop());
        match keep {
            true => assert_eq!(contents(&x), [1; 4]),
            false => assert!(wait(x.host_read()).unwrap_err().root().is_cancelled()),
        }
        rig.settle();
    }
}

#[test]
fn d08_a_stopped_host_task_does_not_hold_up_shutdown() {
    for _ in 0..50 {
        let rig = Rig::new();
        let x = Buffer::from(vec![1_u32; 4]);
        let (event, dropped) = stuck(&rig, &x, Does::Nothing);
        let left = wait(rig.runtime.shutdown(std::time::Duration::from_millis(5)));
        assert_eq!(left.groups, 0);
        assert!(dropped.load(Ordering::SeqCst));
        assert!(wait(event).unwrap_err().is_cancelled());
    }
}
