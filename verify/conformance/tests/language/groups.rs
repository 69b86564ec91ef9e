//! Work-groups: local memory, barriers, positions.

use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernel]
fn group_sums(x: &[u32], out: &mut [u32], #[local] tile: &mut [u32; 64]) {
    let l = local_id(0);
    tile[l] = x[global_id(0)];
    barrier();
    let mut half = local_size(0) / 2;
    while half > 0 {
        if l < half {
            tile[l] += tile[l + half];
        }
        barrier();
        half /= 2;
    }
    if l == 0 {
        out[group_id(0)] = tile[0];
    }
}

#[test]
fn a_tree_of_sums() {
    let x: Vec<u32> = (0..640).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
    let expected: Vec<u32> =
        x.chunks(32).map(|part| part.iter().fold(0_u32, |a, b| a.wrapping_add(*b))).collect();
    everywhere(&expected, |queue| {
        let (x, out) = (Buffer::from(x.clone()), Buffer::<u32>::new(20));
        let range = NdRange { global: [640], local: [32] };
        queue.submit(|cg| cg.parallel_for(range, group_sums(cg.read(&x), cg.overwrite(&out))))?;
        read(&out)
    });
}

#[windlass::kernel]
fn multiply(n: u32, a: &[f32], b: &[f32], c: &mut [f32], #[local] ta: &mut [f32], #[local] tb: &mut [f32]) {
    let size = local_size(0);
    let row = global_id(0);
    let column = global_id(1);
    let r = local_id(0);
    let k = local_id(1);
    let mut sum = 0.0;
    for t in 0..n / size {
        ta[r * size + k] = a[row * n + t * size + k];
        tb[r * size + k] = b[(t * size + r) * n + column];
        barrier();
        for i in 0..size {
            sum += ta[r * size + i] * tb[i * size + k];
        }
        barrier();
    }
    c[row * n + column] = sum;
}

#[test]
fn tiles_sized_at_launch() {
    let n = 32;
    // Small whole numbers, whose products are exact in any order.
    let a: Vec<f32> = (0..n * n).map(|i| (i % 7) as f32 - 3.0).collect();
    let b: Vec<f32> = (0..n * n).map(|i| (i % 5) as f32 - 2.0).collect();
    let mut expected = vec![0.0; n * n];
    for (at, value) in expected.iter_mut().enumerate() {
        *value = (0..n).map(|k| a[at / n * n + k] * b[k * n + at % n]).sum();
    }
    for tile in [4, 8] {
        everywhere(&expected, |queue| {
            let (a, b, c) = (Buffer::from(a.clone()), Buffer::from(b.clone()), Buffer::<f32>::new(n * n));
            let range = NdRange { global: [n, n], local: [tile, tile] };
            queue.submit(|cg| {
                let (a, b, c) = (cg.read(&a), cg.read(&b), cg.overwrite(&c));
                cg.parallel_for(range, multiply(n as u32, a, b, c, tile * tile, tile * tile))
            })?;
            read(&c)
        });
    }
}

/// Sums over rows and columns of a tile, which the host makes for two rows at a time where there are two: by turns in fours, by others,
/// and by as many as the launch says.
#[windlass::kernel]
fn crossed(n: u32, x: &[f32], sums: &mut [f32], #[local] tile: &mut [f32]) {
    let width = local_size(1);
    let y = local_id(0);
    let c = local_id(1);
    let at = global_id(0) * global_size(1) + global_id(1);
    tile[y * width + c] = x[at];
    let mut sum = 0.5;
    barrier();
    for k in 0..8 {
        sum += tile[y * width + k] * tile[k * width + c];
    }
    barrier();
    for k in 1..5 {
        sum -= 2.0 * tile[k * width + c];
    }
    barrier();
    for k in 0..n {
        sum += tile[y * width + k];
    }
    sums[at] = sum;
}

#[test]
fn rows_go_in_pairs_where_there_are_two() {
    // With less than eight rows the sums reach outside, which is done item by item.
    for [rows, columns] in [[8, 16], [9, 16], [8, 35], [16, 16], [8, 15], [1, 16], [3, 33]] {
        let n = 2 * rows * columns;
        let x: Vec<f32> = (0..n).map(|i| (i % 7) as f32 - 3.0).collect();
        let mut expected = vec![0.0; n];
        for (at, value) in expected.iter_mut().enumerate() {
            // Two groups, one below the other.
            let (first, inside) = (at / (rows * columns) * rows * columns, at % (rows * columns));
            let tile = |row: usize, column: usize| {
                let at = row * columns + column;
                if at < rows * columns { x[first + at] } else { 0.0 }
            };
            let (y, c) = (inside / columns, inside % columns);
            *value = 0.5 + (0..8).map(|k| tile(y, k) * tile(k, c)).sum::<f32>();
            *value -= (1..5).map(|k| 2.0 * tile(k, c)).sum::<f32>();
            *value += (0..5).map(|k| tile(y, k)).sum::<f32>();
        }
        everywhere(&expected, |queue| {
            let (x, sums) = (Buffer::from(x.clone()), Buffer::<f32>::new(n));
            let range = NdRange { global: [2 * rows, columns], local: [rows, columns] };
            queue.submit(|cg| {
                cg.parallel_for(range, crossed(5, cg.read(&x), cg.overwrite(&sums), rows * columns))
            })?;
            read(&sums)
        });
    }
}

#[windlass::kernel]
fn positions(out: &mut [u32], counted: &[AtomicU32], #[local] seen: &[AtomicU32; 1]) {
    let at = (global_id(0) * global_size(1) + global_id(1)) * global_size(2) + global_id(2);
    seen[0].fetch_add(1, Relaxed);
    let mut mine = local_id(0) * 100 + local_id(1) * 10 + local_id(2);
    barrier();
    if seen[0].load(Relaxed) != local_size(0) * local_size(1) * local_size(2) {
        mine = 7_777_777;
    }
    if at % 3 == 0 {
        counted[0].fetch_add(1, Relaxed);
        return;
    }
    for i in 0..2_u32 {
        mine += 100_000 * (i + group_id(0) + group_id(1) + group_id(2) + group_count(2));
    }
    out[at] = mine;
}

#[test]
fn groups_know_where_they_are() {
    let expected = |extent: [u32; 3], local: [u32; 3]| -> Vec<u32> {
        let [_, rows, columns] = extent;
        let one = |at: u32| {
            let id = [at / (rows * columns), at / columns % rows, at % columns];
            let (l, g): (Vec<u32>, Vec<u32>) = (0..3).map(|d| (id[d] % local[d], id[d] / local[d])).unzip();
            let groups = g[0] + g[1] + g[2] + columns / local[2];
            if at.is_multiple_of(3) { 0 } else { l[0] * 100 + l[1] * 10 + l[2] + 100_000 * (2 * groups + 1) }
        };
        let all = extent.iter().product();
        (0..all).map(one).chain([all.div_ceil(3)]).collect()
    };
    everywhere(&expected([4, 6, 8], [2, 3, 4]), |queue| {
        let (out, counted) = (Buffer::<u32>::new(192), Buffer::<u32>::new(1));
        let range = NdRange { global: [4, 6, 8], local: [2, 3, 4] };
        queue.submit(|cg| cg.parallel_for(range, positions(cg.read_write(&out), cg.atomic(&counted))))?;
        Ok([read(&out)?, read(&counted)?].concat())
    });
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    for queue in crate::everywhere::queues() {
        let (x, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(4));
        let launch = |range: NdRange<1>| {
            queue.submit(|cg| cg.parallel_for(range, group_sums(cg.read(&x), cg.overwrite(&out)))).map(drop)
        };
        assert!(launch(NdRange { global: [64], local: [24] }).is_err_and(|e| e.is_invalid_input()));
        assert!(launch(NdRange { global: [64], local: [0] }).is_err_and(|e| e.is_invalid_input()));
        let plain = queue.submit(|cg| cg.parallel_for(64, group_sums(cg.read(&x), cg.overwrite(&out))));
        let error = plain.expect_err("it works in groups");
        assert!(error.to_string().contains("NdRange"), "{error}");
    }
}

/// Rows that are longer than what goes side by side, with accesses on both sides of their ends.
#[windlass::kernel]
fn edges(shift: u32, x: &[u32], out: &mut [u32], #[local] tile: &mut [u32], #[local] other: &mut [u32; 40]) {
    let l = local_id(1);
    let width = local_size(1);
    let at = local_id(0) * width + l;
    let from = global_id(0) * global_size(1) + global_id(1);
    tile[at] = x[from + shift];
    other[l] = 7;
    barrier();
    let mut sum = 0;
    for k in 0..3 {
        let before = at + k - 1;
        sum += tile[before] * (k + 1);
        other[l + k] += sum;
    }
    barrier();
    if l < width - shift {
        tile[at] = sum + tile[at];
    }
    if l == shift {
        sum += 1000;
    }
    barrier();
    out[from] = tile[at] + sum + tile[local_id(0) * width];
}

fn edges_by_hand(shift: usize, (rows, width): (usize, usize), x: &[u32]) -> Vec<u32> {
    let at = |x: &[u32], i: usize| x.get(i).copied().unwrap_or(0);
    let mut out = Vec::new();
    for group in 0..2 {
        let first = group * rows * width;
        let mut tile: Vec<u32> = (0..rows * width).map(|i| at(x, first + i + shift)).collect();
        let sums: Vec<u32> = (0..rows * width)
            .map(|i| (0..3).map(|k| at(&tile, (i + k).wrapping_sub(1)) * (k as u32 + 1)).sum())
            .collect();
        for (i, sum) in sums.iter().enumerate().filter(|(i, _)| i % width < width - shift) {
            tile[i] += sum;
        }
        for (i, sum) in sums.iter().enumerate() {
            let sum = if i % width == shift { sum + 1000 } else { *sum };
            out.push(tile[i] + sum + tile[i / width * width]);
        }
    }
    out
}

#[test]
fn rows_of_any_length_reach_over_their_ends() {
    for (rows, width) in [(1, 16), (2, 20), (3, 37), (2, 64)] {
        for shift in [0, 1, 5] {
            let n = 2 * rows * width;
            let x: Vec<u32> = (0..n as u32).map(|i| i * 31 % 97).collect();
            everywhere(&edges_by_hand(shift, (rows, width), &x), |queue| {
                let (x, out) = (Buffer::from(x.clone()), Buffer::<u32>::new(n));
                let range = NdRange { global: [2 * rows, width], local: [rows, width] };
                queue.submit(|cg| {
                    let call = edges(shift as u32, cg.read(&x), cg.overwrite(&out), rows * width);
                    cg.parallel_for(range, call)
                })?;
                read(&out)
            });
        }
    }
}

#[windlass::kernels]
mod corners {
    fn next(seed: &mut u32) -> u32 {
        *seed = *seed * 1_664_525 + 1;
        *seed
    }

    /// Last expressions without a semicolon, values that change variables, uniform names in loops.
    #[kernel]
    pub fn run(
        n: u32,
        x: &[u32],
        out: &mut [u32],
        #[local] tile: &mut [u32; 64],
        #[local] run: &mut [u32; 32],
    ) {
        let l = local_id(0);
        let mut seed = l;
        tile[l] = next(&mut seed);
        run[l] = l;
        if n > 0 {
            barrier();
            if l < 4 {
                run[l] += 100
            }
        } else if n == 0 {
            barrier();
            run[l] += 7;
        }
        let mut sum = 0;
        for i in 0..4 {
            let base = i * 8;
            let at = base + l;
            for j in 0..base + 1 {
                sum += x[at] * (j + 1);
            }
        }
        let most = if n == 9 {
            return;
        } else {
            n + 1
        };
        let mut round = 0;
        loop {
            barrier();
            round += 1;
            if round == most {
                out[global_id(0)] = seed + sum + run[31 - l] + tile[l];
                return;
            }
        }
    }
}

#[test]
fn corners_of_groups() {
    let x: Vec<u32> = (0..64).map(|i| i * 3 + 1).collect();
    for n in [0, 2, 9] {
        let run: Vec<u32> = (0..32)
            .map(|l| {
                l + if n == 0 {
                    7
                } else if l < 4 {
                    100
                } else {
                    0
                }
            })
            .collect();
        let one = |l: u32| {
            let seed = l.wrapping_mul(1_664_525).wrapping_add(1);
            let sum: u32 =
                (0..4).map(|i| (0..=i * 8).map(|j| x[(i * 8 + l) as usize] * (j + 1)).sum::<u32>()).sum();
            let all = seed.wrapping_add(sum).wrapping_add(run[31 - l as usize]).wrapping_add(seed);
            if n == 9 { 0 } else { all }
        };
        let expected: Vec<u32> = (0..64).map(|g| one(g % 32)).collect();
        everywhere(&expected, |queue| {
            let (x, out) = (Buffer::from(x.clone()), Buffer::<u32>::new(64));
            let range = NdRange { global: [64], local: [32] };
            queue.submit(|cg| cg.parallel_for(range, corners::run(n, cg.read(&x), cg.read_write(&out))))?;
            read(&out)
        });
    }
}

/// Helpers in which items wait for each other, one of which calls another.
#[windlass::kernels]
mod together {
    use windlass::prelude::*;

    fn swap(tile: &mut [u32], value: u32) -> u32 {
        tile[local_id(0)] = value;
        barrier();
        let other = tile[local_size(0) - 1 - local_id(0)];
        barrier();
        other
    }

    fn sum<T>(tile: &mut [T], value: T) -> T {
        let l = local_id(0);
        tile[l] = value;
        barrier();
        let mut half = local_size(0) / 2;
        while half > 0 {
            if l < half {
                tile[l] = tile[l] + tile[l + half];
            }
            barrier();
            half /= 2;
        }
        let all = tile[0];
        barrier();
        return all;
    }

    fn twice(tile: &mut [u32], total: &mut u32, value: u32) {
        let mine = swap(tile, value + 1);
        *total += sum(tile, mine);
        *total = sum(tile, *total);
    }

    #[kernel]
    pub(crate) fn waits(
        rounds: u32,
        x: &[u32],
        out: &mut [u32],
        floats: &mut [f32],
        #[local] tile: &mut [u32],
        #[local] halves: &mut [f32; 16],
    ) {
        let i = global_id(0);
        let mut total = i;
        let mut half = x[i] as f32 * 0.5;
        for k in 0..rounds {
            twice(tile, &mut total, x[i] * k);
            half = sum(halves, half);
        }
        out[i] = swap(tile, total);
        floats[i] = half;
    }
}

#[test]
fn helpers_may_wait_for_all_items() {
    let x: Vec<u32> = (0..32).map(|i| i * 7 % 5).collect();
    let (mut totals, mut halves): (Vec<u32>, Vec<f32>) =
        ((0..32).collect(), x.iter().map(|x| *x as f32 * 0.5).collect());
    for k in 0..3 {
        for group in [0..8, 8..16, 16..24, 24..32_usize] {
            let sum: u32 = group.clone().map(|i| x[i] * k + 1).sum();
            group.clone().for_each(|i| totals[i] += sum);
            let total = group.clone().map(|i| totals[i]).sum();
            totals[group.clone()].fill(total);
            let half = halves[group.clone()].iter().sum();
            halves[group].fill(half);
        }
    }
    let expected: Vec<u32> = totals.into_iter().chain(halves.iter().map(|half| half.to_bits())).collect();
    everywhere(&expected, |queue| {
        let (x, out, floats) = (Buffer::from(x.clone()), Buffer::<u32>::new(32), Buffer::<f32>::new(32));
        queue.submit(|cg| {
            let call = together::waits(3, cg.read(&x), cg.overwrite(&out), cg.overwrite(&floats), 8);
            cg.parallel_for(windlass::NdRange { global: [32], local: [8] }, call)
        })?;
        Ok(read(&out)?.into_iter().chain(read(&floats)?.iter().map(|x| x.to_bits())).collect())
    });
}

#[windlass::kernels]
mod made_together {
    #[kernels]
    use windlass::groups::*;

    #[kernel]
    pub fn all(
        x: &[u32],
        y: &[f32],
        out: &mut [u32],
        sums: &mut [f32],
        #[local] room: &mut [u32],
        #[local] floats: &mut [f32],
    ) {
        let i = global_id(0) * global_size(1) + global_id(1);
        let at = i * 8;
        let sum = group_sum(x[i], room);
        let least = group_min(x[i], room);
        let most = group_max(x[i], room);
        let upto = group_sum_upto(x[i], room);
        let before = group_sum_before(x[i], room);
        let third = group_broadcast(x[i], 3, room);
        let count = group_count_true(x[i] % 3 == 0, room);
        let every = group_all(x[i] < 100, room);
        let some = group_any(x[i] == 5, room);
        let total = group_sum(y[i], floats);
        sums[i] = total;
        out[at] = sum;
        out[at + 1] = least;
        out[at + 2] = most;
        out[at + 3] = upto;
        out[at + 4] = before;
        out[at + 5] = third;
        out[at + 6] = count;
        out[at + 7] = (every as u32) * 2 + some as u32 + 4 * group_item() + 1000 * group_items();
    }
}

#[test]
fn groups_of_any_extents_work_together() {
    for local in [[1, 1], [1, 7], [3, 5], [2, 16], [4, 1]] {
        let global = [local[0] * 2, local[1] * 3];
        let items = global[0] * global[1];
        let x: Vec<u32> = (0..items as u32).map(|i| i * 29 % 113).collect();
        let y: Vec<f32> = x.iter().map(|v| *v as f32 * 0.5).collect();
        // The items of each item's group, in their order.
        let mates = |i: usize| {
            let [row, column] = [i / global[1] / local[0] * local[0], i % global[1] / local[1] * local[1]];
            (0..local[0] * local[1])
                .map(move |l| (row + l / local[1]) * global[1] + column + l % local[1])
                .collect::<Vec<_>>()
        };
        let (mut expected, mut sums) = (Vec::new(), Vec::new());
        for i in 0..items {
            let all = mates(i);
            let me = all.iter().position(|mate| *mate == i).unwrap_or(0);
            let values: Vec<u32> = all.iter().map(|mate| x[*mate]).collect();
            let upto: u32 = values[..=me].iter().sum();
            expected.extend([values.iter().sum(), values.iter().copied().min().unwrap_or(0)]);
            expected.extend([values.iter().copied().max().unwrap_or(0), upto, upto - x[i]]);
            expected.push(values.get(3).copied().unwrap_or(0));
            expected.push(values.iter().filter(|v| **v % 3 == 0).count() as u32);
            let truths = u32::from(values.iter().all(|v| *v < 100)) * 2 + u32::from(values.contains(&5));
            expected.push(truths + 4 * me as u32 + 1000 * all.len() as u32);
            sums.push(all.iter().map(|mate| y[*mate]).sum::<f32>());
        }
        let group = local[0] * local[1];
        expected.extend(sums.iter().map(|sum| sum.to_bits()));
        everywhere(&expected, |queue| {
            let (x, y) = (Buffer::from(x.clone()), Buffer::from(y.clone()));
            let (out, sums) = (Buffer::<u32>::new(items * 8), Buffer::<f32>::new(items));
            queue.submit(|cg| {
                let (out, sums) = (cg.write(&out), cg.write(&sums));
                let call = made_together::all(cg.read(&x), cg.read(&y), out, sums, group, group);
                cg.parallel_for(NdRange { global, local }, call)
            })?;
            let sums = read(&sums)?.into_iter().map(f32::to_bits);
            Ok(read(&out)?.into_iter().chain(sums).collect())
        });
    }
}

/// Tiles that can be of one extent only.
#[windlass::kernel(group = [4, 8])]
fn turned(x: &View<u32, 2>, out: &mut View<u32, 2>, #[local] tile: &mut [[u32; 8]; 4]) {
    let (y, z) = (local_id(0), local_id(1));
    tile[y][z] = x[global_id(0)][global_id(1)];
    barrier();
    out[global_id(0)][global_id(1)] = tile[local_size(0) - 1 - y][local_size(1) - 1 - z];
}

#[test]
fn a_kernel_may_say_what_its_groups_are() {
    let x: Vec<u32> = (0..8 * 16).collect();
    let mut expected = vec![0; 8 * 16];
    for (i, j) in (0..8).flat_map(|i| (0..16).map(move |j| (i, j))) {
        let (row, column) = (i / 4 * 4 + 3 - i % 4, j / 8 * 8 + 7 - j % 8);
        expected[i * 16 + j] = (row * 16 + column) as u32;
    }
    everywhere(&expected, |queue| {
        let from = Buffer::with_shape([8, 16], x.clone())?;
        let to = Buffer::with_shape([8, 16], vec![0_u32; 8 * 16])?;
        // With no group named, or with the only one that fits.
        queue.submit(|cg| cg.parallel_for([8, 16], turned(cg.read(&from), cg.overwrite(&to))))?;
        let range = NdRange { global: [8, 16], local: [4, 8] };
        queue.submit(|cg| cg.parallel_for(range, turned(cg.read(&from), cg.overwrite(&to))))?;
        Ok(to.host_read().blocking_wait()?.to_vec())
    });
    let mut out = [0; 32];
    turned((&x[..32], [4, 8]), (&mut out[..], [4, 8])).run_here([4, 8]).unwrap();
    assert_eq!(out, std::array::from_fn(|i| 31 - i as u32));
    let mut wrong = |range: NdRange<2>| {
        let call = turned((&x[..32], [4, 8]), (&mut out[..], [4, 8]));
        call.run_here(range).expect_err("other groups").to_string()
    };
    let error = wrong(NdRange { global: [4, 8], local: [2, 8] });
    assert!(
        error.contains("`turned` works in groups of [4, 8], and is launched in groups of [2, 8]"),
        "{error}"
    );
    let queue = Queue::blocking_on(Device::host()).unwrap();
    let (from, to) = (Buffer::<u32, 2>::new([8, 16]), Buffer::<u32, 2>::new([8, 16]));
    let launch = |range: [usize; 2]| {
        let ended = queue.submit(|cg| cg.parallel_for(range, turned(cg.read(&from), cg.overwrite(&to))));
        ended.expect_err("a range that groups do not divide").to_string()
    };
    assert!(launch([6, 16]).contains("[4, 8] do not divide"), "{}", launch([6, 16]));
    let flat = queue.submit(|cg| cg.parallel_for(64, turned(cg.read(&from), cg.overwrite(&to))));
    let error = flat.expect_err("one dimension").to_string();
    assert!(error.contains("another number of dimensions"), "{error}");
    // What is built ahead needs no range.
    let bundle = windlass::Bundle::new([turned::kernel()]);
    futures_lite::future::block_on(bundle.warm_up(&queue)).unwrap();
}
