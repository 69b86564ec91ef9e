//! A working set four times as large as the memory that the program may have of its device: all groups are submitted at once, and the
//! runtime brings data to the device in time, and away again.
//!
//! On the host itself there is nothing to bring anywhere: the program says so, and the result is the same.

use windlass::prelude::*;
use windlass::{Residency, Result};

/// Buffers, and elements in each: 64 MiB in all.
const BUFFERS: usize = 32;
const LEN: usize = 1 << 19;
const ROUNDS: u32 = 3;

#[windlass::kernel]
fn mix(k: u32, v: &mut [u32]) {
    let i = global_id(0);
    v[i] = v[i] * 31 + k;
}

/// A queue on the best device that has memory of its own; without one, on the host.
async fn queue(runtime: &Runtime) -> Result<Queue> {
    for backend in ["opencl", "wgpu"] {
        match Queue::builder().runtime(runtime).select(Selector::backend(backend)).build().await {
            Err(missing) if missing.is_unavailable() => println!("{backend}: {missing}"),
            found => return found,
        }
    }
    println!("there is no device here but the host, whose memory is the program's own");
    Queue::builder().device(runtime.host()?).build().await
}

#[tokio::main]
async fn main() -> Result<()> {
    let runtime = Runtime::builder()
        // What the program may have of each device, and what happens beyond it.
        .device_memory(16 << 20)
        .residency(Residency::Evictable)
        .build();
    let queue = queue(&runtime).await?;
    let data: Vec<Buffer<u32>> = (0..BUFFERS).map(|at| Buffer::from(vec![at as u32; LEN])).collect();
    for k in 0..ROUNDS {
        for v in &data {
            queue.submit(|cg| cg.parallel_for(LEN, mix(k, cg.read_write(v))))?;
        }
    }
    for (at, v) in data.iter().enumerate() {
        let expected = (0..ROUNDS).fold(at as u32, |x, k| x.wrapping_mul(31).wrapping_add(k));
        assert!(v.host_read().await?.iter().all(|x| *x == expected), "buffer {at}");
    }
    let stats = runtime.stats();
    println!(
        "{} MiB on {}: {} MiB moved, {} times memory was emptied for others; all is as it should be",
        (BUFFERS * LEN * 4) >> 20,
        queue.device(),
        stats.bytes_moved >> 20,
        stats.evictions
    );
    Ok(())
}
