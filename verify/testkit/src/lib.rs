//! What tests have in common: numbers that look random and are the same everywhere, and programs over [tiles].
//!
//! A program that found something is known by its seed, for years. So the generator is our own, of a few lines, and what it
//! makes of a seed does not change.
#![warn(missing_docs)]

pub mod tiles;

/// Random numbers that depend on a seed alone (SplitMix64).
///
/// ```
/// use windlass_testkit::Rng;
/// let (mut a, mut b) = (Rng::new(7), Rng::new(7));
/// assert_eq!(a.number(), b.number());
/// assert!(a.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        scramble(self.0)
    }

    /// Any number of 32 bits.
    pub fn word(&mut self) -> u32 {
        self.number() as u32
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() >> 11) as usize % end
    }

    /// True this often, in percent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A number that depends on both, and looks as if it depended on neither.
pub fn mix(a: u64, b: u64) -> u64 {
    scramble(a.wrapping_mul(STEP).wrapping_add(b).wrapping_add(1))
}

/// The golden ratio's fraction, in 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn scramble(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds that found something mean the same for good.
    #[test]
    fn a_seed_means_what_it_has_always_meant() {
        let mut rng = Rng::new(1);
        assert_eq!([rng.number(), rng.number()], [0x910a_2dec_8902_5cc1, 0xbeeb_8da1_658e_ec67]);
        assert_eq!(mix(1, 2), scramble(STEP.wrapping_add(3)));
    }
}
