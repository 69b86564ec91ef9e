//! Kernel arguments in the form that the native calls take.

use std::sync::{Arc, Weak};

use smallvec::SmallVec;
use windlass_backend::{Allocation as _, Arg, BackendError, Region};
use windlass_kernel::Slot;

use crate::error::unsupported;
use crate::group_size::LastChoice;
use crate::memory::Memory;
use crate::sys::{Context, Kernel, Result};

/// An argument as the native calls take it.
pub(crate) enum Bound<'a> {
    Buffer(&'a Memory, Elements),
    /// A buffer's start alone.
    Memory(&'a Memory),
    /// The address of a byte of shared memory.
    Address(u64),
    Value(SmallVec<[u8; 16]>),
    /// Local memory of this many bytes.
    Local(usize),
}

/// A launch's.
pub(crate) type BoundArgs<'a> = SmallVec<[Bound<'a>; 4]>;

impl<'a> Bound<'a> {
    /// The argument of a slot, checked against it.
    pub(crate) fn new(
        context: &Arc<Context>,
        kernel: &str,
        slot: &Slot,
        arg: &Arg<'a>,
    ) -> std::result::Result<Self, BackendError> {
        match (slot, *arg) {
            (Slot::Buffer(_) | Slot::Constant, Arg::Buffer(arg)) => {
                let elements = Elements::of(&arg.region, arg.memory.bytes(), arg.element)?;
                match Memory::of(arg.memory, context)? {
                    Some(memory) => Ok(Bound::Buffer(memory, elements)),
                    None => unsupported("a kernel on memory that is not OpenCL's"),
                }
            }
            (Slot::Pointer, Arg::Pointer(arg)) => {
                assert!(arg.region.end() <= arg.memory.bytes(), "{:?} leaves its allocation", arg.region);
                let memory = Memory::of(arg.memory, context)?;
                match memory.and_then(|memory| memory.device_address()) {
                    Some(start) => Ok(Bound::Address(start + arg.region.offset as u64)),
                    None => {
                        unsupported(format!("a pointer to memory without an address for kernel `{kernel}`"))
                    }
                }
            }
            (Slot::Value(size), Arg::Value(bytes)) if bytes.len() == *size => {
                Ok(Bound::Value(SmallVec::from_slice(bytes)))
            }
            (Slot::Local(_), Arg::Local(bytes)) => Ok(Bound::Local(bytes)),
            (slot, arg) => unsupported(format!("{arg:?} for {slot:?} of OpenCL kernel `{kernel}`")),
        }
    }

    /// The memory of a buffer argument.
    pub(crate) fn memory(&self) -> Option<&'a Memory> {
        match self {
            Bound::Buffer(memory, _) | Bound::Memory(memory) => Some(memory),
            Bound::Address(_) | Bound::Value(_) | Bound::Local(_) => None,
        }
    }

    /// The bytes of local memory that a launch with this argument needs for it.
    pub(crate) fn local_memory(&self) -> usize {
        if let Bound::Local(bytes) = self { *bytes } else { 0 }
    }

    /// Sets the argument's parameters, starting with number `at`, and advances `at` past them.
    pub(crate) fn set(&self, kernel: &mut Called, at: &mut usize) -> Result<()> {
        let first = *at;
        match self {
            Bound::Buffer(memory, elements) => {
                *at += 3;
                kernel.set_buffer(first, memory)?;
                kernel.set_value(first + 1, &elements.at.to_ne_bytes())?;
                kernel.set_value(first + 2, &elements.len.to_ne_bytes())
            }
            Bound::Memory(memory) => {
                *at += 1;
                kernel.set_buffer(first, memory)
            }
            Bound::Address(address) => {
                *at += 1;
                kernel.set_address(first, *address)
            }
            Bound::Value(bytes) => {
                *at += 1;
                kernel.set_value(first, bytes)
            }
            Bound::Local(bytes) => {
                *at += 1;
                kernel.set_local(first, *bytes)
            }
        }
    }
}

/// A native kernel, of which a launch sets only the parameters that differ from the last one's.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) native: Kernel,
    /// What each parameter was set to.
    held: Vec<Held>,
    pub(crate) last_choice: LastChoice,
}

#[derive(Debug)]
enum Held {
    /// Nothing, or something that was refused.
    Nothing,
    /// A buffer that was alive then. A handle would not tell it from a later one, which may get the same.
    Buffer(Weak<()>),
    Value(SmallVec<[u8; 16]>),
    Local(usize),
}

impl Called {
    /// A kernel with so many parameters, none of which has been set.
    pub(crate) fn new(native: Kernel, parameters: usize) -> Self {
        let held = (0..parameters).map(|_| Held::Nothing).collect();
        Called { native, held, last_choice: LastChoice::default() }
    }

    fn set_buffer(&mut self, at: usize, memory: &Memory) -> Result<()> {
        if matches!(&self.held[at], Held::Buffer(held) if held.as_ptr() == Arc::as_ptr(memory.identity())) {
            return Ok(());
        }
        self.held[at] = Held::Nothing;
        self.native.set_buffer(at, memory.buffer())?;
        self.held[at] = Held::Buffer(Arc::downgrade(memory.identity()));
        Ok(())
    }

    fn set_value(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        if matches!(&self.held[at], Held::Value(held) if held[..] == *bytes) {
            return Ok(());
        }
        self.held[at] = Held::Nothing;
        self.native.set_value(at, bytes)?;
        self.held[at] = Held::Value(SmallVec::from_slice(bytes));
        Ok(())
    }

    /// Not compared with what was set last: what was allocated at that address since then may be unknown to what the driver has kept.
    fn set_address(&mut self, at: usize, address: u64) -> Result<()> {
        self.held[at] = Held::Nothing;
        // SAFETY: it is inside memory of the group's, which the runtime keeps until that has ended; `Bound::new` looked. Each launch
        // sets its own.
        unsafe { self.native.set_address(at, address) }
    }

    fn set_local(&mut self, at: usize, bytes: usize) -> Result<()> {
        if matches!(self.held[at], Held::Local(held) if held == bytes) {
            return Ok(());
        }
        self.held[at] = Held::Nothing;
        self.native.set_local(at, bytes)?;
        self.held[at] = Held::Local(bytes);
        Ok(())
    }
}

/// Where an argument lies in its memory, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elements {
    /// The first one.
    pub(crate) at: u64,
    pub(crate) len: u64,
    /// How far apart rows and slices start.
    pub(crate) pitches: [u64; 2],
    has_gaps: bool,
}

impl Elements {
    fn of(region: &Region, bytes: usize, element: usize) -> std::result::Result<Self, BackendError> {
        assert!(region.end() <= bytes, "{region:?} leaves an allocation of {bytes}");
        match region.pitches(element) {
            Some(pitches) if region.offset.is_multiple_of(element) => Ok(Elements {
                at: (region.offset / element) as u64,
                len: (region.bytes() / element) as u64,
                pitches: pitches.map(|pitch| pitch as u64),
                has_gaps: !region.is_contiguous(),
            }),
            _ => {
                unsupported(format!("{region:?} of {element}-byte elements for a kernel on an OpenCL device"))
            }
        }
    }
}

/// Refuses arguments with gaps between their rows, for kernels that ask for an offset and a length alone.
pub(crate) fn check_lines(kernel: &str, args: &[Bound<'_>]) -> std::result::Result<(), BackendError> {
    let has_gaps = |arg: &Bound<'_>| matches!(arg, Bound::Buffer(_, elements) if elements.has_gaps);
    match args.iter().position(has_gaps) {
        Some(at) => unsupported(format!(
            "argument {at} of OpenCL kernel `{kernel}` has gaps between its rows, and the kernel asks for an offset and a length alone"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_counted_in_elements() {
        let line = Elements { at: 2, len: 4, pitches: [0; 2], has_gaps: false };
        assert_eq!(Elements::of(&Region::line(16, 32), 64, 8), Ok(line));
        assert!(Elements::of(&Region::line(4, 32), 64, 8).is_err(), "it starts inside an element");
        assert!(Elements::of(&Region::line(0, 12), 64, 8).is_err(), "it ends inside an element");
        let gaps = Region { offset: 0, width: 8, rows: 2, slices: 1, row_pitch: 16, slice_pitch: 32 };
        let found = Elements { at: 0, len: 2, pitches: [2, 0], has_gaps: true };
        assert_eq!(Elements::of(&gaps, 64, 8), Ok(found));
    }
}
