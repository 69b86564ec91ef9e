//! The same for kernels made of images.
use windlass::KernelCall;
use windlass::image::Kernel;
use windlass::prelude::*;

fn call(kernel: &Kernel, x: &Buffer<u32>) {
    let _ = KernelCall::new(kernel).buffer(x);
}

fn main() {}
