//! Who waits for whom: what the stall report tells, and an error of [`DeadlockPolicy::Error`](crate::DeadlockPolicy) names.

use std::fmt;
use std::panic::Location;

/// Something that has been waiting for long.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let (queue, data) = (Queue::blocking_on(Runtime::new().host()?)?, Buffer::<u32>::new(8));
/// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 2))?.blocking_wait()?;
/// let guard = data.host_read().blocking_wait()?;
/// let waiting = queue.submit(|cg| {
///     cg.name("refill");
///     cg.fill(&cg.overwrite(&data), 3)
/// })?;
/// let stall = &queue.runtime().stalls()[0];
/// assert_eq!((stall.waiting.as_deref(), stall.count), (Some("refill"), 1));
/// assert!(stall.to_string().contains("for a host guard that is held"));
/// # drop(guard);
/// # waiting.blocking_wait()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// What it waits for, as far as the runtime knows.
    pub holder: Holder,
    /// Where the thing that holds others up was asked for.
    pub holder_at: Option<&'static Location<'static>>,
    /// What waits.
    pub waiter: Waiter,
    /// The name of the group that waits, if it has one.
    pub waiting: Option<String>,
    /// Where the first of those that wait was submitted or asked for.
    pub waiting_at: Option<&'static Location<'static>>,
    /// How many wait.
    pub count: usize,
}

/// What holds others up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A host accessor's guard that is still alive.
    Guard,
    /// A group or host task that is running, or is with its device.
    Group,
    /// A future given to `after`, a kernel build or an allocation.
    Outside,
    /// The queue's limit of groups in flight.
    Credits,
}

/// What is held up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiter {
    /// A group or host task.
    Group,
    /// A host accessor that has not been granted.
    HostAccessor,
    /// A submission, in [`Queue::ready`](crate::Queue::ready).
    Submission,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} waiting", self.count)?;
        match (self.waiting_at, self.waiter) {
            (Some(at), Waiter::Submission) => write!(f, ", first at {at},")?,
            (Some(at), Waiter::HostAccessor) => write!(f, ", first a host accessor asked for at {at},")?,
            (Some(at), Waiter::Group) => {
                write!(f, ", first {} submitted at {at},", self.waiting.as_deref().unwrap_or("a group"))?;
            }
            (None, _) => {}
        }
        match self.holder {
            Holder::Guard => f.write_str(" for a host guard that is held")?,
            Holder::Group => f.write_str(" for a group that has not ended")?,
            Holder::Outside => f.write_str(" for a future, a build or memory")?,
            Holder::Credits => f.write_str(" for room in a queue")?,
        }
        match self.holder_at {
            Some(at) => write!(f, ", asked for at {at}"),
            None => Ok(()),
        }
    }
}
