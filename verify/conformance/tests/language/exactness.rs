//! How exact the functions of floats are: as OpenCL's table says on the host and on OpenCL devices. Vulkan promises less.

use windlass::prelude::*;

use crate::everywhere::{queues, read};

const COUNT: usize = 24;
const VALUES: usize = 4000;

#[windlass::kernel]
fn functions(x: &[f32], y: &[f32], out: &mut [f32]) {
    let i = global_id(0);
    let a = x[i];
    let b = y[i];
    let at = i * 24;
    out[at] = a / b;
    out[at + 1] = a.sqrt();
    out[at + 2] = a.recip();
    out[at + 3] = (a * 8.0).exp();
    out[at + 4] = (b * 8.0).exp2();
    out[at + 5] = (a * 16.0).ln();
    out[at + 6] = (a * 16.0).log2();
    out[at + 7] = (a * 16.0).log10();
    out[at + 8] = (b * 4.0).sin();
    out[at + 9] = (b * 4.0).cos();
    out[at + 10] = b.tan();
    out[at + 11] = b.asin();
    out[at + 12] = b.acos();
    out[at + 13] = (b * 8.0).atan();
    out[at + 14] = a.atan2(b);
    out[at + 15] = (b * 4.0).sinh();
    out[at + 16] = (b * 4.0).cosh();
    out[at + 17] = (b * 2.0).tanh();
    out[at + 18] = (b * 8.0).asinh();
    out[at + 19] = (a * 4.0 + 1.5).acosh();
    out[at + 20] = b.atanh();
    out[at + 21] = (a * 4.0).powf(b * 4.0);
    out[at + 22] = a.mul_add(b, 3.0);
    out[at + 23] = b.to_degrees();
}

/// Each function: its name, its value at two numbers, and how many units in the last place it may be off. The logarithm to
/// base 10 is a natural one, multiplied.
type Function = (&'static str, fn(f64, f64) -> f64, f64);

const FUNCTIONS: [Function; COUNT] = [
    ("division", |a, b| a / b, 2.5),
    ("sqrt", |a, _| a.sqrt(), 3.0),
    ("recip", |a, _| 1.0 / a, 2.5),
    ("exp", |a, _| (a * 8.0).exp(), 3.0),
    ("exp2", |_, b| (b * 8.0).exp2(), 3.0),
    ("ln", |a, _| (a * 16.0).ln(), 3.0),
    ("log2", |a, _| (a * 16.0).log2(), 3.0),
    ("log10", |a, _| (a * 16.0).log10(), 5.0),
    ("sin", |_, b| (b * 4.0).sin(), 4.0),
    ("cos", |_, b| (b * 4.0).cos(), 4.0),
    ("tan", |_, b| b.tan(), 5.0),
    ("asin", |_, b| b.asin(), 4.0),
    ("acos", |_, b| b.acos(), 4.0),
    ("atan", |_, b| (b * 8.0).atan(), 5.0),
    ("atan2", |a, b| a.atan2(b), 6.0),
    ("sinh", |_, b| (b * 4.0).sinh(), 4.0),
    ("cosh", |_, b| (b * 4.0).cosh(), 4.0),
    ("tanh", |_, b| (b * 2.0).tanh(), 5.0),
    ("asinh", |_, b| (b * 8.0).asinh(), 4.0),
    // What goes in is rounded before.
    ("acosh", |a, _| f64::from(a as f32 * 4.0 + 1.5).acosh(), 4.0),
    ("atanh", |_, b| b.atanh(), 5.0),
    ("powf", |a, b| (a * 4.0).powf(b * 4.0), 16.0),
    ("mul_add", |a, b| a * b + 3.0, 1.0),
    ("to_degrees", |_, b| b.to_degrees(), 2.0),
];

/// The distance of a result from what it should be, in units in the last place of an `f32`.
fn units(found: f32, expected: f64) -> f64 {
    let near = (expected as f32).abs().max(f32::MIN_POSITIVE);
    let unit = f64::from(f32::from_bits(near.to_bits() + 1)) - f64::from(near);
    (f64::from(found) - expected).abs() / unit
}

#[test]
fn functions_of_floats_are_as_exact_as_opencl_asks() {
    let odd = |i: usize, k: u32| (i as u32).wrapping_mul(k).wrapping_add(0x9e37_79b9) >> 8;
    // Between 0 and 1, and between -1 and 1 without what is next to zero.
    let x: Vec<f32> = (0..VALUES).map(|i| (odd(i, 0x85eb_ca6b) as f32 + 1.0) / (1 << 24) as f32).collect();
    let y: Vec<f32> = (0..VALUES)
        .map(|i| {
            let part = (odd(i, 0xc2b2_ae35) as f32 / (1 << 24) as f32).clamp(0.01, 0.99);
            if i % 2 == 0 { part } else { -part }
        })
        .collect();
    for queue in queues() {
        let (from, to) = (Buffer::from(x.clone()), Buffer::from(y.clone()));
        let out = Buffer::<f32>::new(VALUES * COUNT);
        let done = queue.submit(|cg| {
            cg.parallel_for(VALUES, functions(cg.read(&from), cg.read(&to), cg.overwrite(&out)))
        });
        done.and_then(|event| event.blocking_wait()).expect("it runs on every device");
        let out = read(&out).expect("it has run");
        let vulkan = queue.device().backend().to_string() == "wgpu";
        for (at, (name, exact, most)) in FUNCTIONS.iter().enumerate() {
            let mut worst = (0.0, 0);
            for i in 0..VALUES {
                let expected = exact(f64::from(x[i]), f64::from(y[i]));
                let found = out[i * COUNT + at];
                // Of sines Vulkan promises 2^-11 around zero, of what is made of arcs 4096 units.
                let near = (f64::from(found) - expected).abs() <= 1.0 / 1024.0 * expected.abs().max(1.0);
                let off = if vulkan && near { 0.0 } else { units(found, expected) };
                if off > worst.0 {
                    worst = (off, i);
                }
            }
            let (off, i) = worst;
            assert!(
                off <= *most,
                "{name} of {} and {} is {off:.1} units off on {}",
                x[i],
                y[i],
                queue.device()
            );
        }
    }
}

/// One where devices may fuse, reorder and take their own functions.
#[windlass::kernel(fast)]
fn near(x: &[f32], y: &[f32], out: &mut [f32]) {
    let i = global_id(0);
    out[i] = x[i] * y[i] + (x[i] * 0.25).sin() / (1.0 + y[i] * y[i]).sqrt();
}

#[test]
fn fast_is_near_enough() {
    let x: Vec<f32> = (0..500).map(|i| i as f32 * 0.01 - 2.0).collect();
    let y: Vec<f32> = (0..500).map(|i| (i * 7 % 100) as f32 * 0.1).collect();
    let exact = |(x, y): (&f32, &f32)| {
        let (x, y) = (f64::from(*x), f64::from(*y));
        x * y + (x * 0.25).sin() / (1.0 + y * y).sqrt()
    };
    assert!(near::kernel().is_fast());
    for queue in queues() {
        let (from, with, to) = (Buffer::from(x.clone()), Buffer::from(y.clone()), Buffer::<f32>::new(500));
        queue
            .submit(|cg| cg.parallel_for(500, near(cg.read(&from), cg.read(&with), cg.write(&to))))
            .expect("every device takes it");
        let found = read(&to).expect("it ends");
        for (i, (found, exact)) in found.iter().zip(x.iter().zip(&y).map(exact)).enumerate() {
            assert!(
                (f64::from(*found) - exact).abs() < 1e-3,
                "{i}: {found} for {exact} on {}",
                queue.device()
            );
        }
    }
}
