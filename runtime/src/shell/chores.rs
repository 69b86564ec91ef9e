//! What a turn at the desk leaves to be done once nobody sits there any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use smallvec::SmallVec;
use windlass_backend::Verdict;
use windlass_sync::cell::Wakers;
use windlass_sync::desk::Clerk;

use super::feed::{Feeding, panic_message};
use super::work::{Planned, Work};
use super::{Inner, LaneShell, Mail, Signal, State, Windlass, sink};
use crate::engine::{LaneId, NodeId, Outcome, ProxyId, Settled, Staged, Turn};
use crate::error::{Cause, Error, Kind};

/// The engine's turn, and what the desk's own tables add to it.
#[derive(Debug)]
pub(crate) struct Chores {
    pub(super) turn: Turn<Windlass>,
    /// Groups popped from lanes whose token this thread now holds.
    pub(super) feeding: SmallVec<[Feeding; 1]>,
    /// Lanes to be fed, and points to be armed, by somebody who may make native calls.
    pub(super) elsewhere: Vec<LaneId>,
    pub(super) arm: SmallVec<[(Arc<LaneShell>, u64); 1]>,
    pub(super) signals: Vec<Arc<Signal>>,
    pub(super) woken: Woken,
    /// Work of nodes that have ended, to be dropped.
    over: Vec<Work>,
    /// Commands that never ran, to be dropped.
    unused: Vec<Planned<'static>>,
    proxies: Vec<(ProxyId, Arc<Signal>)>,
    staged: Vec<(Staged, Arc<Signal>, Arc<Signal>)>,
    /// Native calls are not allowed here: this is a driver's callback, or a `poll`.
    pub(super) in_callback: bool,
}

impl Default for Chores {
    fn default() -> Self {
        Chores {
            turn: Turn::new(),
            feeding: SmallVec::new(),
            elsewhere: Vec::new(),
            arm: SmallVec::new(),
            signals: Vec::new(),
            woken: Woken::default(),
            over: Vec::new(),
            unused: Vec::new(),
            proxies: Vec::new(),
            staged: Vec::new(),
            in_callback: false,
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
            let context = self.engine.context_of(lane);
            self.engine.lose(context, cause, turn);
        }
    }

    /// Turns ids into things, while the tables are at hand.
    pub(super) fn file(&mut self, chores: &mut Chores) {
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
        if !self.steps.is_empty() {
            for settled in turn.settled.iter().filter(|s| matches!(s.work, Work::Transfer(_))) {
                chores.signals.extend(self.steps.remove(&settled.node));
            }
        }
        self.counters.settled += turn.settled.len() as u64;
        for settled in turn.settled.drain(..) {
            let fed = matches!(settled.outcome, Outcome::Done);
            let work = resolve(settled, &mut chores.woken);
            if let (Work::Group(event), false) = (&work, fed) {
                chores.unused.extend(event.take_commands());
            }
            chores.over.push(work);
        }
        self.file_lanes(chores);
    }

    fn file_lanes(&mut self, chores: &mut Chores) {
        for lane in std::mem::take(&mut chores.turn.ready_lanes) {
            if chores.in_callback {
                chores.elsewhere.push(lane);
            } else if self.engine.hold_lane(lane) {
                let batch = self.pop_batch(lane);
                chores.feeding.push(Feeding::new(self.lane(lane).clone(), batch));
            }
        }
        let Turn { arm, sentinels, .. } = &mut chores.turn;
        for (lane, point, node) in sentinels.drain(..) {
            // Whoever waits for this group need not ask for its verdict.
            if let Some(Work::Group(event)) = self.engine.work_mut(node) {
                event.is_armed();
            }
            self.counters.armed += 1;
            chores.arm.push((self.lane(lane).clone(), point));
        }
        chores.arm.extend(arm.drain(..).map(|(lane, point)| (self.lane(lane).clone(), point)));
    }
}

impl Inner {
    /// Calls the engine, then does what it asks for.
    pub(crate) fn enter<R>(self: &Arc<Self>, work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R) -> R {
        let mut chores = Chores::default();
        let result = self.sit(&mut chores, work);
        self.perform(&mut chores);
        result
    }

    /// [`Inner::enter`] for a `poll`: native calls are left to the executor.
    pub(crate) fn enter_from_poll<R>(
        self: &Arc<Self>,
        work: impl FnOnce(&mut State, &mut Turn<Windlass>) -> R,
    ) -> R {
        let mut chores = Chores { in_callback: true, ..Chores::default() };
        let result = self.sit(&mut chores, work);
        self.perform(&mut chores);
        result
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
            self.arm(chores);
            match chores.feeding.pop() {
                Some(feeding) => self.feed(feeding, chores),
                None if chores.is_done() => break,
                None => {}
            }
        }
        std::mem::take(&mut chores.woken).wake();
        // What user code left in a group (a closure's captures, the last handle of an event) is foreign code as well.
        for command in chores.unused.drain(..) {
            shielded(|| drop(command));
        }
        for work in chores.over.drain(..) {
            shielded(|| drop(work));
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

    fn arm(self: &Arc<Self>, chores: &mut Chores) {
        for (lane, point) in chores.arm.drain(..) {
            sink::quietly(|| lane.native.arm(windlass_backend::Point(point)));
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

impl Chores {
    fn is_done(&self) -> bool {
        let turn = &self.turn;
        self.feeding.is_empty()
            && self.elsewhere.is_empty()
            && self.arm.is_empty()
            && self.signals.is_empty()
            && self.proxies.is_empty()
            && self.staged.is_empty()
            && turn.allocate.is_empty()
            && turn.start.is_empty()
            && turn.freed.is_empty()
    }
}

/// Tells a node's event how it ended, while the desk is held: then nobody can find the node gone and its event open.
/// The wakers, and whatever the work still holds of the user's, are left for later.
fn resolve(settled: Settled<Windlass>, woken: &mut Woken) -> Work {
    let Settled { work, outcome, took_down, .. } = settled;
    let result = match outcome {
        Outcome::Done => Ok(()),
        Outcome::Failed(Cause(error)) | Outcome::Cancelled(Cause(error)) => Err(error),
        Outcome::Doomed(Cause(root)) => Err(Error::new(Kind::DependencyFailed { root })),
    };
    match &work {
        Work::Group(event) => event.settle(result, took_down, woken),
        Work::Guard(guard) => guard.ended(result, woken),
        Work::Transfer(_) => {}
    }
    work
}

/// Wakers to be woken when nothing is held.
#[derive(Debug, Default)]
pub(crate) struct Woken {
    pub(crate) cells: Vec<Wakers>,
    pub(crate) single: Vec<Waker>,
}

impl Woken {
    pub(crate) fn wake(self) {
        for cell in self.cells {
            if !cell.is_empty() {
                shielded(|| cell.wake());
            }
        }
        wake_all(self.single);
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
        tracing::error!(message = panic_message(&*panic), "a waker or a destructor of the user's panicked");
    }
}
