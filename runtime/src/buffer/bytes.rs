//! Buffers from reference-counted bytes, and such bytes from buffers.

use std::any::type_name;

use bytes::Bytes;
use windlass_backend::HostMemory;
use windlass_kernel::{DeviceCopy, slice_bytes_mut};

use super::Buffer;
use crate::error::{Error, Result};
use crate::host_access::HostRead;

impl<T: DeviceCopy> Buffer<T> {
    /// A buffer of the elements in these bytes, which have to be whole elements. Bytes of which nobody else has a part, from their
    /// start on, are taken over where they are aligned for the elements, and copied otherwise.
    ///
    /// ```
    /// use windlass::{Buffer, bytes::Bytes};
    /// let body = Bytes::from(vec![1, 0, 0, 0, 2, 0, 0, 0]);
    /// let numbers = Buffer::<u32>::from_bytes(body).unwrap();
    /// assert_eq!(numbers.len(), 2);
    /// let cut = Bytes::from(vec![0; 7]);
    /// assert!(Buffer::<u32>::from_bytes(cut).unwrap_err().is_invalid_input());
    /// ```
    pub fn from_bytes(bytes: Bytes) -> Result<Self> {
        const { assert!(size_of::<T>() != 0, "elements of no size cannot live in a buffer") };
        let len = bytes.len() / size_of::<T>();
        if !bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(Error::invalid(format!(
                "{} bytes as elements of `{}`, which have {} each: a part of one is left",
                bytes.len(),
                type_name::<T>(),
                size_of::<T>()
            )));
        }
        let memory = match bytes.try_into_mut().map(Vec::<u8>::from) {
            // Looked at only now: to make a vector of them may move them.
            Ok(own) if own.as_ptr().addr().is_multiple_of(align_of::<T>()) => HostMemory::from_vec(own),
            Ok(own) => copied::<T>(&own, len),
            Err(shared) => copied::<T>(&shared, len),
        };
        Ok(Self::with_root([len], Some(memory)))
    }
}

fn copied<T: DeviceCopy>(bytes: &[u8], len: usize) -> HostMemory {
    let mut elements = vec![T::zero(); len];
    slice_bytes_mut(&mut elements).copy_from_slice(bytes);
    HostMemory::from_vec(elements)
}

impl<T: DeviceCopy, const D: usize> Buffer<T, D> {
    /// The data as bytes, once everything that was submitted before has ended: without a copy. The bytes hold the buffer as a
    /// [reading guard](Buffer::host_read) does, until the last clone and part of them is gone, and groups that write it wait for that.
    ///
    /// ```
    /// # use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let body = Buffer::from(vec![1_u16, 2, 3]).into_bytes().await?;
    /// assert_eq!(body.len(), 6);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn into_bytes(self) -> impl Future<Output = Result<Bytes>> + Send {
        let access = self.host_read();
        drop(self);
        async move { Ok(access.await?.into_bytes()) }
    }
}

impl<T: DeviceCopy, const D: usize> HostRead<T, D> {
    /// The data as bytes, without a copy: they hold the buffer as this guard does, until the last clone and part of them is gone.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let (queue, sums) = (Queue::new().await?, Buffer::<u32>::new(2));
    /// let body = sums.host_read().await?.into_bytes();
    /// let later = queue.submit(|cg| cg.fill(&cg.overwrite(&sums), 7))?;
    /// assert_eq!((later.status(), body.len()), (Status::Pending, 8));
    /// drop(body);
    /// later.await
    /// # }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn into_bytes(self) -> Bytes {
        Bytes::from_owner(Lent(self))
    }

    /// The data as bytes of their own: the buffer is free again when this guard is dropped.
    ///
    /// ```
    /// # async fn f() -> windlass::Result<()> {
    /// let numbers = windlass::Buffer::from(vec![1_u16, 2, 3]);
    /// let body = numbers.host_read().await?.copy_to_bytes();
    /// assert_eq!(body.len(), 6);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn copy_to_bytes(&self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }
}

/// A guard whose bytes are lent.
struct Lent<T: DeviceCopy, const D: usize>(HostRead<T, D>);

impl<T: DeviceCopy, const D: usize> AsRef<[u8]> for Lent<T, D> {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}
