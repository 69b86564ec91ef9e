//! A service on wgpu as one writes it: places with buffers each, and a thread that polls.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use futures::future::FutureExt;
use tokio::sync::{Semaphore, oneshot};
use wgpu::util::DeviceExt;

use crate::service::ways::{LEN, Service, in_time};
use crate::vulkan::raw::adapter;

const TEXT: &str = "
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn tripled(@builtin(global_invocation_id) i: vec3<u32>) {
    if (i.x < arrayLength(&y)) { y[i.x] = 3.0 * x[i.x]; }
}";

/// Requests that are on the device or on their way.
const PLACES: usize = 256;

struct Place {
    x: wgpu::Buffer,
    y: wgpu::Buffer,
    /// Where the host can see it.
    back: wgpu::Buffer,
    bindings: wgpu::BindGroup,
}

struct Raw {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::ComputePipeline,
    places: Mutex<Vec<Place>>,
    poller: Poller,
}

/// The thread that polls, as long as this is there: a process that ends while another thread drops Vulkan's objects may crash.
struct Poller {
    /// What the thread waits for next.
    submitted: Option<mpsc::Sender<wgpu::SubmissionIndex>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Poller {
    fn start(device: &wgpu::Device) -> Self {
        let (submitted, next) = mpsc::channel();
        let device = device.clone();
        let poll = move || {
            while let Ok(index) = next.recv() {
                let wait = wgpu::PollType::Wait { submission_index: Some(index), timeout: None };
                device.poll(wait).expect("it ends");
            }
        };
        Poller { submitted: Some(submitted), thread: Some(thread::spawn(poll)) }
    }

    fn wait_for(&self, index: wgpu::SubmissionIndex) {
        let submitted = self.submitted.as_ref().expect("it is there until the end");
        submitted.send(index).expect("the thread is there as long as this is");
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        self.submitted = None;
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

impl Raw {
    /// The Vulkan device of this name.
    fn open(name: &str) -> Option<Arc<Self>> {
        let adapter = adapter(name)?;
        let (device, queue) =
            futures::executor::block_on(adapter.request_device(&Default::default())).ok()?;
        let source = wgpu::ShaderSource::Wgsl(TEXT.into());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &module,
            entry_point: Some("tripled"),
            compilation_options: Default::default(),
            cache: None,
        });
        let places = (0..PLACES).map(|_| Place::new(&device, &pipeline)).collect();
        let poller = Poller::start(&device);
        Some(Arc::new(Raw { device, queue, pipeline, places: Mutex::new(places), poller }))
    }

    async fn answer(&self, request: &[f32]) -> Vec<f32> {
        let place = self.places.lock().expect("nobody panics").pop().expect("as many as permits");
        let bytes: Vec<u8> = request.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.queue.write_buffer(&place.x, 0, &bytes);
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &place.bindings, &[]);
            pass.dispatch_workgroups(LEN.div_ceil(64) as u32, 1, 1);
        }
        encoder.copy_buffer_to_buffer(&place.y, 0, &place.back, 0, place.back.size());
        let (tell, told) = oneshot::channel();
        encoder.map_buffer_on_submit(&place.back, wgpu::MapMode::Read, .., move |mapped| {
            // At the process's end nothing is mapped any more, and nobody waits for it.
            if mapped.is_ok() {
                let _ = tell.send(());
            }
        });
        let index = self.queue.submit([encoder.finish()]);
        self.poller.wait_for(index);
        told.await.expect("it is mapped");
        let view = place.back.slice(..).get_mapped_range().expect("it is mapped");
        let floats = view.chunks_exact(4).map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]]));
        let answer = floats.collect();
        drop(view);
        place.back.unmap();
        self.places.lock().expect("nobody panics").push(place);
        answer
    }
}

impl Place {
    fn new(device: &wgpu::Device, pipeline: &wgpu::ComputePipeline) -> Self {
        let buffer = |usage| {
            let contents = &[0; 4 * LEN];
            device.create_buffer_init(&wgpu::util::BufferInitDescriptor { label: None, contents, usage })
        };
        let x = buffer(wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST);
        let y = buffer(wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC);
        let back = buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
        let entries = [(0, &x), (1, &y)]
            .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() });
        let layout = pipeline.get_bind_group_layout(0);
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries };
        let bindings = device.create_bind_group(&descriptor);
        Place { x, y, back, bindings }
    }
}

/// On the device of this name.
pub(super) fn by_hand(name: &str) -> Option<Service> {
    let raw = Raw::open(name)?;
    let free = Arc::new(Semaphore::new(PLACES));
    let service = move |request: Vec<f32>, until| {
        let (raw, free) = (raw.clone(), free.clone());
        // A place that is left before its copy is mapped could not be used again: who goes leaves that to a task.
        let answer = async move {
            let permit = free.acquire_owned().await.expect("nobody closes it");
            let task = async move {
                let answer = raw.answer(&request).await;
                drop(permit);
                answer
            };
            Ok(tokio::spawn(task).await.expect("it does not panic"))
        };
        in_time(until, answer).boxed()
    };
    Some(Arc::new(service))
}
