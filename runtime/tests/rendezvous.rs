//! Invariant 2: groups that the data does not order overlap. They wait for each other, so they end only if they do.

#[path = "common/rig.rs"]
mod rig;

use rig::{Meeting, Rig, bump, wait};
use windlass::prelude::*;

/// Submits a group that needs another one to run at the same time.
fn meets(queue: &Queue, meeting: &Meeting, claim: impl Fn(&CommandGroup<'_>)) -> Event {
    let meeting = meeting.clone();
    let event = queue.submit(|cg| {
        claim(cg);
        cg.host_for(1, (), move |_, ()| meeting.join())
    });
    event.unwrap()
}

#[test]
fn invariant_02_rendezvous_of_two_queues() {
    let rig = Rig::new();
    let other = Queue::blocking_on(rig.device.clone()).unwrap();
    let elsewhere = rig.elsewhere();
    let meeting = Meeting::of(3);
    let events = [&rig.queue, &other, &elsewhere].map(|queue| meets(queue, &meeting, |_| {}));
    wait(Event::all(events)).unwrap();
}

#[test]
fn invariant_02_rendezvous_in_one_out_of_order_queue() {
    let rig = Rig::new();
    let meeting = Meeting::of(4);
    let buffers: Vec<_> = (0..4).map(|_| Buffer::<u32>::new(8)).collect();
    let events: Vec<_> = buffers
        .iter()
        .map(|x| {
            meets(&rig.queue, &meeting, |cg| {
                cg.read_write(x);
            })
        })
        .collect();
    wait(Event::all(events)).unwrap();
}

#[test]
fn invariant_02_rendezvous_of_two_readers() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    drop(bump(&rig.queue, &x));
    let meeting = Meeting::of(3);
    let elsewhere = rig.elsewhere();
    let events = [&rig.queue, &rig.queue, &elsewhere].map(|queue| {
        meets(queue, &meeting, |cg| {
            cg.read(&x);
        })
    });
    wait(Event::all(events)).unwrap();
}

#[test]
fn invariant_02_rendezvous_of_two_ranges_of_one_buffer() {
    let rig = Rig::new();
    let line = Buffer::from(vec![1_u32; 100]);
    let grid = Buffer::<u32, 2>::new([10, 10]);
    let meeting = Meeting::of(2);
    let events = [0..37, 37..100].map(|range| {
        meets(&rig.queue, &meeting, |cg| {
            cg.read_write(&line.range(range.clone()));
        })
    });
    wait(Event::all(events)).unwrap();
    let meeting = Meeting::of(2);
    let events = [(0..10, 0..3), (0..10, 3..10)].map(|range| {
        meets(&rig.queue, &meeting, |cg| {
            cg.overwrite(&grid.range(range.clone()));
        })
    });
    wait(Event::all(events)).unwrap();
}

#[test]
fn invariant_02_an_unrelated_group_runs_during_a_held_guard() {
    let rig = Rig::with_lanes(2);
    let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
    wait(bump(&rig.queue, &x)).unwrap();
    let guard = wait(x.host_write()).unwrap();
    let behind: Vec<_> = (0..10).map(|_| bump(&rig.queue, &x)).collect();
    for queue in [&rig.queue, &rig.elsewhere()] {
        wait(bump(queue, &y)).unwrap();
    }
    assert!(behind.iter().all(|e| !e.has_ended()));
    drop(guard);
    wait(Event::all(behind)).unwrap();
}

#[test]
fn invariant_02_host_tasks_wait_for_each_other_and_for_groups() {
    let rig = Rig::new();
    let (send, receive) = futures::channel::oneshot::channel::<u32>();
    let first = rig.queue.submit(|cg| {
        cg.host_task(async move |_| {
            assert_eq!(receive.await?, 5);
            Ok(())
        })
    });
    let queue = rig.queue.clone();
    let second = rig.queue.submit(|cg| {
        cg.host_task(async move |_| {
            queue.submit(|_| Ok(()))?.await?;
            send.send(5).map_err(|_| "nobody waits")?;
            Ok(())
        })
    });
    wait(Event::all([first.unwrap(), second.unwrap()])).unwrap();
}
