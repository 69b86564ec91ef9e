//! A kernel with its arguments.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_kernel::{DeviceCopy, Kernel, Range, Slot, SlotAccess, bytes_of};

use super::accessor::{Accessor, Window as _};
use crate::context::DeviceSlot;
use crate::engine::Mode;
use crate::error::{Error, Result};
use crate::shell::Inner;
use crate::shell::work::{Binding, Planned, PlannedArg, PlannedKernel};

/// A kernel and the arguments for one launch, in the order of its slots.
///
/// ```
/// use windlass::{KernelCall, kernel::{Kernel, KernelImage, Slot, SlotAccess}};
/// # fn main() -> windlass::Result<()> {
/// # use windlass::prelude::*;
/// let kernel = Kernel::new("noop", [Slot::Value(4)], [KernelImage::host(std::sync::Arc::new(|_, _: &[_]| {}))]);
/// let queue = Queue::on(Device::host())?;
/// queue.submit(|cg| cg.parallel_for(1, KernelCall::new(&kernel).value(1.0_f32)))?.blocking_wait()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call does nothing until it is given to `parallel_for`"]
pub struct KernelCall<'g> {
    kernel: Kernel,
    args: SmallVec<[CallArg; 4]>,
    brand: PhantomData<fn(&'g ()) -> &'g ()>,
}

enum CallArg {
    /// An accessor whose requirement was refused has no window; the group reports why.
    Buffer(Option<Binding>, Mode),
    Value(SmallVec<[u8; 16]>),
    Local(usize),
}

impl<'g> KernelCall<'g> {
    /// A call without arguments yet.
    pub fn new(kernel: &Kernel) -> Self {
        KernelCall { kernel: kernel.clone(), args: SmallVec::new(), brand: PhantomData }
    }

    /// The next argument: an accessor.
    pub fn buffer<A: Accessor<'g>>(mut self, accessor: A) -> Self {
        self.args.push(CallArg::Buffer(accessor.binding(), A::MODE.0));
        self
    }

    /// The next argument: a plain value.
    pub fn value<T: DeviceCopy>(mut self, value: T) -> Self {
        self.args.push(CallArg::Value(SmallVec::from_slice(bytes_of(&value))));
        self
    }

    /// The next argument: local memory for this many elements.
    pub fn local<T: DeviceCopy>(mut self, len: usize) -> Self {
        self.args.push(CallArg::Local(len * size_of::<T>()));
        self
    }

    /// Checks the arguments against the kernel's slots, and gets the kernel built for the device.
    pub(super) fn plan(self, inner: &Arc<Inner>, slot: &DeviceSlot, range: Range) -> Result<Planned<'g>> {
        let name = self.kernel.name();
        let slots = self.kernel.slots();
        if slots.len() != self.args.len() {
            return Err(Error::invalid(format!(
                "kernel `{name}` takes {} arguments, and got {}",
                slots.len(),
                self.args.len()
            )));
        }
        let mut args = SmallVec::new();
        for (i, (arg, slot)) in self.args.into_iter().zip(slots).enumerate() {
            let wrong = |what: &str| {
                Error::invalid(format!(
                    "argument {i} of kernel `{name}` is {what}, and the kernel expects {slot:?}"
                ))
            };
            args.push(match (arg, slot) {
                (CallArg::Buffer(None, _), _) => continue,
                (CallArg::Buffer(Some(b), mode), Slot::Buffer(SlotAccess::Read)) => match mode.reads() {
                    true => PlannedArg::Buffer(b, SlotAccess::Read),
                    false => return Err(wrong("required for writing only")),
                },
                (CallArg::Buffer(Some(b), mode), Slot::Buffer(SlotAccess::ReadWrite)) => {
                    match mode.writes() {
                        true => PlannedArg::Buffer(b, SlotAccess::ReadWrite),
                        false => return Err(wrong("required for reading only")),
                    }
                }
                (CallArg::Value(v), Slot::Value(bytes)) => match v.len() == *bytes {
                    true => PlannedArg::Value(v),
                    false => return Err(wrong(&format!("a value of {} bytes", v.len()))),
                },
                (CallArg::Local(bytes), Slot::Local(_)) => PlannedArg::Local(bytes),
                (CallArg::Buffer(..), _) => return Err(wrong("a buffer")),
                (CallArg::Value(_), _) => return Err(wrong("a value")),
                (CallArg::Local(_), _) => return Err(wrong("local memory")),
            });
        }
        let gaps = args.iter().any(|a| matches!(a, PlannedArg::Buffer(b, _) if !b.region().is_contiguous()));
        if gaps && !slot.runs_host_bodies() {
            let name = self.kernel.name();
            let what = "an argument that is a part of a grid whose rows do not follow each other";
            return Err(Error::unsupported(format!("{what}, for kernel `{name}` on {}", slot.device)));
        }
        let built = slot.build(inner, &self.kernel)?;
        Ok(Planned::Kernel(Box::new(PlannedKernel { range, args, built })))
    }
}

impl fmt::Debug for KernelCall<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelCall")
            .field("kernel", &self.kernel.name())
            .field("args", &self.args.len())
            .finish()
    }
}
