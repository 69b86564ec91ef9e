//! How kernels look between texels, and past them.

use std::fmt;

use bytemuck::{Pod, Zeroable};

use crate::native::Zero;

/// How a kernel's `image.sample(sampler, at)` looks at an image; a value of a kernel like any other.
///
/// A new one takes the nearest texel, has coordinates from 0 to 1 and sees the last texel wherever the image has ended.
///
/// ```
/// use windlass_kernel::texel::{Addressing, Filter, Sampler};
/// let smooth = Sampler::new().filter(Filter::Linear).addressing(Addressing::Repeat);
/// assert_eq!(format!("{smooth:?}"), "Sampler { filter: Linear, addressing: Repeat, by_texels: false }");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Pod, Zeroable)]
#[repr(C)]
pub struct Sampler {
    /// Its settings, which kernels take apart.
    #[doc(hidden)]
    pub how: u32,
}

/// Which texels a sample is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Filter {
    /// The texel in whose area the place is.
    Nearest,
    /// The two nearest ones along each dimension, mixed by how near they are.
    Linear,
}

/// What there is beyond an image's ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Addressing {
    /// Its last texel, for ever.
    ClampToEdge,
    /// Texels all of whose bits are zero: of formats with alpha nothing, of others black.
    Border,
    /// The image again.
    Repeat,
    /// The image again, back and forth.
    MirrorRepeat,
}

const LINEAR: u32 = 1;
const ADDRESSING: u32 = 1;
const BY_TEXELS: u32 = 8;

impl Sampler {
    /// A sampler of the nearest texel, with coordinates from 0 to 1, and the last texel wherever the image has ended.
    pub const fn new() -> Self {
        Sampler { how: 0 }
    }

    /// One that samples by this filter.
    pub const fn filter(self, filter: Filter) -> Self {
        Sampler { how: self.how & !LINEAR | filter as u32 }
    }

    /// One that sees this beyond the image's ends.
    pub const fn addressing(self, addressing: Addressing) -> Self {
        Sampler { how: self.how & !(3 << ADDRESSING) | (addressing as u32) << ADDRESSING }
    }

    /// One whose coordinates count texels, so that the first one's middle is at 0.5, instead of going from 0 to 1 over the image.
    pub const fn by_texels(self) -> Self {
        Sampler { how: self.how | BY_TEXELS }
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Sampler::new()
    }
}

impl fmt::Debug for Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filter = if self.how & LINEAR == 0 { Filter::Nearest } else { Filter::Linear };
        let addressing = match self.how >> ADDRESSING & 3 {
            0 => Addressing::ClampToEdge,
            1 => Addressing::Border,
            2 => Addressing::Repeat,
            _ => Addressing::MirrorRepeat,
        };
        f.debug_struct("Sampler")
            .field("filter", &filter)
            .field("addressing", &addressing)
            .field("by_texels", &(self.how & BY_TEXELS != 0))
            .finish()
    }
}

impl Zero for Sampler {
    const ZERO: Self = Sampler::new();
}
