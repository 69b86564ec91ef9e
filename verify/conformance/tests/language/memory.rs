//! Memory: ranges, what is outside them, views, atomics.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernel]
fn outside(from: &[u32], to: &mut [u32], seen: &mut [u32]) {
    let i = global_id(0);
    // Far on both sides of both ranges.
    to[i] = 9;
    to[i + 1000] = 9;
    to[i - 3] = 9;
    if i == 0 {
        seen[0] = from[from.len()];
        seen[1] = from[4_000_000_000];
        seen[2] = from.len() * 100 + to.len();
        seen[3] = from[0 - 1];
    }
}

#[test]
fn outside_the_range_nothing_is_read_and_nothing_written() {
    // Odd offsets, so that no device's own bounds fall together with the ranges'.
    let mut expected = vec![5; 64];
    expected[33..46].fill(9);
    let expected = [expected, vec![0, 0, 713, 0]].concat();
    everywhere(&expected, |queue| {
        let (root, source, seen) =
            (Buffer::from(vec![5; 64]), Buffer::from(vec![6; 64]), Buffer::from(vec![1; 4]));
        let (from, to) = (source.range(3..10), root.range(33..46));
        queue
            .submit(|cg| cg.parallel_for(50, outside(cg.read(&from), cg.write(&to), cg.overwrite(&seen))))?;
        Ok([read(&root)?, read(&seen)?].concat())
    });
}

#[windlass::kernel]
fn transpose(from: &View<u32, 2>, to: &mut View<u32, 2>) {
    let row = global_id(0);
    let column = global_id(1);
    to[column][row] = from[row][column] + from.extent(0) * 1000 + global_size(1) * 10_000;
    to[column + 5][row] = 1;
}

#[test]
fn views_have_rows_and_columns() {
    let expected: Vec<u32> = (0..5 * 3).map(|at| (at % 3) * 5 + at / 3 + 3000 + 50_000).collect();
    everywhere(&expected, |queue| {
        let from = Buffer::<u32, 2>::with_shape([3, 5], (0..15).collect())?;
        let to = Buffer::<u32, 2>::new([5, 3]);
        queue.submit(|cg| cg.parallel_for([3, 5], transpose(cg.read(&from), cg.overwrite(&to))))?;
        read(&to)
    });
}

#[windlass::kernel]
fn histogram(x: &[u32], bins: &[AtomicU32], extremes: &[AtomicI32]) {
    let v = x[global_id(0)];
    bins[v % bins.len()].fetch_add(1, Relaxed);
    extremes[0].fetch_min(v as i32 - 50, Relaxed);
    extremes[1].fetch_max(v as i32 - 50, Relaxed);
    // Outside: nothing.
    extremes[2].fetch_add(1, Relaxed);
}

#[test]
fn atomics_count_every_item() {
    let x: Vec<u32> = (0..10_000).map(|i: u32| i.wrapping_mul(7919) % 101).collect();
    let mut expected = vec![0; 10];
    x.iter().for_each(|v| expected[*v as usize % 10] += 1);
    expected.extend([-50, 50]);
    everywhere(&expected, |queue| {
        let (x, bins) = (Buffer::from(x.clone()), Buffer::<u32>::new(10));
        let extremes = Buffer::from(vec![i32::MAX, i32::MIN]);
        queue.submit(|cg| {
            cg.parallel_for(10_000, histogram(cg.read(&x), cg.atomic(&bins), cg.atomic(&extremes)))
        })?;
        let bins: Vec<i32> = read(&bins)?.into_iter().map(|n| n as i32).collect();
        Ok([bins, read(&extremes)?].concat())
    });
}

#[windlass::kernel]
fn shift(from: &[u32], to: &mut [u32]) {
    let i = global_id(0);
    to[i] = from[i];
}

#[test]
fn arguments_that_overlap_are_never_undefined() {
    // Which of two items comes first is open, so an element is what it was or what its neighbour was, or its own.
    for queue in crate::everywhere::queues() {
        let root = Buffer::from((0..100_u32).collect::<Vec<_>>());
        let (from, to) = (root.range(0..99), root.range(1..100));
        let event = queue
            .submit(|cg| cg.parallel_for(99, shift(cg.read(&from), cg.write(&to))))
            .and_then(|event| event.blocking_wait());
        event.unwrap_or_else(|error| panic!("on {}: {error}", queue.device()));
        let after = read(&root).expect("it is read back");
        assert!(after.iter().zip(0..).all(|(&v, i)| v <= i), "on {}: {after:?}", queue.device());
    }
}

#[windlass::kernel]
fn place(out: &mut [u32]) {
    let at = (global_id(0) * global_size(1) + global_id(1)) * global_size(2) + global_id(2);
    out[at] = global_id(0) * 10_000 + global_id(1) * 100 + global_id(2);
}

#[windlass::kernel]
fn first(out: &mut [u32]) {
    out[global_id(0)] += 0 + 1;
}

#[test]
fn launches_have_the_dimensions_that_they_were_given() {
    let expected: Vec<u32> = (0..2 * 3 * 4).map(|at| at / 12 * 10_000 + at / 4 % 3 * 100 + at % 4).collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(24);
        queue.submit(|cg| cg.parallel_for([2, 3, 4], place(cg.overwrite(&out))))?;
        read(&out)
    });
    // A kernel of one dimension over two: its position repeats, and nobody but an item of the same row meets it.
    for queue in crate::everywhere::queues() {
        let out = Buffer::<u32>::new(8);
        let launched = queue.submit(|cg| cg.parallel_for([5, 1], first(cg.read_write(&out))));
        launched.and_then(|event| event.blocking_wait()).expect("the launch is fine");
        assert_eq!(read(&out).expect("it is read"), [1, 1, 1, 1, 1, 0, 0, 0]);
    }
}

/// Each element is written by one item, wherever that is.
#[windlass::kernel]
unsafe fn turned(from: &View<u32, 2>, to: &mut View<u32, 2>, back: &mut [u32]) {
    let row = global_id(0);
    let column = global_id(1);
    to[column][row] = from[row][column];
    let at = row * global_size(1) + column;
    back[global_size(0) * global_size(1) - 1 - at] = from[row][column] * 2;
}

/// Neighbours swap through local memory, and then in place.
#[windlass::kernel]
unsafe fn swapped(x: &mut [u32], #[local] tile: &mut [u32]) {
    let l = local_id(0);
    tile[l] = x[global_id(0)];
    barrier();
    x[global_id(0)] = tile[l ^ 1];
    barrier();
    if l % 2 == 0 {
        x[global_id(0)] += x[global_id(0) + 1];
    }
}

#[test]
fn kernels_whose_items_keep_apart_by_promise() {
    let from: Vec<u32> = (0..35).map(|i| i * i).collect();
    let mut expected: Vec<u32> = (0..35).map(|at| from[at % 5 * 7 + at / 5]).collect();
    expected.extend(from.iter().rev().map(|v| v * 2));
    expected.extend([1, 0, 5, 2, 9, 4, 13, 6]);
    everywhere(&expected, |queue| {
        let grid = Buffer::<u32, 2>::with_shape([5, 7], from.clone())?;
        let (to, back) = (Buffer::<u32, 2>::new([7, 5]), Buffer::<u32>::new(35));
        queue.submit(|cg| {
            // SAFETY: each item has an element of its own in both, and the buffers are three.
            let call = unsafe { turned(cg.read(&grid), cg.overwrite(&to), cg.overwrite(&back)) };
            cg.parallel_for([5, 7], call)
        })?;
        let x = Buffer::from((0..8).collect::<Vec<u32>>());
        queue.submit(|cg| {
            // SAFETY: items touch their own element, and behind a barrier that of a neighbour in their group.
            let call = unsafe { swapped(cg.read_write(&x), 4) };
            cg.parallel_for(windlass::NdRange { global: [8], local: [4] }, call)
        })?;
        let mut all = read(&to)?;
        all.extend(read(&back)?);
        all.extend(read(&x)?);
        Ok(all)
    });
}

#[windlass::kernel]
fn neighbours(x: &[u32], out: &mut [u32]) {
    let i = global_id(0) as i32;
    let weights = [1, 10, 100];
    for d in -1..=1 {
        out[i] += x[i + d] * weights[d + 1];
    }
    // Both are outside.
    out[i - 1_000_000] = 9;
    out[i] += x[i32::MIN] + weights[-1 - i];
}

#[test]
fn negative_indices_are_outside() {
    let x: Vec<u32> = (1..=50).collect();
    let at = |i: i32| usize::try_from(i).ok().and_then(|i| x.get(i)).copied().unwrap_or(0);
    let expected: Vec<u32> = (0..50).map(|i| at(i - 1) + at(i) * 10 + at(i + 1) * 100).collect();
    everywhere(&expected, |queue| {
        let (x, out) = (Buffer::from(x.clone()), Buffer::<u32>::new(50));
        queue.submit(|cg| cg.parallel_for(50, neighbours(cg.read(&x), cg.read_write(&out))))?;
        read(&out)
    });
}

#[windlass::kernel]
fn exchanges(x: &[u32], most: &[AtomicU32], owner: &[AtomicI32], wins: &[AtomicU32], none: &mut [u32]) {
    let i = global_id(0);
    let slot = i % most.len();
    // The largest value, by guessing.
    let mut guess = most[slot].load(Relaxed);
    while guess < x[i] {
        match most[slot].compare_exchange_weak(guess, x[i], Relaxed, Relaxed) {
            Ok(_) => break,
            Err(seen) => guess = seen,
        }
    }
    // One item of all becomes the owner.
    if owner[slot].compare_exchange(-1, i as i32, Relaxed, Relaxed).is_ok() {
        wins[slot].fetch_add(1, Relaxed);
    }
    if let Err(was) = owner[slot].compare_exchange(-2, 7, Relaxed, Relaxed) {
        none[i] = if was >= 0 { 100 } else { 0 };
    }
    // Outside there is zero, and nothing is written.
    if most[1000].compare_exchange(5, 6, Relaxed, Relaxed).is_err() {
        none[i] += 1;
    }
}

#[test]
fn exchanges_are_made_by_one() {
    let x: Vec<u32> = (0..200).map(|i| i * 37 % 191 + 1).collect();
    let mut most = [0; 3];
    x.iter().enumerate().for_each(|(i, x)| most[i % 3] = most[i % 3].max(*x));
    let expected = [most.to_vec(), vec![1; 3], vec![101; 200]].concat();
    everywhere(&expected, |queue| {
        let x = Buffer::from(x.clone());
        let (most, owner, wins, none) = (
            Buffer::<u32>::new(3),
            Buffer::from(vec![-1; 3]),
            Buffer::<u32>::new(3),
            Buffer::<u32>::new(200),
        );
        queue.submit(|cg| {
            let (most, owner, wins) = (cg.atomic(&most), cg.atomic(&owner), cg.atomic(&wins));
            cg.parallel_for(200, exchanges(cg.read(&x), most, owner, wins, cg.read_write(&none)))
        })?;
        Ok([read(&most)?, read(&wins)?, read(&none)?].concat())
    });
}

#[windlass::kernel]
fn float_atomics(
    x: &[f32],
    sums: &[AtomicF32],
    #[local] group: &[AtomicF32; 2],
    lows: &[AtomicF32],
    swapped: &mut [f32],
) {
    let i = global_id(0);
    sums[i % 4].fetch_add(x[i], Relaxed);
    sums[4].fetch_sub(x[i], Relaxed);
    lows[0].fetch_min(x[i], Relaxed);
    lows[1].fetch_max(x[i], Relaxed);
    group[0].fetch_add(x[i], Relaxed);
    barrier();
    if local_id(0) == 0 {
        group[1].store(group[0].load(Relaxed) * 2.0, Relaxed);
        swapped[group_id(0)] = group[1].swap(1.0, Relaxed) + group[1].load(Relaxed);
    }
}

#[test]
fn floats_are_added_atomically() {
    // Whole numbers, whose sums are the same in any order.
    let x: Vec<f32> = (0..64).map(|i| (i * 7 % 23) as f32 - 4.0).collect();
    let mut sums = [0.0_f32; 5];
    x.iter().enumerate().for_each(|(i, x)| (sums[i % 4], sums[4]) = (sums[i % 4] + x, sums[4] - x));
    let lows = [x.iter().copied().fold(0.0, f32::min), x.iter().copied().fold(0.0, f32::max)];
    let groups: Vec<f32> = x.chunks(16).map(|group| group.iter().sum::<f32>() * 2.0 + 1.0).collect();
    let expected = [sums.to_vec(), lows.to_vec(), groups].concat();
    everywhere(&expected, |queue| {
        let (x, sums) = (Buffer::from(x.clone()), Buffer::<f32>::new(5));
        let (lows, swapped) = (Buffer::<f32>::new(2), Buffer::<f32>::new(4));
        queue.submit(|cg| {
            let call = float_atomics(cg.read(&x), cg.atomic(&sums), cg.atomic(&lows), cg.overwrite(&swapped));
            cg.parallel_for(windlass::NdRange { global: [64], local: [16] }, call)
        })?;
        Ok([read(&sums)?, read(&lows)?, read(&swapped)?].concat())
    });
}

/// Parameters whose names are those that parts of others could have.
#[windlass::kernel]
#[allow(non_snake_case, clippy::too_many_arguments)]
fn alike(
    x: [u32; 2],
    x_0: u32,
    v: Vec2<f32>,
    v_x: f32,
    b: [u8; 2],
    b_0: u32,
    out: &mut [u32],
    out_len: u32,
    out_at: u32,
) {
    let i = global_id(0);
    out[i] = x[0]
        + 10 * x_0
        + 100 * v.x as u32
        + 1000 * v_x as u32
        + b[1] as u32
        + b_0
        + out_len
        + out_at
        + out.len();
}

#[test]
fn names_of_parameters_do_not_meet_those_of_parts() {
    let sum = 1 + 30 + 100 + 4000 + 20_000 + 100_000 + 1_000_000 + 10_000_000 + 2;
    everywhere(&[sum; 2], |queue| {
        let out = Buffer::<u32>::new(2);
        queue.submit(|cg| {
            let out = cg.read_write(&out);
            let call =
                alike([1, 2], 3, Vec2::new(1.0, 2.0), 4.0, [1, 0], 120_000, out, 1_000_000, 10_000_000);
            cg.parallel_for(2, call)
        })?;
        read(&out)
    });
}
