//! Three devices of three backends, one buffer, no explicit copy and no explicit dependency.
//! The runtime moves only what is stale, and orders the groups as they were submitted.
//!
//! Kernels are given in each device's own language. Where a driver is missing, a second context of the host, with
//! memory of its own, takes its device's place: the program says so, and the result is the same.

use std::sync::Arc;

use windlass::kernel::{Block, Kernel, KernelImage, Slot, SlotAccess, Span, View, ViewMut};
use windlass::prelude::*;
use windlass::{KernelCall, Result};

const LEN: usize = 1 << 16;

/// `v[i] *= k`, as an OpenCL, a Vulkan and a host device want it.
fn scale_kernel() -> Kernel {
    const OPENCL: &str = "
        __kernel void scale(__global float *v, ulong v_at, ulong v_len, float k) {
            size_t i = get_global_id(0);
            if (i < v_len) v[v_at + i] *= k;
        }";
    const WGSL: &str = "
        struct Launch { v_at: u32, v_len: u32, slices: u32, rows: u32, columns: u32, k: f32 }
        @group(0) @binding(0) var<storage, read_write> v: array<f32>;
        @group(0) @binding(1) var<uniform> launch: Launch;
        @compute @workgroup_size(64)
        fn scale(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                 @builtin(local_invocation_id) local: vec3<u32>) {
            let i = (group.y * groups.x + group.x) * 64u + local.x;
            if (i < launch.v_len) { v[launch.v_at + i] *= launch.k; }
        }";
    let host = |block: Block, spans: &[Span]| {
        // SAFETY: both slots are of `f32`, the runtime keeps their memory for the launch, and all of the launch's
        // blocks reach it through views like these.
        let (v, k) = unsafe { (ViewMut::<f32>::new(spans[0]), View::<f32>::new(spans[1])) };
        block.items.for_each(|i| v.set(i, v.get(i) * k.get(0)));
    };
    Kernel::new(
        "scale",
        [Slot::Buffer(SlotAccess::ReadWrite), Slot::Value(size_of::<f32>())],
        [
            // SAFETY: the kernel compares its index with the length, and writes only through `v`.
            unsafe { KernelImage::opencl_c("scale", OPENCL) },
            KernelImage::wgsl("scale", WGSL),
            KernelImage::host(Arc::new(host)),
        ],
    )
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
    let scale = scale_kernel();

    let data = Buffer::from((0..LEN).map(|i| i as f32).collect::<Vec<_>>());
    let (left, right) = (data.range(..LEN / 2), data.range(LEN / 2..));
    let sums = Buffer::<f32>::new(LEN / 2);

    // The halves do not overlap: these two run at the same time, on two devices.
    opencl.submit(|cg| {
        let v = cg.read_write(&left);
        cg.parallel_for(LEN / 2, KernelCall::new(&scale).buffer(v).value(2.0_f32))
    })?;
    vulkan.submit(|cg| {
        let v = cg.read_write(&right);
        cg.parallel_for(LEN / 2, KernelCall::new(&scale).buffer(v).value(3.0_f32))
    })?;

    // Needs both halves, on a third device in a third context.
    host.submit(|cg| {
        let args = (cg.read(&data), cg.write(&sums));
        cg.host_for(LEN / 2, args, |item, (v, out)| {
            let i = item.id(0);
            out.set(i, v.get(2 * i) + v.get(2 * i + 1));
        })
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
