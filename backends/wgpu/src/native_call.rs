//! Native code in a group, and the [`Place`] it is given.

use windlass_backend::{BackendError, NativeCall};

use crate::gpu::Gpu;

/// Where native code records its commands; see [`native`](crate::native).
#[derive(Debug)]
pub struct Place {
    device: wgpu::Device,
    encoder: wgpu::CommandEncoder,
}

impl Place {
    /// The encoder, which takes commands of any kind. No pass is open in it, and none may be left open.
    pub fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        &mut self.encoder
    }

    /// The device, to make whatever the commands need.
    pub fn device(&self) -> &wgpu::Device {
        &self.device
    }
}

/// Has native code record its commands. That is done when the group is fed: what wgpu says against them is then known
/// to be the group's, and wgpu follows what is done to the buffers only in the order of the submissions.
pub(crate) fn record(gpu: &Gpu, call: NativeCall<'_>) -> Result<wgpu::CommandBuffer, BackendError> {
    gpu.guarded("CommandEncoder::finish", || {
        let encoder = gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut place = Place { device: wgpu::Device::clone(&gpu.device), encoder };
        call.call(&mut place)?;
        Ok(place.encoder.finish())
    })
}
