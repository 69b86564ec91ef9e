//! The shell acts: it puts the engine behind one lock, makes the native calls that the engine asks for, runs what the
//! host has to do as futures, and resolves events.
//!
//! Every entry has the same shape. [`Inner::enter`] takes the combining lock (the engine's, with an inbox for those
//! who may not wait for it), calls the engine, and takes along what the engine asked for as [`Effects`]. After it has
//! let go of it, [`Inner::perform`] has the effects: nothing native and nothing foreign ever runs under the lock.
//!
//! Feeding a lane is the one effect that takes several turns: while somebody holds the lane's feed token (a flag in
//! the engine, so it changes hands under the lock), it pops groups, makes their native calls outside the lock, and
//! takes the lock again to confirm them and pop more. A submitter that finds the token taken leaves its group on the lane's
//! list. The feared race, a group left on the list just as the holder gives up, cannot happen: the holder gives the
//! token back in the same turn of the lock in which it found the list empty.

pub(crate) mod allocator;
pub(crate) mod blank;
pub(crate) mod build;
mod collect;
pub(crate) mod context;
pub(crate) mod devices;
pub(crate) mod effects;
pub(crate) mod event;
pub(crate) mod feed;
pub(crate) mod form;
pub(crate) mod hang;
mod heap;
pub(crate) mod holders;
pub(crate) mod host_side;
mod in_use;
pub(crate) mod kept;
pub(crate) mod limits;
pub(crate) mod loans;
pub(crate) mod look;
pub(crate) mod memory;
pub(crate) mod names;
pub(crate) mod native;
pub(crate) mod outside;
pub(crate) mod own_lanes;
pub(crate) mod pinned;
pub(crate) mod place;
pub(crate) mod pool;
mod proxy;
pub(crate) mod queue;
pub(crate) mod recorded;
pub(crate) mod report;
pub(crate) mod reserved;
pub(crate) mod room;
pub(crate) mod shutdown;
pub(crate) mod sink;
mod staging;
pub(crate) mod stall;
pub(crate) mod submission;
pub(crate) mod task;
pub(crate) mod tracer;
pub(crate) mod waking;
pub(crate) mod work;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use smallvec::SmallVec;
use windlass_backend::{
    Allocation, Context as NativeContext, DomainId as NativeDomain, Lane, LaneNumber, MemoryIndex,
    MemoryInfo, Verdict,
};
use windlass_sync::budget::Budget;
use windlass_sync::cell::EventCell;
use windlass_sync::combining::CombiningLock;
use windlass_sync::executor::Executor;
use windlass_sync::forked;
use windlass_sync::panics::catch;
use windlass_sync::process_exit;

use crate::error::{Cause, Error};
use crate::shell::stall::Watch;
use allocator::HostAllocator;
use blank::Blank;
pub(crate) use effects::{Effects, NativeCalls};
use feed::FedGroups;
use holders::AboutRoot;
use host_side::{Coming, GuardCell};
use kept::Kept;
use memory::heap;
use names::{Names, NewRoot};
use pool::{Pool, StagingCount, StagingLimits};
use room::Residency;
use submission::Submission;
use tracer::{Sink, Tracer};
use windlass_engine::{
    ContextId, DeviceId, DomainId, Engine, LaneId, MemoryId, NodeId, ProxyId, RootId, Settled, Shell,
    Transfer, Turn,
};
use work::{Planned, Work};

/// A page: to clear it takes less time than two more turns of the lock.
const SMALL_HEAP: usize = 4096;

/// A group's commands.
pub(crate) type Commands = SmallVec<[Planned<'static>; 1]>;

/// The engine, told what our work is.
#[derive(Debug)]
pub(crate) struct Windlass;

impl Shell for Windlass {
    type Work = Work;
    type Commands = Commands;
    type Cause = Cause;
    type Memory = Arc<dyn Allocation>;
    type Object = AboutRoot;

    fn transfer(step: Transfer) -> Work {
        Work::Transfer(Box::new(work::TransferWork { step, staging: None, is_made: false }))
    }

    fn small_heap(bytes: usize) -> Option<Arc<dyn Allocation>> {
        (bytes <= SMALL_HEAP).then(|| heap(bytes).ok()).flatten()
    }

    fn show_memory(commands: &Commands) -> bool {
        commands.iter().any(|command| matches!(command, Planned::Native(_)))
    }

    fn fits((old, had): (&AboutRoot, usize), (new, bytes): (&AboutRoot, usize)) -> bool {
        old.image.is_none() && new.image.is_none() && had == bytes
    }
}

/// A one-shot signal between the engine and a future on the executor.
pub(crate) type Signal = EventCell<()>;

/// What callbacks and polls leave for whoever has the lock.
#[derive(Debug)]
pub(crate) enum Message {
    /// A lane reports.
    Passed(LaneId, Verdict),
    /// Somebody waits for this node.
    Want(NodeId),
    /// A context tells that it is lost.
    Lost(ContextId, Cause),
    /// Somebody waits for what a device has under way as a whole, or does no more.
    Hurry(DeviceId, bool),
    /// A group comes.
    Group(Box<Submission>),
    /// Lanes may have something to be fed.
    Ready(SmallVec<[LaneId; 2]>),
    /// Groups have been fed.
    Fed(Box<FedGroups>),
    /// A buffer comes.
    Root(Box<NewRoot>),
    /// A buffer goes.
    Release(RootId),
    /// A host accessor comes.
    Accessor(Arc<Inner>, Box<Coming>),
    /// A host accessor goes. Before it has the memory it leaves without a trace; after that it ends like any user of the data.
    EndAccessor(Arc<GuardCell>),
}

/// What is kept under the lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) engine: Engine<Windlass>,
    /// Native ends by the engine's lane ids; open from the moment a queue can reach the lane.
    lanes: Vec<Option<Arc<LaneShell>>>,
    /// Where memories other than the heap are, by the engine's ids.
    pub(crate) memories: HashMap<MemoryId, MemoryShell>,
    /// The engine's names of domains, by their backend's position and its own.
    domains: HashMap<(usize, NativeDomain), DomainId>,
    proxies: HashMap<ProxyId, Arc<Signal>>,
    /// Steps of staged transfers whose end a future waits for.
    steps: HashMap<NodeId, Arc<Signal>>,
    /// The runtime itself, as long as anything is under way. A group's event keeps it too, but a transfer has none, and who it
    /// was for may have gone: a lane is not to find the memory freed under the copy that it is making.
    pub(crate) alive: Option<Arc<Inner>>,
    /// What a device may still touch which was given up: it is never freed, nor used again.
    leaked: Vec<Arc<dyn Allocation>>,
    /// Room for the nodes that a verdict settles.
    room: Vec<Settled<Windlass>>,
    reaper: memory::Reaper,
    /// Allocations that are being made; not those that wait for room.
    pub(crate) making: usize,
    /// Something other than the end of a node may have brought those on who look for memory.
    pub(crate) look_again: bool,
    /// Groups that wait for kernels to be built, once for each.
    pub(crate) building: u32,
    /// Who looks for memory, and is to look again when anything has ended.
    starved: Vec<Arc<Signal>>,
    /// Lanes that the executor was called to feed, and that nobody has fed since.
    called_for: SmallVec<[LaneId; 2]>,
    /// No more submissions are taken.
    pub(crate) closed: bool,
    pub(crate) counters: Counters,
    /// Where somebody wants to see what becomes of nodes.
    pub(crate) tracer: Option<Box<Tracer>>,
    names: Arc<Names>,
}

/// What has been done, counted under the lock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) turns: u64,
    /// Of what was planned to move.
    pub(crate) bytes_not_moved: u64,
    pub(crate) submitted: u64,
    pub(crate) settled: u64,
    pub(crate) fed: u64,
    pub(crate) armed: u64,
    pub(crate) staged: u64,
    pub(crate) builds: u64,
    pub(crate) host_tasks: u64,
    pub(crate) allocations: u64,
    pub(crate) evictions: u64,
    pub(crate) live_steps: u64,
}

/// A memory with its backend's end.
#[derive(Clone, Debug)]
pub(crate) struct MemoryShell {
    pub(crate) context: Arc<dyn NativeContext>,
    pub(crate) index: MemoryIndex,
    pub(crate) domain: DomainId,
    /// Its context's.
    pub(crate) staging: Weak<Pool>,
    /// The same, of memory like this one; where none is kept, nothing.
    kept: Option<Weak<Kept>>,
    /// What its context says of it; nothing of the heap. Noted here, since the backend is not to be asked under the lock.
    pub(crate) info: Option<MemoryInfo>,
    /// It is some device's own.
    is_own: bool,
}

impl MemoryShell {
    pub(crate) fn new(
        context: Arc<dyn NativeContext>,
        index: MemoryIndex,
        domain: DomainId,
        staging: Weak<Pool>,
        kept: Option<Weak<Kept>>,
    ) -> Self {
        let described = context.info();
        let info = place::native_memory(described, index).copied();
        let is_own = described.devices.iter().any(|device| device.memory == index);
        let kept = kept.filter(|_| info.as_ref().is_some_and(kept::is_kept));
        MemoryShell { context, index, domain, staging, kept, info, is_own }
    }

    /// The name of a device that works on it.
    fn device_name(&self) -> Option<String> {
        let devices = &self.context.info().devices;
        devices
            .iter()
            .find(|device| device.memory == self.index || device.reaches.contains(&self.index))
            .map(|device| device.name.clone())
    }
}

/// A lane with its backend's end.
#[derive(Debug)]
pub(crate) struct LaneShell {
    pub(crate) id: LaneId,
    pub(crate) native: Arc<dyn Lane>,
    pub(crate) context: Arc<dyn NativeContext>,
    /// What other lanes of its context call it.
    pub(crate) number: LaneNumber,
    /// Its context's.
    pub(crate) staging: Arc<Pool>,
    kept: Option<Arc<Kept>>,
    /// Copies of its context with other host memory than this staging would block.
    needs_its_staging: bool,
    /// Its device's.
    pub(crate) blank: Arc<Blank>,
    /// See [`ContextInfo::fed_aside`](windlass_backend::ContextInfo::fed_aside).
    fed_aside: bool,
    /// See [`ContextInfo::fed_anywhere`](windlass_backend::ContextInfo::fed_anywhere).
    fed_anywhere: bool,
    /// No group that is to be timed goes to another.
    timed: bool,
    /// What its device is called.
    device: Arc<str>,
}

/// What a runtime's builder was told of what is in here.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) manual: bool,
    pub(crate) watch: Watch,
    pub(crate) staging: StagingLimits,
    pub(crate) residency: Residency,
    pub(crate) in_pieces: bool,
    /// What counts as room for many, if not what the engine says.
    pub(crate) many: Option<usize>,
    pub(crate) hang_timeout: Option<Duration>,
    /// How many bytes groups may reserve at a time.
    pub(crate) budget: i64,
    pub(crate) device_memory: Option<usize>,
    pub(crate) host_allocator: Option<HostAllocator>,
    pub(crate) sinks: Vec<Box<dyn Sink>>,
}

/// Everything that a runtime is. User handles hold it, and so does whatever is under way.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) state: CombiningLock<State, Message>,
    /// Gates, proxies, steps of transfers, builds.
    pub(crate) gates: Executor,
    /// User code that came without a runtime.
    pub(crate) user: Executor,
    pub(crate) reporter: report::Reporter,
    /// There is, or was, a context whose waiters look.
    somebody_looks: OnceLock<()>,
    pub(crate) reaper: memory::Reaper,
    in_use: in_use::InUse,
    pub(crate) loans: loans::Loans,
    turns: room::Turns,
    names: Arc<Names>,
    residency: Residency,
    /// What devices' buffers have let go of is lent in pieces.
    in_pieces: bool,
    pub(crate) hangs: hang::Hangs,
    /// What groups reserve by [`Queue::ready_for`](crate::Queue::ready_for).
    pub(crate) budget: Arc<Budget>,
    /// Large host memory that buffers have let go of; a runtime that is driven by hand keeps none.
    pub(crate) heap_kept: Option<Arc<Kept>>,
    /// The most that buffers may have of a device's own memory.
    device_memory: Option<usize>,
    /// Whom host memory comes from, if that is not the process.
    host_allocator: Option<HostAllocator>,
    /// They are told of each node that ends.
    sinks: Vec<Box<dyn Sink>>,
    drainer: proxy::Drainer,
    pub(crate) watch: Watch,
    pub(crate) staging: StagingLimits,
    /// Driven by hand: nothing here starts a thread.
    pub(crate) manual: bool,
}

impl Inner {
    pub(crate) fn new(settings: Settings) -> Arc<Self> {
        let Settings { manual, watch, staging, residency, hang_timeout, budget, .. } = settings;
        let Settings { device_memory, host_allocator, sinks, many, in_pieces, .. } = settings;
        let threads = usize::from(!manual);
        let mut engine = Engine::new();
        engine.set_staging_chunk(staging.chunk);
        many.into_iter().for_each(|roots| engine.set_many(roots));
        engine.set_pinned_most(staging.chunk.saturating_mul(pool::PINNED_CHUNKS));
        let reaper = memory::Reaper::default();
        let names = Arc::<Names>::default();
        let mut state = State {
            engine,
            lanes: Vec::new(),
            memories: HashMap::new(),
            domains: HashMap::new(),
            proxies: HashMap::new(),
            steps: HashMap::new(),
            alive: None,
            leaked: Vec::new(),
            reaper: reaper.clone(),
            making: 0,
            look_again: false,
            building: 0,
            starved: Vec::new(),
            called_for: SmallVec::new(),
            room: Vec::new(),
            closed: false,
            counters: Counters::default(),
            tracer: None,
            names: names.clone(),
        };
        if !sinks.is_empty() {
            state.trace_for_sinks();
        }
        forked::watch();
        process_exit::watch_main();
        Arc::new_cyclic(|weak| {
            let gates = Executor::new("windlass-gates", threads);
            Inner {
                state: CombiningLock::new(state),
                drainer: proxy::Drainer::new(weak.clone()),
                watch,
                gates,
                user: Executor::new("windlass-user", threads),
                reporter: report::Reporter::default(),
                somebody_looks: OnceLock::new(),
                reaper,
                in_use: in_use::InUse::default(),
                loans: loans::Loans::default(),
                turns: room::Turns::default(),
                names,
                residency,
                in_pieces,
                hangs: hang::Hangs::new(hang_timeout),
                budget: Arc::new(Budget::new(budget)),
                heap_kept: (!manual).then(|| Arc::new(Kept::new(weak.clone()))),
                device_memory,
                host_allocator,
                sinks,
                staging,
                manual,
            }
        })
    }

    /// Puts a lane's native end in its place.
    pub(crate) fn set_lane(self: &Arc<Self>, lane: LaneShell, effects: &mut Effects) {
        self.with_state(effects, |state, _| {
            let at = lane.id.0 as usize;
            state.lanes[at] = Some(Arc::new(lane));
        });
    }

    /// Refuses everything in a child that was [`forked`] from a process with runtimes. It comes before any
    /// lock is taken: the thread that had it may not be there.
    pub(crate) fn check_process() -> Result<(), Error> {
        match forked::is_child() {
            true => Err(Error::new(crate::error::Kind::Forked)),
            false => Ok(()),
        }
    }

    /// Refuses what comes after shutdown.
    pub(crate) fn check_open(state: &State) -> Result<(), Error> {
        match state.closed {
            true => Err(Error::new(crate::error::Kind::ShutDown)),
            false => Ok(()),
        }
    }
}

impl State {
    /// The domain of a context: one that it shares, or one of its own.
    pub(crate) fn domain(&mut self, shared: Option<(usize, NativeDomain)>) -> DomainId {
        let State { engine, domains, .. } = self;
        match shared {
            Some(shared) => *domains.entry(shared).or_insert_with(|| engine.add_domain()),
            None => engine.add_domain(),
        }
    }

    /// Makes room for a lane whose native end is being opened.
    pub(crate) fn reserve_lane(&mut self, lane: LaneId) {
        debug_assert_eq!(lane.0 as usize, self.lanes.len());
        self.lanes.push(None);
    }

    /// A context has ended. If it is being given up, its device may go on for ever with what it was fed: the engine knows the
    /// buffers that this touches; staging, and what stands in for empty arguments, is the shell's own. What of these is kept for
    /// later is not freed either: that might be to wait for the device.
    pub(crate) fn lose(&mut self, context: ContextId, cause: Cause, turn: &mut Turn<Windlass>) {
        self.name_no_more();
        let State { engine, lanes, leaked, .. } = self;
        if engine.is_abandoned(context) {
            let in_flight: Vec<NodeId> = engine.in_flight_of(context).collect();
            for node in in_flight {
                if let Some(Work::Transfer(transfer)) = engine.work_mut(node) {
                    leaked.extend(transfer.staging.clone());
                }
            }
            for lane in lanes.iter().flatten().filter(|lane| engine.context_of(lane.id) == context) {
                leaked.extend(lane.blank.made().cloned());
                leaked.extend(lane.staging.give_up());
                leaked.extend(lane.kept.iter().flat_map(|kept| kept.close()));
            }
        }
        engine.lose(context, cause, turn);
    }

    /// Whether a device may still touch this memory which was given up.
    fn is_leaked(&self, memory: &Arc<dyn Allocation>) -> bool {
        self.leaked.iter().any(|leaked| Arc::ptr_eq(leaked, memory))
    }

    /// What the staging pools of all contexts have and have done, and the most that one of them has had.
    pub(crate) fn count_staging(&self) -> StagingCount {
        let mut all = StagingCount::default();
        for pool in distinct(self.lanes.iter().flatten().map(|lane| &lane.staging)) {
            let count = pool.count();
            all.allocations += count.allocations;
            all.bytes += count.bytes;
            all.most = all.most.max(count.most);
        }
        all
    }

    /// What keeps memory that buffers have let go of, for each context.
    pub(crate) fn kept(&self) -> Vec<Arc<Kept>> {
        distinct(self.lanes.iter().flatten().filter_map(|lane| lane.kept.as_ref()))
    }

    fn lane(&self, lane: LaneId) -> &Arc<LaneShell> {
        native_lane(&self.lanes, lane)
    }
}

/// Each once, of what several lanes have.
fn distinct<'a, T: 'a>(of: impl Iterator<Item = &'a Arc<T>>) -> Vec<Arc<T>> {
    let mut all: Vec<Arc<T>> = of.cloned().collect();
    all.sort_by_key(Arc::as_ptr);
    all.dedup_by_key(|one| Arc::as_ptr(one));
    all
}

fn native_lane(lanes: &[Option<Arc<LaneShell>>], lane: LaneId) -> &Arc<LaneShell> {
    match &lanes[lane.0 as usize] {
        Some(lane) => lane,
        None => unreachable!("a lane is opened before anything is submitted to its device"),
    }
}

/// Drops lanes with their staging, and closes their contexts; this may block.
fn close(lanes: Vec<Arc<LaneShell>>) {
    let mut contexts: Vec<Arc<dyn NativeContext>> = Vec::new();
    for lane in lanes {
        drop(lane.staging.clear());
        drop(lane.kept.as_ref().map(|kept| kept.close()));
        if !contexts.iter().any(|c| Arc::ptr_eq(c, &lane.context)) {
            contexts.push(lane.context.clone());
        }
    }
    for context in contexts {
        if let Err(panic) = catch(|| futures_lite::future::block_on(context.close())) {
            tracing::error!(message = panic.message(), "a backend panicked when its context was closed");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.end_kept_heap();
        if forked::is_child() {
            // What there is of drivers and threads is the parent's.
            let State { lanes, memories, leaked, engine, .. } = self.state.get_mut();
            let state = (std::mem::take(lanes), std::mem::take(memories), std::mem::take(leaked));
            let allocator = self.host_allocator.take();
            return std::mem::forget((state, std::mem::take(engine), self.reaper.clone(), allocator));
        }
        self.gates.close();
        self.user.close();
        let mut effects = Effects::default();
        let lanes = self.state.with(&mut effects, |state, _| {
            state.memories.clear();
            std::mem::forget(std::mem::take(&mut state.leaked));
            std::mem::take(&mut state.lanes)
        });
        let lanes = lanes.into_iter().flatten().collect();
        // Native objects are closed where that may block, and by nobody if the process ends first.
        match self.manual {
            true => close(lanes),
            false => blocking::unblock(|| close(lanes)).detach(),
        }
    }
}
