//! Local memory starts as zeros for every group, also where a kernel fills it first and it is not cleared therefore. Each
//! kernel leaves something behind that the next group on the same memory must not find.

use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

const GROUPS: usize = 12;

/// What a kernel of groups of `each` items finds in local memory, one number an item.
fn finds<F>(what: &str, each: usize, expected: impl Fn(usize) -> u32, launch: F)
where
    F: for<'g> Fn(&CommandGroup<'g>, NdRange<1>, &Buffer<u32>) -> windlass::Result<()>,
{
    let expected: Vec<u32> = (0..GROUPS * each).map(|i| expected(i % each)).collect();
    let range = NdRange { global: [GROUPS * each], local: [each] };
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(GROUPS * each);
        queue
            .submit(|cg| launch(cg, range, &out))
            .map_err(|error| windlass::Error::other(format!("{what}: {error}")))?;
        read(&out)
    });
}

#[windlass::kernel]
fn beginning(out: &mut [u32], #[local] part: &mut [u32; 64]) {
    let i = local_id(0);
    part[i] = i + 1;
    barrier();
    out[global_id(0)] = part[2 * i] + part[2 * i + 1];
    barrier();
    part[i + local_size(0)] = 7;
}

#[test]
fn what_lies_behind_the_filled_part_is_zero() {
    for each in [16, 32] {
        let part = |at: usize| if at < each { at as u32 + 1 } else { 0 };
        finds(
            "beginning",
            each,
            |i| part(2 * i) + part(2 * i + 1),
            |cg, range, out| cg.parallel_for(range, beginning(cg.overwrite(out))),
        );
    }
}

#[windlass::kernel]
fn tile(out: &mut View<u32, 2>, #[local] flat: &mut [u32; 64], #[local] nested: &mut [[u32; 8]; 8]) {
    let (y, x) = (local_id(0), local_id(1));
    flat[y * 8 + x] = 1;
    nested[y][x] = 1;
    barrier();
    let at = y * local_size(1) + x;
    let mut sum = 0;
    for k in 0..64 / (local_size(0) * local_size(1)) {
        let one = at + k * local_size(0) * local_size(1);
        sum += flat[one] + 100 * nested[one / 8][one % 8];
    }
    out[global_id(0)][global_id(1)] = sum;
    barrier();
    for k in 0..64 {
        flat[k] = 7;
        nested[k / 8][k % 8] = 7;
    }
}

#[test]
fn tiles_of_other_shapes_than_their_groups() {
    for local in [[8, 8], [4, 8], [8, 4], [4, 4], [2, 16]] {
        let [rows, columns] = local;
        let items = rows * columns;
        // Which element of the tile an item has written.
        let flat = |at: usize| (0..rows).any(|y| (0..columns).any(|x| y * 8 + x == at));
        let nested = |at: usize| at / 8 < rows && at % 8 < columns;
        let found = |item: usize| -> u32 {
            let own = (0..64 / items).map(|k| item + k * items);
            own.map(|at| u32::from(flat(at)) + 100 * u32::from(nested(at))).sum()
        };
        let global = [rows * GROUPS, columns];
        let expected: Vec<u32> = (0..rows * GROUPS)
            .flat_map(|y| (0..columns).map(move |x| (y, x)))
            .map(|(y, x)| found(y % rows * columns + x))
            .collect();
        everywhere(&expected, |queue| {
            let out = Buffer::<u32, 2>::new(global);
            let range = NdRange { global, local };
            queue.submit(|cg| cg.parallel_for(range, tile(cg.overwrite(&out))))?;
            Ok(out.host_read().blocking_wait()?.to_vec())
        });
    }
}

#[windlass::kernel]
fn by_turns(n: u32, out: &mut [u32], #[local] part: &mut [u32; 64]) {
    let i = local_id(0);
    for _ in 0..n {
        for k in 0..4 {
            part[i + k * 16] = 1;
        }
        barrier();
    }
    let mut sum = 0;
    if n > 0 {
        sum = 1000;
    }
    for k in 0..4 {
        sum += part[i * 4 + k];
    }
    out[global_id(0)] = sum;
    barrier();
    for k in 0..64 {
        part[k] = 7;
    }
}

#[windlass::kernel]
fn in_turns(out: &mut [u32], #[local] part: &mut [u32; 64]) {
    let i = local_id(0);
    for k in 0..4 {
        part[i + k * 16] = 1;
    }
    barrier();
    let mut sum = 0;
    for k in 0..64 {
        sum += part[k];
    }
    out[global_id(0)] = sum;
    barrier();
    for k in 0..64 {
        part[k] = 7;
    }
}

#[windlass::kernel]
fn in_other_turns(out: &mut [u32], #[local] part: &mut [u32; 64]) {
    let i = local_id(0);
    for mut k in 0..4 {
        k += 1;
        part[i + k * 16] = 1;
    }
    barrier();
    let mut sum = 0;
    for k in 0..64 {
        sum += part[k];
    }
    out[global_id(0)] = sum;
    barrier();
    for k in 0..64 {
        part[k] = 7;
    }
}

#[test]
fn several_elements_an_item() {
    finds(
        "in_other_turns",
        16,
        |_| 48,
        |cg, range, out| cg.parallel_for(range, in_other_turns(cg.overwrite(out))),
    );
    for each in [16, 32, 8] {
        let written =
            (0..64).filter(|at| (0..4).any(|k| (k * 16..k * 16 + each).contains(at))).count() as u32;
        finds(
            "in_turns",
            each,
            |_| written,
            |cg, range, out| cg.parallel_for(range, in_turns(cg.overwrite(out))),
        );
    }
    for (n, found) in [(0, 0), (2, 1004)] {
        finds(
            "by_turns",
            16,
            |_| found,
            |cg, range, out| cg.parallel_for(range, by_turns(n, cg.overwrite(out))),
        );
    }
}

#[windlass::kernel]
fn one_way(fills: u32, out: &mut [u32], #[local] part: &mut [u32; 16]) {
    let i = local_id(0);
    if fills > 0 {
        part[i] = 1;
        barrier();
    }
    out[global_id(0)] = part[15 - i];
    barrier();
    part[i] = 7;
}

#[windlass::kernel]
fn read_first(out: &mut [u32], #[local] part: &mut [u32; 16], #[local] other: &mut [u32; 16]) {
    let i = local_id(0);
    part[i] = part[i] + 1;
    // Only half of the items.
    if i < 8 {
        other[i] = 1;
    }
    barrier();
    out[global_id(0)] = part[15 - i] + 10 * other[15 - i];
    barrier();
    part[i] = 7;
    other[i] = 7;
}

#[windlass::kernel]
fn returned(out: &mut [u32], #[local] part: &mut [u32; 16]) {
    let i = local_id(0);
    if i < 16 {
        part[i] = 0;
    }
    part[i] = i;
    part[i] += 1;
    barrier();
    out[global_id(0)] = part[15 - i];
    barrier();
    part[i] = 7;
}

#[test]
fn what_only_some_fill_is_cleared() {
    for fills in [0, 1] {
        finds(
            "one_way",
            16,
            |_| fills,
            |cg, range, out| cg.parallel_for(range, one_way(fills, cg.overwrite(out))),
        );
    }
    finds(
        "read_first",
        16,
        |i| if 15 - i < 8 { 11 } else { 1 },
        |cg, range, out| cg.parallel_for(range, read_first(cg.overwrite(out))),
    );
    finds(
        "returned",
        16,
        |i| 16 - i as u32,
        |cg, range, out| cg.parallel_for(range, returned(cg.overwrite(out))),
    );
}

/// Arrays of an item whose first values are seen by nobody, by somebody in the first turn, behind the last element, beside
/// what is written, and after a loop that is left early.
#[windlass::kernel]
fn turns(out: &mut [u32]) {
    let i = global_id(0) as u32;
    let mut sum = 0;
    for turn in 0..3 {
        let mut all = [7; 4];
        for k in 0..4 {
            all[k] = i + turn + k;
        }
        let mut some = [7; 4];
        for k in 0..3 {
            some[k] = turn;
        }
        let mut own = [7; 4];
        for k in 0..4 {
            own[k] = own[3 - k] + turn;
        }
        let mut left = [7; 4];
        for k in 0..4 {
            if k == turn {
                break;
            }
            left[k] = 1;
        }
        let mut odd = [7; 4];
        for k in 0..4 {
            if (k + i) % 2 == 1 {
                odd[k] = 2;
            }
        }
        let mut rows = [[7; 2]; 3];
        for k in 0..3 {
            rows[k] = [k, i];
        }
        for k in 0..4 {
            sum = sum * 3 + all[k] + some[k] + own[k] + left[k] + odd[k];
        }
        sum = sum * 3 + rows[turn][0] + rows[turn][1];
    }
    out[global_id(0)] = sum;
}

#[test]
fn arrays_have_their_first_values_wherever_these_are_seen() {
    let expected = |i: u32| {
        let mut sum = 0_u32;
        for turn in 0..3_u32 {
            let mut own = [7_u32; 4];
            for k in 0..4 {
                own[k] = own[3 - k] + turn;
            }
            for k in 0..4_u32 {
                let some = if k < 3 { turn } else { 7 };
                let left = if k < turn { 1 } else { 7 };
                let odd = if (k + i) % 2 == 1 { 2 } else { 7 };
                sum = sum.wrapping_mul(3).wrapping_add(i + turn + k + some + own[k as usize] + left + odd);
            }
            sum = sum.wrapping_mul(3).wrapping_add(turn + i);
        }
        sum
    };
    let expected: Vec<u32> = (0..100).map(expected).collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(100);
        queue.submit(|cg| cg.parallel_for(100, turns(cg.overwrite(&out))))?;
        read(&out)
    });
}
