//! wgpu by hand, with nothing between.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use wgpu::BufferUsages as Uses;

use super::ByHand;
use crate::table::median;

/// A kernel that takes as long as it is told.
const TEXT: &str = "
    var<immediate> turns: u32;
    @group(0) @binding(0) var<storage, read_write> v: array<u32>;
    @compute @workgroup_size(1) fn spin() {
        var x = v[0];
        for (var i = 0u; i < turns; i++) { x = x * 1664525u + 1013904223u; }
        v[0] = x;
    }";

/// What staging goes in.
const CHUNK: usize = 4 << 20;
/// How many threads copy to and from staging.
const THREADS: usize = 4;

/// A device with the kernel on a buffer of one number.
pub(super) struct Raw {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    bindings: wgpu::BindGroup,
    /// A thread that waits for what it is sent, and says when it has ended.
    waiter: (SyncSender<wgpu::SubmissionIndex>, Mutex<Receiver<()>>),
}

impl Raw {
    /// The Vulkan device of this name.
    pub(super) fn open(name: &str) -> Option<Self> {
        let (device, queue) = open(name)?;
        // SAFETY: the kernel touches the first element of its buffer, which has one, and its loop ends.
        let module = unsafe {
            device.create_shader_module_trusted(
                wgpu::ShaderModuleDescriptor { label: None, source: wgpu::ShaderSource::Wgsl(TEXT.into()) },
                wgpu::ShaderRuntimeChecks::unchecked(),
            )
        };
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("spin"),
            compilation_options: Default::default(),
            cache: None,
        });
        let number = buffer(&device, 4, Uses::STORAGE);
        let entries = [wgpu::BindGroupEntry { binding: 0, resource: number.as_entire_binding() }];
        let layout = pipeline.get_bind_group_layout(0);
        let about = wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries };
        let bindings = device.create_bind_group(&about);
        let (send, to_wait_for) = sync_channel(1);
        let (tell, told) = sync_channel(1);
        let waits = device.clone();
        thread::spawn(move || {
            for index in to_wait_for {
                wait(&waits, index);
                let _ = tell.send(());
            }
        });
        Some(Raw { device, queue, pipeline, bindings, waiter: (send, Mutex::new(told)) })
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&Default::default())
    }

    /// Submits so many launches, all in one pass.
    fn launch(&self, n: usize, turns: u32) -> wgpu::SubmissionIndex {
        let mut encoder = self.encoder();
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &self.bindings, &[]);
            for _ in 0..n {
                pass.set_immediates(0, &turns.to_ne_bytes());
                pass.dispatch_workgroups(1, 1, 1);
            }
        }
        self.queue.submit([encoder.finish()])
    }

    fn copy(
        &self,
        from: &wgpu::Buffer,
        to: &wgpu::Buffer,
        at: [usize; 2],
        bytes: usize,
    ) -> wgpu::SubmissionIndex {
        let mut encoder = self.encoder();
        encoder.copy_buffer_to_buffer(from, at[0] as u64, to, at[1] as u64, bytes as u64);
        self.queue.submit([encoder.finish()])
    }

    /// Nanoseconds for a copy between a `Vec` and the device, in chunks by several threads, each with two of its own.
    fn staged(&self, memory: &wgpu::Buffer, vec: &mut [u8], up: bool) -> f64 {
        let (uses, mode) = match up {
            true => (Uses::MAP_WRITE | Uses::COPY_SRC, wgpu::MapMode::Write),
            false => (Uses::MAP_READ | Uses::COPY_DST, wgpu::MapMode::Read),
        };
        let chunk = CHUNK.min(vec.len());
        let own: Vec<_> = (0..THREADS).map(|_| [(); 2].map(|()| buffer(&self.device, chunk, uses))).collect();
        let parts = Mutex::new(vec.chunks_mut(chunk).enumerate());
        let start = Instant::now();
        thread::scope(|scope| {
            for own in &own {
                let parts = &parts;
                scope.spawn(move || {
                    let mut under_way = None;
                    for turn in 0.. {
                        let next = parts.lock().expect("nobody panics").next();
                        let Some((at, part)) = next else { break };
                        let staging = &own[turn % 2];
                        if up {
                            mapped(&self.device, staging, mode, None);
                            let mut view = staging.slice(..).get_mapped_range_mut().expect("it is mapped");
                            view.slice(..part.len()).copy_from_slice(part);
                            drop(view);
                            staging.unmap();
                            self.copy(staging, memory, [0, at * chunk], part.len());
                        } else {
                            let index = self.copy(memory, staging, [at * chunk, 0], part.len());
                            // While the device copies this one, the one before is copied on.
                            let before = under_way.replace((staging, index, part));
                            before.into_iter().for_each(|before| self.read(before));
                        }
                    }
                    under_way.into_iter().for_each(|last| self.read(last));
                });
            }
        });
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("it ends");
        start.elapsed().as_nanos() as f64
    }

    fn read(&self, (staging, index, part): (&wgpu::Buffer, wgpu::SubmissionIndex, &mut [u8])) {
        mapped(&self.device, staging, wgpu::MapMode::Read, Some(index));
        let view = staging.slice(..).get_mapped_range().expect("it is mapped");
        part.copy_from_slice(&view[..part.len()]);
        drop(view);
        staging.unmap();
    }
}

fn open(name: &str) -> Option<(wgpu::Device, wgpu::Queue)> {
    let mut wanted = wgpu::InstanceDescriptor::new_without_display_handle();
    wanted.backends = wgpu::Backends::VULKAN;
    wanted.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(wanted);
    let adapters = futures::executor::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let adapter = adapters.into_iter().find(|adapter| adapter.get_info().name == name)?;
    let wanted = wgpu::DeviceDescriptor {
        required_features: wgpu::Features::IMMEDIATES,
        required_limits: adapter.limits(),
        ..Default::default()
    };
    futures::executor::block_on(adapter.request_device(&wanted)).ok()
}

fn buffer(device: &wgpu::Device, bytes: usize, usage: Uses) -> wgpu::Buffer {
    let about = wgpu::BufferDescriptor { label: None, size: bytes as u64, usage, mapped_at_creation: false };
    device.create_buffer(&about)
}

fn wait(device: &wgpu::Device, index: wgpu::SubmissionIndex) {
    let poll = wgpu::PollType::Wait { submission_index: Some(index), timeout: None };
    device.poll(poll).expect("it ends");
}

/// Maps a buffer, once what was submitted with it has ended.
fn mapped(
    device: &wgpu::Device,
    buffer: &wgpu::Buffer,
    mode: wgpu::MapMode,
    index: Option<wgpu::SubmissionIndex>,
) {
    let done = Arc::new(Mutex::new(false));
    let tell = Arc::clone(&done);
    buffer.map_async(mode, .., move |result| *tell.lock().expect("nobody panics") = result.is_ok());
    index.into_iter().for_each(|index| wait(device, index));
    while !*done.lock().expect("nobody panics") {
        device.poll(wgpu::PollType::Poll).expect("it ends");
    }
}

impl ByHand for Raw {
    fn chains(&self) -> &[&str] {
        &["one encoder", "a hundred an encoder"]
    }

    fn chain(&self, way: usize, n: usize) -> f64 {
        let start = Instant::now();
        let each = if way == 0 { n } else { 100 };
        let last = (0..n / each).map(|_| self.launch(each, 0)).last();
        last.into_iter().for_each(|last| wait(&self.device, last));
        start.elapsed().as_nanos() as f64 / n as f64
    }

    fn waits(&self) -> &[&str] {
        &["poll", "a thread that waits"]
    }

    fn awaited(&self, way: usize, turns: u32) -> Duration {
        let start = Instant::now();
        let index = self.launch(1, turns);
        match way {
            0 => wait(&self.device, index),
            _ => {
                self.waiter.0.send(index).expect("the thread is there");
                self.waiter.1.lock().expect("nobody panics").recv().expect("the thread is there");
            }
        }
        start.elapsed()
    }

    fn copies(&self) -> &[&str] {
        &["staged by four threads"]
    }

    fn copied(&self, _: usize, bytes: usize, times: usize) -> [f64; 2] {
        let memory = buffer(&self.device, bytes, Uses::COPY_SRC | Uses::COPY_DST);
        let mut vec = vec![1_u8; bytes];
        [true, false]
            .map(|up| median((0..times + 1).map(|_| self.staged(&memory, &mut vec, up)).skip(1).collect()))
    }

    fn reads(&self, times: usize) -> Vec<f64> {
        let memory = buffer(&self.device, 4096, Uses::COPY_SRC | Uses::COPY_DST);
        let staging = buffer(&self.device, 4096, Uses::MAP_READ | Uses::COPY_DST);
        let mut vec = vec![1_u8; 4096];
        let mut one = |_| {
            wait(&self.device, self.launch(1, 0));
            let start = Instant::now();
            let index = self.copy(&memory, &staging, [0, 0], 4096);
            self.read((&staging, index, &mut vec));
            start.elapsed().as_nanos() as f64
        };
        (0..times).map(&mut one).collect()
    }
}
