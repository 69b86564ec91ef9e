//! Integers of 8 and 16 bits: in registers they wrap at their width, in memory each is by itself.

use windlass::prelude::*;

use crate::everywhere::{everywhere, queues, read};

/// The picture's two neighbours, and a sum that is held inside.
#[windlass::kernel]
fn blur(from: &[u8], to: &mut [u8]) {
    let i = global_id(0);
    let sum = from[i - 1] as u32 + from[i] as u32 + from[i + 1] as u32;
    to[i] = (sum / 3) as u8;
}

#[test]
fn pictures_of_bytes() {
    // No multiple of a word, so that the last ones are in a word that is not full.
    for len in [1_usize, 3, 64, 203] {
        let picture: Vec<u8> = (0..len).map(|i| (i * 37 % 256) as u8).collect();
        let at = |i: i64| usize::try_from(i).ok().and_then(|i| picture.get(i)).copied().unwrap_or(0);
        let sum = |i: i64| u32::from(at(i - 1)) + u32::from(at(i)) + u32::from(at(i + 1));
        let expected: Vec<u8> = (0..len as i64).map(|i| (sum(i) / 3) as u8).collect();
        everywhere(&expected, |queue| {
            let (from, to) = (Buffer::from(picture.clone()), Buffer::<u8>::new(len));
            queue.submit(|cg| cg.parallel_for(len, blur(cg.read(&from), cg.write(&to))))?;
            read(&to)
        });
    }
}

#[windlass::kernels]
mod registers {
    const STEPS: [i8; 3] = [-128, 100 + 27, 5];

    fn twice(x: &mut i8) {
        *x += *x;
    }

    #[kernel]
    pub fn bytes(a: i8, b: u8, x: &[i8], out: &mut [i8], unsigned: &mut [u8]) {
        let i = global_id(0);
        let v = x[i];
        let mut doubled = v;
        twice(&mut doubled);
        let mut w = (v + a) * 3 - STEPS[i % 3];
        w ^= doubled;
        w = w << 3 | w >> 2;
        let u = (b - v as u8) * 7 / (v as u8 | 1) + !b % 9;
        out[8 * i] = w;
        out[8 * i + 1] = v / -1;
        out[8 * i + 2] = -v;
        out[8 * i + 3] = v.abs().max(v.signum()).min(a);
        out[8 * i + 4] = (v as f32 * 2.5) as i8;
        out[8 * i + 5] = doubled.saturating_add(v).clamp(-100, 100);
        out[8 * i + 6] = if v < a { i8::MAX } else { i8::MIN };
        out[8 * i + 7] += match v {
            -128..=-1 => 1,
            0 => 2,
            _ => 3,
        };
        unsigned[2 * i] = u + v.abs_diff(a) + u8::BITS as u8;
        unsigned[2 * i + 1] = (v as f32 * -300.0) as u8 ^ u.wrapping_neg();
    }

    #[kernel]
    pub fn words(a: u16, x: &[u16], out: &mut [i16], pairs: &mut [Vec2<u16>]) {
        let i = global_id(0);
        out[i] = (x[i] * a) as i16 / 3 - (x[i] >> 9) as i16;
        let pair = pairs[i];
        pairs[i] = pair * Vec2::splat(a) + Vec2::new(x[i], i as u16);
        pairs[i].y += 3;
        pairs[i].x = pairs[i].x << 15_u32;
    }
}

#[test]
fn numbers_wrap_at_their_width() {
    let x: Vec<i8> = (-128..=127).collect();
    let (a, b) = (57_i8, 201_u8);
    let (mut expected, mut unsigned) = (Vec::new(), Vec::new());
    for (i, v) in x.iter().copied().enumerate() {
        let doubled = v.wrapping_add(v);
        let step = [-128, 127, 5][i % 3];
        let mut w = v.wrapping_add(a).wrapping_mul(3).wrapping_sub(step);
        w ^= doubled;
        w = w.wrapping_shl(3) | w.wrapping_shr(2);
        let u = b.wrapping_sub(v as u8).wrapping_mul(7) / (v as u8 | 1);
        let u = u.wrapping_add(!b % 9);
        let kind = if v < 0 { 1 } else { 2 + i8::from(v > 0) };
        expected.extend([w, v.checked_div(-1).unwrap_or(v), v.wrapping_neg()]);
        expected.extend([v.wrapping_abs().max(v.signum()).min(a), (f32::from(v) * 2.5) as i8]);
        expected.push(doubled.saturating_add(v).clamp(-100, 100));
        expected.extend([if v < a { i8::MAX } else { i8::MIN }, 9 + kind]);
        unsigned.push(u.wrapping_add(v.abs_diff(a)).wrapping_add(8));
        unsigned.push((f32::from(v) * -300.0) as u8 ^ u.wrapping_neg());
    }
    let expected: Vec<u8> = expected.into_iter().map(|v| v as u8).chain(unsigned).collect();
    everywhere(&expected, |queue| {
        let (from, to) = (Buffer::from(x.clone()), Buffer::from(vec![9_i8; 8 * 256]));
        let unsigned = Buffer::<u8>::new(512);
        queue.submit(|cg| {
            let (to, unsigned) = (cg.read_write(&to), cg.write(&unsigned));
            cg.parallel_for(256, registers::bytes(a, b, cg.read(&from), to, unsigned))
        })?;
        Ok(read(&to)?.into_iter().map(|v| v as u8).chain(read(&unsigned)?).collect())
    });
    let x: Vec<u16> = (0..333).map(|i| (i * 977 % 65_536) as u16).collect();
    let mut expected = Vec::new();
    for v in &x {
        let product = v.wrapping_mul(40_003) as i16;
        expected.push((product / 3).wrapping_sub((v >> 9) as i16) as u16);
    }
    for (i, v) in x.iter().enumerate() {
        let [x, y] = [7_u16, i as u16].map(|part| part.wrapping_mul(40_003));
        expected.push(x.wrapping_add(*v) << 15);
        expected.push(y.wrapping_add(i as u16).wrapping_add(3));
    }
    everywhere(&expected, |queue| {
        let (from, to) = (Buffer::from(x.clone()), Buffer::<i16>::new(333));
        let pairs = Buffer::from((0..333_u16).map(|i| Vec2::new(7, i)).collect::<Vec<_>>());
        queue.submit(|cg| {
            let (to, pairs) = (cg.write(&to), cg.read_write(&pairs));
            cg.parallel_for(333, registers::words(40_003, cg.read(&from), to, pairs))
        })?;
        let pairs = read(&pairs)?.into_iter().flat_map(|pair| [pair.x, pair.y]);
        Ok(read(&to)?.into_iter().map(|v| v as u16).chain(pairs).collect())
    });
}

/// Neighbours in one word, written by other items, in another order, and by two launches.
#[windlass::kernel]
fn scattered(by: u32, value: u8, to: &mut [u8]) {
    let i = global_id(0);
    to[i * by % to.len()] += value + i as u8;
}

#[test]
fn neighbours_in_a_word_do_not_touch_each_other() {
    let expected: Vec<u8> = (0..1021_u32)
        .map(|at| {
            let i = (0..1021).find(|i| i * 5 % 1021 == at).unwrap_or(0);
            (at as u8).wrapping_add(3_u8.wrapping_add(i as u8)).wrapping_add(200_u8.wrapping_add(i as u8))
        })
        .collect();
    everywhere(&expected, |queue| {
        let to = Buffer::from((0..1021).map(|at| at as u8).collect::<Vec<_>>());
        for value in [3, 200] {
            queue.submit(|cg| cg.parallel_for(1021, scattered(5, value, cg.read_write(&to))))?;
        }
        read(&to)
    });
}

/// Local memory of bytes, and a part of a buffer that starts inside a word, where a device takes such a part.
#[windlass::kernel]
fn turned(x: &[u8], out: &mut [u8], #[local] tile: &mut [u8; 16]) {
    let l = local_id(0);
    tile[l] = x[global_id(0)] + 1;
    barrier();
    out[global_id(0)] = tile[15 - l] * 2;
}

#[test]
fn local_memory_and_parts() {
    let x: Vec<u8> = (0..70).map(|i| i * 3).collect();
    for queue in queues() {
        for start in [0, 4, 3] {
            let (from, to) = (Buffer::from(x.clone()), Buffer::from(vec![7_u8; 70]));
            let (part, whole) = (from.range(start..start + 64), to.range(start..start + 64));
            let range = windlass::NdRange { global: [64], local: [16] };
            let ended = queue.submit(|cg| cg.parallel_for(range, turned(cg.read(&part), cg.write(&whole))));
            let mut expected = vec![7_u8; 70];
            for i in 0..64 {
                let from = i / 16 * 16 + 15 - i % 16;
                expected[start + i] = x[start + from].wrapping_add(1).wrapping_mul(2);
            }
            ended.unwrap();
            assert_eq!(read(&to).unwrap(), expected, "from {start} on {}", queue.device());
        }
    }
}

#[windlass::kernels]
mod known {
    const TABLE: [i32; 3] = [-7, 1 << 20, 40_000];

    /// Values that a text's compiler knows, of which more is cut off than it would let pass.
    #[kernel]
    pub fn values(out: &mut [i32]) {
        out[0] = -(TABLE[1] as i16) as i32;
        out[1] = 70_000_i32 as i16 as i32;
        out[2] = -(-128_i8) as i32;
        out[3] = TABLE[2] as i16 as i32 + (300_u32 as u8) as i32;
        out[4] = (-1.0_f32) as u8 as i32 + 1e9_f32 as i8 as i32;
    }
}

#[test]
fn known_values_are_cut_off() {
    let expected = [0, 4464, -128, -25_536 + 44, 127];
    everywhere(&expected, |queue| {
        let out = Buffer::<i32>::new(5);
        queue.submit(|cg| cg.parallel_for(1, known::values(cg.write(&out))))?;
        read(&out)
    });
}

/// A loop over bytes, whose ends lie outside.
#[windlass::kernel]
fn sums(x: &[u8], n: u32, out: &mut [u32]) {
    let i = global_id(0);
    let mut sum = 0;
    for k in 0..n {
        sum += x[i * 3 + k] as u32;
    }
    out[i] = sum;
}

#[test]
fn loops_over_bytes() {
    let x: Vec<u8> = (0..61).map(|i| (i * 41 % 256) as u8).collect();
    for n in [0, 3, 9] {
        let at = |i: usize| u32::from(x.get(i).copied().unwrap_or(0));
        let expected: Vec<u32> = (0..24).map(|i| (0..n).map(|k| at(i * 3 + k)).sum()).collect();
        everywhere(&expected, |queue| {
            let (from, to) = (Buffer::from(x.clone()), Buffer::<u32>::new(24));
            queue.submit(|cg| cg.parallel_for(24, sums(cg.read(&from), n as u32, cg.write(&to))))?;
            read(&to)
        });
    }
}
