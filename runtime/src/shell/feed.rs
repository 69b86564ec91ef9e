//! Feeding: making the native calls of groups that the engine has popped.

use std::sync::Arc;

use smallvec::SmallVec;
use windlass_backend::{Allocation, BackendError, Point, Region, Wait};
use windlass_sync::panics::{Panicked, catch};

use super::event::EventInner;
use super::native::feed_one;
use super::waking::catch_foreign;
use super::work::Work;
use super::{Commands, Effects, Inner, LaneShell, Message, State, Windlass, native_lane, sink};
use crate::error::{Cause, Error};
use windlass_engine::{Box3, Fed, LaneId, MemoryId, NodeId, RootId, Step, Transfer, Turn};

/// How many groups a thread feeds before it leaves the rest to the executor: enough for a full native depth, and a
/// bound on what a submitter does for others.
pub(super) const MAX_FED_AT_ONCE: usize = 256;

/// How many are popped in one turn of the lock, and so for how long the others wait for it: some ten microseconds. They are
/// flushed together, and what a driver does at a flush, or once for what comes at once, costs the less for each.
const BATCH: usize = 128;

/// A popped group with everything that its native calls need.
#[derive(Debug, Default)]
pub(super) struct ToFeed {
    pub(super) node: Option<NodeId>,
    pub(super) point: Point,
    pub(super) waits: SmallVec<[Wait; 1]>,
    pub(super) job: Job,
    pub(super) memory: SmallVec<[(RootId, MemoryId, Arc<dyn Allocation>); 2]>,
    pub(super) report: bool,
    pub(super) at_leisure: bool,
    pub(super) timed: bool,
}

/// Popped groups. They are large, so they are filled in and cleared in their places.
#[derive(Debug, Default)]
pub(super) struct Batch {
    entries: Vec<ToFeed>,
    used: usize,
}

impl Batch {
    /// A blank entry.
    #[inline]
    fn next(&mut self) -> &mut ToFeed {
        if self.used == self.entries.len() {
            self.entries.push(ToFeed::default());
        }
        self.used += 1;
        &mut self.entries[self.used - 1]
    }

    fn in_use(&mut self) -> impl Iterator<Item = &mut ToFeed> {
        self.entries[..self.used].iter_mut()
    }

    /// Leaves blank entries.
    fn clear(&mut self) {
        for entry in &mut self.entries[..std::mem::take(&mut self.used)] {
            let job = std::mem::take(&mut entry.job);
            entry.waits.clear();
            entry.memory.clear();
            // What the lane did not take, a refused group's captures for one, is foreign code to drop. If that
            // panics, the entries behind still have to be cleared: `next` hands them out as blank, and a wait or
            // an allocation left in one would become the next group's.
            catch_foreign(|| drop(job));
        }
    }

    /// Keeps few entries: every thread has some.
    pub(super) fn shrink(&mut self) {
        if self.entries.len() > MAX_SPARE_ENTRIES {
            self.entries.truncate(MAX_SPARE_ENTRIES);
            self.entries.shrink_to_fit();
        }
    }
}

/// Entries that a thread keeps.
const MAX_SPARE_ENTRIES: usize = 4;

/// What to feed.
#[derive(Debug, Default)]
pub(super) enum Job {
    /// Nothing: a group that does not run any more.
    #[default]
    Barrier,
    /// Empty for a barrier.
    Commands(Commands),
    Transfer(Box<Move>),
}

/// Native calls that were made while somebody else had the engine's lock, with the token of the lane they were made on.
#[derive(Debug)]
pub(crate) struct FedGroups {
    lane: LaneId,
    fed: Vec<Fed<Cause>>,
    /// Why the lane is dead, if it is.
    dead: Option<Cause>,
}

/// A step of a transfer in bytes.
#[derive(Debug)]
pub(super) struct Move {
    pub(super) step: Transfer,
    pub(super) from: Region,
    pub(super) to: Region,
    pub(super) staging: Option<Arc<dyn Allocation>>,
}

/// How many groups under way are enough for a device, so that others may be fed a little later, by another thread.
const ENOUGH: usize = 16;

/// How many of those are worth waking a thread for: that takes about as long as to feed one or two.
const WORTH_A_CALL: usize = 8;

impl State {
    /// Leaves a lane to others, where this thread need not feed it. Few groups wait for the next verdict, or for somebody who waits
    /// for them; for more the executor is called. It feeds until the list is empty, so while this thread submits as fast as that one
    /// feeds, one call does for all.
    pub(super) fn leave(&mut self, lane: LaneId, effects: &mut Effects) -> bool {
        if !effects.or_aside || !self.lane(lane).fed_aside {
            return false;
        }
        // Before the list is looked through, which may have grown long by the time that the executor comes.
        if self.called_for.contains(&lane) {
            return true;
        }
        let Some(listed) = self.engine.may_be_left(lane, ENOUGH) else { return false };
        if listed >= WORTH_A_CALL {
            self.called_for.push(lane);
            effects.elsewhere.push(lane);
            effects.more_than_native = true;
        }
        true
    }

    /// Takes groups for the holder of the lane's token, with their commands and memory.
    pub(super) fn pop_batch(&mut self, lane: LaneId, effects: &mut Effects) {
        let most = BATCH.min(effects.left_of_its_share());
        self.called_for.retain(|called| *called != lane);
        let may_be_timed = self.lane(lane).timed;
        let batch = &mut effects.batch;
        let before = batch.used;
        // `pop` gives each its point, and points are consecutive: from here on every entry has to be fed, in this
        // order, and confirmed, before the token goes back.
        while batch.used < most
            && let Some(popped) = self.engine.pop(lane)
        {
            let entry = batch.next();
            (entry.node, entry.point) = (Some(popped.node), Point(popped.point));
            (entry.report, entry.at_leisure) = (popped.report, popped.at_leisure);
            self.native_args(entry, popped.node, popped.live, may_be_timed);
            if let Some(tracer) = self.tracer.as_mut().filter(|_| popped.live) {
                tracer.fed(popped.node, native_lane(&self.lanes, lane));
            }
            if popped.report {
                self.counters.armed += u64::from(popped.sentinel);
                // Its verdict comes unasked and soon, so that no waiter has to leave a `Message::Want`.
                if !popped.at_leisure
                    && let Some(Work::Group(event)) = self.engine.work_mut(popped.node)
                {
                    event.mark_armed();
                }
            }
        }
        self.counters.fed += (batch.used - before) as u64;
    }

    /// What came of native calls.
    fn confirm(
        &mut self,
        lane: LaneId,
        fed: impl IntoIterator<Item = Fed<Cause>>,
        dead: Option<Cause>,
        turn: &mut Turn<Windlass>,
    ) {
        self.engine.confirm(fed, turn);
        // After `confirm`, so that a refused group fails with its own error. A loss ends all that is on the lane, and
        // `confirm` would find nothing left to fail.
        if let Some(cause) = dead {
            self.lose_lane(lane, cause, turn);
        }
    }

    /// The same for a thread that has gone on, whose token goes back here. What is on the list is for whoever reads the message.
    pub(super) fn confirm_for_another(&mut self, groups: FedGroups, turn: &mut Turn<Windlass>) {
        let FedGroups { lane, fed, dead } = groups;
        self.confirm(lane, fed, dead, turn);
        self.engine.release_lane(lane, turn);
        if self.engine.can_pop(lane) {
            turn.ready_lanes.push(lane);
        }
    }

    #[inline]
    fn native_args(&mut self, entry: &mut ToFeed, node: NodeId, live: bool, may_be_timed: bool) {
        let Some(mut native_args) = self.engine.native_args(node) else { return };
        for &(lane, point) in native_args.waits() {
            let number = native_lane(&self.lanes, lane).number;
            entry.waits.push(Wait::new(number, Point(point)));
        }
        // Clones, because the lock is free during the native calls: if the context is lost just then, the engine
        // lets go of its memory, which must not be freed under a call that names it.
        for (root, memory, allocation) in native_args.memory() {
            entry.memory.push((root, memory, allocation.clone()));
        }
        // A group that does not run any more is fed as a barrier, for the order through it. Its commands stay with
        // the node and leave with it when it settles, to be dropped when the lock is free; here they would run
        // destructors under it.
        entry.timed = false;
        if live {
            // Of a group that was submitted long ago, to look at its event is to wait for memory, twice.
            let is_timed = |event: &Arc<EventInner>| event.queue.clock.is_some();
            entry.timed = may_be_timed && native_args.work().and_then(Work::event).is_some_and(is_timed);
            entry.job = match native_args.take_commands() {
                Some(commands) => Job::Commands(commands),
                // Transfers have none: the step says what to move.
                None => self.transfer(node).map_or(Job::Barrier, Job::Transfer),
            };
        }
    }

    /// The step of a transfer that a node is, with its staging.
    #[inline(never)]
    fn transfer(&mut self, node: NodeId) -> Option<Box<Move>> {
        let Some(Work::Transfer(transfer)) = self.engine.work_mut(node) else { return None };
        transfer.is_made = true;
        let (step, staging) = (transfer.step, transfer.staging.clone());
        let (from, to) = self.regions(&step)?;
        Some(Box::new(Move { step, from, to, staging }))
    }

    /// The bytes that a step of a transfer reads, and those that it writes.
    pub(super) fn regions(&self, step: &Transfer) -> Option<(Region, Region)> {
        let (extent, unit, bytes) = self.engine.shape(step.root)?;
        let region = region_of(&step.bounds, &extent, unit, bytes);
        Some(match step.step {
            Step::Direct | Step::Clear | Step::Map | Step::Unmap => (region, region),
            Step::Download => (region, compact(&region)),
            Step::Upload => (compact(&region), region),
        })
    }
}

impl Inner {
    /// Feeds popped groups, then more of the same lane, until the lane is full, its list is empty, or this thread
    /// has done its share.
    pub(super) fn feed(self: &Arc<Self>, lane: &Arc<LaneShell>, effects: &mut Effects) {
        effects.is_feeding = true;
        while effects.is_feeding {
            // The lock is free during these calls. Submitters leave their groups on the lane's list meanwhile, and
            // messages that other threads work off go by this thread's token.
            effects.share += effects.batch.used;
            let mut dead = make_calls(lane, &mut effects.batch, &mut effects.fed);
            let confirmed = self.state.try_with(effects, |state, effects| {
                state.confirm(lane.id, effects.fed.drain(..), dead.take(), &mut effects.turn);
                if !effects.has_done_its_share() && state.engine.can_pop(lane.id) {
                    state.pop_batch(lane.id, effects);
                }
                // Nothing popped, and the token goes back in the same turn. A group listed earlier has been
                // popped, and one listed later finds the token free. Between two turns it could be listed while
                // the token is still taken, by a holder that has looked for the last time.
                if effects.batch.used == 0 {
                    state.engine.release_lane(lane.id, &mut effects.turn);
                    if effects.has_done_its_share() {
                        // There may be groups on the list, and no verdict has to come that would tell of them.
                        // `collect` sees that this thread has done its share, and leaves the lane to the executor.
                        effects.turn.ready_lanes.push(lane.id);
                    }
                    // Before `collect`, which may give this thread another lane: while it feeds one it takes none,
                    // since there is a single batch.
                    effects.is_feeding = false;
                }
                state.collect(effects);
            });
            if confirmed.is_err() {
                // Somebody has the lock: whoever takes it next has the token along with the message, and does not wait for this thread.
                effects.is_feeding = false;
                let fed = std::mem::take(&mut effects.fed);
                self.state.post(Message::Fed(Box::new(FedGroups { lane: lane.id, fed, dead })), effects);
            }
        }
    }

    /// Leaves lanes to be fed, and points to be armed, to the executor.
    pub(super) fn feed_elsewhere(self: &Arc<Self>, lanes: Vec<LaneId>, arm: Vec<Arm>) {
        let inner = self.clone();
        self.gates.spawn(async move {
            for arm in arm {
                if let Some(cause) = arm.make() {
                    inner.enter(|state, turn| state.lose_lane(arm.lane.id, cause, turn));
                }
            }
            // Ready says no more than that a look is due: `collect_lanes` takes the token if it is free and there
            // is something to feed. Without any lane the turn is taken for what arming may have left as a message.
            inner.enter(|_, turn| turn.ready_lanes.extend(lanes));
        });
    }
}

/// Makes the native calls of popped groups. Returns why the lane is dead, if it is.
fn make_calls(lane: &LaneShell, batch: &mut Batch, fed: &mut Vec<Fed<Cause>>) -> Option<Cause> {
    let mut dead = None;
    sink::defer_reports(|| {
        let mut left = batch.used;
        let mut feed = |entry| {
            left -= 1;
            feed_one(lane, entry, left > 0, &mut dead)
        };
        fed.extend(batch.in_use().filter_map(&mut feed));
        batch.clear();
        // Once for the batch, since submitting is what is dear in most drivers; and before its groups are
        // confirmed. From then on other lanes and the host wait for their points, which may never pass without
        // this.
        if let Err(panic) = catch(|| lane.native.flush()) {
            dead.get_or_insert_with(|| dead_lane(&panic, "flushing a lane"));
        }
    });
    dead
}

/// A point that a lane is to report.
#[derive(Debug)]
pub(super) struct Arm {
    pub(super) lane: Arc<LaneShell>,
    pub(super) point: u64,
    pub(super) at_leisure: bool,
}

impl Arm {
    /// Makes the native call; says why the lane never will report it, if so.
    pub(super) fn make(&self) -> Option<Cause> {
        let Arm { lane, point, at_leisure } = self;
        let armed = sink::defer_reports(|| {
            catch(|| match at_leisure {
                true => lane.native.arm_at_leisure(Point(*point)),
                false => lane.native.arm(Point(*point)),
            })
        });
        armed.err().map(|panic| dead_lane(&panic, "asking a lane for a verdict"))
    }
}

/// A lane that panicked where it cannot refuse: it is not known what has become of what it was fed.
pub(super) fn dead_lane(panic: &Panicked, doing: &str) -> Cause {
    let error = BackendError::Lost(format!("its lane panicked: {panic}"));
    Cause(Error::backend(error, doing))
}

/// The bytes of a box of a root. The last unit of a root may be cut short by its end.
pub(super) fn region_of(bounds: &Box3, extent: &Box3, unit: usize, bytes: usize) -> Region {
    let row = extent.hi[2] * unit;
    let slice = extent.hi[1] * row;
    let offset = bounds.lo[0] * slice + bounds.lo[1] * row + bounds.lo[2] * unit;
    let width = ((bounds.hi[2] - bounds.lo[2]) * unit).min(bytes - offset);
    let (rows, slices) = (bounds.hi[1] - bounds.lo[1], bounds.hi[0] - bounds.lo[0]);
    Region { offset, width, rows, slices, row_pitch: row, slice_pitch: slice }
}

/// The same box without gaps, from the start of staging memory.
fn compact(region: &Region) -> Region {
    let Region { width, rows, slices, .. } = *region;
    Region { offset: 0, width, rows, slices, row_pitch: width, slice_pitch: width * rows }
}
