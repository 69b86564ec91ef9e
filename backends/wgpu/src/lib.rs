//! The wgpu backend: Vulkan devices, through wgpu, behind Windlass lanes.
//!
//! The Vulkan loader is opened at run time, by [`Backend::discover`] and no earlier; a machine without one, or without
//! a driver behind it, makes the backend [`Unavailable`].
//!
//! # How work flows
//!
//! wgpu's calls may be made on any thread, but some of them block: `Queue::submit` may take as long as the previous job
//! runs, and only a thread blocked in `Device::poll` learns promptly that a job is done. So each device has two threads of its
//! own, started at the first feed and joined by `close`:
//!
//! 1. `feed` checks a group and packs it into owned operations (`ops`) on the caller's thread, without native calls.
//! 2. The submitter (`submit`) takes everything that is waiting (`inbox`), encodes it with one encoder (`encode`), and submits it at
//!    once. Launches that follow each other share a pass, and those of the same buffers a group of bindings. If that fails, each
//!    group is encoded again by itself, so that an error belongs to one point. At most two submissions are in flight, so under
//!    load batches grow by themselves. A device that has nothing to do is given a few groups by the thread that feeds them.
//! 3. The waiter (`event`) waits until the oldest submission has ended, moves what it read back into host memory, and
//!    tells the lane's completion, which reports the armed points. On GPUs it asks for a moment before it sleeps.
//!
//! Staging is memory of the host that the device reaches, mapped for as long as it lives (`pinned`): copies with it are the
//! device's alone. What comes from other memory of the host, or goes there, is copied once more, by the threads above.
//!
//! **Invariant:** nothing here calls `Buffer::destroy`. It would wait for a lock that a blocked `Device::poll` holds, and
//! block every encoder meanwhile. Dropping a buffer does neither.
//!
//! The threads also stay out of the driver while the process exits (`process_exit`).
//!
//! # A known fault of wgpu
//!
//! wgpu-core 30.0.1, the newest release, occasionally panics inside `Device::poll` when a wait with a timeout and another
//! thread's poll see the same submission end ("If the queue is empty, the current submission index …";
//! [fixed upstream](https://github.com/gfx-rs/wgpu/pull/9958), but not released yet). The panic is spurious: the backend
//! catches it and goes on waiting. But by then the program's panic hook has printed a message, which can be ignored, and a
//! program built with `panic = "abort"` has aborted: build programs that use this backend with unwinding.
//!
//! # A known fault of NVIDIA's driver
//!
//! With driver 580 on an H100, a thread that has used Vulkan and ends while another thread destroys a device sometimes stops both: the
//! end of the one and a thread of the driver, for which `vkDestroyDevice` waits, wait for each other inside the driver, with the
//! loader's lock held, so that nothing of Vulkan goes on in the process. It was seen with sixteen threads that each open a
//! device, close it and end, in a quarter of the runs. A program with one context for each device, and threads that live on, does
//! not do that.
//!
//! [`kernel`] describes what kernels must look like.
#![warn(missing_docs)]

mod bytes;
mod context;
mod details;
mod device;
mod encode;
mod error;
mod event;
mod flight;
mod gpu;
mod inbox;
pub mod kernel;
mod lane;
mod launch;
mod memory;
pub mod native;
mod native_call;
mod ops;
mod pinned;
mod pipeline_cache;
mod stage;
mod submit;
mod times;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use windlass_backend::{
    Backend, BackendError, BackendId, Context, ContextSink, ContextSpec, Platform, Unavailable, async_trait,
    native_object,
};
use windlass_sync::facade::{Mutex, lock};

use context::WgpuContext;
use windlass_sync::process_exit::{self, Native};

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
    /// Kept once it has listed an adapter, since loading the drivers takes long. Until then each discovery makes a new one, so
    /// that a driver installed in the meantime is found.
    instance: Mutex<Option<Arc<Native<wgpu::Instance>>>>,
}

impl Wgpu {
    /// The backend. Nothing is loaded yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The platforms as they are now.
    async fn platforms(&self) -> Result<Vec<device::Found>, Unavailable> {
        let known = lock(&self.instance).clone();
        let is_new = known.is_none();
        let instance = known.unwrap_or_else(device::load);
        let found = device::find(&instance).await?;
        if is_new {
            process_exit::watch();
        }
        *lock(&self.instance) = Some(instance);
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

    async fn adopt(
        &self,
        object: Box<dyn Any + Send>,
        sink: Arc<dyn ContextSink>,
    ) -> Result<Arc<dyn Context>, BackendError> {
        let handle: native::DeviceHandle = native_object(object)?;
        let found = self.platforms().await.map_err(|e| BackendError::Unsupported(e.to_string()))?;
        let listed = device::listed(&found, &handle.device)?;
        Ok(Arc::new(WgpuContext::adopt(handle, listed, sink)))
    }
}
