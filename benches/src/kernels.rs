//! `#[kernel]` on the host, beside the same loop by hand; both on one thread.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::Instant;

use windlass::NdRange;

use crate::table::{Table, alternate};

/// Small enough for the second cache, so that memory is not what is measured; large enough for the call, some 0.3 us, to
/// be little of it.
pub(crate) const LEN: usize = 1 << 16;
/// How many calls are measured as one.
const CALLS: u32 = 8;
const SIDE: usize = 256;
const TILE: usize = 16;

#[windlass::kernel]
fn saxpy(a: f32, x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if i < y.len() {
        y[i] = a * x[i] + y[i];
    }
}

#[windlass::kernel]
fn triad(c: &mut [f32], a: &[f32], b: &[f32]) {
    let i = global_id(0);
    c[i] = a[i] + 3.0 * b[i];
}

#[windlass::kernel]
fn compute(c: &mut [f32], a: &[f32], b: &[f32]) {
    let i = global_id(0);
    let mut x = a[i];
    for _ in 0..32 {
        x = x * 0.999 + b[i] * 0.001;
    }
    c[i] = x;
}

/// Counts, which no float unit helps with.
#[windlass::kernel]
fn mix(seed: u32, v: &mut [u32]) {
    let i = global_id(0);
    let mut x = v[i] ^ seed;
    x = (x ^ (x >> 16)) * 0x7feb_352d;
    x = (x ^ (x >> 15)) * 0x846c_a68b;
    v[i] = x ^ (x >> 16);
}

#[windlass::kernel]
pub(crate) fn matmul(
    n: u32,
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    #[local] a_tile: &mut [f32; 256],
    #[local] b_tile: &mut [f32; 256],
) {
    let row = global_id(0);
    let column = global_id(1);
    let y = local_id(0);
    let x = local_id(1);
    let mut sum = 0.0;
    for t in 0..n / 16 {
        a_tile[y * 16 + x] = a[row * n + t * 16 + x];
        b_tile[y * 16 + x] = b[(t * 16 + y) * n + column];
        barrier();
        for k in 0..16 {
            sum += a_tile[y * 16 + k] * b_tile[k * 16 + x];
        }
        barrier();
    }
    c[row * n + column] = sum;
}

/// Each group's sum, by halves.
#[windlass::kernel]
fn group_sums(v: &[f32], sums: &mut [f32], #[local] part: &mut [f32; 256]) {
    let i = local_id(0);
    part[i] = v[global_id(0)];
    barrier();
    let mut half = local_size(0) / 2;
    while half > 0 {
        if i < half {
            part[i] += part[i + half];
        }
        barrier();
        half = half / 2;
    }
    if i == 0 {
        sums[group_id(0)] = part[0];
    }
}

pub(crate) fn rows(table: &mut Table, scale: usize) {
    let (a, b) = (vec![1.5_f32; LEN], vec![2.5_f32; LEN]);
    // Both write the same memory: where it lies beside what is read makes a tenth of the speed.
    let c = RefCell::new(vec![0.0_f32; LEN]);
    let v = RefCell::new(vec![7_u32; LEN]);
    let elementwise = "≥ 0.95x";
    let grouped = "≥ 0.5x";
    row(
        table,
        scale,
        ("kernel `saxpy`", elementwise),
        || saxpy(3.0, &a[..], &mut c.borrow_mut()[..]).run_here(LEN),
        || {
            for (y, x) in black_box(&mut c.borrow_mut()[..]).iter_mut().zip(&a) {
                *y += 3.0 * x;
            }
        },
    );
    row(
        table,
        scale,
        ("kernel `triad`", elementwise),
        || triad(&mut c.borrow_mut()[..], &a[..], &b[..]).run_here(LEN),
        || {
            for ((c, a), b) in black_box(&mut c.borrow_mut()[..]).iter_mut().zip(&a).zip(&b) {
                *c = a + 3.0 * b;
            }
        },
    );
    row(
        table,
        scale,
        ("kernel `compute`", elementwise),
        || compute(&mut c.borrow_mut()[..], &a[..], &b[..]).run_here(LEN),
        || {
            for ((c, a), b) in black_box(&mut c.borrow_mut()[..]).iter_mut().zip(&a).zip(&b) {
                let mut x = *a;
                for _ in 0..32 {
                    x = x * 0.999 + b * 0.001;
                }
                *c = x;
            }
        },
    );
    row(
        table,
        scale,
        ("kernel `mix`", elementwise),
        || mix(5, &mut v.borrow_mut()[..]).run_here(LEN),
        || {
            for x in black_box(&mut v.borrow_mut()[..]) {
                *x ^= 5;
                *x = (*x ^ (*x >> 16)).wrapping_mul(0x7feb_352d);
                *x = (*x ^ (*x >> 15)).wrapping_mul(0x846c_a68b);
                *x ^= *x >> 16;
            }
        },
    );
    let square: Vec<f32> = (0..SIDE * SIDE).map(|i| (i % 7) as f32).collect();
    let (mut ours, mut theirs) = (vec![0.0_f32; SIDE * SIDE], vec![0.0_f32; SIDE * SIDE]);
    let range = NdRange { global: [SIDE, SIDE], local: [TILE, TILE] };
    row(
        table,
        scale,
        ("kernel `matmul` with tiles and barriers, beside a tiled loop", grouped),
        || matmul(SIDE as u32, &square[..], &square[..], &mut ours[..]).run_here(range),
        || tiled(&square, &square, &mut theirs),
    );
    assert_eq!(ours, theirs, "the same product");
    let (mut ours, mut theirs) = (vec![0.0_f32; LEN / 256], vec![0.0_f32; LEN / 256]);
    let range = NdRange { global: [LEN], local: [256] };
    row(
        table,
        scale,
        ("kernel `group_sums` by halves, beside the same by hand", "least work between barriers"),
        || group_sums(&a[..], &mut ours[..]).run_here(range),
        || halves(&a, &mut theirs),
    );
    assert_eq!(ours, theirs, "the same sums");
}

/// The product as one writes it for a CPU, tile by tile through small arrays.
fn tiled(a: &[f32], b: &[f32], c: &mut [f32]) {
    let (mut a_tile, mut b_tile) = ([0.0_f32; TILE * TILE], [0.0_f32; TILE * TILE]);
    for row in (0..SIDE).step_by(TILE) {
        for column in (0..SIDE).step_by(TILE) {
            let mut sums = [0.0_f32; TILE * TILE];
            for t in (0..SIDE).step_by(TILE) {
                for y in 0..TILE {
                    let from = (row + y) * SIDE + t;
                    a_tile[y * TILE..][..TILE].copy_from_slice(&a[from..from + TILE]);
                    let from = (t + y) * SIDE + column;
                    b_tile[y * TILE..][..TILE].copy_from_slice(&b[from..from + TILE]);
                }
                for (sums, a) in sums.chunks_exact_mut(TILE).zip(a_tile.chunks_exact(TILE)) {
                    for (a, b) in a.iter().zip(b_tile.chunks_exact(TILE)) {
                        for (sum, b) in sums.iter_mut().zip(b) {
                            *sum += a * b;
                        }
                    }
                }
            }
            for y in 0..TILE {
                let to = (row + y) * SIDE + column;
                c[to..to + TILE].copy_from_slice(&sums[y * TILE..][..TILE]);
            }
        }
    }
    black_box(c);
}

fn halves(v: &[f32], sums: &mut [f32]) {
    let mut part = [0.0_f32; 256];
    for (v, sum) in v.chunks_exact(256).zip(&mut *sums) {
        part.copy_from_slice(v);
        let mut half = 128;
        while half > 0 {
            let (front, back) = part.split_at_mut(half);
            for (a, b) in front.iter_mut().zip(back) {
                *a += *b;
            }
            half /= 2;
        }
        *sum = part[0];
    }
    black_box(sums);
}

pub(crate) fn row(
    table: &mut Table,
    scale: usize,
    (what, budget): (&str, &str),
    mut ours: impl FnMut() -> windlass::Result<()>,
    mut theirs: impl FnMut(),
) {
    let timed = |work: &mut dyn FnMut()| {
        // Several in a row: who comes second finds the caches and the predictors as the other one left them.
        let start = Instant::now();
        (0..CALLS).for_each(|_| work());
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    // A core that was idle takes a while to be as fast as it can.
    timed(&mut theirs);
    let (ours, theirs) =
        alternate(40 * scale, || timed(&mut || ours().expect("the arguments fit")), || timed(&mut theirs));
    table.speed(what, ours, theirs, budget);
}
