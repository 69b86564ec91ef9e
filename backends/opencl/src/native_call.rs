//! Native code in a group, and the [`Place`] it is given.

use std::ffi::c_void;

use windlass_backend::{BackendError, NativeCall};

use crate::feeding::Feeding;
use crate::sys::{Context, Queue};

/// Where native code enqueues its commands; see [`native`](crate::native).
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

/// A call of native code, until it is made.
pub(crate) struct Calling<'a>(Option<NativeCall<'a>>);

impl<'a> Calling<'a> {
    pub(crate) fn new(call: NativeCall<'a>) -> Self {
        Calling(Some(call))
    }

    /// Enqueues the code's commands behind the group's waits, and a marker behind them that tells when they have ended.
    pub(crate) fn enqueue(
        &mut self,
        context: &Context,
        queue: &Queue,
        feeding: &mut Feeding<'_>,
    ) -> Result<(), BackendError> {
        let Some(call) = self.0.take() else { return Ok(()) };
        // We do not see the code's first command, so a marker carries the waits in its place.
        feeding.barrier()?;
        let mut place = Place { queue: queue.raw(), context: context.raw() };
        let called = call.call(&mut place);
        // Even if the code has failed, since it may have enqueued something by then.
        feeding.enqueue(Queue::marker)?;
        called
    }
}
