//! One line of a trace.

use std::panic::Location;
use std::time::{Duration, Instant};

use crate::shell::tracer::{EntryKind, Outcome, Traced, what_it_is};

/// A group, a host accessor or a copy that has ended. All times are since the trace began.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let runtime = Runtime::new();
/// let (queue, trace) = (Queue::blocking_on(runtime.host()?)?, runtime.trace(100));
/// let (x, y) = (Buffer::<u32>::new(4), Buffer::<u32>::new(4));
/// let (send, receive) = futures::channel::oneshot::channel::<()>();
/// queue.submit(|cg| {
///     cg.after(receive);
///     cg.fill(&cg.overwrite(&x), 1)
/// })?;
/// let second = queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y)))?;
/// send.send(()).unwrap();
/// second.blocking_wait()?;
/// let timeline = trace.timeline();
/// let [fill, copy] = timeline.entries() else { panic!("there were two groups") };
/// assert_eq!(copy.after, [fill.id]);
/// assert!(copy.submitted <= copy.started && copy.started <= copy.ended);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Counted in the order of submission.
    pub id: u64,
    /// What it is.
    pub kind: EntryKind,
    /// What the program called it, by [`CommandGroup::name`](crate::CommandGroup::name).
    pub name: Option<String>,
    /// A group's commands: kernels by their names.
    pub commands: Vec<String>,
    /// Where it was submitted or asked for.
    pub at: Option<&'static Location<'static>>,
    /// What was under way when it was submitted and had to come before it.
    pub after: Vec<u64>,
    /// Of a copy, what it was made for.
    pub copy_for: Option<u64>,
    /// How many bytes had to be moved before it could run.
    pub bytes_moved: usize,
    /// Where it ran, or was to run; nothing for the host's own threads.
    pub device: Option<String>,
    /// On which lane of that; nothing if it was never handed over.
    pub lane: Option<u32>,
    /// When it was submitted.
    pub submitted: Duration,
    /// When it began. One that never did, since it was cancelled or what it reads has failed, took no time where it ended.
    pub started: Duration,
    /// When it had ended; for a host accessor, when its guard was dropped.
    pub ended: Duration,
    /// Whether its device has said when it began and ended. Otherwise it began when it had been handed over and what was ahead of it
    /// on its lane had ended, and ended when the host heard of it.
    pub is_by_device_clock: bool,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed.
    pub error: Option<String>,
}

impl Entry {
    pub(super) fn new(traced: &Traced, began: Instant) -> Self {
        let since = |moment: Instant| moment.saturating_duration_since(began);
        let what = &traced.what;
        Entry {
            id: traced.id,
            kind: what.kind.clone(),
            name: what.name.as_deref().map(Into::into),
            commands: what.commands.iter().map(|command| command.to_string()).collect(),
            at: what.at,
            after: traced.after.clone(),
            copy_for: traced.of,
            bytes_moved: traced.brought,
            device: traced.device.as_deref().map(Into::into),
            lane: traced.lane.map(|lane| lane.0),
            submitted: since(traced.planned),
            started: since(traced.started),
            ended: since(traced.ended),
            is_by_device_clock: traced.is_by_device_clock,
            outcome: traced.outcome,
            error: traced.error.get().map(|error| error.to_string()),
        }
    }

    /// What it is called: by the program, else by what it does.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let trace = runtime.trace(10);
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&Buffer::<u32>::new(9)), 1))?.blocking_wait()?;
    /// assert_eq!(trace.timeline().entries()[0].label(), "fill");
    /// # Ok(())
    /// # }
    /// ```
    pub fn label(&self) -> String {
        what_it_is(self.name.as_deref(), &self.kind, &self.commands)
    }

    /// What it ran on.
    pub(super) fn place(&self) -> String {
        match (&self.device, &self.kind) {
            (Some(device), _) => device.clone(),
            (None, EntryKind::HostAccessor) => "host accessors".into(),
            (None, _) => "host tasks and copies".into(),
        }
    }
}
