//! Buffers that stay in one memory: shared with the host, the device's own, or the program's as it is.
//! `cargo run --release --example shared_memory`
//!
//! Most programs need none of this: other buffers go where they are used by themselves.

use windlass::prelude::*;
use windlass::{MemoryKind, Result};

#[windlass::kernel]
fn add(n: u32, v: &mut [u32]) {
    let i = global_id(0);
    if i < v.len() {
        v[i] += n;
    }
}

#[windlass::kernel]
fn count_odd(v: &[u32], count: &[AtomicU32]) {
    let i = global_id(0);
    if i < v.len() && v[i] % 2 == 1 {
        count[0].fetch_add(1, Relaxed);
    }
}

/// A device with memory that it has in common with the host; the host itself is one.
async fn queue() -> Result<Queue> {
    let queue = Queue::new().await?;
    match queue.memory_kinds().contains(&MemoryKind::Shared) {
        true => Ok(queue),
        false => {
            println!("{} shares no memory with the host, which takes its place", queue.device());
            Queue::on(Device::host()).await
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = queue().await?;
    println!("{} has memory of these kinds: {:?}", queue.device(), queue.memory_kinds());

    // Host and device have it in turns, by the usual accessors, and nothing is copied.
    let shared = queue.buffer_in::<u32, 1>(MemoryKind::Shared, 1024).await?;
    let moved = queue.runtime().stats().bytes_moved;
    shared.host_write().await?.fill(5);
    queue.submit(|cg| cg.parallel_for(1024, add(2, cg.read_write(&shared))))?;
    assert!(shared.host_read().await?.iter().all(|v| *v == 7));
    assert_eq!(queue.runtime().stats().bytes_moved, moved);

    // Memory that the program has filled, as it is, where the device uses such memory as it is aligned; elsewhere it is copied once.
    let mine = queue.import(MemoryKind::Host, (0..1024).collect::<Vec<u32>>()).await?;
    queue.submit(|cg| cg.parallel_for(1024, add(1, cg.read_write(&mine))))?;
    assert_eq!(mine.host_read().await?[1023], 1024);

    // Groups that change the same numbers at the same time, by atomic operations, and are not ordered among themselves.
    if queue.device().has(Aspect::FineMemory) {
        let count = queue.buffer_in::<u32, 1>(MemoryKind::Shared, 1).await?;
        for part in 0..4 {
            let part = mine.range(256 * part..256 * (part + 1));
            queue.submit(|cg| cg.parallel_for(256, count_odd(cg.read(&part), cg.concurrent(&count))))?;
        }
        assert_eq!(count.host_read().await?[0], 512);
    } else {
        println!("groups that change data at the same time are more than this device can do");
    }

    // The device's own memory, which the host may not reach: copies go there and back.
    match queue.memory_kinds().contains(&MemoryKind::Device) {
        true => {
            let there = queue.buffer_in::<u32, 1>(MemoryKind::Device, 1024).await?;
            let seen = Buffer::<u32>::new(1024);
            queue.submit(|cg| cg.fill(&cg.overwrite(&there), 3))?;
            queue.submit(|cg| cg.copy(&cg.read(&there), &cg.overwrite(&seen)))?;
            assert_eq!(seen.host_read().await?[..], [3; 1024]);
        }
        false => println!("it has no memory of its own"),
    }
    println!("all is where it should be");
    Ok(())
}
