//! Native queues of the program's own as queues.

use windlass_backend::NativeApi;

use crate::context::Context;
use crate::error::Result;
use crate::queue::{Queue, QueueBuilder};
use crate::shell::own_lanes::GivenQueue;

impl Queue {
    /// Makes a queue of a native one that the program has, in the context that it is of: groups of this queue are commands of that very
    /// one, in order with what the program puts there itself, and no other group or copy of the runtime's comes there. It is let go of when the last
    /// handle of this queue is gone, and of its groups' events, and the groups have ended. What has to be true of it, and what is in order
    /// with what, its type says. Blocks as long as the driver takes.
    ///
    /// A queue with options is made by [`QueueBuilder::native_queue`].
    ///
    /// ```no_run
    /// # #[cfg(feature = "opencl")]
    /// # fn f() {
    /// use std::ffi::c_void;
    /// use windlass::opencl::{OpenCl, native::QueueHandle};
    /// use windlass::prelude::*;
    ///
    /// /// Has the program's commands and the runtime's groups in one queue.
    /// ///
    /// /// # Safety
    /// ///
    /// /// `own` is a live `cl_command_queue`.
    /// unsafe fn put_in_line(context: &Context, own: *mut c_void, x: &Buffer<u32>) -> windlass::Result<Queue> {
    ///     // SAFETY: it is live, by the caller's promise.
    ///     let handle = unsafe { QueueHandle::retain(own) }.map_err(windlass::Error::other)?;
    ///     let queue = Queue::blocking_from_native::<OpenCl>(context, handle)?;
    ///     // Behind all that the program has enqueued there by now.
    ///     queue.submit(|cg| cg.fill(&cg.overwrite(x), 7))?;
    ///     Ok(queue)
    /// }
    /// # }
    /// ```
    pub fn blocking_from_native<N: NativeApi>(context: &Context, queue: N::QueueObject) -> Result<Queue> {
        Queue::builder().context(context).native_queue::<N>(queue).blocking_build()
    }

    /// [`Queue::blocking_from_native`] on a thread that may block.
    ///
    /// ```no_run
    /// # #[cfg(feature = "opencl")]
    /// # fn f() {
    /// use windlass::opencl::{OpenCl, native::QueueHandle};
    /// use windlass::prelude::*;
    ///
    /// async fn beside(context: &Context, own: QueueHandle) -> windlass::Result<Queue> {
    ///     Queue::from_native::<OpenCl>(context, own).await
    /// }
    /// # }
    /// ```
    pub async fn from_native<N: NativeApi>(context: &Context, queue: N::QueueObject) -> Result<Queue> {
        Queue::builder().context(context).native_queue::<N>(queue).build().await
    }
}

impl QueueBuilder {
    /// The native queue that groups are to go to, as [`Queue::from_native`] has it; the [`context`](QueueBuilder::context) that it is of has
    /// to be named too. It is on the device that it was made on, and has the priority that it was made with: another device is
    /// an error, and so is any other [`priority`](QueueBuilder::priority) than the normal one, which stands for that. So is
    /// [`profiling`](QueueBuilder::profiling), where the native queue was not made to time its commands.
    ///
    /// ```no_run
    /// # #[cfg(feature = "opencl")]
    /// # fn f() {
    /// use windlass::opencl::{OpenCl, native::QueueHandle};
    /// use windlass::prelude::*;
    ///
    /// /// One whose groups run as they were submitted, and are timed.
    /// fn timed(context: &Context, own: QueueHandle) -> windlass::Result<Queue> {
    ///     Queue::builder().context(context).native_queue::<OpenCl>(own).in_order().profiling().blocking_build()
    /// }
    /// # }
    /// ```
    pub fn native_queue<N: NativeApi>(self, queue: N::QueueObject) -> Self {
        self.over(GivenQueue { backend: N::BACKEND, object: Box::new(queue) })
    }
}
