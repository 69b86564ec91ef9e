//! What callers hand in.

use std::sync::Arc;

#[cfg(feature = "bytes")]
use bytes::Bytes;
use windlass_kernel::DeviceCopy;

use super::gathering::Gathering;
use crate::error::Result;

/// The elements of one item. They are copied once, when the batch is gathered.
///
/// ```
/// # use windlass::{batch::Batch, prelude::*};
/// # async fn f() -> windlass::Result<()> {
/// # let queue = Queue::new().await?;
/// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
/// // A vector, a slice, an array, elements that others have too; with the feature `bytes`, bytes as they came.
/// let shared: std::sync::Arc<[u32]> = [3, 4].into();
/// let calls = [batch.call(vec![1]), batch.call(&[2][..]), batch.call(shared), batch.call([5])];
/// for (call, first) in calls.into_iter().zip([1, 2, 3, 5]) {
///     assert_eq!(call.await?[0], first);
/// }
/// # Ok(()) }
/// # futures::executor::block_on(f()).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Payload<T>(Elements<T>);

#[derive(Clone, Debug)]
enum Elements<T> {
    Own(Vec<T>),
    Shared(Arc<[T]>),
    #[cfg(feature = "bytes")]
    Bytes(Bytes),
}

impl<T> From<Vec<T>> for Payload<T> {
    fn from(elements: Vec<T>) -> Self {
        Payload(Elements::Own(elements))
    }
}

impl<T: Clone> From<&[T]> for Payload<T> {
    fn from(elements: &[T]) -> Self {
        Payload(Elements::Own(elements.to_vec()))
    }
}

impl<T: Clone, const N: usize> From<[T; N]> for Payload<T> {
    fn from(elements: [T; N]) -> Self {
        Payload(Elements::Own(elements.to_vec()))
    }
}

impl<T> From<Arc<[T]>> for Payload<T> {
    fn from(elements: Arc<[T]>) -> Self {
        Payload(Elements::Shared(elements))
    }
}

/// Bytes that have to be whole elements; of any alignment, since they are copied once in any case.
#[cfg(feature = "bytes")]
impl<T> From<Bytes> for Payload<T> {
    fn from(bytes: Bytes) -> Self {
        Payload(Elements::Bytes(bytes))
    }
}

impl<T> Payload<T> {
    /// Leaves one of no elements.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Payload(Elements::Own(Vec::new())))
    }
}

impl<T: DeviceCopy> Payload<T> {
    /// Elements, if they are whole.
    pub(super) fn len(&self) -> Result<usize> {
        const { assert!(size_of::<T>() != 0, "elements of no size cannot live in a buffer") };
        match &self.0 {
            Elements::Own(elements) => Ok(elements.len()),
            Elements::Shared(elements) => Ok(elements.len()),
            #[cfg(feature = "bytes")]
            Elements::Bytes(bytes) if bytes.len().is_multiple_of(size_of::<T>()) => {
                Ok(bytes.len() / size_of::<T>())
            }
            #[cfg(feature = "bytes")]
            Elements::Bytes(bytes) => Err(crate::error::Error::invalid(format!(
                "an item of {} bytes as elements of `{}`, which have {} each: a part of one is left",
                bytes.len(),
                std::any::type_name::<T>(),
                size_of::<T>()
            ))),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.0 {
            Elements::Own(elements) => size_of_val(&elements[..]),
            Elements::Shared(elements) => size_of_val(&elements[..]),
            #[cfg(feature = "bytes")]
            Elements::Bytes(bytes) => bytes.len(),
        }
    }

    /// Copies them to where those of a batch are. They have a [length](Payload::len).
    pub(super) fn append_to(&self, gathered: &mut Gathering<T>) {
        match &self.0 {
            Elements::Own(elements) => gathered.add(elements),
            Elements::Shared(elements) => gathered.add(elements),
            #[cfg(feature = "bytes")]
            Elements::Bytes(bytes) => gathered.add_bytes(bytes),
        }
    }
}
