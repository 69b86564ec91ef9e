//! What runs on the host side: host tasks on the user's runtime, and what hands host accessors their memory.

use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};

use smallvec::SmallVec;
use windlass_backend::Allocation;
use windlass_sync::cell::{EventCell, Wakers};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;
use windlass_sync::panics::{catch, contain};

use super::proxy::Signalled;
use super::staging::HostCopy;
use super::task::TaskControl;
use super::waking::Woken;
use super::work::{Binding, Planned, Work};
use super::{Effects, Inner, Message, NativeCalls, State, Windlass};
use crate::error::{BoxError, Cause, Error, Kind, Result, UserCode};
use windlass_engine::{Box3, GuardPlan, Mode, NodeId, RootId, Turn, Use};

/// The future of a host task, with the memory it works on inside.
pub(crate) type TaskFuture<'g> = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send + 'g>>;

/// The memory that a host task works on.
#[derive(Debug)]
pub(crate) struct HostMemoryTable {
    memory: SmallVec<[(RootId, Arc<dyn Allocation>); 2]>,
    pub(crate) control: Arc<TaskControl>,
}

impl HostMemoryTable {
    pub(crate) fn new(
        memory: SmallVec<[(RootId, Arc<dyn Allocation>); 2]>,
        control: Arc<TaskControl>,
    ) -> Self {
        HostMemoryTable { memory, control }
    }

    pub(crate) fn of(&self, binding: &Binding) -> Option<&dyn Allocation> {
        self.memory.iter().find(|(root, _)| *root == binding.root).map(|(_, m)| &**m)
    }
}

/// Starts a host task on its memory.
pub(crate) type StartTask<'g> = Box<dyn FnOnce(HostMemoryTable) -> TaskFuture<'g> + Send + 'g>;

/// A host task before it has its memory.
pub(crate) struct HostTaskCommand<'g> {
    pub(crate) start: StartTask<'g>,
    /// The runtime that was current at submit.
    pub(crate) runtime: Option<tokio::runtime::Handle>,
    pub(crate) control: Arc<TaskControl>,
}

impl fmt::Debug for HostTaskCommand<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostTaskCommand").finish_non_exhaustive()
    }
}

/// A host accessor on its way to its memory.
#[derive(Debug)]
pub(crate) struct GuardCell {
    /// Where the accessor was asked for.
    pub(crate) at: &'static Location<'static>,
    pub(crate) cell: EventCell<Result<()>>,
    memory: Mutex<Granted>,
    /// Its place in the order, from the turn on in which it takes that.
    node: OnceLock<NodeId>,
    /// What it takes the memory of, if nobody else has a handle of that by then.
    taken: Option<Weak<dyn Any + Send + Sync>>,
}

/// The handles of a buffer that whoever takes its data has: one of its own, and its accessor's.
const TAKERS_HANDLES: usize = 2;

/// The memory of an accessor, until that comes for it.
#[derive(Debug, Default)]
enum Granted {
    #[default]
    NotYet,
    Memory(Option<Arc<dyn Allocation>>),
    /// The engine has given it up.
    GivenUp(Arc<dyn Allocation>),
    /// The accessor is gone. Memory left here now might have its last reference dropped by a thread of the program's.
    Refused,
}

impl GuardCell {
    pub(crate) fn new(at: &'static Location<'static>) -> Self {
        GuardCell {
            at,
            cell: EventCell::new(()),
            memory: Mutex::default(),
            node: OnceLock::new(),
            taken: None,
        }
    }

    /// The same for the future that takes a buffer's data, and has [two](TAKERS_HANDLES) handles of it, that it gives to nobody.
    pub(crate) fn taking(at: &'static Location<'static>, root: Weak<dyn Any + Send + Sync>) -> Self {
        GuardCell { taken: Some(root), ..GuardCell::new(at) }
    }

    /// Its place in the order, if it has taken that.
    pub(crate) fn node(&self) -> Option<NodeId> {
        self.node.get().copied()
    }

    /// Whether nobody but who takes it will ever use the buffer again. It waits for its memory still: one that had that before the
    /// buffer was bound has it elsewhere.
    ///
    /// The feared race: the future is dropped, so that one of its two handles is gone already, and the second that is counted is
    /// somebody else's, who wants the data. It refuses its memory before it lets go of a handle, and here the handles are
    /// counted before it is looked whether it has: so either they are its own, or the refusal is seen.
    pub(super) fn is_taker(&self) -> bool {
        let is_last = |root: &Weak<dyn Any + Send + Sync>| root.strong_count() == TAKERS_HANDLES;
        self.taken.as_ref().is_some_and(is_last)
            && !matches!(*lock(&self.memory), Granted::Refused)
            && self.cell.get().is_none()
    }

    /// The guard has memory that is the engine's no more. It is returned if the guard has been dropped meanwhile.
    pub(super) fn give_up(
        &self,
        memory: Arc<dyn Allocation>,
        woken: &mut Woken,
    ) -> Option<Arc<dyn Allocation>> {
        let mut granted = lock(&self.memory);
        if matches!(*granted, Granted::Refused) {
            return Some(memory);
        }
        *granted = Granted::GivenUp(memory);
        drop(granted);
        woken.cells.extend(self.cell.complete(Ok(())));
        None
    }

    /// The guard may have its memory; a guard over nothing has none.
    pub(super) fn grant(&self, memory: Option<Arc<dyn Allocation>>, woken: &mut Woken) {
        // One that had its memory before the buffer was bound keeps that.
        if self.cell.get().is_some() {
            return;
        }
        self.leave(memory);
        woken.cells.extend(self.cell.complete(Ok(())));
    }

    /// The guard has its memory, or fails, before the buffer has a runtime.
    pub(crate) fn settle_early(&self, memory: Result<Arc<dyn Allocation>>) -> Option<Wakers> {
        let result = memory.map(|memory| self.leave(Some(memory)));
        self.cell.complete(result)
    }

    /// Under the engine's lock, or with the engine still to come: the reference that is dropped here is not the last.
    fn leave(&self, memory: Option<Arc<dyn Allocation>>) {
        let mut granted = lock(&self.memory);
        if !matches!(*granted, Granted::Refused) {
            *granted = Granted::Memory(memory);
        }
    }

    /// What it was granted, and whether that is the engine's no more.
    pub(crate) fn take_memory(&self) -> (Option<Arc<dyn Allocation>>, bool) {
        match std::mem::take(&mut *lock(&self.memory)) {
            Granted::Memory(memory) => (memory, false),
            Granted::GivenUp(memory) => (Some(memory), true),
            Granted::NotYet | Granted::Refused => (None, false),
        }
    }

    /// The accessor goes, with what it was granted and never fetched; nothing more is let in. The engine has the memory still, so that
    /// the last to let go of it frees it; or else it goes to where buffers have theirs from.
    pub(crate) fn refuse_memory(&self, inner: &Inner) {
        if let Granted::GivenUp(memory) = std::mem::replace(&mut *lock(&self.memory), Granted::Refused) {
            inner.free_all([memory]);
        }
    }

    /// The node ended. If the guard never got its memory, resolve it with the reason.
    pub(super) fn ended(&self, result: Result<()>, woken: &mut Woken) {
        let error = result.err().unwrap_or_else(|| Error::new(Kind::Cancelled));
        woken.cells.extend(self.cell.complete(Err(error)));
    }
}

/// What a host-side node needs to start.
enum Start {
    Task(Box<HostTaskCommand<'static>>, HostMemoryTable),
    /// The host's half of a staged transfer.
    Copy(Box<HostCopy>),
    /// A group with nothing to do on the host: a barrier.
    Nothing,
}

/// A host accessor that takes its place in the order.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) guard: Arc<GuardCell>,
    pub(crate) root: RootId,
    pub(crate) bounds: Box3,
    pub(crate) mode: Mode,
    pub(crate) in_heap: bool,
    pub(crate) behind_readers: bool,
    /// Memory for the heap's copy, as [`Engine::plan_guard`](windlass_engine::Engine::plan_guard) takes it.
    pub(crate) spare: Option<Arc<dyn Allocation>>,
}

impl State {
    /// Gives a host accessor its place. Returns the memory that it brought, unless that was of use.
    pub(crate) fn plan_accessor(
        &mut self,
        coming: Coming,
        turn: &mut Turn<Windlass>,
    ) -> Option<Arc<dyn Allocation>> {
        let Coming { guard, root, bounds, mode, in_heap, behind_readers, mut spare } = coming;
        let in_heap = in_heap || self.engine.is_short_of_room();
        let work = Work::Guard(guard.clone());
        let plan = GuardPlan { root, bounds, mode, in_heap, behind_readers, work };
        let node = self.engine.plan_guard(plan, &mut spare, turn);
        guard.node.get_or_init(|| node);
        spare
    }

    /// The same for one that has come by a message. If the runtime has closed meanwhile, it is told so.
    pub(super) fn let_in(&mut self, inner: &Arc<Inner>, coming: Coming, effects: &mut Effects) {
        let spare = match Inner::check_open(self) {
            Ok(()) => self.plan_accessor(coming, &mut effects.turn),
            Err(error) => {
                coming.guard.ended(Err(error), &mut effects.woken);
                coming.spare
            }
        };
        effects.turn.freed.extend(spare);
        self.stay_alive(inner);
    }
}

impl Inner {
    /// A host accessor takes its place, at once if nobody has the engine's lock, and else by a message: what this thread submits
    /// later comes behind it all the same, since whoever takes the lock reads messages first.
    pub(crate) fn plan_accessor(self: &Arc<Self>, coming: Coming) -> Result<()> {
        let mut coming = Some(coming);
        let planned = Effects::with(NativeCalls::Elsewhere, |effects| {
            let planned = self.try_with_state(effects, |state, turn| {
                Inner::check_open(state)?;
                Ok(coming.take().and_then(|coming| state.plan_accessor(coming, turn)))
            });
            self.perform(effects);
            planned
        });
        if let Ok(planned) = planned {
            return planned.map(drop);
        }
        if let Some(coming) = coming {
            self.post(NativeCalls::Elsewhere, Message::Accessor(self.clone(), Box::new(coming)));
        }
        Ok(())
    }

    /// Ends a host accessor's node.
    pub(crate) fn end_accessor(self: &Arc<Self>, guard: &Arc<GuardCell>) {
        self.post(NativeCalls::Elsewhere, Message::EndAccessor(guard.clone()));
    }

    /// A host-side node that is no guard has nothing left to wait for.
    pub(super) fn start_host_side(self: &Arc<Self>, node: NodeId, effects: &mut Effects) {
        let start = self.with_state(effects, |state, _| {
            let there = |used: &Use| state.engine.allocation(used.root, used.memory).cloned();
            let memory: SmallVec<[_; 2]> =
                state.engine.uses(node).iter().map(|used| (used.root, there(used))).collect();
            match state.engine.work_mut(node) {
                Some(Work::Group(_)) => {
                    match state.engine.take_commands(node).and_then(|mut commands| commands.pop()) {
                        Some(Planned::HostTask(task)) => {
                            state.counters.host_tasks += 1;
                            let memory =
                                memory.into_iter().filter_map(|(root, m)| Some((root, m?))).collect();
                            let table = HostMemoryTable::new(memory, task.control.clone());
                            Start::Task(task, table)
                        }
                        _ => Start::Nothing,
                    }
                }
                Some(Work::Transfer(_)) => {
                    state.host_copy(node).map_or(Start::Nothing, |copy| Start::Copy(Box::new(copy)))
                }
                // Guards have been granted under the lock.
                Some(Work::Guard(_)) | None => Start::Nothing,
            }
        });
        match start {
            Start::Nothing => {
                self.with_state(effects, |state, turn| state.engine.finish_host(node, Ok(()), turn));
            }
            Start::Task(task, memory) => self.spawn_task(node, *task, memory),
            Start::Copy(copy) => self.spawn_copy(node, *copy),
        }
    }

    fn spawn_task(self: &Arc<Self>, node: NodeId, task: HostTaskCommand<'static>, memory: HostMemoryTable) {
        let finish = Finish { inner: self.clone(), node, result: None };
        let stop = Signalled::new(task.control.stop.clone());
        let future =
            HostTask { state: TaskState::New(task.start, memory), stop, control: task.control, finish };
        match task.runtime {
            // On a runtime that has ended the future is dropped here and now, and its drop guard tells.
            Some(runtime) => drop(runtime.spawn(future)),
            None => self.user.spawn(future),
        }
    }
}

enum TaskState {
    New(StartTask<'static>, HostMemoryTable),
    Running(TaskFuture<'static>),
    Over,
}

/// A host task as the user's runtime polls it. However it ends, by itself, by a panic, by being dropped with its
/// runtime, its node ends too: `state` is dropped before `finish`, so the user's code no longer holds any memory then.
struct HostTask {
    state: TaskState,
    stop: Signalled,
    control: Arc<TaskControl>,
    finish: Finish,
}

impl Future for HostTask {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        // Before the future is polled: a task that has been told to stop runs no further. The signal stays complete, so
        // once the end has been told (`Over`) it must not lead here again.
        if Pin::new(&mut this.stop).poll(cx).is_ready() && !matches!(this.state, TaskState::Over) {
            let over = std::mem::replace(&mut this.state, TaskState::Over);
            // Before the node ends: the future has views of memory that the groups behind it may write from then on.
            contain(|| drop(over));
            this.control.stopped(&this.finish.inner, this.finish.node);
            return Poll::Ready(());
        }
        let polled = catch(|| {
            if let TaskState::New(..) = this.state
                && let TaskState::New(start, memory) = std::mem::replace(&mut this.state, TaskState::Over)
            {
                this.state = TaskState::Running(start(memory));
            }
            match &mut this.state {
                TaskState::Running(future) => future.as_mut().poll(cx),
                _ => Poll::Ready(Ok(())),
            }
        });
        let result = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(result)) => result.map_err(|e| Error::user(UserCode::HostTask, e)),
            Err(panic) => Err(Error::user_panicked(UserCode::HostTask, &panic)),
        };
        let over = std::mem::replace(&mut this.state, TaskState::Over);
        // Also before the node ends, for its views of the memory. A panic in here is the task's failure, unless it has
        // failed already: the first error stays.
        let dropped = catch(|| drop(over));
        let result = match dropped {
            Ok(()) => result,
            Err(panic) => result.and(Err(Error::user_panicked(UserCode::HostTask, &panic))),
        };
        this.finish.result = Some(result);
        this.finish.tell();
        Poll::Ready(())
    }
}

/// Ends the node exactly once.
struct Finish {
    inner: Arc<Inner>,
    node: NodeId,
    result: Option<Result<()>>,
}

impl Finish {
    fn tell(&mut self) {
        if let Some(result) = self.result.take() {
            let result = result.map_err(Cause);
            self.inner
                .enter_without_native_calls(|state, turn| state.engine.finish_host(self.node, result, turn));
        }
    }
}

impl Drop for HostTask {
    fn drop(&mut self) {
        if matches!(self.state, TaskState::Over) || forked::is_child() {
            return;
        }
        let over = std::mem::replace(&mut self.state, TaskState::Over);
        contain(|| drop(over));
        self.finish.result = Some(Err(Error::new(Kind::RuntimeGone)));
        self.finish.tell();
    }
}
