//! What the driver's compiler made of a kernel, kept beyond the process: see [`windlass_kernel_translate::Cache`].
//!
//! Each pipeline has a native cache of its own, so that an entry is about one kernel and is there or not. Drivers decide
//! themselves what they put into it, and whether they use what they are given.

use windlass_kernel::KernelImage;
use windlass_kernel_translate::Cache;

use crate::exit::Native;
use crate::gpu::Gpu;

/// The native cache for one pipeline.
pub(crate) struct Kept {
    cache: Cache,
    key: Vec<String>,
    native: Native<wgpu::PipelineCache>,
    /// Whether there was an entry.
    found: bool,
}

impl Kept {
    /// The cache for an image's pipeline, where there is to be one. `form` tells pipelines of one image apart. To be
    /// called under error scopes.
    pub(crate) fn open(gpu: &Gpu, image: &KernelImage, form: &str) -> Option<Kept> {
        let cache = Cache::named()?;
        if !gpu.device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let key = key(gpu, image, form);
        let data = cache.get(&key.iter().map(String::as_str).collect::<Vec<_>>());
        // SAFETY: the data came out of `get_data` of such a cache, for a device and a driver that say the same of themselves as
        // these: that is part of the key, which stands in the entry beside a checksum. That nobody else writes such entries is up
        // to who names the folder. wgpu looks at the data's own head as well, and without `fallback` would refuse what does not fit.
        let native = unsafe {
            gpu.device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: None,
                data: data.as_deref(),
                fallback: true,
            })
        };
        Some(Kept { cache, key, native: Native::new(native), found: data.is_some() })
    }

    pub(crate) fn native(&self) -> &wgpu::PipelineCache {
        &self.native
    }

    /// Keeps what was made, if that is new.
    pub(crate) fn keep(self) {
        if let Some(data) = self.native.get_data().filter(|_| !self.found) {
            self.cache.put(&self.key.iter().map(String::as_str).collect::<Vec<_>>(), &data);
        }
    }
}

fn key(gpu: &Gpu, image: &KernelImage, form: &str) -> Vec<String> {
    let about = gpu.device.adapter_info();
    let values = image.overrides().iter().map(|(name, value)| format!("{name} = {value}"));
    let mut key =
        vec!["wgpu".to_owned(), form.to_owned(), image.source().to_owned(), image.entry().to_owned()];
    key.push(values.collect::<Vec<_>>().join("\n"));
    key.extend([about.name, about.driver, about.driver_info]);
    key.push(format!("{:?} {:x} {:x}", about.backend, about.vendor, about.device));
    key
}
