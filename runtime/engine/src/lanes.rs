//! Lanes: which one a group goes to, what is fed next, and what a verdict ends.
//!
//! A lane's feed list holds groups in the order in which they became ready. The thread that holds the lane's
//! feed token (the `held` flag, changed only under the engine's lock) pops groups, releases the lock, makes
//! their native calls in that order, and confirms them. Only then do groups on other lanes learn their points: a
//! native wait for a point that has not been recorded yet would be no wait at all.

use std::fmt;
use std::hint::cold_path;

use smallvec::SmallVec;

use super::ids::{ContextId, DeviceId, LaneId, MemoryId, Table};
use super::links::NONE;
use super::machine::{Flight, Report};
use super::points::see;
use super::{Engine, Lane, Node, NodeId, Place, Root, RootId, RootTag, Sentinel, Shell, State, Turn, Use};

/// A group to be fed.
#[derive(Clone, Copy, Debug)]
pub struct Popped {
    /// The group.
    pub node: NodeId,
    /// Its point on the lane.
    pub point: u64,
    /// Whether its commands are to run. If not, it is fed without any: others rely on the order through it.
    pub live: bool,
    /// Whether its point is to be reported without being asked for again.
    pub report: bool,
    /// It reports for the lane's own sake: the host does not wait for it yet.
    pub sentinel: bool,
    /// So the report may take its time: what comes to be waited for is armed then.
    pub at_leisure: bool,
}

/// What the native calls of a group need.
pub struct NativeArgs<'e, S: Shell> {
    node: &'e mut Node<S>,
    roots: &'e Table<RootTag, Root<S>>,
}

impl<S: Shell> fmt::Debug for NativeArgs<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeArgs").field("waits", &self.node.waits).finish_non_exhaustive()
    }
}

impl<S: Shell> NativeArgs<'_, S> {
    /// Points of other lanes of the context to wait for.
    pub fn waits(&self) -> &[(LaneId, u64)] {
        &self.node.waits
    }

    /// The allocations that it uses.
    pub fn memory(&self) -> impl Iterator<Item = (RootId, MemoryId, &S::Memory)> {
        let there = |used: &Use| {
            let memory = self.roots.get(used.root)?.memory_in(used.memory)?;
            Some((used.root, used.memory, memory))
        };
        self.node.uses.iter().filter_map(there)
    }

    /// What the owner knows of it.
    pub fn work(&self) -> Option<&S::Work> {
        self.node.work.as_ref()
    }

    /// What is to be done, if it is a group; taken once.
    pub fn take_commands(&mut self) -> Option<S::Commands> {
        self.node.commands.take()
    }
}

/// What came of a native call.
#[derive(Debug)]
pub struct Fed<C> {
    /// The group.
    pub node: NodeId,
    /// The backend would not take it; a barrier was fed in its place.
    pub refused: Option<C>,
}

impl Lane {
    pub(super) fn has_room(&self) -> bool {
        // A group heavier than the lane is deep would never fit beside others, so it goes when the lane is empty.
        let fits = |weight: u32| self.in_flight.is_empty() || self.weight + weight <= self.depth.commands;
        self.list.front().is_some_and(|(_, weight)| fits(*weight))
    }

    /// Nothing is on it or on its way there.
    pub(super) fn is_idle(&self) -> bool {
        self.load() == 0 && !self.held
    }

    fn load(&self) -> usize {
        self.list.len() + self.in_flight.len()
    }

    /// What is in flight at a point, if no verdict has covered it. Points of a lane follow each other.
    fn flight(&mut self, point: u64) -> Option<&mut Flight> {
        let first = self.in_flight.front()?.point;
        self.in_flight.get_mut(usize::try_from(point.checked_sub(first)?).ok()?)
    }

    /// Makes the group at a point report, if it does not yet and there is room for one more report. Says whether
    /// the point is to be armed.
    fn ask(&mut self, point: u64) -> bool {
        let room = self.reports < self.depth.reports;
        let Some(flight) = self.flight(point) else { return false };
        match flight.report {
            Report::Yes => return false,
            Report::AtLeisure => {
                flight.report = Report::Yes;
                return true;
            }
            Report::No | Report::Owed => {}
        }
        flight.report = if room { Report::Yes } else { Report::Owed };
        self.reports += u32::from(room);
        self.owes_reports |= !room;
        room
    }

    /// Whether the next group to be fed is to report for the lane's own sake: because it is the last there is,
    /// or because half of what the lane may hold was fed since the last report, so that more is fed before the
    /// lane runs dry.
    fn wants_report(&self, weight: u32) -> bool {
        // The last one only if no sentinel is out. A stream of single groups would otherwise report one by one, and
        // wake the host for each; the verdict of the sentinel that is out places the next (`place_sentinel`).
        let last = self.list.is_empty() && self.sentinel <= self.passed;
        last || self.silent + weight >= self.depth.commands.div_ceil(2)
    }
}

impl<S: Shell> Engine<S> {
    fn lane(&mut self, id: LaneId) -> &mut Lane {
        &mut self.lanes[id.0 as usize]
    }

    /// The lanes of a device that a node may go to. Copy lanes take transfers and nothing else, and transfers go
    /// nowhere else if there are any, except those that are better off on the lane of their reader.
    fn lanes_for(&self, device: DeviceId, node: NodeId) -> &[LaneId] {
        let device = &self.devices[device.0 as usize];
        match self.nodes[node].wants_copy_lane && !device.copy_lanes.is_empty() {
            true => &device.copy_lanes,
            false => &device.lanes,
        }
    }

    /// Whether a node may go to a lane of its device.
    pub(super) fn is_for(&self, node: NodeId, lane: LaneId) -> bool {
        self.lanes_for(self.lanes[lane.0 as usize].device, node).contains(&lane)
    }

    /// The lane of a predecessor that is its lane's last entry, else an idle one, else the least loaded.
    pub(super) fn choose_lane(&self, device: DeviceId, node: NodeId) -> LaneId {
        let lanes = self.lanes_for(device, node);
        // Right behind a predecessor, lane order replaces the native wait (`queue` drops it). But only if
        // nothing was fed after it and nothing is listed: behind other groups the node would wait for what it
        // does not depend on.
        let follows = self.nodes[node].waits.iter().find(|(lane, point)| {
            let entry = &self.lanes[lane.0 as usize];
            entry.last_point == *point && entry.list.is_empty() && lanes.contains(lane)
        });
        if let Some((lane, _)) = follows {
            return *lane;
        }
        let least = lanes.iter().min_by_key(|l| self.lanes[l.0 as usize].load());
        *least.unwrap_or_else(|| unreachable!("a device has lanes before it is given work"))
    }

    /// Takes the lane's feed token, if it is free and there is something to feed.
    pub fn hold_lane(&mut self, lane: LaneId) -> bool {
        let may = self.may_hold(lane);
        self.lane(lane).held |= may;
        may
    }

    /// Whether the lane's feed token is free, and there is something to feed.
    #[inline]
    pub fn may_hold(&self, lane: LaneId) -> bool {
        !self.lanes[lane.0 as usize].held && self.can_pop(lane)
    }

    /// Whether there is something to feed that the lane has room for.
    #[inline]
    pub fn can_pop(&self, lane: LaneId) -> bool {
        self.lanes[lane.0 as usize].has_room()
    }

    /// How many groups are on a lane's list, if they may stay there for now: so many are under way that the device has enough to do,
    /// one of those reports, so that its verdict comes back to the list, and nobody waits for any that is on it.
    pub fn may_be_left(&self, id: LaneId, enough: usize) -> Option<usize> {
        let lane = &self.lanes[id.0 as usize];
        let comes_back = lane.sentinel > lane.passed && lane.in_flight.len() >= enough;
        let waits = |(node, _): &(NodeId, u32)| self.nodes[*node].wanted;
        (comes_back && !lane.list.iter().any(waits)).then_some(lane.list.len())
    }

    /// Gives the feed token back: everything that was popped has been confirmed.
    pub fn release_lane(&mut self, lane: LaneId, turn: &mut Turn<S>) {
        self.lane(lane).held = false;
        self.place_sentinel(lane, turn);
        self.look_for_unused(turn);
    }

    /// The next group to feed, for the token's holder.
    pub fn pop(&mut self, id: LaneId) -> Option<Popped> {
        let lane = self.lane(id);
        if !lane.has_room() {
            return None;
        }
        let (node, weight) = lane.list.pop_front()?;
        // Points of a lane are consecutive: `flight` finds a group by the distance from the first in flight.
        lane.last_point += 1;
        let point = lane.last_point;
        let own = lane.wants_report(weight);
        let wanted = self.nodes[node].wanted;
        let at_leisure = !wanted && self.is_at_leisure(id);
        let lane = self.lane(id);
        // Decided before the native call, because some backends can only choose when they record the group. If
        // there is no room for a report now, the wish is not lost: `confirm` asks again for a wanted group and
        // has it owed, and the lane's own wish comes up again with the next group or verdict.
        let report = (own || wanted) && lane.reports < lane.depth.reports;
        lane.weight += weight;
        lane.silent = if report { 0 } else { lane.silent + weight };
        lane.reports += u32::from(report);
        if report && own {
            lane.sentinel = point;
        }
        let how = match report {
            true if at_leisure => Report::AtLeisure,
            true => Report::Yes,
            false => Report::No,
        };
        lane.in_flight.push_back(Flight { point, node, weight, report: how });
        let entry = &mut self.nodes[node];
        // Not `Fed` yet: the point must not be named to other lanes, nor armed, before the native call has been
        // made.
        entry.state = State::Feeding(id, point);
        let live = entry.end.is_none();
        // The waits were noted when the node was linked. What has passed since needs no native call. On a lost lane
        // everything counts as passed, so a native call never names one of its points.
        if !entry.waits.is_empty() {
            let lanes = &self.lanes;
            entry.waits.retain(|(l, point)| *point > lanes[l.0 as usize].passed);
            let own = self.context_of(id);
            if self.nodes[node].waits.iter().any(|(of, _)| self.context_of(*of) != own) {
                self.wait_through_others(node, id);
            }
        }
        Some(Popped {
            node,
            point,
            live,
            report,
            sentinel: report && !wanted,
            at_leisure: report && at_leisure,
        })
    }

    /// What the native calls of a group that was popped need.
    #[inline]
    pub fn native_args(&mut self, node: NodeId) -> Option<NativeArgs<'_, S>> {
        Some(NativeArgs { node: self.nodes.get_mut(node)?, roots: &self.roots })
    }

    /// The native calls of these groups have been made.
    pub fn confirm(&mut self, fed: impl IntoIterator<Item = Fed<S::Cause>>, turn: &mut Turn<S>) {
        for Fed { node: id, refused } in fed {
            // The lock was free during the native call, and the context may have been lost meanwhile. Then the
            // node has been ended with its lane: it is gone, or has passed and waits for its inputs. There is
            // nothing to confirm.
            let feeding = self.nodes.get_mut(id).and_then(|node| match node.state {
                State::Feeding(lane, point) => Some((node, lane, point)),
                _ => None,
            });
            let Some((node, lane, point)) = feeding else {
                turn.causes.extend(refused);
                continue;
            };
            node.state = State::Fed(lane, point);
            // A backend may report a point before `feed` returns. `passed` has left such a node alone while it was
            // `Feeding`, so it is ended below.
            let over = point <= self.lanes[lane.0 as usize].passed;
            let wanted = node.wanted;
            if !over && (wanted || self.is_late(lane, point)) {
                self.ask(lane, point, turn);
            }
            // Before the gates behind it open, so that what reads from a refused group is doomed when it is
            // queued. The barrier that was fed in its place keeps the order, and its point can be waited for
            // like any other.
            if let Some(cause) = refused {
                cold_path();
                self.fail(id, cause, turn);
            }
            self.count_fed(id, Some((lane, point)), turn);
            if over {
                self.finish(id, turn);
            }
        }
        self.finish_pending(turn);
    }

    /// A node has been fed, or never will be: what waited for that goes on.
    pub(super) fn count_fed(&mut self, id: NodeId, at: Option<(LaneId, u64)>, turn: &mut Turn<S>) {
        let node = &mut self.nodes[id];
        let behind = std::mem::replace(&mut node.out_fed, NONE);
        let (place, read_sets) = (node.place, node.read_sets.len());
        self.open_list(behind, at, turn);
        if read_sets == 0 {
            return;
        }
        let realm = self.realm(place);
        for i in 0..read_sets {
            let read_set = self.nodes[id].read_sets[i];
            let entry = &mut self.read_sets[read_set.0 as usize];
            let wanted = entry.wanted;
            let group = entry.group(realm);
            group.unfed -= 1;
            if let Some((lane, point)) = at {
                see(&mut group.last, lane, point);
            }
            // The last reader of its realm to be fed opens the writers that wait for all of them, with the last
            // point on each lane: what this one was fed to is only part of it.
            if group.unfed == 0 && group.waiting != NONE {
                cold_path();
                let last = group.last.clone();
                let waiting = std::mem::replace(&mut group.waiting, NONE);
                self.open_read_set(waiting, &last, turn);
            }
            // A proxy waits for the whole set, and could not ask for this reader before it had a point.
            if let Some((lane, point)) = at.filter(|_| wanted) {
                self.ask(lane, point, turn);
            }
        }
    }

    /// The host waits for what is in flight at a point. If the lane's budget of reports is used up, the request
    /// is owed until one of them arrives. Points of a lane pass in order, so that report may cover this point as
    /// well.
    pub(super) fn ask(&mut self, lane: LaneId, point: u64, turn: &mut Turn<S>) {
        if self.lane(lane).ask(point) {
            turn.arm.push((lane, point));
        }
    }

    /// Asks for the reports that are owed, the earliest first.
    #[cold]
    fn ask_late(&mut self, id: LaneId, turn: &mut Turn<S>) {
        let lane = self.lane(id);
        // The earliest ends first, and so makes room for the next soonest. What is still owed when the budget is
        // used up sets the flag again, and the next verdict comes back here: there is one, as the lane has
        // reports out.
        lane.owes_reports = false;
        let owed: SmallVec<[u64; 16]> =
            lane.in_flight.iter().filter(|f| f.report == Report::Owed).map(|f| f.point).collect();
        for point in owed {
            let lane = self.lane(id);
            if lane.reports == lane.depth.reports {
                lane.owes_reports = true;
                return;
            }
            self.ask(id, point, turn);
        }
    }

    fn open_read_set(&mut self, mut head: u32, last: &[(LaneId, u64)], turn: &mut Turn<S>) {
        while head != NONE {
            let edge = self.edges.remove(head as usize);
            head = edge.next;
            for &(lane, point) in last {
                self.wait_natively(edge.to, lane, point);
            }
            self.open_gate(edge.to, turn);
        }
    }

    /// Everything on this lane up to `upto` has ended; `failure` says which of it badly.
    pub fn passed(
        &mut self,
        lane: LaneId,
        upto: u64,
        mut failure: impl FnMut(u64) -> Option<S::Cause>,
        turn: &mut Turn<S>,
    ) {
        // Verdicts may overtake each other on their way here, and a later one covers an earlier: points only
        // rise, and each group is taken from the front once, by the first verdict that covers it.
        self.lane(lane).passed = self.lane(lane).passed.max(upto);
        while let Some(flight) = self.lane(lane).in_flight.pop_front_if(|flight| flight.point <= upto) {
            let entry = self.lane(lane);
            entry.weight -= flight.weight;
            entry.reports -= u32::from(flight.report.is_out());
            let Flight { point, node: id, .. } = flight;
            // Before `finish`: what settles without a failure counts as done.
            if let Some(cause) = failure(point) {
                cold_path();
                self.failed_there(id, cause, turn);
            }
            let node = &self.nodes[id];
            // While its native call is still being made it is not known whether it was refused: `confirm` ends it.
            if !matches!(node.state, State::Feeding(..)) {
                self.finish(id, turn);
            }
        }
        self.finish_pending(turn);
        if self.lane(lane).owes_reports {
            self.ask_late(lane, turn);
        }
        // If the lane is refilled, the thread that does it places the sentinel, with more in flight to choose from.
        match self.lane(lane).has_room() {
            true => turn.lane_ready(lane),
            false => self.place_sentinel(lane, turn),
        }
        self.look_for_unused(turn);
    }

    /// What ran has failed. Its readers fail now, and not when the verdicts of its own inputs are in.
    fn failed_there(&mut self, id: NodeId, cause: S::Cause, turn: &mut Turn<S>) {
        // Its end was certain if it was fed as a barrier, or if what it reads has failed meanwhile. The first
        // cause stays.
        match self.nodes[id].end {
            None => self.fail(id, cause, turn),
            Some(_) => turn.causes.push(cause),
        }
    }

    /// Has a point armed so that the lane is settled, and refilled before it runs dry.
    fn place_sentinel(&mut self, id: LaneId, turn: &mut Turn<S>) {
        let at_leisure = self.is_at_leisure(id);
        let lane = self.lane(id);
        // While the token is held, the native calls of what is in flight may still be to come, and a lane cannot
        // report a point that it has not been fed; the holder places the sentinel when it gives the token back.
        // And one sentinel at a time is enough, because its verdict comes back here.
        if lane.held || lane.sentinel > lane.passed {
            return;
        }
        // With more on the list, halfway: the lane is refilled while the other half runs. Without, the last,
        // which covers everything: groups settle without being awaited. (An empty lane has no last, and `get`
        // finds none.)
        let at = match lane.list.is_empty() {
            true => lane.in_flight.len().wrapping_sub(1),
            false => lane.in_flight.len() / 2,
        };
        let Some(&Flight { point, node, report, .. }) = lane.in_flight.get(at) else { return };
        if report.is_out() {
            lane.sentinel = point;
        } else if lane.ask(point) {
            lane.sentinel = point;
            // One that was owed is waited for.
            let at_leisure = at_leisure && report == Report::No;
            if at_leisure && let Some(flight) = lane.flight(point) {
                flight.report = Report::AtLeisure;
            }
            turn.sentinels.push(Sentinel { lane: id, point, node, at_leisure });
        }
        // Otherwise the budget of reports is used up: the next of them to arrive comes back here.
    }

    /// Whether what is in flight at a point reports at leisure, and somebody has come to wait for its device since it was popped.
    fn is_late(&mut self, lane: LaneId, point: u64) -> bool {
        let hurried = self.devices[self.lanes[lane.0 as usize].device.0 as usize].hurried > 0;
        hurried && self.lane(lane).flight(point).is_some_and(|flight| flight.report == Report::AtLeisure)
    }

    /// Whether a lane reports for its own sake at leisure.
    fn is_at_leisure(&self, lane: LaneId) -> bool {
        let device = &self.devices[self.lanes[lane.0 as usize].device.0 as usize];
        device.at_leisure && device.hurried == 0
    }

    /// Somebody waits for what a device has under way as a whole, and not for any group of it: what reports there does so at once,
    /// until that waiter has [gone](Engine::hurry_no_more).
    pub fn hurry(&mut self, device: DeviceId, turn: &mut Turn<S>) {
        self.devices[device.0 as usize].hurried += 1;
        self.feed_lists(device, turn);
        let lanes: SmallVec<[LaneId; 4]> = self.devices[device.0 as usize].all_lanes().collect();
        for id in lanes {
            // At most one or two of a lane report at leisure.
            let flights = self.lanes[id.0 as usize].in_flight.iter();
            let late: SmallVec<[Flight; 2]> =
                flights.filter(|f| f.report == Report::AtLeisure).copied().collect();
            for Flight { point, node, .. } in late {
                // While the call that feeds a group is still being made its point cannot be armed: `confirm` has it armed.
                if matches!(self.nodes[node].state, State::Fed(..)) {
                    self.ask(id, point, turn);
                }
            }
        }
    }

    /// What was left on a device's lists is fed now, as far as its lanes have room.
    pub fn feed_lists(&self, device: DeviceId, turn: &mut Turn<S>) {
        let lanes = self.devices[device.0 as usize].all_lanes();
        lanes.filter(|lane| self.may_hold(*lane)).for_each(|lane| turn.lane_ready(lane));
    }

    /// A waiter for what a device has under way has gone.
    pub fn hurry_no_more(&mut self, device: DeviceId) {
        self.devices[device.0 as usize].hurried -= 1;
    }

    /// A lane of the device that a node is for.
    pub fn any_lane_of(&self, node: NodeId) -> Option<LaneId> {
        match self.nodes.get(node)?.place {
            Place::Host => None,
            Place::Device(device) => self.devices[device.0 as usize].lanes.first().copied(),
        }
    }

    /// What is in flight on a lane at a point.
    pub fn in_flight(&mut self, lane: LaneId, point: u64) -> Option<NodeId> {
        self.lane(lane).flight(point).map(|flight| flight.node)
    }

    /// The context of a lane.
    pub fn context_of(&self, lane: LaneId) -> ContextId {
        self.devices[self.lanes[lane.0 as usize].device.0 as usize].context
    }

    /// How many groups stand on a lane's list, not yet fed.
    pub fn listed(&self, lane: LaneId) -> usize {
        self.lanes[lane.0 as usize].list.len()
    }

    /// The cause for which a node's context is lost.
    pub(super) fn lost_under(&self, id: NodeId) -> Option<S::Cause> {
        match self.nodes[id].place {
            Place::Host => None,
            Place::Device(device) => self.lost(device).cloned(),
        }
    }
}
