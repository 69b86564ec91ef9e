//! Images: texels, which kernels see as four numbers.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use windlass_backend::{HostMemory, ImageShape};
use windlass_kernel::texel::Texel;

use super::{Buffer, Shape};
use crate::error::{Error, Result};

/// Texels in one to three dimensions that belong to no device, and are wherever they are needed: in all but what kernels do with
/// them a [`Buffer`] of texels, to which it dereferences. So it is read, written, copied and filled like one, and in order with
/// everything else.
///
/// A kernel takes it as `&Image<Rgba8Unorm>` or `&mut Image<R32Float, 3>`. It sees texels as four numbers, whatever they are in memory:
/// `image.load(at)`, `image.store(at, value)`, and `image.sample(sampler, at)` for what is between them. Places are as pictures have
/// them, `Vec2::new(x, y)`, while shapes are as buffers have them: rows, and then the texels in each.
///
/// It is linear memory on all devices, but for those that are to be [native](Image::native).
///
/// ```
/// use windlass::prelude::*;
/// use windlass::texel::{Filter, Rgba8Unorm};
///
/// #[windlass::kernel]
/// fn smaller(from: &Image<Rgba8Unorm>, smooth: Sampler, to: &mut Image<Rgba8Unorm>) {
///     let at = Vec2::new(global_id(1), global_id(0));
///     let middle = Vec2::new((at.x as f32 + 0.5) / to.width() as f32, (at.y as f32 + 0.5) / to.height() as f32);
///     to.store(at, from.sample(smooth, middle));
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let stripes = [[255, 0, 0, 255], [0, 0, 255, 255]].map(Rgba8Unorm::new);
/// let large = Image::with_shape([4, 4], [stripes, stripes].concat().repeat(4))?;
/// let small = Image::<Rgba8Unorm>::new([2, 2])?;
/// let smooth = Sampler::new().filter(Filter::Linear);
/// queue.submit(|cg| cg.parallel_for([2, 2], smaller(cg.read(&large), smooth, cg.overwrite(&small))))?;
/// assert_eq!(small.host_read().blocking_wait()?[[1, 1]].channels, [128, 0, 128, 255]);
/// # Ok(())
/// # }
/// ```
pub struct Image<T, const D: usize = 2> {
    texels: Buffer<T, D>,
}

impl<T: Texel, const D: usize> Image<T, D> {
    /// An image whose texels nobody has written: they read as zeros. It has one at least.
    ///
    /// ```
    /// use windlass::{prelude::*, texel::R8Unorm};
    /// # fn main() -> windlass::Result<()> {
    /// let grey = Image::<R8Unorm>::new([480, 640])?;
    /// assert_eq!((grey.shape(), grey.len()), ([480, 640], 480 * 640));
    /// assert!(Image::<R8Unorm>::new([0, 640]).unwrap_err().is_invalid_input());
    /// # Ok(()) }
    /// ```
    pub fn new(shape: impl Shape<D>) -> Result<Self> {
        Self::make(shape.extent(), None)
    }

    /// An image of this shape with these texels, row by row.
    ///
    /// ```
    /// use windlass::{prelude::*, texel::Rgba8Unorm};
    /// # fn main() -> windlass::Result<()> {
    /// let image = Image::with_shape([1, 2], vec![Rgba8Unorm::new([255, 0, 0, 255]), Rgba8Unorm::new([0; 4])])?;
    /// assert_eq!(image.host_read().blocking_wait()?[[0, 0]].channels, [255, 0, 0, 255]);
    /// assert!(Image::with_shape([2, 2], vec![Rgba8Unorm::new([0; 4])]).is_err());
    /// # Ok(()) }
    /// ```
    pub fn with_shape(shape: impl Shape<D>, texels: Vec<T>) -> Result<Self> {
        let extent: [usize; D] = shape.extent();
        if extent.iter().try_fold(1_usize, |n, e| n.checked_mul(*e)) != Some(texels.len()) {
            let len = texels.len();
            return Err(Error::invalid(format!("{len} texels do not fill an image of shape {extent:?}")));
        }
        Self::make(extent, Some(HostMemory::from_vec(texels)))
    }

    pub(super) fn make(extent: [usize; D], data: Option<HostMemory>) -> Result<Self> {
        if extent.contains(&0) {
            let message = format!("an image of shape {extent:?}, and an image has at least one texel");
            return Err(Error::invalid(message));
        }
        let texels = Buffer::with_root(extent, data);
        texels.check().map(|()| Image { texels })
    }

    /// The image, as one that devices which have images of that format and size keep as they like them, for kernels in their own
    /// languages that declare such. Kernels of the attribute do not take it on such a device, nor can its texels be seen as
    /// elements of another type. It is said where the image is made, before anybody else has it.
    ///
    /// ```
    /// use windlass::{prelude::*, texel::R32Float};
    /// # fn main() -> windlass::Result<()> {
    /// let field = Image::<R32Float, 3>::new([4, 4, 4])?.native()?;
    /// assert!(field.clone().native().is_err(), "there are two handles to it");
    /// # Ok(())
    /// # }
    /// ```
    pub fn native(mut self) -> Result<Self> {
        let taken = Arc::get_mut(&mut self.texels.root).is_some_and(|root| {
            let shape = ImageShape::new(root.shape(), D, T::FORMAT);
            root.take_image(shape)
        });
        match taken {
            true => Ok(self),
            false => Err(Error::invalid(
                "an image that others have, a queue has used, or that has pages, to be kept natively: that is said where it is made",
            )),
        }
    }
}

impl<T, const D: usize> Deref for Image<T, D> {
    type Target = Buffer<T, D>;

    fn deref(&self) -> &Buffer<T, D> {
        &self.texels
    }
}

impl<T, const D: usize> Clone for Image<T, D> {
    fn clone(&self) -> Self {
        Image { texels: self.texels.clone() }
    }
}

/// Clones of one image are the same, and nothing else is.
impl<T, const D: usize> PartialEq for Image<T, D> {
    fn eq(&self, other: &Self) -> bool {
        self.texels == other.texels
    }
}

impl<T, const D: usize> Eq for Image<T, D> {}

impl<T, const D: usize> Hash for Image<T, D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.texels.hash(state);
    }
}

impl<T, const D: usize> fmt::Debug for Image<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("texels", &self.texels).finish()
    }
}
