//! Decision 40: what kernels, which count in 32 bits, cannot count is refused where it is asked for, by name.

use std::sync::Arc;

use windlass::image::{Block, Kernel, KernelImage, Slot};
use windlass::prelude::*;
use windlass::{KernelCall, NdRange};

const BEYOND: usize = (1 << 32) + 4;

#[windlass::kernel]
fn double(x: &mut [u32]) {
    let i = global_id(0);
    x[i] = x[i];
}

#[windlass::kernel]
fn shared(#[local] tile: &mut [u32], x: &mut [u32]) {
    tile[local_id(0)] = 1;
    barrier();
    x[global_id(0)] = tile[0];
}

/// The error of a submission that must have one at once, with these words.
fn refused(submitted: windlass::Result<Event>, words: &str) {
    let error = submitted.expect_err(words).to_string();
    assert!(error.contains(words), "`{error}` says `{words}`");
}

#[test]
fn d40_ranges_beyond_32_bits_are_refused() {
    let queue = Queue::blocking_on(Device::host()).unwrap();
    let x = Buffer::from(vec![1_u32; 8]);
    let over = |range| queue.submit(|cg| cg.parallel_for(range, double(cg.read_write(&x))));
    refused(over(BEYOND), "kernel `double` over a range of [4294967300]");
    let over = |range: [usize; 2]| queue.submit(|cg| cg.parallel_for(range, double(cg.read_write(&x))));
    refused(over([2, 1 << 32]), "kernel `double` over a range of [2, 4294967296]");
    refused(over([1 << 16, 1 << 16]), "kernel `double` over a range of [65536, 65536]");
    refused(over([0, 1 << 32]), "up to 4294967295 along each dimension and in all");
    let y = Buffer::<u32>::new(8);
    let range = NdRange { global: [1 << 32], local: [64] };
    let grouped = queue.submit(|cg| cg.parallel_for(range, shared(64, cg.read_write(&y))));
    refused(grouped, "kernel `shared` over a range of [4294967296]");
    // Host closures count as the host does, and are asked whether that is enough.
    let closure = queue.submit(|cg| cg.host_for([usize::MAX, 2], cg.write(&y), |_, _| {}));
    refused(closure, "more work-items than can be counted");
    assert_eq!(x.host_read().blocking_wait().unwrap()[..], [1; 8]);

    let error = double(&mut [1][..]).run_here(BEYOND).unwrap_err();
    assert!(error.to_string().contains("kernel `double` over a range of [4294967300]"), "{error}");
}

#[test]
fn d40_arguments_beyond_32_bits_are_refused() {
    let queue = Queue::blocking_on(Device::host()).unwrap();
    // It never has any memory.
    let large = Buffer::<u32>::new(BEYOND);
    let event = queue.submit(|cg| cg.parallel_for(1, double(cg.read_write(&large))));
    refused(event, "argument 0 of kernel `double` has 4294967300 elements");

    let y = Buffer::<u32>::new(8);
    let range = NdRange { global: [8], local: [8] };
    let event = queue.submit(|cg| cg.parallel_for(range, shared(BEYOND, cg.read_write(&y))));
    refused(event, "argument 0 of kernel `shared` is local memory for 4294967300 elements");
    let error = shared(usize::MAX, &mut [0_u32; 8][..]).run_here(range).unwrap_err();
    assert!(error.to_string().contains("local memory for 18446744073709551615 elements"), "{error}");

    let raw = Kernel::new("raw", [Slot::Local(8)], [KernelImage::host(Arc::new(|_: Block<'_>| {}))]);
    let event = queue.submit(|cg| cg.parallel_for(1, KernelCall::new(&raw).local::<u64>(usize::MAX)));
    refused(event, "argument 0 of kernel `raw` is local memory for 18446744073709551615 elements of `u64`");
}
