//! Accesses that a row of items makes side by side where all are inside: the same as one by one, wherever a row's ends lie outside,
//! an index wraps or has a sign, items meet, or a loop's turns are a row as well.

use windlass::NdRange;
use windlass::prelude::*;

use windlass_testkit::Rng;

use crate::everywhere::{everywhere, read};

fn values(len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| i * i + 3).collect()
}

/// An element, or what is read outside.
fn element(x: &[u32], at: u32) -> u32 {
    x.get(at as usize).copied().unwrap_or(0)
}

#[windlass::kernel]
fn neighbours(by: u32, x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    out[i] = x[i - by] + 10 * x[i] + 100 * x[i + by] + 1000 * x[7];
}

#[test]
fn neighbours_of_the_ends_are_outside() {
    for (by, len, items) in
        [(1, 40, 40), (0, 40, 40), (9, 40, 50), (39, 40, 40), (40, 40, 40), (1 << 31, 40, 40), (1, 5, 40)]
    {
        let x = values(len);
        let at = |i: u32| {
            let around =
                element(&x, i.wrapping_sub(by)) + 10 * element(&x, i) + 100 * element(&x, i.wrapping_add(by));
            around + 1000 * element(&x, 7)
        };
        let expected: Vec<u32> = (0..44).map(|i| if i < items { at(i) } else { 9 }).collect();
        everywhere(&expected, |queue| {
            let (from, to) = (Buffer::from(x.clone()), Buffer::from(vec![9_u32; 44]));
            queue.submit(|cg| {
                cg.parallel_for(items as usize, neighbours(by, cg.read(&from), cg.write(&to)))
            })?;
            read(&to)
        });
    }
}

#[windlass::kernel]
fn around(x: &View<u32, 2>, out: &mut View<u32, 2>) {
    let (i, j) = (global_id(0), global_id(1));
    if i >= out.extent(0) || j >= out.extent(1) {
        return;
    }
    let sides = x[i][j - 1] + x[i][j + 1];
    out[i][j] = sides + 10 * x[i - 1][j + 1] + 100 * x[i + 1][j] + 1000 * x[i][j];
}

#[test]
fn neighbours_in_two_dimensions() {
    for ([rows, columns], [x_rows, x_columns], launch) in [
        ([9, 20], [9, 20], [9, 20]),
        ([9, 20], [8, 20], [9, 20]),
        ([9, 20], [9, 17], [12, 24]),
        ([9, 3], [9, 3], [9, 3]),
        ([1, 20], [1, 20], [1, 20]),
    ] {
        let x = values(x_rows * x_columns);
        let at = |i: i64, j: i64| match i >= 0 && j >= 0 && i < x_rows as i64 && j < x_columns as i64 {
            true => x[i as usize * x_columns + j as usize],
            false => 0,
        };
        let mut expected = Vec::new();
        for (i, j) in (0..rows as i64).flat_map(|i| (0..columns as i64).map(move |j| (i, j))) {
            let sides = at(i, j - 1) + at(i, j + 1);
            expected.push(sides + 10 * at(i - 1, j + 1) + 100 * at(i + 1, j) + 1000 * at(i, j));
        }
        everywhere(&expected, |queue| {
            let from = Buffer::with_shape([x_rows, x_columns], x.clone())?;
            let to = Buffer::with_shape([rows, columns], vec![7_u32; rows * columns])?;
            queue.submit(|cg| cg.parallel_for(launch, around(cg.read(&from), cg.write(&to))))?;
            Ok(to.host_read().blocking_wait()?.to_vec())
        });
    }
}

#[windlass::kernel]
fn moved(start: u32, step: u32, far: u32, x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    let from = far * i + 2;
    let to = start + step * i;
    out[to] = x[from] + i;
    out[to] += 1;
}

#[test]
fn steps_may_be_any_number() {
    for (start, step, far) in [
        (0, 1, 1),
        (3, 1, 0),
        (2, 3, 2),
        (60, 1, 1),
        (u32::MAX - 3, 1, 5),
        (39, u32::MAX, 1),
        (0, 2, u32::MAX),
        (5, 1 << 31, 1 << 30),
    ] {
        let x = values(64);
        let mut expected = vec![5_u32; 64];
        for i in 0..30_u32 {
            let to = start.wrapping_add(step.wrapping_mul(i));
            // Items that meet: none of these does, but at the ends of what wraps.
            if let Some(to) = expected.get_mut(to as usize).filter(|_| step != 1 << 31) {
                *to = element(&x, far.wrapping_mul(i).wrapping_add(2)).wrapping_add(i + 1);
            }
        }
        let run = |queue: &Queue| {
            let (from, to) = (Buffer::from(x.clone()), Buffer::from(vec![5_u32; 64]));
            queue.submit(|cg| {
                cg.parallel_for(30, moved(start, step, far, cg.read(&from), cg.read_write(&to)))
            })?;
            read(&to)
        };
        match step {
            // Here items meet, one after the other on the host.
            0x8000_0000 => {
                let mut to = vec![5_u32; 64];
                moved(start, step, far, &x[..], &mut to[..]).run_here(30).unwrap();
                assert_eq!(to[5], element(&x, far.wrapping_mul(28).wrapping_add(2)) + 29);
            }
            _ => everywhere(&expected, run),
        }
    }
}

#[windlass::kernel]
fn signed(by: i32, x: &[u32], out: &mut [u32]) {
    let i = global_id(0) as i32;
    out[i + by] = x[i - by] + x[2 * i + by];
}

#[test]
fn what_is_negative_is_outside() {
    for by in [0, 1, -1, 5, -5, 33, -33, i32::MAX, i32::MIN] {
        let x = values(32);
        let at = |i: i32| u32::try_from(i).map_or(0, |i| element(&x, i));
        let mut expected = vec![1_u32; 32];
        for i in 0..32_i32 {
            if let Ok(to) = usize::try_from(i.wrapping_add(by))
                && to < 32
            {
                expected[to] = at(i.wrapping_sub(by)) + at((2 * i).wrapping_add(by));
            }
        }
        everywhere(&expected, |queue| {
            let (from, to) = (Buffer::from(x.clone()), Buffer::from(vec![1_u32; 32]));
            queue.submit(|cg| cg.parallel_for(32, signed(by, cg.read(&from), cg.write(&to))))?;
            read(&to)
        });
    }
}

/// Each turn is a row.
#[windlass::kernel]
fn strided(off: u32, by: u32, limit: u32, x: &[u32], out: &mut [u32]) {
    let mut i = global_id(0) + off;
    while i < limit {
        let twice = 2 * x[i];
        out[i] = out[i] + twice + x[i + 1];
        i += by;
    }
}

#[test]
fn turns_by_strides() {
    for (items, off, by, limit) in [
        (20, 0, 20, 64),
        (20, 3, 20, 64),
        (20, 0, 20, 80),
        (20, 0, 20, 0),
        (64, 0, 64, 64),
        (20, 0, 25, 60),
        (1, 0, 1, 64),
        (20, 60, 20, 64),
    ] {
        let x = values(64);
        let mut expected = vec![1_u32; 64];
        for item in 0..items {
            for i in (off + item..limit).step_by(by as usize) {
                if let Some(to) = expected.get_mut(i as usize) {
                    *to += 2 * element(&x, i) + element(&x, i + 1);
                }
            }
        }
        everywhere(&expected, |queue| {
            let (from, to) = (Buffer::from(x.clone()), Buffer::from(vec![1_u32; 64]));
            queue.submit(|cg| {
                let (from, to) = (cg.read(&from), cg.read_write(&to));
                cg.parallel_for(items as usize, strided(off, by, limit, from, to))
            })?;
            read(&to)
        });
    }
}

/// The turns of all items are a row where they follow each other.
#[windlass::kernel]
fn joined(each: u32, from: u32, to: u32, add: u32, x: &[u32], out: &mut [u32]) {
    let first = global_id(0) * each;
    for k in from..to {
        let value = x[first + k] + add;
        out[k + first] = value;
    }
}

/// The same, with a turn that is not like the others.
#[windlass::kernel]
fn unlike(each: u32, x: &[u32], out: &mut [u32]) {
    let first = global_id(0) * each;
    for k in 0..3 {
        out[first + k] = x[first + k] + k;
    }
}

#[test]
fn turns_side_by_side() {
    for (items, each, from, to) in [
        (20, 4, 0, 4),
        (20, 4, 1, 4),
        (20, 4, 0, 3),
        (20, 3, 0, 3),
        (30, 4, 2, 6),
        (9, 4, 4, 4),
        (9, 5, 5, 2),
        (3, 1, 0, 1),
    ] {
        let x = values(70);
        let mut expected = vec![2_u32; 80];
        let mut alike = vec![2_u32; 80];
        for item in 0..items {
            for k in from..to {
                if let Some(out) = expected.get_mut((item * each + k) as usize) {
                    *out = element(&x, item * each + k) + 11;
                }
            }
            for k in 0..3 {
                // Of items that meet the last one wins, on the host.
                if let Some(out) = alike.get_mut((item * each + k) as usize).filter(|_| each >= 3) {
                    *out = element(&x, item * each + k) + k;
                }
            }
        }
        everywhere(&expected, |queue| {
            let (x, out) = (Buffer::from(x.clone()), Buffer::from(vec![2_u32; 80]));
            queue.submit(|cg| {
                cg.parallel_for(items as usize, joined(each, from, to, 11, cg.read(&x), cg.write(&out)))
            })?;
            read(&out)
        });
        if each >= 3 {
            everywhere(&alike, |queue| {
                let (x, out) = (Buffer::from(x.clone()), Buffer::from(vec![2_u32; 80]));
                queue.submit(|cg| {
                    cg.parallel_for(items as usize, unlike(each, cg.read(&x), cg.write(&out)))
                })?;
                read(&out)
            });
        }
    }
}

/// A value that an item changes is its own.
#[windlass::kernel]
fn changed(mut n: u32, x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    n += x[i + 1];
    out[i] = n;
}

#[test]
fn a_parameter_that_changes_is_an_items_own() {
    let x = values(20);
    let expected: Vec<u32> = (0..20).map(|i| 4 + element(&x, i + 1)).collect();
    everywhere(&expected, |queue| {
        let (from, to) = (Buffer::from(x.clone()), Buffer::<u32>::new(20));
        queue.submit(|cg| cg.parallel_for(20, changed(4, cg.read(&from), cg.write(&to))))?;
        read(&to)
    });
}

/// Tiles of two and three dimensions, with indices beyond each of their ends.
#[windlass::kernel]
fn tiles(
    off: u32,
    x: &[u32],
    out: &mut [u32],
    sums: &mut [u32],
    #[local] flat: &mut [[u32; 5]; 4],
    #[local] deep: &mut [[[u32; 2]; 3]; 20],
    #[local] whole: &mut [[u32; 3]; 20],
) {
    let l = local_id(0);
    let at = group_id(0) * local_size(0) + l;
    flat[l / 5][l % 5] = x[at];
    deep[l][l % 4][off] = x[at + 1];
    whole[l] = [l, at, x[at]];
    barrier();
    let row = whole[l + off];
    out[at] = flat[l / 5][l % 5 + off] + 1000 * deep[l][l % 4][off] + row[1] + flat.len() + deep.len();
    if l == 2 {
        sums[group_id(0)] = flat[3][4] + flat[0][off] + flat[4][0];
    }
}

#[test]
fn tiles_of_more_dimensions_are_their_numbers() {
    for off in [0, 1, 2, 7] {
        let x = values(60);
        let (mut expected, mut sums) = (Vec::new(), Vec::new());
        for group in 0..3_u32 {
            let flat = |row: u32, column: u32| match row < 4 && column < 5 {
                true => element(&x, group * 20 + row * 5 + column),
                false => 0,
            };
            for l in 0..20_u32 {
                let at = group * 20 + l;
                let deep = if l % 4 < 3 && off < 2 { element(&x, at + 1) } else { 0 };
                let row = if l + off < 20 { at + off } else { 0 };
                expected.push(flat(l / 5, l % 5 + off) + 1000 * deep + row + 24);
            }
            sums.push(flat(3, 4) + flat(0, off));
        }
        expected.extend(sums);
        everywhere(&expected, |queue| {
            let (x, out, sums) = (Buffer::from(x.clone()), Buffer::<u32>::new(60), Buffer::<u32>::new(3));
            queue.submit(|cg| {
                let range = NdRange { global: [60], local: [20] };
                let call = tiles(off, cg.read(&x), cg.write(&out), cg.write(&sums));
                cg.parallel_for(range, call)
            })?;
            Ok([read(&out)?, read(&sums)?].concat())
        });
    }
}

/// Sums of groups beside what their items write, and elements that two groups write alike.
#[windlass::kernel]
fn grouped(each: u32, x: &[u32], out: &mut [u32], sums: &mut [u32], #[local] tile: &mut [u32]) {
    let l = local_id(0);
    let first = global_id(0) * each;
    for k in 0..3 {
        out[first + k] = x[first + k] + 1;
        tile[l] += x[first + k];
    }
    barrier();
    if l == 0 {
        for k in 0..local_size(0) {
            sums[group_id(0)] += tile[k];
        }
    }
}

#[test]
fn groups_that_keep_apart_write_plainly() {
    for (each, items, local) in [(3, 24, 8), (4, 24, 4), (3, 20, 20), (3, 32, 16)] {
        let x = values(80);
        let (mut expected, mut sums) = (vec![6_u32; 96], vec![5_u32; 10]);
        for item in 0..items {
            for k in 0..3 {
                let at = item * each + k;
                if let Some(out) = expected.get_mut(at as usize) {
                    *out = element(&x, at) + 1;
                }
                sums[(item / local) as usize] += element(&x, at);
            }
        }
        expected.extend(sums);
        everywhere(&expected, |queue| {
            let (x, out) = (Buffer::from(x.clone()), Buffer::from(vec![6_u32; 96]));
            let sums = Buffer::from(vec![5_u32; 10]);
            queue.submit(|cg| {
                let range = NdRange { global: [items as usize], local: [local as usize] };
                let (out, sums) = (cg.write(&out), cg.read_write(&sums));
                cg.parallel_for(range, grouped(each, cg.read(&x), out, sums, local as usize))
            })?;
            Ok([read(&out)?, read(&sums)?].concat())
        });
    }
}

/// Numbers that lie near ends, or near each other, or where something wraps.
fn near(rng: &mut Rng, len: u32) -> u32 {
    match rng.below(10) {
        0 => 0,
        1 => 1,
        2 => len,
        3 => len.wrapping_sub(1),
        4 => 0_u32.wrapping_sub(rng.below(5) as u32),
        5 => (1 << 31) - rng.below(2) as u32,
        _ => rng.below(9) as u32,
    }
}

/// Items one after the other, as if nothing were found before they go: where items meet that is what the host does, too.
#[test]
fn random_numbers_in_rows() {
    let mut rng = Rng::new(11);
    for round in 0..20_000 {
        let (len, to_len, items) = (rng.below(50) as u32, rng.below(50) as u32, rng.below(60) as u32);
        let x = values(len as usize);
        let start = vec![3_u32; to_len as usize];
        let (a, b, c) = (near(&mut rng, len), near(&mut rng, to_len), near(&mut rng, items));
        let (mut ours, mut model) = (start.clone(), start);
        let mut put = |at: u32, change: &dyn Fn(u32) -> u32| {
            if let Some(to) = model.get_mut(at as usize) {
                *to = change(*to);
            }
        };
        let form = round % 6;
        let size = items as usize;
        match form {
            0 => {
                neighbours(a, &x[..], &mut ours[..]).run_here(size).unwrap();
                for i in 0..items {
                    let around = element(&x, i.wrapping_sub(a)) + 10 * element(&x, i);
                    let sum = around + 100 * element(&x, i.wrapping_add(a)) + 1000 * element(&x, 7);
                    put(i, &|_| sum);
                }
            }
            1 => {
                moved(a, b, c, &x[..], &mut ours[..]).run_here(size).unwrap();
                for i in 0..items {
                    let value = element(&x, c.wrapping_mul(i).wrapping_add(2)) + i;
                    put(a.wrapping_add(b.wrapping_mul(i)), &|_| value + 1);
                }
            }
            2 => {
                signed(a as i32, &x[..], &mut ours[..]).run_here(size).unwrap();
                let at = |i: i32| u32::try_from(i).map_or(0, |i| element(&x, i));
                for i in 0..items as i32 {
                    let value = at(i.wrapping_sub(a as i32)) + at((2 * i).wrapping_add(a as i32));
                    put(i.wrapping_add(a as i32).max(-1) as u32, &|_| value);
                }
            }
            3 => {
                let (off, by, limit) = (rng.below(9) as u32, 1 + rng.below(60) as u32, rng.below(120) as u32);
                strided(off, by, limit, &x[..], &mut ours[..]).run_here(size).unwrap();
                for i in (0..items).flat_map(|item| (off + item..limit).step_by(by as usize)) {
                    put(i, &|old| old + 2 * element(&x, i) + element(&x, i + 1));
                }
            }
            4 => {
                let (each, from, to) = (rng.below(7) as u32, rng.below(4) as u32, rng.below(8) as u32);
                joined(each, from, to, a, &x[..], &mut ours[..]).run_here(size).unwrap();
                for at in (0..items).flat_map(|item| (from..to).map(move |k| item * each + k)) {
                    put(at, &|_| element(&x, at).wrapping_add(a));
                }
            }
            _ => {
                let (local, each) = (1 + rng.below(9) as u32, rng.below(6) as u32);
                let (items, mut sums, mut found) = (items / local * local, vec![1; 4], vec![1; 4]);
                let range = NdRange { global: [items as usize], local: [local as usize] };
                let call = grouped(each, &x[..], &mut ours[..], &mut found[..], local as usize);
                call.run_here(range).unwrap();
                for (item, k) in (0..items).flat_map(|item| (0..3).map(move |k| (item, k))) {
                    let at = item * each + k;
                    put(at, &|_| element(&x, at) + 1);
                    if let Some(sum) = sums.get_mut((item / local) as usize) {
                        *sum += element(&x, at);
                    }
                }
                assert_eq!(
                    found, sums,
                    "round {round}: {items} items, {local} a group, {each} {len} {to_len}"
                );
            }
        }
        assert_eq!(ours, model, "round {round}, form {form}: {items} items, {a} {b} {c}, {len} {to_len}");
    }
}

/// What is the same for all, but made of a variable that changes, stays where it is; and a loop may count by numbers with a sign.
#[windlass::kernel]
fn in_order(by: u32, x: &[u32], out: &mut [u32], #[local] tile: &mut [u32; 8]) {
    let mut twice = by;
    let before = twice + 1;
    twice = twice * 2;
    let after = twice + 1;
    tile[local_id(0)] = x[global_id(0)];
    barrier();
    let mut sum = before * 100 + after;
    for k in 0_i32..8 {
        sum += tile[k] * (k as u32 + 1);
    }
    out[global_id(0)] = sum;
}

#[windlass::kernel]
fn in_order_too(by: u32, x: &[u32], out: &mut [u32]) {
    let mut twice = by;
    let before = twice + 1;
    twice = twice * 2;
    let after = twice + 1;
    let i = global_id(0);
    out[i + before - by - 1] = x[i + 1] + before * 100 + after;
}

#[test]
fn names_of_what_changes_keep_their_place() {
    let x = values(32);
    let mut expected = Vec::new();
    for i in 0..32_u32 {
        let tile = (0..8).map(|k| x[(i / 8 * 8 + k) as usize] * (k + 1));
        expected.push(tile.sum::<u32>() + 600 + 11);
    }
    expected.extend((0..32).map(|i| element(&x, i + 1) + 611));
    everywhere(&expected, |queue| {
        let (from, one, two) = (Buffer::from(x.clone()), Buffer::<u32>::new(32), Buffer::<u32>::new(32));
        let range = NdRange { global: [32], local: [8] };
        queue.submit(|cg| cg.parallel_for(range, in_order(5, cg.read(&from), cg.write(&one))))?;
        queue.submit(|cg| cg.parallel_for(32, in_order_too(5, cg.read(&from), cg.write(&two))))?;
        Ok([read(&one)?, read(&two)?].concat())
    });
}

/// Starts that are two apart, a guard that is no extent, and a loop that moves its own start.
#[windlass::kernel]
fn others(n: u32, x: &[u32], out: &mut [u32]) {
    let mut i = global_id(0) * 2;
    while i < n {
        out[i] = x[i] + 1;
        i += global_size(0) * 2;
    }
}

#[windlass::kernel]
fn guarded_sums(n: u32, x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    if i >= n {
        return;
    }
    let mut at = i;
    let mut sum = 0;
    for k in 0..4 {
        sum += x[at + k];
        at += 1;
    }
    out[i + 1] = sum;
}

#[test]
fn starts_guards_and_loops_of_their_own() {
    let x = values(40);
    for n in [0, 1, 21, 33] {
        let strided = (0..40).map(|i| if i < n && i % 2 == 0 { element(&x, i) + 1 } else { 3 });
        let sum = |i: u32| (0..4).map(|k| element(&x, i + 2 * k)).sum::<u32>();
        let sums = (0..40).map(|at: u32| if at > 0 && at <= n { sum(at - 1) } else { 3 });
        let expected: Vec<u32> = strided.chain(sums).collect();
        everywhere(&expected, |queue| {
            let from = Buffer::from(x.clone());
            let (one, two) = (Buffer::from(vec![3_u32; 40]), Buffer::from(vec![3_u32; 40]));
            queue.submit(|cg| cg.parallel_for(10, others(n, cg.read(&from), cg.write(&one))))?;
            queue.submit(|cg| cg.parallel_for(39, guarded_sums(n, cg.read(&from), cg.write(&two))))?;
            Ok([read(&one)?, read(&two)?].concat())
        });
    }
}
