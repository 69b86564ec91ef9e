//! What a runtime tells of itself.

/// Counts of what a runtime has done and holds; see [`Runtime::stats`](crate::Runtime::stats).
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let (queue, data) = (Queue::blocking_on(Device::host())?, Buffer::<u32>::new(8));
/// let before = queue.runtime().stats();
/// for value in 0..10 {
///     queue.submit(|cg| cg.fill(&cg.overwrite(&data), value))?;
/// }
/// queue.drained().blocking_wait()?;
/// let after = queue.runtime().stats();
/// assert_eq!(after.submitted - before.submitted, 10);
/// assert_eq!(after.bytes_moved, before.bytes_moved, "the host device works on the host's memory");
/// # Ok(()) }
/// ```
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
    /// Bytes that these transfers move. What one would have moved that has ended without being made, since its source has failed, does
    /// not count.
    pub bytes_moved: u64,
    /// Bytes that nobody had written and that were cleared to be read, by a device or in pinned host memory.
    pub bytes_cleared: u64,
    /// Proxies: edges that needed a future of the host, one for each source and target context. What only host accessors
    /// wait behind needs none.
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
    /// Of these, the ones for which there was memory that other buffers had let go of, or whose last handles had gone.
    pub allocations_reused: u64,
    /// Of these, the ones that were given a piece of what had been a larger buffer's.
    pub allocations_in_pieces: u64,
    /// Bytes of such memory, of devices and large memory of the host, kept for the next buffers.
    pub bytes_kept: usize,
    /// Allocations that were given up because the program asked for them, or a device had no room.
    pub evictions: u64,
    /// Turns of the scheduler's lock.
    pub turns: u64,
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
