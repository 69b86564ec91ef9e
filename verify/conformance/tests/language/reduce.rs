//! Reductions, and values that a kernel is built with.

use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere::{everywhere, read, where_there_is};

#[windlass::kernel]
fn range_of(
    x: &[i32],
    #[reduce(sum)] sum: &mut i32,
    #[reduce(min)] least: &mut i32,
    #[reduce(max)] most: &mut i32,
) {
    let i = global_id(0);
    // Items that return leave what they have.
    if x[i] == 13 {
        return;
    }
    *sum += x[i];
    *least = x[i];
    *most = x[i].max(*most);
}

fn numbers(n: i32) -> Vec<i32> {
    (0..n).map(|i| (i * 7919) % 1009 - 500).collect()
}

#[test]
fn sums_and_extremes_of_a_range() {
    for n in [1, 63, 64, 65, 1000] {
        let x = numbers(n);
        let counted = || x.iter().filter(|v| **v != 13);
        let (sum, least, most) = (counted().sum::<i32>(), counted().min(), counted().max());
        let expected = [sum + 5, least.copied().unwrap_or(i32::MAX), most.copied().unwrap_or(i32::MIN)];
        everywhere(&expected, |queue| {
            let x = Buffer::from(x.clone());
            // What is there counts, too.
            let results = [5, i32::MAX, i32::MIN].map(|first| Buffer::from(vec![first]));
            queue.submit(|cg| {
                let [sum, least, most] = &results;
                let results = (cg.read_write(sum), cg.read_write(least), cg.read_write(most));
                cg.parallel_for(x.len(), range_of(cg.read(&x), results.0, results.1, results.2))
            })?;
            Ok([read(&results[0])?[0], read(&results[1])?[0], read(&results[2])?[0]].to_vec())
        });
    }
}

#[windlass::kernels]
mod user {
    fn gcd(a: u32, b: u32) -> u32 {
        let mut x = a;
        let mut y = b;
        while y != 0 {
            let rest = x % y;
            x = y;
            y = rest;
        }
        x
    }

    #[kernel]
    pub fn common(x: &[u32], #[reduce(gcd, identity = 0)] divisor: &mut u32) {
        *divisor = x[global_id(0)];
    }

    fn add(sum: &mut f32, value: f32) {
        *sum += value;
    }

    #[kernel]
    pub fn dot(a: &[f32], b: &[f32], #[reduce(sum)] total: &mut f32) {
        let i = global_id(0);
        if i < a.len() {
            add(total, a[i] * b[i]);
        }
    }

    /// Groups with memory of their own, a barrier, and items that are over before it.
    #[kernel]
    pub fn neighbours(
        x: &[u32],
        #[local] tile: &mut [u32],
        #[reduce(max)] most: &mut u32,
        #[reduce(sum)] all: &mut u32,
    ) {
        let l = local_id(0);
        tile[l] = x[global_id(0)];
        barrier();
        *all += 1;
        let pair = tile[l] + tile[l + 1];
        if pair % 2 == 1 {
            return;
        }
        *most = pair;
    }
}

#[test]
fn an_operator_of_the_users() {
    let x: Vec<u32> = (1..300).map(|i| i * 84).collect();
    everywhere(&[84, 12], |queue| {
        let (x, divisors) = (Buffer::from(x.clone()), Buffer::from(vec![0, 60]));
        for at in 0..2 {
            queue.submit(|cg| {
                let divisor = cg.read_write(&divisors.range(at..at + 1));
                cg.parallel_for(x.len(), user::common(cg.read(&x), divisor))
            })?;
        }
        read(&divisors)
    });
}

#[test]
fn floats_are_summed_in_any_order() {
    // Small whole numbers, whose sums are exact in any order.
    let a: Vec<f32> = (0..777).map(|i| (i % 9) as f32 - 4.0).collect();
    let expected: f32 = a.iter().map(|a| a * a).sum();
    everywhere(&[expected], |queue| {
        let (a, total) = (Buffer::from(a.clone()), Buffer::<f32>::new(1));
        queue.submit(|cg| {
            cg.parallel_for([1024], user::dot(cg.read(&a), cg.read(&a), cg.read_write(&total)))
        })?;
        read(&total)
    });
}

#[test]
fn groups_of_any_size_are_summed() {
    for local in [1, 3, 20, 64] {
        let n = 4 * local;
        let x: Vec<u32> = (0..n as u32).map(|i| i * 37 % 101).collect();
        let pair = |i: usize| x[i] + if (i + 1).is_multiple_of(local) { 0 } else { x[i + 1] };
        let most = (0..n).map(pair).filter(|pair| pair % 2 == 0).max().unwrap_or(0);
        everywhere(&[most, n as u32], |queue| {
            let (x, results) = (Buffer::from(x.clone()), Buffer::<u32>::new(2));
            queue.submit(|cg| {
                let results = (cg.read_write(&results.range(..1)), cg.read_write(&results.range(1..)));
                let call = user::neighbours(cg.read(&x), local, results.0, results.1);
                cg.parallel_for(NdRange { global: [n], local: [local] }, call)
            })?;
            read(&results)
        });
    }
}

#[windlass::kernel]
fn shaped(#[spec] times: u32, #[spec] scale: f32, #[spec] negative: bool, #[spec] step: i32, x: &mut [f32]) {
    let i = global_id(0);
    for _ in 0..times {
        x[i] = x[i] * scale + ((7 / step) as f32);
    }
    if negative {
        x[i] = -x[i];
    }
}

#[test]
fn kernels_are_built_with_values() {
    for (times, scale, negative, step) in [(0, 2.0, true, 1), (3, 2.0, false, -2), (2, 0.5, true, 0)] {
        let start: Vec<f32> = (0..10).map(|i| i as f32).collect();
        let expected: Vec<f32> = start
            .iter()
            .map(|x| {
                let added = if step == 0 { 7 } else { 7 / step } as f32;
                let x = (0..times).fold(*x, |x, _| x * scale + added);
                if negative { -x } else { x }
            })
            .collect();
        everywhere(&expected, |queue| {
            let x = Buffer::from(start.clone());
            queue
                .submit(|cg| cg.parallel_for(10, shaped(times, scale, negative, step, cg.read_write(&x))))?;
            read(&x)
        });
    }
}

#[test]
fn what_devices_cannot_be_built_with_is_refused() {
    let queue = Queue::blocking_on(Device::host()).expect("the host is always there");
    let x = Buffer::<f32>::new(1);
    let refused = queue.submit(|cg| cg.parallel_for(1, shaped(1, f32::NAN, false, 1, cg.read_write(&x))));
    let error = refused.expect_err("no number").to_string();
    assert!(error.contains("`shaped`") && error.contains("`scale`"), "{error}");
}

#[windlass::kernels]
mod wide {
    use windlass::prelude::*;

    #[kernel]
    pub fn vectors(
        x: &[Vec3<f32>],
        #[reduce(sum)] centre: &mut Vec3<f32>,
        #[reduce(min)] low: &mut Vec3<f32>,
        #[reduce(max)] high: &mut Vec4<i32>,
        #[reduce(sum)] counts: &mut Vec2<u32>,
    ) {
        let at = x[global_id(0)];
        *centre += at;
        *low = at;
        high.x = at.x as i32;
        high.w = high.w.max(at.z as i32);
        *counts += Vec2::new(1, if at.y < 0.0 { 1 } else { 0 });
    }

    fn product(a: u64, b: u64) -> u64 {
        a * b
    }

    #[kernel]
    pub fn integers(
        x: &[u32],
        #[reduce(sum)] sum: &mut u64,
        #[reduce(min)] least: &mut i64,
        #[reduce(max)] most: &mut Vec2<u64>,
        #[reduce(product, identity = 1)] all: &mut u64,
    ) {
        let v = x[global_id(0)] as u64;
        *sum += v * v * 4_000_000;
        *least = -(v as i64) * 5_000_000_000;
        *most = Vec2::new(v << 40, v);
        *all = v | 1;
    }

    #[kernel]
    pub fn doubles(x: &[u32], #[reduce(sum)] sum: &mut f64, #[reduce(max)] most: &mut f64) {
        let v = x[global_id(0)] as f64;
        *sum += v + 0.5;
        *most = v * -1e100;
    }
}

#[test]
fn vectors_are_reduced_by_their_parts() {
    let x: Vec<Vec3<f32>> =
        numbers(777).iter().map(|v| Vec3::new(*v as f32, 3.0 - *v as f32, (v % 7) as f32)).collect();
    let parts: [fn(&Vec3<f32>) -> f32; 3] = [|v| v.x, |v| v.y, |v| v.z];
    let sums = parts.map(|part| x.iter().map(part).sum::<f32>() + 1.0);
    let lows = parts.map(|part| x.iter().map(part).fold(f32::MAX, f32::min));
    let high = |part: fn(&Vec3<f32>) -> f32| x.iter().map(part).fold(f32::MIN, f32::max);
    let below = x.iter().filter(|v| v.y < 0.0).count() as f32;
    let highs = [high(|v| v.x), 5.0, 6.0, high(|v| v.z)];
    let expected: Vec<f32> = [&sums[..], &lows, &highs, &[777.0, below + 10.0]].concat();
    everywhere(&expected, |queue| {
        let x = Buffer::from(x.clone());
        let (centre, low) =
            (Buffer::from(vec![Vec3::splat(1.0_f32)]), Buffer::from(vec![Vec3::splat(f32::MAX)]));
        // The second of two, so that a result is looked for where it is.
        let highs = Buffer::from(vec![Vec4::splat(-1), Vec4::new(i32::MIN, 5, 6, i32::MIN)]);
        let counts = Buffer::from(vec![Vec2::new(0, 10_u32)]);
        let high = highs.range(1..2);
        queue.submit(|cg| {
            let results = (cg.read_write(&centre), cg.read_write(&low), cg.read_write(&high));
            let call = wide::vectors(cg.read(&x), results.0, results.1, results.2, cg.read_write(&counts));
            cg.parallel_for(x.len(), call)
        })?;
        let (centre, low, highs) = (read(&centre)?[0], read(&low)?[0], read(&highs)?);
        assert_eq!(highs[0], Vec4::splat(-1));
        let (high, counts) = (highs[1], read(&counts)?[0]);
        let integers = [high.x, high.y, high.z, high.w, counts.x as i32, counts.y as i32];
        let floats = [centre.x, centre.y, centre.z, low.x, low.y, low.z];
        Ok(floats.into_iter().chain(integers.map(|v| v as f32)).collect())
    });
}

#[test]
fn numbers_of_64_bits_are_reduced() {
    let x: Vec<u32> = numbers(1000).iter().map(|v| v.unsigned_abs()).collect();
    let wide = || x.iter().map(|v| u64::from(*v));
    let most = wide().max().unwrap_or(0);
    let expected = [
        wide().map(|v| v * v * 4_000_000).sum::<u64>() + (1 << 40),
        (most as i64 * -5_000_000_000) as u64,
        most << 40,
        most,
        wide().fold(3, |all, v| all.wrapping_mul(v | 1)),
    ];
    let can = |queue: &Queue| queue.device().can_run(wide::integers::kernel()).is_ok();
    where_there_is("atomics of 64 bits", can, |queue| {
        let (from, sum, least) =
            (Buffer::from(x.clone()), Buffer::from(vec![1_u64 << 40]), Buffer::from(vec![0_i64]));
        let (most, all) = (Buffer::from(vec![Vec2::splat(0_u64)]), Buffer::from(vec![3_u64]));
        queue.submit(|cg| {
            let (sum, least) = (cg.read_write(&sum), cg.read_write(&least));
            let call = wide::integers(cg.read(&from), sum, least, cg.read_write(&most), cg.read_write(&all));
            cg.parallel_for(x.len(), call)
        })?;
        let most = read(&most)?[0];
        let found = [read(&sum)?[0], read(&least)?[0] as u64, most.x, most.y, read(&all)?[0]];
        assert_eq!(found, expected, "on {}", queue.device());
        Ok(())
    });
    let can = |queue: &Queue| queue.device().can_run(wide::doubles::kernel()).is_ok();
    where_there_is("floats and atomics of 64 bits", can, |queue| {
        let (from, sum, most) =
            (Buffer::from(x.clone()), Buffer::from(vec![2.0_f64]), Buffer::from(vec![f64::MIN]));
        queue.submit(|cg| {
            let call = wide::doubles(cg.read(&from), cg.read_write(&sum), cg.read_write(&most));
            cg.parallel_for(x.len(), call)
        })?;
        let total = wide().map(|v| v as f64 + 0.5).sum::<f64>() + 2.0;
        let least = wide().min().unwrap_or(0) as f64;
        assert_eq!((read(&sum)?[0], read(&most)?[0]), (total, least * -1e100), "on {}", queue.device());
        Ok(())
    });
}
