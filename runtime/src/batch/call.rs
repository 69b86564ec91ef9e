//! One item's way: handed in, awaited, or given up.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::future::FusedFuture;
use windlass_kernel::DeviceCopy;
use windlass_sync::forked;

use super::Batch;
use super::answer::Answer;
use super::coming::{InLine, Wanted};
use super::payload::Payload;
use super::state::Shared;
use crate::error::{Error, Result};
use crate::shell::Inner;

/// What is asked of the answer to an item; see [`Batch::within`] and its like.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'b, T: DeviceCopy, U: DeviceCopy> {
    batch: &'b Batch<T, U>,
    deadline: Option<Instant>,
    cost: Option<f64>,
}

impl<'b, T: DeviceCopy, U: DeviceCopy> Terms<'b, T, U> {
    pub(super) fn new(batch: &'b Batch<T, U>) -> Self {
        Terms { batch, deadline: None, cost: None }
    }

    /// As [`Batch::within`].
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # use std::time::Duration;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// let dear = batch.costing(100.0).within(Duration::from_secs(5));
    /// assert_eq!(dear.call([1]).await?[0], 1);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn within(self, time: Duration) -> Self {
        Terms { deadline: Instant::now().checked_add(time), ..self }
    }

    /// As [`Batch::until`].
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # use std::time::{Duration, Instant};
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// let (cheap, deadline) = (batch.costing(1.0), Instant::now() + Duration::from_secs(5));
    /// assert_eq!(cheap.until(deadline).call([3]).await?[0], 3);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn until(self, deadline: Instant) -> Self {
        Terms { deadline: Some(deadline), ..self }
    }

    /// As [`Batch::costing`].
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # use std::time::Duration;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// let terms = batch.within(Duration::from_secs(5)).costing(100.0);
    /// assert_eq!(terms.call([1]).await?[0], 1);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn costing(self, cost: f64) -> Self {
        Terms { cost: Some(cost), ..self }
    }

    /// As [`Batch::call`].
    ///
    /// ```
    /// # use windlass::{batch::Batch, prelude::*};
    /// # async fn f() -> windlass::Result<()> {
    /// # let queue = Queue::new().await?;
    /// # use std::time::Duration;
    /// # let batch = Batch::<u32, u32>::builder(&queue).build(|cg, batch| cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output())));
    /// // Terms may be those of several items, which then have one deadline.
    /// let terms = batch.within(Duration::from_secs(5));
    /// let (first, second) = futures::join!(terms.call([1]), terms.call([2]));
    /// assert_eq!((first?[0], second?[0]), (1, 2));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn call(self, item: impl Into<Payload<T>>) -> Call<T, U> {
        let line = &self.batch.line;
        let wanted = Wanted { item: item.into(), deadline: self.deadline, cost: self.cost };
        let state = match line.shared.take_in(line.id, wanted) {
            Ok(own) => Where::InLine { shared: line.shared.clone(), own },
            Err(error) => Where::Refused(error),
        };
        Call { state }
    }
}

/// An item that was handed in, and the future of its answer. Dropped before that, it leaves the line.
#[must_use = "an answer that nobody awaits is given up"]
pub struct Call<T: DeviceCopy, U: DeviceCopy> {
    state: Where<T, U>,
}

enum Where<T: DeviceCopy, U: DeviceCopy> {
    InLine { shared: Arc<Shared<T, U>>, own: InLine<T, U> },
    Refused(Error),
    Over,
}

impl<T: DeviceCopy, U: DeviceCopy> Future for Call<T, U> {
    type Output = Result<Answer<U>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let (Where::InLine { .. }, Err(error)) = (&self.state, Inner::check_process()) {
            self.state = Where::Refused(error);
        }
        let output = match &mut self.state {
            Where::InLine { shared, own } => match own.slot.poll(cx.waker()) {
                Poll::Ready(answer) => {
                    shared.fetched(own, &answer);
                    answer
                }
                Poll::Pending => {
                    own.is_awaited = true;
                    return Poll::Pending;
                }
            },
            Where::Refused(error) => Err(error.clone()),
            Where::Over => return Poll::Pending,
        };
        self.state = Where::Over;
        Poll::Ready(output)
    }
}

impl<T: DeviceCopy, U: DeviceCopy> FusedFuture for Call<T, U> {
    fn is_terminated(&self) -> bool {
        matches!(self.state, Where::Over)
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Drop for Call<T, U> {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        if let Where::InLine { shared, own } = std::mem::replace(&mut self.state, Where::Over) {
            shared.give_up(&own);
        }
    }
}

impl<T: DeviceCopy, U: DeviceCopy> fmt::Debug for Call<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            Where::InLine { .. } => "in line",
            Where::Refused(_) => "refused",
            Where::Over => "over",
        };
        f.debug_struct("Call").field("state", &state).finish()
    }
}
