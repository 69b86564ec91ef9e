//! The program's own OpenCL calls and the runtime in one context: `cargo run --release --example interop_opencl`
//!
//! The calls are made by the crate `opencl3`; handles are plain pointers, so any other crate would do. Without a driver it says so,
//! and does nothing.
#![allow(unsafe_code, reason = "OpenCL's own calls")]

use std::ptr::{null, null_mut};

use opencl3::command_queue::{CommandQueue, enqueue_copy_buffer};
use opencl3::context::Context as OpenClContext;
use opencl3::device::{CL_DEVICE_TYPE_ALL, Device as OpenClDevice};
use opencl3::event::Event as OpenClEvent;
use opencl3::memory::{Buffer as OpenClBuffer, CL_MEM_READ_WRITE, ClMem};
use opencl3::platform::get_platforms;
use opencl3::types::CL_BLOCKING;
use windlass::prelude::*;
use windlass::{Error, Result};
use windlass_opencl::OpenCl;
use windlass_opencl::native::{ContextHandle, MemoryHandle, QueueHandle};

#[windlass::kernel]
fn double(v: &mut [u32]) {
    let i = global_id(0);
    if i < v.len() {
        v[i] *= 2;
    }
}

/// The device of this name, as the program finds it.
fn find(name: &str) -> Result<OpenClDevice> {
    let platforms = get_platforms().map_err(Error::other)?;
    let devices =
        platforms.iter().flat_map(|platform| platform.get_devices(CL_DEVICE_TYPE_ALL).unwrap_or_default());
    let found =
        devices.map(OpenClDevice::new).find(|device| device.name().is_ok_and(|own| own.trim() == name));
    found.ok_or_else(|| Error::other(format!("{name} is gone")))
}

#[tokio::main]
async fn main() -> Result<()> {
    let listed = match Device::select(Selector::backend("opencl")).await {
        Ok(device) => device,
        Err(missing) if missing.is_unavailable() => {
            println!("there is nothing to show without OpenCL: {missing}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };

    // What the program has: a context, a command queue, and a buffer with numbers.
    let device = find(listed.name())?;
    let own = OpenClContext::from_device(&device).map_err(Error::other)?;
    // SAFETY: the flags name no memory of the program's.
    let mut numbers = unsafe { OpenClBuffer::<u32>::create(&own, CL_MEM_READ_WRITE, 16, null_mut()) }
        .map_err(Error::other)?;
    let commands = CommandQueue::create_default_with_properties(&own, 0, 0).map_err(Error::other)?;
    // SAFETY: the buffer has as many elements, and the call returns when they have been read.
    let written = unsafe { commands.enqueue_write_buffer(&mut numbers, CL_BLOCKING, 0, &[1; 16], &[]) };
    written.map_err(Error::other)?;

    // Handles in: the runtime works in the program's context, and in its memory. It has references of its own.
    // SAFETY: it is live.
    let handle = unsafe { ContextHandle::retain(own.get()) }.map_err(Error::other)?;
    let context = Context::from_native::<OpenCl>(&Runtime::global(), handle).await?;
    let queue = Queue::in_context(&context, &listed).await?;
    // SAFETY: it is live, and what the program does with it from here on is in order with the groups that use it.
    let handle = unsafe { MemoryHandle::retain(numbers.get()) }.map_err(Error::other)?;
    let theirs = queue.buffer_from_native::<OpenCl, u32, 1>(16, handle).await?;
    queue.submit(|cg| cg.parallel_for(16, double(cg.read_write(&theirs))))?;
    // And out: what the runtime works with is OpenCL's own.
    assert_eq!(queue.native::<OpenCl>()?.raw(), own.get());

    // Native commands as a part of a group: behind its kernel, ahead of its fill, and in order with all other groups.
    let ours = Buffer::from(vec![9_u32; 16]);
    queue.submit(|cg| {
        let (from, to) = (cg.read(&theirs), cg.read_write(&ours));
        cg.parallel_for(16, double(&to))?;
        cg.interop_task::<OpenCl>(move |mut native| {
            let (from, _) = native.memory(&from).ok_or("it has elements")?;
            let (to, part) = native.memory(&to).ok_or("it has elements")?;
            // An accessor may show a part of its memory only.
            let (start, place) = (part.region().ok_or("a buffer's memory is linear")?.offset, native.place());
            // SAFETY: queue and memory are live, and these bytes are those of the accessors.
            let copied =
                unsafe { enqueue_copy_buffer(place.queue(), from.raw(), to.raw(), 0, start, 32, 0, null()) };
            // Nobody waits for it here: its event is given back.
            drop(OpenClEvent::new(copied.map_err(|code| format!("clEnqueueCopyBuffer: {code}"))?));
            Ok(())
        })?;
        cg.fill(&cg.read_write(&ours.range(15..)), 7)
    })?;
    assert_eq!(ours.host_read().await?[..], [2, 2, 2, 2, 2, 2, 2, 2, 18, 18, 18, 18, 18, 18, 18, 7]);

    // The program's command queue in, too: groups are commands of it, and stand in line with the program's own, with no event between.
    // SAFETY: it is live.
    let handle = unsafe { QueueHandle::retain(commands.get()) }.map_err(Error::other)?;
    let line = Queue::from_native::<OpenCl>(&context, handle).await?;
    // SAFETY: the buffer is as large, and lives until the command has ended: the next group, which is awaited, stands behind it.
    unsafe { commands.enqueue_fill_buffer(&mut numbers, &[3_u32], 0, 64, &[]) }.map_err(Error::other)?;
    let seen = Buffer::<u32>::new(16);
    line.submit(|cg| {
        cg.parallel_for(16, double(cg.read_write(&theirs)))?;
        cg.copy(&cg.read(&theirs), &cg.overwrite(&seen))
    })?;
    assert_eq!(seen.host_read().await?[..], [6; 16]);

    // What native code refuses is the error of its group.
    let refused = queue.submit(|cg| cg.interop_task::<OpenCl>(|_| Err("not today".into())))?;
    println!("{}", refused.await.expect_err("it refuses"));
    println!("native code and kernels on {}", queue.device());
    Ok(())
}
