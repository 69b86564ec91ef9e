//! The items of a batch, side by side.

use std::sync::Arc;

use windlass_kernel::{DeviceCopy, slice_bytes};

use crate::buffer::Buffer;
use crate::shell::Inner;
use crate::shell::pinned::{Filling, PinnedPlace};

/// Elements that are gathered, each of which is copied once: where the driver has pinned the memory, the copy to the device begins there. As
/// long as no such memory is at hand it is a vector, and the scheduler or the driver copies a second time.
pub(super) enum Gathering<T> {
    Own(Vec<T>),
    Pinned(Filling),
}

impl<T: DeviceCopy> Gathering<T> {
    /// Room for so many elements.
    pub(super) fn with_capacity(elements: usize, place: Option<&PinnedPlace>, inner: &Arc<Inner>) -> Self {
        let bytes = elements.saturating_mul(size_of::<T>());
        match place.and_then(|place| place.filling(bytes, inner)) {
            Some(pinned) => Gathering::Pinned(pinned),
            None => Gathering::Own(Vec::with_capacity(elements)),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Gathering::Own(elements) => elements.len(),
            Gathering::Pinned(filling) => filling.filled() / size_of::<T>(),
        }
    }

    pub(super) fn add(&mut self, elements: &[T]) {
        match self {
            Gathering::Own(gathered) => gathered.extend_from_slice(elements),
            Gathering::Pinned(filling) => filling.add(slice_bytes(elements)),
        }
    }

    /// Bytes that are whole elements, of any alignment.
    #[cfg(feature = "bytes")]
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        match self {
            Gathering::Own(gathered) => {
                let begin = gathered.len();
                gathered.resize(begin + bytes.len() / size_of::<T>(), T::zero());
                windlass_kernel::slice_bytes_mut(&mut gathered[begin..]).copy_from_slice(bytes);
            }
            Gathering::Pinned(filling) => filling.add(bytes),
        }
    }

    pub(super) fn into_buffer(self) -> Buffer<T> {
        match self {
            Gathering::Own(elements) => Buffer::from(elements),
            Gathering::Pinned(filling) => Buffer::gathered(filling),
        }
    }
}
