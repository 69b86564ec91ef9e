//! How a batch is made.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use windlass_batching::Limits;
use windlass_kernel::DeviceCopy;

use super::Batch;
use super::flight::Gathered;
use super::keeper::start;
use super::state::{Recipe, Shared};
use crate::error::Result;
use crate::group::CommandGroup;
use crate::queue::Queue;
use crate::shell::pinned::PinnedPlace;

/// What a batch is to be like; see [`Batch::builder`].
pub struct BatchBuilder<T: DeviceCopy, U: DeviceCopy> {
    queue: Queue,
    name: Cow<'static, str>,
    limits: Limits,
    answer_len: Box<dyn Fn(usize) -> usize + Send + Sync>,
    with_starts: bool,
    types: std::marker::PhantomData<fn(T) -> U>,
}

impl<T: DeviceCopy, U: DeviceCopy> fmt::Debug for BatchBuilder<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchBuilder")
            .field("name", &self.name)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

impl<T: DeviceCopy, U: DeviceCopy> BatchBuilder<T, U> {
    pub(super) fn new(queue: &Queue) -> Self {
        BatchBuilder {
            queue: queue.clone(),
            name: "batch".into(),
            limits: Limits::default(),
            answer_len: Box::new(|len| len),
            with_starts: false,
            types: std::marker::PhantomData,
        }
    }

    /// What its groups are called.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let trace = queue.runtime().trace(100);
    /// let batch = Batch::<u32, u32>::builder(&queue).name("echo").build(|cg, batch| {
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// batch.call([1]).await?;
    /// assert_eq!(batch.name(), "echo");
    /// # queue.drained().await;
    /// assert!(trace.timeline().entries().iter().any(|entry| entry.label() == "echo"));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn name(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = name.into();
        self
    }

    /// The most items of a batch: 1,024 unless said otherwise.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// // The kernel has a work-group for each item, and a device takes so many.
    /// let batch = Batch::<u32, u32>::builder(&queue).max_items(2).build(|cg, batch| {
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// let calls: Vec<_> = (0..10).map(|i| batch.call([i])).collect();
    /// for call in calls {
    ///     call.await?;
    /// }
    /// assert!(batch.stats().batches >= 5);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn max_items(mut self, items: usize) -> Self {
        self.limits.items = items;
        self
    }

    /// The most bytes of a batch's items: 64 MiB unless said otherwise. A larger item is refused.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let batch = Batch::<u32, u32>::builder(&queue).max_bytes(1 << 10).build(|cg, batch| {
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// assert!(batch.call(vec![1; 256]).await.is_ok());
    /// assert!(batch.call(vec![1; 257]).await.unwrap_err().is_invalid_input());
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.limits.bytes = bytes;
        self
    }

    /// How many items may wait, 65,536 unless said otherwise. Those that come then are refused, with the time after which
    /// it makes sense to come again; where tenants share the batch, that of them which is furthest over its share of the places gives
    /// them up to the others.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let batch = Batch::<u32, u32>::builder(&queue).max_waiting(10).build(|cg, batch| {
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// // Of many at once some are told to come again.
    /// let calls: Vec<_> = (0..10_000).map(|i| batch.call([i])).collect();
    /// let (mut answered, mut refused) = (0, 0);
    /// for call in calls {
    ///     match call.await {
    ///         Ok(_) => answered += 1,
    ///         Err(error) if error.is_overloaded() => refused += 1,
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// assert!(answered >= 10 && answered + refused == 10_000);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn max_waiting(mut self, items: usize) -> Self {
        self.limits.waiting = items;
        self
    }

    /// How long items may queue, 20 ms unless said otherwise. Where it takes longer for a while, the newest go first: their callers
    /// are still there.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # use std::time::Duration;
    /// // Callers who have waited for half a second are rarely still there.
    /// let batch = Batch::<u32, u32>::builder(&queue).patience(Duration::from_millis(500)).build(|cg, batch| {
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// assert_eq!(batch.call([1]).await?[0], 1);
    /// assert!(!batch.stats().is_overloaded);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn patience(mut self, time: Duration) -> Self {
        self.limits.patience = time;
        self
    }

    /// How many elements the answer to an item of so many has: the same number unless said otherwise.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// // Of each pair the first.
    /// let batch = Batch::<u32, u32>::builder(&queue).answers_of(|len| len / 2).build(|cg, batch| {
    ///     cg.parallel_for(batch.output().len(), firsts(cg.read(batch.input()), cg.overwrite(batch.output())))
    /// });
    /// assert_eq!(batch.call([1, 2, 3, 4]).await?[..], [1, 3]);
    ///
    /// #[windlass::kernel]
    /// fn firsts(x: &[u32], y: &mut [u32]) {
    ///     let i = global_id(0);
    ///     if i < y.len() {
    ///         y[i] = x[2 * i];
    ///     }
    /// }
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn answers_of(mut self, len: impl Fn(usize) -> usize + Send + Sync + 'static) -> Self {
        self.answer_len = Box::new(len);
        self
    }

    /// Tells kernels where items begin: [`Gathered::starts`]. For items of several sizes of which a kernel has to know where one ends.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// #[windlass::kernel]
    /// fn lengths(starts: &[u32], lengths: &mut [u32]) {
    ///     let i = global_id(0);
    ///     if i < lengths.len() {
    ///         lengths[i] = starts[i + 1] - starts[i];
    ///     }
    /// }
    ///
    /// let batch = Batch::<u8, u32>::builder(&queue).with_starts().answers_of(|_| 1).build(|cg, batch| {
    ///     cg.parallel_for(batch.items(), lengths(cg.read(batch.starts()), cg.overwrite(batch.output())))
    /// });
    /// let (a, b) = futures::join!(batch.call(vec![0; 7]), batch.call(vec![0; 3]));
    /// assert_eq!((a?[0], b?[0]), (7, 3));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn with_starts(mut self) -> Self {
        self.with_starts = true;
        self
    }

    /// Makes the batch. The closure launches what computes the answers of gathered items, as for [`Queue::submit`]; it is called for each
    /// batch, from any thread, and again for the parts of a batch that failed. A batch whose callers have all gone is cancelled: where
    /// its group writes other buffers than the output, [`on_cancel`](CommandGroup::on_cancel) says what becomes of them.
    ///
    /// ```
    /// use windlass::batch::Batch;
    /// use windlass::prelude::*;
    ///
    /// /// The sum of each item.
    /// #[windlass::kernel]
    /// fn sums(starts: &[u32], x: &[f32], sums: &mut [f32]) {
    ///     let i = global_id(0);
    ///     if i < sums.len() {
    ///         let mut sum = 0.0;
    ///         for at in starts[i]..starts[i + 1] {
    ///             sum += x[at as usize];
    ///         }
    ///         sums[i] = sum;
    ///     }
    /// }
    ///
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let summed = Batch::<f32, f32>::builder(&queue).answers_of(|_| 1).with_starts().build(|cg, batch| {
    ///     let (starts, x) = (cg.read(batch.starts()), cg.read(batch.input()));
    ///     cg.parallel_for(batch.items(), sums(starts, x, cg.overwrite(batch.output())))
    /// });
    /// assert_eq!(summed.call([1.0, 2.0, 3.0]).await?[0], 6.0);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn build<F>(self, launch: F) -> Batch<T, U>
    where
        F: for<'g> Fn(&CommandGroup<'g>, &Gathered<T, U>) -> Result<()> + Send + Sync + 'static,
    {
        let gathered_in = PinnedPlace::of(&self.queue.core().slot);
        let recipe = Recipe {
            queue: self.queue,
            name: self.name,
            launch: Box::new(launch),
            answer_len: self.answer_len,
            with_starts: self.with_starts,
            gathered_in,
        };
        let shared = Shared::new(recipe, self.limits);
        start(&shared);
        Batch::with_line(shared, 1.0)
    }
}
