//! Edges between nodes, as linked lists in one slab: a node with no edges costs nothing for them.

use std::hint::cold_path;

use slab::Slab;
use smallvec::SmallVec;

use super::hazard::Preds;
use super::ids::LaneId;
use super::read_set::see;
use super::{End, Engine, NodeId, Place, Proxy, ProxyId, ReadSetId, Realm, Shell, State, Turn};

/// Ends a list.
pub(super) const NONE: u32 = u32::MAX;

/// The one behind comes after the one ahead, and nothing more.
pub(super) const NOTHING: u8 = 0;
/// The one behind reads what the one ahead writes: failure goes along, and verdicts are awaited.
pub(super) const DATA: u8 = 1;
/// The one behind is gated until the one ahead has been fed.
pub(super) const FED: u8 = 2;
/// The one behind is gated until the proxy that owns this edge is opened.
pub(super) const GATE: u8 = 4;
/// The one behind was asked to share the failure of the one ahead: like [`DATA`], and a cancellation that left what
/// was there before is a failure too.
pub(super) const EVENT: u8 = 8;

/// An edge to the node behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) to: NodeId,
    pub(super) kind: u8,
    pub(super) next: u32,
}

/// Puts an edge at the head of a list.
pub(super) fn push(edges: &mut Slab<Edge>, head: &mut u32, to: NodeId, kind: u8) {
    *head = edges.insert(Edge { to, kind, next: *head }) as u32;
}

/// What a node has to wait for before it can be queued.
#[derive(Default)]
struct Ahead {
    host: u32,
    unfed: u32,
    /// A lane on which all unfed predecessors of its own realm are queued, as far as was seen.
    lane: Option<LaneId>,
    /// Unfed predecessors that are not all queued on one lane.
    scattered: bool,
}

/// A node that is being linked.
#[derive(Clone, Copy)]
struct Newcomer {
    id: NodeId,
    place: Place,
    realm: Realm,
}

impl<S: Shell> Engine<S> {
    /// Links a new node behind everything in `preds`, and queues it if nothing holds it back.
    pub(super) fn attach(&mut self, id: NodeId, preds: &mut Preds, gates: u32, turn: &mut Turn<S>) {
        preds.settle_duplicates();
        if self.record.is_some() {
            self.note_edges(id, preds);
        }
        let place = self.nodes[id].place;
        let new = Newcomer { id, place, realm: self.realm(place) };
        let mut ahead = Ahead { host: gates, ..Ahead::default() };
        for &(from, carries) in &preds.nodes {
            self.survey(from, carries, new, &mut ahead, turn);
        }
        for &read_set in &preds.read_sets {
            self.link_read_set(read_set, new, &mut ahead, turn);
        }
        // Where everything unfed that this node follows is queued on one lane, it can join that lane's list at once:
        // the list is fed in order. Otherwise it waits until each of them has been fed.
        let follows = ahead.lane.filter(|_| !ahead.scattered && ahead.host == 0);
        if follows.is_none() && (ahead.scattered || ahead.lane.is_some()) {
            for &(from, _) in &preds.nodes {
                ahead.unfed += u32::from(self.gate_until_fed(from, new));
            }
        }
        let node = &mut self.nodes[id];
        node.gates = ahead.host + ahead.unfed;
        if node.gates == 0 {
            self.ready(id, follows, turn);
        }
    }

    /// Looks at one predecessor: makes the data edge, the native wait or the proxy that it calls for.
    fn survey(&mut self, from: NodeId, carries: u8, new: Newcomer, found: &mut Ahead, turn: &mut Turn<S>) {
        let Newcomer { id: to, place, realm } = new;
        let Some(ahead) = self.nodes.get_mut(from) else { return };
        self.tally.nodes_visited += 1;
        if carries != NOTHING {
            push(&mut self.edges, &mut ahead.out, to, carries);
        }
        let (its, state) = (ahead.place, ahead.state);
        if carries != NOTHING {
            let node = &mut self.nodes[to];
            node.unsettled += 1;
            node.reads.push(from);
            self.share_failure(from, to, carries);
        }
        if realm == Realm::Host || its != place && self.realm(its) != realm {
            cold_path();
            let proxy = self.proxy_from(from, realm, turn);
            self.wait_behind(proxy, to, turn);
            found.host += 1;
            return;
        }
        match state {
            State::Fed(lane, point) => self.wait_natively(to, lane, point),
            // A lane of another device of this domain, or of another kind, is no list that this node can join.
            State::Queued(lane) | State::Feeding(lane, _) if its == place && self.is_for(to, lane) => {
                match found.lane {
                    None => found.lane = Some(lane),
                    Some(other) => found.scattered |= other != lane,
                }
            }
            State::Queued(_) | State::Feeding(..) | State::Gated => found.scattered = true,
            State::Passed | State::Running => {}
        }
    }

    /// What is known already to be going to fail takes the newcomer behind it down at once.
    #[inline]
    pub(super) fn share_failure(&mut self, from: NodeId, to: NodeId, carries: u8) {
        let ahead = &self.nodes[from];
        if ahead.end.is_none() {
            return;
        }
        cold_path();
        let Some(cause) = ahead.takes_down(carries).cloned() else { return };
        let node = &mut self.nodes[to];
        if node.end.is_none() {
            node.end = Some(End::Doomed(cause));
            self.nodes[from].took_down += u32::from(!self.nodes[to].is_transfer);
        }
    }

    #[inline]
    pub(super) fn wait_natively(&mut self, to: NodeId, lane: LaneId, point: u64) {
        if point <= self.lanes[lane.0 as usize].passed {
            return;
        }
        see(&mut self.nodes[to].waits, lane, point);
    }

    /// Gates `to` until `from` has been fed, if it is in the same realm and has not been.
    fn gate_until_fed(&mut self, from: NodeId, new: Newcomer) -> bool {
        let Newcomer { id: to, realm, .. } = new;
        let Some(ahead) = self.nodes.get_mut(from) else { return false };
        let place = ahead.place;
        let unfed = matches!(ahead.state, State::Gated | State::Queued(_) | State::Feeding(..));
        if !unfed || realm == Realm::Host || self.realm(place) != realm {
            return false;
        }
        push(&mut self.edges, &mut self.nodes[from].out_fed, to, FED);
        true
    }

    #[inline(never)]
    fn link_read_set(&mut self, id: ReadSetId, new: Newcomer, found: &mut Ahead, turn: &mut Turn<S>) {
        let Newcomer { id: to, realm, .. } = new;
        for at in 0..self.read_sets[id.0 as usize].groups.len() {
            self.tally.nodes_visited += 1;
            let group = &mut self.read_sets[id.0 as usize].groups[at];
            if group.unsettled == 0 {
                continue;
            }
            if group.realm != realm || realm == Realm::Host {
                let proxy = self.proxy_from_read_set(id, at, realm, turn);
                self.wait_behind(proxy, to, turn);
                found.host += 1;
            } else if group.unfed > 0 {
                push(&mut self.edges, &mut group.waiting, to, FED);
                found.host += 1;
            } else {
                for (lane, point) in group.last.clone() {
                    self.wait_natively(to, lane, point);
                }
            }
        }
    }

    /// Opening a guard runs nothing, neither a native call nor user code: whoever settles the source can do it on the
    /// spot. All others need a future of the shell's.
    fn wait_behind(&mut self, proxy: ProxyId, to: NodeId, turn: &mut Turn<S>) {
        let entry = &mut self.proxies[proxy];
        push(&mut self.edges, &mut entry.waiting, to, GATE);
        if !self.nodes[to].is_guard && !std::mem::replace(&mut entry.is_carried, true) {
            self.tally.proxies += 1;
            turn.proxies.push(proxy);
        }
    }

    fn new_proxy(&mut self) -> ProxyId {
        self.proxies.insert(Proxy { waiting: NONE, is_carried: false })
    }

    /// The source of a proxy has ended.
    pub(super) fn fire(&mut self, proxy: ProxyId, turn: &mut Turn<S>) {
        if self.proxies.get(proxy).is_some_and(|proxy| proxy.is_carried) {
            return turn.fired.push(proxy);
        }
        if let Some(proxy) = self.proxies.remove(proxy) {
            self.open_list(proxy.waiting, None, turn);
        }
    }

    /// The one proxy that carries the end of `from` into `realm`.
    fn proxy_from(&mut self, from: NodeId, realm: Realm, turn: &mut Turn<S>) -> ProxyId {
        if let Some((_, proxy)) = self.nodes[from].proxies.iter().find(|(r, _)| *r == realm) {
            return *proxy;
        }
        let proxy = self.new_proxy();
        self.nodes[from].proxies.push((realm, proxy));
        self.want(from, turn);
        proxy
    }

    fn proxy_from_read_set(
        &mut self,
        id: ReadSetId,
        group: usize,
        realm: Realm,
        turn: &mut Turn<S>,
    ) -> ProxyId {
        let readers = &self.read_sets[id.0 as usize].groups[group];
        if let Some((_, proxy)) = readers.proxies.iter().find(|(r, _)| *r == realm) {
            return *proxy;
        }
        let proxy = self.new_proxy();
        let read_set = &mut self.read_sets[id.0 as usize];
        read_set.wanted = true;
        read_set.groups[group].proxies.push((realm, proxy));
        let late = std::mem::take(&mut read_set.groups[group].late);
        for (lane, point) in self.read_sets[id.0 as usize].groups[group].last.clone() {
            self.ask(lane, point, turn);
        }
        late.into_iter().for_each(|reader| self.want(reader, turn));
        proxy
    }

    /// The host waits for this node's end: its point is armed, now or when it is fed.
    pub fn want(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        if std::mem::replace(&mut node.wanted, true) {
            return;
        }
        match node.state {
            State::Fed(lane, point) => self.ask(lane, point, turn),
            State::Passed => self.want_inputs(id, turn),
            _ => {}
        }
    }

    /// A node has passed, and waits for the verdicts of what it read. They are there to be had, as it ran behind all
    /// that, but on lanes whose next verdict may be asked for much later: if the host waits for this node, it asks.
    pub(super) fn await_verdicts(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let realm = self.realm(self.nodes[id].place);
        let node = &mut self.nodes[id];
        node.state = State::Passed;
        node.wanted |= node.read_sets.iter().any(|e| self.read_sets[e.0 as usize].wanted);
        if node.wanted {
            return self.want_inputs(id, turn);
        }
        for read_set in &self.nodes[id].read_sets {
            let readers = self.read_sets[read_set.0 as usize].group(realm);
            readers.late.push(id);
            // Those that have settled since are dropped now and then, so that the list stays as short as it can be.
            if readers.late.len() > 2 * readers.unsettled as usize {
                readers.late.retain(|id| self.nodes.contains(*id));
            }
        }
    }

    /// Asks for the verdicts that a node which has passed still waits for, and that those wait for in turn.
    fn want_inputs(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let mut todo: SmallVec<[NodeId; 4]> = SmallVec::from_iter([id]);
        while let Some(id) = todo.pop() {
            for input in std::mem::take(&mut self.nodes[id].reads) {
                self.tally.nodes_visited += 1;
                let Some(node) = self.nodes.get_mut(input).filter(|n| !n.wanted) else { continue };
                node.wanted = true;
                match node.state {
                    State::Passed => todo.push(input),
                    State::Fed(lane, point) => self.ask(lane, point, turn),
                    _ => {}
                }
            }
        }
    }

    /// A proxy's future has run: opens the gates behind it.
    pub fn open_proxy(&mut self, proxy: ProxyId, turn: &mut Turn<S>) {
        if let Some(proxy) = self.proxies.remove(proxy) {
            self.open_list(proxy.waiting, None, turn);
        }
        self.finish_pending(turn);
    }

    /// Something outside that held this node back has happened.
    pub fn open(&mut self, id: NodeId, turn: &mut Turn<S>) {
        self.open_gate(id, turn);
        self.finish_pending(turn);
    }

    /// Opens one gate for each edge of a list that leads to a node held back, and drops the list. `fed` says where
    /// the one ahead was fed, for those behind it to wait for.
    pub(super) fn open_list(&mut self, mut head: u32, fed: Option<(LaneId, u64)>, turn: &mut Turn<S>) {
        while head != NONE {
            let edge = self.edges.remove(head as usize);
            head = edge.next;
            if let Some((lane, point)) = fed {
                self.wait_natively(edge.to, lane, point);
            }
            self.open_gate(edge.to, turn);
        }
    }

    /// One thing less holds this node back.
    pub(super) fn open_gate(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        node.gates -= 1;
        if node.gates == 0 {
            self.ready(id, None, turn);
        } else if node.gates == 1 && node.is_transfer {
            self.stage(id, turn);
        }
    }

    /// Nothing holds the node back any more: it goes to its lane's list, or to the host side.
    fn ready(&mut self, id: NodeId, follows: Option<LaneId>, turn: &mut Turn<S>) {
        if let Some(cause) = self.lost_under(id) {
            cold_path();
            self.nodes[id].end.get_or_insert(End::Failed(cause));
            return self.pending.push(id);
        }
        let node = &mut self.nodes[id];
        let Place::Device(device) = node.place else {
            if node.end.is_some() {
                self.pending.push(id);
            } else {
                node.state = State::Running;
                turn.start.push(id);
            }
            return;
        };
        let lane = follows.unwrap_or_else(|| self.choose_lane(device, id));
        self.queue(id, lane, turn);
        let mut last = id;
        while let Some(next) = self.held_by(last, lane) {
            self.queue(next, lane, turn);
            last = next;
        }
    }

    /// A node that only waits for this one, which stands last on its lane's list, to be fed: it may as well stand right behind
    /// it, since the lane keeps them in order. One of them alone: others may find a lane that has less to do.
    ///
    /// The edge goes, as the one gate that it was. Nothing on the way can need it: a node on a list is fed, or takes its
    /// place there as a barrier, or goes with its lane and all that stands there.
    fn held_by(&mut self, id: NodeId, lane: LaneId) -> Option<NodeId> {
        let place = self.nodes[id].place;
        let (mut before, mut at) = (NONE, self.nodes[id].out_fed);
        while at != NONE {
            let Edge { to, next, .. } = self.edges[at as usize];
            let node = self.nodes.get(to);
            let only = node.is_some_and(|n| n.gates == 1 && n.end.is_none() && n.place == place);
            if only && self.is_for(to, lane) && self.lost_under(to).is_none() {
                match before {
                    NONE => self.nodes[id].out_fed = next,
                    before => self.edges[before as usize].next = next,
                }
                self.edges.remove(at as usize);
                self.nodes[to].gates = 0;
                return Some(to);
            }
            (before, at) = (at, next);
        }
        None
    }

    /// Puts a node that nothing holds back on a lane's list.
    fn queue(&mut self, id: NodeId, lane: LaneId, turn: &mut Turn<S>) {
        let node = &mut self.nodes[id];
        node.state = State::Queued(lane);
        // What stands before it on its own lane needs no wait.
        match &node.waits[..] {
            [] => {}
            [(only, _)] if *only == lane => node.waits.clear(),
            _ => node.waits.retain(|(other, _)| *other != lane),
        }
        let weight = node.weight;
        let list = &mut self.lanes[lane.0 as usize];
        list.list.push_back((id, weight));
        if list.has_room() {
            turn.lane_ready(lane);
        }
    }
}
