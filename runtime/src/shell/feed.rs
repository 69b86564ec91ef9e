//! Feeding: making the native calls of groups that the engine has popped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{
    Allocation, Arg, BackendError, BuiltKernel, Command, CopyBox, Fill, HostCode, HostLaunch, Launch, Point,
    Region, Wait,
};
use windlass_kernel::RawSpan;

use super::waking::shielded;
use super::work::{Binding, Planned, PlannedArg, Work, empty_span};
use super::{Chores, Inner, LaneShell, Load, State, native_lane, sink};
use crate::engine::{Box3, Fed, LaneId, MemoryId, NodeId, RootId, Step, Transfer};
use crate::error::{Cause, Error};

/// How many groups a thread feeds before it leaves the rest to the executor: enough for a full native depth, and a bound
/// on what a submitter does for others.
pub(super) const SHARE: usize = 256;

/// How many are popped in one turn at the desk.
const BATCH: usize = 32;

/// A popped group with everything that its native calls need.
#[derive(Debug, Default)]
pub(super) struct ToFeed {
    node: Option<NodeId>,
    point: Point,
    waits: SmallVec<[Wait; 1]>,
    job: Job,
    memory: SmallVec<[(RootId, MemoryId, Arc<dyn Allocation>); 2]>,
}

/// Popped groups. They are large, so they are filled in and cleared in their places.
#[derive(Debug, Default)]
pub(super) struct Batch {
    entries: Vec<ToFeed>,
    used: usize,
}

impl Batch {
    /// A blank entry.
    #[inline]
    fn next(&mut self) -> &mut ToFeed {
        if self.used == self.entries.len() {
            self.entries.push(ToFeed::default());
        }
        self.used += 1;
        &mut self.entries[self.used - 1]
    }

    fn in_use(&mut self) -> impl Iterator<Item = &mut ToFeed> {
        self.entries[..self.used].iter_mut()
    }

    /// Leaves blank entries.
    fn clear(&mut self) {
        for entry in &mut self.entries[..std::mem::take(&mut self.used)] {
            let job = std::mem::take(&mut entry.job);
            entry.waits.clear();
            entry.memory.clear();
            // A refused group's captures are foreign code.
            shielded(|| drop(job));
        }
    }

    /// Keeps few entries: every thread has some.
    pub(super) fn shrink(&mut self) {
        if self.entries.len() > FEW {
            self.entries.truncate(FEW);
            self.entries.shrink_to_fit();
        }
    }
}

/// Entries that a thread keeps.
const FEW: usize = 4;

/// What to feed.
#[derive(Debug, Default)]
enum Job {
    /// Nothing: a group that does not run any more.
    #[default]
    Barrier,
    /// None of a group that is a barrier.
    Commands(Load),
    Transfer(Box<Move>),
}

/// A step of a transfer in bytes.
#[derive(Debug)]
struct Move {
    step: Transfer,
    from: Region,
    to: Region,
    staging: Option<Arc<dyn Allocation>>,
}

impl State {
    /// Takes groups for the holder of the lane's token, with their commands and memory.
    pub(super) fn pop_batch(&mut self, lane: LaneId, batch: &mut Batch) {
        let before = batch.used;
        while batch.used < BATCH
            && let Some(popped) = self.engine.pop(lane)
        {
            let entry = batch.next();
            (entry.node, entry.point) = (Some(popped.node), Point(popped.point));
            self.outfit(entry, popped.node, popped.live);
        }
        self.counters.fed += (batch.used - before) as u64;
    }

    #[inline]
    fn outfit(&mut self, entry: &mut ToFeed, node: NodeId, live: bool) {
        let Some(mut outfit) = self.engine.outfit(node) else { return };
        for &(lane, point) in outfit.waits() {
            let number = native_lane(&self.lanes, lane).number;
            entry.waits.push(Wait { lane: number, point: Point(point) });
        }
        for (root, memory, allocation) in outfit.memory() {
            entry.memory.push((root, memory, allocation.clone()));
        }
        // What a group that does not run any more would have done is dropped with its work, when it settles.
        if live {
            entry.job = match outfit.take_load() {
                Some(commands) => Job::Commands(commands),
                None => self.transfer(node).map_or(Job::Barrier, Job::Transfer),
            };
        }
    }

    /// The step of a transfer that a node is, with its staging.
    #[inline(never)]
    fn transfer(&mut self, node: NodeId) -> Option<Box<Move>> {
        let Some(Work::Transfer(transfer)) = self.engine.work_mut(node) else { return None };
        let (step, staging) = (transfer.step, transfer.staging.take());
        let (from, to) = self.regions(&step)?;
        Some(Box::new(Move { step, from, to, staging }))
    }

    /// The bytes that a step of a transfer reads, and those that it writes.
    pub(super) fn regions(&self, step: &Transfer) -> Option<(Region, Region)> {
        let (extent, unit, bytes) = self.engine.shape(step.root)?;
        let region = region_of(&step.bounds, &extent, unit, bytes);
        Some(match step.step {
            Step::Direct => (region, region),
            Step::Download => (region, compact(&region)),
            Step::Upload => (compact(&region), region),
        })
    }
}

impl Inner {
    /// Feeds popped groups, then more of the same lane, until the lane is full, its list is empty, or this thread has
    /// done its share.
    pub(super) fn feed(self: &Arc<Self>, lane: &Arc<LaneShell>, chores: &mut Chores) {
        chores.is_feeding = true;
        while chores.is_feeding {
            chores.share += chores.batch.used;
            let dead = make_calls(lane, &mut chores.batch, &mut chores.fed);
            self.desk.sit(chores, |state, chores| {
                state.engine.confirm(chores.fed.drain(..), &mut chores.turn);
                if let Some(cause) = dead {
                    state.lose_lane(lane.id, cause, &mut chores.turn);
                }
                if !chores.has_done_its_share() && state.engine.can_pop(lane.id) {
                    state.pop_batch(lane.id, &mut chores.batch);
                }
                if chores.batch.used == 0 {
                    state.engine.release_lane(lane.id, &mut chores.turn);
                    if chores.has_done_its_share() {
                        // What is left on the list, if anything is, waits for somebody else.
                        chores.turn.ready_lanes.push(lane.id);
                    }
                    chores.is_feeding = false;
                }
                state.file(chores);
            });
        }
    }

    /// Leaves lanes to be fed, and points to be armed, to the executor.
    pub(super) fn feed_elsewhere(
        self: &Arc<Self>,
        lanes: Vec<LaneId>,
        arm: SmallVec<[(Arc<LaneShell>, u64); 1]>,
    ) {
        let inner = self.clone();
        self.gates.spawn(async move {
            for (lane, point) in arm {
                if let Some(cause) = arm_one(&lane, point) {
                    inner.enter(|state, turn| state.lose_lane(lane.id, cause, turn));
                }
            }
            inner.enter(|_, turn| turn.ready_lanes.extend(lanes));
        });
    }
}

/// Makes the native calls of popped groups. What it returns is why the lane is dead, if it is.
fn make_calls(lane: &LaneShell, batch: &mut Batch, fed: &mut Vec<Fed<Cause>>) -> Option<Cause> {
    let mut dead = None;
    sink::quietly(|| {
        fed.extend(batch.in_use().filter_map(|entry| feed_one(lane, entry, &mut dead)));
        batch.clear();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| lane.native.flush())) {
            dead.get_or_insert_with(|| dead_lane(&*panic, "flushing a lane"));
        }
    });
    dead
}

/// Has a lane report a point; says why it never will, if so.
pub(super) fn arm_one(lane: &LaneShell, point: u64) -> Option<Cause> {
    let arm = AssertUnwindSafe(|| lane.native.arm(Point(point)));
    sink::quietly(|| catch_unwind(arm)).err().map(|panic| dead_lane(&*panic, "asking a lane for a verdict"))
}

/// A lane that panicked where it cannot refuse: nobody knows what has become of what it was fed.
fn dead_lane(panic: &(dyn std::any::Any + Send), doing: &str) -> Cause {
    let error = BackendError::Lost(format!("its lane panicked: {}", panic_message(panic)));
    Cause(Error::backend(error, doing))
}

/// Makes one group's native call. A backend that refuses or panics has its group fail; a barrier takes its place, so
/// that what is ordered through the group stays ordered. A lane that says it is lost, or takes not even a barrier, is
/// `dead`: no verdict of it would ever cover this point, so its context counts as lost from here on.
fn feed_one(lane: &LaneShell, entry: &mut ToFeed, dead: &mut Option<Cause>) -> Option<Fed<Cause>> {
    let ToFeed { node, point, waits, job, memory } = entry;
    let (node, point) = (node.take()?, *point);
    let attempt = catch_unwind(AssertUnwindSafe(|| match job {
        Job::Barrier => lane.native.feed(point, waits, SmallVec::new()),
        Job::Commands(commands) => feed_commands(lane, point, waits, commands, memory),
        Job::Transfer(transfer) => feed_transfer(lane, point, waits, transfer, memory),
    }));
    let refused = match attempt {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(replace_by_barrier(lane, point, waits, error, dead)),
        Err(panic) => {
            let error = BackendError::Panicked(panic_message(&*panic));
            Some(replace_by_barrier(lane, point, waits, error, dead))
        }
    };
    Some(Fed { node, refused })
}

/// See [`feed_one`]. Returns why the group has failed.
#[cold]
fn replace_by_barrier(
    lane: &LaneShell,
    point: Point,
    waits: &[Wait],
    refused: BackendError,
    dead: &mut Option<Cause>,
) -> Cause {
    let lost = |error: BackendError| match error.is_lost() {
        true => error,
        false => BackendError::Lost(format!("its lane takes nothing any more: {error}")),
    };
    let replaced = match refused.is_lost() {
        true => Err(refused.clone()),
        false => catch_unwind(AssertUnwindSafe(|| lane.native.feed(point, waits, SmallVec::new())))
            .unwrap_or_else(|panic| Err(BackendError::Panicked(panic_message(&*panic)))),
    };
    let doing = "handing a group to the device";
    if let Err(error) = replaced {
        dead.get_or_insert_with(|| Cause(Error::backend(lost(error), doing)));
    }
    Cause(Error::backend(refused, doing))
}

#[inline(never)]
fn feed_transfer(
    lane: &LaneShell,
    point: Point,
    waits: &[Wait],
    transfer: &Move,
    memory: &[(RootId, MemoryId, Arc<dyn Allocation>)],
) -> Result<(), BackendError> {
    let Move { step, from: from_region, to: to_region, staging } = transfer;
    let staging = staging.as_deref();
    let find = |wanted: MemoryId| memory.iter().find(|(_, m, _)| *m == wanted).map(|(_, _, a)| &**a);
    let (from, to) = match step.step {
        Step::Direct => (find(step.from), find(step.to)),
        Step::Download => (find(step.from), staging),
        Step::Upload => (staging, find(step.to)),
    };
    let (Some(from), Some(to)) = (from, to) else { return Err(gone()) };
    let copy = CopyBox { from, from_region: *from_region, to, to_region: *to_region };
    lane.native.feed(point, waits, SmallVec::from_iter([Command::Copy(copy)]))
}

fn feed_commands(
    lane: &LaneShell,
    point: Point,
    waits: &[Wait],
    commands: &mut [Planned<'static>],
    memory: &[(RootId, MemoryId, Arc<dyn Allocation>)],
) -> Result<(), BackendError> {
    let find = |binding: &Binding| {
        memory.iter().find(|(root, ..)| *root == binding.root).map(|(_, _, a)| &**a).ok_or_else(gone)
    };
    // The one command of most groups on host devices needs no side tables.
    if let [Planned::Host(body)] = commands {
        let body = body.take().ok_or_else(gone)?;
        let mut spans = SmallVec::new();
        find_spans(body.windows(), &mut spans, find)?;
        let launch = HostLaunch { range: body.range(), code: HostCode::Once(body), spans };
        return lane.native.feed(point, waits, SmallVec::from_buf([Command::Host(launch)]));
    }
    feed_several(lane, point, waits, commands, find)
}

#[inline(never)]
fn feed_several<'a>(
    lane: &LaneShell,
    point: Point,
    waits: &[Wait],
    commands: &'a mut [Planned<'static>],
    find: impl Copy + Fn(&Binding) -> Result<&'a dyn Allocation, BackendError>,
) -> Result<(), BackendError> {
    // Closures move into the lane; everything else is lent for the call.
    let mut bodies = SmallVec::<[HostLaunch; 1]>::new();
    for command in &mut *commands {
        if let Planned::Host(body) = command
            && let Some(body) = body.take()
        {
            let mut spans = SmallVec::new();
            find_spans(body.windows(), &mut spans, find)?;
            bodies.push(HostLaunch { range: body.range(), code: HostCode::Once(body), spans });
        }
    }
    let arguments =
        commands.iter().map(|c| arguments(c, find)).collect::<Result<SmallVec<[Arguments<'_>; 1]>, _>>()?;
    let mut bodies = bodies.into_iter();
    let native = commands.iter().zip(&arguments).map(|(command, args)| match command {
        Planned::Host(_) => bodies.next().map(Command::Host).ok_or_else(gone),
        Planned::Kernel(launch) => {
            let kernel = args.kernel.as_deref().ok_or_else(gone)?;
            Ok(Command::Launch(Launch { kernel, range: launch.range, args: &args.list }))
        }
        Planned::Copy(copy) => Ok(Command::Copy(CopyBox {
            from: find(&copy.from)?,
            from_region: copy.from.region(),
            to: find(&copy.to)?,
            to_region: copy.to.region(),
        })),
        Planned::Fill(fill) => Ok(Command::Fill(Fill {
            memory: find(&fill.to)?,
            region: fill.to.region(),
            pattern: &fill.pattern,
        })),
        Planned::HostTask(_) => Err(BackendError::Unsupported("a host task on a lane".into())),
    });
    let native = native.collect::<Result<SmallVec<[Command<'_>; 1]>, _>>()?;
    lane.native.feed(point, waits, native)
}

/// A host body's windows, each in its memory.
fn find_spans<'a>(
    windows: &[Binding],
    spans: &mut SmallVec<[RawSpan; 2]>,
    find: impl Fn(&Binding) -> Result<&'a dyn Allocation, BackendError>,
) -> Result<(), BackendError> {
    for window in windows {
        spans.push(match window.is_empty() {
            true => empty_span(window),
            false => window.span(find(window)?).ok_or_else(not_host)?,
        });
    }
    Ok(())
}

/// A kernel as the context built it, and its arguments; empty for other commands.
#[derive(Default)]
struct Arguments<'a> {
    kernel: Option<Arc<dyn BuiltKernel>>,
    list: SmallVec<[Arg<'a>; 4]>,
}

fn arguments<'a>(
    command: &'a Planned<'static>,
    find: impl Fn(&Binding) -> Result<&'a dyn Allocation, BackendError>,
) -> Result<Arguments<'a>, BackendError> {
    let Planned::Kernel(launch) = command else { return Ok(Arguments::default()) };
    let list = launch.args.iter().map(|arg| {
        Ok(match arg {
            PlannedArg::Buffer(binding, access) => Arg::Buffer {
                memory: find(binding)?,
                region: binding.region(),
                element: binding.element as usize,
                word: binding.word,
                access: *access,
            },
            PlannedArg::Value(bytes) => Arg::Value(bytes),
            PlannedArg::Local(bytes) => Arg::Local(*bytes),
        })
    });
    Ok(Arguments { kernel: launch.built.ready(), list: list.collect::<Result<_, BackendError>>()? })
}

fn gone() -> BackendError {
    BackendError::Unsupported("memory that is not there: a defect of the runtime".into())
}

fn not_host() -> BackendError {
    BackendError::Unsupported("a host body over memory that the host cannot reach".into())
}

/// The bytes of a box of a root. The last unit of a root may be cut short by its end.
fn region_of(bounds: &Box3, extent: &Box3, unit: usize, bytes: usize) -> Region {
    let row = extent.hi[2] * unit;
    let slice = extent.hi[1] * row;
    let offset = bounds.lo[0] * slice + bounds.lo[1] * row + bounds.lo[2] * unit;
    let width = ((bounds.hi[2] - bounds.lo[2]) * unit).min(bytes - offset);
    let (rows, slices) = (bounds.hi[1] - bounds.lo[1], bounds.hi[0] - bounds.lo[0]);
    Region { offset, width, rows, slices, row_pitch: row, slice_pitch: slice }
}

/// The same box without gaps, from the start of staging memory.
fn compact(region: &Region) -> Region {
    let Region { width, rows, slices, .. } = *region;
    Region { offset: 0, width, rows, slices, row_pitch: width, slice_pitch: width * rows }
}

/// What a panic said.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".into())
}
