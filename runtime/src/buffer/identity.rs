//! Which handles are of the same elements.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::{Buffer, Window};

impl Window {
    /// Where its elements are, whichever views led to them: distances count where there is more than one of what they are between.
    fn place(&self) -> (usize, [usize; 3], [usize; 2]) {
        let (size, pitch) = (self.extent.size, self.extent.pitch);
        let between = |d: usize| if size[d] > 1 { pitch[d] } else { 0 };
        (self.offset, size, [between(0), between(1)])
    }
}

/// Handles are the same if they show the same elements of the same data, in the same shape: clones, for one, or what the same range
/// of a buffer is. Buffers that merely hold equal elements are not.
///
/// ```
/// use windlass::Buffer;
/// let (x, same) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
/// assert!(x == x.clone() && x != same);
/// assert!(x.range(2..6).range(1..) == x.range(3..6) && x.range(2..6) != x.range(1..5));
/// ```
impl<T, const D: usize> PartialEq for Buffer<T, D> {
    fn eq(&self, other: &Self) -> bool {
        let (this, that) = (&self.window, &other.window);
        Arc::ptr_eq(&self.root, &other.root) && this.place() == that.place() && this.problem == that.problem
    }
}

impl<T, const D: usize> Eq for Buffer<T, D> {}

impl<T, const D: usize> Hash for Buffer<T, D> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (Arc::as_ptr(&self.root), self.window.place()).hash(state);
    }
}
