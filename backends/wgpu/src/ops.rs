//! Commands as owned values: checked by `feed` on the caller's thread, and encoded by the submitter later.

use std::ops::Range;

use smallvec::SmallVec;
use windlass_backend::{BackendError, Command, CopyBox, Fill, Region};

use crate::error::unsupported;
use crate::gpu::Gpu;
use crate::launch::Dispatch;
use crate::memory::{DeviceBox, DeviceMemory, HostBox, Use, overlap};

/// A checked command that owns all it needs, except for host memory, which the runtime keeps alive.
#[derive(Debug)]
pub(crate) enum Op {
    Launch(Box<Dispatch>),
    /// From host memory.
    Upload(HostBox, DeviceBox),
    /// To host memory.
    Download(DeviceBox, HostBox),
    /// Inside the device.
    Move(DeviceBox, DeviceBox),
    Fill(DeviceBox, Box<[u8]>),
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
            Command::Host(_) => return unsupported("a host body on a wgpu device"),
            other => return unsupported(format!("{other:?} on a wgpu device")),
        }
    }
    in_order(&ops)?;
    Ok(ops)
}

/// Refuses a group that writes host memory and then reads it. Host memory is read before a submission starts, and written
/// after it has ended, so within one group, which is part of one submission, the read would come too early.
fn in_order(ops: &[Op]) -> Result<(), BackendError> {
    let mut written: SmallVec<[Range<usize>; 1]> = SmallVec::new();
    for op in ops {
        match op {
            Op::Download(_, host) => written.push(host.addresses()),
            Op::Upload(host, _) if written.iter().any(|w| overlap(w, &host.addresses())) => {
                return unsupported("host memory that one group first writes and then reads");
            }
            _ => {}
        }
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
    Ok(Some(match (DeviceMemory::of(copy.from), DeviceMemory::of(copy.to)) {
        (Some(a), Some(b)) => {
            Op::Move(DeviceBox::new(a, from, Use::Read)?, DeviceBox::new(b, to, Use::Write)?)
        }
        (Some(a), None) => Op::Download(DeviceBox::new(a, from, Use::Read)?, HostBox::new(copy.to, to)?),
        (None, Some(b)) => Op::Upload(HostBox::new(copy.from, from)?, DeviceBox::new(b, to, Use::Write)?),
        (None, None) => return unsupported("a copy from host memory to host memory on a wgpu lane"),
    }))
}

fn pack_fill(fill: &Fill<'_>) -> Result<Option<Op>, BackendError> {
    let region = fill.region()?;
    if region.bytes() == 0 {
        return Ok(None);
    }
    let Some(memory) = DeviceMemory::of(fill.memory) else {
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
    Ok(Some(Op::Fill(DeviceBox::new(memory, region, Use::Write)?, fill.pattern.into())))
}

/// Both boxes as lines, if neither has gaps: one native copy instead of one for each row.
fn joined(a: Region, b: Region) -> (Region, Region) {
    if a.is_contiguous() && b.is_contiguous() {
        return (Region::line(a.offset, a.bytes()), Region::line(b.offset, b.bytes()));
    }
    (a, b)
}
