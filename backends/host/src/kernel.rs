//! What a launch's arguments become for a body.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{
    Allocation, Arg, BackendError, BufferArg, BuiltKernel, HostCode, HostLaunch, HostMemory, Launch, Region,
};
use windlass_kernel::{Body, RawSpan, SlotAccess, Word};

use crate::memory::{Window, unsupported};

/// A kernel with a host image: its body.
pub(crate) struct HostKernel {
    pub(crate) body: Body,
}

impl BuiltKernel for HostKernel {}

/// A launch of a kernel with its arguments as spans.
pub(crate) fn launch(launch: &Launch<'_>) -> Result<HostLaunch, BackendError> {
    let Some(kernel) = (launch.kernel as &dyn std::any::Any).downcast_ref::<HostKernel>() else {
        return Err(unsupported("a kernel that another backend built"));
    };
    let (values, offsets) = copy_values(launch.args)?;
    let mut offsets = offsets.into_iter();
    let mut spans = SmallVec::with_capacity(launch.args.len());
    for arg in launch.args {
        spans.push(match arg {
            Arg::Buffer(arg) => used_span(arg)?,
            Arg::Value(_) | Arg::Pointer(_) => {
                let (Some(memory), Some((offset, bytes))) = (&values, offsets.next()) else {
                    unreachable!("each value has a place")
                };
                buffer_span(memory, Region::line(offset, bytes), bytes.max(1), Word::B1)?
            }
            Arg::Local(_) => return Err(unsupported("local memory")),
            other => return Err(unsupported(&format!("{other:?}"))),
        });
    }
    if kernel.body.follows_pointers() {
        for reached in launch.reached {
            spans.push(used_span(reached)?);
        }
    }
    // The spans of value arguments point into memory that nobody else keeps.
    let body = match values {
        Some(values) => kernel.body.keeping(Arc::new(values)),
        None => kernel.body.clone(),
    };
    Ok(HostLaunch::new(HostCode::Shared(body), launch.range, spans))
}

/// A span over a box that the kernel uses.
fn used_span(arg: &BufferArg<'_>) -> Result<RawSpan, BackendError> {
    let span = buffer_span(arg.memory, arg.region, arg.element, arg.word)?;
    Ok(if arg.access == SlotAccess::Read { span.read_only() } else { span })
}

/// Copies the value arguments, and the addresses of pointers, into one piece of memory, and says where each of them is, and how long.
///
/// `HostMemory` and not a vector in the launch: spans point into it, and the launch moves.
fn copy_values(
    args: &[Arg<'_>],
) -> Result<(Option<HostMemory>, SmallVec<[(usize, usize); 8]>), BackendError> {
    let addresses =
        args.iter().filter_map(|arg| if let Arg::Pointer(arg) = arg { Some(address(arg)) } else { None });
    let addresses = addresses.collect::<Result<SmallVec<[[u8; 8]; 2]>, _>>()?;
    let values = || {
        let mut addresses = addresses.iter();
        args.iter().filter_map(move |arg| match arg {
            Arg::Value(bytes) => Some(*bytes),
            Arg::Pointer(_) => addresses.next().map(|address| &address[..]),
            _ => None,
        })
    };
    let mut offsets = SmallVec::new();
    let mut end = 0;
    for bytes in values() {
        offsets.push((end, bytes.len()));
        end = (end + bytes.len()).next_multiple_of(VALUE_ALIGN);
    }
    if offsets.is_empty() {
        return Ok((None, offsets));
    }
    let memory = HostMemory::zeroed(end.max(1))?;
    let Some(start) = memory.host_ptr() else { unreachable!("host memory has an address") };
    for (bytes, (offset, _)) in values().zip(&offsets) {
        // SAFETY: the memory was made long enough for each value at its offset, and nobody else knows it yet.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start.as_ptr().add(*offset), bytes.len()) };
    }
    Ok((Some(memory), offsets))
}

/// Where a pointer argument's first byte is, as the kernel takes it.
fn address(arg: &BufferArg<'_>) -> Result<[u8; 8], BackendError> {
    Window::new(arg.memory, arg.region)?;
    // What another context has pinned has its address for this process.
    let Some(start) = arg.memory.host_ptr() else {
        return Err(unsupported("a pointer to memory without an address"));
    };
    Ok((start.as_ptr().expose_provenance() as u64 + arg.region.offset as u64).to_ne_bytes())
}

/// Values start at multiples of this, which suits every element type.
const VALUE_ALIGN: usize = 16;

/// A span over a box of an allocation, by the word that all its users share.
fn buffer_span(
    memory: &dyn Allocation,
    region: Region,
    element: usize,
    word: Word,
) -> Result<RawSpan, BackendError> {
    let window = Window::new(memory, region)?;
    let extent = region
        .extent(element)
        .ok_or_else(|| unsupported(&format!("{region:?} as an argument with elements of {element} bytes")))?;
    let first: NonNull<u8> = window.first();
    // Words of another size on the same memory would not be defined, so none is chosen in its place.
    if !(element | first.addr().get()).is_multiple_of(word.bytes()) {
        let bytes = word.bytes();
        return Err(unsupported(&format!("{region:?} of {element}-byte elements by words of {bytes} bytes")));
    }
    Ok(RawSpan::new(first, extent, element, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_keeps_its_allocations_word_or_is_refused() {
        let memory = HostMemory::zeroed(64).expect("64 bytes are there");
        let span =
            |offset, element, word| buffer_span(&memory, Region::line(offset, 2 * element), element, word);
        assert!(span(0, 8, Word::B8).is_ok() && span(8, 4, Word::B4).is_ok() && span(0, 3, Word::B1).is_ok());
        assert!(span(8, 4, Word::B8).is_err(), "an element is half a word");
        assert!(span(2, 8, Word::B4).is_err(), "it starts inside a word");
    }
}
