//! Transfers between contexts that cannot reach each other's memory: down into host staging, up out of it.
//!
//! A transfer that is larger than a chunk was cut by the engine into pairs of nodes of their own, so that one chunk goes up
//! while the next comes down; here each pair is one future.
//!
//! Where copies with memory that a context did not allocate would block ([`ContextInfo::pageable_upload_limit`]), data goes
//! between the context and the host's own memory in the same way, one half of it a copy on the blocking pool; and between
//! two such contexts it goes through staging of both.
//!
//! [`ContextInfo::pageable_upload_limit`]: windlass_backend::ContextInfo::pageable_upload_limit

use std::sync::{Arc, LazyLock};

use super::waking::catch_native;
use smallvec::SmallVec;
use windlass_backend::{Allocation, BackendError, Context, Region};

use super::pool::{Pool, class_of};
use super::proxy::Signalled;
use super::work::{Work, copy_on_host};
use super::{Inner, LaneShell, Signal, State};
use crate::error::{Cause, Error};
use windlass_engine::{NodeId, Staged, Step};

/// Staging memory in use, and the room that it takes in its pool.
struct Lease {
    pool: Arc<Pool>,
    memory: Arc<dyn Allocation>,
    class: usize,
    claimed: bool,
}

/// A copy between host memory and staging.
pub(super) struct HostCopy {
    from: (Arc<dyn Allocation>, Region),
    to: (Arc<dyn Allocation>, Region),
    /// By how many threads it is best made.
    threads: usize,
}

/// With so many staged transfers under way, one that comes and one that goes, the host's half of each is made by several threads. A
/// chunk of a larger transfer counts as one.
const ALONE: u64 = 2;

/// For each so many bytes one more thread is worth waking.
const PART: usize = 1 << 20;

/// How many threads copy at most: that many keep the memory busy, and leave processors to others.
static THREADS: LazyLock<usize> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (processors / 4).clamp(1, 4)
});

impl HostCopy {
    /// The same in as many parts as threads are to make it, if it has no gaps.
    fn parts(&self) -> SmallVec<[(Region, Region); 4]> {
        let (from, to, bytes) = (self.from.1, self.to.1, self.from.1.bytes());
        let whole = SmallVec::from_iter([(from, to)]);
        if self.threads < 2 || !from.is_contiguous() || !to.is_contiguous() || bytes != to.bytes() {
            return whole;
        }
        let part = bytes.div_ceil(self.threads).max(1).next_multiple_of(PART / 16);
        let cut = |at: usize| {
            let line = |of: Region| Region::line(of.offset + at, part.min(bytes - at));
            (line(from), line(to))
        };
        (0..bytes).step_by(part).map(cut).collect()
    }
}

/// Contexts, by one of their lanes.
type Whose = SmallVec<[Arc<LaneShell>; 2]>;

impl Inner {
    /// One future for each staged transfer: gets staging, lets the download go, waits for it, lets the upload go, and
    /// gives the staging back when that has ended.
    pub(super) fn spawn_staged(self: &Arc<Self>, staged: Staged, down: Arc<Signal>, up: Arc<Signal>) {
        let inner = self.clone();
        self.gates.spawn(async move {
            let Staged { download, upload, moves } = staged;
            let (whose, bytes) = inner.staging_for(download, upload);
            let lease = inner.lease(whose.first(), bytes, moves).await;
            inner.hand_out(&lease, download);
            // Without staging too. `hand_out` has failed the step then, but it ends only once its last gate is open. Its
            // signal comes however it ends, so the waits below are over in any case.
            inner.open_step(download);
            Signalled::new(down).await;
            let second = match &lease {
                Ok(first) if whose.len() > 1 => Some(inner.second_lease(first, &whose[1], bytes).await),
                _ => None,
            };
            inner.hand_out(second.as_ref().unwrap_or(&lease), upload);
            inner.open_step(upload);
            Signalled::new(up).await;
            let leases: SmallVec<[Lease; 2]> =
                [Some(lease), second].into_iter().flatten().flatten().collect();
            // Asked only now: the upload may have ended because its context was given up, and then a device that
            // hangs may still touch this memory.
            let leaked: SmallVec<[bool; 2]> = inner.enter(|state, _| {
                state.counters.live_steps -= 1;
                leases.iter().map(|lease| state.is_leaked(&lease.memory)).collect()
            });
            for (lease, leaked) in leases.into_iter().zip(leaked) {
                inner.end_lease(lease, leaked);
            }
        });
    }

    /// Gives a step its staging; without any it fails.
    fn hand_out(self: &Arc<Self>, lease: &Result<Lease, BackendError>, step: NodeId) {
        self.enter(|state, turn| match lease {
            Ok(lease) => {
                if let Some(Work::Transfer(transfer)) = state.engine.work_mut(step) {
                    transfer.staging = Some(lease.memory.clone());
                }
            }
            Err(error) => {
                let cause = Cause(Error::backend(error.clone(), "allocating staging memory for a transfer"));
                state.engine.fail(step, cause, turn);
            }
        });
    }

    fn open_step(self: &Arc<Self>, step: NodeId) {
        self.enter(|state, turn| {
            // First, so that it is fed as one that reports: the future waits for its end.
            state.engine.want(step, turn);
            state.engine.open(step, turn);
        });
    }

    /// Lanes of the contexts whose staging a transfer takes, one for the whole way or one for each half, and how much.
    fn staging_for(self: &Arc<Self>, download: NodeId, upload: NodeId) -> (Whose, usize) {
        self.enter(|state, _| {
            let lane = |step| state.engine.any_lane_of(step).map(|lane| state.lane(lane).clone());
            let whose = match (lane(download), lane(upload)) {
                (Some(down), Some(up)) => match (down.needs_its_staging, up.needs_its_staging) {
                    (true, true) => Whose::from_iter([down, up]),
                    (false, true) => Whose::from_iter([up]),
                    _ => Whose::from_iter([down]),
                },
                (down, up) => down.or(up).into_iter().collect(),
            };
            let Some(Work::Transfer(transfer)) = state.engine.work_mut(download) else { return (whose, 0) };
            let step = transfer.step;
            let unit = state.engine.shape(step.root).map_or(0, |(_, unit, _)| unit);
            (whose, step.bounds.volume() * unit)
        })
    }

    /// Staging for the second half of the way, with what the first half has brought. It is exempt from the limit: two
    /// opposite transfers, each holding one lease, would deadlock.
    async fn second_lease(
        self: &Arc<Self>,
        first: &Lease,
        lane: &Arc<LaneShell>,
        bytes: usize,
    ) -> Result<Lease, BackendError> {
        let second = self.lease(Some(lane), bytes, false).await?;
        let (from, to, line) = (first.memory.clone(), second.memory.clone(), Region::line(0, bytes));
        let copied = self.off_thread(move || copy_on_host((&*from, line), (&*to, line))).await;
        match copied {
            Some(()) => Ok(second),
            None => {
                self.give_back(second);
                Err(out_of_reach())
            }
        }
    }

    /// Staging memory of at least so many bytes, in its turn. No thread waits for it.
    async fn lease(
        self: &Arc<Self>,
        lane: Option<&Arc<LaneShell>>,
        bytes: usize,
        moves: bool,
    ) -> Result<Lease, BackendError> {
        let Some(lane) = lane else { return Err(BackendError::OutOfMemory { bytes }) };
        let (pool, class) = (&lane.staging, class_of(bytes));
        if let Some(turn) = moves.then(|| pool.claim(class)).flatten() {
            Signalled::new(turn).await;
        }
        let made = match pool.take(class) {
            Ok(memory) => Ok(memory),
            Err(unfit) => {
                self.free_all(unfit);
                let (pool, context) = (pool.clone(), lane.context.clone());
                self.off_thread(move || allocate(&pool, &*context, class)).await
            }
        };
        // There is no lease that would give the claim back later, and the transfers in line would wait for ever.
        if made.is_err() && moves {
            wake(pool.disclaim(class));
        }
        made.map(|memory| Lease { pool: pool.clone(), memory, class, claimed: moves })
    }

    fn give_back(&self, lease: Lease) {
        self.end_lease(lease, false);
    }

    /// Staging that a device which was given up may still touch is neither reused nor freed.
    fn end_lease(&self, lease: Lease, leaked: bool) {
        let Lease { pool, memory, class, claimed } = lease;
        match leaked {
            // `State::leaked` has a reference too, so this one frees nothing. Only the pool's count goes down.
            true => pool.allocated(class, false),
            false => self.free_all(pool.keep(class, memory)),
        }
        // After `keep`, so that the next in line finds this memory there and need not allocate.
        if claimed {
            wake(pool.disclaim(class));
        }
    }

    /// Makes the host's half of a staged transfer, where that may take its time.
    pub(super) fn spawn_copy(self: &Arc<Self>, node: NodeId, copy: HostCopy) {
        let inner = self.clone();
        self.gates.spawn(async move {
            let part = |(from_part, to_part)| {
                let (from, to) = (copy.from.0.clone(), copy.to.0.clone());
                inner.off_thread(move || copy_on_host((&*from, from_part), (&*to, to_part)))
            };
            // All of them are polled at once, and so begin at once.
            let parts = futures::future::join_all(copy.parts().into_iter().map(part));
            // Whoever hears of the end may look whether the memory is its own alone.
            drop(copy);
            let copied: Option<Vec<()>> = parts.await.into_iter().collect();
            let doing = "copying between host memory and staging";
            let result = copied.map(drop).ok_or_else(|| Cause(Error::backend(out_of_reach(), doing)));
            inner.enter(|state, turn| state.engine.finish_host(node, result, turn));
        });
    }
}

impl State {
    /// The host's half of a staged transfer.
    pub(super) fn host_copy(&mut self, node: NodeId) -> Option<HostCopy> {
        let Some(Work::Transfer(transfer)) = self.engine.work_mut(node) else { return None };
        transfer.is_made = true;
        let (step, staging) = (transfer.step, transfer.staging.take()?);
        let (from, to) = self.regions(&step)?;
        let of = |memory| self.engine.allocation(step.root, memory).cloned();
        // Where several are under way, each is another thread's as it is.
        let is_alone = self.counters.live_steps <= ALONE;
        let threads = if is_alone { (step.bytes / PART).clamp(1, *THREADS) } else { 1 };
        Some(match step.step {
            Step::Upload => HostCopy { from: (staging, from), to: (of(step.to)?, to), threads },
            Step::Download | Step::Direct | Step::Clear | Step::Map | Step::Unmap => {
                HostCopy { from: (of(step.from)?, from), to: (staging, to), threads }
            }
        })
    }
}

fn out_of_reach() -> BackendError {
    BackendError::Unsupported("staging memory that the host cannot reach, or too little of it".into())
}

/// Allocates on a thread that may block.
fn allocate(pool: &Pool, context: &dyn Context, class: usize) -> Result<Arc<dyn Allocation>, BackendError> {
    let ask = || catch_native(|| context.allocate_staging(class));
    let made = ask().or_else(|error| match pool.clear() {
        kept if kept.is_empty() => Err(error),
        // What is kept in other sizes may be just what is missing.
        kept => {
            drop(kept);
            ask()
        }
    });
    pool.allocated(class, made.is_ok());
    made
}

/// Wakes those whose turn has come.
fn wake(turns: Vec<Arc<Signal>>) {
    for signal in turns {
        signal.complete(()).into_iter().for_each(|wakers| wakers.wake());
    }
}

#[cfg(test)]
mod tests {
    use windlass_backend::HostMemory;

    use super::*;

    fn copy(from: Region, to: Region, threads: usize) -> HostCopy {
        let memory: Arc<dyn Allocation> = Arc::new(HostMemory::zeroed(8).expect("there are so many"));
        HostCopy { from: (memory.clone(), from), to: (memory, to), threads }
    }

    #[test]
    fn parts_follow_each_other_and_are_all_there_is() {
        let all =
            [(4 << 20, 4, 4), (4 << 20, 3, 3), ((1 << 20) + 1, 2, 2), (5, 4, 1), (0, 4, 0), (9 << 20, 1, 1)];
        for (bytes, threads, expected) in all {
            let parts = copy(Region::line(24, bytes), Region::line(0, bytes), threads).parts();
            assert_eq!(parts.len(), expected, "{parts:?}");
            let mut at = 0;
            for (from, to) in parts {
                assert_eq!((from.offset, to.offset), (24 + at, at));
                assert!(from.is_contiguous() && from.bytes() == to.bytes());
                at += from.bytes();
            }
            assert_eq!(at, bytes);
        }
    }

    #[test]
    fn rows_with_gaps_stay_together() {
        let rows = Region {
            offset: 0,
            width: 1 << 20,
            rows: 4,
            slices: 1,
            row_pitch: 2 << 20,
            slice_pitch: 8 << 20,
        };
        assert_eq!(
            copy(rows, Region::line(0, 4 << 20), 4).parts().as_slice(),
            [(rows, Region::line(0, 4 << 20))]
        );
    }

    /// What the parts bring together is what one copy would, and no byte beside it.
    #[test]
    fn parts_bring_every_byte() {
        let bytes = (2 << 20) + 3;
        let given: Vec<u8> = (0..bytes + 24).map(|i| (i % 251) as u8).collect();
        let from: Arc<dyn Allocation> = Arc::new(HostMemory::from_vec(given.clone()));
        let to: Arc<dyn Allocation> = Arc::new(HostMemory::from_vec(vec![0_u8; bytes + 8]));
        let regions = (Region::line(24, bytes), Region::line(4, bytes));
        let copy = HostCopy { from: (from, regions.0), to: (to, regions.1), threads: 4 };
        assert_eq!(copy.parts().len(), 4);
        for (from, to) in copy.parts() {
            copy_on_host((&*copy.from.0, from), (&*copy.to.0, to)).expect("both are the host's");
        }
        drop(copy.from);
        let to: Arc<dyn std::any::Any + Send + Sync> = copy.to.0;
        let to = Arc::try_unwrap(to.downcast::<HostMemory>().expect("it is")).expect("nobody else has it");
        let got = to.try_into_vec::<u8>().expect("it was one");
        assert!(got[4..bytes + 4] == given[24..] && got[..4] == [0; 4] && got[bytes + 4..] == [0; 4]);
    }
}
