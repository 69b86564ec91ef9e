//! The program's own wgpu code and the runtime on one device: `cargo run --release --example interop_wgpu`
//!
//! The program opens the device, as one with a window does. The runtime makes a context of it, native code is part of a group, and a
//! buffer of the program's becomes one of the runtime's. Without Vulkan it says so, and does nothing.

use windlass::prelude::*;
use windlass::{Error, Result};
use windlass_wgpu::Wgpu;
use windlass_wgpu::native::{DeviceHandle, wgpu};

#[windlass::kernel]
fn double(v: &mut [u32]) {
    let i = global_id(0);
    if i < v.len() {
        v[i] *= 2;
    }
}

/// A device as an application opens one.
async fn open(name: &str) -> Result<(wgpu::Instance, wgpu::Device, wgpu::Queue)> {
    let mut wanted = wgpu::InstanceDescriptor::new_without_display_handle();
    wanted.backends = wgpu::Backends::VULKAN;
    let instance = wgpu::Instance::new(wanted);
    let adapters = instance.enumerate_adapters(wgpu::Backends::VULKAN).await;
    let adapter = adapters.into_iter().find(|adapter| adapter.get_info().name == name);
    let adapter = adapter.ok_or_else(|| Error::other(format!("{name} is gone")))?;
    let opened = adapter.request_device(&wgpu::DeviceDescriptor::default()).await;
    let (device, queue) = opened.map_err(Error::other)?;
    Ok((instance, device, queue))
}

#[tokio::main]
async fn main() -> Result<()> {
    let listed = match Device::select(Selector::backend("wgpu")).await {
        Ok(device) => device,
        Err(missing) if missing.is_unavailable() => {
            println!("there is nothing to show without Vulkan: {missing}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let (_instance, device, own) = open(listed.name()).await?;

    // Handles in: the runtime works on the program's device, beside the program.
    let handle = DeviceHandle::new(device.clone(), own.clone());
    let context = Context::from_native::<Wgpu>(&Runtime::global(), handle).await?;
    let queue = Queue::in_context(&context, &listed).await?;
    // And out: what the runtime works with is wgpu's own.
    assert_eq!(queue.native::<Wgpu>()?.device(), &device);

    // A buffer that the program has made and filled.
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
    let desc =
        wgpu::BufferDescriptor { label: Some("the program's"), size: 64, usage, mapped_at_creation: false };
    let native = device.create_buffer(&desc);
    own.write_buffer(&native, 0, &[1_u32; 16].map(u32::to_ne_bytes).concat());
    let theirs = queue.buffer_from_native::<Wgpu, u32, 1>(16, native).await?;
    queue.submit(|cg| cg.parallel_for(16, double(cg.read_write(&theirs))))?;

    // Native commands as a part of a group: behind its kernel, ahead of its fill, and in order with all other groups.
    let ours = Buffer::from(vec![9_u32; 16]);
    queue.submit(|cg| {
        let (from, to) = (cg.read(&theirs), cg.read_write(&ours));
        cg.parallel_for(16, double(&to))?;
        cg.interop_task::<Wgpu>(move |mut native| {
            let ((from, _), (to, part)) =
                (native.memory(&from).ok_or("no elements")?, native.memory(&to).ok_or("no elements")?);
            // An accessor may show a part of its memory only.
            let start = part.region().ok_or("a buffer's memory is linear")?.offset as u64;
            native.place().encoder().copy_buffer_to_buffer(from.buffer(), 0, to.buffer(), start, 32);
            Ok(())
        })?;
        cg.fill(&cg.read_write(&ours.range(15..)), 7)
    })?;
    assert_eq!(ours.host_read().await?[..], [2, 2, 2, 2, 2, 2, 2, 2, 18, 18, 18, 18, 18, 18, 18, 7]);

    // What native code refuses is the error of its group.
    let refused = queue.submit(|cg| cg.interop_task::<Wgpu>(|_| Err("not today".into())))?;
    println!("{}", refused.await.expect_err("it refuses"));
    println!("native code and kernels on {}", queue.device());
    Ok(())
}
