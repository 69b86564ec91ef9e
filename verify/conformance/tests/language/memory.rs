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
