//! Runtimes: backends, devices, and the scheduler behind them.

mod builder;
mod entry;
mod stats;

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use windlass_backend::{
    BackendError, BackendId, Context as NativeContext, ContextSink, ContextSpec, DeviceKey, Unavailable,
};
use windlass_sync::executor::ExecutorStats;
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;
use windlass_sync::panics::{Panicked, catch};

use crate::context;
use crate::device::{Device, DeviceFilter, Platform, Selector};
use crate::error::stall::Stall;
use crate::error::{Error, Kind, Result};
use crate::probes::probe;
use crate::shell::Inner;
use crate::shell::context::{ContextShared, DeviceSlot, LaneKind};
use crate::shell::devices::DeviceData;
use crate::shell::shutdown::Remaining;
pub use builder::RuntimeBuilder;
use entry::{BackendEntry, FoundPlatform};
pub use stats::Stats;

/// What the backend of this process's own threads is called.
pub(crate) const HOST: BackendId = BackendId::new("host");

/// Backends, devices and a scheduler. Cheap to clone.
///
/// There is a default one per process, which [`Queue::new`](crate::Queue::new) and its like use; it is made at first
/// use, and making it touches no driver. Buffers belong to the runtime that uses them first.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let runtime = Runtime::new();
/// let queue = Queue::builder().runtime(&runtime).blocking_build()?;
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
    // Contexts leave what they had built to the scheduler's reaper, so they go before it: fields are dropped in their order.
    contexts: Mutex<HashMap<(usize, DeviceKey), OpenedOnce>>,
    backends: Vec<BackendEntry>,
    filter: OnceLock<Result<Option<DeviceFilter>>>,
    inner: Arc<Inner>,
    /// Whether devices are asked for faults when they are opened.
    probes: bool,
    /// Whether queues profile where they can.
    profiles: bool,
}

/// A context that one thread opens, and others wait for.
type OpenedOnce = Arc<OnceLock<Result<Arc<ContextShared>>>>;

/// Clones of one runtime are the same, and nothing else is.
impl PartialEq for Runtime {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl Eq for Runtime {}

impl Hash for Runtime {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.shared).hash(state);
    }
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
    ///
    /// ```
    /// let (one, other) = (windlass::Runtime::new(), windlass::Runtime::new());
    /// // Buffers, queues and counts of one have nothing to do with the other's.
    /// let queue = windlass::Queue::builder().runtime(&one).blocking_build()?;
    /// queue.submit(|_| Ok(()))?;
    /// assert_eq!((one.stats().submitted, other.stats().submitted), (1, 0));
    /// # Ok::<(), windlass::Error>(())
    /// ```
    pub fn new() -> Self {
        Runtime::builder().build()
    }

    /// A runtime to be configured.
    ///
    /// ```
    /// let runtime = windlass::Runtime::builder().profiling().bytes_in_flight(1 << 30).build();
    /// ```
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::default()
    }

    /// The process's default runtime.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let before = Runtime::global().stats().submitted;
    /// Queue::blocking_new()?.submit(|_| Ok(()))?.blocking_wait()?;
    /// assert_eq!(Runtime::global().stats().submitted, before + 1);
    /// # Ok(()) }
    /// ```
    pub fn global() -> Runtime {
        static GLOBAL: OnceLock<Runtime> = OnceLock::new();
        GLOBAL.get_or_init(Runtime::new).clone()
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.shared.inner
    }

    pub(crate) fn profiles(&self) -> bool {
        self.shared.profiles
    }

    pub(crate) fn is_same(&self, other: &Runtime) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// All devices, in the order of backends, platforms and discovery. `WINDLASS_DEVICE` narrows the list.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let devices = runtime.devices().await?;
    /// assert!(devices.contains(&runtime.host()?));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn devices(&self) -> Result<Vec<Device>> {
        let runtime = self.clone();
        self.inner().off_thread(move || runtime.devices_here()).await
    }

    /// Asks all drivers once more which devices there are: one may have been plugged in, or have come back after it was lost.
    /// Devices that were found before go on as they are; a device is the same one as long as its driver calls it by the same
    /// key.
    ///
    /// A queue of a lost device stays lost: build another one, on the device that is found here.
    ///
    /// ```
    /// # use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let runtime = windlass::Runtime::new();
    /// let before = runtime.devices().await?;
    /// assert_eq!(runtime.rediscover().await?.len(), before.len());
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn rediscover(&self) -> Result<Vec<Device>> {
        Inner::check_process()?;
        self.shared.backends.iter().for_each(BackendEntry::forget);
        self.devices().await
    }

    /// What each backend has to say for itself: nothing, or why it cannot be used here.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// for (backend, status) in Runtime::new().backends().await {
    ///     match &status {
    ///         Ok(()) => println!("{backend} is there"),
    ///         Err(why) => println!("{backend}: {why}"),
    ///     }
    /// #     assert!(backend.as_str() != "host" || status.is_ok());
    /// }
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub async fn backends(&self) -> Vec<(BackendId, std::result::Result<(), Unavailable>)> {
        let runtime = self.clone();
        let report = move || runtime.statuses_here();
        self.inner().off_thread(report).await
    }

    /// All platforms, those without devices included.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let platforms = Runtime::new().platforms().await;
    /// assert!(platforms.iter().any(|platform| platform.backend().as_str() == "host"));
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
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
    /// let queue = Queue::blocking_on(Runtime::new().host()?)?;
    /// let none = Runtime::builder().only_given_backends().build();
    /// assert!(none.host().unwrap_err().is_unavailable());
    /// # drop(queue);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "host")]
    pub fn host(&self) -> Result<Device> {
        Inner::check_process()?;
        let unavailable = |reason: String| Error::new(Kind::Unavailable { backend: HOST, reason });
        let mut entries = self.shared.backends.iter().enumerate();
        let Some((at, entry)) = entries.find(|(_, e)| e.backend.id() == HOST) else {
            return Err(unavailable(
                "this runtime was built with `only_given_backends`, and the host was not given".into(),
            ));
        };
        let found = entry.found(at);
        let platforms = (*found).as_ref().map_err(|e| unavailable(e.to_string()))?;
        match platforms.iter().find_map(|p| p.devices.first()) {
            Some(data) => Ok(Device::new(self.clone(), data.clone())),
            None => Err(unavailable("the backend of that name has no device".into())),
        }
    }

    /// What came of discovery, backend by backend. Those that `WINDLASS_DEVICE` leaves out are not asked.
    fn statuses_here(&self) -> Vec<(BackendId, std::result::Result<(), Unavailable>)> {
        let filter = self.filter().ok().flatten();
        let status = |(at, entry): (usize, &BackendEntry)| {
            let id = entry.backend.id();
            let status = match &filter {
                Some(filter) if filter.backend != id => Err(Unavailable::new(
                    format!("WINDLASS_DEVICE asks for {}, so nobody else was asked", filter.backend),
                    "unset it",
                )),
                _ => (*entry.found(at)).as_ref().map(|_| ()).map_err(Clone::clone),
            };
            (id, status)
        };
        self.shared.backends.iter().enumerate().map(status).collect()
    }

    pub(crate) fn platforms_here(&self) -> Vec<Platform> {
        let filter = self.filter().ok().flatten();
        self.platforms_of(filter.as_ref().map(|filter| &filter.backend))
    }

    /// The platforms of all backends, or of one, which is then the only one that is asked.
    pub(crate) fn platforms_of(&self, backend: Option<&BackendId>) -> Vec<Platform> {
        let mut platforms = Vec::new();
        for (i, entry) in self.shared.backends.iter().enumerate() {
            if backend.is_some_and(|wanted| *wanted != entry.backend.id()) {
                continue;
            }
            let found = entry.found(i);
            platforms.extend(found.iter().flatten().map(|found| self.platform(entry, found)));
        }
        platforms
    }

    fn platform(&self, entry: &BackendEntry, found: &FoundPlatform) -> Platform {
        let devices = found.devices.iter().map(|device| Device::new(self.clone(), device.clone())).collect();
        Platform::new(entry.backend.id(), &found.platform, devices)
    }

    /// The platform of a device that was found. Drivers that were asked again may list fewer: then it is as they list it now.
    pub(crate) fn platform_at(&self, (backend, at): (usize, usize)) -> Option<Platform> {
        let entry = self.shared.backends.get(backend)?;
        let found = entry.found(backend);
        let found = (*found).as_ref().ok()?.get(at)?;
        Some(self.platform(entry, found))
    }

    pub(crate) fn devices_here(&self) -> Result<Vec<Device>> {
        Inner::check_process()?;
        match self.filter()? {
            Some(filter) => filter.leave(self.devices_of(Some(&filter.backend))),
            None => Ok(self.devices_of(None)),
        }
    }

    fn devices_of(&self, backend: Option<&BackendId>) -> Vec<Device> {
        self.platforms_of(backend).iter().flat_map(|p| p.devices().to_vec()).collect()
    }

    /// The best device by this selector, or the one that `WINDLASS_DEVICE` names. Where either names a backend, no other is
    /// asked, so that no other driver is loaded.
    pub(crate) fn select_here(&self, selector: Selector) -> Result<Device> {
        Inner::check_process()?;
        if let Some(filter) = self.filter()? {
            self.check_usable(&filter.backend)?;
            return Selector::new().choose(filter.leave(self.devices_of(Some(&filter.backend)))?);
        }
        let wanted = selector.named_backend().cloned();
        if let Some(backend) = &wanted {
            self.check_usable(backend)?;
        }
        selector.choose(self.devices_of(wanted.as_ref()))
    }

    /// Says why a backend that is wanted cannot be used, if it cannot.
    fn check_usable(&self, wanted: &BackendId) -> Result<()> {
        let unavailable = |reason| Err(Error::new(Kind::Unavailable { backend: wanted.clone(), reason }));
        let mut entries = self.shared.backends.iter().enumerate();
        match entries.find(|(_, entry)| entry.backend.id() == *wanted) {
            Some((at, entry)) => match &*entry.found(at) {
                Ok(_) => Ok(()),
                Err(error) => unavailable(error.to_string()),
            },
            None => {
                let there: Vec<_> = self.shared.backends.iter().map(|entry| entry.backend.id()).collect();
                unavailable(builder::why_missing(wanted, &there))
            }
        }
    }

    fn filter(&self) -> Result<Option<DeviceFilter>> {
        self.shared.filter.get_or_init(DeviceFilter::of_environment).clone()
    }

    pub(crate) fn open_native(&self, backend: usize, spec: ContextSpec) -> Result<Arc<dyn NativeContext>> {
        let backend = &self.shared.backends[backend].backend;
        let opened = catch(|| futures_lite::future::block_on(backend.open(spec)));
        opened_or(opened, "opening a context")
    }

    /// Looks for known faults of a device that has been opened, unless that was done before.
    pub(crate) fn probe(&self, device: &DeviceData) {
        if self.shared.probes {
            probe(device, &self.shared.backends[device.at.0].backend);
        }
    }

    /// Has a backend make a context of a native object.
    pub(crate) fn adopt_native(
        &self,
        backend: usize,
        object: Box<dyn Any + Send>,
        sink: Arc<dyn ContextSink>,
    ) -> Result<Arc<dyn NativeContext>> {
        let backend = &self.shared.backends[backend].backend;
        let adopted = catch(|| futures_lite::future::block_on(backend.adopt(object, sink)));
        opened_or(adopted, "making a context of a native object")
    }

    /// A backend's position, and its devices, whatever `WINDLASS_DEVICE` names.
    pub(crate) fn devices_of_backend(&self, name: &str) -> Result<(usize, Vec<Device>)> {
        let wanted = BackendId::from(name.to_owned());
        self.check_usable(&wanted)?;
        let at = self.shared.backends.iter().position(|entry| entry.backend.id() == wanted);
        let Some(at) = at else { unreachable!("it has just been found usable") };
        Ok((at, self.devices_of(Some(&wanted))))
    }

    /// The runtime's own context of a device, opened at first use.
    pub(crate) fn default_slot(&self, device: &Device, kind: LaneKind) -> Result<Arc<DeviceSlot>> {
        if !self.is_same(device.runtime()) {
            return Err(Error::invalid(format!("{device} was found by another runtime")));
        }
        let (mut once, mut opened) = self.default_context(device);
        if opened.as_ref().is_ok_and(|context| context.is_lost()) {
            // The device may have come back.
            self.forget_context(device, &once);
            (once, opened) = self.default_context(device);
        }
        // Where it could not be opened, the next one tries again.
        let context = opened.inspect_err(|_| self.forget_context(device, &once))?;
        ContextShared::slot(&context, self.inner(), &device.data, kind)
    }

    fn default_context(&self, device: &Device) -> (OpenedOnce, Result<Arc<ContextShared>>) {
        let once = lock(&self.shared.contexts).entry(device.data.id()).or_default().clone();
        let open = || context::open(self, std::slice::from_ref(&device.data), true);
        let opened = once.get_or_init(open).clone();
        (once, opened)
    }

    fn forget_context(&self, device: &Device, once: &OpenedOnce) {
        let mut contexts = lock(&self.shared.contexts);
        let known = contexts.get(&device.data.id()).is_some_and(|known| Arc::ptr_eq(known, once));
        let gone = known.then(|| contexts.remove(&device.data.id()));
        // To close a context may wake users, who may come here.
        drop(contexts);
        drop(gone);
    }

    /// Counts of what the runtime has done and holds.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// queue.submit(|_| Ok(()))?.blocking_wait()?;
    /// let stats = runtime.stats();
    /// assert_eq!((stats.submitted, stats.transfers, stats.bytes_moved), (1, 0, 0));
    /// # Ok(())
    /// # }
    /// ```
    pub fn stats(&self) -> Stats {
        if forked::is_child() {
            return Stats::default();
        }
        let inner = self.inner();
        let executor: ExecutorStats = inner.gates.stats();
        // The one task that reads what polls have left is no proxy, and lives as long as the runtime.
        let drainers = usize::from(inner.has_drainer());
        let reused = inner.loans.reused();
        inner.enter_without_native_calls(|state, _| {
            let tally = state.engine.tally();
            let counters = state.counters;
            let staging = state.count_staging();
            Stats {
                submitted: counters.submitted,
                turns: counters.turns,
                settled: counters.settled,
                fed: counters.fed,
                armed: counters.armed,
                transfers: tally.transfers,
                bytes_moved: tally.bytes_moved - counters.bytes_not_moved,
                bytes_cleared: tally.bytes_cleared,
                proxies: tally.proxies,
                staged_transfers: counters.staged,
                staging_allocations: staging.allocations,
                staging_bytes: staging.bytes,
                staging_most: staging.most,
                builds: counters.builds,
                host_tasks: counters.host_tasks,
                allocations: counters.allocations + tally.small_heaps + tally.inherited,
                allocations_reused: reused.all + tally.inherited,
                allocations_in_pieces: reused.in_pieces,
                bytes_kept: state.kept().iter().chain(&inner.heap_kept).map(|kept| kept.bytes()).sum(),
                evictions: counters.evictions + tally.given_up,
                nodes_visited: tally.nodes_visited,
                tasks_spawned: executor.spawned - drainers as u64,
                live_tasks: executor.live - drainers,
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
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let data = Buffer::from(vec![1_u32; 8]);
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 2))?.blocking_wait()?;
    /// let guard = data.host_read().blocking_wait()?;
    /// let waiting = queue.submit(|cg| cg.fill(&cg.overwrite(&data), 3))?;
    /// assert_eq!(runtime.stalls()[0].holder, Holder::Guard);
    /// drop(guard);
    /// waiting.blocking_wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn stalls(&self) -> Vec<Stall> {
        match forked::is_child() {
            true => Vec::new(),
            false => crate::shell::stall::report(self.inner(), 0),
        }
    }

    /// Works off, on this thread, everything that the runtime's executors have to do, until nothing is left that could
    /// go on by itself. For tests and for runtimes built with [`RuntimeBuilder::manual`].
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().manual().build();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let event = queue.submit(|cg| cg.host_task(async |_| Ok(())))?;
    /// assert!(!event.has_ended());
    /// runtime.run_until_stalled();
    /// assert_eq!(event.status(), Status::Done);
    /// # Ok(()) }
    /// ```
    pub fn run_until_stalled(&self) -> usize {
        if forked::is_child() {
            return 0;
        }
        let inner = self.inner();
        let mut polls = 0;
        loop {
            let mut more = inner.gates.run_until_stalled() + inner.user.run_until_stalled();
            if more == 0 {
                crate::shell::stall::break_deadlock(inner);
                more = inner.gates.run_until_stalled() + inner.user.run_until_stalled();
            }
            if more == 0 {
                return polls;
            }
            polls += more;
        }
    }

    /// Ends the runtime: takes no more submissions, waits until the deadline for what is under way, then cancels what
    /// has not been handed to a device, and stops host tasks where they await something. Returns what remains. Everything
    /// that can be resolved is.
    ///
    /// # Signals
    ///
    /// A service calls this when it is told to end, by SIGTERM for instance. Some drivers (those built on LLVM, such as PoCL
    /// and lavapipe) install signal handlers of their own when they are loaded, which is when devices are first looked
    /// for. A handler that the program installs after that was seen never to be called: the process died by the signal.
    /// One that it had installed before is called by theirs, on a stack for signals that was seen to be too small where two
    /// drivers are loaded and the processor has AVX-512. So hold the signal back from all threads (`sigprocmask`, before there
    /// are any) and have one wait for it (`sigwait`), as the example server does; then no handler is called. And name the
    /// backend that you want ([`Selector::backend`], or `WINDLASS_DEVICE`), so that no other driver is loaded.
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
        crate::shell::shutdown::shutdown(self.inner(), Instant::now() + deadline).await
    }

    /// Ends the runtime now: takes no more submissions and cancels what has not been handed to a device.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::new();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// assert_eq!(runtime.abort().groups, 0);
    /// assert!(queue.submit(|_| Ok(())).unwrap_err().is_shut_down());
    /// # Ok(()) }
    /// ```
    pub fn abort(&self) -> Remaining {
        crate::shell::shutdown::abort(self.inner())
    }
}

/// What a backend has opened, or why not.
fn opened_or(
    opened: std::result::Result<std::result::Result<Arc<dyn NativeContext>, BackendError>, Panicked>,
    doing: &str,
) -> Result<Arc<dyn NativeContext>> {
    let opened = opened.unwrap_or_else(|panic| Err(BackendError::Panicked(panic.message().into())));
    opened.map_err(|error| Error::backend(error, doing))
}
