//! Recordings: commands that are described once, and submitted often.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;

use windlass_engine::Access;

use crate::buffer::{Attached, Root};
use crate::error::{Error, Result};
use crate::group::CommandGroup;
use crate::queue::Queue;
use crate::shell::Inner;
use crate::shell::recorded::Recorded;
use crate::shell::work::Planned;

/// Commands that were described once, with the buffers that they use: [`Queue::record`] makes one, and
/// [`CommandGroup::replay`] has a group do what it says.
///
/// A group that replays is a group like any other: it waits for what its data waits for, moves what is stale, and has
/// its own event. What is saved is describing and checking the commands each time, and, on a device with
/// [`Aspect::Sequences`](crate::Aspect::Sequences), handing them over one by one: there a recording is one native command
/// (a graph, say), and commands that do not need each other's results may run side by side.
///
/// ```
/// use windlass::prelude::*;
///
/// #[windlass::kernel]
/// fn double(v: &mut [u32]) {
///     let i = global_id(0);
///     v[i] = v[i] * 2;
/// }
///
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let (x, y) = (Buffer::from(vec![1_u32; 8]), Buffer::<u32>::new(8));
/// let step = queue.record(|cg| {
///     cg.parallel_for(8, double(cg.read_write(&x)))?;
///     cg.copy(&cg.read(&x), &cg.overwrite(&y))
/// })?;
/// for _ in 0..3 {
///     queue.submit(|cg| cg.replay(&step))?;
/// }
/// assert_eq!(y.host_read().blocking_wait()?[..], [8; 8]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Recording {
    contents: Arc<Contents>,
}

struct Contents {
    recorded: Arc<Recorded>,
    roots: Vec<Arc<Root>>,
    /// A recording is a handle of the buffers that it names.
    _attached: Vec<Arc<Attached>>,
    accesses: Vec<Access>,
}

impl Recording {
    /// How many commands it has.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(8));
    /// let step = queue.record(|cg| {
    ///     cg.fill(&cg.overwrite(&x), 1)?;
    ///     cg.fill(&cg.overwrite(&x.range(4..)), 2)
    /// })?;
    /// assert_eq!(step.len(), 2);
    /// # Ok(()) }
    /// ```
    pub fn len(&self) -> usize {
        self.contents.recorded.commands.len()
    }

    /// Whether it has none.
    ///
    /// ```
    /// let queue = windlass::Queue::blocking_new()?;
    /// let nothing = queue.record(|_| Ok(()))?;
    /// assert!(nothing.is_empty());
    /// // It may be replayed all the same.
    /// queue.submit(|cg| cg.replay(&nothing))?.blocking_wait()?;
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Clones of one recording are the same, and nothing else is.
impl PartialEq for Recording {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.contents, &other.contents)
    }
}

impl Eq for Recording {}

impl Hash for Recording {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.contents).hash(state);
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recording")
            .field("device", &self.contents.recorded.slot().device)
            .field("commands", &self.len())
            .finish_non_exhaustive()
    }
}

impl Queue {
    /// Describes commands for this queue's device, to be submitted often: kernels, copies and fills. Nothing runs yet.
    ///
    /// What belongs to one submission has no place in it, and is an error: closures (`host_for`, `host_chunks`,
    /// `host_task`), `depends_on` and `after`, and what is left behind on cancellation. Say those where it is replayed.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(4));
    /// let reset = queue.record(|cg| cg.fill(&cg.overwrite(&x), 1))?;
    /// assert_eq!(x.host_read().blocking_wait()?[..], [0; 4], "it has not run");
    /// queue.submit(|cg| cg.replay(&reset))?;
    /// assert_eq!(x.host_read().blocking_wait()?[..], [1; 4]);
    /// let closure = queue.record(|cg| cg.host_task(async |_| Ok(())));
    /// assert!(closure.unwrap_err().is_invalid_input());
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn record<F>(&self, describe: F) -> Result<Recording>
    where
        F: for<'g> FnOnce(&CommandGroup<'g>) -> Result<()>,
    {
        Inner::check_process()?;
        let cg = CommandGroup::new(self.core().clone(), Location::caller());
        let returned = describe(&cg);
        let mut builder = cg.builder.borrow_mut();
        builder.check(returned)?;
        builder.check_roots(self.core())?;
        if let Some(what) = builder.of_one_submission() {
            return Err(Error::invalid(format!(
                "a recording cannot have {what}, which belongs to one submission: say it where it is replayed"
            )));
        }
        let mut commands = Vec::new();
        for command in std::mem::take(&mut builder.commands) {
            match command {
                Planned::Device(command) => commands.push(command),
                Planned::Replay(recorded) => commands.extend_from_slice(&recorded.commands),
                Planned::Host(_) | Planned::HostTask(_) | Planned::Native(_) => {
                    return Err(Error::invalid(
                        "a recording cannot have a closure, which runs once: make it a `#[windlass::kernel]`, or submit it",
                    ));
                }
            }
        }
        let recorded = Recorded::new(commands, self.slot().clone(), self.runtime().inner());
        let (roots, accesses) = (builder.roots().to_vec(), builder.accesses.to_vec());
        let (recorded, _attached) = (Arc::new(recorded), std::mem::take(&mut builder.attached));
        Ok(Recording { contents: Arc::new(Contents { recorded, roots, _attached, accesses }) })
    }
}

impl CommandGroup<'_> {
    /// Does what was recorded, as if it were said here. The recording must have been made for this queue's device.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(4));
    /// let reset = queue.record(|cg| cg.fill(&cg.overwrite(&x), 1))?;
    /// queue.submit(|cg| {
    ///     cg.name("reset");
    ///     cg.replay(&reset)?;
    ///     cg.fill(&cg.write(&x.range(..1)), 9)
    /// })?;
    /// assert_eq!(x.host_read().blocking_wait()?[..], [9, 1, 1, 1]);
    /// # Ok(()) }
    /// ```
    pub fn replay(&self, recording: &Recording) -> Result<()> {
        let Contents { recorded, roots, accesses, .. } = &*recording.contents;
        if !recorded.slot().is_same(&self.queue.slot) {
            return Err(Error::unsupported(format!(
                "a recording for {} of {} is replayed on {} of {}: record it with a queue of that device",
                recorded.slot().device,
                recorded.slot().context,
                self.queue.slot.device,
                self.queue.slot.context
            )));
        }
        for root in roots {
            self.require_again(root, accesses)?;
        }
        match recorded.commands.is_empty() {
            true => Ok(()),
            false => self.push(Planned::Replay(recorded.clone())),
        }
    }
}
