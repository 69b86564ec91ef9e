//! Windlass over OpenCL: any driver of version 1.2 or later, loaded at run time.
//!
//! - A lane is an in-order command queue. Waits between lanes of a context are native event waits ([`lane`]).
//! - Completion is by event callbacks, which read statuses and call the lane's sink ([`event`]).
//! - Memory is a buffer of the driver's; copies and fills are native commands ([`memory`]).
//! - Kernels are OpenCL C text, with a calling convention for ranges of buffers ([`kernel`]).
//! - The native calls and the owners of native objects are in [`sys`], and nowhere else.
//!
//! Nothing is loaded before [`Backend::discover`] is called, and a machine without OpenCL gets an [`Unavailable`]
//! that says what is missing.
//!
//! What is behind the driver is trusted to keep OpenCL's promises, with these exceptions, all met in practice: a
//! driver may call back on the thread inside a native call, does not have to tell an event's dependents of a failure,
//! and blocks its caller when a queue holds too much.
#![warn(missing_docs)]
#![allow(rustdoc::private_intra_doc_links, reason = "the crate's documentation is for those who work on it")]

mod context;
mod described;
mod device;
mod error;
mod event;
mod feeding;
mod kernel;
mod lane;
mod memory;
pub mod native;
mod sys;
mod translated;
mod waiter;

use std::sync::Arc;

use windlass_backend::{
    Backend, BackendError, BackendId, Context, ContextSpec, Platform, Unavailable, async_trait,
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
    // A field of its own keeps the type open for settings.
    _private: (),
}

impl OpenCl {
    /// The backend. Touches no driver yet.
    pub fn new() -> Self {
        OpenCl::default()
    }
}

// SAFETY: its contexts are `OpenClContext`s, which keep the contract.
#[async_trait]
unsafe impl Backend for OpenCl {
    fn id(&self) -> BackendId {
        ID
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        Ok(device::find()?.iter().map(device::platform_info).collect())
    }

    async fn open(&self, spec: ContextSpec) -> Result<Arc<dyn Context>, BackendError> {
        let found = device::find().map_err(|why| BackendError::Unsupported(why.to_string()))?;
        Ok(Arc::new(OpenClContext::open(&found, &spec.devices)?))
    }
}
