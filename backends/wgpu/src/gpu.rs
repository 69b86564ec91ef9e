//! The open device, shared by all parts of the backend.

use std::sync::{Arc, OnceLock};

use windlass_backend::BackendError;

use crate::error::{Faults, guarded};
use crate::kernel::Pipeline;
use crate::stage::Spare;
use windlass_sync::process_exit::Native;

/// An open device with its queue.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) device: Native<wgpu::Device>,
    pub(crate) queue: Native<wgpu::Queue>,
    pub(crate) limits: wgpu::Limits,
    /// Whether it is a GPU, and not a CPU that acts as one.
    pub(crate) is_real: bool,
    /// Whether it can write its clock down.
    pub(crate) tells_times: bool,
    /// Whether its compiler must not recognise negations of integers. NVIDIA's gets the largest (or least) of three integers of which
    /// one is a negated one wrong on an H100 (driver 580).
    pub(crate) loses_negations: bool,
    pub(crate) faults: Arc<Faults>,
    /// Copies bytes; built when it is first needed.
    pub(crate) bytes: OnceLock<Pipeline>,
    /// Staging for later batches.
    pub(crate) spare: Spare,
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
