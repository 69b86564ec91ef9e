//! What a turn of the lock leaves to be done once it is free.

use std::cell::Cell;
use std::hint::cold_path;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_sync::facade::thread_local;

use super::feed::{Batch, MAX_FED_AT_ONCE, arm_one};
use super::memory::{Remains, Wanted};
use super::waking::{Woken, catch_foreign};
use super::work::Work;
use super::{Commands, Inner, LaneShell, Message, Signal, State, Windlass, sink};
use crate::error::Cause;
use windlass_engine::{Fed, LaneId, NodeId, ProxyId, Staged, Turn};

/// Whether a thread makes the native calls that a turn asks for, or leaves them to the executor: a driver's callback has to,
/// and so has whatever a program may do in a `poll` or a `drop`, where nobody expects up to [`MAX_FED_AT_ONCE`] calls into a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NativeCalls {
    Here,
    Elsewhere,
}

/// The engine's turn, and what the shell's own tables add to it.
#[derive(Debug)]
pub(crate) struct Effects {
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
    /// Nothing is under way any more: what kept the runtime until then, to be dropped.
    pub(super) idle: Option<Arc<Inner>>,
    /// Work of nodes that have ended, to be dropped.
    pub(super) over: Vec<Work>,
    /// Commands that never ran, to be dropped.
    pub(super) unused: Vec<Commands>,
    /// Lanes of contexts to be closed.
    pub(super) closed: Vec<Arc<LaneShell>>,
    /// Allocations to be made, with who makes them.
    pub(super) allocate: Vec<Wanted>,
    pub(super) proxies: Vec<(ProxyId, Arc<Signal>)>,
    pub(super) staged: Vec<(Staged, Arc<Signal>, Arc<Signal>)>,
    /// Native calls are not made here: this is a driver's callback, or a program's `poll` or `drop`.
    pub(super) native_elsewhere: bool,
    /// Something is to be done beside feeding and arming lanes.
    pub(super) more_than_native: bool,
}

impl Default for Effects {
    fn default() -> Self {
        Effects {
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
            idle: None,
            over: Vec::new(),
            unused: Vec::new(),
            closed: Vec::new(),
            allocate: Vec::new(),
            proxies: Vec::new(),
            staged: Vec::new(),
            native_elsewhere: false,
            more_than_native: false,
        }
    }
}

impl Inner {
    /// Calls the engine, then does what it asks for.
    pub(crate) fn enter<R>(self: &Arc<Self>, work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R) -> R {
        self.enter_with(NativeCalls::Here, work)
    }

    /// [`Inner::enter`] for what a program's threads do in a `poll` or a `drop`: native calls are left to the executor.
    pub(crate) fn enter_without_native_calls<R>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R,
    ) -> R {
        self.enter_with(NativeCalls::Elsewhere, work)
    }

    pub(crate) fn enter_with<R>(
        self: &Arc<Self>,
        calls: NativeCalls,
        work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R,
    ) -> R {
        Effects::with(calls, |effects| {
            let result = self.with_state(effects, work);
            self.perform(effects);
            result
        })
    }

    pub(crate) fn with_state<R>(
        self: &Arc<Self>,
        effects: &mut Effects,
        work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R,
    ) -> R {
        self.state.with(effects, |state, effects| {
            let result = work(state, &mut effects.turn);
            if state.alive.is_none() && state.engine.live_nodes() > 0 {
                state.alive = Some(self.clone());
            }
            state.collect(effects);
            result
        })
    }

    /// Does what turns of the lock have left to do until there is nothing more. Whoever wakes comes last: wakers are foreign code, and
    /// this thread holds nothing when it runs them.
    pub(crate) fn perform(self: &Arc<Self>, effects: &mut Effects) {
        loop {
            if std::mem::take(&mut effects.more_than_native) {
                self.perform_rest(effects);
            }
            if !effects.arm.is_empty() {
                self.arm(effects);
            }
            match effects.lane.take() {
                Some(lane) => self.feed(&lane, effects),
                None if !effects.more.is_empty() => {
                    cold_path();
                    let more = std::mem::take(&mut effects.more);
                    self.with_state(effects, |_, turn| turn.ready_lanes.extend(more));
                }
                None if effects.arm.is_empty() && !effects.more_than_native => break,
                None => {}
            }
        }
        if !effects.over.is_empty() || !effects.woken.is_empty() || !effects.turn.causes.is_empty() {
            Self::let_go(effects);
        }
        // The caller has the runtime still.
        drop(effects.idle.take());
    }

    /// Wakes, and drops what has ended. What user code left in a group (a closure's captures, an error, the last handle of an
    /// event) is foreign code as well.
    fn let_go(effects: &mut Effects) {
        if !effects.woken.is_empty() {
            effects.woken.wake();
        }
        if !effects.unused.is_empty() {
            cold_path();
            for commands in effects.unused.drain(..) {
                commands.into_iter().for_each(|command| catch_foreign(|| drop(command)));
            }
        }
        for work in effects.over.drain(..) {
            catch_foreign(|| drop(work));
        }
        if !effects.turn.causes.is_empty() {
            cold_path();
            for cause in effects.turn.causes.drain(..) {
                catch_foreign(|| drop(cause));
            }
        }
    }

    /// What is rarely asked for.
    #[cold]
    fn perform_rest(self: &Arc<Self>, effects: &mut Effects) {
        for signal in effects.signals.drain(..) {
            effects.woken.cells.extend(signal.complete(()));
        }
        self.start_futures(effects);
        for wanted in std::mem::take(&mut effects.allocate) {
            self.allocate(wanted, effects);
        }
        for node in std::mem::take(&mut effects.turn.start) {
            self.start_host_side(node, effects);
        }
        self.free_all(std::mem::take(&mut effects.turn.freed));
        if !effects.closed.is_empty() {
            self.reaper.defer_drop(Remains::Lanes(std::mem::take(&mut effects.closed)), self);
        }
    }

    fn start_futures(self: &Arc<Self>, effects: &mut Effects) {
        for (proxy, signal) in effects.proxies.drain(..) {
            self.spawn_proxy(proxy, signal);
        }
        for (staged, down, up) in effects.staged.drain(..) {
            self.spawn_staged(staged, down, up);
        }
        if !effects.elsewhere.is_empty() || effects.native_elsewhere && !effects.arm.is_empty() {
            let lanes = std::mem::take(&mut effects.elsewhere);
            let arm = std::mem::take(&mut effects.arm);
            self.feed_elsewhere(lanes, arm);
        }
    }

    #[inline(never)]
    fn arm(self: &Arc<Self>, effects: &mut Effects) {
        let mut dead = Vec::new();
        for (lane, point) in effects.arm.drain(..) {
            dead.extend(arm_one(&lane, point).map(|cause| (lane.id, cause)));
        }
        for (lane, cause) in dead {
            self.with_state(effects, |state, turn| state.lose_lane(lane, cause, turn));
        }
        // A point that had passed already was reported on the spot, as a message that nobody else knows of.
        if sink::left_messages() {
            self.with_state(effects, |_, _| {});
        }
    }

    /// Leaves word that somebody waits for a node, without taking the lock.
    pub(crate) fn want(&self, node: NodeId) {
        self.state.leave(Message::Want(node));
        self.drainer.call(&self.gates);
    }
}

/// Lists that have grown beyond this many bytes are not kept: every thread has some.
const MAX_SPARE_BYTES: usize = 768;

fn shrink<T>(list: &mut Vec<T>) {
    if list.capacity() * size_of::<T>() > MAX_SPARE_BYTES {
        drop_list(list);
    }
}

#[cold]
fn drop_list<T>(list: &mut Vec<T>) {
    *list = Vec::new();
}

thread_local! {
    /// A thread's effects between two turns: empty lists that keep their room.
    static SPARE: Cell<Option<Box<Effects>>> = const { Cell::new(None) };
    /// This thread is where native calls are not allowed, and may come back to the engine from foreign code there.
    static NOTHING_NATIVE: Cell<bool> = const { Cell::new(false) };
}

/// Ends what a callback or a `poll` has begun: that no native call is made on this thread.
struct Restore {
    before: bool,
    now: bool,
}

impl Restore {
    fn with(calls: NativeCalls) -> Self {
        let before = NOTHING_NATIVE.try_with(Cell::get).unwrap_or(false);
        let now = before || calls == NativeCalls::Elsewhere;
        let _ = NOTHING_NATIVE.try_with(|inside| inside.set(now));
        Restore { before, now }
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = NOTHING_NATIVE.try_with(|inside| inside.set(self.before));
    }
}

/// A thread's effects in use.
pub(crate) struct Scratch {
    effects: Option<Box<Effects>>,
    _restore: Restore,
}

impl Deref for Scratch {
    type Target = Effects;
    fn deref(&self) -> &Effects {
        self.effects.as_ref().unwrap_or_else(|| unreachable!("they are given back when this is dropped"))
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Effects {
        self.effects.as_mut().unwrap_or_else(|| unreachable!("they are given back when this is dropped"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let Some(mut effects) = self.effects.take().filter(|_| !std::thread::panicking()) else { return };
        effects.shrink();
        let _ = SPARE.try_with(|spare| spare.set(Some(effects)));
    }
}

impl Effects {
    /// [`Effects::scratch`] for the length of a call.
    pub(crate) fn with<R>(calls: NativeCalls, work: impl FnOnce(&mut Effects) -> R) -> R {
        work(&mut Effects::scratch(calls))
    }

    /// Lends this thread's effects for some turns. Who comes back here from inside, by foreign code that was run here, gets
    /// others.
    #[inline]
    pub(crate) fn scratch(calls: NativeCalls) -> Scratch {
        let restore = Restore::with(calls);
        let mut effects = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        effects.native_elsewhere = restore.now;
        effects.share = 0;
        Scratch { effects: Some(effects), _restore: restore }
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
        self.share >= MAX_FED_AT_ONCE
    }
}

#[cfg(test)]
mod tests {
    use super::{Effects, NativeCalls};

    /// What a callback drops or wakes may come back to the engine, and no native call is made there either. Seen to fail
    /// with `native_elsewhere` taken from the argument alone.
    #[test]
    fn who_comes_back_from_inside_a_callback_makes_no_native_call() {
        Effects::with(NativeCalls::Elsewhere, |outer| {
            assert!(outer.native_elsewhere);
            Effects::with(NativeCalls::Here, |inner| assert!(inner.native_elsewhere));
        });
        Effects::with(NativeCalls::Here, |after| assert!(!after.native_elsewhere));
    }
}
