//! Kernels of the attribute whose indices come from data, wrap, or meet; and arguments that overlap.

use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere;
use crate::rig::{contents, wait};

/// Indices that somebody might send.
const WILD: [u32; 16] = [
    0,
    1,
    7,
    8,
    9,
    63,
    64,
    65,
    0x3fff_ffff,
    0x4000_0000,
    0x4000_0001,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff8,
    0xffff_fffe,
    0xffff_ffff,
];

#[windlass::kernels]
pub(super) mod wild {
    use windlass::prelude::*;

    #[kernel]
    pub fn gather(at: &[u32], from: &[u64], to: &mut [u64]) {
        let i = global_id(0);
        to[i] = from[at[i]] + from[at[i] as i32] + from[(at[i] as i32) - 1] + from[at[i] + 1];
    }

    #[kernel]
    pub fn scatter(at: &[u32], to: &mut [u32]) {
        let i = global_id(0);
        to[at[i]] = 1000 + at[i];
        to[(at[i] as i32) * 2] = 1;
        to[at[i] * 0x4000_0000] = 2;
    }

    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(super) struct Item {
        pub weights: [u32; 4],
        pub parts: [[u8; 2]; 2],
    }

    #[kernel]
    pub fn inside(at: &[u32], items: &mut [Item], out: &mut [u32]) {
        let i = global_id(0);
        items[i].weights[at[i]] = 7;
        items[i].parts[at[i]][at[i]] = 9;
        items[at[i]].weights[at[i] + 1] += 1;
        let mut own = [1, 2, 3, 4];
        own[at[i]] = 5;
        own[at[i] as i32 - 4] = 6;
        let weights = [10, 20, 30];
        out[i] = own[0] + own[1] + own[2] + own[3] + weights[at[i]] + items[at[i]].weights[at[i]];
    }

    fn last(x: &[u32]) -> u32 {
        x[x.len() - 1] + x[x.len()]
    }

    fn put(x: &mut [u32], at: u32) {
        x[at] = 9;
        x[x.len() + at] = 8;
        x[0 - at] = 8;
    }

    #[kernel]
    pub fn parts(at: &[u32], x: &mut [u32], out: &mut [u32]) {
        let (a, b) = (at[2 * global_id(0)], at[2 * global_id(0) + 1]);
        out[global_id(0)] = last(&x[a..b]);
        put(&mut x[a..b], 1);
        put(&mut x[a..a + 2], 3);
    }

    #[kernel]
    pub fn grid(at: &[u32], v: &mut View<u32, 3>, out: &mut [u32]) {
        let i = at[global_id(0)];
        v[i][0][0] = 1;
        v[0][i][0] = 1;
        v[0][0][i] = 1;
        v[i][i][i] = 1;
        v[1][1 - i][i - 1] = 1;
        v[0][1][0 - i] = 1;
        out[global_id(0)] = v[i][1][1] + v[1][i][1] + v[1][1][i] + v.extent(0) + v.extent(1) + v.extent(2);
    }

    #[kernel]
    pub fn atomics(at: &[u32], sums: &[AtomicU32], wide: &[AtomicU64]) {
        let i = at[global_id(0)];
        sums[i].fetch_add(1, Relaxed);
        sums[i].fetch_max(3, Relaxed);
        sums[i + 1].store(2, Relaxed);
        wide[i].fetch_add(1, Relaxed);
        match sums[i - 64].compare_exchange(0, 1, Relaxed, Relaxed) {
            Ok(seen) => {
                wide[seen + 9].store(5, Relaxed);
            }
            Err(seen) => {
                wide[seen + 0xffff_fff0].store(6, Relaxed);
            }
        }
    }

    /// Each row's sum is at home in its own place, unless `n` and `from` wrap or rows share places.
    #[kernel]
    pub fn rows(n: u32, from: u32, count: u32, x: &[u32], y: &mut [u32]) {
        let i = global_id(0);
        for k in 0..count {
            y[i * n + from + k] = x[i * n + from + k] + 1;
        }
    }

    #[kernel]
    pub fn backwards(to: u32, y: &mut [u32]) {
        let i = global_id(0);
        for k in (0..8_u32).rev() {
            y[to - i - k] = 5;
        }
        for k in (0xffff_fff0..0xffff_ffff_u32).step_by(3) {
            y[k + i] = 6;
            y[k * 2 - i] = 6;
        }
    }

    #[kernel]
    pub fn shared(at: &[u32], out: &mut [u32], #[local] fixed: &mut [u32; 8], #[local] sized: &mut [u32]) {
        let i = global_id(0);
        let l = local_id(0);
        fixed[l] = 1;
        sized[l] = 1;
        barrier();
        fixed[at[i]] = 1;
        sized[at[i]] = 1;
        fixed[0 - l - 1] = 77;
        sized[sized.len() + l] = 77;
        sized[0x4000_0000 + l] = 77;
        barrier();
        let mut sum = 0;
        for k in 0..16_u32 {
            sum += fixed[k] + sized[k];
        }
        out[i] = sum + fixed[at[i]] * 100 + sized[at[i] - 8] * 100;
    }
}

fn wild_buffer() -> Buffer<u32> {
    Buffer::from(WILD.to_vec())
}

#[test]
fn indices_out_of_data_gather_nothing_from_outside() {
    everywhere(|_, queue| {
        let values: Vec<u64> = (100..164).collect();
        let (from, to) = (Buffer::from(values.clone()), Buffer::<u64>::new(16));
        let at = wild_buffer();
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(16, wild::gather(cg.read(&at), cg.read(&from), cg.overwrite(&to)))
        };
        wait(queue.submit(launch).unwrap()).unwrap();
        let get = |at: u32| values.get(at as usize).copied().unwrap_or(0);
        let should = WILD.map(|at| 2 * get(at) + get(at.wrapping_sub(1)) + get(at.wrapping_add(1)));
        assert_eq!(wait(to.host_read()).unwrap()[..], should);
    });
}

/// Seen to fail, with an access outside of the memory, where indices in one dimension were not compared.
#[test]
fn indices_out_of_data_scatter_nothing_to_outside() {
    everywhere(|_, queue| {
        // A part, so that there is something to be spoiled on both sides.
        let (at, whole) = (wild_buffer(), Buffer::from(vec![3_u32; 192]));
        let to = whole.range(64..128);
        let launch = |cg: &CommandGroup<'_>| cg.parallel_for(16, wild::scatter(cg.read(&at), cg.write(&to)));
        wait(queue.submit(launch).unwrap()).unwrap();
        let seen = contents(&whole);
        assert!(seen[..64].iter().chain(&seen[128..]).all(|v| *v == 3));
        assert_eq!((seen[64 + 9], seen[64 + 63]), (1009, 1063));
        assert!(matches!(seen[64], 1 | 2 | 1000));
    });
}

#[test]
fn indices_into_structs_and_private_arrays_stay_inside_of_them() {
    everywhere(|_, queue| {
        let whole = Buffer::from(vec![wild::Item { weights: [0; 4], parts: [[0; 2]; 2] }; 18]);
        let (at, items, out) = (wild_buffer(), whole.range(1..17), Buffer::<u32>::new(16));
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(16, wild::inside(cg.read(&at), cg.read_write(&items), cg.overwrite(&out)))
        };
        wait(queue.submit(launch).unwrap()).unwrap();
        let all = wait(whole.host_read()).unwrap();
        for (i, item) in all.iter().enumerate() {
            let (mut weights, mut parts) = ([0; 4], [[0; 2]; 2]);
            if let Some(of) = i.checked_sub(1).filter(|i| *i < 16).map(|i| WILD[i] as usize)
                && of < 4
            {
                weights[of] = 7;
                if of < 2 {
                    parts[of][of] = 9;
                }
            }
            // Other items may have added one to it, or not: they race.
            let is_near = |seen: u32, should: u32| seen == should || seen == should + 1 || seen == 1;
            assert!(item.weights.iter().zip(weights).all(|(seen, should)| is_near(*seen, should)), "{i}");
            assert_eq!(item.parts, parts, "{i}");
        }
        let out = contents(&out);
        assert_eq!(out[15], 10, "an index outside of all is outside of all");
    });
}

/// A part is a slice on the host: from behind its end, from beyond the whole, to before its start.
/// Seen to fail, with an access outside of the memory, where indices in one dimension were not compared.
#[test]
fn parts_of_memory_with_wild_ends_reach_nothing_beside_the_whole() {
    everywhere(|_, queue| {
        let ends: Vec<u32> = WILD.iter().flat_map(|a| WILD.iter().flat_map(|b| [*a, *b])).collect();
        let (count, at) = (ends.len() / 2, Buffer::from(ends));
        let (whole, out) = (Buffer::from(vec![3_u32; 192]), Buffer::<u32>::new(count));
        let x = whole.range(64..128);
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(count, wild::parts(cg.read(&at), cg.read_write(&x), cg.overwrite(&out)))
        };
        wait(queue.submit(launch).unwrap()).unwrap();
        let seen = contents(&whole);
        assert!(seen[..64].iter().chain(&seen[128..]).all(|v| *v == 3));
        assert!(seen.iter().all(|v| *v == 3 || *v == 9), "nothing is written behind a part's end");
        assert!(contents(&out).iter().all(|v| matches!(v, 0 | 3 | 9)));
    });
}

/// Coordinates of which each is inside when they are added up, and none of which is by itself.
#[test]
fn coordinates_that_wrap_reach_nothing_beside_a_view() {
    everywhere(|_, queue| {
        let (at, cube, out) = (wild_buffer(), Buffer::<u32, 3>::new([4, 4, 4]), Buffer::<u32>::new(16));
        let part = cube.range((1..3, 1..3, 1..3));
        let launch = |cg: &CommandGroup<'_>| {
            cg.parallel_for(16, wild::grid(cg.read(&at), cg.read_write(&part), cg.overwrite(&out)))
        };
        wait(queue.submit(launch).unwrap()).unwrap();
        let seen = wait(cube.host_read()).unwrap();
        for (at, value) in seen.iter().enumerate() {
            let inside = [at / 16, at / 4 % 4, at % 4].iter().all(|c| (1..3).contains(c));
            assert!(inside || *value == 0, "{at} is {value}");
        }
        assert!(contents(&out).iter().all(|v| (6..=9).contains(v)));
    });
}

/// Seen to fail, with an access outside of the memory, where indices in one dimension were not compared.
#[test]
fn atomic_operations_outside_of_their_memory_do_nothing() {
    everywhere(|_, queue| {
        let (at, sums, wide) = (wild_buffer(), Buffer::<u32>::new(192), Buffer::<u64>::new(48));
        let (of_sums, of_wide) = (sums.range(64..128), wide.range(16..32));
        let launch = |cg: &CommandGroup<'_>| {
            let call = wild::atomics(cg.read(&at), cg.atomic(&of_sums), cg.atomic(&of_wide));
            cg.parallel_for(16, call)
        };
        wait(queue.submit(launch).unwrap()).unwrap();
        let (sums, wide) = (contents(&sums), wait(wide.host_read()).unwrap());
        assert!(sums[..64].iter().chain(&sums[128..]).all(|v| *v == 0));
        assert!(wide[..16].iter().chain(&wide[32..]).all(|v| *v == 0));
        assert!(sums[64] >= 2);
    });
}

/// Sums that the compiler takes for lines of memory: the numbers are the launch's, and make them wrap, meet and leave.
/// Seen to fail, with an access outside of the memory, where indices in one dimension were not compared.
#[test]
fn rows_whose_sums_wrap_or_meet_stay_inside() {
    let numbers = [0, 1, 3, 4, 5, 63, 64, 0x1000_0001, 0x4000_0000, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    everywhere(|_, queue| {
        for n in numbers {
            for from in [0, 1, 60, 0x8000_0000, 0xffff_fffc, 0xffff_ffff] {
                for count in [0, 1, 4, 9] {
                    let whole = Buffer::from((0..192_u32).collect::<Vec<u32>>());
                    let (x, y) = (Buffer::from(vec![9_u32; 64]), whole.range(64..128));
                    let call = |cg: &CommandGroup<'_>| {
                        cg.parallel_for(20, wild::rows(n, from, count, cg.read(&x), cg.write(&y)))
                    };
                    wait(queue.submit(call).unwrap()).unwrap();
                    let mut should: Vec<u32> = (0..192).collect();
                    for i in 0..20_u32 {
                        for k in 0..count {
                            let at = i.wrapping_mul(n).wrapping_add(from).wrapping_add(k);
                            if at < 64 {
                                should[64 + at as usize] = 10;
                            }
                        }
                    }
                    assert_eq!(contents(&whole), should, "{n} {from} {count}");
                }
            }
        }
    });
}

/// Seen to fail, with an access outside of the memory, where indices in one dimension were not compared.
#[test]
fn loops_that_go_backwards_past_the_start_stay_inside() {
    everywhere(|_, queue| {
        for to in [0, 3, 7, 70, 200, 0xffff_ffff] {
            let whole = Buffer::from(vec![3_u32; 192]);
            let y = whole.range(64..128);
            let launch = |cg: &CommandGroup<'_>| cg.parallel_for(80, wild::backwards(to, cg.write(&y)));
            wait(queue.submit(launch).unwrap()).unwrap();
            let seen = contents(&whole);
            assert!(seen[..64].iter().chain(&seen[128..]).all(|v| *v == 3), "{to}");
        }
    });
}

/// Local memory of a fixed size, of a size that the launch says, and of none at all.
#[test]
fn local_memory_of_any_size_ends_where_it_ends() {
    everywhere(|_, queue| {
        for len in [0, 1, 8, 9, 16] {
            let at = Buffer::from(WILD.iter().map(|at| at.wrapping_add(8)).collect::<Vec<u32>>());
            let out = Buffer::<u32>::new(16);
            let range = NdRange { global: [16], local: [8] };
            let launch = |cg: &CommandGroup<'_>| {
                cg.parallel_for(range, wild::shared(cg.read(&at), cg.overwrite(&out), len))
            };
            wait(queue.submit(launch).unwrap()).unwrap();
            let values = contents(&out);
            assert!(values.iter().all(|v| *v < 8 + 16 + 101 && !(77..90).contains(&(v % 100))), "{values:?}");
        }
    });
}
