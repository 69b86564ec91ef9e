//! What is decided when a kernel is compiled: loops that are written out, and what stands under a condition.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernel]
fn unrolled(x: &[i32], out: &mut [i32]) {
    let i = global_id(0);
    let mut kept = [0; 4];
    #[unroll]
    for k in 0..4 {
        kept[k] = x[4 * i + k];
    }
    let mut sum = 0;
    #[unroll]
    for k in -2..=1 {
        sum = sum * 3 + k;
    }
    #[unroll]
    for a in 0..2 {
        #[unroll]
        for b in 0..2 {
            sum += kept[2 * a + b] * (1 + a as i32 * 10 + b as i32 * 100);
        }
    }
    out[i] = sum;
}

#[windlass::kernels]
mod sized {
    pub const TURNS: usize = 3;

    pub fn powers<const N: usize>(x: u32) -> u32 {
        let mut all = 1;
        #[unroll]
        for _ in 0..N {
            all *= x;
        }
        all
    }

    #[windlass::kernel]
    pub fn raised(x: &[u32], out: &mut [u32]) {
        let i = global_id(0);
        let mut sum = powers::<5>(x[i]);
        #[unroll]
        for k in 0..TURNS {
            let mut k = k;
            k += 1;
            sum += k as u32;
        }
        out[i] = sum;
    }
}

#[test]
fn loops_are_written_out() {
    let x: Vec<i32> = (0..40).map(|i| i * 7 - 90).collect();
    let expected: Vec<i32> = x
        .chunks(4)
        .map(|x| {
            let sum = [-2, -1, 0, 1].iter().fold(0, |sum, k| sum * 3 + k);
            (0..4).fold(sum, |sum, k| sum + x[k as usize] * (1 + k / 2 * 10 + k % 2 * 100))
        })
        .collect();
    everywhere(&expected, |queue| {
        let (x, out) = (Buffer::from(x.clone()), Buffer::<i32>::new(10));
        queue.submit(|cg| cg.parallel_for(10, unrolled(cg.read(&x), cg.overwrite(&out))))?;
        read(&out)
    });
    let expected: Vec<u32> = (0..10_u32).map(|x| x.pow(5) + 6).collect();
    everywhere(&expected, |queue| {
        let (x, out) = (Buffer::from((0..10).collect::<Vec<u32>>()), Buffer::<u32>::new(10));
        queue.submit(|cg| cg.parallel_for(10, sized::raised(cg.read(&x), cg.overwrite(&out))))?;
        read(&out)
    });
}

#[windlass::kernels]
mod conditions {
    #[cfg(test)]
    pub const ADDED: u32 = 1;
    #[cfg(not(test))]
    pub const ADDED: u32 = 2;

    #[cfg(windows)]
    pub fn more(x: u32) -> u32 {
        x + nothing_of_this_name
    }

    #[cfg(not(windows))]
    pub fn more(x: u32) -> u32 {
        x + 10
    }

    #[windlass::kernel]
    pub fn chosen(#[cfg(windows)] absent: u32, out: &mut [u32]) {
        let i = global_id(0);
        let mut sum = more(ADDED);
        #[cfg(windows)]
        {
            sum = absent;
        }
        #[cfg(not(windows))]
        for k in 0..3 {
            sum += k * 100;
        }
        #[cfg(all(test, windows))]
        let sum = 0;
        // Conditions on what is assigned to, which stands first in its statement.
        #[cfg(windows)]
        sum = 0;
        #[cfg(test)]
        sum += 1000;
        let mut kept = [sum; 2];
        #[cfg(windows)]
        kept[0] += 1;
        #[cfg(test)]
        kept[1] = kept[0] + 2000;
        sum = kept[1];
        out[i] = match i {
            #[cfg(windows)]
            1 => nothing_of_this_name,
            #[cfg(test)]
            2 => sum + 5,
            _ => sum,
        };
    }
}

#[test]
fn conditions_are_decided_by_the_compiler() {
    everywhere(&[3311, 3311, 3316], |queue| {
        let out = Buffer::<u32>::new(3);
        queue.submit(|cg| cg.parallel_for(3, conditions::chosen(cg.overwrite(&out))))?;
        read(&out)
    });
}
