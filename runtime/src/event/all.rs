//! Several events as one.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::FusedFuture;

use super::{AnyEvent, CancelOnDrop, CancelOutcome, Event, Events, Status, block_on};
use crate::error::{Error, Result};

/// See [`Event::all`].
///
/// Clones stand for the same groups, and dropping one cancels nothing.
///
/// ```
/// use windlass::{AllEvents, prelude::*};
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_on(Device::host())?;
/// let parts = Buffer::<u32>::new(4);
/// let events: Vec<Event> = (0..4)
///     .map(|i| queue.submit(|cg| cg.fill(&cg.overwrite(&parts.range(i..=i)), i as u32)))
///     .collect::<windlass::Result<_>>()?;
/// let all: AllEvents = events.into_iter().collect();
/// all.blocking_wait()?;
/// assert_eq!(all.status(), Status::Done);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct AllEvents {
    events: Vec<Event>,
    /// Those before this one have ended.
    ended: usize,
    /// Their lanes were asked to report them.
    wanted: bool,
    failed: Option<Error>,
    done: bool,
}

impl AllEvents {
    /// How far the one has come that is behind the others; once all have ended, [`Status::Failed`] if one of them has failed.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, gate) = (Queue::blocking_new()?, futures::channel::oneshot::channel::<()>());
    /// let waits = queue.submit(|cg| Ok(cg.after(gate.1)))?;
    /// let both = Event::all([queue.submit(|_| Ok(()))?, waits]);
    /// assert_eq!(both.status(), Status::Pending);
    /// gate.0.send(()).unwrap();
    /// both.blocking_wait()?;
    /// assert_eq!(both.status(), Status::Done);
    /// # Ok(()) }
    /// ```
    pub fn status(&self) -> Status {
        Status::of_all(self.events.iter().map(Event::status))
    }

    /// Whether all have ended, well or not.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let both = Event::all([queue.submit(|_| Ok(()))?, queue.submit(|_| Ok(()))?]);
    /// both.blocking_wait()?;
    /// assert!(both.has_ended());
    /// # Ok(()) }
    /// ```
    pub fn has_ended(&self) -> bool {
        self.events.iter().all(Event::has_ended)
    }

    /// Asks that all be skipped. [`CancelOutcome::TooLate`] says that one of them runs on, [`CancelOutcome::Stopping`] that
    /// one of them is a host task that stops, [`CancelOutcome::Done`] that all had ended.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let never = || {
    ///     queue.submit(|cg| {
    ///         cg.after(std::future::pending::<windlass::Result<()>>());
    ///         Ok(())
    ///     })
    /// };
    /// let both = Event::all([never()?, never()?]);
    /// assert_eq!(both.cancel(), CancelOutcome::Skipped);
    /// assert!(both.blocking_wait().unwrap_err().is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self) -> CancelOutcome {
        let outcomes: Vec<_> = self.events.iter().map(Event::cancel).collect();
        let worst = [CancelOutcome::TooLate, CancelOutcome::Stopping, CancelOutcome::Skipped];
        worst.into_iter().find(|outcome| outcomes.contains(outcome)).unwrap_or(CancelOutcome::Done)
    }

    /// A future of the same groups that cancels them if it is dropped before all have ended; see
    /// [`Event::cancel_on_drop`].
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let never = queue.submit(|cg| {
    ///     cg.after(std::future::pending::<windlass::Result<()>>());
    ///     Ok(())
    /// })?;
    /// let both = Event::all([queue.submit(|_| Ok(()))?, never.clone()]);
    /// drop(both.cancel_on_drop());
    /// assert!(never.blocking_wait().unwrap_err().is_cancelled());
    /// # Ok(()) }
    /// ```
    pub fn cancel_on_drop(self) -> CancelOnDrop<AllEvents> {
        CancelOnDrop { event: self, keep: false }
    }

    /// Blocks the thread until all have ended, where [`Event::blocking_wait`] would.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let good = queue.submit(|_| Ok(()))?;
    /// let bad = queue.submit(|cg| cg.host_task(async |_| Err("no".into())))?;
    /// let both = Event::all([good.clone(), bad]);
    /// assert!(both.blocking_wait().unwrap_err().to_string().contains("no"));
    /// assert_eq!(good.status(), Status::Done);
    /// # Ok(()) }
    /// ```
    pub fn blocking_wait(&self) -> Result<()> {
        block_on(self.clone())
    }
}

impl Future for AllEvents {
    type Output = Result<()>;

    /// One event after the other: they have all to end anyway, and so each costs one wake at most.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.wanted, true) {
            // All of them, also while this still waits for the first.
            this.events.iter().filter(|event| !event.has_ended()).for_each(|e| e.inner.want());
        }
        while let Some(event) = this.events.get_mut(this.ended) {
            if let Err(error) = std::task::ready!(Pin::new(event).poll(cx)) {
                this.failed.get_or_insert(error);
            }
            this.ended += 1;
        }
        this.done = true;
        Poll::Ready(this.failed.clone().map_or(Ok(()), Err))
    }
}

impl FusedFuture for AllEvents {
    fn is_terminated(&self) -> bool {
        self.done
    }
}

impl AnyEvent for AllEvents {
    fn status(&self) -> Status {
        self.status()
    }
    fn has_ended(&self) -> bool {
        self.has_ended()
    }
    fn cancel(&self) -> CancelOutcome {
        self.cancel()
    }
}

impl Events for AllEvents {
    fn each(&self, take: &mut dyn FnMut(&Event)) {
        self.events.iter().for_each(take);
    }
}

impl From<Event> for AllEvents {
    fn from(event: Event) -> Self {
        AllEvents { events: vec![event], ..AllEvents::default() }
    }
}

impl FromIterator<AllEvents> for AllEvents {
    fn from_iter<I: IntoIterator<Item = AllEvents>>(sets: I) -> Self {
        AllEvents { events: sets.into_iter().flat_map(|set| set.events).collect(), ..AllEvents::default() }
    }
}

impl FromIterator<Event> for AllEvents {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        AllEvents { events: events.into_iter().collect(), ..AllEvents::default() }
    }
}
