//! Memory of the host that the device reaches by itself, mapped for as long as it lives: staging, and what the runtime keeps
//! there of buffers.
//!
//! wgpu's own mapped buffers are the device's or the host's in turn, and each turn is a call and a callback. So this memory is
//! made with Vulkan's own calls, and wgpu is handed the buffer, as one that it neither maps nor frees. Then two things are ours:
//!
//! - **Visibility.** What the host writes before a submission is visible to it by Vulkan's rules. What a submission wrote is visible
//!   to the host only behind a barrier, which the encoder adds (`encode::show`).
//! - **Lifetime.** When a device is lost or destroyed, wgpu destroys all its buffers at once, whoever still has one. Host code may be
//!   reading this memory at that moment. So it has two owners, [`Memory`] and wgpu's buffer, and the last one to go
//!   frees it: wgpu's keeps it for as long as a submission uses it, and ours for as long as there is a pointer to it.

use std::ptr::{self, NonNull};
use std::sync::Arc;

use ash::vk;
use wgpu::hal;
use wgpu::hal::api::Vulkan;
use windlass_backend::BackendError;

use crate::error::failed;
use crate::gpu::Gpu;
use crate::memory::{Memory, padded};

/// Memory for so many bytes. What it holds is anything.
pub(crate) fn allocate(gpu: &Gpu, bytes: usize) -> Result<Memory, BackendError> {
    gpu.guarded("Device::create_buffer_from_hal", || create(&gpu.device, bytes))
}

/// As [`allocate`], under the caller's error scopes.
pub(crate) fn create(device: &wgpu::Device, bytes: usize) -> Result<Memory, BackendError> {
    let size = padded(bytes.max(1)) as u64;
    // SAFETY: nothing of the device is destroyed through its handle.
    let native = unsafe { device.as_hal::<Vulkan>() };
    let Some(native) = native else { return Err(failed("Device::as_hal", "it is no Vulkan device")) };
    let made = Raw::create(&native, size).map_err(|code| match code {
        vk::Result::ERROR_OUT_OF_HOST_MEMORY
        | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
        | vk::Result::ERROR_MEMORY_MAP_FAILED
        | vk::Result::ERROR_TOO_MANY_OBJECTS => BackendError::OutOfMemory { bytes },
        other => failed("vkAllocateMemory", format!("{other:?}")),
    })?;
    drop(native);
    let made = Arc::new(made);
    let kept = Arc::clone(&made);
    // SAFETY: the buffer was made by this device, and is destroyed only when this callback, which wgpu drops with its buffer, and
    // `Memory` are gone.
    let buffer =
        unsafe { hal::vulkan::Buffer::from_raw_externally_owned(made.buffer, Box::new(move || drop(kept))) };
    let usage = wgpu::BufferUsages::COPY_SRC
        | wgpu::BufferUsages::COPY_DST
        | wgpu::BufferUsages::UNIFORM
        | wgpu::BufferUsages::STORAGE;
    let about = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
    // SAFETY: it is this device's buffer, of this size and for these uses. What it holds is defined by nobody, and the runtime
    // takes it for that.
    let buffer = unsafe { device.create_buffer_from_hal::<Vulkan>(buffer, &about) };
    Ok(Memory::mapped(buffer, bytes, made))
}

/// A buffer with memory of its own, of at least the size that was asked for, mapped. To be dropped while its device lives, which
/// any buffer of wgpu's on the device sees to.
#[derive(Debug)]
pub(crate) struct Raw {
    buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    host: NonNull<u8>,
    device: vk::Device,
    destroy_buffer: vk::PFN_vkDestroyBuffer,
    free_memory: vk::PFN_vkFreeMemory,
}

// SAFETY: handles and an address are plain values, and Vulkan's objects may be used from any thread.
unsafe impl Send for Raw {}
// SAFETY: as above; to share it gives out the address alone.
unsafe impl Sync for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: both were made by the device, which lives, and this was the last owner. To free memory unmaps it.
        unsafe {
            (self.destroy_buffer)(self.device, self.buffer, ptr::null());
            (self.free_memory)(self.device, self.memory, ptr::null());
        }
    }
}

impl Raw {
    pub(crate) fn host(&self) -> NonNull<u8> {
        self.host
    }

    fn create(hal: &hal::vulkan::Device, size: u64) -> Result<Self, vk::Result> {
        let device = hal.raw_device();
        let usage = vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::UNIFORM_BUFFER
            | vk::BufferUsageFlags::STORAGE_BUFFER;
        let about = vk::BufferCreateInfo::default().size(size).usage(usage);
        // Complete from the start, so that whatever fails below is undone by its drop: to destroy nothing is allowed.
        let mut raw = Raw {
            buffer: vk::Buffer::null(),
            memory: vk::DeviceMemory::null(),
            host: NonNull::dangling(),
            device: device.handle(),
            destroy_buffer: device.fp_v1_0().destroy_buffer,
            free_memory: device.fp_v1_0().free_memory,
        };
        // SAFETY: the description is valid, and the device lives.
        raw.buffer = unsafe { device.create_buffer(&about, None) }?;
        // SAFETY: the buffer is this device's.
        let needs = unsafe { device.get_buffer_memory_requirements(raw.buffer) };
        raw.memory = Self::memory(hal, needs)?;
        // SAFETY: the memory is as large as the buffer needs and of a kind that it takes, and bound to nothing else.
        unsafe { device.bind_buffer_memory(raw.buffer, raw.memory, 0) }?;
        // SAFETY: the memory is of a kind that the host reaches, and is not mapped.
        let at = unsafe { device.map_memory(raw.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) }?;
        raw.host = NonNull::new(at.cast()).ok_or(vk::Result::ERROR_MEMORY_MAP_FAILED)?;
        Ok(raw)
    }

    fn memory(
        hal: &hal::vulkan::Device,
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
