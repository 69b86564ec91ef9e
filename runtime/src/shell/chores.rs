//! What a turn at the desk leaves to be done once nobody sits there any more.

use std::cell::Cell;
use std::hint::cold_path;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_sync::facade::thread_local;

use super::feed::{Batch, SHARE, arm_one};
use super::memory::Dead;
use super::waking::{Woken, shielded};
use super::work::Work;
use super::{Inner, LaneShell, Load, Mail, MemoryShell, Signal, State, Windlass, sink};
use crate::error::Cause;
use windlass_engine::{Fed, LaneId, MemoryId, NodeId, ProxyId, RootId, Staged, Turn};

/// The engine's turn, and what the desk's own tables add to it.
#[derive(Debug)]
pub(crate) struct Chores {
    pub(super) turn: Turn<Windlass>,
    /// The lane whose feed token this thread has been given, with the groups that were popped from it.
    pub(super) lane: Option<Arc<LaneShell>>,
    pub(super) batch: Batch,
    /// The native calls that were made since the last turn.
    pub(super) fed: Vec<Fed<Cause>>,
    /// This thread is feeding a lane, and takes no other.
    pub(super) is_feeding: bool,
    /// How many groups this thread has fed since it came.
    pub(super) share: usize,
    /// Lanes that this thread looks at when it is through with that one.
    pub(super) more: SmallVec<[LaneId; 2]>,
    /// Lanes to be fed, and points to be armed, by somebody who may make native calls.
    pub(super) elsewhere: Vec<LaneId>,
    pub(super) arm: SmallVec<[(Arc<LaneShell>, u64); 1]>,
    pub(super) signals: Vec<Arc<Signal>>,
    pub(super) woken: Woken,
    /// Work of nodes that have ended, to be dropped.
    pub(super) over: Vec<Work>,
    /// Commands that never ran, to be dropped.
    pub(super) unused: Vec<Load>,
    /// Lanes of contexts to be closed.
    pub(super) closed: Vec<Arc<LaneShell>>,
    /// Allocations to be made, with who makes them.
    pub(super) allocate: Vec<(RootId, MemoryId, usize, Option<MemoryShell>)>,
    pub(super) proxies: Vec<(ProxyId, Arc<Signal>)>,
    pub(super) staged: Vec<(Staged, Arc<Signal>, Arc<Signal>)>,
    /// Native calls are not allowed here: this is a driver's callback, or a `poll`.
    pub(super) in_callback: bool,
    /// Something is to be done beside feeding and arming lanes.
    pub(super) more_than_native: bool,
}

impl Default for Chores {
    fn default() -> Self {
        Chores {
            turn: Turn::new(),
            lane: None,
            batch: Batch::default(),
            fed: Vec::new(),
            is_feeding: false,
            share: 0,
            more: SmallVec::new(),
            elsewhere: Vec::new(),
            arm: SmallVec::new(),
            signals: Vec::new(),
            woken: Woken::default(),
            over: Vec::new(),
            unused: Vec::new(),
            closed: Vec::new(),
            allocate: Vec::new(),
            proxies: Vec::new(),
            staged: Vec::new(),
            in_callback: false,
            more_than_native: false,
        }
    }
}

impl Inner {
    /// Calls the engine, then does what it asks for.
    pub(crate) fn enter<R>(self: &Arc<Self>, work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R) -> R {
        Chores::with(false, |chores| {
            let result = self.sit(chores, work);
            self.perform(chores);
            result
        })
    }

    /// [`Inner::enter`] for a `poll`: native calls are left to the executor.
    pub(crate) fn enter_from_poll<R>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R,
    ) -> R {
        Chores::with(true, |chores| {
            let result = self.sit(chores, work);
            self.perform(chores);
            result
        })
    }

    pub(crate) fn sit<R>(
        self: &Arc<Self>,
        chores: &mut Chores,
        work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R,
    ) -> R {
        self.desk.sit(chores, |state, chores| {
            let result = work(state, &mut chores.turn);
            state.file(chores);
            result
        })
    }

    /// Does the chores of turns at the desk until none is left. Whoever wakes comes last: wakers are foreign code, and
    /// this thread holds nothing when it runs them.
    pub(crate) fn perform(self: &Arc<Self>, chores: &mut Chores) {
        loop {
            if std::mem::take(&mut chores.more_than_native) {
                self.perform_rest(chores);
            }
            if !chores.arm.is_empty() {
                self.arm(chores);
            }
            match chores.lane.take() {
                Some(lane) => self.feed(&lane, chores),
                None if !chores.more.is_empty() => {
                    cold_path();
                    let more = std::mem::take(&mut chores.more);
                    self.sit(chores, |_, turn| turn.ready_lanes.extend(more));
                }
                None if chores.arm.is_empty() && !chores.more_than_native => break,
                None => {}
            }
        }
        if !chores.over.is_empty() || !chores.woken.is_empty() || !chores.turn.causes.is_empty() {
            Self::let_go(chores);
        }
    }

    /// Wakes, and drops what has ended. What user code left in a group (a closure's captures, an error, the last handle of an
    /// event) is foreign code as well.
    fn let_go(chores: &mut Chores) {
        if !chores.woken.is_empty() {
            chores.woken.wake();
        }
        if !chores.unused.is_empty() {
            cold_path();
            for load in chores.unused.drain(..) {
                load.into_iter().for_each(|command| shielded(|| drop(command)));
            }
        }
        for work in chores.over.drain(..) {
            shielded(|| drop(work));
        }
        if !chores.turn.causes.is_empty() {
            cold_path();
            for cause in chores.turn.causes.drain(..) {
                shielded(|| drop(cause));
            }
        }
    }

    /// What is rarely asked for.
    #[cold]
    fn perform_rest(self: &Arc<Self>, chores: &mut Chores) {
        for signal in chores.signals.drain(..) {
            chores.woken.cells.extend(signal.complete(()));
        }
        self.start_futures(chores);
        for (root, memory, bytes, owner) in std::mem::take(&mut chores.allocate) {
            self.allocate(root, memory, bytes, owner, chores);
        }
        for node in std::mem::take(&mut chores.turn.start) {
            self.start_host_side(node, chores);
        }
        self.free_all(std::mem::take(&mut chores.turn.freed));
        if !chores.closed.is_empty() {
            self.reaper.bury(Dead::Lanes(std::mem::take(&mut chores.closed)), self);
        }
    }

    fn start_futures(self: &Arc<Self>, chores: &mut Chores) {
        for (proxy, signal) in chores.proxies.drain(..) {
            self.spawn_proxy(proxy, signal);
        }
        for (staged, down, up) in chores.staged.drain(..) {
            self.spawn_staged(staged, down, up);
        }
        if !chores.elsewhere.is_empty() || chores.in_callback && !chores.arm.is_empty() {
            let lanes = std::mem::take(&mut chores.elsewhere);
            let arm = std::mem::take(&mut chores.arm);
            self.feed_elsewhere(lanes, arm);
        }
    }

    #[inline(never)]
    fn arm(self: &Arc<Self>, chores: &mut Chores) {
        let mut dead = Vec::new();
        for (lane, point) in chores.arm.drain(..) {
            dead.extend(arm_one(&lane, point).map(|cause| (lane.id, cause)));
        }
        for (lane, cause) in dead {
            self.sit(chores, |state, turn| state.lose_lane(lane, cause, turn));
        }
        // A point that had passed already was reported on the spot, as mail that nobody else knows of.
        if sink::left_mail() {
            self.sit(chores, |_, _| {});
        }
    }

    /// Tells the desk that somebody waits for a node, without sitting down there.
    pub(crate) fn want(&self, node: NodeId) {
        self.desk.leave(Mail::Want(node));
        self.mailman.call(&self.gates);
    }
}

/// Lists that have grown beyond this many bytes are not kept: every thread has some.
const KEPT: usize = 768;

fn shrink<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() > KEPT {
        drop_list(list);
    }
}

#[cold]
fn drop_list<T>(list: &mut Vec<T>) {
    *list = Vec::new();
}

thread_local! {
    /// A thread's chores between two turns: empty lists that keep their room.
    static SPARE: Cell<Option<Box<Chores>>> = const { Cell::new(None) };
    /// This thread is where native calls are not allowed, and may come back to the desk from foreign code there.
    static NOTHING_NATIVE: Cell<bool> = const { Cell::new(false) };
}

/// Ends what a callback or a `poll` has begun: that no native call is made on this thread.
struct Restore {
    before: bool,
    now: bool,
}

impl Restore {
    fn with(in_callback: bool) -> Self {
        let before = NOTHING_NATIVE.try_with(Cell::get).unwrap_or(false);
        let now = before || in_callback;
        let _ = NOTHING_NATIVE.try_with(|inside| inside.set(now));
        Restore { before, now }
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = NOTHING_NATIVE.try_with(|inside| inside.set(self.before));
    }
}

/// A thread's chores in use.
pub(crate) struct Lent {
    chores: Option<Box<Chores>>,
    _restore: Restore,
}

impl Deref for Lent {
    type Target = Chores;
    fn deref(&self) -> &Chores {
        self.chores.as_ref().unwrap_or_else(|| unreachable!("they are given back when this is dropped"))
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Chores {
        self.chores.as_mut().unwrap_or_else(|| unreachable!("they are given back when this is dropped"))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(mut chores) = self.chores.take().filter(|_| !std::thread::panicking()) else { return };
        chores.shrink();
        let _ = SPARE.try_with(|spare| spare.set(Some(chores)));
    }
}

impl Chores {
    /// [`Chores::lend`] for the length of a call.
    pub(crate) fn with<R>(in_callback: bool, work: impl FnOnce(&mut Chores) -> R) -> R {
        work(&mut Chores::lend(in_callback))
    }

    /// Lends this thread's chores for some turns. Who comes back here from inside, by foreign code that a chore ran, gets
    /// others.
    #[inline]
    pub(crate) fn lend(in_callback: bool) -> Lent {
        let restore = Restore::with(in_callback);
        let mut chores = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        chores.in_callback = restore.now;
        chores.share = 0;
        Lent { chores: Some(chores), _restore: restore }
    }

    fn shrink(&mut self) {
        shrink(&mut self.turn.settled);
        shrink(&mut self.turn.causes);
        self.batch.shrink();
        shrink(&mut self.fed);
        shrink(&mut self.over);
        shrink(&mut self.unused);
        shrink(&mut self.woken.cells);
        shrink(&mut self.woken.single);
    }

    /// This thread has done enough for others: whatever more is to be fed is left to the executor, also where verdicts that
    /// come in meanwhile make room.
    pub(super) fn has_done_its_share(&self) -> bool {
        self.share >= SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::Chores;

    /// What a callback drops or wakes may come back to the desk, and no native call is made there either. Seen to fail
    /// with `in_callback` taken from the argument alone.
    #[test]
    fn who_comes_back_from_inside_a_callback_makes_no_native_call() {
        Chores::with(true, |outer| {
            assert!(outer.in_callback);
            Chores::with(false, |inner| assert!(inner.in_callback));
        });
        Chores::with(false, |after| assert!(!after.in_callback));
    }
}
