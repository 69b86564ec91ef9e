//! Owners of OpenCL's objects. Each holds one reference and gives it back when dropped.

use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};

use opencl3::command_queue::{CL_QUEUE_PROFILING_ENABLE, create_command_queue, release_command_queue};
use opencl3::context::context::{
    CL_CONTEXT_DEVICES, CL_CONTEXT_PLATFORM, create_context, get_context_info, release_context,
    retain_context,
};
use opencl3::event::{
    CL_COMPLETE, CL_EVENT_COMMAND_EXECUTION_STATUS, CL_PROFILING_COMMAND_END, CL_PROFILING_COMMAND_QUEUED,
    CL_PROFILING_COMMAND_START, create_user_event, get_event_info, get_event_profiling_data, release_event,
    set_event_callback, set_user_event_status, wait_for_events,
};
use opencl3::kernel::{
    CL_KERNEL_COMPILE_WORK_GROUP_SIZE, CL_KERNEL_LOCAL_MEM_SIZE, CL_KERNEL_NUM_ARGS,
    CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, CL_KERNEL_PRIVATE_MEM_SIZE, CL_KERNEL_WORK_GROUP_SIZE,
    create_kernel, get_kernel_data, get_kernel_work_group_data, release_kernel, set_kernel_arg,
};
use opencl3::memory::{
    CL_BUFFER_CREATE_TYPE_REGION, CL_MEM_ALLOC_HOST_PTR, CL_MEM_CONTEXT, CL_MEM_HOST_PTR,
    CL_MEM_OBJECT_BUFFER, CL_MEM_READ_WRITE, CL_MEM_SIZE, CL_MEM_TYPE, CL_MEM_USE_HOST_PTR, create_buffer,
    create_sub_buffer, get_mem_object_info, release_mem_object, retain_mem_object,
    set_mem_object_destructor_callback,
};
use opencl3::program::{
    CL_PROGRAM_BINARIES, CL_PROGRAM_BUILD_LOG, CL_PROGRAM_DEVICES, build_program, create_program_with_binary,
    create_program_with_builtin_kernels, create_program_with_il, create_program_with_source,
    get_program_build_data, get_program_info, release_program,
};
use opencl3::types::{
    cl_buffer_region, cl_command_queue, cl_command_queue_properties, cl_context, cl_context_properties,
    cl_event, cl_int, cl_kernel, cl_mem, cl_mem_flags, cl_program, cl_uint, cl_ulong,
};

use windlass_sync::forked;

use super::{DeviceId, Failure, PlatformId, Result, named};

macro_rules! owner {
    ($($(#[$doc:meta])* $name:ident: $raw:ident, $release:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name(pub(super) $raw);

        // SAFETY: the handle is an address that only the driver looks behind, and OpenCL's calls may come from any
        // thread at any time; the one exception, setting a kernel's arguments, takes `&mut self`.
        unsafe impl Send for $name {}
        // SAFETY: as above.
        unsafe impl Sync for $name {}

        impl Drop for $name {
            fn drop(&mut self) {
                // What there is in a forked child is its parent's.
                if forked::is_child() {
                    return;
                }
                // SAFETY: this owner holds one reference and gives it back once. If the driver refuses, the object leaks;
                // there is nothing to be done about it here.
                let _ = unsafe { $release(self.0) };
            }
        }
    )*};
}

macro_rules! handed_out {
    ($($name:ident)*) => {$(
        impl $name {
            /// The handle, for native code outside this crate.
            pub(crate) fn raw(&self) -> *mut c_void {
                self.0.cast()
            }
        }
    )*};
}
handed_out!(Context Queue Buffer);

owner! {
    /// Devices opened together.
    Context: cl_context, release_context;
    /// A command queue; in-order, unless somebody else made it.
    Queue: cl_command_queue, release_command_queue;
    /// Memory of a context.
    Buffer: cl_mem, release_mem_object;
    /// A program's text and what was built from it.
    Program: cl_program, release_program;
    /// A kernel with the arguments that were set last.
    Kernel: cl_kernel, release_kernel;
    /// The progress of one command.
    Event: cl_event, release_event;
}

impl Context {
    pub(crate) fn new(platform: PlatformId, devices: &[DeviceId]) -> Result<Self> {
        let devices: Vec<_> = devices.iter().map(|d| d.0).collect();
        let properties: [cl_context_properties; 3] =
            [CL_CONTEXT_PLATFORM, platform.0 as cl_context_properties, 0];
        let context = create_context(&devices, properties.as_ptr(), None, ptr::null_mut());
        named("clCreateContext", context).map(Context)
    }

    /// A context that somebody else made, with a reference of our own.
    ///
    /// # Safety
    /// It is a live `cl_context`, of the loader that this process uses.
    pub(crate) unsafe fn retained(raw: *mut c_void) -> Result<Self> {
        // SAFETY: it is live, by the caller's promise.
        named("clRetainContext", unsafe { retain_context(raw.cast()) })?;
        Ok(Context(raw.cast()))
    }

    /// The devices that it is over, in its order.
    pub(crate) fn devices(&self) -> Result<Vec<DeviceId>> {
        let ids = named("clGetContextInfo", get_context_info(self.0, CL_CONTEXT_DEVICES))?;
        // opencl3 gives this answer as handles, whatever the driver does, so the conversion does not panic.
        Ok(Vec::<isize>::from(ids).into_iter().map(DeviceId::of_handle).collect())
    }

    pub(crate) fn queue(&self, device: DeviceId) -> Result<Queue> {
        self.create_queue(device, 0)
    }

    /// A queue whose events know when they began and ended.
    pub(crate) fn timed_queue(&self, device: DeviceId) -> Result<Queue> {
        self.create_queue(device, CL_QUEUE_PROFILING_ENABLE)
    }

    fn create_queue(&self, device: DeviceId, properties: cl_command_queue_properties) -> Result<Queue> {
        // OpenCL 1.x's call, since a driver of that age may lack the later one and its table entry would be null.
        // SAFETY: both handles are live; a device of another context is refused.
        let queue = unsafe { create_command_queue(self.0, device.0, properties) };
        named("clCreateCommandQueue", queue).map(Queue)
    }

    pub(crate) fn buffer(&self, bytes: usize) -> Result<Buffer> {
        self.create_buffer(CL_MEM_READ_WRITE, bytes)
    }

    /// Memory that the host reaches fastest, where the driver distinguishes.
    pub(crate) fn host_buffer(&self, bytes: usize) -> Result<Buffer> {
        self.create_buffer(CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes)
    }

    /// So many bytes of memory that the host reaches, as a buffer. What keeps them is dropped once the driver has let go of the buffer,
    /// which commands under way may keep for longer than its owner does.
    ///
    /// # Safety
    /// From `address` on there are so many bytes, for as long as `kept` lives, wherever it is moved to. While the buffer lives they are
    /// used by those alone to whom its owner lends them.
    pub(crate) unsafe fn buffer_over<K: Send + 'static>(
        &self,
        kept: K,
        address: NonNull<u8>,
        bytes: usize,
    ) -> Result<Mapped> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR;
        // SAFETY: the driver may use so many bytes there until the buffer is gone, and no shorter the memory is kept: below.
        let buffer = unsafe { create_buffer(self.0, flags, bytes, address.as_ptr().cast()) };
        let buffer = named("clCreateBuffer", buffer).map(Buffer)?;
        let kept = Box::into_raw(Box::new(kept)).cast::<c_void>();
        // SAFETY: the buffer is live, and `let_go` takes what it is registered with.
        let set = unsafe { set_mem_object_destructor_callback(buffer.0, let_go::<K>, kept) };
        if let Err(code) = set {
            // No command has used it, so with this it is gone.
            drop(buffer);
            // SAFETY: the driver refused, so it never calls back, and the box is still ours alone.
            drop(unsafe { Box::from_raw(kept.cast::<K>()) });
            return Err(Failure { call: "clSetMemObjectDestructorCallback", code });
        }
        Ok(Mapped { address, buffer })
    }

    fn create_buffer(&self, flags: cl_mem_flags, bytes: usize) -> Result<Buffer> {
        // SAFETY: the flags name no host memory, so none is passed.
        let buffer = unsafe { create_buffer(self.0, flags, bytes, ptr::null_mut()) };
        named("clCreateBuffer", buffer).map(Buffer)
    }

    pub(crate) fn program(&self, source: &str) -> Result<Program> {
        let program = create_program_with_source(self.0, &[source]);
        named("clCreateProgramWithSource", program).map(Program)
    }

    /// A program of kernels that the device has built in.
    pub(crate) fn program_of_builtins(&self, device: DeviceId, names: &CStr) -> Result<Program> {
        // SAFETY: one device of the context; the names are text that ends with a zero.
        let program = unsafe { create_program_with_builtin_kernels(self.0, &[device.0], names) };
        named("clCreateProgramWithBuiltInKernels", program).map(Program)
    }

    /// A program in SPIR-V, on a device of OpenCL 2.1 or later.
    pub(crate) fn program_of_words(&self, words: &[u8]) -> Result<Program> {
        named("clCreateProgramWithIL", create_program_with_il(self.0, words)).map(Program)
    }

    /// A program of what [`Program::code`] gave for this device, or of what a program's author promises to be like that.
    pub(crate) fn program_of(&self, device: DeviceId, code: &[u8]) -> Result<Program> {
        // SAFETY: one device of the context and one binary for it. The driver itself refuses what it did not make; what
        // it made is known by the cache's key and checksum, or by the promise of `KernelImage::binary` or `ptx`.
        let program = unsafe { create_program_with_binary(self.0, &[device.0], &[code]) };
        named("clCreateProgramWithBinary", program).map(Program)
    }
}

/// Where the driver says that a buffer is gone.
extern "C" fn let_go<K>(_: cl_mem, kept: *mut c_void) {
    // SAFETY: `buffer_over` registered this function together with a box of `K`, and a driver calls back once for each
    // registration, so the box is taken back once. Nobody uses the memory any more.
    drop(unsafe { Box::from_raw(kept.cast::<K>()) });
}

impl Buffer {
    /// Memory that somebody else made, with a reference of our own.
    ///
    /// # Safety
    /// It is a live `cl_mem`, of the loader that this process uses.
    pub(crate) unsafe fn retained(raw: *mut c_void) -> Result<Self> {
        // SAFETY: it is live, by the caller's promise.
        named("clRetainMemObject", unsafe { retain_mem_object(raw.cast()) })?;
        Ok(Buffer(raw.cast()))
    }

    /// A buffer of its own over so many bytes of this one, which is no such piece itself. It keeps this one alive.
    pub(crate) fn piece(&self, at: usize, bytes: usize) -> Result<Buffer> {
        let region = cl_buffer_region { origin: at, size: bytes };
        let region = (&raw const region).cast();
        // SAFETY: the buffer is live, and the region, which the driver checks and copies, outlives the call. No flags: it has those of the
        // whole.
        let buffer = unsafe { create_sub_buffer(self.0, 0, CL_BUFFER_CREATE_TYPE_REGION, region) };
        named("clCreateSubBuffer", buffer).map(Buffer)
    }

    /// Its size in bytes, if it is linear memory of this context.
    pub(crate) fn size_in(&self, context: &Context) -> Result<Option<usize>> {
        // opencl3 gives these answers as the numbers that they are, whatever the driver does, so no conversion panics.
        let asked = |what| named("clGetMemObjectInfo", get_mem_object_info(self.0, what));
        let kind = cl_uint::from(asked(CL_MEM_TYPE)?);
        let of = isize::from(asked(CL_MEM_CONTEXT)?);
        let size = usize::from(asked(CL_MEM_SIZE)?);
        Ok((kind == CL_MEM_OBJECT_BUFFER && of == context.0 as isize).then_some(size))
    }

    /// The address of the host memory that it was made over; zero where it was not.
    pub(crate) fn host_address(&self) -> Result<usize> {
        let address = named("clGetMemObjectInfo", get_mem_object_info(self.0, CL_MEM_HOST_PTR))?;
        Ok(isize::from(address).cast_unsigned())
    }
}

impl Program {
    pub(crate) fn build(&self, device: DeviceId, options: &CStr) -> Result<()> {
        named("clBuildProgram", build_program(self.0, &[device.0], options, None, ptr::null_mut()))
    }

    /// What the compiler made for a device; `None` where the driver does not tell.
    pub(crate) fn code(&self, device: DeviceId) -> Option<Vec<u8>> {
        let devices = Vec::<isize>::from(get_program_info(self.0, CL_PROGRAM_DEVICES).ok()?);
        let at = devices.iter().position(|&id| id == device.0 as isize)?;
        let all = Vec::<Vec<u8>>::from(get_program_info(self.0, CL_PROGRAM_BINARIES).ok()?);
        all.into_iter().nth(at).filter(|code| !code.is_empty())
    }

    /// What the compiler said.
    pub(crate) fn log(&self, device: DeviceId) -> String {
        let log = get_program_build_data(self.0, device.0, CL_PROGRAM_BUILD_LOG);
        super::text(log.unwrap_or_default())
    }

    pub(crate) fn kernel(&self, entry: &CStr) -> Result<Kernel> {
        named("clCreateKernel", create_kernel(self.0, entry)).map(Kernel)
    }
}

impl Kernel {
    /// How many arguments the kernel takes.
    pub(crate) fn arguments(&self) -> Result<usize> {
        let bytes = named("clGetKernelInfo", get_kernel_data(self.0, CL_KERNEL_NUM_ARGS))?;
        Ok(bytes.try_into().map_or(0, cl_uint::from_ne_bytes) as usize)
    }

    /// How many work-items of this kernel fit one work-group.
    pub(crate) fn work_group_items(&self, device: DeviceId) -> Result<usize> {
        self.work_group_size(device, CL_KERNEL_WORK_GROUP_SIZE)
    }

    /// How many bytes of local memory a work-group of this kernel takes: what the kernel declares, and what its arguments have
    /// been set to. So this is the kernel's own share while no argument has been set.
    pub(crate) fn local_memory(&self, device: DeviceId) -> Result<usize> {
        self.work_group_bytes(device, CL_KERNEL_LOCAL_MEM_SIZE)
    }

    /// How many bytes of memory a work-item has for itself, beside registers.
    pub(crate) fn private_memory(&self, device: DeviceId) -> Result<usize> {
        self.work_group_bytes(device, CL_KERNEL_PRIVATE_MEM_SIZE)
    }

    /// Of what a work-group's size is best a multiple.
    pub(crate) fn preferred_multiple(&self, device: DeviceId) -> Result<usize> {
        self.work_group_size(device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE)
    }

    /// The extents that the kernel requires its work-groups to have; zeros where it requires none.
    pub(crate) fn required_group(&self, device: DeviceId) -> Result<[usize; 3]> {
        let bytes = get_kernel_work_group_data(self.0, device.0, CL_KERNEL_COMPILE_WORK_GROUP_SIZE);
        let bytes = named("clGetKernelWorkGroupInfo", bytes)?;
        let (extents, _) = bytes.as_chunks();
        Ok(extents.try_into().map_or([0; 3], |extents: [_; 3]| extents.map(usize::from_ne_bytes)))
    }

    fn work_group_size(&self, device: DeviceId, what: cl_uint) -> Result<usize> {
        let bytes = get_kernel_work_group_data(self.0, device.0, what);
        Ok(named("clGetKernelWorkGroupInfo", bytes)?.try_into().map_or(0, usize::from_ne_bytes))
    }

    fn work_group_bytes(&self, device: DeviceId, what: cl_uint) -> Result<usize> {
        let bytes = get_kernel_work_group_data(self.0, device.0, what);
        let bytes = named("clGetKernelWorkGroupInfo", bytes)?.try_into().map_or(0, cl_ulong::from_ne_bytes);
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    pub(crate) fn set_buffer(&mut self, at: usize, buffer: &Buffer) -> Result<()> {
        let handle = buffer.0;
        // SAFETY: the value is a live buffer's handle, read during the call.
        unsafe { self.set(at, size_of::<cl_mem>(), ptr::from_ref(&handle).cast()) }
    }

    pub(crate) fn set_value(&mut self, at: usize, bytes: &[u8]) -> Result<()> {
        // SAFETY: the slice's bytes are live, and read during the call.
        unsafe { self.set(at, bytes.len(), bytes.as_ptr().cast()) }
    }

    pub(crate) fn set_local(&mut self, at: usize, bytes: usize) -> Result<()> {
        // SAFETY: no value means local memory of this size.
        unsafe { self.set(at, bytes, ptr::null()) }
    }

    /// # Safety
    /// `value` is null or shows `bytes` readable bytes.
    unsafe fn set(&mut self, at: usize, bytes: usize, value: *const c_void) -> Result<()> {
        // SAFETY: the kernel is live, and `self` is unique, so no other thread sets its arguments; the value is
        // readable by the caller's promise. A size or kind that the kernel does not declare is refused.
        named("clSetKernelArg", unsafe { set_kernel_arg(self.0, at as cl_uint, bytes, value) })
    }
}

/// A buffer that the host reaches at an address.
#[derive(Debug)]
pub(crate) struct Mapped {
    pub(crate) address: NonNull<u8>,
    pub(crate) buffer: Buffer,
}

impl Mapped {
    /// The same from `at` on, as a buffer of its own, which is a piece of this one.
    ///
    /// # Safety
    /// `at` lies inside, and the buffer is the piece of this one's that begins there.
    pub(crate) unsafe fn piece(&self, buffer: Buffer, at: usize) -> Self {
        // SAFETY: the caller's promise.
        Mapped { address: unsafe { self.address.add(at) }, buffer }
    }
}

// SAFETY: the address belongs to the buffer, which any thread may use; each dereference is argued where it is made.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Context {
    /// An event that ends when it is told to. What waits for it never runs if nobody does.
    pub(crate) fn user_event(&self) -> Result<Event> {
        Event::owned("clCreateUserEvent", create_user_event(self.0))
    }
}

impl Event {
    /// Ends one that no driver ends.
    pub(crate) fn complete(&self) -> Result<()> {
        named("clSetUserEventStatus", set_user_event_status(self.0, CL_COMPLETE))
    }

    /// One that no driver knows, and of which every call says so.
    #[cfg(test)]
    pub(crate) fn unknown() -> Self {
        Event(ptr::null_mut())
    }

    /// Takes over the event that an enqueueing call gave out.
    pub(super) fn owned(call: &'static str, event: std::result::Result<cl_event, cl_int>) -> Result<Self> {
        named(call, event).map(Event)
    }

    /// The command's status: above zero while it has not ended, zero when it has, an error's code when it failed.
    pub(crate) fn status(&self) -> Result<cl_int> {
        // opencl3 gives this answer as an `Int`, whatever the driver does, so the conversion does not panic.
        named("clGetEventInfo", get_event_info(self.0, CL_EVENT_COMMAND_EXECUTION_STATUS)).map(cl_int::from)
    }

    /// When the command was enqueued, by the device's clock, in nanoseconds. The command has ended, in a queue that times.
    pub(crate) fn enqueued_at(&self) -> Result<u64> {
        self.time(CL_PROFILING_COMMAND_QUEUED)
    }

    /// When the command began and ended, as above.
    pub(crate) fn times(&self) -> Result<[u64; 2]> {
        Ok([self.time(CL_PROFILING_COMMAND_START)?, self.time(CL_PROFILING_COMMAND_END)?])
    }

    fn time(&self, what: cl_uint) -> Result<u64> {
        let bytes = named("clGetEventProfilingInfo", get_event_profiling_data(self.0, what))?;
        Ok(bytes.try_into().map_or(0, cl_ulong::from_ne_bytes))
    }

    /// Waits until the command has ended.
    pub(crate) fn wait(&self) -> Result<()> {
        named("clWaitForEvents", wait_for_events(&[self.0]))
    }

    /// Calls `then` once the command has ended: on a thread of the driver's, or on this one before the call returns.
    /// So no lock may be held here that `then` takes. Where the driver refuses, `then` is dropped.
    pub(crate) fn when_ended<F: FnOnce() + Send + 'static>(&self, then: F) -> Result<()> {
        let data = Box::into_raw(Box::new(then)).cast::<c_void>();
        let set = set_event_callback(self.0, CL_COMPLETE, call_once::<F>, data);
        if let Err(code) = set {
            // SAFETY: the driver refused, so it never calls back, and the box is still ours alone.
            drop(unsafe { Box::from_raw(data.cast::<F>()) });
            return Err(Failure { call: "clSetEventCallback", code });
        }
        Ok(())
    }
}

/// Where the driver calls back. A panic of `then` would end the process here: it could not unwind into the driver.
extern "C" fn call_once<F: FnOnce()>(_: cl_event, _: cl_int, data: *mut c_void) {
    // SAFETY: `when_ended` registered this function together with a box of `F`, and a driver calls back at most once
    // for each registration, so the box is taken back once.
    let then = unsafe { Box::from_raw(data.cast::<F>()) };
    then();
}
