//! Images: texels that devices which have such keep as they like them.

use std::fmt;

use windlass_backend::{HostMemory, ImageShape, TexelFormat};
use windlass_kernel::{DeviceCopy, Vec4};

use super::{Buffer, Shape};
use crate::error::{Error, Result};
use crate::group::sealed::Sealed;

/// A texel as the host has it.
pub trait Texel: DeviceCopy + Sealed {
    /// What devices make of it.
    const FORMAT: TexelFormat;
}

macro_rules! texels {
    ($($texel:ty: $format:ident)*) => {$(
        impl Sealed for $texel {}
        impl Texel for $texel {
            const FORMAT: TexelFormat = TexelFormat::$format;
        }
    )*};
}
texels! { [u8; 4]: Rgba8Unorm u32: R32Uint f32: R32Float Vec4<f32>: Rgba32Float }

/// Texels in one to three dimensions that belong to no device, and are wherever they are needed: like a [`Buffer`], except that a
/// device with images of that format and size stores the texels as a native image. Elsewhere they are linear memory.
///
/// Groups use [`Image::texels`]: they copy, fill, and read and write it on the host as they do a buffer. A kernel takes it where it
/// declares an image, on devices that have such, and nowhere else.
///
/// ```
/// use windlass::prelude::*;
/// use windlass::Image;
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let image = Image::with_shape([2, 3], vec![[255_u8, 0, 0, 255]; 6])?;
/// let bytes = Buffer::<[u8; 4], 2>::new([2, 3]);
/// queue.submit(|cg| cg.copy(&cg.read(image.texels()), &cg.overwrite(&bytes)))?;
/// assert_eq!(bytes.host_read().blocking_wait()?[[1, 2]], [255, 0, 0, 255]);
/// # Ok(())
/// # }
/// ```
pub struct Image<T, const D: usize = 2> {
    texels: Buffer<T, D>,
}

impl<T: Texel, const D: usize> Image<T, D> {
    /// An image whose texels nobody has written: they read as zeros.
    pub fn new(shape: impl Shape<D>) -> Self {
        Self::make(shape.extent(), None)
    }

    /// An image of this shape with these texels, row by row.
    pub fn with_shape(shape: impl Shape<D>, texels: Vec<T>) -> Result<Self> {
        let extent: [usize; D] = shape.extent();
        if extent.iter().try_fold(1_usize, |n, e| n.checked_mul(*e)) != Some(texels.len()) {
            let len = texels.len();
            return Err(Error::invalid(format!("{len} texels do not fill an image of shape {extent:?}")));
        }
        let image = Self::make(extent, Some(HostMemory::from_vec(texels)));
        image.texels.check().map(|()| image)
    }

    fn make(extent: [usize; D], data: Option<HostMemory>) -> Self {
        let texels = Buffer::with_root_like(extent, data, |root| {
            let shape = ImageShape::new(root.shape(), D, T::FORMAT);
            root.with_image(shape)
        });
        Image { texels }
    }

    /// The texels, to be read, written, copied and filled.
    pub fn texels(&self) -> &Buffer<T, D> {
        &self.texels
    }

    /// How many slices, rows and texels in a row it has.
    pub fn shape(&self) -> [usize; D] {
        self.texels.shape()
    }
}

impl<T, const D: usize> Clone for Image<T, D> {
    fn clone(&self) -> Self {
        Image { texels: self.texels.clone() }
    }
}

impl<T, const D: usize> fmt::Debug for Image<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("texels", &self.texels).finish()
    }
}
