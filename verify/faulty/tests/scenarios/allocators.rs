//! An allocator of the program's for host memory, beside devices with memories of their own.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use windlass::prelude::*;
use windlass::{HostAllocator, Residency};
use windlass_faulty::{Faulty, FaultyBuilder};

use crate::rig::{Rig, outcome, poll, set, step, stepped};

/// Elements of a buffer for which the allocator is asked.
const LEN: usize = 1 << 15;
const BYTES: usize = 4 * LEN;

/// How often it was asked, how many blocks are out, and how many may be.
#[derive(Default)]
struct Books {
    asked: AtomicUsize,
    out: AtomicUsize,
    most: AtomicUsize,
}

struct Block(Vec<u8>, usize, Arc<Books>);

impl AsMut<[u8]> for Block {
    fn as_mut(&mut self) -> &mut [u8] {
        let ahead = self.0.as_ptr().align_offset(64);
        &mut self.0[ahead..][..self.1]
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.2.out.fetch_sub(1, SeqCst);
    }
}

fn rig(builder: FaultyBuilder, residency: Residency, most: usize) -> (Rig, Arc<Books>) {
    let books = Arc::<Books>::default();
    books.most.store(most, SeqCst);
    let of = books.clone();
    let allocator = HostAllocator::new("blocks", move |asked| {
        of.asked.fetch_add(1, SeqCst);
        let more = |out| (out < of.most.load(SeqCst)).then_some(out + 1);
        of.out.fetch_update(SeqCst, SeqCst, more).ok()?;
        Some(Block(vec![0xcd; asked.size() + 64], asked.size(), of.clone()))
    });
    let rig = Rig::with(builder, |runtime| runtime.residency(residency).host_allocator(allocator));
    (rig, books)
}

/// The end, and everything is given back.
fn end(rig: Rig, books: &Books) {
    rig.end();
    assert_eq!(books.out.load(SeqCst), 0);
}

fn sequence(k: u32) -> Vec<u32> {
    (0..LEN as u32).map(|i| i * 7 + k).collect()
}

/// What a device has is not lost where the host has no memory for it, and comes as soon as it has.
#[test]
fn who_has_no_memory_on_the_host_has_it_on_the_device() {
    let (rig, books) = rig(Faulty::builder().lanes(1), Residency::Kept, 0);
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(LEN);
    outcome_of(&rig, &set(&queue, &x, 3));
    for _ in 0..2 {
        let error = rig.finish(x.host_read()).expect_err("there is none");
        assert!(error.is_out_of_memory() && error.to_string().contains("`blocks`"), "{error}");
        outcome_of(&rig, &step(&queue, &x, 5));
    }
    books.most.store(1, SeqCst);
    let expected: Vec<u32> = sequence(3).into_iter().map(|v| stepped(v, [5, 5])).collect();
    assert_eq!(rig.values(&x), expected);
    drop((queue, x));
    end(rig, &books);
}

#[track_caller]
fn outcome_of(rig: &Rig, event: &Event) {
    rig.settle();
    outcome(event).unwrap();
}

/// Foreign code that may block is called where the runtime's own futures run, or others that may block: not where a program polls, submits
/// or drops.
#[test]
fn the_allocator_is_not_called_in_a_poll_or_a_submission() {
    let (rig, books) = rig(Faulty::builder().lanes(1), Residency::Kept, 9);
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(LEN);
    outcome_of(&rig, &set(&queue, &x, 3));
    for overwrites in [true, false] {
        let asked = books.asked.load(SeqCst);
        let y = Buffer::<u32>::new(LEN);
        drop(set(&queue, &y, 1));
        rig.settle();
        let (mut writing, mut reading) = (pin!(y.host_overwrite()), pin!(y.host_read()));
        match overwrites {
            true => assert!(poll(writing.as_mut()).is_pending()),
            false => assert!(poll(reading.as_mut()).is_pending()),
        }
        assert_eq!(books.asked.load(SeqCst), asked);
        rig.settle();
        match overwrites {
            true => rig.finish(writing).unwrap().fill(1),
            false => assert_eq!(rig.finish(reading).unwrap()[..], sequence(1)[..]),
        }
        assert_eq!(books.asked.load(SeqCst), asked + 1);
    }
    drop((queue, x));
    end(rig, &books);
}

/// What a driver pins is the driver's. Where it has no more, the allocator's stands in, which is not pinned.
#[test]
fn pinned_memory_is_the_drivers() {
    let (rig, books) = rig(Faulty::builder().like_cuda(), Residency::Kept, 9);
    let queue = rig.queue(0);
    let x = Buffer::<u32>::new(LEN);
    drop(set(&queue, &x, 1));
    assert_eq!(rig.values(&x), sequence(1));
    assert_eq!(books.asked.load(SeqCst), 0);
    rig.control.no_staging(true);
    let y = Buffer::<u32>::new(LEN);
    drop(set(&queue, &y.range(1..), 1));
    let values = rig.values(&y);
    assert_eq!((values[0], &values[1..]), (0, &sequence(1)[..LEN - 1]));
    assert_eq!(books.asked.load(SeqCst), 1);
    rig.control.no_staging(false);
    rig.finish(y.host_write()).unwrap()[0] = 9;
    drop(step(&queue, &y, 2));
    assert_eq!(rig.values(&y)[0], stepped(9, [2]));
    let audit = rig.control.audit();
    assert_eq!(audit.foreign_copies, 1, "the one that was to come to pinned memory; later ones are staged");
    drop((queue, x, y));
    end(rig, &books);
}

/// What makes room on a full device goes to the allocator's memory. If there is none, the group that lacks room fails, and what was to
/// make room stays where it is.
#[test]
fn what_makes_room_comes_to_the_allocators_memory() {
    for most in [9, 0] {
        let (rig, books) = rig(Faulty::builder().lanes(1), Residency::Evictable, most);
        let queue = rig.queue(0);
        rig.control.cap_memory(Some(rig.control.audit().bytes + 2 * BYTES + 100));
        let buffers: Vec<Buffer<u32>> = (0..4).map(|_| Buffer::new(LEN)).collect();
        let mut failed = Vec::new();
        for (k, x) in buffers.iter().enumerate() {
            let event = set(&queue, x, k as u32);
            rig.settle();
            failed.push(outcome(&event).is_err_and(|error| error.is_out_of_memory()));
        }
        assert_eq!(failed, [false, false, most == 0, most == 0]);
        assert!(books.asked.load(SeqCst) > 0);
        books.most.store(9, SeqCst);
        for (k, x) in buffers.iter().enumerate().filter(|(k, _)| !failed[*k]) {
            assert_eq!(rig.values(x), sequence(k as u32), "buffer {k}");
        }
        drop((queue, buffers));
        end(rig, &books);
    }
}
