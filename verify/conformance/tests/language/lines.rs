//! Indices that are sums of positions and loops' counters: what is compared once for a loop or a launch means the same as what
//! is compared each time, also where an end lies outside, or an index wraps.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

/// The sum of a row, of which any part may lie outside.
#[windlass::kernel]
fn row_sums(start: u32, step: u32, n: u32, x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    let row = start + i * step;
    let mut sum = 0;
    for k in 0..n {
        sum += x[row + k] * (k + 1);
    }
    out[i] = sum;
}

/// The same, counted by a variable, every second element.
#[windlass::kernel]
fn every_second(start: u32, step: u32, n: u32, x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    let row = start + i * step;
    let mut sum = 0;
    let mut k = 0;
    while k < n {
        let at = row + k;
        sum += x[at] * (k + 1);
        k += 2;
    }
    out[i] = sum;
}

/// A column, whose elements are far from each other, and written as well as read.
#[windlass::kernel]
fn columns(far: u32, n: u32, x: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    for k in 0..n {
        out[k * far + i] = x[i + far * k] + 1;
    }
}

fn values() -> Vec<u32> {
    (0..64).map(|i| i * i + 3).collect()
}

/// What the kernels say, with every index compared by itself.
fn element(x: &[u32], at: u32) -> u32 {
    x.get(at as usize).copied().unwrap_or(0)
}

/// Starts and steps, of which the last ones wrap.
const ROWS: [(u32, u32, u32); 8] = [
    (0, 8, 8),
    (0, 8, 0),
    (1, 8, 8),
    (60, 1, 8),
    (64, 1, 3),
    (u32::MAX - 2, 1, 8),
    (u32::MAX - 40, 8, 50),
    (0, u32::MAX / 4, 9),
];

#[test]
fn rows_may_end_outside() {
    for (start, step, n) in ROWS {
        let x = values();
        let sum = |i: u32, by: usize| {
            let row = start.wrapping_add(i.wrapping_mul(step));
            let terms = (0..n).step_by(by).map(|k| element(&x, row.wrapping_add(k)).wrapping_mul(k + 1));
            terms.fold(0_u32, u32::wrapping_add)
        };
        let expected: Vec<u32> = (0..8).map(|i| sum(i, 1)).chain((0..8).map(|i| sum(i, 2))).collect();
        everywhere(&expected, |queue| {
            let (from, one) = (Buffer::from(values()), Buffer::<u32>::new(8));
            let two = Buffer::<u32>::new(8);
            queue
                .submit(|cg| cg.parallel_for(8, row_sums(start, step, n, cg.read(&from), cg.write(&one))))?;
            queue.submit(|cg| {
                cg.parallel_for(8, every_second(start, step, n, cg.read(&from), cg.write(&two)))
            })?;
            Ok([read(&one)?, read(&two)?].concat())
        });
    }
}

#[test]
fn columns_may_end_outside() {
    for (far, n) in [(8_u32, 8), (8, 9), (7, 9), (1 << 31, 3), (9, 8), (16, 4)] {
        let x = values();
        let mut expected = vec![7_u32; 64];
        // No two items write one element differently.
        for i in 0..7_u32 {
            for k in 0..n {
                let at = i.wrapping_add(far.wrapping_mul(k));
                if let Some(to) = expected.get_mut(at as usize) {
                    *to = element(&x, at) + 1;
                }
            }
        }
        everywhere(&expected, |queue| {
            let (from, to) = (Buffer::from(values()), Buffer::from(vec![7_u32; 64]));
            queue.submit(|cg| cg.parallel_for(7, columns(far, n, cg.read(&from), cg.write(&to))))?;
            read(&to)
        });
    }
}

/// Each item its own element, of arguments of different lengths.
#[windlass::kernel]
fn add(x: &[u32], y: &[u32], out: &mut [u32]) {
    let i = global_id(0);
    out[i] = x[i] + 2 * y[i];
}

#[windlass::kernel]
fn add_views(x: &View<u32, 2>, y: &View<u32, 2>, out: &mut View<u32, 2>) {
    let (i, j) = (global_id(0), global_id(1));
    out[i][j] = x[i][j] + 2 * y[i][j];
}

#[test]
fn arguments_may_be_shorter_or_longer_than_the_launch() {
    for (items, a, b, to) in
        [(40, 40, 40, 40), (40, 64, 64, 64), (40, 39, 40, 40), (40, 40, 1, 40), (40, 40, 40, 7)]
    {
        let x = values();
        let has = |at: usize, len: usize| if at < len { x[at] } else { 0 };
        let mut expected = vec![9_u32; 64];
        (0..items.min(to)).for_each(|i| expected[i] = has(i, a) + 2 * has(i, b));
        everywhere(&expected, |queue| {
            let (from, out) = (Buffer::from(values()), Buffer::from(vec![9_u32; 64]));
            let (x, y, part) = (from.range(..a), from.range(..b), out.range(..to));
            queue.submit(|cg| cg.parallel_for(items, add(cg.read(&x), cg.read(&y), cg.write(&part))))?;
            read(&out)
        });
    }
}

#[test]
fn views_may_be_smaller_or_larger_than_the_launch() {
    for ([rows, columns], [x_rows, x_columns], [y_rows, y_columns]) in [
        ([8, 8], [8, 8], [8, 8]),
        ([7, 8], [8, 8], [8, 8]),
        ([8, 8], [7, 8], [8, 8]),
        ([8, 8], [8, 8], [8, 7]),
        ([9, 9], [8, 8], [8, 8]),
    ] {
        let at = |i: usize, j: usize, [rows, columns]: [usize; 2]| match i < rows && j < columns {
            true => (i * columns + j) as u32,
            false => 0,
        };
        let mut expected = vec![5_u32; 64];
        for i in 0..rows.min(8) {
            for j in 0..columns.min(8) {
                expected[i * 8 + j] = at(i, j, [x_rows, x_columns]) + 2 * at(i, j, [y_rows, y_columns]);
            }
        }
        everywhere(&expected, |queue| {
            let grid = |rows: usize, columns: usize| {
                Buffer::with_shape([rows, columns], (0..(rows * columns) as u32).collect())
            };
            let (x, y) = (grid(x_rows, x_columns)?, grid(y_rows, y_columns)?);
            let out = Buffer::with_shape([8, 8], vec![5_u32; 64])?;
            queue.submit(|cg| {
                let (x, y, out) = (cg.read(&x), cg.read(&y), cg.write(&out));
                cg.parallel_for([rows, columns], add_views(x, y, out))
            })?;
            Ok(out.host_read().blocking_wait()?.to_vec())
        });
    }
}

/// Rows of a matrix in one slice.
#[windlass::kernel]
fn flat(n: u32, out: &mut [u32]) {
    let (row, column) = (global_id(0), global_id(1));
    out[row * n + column] += row + 1;
}

/// By strides of the launch's size.
#[windlass::kernel]
fn by_strides(out: &mut [u32]) {
    let mut i = global_id(0);
    while i < out.len() {
        out[i] += i + 1;
        i += global_size(0);
    }
}

/// Several elements an item, at its own places and a neighbour's, or not.
#[windlass::kernel]
fn several(each: u32, out: &mut [u32]) {
    let i = global_id(0) * each + 1;
    for k in 0..4 {
        out[i + k] += k + 1;
    }
}

/// On the host where items keep apart memory is plain, and elsewhere it is not; the sums that do not race are the same.
#[test]
fn items_that_keep_apart_write_plainly() {
    let mut out = vec![0; 64];
    for n in [8, 9] {
        out.fill(0);
        flat(n, &mut out[..]).run_here([7, 8]).unwrap();
        let expected = (0..64).map(|at| if at / n < 7 && at % n < 8 { at / n + 1 } else { 0 });
        assert_eq!(out, expected.collect::<Vec<u32>>(), "{n}");
    }
    // Rows that overlap: one after the other here, so nothing is lost.
    out.fill(0);
    flat(4, &mut out[..]).run_here([3, 8]).unwrap();
    assert_eq!(out[..16], [1, 1, 1, 1, 3, 3, 3, 3, 5, 5, 5, 5, 3, 3, 3, 3]);
    for items in [1, 5, 64, 100] {
        out.fill(0);
        by_strides(&mut out[..]).run_here(items).unwrap();
        assert_eq!(out, (1..=64).collect::<Vec<u32>>(), "{items}");
    }
    for each in [4, 5, 2] {
        out.fill(0);
        several(each, &mut out[..]).run_here(9).unwrap();
        let mut expected = vec![0; 64];
        (0..9).for_each(|i| (0..4).for_each(|k| expected[(i * each + 1 + k) as usize] += k + 1));
        assert_eq!(out, expected, "{each}");
    }
}
