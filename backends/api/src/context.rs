//! Backends and contexts: the cold half of the contract.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_kernel::{Kernel, KernelImage};

use crate::{
    Allocation, AtomicOrders, AtomicScopes, BackendError, CompletionStrategy, DeviceInfo, HostMemory, Lane,
    LaneSink, LaneSpec, MemoryObject, Platform, Unavailable,
};

/// The name of a backend: `host`, `opencl`, `wgpu`, or a third party's own.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(Cow<'static, str>);

impl BackendId {
    /// The backend of this process's own threads.
    pub const HOST: BackendId = BackendId::new("host");
    /// OpenCL.
    pub const OPENCL: BackendId = BackendId::new("opencl");
    /// wgpu, over Vulkan.
    pub const WGPU: BackendId = BackendId::new("wgpu");

    /// A backend's name; lower case, without `:`.
    pub const fn new(name: &'static str) -> Self {
        BackendId(Cow::Borrowed(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for BackendId {
    fn from(name: String) -> Self {
        BackendId(Cow::Owned(name))
    }
}

impl fmt::Display for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for BackendId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// One native API. See the crate documentation for the contract.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// The backend's name, unique in a runtime.
    fn id(&self) -> BackendId;

    /// Loads the driver, if there is one, and lists what it offers. May block. The order of platforms and of devices
    /// is the same each time as long as the machine stays the same.
    async fn discover(&self) -> Result<Vec<Platform>, Unavailable>;

    /// Opens a context over devices of one platform, named by their positions in what [`Backend::discover`] returned.
    /// May block.
    async fn open(&self, platform: usize, devices: &[usize]) -> Result<Arc<dyn Context>, BackendError>;
}

/// What a context can do, as data.
#[derive(Clone, Debug)]
pub struct ContextInfo {
    /// The devices, in the order in which they were asked for, as they are inside this context.
    pub devices: Vec<DeviceInfo>,
    /// How lanes can learn that their work has ended, the way that suits the driver best first. Not empty.
    pub completions: Vec<CompletionStrategy>,
    /// [`LaneSink::passed`] is called where `feed`, `flush` and `arm` are allowed: never inside a driver's callback. Of
    /// lanes with a waiter thread that goes without saying.
    pub feeds_from_sink: bool,
    /// [`Lane::arm`] makes no native call, so a thread that must not block may call it.
    pub arms_freely: bool,
    /// [`Context::allocate`] may block, so it is called on a blocking pool.
    pub allocate_blocks: bool,
    /// A copy with host memory that the context did not allocate blocks whoever feeds it. Such copies then go through
    /// [`Context::allocate_staging`], and the host's half of the way is made on a blocking pool.
    pub pageable_copies_block: bool,
    /// Memory orders of atomic operations that every device of the context has.
    pub atomic_orders: AtomicOrders,
    /// Scopes of atomic operations that every device of the context has.
    pub atomic_scopes: AtomicScopes,
}

/// Devices that were opened together: memory, kernels and lanes.
#[async_trait]
pub trait Context: Any + Send + Sync {
    /// What the context can do. The same for the context's whole life.
    fn info(&self) -> &ContextInfo;

    /// Opens a lane. Must not wait for a device. The runtime opens at most [`DeviceInfo::lanes`] for each device and
    /// completion strategy, and drops a lane after the verdict of its last point, on a thread that may block.
    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError>;

    /// Allocates memory that reads as zeros, in the memory of the device at this position.
    fn allocate(&self, device: usize, object: MemoryObject) -> Result<Arc<dyn Allocation>, BackendError>;

    /// Allocates host memory through which copies to and from this context go fastest. It need not be zeroed. Called on a
    /// blocking pool.
    fn allocate_staging(&self, bytes: usize) -> Result<Arc<dyn Allocation>, BackendError> {
        HostMemory::zeroed(bytes).map(|m| Arc::new(m) as Arc<dyn Allocation>)
    }

    /// Builds a kernel for the device at this position, from an image in one of the device's formats. May block; the
    /// runtime calls it on a blocking pool, once for each kernel and device.
    async fn build(
        &self,
        device: usize,
        kernel: &Kernel,
        image: &KernelImage,
    ) -> Result<Arc<dyn BuiltKernel>, BackendError>;

    /// Ends the context: called once, on a thread that may block, after the last verdict of its last lane.
    async fn close(&self) {}
}

impl fmt::Debug for dyn Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("info", self.info()).finish()
    }
}

/// A kernel as a context built it; the backend that made it downcasts it in `feed`.
pub trait BuiltKernel: Any + Send + Sync {}

impl fmt::Debug for dyn BuiltKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BuiltKernel")
    }
}
