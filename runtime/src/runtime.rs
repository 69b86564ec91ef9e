//! Runtimes: backends, devices, and the scheduler behind them.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use windlass_backend::{Backend, BackendError, BackendId, Context as NativeContext, Unavailable};
use windlass_sync::executor::ExecutorStats;
use windlass_sync::facade::{Mutex, lock};

use crate::context::{ContextShared, DeviceSlot};
use crate::device::{Device, DeviceData, Platform, Selector, Wish};
use crate::error::{Error, Kind, Result};
use crate::shell::Inner;
use crate::shell::pool::StagingLimits;
use crate::shell::report::{AsyncError, Handler};
use crate::stall::{DeadlockPolicy, Stall, Watch};

/// Backends, devices and a scheduler. Cheap to clone.
///
/// There is a default one per process, which [`Queue::new`](crate::Queue::new) and its like use; it is made at first
/// use, and making it touches no driver. Buffers belong to the runtime that uses them first.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let runtime = Runtime::new();
/// let queue = Queue::builder().runtime(&runtime).build_blocking()?;
/// assert_eq!(runtime.stats().submitted, 0);
/// # drop(queue);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Runtime {
    shared: Arc<Shared>,
}

struct Shared {
    inner: Arc<Inner>,
    backends: Vec<BackendEntry>,
    contexts: Mutex<HashMap<(usize, usize, usize), Arc<OnceLock<Result<Arc<ContextShared>>>>>>,
    wish: OnceLock<Result<Option<Wish>>>,
}

struct BackendEntry {
    backend: Arc<dyn Backend>,
    found: OnceLock<std::result::Result<Vec<FoundPlatform>, Unavailable>>,
}

struct FoundPlatform {
    platform: windlass_backend::Platform,
    devices: Vec<Arc<DeviceData>>,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("stats", &self.stats()).finish()
    }
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime {
    /// A runtime with the backends that this build has.
    pub fn new() -> Self {
        Runtime::builder().build()
    }

    /// A runtime to be configured.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// The process's default runtime.
    pub fn global() -> Runtime {
        static GLOBAL: OnceLock<Runtime> = OnceLock::new();
        GLOBAL.get_or_init(Runtime::new).clone()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.shared.inner
    }

    pub(crate) fn is_same(&self, other: &Runtime) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// All devices, in the order of backends, platforms and discovery. `WINDLASS_DEVICE` narrows the list.
    pub async fn devices(&self) -> Result<Vec<Device>> {
        let runtime = self.clone();
        self.inner().off_thread(move || runtime.devices_here()).await
    }

    /// What each backend has to say for itself: nothing, or why it cannot be used here.
    pub async fn backends(&self) -> Vec<(BackendId, std::result::Result<(), Unavailable>)> {
        let runtime = self.clone();
        let report = move || runtime.statuses_here();
        self.inner().off_thread(report).await
    }

    /// All platforms, those without devices included.
    pub async fn platforms(&self) -> Vec<Platform> {
        let runtime = self.clone();
        self.inner().off_thread(move || runtime.platforms_here()).await
    }

    /// This process's own threads. An error only where the runtime was built without the host backend, or with another
    /// of that name that has no device.
    ///
    /// ```
    /// use windlass::{Runtime, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::on(Runtime::new().host()?)?;
    /// let none = Runtime::builder().only_given_backends().build();
    /// assert!(none.host().unwrap_err().is_unavailable());
    /// # drop(queue);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "host")]
    pub fn host(&self) -> Result<Device> {
        let unavailable = |reason: String| Error::new(Kind::Unavailable { backend: BackendId::HOST, reason });
        let mut entries = self.shared.backends.iter().enumerate();
        let Some((at, entry)) = entries.find(|(_, e)| e.backend.id() == BackendId::HOST) else {
            return Err(unavailable(
                "this runtime was built with `only_given_backends`, and the host was not given".into(),
            ));
        };
        let platforms = entry.found(at).as_ref().map_err(|e| unavailable(e.to_string()))?;
        match platforms.iter().find_map(|p| p.devices.first()) {
            Some(data) => Ok(Device::new(self.clone(), data.clone())),
            None => Err(unavailable("the backend of that name has no device".into())),
        }
    }

    /// What came of discovery, backend by backend.
    fn statuses_here(&self) -> Vec<(BackendId, std::result::Result<(), Unavailable>)> {
        let status = |(at, entry): (usize, &BackendEntry)| {
            let found = entry.found(at).as_ref();
            (entry.backend.id(), found.map(|_| ()).map_err(Clone::clone))
        };
        self.shared.backends.iter().enumerate().map(status).collect()
    }

    pub(crate) fn platforms_here(&self) -> Vec<Platform> {
        let mut platforms = Vec::new();
        for (i, entry) in self.shared.backends.iter().enumerate() {
            for FoundPlatform { platform, devices } in entry.found(i).iter().flatten() {
                let devices = devices.iter().map(|d| Device::new(self.clone(), d.clone())).collect();
                platforms.push(Platform::new(entry.backend.id(), platform, devices));
            }
        }
        platforms
    }

    pub(crate) fn devices_here(&self) -> Result<Vec<Device>> {
        let devices: Vec<_> = self.platforms_here().iter().flat_map(|p| p.devices().to_vec()).collect();
        match self.wish()? {
            Some(wish) => wish.leave(devices),
            None => Ok(devices),
        }
    }

    /// The best device by this selector, or the one that `WINDLASS_DEVICE` names.
    pub(crate) fn select_here(&self, selector: Selector) -> Result<Device> {
        let missing: Vec<_> = self
            .statuses_here()
            .into_iter()
            .filter_map(|(id, status)| Some((id, status.err()?.to_string())))
            .collect();
        match self.wish()? {
            Some(wish) => {
                if let Some((backend, reason)) = missing.iter().find(|(id, _)| *id == wish.backend) {
                    let (backend, reason) = (backend.clone(), reason.clone());
                    return Err(Error::new(Kind::Unavailable { backend, reason }));
                }
                Selector::new().choose(self.devices_here()?, &missing)
            }
            None => selector.choose(self.devices_here()?, &missing),
        }
    }

    fn wish(&self) -> Result<Option<Wish>> {
        let read = || std::env::var("WINDLASS_DEVICE").ok().map(|text| Wish::parse(&text)).transpose();
        self.shared.wish.get_or_init(read).clone()
    }

    pub(crate) fn open_native(
        &self,
        backend: usize,
        platform: usize,
        devices: &[usize],
    ) -> Result<Arc<dyn NativeContext>> {
        let backend = &self.shared.backends[backend].backend;
        let open = || futures_lite::future::block_on(backend.open(platform, devices));
        match catch_unwind(AssertUnwindSafe(open)) {
            Ok(opened) => opened.map_err(|e| Error::backend(e, "opening a context")),
            Err(_) => {
                let error = BackendError::Unsupported("the backend panicked while opening".into());
                Err(Error::backend(error, "opening a context"))
            }
        }
    }

    /// The runtime's own context of a device, opened at first use.
    pub(crate) fn default_slot(&self, device: &Device) -> Result<Arc<DeviceSlot>> {
        if !self.is_same(device.runtime()) {
            return Err(Error::invalid(format!("{device} was found by another runtime")));
        }
        let once = lock(&self.shared.contexts).entry(device.data.at).or_default().clone();
        let opened = once.get_or_init(|| ContextShared::open(self, std::slice::from_ref(&device.data), true));
        match opened {
            Ok(context) => ContextShared::slot(context, device),
            Err(error) => {
                // The next one tries again: a device may come back.
                let mut contexts = lock(&self.shared.contexts);
                if contexts.get(&device.data.at).is_some_and(|known| Arc::ptr_eq(known, &once)) {
                    contexts.remove(&device.data.at);
                }
                Err(error.clone())
            }
        }
    }

    /// Counts of what the runtime has done and holds.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let queue = Queue::on(runtime.host()?)?;
    /// queue.submit(|_| Ok(()))?.blocking_wait()?;
    /// let stats = runtime.stats();
    /// assert_eq!((stats.submitted, stats.transfers, stats.bytes_moved), (1, 0, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        let inner = self.inner();
        let executor: ExecutorStats = inner.gates.stats();
        // The one task that reads the polls' mail is no proxy, and lives as long as the runtime.
        let mailmen = usize::from(inner.has_mailman());
        inner.enter(|state, _| {
            let tally = state.engine.tally();
            let counters = state.counters;
            let staging = state.count_staging();
            Stats {
                submitted: counters.submitted,
                settled: counters.settled,
                fed: counters.fed,
                armed: counters.armed,
                transfers: tally.transfers,
                bytes_moved: tally.bytes_moved,
                proxies: tally.proxies,
                staged_transfers: counters.staged,
                staging_allocations: staging.allocations,
                staging_bytes: staging.bytes,
                staging_most: staging.most,
                builds: counters.builds,
                host_tasks: counters.host_tasks,
                allocations: counters.allocations + tally.small_heaps,
                nodes_visited: tally.nodes_visited,
                tasks_spawned: executor.spawned - mailmen as u64,
                live_tasks: executor.live - mailmen,
                live_nodes: state.engine.live_nodes(),
                live_links: state.engine.live_links(),
                live_buffers: state.engine.live_roots(),
                frees_waiting: inner.reaper.waiting(),
            }
        })
    }

    /// Everything that is being held back right now, and by whom: the text of the warning that comes by itself when
    /// something has waited for long.
    ///
    /// ```
    /// use windlass::{Holder, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let queue = Queue::on(runtime.host()?)?;
    /// let data = Buffer::from(vec![1_u32; 8]);
    /// queue.submit(|cg| cg.fill(&cg.write(&data), 2))?.blocking_wait()?;
    /// let guard = data.host_read().blocking_wait()?;
    /// let waiting = queue.submit(|cg| cg.fill(&cg.write(&data), 3))?;
    /// assert_eq!(runtime.stalls()[0].holder, Holder::Guard);
    /// drop(guard);
    /// waiting.blocking_wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stalls(&self) -> Vec<Stall> {
        crate::stall::report(self.inner(), 0)
    }

    /// Works off, on this thread, everything that the runtime's executors have to do, until nothing is left that could
    /// go on by itself. For tests and for runtimes built with [`RuntimeBuilder::manual`].
    pub fn run_until_stalled(&self) -> usize {
        let inner = self.inner();
        let mut polls = 0;
        loop {
            let mut more = inner.gates.run_until_stalled() + inner.user.run_until_stalled();
            if more == 0 {
                crate::stall::break_deadlock(inner);
                more = inner.gates.run_until_stalled() + inner.user.run_until_stalled();
            }
            if more == 0 {
                return polls;
            }
            polls += more;
        }
    }

    /// Ends the runtime: takes no more submissions, waits until the deadline for what is under way, then cancels what
    /// has not been handed to a device. Returns what remains. Everything that can be resolved is.
    ///
    /// ```
    /// # async fn f() {
    /// let runtime = windlass::Runtime::new();
    /// let left = runtime.shutdown(std::time::Duration::from_secs(5)).await;
    /// assert_eq!(left.groups, 0);
    /// # }
    /// # futures::executor::block_on(f());
    /// ```
    pub async fn shutdown(&self, deadline: Duration) -> Remaining {
        crate::shutdown::shutdown(self.inner(), Instant::now() + deadline).await
    }

    /// Ends the runtime now: takes no more submissions and cancels what has not been handed to a device.
    pub fn abort(&self) -> Remaining {
        crate::shutdown::abort(self.inner())
    }
}

/// What was still under way when a runtime was ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remaining {
    /// Groups, transfers and host accessors that have not ended: they are with a device, or held by the program.
    pub groups: usize,
}

/// Counts of what a runtime has done and holds; see [`Runtime::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Groups that were submitted.
    pub submitted: u64,
    /// Groups, steps of transfers and host accessors that have ended.
    pub settled: u64,
    /// Native hand-overs.
    pub fed: u64,
    /// Lanes' sentinels that were armed.
    pub armed: u64,
    /// Transfers that were planned.
    pub transfers: u64,
    /// Bytes that these transfers move.
    pub bytes_moved: u64,
    /// Proxies: edges that needed the host, one for each source and target context.
    pub proxies: u64,
    /// Transfers through host staging; one that is cut into chunks counts once for each.
    pub staged_transfers: u64,
    /// Staging memory that was allocated.
    pub staging_allocations: u64,
    /// Bytes of staging memory, in use and kept for the next transfer.
    pub staging_bytes: usize,
    /// The most such bytes that one context has had at a time.
    pub staging_most: usize,
    /// Kernel builds that were started.
    pub builds: u64,
    /// Host tasks that were started.
    pub host_tasks: u64,
    /// Allocations that were made for buffers.
    pub allocations: u64,
    /// Cells and predecessors that planning looked at.
    pub nodes_visited: u64,
    /// Futures that were spawned on the executor: proxies, staged transfers, builds and gates.
    pub tasks_spawned: u64,
    /// Of these, the ones that have not ended.
    pub live_tasks: usize,
    /// Groups, steps of transfers and host accessors under way.
    pub live_nodes: usize,
    /// Edges, proxies and epochs under way.
    pub live_links: usize,
    /// Buffers that this runtime knows.
    pub live_buffers: usize,
    /// Allocations that wait to be freed.
    pub frees_waiting: usize,
}

impl BackendEntry {
    fn found(&self, at: usize) -> &std::result::Result<Vec<FoundPlatform>, Unavailable> {
        self.found.get_or_init(|| {
            let discover = || futures_lite::future::block_on(self.backend.discover());
            let platforms = catch_unwind(AssertUnwindSafe(discover)).unwrap_or_else(|_| {
                let reason = "its driver made the backend panic".into();
                Err(Unavailable { reason, remedy: "report this, with the driver's version".into() })
            })?;
            let backend = self.backend.id();
            let numbered = platforms.into_iter().enumerate().map(|(p, platform)| {
                let data = |(d, info): (usize, &windlass_backend::DeviceInfo)| {
                    Arc::new(DeviceData {
                        backend: backend.clone(),
                        at: (at, p, d),
                        platform: platform.name.clone(),
                        info: info.clone(),
                    })
                };
                let devices = platform.devices.iter().enumerate().map(data).collect();
                FoundPlatform { devices, platform }
            });
            Ok(numbered.collect())
        })
    }
}

/// A runtime to be built.
///
/// ```
/// use windlass::Runtime;
/// let runtime = Runtime::builder()
///     .handler(|errors| errors.iter().for_each(|e| eprintln!("{}", e.error())))
///     .stall_after(std::time::Duration::from_secs(1))
///     .build();
/// assert_eq!(runtime.stats().live_nodes, 0);
/// ```
#[derive(Default)]
pub struct RuntimeBuilder {
    backends: Vec<Arc<dyn Backend>>,
    only_given: bool,
    manual: bool,
    stall_after: Option<Duration>,
    deadlocks: DeadlockPolicy,
    handler: Option<Handler>,
    staging: StagingLimits,
}

/// How long something waits before the stall report names it, unless the builder says otherwise.
const STALL_AFTER: Duration = Duration::from_secs(5);

impl fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let backends: Vec<_> = self.backends.iter().map(|b| b.id()).collect();
        f.debug_struct("RuntimeBuilder").field("backends", &backends).finish_non_exhaustive()
    }
}

impl RuntimeBuilder {
    /// Adds a backend, or replaces the built-in one of the same name.
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.backends.push(Arc::new(backend));
        self
    }

    /// Leaves out the built-in backends.
    pub fn only_given_backends(mut self) -> Self {
        self.only_given = true;
        self
    }

    /// The runtime starts no thread of its own: [`Runtime::run_until_stalled`] does its work. For tests.
    pub fn manual(mut self) -> Self {
        self.manual = true;
        self
    }

    /// How long something may wait before a warning says for whom: five seconds unless said otherwise.
    pub fn stall_after(mut self, time: Duration) -> Self {
        self.stall_after = Some(time);
        self
    }

    /// What becomes of work behind host guards once nothing else is going on: it waits, unless a test says otherwise.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// use windlass::DeadlockPolicy;
    /// # fn main() -> windlass::Result<()> {
    /// # use std::time::Duration;
    /// let runtime = Runtime::builder()
    ///     .deadlock_policy(DeadlockPolicy::Error)
    ///     .stall_after(Duration::from_millis(20))
    ///     .build();
    /// let queue = Queue::on(runtime.host()?)?;
    /// let data = Buffer::from(vec![1_u32; 4]);
    /// queue.submit(|cg| cg.fill(&cg.write(&data), 6))?.blocking_wait()?;
    /// let guard = data.host_write().blocking_wait()?;
    /// // The guard is still there, and this waits for it.
    /// let stuck = queue.submit(|cg| cg.fill(&cg.write(&data), 7))?;
    /// assert!(stuck.blocking_wait().unwrap_err().is_deadlock());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadlock_policy(mut self, policy: DeadlockPolicy) -> Self {
        self.deadlocks = policy;
        self
    }

    /// How many bytes of staging memory each context keeps, and has in use at a time: 64 MiB unless said otherwise.
    ///
    /// Staging is host memory through which data goes from one context to another. A transfer waits for its turn; one that is
    /// larger than all of it goes alone. One whose second half has to wait for something else (a group behind a
    /// future of the program's) does not count, since others may have to go past it.
    ///
    /// ```
    /// let runtime = windlass::Runtime::builder().staging(8 << 20).staging_chunk(2 << 20).build();
    /// assert_eq!(runtime.stats().staging_bytes, 0);
    /// ```
    pub fn staging(mut self, bytes: usize) -> Self {
        self.staging.bytes = bytes;
        self
    }

    /// The most bytes of a transfer through staging that go in one piece: 16 MiB unless said otherwise. A larger one is cut
    /// into chunks of at most this size, so that one is on its way up while the next is on its way down.
    ///
    /// ```
    /// let runtime = windlass::Runtime::builder().staging_chunk(4 << 20).build();
    /// assert_eq!(runtime.stats().staged_transfers, 0);
    /// ```
    pub fn staging_chunk(mut self, bytes: usize) -> Self {
        self.staging.chunk = bytes;
        self
    }

    /// Who is told of errors that nobody awaited, for queues without a handler of their own.
    pub fn handler(mut self, handler: impl Fn(&[AsyncError]) + Send + Sync + 'static) -> Self {
        self.handler = Some(Handler(Arc::new(handler)));
        self
    }

    /// Makes the runtime. Touches no driver.
    pub fn build(self) -> Runtime {
        let mut backends = self.backends;
        if !self.only_given {
            for built_in in built_in_backends() {
                if !backends.iter().any(|b| b.id() == built_in.id()) {
                    backends.push(built_in);
                }
            }
        }
        let watch = Watch::new(self.stall_after.unwrap_or(STALL_AFTER), self.deadlocks);
        let inner = Inner::new(self.manual, watch, self.staging);
        if let Some(handler) = self.handler {
            inner.reporter.set_default(handler);
        }
        let entry = |backend| BackendEntry { backend, found: OnceLock::new() };
        let shared = Shared {
            inner,
            backends: backends.into_iter().map(entry).collect(),
            contexts: Mutex::new(HashMap::new()),
            wish: OnceLock::new(),
        };
        Runtime { shared: Arc::new(shared) }
    }
}

#[allow(clippy::vec_init_then_push, reason = "each line has a condition")]
fn built_in_backends() -> Vec<Arc<dyn Backend>> {
    #[allow(unused_mut, reason = "a build without backends is possible")]
    let mut backends: Vec<Arc<dyn Backend>> = Vec::new();
    #[cfg(feature = "host")]
    backends.push(Arc::new(windlass_host::Host::new()));
    #[cfg(feature = "opencl")]
    backends.push(Arc::new(windlass_opencl::OpenCl::new()));
    #[cfg(feature = "wgpu")]
    backends.push(Arc::new(windlass_wgpu::Wgpu::new()));
    backends
}
