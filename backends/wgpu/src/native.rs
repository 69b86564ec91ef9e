//! Down to wgpu's own objects and back: what the portable API does not cover. [`wgpu`] is the version that all of them are of.
//!
//! **Commands.** Native code in a group is given a [`Place`]: an encoder, and the device. What it records there runs after the
//! group's earlier commands, and everything the group waits for, and before its later commands. It may use the memory of the group's
//! accessors, in the ways that the accessors allow, and whatever the program itself has made on the device. A group with native
//! code is a submission by itself. What wgpu says against the commands is the group's error.
//!
//! **Memory.** An accessor's memory is a [`wgpu::Buffer`] that shaders, copies, vertices, indices and uniforms may be read from and
//! shaders and copies may write. Do not destroy it, and do not map it: what is submitted together
//! with a group that uses it then fails, too. It may be larger than the runtime's buffer, whose bytes are the first, so bind as many of them as you mean:
//! what is behind is of no meaning. One that the program made, for storage and copies in both
//! directions, becomes a buffer of the runtime's that stays there.
//!
//! **Devices.** One that the program opened becomes one of the runtime's: [`DeviceHandle`]. Both go on to use it, each by submissions
//! of its own, which wgpu runs one after the other. Callbacks of either may be called by the threads of the other.
//!
//! **Ownership.** wgpu counts its objects itself, and what is handed out may be kept. A device that came in is let go when the runtime has
//! closed the context.

use std::fmt;

pub use wgpu;
use windlass_backend::NativeApi;

use crate::Wgpu;
pub use crate::context::WgpuContext;
use crate::error::OnLost;
pub use crate::memory::Memory;
pub use crate::native_call::Place;

impl NativeApi for Wgpu {
    const BACKEND: &'static str = "wgpu";
    type Context = WgpuContext;
    type Place = Place;
    type Memory = Memory;
    type Object = DeviceHandle;
    /// A buffer that the program made on the context's device, for storage and copies in both directions. The runtime orders its
    /// submissions with it among themselves, and wgpu all of them.
    type MemoryObject = wgpu::Buffer;
    /// Always refused: a device of wgpu's has one queue, which comes with it ([`DeviceHandle`]) and which all queues of its context
    /// share as it is.
    type QueueObject = wgpu::Queue;
}

/// A device that the program opened, with its queue.
///
/// It has to be one of Vulkan's that the runtime lists. Kernels may need features and limits that a device has only where they were
/// asked for when it was opened: where they are missing, building the kernel or making the buffer is refused.
pub struct DeviceHandle {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) on_lost: Option<OnLost>,
}

impl DeviceHandle {
    /// A device and its queue. The runtime sets the device's callback for its loss (see [`DeviceHandle::on_lost`]), and so a device
    /// makes one context: of several, the last would hear of the loss. The
    /// program's handler of uncaptured errors stays, and hears nothing of the runtime's.
    pub fn new(device: wgpu::Device, queue: wgpu::Queue) -> Self {
        DeviceHandle { device, queue, on_lost: None }
    }

    /// What is to be called when the device is lost, after the runtime was told.
    pub fn on_lost(mut self, told: impl Fn(wgpu::DeviceLostReason, &str) + Send + 'static) -> Self {
        self.on_lost = Some(Box::new(told));
        self
    }
}

impl fmt::Debug for DeviceHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceHandle").field("device", &self.device).finish_non_exhaustive()
    }
}

impl WgpuContext {
    /// The device. Work submitted to it directly is unknown to the runtime; do not destroy it.
    pub fn device(&self) -> &wgpu::Device {
        &self.gpu().device
    }

    /// The device's queue.
    pub fn queue(&self) -> &wgpu::Queue {
        &self.gpu().queue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ID;

    #[test]
    fn the_api_is_of_this_backend() {
        assert_eq!(ID.as_str(), <Wgpu as NativeApi>::BACKEND);
    }
}
