//! Waiting for room in a queue, and the places that come of it.

use std::borrow::Borrow;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use windlass_sync::account::Place;
use windlass_sync::forked;

use super::Queue;
use crate::error::{Error, Kind, Result};
use crate::event::Event;
use crate::group::CommandGroup;
use crate::shell::Inner;
use crate::shell::queue::Hurry;
use crate::shell::reserved::Reserved;
use crate::shell::waking::wake_all;

impl Queue {
    /// Waits while too much is in flight on this queue, and reserves a place. Waiters are served in order.
    ///
    /// ```
    /// # use windlass::prelude::*;
    /// # async fn f(queue: Queue) -> windlass::Result<()> {
    /// queue.ready().await.submit(|_| Ok(()))?.await
    /// # }
    /// # futures::executor::block_on(f(Queue::blocking_new().unwrap())).unwrap();
    /// ```
    #[track_caller]
    pub fn ready(&self) -> Ready<'_> {
        Ready::new(self, Location::caller())
    }

    /// [`Queue::ready`] that also reserves bytes of what [`RuntimeBuilder::bytes_in_flight`](crate::RuntimeBuilder::bytes_in_flight) says,
    /// for all queues of the runtime together: they come back when the group has ended, or the place is given back. How many a
    /// group counts as is the program's to say: what it allocates, for one. Waiters are served in order; a group larger than
    /// the whole budget runs when no other has any of it. Groups that are submitted in other ways reserve nothing.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().bytes_in_flight(1 << 20).build();
    /// let queue = Queue::builder().runtime(&runtime).build().await?;
    /// for request in 0..8_u32 {
    ///     let scratch = Buffer::<u32>::new(1 << 16);
    ///     let slot = queue.ready_for(4 * scratch.len() as u64).await;
    ///     slot.submit(|cg| cg.fill(&cg.overwrite(&scratch), request))?;
    /// }
    /// queue.drained().await;
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn ready_for(&self, bytes: u64) -> Ready<'_> {
        Ready::reserving(self, bytes, Location::caller())
    }

    /// [`Queue::ready_for`] with a place that borrows nothing.
    ///
    /// ```
    /// use futures::FutureExt;
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().bytes_in_flight(1000).build();
    /// let queue = Queue::builder().runtime(&runtime).build().await?;
    /// let slot = queue.ready_owned_for(600).await;
    /// // 400 are left, so the next one waits.
    /// assert!(queue.ready_owned_for(600).now_or_never().is_none());
    /// let request = async move { slot.submit(|_| Ok(()))?.await };
    /// request.await?;
    /// queue.ready_owned_for(600).await.submit(|_| Ok(()))?.await?;
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    #[track_caller]
    pub fn ready_owned_for(&self, bytes: u64) -> ReadyOwned {
        ReadyOwned::reserving(self.clone(), bytes, Location::caller())
    }

    /// [`Queue::ready`] with a place that borrows nothing: it can go into a spawned task, or be kept.
    ///
    /// ```
    /// # use windlass::prelude::*;
    /// # async fn f(queue: Queue) -> windlass::Result<()> {
    /// let slot = queue.ready_owned().await;
    /// let request = async move { slot.submit(|_| Ok(()))?.await };
    /// request.await
    /// # }
    /// # futures::executor::block_on(f(Queue::blocking_new().unwrap())).unwrap();
    /// ```
    #[track_caller]
    pub fn ready_owned(&self) -> ReadyOwned {
        ReadyOwned::new(self.clone(), Location::caller())
    }

    /// A place now, or an error ([`Error::is_saturated`]) if the queue has its limit in flight or others wait already.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().max_in_flight(1).blocking_build()?;
    /// let slot = queue.try_ready()?;
    /// assert!(queue.try_ready_owned().unwrap_err().is_saturated());
    /// slot.submit(|_| Ok(()))?.blocking_wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn try_ready(&self) -> Result<Slot<'_>> {
        self.try_take()?;
        Ok(Slot::new(self))
    }

    /// [`Queue::try_ready`] with a place that borrows nothing.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().max_in_flight(1).blocking_build()?;
    /// // A request is taken here or refused, and its group is submitted elsewhere.
    /// let slot = queue.try_ready_owned()?;
    /// assert!(queue.try_ready_owned().unwrap_err().is_saturated());
    /// std::thread::spawn(move || slot.submit(|_| Ok(()))?.blocking_wait()).join().unwrap()?;
    /// assert!(queue.try_ready_owned().is_ok());
    /// # Ok(()) }
    /// ```
    pub fn try_ready_owned(&self) -> Result<OwnedSlot> {
        self.try_take()?;
        Ok(OwnedSlot::new(self.clone()))
    }

    pub(super) fn try_take(&self) -> Result<()> {
        Inner::check_process()?;
        match self.core.account.try_take() {
            true => Ok(()),
            false => Err(Error::new(Kind::Saturated { limit: self.core.limit })),
        }
    }
}

/// What is wanted of the runtime's budget, before the place in the queue: who has that holds up others.
#[derive(Default)]
struct Bytes {
    wanted: i64,
    place: Place,
    reserved: Option<Reserved>,
}

/// A wait for room, over a queue that is borrowed or owned.
struct Waiting<Q: Borrow<Queue>> {
    queue: Q,
    bytes: Bytes,
    place: Place,
    hurry: Hurry,
    at: &'static Location<'static>,
    /// What the stall report calls this wait.
    watched: Option<usize>,
}

impl<Q: Borrow<Queue>> Waiting<Q> {
    fn new(queue: Q, bytes: u64, at: &'static Location<'static>) -> Self {
        let bytes = Bytes { wanted: i64::try_from(bytes).unwrap_or(i64::MAX), ..Bytes::default() };
        Waiting { queue, bytes, place: Place::default(), hurry: Hurry::default(), at, watched: None }
    }

    /// Waits for the bytes, then for the place.
    fn take(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let (core, bytes) = (&self.queue.borrow().core, &mut self.bytes);
        if bytes.wanted > 0 && bytes.reserved.is_none() {
            let budget = &core.inner.budget;
            if budget.poll_take(&mut bytes.place, bytes.wanted, cx.waker()).is_pending() {
                return Poll::Pending;
            }
            bytes.reserved = Some(Reserved::new(budget.clone(), bytes.wanted));
        }
        core.account.poll_take(&mut self.place, cx.waker())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if forked::is_child() {
            // Who submits in this place is told why not.
            return Poll::Ready(());
        }
        let polled = self.take(cx);
        let core = &self.queue.borrow().core;
        match polled {
            Poll::Ready(()) => self.hurry.end(core),
            Poll::Pending => self.hurry.begin(core),
        }
        match (polled, self.watched) {
            (Poll::Ready(()), Some(key)) => {
                self.watched = None;
                core.inner.watch.end_wait(key);
            }
            (Poll::Pending, None) => self.watched = Some(core.inner.watch.waits(core, self.at)),
            _ => {}
        }
        polled
    }
}

impl<Q: Borrow<Queue>> Drop for Waiting<Q> {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        let core = &self.queue.borrow().core;
        self.hurry.end(core);
        if let Some(key) = self.watched.take() {
            core.inner.watch.end_wait(key);
        }
        wake_all(core.account.forget(&mut self.place));
        wake_all(core.inner.budget.forget(&mut self.bytes.place));
    }
}

/// A place that was taken, given back unless it is used.
struct Taken<Q: Borrow<Queue>> {
    queue: Q,
    reserved: Option<Reserved>,
    used: bool,
}

impl<Q: Borrow<Queue>> Taken<Q> {
    fn new(queue: Q, reserved: Option<Reserved>) -> Self {
        Taken { queue, reserved, used: false }
    }

    fn submit<F>(mut self, group: F, at: &'static Location<'static>) -> Result<Event>
    where
        F: for<'g> FnOnce(&CommandGroup<'g>) -> Result<()>,
    {
        Inner::check_process()?;
        self.used = true;
        let reserved = self.reserved.take();
        let queue = self.queue.borrow();
        queue.submit_paid(group, queue.core.account.begin(), reserved, at)
    }
}

impl<Q: Borrow<Queue>> Drop for Taken<Q> {
    fn drop(&mut self) {
        if !self.used && !forked::is_child() {
            wake_all(self.queue.borrow().core.account.give(1));
        }
    }
}

macro_rules! places {
    ($(
        $(#[doc = $wait_doc:literal])* $wait:ident $(#[doc = $slot_doc:literal])* $slot:ident ($($q:lifetime)?) $queue:ty;
    )*) => {$(
        $(#[doc = $wait_doc])*
        #[must_use = "futures do nothing unless awaited"]
        pub struct $wait $(<$q>)? {
            waiting: Waiting<$queue>,
        }

        impl $(<$q>)? $wait $(<$q>)? {
            pub(super) fn new(queue: $queue, at: &'static Location<'static>) -> Self {
                Self::reserving(queue, 0, at)
            }

            pub(super) fn reserving(queue: $queue, bytes: u64, at: &'static Location<'static>) -> Self {
                $wait { waiting: Waiting::new(queue, bytes, at) }
            }
        }

        impl $(<$q>)? Future for $wait $(<$q>)? {
            type Output = $slot $(<$q>)?;

            fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
                let this = self.get_mut();
                this.waiting.poll(cx).map(|()| {
                    let queue = <$queue as Clone>::clone(&this.waiting.queue);
                    $slot { taken: Taken::new(queue, this.waiting.bytes.reserved.take()) }
                })
            }
        }

        impl $(<$q>)? fmt::Debug for $wait $(<$q>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($wait)).field("at", &self.waiting.at).finish_non_exhaustive()
            }
        }

        $(#[doc = $slot_doc])*
        #[must_use = "dropping the slot gives its place back"]
        pub struct $slot $(<$q>)? {
            taken: Taken<$queue>,
        }

        impl $(<$q>)? $slot $(<$q>)? {
            pub(super) fn new(queue: $queue) -> Self {
                $slot { taken: Taken::new(queue, None) }
            }

            /// Submits a group in this place; see [`Queue::submit`].
            ///
            /// ```
            /// use windlass::prelude::*;
            /// # fn main() -> windlass::Result<()> {
            /// let queue = Queue::blocking_new()?;
            /// let place = queue.try_ready()?;
            /// // There is room, so now what the request needs is worth making.
            /// let x = Buffer::from(vec![1_u32; 64]);
            /// place.submit(|cg| cg.fill(&cg.overwrite(&x), 2))?.blocking_wait()?;
            /// # Ok(()) }
            /// ```
            #[track_caller]
            pub fn submit<F>(self, group: F) -> Result<Event>
            where
                F: for<'g> FnOnce(&CommandGroup<'g>) -> Result<()>,
            {
                self.taken.submit(group, Location::caller())
            }
        }

        impl $(<$q>)? fmt::Debug for $slot $(<$q>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($slot)).field("queue", &self.taken.queue).finish()
            }
        }
    )*};
}
places! {
    /// See [`Queue::ready`].
    Ready
    /// A reserved place in a queue, given back when it is dropped unused.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::builder().max_in_flight(1).build().await?;
    /// let slot = queue.ready().await;
    /// assert!(queue.try_ready().is_err(), "the only place is taken");
    /// drop(slot);
    /// queue.ready().await.submit(|_| Ok(()))?.await?;
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    Slot('q) &'q Queue;
    /// See [`Queue::ready_owned`].
    ReadyOwned
    /// A reserved place in a queue, which it owns a handle of; given back when it is dropped unused.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let queue = Queue::builder().max_in_flight(1).build().await?;
    /// let slot = queue.ready_owned().await;
    /// let request = std::thread::spawn(move || slot.submit(|_| Ok(()))?.blocking_wait());
    /// request.join().unwrap()?;
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    OwnedSlot() Queue;
}
