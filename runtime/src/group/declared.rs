//! What a text of the attribute relies on, compared with what a call brings.
//!
//! The function of a kernel brings elements of the kernel's types and the extents of its views. A [`KernelCall`](super::KernelCall) that was
//! made by hand may bring others, and a kernel made by hand may have that text among its images and take other arguments. On the host
//! every access is compared with the argument itself; a text for devices compares with the numbers that it is told, which are
//! therefore compared here.

use windlass_kernel::{Declared, Kernel, Relied};

use crate::args::as_counted;
use crate::error::{Error, Result};
use crate::shell::work::{Binding, KernelArg};

/// Refuses a call whose arguments are not what the kernel's text relies on.
pub(super) fn check_declared(kernel: &Kernel, args: &[KernelArg], declared: Option<&Declared>) -> Result<()> {
    let Some(declared) = declared else { return Ok(()) };
    let name = kernel.name();
    if !declared.is_of(kernel) {
        return Err(Error::invalid(format!(
            "kernel `{name}` has the code of another kernel, which takes other arguments: make one by `Kernel::in_forms` of that one"
        )));
    }
    let mut before = None;
    for (at, (arg, relied)) in args.iter().zip(declared.relied()).enumerate() {
        let binding = match arg {
            KernelArg::Window(binding, _) => binding.as_ref(),
            _ => None,
        };
        match (arg, relied) {
            (_, Relied::Elements(bytes)) => {
                if let Some(of) = binding.filter(|of| of.element as usize != bytes) {
                    return Err(Error::invalid(format!(
                        "argument {at} of kernel `{name}` has elements of {} bytes, and the kernel takes elements of {bytes}",
                        of.element
                    )));
                }
            }
            (KernelArg::Value(said), Relied::Extents(dims)) if !says_extents(said, before, dims) => {
                return Err(Error::invalid(format!(
                    "argument {at} of kernel `{name}` is to be the extents of the view before it, and is something else: call the \
                     kernel by the function of its name, which finds them"
                )));
            }
            _ => {}
        }
        before = binding;
    }
    Ok(())
}

/// Whether these bytes are the extents of a window. One that could not be made is reported by its group.
fn says_extents(said: &[u8], window: Option<&Binding>, dims: usize) -> bool {
    let Some(window) = window else { return true };
    let size = &window.extent.size[3 - dims..];
    let (numbers, rest) = said.as_chunks::<4>();
    rest.is_empty()
        && numbers.len() == dims
        && numbers.iter().zip(size).all(|(said, size)| u32::from_ne_bytes(*said) == as_counted(*size))
}
