//! Memory that has one address for the host and for the kernels of a context's devices: OpenCL's shared virtual memory.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use windlass_sync::forked;

use opencl3::command_queue as cl;
use opencl3::error_codes::CL_MEM_OBJECT_ALLOCATION_FAILURE;
use opencl3::kernel::{CL_KERNEL_EXEC_INFO_SVM_PTRS, set_kernel_arg_svm_pointer, set_kernel_exec_info};
use opencl3::memory::{
    CL_MAP_READ, CL_MAP_WRITE, CL_MEM_READ_WRITE, CL_MEM_SVM_FINE_GRAIN_BUFFER, svm_alloc, svm_free,
};
use opencl3::types::{CL_NON_BLOCKING, cl_uint};

use super::{Context, Event, Failure, Kernel, Queue, Result, WaitList, named};

/// An allocation of such memory.
#[derive(Debug)]
pub(crate) struct Shared {
    address: NonNull<u8>,
    context: Arc<Context>,
    /// Set when commands may still run of which nobody knows.
    uncertain: Arc<OnceLock<()>>,
}

// SAFETY: the address is the allocation's own, which any thread may free; each dereference is argued where it is made.
unsafe impl Send for Shared {}

impl Shared {
    /// So many bytes, with arbitrary contents. `fine`: the host may use some of them while kernels use others.
    pub(crate) fn new(
        context: &Arc<Context>,
        (bytes, alignment): (usize, usize),
        fine: bool,
        uncertain: &Arc<OnceLock<()>>,
    ) -> Result<Self> {
        let flags = if fine { CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER } else { CL_MEM_READ_WRITE };
        // SAFETY: the context is live. A driver that has no such memory, which would lack the call, is not asked for any.
        let address = unsafe { svm_alloc(context.0, flags, bytes, alignment as cl_uint) };
        // The call has no code to say why not.
        let none = Failure { call: "clSVMAlloc", code: CL_MEM_OBJECT_ALLOCATION_FAILURE };
        let address = address.ok().and_then(|address| NonNull::new(address.cast())).ok_or(none)?;
        Ok(Shared { address, context: Arc::clone(context), uncertain: Arc::clone(uncertain) })
    }

    pub(crate) fn address(&self) -> NonNull<u8> {
        self.address
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Kernels that were told the address may still run, and the driver does not know that they use it.
        if self.uncertain.get().is_some() || forked::is_child() {
            return;
        }
        // SAFETY: it is this owner's, allocated in this context, and no command uses it any more: the runtime lets go of memory when it
        // knows that, and else this is set.
        let _ = unsafe { svm_free(self.context.0, self.address.as_ptr().cast()) };
    }
}

impl Queue {
    /// Gives shared memory to the host, for reading and writing.
    ///
    /// # Safety
    /// They are the bytes of a live allocation of shared memory of the queue's context, all of them.
    pub(crate) unsafe fn map_shared(
        &self,
        address: NonNull<u8>,
        bytes: usize,
        waits: &WaitList<'_>,
    ) -> Result<Event> {
        let (count, list) = waits.parts();
        let (flags, start) = (CL_MAP_READ | CL_MAP_WRITE, address.as_ptr().cast());
        // SAFETY: the queue is live, and the memory is, by the caller's promise.
        let event = unsafe { cl::enqueue_svm_map(self.0, CL_NON_BLOCKING, flags, start, bytes, count, list) };
        Event::owned("clEnqueueSVMMap", event)
    }

    /// Takes shared memory back from the host.
    ///
    /// # Safety
    /// It is the address of a live allocation of shared memory of the queue's context.
    pub(crate) unsafe fn unmap_shared(&self, address: NonNull<u8>, waits: &WaitList<'_>) -> Result<Event> {
        let (count, list) = waits.parts();
        // SAFETY: as above.
        let event = unsafe { cl::enqueue_svm_unmap(self.0, address.as_ptr().cast(), count, list) };
        Event::owned("clEnqueueSVMUnmap", event)
    }
}

impl Kernel {
    /// Sets an argument to an address in shared memory.
    ///
    /// # Safety
    /// The address is inside a live allocation of shared memory of the kernel's context, for as long as launches with it are to come or
    /// under way.
    pub(crate) unsafe fn set_address(&mut self, at: usize, address: u64) -> Result<()> {
        let address = std::ptr::with_exposed_provenance::<c_void>(address as usize);
        // SAFETY: the kernel is live, and `self` is unique, so no other thread sets its arguments; of the address the caller promises.
        let set = unsafe { set_kernel_arg_svm_pointer(self.0, at as cl_uint, address) };
        named("clSetKernelArgSVMPointer", set)
    }

    /// Tells the driver which shared memory the launches to come may use beside that of their arguments.
    ///
    /// # Safety
    /// As for [`Kernel::set_address`], of each of them.
    pub(crate) unsafe fn set_reached(&mut self, addresses: &[NonNull<u8>]) -> Result<()> {
        let (what, bytes) = (CL_KERNEL_EXEC_INFO_SVM_PTRS, size_of_val(addresses));
        // SAFETY: the kernel is live, and `self` is unique; the addresses are read during the call, and the caller promises what they
        // are.
        let set = unsafe { set_kernel_exec_info(self.0, what, bytes, addresses.as_ptr().cast()) };
        named("clSetKernelExecInfo", set)
    }
}
