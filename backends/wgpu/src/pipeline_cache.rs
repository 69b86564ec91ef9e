//! Compiled pipelines on disk, for later processes: see [`windlass_kernel_translate::Cache`].
//!
//! Each pipeline has a native cache of its own, so that an entry stands for one kernel and either exists or not. The driver
//! decides what it stores there, and whether it uses what it is given.

use windlass_kernel::KernelImage;
use windlass_kernel_translate::Cache;

use crate::gpu::Gpu;
use windlass_sync::process_exit::Native;

/// The cache entry of one pipeline, and the native cache for it.
pub(crate) struct CacheEntry {
    cache: Cache,
    key: Vec<String>,
    native: Native<wgpu::PipelineCache>,
    /// Whether the entry existed.
    found: bool,
}

impl CacheEntry {
    /// The entry for an image's pipeline, if caching is on and the device supports it. `form` distinguishes the pipelines of
    /// one image. To be called under error scopes.
    pub(crate) fn open(gpu: &Gpu, image: &KernelImage, form: &str) -> Option<CacheEntry> {
        let cache = Cache::named()?;
        if !gpu.device.features().contains(wgpu::Features::PIPELINE_CACHE) {
            return None;
        }
        let key = key(gpu, image, form);
        let data = cache.get(&key.iter().map(String::as_str).collect::<Vec<_>>());
        // SAFETY: the data came from `get_data` of such a cache, for a device and driver with the same description as these: that
        // is part of the key, which is stored in the entry along with a checksum. Keeping others from writing to the folder is up
        // to the user who named it. wgpu checks the data's own header as well, and with `fallback` ignores data that does not fit.
        let native = unsafe {
            gpu.device.create_pipeline_cache(&wgpu::PipelineCacheDescriptor {
                label: None,
                data: data.as_deref(),
                fallback: true,
            })
        };
        Some(CacheEntry { cache, key, native: Native::new(native), found: data.is_some() })
    }

    pub(crate) fn native(&self) -> &wgpu::PipelineCache {
        &self.native
    }

    /// Stores what the driver compiled, unless it came from the cache.
    pub(crate) fn store(self) {
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
