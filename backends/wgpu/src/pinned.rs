//! Memory of the host that the device reaches by itself, mapped for as long as it lives: staging, and what the runtime keeps
//! there of buffers.
//!
//! wgpu's own mapped buffers are the device's or the host's in turn, and each turn is a call and a callback. So this memory is
//! made with Vulkan's own calls, and wgpu is handed the buffer, as one that it does not map. Two things are ours then. Writes by the
//! host before a submission are visible to it by Vulkan's rules. What a submission wrote is visible to the host only behind a
//! barrier, which the encoder adds (`encode::show`).

use std::ptr::NonNull;

use ash::vk;
use wgpu::hal::api::Vulkan;
use windlass_backend::BackendError;

use crate::error::failed;
use crate::gpu::Gpu;
use crate::memory::{BufferMemory, padded};

/// Memory for so many bytes. What it holds is anything.
pub(crate) fn allocate(gpu: &Gpu, bytes: usize) -> Result<BufferMemory, BackendError> {
    gpu.guarded("Device::create_buffer_from_hal", || create(&gpu.device, bytes))
}

/// As [`allocate`], under the caller's error scopes.
pub(crate) fn create(device: &wgpu::Device, bytes: usize) -> Result<BufferMemory, BackendError> {
    let size = padded(bytes.max(1)) as u64;
    // SAFETY: nothing of the device is destroyed through its handle.
    let hal = unsafe { device.as_hal::<Vulkan>() };
    let Some(hal) = hal else { return Err(failed("Device::as_hal", "it is no Vulkan device")) };
    let made = Raw::create(&hal, size).map_err(|code| match code {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_MEMORY_MAP_FAILED
        | vk::Result::ERROR_TOO_MANY_OBJECTS => BackendError::OutOfMemory { bytes },
        other => failed("vkAllocateMemory", format!("{other:?}")),
    })?;
    drop(hal);
    // SAFETY: buffer and memory were made by this device, belong to nobody else, and are of this size.
    let buffer =
        unsafe { wgpu::hal::vulkan::Buffer::from_raw_managed(made.buffer, made.memory, 0, made.size) };
    let usage = wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::UNIFORM;
    let about = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
    // SAFETY: it is this device's buffer, of this size and for these uses. What it holds is defined by nobody, and the runtime
    // takes it for that.
    let buffer = unsafe { device.create_buffer_from_hal::<Vulkan>(buffer, &about) };
    // SAFETY: the memory is mapped whole, until it is freed, which the buffer does at its end.
    Ok(unsafe { BufferMemory::at(buffer, bytes, made.host) })
}

/// A buffer with memory of its own, mapped.
struct Raw {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    size: u64,
    host: NonNull<u8>,
}

impl Raw {
    fn create(hal: &wgpu::hal::vulkan::Device, size: u64) -> Result<Self, vk::Result> {
        let device = hal.raw_device();
        let usage = vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::UNIFORM_BUFFER;
        let about = vk::BufferCreateInfo::default().size(size).usage(usage);
        // SAFETY: the description is valid, and the device lives.
        let buffer = unsafe { device.create_buffer(&about, None) }?;
        // SAFETY: the buffer is this device's.
        let needs = unsafe { device.get_buffer_memory_requirements(buffer) };
        let memory = Self::memory(hal, needs).inspect_err(|_| {
            // SAFETY: nothing uses the buffer, which was made above.
            unsafe { device.destroy_buffer(buffer, None) }
        })?;
        let bound = || {
            // SAFETY: the memory is as large as the buffer needs and of a kind that it takes, and bound to nothing else.
            unsafe { device.bind_buffer_memory(buffer, memory, 0) }?;
            // SAFETY: the memory is of a kind that the host reaches, and is not mapped.
            unsafe { device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) }
        };
        let host = bound().and_then(|at| NonNull::new(at.cast()).ok_or(vk::Result::ERROR_MEMORY_MAP_FAILED));
        match host {
            Ok(host) => Ok(Raw { buffer, memory, size: needs.size, host }),
            Err(code) => {
                // SAFETY: nothing uses either of them; both were made above.
                unsafe {
                    device.destroy_buffer(buffer, None);
                    device.free_memory(memory, None);
                }
                Err(code)
            }
        }
    }

    fn memory(
        hal: &wgpu::hal::vulkan::Device,
        needs: vk::MemoryRequirements,
    ) -> Result<vk::DeviceMemory, vk::Result> {
        let instance = hal.shared_instance().raw_instance();
        // SAFETY: it is the physical device of a device that lives.
        let kinds = unsafe { instance.get_physical_device_memory_properties(hal.raw_physical_device()) };
        let kind = best(kinds.memory_types_as_slice(), needs.memory_type_bits);
        let kind = kind.ok_or(vk::Result::ERROR_OUT_OF_HOST_MEMORY)?;
        let about = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
        // SAFETY: the kind is one of the device's.
        unsafe { hal.raw_device().allocate_memory(&about, None) }
    }
}

/// The kind of memory that suits both ways: the host reads and writes it without flushing, through its caches, and it does not
/// take from what the device has nearby.
fn best(kinds: &[vk::MemoryType], allowed: u32) -> Option<u32> {
    use vk::MemoryPropertyFlags as Has;
    let is_for_us =
        |kind: &vk::MemoryType| kind.property_flags.contains(Has::HOST_VISIBLE | Has::HOST_COHERENT);
    let worth = |kind: &vk::MemoryType| {
        let has = |what| kind.property_flags.contains(what);
        (has(Has::HOST_CACHED), !has(Has::DEVICE_LOCAL))
    };
    let all = kinds.iter().enumerate().filter(|(at, kind)| allowed & (1 << at) != 0 && is_for_us(kind));
    // Of equals the first, which the driver prefers.
    all.rev().max_by_key(|(_, kind)| worth(kind)).map(|(at, _)| at as u32)
}
