//! Kernels on the host that work-items and threads share memory in: local memory, atomics, overlapping arguments, ends of
//! buffers. Small enough for Miri, and for whatever else watches memory.

#[path = "common/rig.rs"]
mod rig;

use rig::{Rig, contents, wait};
use windlass::NdRange;
use windlass::prelude::*;

/// Runs a launch in two contexts, the second of which has memory of its own.
fn everywhere(run: impl Fn(&Queue)) {
    let rig = Rig::new();
    run(&rig.queue);
    run(&rig.elsewhere());
    rig.settle();
}

#[windlass::kernel]
fn group_sums(x: &[u32], out: &mut [u32], #[local] tile: &mut [u32; 8], #[local] seen: &[AtomicU32; 1]) {
    let l = local_id(0);
    tile[l] = x[global_id(0)];
    seen[0].fetch_add(1, Relaxed);
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
        out[group_id(0)] = tile[0] + seen[0].load(Relaxed) * 1000;
    }
}

#[test]
fn groups_share_local_memory() {
    everywhere(|queue| {
        let (x, out) = (Buffer::from((0..64).collect::<Vec<u32>>()), Buffer::<u32>::new(8));
        let range = NdRange { global: [64], local: [8] };
        let event = queue.submit(|cg| cg.parallel_for(range, group_sums(cg.read(&x), cg.overwrite(&out))));
        wait(event.unwrap()).unwrap();
        let expected: Vec<u32> = (0..8).map(|group| 8000 + 64 * group + 28).collect();
        assert_eq!(contents(&out), expected);
    });
}

#[windlass::kernel]
fn sized_at_launch(out: &mut [u32], #[local] tile: &mut [u32]) {
    tile[local_id(0)] = global_id(0);
    // Outside of it.
    tile[tile.len() + local_id(0)] = 7;
    barrier();
    out[global_id(0)] = tile[tile.len() - 1 - local_id(0)] + tile[tile.len()];
}

#[test]
fn local_memory_ends_where_it_was_said_to() {
    everywhere(|queue| {
        let out = Buffer::<u32>::new(8);
        let range = NdRange { global: [8], local: [4] };
        let event = queue.submit(|cg| cg.parallel_for(range, sized_at_launch(cg.overwrite(&out), 4)));
        wait(event.unwrap()).unwrap();
        assert_eq!(contents(&out), [3, 2, 1, 0, 7, 6, 5, 4]);
    });
}

#[windlass::kernel]
fn histogram(x: &[u32], bins: &[AtomicU32], most: &[AtomicU32]) {
    let v = x[global_id(0)];
    bins[v % bins.len()].fetch_add(1, Relaxed);
    most[0].fetch_max(v, Relaxed);
    most[1].fetch_add(1, Relaxed);
}

#[test]
fn atomics_of_several_launches_add_up() {
    everywhere(|queue| {
        let (x, bins) = (Buffer::from((0..100).collect::<Vec<u32>>()), Buffer::<u32>::new(5));
        let most = Buffer::<u32>::new(2);
        for _ in 0..3 {
            // The second counter is outside of what the launch gets.
            let launch = |cg: &CommandGroup<'_>| {
                cg.parallel_for(100, histogram(cg.read(&x), cg.atomic(&bins), cg.atomic(&most.range(..1))))
            };
            queue.submit(launch).unwrap();
        }
        assert_eq!((contents(&bins), contents(&most)), (vec![60; 5], vec![99, 0]));
    });
}

#[windlass::kernel]
fn shift(from: &[u32], to: &mut [u32]) {
    to[global_id(0)] = from[global_id(0)];
}

#[test]
fn an_argument_may_overlap_another() {
    everywhere(|queue| {
        let root = Buffer::from((0..40).collect::<Vec<u32>>());
        let (from, to) = (root.range(0..39), root.range(1..40));
        let event = queue.submit(|cg| cg.parallel_for(39, shift(cg.read(&from), cg.write(&to))));
        wait(event.unwrap()).unwrap();
        assert!(contents(&root).iter().zip(0..).all(|(&value, at)| value <= at));
    });
}

#[windlass::kernel]
fn around(from: &[u32], to: &mut [u32]) {
    let i = global_id(0);
    to[i] = from[i - 1] + from[i] + from[i + 1];
    to[i + to.len()] = 1;
}

#[test]
fn a_launch_over_a_whole_buffer_stays_inside() {
    everywhere(|queue| {
        // The last element ends where the memory does.
        let (from, to) = (Buffer::from(vec![1_u32; 21]), Buffer::<u32>::new(21));
        let event = queue.submit(|cg| cg.parallel_for(42, around(cg.read(&from), cg.overwrite(&to))));
        wait(event.unwrap()).unwrap();
        let expected: Vec<u32> = (0..21).map(|at| 2 + u32::from(at % 20 != 0)).collect();
        assert_eq!(contents(&to), expected);
    });
}

#[test]
fn views_of_a_whole_buffer_stay_inside() {
    everywhere(|queue| {
        for data in [Buffer::from(vec![0_u32; 21]), Buffer::new(21)] {
            let event = queue.submit(|cg| {
                let x = cg.read_write(&data);
                cg.host_for(23, x, |item, x| x.set(item.id(0), x.get(item.id(0)) + x.get(21) + 1))
            });
            wait(event.unwrap()).unwrap();
            assert_eq!(contents(&data), [1; 21]);
        }
    });
}

#[windlass::kernel]
fn transpose(from: &View<u32, 2>, to: &mut View<u32, 2>) {
    to[global_id(1)][global_id(0)] = from[global_id(0)][global_id(1)];
}

#[test]
fn a_window_of_a_grid_is_transposed() {
    everywhere(|queue| {
        let from = Buffer::<u32, 2>::with_shape([4, 6], (0..24).collect()).unwrap();
        let to = Buffer::<u32, 2>::new([6, 4]);
        let (inner, into) = (from.range((1..4, 2..6)), to.range((2..6, 1..4)));
        let launch =
            |cg: &CommandGroup<'_>| cg.parallel_for([3, 4], transpose(cg.read(&inner), cg.write(&into)));
        wait(queue.submit(launch).unwrap()).unwrap();
        let held = wait(to.host_read()).unwrap().to_vec();
        let at = |row: usize, column: usize| if row < 2 || column < 1 { 0 } else { column * 6 + row };
        assert!(held.iter().enumerate().all(|(i, &value)| value as usize == at(i / 4, i % 4)), "{held:?}");
    });
}

#[windlass::kernel]
fn sum(x: &[u32], #[reduce(sum)] total: &mut u32) {
    *total += x[global_id(0)];
}

#[test]
fn a_host_task_and_a_guard_go_on_where_a_kernel_ended() {
    everywhere(|queue| {
        let (x, total) = (Buffer::from(vec![2_u32; 33]), Buffer::<u32>::new(1));
        queue.submit(|cg| cg.parallel_for(33, sum(cg.read(&x), cg.read_write(&total)))).unwrap();
        let task = queue.submit(|cg| {
            let mut total = cg.read_write(&total);
            cg.host_task(async move |host| {
                host.view_mut(&mut total)?[0] += 1;
                Ok(())
            })
        });
        wait(task.unwrap()).unwrap();
        wait(total.host_write()).unwrap()[0] += 1;
        assert_eq!(contents(&total), [68]);
    });
}
