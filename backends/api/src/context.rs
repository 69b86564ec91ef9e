//! Backends and contexts: the cold half of the contract.

use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use windlass_kernel::{Kernel, KernelImage};

use crate::{
    Allocation, BackendError, CompletionStrategy, DeviceInfo, DeviceKey, HostMemory, Keeps, Lane, LaneSink,
    LaneSpec, MemoryIndex, MemoryInfo, MemoryObject, NativeQueue, Node, Platform, Sequence, Unavailable,
    Usage,
};

/// The name of a backend: `host`, `opencl`, `wgpu`, or a third party's own.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendId(Cow<'static, str>);

impl BackendId {
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
///
/// # Safety
///
/// Safe code relies on what a backend does: its contexts, lanes and allocations keep the promises that their traits
/// name under *Safety*. The backend itself promises that what [`Backend::open`] returns are such contexts.
#[async_trait]
pub unsafe trait Backend: Send + Sync + 'static {
    /// The backend's name, unique in a runtime.
    fn id(&self) -> BackendId;

    /// Loads the driver, if there is one, and lists what it offers now. May block: the runtime calls it on a blocking pool,
    /// and again when it is asked to look for devices that have come or gone.
    async fn discover(&self) -> Result<Vec<Platform>, Unavailable>;

    /// Opens a context over devices of one platform. May block: the runtime calls it on a blocking pool. A device that was
    /// lost may be opened again; one that is not there any more is [`BackendError::Lost`].
    async fn open(&self, spec: ContextSpec) -> Result<Arc<dyn Context>, BackendError>;

    /// Makes a context of a native object that the program has: of which type, and what the program promises by giving it, the
    /// backend documents. Its devices are some that [`Backend::discover`] lists. May block, like [`Backend::open`].
    async fn adopt(
        &self,
        _object: Box<dyn Any + Send>,
        _sink: Arc<dyn ContextSink>,
    ) -> Result<Arc<dyn Context>, BackendError> {
        Err(BackendError::Unsupported(format!("native objects as contexts of backend `{}`", self.id())))
    }
}

/// Which context to open.
#[derive(Clone)]
#[non_exhaustive]
pub struct ContextSpec {
    /// The devices, all of one platform, in the order in which [`ContextInfo::devices`] names them. Not empty.
    pub devices: Vec<DeviceKey>,
    /// Who is told when the context is lost while no call is under way that could say so.
    pub sink: Arc<dyn ContextSink>,
}

impl ContextSpec {
    /// A context over these devices that reports its loss to `sink`.
    pub fn new(devices: Vec<DeviceKey>, sink: Arc<dyn ContextSink>) -> Self {
        ContextSpec { devices, sink }
    }
}

impl fmt::Debug for ContextSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextSpec").field("devices", &self.devices).finish_non_exhaustive()
    }
}

/// Where a context reports what happens to it as a whole.
pub trait ContextSink: Send + Sync {
    /// The context is lost. May be called on any thread, inside a driver's callback too, with no lock held that any method
    /// of the backend takes. Never blocks.
    fn lost(&self, error: BackendError);
}

/// Hears nothing: for tests that open a context by hand.
impl ContextSink for () {
    fn lost(&self, _: BackendError) {}
}

/// Contexts of one domain can wait for each other's points, and copy each other's memory where
/// [`Context::copies_from`] says so. A number that means something to the backend alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DomainId(pub u64);

/// What a context can do, as data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ContextInfo {
    /// The devices, in the order in which they were asked for, as they are inside this context.
    pub devices: Vec<DeviceInfo>,
    /// The context's own memories; [`MemoryIndex::Own`] counts them.
    pub memories: Vec<MemoryInfo>,
    /// How lanes can learn that their work has ended, the way that suits the driver best first. Not empty.
    pub completions: Vec<CompletionStrategy>,
    /// The domain that it shares with other contexts of its backend; none if it is alone.
    pub domain: Option<DomainId>,
    /// [`LaneSink::passed`] is called where `feed`, `flush` and `arm` are allowed: never inside a driver's callback. Of
    /// lanes with a thread of their own, a waiter or a poller, that goes without saying.
    pub feeds_from_sink: bool,
    /// [`Context::allocate`] may block, so it is called on a blocking pool.
    pub allocate_blocks: bool,
    /// [`Context::build`] may block inside a poll, so it is polled on a blocking pool. If not, it truly waits, and is polled like
    /// any future. [`Context::close`] is waited for on a blocking pool in any case, behind what its lanes still have to give back.
    pub cold_calls_block: bool,
    /// Copies out of host memory that the context did not allocate, to memory out of the host's reach, block the thread that feeds
    /// them if they have more bytes than this. Such copies go through [`Context::allocate_staging`], and the host's half of the way is made on a blocking pool.
    pub pageable_upload_limit: usize,
    /// The same for copies from there into such memory.
    pub pageable_download_limit: usize,
    /// For how long a waiter looks by itself whether its group has ended ([`Lane::look`]), before it sleeps and is woken: for
    /// devices on which what is short has ended before a thread that reports it could have woken anybody.
    pub waiters_look: Duration,
    /// Its lanes tell points that somebody waits for from those that they report for their own sake, which they do at leisure: for
    /// drivers that make who enqueues wait while they are asked. What comes to be waited for later is armed then.
    pub reports_at_leisure: bool,
    /// To feed a group takes a thread about as long as to submit one, or longer: while a device has enough to do, submitters leave
    /// its groups to a thread of the runtime's, so that both go on at once.
    pub fed_aside: bool,
    /// [`Lane::feed`], [`Lane::flush`] and [`Lane::arm`] are no more than a push onto a list, but for the first of a lane, which may start
    /// a thread: they never wait and run nothing foreign, so they may be called anywhere, in a program's `poll` and `drop` and in
    /// another driver's callback.
    ///
    /// [`Lane::feed`]: crate::Lane::feed
    /// [`Lane::flush`]: crate::Lane::flush
    /// [`Lane::arm`]: crate::Lane::arm
    pub fed_anywhere: bool,
}

impl ContextInfo {
    /// A context over these devices and memories that reports by callback, takes host memory of any kind in copies without
    /// blocking, and whose cold calls may block.
    pub fn new(devices: Vec<DeviceInfo>, memories: Vec<MemoryInfo>) -> Self {
        ContextInfo {
            devices,
            memories,
            completions: vec![CompletionStrategy::Callback],
            domain: None,
            feeds_from_sink: false,
            allocate_blocks: true,
            cold_calls_block: true,
            pageable_upload_limit: usize::MAX,
            pageable_download_limit: usize::MAX,
            waiters_look: Duration::ZERO,
            reports_at_leisure: false,
            fed_aside: false,
            fed_anywhere: false,
        }
    }

    /// Its lanes may be fed and armed anywhere.
    pub fn fed_anywhere(self) -> Self {
        ContextInfo { fed_anywhere: true, ..self }
    }

    /// While a device has enough to do, its lanes are fed by other threads than those that submit.
    pub fn fed_aside(self) -> Self {
        ContextInfo { fed_aside: true, ..self }
    }

    /// Its lanes report at leisure what nobody waits for.
    pub fn reports_at_leisure(self) -> Self {
        ContextInfo { reports_at_leisure: true, ..self }
    }

    /// Waiters look by themselves for so long, before they sleep.
    pub fn waiters_look(self, long: Duration) -> Self {
        ContextInfo { waiters_look: long, ..self }
    }

    /// How lanes can learn that their work has ended, the best way first.
    pub fn completions(self, completions: impl IntoIterator<Item = CompletionStrategy>) -> Self {
        ContextInfo { completions: completions.into_iter().collect(), ..self }
    }

    /// The domain that it shares with other contexts of its backend.
    pub fn domain(self, domain: DomainId) -> Self {
        ContextInfo { domain: Some(domain), ..self }
    }

    /// The sink may feed: it is never called inside a driver's callback.
    pub fn feeds_from_sink(self) -> Self {
        ContextInfo { feeds_from_sink: true, ..self }
    }

    /// Allocating takes no time to speak of, whatever the device does.
    pub fn allocates_at_once(self) -> Self {
        ContextInfo { allocate_blocks: false, ..self }
    }

    /// `build` does not block: where there is something to wait for, its future waits.
    pub fn truly_waits(self) -> Self {
        ContextInfo { cold_calls_block: false, ..self }
    }

    /// Up to how many bytes copies from and to foreign host memory do not block.
    pub fn pageable_limits(self, upload: usize, download: usize) -> Self {
        ContextInfo { pageable_upload_limit: upload, pageable_download_limit: download, ..self }
    }
}

/// A device's clock and the host's, read at the same moment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ClockSample {
    /// The device's clock, in nanoseconds since some moment of its own.
    pub device: u64,
    /// The host's.
    pub host: Instant,
}

impl ClockSample {
    /// Both clocks at one moment.
    pub fn new(device: u64, host: Instant) -> Self {
        ClockSample { device, host }
    }
}

/// Devices that were opened together: memory, kernels and lanes.
///
/// # Safety
///
/// - Memory that [`Context::allocate`] and [`Context::allocate_staging`] return is an [`Allocation`] as that trait demands,
///   of at least the size asked for, and nobody else's; what [`Context::import`] and [`Context::piece`] return is nobody else's but
///   its giver's.
/// - Lanes do nothing with memory but what the commands say that they are fed.
/// - Where `info` says that a memory's fresh contents are zeros, they are; and what it allocates of the heap is zeroed.
#[async_trait]
pub unsafe trait Context: Any + Send + Sync {
    /// What the context can do. The same for the context's whole life.
    fn info(&self) -> &ContextInfo;

    /// Opens a lane. Must not wait for a device. The runtime opens at most [`DeviceInfo::lanes`] for each device, role,
    /// priority and completion strategy, and drops a lane after the verdict of its last point, on a thread that may block.
    fn open_lane(&self, spec: LaneSpec, sink: Arc<dyn LaneSink>) -> Result<Arc<dyn Lane>, BackendError>;

    /// Allocates memory, whose fresh contents are as [`MemoryInfo::fresh`] says; that of the heap is zeroed.
    fn allocate(
        &self,
        memory: MemoryIndex,
        object: MemoryObject,
    ) -> Result<Arc<dyn Allocation>, BackendError>;

    /// Makes an allocation of so many bytes of another one of linear memory, from `at` on: it shares them, and keeps the whole alive. Only
    /// of memories with [`MemoryInfo::pieces`], at multiples of what that says, and of what is no piece itself. Lanes use pieces of one
    /// whole at the same time like any other two allocations, but no two that have bytes in common, and not the whole then. Pieces that
    /// nobody uses any more may be there for a while beside what has taken their place. Must not wait for a device.
    fn piece(
        &self,
        whole: &Arc<dyn Allocation>,
        at: usize,
        bytes: usize,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        Err(BackendError::Unsupported(format!("{bytes} bytes from {at} on of {} as memory", whole.bytes())))
    }

    /// Makes an allocation in `memory` of host memory that there is: it has the same bytes, shares them, and keeps `host` alive.
    /// Only for memories with [`MemoryInfo::imports`], and of host memory that is aligned as it says. May block.
    fn import(
        &self,
        memory: MemoryIndex,
        host: Arc<dyn Allocation>,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        drop(host);
        Err(BackendError::Unsupported(format!("host memory as an allocation in {memory:?}")))
    }

    /// Makes an allocation of native memory that the program has: of which type, and what the program promises by giving it, the
    /// backend documents. It holds this many bytes or more, from its beginning. May block.
    fn adopt_memory(
        &self,
        memory: MemoryIndex,
        object: Box<dyn Any + Send>,
        bytes: usize,
    ) -> Result<Arc<dyn Allocation>, BackendError> {
        drop(object);
        Err(BackendError::Unsupported(format!(
            "native memory of {bytes} bytes as an allocation in {memory:?}"
        )))
    }

    /// What a native queue is like that the program has, of the type that [`Context::adopt_lane`] takes. What cannot be a lane
    /// of this context is refused here, with what is wrong with it: a queue of another context, for instance, or one that runs its
    /// commands in any order. Must not wait for a device.
    fn native_queue(&self, _queue: &dyn Any) -> Result<NativeQueue, BackendError> {
        Err(BackendError::Unsupported("native queues as lanes".into()))
    }

    /// Makes a lane of a native queue that the program has, and that [`Context::native_queue`] has said yes to: of which type, and
    /// what the program promises by giving it, the backend documents. The lane's groups are commands of that very queue, in order
    /// with what the program puts there itself. The lane is of the queue's device, computes, has normal priority, and comes on top of
    /// those that [`Context::open_lane`] opens; it lets go of the queue when it is dropped. Must not wait for a device.
    fn adopt_lane(
        &self,
        queue: Box<dyn Any + Send>,
        spec: LaneSpec,
        _sink: Arc<dyn LaneSink>,
    ) -> Result<Arc<dyn Lane>, BackendError> {
        drop(queue);
        Err(BackendError::Unsupported(format!("a native queue as lane {}", spec.number.0)))
    }

    /// Allocates host memory through which copies to and from this context go fastest: for staging, and for the host's copy of
    /// buffers, which host code and devices of other contexts then use like any host memory. It need not be zeroed. Called on a
    /// blocking pool.
    fn allocate_staging(&self, bytes: usize) -> Result<Arc<dyn Allocation>, BackendError> {
        HostMemory::zeroed(bytes).map(|m| Arc::new(m) as Arc<dyn Allocation>)
    }

    /// How much of a memory is in use, where that is known; told to users when an allocation fails.
    fn usage(&self, _memory: MemoryIndex) -> Option<Usage> {
        None
    }

    /// Gives back to the driver what the backend keeps of a memory for later. Called on a blocking pool when an allocation
    /// has failed, before it is tried once more.
    fn trim(&self, _memory: MemoryIndex) {}

    /// Whether a lane of this context copies from the memory `from` of `other`, which is this context itself or another of
    /// its domain, into its own memory `to`. Asked once for each pair when the later of the two contexts has been opened;
    /// where the answer is no, data goes through host staging. Say yes only to what was seen to work.
    fn copies_from(&self, _other: &dyn Context, _from: MemoryIndex, _to: MemoryIndex) -> bool {
        true
    }

    /// The clock of the device at this position, if it has [`Aspect::Profiling`](crate::Aspect::Profiling): what the times
    /// of a [`Timed`](crate::Timed) mean. Must not wait for the device.
    fn clock(&self, _device: usize) -> Option<ClockSample> {
        None
    }

    /// Builds a kernel for the device at this position, from an image in one of the device's formats; called once for each
    /// kernel and device.
    async fn build(
        &self,
        device: usize,
        kernel: &Kernel,
        image: &KernelImage,
    ) -> Result<Arc<dyn BuiltKernel>, BackendError>;

    /// Takes over commands for the device at this position, to run them as one whenever it is fed a
    /// [`Command::Replay`](crate::Command::Replay). Only for devices with [`Aspect::Sequences`](crate::Aspect::Sequences). Takes its
    /// time, but does not wait for the device. The sequence owns what `keeps` names, which is all that its commands use.
    ///
    /// # Safety
    ///
    /// As for the commands of a group in [`Lane::feed`], each time that the sequence is run: regions lie inside
    /// their memory, arguments are of the kinds of the kernel's slots, and nobody else is in the way. Commands of which
    /// neither comes after the other do not touch what the other writes.
    unsafe fn record(
        &self,
        _device: usize,
        _nodes: &[Node<'_>],
        _keeps: Keeps,
    ) -> Result<Arc<dyn Sequence>, BackendError> {
        Err(BackendError::Unsupported("recorded sequences".into()))
    }

    /// Gives the context up: a device hangs, and nobody waits for it any more. Never blocks. What it reports from here on is not
    /// heard, and whatever it may still be asked for is refused as lost, or never waits for the device. What is under way there may
    /// never end: whatever of the backend's own it might still touch is to be leaked, and no later call (`close` and dropping lanes
    /// included) may wait for it. Lanes of other contexts that wait for its points wait no longer. The runtime leaks all memory of the
    /// context, and whatever other memory it lent to commands in flight.
    ///
    /// A backend none of whose calls ever waits for its device has nothing to do here.
    fn abandon(&self) {}

    /// Ends the context: called once, after the last verdict of its last lane, or after [`Context::abandon`]. The runtime has
    /// given back all memory of the context by then, but what it leaks after [`Context::abandon`].
    async fn close(&self) {}
}

impl fmt::Debug for dyn Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("info", self.info()).finish()
    }
}

/// What bounds the use of one kernel on one device, where that is less than the device's own [`Limits`](crate::Limits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelLimits {
    /// Work-items in one work-group.
    pub work_group_items: usize,
    /// Bytes of local memory that arguments of one work-group may have, beside what the kernel has by itself.
    pub local_memory: usize,
}

impl KernelLimits {
    /// So many items and bytes.
    pub fn new(work_group_items: usize, local_memory: usize) -> Self {
        KernelLimits { work_group_items, local_memory }
    }
}

impl Default for KernelLimits {
    /// No limits but the device's.
    fn default() -> Self {
        KernelLimits { work_group_items: usize::MAX, local_memory: usize::MAX }
    }
}

/// What is known of a kernel as it was built, for those who ask why it is as fast as it is. What a device does not tell is
/// `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelReport {
    /// Bytes of local memory that a work-group takes, beside what arguments have.
    pub local_memory: Option<usize>,
    /// Bytes of memory of its own that a work-item has beside registers: what does not fit into those, too.
    pub private_memory: Option<usize>,
    /// Registers of a work-item.
    pub registers: Option<usize>,
    /// How many work-items run in step: work-groups are best a multiple of that.
    pub in_step: Option<usize>,
    /// Accesses in loops whose indices are compared with their memory's length in each turn.
    pub compared_in_loops: Vec<String>,
}

/// A kernel as a context built it; the backend that made it downcasts it in `feed`.
pub trait BuiltKernel: Any + Send + Sync {
    /// What is known of it.
    fn report(&self) -> KernelReport {
        KernelReport::default()
    }

    /// What bounds its use. A launch that exceeds it is refused when its group is submitted if the kernel has been built by
    /// then, and else fails before it is fed.
    fn limits(&self) -> KernelLimits {
        KernelLimits::default()
    }
}

impl fmt::Debug for dyn BuiltKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BuiltKernel")
    }
}
