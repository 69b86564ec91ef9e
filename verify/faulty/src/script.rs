//! What is to go wrong, and when.

use std::task::Waker;

use windlass_backend::{BackendError, KernelLimits};

/// Something that happens to the n-th of its kind from now on.
#[derive(Debug)]
pub(crate) struct Nth<T> {
    pub(crate) left: usize,
    pub(crate) what: T,
}

/// Counts one down; what has come to zero happens now.
pub(crate) fn due<T>(list: &mut Vec<Nth<T>>) -> Option<T> {
    let mut found = None;
    for (at, nth) in list.iter_mut().enumerate() {
        match nth.left.checked_sub(1) {
            Some(left) => nth.left = left,
            None => found = found.or(Some(at)),
        }
    }
    found.map(|at| list.remove(at).what)
}

/// What a call of `feed` is to do instead of its work.
#[derive(Debug)]
pub(crate) enum Refusal {
    Error(BackendError),
    Panic,
}

/// A native call, for [`FaultyControl::panic_in`](crate::FaultyControl::panic_in).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// `Lane::flush`.
    Flush,
    /// `Lane::arm`.
    Arm,
    /// `Lane::look`.
    Look,
    /// `Context::allocate`.
    Allocate,
    /// `Context::allocate_staging`.
    AllocateStaging,
    /// `Context::open_lane`.
    OpenLane,
}

impl Script {
    /// Whether this call is to panic.
    pub(crate) fn panics_now(&mut self, call: Call) -> bool {
        let at = self.panics.iter().position(|c| *c == call);
        at.map(|at| self.panics.swap_remove(at)).is_some()
    }
}

#[derive(Default)]
pub(crate) struct Script {
    /// The next of these calls panic, once each.
    pub(crate) panics: Vec<Call>,
    /// The next lane cannot be opened.
    pub(crate) open_lane: Option<BackendError>,
    pub(crate) unavailable: Option<String>,
    pub(crate) open: Option<BackendError>,
    /// Called by the next context that is given up, once it takes no more.
    pub(crate) on_abandon: Option<Box<dyn FnOnce() + Send>>,
    /// The next sequence is not recorded.
    pub(crate) record: Option<BackendError>,
    /// Feeds of groups with commands.
    pub(crate) feeds: Vec<Nth<Refusal>>,
    /// Every feed, a barrier's too.
    pub(crate) all_feeds: Option<BackendError>,
    /// Groups that launch a kernel of this name.
    pub(crate) kernels: Vec<(String, BackendError)>,
    /// Groups with commands, when their turn comes.
    pub(crate) groups: Vec<Nth<BackendError>>,
    /// Groups that are a copy and nothing else, when their turn comes.
    pub(crate) copies: Vec<Nth<BackendError>>,
    pub(crate) points: Vec<(usize, u64, BackendError)>,
    pub(crate) allocations: Vec<Nth<()>>,
    pub(crate) no_staging: bool,
    /// Contexts of one domain do not copy each other's memory.
    pub(crate) no_peer_copies: bool,
    pub(crate) bytes_cap: Option<usize>,
    pub(crate) buffers_cap: Option<usize>,
    pub(crate) build: Option<String>,
    /// Of kernels that are built from now on.
    pub(crate) kernel_limits: KernelLimits,
    pub(crate) slow_builds: bool,
    /// Why this process can use no device any more.
    pub(crate) process_ended: Option<String>,
    pub(crate) waiting_builds: Vec<Waker>,
    /// Verdicts wait until they are asked for.
    pub(crate) delayed: bool,
    /// What nobody waits for is not reported.
    pub(crate) no_leisure: bool,
    /// Everything runs and is reported inside `feed`, armed or not.
    pub(crate) inside: bool,
    /// A verdict covers no more than the earliest point that was armed.
    pub(crate) exact: bool,
}
