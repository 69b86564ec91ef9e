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
fn by_nothing(x: &[u32], out: &mut [u32]) {
    const NEVER: bool = false;
    let i = global_id(0);
    out[4 * i] = x[i] % ((false || NEVER) as u32);
    out[4 * i + 1] = x[i] / ((true && false) as u32);
    out[4 * i + 2] = x[i] % ((NEVER | false) as u32);
    out[4 * i + 3] = x[i] / ((NEVER == true) as u32);
}

#[test]
fn divisors_that_are_known_to_be_nothing() {
    let x = [7, 0, u32::MAX];
    let expected: Vec<u32> = x.iter().flat_map(|x| [0, *x, 0, *x]).collect();
    everywhere(&expected, |queue| {
        let (x, out) = (Buffer::from(x.to_vec()), Buffer::<u32>::new(12));
        queue.submit(|cg| cg.parallel_for(3, by_nothing(cg.read(&x), cg.overwrite(&out))))?;
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

#[windlass::kernel]
fn saturating(a: &[u32], b: &[u32], out: &mut View<u32, 2>, signed: &mut View<i32, 2>) {
    let i = global_id(0);
    let (x, y) = (a[i], b[i]);
    out[i][0] = x.saturating_add(y);
    out[i][1] = x.saturating_sub(y);
    out[i][2] = x.saturating_mul(y);
    out[i][3] = x.pow(y % 7);
    out[i][4] = x.div_ceil(y | 1);
    out[i][5] = x.next_power_of_two() + x.is_power_of_two() as u32;
    out[i][6] = (x | 1).ilog2() * 100_000 + x.isqrt();
    let (x, y) = (x as i32, y as i32);
    signed[i][0] = x.saturating_add(y);
    signed[i][1] = x.saturating_sub(y);
    signed[i][2] = x.saturating_mul(y);
    signed[i][3] = x.pow(3);
    signed[i][4] = x.rem_euclid(y | 1);
    signed[i][5] = x.div_euclid(y | 1);
}

#[test]
fn what_saturates_and_what_rounds_down() {
    let corners =
        [0, 1, 2, 3, 7, 100, 65535, 65536, i32::MAX as u32, 1 << 31, (1 << 31) + 1, u32::MAX - 1, u32::MAX];
    let pairs: Vec<(u32, u32)> = corners.iter().flat_map(|a| corners.iter().map(move |b| (*a, *b))).collect();
    let unsigned = |(x, y): (u32, u32)| {
        let power = x.checked_next_power_of_two().unwrap_or(0);
        let log = (x | 1).ilog2() * 100_000 + x.isqrt();
        let half = x.div_ceil(y | 1);
        let two = power.wrapping_add(u32::from(x.is_power_of_two()));
        [x.saturating_add(y), x.saturating_sub(y), x.saturating_mul(y), x.wrapping_pow(y % 7), half, two, log]
    };
    let signed = |(x, y): (u32, u32)| {
        let (x, y) = (x as i32, y as i32);
        let (rest, quotient) = (x.wrapping_rem_euclid(y | 1), x.wrapping_div_euclid(y | 1));
        [x.saturating_add(y), x.saturating_sub(y), x.saturating_mul(y), x.wrapping_pow(3), rest, quotient]
            .map(|x| x as u32)
    };
    let expected: Vec<u32> =
        pairs.iter().copied().flat_map(unsigned).chain(pairs.iter().copied().flat_map(signed)).collect();
    let n = pairs.len();
    everywhere(&expected, |queue| {
        let (a, b): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let (a, b) = (Buffer::from(a), Buffer::from(b));
        let (out, ints) = (Buffer::<u32, 2>::new([n, 7]), Buffer::<i32, 2>::new([n, 6]));
        queue.submit(|cg| {
            let call = saturating(cg.read(&a), cg.read(&b), cg.overwrite(&out), cg.overwrite(&ints));
            cg.parallel_for(n, call)
        })?;
        let ints = read(&ints)?.into_iter().map(|x| x as u32);
        Ok(read(&out)?.into_iter().chain(ints).collect())
    });
}

#[windlass::kernel]
fn small_products(out: &mut [i32]) {
    let i = global_id(0);
    let (x, y) = (i as u8, (i >> 8) as u8);
    out[i] = (x as i8).saturating_mul(y as i8) as i32 * 1000 + x.saturating_mul(y) as i32;
}

#[test]
fn all_small_products_saturate() {
    let one = |i: u32| {
        let (x, y) = (i as u8, (i >> 8) as u8);
        i32::from((x as i8).saturating_mul(y as i8)) * 1000 + i32::from(x.saturating_mul(y))
    };
    let expected: Vec<i32> = (0..1 << 16).map(one).collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<i32>::new(1 << 16);
        queue.submit(|cg| cg.parallel_for(1 << 16, small_products(cg.overwrite(&out))))?;
        read(&out)
    });
}

/// With divisions of 64 bits beside products of 32: of some kernels with both NVIDIA's compiler for Vulkan made nothing while a
/// product was divided to see whether it fits.
#[windlass::kernel]
fn wide_products(a: &[i64], b: &[i64], out: &mut View<i64, 2>) {
    let i = global_id(0);
    let (x, y) = (a[i], b[i]);
    out[i][0] = x.saturating_mul(y);
    out[i][1] = (x as u64).saturating_mul(y as u64) as i64;
    let rest = ((x as i32 as i64 - 77) % ((y as u32 & 31) as i64 + 1)) as i32;
    out[i][2] = rest.saturating_mul((x as i32).saturating_add(y as i32)) as i64;
}

#[test]
fn wide_products_saturate() {
    let half = 1 << 32;
    let corners =
        [0, 1, -1, 2, -2, half - 1, half, -half, half / 2, -half / 2, i64::MAX, i64::MIN, i64::MIN + 1];
    let pairs: Vec<(i64, i64)> = corners.iter().flat_map(|a| corners.iter().map(move |b| (*a, *b))).collect();
    let one = |(x, y): (i64, i64)| {
        let rest = ((i64::from(x as i32) - 77) % (i64::from(y as u32 & 31) + 1)) as i32;
        let product = rest.saturating_mul((x as i32).saturating_add(y as i32));
        [x.saturating_mul(y), (x as u64).saturating_mul(y as u64) as i64, i64::from(product)]
    };
    let expected: Vec<i64> = pairs.iter().copied().flat_map(one).collect();
    let n = pairs.len();
    everywhere(&expected, |queue| {
        if !queue.device().info().has(Aspect::Int64) {
            return Ok(expected.clone());
        }
        let (a, b): (Vec<i64>, Vec<i64>) = pairs.iter().copied().unzip();
        let (a, b, out) = (Buffer::from(a), Buffer::from(b), Buffer::<i64, 2>::new([n, 3]));
        queue.submit(|cg| cg.parallel_for(n, wide_products(cg.read(&a), cg.read(&b), cg.overwrite(&out))))?;
        read(&out)
    });
}

#[windlass::kernel]
fn of_three(x: &[i32], y: &[i32], s: i32, out: &mut View<i32, 2>, both: &mut [Vec2<i32>]) {
    let i = global_id(0);
    out[i][0] = y[i].max(x[i].max(-s));
    out[i][1] = y[i].min(x[i].max(66).min(0 - s));
    out[i][2] = (-x[i]).max(-y[i]).max(s);
    out[i][3] = y[i].max(x[i].max(s * -1));
    out[i][4] = (y[i] as u32).max((x[i] as u32).max(0 - s as u32)) as i32;
    out[i][5] = y[i].max(x[i].max(-s.abs()));
    out[i][6] = y[i].max(x[i].max(!s));
    let z = Vec2::new(s, x[i]);
    both[i] = Vec2::splat(y[i]).max(Vec2::new(x[i], 7).max(-z));
}

/// An H100's compilers take a number for its negated one in such places, in OpenCL and in Vulkan.
#[test]
fn the_largest_of_three_may_be_a_negated_number() {
    let numbers = [0, 1, -1, 5, -5, 70, -70, 1 << 20, -(1 << 20), i32::MAX, i32::MIN + 1];
    let pairs: Vec<(i32, i32)> = numbers.iter().flat_map(|x| numbers.iter().map(move |y| (*x, *y))).collect();
    for s in [5, -5, 70, -70, 1 << 20, -(1 << 20), 1_234_567_891, -1_234_567_891] {
        let one = |(x, y): (i32, i32)| {
            let unsigned = (y as u32).max((x as u32).max((s as u32).wrapping_neg()));
            let least = y.min(x.max(66).min(-s));
            [
                y.max(x.max(-s)),
                least,
                (-x).max(-y).max(s),
                y.max(x.max(-s)),
                unsigned as i32,
                y.max(x.max(-s.abs())),
                y.max(x.max(!s)),
            ]
        };
        let both = |(x, y): (i32, i32)| [y.max(x.max(-s)), y.max(7.max(-x))];
        let pairs = pairs.iter().copied();
        let expected: Vec<i32> = pairs.clone().flat_map(one).chain(pairs.clone().flat_map(both)).collect();
        everywhere(&expected, |queue| {
            let (x, y): (Vec<i32>, Vec<i32>) = pairs.clone().unzip();
            let n = x.len();
            let (x, y, out) = (Buffer::from(x), Buffer::from(y), Buffer::<i32, 2>::new([n, 7]));
            let both = Buffer::<Vec2<i32>>::new(n);
            queue.submit(|cg| {
                let (x, y) = (cg.read(&x), cg.read(&y));
                cg.parallel_for(n, of_three(x, y, s, cg.overwrite(&out), cg.overwrite(&both)))
            })?;
            let both = read(&both)?.into_iter().flat_map(|of| [of.x, of.y]);
            Ok(read(&out)?.into_iter().chain(both).collect())
        });
    }
}

#[windlass::kernel]
fn powers(x: &[f32], out: &mut View<f32, 2>) {
    let i = global_id(0);
    let (sine, cosine) = x[i].sin_cos();
    out[i][0] = x[i].powi(3) + x[i].powi(0);
    out[i][1] = x[i].powi(-2);
    out[i][2] = x[i].hypot(3.0);
    out[i][3] = x[i].rem_euclid(0.75);
    out[i][4] = sine * sine + cosine * cosine;
    out[i][5] = if x[i].is_finite() { 1.0 } else { 0.0 };
}

#[test]
fn powers_of_floats() {
    let x: Vec<f32> = vec![0.5, -1.5, 2.0, -8.0, 1e-3, 1e30, -3e37];
    for queue in crate::everywhere::queues() {
        let (buffer, out) = (Buffer::from(x.clone()), Buffer::<f32, 2>::new([x.len(), 6]));
        let call = |cg: &windlass::CommandGroup<'_>| {
            cg.parallel_for(x.len(), powers(cg.read(&buffer), cg.overwrite(&out)))
        };
        queue.submit(call).expect("it is submitted");
        let found = read(&out).expect("it runs");
        for (row, x) in found.chunks(6).zip(&x) {
            let expected = [
                x.powi(3) + 1.0,
                x.powi(-2),
                x.hypot(3.0),
                x.rem_euclid(0.75),
                1.0,
                f32::from(u8::from(x.is_finite())),
            ];
            for (at, (found, expected)) in row.iter().zip(expected).enumerate() {
                let near = (found - expected).abs() <= expected.abs() * 1e-5 || found == &expected;
                // Of what is far larger than the divisor, or than a turn, the remainder is the device's own.
                let is_open = matches!(at, 3 | 4) && x.abs() > 1e6
                    || expected.abs() < f32::MIN_POSITIVE
                    || expected.is_infinite();
                assert!(near || is_open, "{x}: {at} is {found}, not {expected}, on {}", queue.device());
            }
        }
    }
}

#[windlass::kernels]
mod unbounded {
    const FAR: f32 = f32::NEG_INFINITY;

    fn nearest<T>(x: [T; 3]) -> T {
        let mut least = T::INFINITY;
        for value in x {
            if value < least {
                least = value;
            }
        }
        least
    }

    /// What a search starts with, of which nothing may be found.
    #[kernel]
    pub fn searched(x: &[f32], limit: f32, nearest: &mut [f32], found: &mut [u32]) {
        let i = global_id(0);
        let (mut least, mut most) = (f32::INFINITY, FAR);
        for k in 0..4 {
            let value = x[4 * i + k];
            if value < limit {
                least = least.min(value);
                most = most.max(value);
            }
        }
        nearest[3 * i] = least;
        nearest[3 * i + 1] = most;
        nearest[3 * i + 2] = of_three([x[4 * i], x[4 * i + 1], limit]);
        found[i] = if least.is_infinite() { 0 } else { 1 };
        if least == f32::INFINITY && most < -f32::MAX && !most.is_finite() {
            found[i] += 10;
        }
    }

    fn of_three(x: [f32; 3]) -> f32 {
        nearest(x)
    }
}

#[test]
fn infinities_are_there_to_start_with() {
    let x: Vec<f32> = (0..64).map(|i| (i * 29 % 64) as f32).collect();
    let limit = 10.0;
    let of = |i: usize| x[4 * i..][..4].iter().copied().filter(|v| *v < limit);
    let least = |i| of(i).fold(f32::INFINITY, f32::min);
    let expected: Vec<f32> = (0..16)
        .flat_map(|i| {
            [least(i), of(i).fold(f32::NEG_INFINITY, f32::max), x[4 * i].min(x[4 * i + 1]).min(limit)]
        })
        .chain((0..16).map(|i| if least(i).is_infinite() { 10.0 } else { 1.0 }))
        .collect();
    assert!(expected[48..].contains(&10.0) && expected[48..].contains(&1.0));
    everywhere(&expected, |queue| {
        let (from, nearest, found) =
            (Buffer::from(x.clone()), Buffer::<f32>::new(48), Buffer::<u32>::new(16));
        queue.submit(|cg| {
            let (nearest, found) = (cg.write(&nearest), cg.read_write(&found));
            cg.parallel_for(16, unbounded::searched(cg.read(&from), limit, nearest, found))
        })?;
        Ok(read(&nearest)?.into_iter().chain(read(&found)?.into_iter().map(|v| v as f32)).collect())
    });
}
