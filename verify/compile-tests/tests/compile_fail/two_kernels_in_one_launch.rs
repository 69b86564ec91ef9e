//! The blocks of one launch cannot be run by two kernels, one of which reads what the other writes.

use std::sync::Arc;

#[allow(unused_imports)]
use windlass::image::HostBody;
use windlass::image::{Block, Kernel, KernelImage};

#[windlass::kernel]
fn reads(x: &[u32], y: &mut [u32]) {
    let i = global_id(0);
    y[i] = x[i];
}

#[windlass::kernel]
fn writes(x: &mut [u32], y: &[u32]) {
    let i = global_id(0);
    x[i] = y[i];
}

fn code(kernel: &Kernel) -> &KernelImage {
    kernel.images().iter().find(|image| image.body().is_some()).unwrap()
}

fn main() {
    KernelImage::host(Arc::new(move |block: Block<'_>| match block.items().start {
        0 => code(reads::kernel()).body().unwrap().run(block),
        _ => code(writes::kernel()).body().unwrap().run(block),
    }));
}
