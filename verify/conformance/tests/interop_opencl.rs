//! OpenCL calls of the program's own, in order with everything else, and contexts, memory and queues that it made itself.
#![allow(unsafe_code, reason = "OpenCL's own calls")]

#[path = "drivers/by_hand.rs"]
mod by_hand;
#[path = "drivers/find.rs"]
mod find;
#[path = "interop_opencl/queues.rs"]
mod queues;

use std::ffi::c_void;
use std::ptr;
use std::time::{Duration, Instant};

use opencl3::command_queue::{
    create_command_queue, enqueue_barrier_with_wait_list, enqueue_fill_buffer, enqueue_write_buffer,
    release_command_queue,
};
use opencl3::context::Context as ByHand;
use opencl3::context::context::{CL_CONTEXT_REFERENCE_COUNT, get_context_info};
use opencl3::event::{CL_COMPLETE, Event as EventByHand, create_user_event, set_user_event_status};
use opencl3::memory::{
    CL_MEM_READ_WRITE, CL_MEM_REFERENCE_COUNT, create_buffer, get_mem_object_info, release_mem_object,
};
use opencl3::types::{CL_BLOCKING, cl_event, cl_mem};
use windlass::Result;
use windlass::prelude::*;
use windlass_opencl::OpenCl;
use windlass_opencl::native::{ContextHandle, MemoryHandle};

#[test]
fn commands_of_the_programs_own_have_their_place() -> Result<()> {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return Ok(()) };
    let queue = Queue::blocking_on(device)?;
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
            let filled =
                unsafe { enqueue_fill_buffer(queue, memory.raw(), pattern, 4, from, bytes, 0, ptr::null()) };
            // Its event is given back at once.
            let _event = EventByHand::new(filled.map_err(|code| format!("clEnqueueFillBuffer: {code}"))?);
            Ok(())
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

/// How many references there are to a context.
fn references(context: &ByHand) -> u32 {
    get_context_info(context.get(), CL_CONTEXT_REFERENCE_COUNT).expect("it is live").into()
}

/// The runtime works in a context that the program made, lets a group wait for an event that the program made there, and gives back
/// every reference that it took.
#[test]
fn a_context_of_the_programs_own_is_one_of_the_runtimes() -> Result<()> {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return Ok(()) };
    let own = ByHand::from_device(&by_hand::device(device.name())).expect("it opens");
    let before = references(&own);
    // SAFETY: it is live, of the loader that opencl3 has loaded, which is the backend's.
    let handle = unsafe { ContextHandle::retain(own.get()) }.expect("it is live");
    let context = Context::blocking_from_native::<OpenCl>(&runtime, handle)?;
    assert_eq!(context.devices(), std::slice::from_ref(&device));
    let queue = Queue::blocking_in_context(&context, &device)?;
    assert_eq!(queue.native::<OpenCl>()?.raw(), own.get());
    let gate = Gate(create_user_event(own.get()).expect("it is made"));
    let (x, waited_for) = (Buffer::from(vec![1_u32; 4]), gate.0 as usize);
    let group = queue.submit(|cg| {
        let x = cg.overwrite(&x);
        cg.interop_task::<OpenCl>(move |mut native| {
            let gate = waited_for as cl_event;
            // SAFETY: queue and event are live, and of one context.
            let barrier = unsafe { enqueue_barrier_with_wait_list(native.place().queue(), 1, &gate) };
            let barrier = barrier.map_err(|code| format!("clEnqueueBarrierWithWaitList: {code}"))?;
            drop(EventByHand::new(barrier));
            Ok(())
        })?;
        cg.fill(&x, 9)
    })?;
    assert!(!group.has_ended(), "the event has not ended");
    gate.open();
    group.blocking_wait()?;
    // Its context is another than the runtime's of that device, so this moves by the host.
    let elsewhere = Queue::blocking_on(device)?;
    elsewhere.submit(|cg| cg.fill(&cg.overwrite(&x.range(1..3)), 4))?;
    assert_eq!(x.host_read().blocking_wait()?[..], [9, 4, 4, 9]);
    assert!(references(&own) > before);
    drop((x, group, queue, context, elsewhere, gate));
    // What is left of a context is closed on another thread.
    let soon = Instant::now() + Duration::from_secs(20);
    while references(&own) != before && Instant::now() < soon {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(references(&own), before, "all that was taken was given back");
    Ok(())
}

/// Memory of this many bytes that the program makes in a context.
fn memory(context: &ByHand, bytes: usize) -> cl_mem {
    // SAFETY: the flags name no memory of the host's.
    unsafe { create_buffer(context.get(), CL_MEM_READ_WRITE, bytes, ptr::null_mut()) }.expect("it is made")
}

fn adopt(queue: &Queue, memory: cl_mem, len: usize) -> Result<Buffer<u32>> {
    // SAFETY: it is live, of the loader that opencl3 has loaded, which is the backend's.
    let handle = unsafe { MemoryHandle::retain(memory) }.expect("it is live");
    queue.blocking_buffer_from_native::<OpenCl, _, _>(len, handle)
}

/// Memory that the program made is a buffer, with what it holds; its reference is given back, and what is no such memory is refused.
#[test]
fn memory_of_the_programs_own_is_a_buffer() -> Result<()> {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return Ok(()) };
    let id = by_hand::device(device.name());
    let own = ByHand::from_device(&id).expect("it opens");
    // SAFETY: it is live, of the loader that opencl3 has loaded, which is the backend's.
    let handle = unsafe { ContextHandle::retain(own.get()) }.expect("it is live");
    let context = Context::blocking_from_native::<OpenCl>(&runtime, handle)?;
    let queue = Queue::blocking_in_context(&context, &device)?;
    let mem = memory(&own, 64);
    let values: Vec<u32> = (0..16).collect();
    // SAFETY: context and device are live.
    let by_hand = unsafe { create_command_queue(own.get(), id.id(), 0) }.expect("it is made");
    // SAFETY: queue, memory and values are live, and the call returns when they have been read.
    let written = unsafe {
        enqueue_write_buffer(by_hand, mem, CL_BLOCKING, 0, 64, values.as_ptr().cast(), 0, ptr::null())
    };
    drop(EventByHand::new(written.expect("it is written")));
    let references =
        || -> u32 { get_mem_object_info(mem, CL_MEM_REFERENCE_COUNT).expect("it is live").into() };
    let before = references();
    let x = adopt(&queue, mem, 16)?;
    assert_eq!(references(), before + 1);
    let shown = Buffer::<u32>::new(16);
    queue.submit(|cg| cg.fill(&cg.overwrite(&x.range(2..4)), 7))?;
    queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&shown)))?;
    let expected = [0, 1, 7, 7].into_iter().chain(4..16);
    assert_eq!(shown.host_read().blocking_wait()?.to_vec(), expected.collect::<Vec<u32>>());
    let elsewhere = Queue::blocking_on(device)?;
    let refused = elsewhere.submit(|cg| cg.fill(&cg.overwrite(&x), 1)).unwrap_err().to_string();
    assert!(refused.contains("copy it"), "{refused}");
    for (queue, len, why) in
        [(&queue, 17, "64 bytes for a buffer of 68"), (&elsewhere, 16, "no buffer of the")]
    {
        let refused = adopt(queue, mem, len).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    drop(x);
    // It is freed on another thread.
    let soon = Instant::now() + Duration::from_secs(20);
    while references() != before && Instant::now() < soon {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(references(), before);
    // SAFETY: each is live, and its last reference of ours is given back.
    unsafe {
        release_mem_object(mem).expect("it is live");
        release_command_queue(by_hand).expect("it is live");
    }
    Ok(())
}

/// An event that the program ends itself; ended when this is dropped, since a driver may wait for it otherwise.
struct Gate(cl_event);

impl Gate {
    fn open(&self) {
        set_user_event_status(self.0, CL_COMPLETE).expect("it is set once");
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = set_user_event_status(self.0, CL_COMPLETE);
        drop(EventByHand::new(self.0));
    }
}

/// What is no context of this backend's devices is refused in words.
#[test]
fn what_is_no_context_is_refused() -> Result<()> {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return Ok(()) };
    drop(device);
    // SAFETY: null is no context, which every loader says before it looks behind the address.
    let refused = unsafe { ContextHandle::retain(ptr::null_mut::<c_void>()) }.unwrap_err();
    assert!(refused.to_string().contains("clRetainContext"), "{refused}");
    Ok(())
}
