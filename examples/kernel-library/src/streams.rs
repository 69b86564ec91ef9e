//! Random numbers that every device makes alike.

/// Each stream is made of a seed; the same seed gives the same numbers everywhere.
#[windlass::kernels]
pub mod random {
    const STEP: u32 = 747_796_405;

    /// A stream of random numbers.
    #[derive(Clone, Copy, Debug)]
    pub struct Stream {
        /// Where it is.
        pub state: u32,
    }

    /// An integer that looks as if it had nothing to do with this one.
    pub fn scrambled(x: u32) -> u32 {
        let word = ((x >> ((x >> 28) + 4)) ^ x) * 277_803_737;
        (word >> 22) ^ word
    }

    impl Stream {
        pub fn new(seed: u32) -> Self {
            Stream { state: scrambled(seed * STEP + 1) }
        }

        /// The next integer.
        pub fn next(&mut self) -> u32 {
            self.state = self.state * STEP + 2_891_336_453;
            scrambled(self.state)
        }

        /// The next float, from 0 up to but not 1.
        pub fn unit(&mut self) -> f32 {
            (self.next() >> 8) as f32 * (1.0 / 16_777_216.0)
        }
    }
}
