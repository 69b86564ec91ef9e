//! What code of the attribute relies on, compared with what a call brings.
//!
//! The function of a kernel brings elements of the kernel's types and the extents of its views. A [`KernelCall`](super::KernelCall) that was
//! made by hand may bring others. On the host every access is compared with the argument itself; a text for devices compares with the
//! numbers that it is told, which are therefore compared here.

use windlass_engine::Mode;
use windlass_kernel::{Declared, Kernel, Relied, Slot};

use super::kernel_call::in_words;
use crate::args::as_counted;
use crate::error::{Error, Result};
use crate::shell::work::{Binding, KernelArg};

/// Refuses a call whose arguments are not what the kernel's code relies on. Of other code nothing is known, but that it may not change what
/// others change at the same time.
pub(super) fn check_declared(kernel: &Kernel, args: &[KernelArg], declared: Option<&Declared>) -> Result<()> {
    let mut relied = declared.into_iter().flat_map(Declared::relied);
    let mut before = None;
    for (at, (arg, slot)) in args.iter().zip(kernel.slots()).enumerate() {
        let relied = relied.next().unwrap_or(Relied::Nothing);
        match arg {
            KernelArg::Window(binding, mode) => {
                if *mode == Mode::Concurrent && matches!(slot, Slot::Buffer(_)) {
                    check_concurrent((kernel, at), slot, relied)?;
                }
                check_elements((kernel, at), binding.as_ref(), relied)?;
                before = binding.as_ref();
            }
            KernelArg::Value(said) => check_extents((kernel, at), said, before.take(), relied)?,
            KernelArg::Local(_) | KernelArg::Here => before = None,
        }
    }
    Ok(())
}

fn check_concurrent((kernel, at): (&Kernel, usize), slot: &Slot, relied: Relied) -> Result<()> {
    match relied {
        Relied::Elements { is_atomic: true, .. } => Ok(()),
        _ => Err(Error::invalid(format!(
            "argument {at} of kernel `{}` is of data that others change at the same time, and the kernel takes {}: only kernels take it \
             that come to it by address, or change it by atomic operations alone",
            kernel.name(),
            in_words(slot)
        ))),
    }
}

fn check_elements((kernel, at): (&Kernel, usize), binding: Option<&Binding>, relied: Relied) -> Result<()> {
    match (binding, relied) {
        (Some(of), Relied::Elements { bytes, .. }) if of.element as usize != bytes => {
            Err(Error::invalid(format!(
                "argument {at} of kernel `{}` has elements of {} bytes, and the kernel takes elements of {bytes}",
                kernel.name(),
                of.element
            )))
        }
        _ => Ok(()),
    }
}

/// Of a window that could not be made its group tells.
fn check_extents(
    (kernel, at): (&Kernel, usize),
    said: &[u8],
    window: Option<&Binding>,
    relied: Relied,
) -> Result<()> {
    match (window, relied) {
        (Some(window), Relied::Extents(dims)) if !says_extents(said, &window.extent.size[3 - dims..]) => {
            Err(Error::invalid(format!(
                "argument {at} of kernel `{}` is to be the extents of the view before it, and is something else: call the kernel by the \
                 function of its name, which finds them",
                kernel.name()
            )))
        }
        _ => Ok(()),
    }
}

fn says_extents(said: &[u8], size: &[usize]) -> bool {
    let (numbers, rest) = said.as_chunks::<4>();
    let is_same = |(said, size): (&[u8; 4], &usize)| u32::from_ne_bytes(*said) == as_counted(*size);
    rest.is_empty() && numbers.len() == size.len() && numbers.iter().zip(size).all(is_same)
}
