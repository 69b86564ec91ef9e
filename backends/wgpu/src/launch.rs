//! Launches: arguments checked and laid out as [`windlass_kernel::block`] says.

use std::any::Any;
use std::num::NonZeroU64;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{Arg, BackendError, Launch, Region};
use windlass_kernel::block::{self, Place};
use windlass_kernel::{Range, Slot, SlotAccess};

use crate::error::unsupported;
use crate::gpu::Gpu;
use crate::kernel::{Built, Pipeline, WgpuKernel};
use crate::memory::{Memory, padded};
use crate::stage::Stage;

/// A launch whose arguments were checked and laid out.
#[derive(Debug)]
pub(crate) struct Dispatch {
    kernel: Arc<Built>,
    bindings: SmallVec<[Binding; 4]>,
    /// Whether two bindings use one buffer in different ways.
    shared: bool,
    parameters: Vec<u8>,
    groups: [u32; 3],
}

/// The part of a buffer that one argument covers.
#[derive(Debug)]
struct Binding {
    buffer: wgpu::Buffer,
    access: SlotAccess,
    start: u64,
    size: NonZeroU64,
    /// The argument's elements, from `start`.
    place: Place,
}

impl Dispatch {
    /// Checks a launch. No native call is made.
    pub(crate) fn new(gpu: &Gpu, launch: &Launch<'_>) -> Result<Self, BackendError> {
        let Some(WgpuKernel(kernel)) = (launch.kernel as &dyn Any).downcast_ref() else {
            return unsupported("a kernel built by another backend");
        };
        if kernel.slots.len() != launch.args.len() {
            return unsupported(format!(
                "{} arguments for the {} slots of kernel `{}`",
                launch.args.len(),
                kernel.slots.len(),
                kernel.name
            ));
        }
        let mut bindings = SmallVec::new();
        let mut values = Vec::new();
        for (slot, arg) in kernel.slots.iter().zip(launch.args) {
            match (slot, arg) {
                (Slot::Buffer(access), Arg::Buffer(arg)) => {
                    let Some(memory) = Memory::of(arg.memory) else {
                        return unsupported("a kernel argument that is not in the device's memory");
                    };
                    if !arg.region.is_contiguous() && !kernel.image.is_guarded() {
                        let (name, region) = (&kernel.name, arg.region);
                        return unsupported(format!(
                            "{region:?} with gaps between its rows for kernel `{name}`, which asks for none"
                        ));
                    }
                    bindings.push(Binding::new(gpu, memory, arg.region, arg.element, *access)?);
                }
                (Slot::Value(bytes), Arg::Value(value)) if value.len() == *bytes => {
                    values.push(*value);
                }
                _ => return unsupported(format!("{arg:?} for {slot:?} of kernel `{}`", kernel.name)),
            }
        }
        Ok(Dispatch {
            shared: mixed(&bindings),
            parameters: parameters(gpu, kernel, &bindings, launch.range, &values)?,
            groups: groups(gpu, launch.range, kernel)?,
            kernel: Arc::clone(kernel),
            bindings,
        })
    }

    /// What its buffers bind.
    fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.bindings.iter().map(Binding::part)
    }

    /// Whether another launch binds the same, but for its parameters.
    fn binds_as(&self, other: &Dispatch) -> bool {
        self.shared == other.shared
            && Arc::ptr_eq(&self.kernel, &other.kernel)
            && self.parts().eq(other.parts())
    }
}

/// The launches of one encoder. Those that bind the same share a group of bindings, which costs more than all else of a launch;
/// the last few are looked at.
#[derive(Default)]
pub(crate) struct Recorder<'o> {
    bound: Vec<(&'o Dispatch, wgpu::BindGroup)>,
    /// The launch whose pipeline and bindings are set in the pass.
    set: Option<&'o Dispatch>,
}

/// How many groups of bindings are looked at.
const LOOKED_AT: usize = 8;

impl<'o> Recorder<'o> {
    /// Nothing is set in the next pass.
    pub(crate) fn end_pass(&mut self) {
        self.set = None;
    }

    /// Records a launch.
    pub(crate) fn record(
        &mut self,
        gpu: &Gpu,
        stage: &mut Stage,
        pass: &mut wgpu::ComputePass<'_>,
        launch: &'o Dispatch,
    ) -> Result<(), BackendError> {
        let Pipeline { layout, pipeline } = launch.kernel.pipeline(gpu, launch.shared);
        let immediates = launch.kernel.immediates;
        let is_set = immediates.is_some() && self.set.is_some_and(|set| set.binds_as(launch));
        if !is_set {
            pass.set_pipeline(pipeline);
        }
        match immediates {
            Some(bytes) => {
                if !is_set {
                    pass.set_bind_group(0, &self.bindings(gpu, layout, launch), &[]);
                }
                pass.set_immediates(0, launch.parameters.get(..bytes as usize).unwrap_or_default());
            }
            None => {
                let bytes = &launch.parameters;
                let mut piece = stage.arguments.piece(&gpu.device, &gpu.spare, bytes.len())?;
                piece.write(0, bytes);
                let block = (&piece.buffer, piece.offset, NonZeroU64::new(bytes.len() as u64));
                pass.set_bind_group(0, &bind(gpu, layout, launch.parts().chain([block])), &[]);
            }
        }
        self.set = Some(launch);
        let [x, y, z] = launch.groups;
        pass.dispatch_workgroups(x, y, z);
        Ok(())
    }

    fn bindings(
        &mut self,
        gpu: &Gpu,
        layout: &wgpu::BindGroupLayout,
        launch: &'o Dispatch,
    ) -> wgpu::BindGroup {
        let known = self.bound.iter().rev().take(LOOKED_AT).find(|(other, _)| other.binds_as(launch));
        if let Some((_, group)) = known {
            return group.clone();
        }
        let group = bind(gpu, layout, launch.parts());
        self.bound.push((launch, group.clone()));
        group
    }
}

/// A buffer's part.
pub(crate) type Part<'a> = (&'a wgpu::Buffer, u64, Option<NonZeroU64>);

/// A group of these bindings, in order.
pub(crate) fn bind<'a>(
    gpu: &Gpu,
    layout: &wgpu::BindGroupLayout,
    parts: impl Iterator<Item = Part<'a>>,
) -> wgpu::BindGroup {
    let entries: SmallVec<[_; 8]> = parts.zip(0..).map(|(part, at)| bind_entry(at, part)).collect();
    gpu.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
}

fn bind_entry(binding: u32, (buffer, offset, size): Part<'_>) -> wgpu::BindGroupEntry<'_> {
    let resource = wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size });
    wgpu::BindGroupEntry { binding, resource }
}

fn mixed(bindings: &[Binding]) -> bool {
    let differs = |a: &Binding, b: &Binding| a.buffer == b.buffer && a.access != b.access;
    bindings.iter().enumerate().any(|(i, a)| bindings[i + 1..].iter().any(|b| differs(a, b)))
}

impl Binding {
    fn part(&self) -> Part<'_> {
        (&self.buffer, self.start, Some(self.size))
    }

    fn new(
        gpu: &Gpu,
        memory: &Memory,
        region: Region,
        element: usize,
        access: SlotAccess,
    ) -> Result<Self, BackendError> {
        let buffer = memory.buffer();
        let Some(pitches) = region.pitches(element) else {
            return unsupported(format!("{region:?} for elements of {element} bytes"));
        };
        if element == 0 || region.end() as u64 > buffer.size() {
            return unsupported(format!(
                "elements of {element} bytes in {region:?} of {} bytes",
                buffer.size()
            ));
        }
        // WGSL requires room for one element, even if the argument has none.
        let first = if region.bytes() == 0 { 0 } else { region.offset };
        let align = gpu.limits.min_storage_buffer_offset_alignment as usize;
        let Some(start) = start(first, element, align) else {
            return unsupported(format!(
                "an argument at byte {first}: no multiple of {align}, where the device lets bindings start, is a whole \
                 number of elements of {element} bytes before it"
            ));
        };
        let end = padded(region.end().max(first + element).min(buffer.size() as usize));
        let size = (end - start) as u64;
        let most = gpu.limits.max_storage_buffer_binding_size;
        if size > most {
            return unsupported(format!(
                "an argument that binds {size} bytes, the device binds {most} at most"
            ));
        }
        let Some(size) = NonZeroU64::new(size) else { return unsupported("an argument without memory") };
        let place = Place {
            at: words((first - start) / element)?,
            len: words(region.bytes() / element)?,
            pitches: [words(pitches[0])?, words(pitches[1])?],
        };
        Ok(Binding { buffer: buffer.clone(), access, start: start as u64, size, place })
    }
}

/// The last multiple of `align` at or before `offset` from which `offset` is a whole number of elements away.
fn start(offset: usize, element: usize, align: usize) -> Option<usize> {
    let last = offset / align * align;
    // The remainders repeat after at most as many steps as an element has bytes.
    (0..=last / align)
        .take(element)
        .map(|step| last - step * align)
        .find(|start| (offset - start).is_multiple_of(element))
}

fn words(number: usize) -> Result<u32, BackendError> {
    block::count(number).or_else(|error| unsupported(error.to_string()))
}

/// The block's bytes, as many at least as the kernel shows of it.
fn parameters(
    gpu: &Gpu,
    kernel: &Built,
    bindings: &[Binding],
    range: Range,
    values: &[&[u8]],
) -> Result<Vec<u8>, BackendError> {
    let places: SmallVec<[Place; 8]> = bindings.iter().map(|binding| binding.place).collect();
    let bytes = block::bytes(&places, range, values.iter().copied())
        .or_else(|error| unsupported(error.to_string()))?;
    let most = gpu.limits.max_uniform_buffer_binding_size;
    if bytes.len() as u64 > most {
        return unsupported(format!("{} bytes of plain values, the device takes {most}", bytes.len()));
    }
    if let Some(shown) = kernel.immediates
        && bytes.len() < shown as usize
    {
        return unsupported(format!(
            "kernel `{}` reads {shown} bytes of parameters, and its slots have {}",
            kernel.name,
            bytes.len()
        ));
    }
    Ok(bytes)
}

/// How many work-groups cover the range, along each of the device's dimensions.
fn groups(gpu: &Gpu, range: Range, kernel: &Built) -> Result<[u32; 3], BackendError> {
    kernel.shape.check(range, kernel.grouped).or_else(unsupported)?;
    let most = gpu.limits.max_compute_workgroups_per_dimension;
    match kernel.shape.groups(range, most) {
        Ok(Some(groups)) => Ok(groups),
        Ok(None) => unsupported(format!(
            "more work-groups over {range:?} than the device takes, {most} along a dimension"
        )),
        Err(error) => unsupported(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::start;

    #[test]
    fn a_binding_starts_where_the_device_and_the_elements_allow() {
        assert_eq!(start(0, 4, 32), Some(0));
        assert_eq!(start(100, 4, 32), Some(96));
        assert_eq!(start(120, 12, 32), Some(96), "24 bytes are two elements");
        assert_eq!(start(108, 12, 32), Some(96), "12 bytes are one element");
        assert_eq!(start(100, 12, 32), Some(64), "36 bytes are three elements, 4 are none");
        assert_eq!(start(6, 4, 32), None);
    }
}
