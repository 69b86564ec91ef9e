//! Command queues that the program made, as queues of the runtime's.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opencl3::command_queue::{
    CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, CL_QUEUE_PROFILING_ENABLE, CL_QUEUE_REFERENCE_COUNT,
    create_command_queue, enqueue_barrier_with_wait_list, enqueue_copy_buffer, enqueue_fill_buffer,
    enqueue_read_buffer, flush, get_command_queue_info, release_command_queue,
};
use opencl3::context::Context as ByHand;
use opencl3::event::{Event as EventByHand, create_user_event};
use opencl3::memory::release_mem_object;
use opencl3::types::{CL_BLOCKING, cl_command_queue, cl_command_queue_properties, cl_event, cl_int, cl_mem};
use windlass::prelude::*;
use windlass::{Error, Priority, Result};
use windlass_opencl::OpenCl;
use windlass_opencl::native::{ContextHandle, QueueHandle};

use super::{Gate, adopt, by_hand, find, memory};

/// What a program has that uses OpenCL by itself, and the runtime in its context.
struct Program {
    commands: Commands,
    own: ByHand,
    device: Device,
    context: Context,
}

impl Program {
    fn new(properties: cl_command_queue_properties) -> Result<Option<Self>> {
        let Some(device) = find::opencl(&Runtime::new()) else { return Ok(None) };
        let id = by_hand::device(device.name());
        let own = ByHand::from_device(&id).expect("it opens");
        // SAFETY: it is live, of the loader that opencl3 has loaded, which is the backend's.
        let handle = unsafe { ContextHandle::retain(own.get()) }.expect("it is live");
        let context = Context::blocking_from_native::<OpenCl>(device.runtime(), handle)?;
        let commands = Commands::new(own.get(), device.name(), properties);
        Ok(Some(Program { commands, own, device, context }))
    }

    /// The program's command queue as a queue of the runtime's.
    fn queue(&self) -> Result<Queue> {
        Queue::blocking_from_native::<OpenCl>(&self.context, self.commands.handle())
    }

    fn gate(&self) -> Gate {
        Gate(create_user_event(self.own.get()).expect("it is made"))
    }
}

/// The program's own command queue, and its commands there, of which none has an event or waits for one, but for gates.
struct Commands(cl_command_queue);

impl Commands {
    fn new(context: *mut c_void, device: &str, properties: cl_command_queue_properties) -> Self {
        let device = by_hand::device(device);
        // SAFETY: context and device are live.
        Commands(unsafe { create_command_queue(context, device.id(), properties) }.expect("it is made"))
    }

    fn handle(&self) -> QueueHandle {
        // SAFETY: it is live, of the loader that opencl3 has loaded, which is the backend's.
        unsafe { QueueHandle::retain(self.0) }.expect("it is live")
    }

    fn references(&self) -> u32 {
        get_command_queue_info(self.0, CL_QUEUE_REFERENCE_COUNT).expect("it is live").into()
    }

    /// Waits until there are so many references again: what is left of a lane is dropped on another thread.
    fn await_references(&self, expected: u32) {
        let soon = Instant::now() + Duration::from_secs(20);
        while self.references() != expected && Instant::now() < soon {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(self.references(), expected);
    }

    /// Nothing behind this runs before the gate is open.
    fn wait_for(&self, gate: &Gate) {
        // SAFETY: queue and event are live, and of one context.
        done(unsafe { enqueue_barrier_with_wait_list(self.0, 1, &gate.0) });
    }

    /// Four numbers.
    fn fill(&self, memory: cl_mem, value: u32) {
        // SAFETY: queue and memory are live, the memory is as large, and the pattern is copied.
        done(unsafe {
            enqueue_fill_buffer(self.0, memory, (&raw const value).cast(), 4, 0, 16, 0, ptr::null())
        });
    }

    fn copy(&self, from: cl_mem, to: cl_mem) {
        // SAFETY: queue and memory are live, and both are as large.
        done(unsafe { enqueue_copy_buffer(self.0, from, to, 0, 0, 16, 0, ptr::null()) });
    }

    fn read(&self, memory: cl_mem) -> [u32; 4] {
        let mut values = [0_u32; 4];
        let to: *mut c_void = values.as_mut_ptr().cast();
        // SAFETY: queue and memory are live, and the call returns when it has written so many bytes.
        done(unsafe { enqueue_read_buffer(self.0, memory, CL_BLOCKING, 0, 16, to, 0, ptr::null()) });
        values
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // SAFETY: it is live, and this is the reference that it was made with.
        unsafe { release_command_queue(self.0) }.expect("it is live");
    }
}

fn done(event: std::result::Result<cl_event, cl_int>) {
    drop(EventByHand::new(event.expect("it is enqueued")));
}

/// Becomes true when the group that it is part of is handed over.
fn note_feeding(cg: &windlass::CommandGroup<'_>, fed: &Arc<AtomicBool>) -> Result<()> {
    let fed = fed.clone();
    cg.interop_task::<OpenCl>(move |_| {
        fed.store(true, Ordering::Release);
        Ok(())
    })
}

fn await_feeding(fed: &AtomicBool) {
    let soon = Instant::now() + Duration::from_secs(20);
    while !fed.load(Ordering::Acquire) {
        assert!(Instant::now() < soon, "nothing keeps it from being handed over");
        std::thread::yield_now();
    }
}

/// Commands of the program and groups of the runtime's run on one queue as they were put there, with no event between them: what
/// the program enqueued before a group is read by that, what it enqueues behind one reads what the group wrote, and all of it
/// stands behind a command that waits. Seen to fail on a queue of the runtime's own.
#[test]
fn groups_are_commands_of_the_programs_own_queue() -> Result<()> {
    let Some(program) = Program::new(0)? else { return Ok(()) };
    let (commands, queue) = (&program.commands, program.queue()?);
    assert_eq!((queue.device(), queue.context()), (&program.device, program.context.clone()));
    let (mem, taken) = (memory(&program.own, 16), memory(&program.own, 16));
    let x = adopt(&queue, mem, 4)?;
    let (before, behind) = (Buffer::<u32>::new(4), Buffer::<u32>::new(4));
    let (gate, fed) = (program.gate(), Arc::new(AtomicBool::new(false)));
    commands.wait_for(&gate);
    commands.fill(mem, 1);
    let first = queue.submit(|cg| {
        cg.copy(&cg.read(&x), &cg.overwrite(&before))?;
        cg.fill(&cg.overwrite(&x), 2)?;
        note_feeding(cg, &fed)
    })?;
    await_feeding(&fed);
    commands.copy(mem, taken);
    commands.fill(mem, 3);
    let last = queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&behind)))?;
    std::thread::sleep(Duration::from_millis(20));
    assert!(!first.has_ended() && !last.has_ended(), "the program's first command waits");
    gate.open();
    last.blocking_wait()?;
    assert!(first.has_ended(), "it is in front");
    assert_eq!(before.host_read().blocking_wait()?[..], [1; 4]);
    assert_eq!(commands.read(taken), [2; 4]);
    assert_eq!(behind.host_read().blocking_wait()?[..], [3; 4]);
    drop((x, queue));
    for memory in [mem, taken] {
        // SAFETY: it is live, and this is the reference that it was made with.
        unsafe { release_mem_object(memory) }.expect("it is live");
    }
    Ok(())
}

/// Lanes of the runtime's wait for groups on the program's queue, and these for theirs; what has no part in it goes on.
#[test]
fn other_queues_wait_for_groups_on_the_programs_own() -> Result<()> {
    let Some(program) = Program::new(0)? else { return Ok(()) };
    let (commands, queue) = (&program.commands, program.queue()?);
    let other = Queue::blocking_in_context(&program.context, &program.device)?;
    let (x, y, z) = (Buffer::<u32>::new(4), Buffer::<u32>::new(4), Buffer::<u32>::new(4));
    let gate = program.gate();
    commands.wait_for(&gate);
    let first = queue.submit(|cg| cg.fill(&cg.overwrite(&x), 5))?;
    let next = other.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y)))?;
    let last = queue.submit(|cg| cg.copy(&cg.read(&y), &cg.overwrite(&z)))?;
    other.submit(|_| Ok(()))?.blocking_wait()?;
    std::thread::sleep(Duration::from_millis(20));
    assert!([&first, &next, &last].iter().all(|event| !event.has_ended()));
    gate.open();
    assert_eq!(z.host_read().blocking_wait()?[..], [5; 4]);
    assert!([&first, &next, &last].iter().all(|event| event.status() == Status::Done));
    Ok(())
}

/// A command queue of one of the runtime's own contexts, with kernels, host data, a failure, and back-pressure.
#[test]
fn the_programs_own_queue_does_what_others_do() -> Result<()> {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return Ok(()) };
    let usual = Queue::blocking_on(device)?;
    let (context, device) = (usual.context(), usual.device().clone());
    let commands = Commands::new(usual.native::<OpenCl>()?.raw(), device.name(), CL_QUEUE_PROFILING_ENABLE);
    let builder = Queue::builder().context(&context).native_queue::<OpenCl>(commands.handle());
    let queue = builder.in_order().profiling().max_in_flight(4).blocking_build()?;
    let x = Buffer::from(vec![1_u32; 64]);
    let events = (0..200).map(|_| {
        let slot = futures_lite::future::block_on(queue.ready());
        slot.submit(|cg| cg.parallel_for(64, add_one(cg.read_write(&x))))
    });
    let events = events.collect::<Result<Vec<_>>>()?;
    let refused = queue.submit(|cg| cg.interop_task::<OpenCl>(|_| Err("not today".into())))?;
    assert!(refused.blocking_wait().unwrap_err().to_string().contains("not today"));
    assert_eq!(x.host_read().blocking_wait()?[..], [201; 64]);
    queue.drained().blocking_wait()?;
    assert!(events.iter().all(|event| event.status() == Status::Done));
    assert!(events[100].profile().is_some(), "it was made with profiling");
    assert!(runtime.stats().live_nodes == 0);
    Ok(())
}

#[windlass::kernel]
fn add_one(v: &mut [u32]) {
    let i = global_id(0);
    if i < v.len() {
        v[i] += 1;
    }
}

/// Program and runtime put commands there from threads of their own.
#[test]
fn the_program_enqueues_while_the_runtime_does() -> Result<()> {
    let Some(program) = Program::new(0)? else { return Ok(()) };
    let (commands, queue) = (&program.commands, program.queue()?);
    let (x, mem, ended) = (Buffer::from(vec![0_u32; 64]), memory(&program.own, 16), AtomicBool::new(false));
    let (address, target) = (commands.0 as usize, mem as usize);
    std::thread::scope(|scope| {
        let ended = &ended;
        scope.spawn(move || {
            let commands = std::mem::ManuallyDrop::new(Commands(address as cl_command_queue));
            while !ended.load(Ordering::Relaxed) {
                commands.fill(target as cl_mem, 9);
                flush(commands.0).expect("it is live");
                std::thread::yield_now();
            }
        });
        let submitted = (0..300).try_for_each(|_| -> Result<()> {
            queue.submit(|cg| cg.parallel_for(64, add_one(cg.read_write(&x))))?;
            Ok(())
        });
        let read = submitted.and_then(|()| Ok(x.host_read().blocking_wait()?.to_vec()));
        ended.store(true, Ordering::Relaxed);
        assert_eq!(read?, [300; 64]);
        Ok::<(), Error>(())
    })?;
    assert_eq!(commands.read(mem), [9; 4]);
    // SAFETY: it is live, and this is the reference that it was made with.
    unsafe { release_mem_object(mem) }.expect("it is live");
    Ok(())
}

/// The runtime has a reference for as long as a queue of its, or a group there, may use the program's; the program's own stays.
#[test]
fn references_to_the_programs_queue_are_given_back() -> Result<()> {
    let Some(program) = Program::new(0)? else { return Ok(()) };
    let commands = &program.commands;
    let before = commands.references();
    drop(commands.handle());
    assert_eq!(commands.references(), before);
    for _ in 0..20 {
        let queue = program.queue()?;
        assert_eq!(commands.references(), before + 1);
        let again = queue.clone();
        queue.submit(|_| Ok(()))?.blocking_wait()?;
        drop(queue);
        again.submit(|_| Ok(()))?.blocking_wait()?;
        drop(again);
        // The context goes on.
        commands.await_references(before);
    }
    // Dropped with a group in flight. It uses no memory: in PoCL that keeps the last event that it was in, which keeps its queue.
    let (gate, fed) = (program.gate(), Arc::new(AtomicBool::new(false)));
    commands.wait_for(&gate);
    let queue = program.queue()?;
    queue.submit(|cg| note_feeding(cg, &fed))?;
    await_feeding(&fed);
    drop(queue);
    std::thread::sleep(Duration::from_millis(20));
    assert!(commands.references() > before, "its group has not ended");
    gate.open();
    commands.await_references(before);
    // Given up with a group in flight, after which nothing is known of the device: the reference stays.
    let (gate, y) = (program.gate(), Buffer::<u32>::new(4));
    commands.wait_for(&gate);
    let queue = program.queue()?;
    let group = queue.submit(|cg| cg.fill(&cg.overwrite(&y), 6))?;
    program.context.abandon();
    assert!(group.blocking_wait().unwrap_err().is_device_lost());
    assert!(queue.submit(|_| Ok(())).unwrap_err().is_device_lost());
    assert!(program.queue().unwrap_err().is_device_lost());
    gate.open();
    let mem = memory(&program.own, 16);
    commands.fill(mem, 2);
    assert_eq!(commands.read(mem), [2; 4], "the program's own go on");
    // SAFETY: it is live, and this is the reference that it was made with.
    unsafe { release_mem_object(mem) }.expect("it is live");
    Ok(())
}

/// What cannot be a queue here is refused in words, and so are options that the program's queue does not have.
#[test]
fn what_is_no_queue_of_the_context_is_refused() -> Result<()> {
    let Some(program) = Program::new(0)? else { return Ok(()) };
    // SAFETY: null is no command queue, which every loader says before it looks behind the address.
    let refused = unsafe { QueueHandle::retain(ptr::null_mut()) }.unwrap_err().to_string();
    assert!(refused.contains("clRetainCommandQueue"), "{refused}");
    let before = program.commands.references();
    let over = || Queue::builder().native_queue::<OpenCl>(program.commands.handle());
    let built = |builder: windlass::QueueBuilder| builder.blocking_build().unwrap_err();
    let any_order =
        Commands::new(program.own.get(), program.device.name(), CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    let here = || Queue::builder().context(&program.context);
    let elsewhere = Queue::blocking_on(program.device.clone())?.context();
    let host = Context::blocking_open(&[program.device.runtime().host()?])?;
    let strange = Runtime::new();
    let refusals = [
        (built(here().native_queue::<OpenCl>(any_order.handle())), "OUT_OF_ORDER"),
        (built(over().context(&elsewhere)), "another `cl_context`"),
        (built(over().context(&host)), "backend `opencl`"),
        (built(over()), "without its context"),
        (built(over().context(&program.context).runtime(&strange)), "another runtime"),
        (
            built(over().context(&program.context).device(program.device.runtime().host()?)),
            "leave the device out",
        ),
        (built(over().context(&program.context).priority(Priority::High)), "high priority"),
        (built(over().context(&program.context).profiling()), "does not time"),
    ];
    for (refused, why) in refusals {
        assert!(refused.to_string().contains(why), "{refused}, and not: {why}");
        assert!(refused.is_invalid_input() || refused.is_unsupported(), "{refused}");
    }
    assert_eq!(program.commands.references(), before, "no reference is kept by what was refused");
    // And what it takes.
    let queue = program.queue()?;
    assert!(!queue.is_in_order());
    queue.submit(|_| Ok(()))?.blocking_wait()
}
