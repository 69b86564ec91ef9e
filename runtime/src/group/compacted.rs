//! Arguments that are parts of grids, for kernels that take elements without gaps: the launch gets a copy of the part, made before
//! it and, of what it writes, copied back behind it, by commands of the same group. Host kernels, and views of `#[kernel]`s in
//! WGSL, work on the part where it is.

use smallvec::SmallVec;
use windlass_backend::DeviceInfo;
use windlass_engine::Mode;
use windlass_kernel::{ImageFormat, Slot, SlotAccess};

use super::accessor::{Window as _, without_gaps};
use super::{CommandGroup, KernelCall};
use crate::buffer::Buffer;
use crate::error::{Error, Result};
use crate::shell::build::image_on;
use crate::shell::work::{Binding, DeviceCommand, KernelArg, PlannedCopy};

/// Copies of parts, for one launch.
pub(super) type Compacted = SmallVec<[Copied; 1]>;

/// A part and its copy.
pub(super) struct Copied {
    part: Binding,
    copy: Binding,
    /// Whether the kernel may ask for what was there.
    before: bool,
    /// Whether the kernel may have changed it.
    after: bool,
}

impl Copied {
    /// What makes the copy before the launch.
    pub(super) fn make(&self) -> Option<DeviceCommand> {
        self.before.then(|| copying(self.part, self.copy))
    }

    /// What brings it back behind the launch.
    pub(super) fn bring_back(&self) -> Option<DeviceCommand> {
        self.after.then(|| copying(self.copy, self.part))
    }
}

fn copying(from: Binding, to: Binding) -> DeviceCommand {
    DeviceCommand::Copy(Box::new(PlannedCopy { from, to }))
}

impl<'g> CommandGroup<'g> {
    /// The call with copies for the arguments that have gaps, where the device's kernels take none.
    pub(super) fn compact(&self, call: &mut KernelCall<'g>) -> Result<Compacted> {
        let mut copies = Compacted::new();
        let slot = &self.queue.slot;
        if slot.runs_host_bodies() {
            return Ok(copies);
        }
        for at in 0..call.launch.args.len() {
            let Some((part, access, mode)) = call.part_with_gaps(at) else { continue };
            if call.is_strided(at, &part, &slot.device.info)? {
                continue;
            }
            if mode == Mode::Concurrent {
                return Err(Error::unsupported(format!(
                    "argument {at} of kernel `{}` is a part of a grid whose rows do not follow each other, of which {} gets a copy, \
                     and others change it at the same time: pass the whole grid",
                    call.kernel().name(),
                    slot.device
                )));
            }
            if let Some(with) = call.shares(at, (&part, access)) {
                return Err(Error::unsupported(format!(
                    "arguments {at} and {with} of kernel `{}` share elements, which it writes, and argument {at} is a part of \
                     a grid whose rows do not follow each other, of which {} gets a copy: pass the same part for both",
                    call.kernel().name(),
                    slot.device
                )));
            }
            let (before, after) = (access == SlotAccess::Read || mode.reads(), access != SlotAccess::Read);
            let known = copies.iter_mut().find(|known| known.part.is_same(&part));
            let copy = match known {
                Some(known) => {
                    known.before |= before;
                    known.after |= after;
                    known.copy
                }
                None => {
                    let memory = Buffer::<u8>::new(part.len() * part.element as usize);
                    let Some(of) = self.read_write_uninit(&memory).binding() else { continue };
                    let copy = Binding { root: of.root, offset: 0, ..without_gaps(part, part.extent.size) };
                    copies.push(Copied { part, copy, before, after });
                    copy
                }
            };
            call.launch.args[at] = KernelArg::Window(Some(copy), mode);
        }
        Ok(copies)
    }
}

impl KernelCall<'_> {
    /// A buffer among the arguments, and how the kernel uses it.
    fn used(&self, at: usize) -> Option<(&Binding, SlotAccess, Mode)> {
        let (arg, slot) = (self.launch.args.get(at)?, self.kernel().slots().get(at)?);
        match (arg, slot, arg.window(slot)?) {
            (KernelArg::Window(_, mode), Slot::Buffer(_), (binding, access)) => {
                Some((binding, access, *mode))
            }
            _ => None,
        }
    }

    /// Whether the kernel is told how far apart the rows of this argument are, and the device shows it as much as lies between them.
    fn is_strided(&self, at: usize, part: &Binding, device: &DeviceInfo) -> Result<bool> {
        let (region, limits) = (part.region(), &device.limits);
        let shown = (region.end() - region.offset) as u64 <= limits.binding
            && region.offset.is_multiple_of(limits.binding_offset.max(1));
        if !shown {
            return Ok(false);
        }
        let image = image_on(self.kernel(), device)?;
        let is_view = image.declared().is_some_and(|declared| declared.is_view(at));
        Ok(image.format() == ImageFormat::Wgsl && is_view)
    }

    /// A buffer among the arguments whose elements do not follow each other, and how the kernel uses it.
    fn part_with_gaps(&self, at: usize) -> Option<(Binding, SlotAccess, Mode)> {
        let (binding, access, mode) = self.used(at)?;
        binding.has_gaps().then_some((*binding, access, mode))
    }

    /// Another argument that shows elements of this one, but not the same ones, where the kernel writes either.
    fn shares(&self, at: usize, (part, access): (&Binding, SlotAccess)) -> Option<usize> {
        (0..self.launch.args.len()).filter(|other| *other != at).find(|other| {
            let slot = self.kernel().slots().get(*other);
            let Some((window, of_it)) = slot.and_then(|slot| self.launch.args[*other].window(slot)) else {
                return false;
            };
            let written = [access, of_it].contains(&SlotAccess::ReadWrite);
            written && window.overlaps(part) && !window.is_same(part)
        })
    }
}
