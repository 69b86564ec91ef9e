//! Three devices of three backends, one buffer, no explicit copy and no explicit dependency.
//! The runtime moves only what is stale, and orders the groups as they were submitted.
//!
//! Where a driver is missing, a second context of the host, with memory of its own, takes its device's place: the
//! program says so, and the result is the same.

use windlass::Result;
use windlass::prelude::*;

const LEN: usize = 1 << 16;

#[windlass::kernel]
fn scale(k: f32, v: &mut [f32]) {
    let i = global_id(0);
    if i < v.len() {
        v[i] = k * v[i];
    }
}

#[windlass::kernel]
fn sum_pairs(v: &[f32], out: &mut [f32]) {
    let i = global_id(0);
    if i < out.len() {
        out[i] = v[2 * i] + v[2 * i + 1];
    }
}

/// A queue on the best device of this backend; without one, on a host context of its own.
async fn queue_on(backend: &str) -> Result<Queue> {
    match Queue::builder().select(Selector::backend(backend)).build().await {
        Ok(queue) => {
            println!("{backend:>8}: {}", queue.device());
            Ok(queue)
        }
        Err(missing) if missing.is_unavailable() => {
            println!("{backend:>8}: {missing}");
            println!("{:>8}  a second context of the host takes its place", "");
            let context = Context::open(&[Device::host()]).await?;
            Queue::builder().context(&context).build().await
        }
        Err(error) => Err(error),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let opencl = queue_on("opencl").await?;
    let vulkan = queue_on("wgpu").await?;
    let host = Queue::builder().device(Device::host()).build().await?;

    let data = Buffer::from((0..LEN).map(|i| i as f32).collect::<Vec<_>>());
    let (left, right) = (data.range(..LEN / 2), data.range(LEN / 2..));
    let sums = Buffer::<f32>::new(LEN / 2);

    // The halves do not overlap: these two run at the same time, on two devices.
    opencl.submit(|cg| {
        let v = cg.read_write(&left);
        cg.parallel_for(LEN / 2, scale(2.0, v))
    })?;
    vulkan.submit(|cg| {
        let v = cg.read_write(&right);
        cg.parallel_for(LEN / 2, scale(3.0, v))
    })?;

    // Needs both halves, on a third device in a third context.
    host.submit(|cg| {
        let (v, out) = (cg.read(&data), cg.overwrite(&sums));
        cg.parallel_for(LEN / 2, sum_pairs(v, out))
    })?;

    // An async host task is a command group too: it may await the network or a disk while the devices go on.
    host.submit(|cg| {
        let sums = cg.read(&sums);
        cg.host_task(async move |h| {
            let sums = h.view(&sums)?;
            tokio::task::yield_now().await;
            let wrong = (0..LEN / 2).find(|&i| {
                let k = if i < LEN / 4 { 2.0 } else { 3.0 };
                sums[i] != k * (2 * i) as f32 + k * (2 * i + 1) as f32
            });
            match wrong {
                None => Ok(()),
                Some(i) => Err(format!("sum {i} is {}", sums[i]).into()),
            }
        })
    })?
    .await?;

    let stats = Runtime::global().stats();
    println!("all sums are right; {} transfers moved {} bytes", stats.transfers, stats.bytes_moved);
    // Each half goes to its device and comes back.
    assert_eq!(stats.bytes_moved, 2 * (LEN * size_of::<f32>()) as u64);
    Ok(())
}
