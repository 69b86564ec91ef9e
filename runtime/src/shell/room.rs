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

use windlass_backend::{Allocation, BackendError};
use windlass_sync::cell::Registration;
use windlass_sync::facade::{Mutex, lock};

use super::host_side::{Coming, GuardCell};
use super::memory::{Made, Wanted, is_out_of_memory, is_pinned};
use super::proxy::Signalled;
use super::waking::tell;
use super::{Inner, Signal, State, Windlass};
use crate::error::{Cause, Result};
use windlass_engine::{Idle, MemoryId, Mode, Room, RootId, Turn};

/// What becomes of the memory that a buffer has on a device while nobody uses it.
///
/// ```
/// use windlass::{Residency, prelude::*};
/// # fn main() -> windlass::Result<()> {
/// // Buffers of 64 KiB in all, on devices that give the program half of that.
/// let runtime = Runtime::builder().residency(Residency::Evictable).device_memory(32 << 10).build();
/// let queue = Queue::builder().runtime(&runtime).blocking_build()?;
/// let buffers: Vec<_> = (0..16).map(|_| Buffer::<u32>::new(1 << 10)).collect();
/// for buffer in &buffers {
///     queue.submit(|cg| cg.fill(&cg.overwrite(buffer), 1))?;
/// }
/// assert!(buffers.iter().all(|buffer| buffer.host_read().blocking_wait().is_ok_and(|x| x[0] == 1)));
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Residency {
    /// The buffer keeps it until it is over, or the program [gives it back](crate::Queue::evict).
    #[default]
    Kept,
    /// Where a device has no room left, the memory is given up that was not used for longest: first what the host or another device
    /// has too, then what has to be copied to the host before. A group that wants the data later brings it again. If all of it
    /// is wanted by groups that have been submitted, what is wanted last is copied to the host, and comes back for its next
    /// group: so those that were submitted together may use more than the device has, as long as each fits.
    Evictable,
}

/// Who looks for room, memory by memory.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    of: Mutex<HashMap<MemoryId, Line>>,
}

/// Those that lack memory, but the one whose turn it is: there is a line as long as there is one.
type Line = Vec<(RootId, Arc<Signal>)>;

/// The right to look for room in a memory. When it ends, the most urgent of the others has it.
struct MyTurn<'a> {
    inner: &'a Arc<Inner>,
    memory: MemoryId,
}

/// What came of looking for room.
enum Found {
    /// There may be some.
    Room,
    /// Another lacks it more urgently.
    Another,
    Nothing,
}

impl Turns {
    /// Whether anybody looks for room in a memory.
    pub(super) fn are_taken(&self, memory: MemoryId) -> bool {
        lock(&self.of).contains_key(&memory)
    }

    /// Joins the line; says what to wait for until it is one's turn.
    fn join(&self, memory: MemoryId, root: RootId) -> Option<Arc<Signal>> {
        let mut of = lock(&self.of);
        let Some(line) = of.get_mut(&memory) else {
            of.insert(memory, Line::new());
            return None;
        };
        let signal = Arc::new(Signal::new(()));
        line.push((root, signal.clone()));
        Some(signal)
    }

    /// All in the line but its first.
    fn others(&self, memory: MemoryId) -> Vec<RootId> {
        let of = lock(&self.of);
        of.get(&memory).into_iter().flatten().map(|(root, _)| *root).collect()
    }

    /// Ends a turn; tells whom it goes to.
    fn pass_on(&self, memory: MemoryId, to: Option<RootId>) -> Option<Arc<Signal>> {
        let mut of = lock(&self.of);
        let line = of.get_mut(&memory)?;
        if line.is_empty() {
            of.remove(&memory);
            return None;
        }
        // Others may have come since it was found out who is next.
        let at = line.iter().position(|(root, _)| Some(*root) == to);
        Some(line.swap_remove(at.unwrap_or(0)).1)
    }
}

impl Drop for MyTurn<'_> {
    fn drop(&mut self) {
        let MyTurn { inner, memory } = *self;
        let others = inner.turns.others(memory);
        let next = inner
            .enter_without_native_calls(|state, _| state.engine.most_urgent(memory, others.iter().copied()));
        inner.turns.pass_on(memory, next).iter().for_each(|signal| tell(signal));
    }
}

impl Inner {
    /// Makes an allocation where that may block, and where there is no room for it waits until there is, or none will come.
    pub(super) async fn make_patiently(self: &Arc<Self>, wanted: &Wanted, made: Option<Made>) -> Made {
        // Room that others look for is theirs first: then it is tried when it is this one's turn.
        let is_late = wanted.owner.is_some() && made.is_none() && self.turns.are_taken(wanted.memory);
        let mut before = (!is_late).then(|| self.freed_so_far());
        let mut tried = match is_late {
            true => Err(BackendError::OutOfMemory { bytes: wanted.object.bytes() }),
            false => self.try_to_make(wanted, made).await,
        };
        if wanted.owner.is_none() && is_out_of_memory(&tried) {
            tried = self.make_once_freed(wanted, tried).await;
        }
        if !is_out_of_memory(&tried) || wanted.owner.is_none() {
            return tried;
        }
        self.counts_as_made(false);
        self.enter_without_native_calls(|state, _| self.lacks_room(wanted, state));
        // What was freed when it was tried to no avail.
        let mut rounds = before.map(|_| self.reaper.rounds());
        let mut stuck = Vec::new();
        loop {
            let turn = self.my_turn(wanted).await;
            match self.finds_room(wanted, before, rounds, &mut stuck).await {
                Found::Room => {}
                Found::Another => continue,
                Found::Nothing => break,
            }
            self.counts_as_made(true);
            before = Some(self.freed_so_far());
            tried = self.try_to_make(wanted, None).await;
            if !is_out_of_memory(&tried) {
                return tried;
            }
            self.counts_as_made(false);
            rounds = Some(self.reaper.rounds());
            drop(turn);
        }
        self.counts_as_made(true);
        tried
    }

    /// Host memory of which there was none. To the process's own nothing comes back that the system would not have given; to the
    /// program's allocator goes what is just being freed. That is gone when what is being dropped now is, and what has come meanwhile.
    async fn make_once_freed(self: &Arc<Self>, wanted: &Wanted, mut tried: Made) -> Made {
        const ROUNDS: usize = 2;
        if self.allocator_for(wanted.object.bytes()).is_none() {
            return tried;
        }
        for _ in 0..ROUNDS {
            let Some(freed) = self.reaper.under_way() else { break };
            Signalled::new(freed).await;
            tried = self.try_to_make(wanted, None).await;
            if !is_out_of_memory(&tried) {
                break;
            }
        }
        tried
    }

    /// There was no room for an allocation in a device's memory: groups behind may leave theirs to it.
    pub(super) fn lacks_room(&self, wanted: &Wanted, state: &mut State) {
        if wanted.owner.is_some() && self.residency == Residency::Evictable {
            state.engine.lacks_room(wanted.root, wanted.memory);
        }
    }

    async fn my_turn(self: &Arc<Self>, wanted: &Wanted) -> MyTurn<'_> {
        if let Some(signal) = self.turns.join(wanted.memory, wanted.root) {
            // The first may have to give its turn to this one.
            self.enter_without_native_calls(|state, _| state.look_again = true);
            Signalled::new(signal).await;
        }
        MyTurn { inner: self, memory: wanted.memory }
    }

    /// Whether an allocation is being made, or waits for room: others may wait for those that are being made, whose groups run then.
    fn counts_as_made(self: &Arc<Self>, is_made: bool) {
        self.enter_without_native_calls(|state, _| match is_made {
            true => state.making += 1,
            false => (state.making, state.look_again) = (state.making - 1, true),
        });
    }

    /// Changes when memory may have become free: how many nodes have settled, how often what they left was freed, and how often what
    /// counted as being made was not.
    fn freed_so_far(self: &Arc<Self>) -> (u64, u64, u64) {
        let settled = self.enter_without_native_calls(|state, _| state.counters.settled);
        (settled, self.reaper.rounds(), self.in_use.not_made())
    }

    async fn try_to_make(self: &Arc<Self>, wanted: &Wanted, made: Option<Made>) -> Made {
        let (off, lender) = (wanted.clone(), self.clone());
        self.off_thread(move || off.make_off_thread(made, &lender)).await
    }

    /// Waits until there may be more room than there was before, when it was last tried. Whatever wakes it makes it ask again, and not try
    /// again: to try is to have the driver trim, and is heard by those who look for room in other memories.
    async fn finds_room(
        self: &Arc<Self>,
        wanted: &Wanted,
        before: Option<(u64, u64, u64)>,
        rounds: Option<u64>,
        stuck: &mut Vec<RootId>,
    ) -> Found {
        let (memory, root) = (wanted.memory, wanted.root);
        loop {
            let others = self.turns.others(memory);
            let (is_wanted, first) = self.enter_without_native_calls(|state, _| {
                let all = others.iter().copied().chain([root]);
                (state.engine.is_wanted(root, memory), state.engine.most_urgent(memory, all))
            });
            if !is_wanted {
                return Found::Nothing;
            }
            if first.is_some_and(|first| first != root) {
                return Found::Another;
            }
            if let Some(freed) = self.reaper.under_way() {
                Signalled::new(freed).await;
                return Found::Room;
            }
            // What has been freed by now is taken before more is given up, which may have to be copied. Only what was freed since the last attempt
            // failed: where others free all the time it would be tried for ever.
            if Some(self.reaper.rounds()) != rounds {
                return Found::Room;
            }
            let is_evictable = self.residency == Residency::Evictable;
            if is_evictable && self.evict_idle(memory, wanted.object.bytes(), stuck).await {
                return Found::Room;
            }
            if Some(self.freed_so_far()) != before {
                return Found::Room;
            }
            let (is_freed, ended) = self.enter(|state, turn| {
                let room = if is_evictable { state.make_room(memory, root, turn) } else { Room::None };
                (room == Room::Freed, state.starve(memory, room != Room::None))
            });
            match ended {
                _ if is_freed => return Found::Room,
                // Who has joined the line meanwhile has found nobody to wake.
                Some(_) if self.turns.others(memory) != others => {}
                Some(ended) => Signalled::new(ended).await,
                // What was let go of since the first question is not lost sight of.
                None if Some(self.freed_so_far()) != before || self.reaper.under_way().is_some() => {
                    return Found::Room;
                }
                None => return Found::Nothing,
            }
        }
    }

    /// Gives up so many bytes of what nobody uses, if there are as many; says whether it has given up any. What the host had no memory for
    /// is not tried again: each attempt is a node that ends, which counts as news, and it would be tried for ever.
    async fn evict_idle(self: &Arc<Self>, memory: MemoryId, bytes: usize, stuck: &mut Vec<RootId>) -> bool {
        let mut freed = 0;
        for Idle { root, bytes: has, is_clean } in self.enter(|state, _| state.engine.idle_in(memory)) {
            if freed >= bytes {
                break;
            }
            if stuck.contains(&root) {
                continue;
            }
            // Held until the memory has gone: what comes to the host stays current there.
            let home = match is_clean {
                true => None,
                false => self.bring_home(root).await.transpose().unwrap_or_else(|_| {
                    stuck.push(root);
                    None
                }),
            };
            let gone = self.enter(|state, turn| state.evict(root, memory, turn));
            drop(home);
            freed += if gone { has.max(1) } else { 0 };
        }
        freed > 0
    }

    /// Brings all of a root to the heap, and holds it there, or says why that is not to be had. None if somebody uses the root by now, in
    /// whatever memory: to wait for that one might be to wait for who waits for this room.
    async fn bring_home(self: &Arc<Self>, root: RootId) -> Option<Result<Home>> {
        let guard = Arc::new(GuardCell::new(Location::caller()));
        self.enter(|state, turn| {
            let (bounds, ..) = state.engine.shape(root).filter(|_| state.engine.is_unused(root))?;
            let (guard, spare) = (guard.clone(), None);
            let coming =
                Coming { guard, root, bounds, mode: Mode::Read, in_heap: true, behind_readers: true, spare };
            state.plan_accessor(coming, turn);
            Some(())
        })?;
        let home = Home { inner: self.clone(), guard };
        let mut registration = Registration::default();
        let granted = poll_fn(|cx| home.guard.cell.poll_simply(&mut registration, cx)).await;
        Some(granted.map(|()| home))
    }
}

/// A root that is held in the heap.
struct Home {
    inner: Arc<Inner>,
    guard: Arc<GuardCell>,
}

impl Drop for Home {
    fn drop(&mut self) {
        // Before the node: the engine's reference is to be the last.
        self.guard.refuse_memory(&self.inner);
        self.inner.end_accessor(&self.guard);
    }
}

impl State {
    /// Gives up a root's memory on a device, if nobody counts on it.
    pub(crate) fn evict(&mut self, root: RootId, memory: MemoryId, turn: &mut Turn<Windlass>) -> bool {
        let gone = self.engine.evict(root, memory, turn);
        self.counters.evictions += u64::from(gone);
        gone
    }

    /// Empties memory for a root that lacks some, though others count on what is there.
    fn make_room(&mut self, memory: MemoryId, root: RootId, turn: &mut Turn<Windlass>) -> Room {
        let room = self.engine.make_room(memory, root, turn);
        self.counters.evictions += u64::from(matches!(room, Room::Begun | Room::Freed));
        room
    }

    /// An allocation has been made, or will not be.
    pub(super) fn allocated(
        &mut self,
        wanted: &Wanted,
        made: std::result::Result<Arc<dyn Allocation>, Cause>,
        turn: &mut Turn<Windlass>,
    ) {
        (self.making, self.look_again) = (self.making - 1, true);
        if wanted.may_hold_others() {
            self.engine.holds_others(wanted.root);
        }
        match wanted.pinned_by() {
            Some(by) => {
                let is_pinned = made.as_ref().is_ok_and(is_pinned);
                self.engine.pinned(wanted.root, by, made, is_pinned, turn);
            }
            None => self.engine.allocated(wanted.root, wanted.memory, made, turn),
        }
    }

    /// Completes when anything has ended; none if nothing that uses the memory is under way, and none of it will be emptied. A group
    /// whose kernel is being built, or whose memory is being made, will be under way, or will fail.
    fn starve(&mut self, memory: MemoryId, is_promised: bool) -> Option<Arc<Signal>> {
        (is_promised || self.engine.is_busy(memory) || self.building > 0 || self.making > 0).then(|| {
            let signal = Arc::new(Signal::new(()));
            self.starved.push(signal.clone());
            // Memory is also freed without the end of anything: when a buffer goes that nobody uses.
            self.reaper.tell_too(signal.clone());
            signal
        })
    }
}
