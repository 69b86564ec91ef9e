//! Kernels that `#[kernel]` did not make: one in WGSL, one in OpenCL C as somebody else wrote it, and closures for the host.
//! `cargo run --release --example native_kernels`
#![allow(
    unsafe_code,
    reason = "nobody checks a text in OpenCL C, so who passes it has to promise that it is right"
)]

use std::sync::Arc;

use windlass::image::{Block, Kernel, KernelImage, Parameter, Slot, SlotAccess, View, ViewMut, Width};
use windlass::prelude::*;
use windlass::{KernelCall, Result};

const LEN: usize = 1000;

/// The block says where arguments are: for each buffer where it begins and how long it is, then how large the launch is, then values.
/// `KernelImage::wgsl` says it in full. Every access is checked, so a mistake gives wrong numbers and nothing worse.
const WGSL: &str = "
struct Args { x_at: u32, x_len: u32, y_at: u32, y_len: u32, n0: u32, n1: u32, n2: u32, a: f32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<uniform> args: Args;

@compute @workgroup_size(64)
fn saxpy(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {
    let i = (group.y * groups.x + group.x) * 64u + local.x;
    if i < args.n0 && i < args.y_len {
        y[args.y_at + i] = args.a * x[args.x_at + i] + y[args.y_at + i];
    }
}";

/// From a library that has never heard of Windlass: `with_parameters` says what each of its parameters is given.
const OPENCL_C: &str = "
__kernel void saxpy(uint n, float a, __global const float *x, __global float *y) {
    size_t i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}";

/// Plain Rust: called for each block of the launch, by several threads.
fn saxpy_here(block: Block<'_>) {
    let [x, y, a] = block.spans() else { unreachable!("the kernel has three slots") };
    let (x, y, a) = (View::<f32>::new(*x), ViewMut::<f32>::new(*y), View::<f32>::new(*a).get(0));
    block.items().for_each(|i| y.set(i, a * x.get(i) + y.get(i)));
}

/// One kernel in three forms; each device takes the one that suits it best.
fn saxpy() -> Kernel {
    // SAFETY: its indices are below `n`, which is the length of `y`, and `x` is as long.
    let text = unsafe { KernelImage::opencl_c("saxpy", OPENCL_C) }.with_parameters([
        Parameter::Len(1, Width::W32),
        Parameter::Slot(2),
        Parameter::Start(0),
        Parameter::Start(1),
    ]);
    let slots = [Slot::Buffer(SlotAccess::Read), Slot::Buffer(SlotAccess::ReadWrite), Slot::Value(4)];
    let forms = [text, KernelImage::wgsl("saxpy", WGSL), KernelImage::host(Arc::new(saxpy_here))];
    Kernel::new("saxpy", slots, forms)
}

#[tokio::main]
async fn main() -> Result<()> {
    let saxpy = saxpy();
    let (x, y) = (Buffer::from(vec![2.0_f32; LEN]), Buffer::from(vec![1.0_f32; LEN]));
    let mut runs = 0;
    for device in Device::discover().await? {
        // Whether it takes one of the forms, and why not if it does not.
        if let Err(refused) = device.can_run(&saxpy) {
            println!("{device}: {refused}");
            continue;
        }
        let queue = Queue::on(device).await?;
        // Arguments are those of the slots, in their order. Nothing checks that they are of the types of the text.
        queue.submit(|cg| {
            let call = KernelCall::new(&saxpy).buffer(cg.read(&x)).buffer(cg.read_write(&y)).value(3.0_f32);
            cg.parallel_for(LEN, call)
        })?;
        runs += 1;
        assert!(y.host_read().await?.iter().all(|y| *y == 1.0 + 6.0 * runs as f32), "{}", queue.device());
        println!("{} takes {:?}", queue.device(), queue.device().info().formats);
    }
    assert!(runs > 0, "the host takes closures");

    // What does not fit the slots is refused before anything runs.
    let queue = Queue::on(Device::host()).await?;
    let refused = queue.submit(|cg| cg.parallel_for(LEN, KernelCall::new(&saxpy).buffer(cg.read(&x))));
    println!("{}", refused.expect_err("two arguments are missing"));
    println!("one kernel, {runs} devices");
    Ok(())
}
