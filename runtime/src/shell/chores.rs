//! What a turn at the desk leaves to be done once nobody sits there any more.

use std::cell::Cell;
use std::hint::cold_path;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;
use windlass_backend::Verdict;
use windlass_sync::cell::Wakers;
use windlass_sync::desk::Clerk;
use windlass_sync::facade::thread_local;

use super::feed::{SHARE, ToFeed, arm_one, panic_message};
use super::report::log;
use super::work::Work;
use super::{Inner, LaneShell, Load, Mail, Signal, State, Windlass, sink};
use crate::engine::{Fed, LaneId, NodeId, Outcome, ProxyId, Settled, Staged, Turn};
use crate::error::{Cause, Error, Kind};

/// The engine's turn, and what the desk's own tables add to it.
#[derive(Debug)]
pub(crate) struct Chores {
    pub(super) turn: Turn<Windlass>,
    /// The lane whose feed token this thread has been given, with the groups that were popped from it.
    pub(super) lane: Option<Arc<LaneShell>>,
    pub(super) batch: Vec<ToFeed>,
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
    over: Vec<Work>,
    /// Commands that never ran, to be dropped.
    unused: Vec<Load>,
    proxies: Vec<(ProxyId, Arc<Signal>)>,
    staged: Vec<(Staged, Arc<Signal>, Arc<Signal>)>,
    /// Native calls are not allowed here: this is a driver's callback, or a `poll`.
    pub(super) in_callback: bool,
    /// Something is to be done beside feeding and arming lanes.
    more_than_native: bool,
}

impl Default for Chores {
    fn default() -> Self {
        Chores {
            turn: Turn::new(),
            lane: None,
            batch: Vec::new(),
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
            proxies: Vec::new(),
            staged: Vec::new(),
            in_callback: false,
            more_than_native: false,
        }
    }
}

impl Clerk<State, Mail> for Chores {
    fn mail(&mut self, state: &mut State, message: Mail) {
        match message {
            Mail::Passed(lane, verdict) => state.passed(lane, verdict, &mut self.turn),
            Mail::Want(node) => state.engine.want(node, &mut self.turn),
        }
        state.file(self);
    }
}

impl State {
    fn passed(&mut self, lane: LaneId, verdict: Verdict, turn: &mut Turn<Windlass>) {
        // A verdict settles many: they go in a list that is kept for that.
        if turn.settled.is_empty() {
            std::mem::swap(&mut turn.settled, &mut self.room);
        }
        let mut lost = None;
        let failures: Vec<(u64, u64, Cause)> = verdict
            .failed
            .into_iter()
            .map(|f| {
                let cause = Cause(Error::backend(f.error.clone(), "running a group"));
                if f.error.is_lost() {
                    lost = Some(cause.clone());
                }
                (f.first.0, f.last.0, cause)
            })
            .collect();
        let failure = |point: u64| {
            let found = failures.iter().find(|(first, last, _)| (*first..=*last).contains(&point));
            found.map(|(_, _, cause)| cause.clone())
        };
        self.engine.passed(lane, verdict.upto.0, failure, turn);
        if let Some(cause) = lost {
            self.lose_lane(lane, cause, turn);
        }
    }

    /// A lane does nothing any more: its context counts as lost.
    pub(crate) fn lose_lane(&mut self, lane: LaneId, cause: Cause, turn: &mut Turn<Windlass>) {
        let context = self.engine.context_of(lane);
        self.engine.lose(context, cause, turn);
    }

    /// Turns ids into things, while the tables are at hand. Most turns ask for little: what is empty costs a look.
    #[inline]
    pub(super) fn file(&mut self, chores: &mut Chores) {
        if chores.turn.asks_for_more() {
            chores.more_than_native = true;
            self.file_links(chores);
        }
        if !chores.turn.settled.is_empty() {
            self.file_settled(chores);
        }
        if !chores.turn.ready_lanes.is_empty() {
            self.file_lanes(chores);
        }
        if !chores.turn.arm.is_empty() || !chores.turn.sentinels.is_empty() {
            self.file_points(chores);
        }
    }

    #[cold]
    fn file_links(&mut self, chores: &mut Chores) {
        let Chores { turn, .. } = chores;
        for proxy in turn.proxies.drain(..) {
            let signal = Arc::new(Signal::new(()));
            self.proxies.insert(proxy, signal.clone());
            chores.proxies.push((proxy, signal));
        }
        for proxy in turn.fired.drain(..) {
            chores.signals.extend(self.proxies.remove(&proxy));
        }
        for staged in turn.staged.drain(..) {
            let (down, up) = (Arc::new(Signal::new(())), Arc::new(Signal::new(())));
            self.steps.insert(staged.download, down.clone());
            self.steps.insert(staged.upload, up.clone());
            self.counters.staged += 1;
            self.counters.live_steps += 1;
            chores.staged.push((staged, down, up));
        }
    }

    /// Resolves events. Credits come back before, so that whoever finds an event resolved finds its credit free, and
    /// tides end after it, so that whoever finds a queue drained finds all its events resolved: both once for each run
    /// of groups of one queue.
    #[inline(never)]
    fn file_settled(&mut self, chores: &mut Chores) {
        let Chores { turn, woken, .. } = chores;
        if !self.steps.is_empty() {
            self.file_steps(turn, &mut chores.signals, &mut chores.more_than_native);
        }
        self.counters.settled += turn.settled.len() as u64;
        let queue = |work: &Work| work.event().map(|event| Arc::as_ptr(&event.queue));
        for run in turn.settled.chunk_by(|a, b| queue(&a.work) == queue(&b.work)) {
            if let Some(event) = run[0].work.event() {
                woken.single.extend(event.queue.credits.give(run.len() as i64));
            }
        }
        let before = chores.over.len();
        for settled in turn.settled.drain(..) {
            let (work, load) = resolve(settled, woken);
            chores.unused.extend(load);
            chores.over.push(work);
        }
        if turn.settled.capacity() > self.room.capacity() && turn.settled.capacity() <= ROOM {
            std::mem::swap(&mut turn.settled, &mut self.room);
        }
        let tide = |work: &Work| work.event().map(|event| (Arc::as_ptr(&event.queue), event.tide));
        for run in chores.over[before..].chunk_by(|a, b| tide(a) == tide(b)) {
            if let Some(event) = run[0].event() {
                woken.single.extend(event.queue.drain.end(event.tide, run.len() as u64));
            }
        }
    }

    /// Futures wait for the ends of these steps of transfers.
    #[cold]
    fn file_steps(&mut self, turn: &Turn<Windlass>, signals: &mut Vec<Arc<Signal>>, more: &mut bool) {
        for settled in turn.settled.iter().filter(|s| matches!(s.work, Work::Transfer(_))) {
            signals.extend(self.steps.remove(&settled.node));
        }
        *more |= !signals.is_empty();
    }

    #[inline(never)]
    fn file_lanes(&mut self, chores: &mut Chores) {
        for at in 0..chores.turn.ready_lanes.len() {
            let lane = chores.turn.ready_lanes[at];
            if chores.in_callback {
                cold_path();
                chores.elsewhere.push(lane);
                chores.more_than_native = true;
            } else if !self.engine.may_hold(lane) {
                // Who holds it looks at its list before giving it back.
            } else if chores.has_done_its_share() {
                cold_path();
                chores.elsewhere.push(lane);
                chores.more_than_native = true;
            } else if chores.is_feeding || chores.lane.is_some() {
                chores.more.push(lane);
            } else if self.engine.hold_lane(lane) {
                self.pop_batch(lane, &mut chores.batch);
                chores.lane = Some(self.lane(lane).clone());
            }
        }
        chores.turn.ready_lanes.clear();
    }

    #[inline(never)]
    fn file_points(&mut self, chores: &mut Chores) {
        let Turn { arm, sentinels, .. } = &mut chores.turn;
        for (lane, point, node) in sentinels.drain(..) {
            // Whoever waits for this group need not ask for its verdict.
            if let Some(Work::Group(event)) = self.engine.work_mut(node) {
                event.is_armed();
            }
            self.counters.armed += 1;
            chores.arm.push((self.lane(lane).clone(), point));
        }
        for (lane, point) in arm.drain(..) {
            chores.arm.push((self.lane(lane).clone(), point));
        }
        chores.more_than_native |= chores.in_callback;
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
        if !chores.over.is_empty() || !chores.woken.is_empty() {
            Self::let_go(chores);
        }
    }

    /// Wakes, and drops what has ended. What user code left in a group (a closure's captures, the last handle of an
    /// event) is foreign code as well.
    fn let_go(chores: &mut Chores) {
        if !chores.woken.is_empty() {
            chores.woken.wake();
        }
        if !chores.unused.is_empty() {
            cold_path();
            for command in chores.unused.drain(..).flatten() {
                shielded(|| drop(command));
            }
        }
        for work in chores.over.drain(..) {
            shielded(|| drop(work));
        }
    }

    /// What is rarely asked for.
    #[cold]
    fn perform_rest(self: &Arc<Self>, chores: &mut Chores) {
        for signal in chores.signals.drain(..) {
            chores.woken.cells.extend(signal.complete(()));
        }
        self.start_futures(chores);
        for (root, memory, bytes) in std::mem::take(&mut chores.turn.allocate) {
            self.allocate(root, memory, bytes, chores);
        }
        for node in std::mem::take(&mut chores.turn.start) {
            self.start_host_side(node, chores);
        }
        self.reaper.take(std::mem::take(&mut chores.turn.freed), self);
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

/// The most settled nodes for which the desk keeps room.
const ROOM: usize = 128;

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
}

impl Chores {
    /// Lends this thread's chores for some turns. Who comes back here from inside, by foreign code that a chore ran, gets
    /// others.
    pub(crate) fn with<R>(in_callback: bool, work: impl FnOnce(&mut Chores) -> R) -> R {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        let mut chores = spare.unwrap_or_default();
        chores.in_callback = in_callback;
        chores.share = 0;
        let result = work(&mut chores);
        chores.shrink();
        let _ = SPARE.try_with(|spare| spare.set(Some(chores)));
        result
    }

    fn shrink(&mut self) {
        shrink(&mut self.turn.settled);
        shrink(&mut self.batch);
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

/// Tells a node's event how it ended, while the desk is held: then nobody can find the node gone and its event open.
/// The wakers, and whatever the work still holds of the user's, are left for later.
fn resolve(settled: Settled<Windlass>, woken: &mut Woken) -> (Work, Option<Load>) {
    let Settled { work, load, outcome, took_down, .. } = settled;
    let result = if outcome == Outcome::Done { Ok(()) } else { Err(error_of(outcome)) };
    match &work {
        Work::Group(event) => event.settle(result, took_down, woken),
        Work::Guard(guard) => guard.ended(result, woken),
        Work::Transfer(_) => {}
    }
    (work, load)
}

/// What the event of a group says that has not ended well.
#[cold]
fn error_of(outcome: Outcome<Cause>) -> Error {
    match outcome {
        Outcome::Done => unreachable!("it has ended well"),
        Outcome::Failed(Cause(error)) | Outcome::Cancelled(Cause(error)) => error,
        Outcome::Doomed(Cause(root)) => Error::new(Kind::DependencyFailed { root }),
    }
}

/// Wakers to be woken when nothing is held.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    pub(crate) cells: Vec<Wakers>,
    pub(crate) single: Vec<Waker>,
}

impl Woken {
    fn is_empty(&self) -> bool {
        self.cells.is_empty() && self.single.is_empty()
    }

    #[inline(never)]
    pub(crate) fn wake(&mut self) {
        for cell in self.cells.drain(..) {
            shielded(|| cell.wake());
        }
        wake_all(self.single.drain(..));
    }
}

/// Wakes everybody, also after a waker that panics.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        shielded(|| waker.wake());
    }
}

/// Runs foreign code that may panic without harm to whoever comes after it.
pub(crate) fn shielded(code: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(code)) {
        log(move || {
            tracing::error!(
                message = panic_message(&*panic),
                "a waker or a destructor of the user's panicked"
            );
        });
    }
}
