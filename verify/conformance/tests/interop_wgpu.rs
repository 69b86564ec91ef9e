//! wgpu's commands of the program's own, in order with everything else, and devices that it opened itself.

#[path = "drivers/find.rs"]
mod find;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::executor::block_on;
use windlass::prelude::*;
use windlass::{KernelCall, Result};
use windlass_conformance::Kernels;
use windlass_wgpu::Wgpu;
use windlass_wgpu::native::{DeviceHandle, Memory, wgpu};

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    #[kernel]
    pub fn add_one(x: &mut [u32]) {
        x[global_id(0)] += 1;
    }
}

const DOUBLE: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<u32>;
    @compute @workgroup_size(1) fn double(@builtin(global_invocation_id) at: vec3<u32>) { x[at.x] *= 2u; }
";

/// Has the program's own pipeline double the first values of a memory.
fn double(device: &wgpu::Device, encoder: &mut wgpu::CommandEncoder, memory: &Memory, values: u32) {
    let source = wgpu::ShaderSource::Wgsl(DOUBLE.into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("double"),
        compilation_options: Default::default(),
        cache: None,
    });
    let bindings = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry { binding: 0, resource: memory.buffer().as_entire_binding() }],
    });
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &bindings, &[]);
    pass.dispatch_workgroups(values, 1, 1);
}

#[test]
fn commands_of_the_programs_own_have_their_place() -> Result<()> {
    let runtime = Runtime::new();
    let Some(device) = find::wgpu(&runtime) else { return Ok(()) };
    let queue = Queue::blocking_on(device)?;
    let x = Buffer::from(vec![1_u32; 8]);
    let group = queue.submit(|cg| {
        let part = cg.read_write(&x.range(..6));
        cg.fill(&part, 5)?;
        cg.interop_task::<Wgpu>(move |mut native| {
            let (memory, shown) = native.memory(&part).ok_or("it has elements")?;
            let region = shown.region().ok_or("a buffer's memory is linear")?;
            assert_eq!((region.offset, region.width), (0, 24));
            let device = native.place().device().clone();
            double(&device, native.place().encoder(), memory, 4);
            Ok(())
        })?;
        cg.fill(&cg.read_write(&x.range(..1)), 3)
    })?;
    let behind = queue.submit(|cg| {
        let all = cg.read_write(&x);
        cg.interop_task::<Wgpu>(move |mut native| {
            let (memory, _) = native.memory(&all).ok_or("it has elements")?;
            native.place().encoder().clear_buffer(memory.buffer(), 28, None);
            Ok(())
        })
    })?;
    assert_eq!(x.host_read().blocking_wait()?[..], [3, 10, 10, 10, 5, 5, 1, 0]);
    group.blocking_wait()?;
    behind.blocking_wait()
}

/// What native code itself refuses, and what wgpu says against its commands, is its group's error and nobody else's.
#[test]
fn native_code_that_fails_fails_its_group() -> Result<()> {
    let runtime = Runtime::new();
    let Some(device) = find::wgpu(&runtime) else { return Ok(()) };
    let queue = Queue::blocking_on(device)?;
    let (x, beside) = (Buffer::from(vec![1_u32; 8]), Buffer::from(vec![1_u32; 8]));
    let refused = queue.submit(|cg| {
        cg.write(&x);
        cg.interop_task::<Wgpu>(|_| Err("not today".into()))
    })?;
    assert!(refused.blocking_wait().unwrap_err().to_string().contains("not today"));
    assert!(x.host_read().blocking_wait().unwrap_err().is_dependency_failed());
    let y = Buffer::from(vec![1_u32; 8]);
    let outside = queue.submit(|cg| {
        let y = cg.read_write(&y);
        cg.interop_task::<Wgpu>(move |mut native| {
            let (memory, _) = native.memory(&y).ok_or("it has elements")?;
            native.place().encoder().clear_buffer(memory.buffer(), 1 << 20, Some(4));
            Ok(())
        })
    })?;
    let healthy = queue.submit(|cg| cg.fill(&cg.overwrite(&beside), 2))?;
    let problem = outside.blocking_wait().unwrap_err().to_string();
    assert!(problem.contains("Clear"), "{problem}");
    healthy.blocking_wait()?;
    assert_eq!(beside.host_read().blocking_wait()?[0], 2);
    Ok(())
}

/// A device as an application opens one, without anything that it was not asked for.
fn opened(name: &str) -> (wgpu::Instance, wgpu::Device, wgpu::Queue) {
    opened_with(name, wgpu::Limits::default())
}

fn opened_with(name: &str, required_limits: wgpu::Limits) -> (wgpu::Instance, wgpu::Device, wgpu::Queue) {
    let mut wanted = wgpu::InstanceDescriptor::new_without_display_handle();
    wanted.backends = wgpu::Backends::VULKAN;
    wanted.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(wanted);
    let adapters = block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let adapter =
        adapters.into_iter().find(|adapter| adapter.get_info().name == name).expect("it was listed");
    let wanted = wgpu::DeviceDescriptor { required_limits, ..Default::default() };
    let (device, queue) = block_on(adapter.request_device(&wanted)).expect("it opens");
    (instance, device, queue)
}

/// On a device that binds less than a buffer has, kernels have parts of it, copies go through all of it, and who asks for all is told why not.
#[test]
fn buffers_are_larger_than_what_a_device_binds() -> Result<()> {
    const MOST: usize = 1 << 20;
    let runtime = Runtime::new();
    let Some(listed) = find::wgpu(&runtime) else { return Ok(()) };
    let limits = wgpu::Limits { max_storage_buffer_binding_size: MOST as u64, ..Default::default() };
    let (_instance, device, own) = opened_with(listed.name(), limits);
    let context = Context::blocking_from_native::<Wgpu>(&runtime, DeviceHandle::new(device, own))?;
    let queue = Queue::blocking_in_context(&context, &listed)?;
    let all = Buffer::from((0..MOST as u32).collect::<Vec<u32>>());
    let part = |from: usize| from..(from + MOST / 4 - 64).min(MOST);
    // From odd places on, so that a binding begins before its part.
    for from in (1..MOST).step_by(MOST / 4 - 64) {
        let part = part(from);
        let items = part.len();
        queue.submit(|cg| cg.parallel_for(items, kernels::add_one(cg.read_write(&all.range(part)))))?;
    }
    let seen = all.host_read().blocking_wait()?;
    assert!(seen.iter().zip(0..).all(|(seen, i)| *seen == i + u32::from(i > 0)));
    drop(seen);
    // Bytes from one odd place to another go by a kernel as well, part by part.
    let bytes = Buffer::from((0..3 * MOST + 5).map(|i| (i % 251) as u8).collect::<Vec<u8>>());
    let moved = Buffer::<u8>::new(bytes.len());
    queue.submit(|cg| {
        let (from, to) = (cg.read(&bytes.range(1..3 * MOST + 3)), cg.write(&moved.range(3..3 * MOST + 5)));
        cg.copy(&from, &to)
    })?;
    let seen = moved.host_read().blocking_wait()?;
    assert_eq!(&seen[..3], &[0; 3]);
    assert!(seen[3..].iter().zip(1..).all(|(seen, i)| *seen == (i % 251) as u8));
    let refused = queue.submit(|cg| cg.parallel_for(MOST, kernels::add_one(cg.read_write(&all))))?;
    let refused = refused.blocking_wait().unwrap_err();
    assert!(
        refused.to_string().contains("binds 4194304 bytes, the device binds 1048576 at most"),
        "{refused}"
    );
    Ok(())
}

/// On a device that the runtime opens its limit is known, and the call is refused.
#[test]
fn what_is_more_than_a_device_binds_is_refused_in_the_call() -> Result<()> {
    let runtime = Runtime::new();
    let Some(listed) = find::wgpu(&runtime) else { return Ok(()) };
    let most = listed.info().limits.binding;
    let queue = Queue::blocking_on(listed)?;
    // Nothing is allocated for it.
    let all = Buffer::<u32>::new(most as usize / 4 + 1);
    let refused = queue.submit(|cg| cg.parallel_for(1, kernels::add_one(cg.read_write(&all)))).unwrap_err();
    let told = format!("argument 0 of kernel `add_one` shows {} bytes", (most / 4 + 1) * 4);
    assert!(refused.to_string().contains(&told), "{refused}");
    Ok(())
}

/// The runtime works on a device that the program opened, beside the program, which goes on when the runtime has gone.
#[test]
fn a_device_of_the_programs_own_is_one_of_the_runtimes() -> Result<()> {
    let runtime = Runtime::new();
    let Some(listed) = find::wgpu(&runtime) else { return Ok(()) };
    let (_instance, device, own) = opened(listed.name());
    let handle = DeviceHandle::new(device.clone(), own.clone());
    let context = Context::blocking_from_native::<Wgpu>(&runtime, handle)?;
    assert_eq!(context.devices(), std::slice::from_ref(&listed));
    // Its queue came with it, and is shared as it is.
    let again = Queue::blocking_from_native::<Wgpu>(&context, own.clone()).unwrap_err();
    assert!(again.is_unsupported() && again.to_string().contains("has one queue"), "{again}");
    let queue = Queue::blocking_in_context(&context, &listed)?;
    let usage = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ;
    let shown = device.create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 16,
        usage,
        mapped_at_creation: false,
    });
    let x = Buffer::from(vec![1_u32; 4]);
    queue.submit(|cg| cg.fill(&cg.overwrite(&x.range(1..)), 4))?;
    let to = shown.clone();
    let group = queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.interop_task::<Wgpu>(move |mut native| {
            let (memory, _) = native.memory(&x).ok_or("it has elements")?;
            let device = native.place().device().clone();
            double(&device, native.place().encoder(), memory, 4);
            native.place().encoder().copy_buffer_to_buffer(memory.buffer(), 0, &to, 0, 16);
            Ok(())
        })
    })?;
    group.blocking_wait()?;
    assert_eq!(x.host_read().blocking_wait()?[..], [2, 8, 8, 8]);
    assert_eq!(queue.native::<Wgpu>()?.device(), &device);
    drop((x, group, queue, context, runtime));
    own.submit([]);
    shown.map_async(wgpu::MapMode::Read, .., |mapped| mapped.expect("it is not lost"));
    device.poll(wgpu::PollType::wait_indefinitely()).expect("the device goes on");
    let shown = shown.get_mapped_range(..).expect("it was mapped");
    assert_eq!(shown[..8], [2_u32.to_ne_bytes(), 8_u32.to_ne_bytes()].concat());
    Ok(())
}

/// A buffer that the program made is one of the runtime's, with what it holds; what cannot be used so is refused in words.
#[test]
fn a_buffer_of_the_programs_own_is_one_of_the_runtimes() -> Result<()> {
    let runtime = Runtime::new();
    let Some(listed) = find::wgpu(&runtime) else { return Ok(()) };
    let (_instance, device, own) = opened(listed.name());
    let handle = DeviceHandle::new(device.clone(), own.clone());
    let context = Context::blocking_from_native::<Wgpu>(&runtime, handle)?;
    let queue = Queue::blocking_in_context(&context, &listed)?;
    let made = |size, usage| {
        device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false })
    };
    let both = wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
    let native = made(64, both | wgpu::BufferUsages::STORAGE);
    own.write_buffer(&native, 0, &(0..16_u32).flat_map(u32::to_ne_bytes).collect::<Vec<u8>>());
    let x = queue.blocking_buffer_from_native::<Wgpu, u32, 1>(16, native.clone())?;
    let shown = Buffer::<u32>::new(16);
    queue.submit(|cg| cg.fill(&cg.overwrite(&x.range(2..4)), 7))?;
    queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&shown)))?;
    let expected = [0, 1, 7, 7].into_iter().chain(4..16);
    assert_eq!(shown.host_read().blocking_wait()?.to_vec(), expected.collect::<Vec<u32>>());
    for (native, why) in [(native, "64 bytes for a buffer of 68"), (made(68, both), "STORAGE")] {
        let refused = queue.blocking_buffer_from_native::<Wgpu, u32, 1>(17, native).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    Ok(())
}

/// When the program's device is lost, what the runtime had there fails, typed, and the program is told too.
#[test]
fn a_device_of_the_programs_own_can_be_lost() -> Result<()> {
    let runtime = Runtime::new();
    let Some(listed) = find::wgpu(&runtime) else { return Ok(()) };
    let (_instance, device, own) = opened(listed.name());
    let told = Arc::new(AtomicUsize::new(0));
    let count = told.clone();
    let handle = DeviceHandle::new(device.clone(), own).on_lost(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let context = Context::blocking_from_native::<Wgpu>(&runtime, handle)?;
    let queue = Queue::blocking_in_context(&context, &listed)?;
    let x = Buffer::from(vec![1_u32; 4]);
    queue.submit(|cg| cg.fill(&cg.overwrite(&x), 4))?.blocking_wait()?;
    device.destroy();
    let _ = device.poll(wgpu::PollType::Poll);
    let lost = match queue.submit(|cg| cg.fill(&cg.overwrite(&x), 5)) {
        Ok(group) => group.blocking_wait().unwrap_err(),
        Err(refused) => refused,
    };
    assert!(lost.is_device_lost(), "{lost}");
    assert_eq!(told.load(Ordering::Relaxed), 1);
    let elsewhere = Queue::blocking_on(listed)?;
    elsewhere.submit(|cg| cg.fill(&cg.overwrite(&x), 6))?.blocking_wait()?;
    assert_eq!(x.host_read().blocking_wait()?[..], [6; 4]);
    Ok(())
}

/// A device of the runtime's that is lost fails what is there, typed, and can be opened again.
#[test]
fn a_lost_device_is_opened_again() -> Result<()> {
    let runtime = Runtime::new();
    let Some(device) = find::wgpu(&runtime) else { return Ok(()) };
    let queue = Queue::blocking_on(device.clone())?;
    let (kept, gone) = (Buffer::from(vec![1_u32; 4]), Buffer::<u32>::new(4));
    queue.submit(|cg| cg.copy(&cg.read(&kept), &cg.overwrite(&gone)))?.blocking_wait()?;
    let native = queue.native::<Wgpu>()?;
    native.device().destroy();
    let _ = native.device().poll(wgpu::PollType::Poll);
    drop(native);
    let lost = match queue.submit(|cg| cg.fill(&cg.overwrite(&gone.range(..1)), 2)) {
        Ok(group) => group.blocking_wait().unwrap_err(),
        Err(refused) => refused,
    };
    assert!(lost.is_device_lost(), "{lost}");
    let error = gone.host_read().blocking_wait().unwrap_err();
    assert!(error.is_device_lost(), "what was there alone is gone, and not: {error}");

    let queue = Queue::blocking_on(block_on(device.reopen())?)?;
    queue.submit(|cg| cg.copy(&cg.read(&kept), &cg.overwrite(&gone)))?.blocking_wait()?;
    queue.submit(|cg| cg.fill(&cg.overwrite(&gone.range(2..)), 3))?;
    assert_eq!(gone.host_read().blocking_wait()?[..], [1, 1, 3, 3]);
    Ok(())
}

/// How many objects of each kind an instance has.
fn objects(instance: &wgpu::Instance) -> [(&'static str, usize); 9] {
    let all = instance.generate_report().expect("wgpu's own instances count").hub;
    let of = |kind, report: &wgpu::wgc::registry::RegistryReport| (kind, report.num_allocated);
    [
        of("buffers", &all.buffers),
        of("groups of bindings", &all.bind_groups),
        of("their layouts", &all.bind_group_layouts),
        of("layouts of pipelines", &all.pipeline_layouts),
        of("pipelines", &all.compute_pipelines),
        of("modules", &all.shader_modules),
        of("encoders", &all.command_encoders),
        of("recorded commands", &all.command_buffers),
        of("sets of queries", &all.query_sets),
    ]
}

/// While groups come and go the number of wgpu's objects does not grow, and none is left when the context has been closed.
#[test]
fn no_object_of_wgpus_is_left() -> Result<()> {
    let runtime = Runtime::new();
    let Some(listed) = find::wgpu(&runtime) else { return Ok(()) };
    let (instance, device, own) = opened(listed.name());
    let before = objects(&instance);
    let context = Context::blocking_from_native::<Wgpu>(&runtime, DeviceHandle::new(device.clone(), own))?;
    let queue = Queue::blocking_in_context(&context, &listed)?;
    let shared = Buffer::from(vec![1_u8; 33]);
    let kernels = Kernels::new();
    let work = || -> Result<()> {
        for i in 0..200 {
            let fresh = Buffer::<u32>::new(1 + i % 50);
            queue.submit(|cg| {
                let to = cg.overwrite(&fresh);
                let call = KernelCall::new(kernels.get("fill_index"));
                cg.parallel_for(fresh.len(), call.buffer(to).value(1_u32))
            })?;
            // Bytes of words, for which there is a kernel of the backend's own.
            queue.submit(|cg| cg.fill(&cg.read_write(&shared.range(3..18)), i as u8))?;
            queue.submit(|cg| {
                let x = cg.read_write(&fresh);
                cg.interop_task::<Wgpu>(move |mut native| {
                    let (memory, _) = native.memory(&x).ok_or("it has elements")?;
                    native.place().encoder().clear_buffer(memory.buffer(), 0, Some(4));
                    Ok(())
                })
            })?;
            assert_eq!(fresh.host_read().blocking_wait()?[0], 0);
        }
        Ok(())
    };
    let count = || objects(&instance).iter().map(|(_, count)| count).sum::<usize>();
    let none = count();
    work()?;
    let warm = count();
    assert!(warm > none, "they are counted");
    work()?;
    let all = objects(&instance);
    assert!(count() <= warm + 16, "{warm} objects, and as much work later {all:?}");
    drop((shared, queue, context));
    // What is left of a context is closed on another thread.
    let soon = Instant::now() + Duration::from_secs(20);
    while objects(&instance) != before && Instant::now() < soon {
        std::thread::sleep(Duration::from_millis(5));
        let _ = device.poll(wgpu::PollType::Poll);
    }
    assert_eq!(objects(&instance), before);
    Ok(())
}
