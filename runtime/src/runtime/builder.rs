//! How a runtime is made.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windlass_backend::{Backend, BackendId};
use windlass_sync::facade::Mutex;

use super::{BackendEntry, Runtime, Shared};
use crate::shell::allocator::HostAllocator;
use crate::shell::pool::StagingLimits;
use crate::shell::report::{AsyncError, Handler};
use crate::shell::room::Residency;
use crate::shell::stall::{DeadlockPolicy, Watch};
use crate::shell::tracer::Sink;
use crate::shell::{Inner, Settings};
use crate::trace::FileSink;

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
    unprobed: bool,
    untraced: bool,
    profiles: bool,
    #[cfg(feature = "metrics")]
    pub(crate) is_measured: bool,
    handler: Option<Handler>,
    staging: StagingLimits,
    residency: Residency,
    in_pieces: bool,
    many: Option<usize>,
    hang_timeout: Option<Duration>,
    budget: Option<u64>,
    device_memory: Option<usize>,
    host_allocator: Option<HostAllocator>,
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
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().only_given_backends().backend(windlass::host::Host::new()).build();
    /// assert_eq!(runtime.devices().await?, [runtime.host()?]);
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn backend(mut self, backend: impl Backend) -> Self {
        self.backends.push(Arc::new(backend));
        self
    }

    /// The same for a backend that another runtime has, too.
    pub(crate) fn shared_backend(mut self, backend: Arc<dyn Backend>) -> Self {
        self.backends.push(backend);
        self
    }

    /// Whatever the environment says: what the runtime does is none of the program's business.
    pub(crate) fn untraced(mut self) -> Self {
        self.untraced = true;
        self
    }

    /// Devices are not asked for [known faults](crate::Device::faults) when they are opened, which takes some hundred
    /// milliseconds the first time in a process, on processors that have drivers.
    ///
    /// ```
    /// let runtime = windlass::Runtime::builder().unprobed().build();
    /// assert_eq!(runtime.stats().builds, 0);
    /// ```
    pub fn unprobed(mut self) -> Self {
        self.unprobed = true;
        self
    }

    /// All queues [profile](crate::QueueBuilder::profiling) whose devices can.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().profiling().build();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let event = queue.submit(|cg| cg.host_for(9, (), |_, ()| ()))?;
    /// event.blocking_wait()?;
    /// assert!(event.profile().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn profiling(mut self) -> Self {
        self.profiles = true;
        self
    }

    /// Leaves out the built-in backends.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().only_given_backends().build();
    /// assert!(runtime.backends().await.is_empty());
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn only_given_backends(mut self) -> Self {
        self.only_given = true;
        self
    }

    /// The runtime starts no thread of its own: [`Runtime::run_until_stalled`] does its work. For tests.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().manual().build();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let data = Buffer::<u32>::new(1);
    /// let (send, receive) = futures::channel::oneshot::channel::<()>();
    /// let event = queue.submit(|cg| {
    ///     cg.after(receive);
    ///     cg.fill(&cg.overwrite(&data), 7)
    /// })?;
    /// send.send(()).unwrap();
    /// // Nobody has looked at the future yet.
    /// assert_eq!(event.status(), Status::Pending);
    /// assert!(runtime.run_until_stalled() > 0);
    /// assert_eq!(data.host_read().blocking_wait()?[0], 7);
    /// # Ok(()) }
    /// ```
    pub fn manual(mut self) -> Self {
        self.manual = true;
        self
    }

    /// How long something may wait before a warning says for whom: five seconds unless said otherwise.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// // A service that answers within a second wants to know earlier.
    /// let runtime = Runtime::builder().stall_after(std::time::Duration::from_secs(1)).build();
    /// let queue = Queue::builder().runtime(&runtime).blocking_build()?;
    /// assert!(queue.runtime().stalls().is_empty());
    /// # Ok(()) }
    /// ```
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
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let data = Buffer::from(vec![1_u32; 4]);
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 6))?.blocking_wait()?;
    /// let guard = data.host_write().blocking_wait()?;
    /// // The guard is still there, and this waits for it.
    /// let stuck = queue.submit(|cg| cg.fill(&cg.overwrite(&data), 7))?;
    /// assert!(stuck.blocking_wait().unwrap_err().is_deadlock());
    /// # drop(guard);
    /// # Ok(())
    /// # }
    /// ```
    pub fn deadlock_policy(mut self, policy: DeadlockPolicy) -> Self {
        self.deadlocks = policy;
        self
    }

    /// What becomes of buffers' memory on devices that nobody uses: it is [kept](Residency::Kept), unless said otherwise.
    ///
    /// ```
    /// use windlass::{Residency, Runtime};
    /// let runtime = Runtime::builder().residency(Residency::Evictable).build();
    /// assert_eq!(runtime.stats().evictions, 0);
    /// ```
    pub fn residency(mut self, residency: Residency) -> Self {
        self.residency = residency;
        self
    }

    /// Has the memory on a device that buffers have let go of serve smaller ones in pieces, where the device's driver can divide it, as OpenCL's
    /// can but for NVIDIA's. Without that what is kept serves buffers that are nearly as large, or half as large at least.
    ///
    /// It is for programs whose buffers have ever other sizes and are soon over: far fewer of them have to ask the driver. What has been divided
    /// is given back only when the last of its pieces is over, so where a few buffers stay for long, a device may hold more than the
    /// program uses. Where room is counted ([`Residency::Evictable`], [`RuntimeBuilder::device_memory`]) nothing is divided.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().reuse_in_pieces().build();
    /// let queue = Queue::builder().runtime(&runtime).blocking_build()?;
    /// for len in [1000, 800, 50, 333] {
    ///     let request = Buffer::<f32>::new(len);
    ///     queue.submit(|cg| cg.fill(&cg.overwrite(&request), 1.0))?.blocking_wait()?;
    /// }
    /// println!("{} buffers had a piece", runtime.stats().allocations_in_pieces);
    /// # Ok(()) }
    /// ```
    pub fn reuse_in_pieces(mut self) -> Self {
        self.in_pieces = true;
        self
    }

    /// Tests: with room for so many buffers data comes sooner, for more copies than there must be. It is nine otherwise.
    #[doc(hidden)]
    pub fn room_for_many(mut self, buffers: usize) -> Self {
        self.many = Some(buffers);
        self
    }

    /// How many bytes groups may have reserved at a time by [`Queue::ready_for`](crate::Queue::ready_for), on all queues of the runtime
    /// together: a budget for the whole machine. There is none unless this says so.
    ///
    /// ```
    /// use futures::FutureExt;
    /// use windlass::prelude::*;
    /// # async fn f() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().bytes_in_flight(1000).build();
    /// let queue = Queue::builder().runtime(&runtime).build().await?;
    /// let slot = queue.ready_for(600).await;
    /// assert!(queue.ready_for(600).now_or_never().is_none());
    /// slot.submit(|_| Ok(()))?.await?;
    /// queue.ready_for(600).await.submit(|_| Ok(()))?.await?;
    /// # Ok(()) }
    /// # futures::executor::block_on(f()).unwrap();
    /// ```
    pub fn bytes_in_flight(mut self, bytes: u64) -> Self {
        self.budget = Some(bytes);
        self
    }

    /// How many bytes buffers may have in each device's own memory, those that are [kept for the next](crate::Stats::bytes_kept) counted: for
    /// who shares a device with other programs. Beyond that the device counts as full, and what the runtime's
    /// [`Residency`] says happens; a group that needs more by itself is [refused](crate::Error::too_large). There is no such limit unless this says so, but the device's own.
    ///
    /// ```
    /// use windlass::{Residency, Runtime};
    /// let runtime = Runtime::builder()
    ///     .device_memory(1 << 30)
    ///     // What is not used just then makes room.
    ///     .residency(Residency::Evictable)
    ///     .build();
    /// # drop(runtime);
    /// ```
    pub fn device_memory(mut self, bytes: usize) -> Self {
        self.device_memory = Some(bytes);
        self
    }

    /// Has host memory that the runtime makes itself come from an allocator of the program's: the host's copies of buffers from
    /// [some size](HostAllocator::from_bytes) on.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    /// use windlass::{HostAllocator, prelude::*};
    ///
    /// /// Memory that counts against a budget for as long as it is there.
    /// struct Counted(Vec<u8>, usize, Arc<AtomicUsize>);
    ///
    /// impl AsMut<[u8]> for Counted {
    ///     fn as_mut(&mut self) -> &mut [u8] {
    ///         let ahead = self.0.as_ptr().align_offset(64);
    ///         &mut self.0[ahead..][..self.1]
    ///     }
    /// }
    ///
    /// impl Drop for Counted {
    ///     fn drop(&mut self) {
    ///         self.2.fetch_add(self.1, SeqCst);
    ///     }
    /// }
    ///
    /// # fn main() -> windlass::Result<()> {
    /// let left = Arc::new(AtomicUsize::new(1 << 20));
    /// let of = left.clone();
    /// let budget = HostAllocator::new("the budget", move |asked| {
    ///     let bytes = asked.size();
    ///     of.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(bytes)).ok()?;
    ///     Some(Counted(vec![0; bytes + 63], bytes, of.clone()))
    /// });
    /// let runtime = Runtime::builder().host_allocator(budget.zeroed()).build();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let (some, more) = (Buffer::<u8>::new(800 << 10), Buffer::<u8>::new(800 << 10));
    /// queue.submit(|cg| cg.fill(&cg.overwrite(&some), 1))?.blocking_wait()?;
    /// assert!(left.load(SeqCst) < 400 << 10);
    /// let refused = queue.submit(|cg| cg.fill(&cg.overwrite(&more), 1))?.blocking_wait().unwrap_err();
    /// assert!(refused.is_out_of_memory() && refused.to_string().contains("`the budget`"));
    /// # Ok(()) }
    /// ```
    pub fn host_allocator(mut self, allocator: HostAllocator) -> Self {
        self.host_allocator = Some(allocator);
        self
    }

    /// Gives a device's context up, as [`Context::abandon`](crate::Context::abandon) does, if it has work in flight and none of it ends for
    /// this long, and up to half as long again: everything on it fails, and others go on. Off unless said otherwise. It has to be longer
    /// than any group takes, and than the first launch on a device that is slow to begin.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// use std::time::Duration;
    /// let runtime = Runtime::builder().hang_timeout(Duration::from_millis(100)).build();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// let hangs = queue.submit(|cg| cg.host_for(1, (), |_, ()| std::thread::sleep(Duration::from_secs(1))))?;
    /// assert!(hangs.blocking_wait().unwrap_err().is_device_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn hang_timeout(mut self, time: Duration) -> Self {
        self.hang_timeout = Some(time);
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

    /// The most bytes of a transfer through staging that go in one piece: 4 MiB unless said otherwise. A larger one is cut
    /// into chunks of at most this size, so that one is on its way up while the next is on its way down, and several threads copy.
    ///
    /// ```
    /// let runtime = windlass::Runtime::builder().staging_chunk(1 << 20).build();
    /// assert_eq!(runtime.stats().staged_transfers, 0);
    /// ```
    pub fn staging_chunk(mut self, bytes: usize) -> Self {
        self.staging.chunk = bytes;
        self
    }

    /// Who is told of errors that nobody awaited, for queues without a handler of their own.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let runtime = Runtime::builder()
    ///     .handler(move |errors| errors.iter().for_each(|e| tell.send(e.error().to_string()).unwrap()))
    ///     .build();
    /// let queue = Queue::builder().runtime(&runtime).blocking_build()?;
    /// queue.submit(|cg| cg.host_task(async |_| Err("the disk is full".into())))?;
    /// assert!(told.recv().unwrap().contains("the disk is full"));
    /// # Ok(()) }
    /// ```
    pub fn handler(mut self, handler: impl Fn(&[AsyncError]) + Send + Sync + 'static) -> Self {
        self.handler = Some(Handler(Arc::new(handler)));
        self
    }

    /// Makes the runtime. Touches no driver.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let runtime = Runtime::builder().profiling().build();
    /// let queue = Queue::blocking_on(runtime.host()?)?;
    /// queue.submit(|_| Ok(()))?.blocking_wait()?;
    /// assert_eq!(runtime.stats().submitted, 1);
    /// # Ok(()) }
    /// ```
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
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        let file = if self.untraced { None } else { FileSink::of_environment() };
        let profiles = self.profiles || file.is_some();
        sinks.extend(file.map(|file| Box::new(file) as Box<dyn Sink>));
        #[cfg(feature = "metrics")]
        if self.is_measured {
            sinks.push(Box::new(crate::metrics::Histograms::new()));
        }
        let inner = Inner::new(Settings {
            manual: self.manual,
            watch,
            staging: self.staging,
            residency: self.residency,
            in_pieces: self.in_pieces,
            many: self.many,
            hang_timeout: self.hang_timeout,
            device_memory: self.device_memory,
            host_allocator: self.host_allocator,
            sinks,
            budget: self.budget.map_or(i64::MAX, |bytes| i64::try_from(bytes.max(1)).unwrap_or(i64::MAX)),
        });
        if let Some(handler) = self.handler {
            inner.reporter.set_default(handler);
        }
        let entry = BackendEntry::new;
        let shared = Shared {
            inner,
            profiles,
            probes: !self.unprobed && !self.manual,
            backends: backends.into_iter().map(entry).collect(),
            contexts: Mutex::new(HashMap::new()),
            filter: OnceLock::new(),
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

/// Why a runtime with these backends has none of that name.
pub(super) fn why_missing(wanted: &BackendId, there: &[BackendId]) -> String {
    let there: Vec<_> = there.iter().map(|id| format!("`{id}`")).collect();
    let there = match &there[..] {
        [] => "none".into(),
        _ => there.join(", "),
    };
    let features = [
        ("host", cfg!(feature = "host")),
        ("opencl", cfg!(feature = "opencl")),
        ("wgpu", cfg!(feature = "wgpu")),
    ];
    match features.into_iter().find(|(name, _)| *name == wanted.as_str()) {
        Some((name, false)) => format!(
            "this build is without it: enable the feature `{name}` of the crate `windlass`; this runtime has {there}"
        ),
        Some((_, true)) => {
            format!("this runtime was built with `only_given_backends`, and it was not given; it has {there}")
        }
        None => format!("there is no backend of that name; this runtime has {there}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen to fail when the answer was that none of so many devices suits.
    #[test]
    fn a_backend_that_is_not_in_this_build_is_named_by_its_feature() {
        for (name, built) in [("opencl", cfg!(feature = "opencl")), ("wgpu", cfg!(feature = "wgpu"))] {
            let text = why_missing(&BackendId::new(name), &[crate::runtime::HOST]);
            let feature = format!("the feature `{name}` of the crate `windlass`");
            assert_eq!(text.contains(&feature), !built, "{text}");
            assert!(text.contains("`host`"), "{text}");
        }
        assert!(why_missing(&BackendId::new("metal"), &[]).contains("no backend of that name"));
    }
}
