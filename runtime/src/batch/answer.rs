//! What callers get back.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_kernel::DeviceCopy;

use crate::host_view::Elements;

/// One item's part of a batch's output, which all its answers share: no copy was made for this one. The output's memory is kept as long as
/// one of them is.
#[derive(Clone)]
pub struct Answer<U: DeviceCopy> {
    all: Arc<Output<U>>,
    part: Range<usize>,
}

/// What a batch has computed, and when that was there.
pub(super) struct Output<U: DeviceCopy> {
    all: Elements<U>,
    ended: Instant,
}

impl<U: DeviceCopy> Output<U> {
    pub(super) fn new(all: Elements<U>) -> Self {
        Output { all, ended: Instant::now() }
    }
}

impl<U: DeviceCopy> Answer<U> {
    pub(super) fn new(all: Arc<Output<U>>, part: Range<usize>) -> Self {
        Answer { all, part }
    }

    /// How long it has been there.
    pub(super) fn age(&self) -> Duration {
        self.all.ended.elapsed()
    }
}

impl<U: DeviceCopy> Deref for Answer<U> {
    type Target = [U];

    fn deref(&self) -> &[U] {
        &self.all.all[self.part.clone()]
    }
}

impl<U: DeviceCopy> AsRef<[U]> for Answer<U> {
    fn as_ref(&self) -> &[U] {
        self
    }
}

impl<U: DeviceCopy + fmt::Debug> fmt::Debug for Answer<U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self[..].fmt(f)
    }
}

#[cfg(feature = "bytes")]
impl<U: DeviceCopy> Answer<U> {
    /// With the feature `bytes`, the answer as bytes, without a copy: the body of a response, for instance.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// let body = windlass::bytes::Bytes::from(vec![1, 0, 0, 0, 2, 0, 0, 0]);
    /// let answer = batch.call(body.clone()).await?.into_bytes();
    /// assert_eq!(answer, body);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn into_bytes(self) -> bytes::Bytes {
        struct Lent<U: DeviceCopy>(Answer<U>);
        impl<U: DeviceCopy> AsRef<[u8]> for Lent<U> {
            fn as_ref(&self) -> &[u8] {
                windlass_kernel::slice_bytes(&self.0)
            }
        }
        bytes::Bytes::from_owner(Lent(self))
    }
}
