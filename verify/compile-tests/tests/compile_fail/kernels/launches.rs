//! Arguments that do not fit a kernel's parameters.
use windlass::prelude::*;

#[windlass::kernel]
fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    y[i] = a * x[i] + y[i];
}

#[windlass::kernel]
fn set(y: &mut [f32]) {
    y[global_id(0)] = 1.0;
}

fn launch(queue: &Queue, x: &Buffer<f32>, y: &Buffer<f32>, n: &Buffer<u32>, grid: &Buffer<f32, 2>) {
    let _ = queue.submit(|cg| cg.parallel_for(8, saxpy(1.0, x, cg.read_write(y))));
    let _ = queue.submit(|cg| cg.parallel_for(8, saxpy(1.0, cg.read(x), cg.overwrite(y))));
    let _ = queue.submit(|cg| cg.parallel_for(8, saxpy(1.0, cg.read(n), cg.read_write(y))));
    let _ = queue.submit(|cg| cg.parallel_for(8, saxpy(1.0, cg.read(grid), cg.read_write(y))));
    let _ = queue.submit(|cg| cg.parallel_for(8, saxpy(1, cg.read(x), cg.read_write(y))));
    let _ = queue.submit(|cg| cg.parallel_for(8, set(cg.read(y))));
    let _ = queue.submit(|cg| cg.parallel_for(8, set()));
}

fn main() {}
