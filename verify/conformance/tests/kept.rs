//! Devices' memory that buffers have let go of and others are given: nothing is allocated in steady state, nobody sees what was there
//! before, and what is not used any more is given back.

#[path = "drivers/find.rs"]
mod find;

use std::time::{Duration, Instant};

use windlass::prelude::*;
use windlass_faulty::{Faulty, Memory};

#[windlass::kernels]
mod kernels {
    #[kernel]
    pub fn plus_one(x: &[u32], y: &mut [u32]) {
        let i = global_id(0);
        y[i] = x[i] + 1;
    }

    /// Leaves all but every third element as it is.
    #[kernel]
    pub fn thirds(y: &mut [u32]) {
        let i = global_id(0);
        if i % 3 == 0 {
            y[i] += 7;
        }
    }
}

/// A runtime for each driver that is here, with a queue on it. Where there is none this says so, and in CI it is a failure.
fn queues() -> Vec<Queue> {
    let (one, other) = (Runtime::new(), Runtime::new());
    let devices = find::opencl(&one).into_iter().chain(find::wgpu(&other));
    devices.map(|device| Queue::builder().device(device).blocking_build().unwrap()).collect()
}

fn from_the_driver(queue: &Queue) -> u64 {
    let stats = queue.runtime().stats();
    stats.allocations - stats.allocations_reused
}

/// Each round has buffers of its own, some groups deep. Seen to fail where what was kept went to nobody.
#[test]
fn groups_with_fresh_buffers_come_to_allocate_nothing() {
    for queue in queues() {
        let rounds = |count: u32| {
            let mut latest = Vec::new();
            for round in 0..count {
                let x = Buffer::from(vec![round; 5000]);
                let (y, z) = (Buffer::<u32>::new(5000), Buffer::<u32>::new(4990));
                queue
                    .submit(|cg| cg.parallel_for(5000, kernels::plus_one(cg.read(&x), cg.overwrite(&y))))
                    .unwrap();
                let last = queue
                    .submit(|cg| cg.parallel_for(4990, kernels::plus_one(cg.read(&y), cg.overwrite(&z))))
                    .unwrap();
                latest.push(last);
                if latest.len() == 4 {
                    latest.remove(0).blocking_wait().unwrap();
                }
                if round % 50 == 49 {
                    assert_eq!(z.host_read().blocking_wait().unwrap()[4989], round + 2);
                }
            }
        };
        rounds(100);
        // What its end has left comes back a little later, and so a few more may be needed once.
        let before = from_the_driver(&queue);
        rounds(1000);
        let made = from_the_driver(&queue) - before;
        let name = queue.device();
        // Host memory of the buffers that are made of vectors, and read, is not the device's.
        let stats = queue.runtime().stats();
        assert!(stats.allocations_reused > 1000, "on {name}: {stats:?}");
        println!(
            "on {name}: {made} allocations in 1000 rounds of three buffers, {} reused",
            stats.allocations_reused
        );
        let given_up = Instant::now() + Duration::from_secs(30);
        while queue.runtime().stats().bytes_kept > 0 {
            assert!(Instant::now() < given_up, "on {name}: {:?}", queue.runtime().stats());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// What nobody has written reads as zeros, in memory that was somebody else's as in fresh memory. Seen to fail where a kernel was given
/// what the last buffer had left.
#[test]
fn nobody_sees_what_was_there_before() {
    for queue in queues() {
        let name = queue.device().to_string();
        // Of the larger size more is to be cleared than is done at once.
        for len in [1000, 100_000] {
            for round in 0..20 {
                let secret = Buffer::<u32>::new(len);
                let written = queue.submit(|cg| cg.fill(&cg.overwrite(&secret), 0xdead_beef)).unwrap();
                written.blocking_wait().unwrap();
                drop(secret);
                let fresh = Buffer::<u32>::new(len);
                queue.submit(|cg| cg.parallel_for(len, kernels::thirds(cg.read_write(&fresh)))).unwrap();
                let seen = fresh.host_read().blocking_wait().unwrap();
                let is_right = seen.iter().enumerate().all(|(i, v)| *v == if i % 3 == 0 { 7 } else { 0 });
                assert!(is_right, "on {name}, {len} elements, round {round}: {:x?}", &seen[..6]);
                drop(seen);
                let part = Buffer::<u32>::new(len);
                queue.submit(|cg| cg.fill(&cg.write(&part.range(..10)), 5)).unwrap();
                let seen = part.host_read().blocking_wait().unwrap();
                assert!(
                    seen[..10].iter().all(|v| *v == 5) && seen[10..].iter().all(|v| *v == 0),
                    "on {name}"
                );
            }
        }
        assert!(queue.runtime().stats().allocations_reused > 20, "on {name}: {:?}", queue.runtime().stats());
    }
}

/// Where there is no room for another size, what is kept goes; also what another context of the device keeps. Seen to fail where only the
/// context that has no room let go of it.
#[test]
fn what_is_kept_makes_room() {
    let faulty = Faulty::builder().device(Memory::Own).auto().keeps_freed().build();
    let control = faulty.control();
    let runtime = Runtime::builder().backend(faulty).build();
    let devices = futures_lite::future::block_on(runtime.devices()).unwrap();
    let device = devices.into_iter().find(|device| device.backend().as_str() == "faulty").unwrap();
    let other = Context::blocking_open(std::slice::from_ref(&device)).unwrap();
    let one = Queue::builder().device(device.clone()).blocking_build().unwrap();
    let two = Queue::builder().device(device).context(&other).blocking_build().unwrap();
    let used_on = |queue: &Queue, len: usize| {
        let buffer = Buffer::<u32>::new(len);
        queue.submit(|cg| cg.fill(&cg.overwrite(&buffer), 3)).and_then(|event| event.blocking_wait())
    };
    let is_kept = || runtime.stats().bytes_kept > 0;
    let given_up = Instant::now() + Duration::from_secs(30);
    let mut rounds = 0;
    // It is kept for a second at least, but this thread may be kept from running for longer.
    while rounds < 2 {
        assert!(Instant::now() < given_up, "{:?}", runtime.stats());
        control.cap_memory(None);
        used_on(&one, 25_000).unwrap();
        control.cap_memory(Some(control.audit().bytes + 50_000));
        let was_kept = is_kept();
        used_on([&one, &two][rounds], 30_000).unwrap();
        rounds += usize::from(was_kept);
    }
    assert_eq!(control.breaches(), Vec::<String>::new());
}
