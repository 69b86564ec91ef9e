//! Native code in groups of real devices: OpenCL calls of the program's own, in order with everything else.

#[path = "drivers/find.rs"]
mod find;

use std::ffi::c_void;
use std::ptr;

use libloading::Library;
use windlass::Result;
use windlass::prelude::*;
use windlass_opencl::OpenCl;

/// `clEnqueueFillBuffer`.
type FillBuffer = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *const c_void,
    usize,
    usize,
    usize,
    u32,
    *const c_void,
    *mut c_void,
) -> i32;

#[test]
fn opencl_commands_of_the_programs_own_have_their_place() -> Result<()> {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return Ok(()) };
    let queue = Queue::blocking_on(device)?;
    // SAFETY: this is the loader that the backend uses, which is loaded already.
    let library = unsafe { Library::new("libOpenCL.so.1") }.expect("the backend has found it");
    // SAFETY: that is the function's type.
    let fill = *unsafe { library.get::<FillBuffer>(b"clEnqueueFillBuffer\0") }.expect("OpenCL 1.2 has it");
    let x = Buffer::from(vec![1_u32; 8]);
    let seven = 7_u32;
    let group = queue.submit(|cg| {
        let part = cg.read_write(&x.range(2..6));
        cg.fill(&part, 5)?;
        cg.interop_task::<OpenCl>(move |mut native| {
            let (memory, shown) = native.memory(&part).ok_or("it has elements")?;
            let region = shown.region().ok_or("a buffer's memory is linear")?;
            let (queue, pattern) = (native.place().queue(), (&raw const seven).cast());
            let (from, bytes) = (region.offset, region.width / 2);
            // SAFETY: queue and memory are live, the bytes are those of the accessor, and the pattern is copied.
            let code = unsafe {
                fill(queue, memory.raw(), pattern, 4, from, bytes, 0, ptr::null(), ptr::null_mut())
            };
            match code {
                0 => Ok(()),
                code => Err(format!("clEnqueueFillBuffer: {code}").into()),
            }
        })
    })?;
    assert_eq!(x.host_read().blocking_wait()?[..], [1, 1, 7, 7, 5, 5, 1, 1]);
    group.blocking_wait()?;
    let refused = queue.submit(|cg| {
        cg.write(&x);
        cg.interop_task::<OpenCl>(|_| Err("not today".into()))
    })?;
    assert!(refused.blocking_wait().unwrap_err().to_string().contains("not today"));
    assert!(x.host_read().blocking_wait().unwrap_err().is_dependency_failed());
    assert!(!queue.native::<OpenCl>()?.raw().is_null());
    Ok(())
}
