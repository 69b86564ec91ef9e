//! WGSL by hand on wgpu, with nothing between.

use std::time::Instant;

use wgpu::util::DeviceExt;

/// What is written by hand, all kernels in one module.
const TEXT: &str = include_str!("by_hand.wgsl");

/// A device.
pub(super) struct Raw {
    device: wgpu::Device,
    queue: wgpu::Queue,
    module: wgpu::ShaderModule,
}

/// A kernel over buffers.
pub(super) struct Launch {
    pipeline: wgpu::ComputePipeline,
    bindings: wgpu::BindGroup,
    groups: [u32; 3],
}

/// The Vulkan adapter of this name.
pub(crate) fn adapter(name: &str) -> Option<wgpu::Adapter> {
    let mut wanted = wgpu::InstanceDescriptor::new_without_display_handle();
    wanted.backends = wgpu::Backends::VULKAN;
    let instance = wgpu::Instance::new(wanted);
    let adapters = futures::executor::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    adapters.into_iter().find(|adapter| adapter.get_info().name == name)
}

impl Raw {
    /// The Vulkan device of this name.
    pub(super) fn open(name: &str) -> Option<Self> {
        let adapter = adapter(name)?;
        let wanted = wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..Default::default() };
        let (device, queue) = futures::executor::block_on(adapter.request_device(&wanted)).ok()?;
        let source = wgpu::ShaderSource::Wgsl(TEXT.into());
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
        Some(Raw { device, queue, module })
    }

    /// A buffer of these bytes.
    pub(super) fn buffer(&self, contents: &[u8]) -> wgpu::Buffer {
        let usage = wgpu::BufferUsages::STORAGE;
        self.device.create_buffer_init(&wgpu::util::BufferInitDescriptor { label: None, contents, usage })
    }

    /// A kernel over buffers at their bindings.
    pub(super) fn launch(
        &self,
        entry: &str,
        side: usize,
        buffers: &[(u32, &wgpu::Buffer)],
        groups: [u32; 3],
    ) -> Launch {
        let constants = [("SIDE", side as f64)];
        let pipeline = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: None,
            layout: None,
            module: &self.module,
            entry_point: Some(entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &constants,
                ..Default::default()
            },
            cache: None,
        });
        let entries: Vec<_> = buffers
            .iter()
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding: *binding,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let layout = pipeline.get_bind_group_layout(0);
        let descriptor = wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries };
        let bindings = self.device.create_bind_group(&descriptor);
        Launch { pipeline, bindings, groups }
    }

    /// Nanoseconds for these kernels one after the other, as the mean of so many times in one submission.
    pub(super) fn timed(&self, launches: &[&Launch], times: usize) -> f64 {
        let mut encoder = self.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for launch in (0..times).flat_map(|_| launches) {
                pass.set_pipeline(&launch.pipeline);
                pass.set_bind_group(0, &launch.bindings, &[]);
                let [x, y, z] = launch.groups;
                pass.dispatch_workgroups(x, y, z);
            }
        }
        let begun = Instant::now();
        self.queue.submit([encoder.finish()]);
        self.device.poll(wgpu::PollType::wait_indefinitely()).expect("it ends");
        begun.elapsed().as_nanos() as f64 / times as f64
    }
}
