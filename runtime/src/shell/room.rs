//! Room for an allocation where a device has none left: what is about to be freed, what ends soon, and where the runtime was built for
//! it, what buffers have there and do not use.
//!
//! One allocation at a time looks for room in a memory, and those behind it wait for their turn: each that looked would take what
//! was freed for another, and all of them would ask the driver whenever anything ends.
//!
//! Nobody waits for what may never come. Only who has begun is waited for: who has not may itself wait for memory, and two groups that
//! each have half of theirs would wait for each other. So the last word is an error, as soon as nothing that uses the memory is under
//! way.

use std::collections::HashMap;
use std::future::poll_fn;
use std::panic::Location;
use std::sync::Arc;

use windlass_backend::Allocation;
use windlass_sync::cell::Registration;
use windlass_sync::facade::{Mutex, lock};

use super::host_side::GuardCell;
use super::memory::{Made, Wanted, is_out_of_memory};
use super::proxy::Signalled;
use super::work::Work;
use super::{Inner, Signal, State, Windlass};
use crate::error::Cause;
use windlass_engine::{GuardPlan, Idle, MemoryId, Mode, NodeId, RootId, Turn};

/// What becomes of the memory that a buffer has on a device while nobody uses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Residency {
    /// The buffer keeps it until it is over, or the program [gives it back](crate::Queue::evict).
    #[default]
    Kept,
    /// Where a device has no room left, the memory is given up that was not used for longest: first what the host or another device
    /// has too, then what has to be copied to the host before. A group that wants the data later brings it again.
    Evictable,
}

/// Whose turn it is to look for room, memory by memory.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    of: Mutex<HashMap<MemoryId, Arc<futures::lock::Mutex<()>>>>,
}

impl Inner {
    /// Makes an allocation where that may block, and where there is no room for it waits until there is, or none will come.
    pub(super) async fn make_patiently(self: &Arc<Self>, wanted: &Wanted, made: Option<Made>) -> Made {
        let mut before = self.freed_so_far();
        let mut tried = self.try_to_make(wanted, made).await;
        // To the host's own memory nothing comes back that the system would not have given.
        if !is_out_of_memory(&tried) || wanted.owner.is_none() {
            return tried;
        }
        self.counts_as_made(false);
        let turns = lock(&self.turns.of).entry(wanted.memory).or_default().clone();
        let _turn = turns.lock().await;
        while self.finds_room(wanted, before).await {
            self.counts_as_made(true);
            before = self.freed_so_far();
            tried = self.try_to_make(wanted, None).await;
            if !is_out_of_memory(&tried) {
                return tried;
            }
            self.counts_as_made(false);
        }
        self.counts_as_made(true);
        tried
    }

    /// Whether an allocation is being made, or waits for room: others may wait for those that are being made, whose groups run then.
    fn counts_as_made(self: &Arc<Self>, is_made: bool) {
        self.enter_without_native_calls(|state, _| match is_made {
            true => state.making += 1,
            false => (state.making, state.look_again) = (state.making - 1, true),
        });
    }

    /// Changes when memory may have become free: how many nodes have settled, and how often what they left was freed.
    fn freed_so_far(self: &Arc<Self>) -> (u64, u64) {
        let settled = self.enter_without_native_calls(|state, _| state.counters.settled);
        (settled, self.reaper.rounds())
    }

    async fn try_to_make(self: &Arc<Self>, wanted: &Wanted, made: Option<Made>) -> Made {
        let (off, lender) = (wanted.clone(), self.clone());
        self.off_thread(move || off.make_off_thread(made, &lender)).await
    }

    /// Waits until there may be more room than there was before; says whether there may. Whatever wakes it makes it ask again, and not try
    /// again: to try is to have the driver trim, and is heard by those who look for room in other memories.
    async fn finds_room(self: &Arc<Self>, wanted: &Wanted, before: (u64, u64)) -> bool {
        let bytes = wanted.object.bytes();
        loop {
            if let Some(freed) = self.reaper.under_way() {
                Signalled::new(freed).await;
                return true;
            }
            if self.residency == Residency::Evictable && self.evict_idle(wanted.memory, bytes).await {
                return true;
            }
            if self.freed_so_far() != before {
                return true;
            }
            let ended = self.enter_without_native_calls(|state, _| state.starve(wanted.memory));
            match ended {
                Some(ended) => Signalled::new(ended).await,
                // What was let go of since the first question is not lost sight of.
                None => return self.freed_so_far() != before || self.reaper.under_way().is_some(),
            }
        }
    }

    /// Gives up so many bytes of what nobody uses, if there are as many; says whether it has given up any.
    async fn evict_idle(self: &Arc<Self>, memory: MemoryId, bytes: usize) -> bool {
        let mut freed = 0;
        for Idle { root, bytes: has, is_clean } in self.enter(|state, _| state.engine.idle_in(memory)) {
            if freed >= bytes {
                break;
            }
            // Held until the memory has gone: what comes to the host stays current there.
            let home = if is_clean { None } else { self.bring_home(root).await };
            let gone = self.enter(|state, turn| state.evict(root, memory, turn));
            drop(home);
            freed += if gone { has.max(1) } else { 0 };
        }
        freed > 0
    }

    /// Brings all of a root to the heap, and holds it there. None if that is not to be had, or if somebody uses the root by now, in
    /// whatever memory: to wait for that one might be to wait for who waits for this room.
    async fn bring_home(self: &Arc<Self>, root: RootId) -> Option<Home> {
        let guard = Arc::new(GuardCell::new(Location::caller()));
        let node = self.enter(|state, turn| {
            let (bounds, ..) = state.engine.shape(root).filter(|_| state.engine.is_unused(root))?;
            let work = Work::Guard(guard.clone());
            let plan =
                GuardPlan { root, bounds, mode: Mode::Read, in_heap: true, behind_readers: true, work };
            Some(state.engine.plan_guard(plan, &mut None, turn))
        })?;
        let home = Home { inner: self.clone(), node, guard };
        let mut registration = Registration::default();
        let granted = poll_fn(|cx| home.guard.cell.poll_simply(&mut registration, cx)).await;
        granted.is_ok().then_some(home)
    }
}

/// A root that is held in the heap.
struct Home {
    inner: Arc<Inner>,
    node: NodeId,
    guard: Arc<GuardCell>,
}

impl Drop for Home {
    fn drop(&mut self) {
        // Before the node: the engine's reference is to be the last.
        drop(self.guard.refuse_memory());
        self.inner.end_accessor(self.node);
    }
}

impl State {
    /// Gives up a root's memory on a device, if nobody counts on it.
    pub(crate) fn evict(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<Windlass>) -> bool {
        let gone = self.engine.evict(root, memory, turn);
        self.counters.evictions += u64::from(gone);
        gone
    }

    /// An allocation has been made, or will not be.
    pub(super) fn allocated(
        &mut self,
        root: RootId,
        memory: MemoryId,
        made: Result<Arc<dyn Allocation>, Cause>,
        turn: &mut Turn<Windlass>,
    ) {
        (self.making, self.look_again) = (self.making - 1, true);
        self.engine.allocated(root, memory, made, turn);
    }

    /// Completes when anything has ended; none if nothing that uses the memory is under way. A group whose kernel is being built, or whose
    /// memory is being made, will be, or will fail.
    fn starve(&mut self, memory: MemoryId) -> Option<Arc<Signal>> {
        (self.engine.is_busy(memory) || self.building > 0 || self.making > 0).then(|| {
            let signal = Arc::new(Signal::new(()));
            self.starved.push(signal.clone());
            // Memory is also freed without the end of anything: when a buffer goes that nobody uses.
            self.reaper.tell_too(signal.clone());
            signal
        })
    }
}
