//! Kernels of the kind that programs are made of, on all cores of the host, beside the same by hand on rayon.

mod by_hand;

use std::time::Instant;

use windlass::NdRange;
use windlass::prelude::*;

use crate::kernels::matmul;
use crate::table::{Table, alternate};

pub(crate) const HEIGHT: usize = 2048;
pub(crate) const WIDTH: usize = 4096;
const LEN: usize = HEIGHT * WIDTH;
pub(crate) const BINS: usize = 256;
const GROUP: usize = 256;

#[windlass::kernel]
fn stencil(from: &View<f32, 2>, to: &mut View<f32, 2>) {
    let y = global_id(0);
    let x = global_id(1);
    let around = from[y - 1][x] + from[y + 1][x] + from[y][x - 1] + from[y][x + 1];
    to[y][x] = 0.5 * from[y][x] + 0.125 * around;
}

#[windlass::kernel]
fn sobel(width: u32, from: &[f32], to: &mut [f32]) {
    let y = global_id(0);
    let x = global_id(1);
    let at = y * width + x;
    let (above, below) = (at - width, at + width);
    let gx = from[above + 1] + 2.0 * from[at + 1] + from[below + 1]
        - from[above - 1]
        - 2.0 * from[at - 1]
        - from[below - 1];
    let gy = from[below - 1] + 2.0 * from[below] + from[below + 1]
        - from[above - 1]
        - 2.0 * from[above]
        - from[above + 1];
    to[at] = (gx * gx + gy * gy).sqrt();
}

#[windlass::kernel]
fn mandelbrot(out: &mut View<u32, 2>) {
    let y = global_id(0);
    let x = global_id(1);
    let re = x as f32 * (3.0 / 4096.0) - 2.0;
    let im = y as f32 * (2.0 / 2048.0) - 1.0;
    let mut zr = 0.0;
    let mut zi = 0.0;
    let mut n = 0;
    while n < 64 && zr * zr + zi * zi < 4.0 {
        let next = zr * zr - zi * zi + re;
        zi = 2.0 * zr * zi + im;
        zr = next;
        n += 1;
    }
    out[y][x] = n;
}

#[windlass::kernels]
mod finance {
    fn normal(x: f32) -> f32 {
        let k = 1.0 / (1.0 + 0.231_641_9 * x.abs());
        let sum = k
            * (0.319_381_53 + k * (-0.356_563_78 + k * (1.781_477_9 + k * (-1.821_255_9 + k * 1.330_274_4))));
        let tail = 0.398_942_3 * (-0.5 * x * x).exp() * sum;
        if x < 0.0 { tail } else { 1.0 - tail }
    }

    #[kernel]
    pub fn black_scholes(
        rate: f32,
        volatility: f32,
        price: &[f32],
        strike: &[f32],
        years: &[f32],
        call: &mut [f32],
    ) {
        let i = global_id(0);
        if i >= call.len() {
            return;
        }
        let spread = volatility * years[i].sqrt();
        let d1 = ((price[i] / strike[i]).ln() + (rate + 0.5 * volatility * volatility) * years[i]) / spread;
        let d2 = d1 - spread;
        call[i] = price[i] * normal(d1) - strike[i] * (-rate * years[i]).exp() * normal(d2);
    }
}

#[windlass::kernel]
fn histogram(x: &[u32], bins: &[AtomicU32], #[local] mine: &[AtomicU32; 256]) {
    let l = local_id(0);
    mine[l].store(0, Relaxed);
    barrier();
    for k in 0..64 {
        let v = x[(group_id(0) * 64 + k) * local_size(0) + l];
        mine[v & 255].fetch_add(1, Relaxed);
    }
    barrier();
    bins[l].fetch_add(mine[l].load(Relaxed), Relaxed);
}

/// Each item's 64 elements become the sums up to them, and then each group's; `sums` takes what those come to.
#[windlass::kernel]
fn scan_groups(x: &[u32], out: &mut [u32], sums: &mut [u32], #[local] tile: &mut [u32; 256]) {
    let l = local_id(0);
    let at = global_id(0) * 64;
    let mut sum = 0;
    for k in 0..64 {
        sum += x[at + k];
    }
    tile[l] = sum;
    barrier();
    let mut step = 1;
    while step < 256 {
        let mut other = 0;
        if l >= step {
            other = tile[l - step];
        }
        barrier();
        tile[l] += other;
        barrier();
        step *= 2;
    }
    let mut running = tile[l] - sum;
    for k in 0..64 {
        running += x[at + k];
        out[at + k] = running;
    }
    if l == 255 {
        sums[group_id(0)] = tile[l];
    }
}

#[windlass::kernel]
fn scan_sums(sums: &mut [u32]) {
    let mut sum = 0;
    for k in 0..sums.len() {
        let v = sums[k];
        sums[k] = sum;
        sum += v;
    }
}

/// A row for each of the groups.
#[windlass::kernel]
fn scan_add(sums: &[u32], out: &mut [u32]) {
    let group = global_id(0);
    out[group * global_size(1) + global_id(1)] += sums[group];
}

const SIDE: usize = 512;

#[windlass::kernel]
fn matmul_nested(
    n: u32,
    a: &[f32],
    b: &[f32],
    c: &mut [f32],
    #[local] at: &mut [[f32; 16]; 16],
    #[local] bt: &mut [[f32; 16]; 16],
) {
    let (row, column) = (global_id(0), global_id(1));
    let (y, x) = (local_id(0), local_id(1));
    let mut sum = 0.0;
    for t in 0..n / 16 {
        at[y][x] = a[row * n + t * 16 + x];
        bt[y][x] = b[(t * 16 + y) * n + column];
        barrier();
        for k in 0..16 {
            sum += at[y][k] * bt[k][x];
        }
        barrier();
    }
    c[row * n + column] = sum;
}

/// How many runs are measured as one: rayon's threads look for work for a while after theirs, which is in the way of whoever
/// comes next.
const RUNS: u32 = 8;

/// The time until a submission's result is there.
fn timed(submit: impl Fn() -> windlass::Result<Event>) -> f64 {
    base(|| submit().expect("nothing to refuse").blocking_wait().expect("nothing fails"))
}

fn base(mut work: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..RUNS).for_each(|_| work());
    start.elapsed().as_nanos() as f64 / f64::from(RUNS)
}

pub(crate) fn rows(table: &mut Table, scale: usize) {
    let queue = Queue::blocking_on(Device::host()).expect("the host device is always there");
    let times = 2 * scale + 1;
    images(table, times, &queue);
    options(table, times, &queue);
    counts(table, times, &queue);
    sums(table, times, &queue);
    products(table, times, &queue);
}

fn images(table: &mut Table, times: usize, queue: &Queue) {
    let picture: Vec<f32> = (0..LEN).map(|i| (i * 31 % 97) as f32).collect();
    let shape = [HEIGHT, WIDTH];
    let shaped = |v: &[f32]| Buffer::with_shape(shape, v.to_vec()).expect("it has this shape");
    let mut hand = vec![0.0_f32; LEN];
    let (from, to) = (shaped(&picture), shaped(&hand));
    let (ours, theirs) = alternate(
        times,
        || timed(|| queue.submit(|cg| cg.parallel_for(shape, stencil(cg.read(&from), cg.overwrite(&to))))),
        || base(|| by_hand::stencil(&picture, &mut hand)),
    );
    table.speed("kernel `stencil`, five points of a view, beside rayon", ours, theirs, "≥ 0.9x");
    assert_eq!(&to.host_read().blocking_wait().expect("nothing fails")[..], &hand[..], "the same stencil");
    let (from, to) = (Buffer::from(picture.clone()), Buffer::from(hand.clone()));
    let (ours, theirs) = alternate(
        times,
        || {
            timed(|| {
                queue.submit(|cg| {
                    cg.parallel_for(shape, sobel(WIDTH as u32, cg.read(&from), cg.overwrite(&to)))
                })
            })
        },
        || base(|| by_hand::sobel(&picture, &mut hand)),
    );
    table.speed("kernel `sobel`, beside rayon", ours, theirs, "≥ 0.9x");
    let inner = |v: &[f32]| v[WIDTH..LEN - WIDTH].to_vec();
    let got = to.host_read().blocking_wait().expect("nothing fails");
    for (row, (ours, hand)) in inner(&got).chunks(WIDTH).zip(inner(&hand).chunks(WIDTH)).enumerate() {
        assert_eq!(ours[1..WIDTH - 1], hand[1..WIDTH - 1], "row {row} of the same edges");
    }
    let mut hand = vec![0_u32; LEN];
    let out = Buffer::with_shape(shape, hand.clone()).expect("it has this shape");
    let (ours, theirs) = alternate(
        times,
        || timed(|| queue.submit(|cg| cg.parallel_for(shape, mandelbrot(cg.overwrite(&out))))),
        || base(|| by_hand::mandelbrot(&mut hand)),
    );
    table.speed("kernel `mandelbrot`, beside rayon", ours, theirs, "≥ 0.9x");
    assert_eq!(&out.host_read().blocking_wait().expect("nothing fails")[..], &hand[..], "the same set");
}

fn options(table: &mut Table, times: usize, queue: &Queue) {
    let price: Vec<f32> = (0..LEN).map(|i| 10.0 + (i % 90) as f32).collect();
    let strike: Vec<f32> = (0..LEN).map(|i| 20.0 + (i % 70) as f32).collect();
    let years: Vec<f32> = (0..LEN).map(|i| 0.25 + (i % 10) as f32).collect();
    let mut hand = vec![0.0_f32; LEN];
    let [p, s, y, c] = [&price, &strike, &years, &hand].map(|v| Buffer::from(v.clone()));
    let (ours, theirs) = alternate(
        times,
        || {
            timed(|| {
                queue.submit(|cg| {
                    let call = finance::black_scholes(
                        0.02,
                        0.3,
                        cg.read(&p),
                        cg.read(&s),
                        cg.read(&y),
                        cg.overwrite(&c),
                    );
                    cg.parallel_for(LEN, call)
                })
            })
        },
        || base(|| by_hand::black_scholes(0.02, 0.3, (&price, &strike, &years), &mut hand)),
    );
    table.speed("kernel `black_scholes`, beside rayon", ours, theirs, "≥ 0.9x");
    assert_eq!(&c.host_read().blocking_wait().expect("nothing fails")[..], &hand[..], "the same prices");
}

fn counts(table: &mut Table, times: usize, queue: &Queue) {
    let x: Vec<u32> = (0..LEN as u32).map(|i| i.wrapping_mul(0x9e37_79b9) >> 20).collect();
    let from = Buffer::from(x.clone());
    let bins = Buffer::from(vec![0_u32; BINS]);
    let mut hand = vec![0_u32; BINS];
    let range = NdRange { global: [LEN / 64], local: [GROUP] };
    let (ours, theirs) = alternate(
        times,
        || timed(|| queue.submit(|cg| cg.parallel_for(range, histogram(cg.read(&from), cg.atomic(&bins))))),
        || base(|| by_hand::histogram(&x, &mut hand)),
    );
    table.speed(
        "kernel `histogram` in local memory, beside rayon's thread-local bins",
        ours,
        theirs,
        "≥ 0.5x",
    );
    assert_eq!(&bins.host_read().blocking_wait().expect("nothing fails")[..], &hand[..], "the same counts");
}

fn sums(table: &mut Table, times: usize, queue: &Queue) {
    let x: Vec<u32> = (0..LEN as u32).map(|i| i % 7).collect();
    let from = Buffer::from(x.clone());
    let shape = [LEN / GROUP / 64, GROUP * 64];
    let (out, parts) = (Buffer::from(vec![0_u32; LEN]), Buffer::from(vec![0_u32; shape[0]]));
    let mut hand = vec![0_u32; LEN];
    let range = NdRange { global: [LEN / 64], local: [GROUP] };
    let (ours, theirs) = alternate(
        times,
        || {
            timed(|| {
                queue.submit(|cg| {
                    cg.parallel_for(
                        range,
                        scan_groups(cg.read(&from), cg.overwrite(&out), cg.overwrite(&parts)),
                    )
                })?;
                queue.submit(|cg| cg.parallel_for(1, scan_sums(cg.read_write(&parts))))?;
                queue.submit(|cg| cg.parallel_for(shape, scan_add(cg.read(&parts), cg.read_write(&out))))
            })
        },
        || base(|| by_hand::scan(&x, &mut hand)),
    );
    table.speed("kernels `scan`, beside two passes on rayon", ours, theirs, "≥ 0.6x");
    assert_eq!(&out.host_read().blocking_wait().expect("nothing fails")[..], &hand[..], "the same sums");
}

fn products(table: &mut Table, times: usize, queue: &Queue) {
    let square: Vec<f32> = (0..SIDE * SIDE).map(|i| (i % 7) as f32).collect();
    let (a, c) = (Buffer::from(square.clone()), Buffer::from(vec![0.0_f32; SIDE * SIDE]));
    let mut hand = vec![0.0_f32; SIDE * SIDE];
    let range = NdRange { global: [SIDE, SIDE], local: [16, 16] };
    let n = SIDE as u32;
    let flat = || {
        timed(|| {
            queue.submit(|cg| cg.parallel_for(range, matmul(n, cg.read(&a), cg.read(&a), cg.overwrite(&c))))
        })
    };
    let (ours, theirs) =
        alternate(times, flat, || base(|| by_hand::matmul(SIDE, &square, &square, &mut hand)));
    table.speed("kernel `matmul` in tiles, beside the same tiles on rayon", ours, theirs, "≥ 1x");
    assert_eq!(&c.host_read().blocking_wait().expect("nothing fails")[..], &hand[..], "the same product");
    let nested = || {
        timed(|| {
            queue.submit(|cg| {
                cg.parallel_for(range, matmul_nested(n, cg.read(&a), cg.read(&a), cg.overwrite(&c)))
            })
        })
    };
    let (ours, theirs) = alternate(times, nested, flat);
    table.speed("kernel `matmul`, nested tiles beside flat ones", ours, theirs, "≥ 0.95x");
}
