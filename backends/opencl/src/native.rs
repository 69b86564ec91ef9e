//! Down to OpenCL's own objects: what the portable API does not cover.
//!
//! Native code in a group is given a [`Place`]: the lane's command queue, which is in-order. What it enqueues there, without waiting
//! for it, stands behind the group's earlier commands and before its later ones. Everything that the group waits for has
//! been put ahead of it. It must not finish the queue, nor change or release it, and its commands may use memory of the group's
//! accessors alone, as these say. Handles are as the crate `opencl3`, and every other, knows them, cast to an untyped pointer.

use std::convert::Infallible;
use std::ffi::c_void;

use windlass_backend::{BackendError, NativeApi, NativeCall};

use crate::OpenCl;
pub use crate::context::OpenClContext;
use crate::feeding::Feeding;
pub use crate::memory::Memory;
use crate::sys::{self, Queue};

impl NativeApi for OpenCl {
    const BACKEND: &'static str = "opencl";
    type Context = OpenClContext;
    type Place = Place;
    type Memory = Memory;
    /// Nothing is made into a context yet.
    type Object = Infallible;
}

/// Where native code enqueues its commands; see the module's documentation.
#[derive(Debug)]
pub struct Place {
    queue: *mut c_void,
    context: *mut c_void,
}

impl Place {
    /// The `cl_command_queue`. It lives as long as the call that was given this.
    pub fn queue(&self) -> *mut c_void {
        self.queue
    }

    /// The queue's `cl_context`.
    pub fn context(&self) -> *mut c_void {
        self.context
    }
}

impl OpenClContext {
    /// The `cl_context`. It lives as long as this.
    pub fn raw(&self) -> *mut c_void {
        self.native().raw()
    }
}

impl Memory {
    /// The `cl_mem`. It lives as long as this.
    pub fn raw(&self) -> *mut c_void {
        self.buffer().raw()
    }
}

/// A call of native code, until it is made.
pub(crate) struct Calling<'a>(Option<NativeCall<'a>>);

impl<'a> Calling<'a> {
    pub(crate) fn new(call: NativeCall<'a>) -> Self {
        Calling(Some(call))
    }

    /// The code's commands come behind the group's waits, and a marker behind them tells when they have ended. It is
    /// enqueued even if the code has failed: something may have been enqueued by then.
    pub(crate) fn enqueue(
        &mut self,
        context: &sys::Context,
        queue: &Queue,
        feeding: &mut Feeding<'_>,
    ) -> Result<(), BackendError> {
        let Some(call) = self.0.take() else { return Ok(()) };
        feeding.barrier()?;
        let mut place = Place { queue: queue.raw(), context: context.raw() };
        let called = call.call(&mut place);
        feeding.enqueue(Queue::marker)?;
        called
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ID;

    #[test]
    fn the_api_is_of_this_backend() {
        assert_eq!(ID.as_str(), <OpenCl as NativeApi>::BACKEND);
    }
}
