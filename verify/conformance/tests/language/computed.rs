//! Constants that functions compute.

use windlass::prelude::*;

use crate::everywhere::{everywhere, read};

#[windlass::kernels]
mod computed {
    use windlass::prelude::*;

    pub const TABLE: [u32; 256] = table(0xEDB8_8320);
    pub const SIDE: u32 = 3_u32.pow(2).isqrt() + rounds(20);
    pub const SINES: [f32; 8] = sines::<8>(std::f32::consts::PI);
    const PRIMES: (u32, [u32; 6]) = primes();
    pub const NARROW: Pair = Pair { low: wrapped(-3), high: (SIDE as i64) << 33_u32 };

    #[derive(Clone, Copy)]
    pub(crate) struct Pair {
        pub low: i32,
        pub high: i64,
    }

    const fn table(polynomial: u32) -> [u32; 256] {
        let mut table = [0; 256];
        for i in 0..256_u32 {
            let mut value = i;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 1 == 1 { (value >> 1_u32) ^ polynomial } else { value >> 1_u32 };
                bit += 1;
            }
            table[i] = value;
        }
        table
    }

    const fn rounds(most: u32) -> u32 {
        let mut turns = 0;
        let mut left = most;
        loop {
            left = match left {
                0 | 1 => break,
                n => n / 2,
            };
            turns += 1;
        }
        turns + 1
    }

    const fn sines<const N: usize>(most: f32) -> [f32; N] {
        let mut all = [0.0; N];
        for i in 0..N {
            all[i] = (most * i as f32 / N as f32).sin();
        }
        all
    }

    const fn sieve(prime: &mut [u32], by: u32) {
        for i in 2..prime.len() {
            if i % by == 0 && i > by {
                prime[i] = 0;
            }
        }
    }

    const fn primes() -> (u32, [u32; 6]) {
        let mut prime = [1; 14];
        for by in 2..7 {
            sieve(&mut prime, by);
        }
        let (mut found, mut count) = ([0; 6], 0);
        for i in 2..14_u32 {
            if prime[i] == 0 {
                continue;
            }
            found[count] = i;
            count += 1;
        }
        (count, found)
    }

    const fn wrapped(by: i32) -> i32 {
        i32::MIN + by
    }

    const ROUNDS: u32 = rounds(20);
    const WIDER: u32 = wider(Row { all: [1; ROUNDS] });

    #[derive(Clone, Copy)]
    pub(crate) struct Row {
        pub all: [u32; ROUNDS as usize],
    }

    const fn wider(row: Row) -> u32 {
        row.all.len() + row.all[1]
    }

    fn total(of: [u32; WIDER]) -> u32 {
        let mut sum = of.len() * 1000;
        for value in of {
            sum += value;
        }
        sum
    }

    #[kernel]
    pub(crate) fn lengths(out: &mut [u32], #[local] tile: &mut [u32; WIDER]) {
        let l = local_id(0);
        tile[l] = l;
        tile[WIDER - 1] = 50;
        barrier();
        let row = Row { all: [tile[l]; ROUNDS] };
        out[global_id(0)] = total([row.all[ROUNDS - 1]; WIDER]) + tile[WIDER - 1] + tile[WIDER];
    }

    #[windlass::kernel]
    pub fn crc(bytes: &[u8], out: &mut [u32]) {
        let i = global_id(0);
        let mut crc = u32::MAX;
        for k in 0..i + 1 {
            crc = (crc >> 8_u32) ^ TABLE[(crc ^ bytes[k] as u32) & 255];
        }
        out[i] = !crc;
    }

    #[windlass::kernel]
    pub fn several(out: &mut [i64]) {
        const DOUBLED: [u32; 2] = [rounds(1000), SIDE * 2];
        let i = global_id(0);
        let room = [1_u32; SIDE];
        let mut sum = NARROW.high;
        sum += (SINES[i % 8] * 1000.0).round() as i64;
        let (count, found) = PRIMES;
        sum += (found[i % count] + DOUBLED[i % 2] * 100 + room.len()) as i64;
        out[i] = sum + NARROW.low as i64;
    }
}

/// The checksum, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let bit = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| bit(crc)))
}

#[test]
fn tables_are_computed() {
    let text = b"what is known is not computed again";
    let expected: Vec<u32> = (1..=text.len()).map(|len| crc(&text[..len])).collect();
    everywhere(&expected, |queue| {
        let (bytes, out) = (Buffer::from(text.to_vec()), Buffer::<u32>::new(text.len()));
        queue.submit(|cg| cg.parallel_for(text.len(), computed::crc(cg.read(&bytes), cg.overwrite(&out))))?;
        read(&out)
    });
    // The rest of the program sees them as well.
    assert_eq!((computed::TABLE[1], computed::SIDE), (0x7707_3096, 8));
    assert_eq!((computed::NARROW.low, computed::NARROW.high), (i32::MAX - 2, 8 << 33));
    assert_eq!(computed::SINES[4], 1.0);
}

#[test]
fn constants_of_all_kinds_are_computed() {
    let primes = [2, 3, 5, 7, 11, 13];
    let expected: Vec<i64> = (0..12_u32)
        .map(|i| {
            let sine = (std::f64::consts::PI * f64::from(i % 8) / 8.0).sin();
            let doubled = [10, 16][i as usize % 2];
            (8_i64 << 33)
                + (sine * 1000.0).round() as i64
                + primes[i as usize % 6]
                + doubled * 100
                + 8
                + i64::from(i32::MAX - 2)
        })
        .collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<i64>::new(12);
        queue.submit(|cg| cg.parallel_for(12, computed::several(cg.overwrite(&out))))?;
        read(&out)
    });
}

#[test]
fn computed_lengths_stand_in_structs_and_signatures() {
    let expected: Vec<u32> = (0..8).map(|i| 6050 + i % 4 * 6).collect();
    everywhere(&expected, |queue| {
        let out = Buffer::<u32>::new(8);
        let range = windlass::NdRange { global: [8], local: [4] };
        queue.submit(|cg| cg.parallel_for(range, computed::lengths(cg.overwrite(&out))))?;
        read(&out)
    });
}

#[windlass::kernels]
mod near {
    pub const SIZE: u32 = 3;

    pub fn size() -> u32 {
        SIZE
    }
}

#[windlass::kernels]
mod far {
    #[kernels]
    use super::near::*;

    pub const SIZE: u32 = 5;

    #[kernel]
    pub(crate) fn run(out: &mut [u32]) {
        out[global_id(0)] = SIZE * 10 + size();
    }
}

#[test]
fn a_modules_constant_is_its_own_outside() {
    assert_eq!((near::SIZE, far::SIZE), (3, 5));
    let mut out = [0; 1];
    far::run(&mut out[..]).run_here(1).expect("it runs");
    assert_eq!(out, [53]);
}
