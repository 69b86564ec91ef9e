//! Arguments by description: for kernels whose image says what each parameter is. These are kernels built into a device, and
//! texts that were not written for Windlass.

use smallvec::SmallVec;
use windlass_backend::BackendError;
use windlass_kernel::{ImageFormat, Kernel, KernelImage, Parameter, Range, Slot, Width};

use crate::args::{Bound, BoundArgs};
use crate::error::unsupported;

/// The image's description of its parameters, checked against the slots. For a built-in kernel without one, each slot is a
/// parameter, buffers by their start. `None` where the calling convention applies.
pub(crate) fn parameters(
    kernel: &Kernel,
    image: &KernelImage,
) -> Result<Option<Box<[Parameter]>>, BackendError> {
    let slots = kernel.slots();
    let by_slot = |(at, slot): (usize, &Slot)| match slot {
        Slot::Buffer(_) | Slot::Constant => Parameter::Start(at),
        _ => Parameter::Slot(at),
    };
    let described: Box<[Parameter]> = match (image.parameters(), image.format()) {
        (Some(described), _) => described.into(),
        (None, ImageFormat::Builtin) => slots.iter().enumerate().map(by_slot).collect(),
        (None, _) => return Ok(None),
    };
    for (position, parameter) in described.iter().enumerate() {
        let fits = match *parameter {
            Parameter::Start(at) | Parameter::Offset(at, _) | Parameter::Len(at, _) => {
                matches!(slots.get(at), Some(Slot::Buffer(_) | Slot::Constant))
            }
            Parameter::Slot(at) => {
                matches!(slots.get(at), Some(Slot::Pointer | Slot::Value(_) | Slot::Local(_)))
            }
            Parameter::Extent(dim, _) => dim < 3,
            _ => false,
        };
        if !fits {
            let name = kernel.name();
            return unsupported(format!(
                "parameter {position} of kernel `{name}`, which is described as {parameter:?}, with its slots {slots:?}"
            ));
        }
    }
    Ok(Some(described))
}

/// The native arguments of a launch. `bound` are the kernel's arguments as each slot takes them.
pub(crate) fn arrange<'a>(
    kernel: &str,
    described: &[Parameter],
    range: Range,
    bound: &[Bound<'a>],
) -> Result<BoundArgs<'a>, BackendError> {
    let place = |slot: usize| match bound[slot] {
        Bound::Buffer(memory, elements) => (memory, elements.at, elements.len),
        _ => unreachable!("`parameters` saw that slot {slot} is a buffer"),
    };
    let integer = |what: &str, value: u64, width| match (width, u32::try_from(value)) {
        (Width::W64, _) => Ok(Bound::Value(SmallVec::from_slice(&value.to_ne_bytes()))),
        (Width::W32, Ok(value)) => Ok(Bound::Value(SmallVec::from_slice(&value.to_ne_bytes()))),
        (Width::W32, Err(_)) => {
            unsupported(format!("{what} {value} of kernel `{kernel}`, which takes 32 bits for it"))
        }
    };
    let one = |parameter: &Parameter| match *parameter {
        Parameter::Start(slot) => {
            let (memory, offset, _) = place(slot);
            let told = described.iter().any(|p| matches!(p, Parameter::Offset(of, _) if *of == slot));
            if offset != 0 && !told {
                return unsupported(format!(
                    "argument {slot} of kernel `{kernel}`, which starts at element {offset} of its memory: the kernel \
                     takes no offset"
                ));
            }
            Ok(Bound::Memory(memory))
        }
        Parameter::Offset(slot, width) => integer("offset", place(slot).1, width),
        Parameter::Len(slot, width) => integer("length", place(slot).2, width),
        Parameter::Slot(slot) => match &bound[slot] {
            Bound::Value(bytes) => Ok(Bound::Value(bytes.clone())),
            Bound::Local(bytes) => Ok(Bound::Local(*bytes)),
            Bound::Address(address) => Ok(Bound::Address(*address)),
            _ => unreachable!("`parameters` saw that slot {slot} is no buffer"),
        },
        Parameter::Extent(dim, width) => {
            let padded = range.extent();
            let extent = padded[3 - range.dims()..].get(dim).copied().unwrap_or(1);
            integer("extent", extent as u64, width)
        }
        other => unsupported(format!("{other:?}")),
    };
    let mut args = BoundArgs::new();
    for parameter in described {
        args.push(one(parameter)?);
    }
    Ok(args)
}
