//! Dynamic batching: many callers' items in one launch, and to each caller its own answer.
//!
//! A [`Batch`] is made of a queue and a closure that launches a kernel over gathered items. Callers hand in items and
//! await answers; the batch closes by itself, at the size that suits the load: an idle device gets what there is at once, a
//! busy one finds a batch of all that came meanwhile. Nothing is to be tuned, and no timer runs while the device is idle.
//!
//! ```
//! use windlass::batch::Batch;
//! use windlass::prelude::*;
//!
//! #[windlass::kernel]
//! fn scale(a: f32, x: &[f32], y: &mut [f32]) {
//!     let i = global_id(0);
//!     if i < y.len() {
//!         y[i] = a * x[i];
//!     }
//! }
//!
//! # async fn f() -> windlass::Result<()> {
//! let queue = Queue::new().await?;
//! let scaled = Batch::<f32, f32>::builder(&queue).build(|cg, batch| {
//!     cg.parallel_for(batch.output().len(), scale(3.0, cg.read(batch.input()), cg.overwrite(batch.output())))
//! });
//! let (a, b) = futures::join!(scaled.call(vec![1.0, 2.0]), scaled.call(vec![5.0]));
//! assert_eq!((&a?[..], &b?[..]), (&[3.0, 6.0][..], &[15.0][..]));
//! # Ok(()) }
//! # futures::executor::block_on(f()).unwrap();
//! ```
//!
//! # What it keeps
//!
//! - **Deadlines.** What cannot be answered in time is refused when it comes, with the wait it would have taken
//!   ([`Error::retry_after`](crate::Error::retry_after)); what waits past its deadline is answered with a time-out then.
//!   Neither costs the device anything. How long batches take is learned.
//! - **Who hangs up leaves.** A [`Call`] that is dropped leaves the line; if it is in a batch already, its answer is discarded.
//! - **Shares.** Each [tenant](Batch::tenant) has a line of its own, and its weight's share of the *device*, however many items
//!   others send and whatever they cost.
//! - **Bad items fail alone.** A batch that fails is launched again in halves, and so is each half that fails; only where dozens of
//!   launches in a row fail, and none goes well, are parts of several items given up as they are.

mod answer;
mod builder;
mod call;
mod coming;
mod flight;
mod gathering;
mod keeper;
#[cfg(feature = "tower")]
mod layer;
mod payload;
#[cfg(feature = "tower")]
mod service;
mod slot;
mod state;
mod turn;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use answer::Answer;
pub use builder::BatchBuilder;
pub use call::{Call, Terms};
pub use flight::Gathered;
#[cfg(feature = "tower")]
pub use layer::{BatchLayer, Batched};
pub use payload::Payload;
pub use state::BatchStats;
use state::Shared;
use windlass_batching::LineId;
use windlass_kernel::DeviceCopy;
use windlass_sync::forked;

use crate::queue::Queue;

/// Where callers hand in items; see the [module](self). Clones are of the same line.
#[derive(Debug)]
pub struct Batch<T: DeviceCopy, U: DeviceCopy> {
    line: Arc<OwnLine<T, U>>,
}

/// A line, as long as somebody may come to it.
#[derive(Debug)]
struct OwnLine<T: DeviceCopy, U: DeviceCopy> {
    shared: Arc<Shared<T, U>>,
    id: LineId,
}

impl<T: DeviceCopy, U: DeviceCopy> Clone for Batch<T, U> {
    fn clone(&self) -> Self {
        Batch { line: self.line.clone() }
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Drop for OwnLine<T, U> {
    fn drop(&mut self) {
        if !forked::is_child() {
            self.shared.enter(|state, _| state.policy.close_line(self.id));
        }
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Batch<T, U> {
    /// A batch on a queue, to be told how it is launched.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// let echo = Batch::<u32, u32>::builder(&queue).name("echo").max_items(64).build(|cg, batch| {
    ///     cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    /// });
    /// assert_eq!(echo.call([1, 2, 3]).await?[..], [1, 2, 3]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn builder(queue: &Queue) -> BatchBuilder<T, U> {
        BatchBuilder::new(queue)
    }

    fn with_line(shared: Arc<Shared<T, U>>, weight: f64) -> Self {
        let id = shared.enter(|state, _| state.policy.add_line(weight));
        Batch { line: Arc::new(OwnLine { shared, id }) }
    }

    /// Another line to the same batches, with this share of the device beside the others: 1 is what the first has. Weights are
    /// between a thousandth and a thousand. The line goes when its last handle does and nobody waits in it.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// let (paying, free) = (batch.tenant(4.0), batch.tenant(1.0));
    /// let (first, second) = futures::join!(paying.call(vec![1]), free.call(vec![2]));
    /// assert_eq!((first?[0], second?[0]), (1, 2));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn tenant(&self, weight: f64) -> Self {
        Self::with_line(self.line.shared.clone(), weight)
    }

    /// Hands in an item: it is in line from here on, whether or not the future is polled. Whether it is refused is what the future says; where
    /// tenants share the batch that may be later, when another's item has the place. An item of no elements is an item like any other.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// // All are in line before the first is awaited, so they may share a launch.
    /// let calls: Vec<_> = (0..100).map(|i| batch.call([i])).collect();
    /// for (i, call) in calls.into_iter().enumerate() {
    ///     assert_eq!(call.await?[0], i as u32);
    /// }
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn call(&self, item: impl Into<Payload<T>>) -> Call<T, U> {
        Terms::new(self).call(item)
    }

    /// An item whose answer is of use for so long only.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # use std::time::Duration;
    /// # let queue = Queue::new().await?;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// let answer = batch.within(Duration::from_secs(5)).call(vec![1, 2, 3]).await?;
    /// assert_eq!(answer.len(), 3);
    /// let late = batch.within(Duration::ZERO).call(vec![1]).await.unwrap_err();
    /// assert!(late.is_overloaded() || late.is_timeout());
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn within(&self, time: Duration) -> Terms<'_, T, U> {
        Terms::new(self).within(time)
    }

    /// An item whose answer is of use until then.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # use std::time::{Duration, Instant};
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// // A request's deadline was set when it came, whatever has been done for it since.
    /// let deadline = Instant::now() + Duration::from_secs(5);
    /// assert_eq!(batch.until(deadline).call([7]).await?[0], 7);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn until(&self, deadline: Instant) -> Terms<'_, T, U> {
        Terms::new(self).until(deadline)
    }

    /// An item that costs the device so much. What items cost matters beside what others cost, in any unit; unless it is told,
    /// it is the number of elements.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// // A pair of vectors takes as long as the product of their lengths, say.
    /// let (short, long) = (batch.costing(4.0 * 4.0).call([1; 8]), batch.costing(100.0 * 100.0).call([2; 200]));
    /// assert_eq!((short.await?.len(), long.await?.len()), (8, 200));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn costing(&self, cost: f64) -> Terms<'_, T, U> {
        Terms::new(self).costing(cost)
    }

    /// What it is called.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # let copy = |cg: &CommandGroup<'_>, x: &Buffer<u32>, y: &Buffer<u32>| cg.copy(&cg.read(x), &cg.overwrite(y));
    /// let batch = Batch::<u32, u32>::builder(&queue).name("echo").build(move |cg, batch| copy(cg, batch.input(), batch.output()));
    /// println!("{}: {:?}", batch.name(), batch.stats());
    /// # assert_eq!(batch.name(), "echo");
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn name(&self) -> &str {
        &self.line.shared.recipe.name
    }

    /// What has been done and learned so far, on all lines.
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// batch.call([1, 2]).await?;
    /// let stats = batch.stats();
    /// assert_eq!((stats.items, stats.batches, stats.refused), (1, 1, 0));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn stats(&self) -> BatchStats {
        match forked::is_child() {
            true => BatchStats::default(),
            false => self.line.shared.stats(),
        }
    }
}
