//! Command queues: those that somebody else made, and what is done with a queue as a whole.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use opencl3::command_queue::{
    CL_QUEUE_CONTEXT, CL_QUEUE_DEVICE, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE,
    CL_QUEUE_PROPERTIES, enqueue_map_buffer, enqueue_unmap_mem_object, finish, flush, get_command_queue_info,
    retain_command_queue,
};
use opencl3::error_codes::CL_MAP_FAILURE;
use opencl3::memory::{CL_MAP_READ, CL_MAP_WRITE};
use opencl3::types::{CL_BLOCKING, cl_command_queue_properties, cl_uint, cl_ulong};

use super::{Buffer, Context, DeviceId, Event, Failure, Mapped, Queue, Result, WaitList, named};

impl Queue {
    /// A queue that somebody else made, with a reference of our own.
    ///
    /// # Safety
    /// It is a live `cl_command_queue`, of the loader that this process uses.
    pub(crate) unsafe fn retained(raw: *mut c_void) -> Result<Self> {
        // SAFETY: it is live, by the caller's promise.
        named("clRetainCommandQueue", unsafe { retain_command_queue(raw.cast()) })?;
        Ok(Queue(raw.cast()))
    }

    /// Whether it is a queue of this context.
    pub(crate) fn is_of(&self, context: &Context) -> Result<bool> {
        Ok(self.handle(CL_QUEUE_CONTEXT)? == context.0 as isize)
    }

    /// The device that it is on.
    pub(crate) fn device(&self) -> Result<DeviceId> {
        self.handle(CL_QUEUE_DEVICE).map(DeviceId::of_handle)
    }

    /// Whether its commands run one after the other, as they were enqueued.
    pub(crate) fn is_in_order(&self) -> Result<bool> {
        Ok(!self.has(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)?)
    }

    /// Whether its events know when they began and ended.
    pub(crate) fn is_timed(&self) -> Result<bool> {
        self.has(CL_QUEUE_PROFILING_ENABLE)
    }

    fn has(&self, property: cl_command_queue_properties) -> Result<bool> {
        let of = named("clGetCommandQueueInfo", get_command_queue_info(self.0, CL_QUEUE_PROPERTIES))?;
        // opencl3 gives this answer as a `Ulong`, whatever the driver does, so the conversion does not panic.
        Ok(cl_ulong::from(of) & property != 0)
    }

    fn handle(&self, what: cl_uint) -> Result<isize> {
        // opencl3 gives these answers as handles, whatever the driver does, so the conversion does not panic.
        named("clGetCommandQueueInfo", get_command_queue_info(self.0, what)).map(isize::from)
    }

    /// Hands everything enqueued to the device.
    pub(crate) fn flush(&self) -> Result<()> {
        named("clFlush", flush(self.0))
    }

    /// Waits until everything enqueued has ended.
    pub(crate) fn finish(&self) -> Result<()> {
        named("clFinish", finish(self.0))
    }

    /// Maps a whole buffer for reading and writing. Waits for it.
    pub(crate) fn map(&self, buffer: Buffer, bytes: usize) -> Result<Mapped> {
        let mut address = ptr::null_mut();
        let (flags, none) = (CL_MAP_READ | CL_MAP_WRITE, WaitList::default());
        let (count, list) = none.parts();
        // SAFETY: the buffer is live and `address` outlives the call, which waits for the mapping.
        let event = unsafe {
            enqueue_map_buffer(self.0, buffer.0, CL_BLOCKING, flags, 0, bytes, &mut address, count, list)
        };
        let _mapping = Event::owned("clEnqueueMapBuffer", event)?;
        let nowhere = Failure { call: "clEnqueueMapBuffer", code: CL_MAP_FAILURE };
        Ok(Mapped { address: NonNull::new(address.cast()).ok_or(nowhere)?, buffer })
    }

    /// Ends a mapping, and waits until it has ended.
    pub(crate) fn unmap(&self, mapped: &Mapped) -> Result<()> {
        let (count, list) = WaitList::default().parts();
        // SAFETY: the address is where this buffer was mapped by `map`.
        let event = unsafe {
            enqueue_unmap_mem_object(self.0, mapped.buffer.0, mapped.address.as_ptr().cast(), count, list)
        };
        Event::owned("clEnqueueUnmapMemObject", event)?.wait()
    }
}
