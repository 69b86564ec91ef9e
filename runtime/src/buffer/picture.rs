//! Images from the buffers of the crate `image`, and such buffers from images.

// There is a module of this name here.
use ::image as pictures;
use pictures::{ImageBuffer, Luma, Pixel, Rgba};
use windlass_backend::HostMemory;
use windlass_kernel::texel::{
    R8Unorm, R16Unorm, R32Float, Rgba8Unorm, Rgba8UnormSrgb, Rgba16Unorm, Rgba32Float, Texel,
};
use windlass_kernel::{DeviceCopy, slice_bytes, slice_bytes_mut};

use super::Image;
use crate::error::Result;
use crate::group::sealed::Sealed;

/// Texels that are pixels of the crate `image`: of its version 0.25.
///
/// ```
/// use windlass::{Pictured, prelude::*, texel::R8Unorm};
///
/// /// A picture of any kind as an image of the same, behind which a queue has cleared the first row.
/// fn cleared<T: Pictured>(
///     queue: &Queue,
///     picture: image::ImageBuffer<T::Pixel, Vec<T::Subpixel>>,
/// ) -> windlass::Result<Image<T>> {
///     let image = Image::<T>::from_picture(picture)?;
///     queue.submit(|cg| cg.fill(&cg.write(&image.range((..1, ..))), T::zeroed()))?;
///     Ok(image)
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let picture = image::GrayImage::from_pixel(2, 2, image::Luma([9]));
/// let image = cleared::<R8Unorm>(&Queue::blocking_new()?, picture)?;
/// assert_eq!(image.host_read().blocking_wait()?[[1, 0]].channels, [9]);
/// # Ok(()) }
/// ```
pub trait Pictured: Texel + Sealed {
    /// A number of a pixel.
    type Subpixel: DeviceCopy;
    /// The pixel that is the same in memory.
    type Pixel: Pixel<Subpixel = Self::Subpixel>;
}

macro_rules! pictured {
    ($($texel:ident: $pixel:ident<$subpixel:ty>;)*) => {$(
        impl Sealed for $texel {}
        impl Pictured for $texel {
            type Subpixel = $subpixel;
            type Pixel = $pixel<$subpixel>;
        }
    )*};
}
pictured! {
    R8Unorm: Luma<u8>;
    R16Unorm: Luma<u16>;
    R32Float: Luma<f32>;
    Rgba8Unorm: Rgba<u8>;
    Rgba8UnormSrgb: Rgba<u8>;
    Rgba16Unorm: Rgba<u16>;
    Rgba32Float: Rgba<f32>;
}

impl<T: Pictured> Image<T, 2> {
    /// An image of a picture's pixels, which are taken over where they are.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::texel::Rgba8Unorm;
    /// # async fn f() -> windlass::Result<()> {
    /// let picture = image::RgbaImage::from_pixel(3, 2, image::Rgba([255, 0, 0, 255]));
    /// let red = Image::<Rgba8Unorm>::from_picture(picture)?;
    /// assert_eq!(red.shape(), [2, 3]);
    /// assert_eq!(red.to_picture().await?.get_pixel(2, 1).0, [255, 0, 0, 255]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn from_picture(picture: ImageBuffer<T::Pixel, Vec<T::Subpixel>>) -> Result<Self> {
        let (width, height) = picture.dimensions();
        let mut pixels = picture.into_raw();
        // What is behind the last pixel is none of the picture's.
        pixels.truncate(width as usize * height as usize * usize::from(<T::Pixel as Pixel>::CHANNEL_COUNT));
        Self::make([height as usize, width as usize], Some(HostMemory::from_vec(pixels)))
    }

    /// A picture of the texels, once everything that was submitted before has ended.
    ///
    /// ```
    /// use windlass::{prelude::*, texel::R8Unorm};
    /// # async fn f() -> windlass::Result<()> {
    /// let half = Image::with_shape([1, 2], vec![R8Unorm::new([0]), R8Unorm::new([255])])?;
    /// let picture = half.to_picture().await?;
    /// assert_eq!((picture.dimensions(), picture.get_pixel(1, 0).0), ((2, 1), [255]));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn to_picture(&self) -> Result<ImageBuffer<T::Pixel, Vec<T::Subpixel>>> {
        let [height, width] = self.shape();
        let texels = self.host_read().await?;
        let mut pixels = vec![T::Subpixel::zero(); size_of_val(&texels[..]) / size_of::<T::Subpixel>()];
        slice_bytes_mut(&mut pixels).copy_from_slice(slice_bytes(&texels[..]));
        let dimensions = u32::try_from(width).ok().zip(u32::try_from(height).ok());
        let picture = dimensions.and_then(|(width, height)| ImageBuffer::from_raw(width, height, pixels));
        picture.ok_or_else(|| {
            crate::Error::invalid(format!("a picture of {height} rows of {width} pixels, which has too many"))
        })
    }
}
