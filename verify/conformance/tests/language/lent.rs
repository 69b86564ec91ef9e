//! What helpers are given as memory: parts of memory, arrays, and parts of arrays.

use windlass::NdRange;
use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernels]
mod lent {
    use windlass::prelude::*;

    const TABLE: [u32; 5] = [2, 3, 5, 7, 11];

    #[derive(Clone, Copy, DeviceCopy)]
    #[repr(C)]
    pub(crate) struct Weighted {
        pub by: [u32; 4],
        pub sum: u32,
    }

    fn sum(x: &[u32]) -> u32 {
        let mut sum = 0;
        for i in 0..x.len() {
            sum += x[i];
        }
        sum
    }

    fn many(x: &[u32]) -> u32 {
        x.len()
    }

    fn rest(x: &[u32]) -> u32 {
        sum(&x[1..])
    }

    fn first_beyond<T>(x: &[T], than: T) -> u32 {
        for i in 0..x.len() {
            if x[i] > than {
                return i;
            }
        }
        x.len()
    }

    fn sort(x: &mut [u32]) {
        for i in 1..x.len() {
            let mut at = i;
            while at > 0 && x[at - 1] > x[at] {
                let kept = x[at];
                x[at] = x[at - 1];
                x[at - 1] = kept;
                at -= 1;
            }
        }
    }

    fn halves(x: &mut [u32]) -> u32 {
        let middle = x.len() / 2;
        sort(&mut x[..middle]);
        sort(&mut x[middle..]);
        sum(&x[middle - 1..=middle]) + sum(&x[1..2])
    }

    fn scaled(x: &mut [u32], by: u32) {
        for i in 0..x.len() + 2 {
            x[i] *= by;
            x[i] += 1;
        }
    }

    #[windlass::kernel]
    pub fn parts(x: &[u32], out: &mut [u32]) {
        let i = global_id(0);
        let from = 3 * i;
        out[4 * i] = rest(&x[from..from + 3]) + x[from];
        out[4 * i + 1] = sum(&x[from + 2..from]) + many(&x[from..from + 3]);
        out[4 * i + 2] = first_beyond(&x[from..], 40);
        out[4 * i + 3] = sum(&x[x.len() - 2..1000]) + sum(&x[5000..]) + sum(x);
    }

    #[windlass::kernel]
    pub fn arrays(x: &[u32], kept: &mut [Weighted], out: &mut [u32]) {
        let i = global_id(0);
        let mut own = [0; 6];
        for k in 0..6 {
            own[k] = x[(i * 7 + k * 5) % x.len()];
        }
        sort(&mut own[1..5]);
        let mut all = own[0] ^ (own[1] << 4) ^ (own[4] << 8);
        all += halves(&mut own) * 3;
        scaled(&mut own[4..], 2);
        all = all * 31 + own[3] + own[4] * 5 + own[5] * 7;
        let ordered = [1.0, 2.5, 4.0];
        all += first_beyond(&ordered, 2.0) + sum(&TABLE[1..4]) + sum(&[i, 2 * i]);
        scaled(&mut kept[i].by, 3);
        kept[i].sum = sum(&kept[i].by) + sum(&kept[i].by[2..]);
        out[i] = all;
    }

    fn rotated(x: &mut [u32], by: u32) {
        let i = local_id(0);
        let value = x[(i + by) % x.len()];
        barrier();
        x[i] = value;
        barrier();
    }

    #[windlass::kernel]
    pub fn in_groups(#[local] tile: &mut [u32; 20], out: &mut [u32]) {
        let i = local_id(0);
        tile[i] = global_id(0);
        tile[i + 8] = global_id(0) + 100;
        barrier();
        rotated(&mut tile[3..11], 2);
        scaled(&mut tile[12 + i..13 + i], 2);
        barrier();
        out[2 * global_id(0)] = tile[i];
        out[2 * global_id(0) + 1] = tile[i + 8];
    }
}

fn sorted(x: &mut [u32]) {
    x.sort_unstable();
}

#[test]
fn parts_of_memory_are_lent() {
    let x: Vec<u32> = (0..15).map(|i| i * 5 + i % 3).collect();
    let mut expected = Vec::new();
    for i in 0..5 {
        let part = &x[3 * i..3 * i + 3];
        let beyond = x[3 * i..].iter().position(|x| *x > 40).unwrap_or(x.len() - 3 * i);
        let all = x[13] + x[14] + x.iter().sum::<u32>();
        expected.extend([part.iter().sum(), 3, beyond as u32, all]);
    }
    everywhere(&expected, |queue| {
        let (x, out) = (Buffer::from(x.clone()), Buffer::<u32>::new(20));
        queue.submit(|cg| cg.parallel_for(5, lent::parts(cg.read(&x), cg.overwrite(&out))))?;
        read(&out)
    });
}

/// What `lent::arrays` leaves in an item's element of `kept`, and its result.
fn arrays(i: u32, x: &[u32], kept: &mut lent::Weighted) -> u32 {
    let mut own = [0, 1, 2, 3, 4, 5].map(|k| x[((i * 7 + k * 5) as usize) % x.len()]);
    sorted(&mut own[1..5]);
    let mut all = own[0] ^ (own[1] << 4) ^ (own[4] << 8);
    sorted(&mut own[..3]);
    sorted(&mut own[3..]);
    all += (own[2] + own[3] + own[1]) * 3;
    for at in [4, 5] {
        own[at] = own[at] * 2 + 1;
    }
    all = all * 31 + own[3] + own[4] * 5 + own[5] * 7;
    all += 1 + 15 + 3 * i;
    kept.by = kept.by.map(|by| by * 3 + 1);
    kept.sum = kept.by.iter().sum::<u32>() + kept.by[2] + kept.by[3];
    all
}

#[test]
fn arrays_are_lent_as_memory() {
    let x: Vec<u32> = (0..23).map(|i| i * 37 % 101).collect();
    let kept: Vec<lent::Weighted> =
        (0..9).map(|i| lent::Weighted { by: [i, i + 1, 2 * i, 7], sum: 0 }).collect();
    let mut after = kept.clone();
    let mut expected: Vec<u32> = (0..9).map(|i| arrays(i, &x, &mut after[i as usize])).collect();
    expected.extend(after.iter().flat_map(|kept| kept.by.into_iter().chain([kept.sum])));
    everywhere(&expected, |queue| {
        let (x, kept, out) = (Buffer::from(x.clone()), Buffer::from(kept.clone()), Buffer::<u32>::new(9));
        queue.submit(|cg| {
            cg.parallel_for(9, lent::arrays(cg.read(&x), cg.read_write(&kept), cg.overwrite(&out)))
        })?;
        let mut all = read(&out)?;
        all.extend(read(&kept)?.iter().flat_map(|kept| kept.by.into_iter().chain([kept.sum])));
        Ok(all)
    });
}

#[test]
fn parts_of_local_memory_are_lent() {
    let mut expected = Vec::new();
    for group in 0..3 {
        let ids: Vec<u32> = (0..8).map(|i| group * 8 + i).collect();
        let mut tile: Vec<u32> = ids.iter().copied().chain(ids.iter().map(|id| id + 100)).collect();
        tile[3..11].rotate_left(2);
        for at in &mut tile[12..16] {
            *at = *at * 2 + 1;
        }
        expected.extend((0..8).flat_map(|i| [tile[i], tile[i + 8]]));
    }
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(48);
        queue.submit(|cg| {
            let out = cg.overwrite(&out);
            cg.parallel_for(NdRange { global: [24], local: [8] }, lent::in_groups(out))
        })?;
        read(&out)
    });
}
