//! Lanes: which one a group goes to, what is fed next, and what a verdict ends.
//!
//! A lane's feed list holds groups in the order in which they became ready. Whoever holds the lane's feed token (the
//! `held` flag, changed only under the engine's lock) pops groups, makes their native calls in that order with the
//! engine let go of, and confirms them. Only then do groups on other lanes learn their points: a native wait on
//! something not yet recorded would be no wait at all.

use std::fmt;
use std::hint::cold_path;

use smallvec::SmallVec;

use super::edges::NONE;
use super::ids::{ContextId, DeviceId, LaneId, MemoryId, Table};
use super::machine::{Flight, Report};
use super::read_set::see;
use super::{Engine, Lane, Node, NodeId, Place, Root, RootId, RootTag, Shell, State, Turn, Use};

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
    /// It reports for the lane's own sake, and nobody waits for it yet.
    pub sentinel: bool,
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
            let memory = self.roots.get(used.root)?.allocation(used.memory)?;
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

    /// Has the group at a point report, if it does not and as many more may. Says whether it is to be armed.
    fn ask(&mut self, point: u64) -> bool {
        let room = self.reports < self.depth.reports;
        let Some(flight) = self.flight(point) else { return false };
        if flight.report == Report::Yes {
            return false;
        }
        flight.report = if room { Report::Yes } else { Report::Owed };
        self.reports += u32::from(room);
        self.owes_reports |= !room;
        room
    }

    /// Whether the next group to be fed is to report for the lane's own sake: as the last there is, or halfway through what
    /// the lane may hold since the last that did, so that more is fed before it runs dry.
    fn wants_report(&self, weight: u32) -> bool {
        let last = self.list.is_empty() && self.sentinel <= self.passed;
        last || self.silent + weight >= self.depth.commands.div_ceil(2)
    }
}

impl<S: Shell> Engine<S> {
    fn lane(&mut self, id: LaneId) -> &mut Lane {
        &mut self.lanes[id.0 as usize]
    }

    /// The lanes of a device that a node may go to: those that only copy are for transfers, which go nowhere else if there
    /// are any, but for such as are better off on the lane of whoever reads what they bring.
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
        lane.last_point += 1;
        let point = lane.last_point;
        let own = lane.wants_report(weight);
        let wanted = self.nodes[node].wanted;
        let lane = self.lane(id);
        let report = (own || wanted) && lane.reports < lane.depth.reports;
        lane.weight += weight;
        lane.silent = if report { 0 } else { lane.silent + weight };
        lane.reports += u32::from(report);
        if report && own {
            lane.sentinel = point;
        }
        let how = if report { Report::Yes } else { Report::No };
        lane.in_flight.push_back(Flight { point, node, weight, report: how });
        let entry = &mut self.nodes[node];
        entry.state = State::Feeding(id, point);
        let live = entry.end.is_none();
        if !entry.waits.is_empty() {
            let lanes = &self.lanes;
            entry.waits.retain(|(l, point)| *point > lanes[l.0 as usize].passed);
        }
        Some(Popped { node, point, live, report, sentinel: report && !wanted })
    }

    /// What the native calls of a group that was popped need.
    #[inline]
    pub fn native_args(&mut self, node: NodeId) -> Option<NativeArgs<'_, S>> {
        Some(NativeArgs { node: self.nodes.get_mut(node)?, roots: &self.roots })
    }

    /// The native calls of these groups have been made.
    pub fn confirm(&mut self, fed: impl IntoIterator<Item = Fed<S::Cause>>, turn: &mut Turn<S>) {
        for Fed { node: id, refused } in fed {
            // Its context may have been lost while the native call was being made: then it is gone, or has passed.
            let feeding = self.nodes.get_mut(id).and_then(|node| match node.state {
                State::Feeding(lane, point) => Some((node, lane, point)),
                _ => None,
            });
            let Some((node, lane, point)) = feeding else {
                turn.causes.extend(refused);
                continue;
            };
            node.state = State::Fed(lane, point);
            let over = point <= self.lanes[lane.0 as usize].passed;
            if node.wanted && !over {
                self.ask(lane, point, turn);
            }
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

    /// A node has been fed, or never will be: those that waited for that go on.
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
            if group.unfed == 0 && group.waiting != NONE {
                cold_path();
                let last = group.last.clone();
                let waiting = std::mem::replace(&mut group.waiting, NONE);
                self.open_read_set(waiting, &last, turn);
            }
            if let Some((lane, point)) = at.filter(|_| wanted) {
                self.ask(lane, point, turn);
            }
        }
    }

    /// Somebody waits for what is in flight at a point. As long as as many groups report as may, the wish waits for one of
    /// those reports: points of a lane are passed in order, so it may cover this one too.
    pub(super) fn ask(&mut self, lane: LaneId, point: u64, turn: &mut Turn<S>) {
        if self.lane(lane).ask(point) {
            turn.arm.push((lane, point));
        }
    }

    /// Asks for what could not be asked for when somebody wanted it, the earliest first.
    #[cold]
    fn ask_late(&mut self, id: LaneId, turn: &mut Turn<S>) {
        let lane = self.lane(id);
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
        self.lane(lane).passed = self.lane(lane).passed.max(upto);
        while let Some(flight) = self.lane(lane).in_flight.pop_front_if(|flight| flight.point <= upto) {
            let entry = self.lane(lane);
            entry.weight -= flight.weight;
            entry.reports -= u32::from(flight.report == Report::Yes);
            let Flight { point, node: id, .. } = flight;
            if let Some(cause) = failure(point) {
                cold_path();
                self.failed_there(id, cause, turn);
            }
            let node = &self.nodes[id];
            // While its native call is still being made nobody knows whether it was taken: `confirm` ends it.
            if !matches!(node.state, State::Feeding(..)) {
                self.finish(id, turn);
            }
        }
        self.finish_pending(turn);
        if self.lane(lane).owes_reports {
            self.ask_late(lane, turn);
        }
        // Who refills the lane places its sentinel, with more in flight to choose from.
        match self.lane(lane).has_room() {
            true => turn.lane_ready(lane),
            false => self.place_sentinel(lane, turn),
        }
        self.look_for_unused(turn);
    }

    /// What ran has failed. Whoever reads what it writes fails now, and not when this has the verdicts of its own inputs.
    fn failed_there(&mut self, id: NodeId, cause: S::Cause, turn: &mut Turn<S>) {
        match self.nodes[id].end {
            None => self.fail(id, cause, turn),
            Some(_) => turn.causes.push(cause),
        }
    }

    /// Has a point armed so that the lane is settled, and refilled before it runs dry: halfway through what is in
    /// flight while more stands on the list, else the last. Not while an earlier sentinel is still out. And not while
    /// somebody holds the feed token: the native call of what is in flight may then be still to come, and a lane knows
    /// nothing of a point that it was not fed. The holder places the sentinel when it gives the token back.
    fn place_sentinel(&mut self, id: LaneId, turn: &mut Turn<S>) {
        let lane = self.lane(id);
        if lane.held || lane.sentinel > lane.passed {
            return;
        }
        let at = match lane.list.is_empty() {
            true => lane.in_flight.len().wrapping_sub(1),
            false => lane.in_flight.len() / 2,
        };
        let Some(&Flight { point, node, report, .. }) = lane.in_flight.get(at) else { return };
        if report == Report::Yes {
            lane.sentinel = point;
        } else if lane.ask(point) {
            lane.sentinel = point;
            turn.sentinels.push((id, point, node));
        }
        // Else others report, as many as may: one of them brings this about again.
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
