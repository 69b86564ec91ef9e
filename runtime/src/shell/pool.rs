//! Staging memory of a context: kept for the next transfer, in size classes, and bounded in bytes.
//!
//! A transfer whose two steps nothing outside holds back *claims* room and waits, as a future, for its turn: all who are
//! ahead of it give theirs back by themselves, so the wait ends. A transfer whose upload is held back by something else (a
//! group that waits for a future of the program's, say) may hold its staging for ever. It does not count against the
//! bound, and waits for nobody: what waits for it might be just what it waits for.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_backend::Allocation;
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::last::is_last;

use super::Signal;
use super::loans::{Lender, Terms};

/// How much staging memory a context has, and in what pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StagingLimits {
    /// Bytes kept and in use at a time.
    pub(crate) bytes: usize,
    /// The most bytes of one transfer that go in one piece.
    pub(crate) chunk: usize,
}

/// How many chunks a buffer may have for its memory on the host to be pinned: to pin more takes longer than a second copy.
pub(super) const PINNED_CHUNKS: usize = 4;

impl Default for StagingLimits {
    fn default() -> Self {
        StagingLimits { bytes: 64 << 20, chunk: 4 << 20 }
    }
}

/// The smallest class: fewer bytes are not worth a class of their own.
const SMALLEST: usize = 4 << 10;

/// The size in which staging for so many bytes is allocated.
pub(super) fn class_of(bytes: usize) -> usize {
    // What has no power of two above it will not be allocated at all.
    bytes.checked_next_power_of_two().unwrap_or(bytes).max(SMALLEST)
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Pool {
    limit: usize,
    state: Mutex<Staging>,
}

#[derive(Debug, Default)]
struct Staging {
    /// Of no use at present, with its class; the latest last.
    kept: Vec<(usize, Arc<dyn Allocation>)>,
    /// Bytes that were claimed, allocated or not.
    claimed: usize,
    waiting: VecDeque<(usize, Arc<Signal>)>,
    count: StagingCount,
    /// Its context is given up: nothing is kept for the next transfer, or freed.
    given_up: bool,
}

/// What a pool has done and has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StagingCount {
    pub(crate) allocations: u64,
    pub(crate) bytes: usize,
    pub(crate) most: usize,
}

impl Staging {
    /// What is larger than everything goes alone.
    fn fits(&self, class: usize, limit: usize) -> bool {
        self.claimed == 0 || self.claimed + class <= limit
    }

    /// Lets go of what is kept, the oldest first, until no more than `limit` is there.
    fn evict(&mut self, limit: usize) -> Vec<Arc<dyn Allocation>> {
        let mut gone = 0;
        while let Some((class, _)) = self.kept.get(gone).filter(|_| self.count.bytes > limit) {
            self.count.bytes -= class;
            gone += 1;
        }
        self.kept.drain(..gone).map(|(_, memory)| memory).collect()
    }

    /// Those who have room now, and have taken it.
    fn next_turns(&mut self, limit: usize) -> Vec<Arc<Signal>> {
        let mut turns = Vec::new();
        while let Some(&(class, _)) = self.waiting.front()
            && self.fits(class, limit)
        {
            // For it, and not when its future runs: until then another claim could take the room.
            self.claimed += class;
            turns.extend(self.waiting.pop_front().map(|(_, signal)| signal));
        }
        turns
    }
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Pool { limit, state: Mutex::default() }
    }

    /// Takes room for memory of a class. If there is none yet, the signal says when this one's turn has come.
    pub(super) fn claim(&self, class: usize) -> Option<Arc<Signal>> {
        let mut state = lock(&self.state);
        // Not past those that wait, even if it fits: small transfers could keep a large one waiting for ever.
        if state.waiting.is_empty() && state.fits(class, self.limit) {
            state.claimed += class;
            return None;
        }
        let signal = Arc::new(Signal::new(()));
        state.waiting.push_back((class, signal.clone()));
        Some(signal)
    }

    /// Gives room back, and says whose turn has come.
    pub(super) fn disclaim(&self, class: usize) -> Vec<Arc<Signal>> {
        let mut state = lock(&self.state);
        state.claimed -= class;
        state.next_turns(self.limit)
    }

    /// Memory of a class, if some is kept. Else it is to be allocated, after what is handed out here has been freed for it.
    pub(super) fn take(&self, class: usize) -> Result<Arc<dyn Allocation>, Vec<Arc<dyn Allocation>>> {
        let mut state = lock(&self.state);
        if let Some(at) = state.kept.iter().rposition(|(of, _)| *of == class) {
            return Ok(state.kept.remove(at).1);
        }
        // Before it is allocated, so that two transfers do not both count on the same room. `allocated` takes it back
        // if the allocation fails.
        state.count.bytes += class;
        let unfit = state.evict(self.limit);
        state.count.most = state.count.most.max(state.count.bytes);
        Err(unfit)
    }

    /// Memory has been allocated, or could not be.
    pub(super) fn allocated(&self, class: usize, made: bool) {
        let count = &mut lock(&self.state).count;
        match made {
            true => count.allocations += 1,
            false => count.bytes -= class,
        }
    }

    /// Keeps memory that is no longer in use, and says what has to be freed for it.
    pub(super) fn keep(&self, class: usize, memory: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>> {
        let mut state = lock(&self.state);
        if state.given_up {
            // To free it might wait for a device that hangs.
            std::mem::forget(memory);
            return Vec::new();
        }
        state.kept.push((class, memory));
        state.evict(self.limit)
    }

    /// Memory of a class, if some is kept, for other uses than staging. What has just been given back may still be held by what is left of its
    /// transfer: that is not taken, since who has to be the only one with it would have to let it go, and free it.
    pub(super) fn take_away(&self, class: usize) -> Option<Arc<dyn Allocation>> {
        let mut state = lock(&self.state);
        let at = state.kept.iter().rposition(|(of, memory)| *of == class && is_last(memory))?;
        state.count.bytes -= class;
        Some(state.kept.remove(at).1)
    }

    /// The context is given up: hands out what is kept, which nobody is to free, and keeps no more.
    pub(crate) fn give_up(&self) -> Vec<Arc<dyn Allocation>> {
        lock(&self.state).given_up = true;
        self.clear()
    }

    /// Lets go of all that is kept.
    pub(crate) fn clear(&self) -> Vec<Arc<dyn Allocation>> {
        let mut state = lock(&self.state);
        let kept = std::mem::take(&mut state.kept);
        state.count.bytes -= kept.iter().map(|(class, _)| class).sum::<usize>();
        kept.into_iter().map(|(_, memory)| memory).collect()
    }

    pub(crate) fn count(&self) -> StagingCount {
        lock(&self.state).count
    }
}

/// Memory that was taken away, or was never here.
impl Lender for Pool {
    fn bring_back(self: Arc<Self>, terms: Terms, memory: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>> {
        lock(&self.state).count.bytes += terms.class.bytes;
        self.keep(terms.class.bytes, memory)
    }

    fn is_gone(&self, _: Terms, _: bool) {}
}
