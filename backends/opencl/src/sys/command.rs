//! The calls that put commands into a queue.

use std::marker::PhantomData;
use std::ptr;

use opencl3::command_queue as cl;
use opencl3::error_codes::{
    CL_MAP_FAILURE, CL_SUCCESS, DLOPEN_FUNCTION_NOT_AVAILABLE, DLOPEN_RUNTIME_LOAD_FAILED,
};
use opencl3::memory::{CL_MAP_READ, CL_MAP_WRITE};
use opencl3::types::{CL_NON_BLOCKING, cl_event, cl_uint};
use smallvec::SmallVec;

use super::{Buffer, Event, Failure, Kernel, Mapped, Queue, Result};

/// Events that must have ended before a command starts.
#[derive(Debug, Default)]
pub(crate) struct WaitList<'a> {
    events: SmallVec<[cl_event; 4]>,
    live: PhantomData<&'a Event>,
}

impl<'a> WaitList<'a> {
    pub(crate) fn push(&mut self, event: &'a Event) {
        self.events.push(event.0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.events.clear();
    }

    /// The list as the native calls take it: an empty one is a null pointer.
    pub(super) fn parts(&self) -> (cl_uint, *const cl_event) {
        match self.events.len() {
            0 => (0, ptr::null()),
            n => (n as cl_uint, self.events.as_ptr()),
        }
    }
}

/// Where a box lies in memory of rows and slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Bytes into the row, rows into the slice, slices.
    pub(crate) origin: [usize; 3],
    pub(crate) row_pitch: usize,
    pub(crate) slice_pitch: usize,
}

/// A copy between two boxes of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rect {
    /// Bytes in a row, rows, slices.
    pub(crate) size: [usize; 3],
    pub(crate) from: Grid,
    pub(crate) to: Grid,
}

/// What a launch covers, innermost first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents<'a> {
    pub(crate) global: &'a [usize],
    /// A work-group's; `None` leaves them to the driver.
    pub(crate) local: Option<&'a [usize]>,
}

impl Extents<'_> {
    /// As the native calls take them: how many, and where they stand.
    fn parts(self) -> (cl_uint, *const usize, *const usize) {
        let local = self.local.map_or(ptr::null(), |local| {
            assert_eq!(local.len(), self.global.len(), "a work-group has the range's dimensions");
            local.as_ptr()
        });
        (self.global.len() as cl_uint, self.global.as_ptr(), local)
    }
}

const LAUNCH: &str = "clEnqueueNDRangeKernel";

/// Calls one of the API's enqueueing functions with this queue and these waits, and takes over the event.
macro_rules! enqueue {
    ($name:expr, $waits:ident, $function:ident($($arg:expr),* $(,)?)) => {{
        let (count, list) = $waits.parts();
        Event::owned($name, cl::$function($($arg,)* count, list))
    }};
}

impl Queue {
    /// Reads `bytes` of a buffer.
    ///
    /// # Safety
    /// `to` may be written for `bytes` bytes, and nothing else touches them, until the event has ended.
    pub(crate) unsafe fn read(
        &self,
        from: &Buffer,
        offset: usize,
        bytes: usize,
        to: *mut u8,
        waits: &WaitList<'_>,
    ) -> Result<Event> {
        let (queue, from, to) = (self.0, from.0, to.cast());
        // SAFETY: the handles are live and the driver checks the buffer's bounds; the caller answers for `to`.
        unsafe {
            enqueue!(
                "clEnqueueReadBuffer",
                waits,
                enqueue_read_buffer(queue, from, CL_NON_BLOCKING, offset, bytes, to)
            )
        }
    }

    /// Reads a box of a buffer. The box's origin in host memory counts from `to`.
    ///
    /// # Safety
    /// `to` may be written for the whole host box, and nothing else touches it, until the event has ended.
    pub(crate) unsafe fn read_rect(
        &self,
        from: &Buffer,
        rect: &Rect,
        to: *mut u8,
        waits: &WaitList<'_>,
    ) -> Result<Event> {
        let (a, b) = (&rect.from, &rect.to);
        // SAFETY: the handles are live, the arrays of three outlive the call, and the driver checks the buffer's
        // bounds; the caller answers for `to`.
        unsafe {
            enqueue!(
                "clEnqueueReadBufferRect",
                waits,
                enqueue_read_buffer_rect(
                    self.0,
                    from.0,
                    CL_NON_BLOCKING,
                    a.origin.as_ptr(),
                    b.origin.as_ptr(),
                    rect.size.as_ptr(),
                    a.row_pitch,
                    a.slice_pitch,
                    b.row_pitch,
                    b.slice_pitch,
                    to.cast(),
                )
            )
        }
    }

    /// Writes `bytes` to a buffer.
    ///
    /// # Safety
    /// `from` may be read for `bytes` bytes, and nothing writes to them, until the event has ended.
    pub(crate) unsafe fn write(
        &self,
        to: &Buffer,
        offset: usize,
        bytes: usize,
        from: *const u8,
        waits: &WaitList<'_>,
    ) -> Result<Event> {
        let (queue, to, from) = (self.0, to.0, from.cast());
        // SAFETY: the handles are live and the driver checks the buffer's bounds; the caller answers for `from`.
        unsafe {
            enqueue!(
                "clEnqueueWriteBuffer",
                waits,
                enqueue_write_buffer(queue, to, CL_NON_BLOCKING, offset, bytes, from)
            )
        }
    }

    /// Writes a box of a buffer. The box's origin in host memory counts from `from`.
    ///
    /// # Safety
    /// `from` may be read for the whole host box, and nothing writes to it, until the event has ended.
    pub(crate) unsafe fn write_rect(
        &self,
        to: &Buffer,
        rect: &Rect,
        from: *const u8,
        waits: &WaitList<'_>,
    ) -> Result<Event> {
        let (a, b) = (&rect.to, &rect.from);
        // SAFETY: the handles are live, the arrays of three outlive the call, and the driver checks the buffer's
        // bounds; the caller answers for `from`.
        unsafe {
            enqueue!(
                "clEnqueueWriteBufferRect",
                waits,
                enqueue_write_buffer_rect(
                    self.0,
                    to.0,
                    CL_NON_BLOCKING,
                    a.origin.as_ptr(),
                    b.origin.as_ptr(),
                    rect.size.as_ptr(),
                    a.row_pitch,
                    a.slice_pitch,
                    b.row_pitch,
                    b.slice_pitch,
                    from.cast(),
                )
            )
        }
    }

    /// Copies `bytes` between buffers, given each with an offset.
    pub(crate) fn copy(
        &self,
        (from, from_offset): (&Buffer, usize),
        (to, to_offset): (&Buffer, usize),
        bytes: usize,
        waits: &WaitList<'_>,
    ) -> Result<Event> {
        let (queue, from, to) = (self.0, from.0, to.0);
        // SAFETY: the handles are live, and the driver checks both buffers' bounds.
        unsafe {
            enqueue!(
                "clEnqueueCopyBuffer",
                waits,
                enqueue_copy_buffer(queue, from, to, from_offset, to_offset, bytes)
            )
        }
    }

    /// Copies a box between buffers.
    pub(crate) fn copy_rect(
        &self,
        from: &Buffer,
        to: &Buffer,
        rect: &Rect,
        waits: &WaitList<'_>,
    ) -> Result<Event> {
        let (a, b) = (&rect.from, &rect.to);
        // SAFETY: the handles are live, the arrays of three outlive the call, and the driver checks both buffers'
        // bounds.
        unsafe {
            enqueue!(
                "clEnqueueCopyBufferRect",
                waits,
                enqueue_copy_buffer_rect(
                    self.0,
                    from.0,
                    to.0,
                    a.origin.as_ptr(),
                    b.origin.as_ptr(),
                    rect.size.as_ptr(),
                    a.row_pitch,
                    a.slice_pitch,
                    b.row_pitch,
                    b.slice_pitch,
                )
            )
        }
    }

    /// Fills `bytes` of a buffer. The pattern's length is a power of two up to 128, and divides offset and bytes.
    pub(crate) fn fill(
        &self,
        buffer: &Buffer,
        pattern: &[u8],
        offset: usize,
        bytes: usize,
        waits: &WaitList<'_>,
    ) -> Result<Event> {
        let (queue, buffer) = (self.0, buffer.0);
        // SAFETY: the handles are live, the driver copies the pattern during the call and checks the bounds.
        unsafe {
            enqueue!(
                "clEnqueueFillBuffer",
                waits,
                enqueue_fill_buffer(queue, buffer, pattern.as_ptr().cast(), pattern.len(), offset, bytes)
            )
        }
    }

    /// Runs a kernel with the arguments that were set last. The extents are innermost first, one for each dimension.
    ///
    /// # Safety
    /// The kernel stays inside the memory of its arguments.
    pub(crate) unsafe fn launch(
        &self,
        kernel: &Kernel,
        extents: Extents<'_>,
        waits: &WaitList<'_>,
    ) -> Result<Event> {
        let (dims, global, local) = extents.parts();
        let (queue, kernel, offset) = (self.0, kernel.0, ptr::null());
        // SAFETY: the handles are live, both arrays have `dims` entries and outlive the call; the driver checks the
        // extents, the caller answers for what the kernel does.
        unsafe {
            enqueue!(LAUNCH, waits, enqueue_nd_range_kernel(queue, kernel, dims, offset, global, local))
        }
    }

    /// The same without an event, which opencl3 has no call for.
    ///
    /// # Safety
    /// As for [`Queue::launch`].
    pub(crate) unsafe fn launch_untold(
        &self,
        kernel: &Kernel,
        extents: Extents<'_>,
        waits: &WaitList<'_>,
    ) -> Result<()> {
        let (dims, global, local) = extents.parts();
        let (queue, kernel, offset) = (self.0, kernel.0, ptr::null());
        let (count, list) = waits.parts();
        let Ok(library) = cl3::load_library() else {
            return Err(Failure { call: LAUNCH, code: DLOPEN_RUNTIME_LOAD_FAILED });
        };
        // As in `launch`, and no event is asked for. The wrapper of the library takes any call for a safe one.
        let none = ptr::null_mut();
        let code =
            library.clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, count, list, none);
        match code.unwrap_or(DLOPEN_FUNCTION_NOT_AVAILABLE) {
            CL_SUCCESS => Ok(()),
            code => Err(Failure { call: LAUNCH, code }),
        }
    }

    /// Gives a buffer to the host for reading and writing, where it was when it was mapped for the first time.
    pub(crate) fn lend(&self, mapped: &Mapped, bytes: usize, waits: &WaitList<'_>) -> Result<Event> {
        let (queue, buffer) = (self.0, mapped.buffer.0);
        let (flags, mut address) = (CL_MAP_READ | CL_MAP_WRITE, ptr::null_mut());
        // SAFETY: the handles are live, and the driver checks the bounds. It says at once where the memory will be.
        let event = unsafe {
            enqueue!(
                "clEnqueueMapBuffer",
                waits,
                enqueue_map_buffer(queue, buffer, CL_NON_BLOCKING, flags, 0, bytes, &mut address)
            )
        }?;
        match std::ptr::eq(address.cast::<u8>(), mapped.address.as_ptr()) {
            true => Ok(event),
            // Nobody looks there.
            false => Err(Failure { call: "clEnqueueMapBuffer", code: CL_MAP_FAILURE }),
        }
    }

    /// Takes a buffer back from the host.
    pub(crate) fn take_back(&self, mapped: &Mapped, waits: &WaitList<'_>) -> Result<Event> {
        let (queue, buffer, address) = (self.0, mapped.buffer.0, mapped.address.as_ptr().cast());
        // SAFETY: the handles are live, and the driver knows where it has mapped what.
        unsafe {
            enqueue!("clEnqueueUnmapMemObject", waits, enqueue_unmap_mem_object(queue, buffer, address))
        }
    }

    /// A command that does nothing, and ends after everything before it and in its wait list.
    pub(crate) fn marker(&self, waits: &WaitList<'_>) -> Result<Event> {
        let queue = self.0;
        // SAFETY: the queue is live, and the wait list's events are.
        unsafe { enqueue!("clEnqueueMarkerWithWaitList", waits, enqueue_marker_with_wait_list(queue)) }
    }
}
