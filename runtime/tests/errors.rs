//! Decision 18: who is told of an error, and how often.

#[path = "common/rig.rs"]
mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::{Gate, Rig, Told, bump, contents, fails, look, put, until, wait};
use windlass::prelude::*;

fn spoil(queue: &Queue, x: &Buffer<u32>, why: &'static str) -> Event {
    let event = queue.submit(|cg| {
        let x = cg.read_write(x);
        cg.host_for(1, x, move |_, _| panic!("{why}"))
    });
    event.unwrap()
}

#[test]
fn d18_the_handler_hears_an_unobserved_root_once_with_what_it_took_down() {
    let rig = Rig::with_lanes(1);
    let x = Buffer::from(vec![0_u32; 8]);
    let gate = Gate::new();
    let root = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        let x = cg.read_write(&x);
        cg.host_for(1, x, |_, _| panic!("the root"))
    });
    let root_line = line!() - 5;
    let dependents: Vec<_> = (0..5).map(|_| bump(&rig.queue, &x)).collect();
    let elsewhere = bump(&rig.elsewhere(), &x);
    drop((root, dependents, elsewhere));
    gate.open();
    until("the handler is told", || !rig.told.so_far().is_empty());
    let told = rig.told.up_to_now(&rig.queue);
    assert_eq!(told.len(), 1, "dependents are silent: {told:?}");
    assert!(told[0].error().to_string().contains("the root"));
    assert_eq!(told[0].took_down(), 6);
    assert_eq!((told[0].location().file(), told[0].location().line()), (file!(), root_line));
    rig.settle();
}

#[test]
fn d18_an_observed_error_is_not_told() {
    let rig = Rig::with_lanes(1);
    assert!(wait(fails(&rig.queue, "awaited")).is_err());
    let waited = fails(&rig.queue, "waited for");
    assert!(waited.blocking_wait().is_err());
    let joined = Event::all([fails(&rig.queue, "in a set"), fails(&rig.queue, "in the same set")]);
    assert!(wait(joined).is_err());
    drop(waited);
    assert!(rig.told.up_to_now(&rig.queue).is_empty());
}

#[test]
fn d18_one_handle_that_returned_it_is_enough_and_a_kept_one_delays_the_telling() {
    let rig = Rig::with_lanes(1);
    let seen = fails(&rig.queue, "seen");
    let clone = seen.clone();
    assert!(wait(seen).is_err());
    drop(clone);
    let kept = fails(&rig.queue, "kept");
    until("it has failed", || kept.status() == Status::Failed);
    assert!(
        rig.told.up_to_now(&rig.queue).is_empty(),
        "its last handle is not gone, and may still return it"
    );
    drop(kept);
    until("the handler is told", || !rig.told.so_far().is_empty());
    let told = rig.told.up_to_now(&rig.queue);
    assert!(
        told.len() == 1 && told[0].error().to_string().contains("kept"),
        "a look at the status is not to hear it"
    );
}

#[test]
fn d18_a_dependent_of_an_observed_root_is_silent() {
    let rig = Rig::with_lanes(1);
    let x = Buffer::from(vec![0_u32; 8]);
    let root = spoil(&rig.queue, &x, "the root");
    drop((0..5).map(|_| bump(&rig.queue, &x)).collect::<Vec<_>>());
    assert!(wait(root).is_err());
    // Those that come after it has failed are silent as well.
    drop(bump(&rig.queue, &x));
    assert!(wait(x.host_read()).is_err());
    assert!(rig.told.up_to_now(&rig.queue).is_empty());
}

#[test]
fn d18_a_cancellation_is_no_error() {
    let rig = Rig::with_lanes(1);
    let x = Buffer::from(vec![0_u32; 8]);
    let gate = Gate::new();
    let event = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        cg.read_write(&x);
        Ok(())
    });
    drop(bump(&rig.queue, &x));
    assert_eq!(event.unwrap().cancel(), CancelOutcome::Skipped);
    assert!(wait(x.host_read()).is_err());
    assert!(rig.told.up_to_now(&rig.queue).is_empty());
    rig.settle();
}

#[test]
fn d18_the_queues_handler_comes_before_the_runtimes() {
    let rig = Rig::new();
    let told = Told::default();
    let queue = Queue::builder().device(rig.device.clone()).handler(told.handler()).blocking_build().unwrap();
    drop(fails(&queue, "for the queue"));
    until("the queue's handler is told", || told.so_far().len() == 1);
    assert!(rig.told.up_to_now(&rig.queue).is_empty());
    // A handler outlives the handles of its queue as long as the queue's groups do.
    let gate = Gate::new();
    let last = queue.submit(|cg| {
        cg.after(gate.opened());
        cg.host_for(1, (), |_, ()| panic!("after the queue is gone"))
    });
    drop((last, queue));
    gate.open();
    until("the queue's handler is told", || told.so_far().len() == 2);
}

#[test]
fn d18_errors_come_in_batches_and_none_is_lost() {
    let count = Arc::new(AtomicUsize::new(0));
    let batches = Arc::new(AtomicUsize::new(0));
    let rig = Rig::new();
    let (errors, calls) = (count.clone(), batches.clone());
    let handler = move |batch: &[windlass::AsyncError]| {
        assert!(!batch.is_empty());
        errors.fetch_add(batch.len(), Ordering::SeqCst);
        calls.fetch_add(1, Ordering::SeqCst);
    };
    let queue = Queue::builder().device(rig.device.clone()).handler(handler).blocking_build().unwrap();
    let gate = Gate::new();
    for _ in 0..1000 {
        drop(queue.submit(|cg| {
            let opened = gate.opened();
            cg.after(async move { opened.await.and(Err(windlass::Error::other("each for itself"))) });
            Ok(())
        }));
    }
    gate.open();
    until("all are told", || count.load(Ordering::SeqCst) == 1000);
    assert!(batches.load(Ordering::SeqCst) <= 1000);
    rig.settle();
    assert_eq!(count.load(Ordering::SeqCst), 1000);
}

#[test]
fn d18_a_handler_that_panics_harms_nobody() {
    let rig = Rig::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let bad = move |_: &[windlass::AsyncError]| {
        counted.fetch_add(1, Ordering::SeqCst);
        panic!("the handler");
    };
    let queue = Queue::builder().device(rig.device.clone()).handler(bad).blocking_build().unwrap();
    for round in 1..=3 {
        drop(fails(&queue, "for the bad handler"));
        until("the handler is called", || calls.load(Ordering::SeqCst) == round);
    }
    let told = rig.told.clone();
    drop(fails(&rig.queue, "for the good one"));
    until("the other handler is told", || told.so_far().len() == 1);
    let x = Buffer::from(vec![1_u32; 4]);
    wait(bump(&queue, &x)).unwrap();
    assert_eq!(contents(&x), [2; 4]);
}

#[test]
fn d18_a_handler_may_submit() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 4]);
    let (queue, cell) = (rig.queue.clone(), x.clone());
    let repair = move |_: &[windlass::AsyncError]| drop(put(&queue, &cell, 7));
    let fragile = Queue::builder().device(rig.device.clone()).handler(repair).blocking_build().unwrap();
    drop(spoil(&fragile, &x, "no"));
    until("the handler has repaired it", || {
        let (event, seen) = look(&rig.queue, &x);
        wait(event).is_ok() && *seen.lock().unwrap() == [7; 4]
    });
}

#[test]
fn out_of_memory_says_where_and_what_is_in_use() {
    let rig = Rig::new();
    let elsewhere = rig.elsewhere();
    let (small, large) = (Buffer::<u32>::new(1024), Buffer::<u8>::new(1 << 46));
    wait(put(&elsewhere, &small, 1)).unwrap();
    let event = elsewhere.submit(|cg| cg.fill(&cg.overwrite(&large), 1)).unwrap();
    let error = wait(event).unwrap_err();
    assert!(error.is_out_of_memory(), "{error}");
    let text = error.to_string();
    assert_eq!(text.matches("70368744177664").count(), 1, "{text}");
    assert!(text.contains(rig.device.name()) && text.contains("4096"), "{text}");
    // What has been freed is not in use.
    drop(small);
    rig.settle();
    let event = elsewhere.submit(|cg| cg.fill(&cg.overwrite(&large), 1)).unwrap();
    let text = wait(event).unwrap_err().to_string();
    assert!(!text.contains("4096"), "{text}");
}

#[test]
fn copies_of_another_rank_are_flat_and_others_are_refused_by_shape() {
    let rig = Rig::new();
    let grid = Buffer::<u32, 3>::with_shape([5, 7, 9], (0..315).collect()).unwrap();
    let line = Buffer::<u32>::new(315);
    wait(rig.queue.submit(|cg| cg.copy(&cg.read(&grid), &cg.overwrite(&line))).unwrap()).unwrap();
    assert_eq!(contents(&line), (0..315).collect::<Vec<_>>());
    let flat = Buffer::<u32, 2>::new([35, 9]);
    wait(rig.queue.submit(|cg| cg.copy(&cg.read(&line), &cg.overwrite(&flat))).unwrap()).unwrap();
    assert_eq!(wait(flat.host_read()).unwrap().to_vec(), (0..315).collect::<Vec<_>>());
    // A part with gaps, and back.
    let (part, few) = (flat.range((1..3, 2..5)), Buffer::<u32>::new(6));
    wait(rig.queue.submit(|cg| cg.copy(&cg.read(&part), &cg.overwrite(&few))).unwrap()).unwrap();
    assert_eq!(contents(&few), [11, 12, 13, 20, 21, 22]);
    wait(put(&rig.queue, &few, 7)).unwrap();
    wait(rig.queue.submit(|cg| cg.copy(&cg.read(&few), &cg.write(&part))).unwrap()).unwrap();
    let now = wait(flat.host_read()).unwrap().to_vec();
    assert_eq!((now[10], now[11], now[13], now[14], now[22]), (10, 7, 7, 14, 7));
    let turned = Buffer::<u32, 2>::new([9, 35]);
    for (error, shapes) in [
        (rig.queue.submit(|cg| cg.copy(&cg.read(&flat), &cg.overwrite(&turned))), ["[35, 9]", "[9, 35]"]),
        (rig.queue.submit(|cg| cg.copy(&cg.read(&few), &cg.overwrite(&line))), ["[6]", "[315]"]),
    ] {
        let error = error.unwrap_err();
        assert!(error.is_invalid_input(), "{error}");
        assert!(shapes.iter().all(|shape| error.to_string().contains(shape)), "{error}");
    }
}

#[test]
fn errors_name_their_group_and_its_place() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 4]);
    let root = rig.queue.submit(|cg| {
        cg.name("the sum of it");
        let x = cg.read_write(&x);
        cg.host_task(async move |host| {
            host.view(&x)?;
            Err("boom".into())
        })
    });
    let root_line = line!() - 8;
    let reader = bump(&rig.queue, &x);
    let error = wait(reader).unwrap_err();
    assert!(error.is_dependency_failed());
    assert_eq!((error.group(), error.root().group()), (None, Some("the sum of it")));
    assert_eq!(error.root().location().map(|at| (at.file(), at.line())), Some((file!(), root_line)));
    assert_ne!(error.location().unwrap().line(), root_line);
    let text = error.to_string();
    let place = format!("{}:{root_line}:", file!());
    assert!(["`the sum of it`", &place, "boom"].iter().all(|part| text.contains(part)), "{text}");
    let own = wait(root.unwrap()).unwrap_err();
    assert!(own.to_string().contains(&place) && own.group() == Some("the sum of it"), "{own}");

    let after = rig.queue.submit(|cg| {
        cg.name("late");
        cg.after(async { Err::<(), _>("no network") });
        Ok(())
    });
    let error = wait(after.unwrap()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`late`") && text.contains("no network") && !text.contains("host task"), "{text}");

    // Two groups that fail for the same reason have places of their own.
    let large = Buffer::<u8>::new(1 << 46);
    let elsewhere = rig.elsewhere();
    let fill = |name: &'static str| {
        let group = elsewhere.submit(|cg| {
            cg.name(name);
            cg.fill(&cg.overwrite(&large), 1)
        });
        group.unwrap()
    };
    let both = [fill("one"), fill("other")];
    let [one, other] = both.map(|event| wait(event).unwrap_err());
    assert_eq!((one.group(), other.group()), (Some("one"), Some("other")));
    assert!(windlass::Error::other("mine").location().is_none());
}
