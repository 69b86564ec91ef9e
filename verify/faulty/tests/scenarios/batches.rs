//! Batches whose device goes away: nobody waits for ever, and nobody gets another's answer.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use windlass::batch::{Batch, Call};
use windlass::bytes::Bytes;
use windlass::prelude::*;
use windlass_faulty::{Faulty, FaultyBuilder};

use crate::rig::{Rig, poll, single};

fn copied(queue: &Queue) -> Batch<u32, u32> {
    Batch::builder(queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())))
}

/// What a call that must have been answered by now was answered.
#[track_caller]
fn answered<F: Future + Unpin>(mut call: F) -> F::Output {
    match poll(Pin::new(&mut call)) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("nobody answers"),
    }
}

/// The same of an item of one element.
#[track_caller]
fn answer(call: Call<u32, u32>) -> windlass::Result<u32> {
    answered(call).map(|answer| answer[0])
}

/// Some are in a batch on the device and the rest in line, at every moment of the first batches.
#[test]
fn a_device_that_is_lost_under_a_batch_answers_everybody() {
    lose_under_a_batch(Faulty::builder);
}

/// The same where what is gathered goes to the device out of memory that its driver has pinned.
#[test]
fn a_device_that_is_lost_with_what_was_gathered_for_it_answers_everybody() {
    lose_under_a_batch(|| Faulty::builder().slow_pageable_copies());
}

/// The first batch of all has been answered; what it needed is kept for the next ones, so that no copy of theirs is made by the host.
fn lose_under_a_batch(devices: fn() -> FaultyBuilder) {
    let (mut answered, mut lost) = (0, 0);
    for steps in 0..24 {
        let rig = Rig::new(devices().lanes(2));
        let queue = rig.queue(0);
        let batch = copied(&queue);
        let first = batch.call([7]);
        rig.settle();
        assert_eq!(answer(first).unwrap(), 7);
        let staged = rig.runtime.stats().staged_transfers;
        let calls: Vec<_> = (0..64).map(|i| batch.call([i])).collect();
        for _ in 0..steps {
            rig.control.step();
            rig.runtime.run_until_stalled();
        }
        rig.control.lose_devices("pulled out");
        rig.settle();
        for (i, call) in calls.into_iter().enumerate() {
            match answer(call) {
                Ok(value) => {
                    assert_eq!(value, i as u32, "after {steps} steps");
                    answered += 1;
                }
                Err(error) => {
                    assert!(error.root().is_device_lost(), "after {steps} steps: {error}");
                    lost += 1;
                }
            }
        }
        let stats = batch.stats();
        assert_eq!((stats.waiting, stats.in_flight), (0, 0), "after {steps} steps: {stats:?}");
        assert_eq!(rig.runtime.stats().staged_transfers, staged, "after {steps} steps");
        drop((batch, queue));
        rig.end();
    }
    assert!(answered > 0 && lost > 0, "{answered} answered and {lost} lost: neither tells anything alone");
}

/// Where copies of what the driver has not pinned would block, the second batch is gathered in the memory through which the first one went:
/// nothing is copied a second time on the host. The memory serves one batch after the other.
#[test]
fn items_are_gathered_where_the_copy_to_the_device_begins() {
    let rig = Rig::new(Faulty::builder().slow_pageable_copies());
    let queue = rig.queue(0);
    let batch = copied(&queue);
    let mut staged = Vec::new();
    for round in 0..4 {
        let before = rig.runtime.stats();
        let calls: Vec<_> = (0..16).map(|i| batch.call(vec![100 * round + i; 1 + i as usize])).collect();
        rig.settle();
        for (i, call) in calls.into_iter().enumerate() {
            let answer = answered(call);
            assert_eq!(answer.unwrap().to_vec(), vec![100 * round + i as u32; 1 + i]);
        }
        let after = rig.runtime.stats();
        staged.push((after.staged_transfers - before.staged_transfers, after.staging_bytes));
    }
    // Of one class: for what is gathered and for what is answered.
    const KEPT: usize = 2 * 4096;
    assert_eq!(staged, [(1, KEPT), (0, KEPT), (0, KEPT), (0, KEPT)]);
    assert_eq!(rig.control.audit().foreign_copies, 0);
    drop((batch, queue));
    rig.end();
}

/// What a program says of an item may panic when half of a batch has been gathered. The memory goes back, and the other items have their answers.
#[test]
fn memory_that_is_half_full_goes_back() {
    let rig = Rig::new(Faulty::builder().slow_pageable_copies());
    let queue = rig.queue(0);
    let batch = Batch::<u32, u32>::builder(&queue)
        .answers_of(|len| if len == 5 { panic!("five") } else { len })
        .build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    let first = batch.call([7]);
    rig.settle();
    assert_eq!(answer(first).unwrap(), 7);
    let kept = rig.runtime.stats().staging_bytes;
    let calls: Vec<_> = (1..10).map(|len| batch.call(vec![len; len as usize])).collect();
    rig.settle();
    for (len, call) in (1..10).zip(calls) {
        let answer = answered(call);
        match len {
            5 => assert!(answer.unwrap_err().to_string().contains("five")),
            _ => assert_eq!(answer.unwrap().to_vec(), vec![len; len as usize]),
        }
    }
    assert_eq!(rig.runtime.stats().staging_bytes, kept);
    drop((batch, queue));
    rig.end();
}

/// Bytes of any number and alignment, of vectors and of what comes from the network; and the program keeps what was gathered, and works on
/// with it when the batch is over.
#[test]
fn bytes_that_were_gathered_are_a_buffer_like_any_other() {
    let rig = Rig::new(Faulty::builder().slow_pageable_copies());
    let queue = rig.queue(0);
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = kept.clone();
    let batch = Batch::<u8, u8>::builder(&queue).build(move |cg, batch| {
        keeps.lock().unwrap().push(batch.input().clone());
        cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    });
    for round in 0..3_u8 {
        let items: Vec<Vec<u8>> = (1..8).map(|len| vec![10 * round + len; len as usize]).collect();
        let calls: Vec<_> = items
            .iter()
            .map(|item| match item.len() % 2 {
                0 => batch.call(item.clone()),
                _ => batch.call(Bytes::from([&[0], &item[..]].concat()).slice(1..)),
            })
            .collect();
        rig.settle();
        for (item, call) in items.iter().zip(calls) {
            let answer = answered(call);
            assert_eq!(answer.unwrap()[..], item[..]);
        }
    }
    assert_eq!(rig.runtime.stats().staged_transfers, 1, "only the first batch went through staging");
    let inputs = std::mem::take(&mut *kept.lock().unwrap());
    let mut all = Vec::new();
    for input in inputs {
        let mut written = rig.finish(input.host_write()).unwrap();
        written.iter_mut().for_each(|byte| *byte += 100);
        drop(written);
        all.extend(rig.finish(input.into_vec()).unwrap());
    }
    let right =
        (0..3).flat_map(|round| (1..8_u8).flat_map(move |len| vec![100 + 10 * round + len; len as usize]));
    assert_eq!(all, right.collect::<Vec<u8>>());
    drop((batch, queue));
    rig.end();
}

/// Who comes later is not left in line.
#[test]
fn a_batch_on_a_lost_device_refuses_at_once() {
    let rig = single();
    let queue = rig.queue(0);
    let batch = copied(&queue);
    let first = batch.call([1]);
    rig.settle();
    assert_eq!(answer(first).unwrap(), 1);
    rig.control.lose_devices("pulled out");
    // Nobody is told of it before the next group.
    let found_out = batch.call([2]);
    rig.settle();
    assert!(answer(found_out).unwrap_err().root().is_device_lost());
    for i in 0..3 {
        let later = batch.call([i]);
        assert!(answer(later).unwrap_err().root().is_device_lost(), "without anything going on in between");
    }
    drop((batch, queue));
    rig.end();
}
