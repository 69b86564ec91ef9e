//! Whether a kernel follows pointers, and whose code does.

use std::sync::Arc;

use crate::image::KernelInner;
use crate::{Kernel, KernelImage};

impl KernelInner {
    /// Code that follows pointers trusts one of its values, which the attribute's function for it fills in, and nobody else may: so it has
    /// to be of the very kernel that is called.
    pub(crate) fn follows(&self) -> FollowsPointers {
        let mut reaching = self.images.iter().filter(|image| image.reaches).peekable();
        if reaching.peek().is_none() {
            return FollowsPointers::No;
        }
        let known = self.original.as_ref().map_or(&self.images[..], Kernel::images);
        // Only the attribute's kernels have that.
        let is_attributes = self.shaping.is_some();
        let is_own = |image: &KernelImage| known.iter().any(|own| Arc::ptr_eq(&own.code, &image.code));
        match is_attributes && reaching.all(is_own) {
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
