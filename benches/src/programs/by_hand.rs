//! The programs as one writes them for rayon.

use rayon::prelude::*;

use super::{BINS, HEIGHT, WIDTH};

/// A row of a picture; outside it is black.
fn row(from: &[f32], y: Option<usize>) -> &[f32] {
    static BLACK: [f32; WIDTH] = [0.0; WIDTH];
    match y {
        Some(y) if y < HEIGHT => &from[y * WIDTH..][..WIDTH],
        _ => &BLACK,
    }
}

pub(super) fn stencil(from: &[f32], to: &mut [f32]) {
    to.par_chunks_mut(WIDTH).enumerate().for_each(|(y, to)| {
        let (above, here, below) = (row(from, y.checked_sub(1)), row(from, Some(y)), row(from, Some(y + 1)));
        let at =
            |x: usize, left: f32, right: f32| 0.5 * here[x] + 0.125 * (above[x] + below[x] + left + right);
        to[0] = at(0, 0.0, here[1]);
        for x in 1..WIDTH - 1 {
            to[x] = at(x, here[x - 1], here[x + 1]);
        }
        to[WIDTH - 1] = at(WIDTH - 1, here[WIDTH - 2], 0.0);
    });
}

/// But for the picture's border.
pub(super) fn sobel(from: &[f32], to: &mut [f32]) {
    to.par_chunks_mut(WIDTH).enumerate().for_each(|(y, to)| {
        let (a, h, b) = (row(from, y.checked_sub(1)), row(from, Some(y)), row(from, Some(y + 1)));
        for x in 1..WIDTH - 1 {
            let gx = a[x + 1] + 2.0 * h[x + 1] + b[x + 1] - a[x - 1] - 2.0 * h[x - 1] - b[x - 1];
            let gy = b[x - 1] + 2.0 * b[x] + b[x + 1] - a[x - 1] - 2.0 * a[x] - a[x + 1];
            to[x] = (gx * gx + gy * gy).sqrt();
        }
    });
}

pub(super) fn mandelbrot(out: &mut [u32]) {
    out.par_chunks_mut(WIDTH).enumerate().for_each(|(y, out)| {
        let im = y as f32 * (2.0 / 2048.0) - 1.0;
        for (x, out) in out.iter_mut().enumerate() {
            let re = x as f32 * (3.0 / 4096.0) - 2.0;
            let (mut zr, mut zi, mut n) = (0.0_f32, 0.0_f32, 0);
            while n < 64 && zr * zr + zi * zi < 4.0 {
                (zr, zi) = (zr * zr - zi * zi + re, 2.0 * zr * zi + im);
                n += 1;
            }
            *out = n;
        }
    });
}

fn normal(x: f32) -> f32 {
    let k = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let sum =
        k * (0.319_381_53 + k * (-0.356_563_78 + k * (1.781_477_9 + k * (-1.821_255_9 + k * 1.330_274_4))));
    let tail = 0.398_942_3 * (-0.5 * x * x).exp() * sum;
    if x < 0.0 { tail } else { 1.0 - tail }
}

pub(super) fn black_scholes(
    rate: f32,
    volatility: f32,
    (price, strike, years): (&[f32], &[f32], &[f32]),
    call: &mut [f32],
) {
    let inputs = price.par_iter().zip(strike).zip(years);
    call.par_iter_mut().zip(inputs).with_min_len(WIDTH).for_each(|(call, ((price, strike), years))| {
        let spread = volatility * years.sqrt();
        let d1 = ((price / strike).ln() + (rate + 0.5 * volatility * volatility) * years) / spread;
        *call = price * normal(d1) - strike * (-rate * years).exp() * normal(d1 - spread);
    });
}

/// Adds to what the bins hold, as the kernel does.
pub(super) fn histogram(x: &[u32], bins: &mut [u32]) {
    let counted = |mut counts: [u32; BINS], chunk: &[u32]| {
        chunk.iter().for_each(|v| counts[(v & 255) as usize] += 1);
        counts
    };
    let none = || [0_u32; BINS];
    let counts = x.par_chunks(1 << 14).fold(none, counted).reduce(none, |mut a, b| {
        a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
        a
    });
    bins.iter_mut().zip(counts).for_each(|(bin, count)| *bin += count);
}

pub(super) fn scan(x: &[u32], out: &mut [u32]) {
    const CHUNK: usize = 1 << 14;
    let mut sums: Vec<u32> = x.par_chunks(CHUNK).map(|chunk| chunk.iter().sum()).collect();
    let mut before = 0;
    for sum in &mut sums {
        (before, *sum) = (before + *sum, before);
    }
    out.par_chunks_mut(CHUNK).zip(x.par_chunks(CHUNK)).zip(sums).for_each(|((out, x), mut sum)| {
        for (out, x) in out.iter_mut().zip(x) {
            sum += x;
            *out = sum;
        }
    });
}

pub(super) fn matmul(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    const TILE: usize = 16;
    c.par_chunks_mut(TILE * n).enumerate().for_each(|(row, c)| {
        let (row, mut at, mut bt) = (row * TILE, [0.0_f32; TILE * TILE], [0.0_f32; TILE * TILE]);
        for column in (0..n).step_by(TILE) {
            let mut sums = [0.0_f32; TILE * TILE];
            for t in (0..n).step_by(TILE) {
                for y in 0..TILE {
                    at[y * TILE..][..TILE].copy_from_slice(&a[(row + y) * n + t..][..TILE]);
                    bt[y * TILE..][..TILE].copy_from_slice(&b[(t + y) * n + column..][..TILE]);
                }
                for (sums, a) in sums.chunks_exact_mut(TILE).zip(at.chunks_exact(TILE)) {
                    for (a, b) in a.iter().zip(bt.chunks_exact(TILE)) {
                        sums.iter_mut().zip(b).for_each(|(sum, b)| *sum += a * b);
                    }
                }
            }
            for (y, sums) in sums.chunks_exact(TILE).enumerate() {
                c[y * n + column..][..TILE].copy_from_slice(sums);
            }
        }
    });
}
