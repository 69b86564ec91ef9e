//! Numbers.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernel]
fn integers(a: &[i32], b: &[i32], out: &mut [i32]) {
    let i = global_id(0);
    let x = a[i];
    let y = b[i];
    let s = y as u32;
    out[i * 12] = x + y;
    out[i * 12 + 1] = x - y;
    out[i * 12 + 2] = x * y;
    out[i * 12 + 3] = x / y;
    out[i * 12 + 4] = x % y;
    out[i * 12 + 5] = x << s;
    out[i * 12 + 6] = x >> s;
    out[i * 12 + 7] = (x & y) | (x ^ !y);
    out[i * 12 + 8] = -x;
    out[i * 12 + 9] = x.min(y).max(-100).abs();
    out[i * 12 + 10] = (x as u32 >> s) as i32;
    out[i * 12 + 11] = x.signum() + (x < y) as i32;
}

fn integers_expected(x: i32, y: i32) -> [i32; 12] {
    [
        x.wrapping_add(y),
        x.wrapping_sub(y),
        x.wrapping_mul(y),
        x.checked_div(y).unwrap_or(x),
        x.checked_rem(y).unwrap_or(0),
        x.wrapping_shl(y as u32),
        x.wrapping_shr(y as u32),
        (x & y) | (x ^ !y),
        x.wrapping_neg(),
        x.min(y).max(-100).wrapping_abs(),
        (x as u32).wrapping_shr(y as u32) as i32,
        x.signum() + i32::from(x < y),
    ]
}

#[test]
fn integer_arithmetic_wraps_and_is_defined_everywhere() {
    let values = [0, 1, -1, 2, 7, -7, 31, 32, 33, i32::MAX, i32::MIN, i32::MIN + 1, 0x1234_5678];
    let (mut a, mut b, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    for x in values {
        for y in values {
            a.push(x);
            b.push(y);
            expected.extend(integers_expected(x, y));
        }
    }
    let n = a.len();
    everywhere(&expected, |queue| {
        let (a, b, out) = (Buffer::from(a.clone()), Buffer::from(b.clone()), Buffer::<i32>::new(12 * n));
        queue.submit(|cg| cg.parallel_for(n, integers(cg.read(&a), cg.read(&b), cg.overwrite(&out))))?;
        read(&out)
    });
}

#[windlass::kernel]
fn conversions(x: &[f32], out: &mut [u32]) {
    let i = global_id(0);
    let v = x[i];
    out[i * 6] = v as u32;
    out[i * 6 + 1] = v as i32 as u32;
    out[i * 6 + 2] = v.round() as i32 as u32;
    out[i * 6 + 3] = v.fract().to_bits();
    out[i * 6 + 4] = v.is_nan() as u32;
    out[i * 6 + 5] = ((v as i32) as f32).to_bits();
}

#[test]
fn conversions_saturate_everywhere() {
    let x = [
        0.0,
        -0.5,
        0.5,
        1.5,
        2.5,
        -2.5,
        0.499_999_97,
        1e9,
        -1e9,
        4e9,
        5e9,
        -5e9,
        1e30,
        -1e30,
        3.75,
        f32::NAN,
    ];
    let expected: Vec<u32> = x
        .iter()
        .flat_map(|&v: &f32| {
            // What a device makes of the fraction of what is no number is its own affair.
            let fract = if v.is_nan() { 0 } else { v.fract().to_bits() };
            [
                v as u32,
                v as i32 as u32,
                v.round() as i32 as u32,
                fract,
                u32::from(v.is_nan()),
                (v as i32 as f32).to_bits(),
            ]
        })
        .collect();
    everywhere(&expected, |queue| {
        let (x_in, out) = (Buffer::from(x.to_vec()), Buffer::<u32>::new(6 * x.len()));
        queue.submit(|cg| cg.parallel_for(x.len(), conversions(cg.read(&x_in), cg.overwrite(&out))))?;
        let mut out = read(&out)?;
        for (at, v) in x.iter().enumerate() {
            // The sign of a zero fraction is left open.
            let fract = &mut out[at * 6 + 3];
            if v.is_nan() || (*fract == 0x8000_0000 && v.fract() == 0.0) {
                *fract = if v.is_nan() { 0 } else { v.fract().to_bits() };
            }
        }
        Ok(out)
    });
}

#[windlass::kernel]
fn wide(a: &[u64], k: i64, out: &mut [u64]) {
    let i = global_id(0);
    let x = a[i] as i64;
    out[i] = (x * k - (x >> 7) / 3) as u64 ^ a[i] << 5;
}

#[test]
fn wide_integers() {
    let a: Vec<u64> = (0..50).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let k = -0x1234_5678_9abc_i64;
    let one = |v: u64| {
        let x = v as i64;
        x.wrapping_mul(k).wrapping_sub((x >> 7) / 3) as u64 ^ (v << 5)
    };
    let expected: Vec<u64> = a.iter().map(|&v| one(v)).collect();
    everywhere(&expected, |queue| {
        if !queue.device().info().has(Aspect::Int64) {
            return Ok(expected.clone());
        }
        let (a, out) = (Buffer::from(a.clone()), Buffer::<u64>::new(50));
        queue.submit(|cg| cg.parallel_for(50, wide(cg.read(&a), k, cg.overwrite(&out))))?;
        read(&out)
    });
}

#[windlass::kernel]
fn widened(a: &[i32], out: &mut [u64]) {
    let v = a[global_id(0)];
    out[global_id(0)] = match global_id(0) % 4 {
        0 => v as i64 as u64,
        1 => v as u64,
        2 => v as u32 as i64 as u64,
        _ => (v as u32 as i64 >> 4) as u64,
    };
}

#[test]
fn what_is_widened_keeps_its_value() {
    let expected = [-5_i64 as u64, -6_i64 as u64, u64::from(-7_i32 as u32), u64::from(-8_i32 as u32) >> 4];
    everywhere(&expected, |queue| {
        if !queue.device().info().has(Aspect::Int64) {
            return Ok(expected.to_vec());
        }
        let (a, out) = (Buffer::from(vec![-5, -6, -7, -8]), Buffer::<u64>::new(4));
        queue.submit(|cg| cg.parallel_for(4, widened(cg.read(&a), cg.overwrite(&out))))?;
        read(&out)
    });
}

/// What WGSL's compilers refuse if they can evaluate it themselves.
#[windlass::kernels]
mod refused {
    const NOTHING: [i32; 2] = [0, 0];

    #[kernel]
    pub fn unless_at_run_time(#[spec] zero: i32, #[spec] by: u32, a: &[i32], out: &mut [i32]) {
        let i = global_id(0);
        out[i] = match i {
            0 => a[0] / NOTHING[1],
            1 => a[0] % zero,
            2 => (i32::MAX << by) + 1,
            _ => (i32::MIN / (zero - 1)) + (7 / NOTHING[0]),
        };
    }
}

#[test]
fn what_is_known_when_a_kernel_is_built_is_evaluated_as_elsewhere() {
    everywhere(&[9, 0, -7, i32::MIN + 7], |queue| {
        let (a, out) = (Buffer::from(vec![9]), Buffer::<i32>::new(4));
        queue.submit(|cg| {
            cg.parallel_for(4, refused::unless_at_run_time(0, 3, cg.read(&a), cg.overwrite(&out)))
        })?;
        read(&out)
    });
}

#[windlass::kernel]
fn vectors(v: &[Vec3<f32>], up: Vec3<f32>, out: &mut [Vec4<f32>]) {
    let i = global_id(0);
    let a = v[i];
    let turned = a.cross(up) + a.zyx() * 2.0;
    let mut made = Vec4::new(turned.x, turned.y, turned.z, a.dot(up));
    made.w += 1.0;
    out[i] = made.max(Vec4::splat(-3.0));
}

#[test]
fn vectors_lie_in_memory_as_their_components() {
    let v: Vec<Vec3<f32>> = (0..20).map(|i| Vec3::new(i as f32, 2.0 - i as f32, 0.5)).collect();
    let up = Vec3::new(0.0, 1.0, 2.0);
    let expected: Vec<[f32; 4]> = v
        .iter()
        .map(|a| {
            let t = a.cross(up) + Vec3::new(a.z, a.y, a.x) * 2.0;
            [t.x, t.y, t.z, a.dot(up) + 1.0].map(|c| c.max(-3.0))
        })
        .collect();
    everywhere(&expected, |queue| {
        let (v, out) = (Buffer::from(v.clone()), Buffer::<Vec4<f32>>::new(20));
        queue.submit(|cg| cg.parallel_for(20, vectors(cg.read(&v), up, cg.overwrite(&out))))?;
        Ok(read(&out)?.into_iter().map(<[f32; 4]>::from).collect())
    });
}

#[windlass::kernel]
fn bits(x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    let v = x[i];
    out[i] = v.count_ones() + 100 * v.leading_zeros() + 10_000 * v.trailing_zeros()
        ^ v.rotate_left(i)
        ^ v.rotate_right(33).reverse_bits()
        ^ f32::from_bits(v).to_bits()
        ^ (v as i32).abs_diff(i as i32 - 5);
}

#[test]
fn bits_are_counted_and_moved() {
    let x: Vec<u32> = [0, 1, 0x8000_0000, 0xffff, 0x3f80_0000, 0x1234_5678, 7, 0x4000_0001].into();
    let one = |(i, v): (usize, &u32)| {
        (v.count_ones() + 100 * v.leading_zeros() + 10_000 * v.trailing_zeros())
            ^ v.rotate_left(i as u32)
            ^ v.rotate_right(33).reverse_bits()
            ^ v
            ^ (*v as i32).abs_diff(i as i32 - 5)
    };
    let expected: Vec<u32> = x.iter().enumerate().map(one).collect();
    everywhere(&expected, |queue| {
        let (x, out) = (Buffer::from(x.clone()), Buffer::<u32>::new(8));
        queue.submit(|cg| cg.parallel_for(8, bits(cg.read(&x), cg.overwrite(&out))))?;
        read(&out)
    });
}
