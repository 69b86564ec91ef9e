//! Down to OpenCL's own objects and back: what the portable API does not cover. Handles are OpenCL's own, as untyped pointers.
//!
//! **Commands.** Native code in a group is given a [`Place`]: the lane's in-order command queue. It enqueues commands there without
//! waiting for them, and these run after the group's earlier commands, and everything the group waits for, and before its later
//! commands. It must not finish, change or release the queue, and its commands may use the memory of the group's accessors only, in
//! the ways that the accessors allow. A barrier with a list of events makes the group wait for events of the program's own; an event of a
//! marker there tells the program's other queues when the group has come so far. An accessor's memory may be larger than its buffer, whose
//! bytes are the first; what is behind them is of no meaning. It may be a sub-buffer, of which no other is made
//! (`RuntimeBuilder::reuse_in_pieces`).
//!
//! **Contexts and memory.** A context that the program made becomes one of the runtime's: [`ContextHandle`]. Queues of it are made as
//! for any other. Memory that the program made in a context of the runtime's, or in such a one, becomes a buffer that stays there:
//! [`MemoryHandle`].
//!
//! **Queues.** A command queue that the program made in a context of the runtime's, or in such a one, becomes a queue of the runtime's,
//! whose groups are commands of that very queue: [`QueueHandle`].
//!
//! **Ownership.** What is handed out is borrowed, and lives as long as what it was asked of. What comes in is retained, and released when
//! the runtime has closed the context, or before, when nothing uses the memory or the queue any more; the program's own reference stays
//! the program's.

use std::ffi::c_void;

use windlass_backend::{BackendError, NativeApi};

use crate::OpenCl;
pub use crate::context::OpenClContext;
pub use crate::memory::Memory;
pub use crate::native_call::Place;
use crate::sys;

impl NativeApi for OpenCl {
    const BACKEND: &'static str = "opencl";
    type Context = OpenClContext;
    type Place = Place;
    type Memory = Memory;
    type Object = ContextHandle;
    type MemoryObject = MemoryHandle;
    type QueueObject = QueueHandle;
}

/// A `cl_context` that the program made, with a reference of its own.
///
/// Its devices have to be some that the driver lists: a context over a part of a device is refused. The runtime makes queues and
/// memory in it, and the program goes on to use it as it likes.
#[derive(Debug)]
pub struct ContextHandle(pub(crate) sys::Context);

impl ContextHandle {
    /// Takes a reference to a context.
    ///
    /// # Safety
    ///
    /// It is a live `cl_context`, of the OpenCL loader that this process has loaded (`libOpenCL.so.1`).
    pub unsafe fn retain(context: *mut c_void) -> Result<Self, BackendError> {
        // SAFETY: it is live, by the caller's promise.
        Ok(ContextHandle(unsafe { sys::Context::retained(context) }?))
    }
}

/// A `cl_mem` that the program made, with a reference of its own: a buffer of the context that it is to be used in, which kernels may
/// read and write.
///
/// The runtime orders its commands on it among themselves, and with native code in groups that name it. What the program does with it
/// elsewhere is the program's to order, and so is what two buffers do that were made of the same memory.
#[derive(Debug)]
pub struct MemoryHandle(pub(crate) sys::Buffer);

impl MemoryHandle {
    /// Takes a reference to memory.
    ///
    /// # Safety
    ///
    /// It is a live `cl_mem`, of the OpenCL loader that this process has loaded (`libOpenCL.so.1`). If it uses memory of the
    /// program's (`CL_MEM_USE_HOST_PTR`), that stays until the runtime has let go of it, and the program leaves it alone
    /// until then.
    pub unsafe fn retain(memory: *mut c_void) -> Result<Self, BackendError> {
        // SAFETY: it is live, by the caller's promise.
        Ok(MemoryHandle(unsafe { sys::Buffer::retained(memory) }?))
    }
}

/// A `cl_command_queue` that the program made, with a reference of its own: one that runs its commands in order, of the context that it
/// is to be a queue of, and of a device of that.
///
/// The runtime puts the groups of one queue of its own there (`Queue::from_native`), and flushes it. The program goes on to put commands
/// there, from any thread:
///
/// - What it enqueued before it submitted a group runs before that group's commands.
/// - What it enqueues once a group was handed over runs behind the group, and needs no event for that. A group is handed over by
///   `submit`, or later, by another thread, where it waits for something that is not on a device (a future, a guard, a kernel's build,
///   data from another context, room on the lane) or the device has enough to do. Native code in the group ([`Place`]) is called right
///   then; what is enqueued there itself is in the group's order in any case.
/// - Data for a group is brought to the device, and from there to the host, by queues of the runtime's, which wait for its groups and
///   not for commands of the program's: what those write is read by groups on this queue.
///
/// A command of the program's that fails does not fail a group, but for drivers on which everything behind a failure fails (NVIDIA's).
/// One that does not end holds the groups behind it up, as it does the program's own commands; a runtime with a `hang_timeout` takes
/// that for a device that hangs in the end, and gives the context up. After that, and after `Context::abandon`, the reference is kept for
/// good: nobody knows what is still there.
///
/// Each group has an event there. NVIDIA's driver makes whoever enqueues wait at about the 340th command with an event that has not ended,
/// the program's included: then `submit` may wait for them, too.
///
/// Groups are timed (`QueueBuilder::profiling`) on a queue that was made with `CL_QUEUE_PROFILING_ENABLE`.
#[derive(Debug)]
pub struct QueueHandle(pub(crate) sys::Queue);

impl QueueHandle {
    /// Takes a reference to a command queue.
    ///
    /// # Safety
    ///
    /// It is a live `cl_command_queue`, of the OpenCL loader that this process has loaded (`libOpenCL.so.1`).
    pub unsafe fn retain(queue: *mut c_void) -> Result<Self, BackendError> {
        // SAFETY: it is live, by the caller's promise.
        Ok(QueueHandle(unsafe { sys::Queue::retained(queue) }?))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ID;

    #[test]
    fn the_api_is_of_this_backend() {
        assert_eq!(ID.as_str(), <OpenCl as NativeApi>::BACKEND);
    }
}
