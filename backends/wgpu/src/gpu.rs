//! The device that every part of the backend shares.

use std::sync::Arc;

use windlass_backend::BackendError;

use crate::error::{Faults, guarded};
use crate::exit::Native;

/// What every part of the backend needs of a device.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) device: Native<wgpu::Device>,
    pub(crate) queue: Native<wgpu::Queue>,
    pub(crate) limits: wgpu::Limits,
    pub(crate) faults: Arc<Faults>,
}

impl Gpu {
    /// Runs native calls, and returns what they reported or how they panicked.
    pub(crate) fn guarded<T>(
        &self,
        call: &'static str,
        work: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<T, BackendError> {
        guarded(&self.device, &self.faults, call, work)
    }
}
