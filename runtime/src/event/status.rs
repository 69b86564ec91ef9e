//! How far groups have come, and when they ran.

use std::time::{Duration, Instant};

use windlass_engine::Progress;
use windlass_sync::forked;

use super::Event;

/// How far a group has come.
///
/// These are SYCL's states, but that `Pending` is one of its own: what waits is not with the device, and can be cancelled.
/// Drivers are not asked whether a device has begun with a group that it was handed, so that [`Status::Running`] is for
/// host tasks only; when a group began is told afterwards ([`Event::profile`]).
///
/// ```
/// use windlass::prelude::*;
///
/// fn shown(event: &Event) -> &'static str {
///     match event.status() {
///         Status::Pending => "waiting",
///         Status::Submitted | Status::Running => "under way",
///         Status::Done => "done",
///         _ => "failed",
///     }
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let event = queue.submit(|_| Ok(()))?;
/// event.blocking_wait()?;
/// assert_eq!(shown(&event), "done");
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// It waits here: for groups that the driver of its device knows nothing of, a guard, a future, a kernel's build, memory, or room
    /// on the device. Cancelling skips it.
    Pending,
    /// It was handed to its device's driver, and can no longer be skipped. It may have begun, or wait there for groups before it.
    Submitted,
    /// It is a host task, and was handed to the runtime that drives it.
    Running,
    /// It has ended well.
    Done,
    /// It has failed, or was cancelled.
    Failed,
}

impl Status {
    /// Whether it is [`Status::Done`] or [`Status::Failed`].
    ///
    /// ```
    /// use windlass::prelude::*;
    /// assert!(Status::Done.has_ended() && Status::Failed.has_ended());
    /// assert!(!Status::Pending.has_ended() && !Status::Submitted.has_ended() && !Status::Running.has_ended());
    /// ```
    pub fn has_ended(self) -> bool {
        matches!(self, Status::Done | Status::Failed)
    }

    /// That of several groups as one.
    pub(super) fn of_all(each: impl Iterator<Item = Status>) -> Status {
        let order = [Status::Pending, Status::Submitted, Status::Running, Status::Failed, Status::Done];
        let place = |status: Status| order.iter().position(|of| *of == status).unwrap_or(0);
        let mut behind = order.len() - 1;
        for status in each {
            behind = behind.min(place(status));
            if behind == 0 {
                break;
            }
        }
        order[behind]
    }
}

/// When a group ran on its device, by the host's clock. See [`Event::profile`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// When its first command started.
    pub started: Instant,
    /// When its last command had ended.
    pub ended: Instant,
}

impl Profile {
    /// How long the device took.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::builder().device(Device::host()).profiling().blocking_build()?, Buffer::<u32>::new(64));
    /// let event = queue.submit(|cg| cg.fill(&cg.overwrite(&x), 1))?;
    /// event.blocking_wait()?;
    /// println!("it took {:?}", event.profile().unwrap().duration());
    /// # Ok(()) }
    /// ```
    pub fn duration(&self) -> Duration {
        self.ended.saturating_duration_since(self.started)
    }
}

impl Event {
    /// How far the group has come, without waiting for it.
    ///
    /// What has not ended is looked up in the scheduler, for which its lock is taken for a moment; to ask whether it has
    /// ended, [`Event::has_ended`] is enough.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let (send, receive) = futures::channel::oneshot::channel::<()>();
    /// let event = queue.submit(|cg| {
    ///     cg.after(receive);
    ///     Ok(())
    /// })?;
    /// assert_eq!(event.status(), Status::Pending);
    /// drop(send);
    /// assert!(event.blocking_wait().is_err());
    /// assert_eq!(event.status(), Status::Failed);
    /// # Ok(()) }
    /// ```
    pub fn status(&self) -> Status {
        if forked::is_child() {
            return Status::Failed;
        }
        if let Some(status) = self.ended_as() {
            return status;
        }
        let inner = self.inner.inner();
        match inner.enter_without_native_calls(|state, _| state.engine.progress(self.inner.node)) {
            Some(Progress::Waits) => Status::Pending,
            Some(Progress::OnLane) => Status::Submitted,
            Some(Progress::OnHost) => Status::Running,
            // It has settled since. Its event resolved in the same turn of the lock.
            None => self.ended_as().unwrap_or(Status::Submitted),
        }
    }

    /// Whether the group has ended, well or not. No lock is taken for it.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let (send, receive) = futures::channel::oneshot::channel::<()>();
    /// let event = queue.submit(|cg| Ok(cg.after(receive)))?;
    /// assert!(!event.has_ended());
    /// send.send(()).unwrap();
    /// event.blocking_wait()?;
    /// assert!(event.has_ended());
    /// # Ok(()) }
    /// ```
    pub fn has_ended(&self) -> bool {
        forked::is_child() || self.inner.cell.get().is_some()
    }

    pub(super) fn ended_as(&self) -> Option<Status> {
        let ended = self.inner.cell.get()?;
        Some(if ended.is_ok() { Status::Done } else { Status::Failed })
    }

    /// When the group ran, once it has ended well, if its queue [profiles](crate::QueueBuilder::profiling). A group without
    /// work for the device has none, and nor has a host task.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::builder().device(Device::host()).profiling().blocking_build()?;
    /// let nap = std::time::Duration::from_millis(2);
    /// let event = queue.submit(|cg| cg.host_for(1, (), move |_, ()| std::thread::sleep(nap)))?;
    /// event.blocking_wait()?;
    /// let profile = event.profile().expect("the queue profiles");
    /// assert!(profile.duration() >= nap);
    /// # Ok(())
    /// # }
    /// ```
    pub fn profile(&self) -> Option<Profile> {
        let done = !forked::is_child() && self.ended_as() == Some(Status::Done);
        let (started, ended) = done.then(|| self.inner.times())??;
        Some(Profile { started, ended })
    }
}
