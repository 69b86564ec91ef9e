//! Kernels that vectorise, beside the same loop by hand on rayon.

use std::time::Instant;

use rayon::prelude::*;
use windlass::prelude::*;

use crate::table::{Table, alternate};

const LEN: usize = 1 << 22;
const CHUNK: usize = 1 << 16;

pub(crate) fn rows(table: &mut Table, scale: usize) {
    let queue = Queue::blocking_on(Device::host()).expect("the host device is always there");
    let (a, b, c) = (vec![1.0_f32; LEN], vec![2.0_f32; LEN], vec![0.0_f32; LEN]);
    let buffers = [Buffer::from(a.clone()), Buffer::from(b.clone()), Buffer::from(c.clone())];
    let mut c = c;
    for (name, body) in [("triad", triad as fn(&mut [f32], &[f32], &[f32])), ("compute", compute)] {
        let ours = || {
            let start = Instant::now();
            let event = queue.submit(|cg| {
                let args = (cg.overwrite(&buffers[2]), cg.read(&buffers[0]), cg.read(&buffers[1]));
                cg.host_chunks(1, args, move |chunk, (c, a, b)| body(c, &a[chunk.range()], &b[chunk.range()]))
            });
            event.expect("nothing to refuse").blocking_wait().expect("nothing fails");
            start.elapsed().as_nanos() as f64
        };
        let theirs = || {
            let start = Instant::now();
            c.par_chunks_mut(CHUNK)
                .zip(a.par_chunks(CHUNK).zip(b.par_chunks(CHUNK)))
                .for_each(|(c, (a, b))| body(c, a, b));
            start.elapsed().as_nanos() as f64
        };
        let (ours, theirs) = alternate(3 * scale, ours, theirs);
        let what = format!("host kernel `{name}`, {LEN} elements, speed beside rayon");
        table.speed(&what, ours, theirs, "≥ 0.95x");
    }
    grid(table, scale, &queue, (&a, &b, &mut c));
}

/// The same as `compute` below, in rows and columns.
#[windlass::kernel]
fn computed(c: &mut View<f32, 2>, a: &View<f32, 2>, b: &View<f32, 2>) {
    let row = global_id(0);
    let column = global_id(1);
    if row < c.extent(0) && column < c.extent(1) {
        let mut x = a[row][column];
        for _ in 0..32 {
            x = x * 0.999 + b[row][column] * 0.001;
        }
        c[row][column] = x;
    }
}

fn grid(table: &mut Table, scale: usize, queue: &Queue, (a, b, c): (&[f32], &[f32], &mut [f32])) {
    let extents = [LEN / 2000, 2000];
    let whole = extents[0] * extents[1];
    let filled =
        |from: &[f32]| Buffer::with_shape(extents, from[..whole].to_vec()).expect("it has this shape");
    let buffers = [filled(a), filled(b), filled(c)];
    let ours = || {
        let start = Instant::now();
        let event = queue.submit(|cg| {
            let args = (cg.overwrite(&buffers[2]), cg.read(&buffers[0]), cg.read(&buffers[1]));
            cg.parallel_for(extents, computed(args.0, args.1, args.2))
        });
        event.expect("nothing to refuse").blocking_wait().expect("nothing fails");
        start.elapsed().as_nanos() as f64
    };
    let theirs = || {
        let start = Instant::now();
        c[..whole]
            .par_chunks_mut(CHUNK)
            .zip(a[..whole].par_chunks(CHUNK).zip(b[..whole].par_chunks(CHUNK)))
            .for_each(|(c, (a, b))| compute(c, a, b));
        start.elapsed().as_nanos() as f64
    };
    let (ours, theirs) = alternate(3 * scale, ours, theirs);
    let what = format!("kernel `compute` over {extents:?}, speed beside rayon");
    table.speed(&what, ours, theirs, "≥ 0.95x");
}

fn triad(c: &mut [f32], a: &[f32], b: &[f32]) {
    for ((c, a), b) in c.iter_mut().zip(a).zip(b) {
        *c = a + 3.0 * b;
    }
}

fn compute(c: &mut [f32], a: &[f32], b: &[f32]) {
    for ((c, a), b) in c.iter_mut().zip(a).zip(b) {
        let mut x = *a;
        for _ in 0..32 {
            x = x * 0.999 + b * 0.001;
        }
        *c = x;
    }
}
