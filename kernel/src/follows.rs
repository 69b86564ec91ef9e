//! Whose code a kernel has, and whether that follows pointers.

use std::sync::Arc;

use crate::image::KernelInner;
use crate::{Kernel, KernelImage};

impl KernelInner {
    /// Whether the attribute wrote a text for this very kernel.
    pub(crate) fn owns(&self, image: &KernelImage) -> bool {
        let known = self.original.as_ref().map_or(&self.images[..], Kernel::images);
        // Only the attribute's kernels have a shape.
        self.shaping.is_some() && known.iter().any(|own| Arc::ptr_eq(&own.code, &image.code))
    }

    /// Code that follows pointers trusts one of its values, which the attribute's function for it fills in, and nobody else may: so it has
    /// to be of the very kernel that is called.
    pub(crate) fn follows(&self) -> FollowsPointers {
        let mut reaching = self.images.iter().filter(|image| image.reaches).peekable();
        if reaching.peek().is_none() {
            return FollowsPointers::No;
        }
        match reaching.all(|image| self.owns(image)) {
            true => FollowsPointers::ByItself,
            false => FollowsPointers::ByOthersCode,
        }
    }
}

/// Whether a kernel follows pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowsPointers {
    /// It does not.
    No,
    /// It does, and its function says what it reaches.
    ByItself,
    /// It has the code of another kernel that does.
    ByOthersCode,
}

impl Kernel {
    /// Whether the attribute wrote a text for this very kernel.
    #[doc(hidden)]
    pub fn owns(&self, image: &KernelImage) -> bool {
        self.inner.owns(image)
    }

    /// Whether it follows pointers.
    #[doc(hidden)]
    pub fn pointers(&self) -> FollowsPointers {
        self.inner.pointers
    }
}
