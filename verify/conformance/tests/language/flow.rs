//! Control flow, and what Rust can say in an expression.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernel]
fn collatz(out: &mut [u32]) {
    let i = global_id(0);
    let mut n = i + 1;
    let mut steps = 0;
    while n != 1 {
        n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    out[i] = steps;
}

#[test]
fn loops_end_when_they_should() {
    let one = |i: u32| {
        let (mut n, mut steps) = (i + 1, 0);
        while n != 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    };
    let expected: Vec<u32> = (0..300).map(one).collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(300);
        queue.submit(|cg| cg.parallel_for(300, collatz(cg.overwrite(&out))))?;
        read(&out)
    });
}

#[windlass::kernel]
fn jumps(limit: u32, out: &mut [u32]) {
    let i = global_id(0);
    if i >= limit {
        out[i] = 7;
        return;
    }
    let mut sum = 0;
    let mut k = 0;
    loop {
        k += 1;
        match k % 5 {
            0 => continue,
            1 | 3 => sum += k,
            4 => {
                if k > 20 {
                    break;
                }
                sum += 100;
            }
            _ => {
                for j in 0..k {
                    if j == i {
                        continue;
                    }
                    if j > i + 3 {
                        break;
                    }
                    sum += j;
                }
            }
        }
    }
    for j in (i..=limit) {
        sum = sum * 3 + j;
    }
    out[i] = sum;
}

fn jumps_expected(i: u32, limit: u32) -> u32 {
    if i >= limit {
        return 7;
    }
    let (mut sum, mut k) = (0_u32, 0);
    loop {
        k += 1;
        match k % 5 {
            0 => continue,
            1 | 3 => sum += k,
            4 => {
                if k > 20 {
                    break;
                }
                sum += 100;
            }
            _ => {
                for j in 0..k {
                    if j == i {
                        continue;
                    }
                    if j > i + 3 {
                        break;
                    }
                    sum += j;
                }
            }
        }
    }
    for j in i..=limit {
        sum = sum.wrapping_mul(3).wrapping_add(j);
    }
    sum
}

#[test]
fn break_continue_and_return_go_where_rust_sends_them() {
    let expected: Vec<u32> = (0..16).map(|i| jumps_expected(i, 12)).collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(16);
        queue.submit(|cg| cg.parallel_for(16, jumps(12, cg.overwrite(&out))))?;
        read(&out)
    });
}

#[windlass::kernels]
mod shared {
    pub const SIZE: u32 = 4;
    const TABLE: [i32; SIZE] = [3, 1, 4, -1];

    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(super) struct Cell {
        pub at: Vec2<i32>,
        pub weights: [i32; SIZE as usize],
        pub sum: i32,
    }

    fn looked_up(i: u32) -> i32 {
        TABLE[i % SIZE]
    }

    fn add_to(sum: &mut i32, by: i32) -> i32 {
        *sum += by;
        *sum
    }

    fn total(cells: &[Cell], from: u32, to: u32) -> i32 {
        let mut all = 0;
        for i in from..to {
            all += cells[i].sum;
        }
        all
    }

    fn filled(cells: &mut [Cell], i: u32, by: i32) {
        cells[i].weights[(i + 1) % 4] = by;
        cells[i].at.y += by;
        add_to(&mut cells[i].sum, by * 2);
    }

    #[kernel]
    pub fn fill(cells: &mut [Cell], scale: i32) {
        let i = global_id(0);
        filled(cells, i, looked_up(i) * scale);
        let mut local = [0; SIZE];
        let mut k = 0;
        while k < 6 {
            // The last two are outside: nothing is written, and zero is read.
            local[k] = k as i32;
            k += 1;
        }
        let mut start = first(&mut local);
        let order = add_to(&mut start, 1) + {
            let twice = local[3] * 2;
            twice
        } * add_to(&mut start, 1);
        cells[i].at.x = order + local[k] + start;
    }

    fn first(of: &mut [i32; SIZE]) -> i32 {
        of[0] += 40;
        of[0]
    }

    #[kernel]
    pub fn sums(cells: &[Cell], out: &mut [i32]) {
        let i = global_id(0);
        let n = cells.len();
        out[i] = if i == 0 { total(cells, 0, n) } else { total(cells, i, i + 2) };
    }
}

#[test]
fn helpers_structs_and_constants() {
    use shared::Cell;
    let cells: Vec<Cell> =
        (0..6).map(|i| Cell { at: Vec2::new(i, -i), weights: [i, 0, 0, 7], sum: 10 * i }).collect();
    let filled = |i: usize, mut cell: Cell| {
        let by = [3, 1, 4, -1][i % 4] * 5;
        cell.weights[(i + 1) % 4] = by;
        cell.at.y += by;
        cell.sum += 2 * by;
        // 41 + 6 * 42, nothing from outside, and 42.
        cell.at.x = 41 + 6 * 42 + 42;
        cell
    };
    let after: Vec<Cell> = cells.iter().enumerate().map(|(i, cell)| filled(i, *cell)).collect();
    let sum = |i: usize| match i {
        0 => after.iter().map(|c| c.sum).sum::<i32>(),
        i => after[i].sum + after.get(i + 1).map_or(0, |c| c.sum),
    };
    let flat = |cells: &[Cell]| -> Vec<i32> {
        cells.iter().flat_map(|c| [&[c.at.x, c.at.y], &c.weights[..], &[c.sum]].concat()).collect()
    };
    let expected = [flat(&after), (0..6).map(sum).collect()].concat();
    everywhere(&expected, |queue| {
        let (cells, out) = (Buffer::from(cells.clone()), Buffer::<i32>::new(6));
        queue.submit(|cg| cg.parallel_for(6, shared::fill(cg.read_write(&cells), 5)))?;
        queue.submit(|cg| cg.parallel_for(6, shared::sums(cg.read(&cells), cg.overwrite(&out))))?;
        Ok([flat(&read(&cells)?), read(&out)?].concat())
    });
}

/// Ranges from their ends and by steps, as numbers that tell in which order they were gone through.
#[windlass::kernel]
fn walks(from: &[i32], to: &[i32], out: &mut [u32]) {
    const FAR: u32 = 0x7000_0000;
    let i = global_id(0);
    let (first, last) = (from[i], to[i]);
    let _first = 31;
    let mut seen = 7;
    for k in (first..last).rev() {
        if k % 3 == 1 {
            continue;
        }
        seen = seen * _first + k as u32;
    }
    for k in (first..=last).rev() {
        if k == first + 5 {
            break;
        }
        seen = seen * 31 + k as u32;
    }
    for mut k in (first..last).step_by(3) {
        k += 1;
        seen = seen * 31 + k as u32;
    }
    for k in (first as u32..=last as u32).step_by(FAR) {
        seen = seen * 31 + k;
    }
    out[i] = seen;
}

#[test]
fn ranges_go_back_and_by_steps() {
    let one = |first: i32, last: i32| {
        let mut seen = vec![];
        seen.extend((first..last).rev().filter(|k| k % 3 != 1));
        seen.extend((first..=last).rev().take_while(|k| *k != first.wrapping_add(5)));
        seen.extend((first..last).step_by(3).map(|k| k + 1));
        seen.extend((first as u32..=last as u32).step_by(0x7000_0000).map(|k| k as i32));
        seen.into_iter().fold(7_u32, |sum, k| sum.wrapping_mul(31).wrapping_add(k as u32))
    };
    // Empty ones, those of one number, and those that end where the type does.
    let ends = [
        (0, 10),
        (-5, 5),
        (5, 5),
        (5, 4),
        (6, 7),
        (i32::MAX - 4, i32::MAX),
        (i32::MIN, i32::MIN + 6),
        (i32::MIN, i32::MIN),
        (0, -1),
    ];
    let expected: Vec<u32> = ends.iter().map(|(first, last)| one(*first, *last)).collect();
    everywhere(&expected, |queue| {
        let from: Buffer<i32> = Buffer::from(ends.map(|(first, _)| first).to_vec());
        let to: Buffer<i32> = Buffer::from(ends.map(|(_, last)| last).to_vec());
        let out = Buffer::<u32>::new(ends.len());
        queue.submit(|cg| {
            cg.parallel_for(ends.len(), walks(cg.read(&from), cg.read(&to), cg.overwrite(&out)))
        })?;
        read(&out)
    });
}

#[windlass::kernel]
fn kinds(out: &mut [u32]) {
    const LOW: i32 = -2;
    let i = global_id(0);
    let number = i as i32 - 10;
    out[i] = match number {
        -8..-5 => 1,
        LOW..=1 | 7 | 7 => 2,
        0..=6 => 3,
        _ => 4,
    };
}

#[test]
fn patterns_take_ranges() {
    let expected: Vec<u32> = (-10..12)
        .map(|number| match number {
            -8..-5 => 1,
            -2..=1 | 7 => 2,
            0..=6 => 3,
            _ => 4,
        })
        .collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(expected.len());
        queue.submit(|cg| cg.parallel_for(expected.len(), kinds(cg.overwrite(&out))))?;
        read(&out)
    });
}

#[windlass::kernel]
fn labels(limit: u32, out: &mut [u32]) {
    let i = global_id(0);
    let mut sum = 0;
    'rows: for row in 0..8 {
        'columns: for column in (0..6).rev() {
            let mut k = 0;
            while k < 5 {
                k += 1;
                if (row + column + k + i) % 11 == 0 {
                    continue 'rows;
                }
                if (row * column + k) % 7 == i % 5 {
                    continue 'columns;
                }
                if sum > limit {
                    break 'rows;
                }
                if k == 4 {
                    break;
                }
                sum += row + k;
            }
            sum += 1;
        }
        sum += 100;
    }
    for part in [sum, i, limit].iter() {
        if *part == 7 {
            continue;
        }
        out[i] = out[i] * 3 + part;
    }
}

#[test]
fn jumps_to_outer_loops() {
    let one = |i: u32| {
        let (limit, mut sum) = (900, 0);
        'rows: for row in 0..8 {
            'columns: for column in (0..6).rev() {
                let mut k = 0;
                while k < 5 {
                    k += 1;
                    if (row + column + k + i).is_multiple_of(11) {
                        continue 'rows;
                    }
                    if (row * column + k) % 7 == i % 5 {
                        continue 'columns;
                    }
                    if sum > limit {
                        break 'rows;
                    }
                    if k == 4 {
                        break;
                    }
                    sum += row + k;
                }
                sum += 1;
            }
            sum += 100;
        }
        [sum, i, limit].into_iter().filter(|part| *part != 7).fold(0_u32, |out, part| out * 3 + part)
    };
    let expected: Vec<u32> = (0..60).map(one).collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(60);
        queue.submit(|cg| cg.parallel_for(60, labels(900, cg.read_write(&out))))?;
        read(&out)
    });
}

#[windlass::kernel]
fn choices(x: &[u32], tries: &[AtomicU32], out: &mut [u32]) {
    const REACH: u32 = 2;
    let i = global_id(0);
    let weights: [u32; REACH * 2 + 1] = [1; REACH * 2 + 1];
    let v = Vec3::new(x[i], i, 7);
    let kind = match x[i] % 9 {
        0 | 1 => 100,
        5..=6 => 200,
        rest => rest * 2 + v[0] + v[2],
    };
    let odd = match kind.is_multiple_of(2) {
        true => 0,
        false => 1,
    };
    match odd == 1 && i > 3 {
        false => out[i] += 5,
        _ => out[i] += weights[4],
    }
    // Each item takes one ticket.
    let mut guess = 0;
    while let Err(seen) = tries[0].compare_exchange(guess, guess + 1, Relaxed, Relaxed) {
        guess = seen;
    }
    out[i] += kind * 10 + odd;
}

#[test]
fn matches_name_what_is_left_and_take_truth() {
    let x: Vec<u32> = (0..50).map(|i| i * 13 % 31).collect();
    let one = |i: usize| {
        let kind = match x[i] % 9 {
            0 | 1 => 100,
            5..=6 => 200,
            rest => rest * 2 + x[i] + 7,
        };
        let odd = kind % 2;
        kind * 10 + odd + if odd == 1 && i > 3 { 1 } else { 5 }
    };
    let expected: Vec<u32> = (0..50).map(one).chain([50]).collect();
    everywhere(&expected, |queue| {
        let (x, tries, out) = (Buffer::from(x.clone()), Buffer::<u32>::new(1), Buffer::<u32>::new(50));
        queue
            .submit(|cg| cg.parallel_for(50, choices(cg.read(&x), cg.atomic(&tries), cg.read_write(&out))))?;
        Ok(read(&out)?.into_iter().chain(read(&tries)?).collect())
    });
}
