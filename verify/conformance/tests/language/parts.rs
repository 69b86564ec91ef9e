//! Parts of grids whose rows do not follow each other: kernels take them on every device, views where they are, and kernels over
//! lines as copies. Seen to fail on each device but the host where a copy was not brought back, and where rows started as far apart
//! as they are long.

use windlass::KernelCall;
use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

const ROWS: usize = 9;
const COLUMNS: usize = 13;

/// A grid that holds its positions.
fn grid() -> windlass::Result<Buffer<u32, 2>> {
    Buffer::with_shape([ROWS, COLUMNS], (0..(ROWS * COLUMNS) as u32).collect())
}

/// The same numbers with those of a part changed, which gets its row, its column and the number.
fn changed(part: [std::ops::Range<usize>; 2], by: impl Fn(usize, usize, u32) -> u32) -> Vec<u32> {
    let mut all: Vec<u32> = (0..(ROWS * COLUMNS) as u32).collect();
    for (r, row) in part[0].clone().enumerate() {
        for (c, column) in part[1].clone().enumerate() {
            let at = row * COLUMNS + column;
            all[at] = by(r, c, all[at]);
        }
    }
    all
}

#[windlass::kernel]
fn mirror(from: &View<u32, 2>, to: &mut View<u32, 2>) {
    let r = global_id(0);
    let c = global_id(1);
    to[r][c] += from[from.extent(0) - 1 - r][from.extent(1) - 1 - c] * 1000;
    // Outside of the part, whatever stands there.
    to[r][c + to.extent(1)] = 7;
    to[r + to.extent(0)][c] = 7;
}

#[test]
fn a_part_is_read_and_one_is_written() {
    let whole = |r: usize, c: usize| (r * COLUMNS + c) as u32;
    let expected = changed([2..6, 5..12], |r, c, old| old + whole(4 + 3 - r, 1 + 6 - c) * 1000);
    everywhere(&expected, |queue| {
        let (from, to) = (grid()?, grid()?);
        let (x, y) = (from.range((4..8, 1..8)), to.range((2..6, 5..12)));
        queue.submit(|cg| cg.parallel_for([4, 7], mirror(cg.read(&x), cg.read_write(&y))))?;
        read(&to)
    });
}

#[windlass::kernel]
fn count_up(v: &mut [u32]) {
    let i = global_id(0);
    v[i] = v[i] * 2 + i;
    v[i + 35] = 7;
}

#[test]
fn a_part_is_a_line_to_a_kernel_over_slices() {
    let expected = changed([3..8, 2..9], |r, c, old| old * 2 + (r * 7 + c) as u32);
    everywhere(&expected, |queue| {
        let grid = grid()?;
        let part = grid.range((3..8, 2..9));
        queue.submit(|cg| {
            cg.parallel_for(40, KernelCall::new(count_up::kernel()).buffer(cg.read_write(&part)))
        })?;
        read(&grid)
    });
}

#[windlass::kernel]
fn level(volume: &mut View<u8, 3>, total: &[AtomicU32]) {
    let z = global_id(0);
    let y = global_id(1);
    let x = global_id(2);
    total[0].fetch_add(volume[z][y][x] as u32, Relaxed);
    volume[z][y][x] = (z * 100 + y * 10 + x) as u8;
}

/// Bytes in three dimensions, which begin and end inside words.
#[test]
fn a_part_of_bytes_in_three_dimensions() {
    let (extents, [z, y, x]) = ([4, 5, 7], [1..3, 1..4, 2..7]);
    let mut expected: Vec<u8> = (0..140).collect();
    let mut total = 0;
    for (dz, z) in z.clone().enumerate() {
        for (dy, y) in y.clone().enumerate() {
            for (dx, x) in x.clone().enumerate() {
                let at = (z * extents[1] + y) * extents[2] + x;
                total += u32::from(expected[at]);
                expected[at] = (dz * 100 + dy * 10 + dx) as u8;
            }
        }
    }
    let expected: Vec<u32> = expected.into_iter().map(u32::from).chain([total]).collect();
    everywhere(&expected, |queue| {
        let volume = Buffer::with_shape(extents, (0..140_u8).collect())?;
        let (part, total) = (volume.range((z.clone(), y.clone(), x.clone())), Buffer::<u32>::new(1));
        queue.submit(|cg| cg.parallel_for([2, 3, 5], level(cg.read_write(&part), cg.atomic(&total))))?;
        Ok(read(&volume)?.into_iter().map(u32::from).chain(read(&total)?).collect())
    });
}

#[windlass::kernel]
fn by_atomics(v: &[AtomicU32], x: &View<u32, 2>) {
    let r = global_id(0);
    v[r % 6].fetch_add(x[r][global_id(1)], Relaxed);
}

/// A part is passed twice, once to be read: both arguments show the same memory, on the host as on a device.
#[test]
fn two_arguments_show_one_part() {
    let part = [1..4, 3..5];
    let first = |r: usize| [(1 + r) * COLUMNS + 3, (1 + r) * COLUMNS + 4];
    let all = changed(part.clone(), |r, c, old| old + first(r)[c] as u32 * 100);
    everywhere(&all, |queue| {
        let grid = grid()?;
        let part = grid.range((part[0].clone(), part[1].clone()));
        queue.submit(|cg| cg.parallel_for([3, 2], both(cg.read(&part), cg.read_write(&part))))?;
        read(&grid)
    });
    // Others are refused where there are copies, and told so, and nothing of the group happens.
    let (overlapping, apart) = (changed([0..0, 0..0], |_, _, old| old), [2..5, 3..9]);
    everywhere(&overlapping, |queue| {
        let grid = grid()?;
        let (x, v) = (grid.range((apart[0].clone(), apart[1].clone())), grid.range((0..6, 4..5)));
        let refused = queue.submit(|cg| {
            let call = KernelCall::new(by_atomics::kernel());
            cg.parallel_for([3, 6], call.buffer(cg.atomic(&v)).buffer(cg.read(&x)).value([3_u32, 6]))
        });
        match (refused, queue.device().has(Aspect::HostBodies)) {
            (Ok(_), true) => return Ok((0..(ROWS * COLUMNS) as u32).collect()),
            (Err(error), false) if error.is_unsupported() => {
                let text = error.to_string();
                assert!(text.contains("arguments 0 and 1") && text.contains("by_atomics"), "{text}");
            }
            (other, _) => panic!("{other:?}"),
        }
        read(&grid)
    });
}

#[windlass::kernel]
fn both(x: &View<u32, 2>, v: &mut View<u32, 2>) {
    let r = global_id(0);
    let c = global_id(1);
    v[r][c] += x[r][c] * 100;
}

#[test]
fn a_recording_takes_parts() {
    let expected = changed([3..8, 2..9], |r, c, old| {
        let i = (r * 7 + c) as u32;
        (0..3).fold(old, |v, _| v * 2 + i)
    });
    everywhere(&expected, |queue| {
        let grid = grid()?;
        let part = grid.range((3..8, 2..9));
        let recording = queue.record(|cg| {
            cg.parallel_for(40, KernelCall::new(count_up::kernel()).buffer(cg.read_write(&part)))
        })?;
        for _ in 0..3 {
            queue.submit(|cg| cg.replay(&recording))?;
        }
        read(&grid)
    });
}
