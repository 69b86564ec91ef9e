//! The backend of this process's own threads: kernels are host bodies, memory is the heap.
//!
//! # Threads
//!
//! Each lane has a worker thread, started when the lane is first fed. It runs the lane's groups in order, one after
//! the other, and no other lane's: as many groups as there are lanes always make progress at the same time, even if
//! they wait for each other. A worker whose lane is empty looks again a few times, giving way to every other
//! runnable thread, and then sleeps; feeding a lane whose worker is awake makes no system call.
//!
//! A range that is large enough is cut into blocks, which the lane's worker shares with helper threads, one
//! for each core but one, that all contexts of a [`Host`] have in common. The worker takes blocks like the helpers do,
//! so it depends on none of them. How a range is cut is said at [`Host::shares_ranges`].
//!
//! Nothing is joined: dropping a lane lets its worker finish what was fed, and a thread asleep at the end of the
//! process is just gone.
//!
//! # What may go wrong
//!
//! A body that panics fails the point of its group with [`BackendError::Panicked`]; the group's later commands do not
//! run, and the lane goes on. A thread that cannot be started is an error of the `feed` that wanted it.
//!
//! [`BackendError::Panicked`]: windlass_backend::BackendError::Panicked
#![warn(missing_docs)]

mod context;
mod cutting;
mod details;
mod device;
mod kernel;
mod lane;
mod lanes;
mod memory;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::thread::available_parallelism;

use windlass_backend::{
    Backend, BackendError, BackendId, Context, ContextSpec, Platform, Unavailable, async_trait,
};

use context::HostContext;
use lanes::Lanes;
use worker::HelperThreads;

/// The backend's name.
pub const ID: BackendId = BackendId::new("host");

/// Host devices: this process's threads and its heap.
///
/// ```
/// use windlass_backend::{Backend, MemoryIndex};
/// use windlass_host::Host;
/// # futures::executor::block_on(async {
/// let platforms = Host::new().discover().await.unwrap();
/// assert_eq!(platforms[0].devices[0].memory, MemoryIndex::Heap);
/// # });
/// ```
pub struct Host {
    devices: usize,
    lanes: usize,
    helpers: Arc<HelperThreads>,
    named: Arc<Lanes>,
}

impl Host {
    /// One device, which works on the heap in place.
    pub fn new() -> Self {
        Self::with_devices(1)
    }

    /// `devices` devices, one at least. The first works on the heap in place; each further one has a memory of its
    /// own, as a graphics card has: data gets there by copies. They share this machine's cores, so this is for
    /// programs that want to be tried with several devices.
    pub fn with_devices(devices: usize) -> Self {
        let cores = available_parallelism().map_or(1, |n| n.get());
        Host {
            devices: devices.max(1),
            lanes: cores.max(2),
            helpers: HelperThreads::new(cores),
            named: Arc::default(),
        }
    }

    /// Sets how many lanes each device has, one at least: how many of its groups can run at the same time. The
    /// default is the number of cores, and two at least.
    pub fn with_lanes(mut self, lanes: usize) -> Self {
        self.lanes = lanes.max(1);
        self
    }

    /// Whether ranges are shared between threads: false on a machine with one core.
    ///
    /// - A launch without work-groups is shared from 262,144 items on, in blocks of 4,096 items at least, sixteen for
    ///   each core at most. A smaller one is begun by the lane's worker, and shared as soon as its first items show that the others
    ///   would take one thread longer than 50 us.
    /// - A launch with work-groups is cut into whole numbers of them, sixteen blocks for each core at most, and is shared as
    ///   soon as there are two. So a launch whose items are large pieces of work may say so by work-groups of one item, and need not be
    ///   tried.
    ///
    /// Each thread begins with blocks that lie together, in launches of one size with the same ones, and then takes what
    /// others have not come to.
    ///
    /// Everything else runs on the lane's worker as one block.
    pub fn shares_ranges(&self) -> bool {
        self.helpers.cores() > 1
    }
}

impl Default for Host {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host")
            .field("devices", &self.devices)
            .field("lanes", &self.lanes)
            .finish_non_exhaustive()
    }
}

// SAFETY: its contexts are `HostContext`s, which keep the contract.
#[async_trait]
unsafe impl Backend for Host {
    fn id(&self) -> BackendId {
        ID
    }

    async fn discover(&self) -> Result<Vec<Platform>, Unavailable> {
        Ok(vec![device::platform(self.devices, self.lanes, self.helpers.cores())])
    }

    async fn open(&self, spec: ContextSpec) -> Result<Arc<dyn Context>, BackendError> {
        let describe = |key| match device::position(key, self.devices) {
            Some(at) => Ok(device::info(at, self.lanes, self.helpers.cores())),
            None => Err(BackendError::Lost(format!("there is no host device `{key}`"))),
        };
        let infos = spec.devices.iter().map(describe).collect::<Result<Vec<_>, _>>()?;
        let (devices, memories) = device::number_memories(infos);
        Ok(Arc::new(HostContext::new(devices, memories, self.named.clone(), self.helpers.clone())))
    }
}
