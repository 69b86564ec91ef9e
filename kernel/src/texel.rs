//! What images are made of: texels as memory has them and as kernels see them, and how kernels look between them.

mod numbers;
mod sampler;

use std::fmt;

use bytemuck::{Pod, Zeroable};

use crate::native::Zero;
use crate::{DeviceCopy, Vec4, f16};
use numbers::{Number, Scaled, Srgb, Whole};
pub use sampler::{Addressing, Filter, Sampler};

mod sealed {
    pub trait Sealed {}
}

/// A texel as memory has it. Kernels, and [`Texel::decode`], see four numbers: a channel that the format lacks is 0, and a
/// missing alpha 1.
///
/// ```
/// use windlass_kernel::texel::{R16Sint, Rgba8Unorm, Texel};
/// use windlass_kernel::{Vec4, f16, texel::Rg16Float};
/// let red = Rgba8Unorm::new([255, 0, 51, 255]).decode();
/// assert_eq!((red.x, red.y, red.w), (1.0, 0.0, 1.0));
/// assert_eq!(Rgba8Unorm::encode(Vec4::new(2.0, -1.0, 0.2, 0.5)).channels, [255, 0, 51, 128]);
/// assert_eq!(R16Sint::new([-7]).decode(), Vec4::new(-7, 0, 0, 1));
/// assert_eq!(Rg16Float::from_halves([f16::ONE, f16::EPSILON]).decode().x, 1.0);
/// ```
pub trait Texel: DeviceCopy + Zero + PartialEq + fmt::Debug + sealed::Sealed {
    /// What it is to a kernel: `f32` where it stands for a part of the whole or is a float, else `u32` or `i32`.
    type Component: DeviceCopy;
    /// Its format.
    const FORMAT: TexelFormat;

    /// What a kernel reads.
    fn decode(self) -> Vec4<Self::Component>;

    /// What a kernel writes: each number becomes the nearest one that the format has.
    fn encode(value: Vec4<Self::Component>) -> Self;
}

macro_rules! formats {
    ($($(#[doc = $doc:literal])* $name:ident $bytes:literal,)*) => {
        /// The formats of texels. A name says which channels there are, of how many bits, and what they mean: of `Unorm` the
        /// integers from 0 to the largest one stand for 0 to 1, of `Snorm` those of both signs for -1 to 1; `Uint`, `Sint` and
        /// `Float` are what they are. Of `Srgb` red, green and blue have steps as displays have them, finer where it is dark, and
        /// kernels see how much light they stand for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum TexelFormat {
            $(#[doc = concat!("[`", stringify!($name), "`].")] $name,)*
        }

        impl TexelFormat {
            /// All of them.
            pub const ALL: &[TexelFormat] = &[$(TexelFormat::$name),*];

            /// The bytes of a texel, as copies have it.
            pub const fn bytes(self) -> usize {
                match self {
                    $(TexelFormat::$name => $bytes,)*
                }
            }
        }
    };
}

macro_rules! texel {
    ($name:ident: $stored:ty, $number:ty, $n:literal, $order:expr) => {
        #[doc = concat!("A texel of [`TexelFormat::", stringify!($name), "`]: its channels, in the order of its name.")]
        #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
        #[repr(C)]
        pub struct $name {
            /// The channels, as memory has them.
            pub channels: [$stored; $n],
        }

        impl $name {
            /// A texel with these channels.
            pub const fn new(channels: [$stored; $n]) -> Self {
                $name { channels }
            }
        }

        impl From<[$stored; $n]> for $name {
            fn from(channels: [$stored; $n]) -> Self {
                $name { channels }
            }
        }

        impl From<$name> for [$stored; $n] {
            fn from(texel: $name) -> Self {
                texel.channels
            }
        }

        impl Zero for $name {
            const ZERO: Self = $name { channels: [<$stored as Zero>::ZERO; $n] };
        }

        impl sealed::Sealed for $name {}

        impl Texel for $name {
            type Component = <$number as Number<$stored>>::Seen;
            const FORMAT: TexelFormat = TexelFormat::$name;

            fn decode(self) -> Vec4<Self::Component> {
                let mut seen = <$number as Number<$stored>>::MISSING;
                for (at, channel) in $order.into_iter().zip(self.channels) {
                    seen[at] = match at {
                        3 => <$number as Number<$stored>>::decode_alpha(channel),
                        _ => <$number as Number<$stored>>::decode(channel),
                    };
                }
                seen.into()
            }

            fn encode(value: Vec4<Self::Component>) -> Self {
                let value: [Self::Component; 4] = value.into();
                let order: [usize; $n] = $order;
                let channel = |at: usize| match at {
                    3 => <$number as Number<$stored>>::encode_alpha(value[at]),
                    _ => <$number as Number<$stored>>::encode(value[at]),
                };
                $name { channels: order.map(channel) }
            }
        }
    };
}

macro_rules! kinds {
    ($($stored:ty, $number:ty: $one:ident $two:ident $four:ident;)*) => {$(
        texel!($one: $stored, $number, 1, [0]);
        texel!($two: $stored, $number, 2, [0, 1]);
        texel!($four: $stored, $number, 4, [0, 1, 2, 3]);
    )*};
}

kinds! {
    u8, Scaled: R8Unorm Rg8Unorm Rgba8Unorm;
    i8, Scaled: R8Snorm Rg8Snorm Rgba8Snorm;
    u8, Whole: R8Uint Rg8Uint Rgba8Uint;
    i8, Whole: R8Sint Rg8Sint Rgba8Sint;
    u16, Scaled: R16Unorm Rg16Unorm Rgba16Unorm;
    i16, Scaled: R16Snorm Rg16Snorm Rgba16Snorm;
    u16, Whole: R16Uint Rg16Uint Rgba16Uint;
    i16, Whole: R16Sint Rg16Sint Rgba16Sint;
    u16, numbers::Half: R16Float Rg16Float Rgba16Float;
    u32, Whole: R32Uint Rg32Uint Rgba32Uint;
    i32, Whole: R32Sint Rg32Sint Rgba32Sint;
    f32, Whole: R32Float Rg32Float Rgba32Float;
}
texel!(Bgra8Unorm: u8, Scaled, 4, [2, 1, 0, 3]);
texel!(Rgba8UnormSrgb: u8, Srgb, 4, [0, 1, 2, 3]);
texel!(Bgra8UnormSrgb: u8, Srgb, 4, [2, 1, 0, 3]);

formats! {
    R8Unorm 1, Rg8Unorm 2, Rgba8Unorm 4, Bgra8Unorm 4,
    Rgba8UnormSrgb 4, Bgra8UnormSrgb 4,
    R8Snorm 1, Rg8Snorm 2, Rgba8Snorm 4,
    R8Uint 1, Rg8Uint 2, Rgba8Uint 4,
    R8Sint 1, Rg8Sint 2, Rgba8Sint 4,
    R16Unorm 2, Rg16Unorm 4, Rgba16Unorm 8,
    R16Snorm 2, Rg16Snorm 4, Rgba16Snorm 8,
    R16Uint 2, Rg16Uint 4, Rgba16Uint 8,
    R16Sint 2, Rg16Sint 4, Rgba16Sint 8,
    R16Float 2, Rg16Float 4, Rgba16Float 8,
    R32Uint 4, Rg32Uint 8, Rgba32Uint 16,
    R32Sint 4, Rg32Sint 8, Rgba32Sint 16,
    R32Float 4, Rg32Float 8, Rgba32Float 16,
}

macro_rules! halves {
    ($($name:ident $n:literal)*) => {$(
        impl $name {
            /// A texel with these channels. Memory has their bits.
            pub fn from_halves(channels: [f16; $n]) -> Self {
                $name { channels: channels.map(f16::to_bits) }
            }

            /// Its channels as numbers.
            pub fn halves(self) -> [f16; $n] {
                self.channels.map(f16::from_bits)
            }
        }
    )*};
}
halves!(R16Float 1 Rg16Float 2 Rgba16Float 4);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_scales_are_exact() {
        assert_eq!(R8Unorm::new([255]).decode(), Vec4::new(1.0, 0.0, 0.0, 1.0));
        assert_eq!(Rg16Unorm::new([u16::MAX, 0]).decode(), Vec4::new(1.0, 0.0, 0.0, 1.0));
        assert_eq!(Rgba8Snorm::new([-128, -127, 127, 0]).decode(), Vec4::new(-1.0, -1.0, 1.0, 0.0));
        assert_eq!(Rg16Snorm::new([i16::MIN, i16::MAX]).decode(), Vec4::new(-1.0, 1.0, 0.0, 1.0));
        assert_eq!(Bgra8Unorm::new([255, 0, 0, 255]).decode(), Vec4::new(0.0, 0.0, 1.0, 1.0));
        assert_eq!(Bgra8UnormSrgb::new([255, 0, 0, 255]).decode(), Vec4::new(0.0, 0.0, 1.0, 1.0));
    }

    #[test]
    fn what_was_read_is_written_back_the_same() {
        for bits in 0..=u16::MAX {
            let [low, high] = bits.to_le_bytes();
            let small = Rg8Unorm::new([low, high]);
            assert_eq!(Rg8Unorm::encode(small.decode()), small);
            let wide = R16Unorm::new([bits]);
            assert_eq!(R16Unorm::encode(wide.decode()), wide);
            let signed = R16Snorm::new([bits.max(0x8001) as i16]);
            assert_eq!(R16Snorm::encode(signed.decode()), signed);
            let light = Rgba8UnormSrgb::new([low, high, 0, low]);
            assert_eq!(Rgba8UnormSrgb::encode(light.decode()), light);
            let half = R16Float::new([bits]);
            assert!(half.halves()[0].is_nan() || R16Float::encode(half.decode()) == half);
        }
    }

    #[test]
    fn numbers_become_the_nearest_that_there_is() {
        assert_eq!(Rgba8Uint::encode(Vec4::new(300, 7, 0, 255)).channels, [255, 7, 0, 255]);
        assert_eq!(Rg8Sint::encode(Vec4::new(-300, 300, 0, 0)).channels, [-128, 127]);
        assert_eq!(Rg8Unorm::encode(Vec4::new(f32::NAN, f32::INFINITY, 0.0, 0.0)).channels, [0, 255]);
        assert_eq!(R16Float::encode(Vec4::splat(1e6)).halves(), [f16::INFINITY]);
    }

    /// The middle of the steps is a fifth of the light, and half of the light is at 188 of 255.
    #[test]
    fn light_is_told_as_displays_show_it() {
        let grey = Rgba8UnormSrgb::new([128, 10, 11, 128]).decode();
        assert!((grey.x - 0.215_861).abs() < 1e-5 && (grey.w - 0.501_961).abs() < 1e-5, "{grey:?}");
        assert!((grey.y - 0.003_035).abs() < 1e-6 && (grey.z - 0.003_347).abs() < 1e-6, "{grey:?}");
        let half = Rgba8UnormSrgb::encode(Vec4::new(0.5, 2.0, f32::NAN, 0.5));
        assert_eq!(half.channels, [188, 255, 0, 128]);
    }

    #[test]
    fn formats_have_the_size_of_their_texels() {
        fn same<T: Texel>() {
            assert_eq!(T::FORMAT.bytes(), size_of::<T>());
        }
        same::<R8Unorm>();
        same::<Rg8Sint>();
        same::<Rgba8Uint>();
        same::<Bgra8Unorm>();
        same::<R16Float>();
        same::<Rg16Uint>();
        same::<Rgba16Snorm>();
        same::<R32Float>();
        same::<Rg32Sint>();
        same::<Rgba32Uint>();
        same::<Bgra8UnormSrgb>();
        assert_eq!(TexelFormat::ALL.len(), 39);
    }
}
