//! What a turn of the lock leaves to be done once it is free.

use std::cell::Cell;
use std::hint::cold_path;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_sync::facade::thread_local;

use super::feed::{Arm, Batch, MAX_FED_AT_ONCE};
use super::memory::{Remains, Wanted};
use super::submission::Submission;
use super::tracer::Ended;
use super::waking::{Woken, catch_foreign};
use super::work::Work;
use super::{Commands, Inner, LaneShell, Message, Signal, State, Windlass, sink};
use crate::error::Cause;
use windlass_engine::{Fed, LaneId, NodeId, ProxyId, Staged, Turn};

/// Whether a thread makes the native calls that a turn asks for, or leaves them to the executor. A driver's
/// callback has to leave them, and so has anything that a program may do in a `poll` or a `drop`: up to
/// [`MAX_FED_AT_ONCE`] calls into a driver are not expected there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NativeCalls {
    Here,
    /// The same, but while a device has enough to do, its lanes may be left to others where its context is
    /// [fed aside](windlass_backend::ContextInfo::fed_aside): in a submission.
    OrAside,
    /// At most [`FEW`] groups are fed: in a `poll` that asks for a copy, which is a submission, and then
    /// [looks](super::look) whether it has been made.
    Few,
    /// None, but for a few on lanes that may be [fed anywhere](windlass_backend::ContextInfo::fed_anywhere).
    Elsewhere,
}

/// A copy, and what may have to be done before it.
const FEW: usize = 2;

/// How many groups a thread feeds in a `poll`, a `drop` or a callback where lanes may be [fed
/// anywhere](windlass_backend::ContextInfo::fed_anywhere): as many as take about as long as to wake another thread for them.
const FEW_ANYWHERE: usize = 8;

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
    /// How many groups this thread has fed since it came, and how many it was not to feed.
    pub(super) share: usize,
    /// Lanes to look at once that one is done.
    pub(super) more: SmallVec<[LaneId; 2]>,
    /// Lanes for the executor to feed.
    pub(super) elsewhere: Vec<LaneId>,
    /// Points to be armed.
    pub(super) arm: SmallVec<[Arm; 1]>,
    /// Those to be armed by the executor.
    pub(super) arm_elsewhere: Vec<Arm>,
    pub(super) signals: Vec<Arc<Signal>>,
    /// Signals that come when memory that was let go of is on its way to be freed.
    pub(super) starved: Vec<Arc<Signal>>,
    /// How many turns have let go of devices' memory since that was given to the reaper.
    pub(super) freeing: usize,
    pub(super) woken: Woken,
    /// What kept the runtime alive while anything was under way, to be dropped now that nothing is.
    pub(super) idle: Option<Arc<Inner>>,
    /// Work of nodes that have ended, to be dropped.
    pub(super) over: Vec<Work>,
    /// What was traced and has ended, for those who may not be told of it under the lock.
    pub(super) traced: Vec<Ended>,
    /// What groups that came by a message kept until they were planned, to be dropped.
    pub(super) taken_in: Vec<Submission>,
    /// Commands that never ran, to be dropped.
    pub(super) unused: Vec<Commands>,
    /// Lanes of contexts to be closed.
    pub(super) closed: Vec<Arc<LaneShell>>,
    /// Lanes to be closed whose contexts go on.
    pub(super) lanes_closed: Vec<Arc<LaneShell>>,
    /// Allocations to be made, each with its maker.
    pub(super) allocate: Vec<Wanted>,
    pub(super) proxies: Vec<(ProxyId, Arc<Signal>)>,
    pub(super) staged: Vec<(Staged, Arc<Signal>, Arc<Signal>)>,
    /// Lanes may be left to others, as [`NativeCalls::OrAside`] says.
    pub(super) or_aside: bool,
    /// No driver is called here: this is a driver's callback, or a program's `poll` or `drop`.
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
            arm_elsewhere: Vec::new(),
            signals: Vec::new(),
            starved: Vec::new(),
            freeing: 0,
            woken: Woken::default(),
            idle: None,
            over: Vec::new(),
            traced: Vec::new(),
            taken_in: Vec::new(),
            unused: Vec::new(),
            closed: Vec::new(),
            lanes_closed: Vec::new(),
            allocate: Vec::new(),
            proxies: Vec::new(),
            staged: Vec::new(),
            or_aside: false,
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

    /// [`Inner::enter`] for what a program's threads do in a `poll` or a `drop`: native calls are left to the
    /// executor.
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

    /// Leaves a message, and works off what there is if nobody has the lock: for what needs no answer. Else whoever has the lock does,
    /// with the engine's state in its caches already.
    pub(crate) fn post(self: &Arc<Self>, calls: NativeCalls, message: Message) {
        Effects::with(calls, |effects| {
            self.state.post(message, effects);
            self.perform(effects);
        });
    }

    pub(crate) fn with_state<R>(
        self: &Arc<Self>,
        effects: &mut Effects,
        work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R,
    ) -> R {
        self.state.with(effects, |state, effects| self.at_work(state, effects, work))
    }

    /// The same if nobody has the lock.
    pub(crate) fn try_with_state<R, F: FnOnce(&mut State, &mut Turn<Windlass>) -> R>(
        self: &Arc<Self>,
        effects: &mut Effects,
        work: F,
    ) -> Result<R, F> {
        let mut work = Some(work);
        let turn = |state: &mut State, effects: &mut Effects| {
            work.take().map(|work| self.at_work(state, effects, work))
        };
        let done = self.state.try_with(effects, turn).ok().flatten();
        match (done, work) {
            (Some(result), _) => Ok(result),
            (None, Some(work)) => Err(work),
            (None, None) => unreachable!("it is taken where it is done"),
        }
    }

    #[inline(always)]
    fn at_work<R>(
        self: &Arc<Self>,
        state: &mut State,
        effects: &mut Effects,
        work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R,
    ) -> R {
        let result = work(state, &mut effects.turn);
        // Messages that plan anything do the same.
        state.stay_alive(self);
        // In the same turn of the lock: what has settled must have its event resolved before another thread
        // can find the node gone.
        state.collect(effects);
        result
    }

    /// Does what turns of the lock have left to do until there is nothing more. Wakers come last: they are foreign
    /// code, and this thread holds nothing, neither the lock nor a lane's token, when it runs them.
    pub(crate) fn perform(self: &Arc<Self>, effects: &mut Effects) {
        // Most of these steps take the lock again, and any such turn may add to any of the lists, since it works
        // off the messages of other threads too. So this goes round until it finds all of them empty.
        loop {
            if std::mem::take(&mut effects.more_than_native) {
                self.perform_rest(effects);
            }
            if !effects.arm.is_empty() {
                self.arm(effects);
            }
            match effects.lane.take() {
                // `collect_lanes` has taken the token for this thread. No other thread feeds the lane before it is
                // given back, so from here on there must be no way past `feed`.
                Some(lane) => self.feed(&lane, effects),
                None if !effects.more.is_empty() => {
                    cold_path();
                    // Noted while this thread was busy with another lane. That may be long ago: another thread may
                    // have the token by now, or have emptied the list, so `collect_lanes` is asked again.
                    let more = std::mem::take(&mut effects.more);
                    self.state.post(Message::Ready(more), effects);
                }
                None if effects.arm.is_empty() && !effects.more_than_native => break,
                // A loss while arming, or a step of `perform_rest`, has left more to do.
                None => {}
            }
        }
        // `unused` and `traced` need no look: their entries come with an entry of `over` or of `taken_in` each.
        if !effects.over.is_empty()
            || !effects.taken_in.is_empty()
            || !effects.woken.is_empty()
            || !effects.turn.causes.is_empty()
        {
            self.let_go(effects);
        }
        // Never the last reference: the caller has one, so the runtime does not end in the middle of its own
        // method.
        drop(effects.idle.take());
    }

    /// Wakes, and drops what has ended. To drop what a group has of the user's (a closure's captures, an error,
    /// the last handle of an event) runs foreign code as well.
    fn let_go(&self, effects: &mut Effects) {
        if !effects.traced.is_empty() {
            self.tell_ended(effects);
        }
        // Before the destructors: one of those may take its time, and none of the waiters depends on it.
        if !effects.woken.is_empty() {
            effects.woken.wake();
        }
        // Handles of buffers, which leave a message if they are the last, and of events, which may have errors of the user's.
        for taken_in in effects.taken_in.drain(..) {
            catch_foreign(|| drop(taken_in));
        }
        if !effects.unused.is_empty() {
            cold_path();
            // Each command on its own: if two destructors of one group panicked in one `drop`, the second would do
            // so while the first unwinds, and abort the process.
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
        // The lists are taken out whole, because what follows takes the lock again and may add to them. What is
        // added sets `more_than_native`, and `perform` comes back for it.
        for wanted in std::mem::take(&mut effects.allocate) {
            self.allocate(wanted, effects);
        }
        for node in std::mem::take(&mut effects.turn.start) {
            self.start_host_side(node, effects);
        }
        self.free_all(std::mem::take(&mut effects.turn.freed));
        if effects.freeing > 0 {
            self.reaper.has_come(std::mem::take(&mut effects.freeing));
        }
        for signal in effects.starved.drain(..) {
            effects.woken.cells.extend(signal.complete(()));
        }
        // Before contexts of the same turn. A context may be closed before the last reference to a lane of its has gone.
        if !effects.lanes_closed.is_empty() {
            let lanes = std::mem::take(&mut effects.lanes_closed);
            self.reaper.defer_drop(Remains::OwnLanes(lanes), self);
        }
        if !effects.closed.is_empty() {
            // To close a context may block. And another thread that has just given a token back may still have its
            // reference to the lane, for which only a thread that may block can wait.
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
        if !effects.elsewhere.is_empty() || !effects.arm_elsewhere.is_empty() {
            let lanes = std::mem::take(&mut effects.elsewhere);
            let arm = std::mem::take(&mut effects.arm_elsewhere);
            self.feed_elsewhere(lanes, arm);
        }
    }

    #[inline(never)]
    fn arm(self: &Arc<Self>, effects: &mut Effects) {
        let mut dead = Vec::new();
        for arm in effects.arm.drain(..) {
            dead.extend(arm.make().map(|cause| (arm.lane.id, cause)));
        }
        // Only after all points are armed: a turn of the lock may add to the list that was being drained.
        for (lane, cause) in dead {
            self.with_state(effects, |state, turn| state.lose_lane(lane, cause, turn));
        }
        // A point that had passed already was reported from inside the native call, where the sink does no more
        // than leave a message. No other thread has been told of it, so it might lie there until the next
        // submission.
        if sink::take_left_messages() {
            self.state.drain(effects);
        }
    }

    /// Leaves word that a node is waited for, without taking the lock.
    pub(crate) fn want(&self, node: NodeId) {
        // In this order: the drainer may run at once, and would find no message.
        self.state.leave(Message::Want(node));
        self.read_messages();
    }

    /// Sees to it that messages which a `poll` has left are read soon.
    pub(crate) fn read_messages(&self) {
        self.drainer.call(&self.gates);
    }
}

/// Lists that have grown beyond this many bytes are not kept, since every thread keeps a set of its own.
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
    /// Native calls are not allowed on this thread now. It is in a callback, a `poll` or a `drop`, and foreign
    /// code that it runs there may enter the engine again.
    static NOTHING_NATIVE: Cell<bool> = const { Cell::new(false) };
}

/// Puts [`NOTHING_NATIVE`] back at the end of a scope.
struct Restore {
    before: bool,
}

impl Restore {
    fn with(calls: NativeCalls) -> Self {
        // A handle may be dropped by a destructor of the thread's other locals, when this one is gone: hence
        // `try_with`.
        let before = NOTHING_NATIVE.try_with(Cell::get).unwrap_or(false);
        // An entry from within can forbid native calls, but not allow them again: a waker that a driver's callback
        // runs may submit, and would make a driver call from inside that driver's callback.
        let now = before || matches!(calls, NativeCalls::Few | NativeCalls::Elsewhere);
        let _ = NOTHING_NATIVE.try_with(|inside| inside.set(now));
        Restore { before }
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
        // Not after a panic, when the lists may be half worked off: the rest would turn up in the thread's next
        // entry.
        effects.shrink();
        // This may replace what a re-entrant call has left here, whose lists are as empty as these.
        let _ = SPARE.try_with(|spare| spare.set(Some(effects)));
    }
}

impl Effects {
    /// [`Effects::scratch`] for the length of a call.
    pub(crate) fn with<R>(calls: NativeCalls, work: impl FnOnce(&mut Effects) -> R) -> R {
        work(&mut Effects::scratch(calls))
    }

    /// Borrows the thread's scratch effects. A re-entrant call gets fresh ones.
    #[inline]
    pub(crate) fn scratch(calls: NativeCalls) -> Scratch {
        let restore = Restore::with(calls);
        // Taken out, not borrowed: wakers and destructors that `perform` runs may enter again, while these lists
        // are being drained.
        let mut effects = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        effects.native_elsewhere = restore.before || calls == NativeCalls::Elsewhere;
        effects.or_aside = calls == NativeCalls::OrAside;
        effects.share = match calls {
            _ if effects.native_elsewhere => MAX_FED_AT_ONCE - FEW_ANYWHERE,
            NativeCalls::Few => MAX_FED_AT_ONCE - FEW,
            NativeCalls::Here | NativeCalls::OrAside | NativeCalls::Elsewhere => 0,
        };
        Scratch { effects: Some(effects), _restore: restore }
    }

    fn shrink(&mut self) {
        shrink(&mut self.turn.settled);
        shrink(&mut self.turn.causes);
        self.batch.shrink();
        shrink(&mut self.fed);
        shrink(&mut self.over);
        shrink(&mut self.taken_in);
        shrink(&mut self.unused);
        shrink(&mut self.woken.cells);
        shrink(&mut self.woken.single);
    }

    /// This thread has done enough for others: what else there is to feed is left to the executor, even if
    /// verdicts make room meanwhile. Otherwise a submitter could be kept feeding for other threads for as long as
    /// those submit.
    pub(super) fn has_done_its_share(&self) -> bool {
        self.left_of_its_share() == 0
    }

    /// How many groups this thread may still feed.
    pub(super) fn left_of_its_share(&self) -> usize {
        MAX_FED_AT_ONCE.saturating_sub(self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::{Effects, NativeCalls};

    /// What a callback drops or wakes may come back to the engine, and no native call is made there either. Seen
    /// to fail with `native_elsewhere` taken from the argument alone.
    #[test]
    fn who_comes_back_from_inside_a_callback_makes_no_native_call() {
        Effects::with(NativeCalls::Elsewhere, |outer| {
            assert!(outer.native_elsewhere);
            for calls in [NativeCalls::Here, NativeCalls::OrAside, NativeCalls::Few] {
                Effects::with(calls, |inner| assert!(inner.native_elsewhere));
            }
        });
        Effects::with(NativeCalls::Few, |outer| {
            assert!(!outer.native_elsewhere);
            Effects::with(NativeCalls::Here, |inner| assert!(inner.native_elsewhere, "a waker in a poll"));
        });
        Effects::with(NativeCalls::Here, |after| assert!(!after.native_elsewhere));
    }
}
