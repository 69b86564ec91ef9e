//! Addresses in kernels: a list whose nodes point at each other, made by the host and walked by a device.
//! `cargo run --release --example pointers`
//!
//! It takes memory that host and device have in common and at one address (`Aspect::Pointers`): many OpenCL devices have such, and the
//! host itself. Kernels by `#[kernel]` have no addresses, so this one is written in each device's own language.
#![allow(unsafe_code, reason = "who follows addresses has to promise that something is there")]

use std::ptr::with_exposed_provenance;
use std::sync::Arc;

use windlass::image::{Block, Kernel, KernelImage, Slot, SlotAccess, View, ViewMut};
use windlass::prelude::*;
use windlass::{KernelCall, MemoryKind, Result};

/// A node is two numbers: the address of the next one, or zero, and a value.
const OPENCL_C: &str = "
__kernel void walk(ulong first, __global ulong *sum, ulong at, ulong len) {
    ulong all = 0;
    for (ulong node = first; node != 0; node = ((__global const ulong *)(uintptr_t)node)[0])
        all += ((__global const ulong *)(uintptr_t)node)[1];
    if (get_global_id(0) < len) sum[at + get_global_id(0)] = all;
}";

fn walk_here(block: Block<'_>) {
    let (mut node, sum) = (View::<u64>::new(block.spans()[0]).get(0), ViewMut::<u64>::new(block.spans()[1]));
    let mut all = 0;
    while node != 0 {
        // SAFETY: the call names the buffer that all of the nodes are in, so it is there, and nobody writes to it.
        let [next, value] = unsafe { *with_exposed_provenance::<[u64; 2]>(node as usize) };
        (node, all) = (next, all + value);
    }
    block.items().for_each(|i| sum.set(i, all));
}

/// A value, and a buffer: what the device's own text takes for each is said by `KernelImage::opencl_c`.
fn walk() -> Kernel {
    // SAFETY: it writes inside of its range, and reads what the call names.
    let text = unsafe { KernelImage::opencl_c("walk", OPENCL_C) };
    let slots = [Slot::Value(8), Slot::Buffer(SlotAccess::ReadWrite)];
    Kernel::new("walk", slots, [text, KernelImage::host(Arc::new(walk_here))])
}

#[tokio::main]
async fn main() -> Result<()> {
    let walk = walk();
    // The best device that has addresses and takes one of the kernel's forms.
    let queue =
        Queue::builder().select(Selector::new().aspect(Aspect::Pointers).kernel(&walk)).build().await?;
    println!("on {}", queue.device());

    // A buffer that stays in memory of both, so its address stays the same.
    let nodes = queue.buffer_in::<u64, 1>(MemoryKind::Shared, 2 * 100).await?;
    let start = nodes.device_address().expect("such memory has addresses");
    let mut pairs = nodes.host_write().await?;
    for i in 0..100_u64 {
        // Each points at the one before it.
        pairs[2 * i as usize] = if i == 0 { 0 } else { start + 16 * (i - 1) };
        pairs[2 * i as usize + 1] = i;
    }
    drop(pairs);

    let sum = Buffer::<u64>::new(1);
    let submit = || {
        queue.submit(|cg| {
            let call = KernelCall::new(&walk).value(start + 16 * 99).buffer(cg.overwrite(&sum));
            // What the kernel finds by itself: it is ordered and kept like an argument.
            cg.parallel_for(1, call.reaching(cg.read(&nodes)))
        })
    };
    submit()?;
    assert_eq!(sum.host_read().await?[0], (0..100).sum());

    // The host cuts the list short, behind that group, and the next one sees it.
    nodes.host_write().await?[2 * 90] = 0;
    submit()?;
    assert_eq!(sum.host_read().await?[0], (90..100).sum());

    // A buffer that may go anywhere has no address.
    assert_eq!(sum.device_address(), None);
    println!("the list was walked twice");
    Ok(())
}
