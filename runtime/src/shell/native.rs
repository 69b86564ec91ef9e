//! Native calls: a popped group becomes the commands of the contract, and is handed to its lane. This is the one place where
//! the runtime makes the promises that [`Lane::feed`] asks for.
//!
//! [`Lane::feed`]: windlass_backend::Lane::feed

use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{
    Allocation, Arg, BackendError, BufferArg, BuiltKernel, Command, CopyBox, Fill, Group, HostCode,
    HostLaunch, Launch, Point, Region, Wait,
};
use windlass_kernel::RawSpan;
use windlass_sync::panics::catch;

use super::LaneShell;
use super::feed::{Job, Move, ToFeed};
use super::work::{Binding, Planned, PlannedArg, empty_span};
use crate::error::{Cause, Error};
use windlass_engine::{Fed, MemoryId, RootId, Step};

/// Where and how a group is fed.
#[derive(Clone, Copy)]
struct Place<'a> {
    lane: &'a LaneShell,
    point: Point,
    waits: &'a [Wait],
    report: bool,
    timed: bool,
}

impl<'a> Place<'a> {
    /// Makes the native call.
    fn feed<'c>(self, commands: SmallVec<[Command<'c>; 1]>) -> Result<(), BackendError>
    where
        'a: 'c,
    {
        let Place { lane, point, waits, report, timed } = self;
        let group = Group::new(point, waits, commands).report(report).timed(timed);
        // SAFETY: a node counts as a user of the roots whose allocations its commands name until it has settled, which a
        // verdict at or above its point, or the loss of its context, has to come before; staging is leased until then; and
        // the engine frees and hands out no allocation of a root that has users. What else uses the same bytes is ordered
        // before or behind this group, by the lane or by its waits: the engine's edges.
        unsafe { lane.native.feed(group) }
    }
}

/// Makes one group's native call. A backend that refuses or panics has its group fail; a barrier takes its place, so
/// that what is ordered through the group stays ordered. A lane that says it is lost, or takes not even a barrier, is
/// `dead`: no verdict of it would ever cover this point, so its context counts as lost from here on.
pub(super) fn feed_one(lane: &LaneShell, entry: &mut ToFeed, dead: &mut Option<Cause>) -> Option<Fed<Cause>> {
    let ToFeed { node, point, waits, job, memory, report, timed } = entry;
    let node = node.take()?;
    let place = Place { lane, point: *point, waits, report: *report, timed: *timed };
    let attempt = catch(|| match job {
        Job::Barrier => place.feed(SmallVec::new()),
        Job::Commands(commands) => feed_commands(place, commands, memory),
        Job::Transfer(transfer) => feed_transfer(place, transfer, memory),
    });
    let refused = match attempt {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(replace_by_barrier(place, error, dead)),
        Err(panic) => Some(replace_by_barrier(place, BackendError::Panicked(panic.message().into()), dead)),
    };
    Some(Fed { node, refused })
}

/// See [`feed_one`]. Returns why the group has failed.
#[cold]
fn replace_by_barrier(place: Place<'_>, refused: BackendError, dead: &mut Option<Cause>) -> Cause {
    let lost = |error: BackendError| match error.is_lost() {
        true => error,
        false => BackendError::Lost(format!("its lane takes nothing any more: {error}")),
    };
    let replaced = match refused.is_lost() {
        true => Err(refused.clone()),
        false => catch(|| place.feed(SmallVec::new()))
            .unwrap_or_else(|panic| Err(BackendError::Panicked(panic.message().into()))),
    };
    let doing = "handing a group to the device";
    if let Err(error) = replaced {
        dead.get_or_insert_with(|| Cause(Error::backend(lost(error), doing)));
    }
    Cause(Error::backend(refused, doing))
}

#[inline(never)]
fn feed_transfer(
    place: Place<'_>,
    transfer: &Move,
    memory: &[(RootId, MemoryId, Arc<dyn Allocation>)],
) -> Result<(), BackendError> {
    let Move { step, from: from_region, to: to_region, staging } = transfer;
    if step.step == Step::Clear {
        let (_, _, memory) = memory.first().ok_or_else(gone)?;
        return place.feed(SmallVec::from_iter([Command::Fill(Fill::new(&**memory, *to_region, &[0]))]));
    }
    let staging = staging.as_deref();
    let find = |wanted: MemoryId| memory.iter().find(|(_, m, _)| *m == wanted).map(|(_, _, a)| &**a);
    let (from, to) = match step.step {
        Step::Direct | Step::Clear => (find(step.from), find(step.to)),
        Step::Download => (find(step.from), staging),
        Step::Upload => (staging, find(step.to)),
    };
    let (Some(from), Some(to)) = (from, to) else { return Err(gone()) };
    let copy = CopyBox::new((from, *from_region), (to, *to_region));
    place.feed(SmallVec::from_iter([Command::Copy(copy)]))
}

fn feed_commands(
    place: Place<'_>,
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
        let range = body.range();
        let launch = HostLaunch::new(HostCode::Once(body), range, spans);
        return place.feed(SmallVec::from_buf([Command::Host(launch)]));
    }
    feed_several(place, commands, find)
}

#[inline(never)]
fn feed_several<'a>(
    place: Place<'a>,
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
            let range = body.range();
            bodies.push(HostLaunch::new(HostCode::Once(body), range, spans));
        }
    }
    let arguments = commands
        .iter()
        .map(|c| arguments(place.lane, c, find))
        .collect::<Result<SmallVec<[Arguments<'_>; 1]>, _>>()?;
    let mut bodies = bodies.into_iter();
    let native = commands.iter().zip(&arguments).map(|(command, args)| match command {
        Planned::Host(_) => bodies.next().map(Command::Host).ok_or_else(gone),
        Planned::Kernel(launch) => {
            let kernel = args.kernel.as_deref().ok_or_else(gone)?;
            Ok(Command::Launch(Launch::new(kernel, launch.range, &args.list)))
        }
        Planned::Copy(copy) => Ok(Command::Copy(CopyBox::new(
            (find(&copy.from)?, copy.from.region()),
            (find(&copy.to)?, copy.to.region()),
        ))),
        Planned::Fill(fill) => Ok(Command::Fill(Fill::new(find(&fill.to)?, fill.to.region(), &fill.pattern))),
        Planned::HostTask(_) => Err(BackendError::Unsupported("a host task on a lane".into())),
    });
    let native = native.collect::<Result<SmallVec<[Command<'_>; 1]>, _>>()?;
    place.feed(native)
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
    lane: &'a LaneShell,
    command: &'a Planned<'static>,
    find: impl Fn(&Binding) -> Result<&'a dyn Allocation, BackendError>,
) -> Result<Arguments<'a>, BackendError> {
    let Planned::Kernel(launch) = command else { return Ok(Arguments::default()) };
    let list = launch.args.iter().map(|arg| {
        Ok(match arg {
            PlannedArg::Buffer(binding, access) => {
                let (memory, region) = match binding.is_empty() {
                    true => (lane.blank.get(&*lane.context)?, Region::line(0, 0)),
                    false => (find(binding)?, binding.region()),
                };
                let element = binding.element as usize;
                Arg::Buffer(BufferArg::new(memory, region, element, *access, binding.word))
            }
            PlannedArg::Value(bytes) => Arg::Value(bytes),
            PlannedArg::Local(bytes) => Arg::Local(*bytes),
        })
    });
    let kernel = launch.built.ready();
    if let Some(kernel) = &kernel {
        launch.check(kernel.limits()).map_err(|error| BackendError::Unsupported(error.to_string()))?;
    }
    Ok(Arguments { kernel, list: list.collect::<Result<_, BackendError>>()? })
}

fn gone() -> BackendError {
    BackendError::Unsupported("memory that is not there: a defect of the runtime".into())
}

fn not_host() -> BackendError {
    BackendError::Unsupported("a host body over memory that the host cannot reach".into())
}
