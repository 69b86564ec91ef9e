//! What a group's closure leaves behind, and what of it the engine is told.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::buffer::{Attached, Root};
use crate::error::{Cause, Error, Result};
use crate::event::Event;
use crate::group::Listener;
use crate::shell::build::Built;
use crate::shell::context::DeviceSlot;
use crate::shell::event::EventInner;
use crate::shell::host_side::HostTaskCommand;
use crate::shell::outside::Outside;
use crate::shell::place::Capacity;
use crate::shell::queue::QueueCore;
use crate::shell::reserved::Reserved;
use crate::shell::task::TaskControl;
use crate::shell::tracer;
use crate::shell::work::Planned;
use crate::shell::{Inner, Signal};
use windlass_engine::{Access, After, Mode, NodeId, RootId, merge};

/// A group being described.
#[derive(Default)]
pub(crate) struct Builder<'g> {
    problem: Option<Error>,
    /// Keeps the buffers until the group is planned; from then on the engine counts it as their user.
    roots: SmallVec<[Arc<Root>; 2]>,
    /// What of them is wanted back when their last handle is gone.
    pub(crate) attached: Vec<Arc<Attached>>,
    pub(crate) accesses: SmallVec<[Access; 2]>,
    pub(crate) commands: SmallVec<[Planned<'g>; 1]>,
    /// How many native commands they come to.
    pub(crate) weight: usize,
    pub(crate) is_host_task: bool,
    task: Option<Arc<TaskControl>>,
    pub(crate) has_kernels: bool,
    pub(crate) after: SmallVec<[(Arc<EventInner>, bool); 1]>,
    pub(crate) outside: Vec<Outside>,
    pub(crate) keep_previous: bool,
    pub(crate) name: Option<Cow<'static, str>>,
    /// Who is to say what its kernels' items say.
    pub(crate) listeners: Vec<Listener>,
    /// Of the runtime's budget, until the group has ended.
    pub(crate) reserved: Option<Reserved>,
}

impl fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("accesses", &self.accesses)
            .field("commands", &self.commands)
            .finish_non_exhaustive()
    }
}

impl<'g> Builder<'g> {
    pub(super) fn refuse(&mut self, problem: Error) {
        self.problem.get_or_insert(problem);
    }

    /// The group uses this root, and so keeps it until it is planned. Says whether it has not used it before.
    pub(super) fn keep(&mut self, root: &Arc<Root>, id: RootId) -> bool {
        let is_new = self.accesses.iter().all(|a| a.root != id);
        if is_new {
            self.roots.push(root.clone());
        }
        is_new
    }

    /// The buffers that it uses.
    pub(crate) fn roots(&self) -> &[Arc<Root>] {
        &self.roots
    }

    /// Leaves them to who sees to it that the group is planned.
    pub(crate) fn take_roots(&mut self) -> SmallVec<[Arc<Root>; 2]> {
        std::mem::take(&mut self.roots)
    }

    /// What of it belongs to a submission, and not to what is submitted.
    pub(crate) fn of_one_submission(&self) -> Option<&'static str> {
        match () {
            () if !self.after.is_empty() => Some("`depends_on` or `after_end`"),
            () if !self.outside.is_empty() => Some("`after`"),
            () if self.keep_previous => Some("`on_cancel`"),
            () if self.name.is_some() => Some("`name`"),
            () if !self.listeners.is_empty() => Some("a kernel with `debug!`"),
            () => None,
        }
    }

    /// What is required of a new root overlaps nothing, one that comes in pieces included.
    pub(super) fn require(&mut self, access: Access, of_new: bool) {
        match of_new {
            true => self.accesses.push(access),
            false => merge(&mut self.accesses, access),
        }
    }

    pub(super) fn after_event(&mut self, inner: &Arc<Inner>, event: &Event, carries_failure: bool) {
        if !Arc::ptr_eq(event.inner.inner(), inner) {
            return self
                .refuse(Error::invalid("an event of another runtime: await it with `cg.after(event)`"));
        }
        self.after.push((event.inner.clone(), carries_failure));
    }

    pub(super) fn command(&mut self, command: Planned<'g>) -> Result<()> {
        if self.is_host_task {
            return Err(Error::invalid("a host task is the only command of its group"));
        }
        self.has_kernels |= match &command {
            Planned::Device(command) => command.built().is_some(),
            Planned::Replay(recorded) => recorded.kernels().next().is_some(),
            _ => false,
        };
        self.weight = self.weight.saturating_add(command.weight());
        self.commands.push(command);
        Ok(())
    }

    pub(super) fn host_task(
        &mut self,
        command: HostTaskCommand<'g>,
        control: Arc<TaskControl>,
    ) -> Result<()> {
        if !self.commands.is_empty() {
            return Err(Error::invalid("a host task is the only command of its group"));
        }
        self.is_host_task = true;
        self.task = Some(control);
        self.commands.push(Planned::HostTask(Box::new(command)));
        Ok(())
    }
}

impl Builder<'_> {
    /// The first thing that was wrong with the group: with one of its accessors, or in its closure's own words.
    pub(crate) fn check(&mut self, returned: Result<()>) -> Result<()> {
        match self.problem.take() {
            Some(problem) => Err(problem),
            None => {
                returned?;
                // The engine wants the requirements on one root to stand together; of two they do.
                if self.accesses.len() > 2 {
                    self.accesses.sort_by_key(|a| a.root.sort_key());
                }
                Ok(())
            }
        }
    }

    /// Refuses buffers that stay where the group does not reach them, those that are more than the device takes in one piece, and
    /// more of them than it has room for at a time: it keeps buffers whole, also where a group uses a part. Host tasks work in the
    /// host's memory.
    pub(crate) fn check_roots(&self, core: &QueueCore) -> Result<()> {
        let slot = &*core.slot;
        for root in &self.roots {
            match root.home() {
                Some(home) if self.is_host_task => home.check_host()?,
                Some(home) => home.check(slot)?,
                None => {}
            }
        }
        if self.is_host_task {
            let is_concurrent = |access: &Access| access.mode == Mode::Concurrent;
            return match self.accesses.iter().any(is_concurrent) {
                false => Ok(()),
                true => Err(Error::unsupported(
                    "a host task over data that others change at the same time: use `cg.read_write` for it",
                )),
            };
        }
        let (of, mut sum) = (slot.capacity(&core.inner), 0_u64);
        for root in &self.roots {
            let bytes = root.bytes();
            sum = sum.saturating_add(bytes as u64);
            if root.home().is_none() {
                slot.check_piece(bytes, &of)?;
            }
        }
        match of.is_exceeded_by(sum) {
            false => Ok(()),
            true => self.check_sum(slot, &of),
        }
    }

    /// Refuses the group if what it uses in the device's memory is more than there can be. Of a buffer of which it uses nothing there
    /// need not be any, and such a one may be listed twice.
    #[cold]
    fn check_sum(&self, slot: &DeviceSlot, of: &Capacity) -> Result<()> {
        let is_used = |root: &Root| self.accesses.iter().any(|access| Some(access.root) == root.id());
        let is_there = |root: &Root| root.home().is_none_or(|home| slot.is_own(home.memory()));
        let mut roots: Vec<&Arc<Root>> =
            self.roots.iter().filter(|root| is_used(root) && is_there(root)).collect();
        // What is there already, perhaps by the program's own hand, needs no room that there is not.
        if roots.iter().all(|root| root.home().is_some()) {
            return Ok(());
        }
        roots.sort_unstable_by_key(|root| Arc::as_ptr(root));
        roots.dedup_by_key(|root| Arc::as_ptr(root));
        let bytes = roots.iter().fold(0_u64, |sum, root| sum.saturating_add(root.bytes() as u64));
        slot.check_sum(roots.len(), bytes, of)
    }

    /// Explicit predecessors as the engine knows them, and the failure of one that has ended already. Called under
    /// the lock, where a node that is gone has told its event.
    #[inline(never)]
    pub(crate) fn predecessors(&self, nodes: &mut SmallVec<[After; 1]>) -> Option<Cause> {
        let mut doomed = None;
        for (event, carries_failure) in &self.after {
            match event.cell.get() {
                Some(Err(error)) if *carries_failure => {
                    doomed.get_or_insert_with(|| Cause(error.root().clone()));
                }
                _ => {}
            }
            nodes.push(After { node: event.node, carries_failure: *carries_failure });
        }
        doomed
    }

    /// Its commands, for a trace.
    #[cold]
    pub(crate) fn described(&self) -> tracer::Commands {
        self.commands.iter().map(Planned::described).collect()
    }

    /// What stops the group's host task, once all that the group asks for is known.
    pub(crate) fn task(&mut self) -> Option<Arc<TaskControl>> {
        let task = self.task.take()?;
        if !self.keep_previous && self.accesses.iter().any(|access| !access.mode.reads()) {
            task.writes();
        }
        Some(task)
    }

    /// Has the group fail where a host task is stopped that it depends on.
    pub(crate) fn follow(&self, node: NodeId) {
        let carrying = self.after.iter().filter(|(_, carries_failure)| *carries_failure);
        carrying.filter_map(|(event, _)| event.task()).for_each(|task| task.follow(node));
    }

    /// What ends the outside futures when the group is cancelled.
    pub(crate) fn cancel_signal(&self) -> Option<Arc<Signal>> {
        (!self.outside.is_empty()).then(|| Arc::new(Signal::new(())))
    }

    /// Kernels that are not built yet: gates. A build that has failed is an error here and now.
    pub(crate) fn unbuilt(&self, unbuilt: &mut SmallVec<[Arc<Built>; 1]>) -> Result<()> {
        let mut look = |built: &Arc<Built>| {
            if built.ready().is_some() {
                return Ok(());
            }
            match built.outcome() {
                None => unbuilt.push(built.clone()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
            }
            Ok(())
        };
        for command in &self.commands {
            match command {
                Planned::Device(command) => command.built().map_or(Ok(()), &mut look)?,
                Planned::Replay(recorded) => recorded.kernels().try_for_each(&mut look)?,
                _ => {}
            }
        }
        Ok(())
    }
}
