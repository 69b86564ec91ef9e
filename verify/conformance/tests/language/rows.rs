//! Element-wise kernels over two and three dimensions: on the host they go along rows of plain slices where a launch has the
//! extents of what is written, and item by item where it has not.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernel]
fn blend(by: f32, from: &View<f32, 2>, other: &View<f32, 2>, to: &mut View<f32, 2>) {
    let r = global_id(0);
    let c = global_id(1);
    if r < to.extent(0) && c < to.extent(1) - 1 {
        to[r][c] = from[r][c] * by + other[c][r] + to[r][c] + c as f32;
    }
}

#[windlass::kernel]
fn shade(out: &mut View<u32, 3>, #[reduce(sum)] sum: &mut u32) {
    let z = global_id(0);
    let y = global_id(1);
    let x = global_id(2);
    out[z][y][x] += z * 100 + y * 10 + x;
    *sum += out[z][y][x];
}

/// The same kernel over its view's own extents, over more, over fewer, and over one dimension.
#[test]
fn rows_of_two_dimensions() {
    let (rows, columns) = (7, 37);
    let at = |r: usize, c: usize| (r * columns + c) as f32;
    for range in [[7, 37], [9, 41], [5, 30], [7, 36], [1, 37], [0, 37]] {
        let expected: Vec<f32> = (0..rows * columns)
            .map(|i| {
                let (r, c) = (i / columns, i % columns);
                let other = if c < rows && r < columns { at(c, r) } else { 0.0 };
                let inside = r < range[0] && c < range[1] && c < columns - 1;
                if inside { at(r, c) * 2.0 + other + 1.0 + c as f32 } else { 1.0 }
            })
            .collect();
        everywhere(&expected, |queue| {
            let from = Buffer::with_shape([rows, columns], (0..rows * columns).map(|i| i as f32).collect())?;
            let to = Buffer::with_shape([rows, columns], vec![1.0_f32; rows * columns])?;
            queue.submit(|cg| {
                let (from, to) = ((cg.read(&from), cg.read(&from)), cg.read_write(&to));
                cg.parallel_for(range, blend(2.0, from.0, from.1, to))
            })?;
            read(&to)
        });
    }
}

#[test]
fn rows_of_three_dimensions_and_large_ones() {
    for extents in [[2, 3, 5], [1, 1, 9], [40, 30, 50]] {
        let [z, y, x] = extents;
        let mut expected: Vec<u32> = Vec::new();
        for i in 0..z * y * x {
            expected.push((i + (i / (y * x)) * 100 + (i / x % y) * 10 + i % x) as u32);
        }
        let sum = expected.iter().copied().fold(0, u32::wrapping_add);
        expected.push(sum);
        everywhere(&expected, |queue| {
            let out = Buffer::with_shape(extents, (0..(z * y * x) as u32).collect())?;
            let sum = Buffer::<u32>::new(1);
            queue.submit(|cg| cg.parallel_for(extents, shade(cg.read_write(&out), cg.read_write(&sum))))?;
            let mut found = read(&out)?;
            found.extend(read(&sum)?);
            Ok(found)
        });
    }
}

#[windlass::kernel]
fn added(from: &View<i32, 2>, to: &mut View<i32, 2>) {
    to[global_id(0)][global_id(1)] += from[global_id(0)][global_id(1)];
}

/// What is read has other extents than what is written, so an item's place is not the same in both.
#[test]
fn rows_of_different_lengths() {
    let shapes = [([5, 20], [7, 37]), ([7, 37], [5, 20]), ([14, 10], [7, 20]), ([7, 20], [7, 20])];
    for (from, to) in shapes {
        let expected: Vec<i32> = (0..to[0] * to[1])
            .map(|i| {
                let (r, c) = (i / to[1], i % to[1]);
                let read = if r < from[0] && c < from[1] { r * from[1] + c } else { 0 };
                (i + read) as i32
            })
            .collect();
        everywhere(&expected, |queue| {
            let filled =
                |shape: [usize; 2]| Buffer::with_shape(shape, (0..(shape[0] * shape[1]) as i32).collect());
            let (read_from, written) = (filled(from)?, filled(to)?);
            queue.submit(|cg| cg.parallel_for(to, added(cg.read(&read_from), cg.read_write(&written))))?;
            read(&written)
        });
    }
}
