//! Native calls: a popped group becomes the commands of the contract, and is handed to its lane. This is the one place where
//! the runtime makes the promises that [`Lane::feed`] asks for.
//!
//! [`Lane::feed`]: windlass_backend::Lane::feed

use std::any::Any;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{
    Allocation, Arg, BackendError, BufferArg, BuiltKernel, Command, CopyBox, Fill, Group, HostCode,
    HostLaunch, ImageArg, ImageShape, Keeps, Launch, NativeCall, NativeCode, Node, Part, Point, Region,
    Sequence, Texels, Wait,
};
use windlass_kernel::{RawSpan, Slot, SlotAccess};
use windlass_sync::panics::catch;

use super::waking::catch_native;

use super::LaneShell;
use super::feed::{Job, Move, ToFeed};
use super::recorded::Recorded;
use super::work::{Binding, DeviceCommand, KernelArg, Planned, PlannedBody, PlannedNative, empty_span};
use crate::error::{Cause, Error};
use windlass_engine::{Fed, MemoryId, RootId, Step};

/// Where and how a group is fed.
#[derive(Clone, Copy)]
struct Place<'a> {
    lane: &'a LaneShell,
    point: Point,
    waits: &'a [Wait],
    report: bool,
    at_leisure: bool,
    timed: bool,
    more: bool,
}

impl<'a> Place<'a> {
    /// Makes the native call.
    fn feed<'c>(self, commands: SmallVec<[Command<'c>; 1]>) -> Result<(), BackendError>
    where
        'a: 'c,
    {
        let Place { lane, point, waits, report, at_leisure, timed, more } = self;
        let group = Group::new(point, waits, commands).report(report).at_leisure(at_leisure);
        let group = group.timed(timed).more(more);
        // SAFETY: a node counts as a user of the roots whose allocations its commands name until it has settled, which a
        // verdict at or above its point, or the loss of its context, has to come before; staging is leased until then; and
        // the engine frees no allocation of a root that has users, and lets no other root have it but one whose users come
        // behind all of those. What else uses the same bytes is ordered before or behind this group, by the lane or by its waits:
        // the engine's edges.
        unsafe { lane.native.feed(group) }
    }
}

/// Makes one group's native call. A backend that refuses or panics has its group fail; a barrier takes its place, so
/// that what is ordered through the group stays ordered. A lane that says it is lost, or takes not even a barrier, is
/// `dead`: no verdict of it would ever cover this point, so its context counts as lost from here on.
pub(super) fn feed_one(
    lane: &LaneShell,
    entry: &mut ToFeed,
    more: bool,
    dead: &mut Option<Cause>,
) -> Option<Fed<Cause>> {
    let ToFeed { node, point, waits, job, memory, report, at_leisure, timed } = entry;
    let node = node.take()?;
    let (report, at_leisure, timed) = (*report, *at_leisure, *timed);
    let place = Place { lane, point: *point, waits, report, at_leisure, timed, more };
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
    // A lane that says it is lost needs no barrier: the loss of its context ends all that is on it, passed or not.
    let replaced = match refused.is_lost() {
        true => Err(refused.clone()),
        false => catch_native(|| place.feed(SmallVec::new())),
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
    if matches!(step.step, Step::Clear | Step::Map | Step::Unmap) {
        let (_, _, memory) = memory.first().ok_or_else(gone)?;
        let (memory, part) = of_part(&**memory, *to_region);
        let command = match step.step {
            Step::Map => Command::Map(memory),
            Step::Unmap => Command::Unmap(memory),
            _ => Command::Fill(Fill::new(memory, part, &[0])),
        };
        return place.feed(SmallVec::from_iter([command]));
    }
    let staging = staging.as_deref();
    let find = |wanted: MemoryId| memory.iter().find(|(_, m, _)| *m == wanted).map(|(_, _, a)| &**a);
    let (from, to) = match step.step {
        Step::Direct | Step::Clear | Step::Map | Step::Unmap => (find(step.from), find(step.to)),
        Step::Download => (find(step.from), staging),
        Step::Upload => (staging, find(step.to)),
    };
    let (Some(from), Some(to)) = (from, to) else { return Err(gone()) };
    let copy = CopyBox::new(of_part(from, *from_region), of_part(to, *to_region));
    place.feed(SmallVec::from_iter([Command::Copy(copy)]))
}

/// The memory of a group's buffers where it is fed.
#[derive(Clone, Copy)]
pub(super) struct Memory<'a>(&'a [(RootId, MemoryId, Arc<dyn Allocation>)]);

impl<'a> Memory<'a> {
    /// What a window is in.
    fn of(self, binding: &Binding) -> Result<&'a dyn Allocation, BackendError> {
        self.shared(binding.root).map(|memory| &**memory)
    }

    /// A buffer's.
    pub(super) fn shared(self, root: RootId) -> Result<&'a Arc<dyn Allocation>, BackendError> {
        self.0.iter().find(|(of, ..)| *of == root).map(|(_, _, memory)| memory).ok_or_else(gone)
    }
}

fn feed_commands(
    place: Place<'_>,
    commands: &mut [Planned<'static>],
    memory: &[(RootId, MemoryId, Arc<dyn Allocation>)],
) -> Result<(), BackendError> {
    let memory = Memory(memory);
    // The one command of most groups needs no side tables.
    match commands {
        [Planned::Host(body)] => {
            let launch = host_launch(body, memory)?;
            place.feed(SmallVec::from_buf([Command::Host(launch)]))
        }
        [Planned::Device(command)] => {
            let mut arguments = Arguments::default();
            command.arguments(place.lane, memory, &mut arguments)?;
            place.feed(SmallVec::from_buf([command.native(&arguments, memory)?]))
        }
        _ => feed_several(place, commands, memory),
    }
}

/// A host body with its memory.
fn host_launch(
    body: &mut Option<Box<dyn PlannedBody>>,
    memory: Memory<'_>,
) -> Result<HostLaunch, BackendError> {
    let body = body.take().ok_or_else(gone)?;
    let mut spans = SmallVec::new();
    find_spans(body.windows(), &mut spans, memory)?;
    let range = body.range();
    Ok(HostLaunch::new(HostCode::Once(body), range, spans))
}

/// What a group's command comes to: recorded commands that are no sequence here are several.
enum Piece<'a> {
    /// A closure moves into the lane; everything else is lent for the call.
    Ready(Box<Command<'a>>),
    Device(&'a DeviceCommand),
}

#[inline(never)]
fn feed_several(
    place: Place<'_>,
    commands: &mut [Planned<'static>],
    memory: Memory<'_>,
) -> Result<(), BackendError> {
    let mut parts = SmallVec::<[Piece<'_>; 1]>::new();
    for command in commands {
        match command {
            Planned::Host(body) => {
                parts.push(Piece::Ready(Box::new(Command::Host(host_launch(body, memory)?))))
            }
            Planned::Device(command) => parts.push(Piece::Device(command)),
            Planned::Replay(recorded) if recorded.is_sequence() => {
                let sequence = recorded.sequence(place.lane, memory)?;
                parts.push(Piece::Ready(Box::new(Command::Replay(sequence))));
            }
            Planned::Replay(recorded) => parts.extend(recorded.commands.iter().map(Piece::Device)),
            Planned::Native(code) => {
                let code = code.take().ok_or_else(gone)?;
                // The program may keep what it sees there, and then it is not to be another buffer's.
                if let Some(inner) = place.lane.kept.as_ref().and_then(|kept| kept.runtime()) {
                    memory.0.iter().for_each(|(_, _, memory)| inner.loans.forget(memory));
                }
                let roots = memory.0.iter().map(|(root, ..)| *root).collect();
                let memory = memory.0.iter().map(|(_, _, memory)| &**memory).collect();
                let call = NativeCall::new(Box::new(BoundNative { code, roots }), memory);
                parts.push(Piece::Ready(Box::new(Command::Native(call))));
            }
            Planned::HostTask(_) => return Err(BackendError::Unsupported("a host task on a lane".into())),
        }
    }
    // All of them before the first command is made: the commands borrow them.
    let mut arguments = SmallVec::<[Arguments<'_>; 1]>::new();
    arguments.resize_with(parts.len(), Arguments::default);
    for (part, arguments) in parts.iter().zip(&mut arguments) {
        if let Piece::Device(command) = *part {
            command.arguments(place.lane, memory, arguments)?;
        }
    }
    let native = parts.into_iter().zip(&arguments).map(|(part, arguments)| match part {
        Piece::Ready(command) => Ok(*command),
        Piece::Device(command) => command.native(arguments, memory),
    });
    let native = native.collect::<Result<SmallVec<[Command<'_>; 1]>, _>>()?;
    place.feed(native)
}

/// A host body's windows, each in its memory.
fn find_spans(
    windows: &[Binding],
    spans: &mut SmallVec<[RawSpan; 2]>,
    memory: Memory<'_>,
) -> Result<(), BackendError> {
    for window in windows {
        spans.push(match window.is_empty() {
            true => empty_span(window),
            false => {
                let memory = Some(memory.of(window)?).filter(|memory| memory.image().is_none());
                memory.and_then(|memory| window.span(memory)).ok_or_else(not_host)?
            }
        });
    }
    Ok(())
}

/// Native code that knows which buffers its memory belongs to.
struct BoundNative {
    code: Box<dyn PlannedNative>,
    roots: SmallVec<[RootId; 2]>,
}

impl NativeCode for BoundNative {
    fn call(self: Box<Self>, place: &mut dyn Any, memory: &[&dyn Allocation]) -> Result<(), BackendError> {
        self.code.call(&self.roots, place, memory)
    }
}

/// A kernel as the context built it, and its arguments; empty for other commands.
#[derive(Default)]
pub(super) struct Arguments<'a> {
    pub(super) kernel: Option<&'a Arc<dyn BuiltKernel>>,
    pub(super) list: SmallVec<[Arg<'a>; 4]>,
    /// What the kernel uses beside them.
    reached: SmallVec<[BufferArg<'a>; 2]>,
}

/// A window of a kernel; one over nothing has memory too, since devices take no argument without.
fn buffer_arg<'a>(
    binding: &Binding,
    access: SlotAccess,
    lane: &'a LaneShell,
    memory: Memory<'a>,
) -> Result<BufferArg<'a>, BackendError> {
    let (memory, region) = match binding.is_empty() {
        true => (&**lane.blank.get(&*lane.context)?, Region::line(0, 0)),
        false => (memory.of(binding)?, binding.region()),
    };
    Ok(BufferArg::new(memory, region, binding.element as usize, access, binding.word))
}

impl DeviceCommand {
    /// What its native command borrows, put where it is to stay: it is large.
    pub(super) fn arguments<'a>(
        &'a self,
        lane: &'a LaneShell,
        memory: Memory<'a>,
        found: &mut Arguments<'a>,
    ) -> Result<(), BackendError> {
        let DeviceCommand::Kernel(planned) = self else { return Ok(()) };
        for (arg, slot) in planned.slotted() {
            found.list.push(match arg {
                KernelArg::Value(bytes) => Arg::Value(bytes),
                KernelArg::Local(bytes) => Arg::Local(*bytes),
                KernelArg::Window(..) | KernelArg::Here => {
                    let (binding, access) = arg.window(slot).ok_or_else(gone)?;
                    match slot {
                        Slot::Image => Arg::Image(ImageArg::new(memory.of(binding)?, access)),
                        Slot::Pointer => Arg::Pointer(buffer_arg(binding, access, lane, memory)?),
                        _ => Arg::Buffer(buffer_arg(binding, access, lane, memory)?),
                    }
                }
            });
        }
        for (window, access) in &planned.launch.reached {
            found.reached.push(buffer_arg(window, *access, lane, memory)?);
        }
        found.kernel = planned.built.ready();
        if let Some(kernel) = found.kernel {
            planned.check(kernel.limits()).map_err(|error| BackendError::Unsupported(error.to_string()))?;
        }
        Ok(())
    }

    /// The native command, with its arguments.
    pub(super) fn native<'c>(
        &'c self,
        arguments: &'c Arguments<'_>,
        memory: Memory<'c>,
    ) -> Result<Command<'c>, BackendError> {
        Ok(match self {
            DeviceCommand::Kernel(planned) => {
                let kernel = arguments.kernel.ok_or_else(gone)?;
                let launch = Launch::new(&**kernel, planned.launch.range, &arguments.list);
                Command::Launch(launch.reaching(&arguments.reached))
            }
            DeviceCommand::Copy(copy) => Command::Copy(CopyBox::new(
                of_part(memory.of(&copy.from)?, copy.from.region()),
                of_part(memory.of(&copy.to)?, copy.to.region()),
            )),
            DeviceCommand::Fill(fill) => {
                let (memory, part) = of_part(memory.of(&fill.to)?, fill.to.region());
                Command::Fill(Fill::new(memory, part, &fill.pattern))
            }
        })
    }
}

/// A part of an allocation, as commands name it: of an image those texels that the bytes would be.
fn of_part(memory: &dyn Allocation, region: Region) -> (&dyn Allocation, Part) {
    (memory, part_of(memory.image(), region))
}

/// A box of bytes as a part of linear memory, or of an image.
pub(crate) fn part_of(image: Option<ImageShape>, region: Region) -> Part {
    match image {
        None => Part::Bytes(region),
        Some(shape) => Part::Texels(texels_of(&region, &shape)),
    }
}

/// The texels of an image that stand in a box of bytes where it is kept as linear memory without gaps.
fn texels_of(region: &Region, shape: &ImageShape) -> Texels {
    let texel = shape.format.bytes();
    let [_, rows, row] = shape.size;
    let first = region.offset / texel;
    let origin = [first / (rows * row), first / row % rows, first % row];
    Texels { origin, size: [region.slices, region.rows, region.width / texel] }
}

impl Recorded {
    /// Has the lane's context take the commands over, with a group's memory. Says which windows are in which memory as for a group.
    pub(super) fn record(
        &self,
        lane: &LaneShell,
        find: Memory<'_>,
        memory: &[Arc<dyn Allocation>],
    ) -> Result<Arc<dyn Sequence>, BackendError> {
        let mut arguments = Vec::new();
        arguments.resize_with(self.commands.len(), Arguments::default);
        for (command, arguments) in self.commands.iter().zip(&mut arguments) {
            command.arguments(lane, find, arguments)?;
        }
        let native: Vec<Command<'_>> = self
            .commands
            .iter()
            .zip(&arguments)
            .map(|(command, arguments)| command.native(arguments, find))
            .collect::<Result<_, _>>()?;
        let nodes: Vec<Node<'_>> =
            native.into_iter().zip(&self.after).map(|(command, after)| Node::new(command, after)).collect();
        let mut memory = memory.to_vec();
        let blank =
            |arg: &Arg<'_>| matches!(arg, Arg::Buffer(arg) | Arg::Pointer(arg) if arg.region.bytes() == 0);
        if arguments.iter().any(|of| of.list.iter().any(blank)) {
            memory.push(lane.blank.get(&*lane.context)?.clone());
        }
        let kernels: Vec<Arc<dyn BuiltKernel>> =
            arguments.iter().filter_map(|arguments| arguments.kernel.cloned()).collect();
        // SAFETY: the group that is being fed is a user of these buffers until it has ended, and so is each that runs the
        // sequence later: it asks for it with its own memory, and a sequence of other memory is not given to it. The
        // windows lie inside their buffers, and arguments are of the kinds of the kernels' slots, as for any
        // group. `order` has put each command behind all earlier ones that are in its way.
        unsafe { lane.context.record(self.slot().position(), &nodes, Keeps::new(memory, kernels)) }
    }
}

fn gone() -> BackendError {
    BackendError::Unsupported("memory that is not there: a defect of the runtime".into())
}

fn not_host() -> BackendError {
    BackendError::Unsupported("a host body over memory that the host cannot reach".into())
}

#[cfg(test)]
mod tests {
    use windlass_kernel::texel::TexelFormat;

    use super::*;

    #[test]
    fn a_part_of_an_image_is_named_by_its_texels() {
        let shape = ImageShape::new([1, 8, 16], 2, TexelFormat::R32Float);
        let part =
            Region { offset: 5 * 64 + 8, width: 12, rows: 2, slices: 1, row_pitch: 64, slice_pitch: 512 };
        assert_eq!(texels_of(&part, &shape), Texels { origin: [0, 5, 2], size: [1, 2, 3] });
        let shape = ImageShape::new([3, 2, 4], 3, TexelFormat::Rgba32Float);
        let part =
            Region { offset: 64 * 3 + 16, width: 32, rows: 1, slices: 2, row_pitch: 64, slice_pitch: 128 };
        assert_eq!(texels_of(&part, &shape), Texels { origin: [1, 1, 1], size: [2, 1, 2] });
    }
}
