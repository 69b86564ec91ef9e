//! Commands as owned values: checked by `feed` on the caller's thread, and encoded by the submitter later.

use std::cell::RefCell;
use std::ops::Range;

use smallvec::SmallVec;
use windlass_backend::{BackendError, Command, CopyBox, Fill, Region};

use crate::error::unsupported;
use crate::gpu::Gpu;
use crate::launch::Dispatch;
use crate::memory::{BufferBox, HostBox, Memory, Use, overlap};
use crate::native_call;

/// How many bytes it takes next to no time to copy.
pub(crate) const LIGHT: usize = 64 << 10;

/// A checked command that owns all it needs, except for host memory, which the runtime keeps alive.
#[derive(Debug)]
pub(crate) enum Op {
    Launch(Box<Dispatch>),
    /// From host memory, by way of staging, to which the submitter copies.
    Upload(HostBox, BufferBox),
    /// To host memory, by way of staging, from which the waiter copies.
    Download(BufferBox, HostBox),
    /// By the device alone. Either may be memory of the host that the device reaches.
    Move(BufferBox, BufferBox),
    Fill(BufferBox, Box<[u8]>),
    /// What the program itself has recorded, until it is encoded.
    Native(RefCell<Option<wgpu::CommandBuffer>>),
}

/// Who touches host memory: a thread of the host, when a batch is encoded or has ended, or the device in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Host,
    Device,
}

/// Host memory that an operation reads or writes.
#[derive(Clone, Debug)]
pub(crate) struct Touched {
    pub(crate) addresses: Range<usize>,
    pub(crate) by: By,
}

impl Touched {
    fn by(by: By, addresses: Range<usize>) -> Option<Self> {
        Some(Touched { addresses, by })
    }

    fn meets(&self, other: &Touched) -> bool {
        overlap(&self.addresses, &other.addresses)
    }
}

impl Op {
    /// The host memory that it reads.
    fn read(&self) -> Option<Touched> {
        match self {
            Op::Upload(from, _) => Touched::by(By::Host, from.addresses()),
            Op::Move(from, _) => Touched::by(By::Device, from.addresses.clone()?),
            Op::Launch(_) | Op::Download(..) | Op::Fill(..) | Op::Native(_) => None,
        }
    }

    /// The host memory that it writes.
    pub(crate) fn written(&self) -> Option<Touched> {
        match self {
            Op::Download(_, to) => Touched::by(By::Host, to.addresses()),
            Op::Move(_, to) | Op::Fill(to, _) => Touched::by(By::Device, to.addresses.clone()?),
            Op::Launch(_) | Op::Upload(..) | Op::Native(_) => None,
        }
    }

    /// Whether it may not be encoded before `written`, of an earlier operation, is in place. What the device does is in the order of
    /// the queue. The host reads before all of that, and writes behind it, in the order of the operations.
    pub(crate) fn waits_for(&self, written: &Touched) -> bool {
        let read = self
            .read()
            .is_some_and(|read| read.meets(written) && (read.by, written.by) != (By::Device, By::Device));
        let overtakes = self
            .written()
            .is_some_and(|own| own.meets(written) && (own.by, written.by) == (By::Device, By::Host));
        read || overtakes
    }

    /// Whether to encode it takes next to no time.
    pub(crate) fn is_light(&self) -> bool {
        match self {
            Op::Launch(_) => true,
            Op::Move(_, to) => to.region.is_contiguous(),
            Op::Fill(to, pattern) => to.region.is_contiguous() && pattern.iter().all(|byte| *byte == 0),
            Op::Upload(from, _) => from.addresses().len() <= LIGHT,
            Op::Download(from, _) => from.region.is_contiguous(),
            // It is a submission by itself, and one may have to wait for another.
            Op::Native(_) => false,
        }
    }
}

/// The operations of one group; commands on no bytes are left out.
pub(crate) type Ops = SmallVec<[Op; 1]>;

/// Checks all of a group's commands before any is fed.
pub(crate) fn pack(gpu: &Gpu, commands: SmallVec<[Command<'_>; 1]>) -> Result<Ops, BackendError> {
    let mut ops = Ops::new();
    for command in commands {
        match command {
            Command::Launch(launch) => ops.push(Op::Launch(Box::new(Dispatch::new(gpu, &launch)?))),
            Command::Copy(copy) => ops.extend(pack_copy(&copy)?),
            Command::Fill(fill) => ops.extend(pack_fill(&fill)?),
            Command::Native(call) => ops.push(Op::Native(Some(native_call::record(gpu, call)?).into())),
            Command::Host(_) => return unsupported("a host body on a wgpu device"),
            other => return unsupported(format!("{other:?} on a wgpu device")),
        }
    }
    in_order(&ops)?;
    Ok(ops)
}

/// Refuses a group that touches host memory which it has written before, unless the device does both. A group is part of one
/// submission, before which the host reads, and after which it writes.
fn in_order(ops: &[Op]) -> Result<(), BackendError> {
    let mut written: SmallVec<[Touched; 1]> = SmallVec::new();
    for op in ops {
        if written.iter().any(|written| op.waits_for(written)) {
            return unsupported("host memory that one group first writes and then uses");
        }
        written.extend(op.written());
    }
    Ok(())
}

fn pack_copy(copy: &CopyBox<'_>) -> Result<Option<Op>, BackendError> {
    let (from, to) = copy.regions()?;
    if (from.width, from.rows, from.slices) != (to.width, to.rows, to.slices) {
        return unsupported(format!("a copy between boxes of different shapes, {from:?} and {to:?}"));
    }
    if from.bytes() == 0 {
        return Ok(None);
    }
    let (from, to) = joined(from, to);
    match (Memory::of(copy.from), Memory::of(copy.to)) {
        (Some(a), Some(b)) => {
            let (source, target) = (BufferBox::new(a, from, Use::Read)?, BufferBox::new(b, to, Use::Write)?);
            // Bytes are merged into words (see `bytes`), and the host may be writing others of the same words in its own memory.
            let merges = !(source.is_whole && target.is_whole);
            match target.addresses {
                Some(_) if merges => download(a, from, copy, to),
                _ => Ok(Some(Op::Move(source, target))),
            }
        }
        (Some(a), None) => download(a, from, copy, to),
        (None, Some(b)) => upload(copy, from, b, to),
        (None, None) => unsupported("a copy from host memory to host memory on a wgpu lane"),
    }
}

fn upload(copy: &CopyBox<'_>, from: Region, memory: &Memory, to: Region) -> Result<Option<Op>, BackendError> {
    Ok(Some(Op::Upload(HostBox::new(copy.from, from)?, BufferBox::new(memory, to, Use::Write)?)))
}

fn download(
    memory: &Memory,
    from: Region,
    copy: &CopyBox<'_>,
    to: Region,
) -> Result<Option<Op>, BackendError> {
    Ok(Some(Op::Download(BufferBox::new(memory, from, Use::Read)?, HostBox::new(copy.to, to)?)))
}

fn pack_fill(fill: &Fill<'_>) -> Result<Option<Op>, BackendError> {
    let region = fill.region()?;
    if region.bytes() == 0 {
        return Ok(None);
    }
    let Some(memory) = Memory::of(fill.memory) else {
        return unsupported("a fill of memory that is not the lane's own");
    };
    if fill.pattern.is_empty() || !region.width.is_multiple_of(fill.pattern.len()) {
        return unsupported(format!(
            "a fill of rows of {} bytes with a pattern of {}",
            region.width,
            fill.pattern.len()
        ));
    }
    let (region, _) = joined(region, region);
    let target = BufferBox::new(memory, region, Use::Write)?;
    if !target.is_whole && target.addresses.is_some() {
        return unsupported(format!(
            "a fill of parts of words, {region:?}, in memory that is the host's too"
        ));
    }
    Ok(Some(Op::Fill(target, fill.pattern.into())))
}

/// Both boxes as lines, if neither has gaps: one native copy instead of one for each row.
fn joined(a: Region, b: Region) -> (Region, Region) {
    if a.is_contiguous() && b.is_contiguous() {
        return (Region::line(a.offset, a.bytes()), Region::line(b.offset, b.bytes()));
    }
    (a, b)
}
