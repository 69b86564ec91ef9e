//! The largest and the deepest that the language takes.

use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere::{everywhere, queues, read};

/// All the memory that a kernel may have in arrays.
#[windlass::kernel]
fn one_array(out: &mut [u32]) {
    let i = global_id(0);
    let mut a: [u32; 2048] = [0; 2048];
    for k in 0..2048 {
        a[k] = k * 3 + i;
    }
    let mut sum = 0;
    for k in 0..64 {
        sum += a[(i * 61 + k * 67) % 2048];
    }
    out[i] = sum;
}

/// The same, kept over a barrier.
#[windlass::kernel]
fn kept_array(out: &mut [u32], #[local] seen: &mut [u32; 4]) {
    let i = global_id(0);
    let mut a: [u32; 2048] = [0; 2048];
    for k in 0..2048 {
        a[k] = k * 3 + i;
    }
    seen[local_id(0)] = i;
    barrier();
    let mut sum = seen[(local_id(0) + 1) % 4];
    for k in 0..64 {
        sum += a[(i * 61 + k * 67) % 2048];
    }
    out[i] = sum;
}

fn sum(i: u32) -> u32 {
    (0..64).map(|k| (i * 61 + k * 67) % 2048 * 3 + i).sum()
}

#[test]
fn arrays_of_the_most_that_a_kernel_may_have() {
    let expected: Vec<u32> = (0..40).map(sum).collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(40);
        queue.submit(|cg| cg.parallel_for(40, one_array(cg.write(&out))))?;
        read(&out)
    });
}

/// On the host only: one driver compiles for minutes where a work-item has kilobytes to keep over a barrier.
#[test]
fn arrays_that_are_kept_over_a_barrier() {
    let expected: Vec<u32> = (0..40).map(|i| sum(i) + i / 4 * 4 + (i + 1) % 4).collect();
    let out = Buffer::<u32>::new(40);
    let range = NdRange { global: [40], local: [4] };
    queues()[0].submit(|cg| cg.parallel_for(range, kept_array(cg.write(&out)))).expect("it is taken");
    assert_eq!(read(&out).expect("it runs"), expected);
}

/// Ninety terms, and twenty blocks in each other.
#[windlass::kernel]
#[rustfmt::skip]
fn deep(x: &mut [u32]) {
    let i = global_id(0);
    let a = x[i];
    if a > 0 { if a > 1 { if a > 2 { if a > 3 { if a > 4 { if a > 5 { if a > 6 { if a > 7 { if a > 8 { if a > 9 {
    for _ in 0..2 { for _ in 0..1 { match a { 0 => {} _ => { loop { while x[i] < 1_000_000 {
        x[i] = a
            + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a
            + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a + a
            + a + a + a + a + a + a + a + a + a + a + a + a + 1_000_000;
    } break; } } } } }
    } } } } } } } } } }
}

#[test]
fn what_is_nested_as_deeply_as_may_be() {
    let terms = 1 + 26 + 26 + 12;
    let expected: Vec<u32> = (0..40).map(|a| if a > 9 { a * terms + 1_000_000 } else { a }).collect();
    everywhere(&expected, |queue| {
        let x = Buffer::from((0..40).collect::<Vec<u32>>());
        queue.submit(|cg| cg.parallel_for(40, deep(cg.read_write(&x))))?;
        read(&x)
    });
}

#[windlass::kernel]
fn sized_at_launch(out: &mut [u32], #[local] tile: &mut [u32]) {
    tile[local_id(0)] = global_id(0);
    barrier();
    out[global_id(0)] = tile[local_size(0) - 1 - local_id(0)];
}

/// 256 MiB.
#[windlass::kernel]
fn too_much_of_its_own(out: &mut [u32], #[local] tile: &mut [u32; 67_108_864]) {
    tile[local_id(0)] = global_id(0);
    barrier();
    out[global_id(0)] = tile[local_size(0) - 1 - local_id(0)];
}

#[test]
fn local_memory_is_bounded_where_the_call_is_run_here() {
    let mut out = [0; 8];
    let range = NdRange { global: [8], local: [4] };
    for refused in [
        too_much_of_its_own(&mut out[..]).run_here(range),
        sized_at_launch(&mut out[..], 1 << 30).run_here(range),
    ] {
        let text = refused.expect_err("it is too much").to_string();
        assert!(text.contains("local memory, and what runs here may have"), "{text}");
    }
}

/// More local memory than a device has is refused in the call; a driver may end the process for it.
#[test]
fn local_memory_is_bounded() {
    for queue in queues() {
        let device = queue.device();
        let most = device.info().limits.local_memory;
        let out = Buffer::<u32>::new(8);
        for elements in [most / 4 + 1, 1 << 29, 1 << 40, usize::MAX] {
            let range = NdRange { global: [8], local: [4] };
            let refused =
                queue.submit(|cg| cg.parallel_for(range, sized_at_launch(cg.overwrite(&out), elements)));
            let text = refused.expect_err("there is not so much").to_string();
            assert!(text.contains("local memory"), "{device}: {text}");
        }
        let range = NdRange { global: [8], local: [4] };
        let refused = queue.submit(|cg| cg.parallel_for(range, too_much_of_its_own(cg.overwrite(&out))));
        let text = refused.expect_err("no device has so much").to_string();
        assert!(text.contains("local memory") && text.contains("too_much_of_its_own"), "{device}: {text}");
        let fits = |cg: &CommandGroup<'_>| cg.parallel_for(range, sized_at_launch(cg.overwrite(&out), 4));
        queue.submit(fits).unwrap().blocking_wait().unwrap();
        assert_eq!(read(&out).unwrap(), [3, 2, 1, 0, 7, 6, 5, 4]);
    }
}

#[windlass::kernel]
fn turned_in_groups(x: &[u32], y: &mut [u32], sizes: &mut [u32], #[local] tile: &mut [u32; 4]) {
    let l = local_id(0);
    tile[l] = x[global_id(0)];
    barrier();
    y[global_id(0)] = tile[local_size(0) - 1 - l];
    if l == 0 {
        sizes[group_id(0)] = group_id(0) + group_count(0);
    }
}

/// More groups than most devices take along one dimension, in rows of which the last is not full.
#[test]
fn a_launch_of_one_dimension_has_as_many_groups_as_it_likes() {
    let groups = 70_001;
    let x: Vec<u32> = (0..4 * groups as u32).collect();
    let expected: Vec<u32> = x.chunks(4).flat_map(|group| group.iter().rev().copied()).collect();
    let counted: Vec<u32> = (0..groups as u32).map(|group| group + groups as u32).collect();
    for queue in queues() {
        let (y, sizes) = (Buffer::<u32>::new(x.len()), Buffer::<u32>::new(groups));
        let from = Buffer::from(x.clone());
        let launch = |range| {
            queue.submit(|cg| {
                let call = turned_in_groups(cg.read(&from), cg.read_write(&y), cg.read_write(&sizes));
                cg.parallel_for(range, call)
            })
        };
        launch(NdRange { global: [x.len()], local: [4] }).expect("the launch is right");
        assert_eq!(read(&y).expect("it ran"), expected, "on {}", queue.device());
        assert_eq!(read(&sizes).expect("it ran"), counted, "on {}", queue.device());
        // And few of them.
        launch(NdRange { global: [8], local: [4] }).expect("the launch is right");
        assert_eq!(read(&sizes).expect("it ran")[..3], [2, 3, counted[2]], "on {}", queue.device());
    }
}
