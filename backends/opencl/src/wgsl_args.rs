//! Arguments of kernels in WGSL: these are translated to OpenCL C, and launched by the convention of
//! [`windlass_kernel::block`].

use smallvec::SmallVec;
use windlass_backend::{BackendError, Launch};
use windlass_kernel::block::{self, Place};
use windlass_kernel::shape::Shape;
use windlass_kernel::{Kernel, KernelImage, Slot};
use windlass_kernel_translate::c::{Bounds, Dialect, Machine, Param, Translation, translate};
use windlass_kernel_translate::wgsl::Checked;

use crate::args::{Bound, BoundArgs, Elements, check_lines};
use crate::driver::Driver;
use crate::error::unsupported;

/// How a translated kernel is called.
#[derive(Debug)]
pub(crate) struct Calling {
    params: Vec<Param>,
    shape: Shape,
    /// Whether launches name their work-groups.
    grouped: bool,
    /// Whether it is told how far apart an argument's rows start, and asks.
    strided: bool,
}

/// The kernel's text, for a GPU or another device, how it is called, and what it still compares in loops.
pub(crate) fn read(
    kernel: &Kernel,
    image: &KernelImage,
    driver: Driver,
    gpu: bool,
) -> Result<(Translation, Calling, Vec<String>), BackendError> {
    let refuse = |log: String| BackendError::Build { kernel: kernel.name().into(), log };
    let mut buffers = 0;
    for slot in kernel.slots() {
        match slot {
            Slot::Buffer(_) => buffers += 1,
            Slot::Value(_) => {}
            other => return unsupported(format!("{other:?} of kernel `{}` in WGSL", kernel.name())),
        }
    }
    let mut checked = Checked::parse(image.source()).map_err(|error| refuse(error.to_string()))?;
    if checked.has_overrides() {
        // Work-groups are counted along one dimension here, so there are as many as the launch has.
        let shaped = image.overrides().iter().filter(|(name, _)| &**name != "rows").cloned();
        let values: Vec<_> = shaped.chain([("rows".into(), 0.0)]).collect();
        checked = checked.specialise(image.entry(), &values).map_err(|error| refuse(error.to_string()))?;
    }
    checked = checked.pruned(image.is_guarded()).map_err(|error| refuse(error.to_string()))?;
    if gpu && image.is_guarded() {
        checked = checked.unbranched().map_err(|error| refuse(error.to_string()))?;
    }
    if driver.loses_negations && image.is_guarded() {
        checked = checked.with_hidden_negations().map_err(|error| refuse(error.to_string()))?;
    }
    let bounds = if image.is_guarded() { Bounds::Guarded } else { Bounds::Clamped };
    let machine = if gpu { Machine::Gpu } else { Machine::Cpu };
    let translation = translate(&checked, image.entry(), Dialect::OpenClC, bounds, machine)
        .map_err(|error| refuse(error.to_string()))?;
    let translation = if kernel.is_fast() { translation.contracted() } else { translation };
    let shape = Shape::of_text(image, translation.work_group).map_err(refuse)?;
    for param in &translation.params {
        let fits = match *param {
            Param::Storage { binding } | Param::Length { binding, .. } => binding < buffers,
            Param::Uniform { binding, .. } => binding == buffers,
            _ => false,
        };
        if !fits {
            return Err(refuse(format!(
                "{param:?} is none of its {buffers} buffers and no block behind them"
            )));
        }
    }
    let (grouped, strided) = (kernel.is_grouped(), image.is_guarded());
    let calling = Calling { params: translation.params.clone(), shape, grouped, strided };
    Ok((translation, calling, checked.compared_in_loops(image.source())))
}

impl Calling {
    /// The arguments of a launch, and its items in all and in a group, along the device's dimensions. `bound` are the kernel's arguments as each slot
    /// takes them.
    pub(crate) fn plan<'a>(
        &self,
        kernel: &str,
        launch: &Launch<'a>,
        bound: BoundArgs<'a>,
    ) -> Result<(BoundArgs<'a>, [[usize; 3]; 2]), BackendError> {
        self.shape
            .check(launch.range, self.grouped)
            .or_else(|error| unsupported(format!("kernel `{kernel}`: {error}")))?;
        if !self.strided {
            check_lines(kernel, &bound)?;
        }
        let too_many = |error: block::TooMany| BackendError::Unsupported(error.to_string());
        let count = |n: u64| block::count(usize::try_from(n).unwrap_or(usize::MAX)).map_err(too_many);
        let mut places = SmallVec::<[Place; 8]>::new();
        for bound in &bound {
            if let Bound::Buffer(_, Elements { at, len, pitches: [row, slice], .. }) = *bound {
                places.push(Place {
                    at: count(at)?,
                    len: count(len)?,
                    pitches: [count(row)?, count(slice)?],
                });
            }
        }
        let values =
            bound.iter().filter_map(|b| if let Bound::Value(bytes) = b { Some(&bytes[..]) } else { None });
        let block = block::bytes(&places, launch.range, values).map_err(too_many)?;
        let buffers: SmallVec<[_; 8]> = bound.iter().filter_map(Bound::memory).collect();
        let mut args = BoundArgs::with_capacity(self.params.len());
        for param in &self.params {
            args.push(match *param {
                Param::Storage { binding } => Bound::Memory(buffers[binding as usize]),
                Param::Length { binding, offset, stride } => {
                    let bytes = windlass_backend::Allocation::bytes(buffers[binding as usize]);
                    let len = bytes.saturating_sub(offset as usize) / stride as usize;
                    if len == 0 {
                        return unsupported(format!(
                            "an argument of kernel `{kernel}` with memory of {bytes} bytes, less than one element"
                        ));
                    }
                    let len = block::count(len).map_err(too_many)?;
                    Bound::Value(SmallVec::from_slice(&len.to_ne_bytes()))
                }
                Param::Uniform { offset, bytes, .. } => {
                    let end = offset as usize + bytes as usize;
                    match block.get(offset as usize..end) {
                        Some(value) => Bound::Value(SmallVec::from_slice(value)),
                        None => {
                            return unsupported(format!(
                                "kernel `{kernel}` reads a block of {end} bytes, and its slots make {}",
                                block.len()
                            ));
                        }
                    }
                }
                _ => return unsupported(format!("{param:?}")),
            });
        }
        let group = self.shape.group().map(|items| items as usize);
        let Some(groups) = self.shape.groups(launch.range, u32::MAX).map_err(too_many)? else {
            return unsupported(format!("kernel `{kernel}` over {:?}", launch.range));
        };
        Ok((args, [std::array::from_fn(|dim| groups[dim] as usize * group[dim]), group]))
    }
}
