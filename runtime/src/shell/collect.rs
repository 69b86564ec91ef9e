//! What becomes of a turn while the lock is held: ids become things while the tables are at hand, and events
//! resolve.

use std::hint::cold_path;
use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{BackendError, Verdict};
use windlass_sync::combining::Combiner;

use super::feed::Arm;
use super::host_side::GuardCell;
use super::memory::is_heap;
use super::waking::Woken;
use super::work::Work;
use super::{Commands, Effects, Inner, Message, Signal, State, Windlass};
use crate::error::{Cause, Error, Kind};
use windlass_engine::{Cancelled, LaneId, Outcome, Sentinel, Settled, Turn, Use};

/// The most settled nodes for which room is kept.
const MAX_SPARE_SETTLED: usize = 128;

impl Combiner<State, Message> for Effects {
    fn locked(&mut self, state: &mut State) {
        state.counters.turns += 1;
    }

    fn message(&mut self, state: &mut State, message: Message) {
        match message {
            Message::Passed(lane, verdict) => state.passed(lane, verdict, &mut self.turn),
            Message::Want(node) => state.engine.want(node, &mut self.turn),
            Message::Lost(context, cause) => state.lose(context, cause, &mut self.turn),
            Message::Hurry(device, true) => state.engine.hurry(device, &mut self.turn),
            Message::Hurry(device, false) => state.engine.hurry_no_more(device),
            Message::Ready(lanes) => self.turn.ready_lanes.extend(lanes),
            Message::Fed(groups) => state.confirm_for_another(*groups, &mut self.turn),
            Message::Group(submission) => state.take_in(*submission, self),
            Message::Root(new) => state.add_named(*new),
            Message::Release(root) => state.release(root, &mut self.turn),
            Message::Accessor(inner, coming) => state.let_in(&inner, *coming, self),
            Message::EndAccessor(guard) => state.end_accessor(&guard, &mut self.turn),
        }
        // Here, because a turn that only drains the inbox has no `work` after which to collect.
        state.collect(self);
    }
}

impl State {
    /// As long as anything is under way, so is the runtime.
    pub(super) fn stay_alive(&mut self, inner: &Arc<Inner>) {
        if self.alive.is_none() && self.engine.live_nodes() > 0 {
            self.alive = Some(inner.clone());
        }
    }

    fn end_accessor(&mut self, guard: &GuardCell, turn: &mut Turn<Windlass>) {
        // None if the runtime had closed before it came.
        let Some(node) = guard.node() else { return };
        let cause = Cause(Error::new(Kind::Cancelled));
        if self.engine.cancel(node, cause, turn) == Cancelled::TooLate {
            self.engine.finish_host(node, Ok(()), turn);
        }
    }

    fn passed(&mut self, lane: LaneId, verdict: Verdict, turn: &mut Turn<Windlass>) {
        // A verdict may settle many nodes. The list for them is the runtime's, and so there is one that has grown,
        // rather than one in each thread's effects.
        if turn.settled.is_empty() {
            std::mem::swap(&mut turn.settled, &mut self.room);
        }
        // Before `Engine::passed`, which takes these points out of flight: afterwards they lead to no node.
        for times in verdict.times {
            let node = self.engine.in_flight(lane, times.point.0);
            if let Some(Work::Group(event)) = node.and_then(|node| self.engine.work_mut(node)) {
                event.ran(times);
            }
        }
        let mut lost = None;
        let failed = verdict.failed;
        let cause = |error: &BackendError| Cause(Error::backend(error.clone(), "running a group"));
        if let Some(f) = failed.iter().rfind(|f| f.error.is_lost()) {
            lost = Some(cause(&f.error));
        }
        // Groups that fail together have an error each; but the loss of a device is one cause, the same for all,
        // and the same that `lose_lane` gives to the groups above the verdict.
        let failure = |point: u64| {
            let found = failed.iter().find(|f| (f.first.0..=f.last.0).contains(&point))?;
            Some(lost.clone().filter(|_| found.error.is_lost()).unwrap_or_else(|| cause(&found.error)))
        };
        self.engine.passed(lane, verdict.upto.0, failure, turn);
        // After `Engine::passed`: what the verdict says has ended well stays so, and the loss fails only the rest.
        if let Some(cause) = lost {
            self.lose_lane(lane, cause, turn);
        }
    }

    /// A lane does nothing any more: its context counts as lost.
    pub(crate) fn lose_lane(&mut self, lane: LaneId, cause: Cause, turn: &mut Turn<Windlass>) {
        self.lose(self.engine.context_of(lane), cause, turn);
    }

    /// Turns ids into things, while the tables are at hand. Most turns ask for little: what is empty costs a look.
    #[inline]
    pub(super) fn collect(&mut self, effects: &mut Effects) {
        if self.tracer.is_some() {
            // First: what was planned in this turn may have started and ended in it.
            self.trace_planned();
            self.trace_started(effects);
        }
        if self.alive.is_some() && self.engine.live_nodes() == 0 {
            // Moved out: nothing is dropped under the lock that might end a runtime.
            effects.idle = self.alive.take();
            self.give_nodes_back();
        }
        if effects.turn.asks_for_more() {
            effects.more_than_native = true;
            if effects.turn.freed.iter().any(|memory| !is_heap(memory)) {
                effects.freeing += 1;
                self.reaper.expect();
            }
            self.collect_links(effects);
        }
        if !effects.turn.certain.is_empty() {
            self.collect_certain(effects);
        }
        if !effects.turn.settled.is_empty() {
            self.collect_settled(effects);
        }
        if self.look_again {
            cold_path();
            self.look_again = false;
            effects.more_than_native |= !self.starved.is_empty();
            effects.starved.append(&mut self.starved);
        }
        if !effects.turn.ready_lanes.is_empty() {
            self.collect_lanes(effects);
        }
        if !effects.turn.arm.is_empty() || !effects.turn.sentinels.is_empty() {
            self.collect_points(effects);
        }
        if !effects.turn.start.is_empty() {
            self.collect_guards(effects);
        }
    }

    /// Gives the host accessors among the nodes that may start their memory. They come after the events of what
    /// they waited for, so that a program that has its guard finds those resolved.
    #[cold]
    fn collect_guards(&mut self, effects: &mut Effects) {
        let Effects { turn, woken, more_than_native, .. } = effects;
        let Turn { start, freed, .. } = turn;
        start.retain(|&node| {
            // The others stay on the list, for `start_host_side`: they run foreign code, or start a copy.
            let Some(Work::Guard(guard)) = self.engine.work_mut(node) else { return true };
            let guard = guard.clone();
            let root = self.engine.uses(node).first().filter(|_| guard.is_taker()).map(|used| used.root);
            if let Some(memory) = root.and_then(|root| self.engine.take_heap(root)) {
                if let Some(memory) = guard.give_up(memory, woken) {
                    freed.push(memory);
                    *more_than_native = true;
                }
                return false;
            }
            let there = |used: &Use| self.engine.allocation(used.root, used.memory).cloned();
            guard.grant(self.engine.uses(node).iter().find_map(there), woken);
            false
        });
    }

    #[cold]
    fn collect_links(&mut self, effects: &mut Effects) {
        let Effects { turn, .. } = effects;
        // Before `fired`: one that is made and fires in the same turn is in the table then, and its future finds
        // the signal complete at its first poll.
        for proxy in turn.proxies.drain(..) {
            let signal = Arc::new(Signal::new(()));
            self.proxies.insert(proxy, signal.clone());
            effects.proxies.push((proxy, signal));
        }
        self.leaked.append(&mut turn.leaked);
        for asked in turn.allocate.drain(..) {
            effects.allocate.push(self.wanted(asked));
            self.making += 1;
            self.counters.allocations += 1;
        }
        for proxy in turn.fired.drain(..) {
            effects.signals.extend(self.proxies.remove(&proxy));
        }
        for staged in turn.staged.drain(..) {
            // Entered before the future exists: a step may end before its first poll, when its context is lost,
            // and that end must not be missed.
            let (down, up) = (Arc::new(Signal::new(())), Arc::new(Signal::new(())));
            self.steps.insert(staged.download, down.clone());
            self.steps.insert(staged.upload, up.clone());
            self.counters.staged += 1;
            self.counters.live_steps += 1;
            effects.staged.push((staged, down, up));
        }
        for lane in turn.lanes_closed.drain(..) {
            effects.lanes_closed.extend(self.lanes[lane.0 as usize].take());
        }
        for lane in turn.closed.drain(..) {
            let Some(lane) = self.lanes[lane.0 as usize].take() else { continue };
            self.memories.retain(|_, memory| !Arc::ptr_eq(&memory.context, &lane.context));
            effects.closed.push(lane);
        }
    }

    /// Resolves the events of groups that will certainly not run, as [`State::collect_settled`] does, but one at a
    /// time. Their nodes stay for the order through them, and give no credit back when they settle.
    #[cold]
    fn collect_certain(&mut self, effects: &mut Effects) {
        let Effects { turn, woken, traced, .. } = effects;
        for node in turn.certain.drain(..) {
            let Some((work, outcome)) = self.engine.tell(node) else { continue };
            if let Some(tracer) = &mut self.tracer {
                traced.extend(tracer.told(node, &outcome));
            }
            let error = error_of(outcome);
            // A guard that has its memory drops the error it is told here. With this clone that is not the last of
            // it, whose destructor may be the user's.
            turn.causes.push(Cause(error.clone()));
            match work {
                Work::Group(event) => {
                    woken.single.extend(event.queue.account.over(1));
                    event.settle(Err(error), 0, woken);
                    woken.single.extend(event.queue.account.end(event.generation, 1));
                }
                Work::Guard(guard) => guard.ended(Err(error), woken),
                Work::Transfer(_) => {}
            }
        }
    }

    /// Resolves events. Credits come back before, so that a program that sees an event resolved finds its credit
    /// free; generations end after, so that all events of a drained queue are resolved. Both take a lock of the
    /// queue, once for each run of groups of one queue.
    #[inline(never)]
    fn collect_settled(&mut self, effects: &mut Effects) {
        if self.tracer.is_some() {
            self.trace_settled(effects);
        }
        let Effects { turn, woken, .. } = effects;
        let causes = &mut turn.causes;
        // Futures wait for the ends of these steps of transfers.
        if !self.steps.is_empty() {
            cold_path();
            for settled in turn.settled.iter().filter(|s| matches!(s.work, Work::Transfer(_))) {
                effects.signals.extend(self.steps.remove(&settled.node));
            }
            effects.more_than_native |= !effects.signals.is_empty();
        }
        self.look_again |= !self.starved.is_empty();
        self.counters.settled += turn.settled.len() as u64;
        let not_moved = |settled: &Settled<Windlass>| match &settled.work {
            Work::Transfer(transfer) => transfer.bytes_not_moved(),
            Work::Group(_) | Work::Guard(_) => 0,
        };
        self.counters.bytes_not_moved += turn.settled.iter().map(not_moved).sum::<u64>();
        // Those that `collect_certain` told have given their credits back and left their generations. In the runs
        // below they would do both again, and the queue's bound would rise with every group that was cancelled.
        if turn.settled.iter().any(|settled| settled.told) {
            cold_path();
            for settled in turn.settled.extract_if(.., |settled| settled.told) {
                let (work, commands) = resolve(settled, woken, causes);
                effects.unused.extend(commands.map(|commands| *commands));
                effects.over.push(work);
            }
        }
        // By address, which names a queue as long as these events hold it.
        let queue = |work: &Work| work.event().map(|event| Arc::as_ptr(&event.queue));
        for run in turn.settled.chunk_by(|a, b| queue(&a.work) == queue(&b.work)) {
            if let Some(event) = run[0].work.event() {
                woken.single.extend(event.queue.account.over(run.len() as u64));
            }
        }
        // `over` is emptied only at the end of `perform`: what is there already has left its generation.
        let before = effects.over.len();
        for settled in turn.settled.drain(..) {
            let (work, commands) = resolve(settled, woken, causes);
            effects.unused.extend(commands.map(|commands| *commands));
            effects.over.push(work);
        }
        // The larger of the two lists stays with the runtime (see `passed`), unless a single large verdict has
        // made it larger than is worth keeping.
        if turn.settled.capacity() > self.room.capacity() && turn.settled.capacity() <= MAX_SPARE_SETTLED {
            std::mem::swap(&mut turn.settled, &mut self.room);
        }
        let generation =
            |work: &Work| work.event().map(|event| (Arc::as_ptr(&event.queue), event.generation));
        for run in effects.over[before..].chunk_by(|a, b| generation(a) == generation(b)) {
            if let Some(event) = run[0].event() {
                woken.single.extend(event.queue.account.end(event.generation, run.len() as u64));
            }
        }
    }

    #[inline(never)]
    fn collect_lanes(&mut self, effects: &mut Effects) {
        for at in 0..effects.turn.ready_lanes.len() {
            let lane = effects.turn.ready_lanes[at];
            if !self.engine.may_hold(lane) {
                // If the token is taken, its holder looks at the list in the turn in which it gives it back. If
                // the lane has no room, the verdict that makes some comes back here. It may have been closed, since
                // it was found ready by another turn, and then it has no native end.
            } else if effects.native_elsewhere && !self.lane(lane).fed_anywhere {
                cold_path();
                effects.elsewhere.push(lane);
                effects.more_than_native = true;
            } else if self.leave(lane, effects) {
                // Another thread takes the token.
            } else if effects.has_done_its_share() {
                cold_path();
                effects.elsewhere.push(lane);
                effects.more_than_native = true;
            } else if effects.is_feeding || effects.lane.is_some() {
                // A thread holds one token at a time. With two, the second lane would stand still, with work and
                // with room, until the first has been fed.
                effects.more.push(lane);
            } else if self.engine.hold_lane(lane) {
                self.pop_batch(lane, effects);
                effects.lane = Some(self.lane(lane).clone());
            }
        }
        effects.turn.ready_lanes.clear();
    }

    #[inline(never)]
    fn collect_points(&mut self, effects: &mut Effects) {
        let Turn { arm, sentinels, .. } = &mut effects.turn;
        let mut points: SmallVec<[Arm; 2]> = SmallVec::new();
        for Sentinel { lane, point, node, at_leisure } in sentinels.drain(..) {
            // The lane will report this group, and soon, so its waiters need not ask.
            if !at_leisure && let Some(Work::Group(event)) = self.engine.work_mut(node) {
                event.mark_armed();
            }
            self.counters.armed += 1;
            points.push(Arm { lane: self.lane(lane).clone(), point, at_leisure });
        }
        for (lane, point) in arm.drain(..) {
            points.push(Arm { lane: self.lane(lane).clone(), point, at_leisure: false });
        }
        // To arm is a native call: where none is made, `start_futures` leaves these to the executor.
        for arm in points {
            match effects.native_elsewhere && !arm.lane.fed_anywhere {
                true => effects.arm_elsewhere.push(arm),
                false => effects.arm.push(arm),
            }
        }
        effects.more_than_native |= !effects.arm_elsewhere.is_empty();
    }
}

/// Tells a node's event how it ended while the lock is held: otherwise a thread could find the node gone and its
/// event open. The wakers, and what the work still has of the user's, are left for later. So is a clone of the
/// error: an event or guard that has been told before drops what it is told again, and a transfer tells no one.
fn resolve(
    settled: Settled<Windlass>,
    woken: &mut Woken,
    causes: &mut Vec<Cause>,
) -> (Work, Option<Box<Commands>>) {
    let Settled { work, commands, outcome, took_down, .. } = settled;
    let result = if outcome == Outcome::Done {
        Ok(())
    } else {
        let error = error_of(outcome);
        causes.push(Cause(error.clone()));
        Err(error)
    };
    match &work {
        Work::Group(event) => event.settle(result, took_down, woken),
        Work::Guard(guard) => guard.ended(result, woken),
        Work::Transfer(_) => {}
    }
    (work, commands)
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
