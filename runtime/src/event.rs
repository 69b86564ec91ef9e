//! Events: submitted work as a future.

mod all;
mod status;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::FusedFuture;
use tokio::task::block_in_place;
use windlass_sync::cell::{Polled, Registration};
use windlass_sync::forked;
use windlass_sync::panics::catch;
use windlass_sync::threads::may_block;

pub use all::AllEvents;
pub use status::{Profile, Status};

use crate::error::{Error, Kind, Result};
use crate::shell::{Inner, NativeCalls, event::EventInner, look::Look};
use windlass_engine::Cancelled;

/// A submitted group, as a future: it resolves when the group has ended, and everything it read was well.
///
/// Clones stand for the same group. The work runs whether anybody awaits it or not; dropping an event cancels nothing
/// and blocks nobody. An error that no clone has returned goes to the queue's handler.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let event = queue.submit(|_| Ok(()))?;
/// event.blocking_wait()?;
/// assert_eq!(event.status(), Status::Done);
/// # Ok(())
/// # }
/// ```
pub struct Event {
    pub(crate) inner: Arc<EventInner>,
    registration: Registration,
    look: Look,
    done: bool,
}

/// What came of a wish to cancel.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let (begin, begun) = std::sync::mpsc::channel();
/// let task = queue.submit(|cg| {
///     cg.host_task(async move |_| {
///         begin.send(()).unwrap();
///         std::future::pending::<()>().await;
///         Ok(())
///     })
/// })?;
/// begun.recv().unwrap();
/// assert_eq!(task.cancel(), CancelOutcome::Stopping);
/// assert!(task.blocking_wait().unwrap_err().is_cancelled());
/// assert_eq!(task.cancel(), CancelOutcome::Done);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// The group had not started; it will not run, and its event says so.
    Skipped,
    /// The group's host task has started. It is dropped where it awaits something next, and the event fails then, as
    /// cancelled; if it comes to its end before, it has ended as it did. What it would have written is as it was before,
    /// unless it has opened a view to write through, or the group asked for data to overwrite: then that has failed.
    Stopping,
    /// The group is with the device: it runs to its end.
    TooLate,
    /// The group had ended.
    Done,
}

impl Event {
    pub(crate) fn new(inner: Arc<EventInner>) -> Self {
        Event { inner, registration: Registration::default(), look: Look::Due, done: false }
    }

    /// Blocks the thread until the group has ended.
    ///
    /// On a worker of a multi-thread tokio runtime, tokio is told, so that its other tasks go on. On the thread that drives
    /// a current-thread tokio runtime nothing could go on, so there this is an error
    /// ([`Error::is_would_block`]) if the group has not ended. So it is inside kernels, in wakers, and in host tasks that were
    /// submitted without a tokio runtime: those run on Windlass's own threads, and the group may need just that thread.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let never = queue.submit(|cg| {
    ///     cg.after(std::future::pending::<windlass::Result<()>>());
    ///     Ok(())
    /// })?;
    /// let inside = never.clone();
    /// let kernel = queue.submit(|cg| {
    ///     cg.host_for(1, (), move |_, ()| assert!(inside.blocking_wait().unwrap_err().is_would_block()))
    /// })?;
    /// kernel.blocking_wait()?;
    /// # never.cancel();
    /// # Ok(())
    /// # }
    /// ```
    pub fn blocking_wait(&self) -> Result<()> {
        if let Some(result) = self.inner.cell.get() {
            return self.returned(result);
        }
        block_on(self.clone())
    }

    /// Asks that the group be skipped, or, if it is a host task that has started, stopped. It acts on the group, so every
    /// clone sees it.
    ///
    /// What a skipped group would have written counts as failed to those who read it, unless the group was submitted
    /// with [`CommandGroup::on_cancel`](crate::CommandGroup::on_cancel).
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let event = queue.submit(|cg| {
    ///     cg.after(std::future::pending::<windlass::Result<()>>());
    ///     Ok(())
    /// })?;
    /// assert_eq!(event.cancel(), CancelOutcome::Skipped);
    /// assert!(event.blocking_wait().unwrap_err().is_cancelled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(&self) -> CancelOutcome {
        self.cancel_with(NativeCalls::Here)
    }

    fn cancel_with(&self, calls: NativeCalls) -> CancelOutcome {
        if forked::is_child() {
            return CancelOutcome::TooLate;
        }
        match self.inner.cancel(calls) {
            Cancelled::Skipped => CancelOutcome::Skipped,
            Cancelled::TooLate if self.inner.stop_task() => CancelOutcome::Stopping,
            Cancelled::TooLate => CancelOutcome::TooLate,
            Cancelled::Done => CancelOutcome::Done,
        }
    }

    /// A future of the same group that cancels it if it is dropped before it is done: for requests whose client may
    /// hang up.
    ///
    /// ```
    /// # use windlass::prelude::*;
    /// /// Whoever drops this future, a time-out for instance, cancels the group.
    /// async fn request(queue: &Queue, data: &Buffer<f32>) -> windlass::Result<()> {
    ///     let event = queue.submit(|cg| {
    ///         cg.on_cancel(OnCancel::KeepPrevious);
    ///         let data = cg.read_write(data);
    ///         cg.host_for(1, data, |_, data| data.set(0, 1.0))
    ///     })?;
    ///     event.cancel_on_drop().await
    /// }
    /// # futures::executor::block_on(request(&Queue::blocking_new().unwrap(), &Buffer::new(1))).unwrap();
    /// ```
    pub fn cancel_on_drop(self) -> CancelOnDrop {
        CancelOnDrop { event: self, keep: false }
    }

    /// One event of many: resolves when every one of them has ended, with the first error in their order. Sets nest, and
    /// can be waited for, cancelled and depended on as events are.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let some = Event::all([queue.submit(|_| Ok(()))?, queue.submit(|_| Ok(()))?]);
    /// let all = Event::all([some, queue.submit(|_| Ok(()))?.into()]);
    /// let last = queue.submit(|cg| {
    ///     cg.depends_on(&all);
    ///     Ok(())
    /// })?;
    /// last.blocking_wait()?;
    /// assert_eq!(all.status(), Status::Done);
    /// all.blocking_wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn all<E: Into<AllEvents>>(events: impl IntoIterator<Item = E>) -> AllEvents {
        events.into_iter().map(Into::into).collect()
    }

    /// Looks by itself whether the group has ended, if it is one to do so, and the time for it is not over.
    fn looks(&mut self) -> bool {
        let inner = &self.inner;
        if self.look.is_over() || inner.cell.get().is_some() {
            return false;
        }
        self.look.again(inner.inner(), || {
            let long = inner.queue.waiters_look()?;
            inner.inner().looking(inner.node, long)
        })
    }

    fn returned(&self, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.inner.mark_observed();
        }
        result
    }
}

impl Future for Event {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if let Err(error) = Inner::check_process() {
            this.done = true;
            return Poll::Ready(Err(error));
        }
        if this.looks() {
            let Some(result) = this.inner.cell.get() else {
                // Not registered: whoever completes the event has nobody to wake.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            };
            this.done = true;
            return Poll::Ready(this.returned(result));
        }
        match this.inner.cell.poll(&mut this.registration, cx.waker()) {
            Polled::Ready(result) => {
                this.done = true;
                Poll::Ready(this.returned(result))
            }
            Polled::Pending { first } => {
                if first {
                    this.inner.want();
                }
                Poll::Pending
            }
        }
    }
}

impl FusedFuture for Event {
    fn is_terminated(&self) -> bool {
        self.done
    }
}

impl Clone for Event {
    fn clone(&self) -> Self {
        Event::new(self.inner.clone())
    }
}

/// Events of one group are the same, and no others are.
impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl Eq for Event {}

impl Hash for Event {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.inner).hash(state);
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        self.inner.cell.forget(&mut self.registration);
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("ended", &self.ended_as())
            .field("submitted_at", &self.inner.at)
            .finish()
    }
}

/// What a group can depend on: an [`Event`], a set of them, or a reference to either.
///
/// ```
/// use windlass::{Events, prelude::*};
///
/// fn log_behind(queue: &Queue, work: &impl Events, log: &Buffer<u32>) -> windlass::Result<Event> {
///     queue.submit(|cg| {
///         cg.depends_on(work);
///         cg.fill(&cg.overwrite(log), 1)
///     })
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let (queue, log) = (Queue::blocking_new()?, Buffer::new(1));
/// let one = queue.submit(|_| Ok(()))?;
/// log_behind(&queue, &one, &log)?;
/// log_behind(&queue, &Event::all([one, queue.submit(|_| Ok(()))?]), &log)?;
/// assert_eq!(log.host_read().blocking_wait()?[0], 1);
/// # Ok(()) }
/// ```
pub trait Events: sealed::Sealed {
    #[doc(hidden)]
    fn each(&self, take: &mut dyn FnMut(&Event));
}

impl<E: Events> Events for &E {
    fn each(&self, take: &mut dyn FnMut(&Event)) {
        (**self).each(take);
    }
}

/// Something that was submitted and can be waited for: an [`Event`], or a set of them.
///
/// ```
/// use windlass::{AnyEvent, prelude::*};
///
/// /// Says what has become of some work, be it one group or many.
/// fn has_ended(work: &impl AnyEvent) -> bool {
///     work.has_ended()
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let one = queue.submit(|_| Ok(()))?;
/// let both = Event::all([one.clone(), queue.submit(|_| Ok(()))?]);
/// both.blocking_wait()?;
/// assert!(has_ended(&one) && has_ended(&both));
/// # Ok(()) }
/// ```
pub trait AnyEvent: Events + Future<Output = Result<()>> + FusedFuture + Unpin + Clone {
    /// How far it has come, without waiting for it.
    fn status(&self) -> Status;
    /// Whether it has ended, well or not.
    fn has_ended(&self) -> bool;
    /// Asks that what has not started be skipped.
    fn cancel(&self) -> CancelOutcome;
}

mod sealed {
    #[allow(unnameable_types, reason = "sealing is what this trait is for")]
    pub trait Sealed {}
    impl Sealed for super::Event {}
    impl Sealed for super::AllEvents {}
    impl<E: Sealed> Sealed for &E {}
}

impl AnyEvent for Event {
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

impl Events for Event {
    fn each(&self, take: &mut dyn FnMut(&Event)) {
        take(self);
    }
}

/// See [`Event::cancel_on_drop`].
#[must_use = "dropping this cancels the group"]
#[derive(Debug)]
pub struct CancelOnDrop<E: AnyEvent = Event> {
    event: E,
    keep: bool,
}

impl<E: AnyEvent> CancelOnDrop<E> {
    /// The event again, without the cancelling.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let (send, receive) = futures::channel::oneshot::channel::<()>();
    /// let request = queue.submit(|cg| {
    ///     cg.after(receive);
    ///     Ok(())
    /// })?;
    /// // From here on nobody who goes away takes the group along.
    /// let event = request.cancel_on_drop().into_event();
    /// send.send(()).unwrap();
    /// event.blocking_wait()?;
    /// assert_eq!(event.status(), Status::Done);
    /// # Ok(()) }
    /// ```
    pub fn into_event(mut self) -> E {
        self.keep = true;
        self.event.clone()
    }
}

impl<E: AnyEvent> Future for CancelOnDrop<E> {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.event).poll(cx)
    }
}

impl<E: AnyEvent> FusedFuture for CancelOnDrop<E> {
    fn is_terminated(&self) -> bool {
        self.event.is_terminated()
    }
}

impl<E: AnyEvent> Drop for CancelOnDrop<E> {
    fn drop(&mut self) {
        if !self.keep && !self.event.is_terminated() {
            self.event.each(&mut |event| {
                event.cancel_with(NativeCalls::Elsewhere);
            });
        }
    }
}

/// Blocks on one of our futures, where blocking harms nobody.
///
/// What counts is whether this thread runs the tasks of others, not which runtime is entered: a blocking thread of a
/// current-thread runtime may block, and so may the thread that drives a `LocalSet` beside a multi-thread runtime, where
/// `block_in_place` would panic.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    use tokio::runtime::{Handle, RuntimeFlavor, worker_index};
    if !may_block() {
        return look_once(future);
    }
    if worker_index().is_none() {
        return futures_lite::future::block_on(future);
    }
    match Handle::try_current().map(|h| h.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => {
            let mut future = std::pin::pin!(future);
            let waited = catch(|| block_in_place(|| futures_lite::future::block_on(future.as_mut())));
            // It refuses where a multi-thread runtime is merely entered, on the thread of another one.
            waited.unwrap_or_else(|_| look_once(future))
        }
        _ => look_once(future),
    }
}

/// It may be done, or about to be without this thread's help; one look does not block.
fn look_once<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    match std::pin::pin!(future).poll(&mut Context::from_waker(std::task::Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(Error::new(Kind::WouldBlock)),
    }
}

#[cfg(all(test, feature = "host"))]
mod tests {
    use std::sync::mpsc::channel;
    use std::task::Waker;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::Runtime;
    use crate::queue::Queue;

    /// An event is polled, cloned, looked at and dropped while somebody has the engine's lock, and that somebody waits for it.
    ///
    /// Seen to fail when the first poll took the lock to say that the event is wanted.
    #[test]
    fn invariant_07_a_poll_does_not_take_the_engines_lock() {
        let runtime = Runtime::builder().manual().build();
        let host = runtime.host().expect("the host backend is in this build");
        let queue = Queue::blocking_on(host).expect("the host device opens");
        let submit = || {
            let group = queue.submit(|cg| {
                cg.after(std::future::pending::<Result<()>>());
                Ok(())
            });
            group.expect("a group is taken")
        };
        let (mut pending, mut over) = (submit(), submit());
        over.cancel();
        let (tell, told) = channel();
        let polls = move || {
            let mut clone = pending.clone();
            let mut cx = Context::from_waker(Waker::noop());
            for event in [&mut pending, &mut clone, &mut over] {
                let polled = [(); 2].map(|()| Pin::new(&mut *event).poll(&mut cx).is_ready());
                assert_eq!(polled, [event.has_ended(); 2]);
            }
            drop(clone);
            tell.send(()).expect("somebody listens");
            pending
        };
        let (poller, in_time) = runtime.inner().enter(|_, _| {
            let poller = thread::spawn(polls);
            (poller, told.recv_timeout(Duration::from_secs(20)))
        });
        let pending = poller.join().expect("the polls are as they should be");
        assert!(in_time.is_ok(), "the polls waited for the lock");
        assert_eq!(pending.cancel(), CancelOutcome::Skipped);
        // Nobody else drops the futures of what was cancelled, and these keep the runtime.
        runtime.run_until_stalled();
    }
}
