//! Counts of what the runtime has asked for, and of what of it still exists.

use std::cell::Cell;
use std::thread::LocalKey;

/// What was called, made and kept; see [`FaultyControl::audit`](crate::FaultyControl::audit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Contexts, lanes, kernels and allocations (staging included) that exist.
    pub contexts: usize,
    /// Lanes that exist.
    pub lanes: usize,
    /// Kernels that exist.
    pub kernels: usize,
    /// Allocations that exist.
    pub allocations: usize,
    /// Staging memory that exists.
    pub staging: usize,
    /// Recorded sequences that exist.
    pub sequences: usize,
    /// Bytes in allocations and staging.
    pub bytes: usize,
    /// Bytes in staging.
    pub staging_bytes: usize,
    /// Groups that were fed and not reported.
    pub in_flight: usize,
    /// Calls of `feed`, refused ones included.
    pub feeds: u64,
    /// Calls of `flush`.
    pub flushes: u64,
    /// Calls of `arm`.
    pub arms: u64,
    /// Calls of `look`.
    pub looks: u64,
    /// Calls of `allocate` and `allocate_staging`.
    pub allocates: u64,
    /// Calls of `trim`.
    pub trims: u64,
    /// Calls of `build`.
    pub builds: u64,
    /// Calls of all kinds that were made inside [`inside_poll`], but for looks and what is counted next.
    pub calls_in_poll: u64,
    /// Calls of `feed`, `flush` and `arm` that were made inside [`inside_poll`] on lanes of contexts whose waiters look: who waits for
    /// a copy there asks for it by itself.
    pub lane_calls_in_poll: u64,
    /// Groups that were run, or failed when their turn came.
    pub ran: u64,
    /// Verdicts that were given.
    pub verdicts: u64,
    /// The most commands that any lane has held at a time.
    pub deepest: usize,
    /// Copies that were fed, one side of which is neither the context's memory nor its staging.
    pub foreign_copies: u64,
    /// Bytes that copy commands have moved.
    pub bytes_copied: u64,
    /// Bytes that fill commands have filled.
    pub bytes_filled: u64,
    /// The most groups that any lane was to report at a time.
    pub most_reports: usize,
    /// Groups that were to report when they were fed.
    pub fed_to_report: u64,
    /// Copies between the memories of two contexts.
    pub peer_copies: u64,
    /// Points of other contexts' lanes that groups waited for.
    pub peer_waits: u64,
    /// Calls of `record`.
    pub recorded: u64,
    /// Groups that were fed to lanes that only copy.
    pub on_copy_lanes: u64,
    /// Groups that were fed to lanes of high priority.
    pub on_urgent_lanes: u64,
    /// Calls that a driver may keep waiting while a kernel runs (frees, builds, unloading them, opening), made inside
    /// [`inside_poll`] or [`inside_submit`] while work was in flight.
    pub blocking_calls: u64,
}

impl Audit {
    /// How many native objects exist.
    pub fn live(&self) -> usize {
        self.contexts + self.lanes + self.kernels + self.sequences + self.allocations + self.staging
    }
}

thread_local! {
    static IN_POLL: Cell<bool> = const { Cell::new(false) };
    static IN_SUBMIT: Cell<bool> = const { Cell::new(false) };
}

/// Sets a mark for the length of a call.
fn marked<R>(mark: &'static LocalKey<Cell<bool>>, call: impl FnOnce() -> R) -> R {
    struct Restore(&'static LocalKey<Cell<bool>>, bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
    let _restore = Restore(mark, mark.replace(true));
    call()
}

/// Marks this thread as being inside a `poll` while `poll` runs: native calls made meanwhile are counted.
pub fn inside_poll<R>(poll: impl FnOnce() -> R) -> R {
    marked(&IN_POLL, poll)
}

/// Marks this thread as being inside `submit` while `submit` runs: native calls that may block are counted.
pub fn inside_submit<R>(submit: impl FnOnce() -> R) -> R {
    marked(&IN_SUBMIT, submit)
}

pub(crate) fn is_inside_submit() -> bool {
    IN_SUBMIT.get()
}

pub(crate) fn is_inside_poll() -> bool {
    IN_POLL.get()
}
