//! Kernels: what WGSL text must look like, and how a launch binds its arguments.
//!
//! The convention is [`windlass_kernel::block`]'s. A block that is small enough, as nearly all are, becomes immediate data in the
//! module: it stands among the commands, and needs neither a buffer nor a binding.
//!
//! # Two arguments on one allocation
//!
//! wgpu tracks how a dispatch uses a buffer for the buffer as a whole, so two arguments that use one allocation in
//! different ways are refused, even on disjoint ranges. Such a launch takes a second pipeline, built when it is first
//! needed, in which every storage binding is `read_write`. That pipeline comes from the parsed module with the access
//! replaced; the text is not touched.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;
use wgpu::naga;
use windlass_backend::{BackendError, BuiltKernel, KernelReport};
use windlass_kernel::shape::Shape;
use windlass_kernel::{ImageFormat, Kernel, KernelImage, Slot, SlotAccess};
use windlass_kernel_translate::wgsl::Checked;

use crate::error::unsupported;
use crate::gpu::Gpu;
use crate::pipeline_cache::CacheEntry;
use windlass_sync::process_exit::Native;

/// A kernel that was built for one device.
#[derive(Debug)]
pub(crate) struct WgpuKernel(pub(crate) Arc<Built>);

impl BuiltKernel for WgpuKernel {
    /// What a pipeline takes of the device, wgpu does not tell.
    fn report(&self) -> KernelReport {
        let mut report = KernelReport::default();
        report.compared_in_loops = self.0.compared_in_loops.clone();
        report
    }
}

#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) name: Box<str>,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) image: KernelImage,
    module: naga::Module,
    /// Of how many bytes the block is, if a launch hands it over as immediate data; else it is in a uniform buffer.
    pub(crate) immediates: Option<u32>,
    pub(crate) shape: Shape,
    /// Whether launches name their work-groups.
    pub(crate) grouped: bool,
    compared_in_loops: Vec<String>,
    declared: Pipeline,
    /// The form for arguments that share an allocation, built when first needed.
    shared: OnceLock<Pipeline>,
}

#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) layout: Native<wgpu::BindGroupLayout>,
    pub(crate) pipeline: Native<wgpu::ComputePipeline>,
}

/// Builds a kernel, or says what is wrong with its text.
pub(crate) fn build(gpu: &Gpu, kernel: &Kernel, image: &KernelImage) -> Result<WgpuKernel, BackendError> {
    if image.format() != ImageFormat::Wgsl {
        return unsupported(format!("a kernel in {:?} on a wgpu device", image.format()));
    }
    let refuse = |log: String| BackendError::Build { kernel: kernel.name().into(), log };
    let mut checked = Checked::parse(image.source()).map_err(|e| refuse(e.to_string()))?;
    if checked.has_fences() {
        return unsupported(format!("kernel `{}` has fences, and wgpu's devices have none", kernel.name()));
    }
    if checked.has_overrides() {
        checked = checked.specialise(image.entry(), image.overrides()).map_err(|e| refuse(e.to_string()))?;
    }
    checked = checked.pruned(image.is_guarded()).map_err(|e| refuse(e.to_string()))?;
    if gpu.device.features().contains(wgpu::Features::SHADER_FLOAT32_ATOMIC) {
        checked = checked.with_float_atomics().map_err(|e| refuse(e.to_string()))?;
    }
    if gpu.is_real && image.is_guarded() {
        checked = checked.unbranched().map_err(|e| refuse(e.to_string()))?;
    }
    if gpu.loses_negations && image.is_guarded() {
        checked = checked.with_hidden_negations().map_err(|e| refuse(e.to_string()))?;
    }
    let accesses = accesses(gpu, kernel)?;
    let (checked, immediates) = checked.with_immediates(accesses.len() as u32, most_immediates(gpu));
    let module = checked.module().clone();
    let work_group = work_group(&module, image.entry()).map_err(refuse)?;
    let shape = Shape::of_text(image, work_group).map_err(refuse)?;
    let source = wgpu::ShaderSource::Naga(Cow::Owned(module.clone()));
    let declared = gpu
        .guarded("Device::create_compute_pipeline", || {
            let cached = CacheEntry::open(gpu, image, "declared");
            Ok(pipeline(gpu, source, image, &accesses, immediates, cached))
        })
        .map_err(|error| if error.is_lost() { error } else { refuse(error.to_string()) })?;
    Ok(WgpuKernel(Arc::new(Built {
        name: kernel.name().into(),
        slots: kernel.slots().into(),
        image: image.clone(),
        module,
        immediates,
        shape,
        grouped: kernel.is_grouped(),
        compared_in_loops: checked.compared_in_loops(image.source()),
        declared,
        shared: OnceLock::new(),
    })))
}

/// How many bytes of immediate data a launch may have: what the device takes, as far as wgpu counts.
fn most_immediates(gpu: &Gpu) -> u32 {
    let counted = 256;
    gpu.limits.max_immediate_size.min(counted)
}

/// The access of each buffer slot.
fn accesses(gpu: &Gpu, kernel: &Kernel) -> Result<SmallVec<[SlotAccess; 8]>, BackendError> {
    let mut accesses = SmallVec::new();
    for slot in kernel.slots() {
        match slot {
            Slot::Buffer(access) => accesses.push(*access),
            Slot::Value(_) => {}
            other => return unsupported(format!("{other:?} of kernel `{}` on a wgpu device", kernel.name())),
        }
    }
    let most = gpu.limits.max_storage_buffers_per_shader_stage as usize;
    if accesses.len() > most {
        return unsupported(format!(
            "kernel `{}` has {} buffers, the device takes {most}",
            kernel.name(),
            accesses.len()
        ));
    }
    Ok(accesses)
}

/// The work-group's extents, read from the entry point.
fn work_group(module: &naga::Module, entry: &str) -> Result<[u32; 3], String> {
    let is_entry = |e: &&naga::EntryPoint| e.name == entry && e.stage == naga::ShaderStage::Compute;
    let Some(point) = module.entry_points.iter().find(is_entry) else {
        return Err(format!("there is no compute entry point `{entry}`"));
    };
    match (point.workgroup_size, &point.workgroup_size_overrides) {
        (_, Some(_)) => Err("the work-group size is an override; it must be a constant".into()),
        (size, None) => Ok(size),
    }
}

/// Creates the pipeline, under the caller's error scopes.
fn pipeline(
    gpu: &Gpu,
    source: wgpu::ShaderSource<'_>,
    image: &KernelImage,
    accesses: &[SlotAccess],
    immediates: Option<u32>,
    cached: Option<CacheEntry>,
) -> Pipeline {
    let descriptor = wgpu::ShaderModuleDescriptor { label: Some(image.entry()), source };
    // SAFETY: what is not checked here is what the image's author has promised, and ray queries and meshes, of which no
    // kernel has any.
    let module = unsafe { gpu.device.create_shader_module_trusted(descriptor, checks(image)) };
    let block = immediates.is_none().then_some(wgpu::BufferBindingType::Uniform);
    let types = accesses.iter().map(|access| storage(*access)).chain(block);
    let making = Making {
        module: &module,
        entry: image.entry(),
        immediates: immediates.unwrap_or(0),
        clears: !image.is_guarded(),
        cache: cached.as_ref().map(CacheEntry::native),
    };
    let pipeline = making.pipeline(gpu, types);
    if let Some(entry) = cached {
        entry.store();
    }
    pipeline
}

fn storage(access: SlotAccess) -> wgpu::BufferBindingType {
    wgpu::BufferBindingType::Storage { read_only: access == SlotAccess::Read }
}

/// A pipeline of a text of our own, whose bindings are buffers with these accesses, and behind them a uniform one. To be called under
/// error scopes.
pub(crate) fn own_pipeline(gpu: &Gpu, text: &str, entry: &str, accesses: &[SlotAccess]) -> Pipeline {
    let source = wgpu::ShaderSource::Wgsl(text.into());
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor { label: Some(entry), source });
    let types = accesses.iter().map(|access| storage(*access)).chain([wgpu::BufferBindingType::Uniform]);
    Making { module: &module, entry, immediates: 0, clears: true, cache: None }.pipeline(gpu, types)
}

/// What a pipeline is made of, beside its bindings.
struct Making<'a> {
    module: &'a wgpu::ShaderModule,
    entry: &'a str,
    immediates: u32,
    /// Whether its local memory is zeroed first.
    clears: bool,
    cache: Option<&'a wgpu::PipelineCache>,
}

impl Making<'_> {
    /// The layout is ours, since one derived from the text would lack the bindings that the kernel does not use.
    fn pipeline(self, gpu: &Gpu, types: impl Iterator<Item = wgpu::BufferBindingType>) -> Pipeline {
        let entries: Vec<_> = types.zip(0..).map(|(ty, binding)| layout_entry(binding, ty)).collect();
        let layout = gpu
            .device
            .create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        let whole = gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&layout)],
            immediate_size: self.immediates,
        });
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(self.entry),
            layout: Some(&whole),
            module: self.module,
            entry_point: Some(self.entry),
            compilation_options: wgpu::PipelineCompilationOptions {
                zero_initialize_workgroup_memory: self.clears,
                ..Default::default()
            },
            cache: self.cache,
        });
        Pipeline { layout: Native::new(layout), pipeline: Native::new(pipeline) }
    }
}

/// What wgpu has to add to a text: nothing that its author has promised. Integer divisions are always checked, since
/// kernels count on what they give.
fn checks(image: &KernelImage) -> wgpu::ShaderRuntimeChecks {
    let mut checks = wgpu::ShaderRuntimeChecks::checked();
    checks.bounds_checks = !image.is_guarded();
    checks.force_loop_bounding = !image.ends();
    checks
}

fn layout_entry(binding: u32, ty: wgpu::BufferBindingType) -> wgpu::BindGroupLayoutEntry {
    wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}

impl Built {
    /// The pipeline as the text declares it, or, if `shared`, the one for arguments that share an allocation. To be called under
    /// error scopes.
    pub(crate) fn pipeline(&self, gpu: &Gpu, shared: bool) -> &Pipeline {
        if !shared {
            return &self.declared;
        }
        self.shared.get_or_init(|| {
            let mut module = self.module.clone();
            for (_, global) in module.global_variables.iter_mut() {
                if let naga::AddressSpace::Storage { access } = &mut global.space {
                    *access |= naga::StorageAccess::LOAD | naga::StorageAccess::STORE;
                }
            }
            let buffers = self.slots.iter().filter(|slot| matches!(slot, Slot::Buffer(_))).count();
            let source = wgpu::ShaderSource::Naga(Cow::Owned(module));
            let cached = CacheEntry::open(gpu, &self.image, "shared");
            let accesses = vec![SlotAccess::ReadWrite; buffers];
            pipeline(gpu, source, &self.image, &accesses, self.immediates, cached)
        })
    }
}
