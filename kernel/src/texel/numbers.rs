//! Channels of texels, and the numbers that kernels have for them.

use crate::f16;

/// What a channel that is stored as `S` stands for. The kernel language has the same in its own words
/// (`windlass-kernel-macros`, `library/images.rs`), and a test compares both.
pub trait Number<S> {
    /// What kernels have for it.
    type Seen: Copy;
    /// What they read where there are no channels.
    const MISSING: [Self::Seen; 4];

    fn decode(stored: S) -> Self::Seen;
    fn encode(seen: Self::Seen) -> S;

    /// The same of how opaque a texel is.
    fn decode_alpha(stored: S) -> Self::Seen {
        Self::decode(stored)
    }

    fn encode_alpha(seen: Self::Seen) -> S {
        Self::encode(seen)
    }
}

/// A part of the whole.
#[derive(Debug)]
pub enum Scaled {}

/// A part of the whole, in steps that are finer where it is dark. Alpha has even steps.
#[derive(Debug)]
pub enum Srgb {}

/// The number itself.
#[derive(Debug)]
pub enum Whole {}

/// The bits of a half-precision float.
#[derive(Debug)]
pub enum Half {}

macro_rules! scaled {
    ($($stored:ident $least:literal)*) => {$(
        impl Number<$stored> for Scaled {
            type Seen = f32;
            const MISSING: [f32; 4] = [0.0, 0.0, 0.0, 1.0];

            fn decode(stored: $stored) -> f32 {
                // A product is the same on all devices, and a quotient need not be.
                (f32::from(stored) * (1.0 / f32::from($stored::MAX))).max($least)
            }

            fn encode(seen: f32) -> $stored {
                (seen.clamp($least, 1.0) * f32::from($stored::MAX)).round_ties_even() as $stored
            }
        }
    )*};
}
scaled!(u8 0.0 i8 -1.0 u16 0.0 i16 -1.0);

impl Number<u8> for Srgb {
    type Seen = f32;
    const MISSING: [f32; 4] = <Scaled as Number<u8>>::MISSING;

    fn decode(stored: u8) -> f32 {
        let part: f32 = Scaled::decode(stored);
        if part <= 0.04045 { part * (1.0 / 12.92) } else { ((part + 0.055) * (1.0 / 1.055)).powf(2.4) }
    }

    fn encode(seen: f32) -> u8 {
        let part = seen.clamp(0.0, 1.0);
        Scaled::encode(if part <= 0.0031308 { part * 12.92 } else { 1.055 * part.powf(1.0 / 2.4) - 0.055 })
    }

    fn decode_alpha(stored: u8) -> f32 {
        Scaled::decode(stored)
    }

    fn encode_alpha(seen: f32) -> u8 {
        Scaled::encode(seen)
    }
}

macro_rules! whole {
    ($($stored:ident $seen:ident $one:literal)*) => {$(
        impl Number<$stored> for Whole {
            type Seen = $seen;
            const MISSING: [$seen; 4] = [0 as $seen, 0 as $seen, 0 as $seen, $one];

            fn decode(stored: $stored) -> $seen {
                $seen::from(stored)
            }

            fn encode(seen: $seen) -> $stored {
                #[allow(clippy::unnecessary_cast, reason = "the widest ones are what kernels have")]
                let held = seen.clamp($stored::MIN as $seen, $stored::MAX as $seen) as $stored;
                held
            }
        }
    )*};
}
whole!(u8 u32 1 i8 i32 1 u16 u32 1 i16 i32 1 u32 u32 1 i32 i32 1);

impl Number<f32> for Whole {
    type Seen = f32;
    const MISSING: [f32; 4] = [0.0, 0.0, 0.0, 1.0];

    fn decode(stored: f32) -> f32 {
        stored
    }

    fn encode(seen: f32) -> f32 {
        seen
    }
}

impl Number<u16> for Half {
    type Seen = f32;
    const MISSING: [f32; 4] = [0.0, 0.0, 0.0, 1.0];

    fn decode(stored: u16) -> f32 {
        f16::from_bits(stored).to_f32()
    }

    fn encode(seen: f32) -> u16 {
        f16::from_f32(seen).to_bits()
    }
}
