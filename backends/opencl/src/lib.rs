//! Windlass over OpenCL: any driver of version 1.2 or later, loaded at run time.
//!
//! - A lane is an in-order command queue. Waits between lanes of a context are native event waits ([`lane`]).
//! - Completion is by event callbacks, which read statuses and call the lane's sink ([`event`]).
//! - Memory is a buffer of the driver's, on processors over host memory; copies and fills are native commands ([`memory`]). What is to
//!   stay in one place may be in memory that has one address for host and devices, or in the driver's host memory.
//! - Kernels are OpenCL C text, with a calling convention for ranges of buffers ([`kernel`]).
//! - The native calls and the owners of native objects are in [`sys`], and nowhere else.
//!
//! Nothing is loaded before [`Backend::discover`] is called, and a machine without OpenCL gets an [`Unavailable`]
//! that says what is missing.
//!
//! Drivers are trusted to keep OpenCL's promises, with three exceptions, all observed in practice: a driver may run a
//! callback on a thread that is inside a native call, may leave an event's dependents ignorant of its failure, and blocks
//! the caller when a queue holds too much.
#![warn(missing_docs)]
#![allow(rustdoc::private_intra_doc_links, reason = "the crate's documentation is for those who work on it")]

mod args;
mod compiler;
mod context;
mod described_args;
mod details;
mod device;
mod driver;
mod enqueued;
mod error;
mod event;
pub mod ext;
mod feeding;
mod gate;
mod group_size;
mod kernel;
mod lane;
mod memory;
pub mod native;
mod native_call;
mod pci;
mod sys;
mod watcher;
mod wgsl_args;

use std::any::Any;
use std::sync::Arc;

use windlass_backend::{
    Backend, BackendError, BackendId, Context, ContextSink, ContextSpec, Platform, Unavailable, async_trait,
    native_object,
};

use crate::context::OpenClContext;

/// The backend's name.
pub const ID: BackendId = BackendId::new("opencl");

/// The OpenCL backend.
///
/// ```
/// use windlass_backend::Backend;
/// assert_eq!(windlass_opencl::OpenCl::new().id().as_str(), "opencl");
/// ```
#[derive(Debug, Default)]
pub struct OpenCl {
    copies: bool,
    division: Option<ext::Division>,
}

impl OpenCl {
    /// The backend. Touches no driver yet.
    pub fn new() -> Self {
        OpenCl::default()
    }

    /// Has processors work on memory of their own, to which data is copied, as on other devices. Otherwise they work on memory that
    /// the host reaches, too, where their driver was seen to do so when the context was opened.
    #[must_use]
    pub fn copying(self) -> Self {
        OpenCl { copies: true, ..self }
    }

    /// Lists the parts of devices that can be divided like this, too, behind the whole: processors, as a rule. Each part is a device
    /// like any other, for queues and contexts of its own. A device that comes to no more than one part stays whole: with 12 units
    /// there are no two parts of 8.
    ///
    /// ```no_run
    /// use windlass_opencl::{OpenCl, ext::Division};
    /// // Eight cores for what has to be quick, and eight for the rest.
    /// let backend = OpenCl::new().divided(Division::ByUnits(8));
    /// # let _ = backend;
    /// ```
    #[must_use]
    pub fn divided(self, division: ext::Division) -> Self {
        OpenCl { division: Some(division), ..self }
    }
}

// SAFETY: its contexts are `OpenClContext`s, which keep the contract.
#[async_trait]
unsafe impl Backend for OpenCl {
    fn id(&self) -> BackendId {
        ID
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        Ok(device::find(self.division)?.iter().map(device::platform_info).collect())
    }

    async fn open(&self, spec: ContextSpec) -> Result<Arc<dyn Context>, BackendError> {
        let found = device::find(self.division).map_err(|why| BackendError::Unsupported(why.to_string()))?;
        Ok(Arc::new(OpenClContext::open(&found, &spec.devices, self.copies)?))
    }

    async fn adopt(
        &self,
        object: Box<dyn Any + Send>,
        // A driver has no way to tell that it lost a device but to fail a call.
        _sink: Arc<dyn ContextSink>,
    ) -> Result<Arc<dyn Context>, BackendError> {
        let native::ContextHandle(context) = native_object(object)?;
        let found = device::find(self.division).map_err(|why| BackendError::Unsupported(why.to_string()))?;
        Ok(Arc::new(OpenClContext::adopt(&found, context, self.copies)?))
    }
}
