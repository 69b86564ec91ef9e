//! The wgpu backend: Vulkan devices, through wgpu, behind Windlass lanes.
//!
//! The Vulkan loader is opened at run time, by [`Backend::discover`] and no earlier; a machine without one, or without
//! a driver behind it, makes the backend [`Unavailable`].
//!
//! # How work flows
//!
//! wgpu's calls are safe to make anywhere but not free to make anywhere: `Queue::submit` may block for as long as the
//! previous job runs, and nothing but a blocked thread learns early that a job is done. So each device has two threads
//! of its own, started at the first feed and never joined:
//!
//! 1. `feed` checks a group and packs it into owned operations (`ops`), on the caller's thread; no native call is made.
//! 2. The submitter (`submit`) takes everything that is waiting, encodes (`encode`) each group by itself, so that an
//!    error has one point to belong to, and submits them all at once. At most two submissions are in flight: with an
//!    idle device one group leaves at once, and under load batches grow by themselves.
//! 3. The waiter (`event`) blocks until the oldest submission has ended, moves what it read back into host memory, and
//!    tells the lane's completion, which reports the armed points.
//!
//! **Invariant:** nothing here calls `Buffer::destroy`. It waits for the lock that a blocked `Device::poll` holds, and
//! from then on blocks every encoder too; dropping does neither.
//!
//! The threads also know how to be outside the driver when the process exits (`exit`).
//!
//! # A known fault of wgpu
//!
//! wgpu-core 30.0.1, the newest release, panics inside `Device::poll` now and then where a wait with a time limit and another
//! thread's poll see the same submission end ("If the queue is empty, the current submission index …";
//! [mended upstream](https://github.com/gfx-rs/wgpu/pull/9958), and in no release yet). Nothing is wrong then: the backend
//! catches the panic and waits on. But the program's panic hook has been called by then, which prints a message that may be
//! disregarded, and a program built with `panic = "abort"` ends there: build programs that use this backend with unwinding.
//!
//! What kernels look like is said in [`kernel`].
#![warn(missing_docs)]

mod context;
mod device;
mod encode;
mod error;
mod event;
mod exit;
mod flight;
mod gpu;
mod kept;
pub mod kernel;
mod lane;
mod launch;
mod memory;
mod ops;
mod stage;
mod submit;

use std::fmt;
use std::sync::{Arc, Mutex};

use windlass_backend::{
    Backend, BackendError, BackendId, Context, ContextSpec, Platform, Unavailable, async_trait,
};

pub use context::WgpuContext;
use exit::Native;

/// The backend's name.
pub const ID: BackendId = BackendId::new("wgpu");

/// The backend of Vulkan devices.
///
/// ```
/// use windlass_backend::Backend;
/// assert_eq!(windlass_wgpu::Wgpu::new().id().as_str(), "wgpu");
/// ```
#[derive(Default)]
pub struct Wgpu {
    /// Kept once it has shown an adapter, since loading the drivers takes long; not before, so that a driver which
    /// was put in place meanwhile is found.
    instance: Mutex<Option<Arc<Native<wgpu::Instance>>>>,
}

impl Wgpu {
    /// The backend. Nothing is loaded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The platforms as they are now.
    async fn platforms(&self) -> Result<Vec<device::Found>, Unavailable> {
        let known = error::lock(&self.instance).clone();
        let is_new = known.is_none();
        let instance = known.unwrap_or_else(device::load);
        let found = device::find(&instance).await?;
        if is_new {
            exit::watch();
        }
        *error::lock(&self.instance) = Some(instance);
        Ok(found)
    }
}

impl fmt::Debug for Wgpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wgpu").finish_non_exhaustive()
    }
}

// SAFETY: its contexts are `WgpuContext`s, which keep the contract.
#[async_trait]
unsafe impl Backend for Wgpu {
    fn id(&self) -> BackendId {
        ID
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        Ok(self.platforms().await?.into_iter().map(|found| found.platform).collect())
    }

    async fn open(&self, spec: ContextSpec) -> Result<Arc<dyn Context>, BackendError> {
        let [key] = &spec.devices[..] else {
            return Err(BackendError::Unsupported(format!(
                "a wgpu context holds exactly one device, not {}",
                spec.devices.len()
            )));
        };
        let found = self.platforms().await.map_err(|e| BackendError::Unsupported(e.to_string()))?;
        let Some((adapter, info)) = found.iter().find_map(|f| f.adapter(key)) else {
            return Err(BackendError::Lost(format!("there is no Vulkan device `{key}` now")));
        };
        Ok(Arc::new(WgpuContext::open(adapter, info.clone(), spec.sink).await?))
    }
}
