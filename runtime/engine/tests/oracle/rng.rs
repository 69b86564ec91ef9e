//! Random numbers that are the same everywhere, for programs that are named by a seed.

/// SplitMix64.
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// A number below `end`, which is not zero.
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.next() >> 11) as usize % end
    }

    /// True this often, in percent.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number that depends on both.
pub(super) fn mix(a: u64, b: u64) -> u64 {
    scramble(a.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(b).wrapping_add(1))
}
