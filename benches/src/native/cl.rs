//! OpenCL by hand, with nothing between: its library is loaded and called as its header says.

mod at_once;

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use libloading::Library;
use windlass::image::{Kernel, KernelImage, Parameter, Slot, SlotAccess};

use super::ByHand;
use crate::table::median;
pub(crate) use at_once::{Load, Queues};

type Handle = *mut c_void;

/// A kernel that takes as long as it is told.
const TEXT: &CStr = c"
__kernel void spin(__global uint *v, uint turns) {
    uint x = v[0];
    for (uint i = 0; i < turns; i++) x = x * 1664525u + 1013904223u;
    v[0] = x;
}";

/// The same kernel for Windlass.
pub(super) fn kernel() -> Kernel {
    // SAFETY: the kernel reads and writes the first element of its buffer, which has one.
    let image = unsafe { KernelImage::opencl_c("spin", TEXT.to_str().expect("it is ASCII")) };
    let parameters = [Parameter::Start(0), Parameter::Slot(1)];
    Kernel::new(
        "spin",
        [Slot::Buffer(SlotAccess::ReadWrite), Slot::Value(4)],
        [image.with_parameters(parameters)],
    )
}

macro_rules! library {
    ($($name:ident = $symbol:literal($($arg:ty),*) -> $result:ty;)*) => {
        /// The functions that are called here.
        struct Api {
            $($name: unsafe extern "C" fn($($arg),*) -> $result,)*
            _library: Library,
        }

        impl Api {
            fn load() -> Option<Self> {
                // SAFETY: the loader's initialiser does nothing that a program has to prepare, and the functions have the
                // types that OpenCL's header gives them. They are called while the library is loaded.
                unsafe {
                    let library = Library::new("libOpenCL.so.1").ok()?;
                    $(let $name = *library.get($symbol.to_bytes_with_nul()).ok()?;)*
                    Some(Api { $($name,)* _library: library })
                }
            }
        }
    };
}

library! {
    platforms = c"clGetPlatformIDs"(u32, *mut Handle, *mut u32) -> i32;
    devices = c"clGetDeviceIDs"(Handle, u64, u32, *mut Handle, *mut u32) -> i32;
    device_info = c"clGetDeviceInfo"(Handle, u32, usize, *mut c_char, *mut usize) -> i32;
    create_context = c"clCreateContext"(*const isize, u32, *const Handle, *const c_void, *const c_void, *mut i32) -> Handle;
    create_queue = c"clCreateCommandQueue"(Handle, Handle, u64, *mut i32) -> Handle;
    create_buffer = c"clCreateBuffer"(Handle, u64, usize, *mut c_void, *mut i32) -> Handle;
    create_program = c"clCreateProgramWithSource"(Handle, u32, *const *const c_char, *const usize, *mut i32) -> Handle;
    build = c"clBuildProgram"(Handle, u32, *const Handle, *const c_char, *const c_void, *const c_void) -> i32;
    create_kernel = c"clCreateKernel"(Handle, *const c_char, *mut i32) -> Handle;
    set_arg = c"clSetKernelArg"(Handle, u32, usize, *const c_void) -> i32;
    launch = c"clEnqueueNDRangeKernel"(Handle, Handle, u32, *const usize, *const usize, *const usize, u32, *const Handle, *mut Handle) -> i32;
    read = c"clEnqueueReadBuffer"(Handle, Handle, u32, usize, usize, *mut c_void, u32, *const Handle, *mut Handle) -> i32;
    write = c"clEnqueueWriteBuffer"(Handle, Handle, u32, usize, usize, *const c_void, u32, *const Handle, *mut Handle) -> i32;
    map = c"clEnqueueMapBuffer"(Handle, Handle, u32, u64, usize, usize, u32, *const Handle, *mut Handle, *mut i32) -> *mut c_void;
    when_ended = c"clSetEventCallback"(Handle, i32, extern "C" fn(Handle, i32, *mut c_void), *mut c_void) -> i32;
    release_event = c"clReleaseEvent"(Handle) -> i32;
    flush = c"clFlush"(Handle) -> i32;
    finish = c"clFinish"(Handle) -> i32;
}

/// One device, with a queue and the kernel on a buffer of one number.
pub(crate) struct Raw {
    api: Api,
    context: Handle,
    device: Handle,
    queue: Handle,
    kernel: Handle,
    number: Handle,
    ended: (Box<Sender<()>>, std::sync::mpsc::Receiver<()>),
}

const TRUE: u32 = 1;
const FALSE: u32 = 0;
const READ_WRITE: u64 = 1;
const ALLOC_HOST: u64 = 1 << 4;

impl Raw {
    /// The device of this name; `None` where there is no OpenCL with such a one.
    pub(crate) fn open(name: &str) -> Option<Self> {
        let api = Api::load()?;
        // SAFETY: every pointer is null where the header allows that, or to a variable of ours of the size that is passed.
        unsafe {
            let device = api.find(name)?;
            let mut code = 0;
            let context = (api.create_context)(null(), 1, &device, null(), null(), &mut code);
            let queue = (api.create_queue)(context, device, 0, &mut code);
            let program = (api.create_program)(context, 1, &TEXT.as_ptr(), null(), &mut code);
            assert_eq!((api.build)(program, 1, &device, null(), null(), null()), 0, "the kernel builds");
            let kernel = (api.create_kernel)(program, c"spin".as_ptr(), &mut code);
            let number = (api.create_buffer)(context, READ_WRITE, 4, null_mut(), &mut code);
            assert_eq!(code, 0, "the kernel and its buffer are made");
            let (tell, told) = channel();
            Some(Raw { api, context, device, queue, kernel, number, ended: (Box::new(tell), told) })
        }
    }

    /// Enqueues one launch, with all that a launch with new arguments needs, and hands its event over.
    fn launch(&self, turns: u32) -> Handle {
        let mut event = null_mut();
        // SAFETY: the arguments are those of the kernel, and read during the calls.
        let code = unsafe {
            (self.api.set_arg)(self.kernel, 0, size_of::<Handle>(), (&raw const self.number).cast())
                | (self.api.set_arg)(self.kernel, 1, 4, (&raw const turns).cast())
                | (self.api.launch)(self.queue, self.kernel, 1, null(), &1, &1, 0, null(), &mut event)
        };
        assert_eq!(code, 0, "the launch is taken");
        event
    }

    fn finish(&self) {
        // SAFETY: the queue is live.
        assert_eq!(unsafe { (self.api.finish)(self.queue) }, 0, "nothing fails");
    }

    fn release(&self, event: Handle) {
        // SAFETY: the event is ours, and released once.
        unsafe { (self.api.release_event)(event) };
    }

    fn launch_without_event(&self) {
        let turns = 0_u32;
        // SAFETY: as in `launch`; no event is asked for.
        let code = unsafe {
            (self.api.set_arg)(self.kernel, 0, size_of::<Handle>(), (&raw const self.number).cast())
                | (self.api.set_arg)(self.kernel, 1, 4, (&raw const turns).cast())
                | (self.api.launch)(self.queue, self.kernel, 1, null(), &1, &1, 0, null(), null_mut())
        };
        assert_eq!(code, 0, "the launch is taken");
    }

    fn called_back(&self, event: Handle) {
        let tell: *const Sender<()> = &*self.ended.0;
        // SAFETY: the sender outlives the callback, which is waited for below.
        let code = unsafe {
            (self.api.when_ended)(event, 0, tell_once, tell.cast_mut().cast()) | (self.api.flush)(self.queue)
        };
        assert_eq!(code, 0, "the driver takes a callback");
        self.ended.1.recv().expect("the sender is there");
    }

    /// Memory for transfers.
    fn memory(&self, bytes: usize) -> Memory<'_> {
        let mut code = [0; 3];
        // SAFETY: no host memory is handed over, and the mapping is waited for.
        unsafe {
            let create = |flags, code: &mut i32| {
                (self.api.create_buffer)(self.context, flags, bytes, null_mut(), code)
            };
            let device = create(READ_WRITE, &mut code[0]);
            let pinned = create(READ_WRITE | ALLOC_HOST, &mut code[1]);
            let both = 1 | 2;
            let address =
                (self.api.map)(self.queue, pinned, TRUE, both, 0, bytes, 0, null(), null_mut(), &mut code[2]);
            assert_eq!(code, [0; 3], "there is memory");
            std::ptr::write_bytes(address.cast::<u8>(), 1, bytes);
            Memory { raw: self, device, address, bytes }
        }
    }
}

impl ByHand for Raw {
    fn chains(&self) -> &[&str] {
        &["an event with each", "without events"]
    }

    fn chain(&self, way: usize, n: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..n {
            match way {
                0 => self.release(self.launch(0)),
                _ => self.launch_without_event(),
            }
        }
        self.finish();
        start.elapsed().as_nanos() as f64 / n as f64
    }

    fn waits(&self) -> &[&str] {
        &["`clFinish`", "callback"]
    }

    fn awaited(&self, way: usize, turns: u32) -> Duration {
        let start = Instant::now();
        let event = self.launch(turns);
        match way {
            0 => self.finish(),
            _ => self.called_back(event),
        }
        let taken = start.elapsed();
        self.release(event);
        taken
    }

    fn copies(&self) -> &[&str] {
        &["pinned", "pageable"]
    }

    fn copied(&self, way: usize, bytes: usize, times: usize) -> [f64; 2] {
        let memory = self.memory(bytes);
        let mut vec = vec![1_u8; bytes];
        [true, false].map(|up| {
            let mut one = || match (way, up) {
                (0, true) => memory.up(),
                (0, false) => memory.down(),
                _ => memory.pageable(&mut vec, up),
            };
            median((0..times).map(|_| one()).collect())
        })
    }

    fn reads(&self, times: usize) -> Vec<f64> {
        let memory = self.memory(4096);
        let mut vec = vec![1_u8; 4096];
        let mut read = |_| {
            self.chain(0, 1);
            memory.pageable(&mut vec, false)
        };
        (0..times).map(&mut read).collect()
    }
}

impl Api {
    /// # Safety
    /// The functions are OpenCL's.
    unsafe fn find(&self, name: &str) -> Option<Handle> {
        let mut platforms = [null_mut(); 16];
        let mut found = 0;
        // SAFETY: both arrays are as long as is said.
        unsafe {
            (self.platforms)(16, platforms.as_mut_ptr(), &mut found);
            platforms[..(found as usize).min(16)].iter().find_map(|platform| {
                let (mut devices, mut found) = ([null_mut(); 16], 0);
                (self.devices)(*platform, u64::from(u32::MAX), 16, devices.as_mut_ptr(), &mut found);
                devices[..(found as usize).min(16)].iter().copied().find(|device| self.name(*device) == name)
            })
        }
    }

    /// # Safety
    /// The device is one.
    unsafe fn name(&self, device: Handle) -> String {
        let mut text = [0_u8; 256];
        // SAFETY: the array is as long as is said.
        unsafe { (self.device_info)(device, 0x102B, text.len(), text.as_mut_ptr().cast(), null_mut()) };
        let text = CStr::from_bytes_until_nul(&text).map(CString::from).unwrap_or_default();
        text.to_string_lossy().trim().to_owned()
    }
}

extern "C" fn tell_once(_: Handle, _: i32, tell: *mut c_void) {
    // SAFETY: `awaited` passed its sender, and waits for this.
    let _ = unsafe { &*tell.cast::<Sender<()>>() }.send(());
}

/// Memory of the device, and as much that the driver has pinned for the host.
struct Memory<'r> {
    raw: &'r Raw,
    device: Handle,
    address: *mut c_void,
    bytes: usize,
}

impl Memory<'_> {
    /// Nanoseconds for a copy to the device out of pinned memory.
    fn up(&self) -> f64 {
        // SAFETY: the driver mapped so many bytes there.
        unsafe { self.copy(self.address, true) }
    }

    /// The same the other way.
    fn down(&self) -> f64 {
        // SAFETY: as above.
        unsafe { self.copy(self.address, false) }
    }

    /// The same to and from memory that the driver does not know.
    fn pageable(&self, memory: &mut [u8], up: bool) -> f64 {
        assert_eq!(memory.len(), self.bytes, "the copy is of all bytes");
        // SAFETY: the slice has so many bytes, and is borrowed alone.
        unsafe { self.copy(memory.as_mut_ptr().cast(), up) }
    }

    /// # Safety
    /// The host's memory has so many bytes as this, and nobody else uses them.
    unsafe fn copy(&self, host: *mut c_void, up: bool) -> f64 {
        let (api, queue, bytes) = (&self.raw.api, self.raw.queue, self.bytes);
        let start = Instant::now();
        // SAFETY: both have so many bytes, as the caller promises of the host's, and the copy is waited for.
        let code = unsafe {
            if up {
                (api.write)(queue, self.device, FALSE, 0, bytes, host, 0, null(), null_mut())
            } else {
                (api.read)(queue, self.device, TRUE, 0, bytes, host, 0, null(), null_mut())
            }
        };
        assert_eq!(code, 0, "the copy is taken");
        self.raw.finish();
        start.elapsed().as_nanos() as f64
    }
}
