//! Edges: how a new node is linked behind its predecessors, and what opens its gates.

use std::hint::cold_path;

use smallvec::SmallVec;

use super::ids::LaneId;
use super::links::{Edge, FED, GATE, NONE, NOTHING, push};
use super::points::see;
use super::preds::Preds;
use super::{End, Engine, NodeId, Place, Proxy, ProxyId, ReadSetId, Realm, Shell, State, Turn};

/// What a node has to wait for before it can be queued.
#[derive(Default)]
struct Ahead {
    host: u32,
    unfed: u32,
    /// The lane on which all unfed predecessors of its own realm seen so far are queued.
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

/// Of no more nodes than these under way on a lane each counts as alone there.
const FEW: usize = 4;

impl<S: Shell> Engine<S> {
    /// Links a new node behind everything in `preds`, and queues it if nothing holds it back.
    pub(super) fn attach(&mut self, id: NodeId, preds: &mut Preds, gates: u32, turn: &mut Turn<S>) {
        self.is_born_in_lines(id);
        // Each predecessor is linked once. Two edges to the same node would count two gates, and `held_by` takes
        // a node with one gate for one that waits for nothing but the edge in its hands.
        preds.settle_duplicates();
        self.joins_chain(id, preds);
        if self.record.is_some() {
            self.note_edges(id, preds);
        }
        let place = self.nodes[id].place;
        let new = Newcomer { id, place, realm: self.realm(place) };
        let mut ahead = Ahead { host: gates, ..Ahead::default() };
        if !self.behind_losses.is_empty() {
            ahead.host += self.wait_behind_losses(id, turn);
        }
        for &(from, carries) in &preds.nodes {
            self.survey(from, carries, new, &mut ahead, turn);
        }
        for &read_set in &preds.read_sets {
            self.link_read_set(read_set, new, &mut ahead, turn);
        }
        // If all unfed predecessors are queued on one lane, this node can join that lane's list at once: the
        // list is fed in order, so they need no edges. With any other gate it must not: it would stand on the
        // list, not ready, and block everything behind it. Then it waits until each of them has been fed. Which
        // of the two it is can only be said once all predecessors have been seen, hence the second pass.
        let joins = !ahead.scattered && ahead.host == 0;
        let follows = ahead.lane.filter(|_| joins && !self.may_give_up_room(id));
        if follows.is_none() && (ahead.scattered || ahead.lane.is_some()) {
            for &(from, _) in &preds.nodes {
                ahead.unfed += u32::from(self.gate_until_fed(from, new));
            }
        }
        let node = &mut self.nodes[id];
        node.gates = ahead.host + ahead.unfed;
        match node.gates {
            0 => self.ready(id, follows, turn),
            _ => self.is_held_in_lines(id),
        }
    }

    /// Looks at one predecessor: makes the data edge, the native wait or the proxy that it calls for.
    fn survey(&mut self, from: NodeId, carries: u8, new: Newcomer, found: &mut Ahead, turn: &mut Turn<S>) {
        let Newcomer { id: to, place, realm } = new;
        // A predecessor that has settled orders nothing any more. If it failed, the segments say so already:
        // planning has looked at them (`doom_by_content`).
        let Some(ahead) = self.nodes.get_mut(from) else { return };
        self.tally.nodes_visited += 1;
        if carries != NOTHING {
            push(&mut self.edges, &mut ahead.out, to, carries);
        }
        let (its, state) = (ahead.place, ahead.state);
        // Being ordered behind a node is one thing, sharing its failure another: this count keeps the newcomer from
        // settling, however early it runs, until the verdict that it might share is in.
        if carries != NOTHING {
            let node = &mut self.nodes[to];
            node.unsettled += 1;
            node.reads.push(from);
            self.share_failure(from, to, carries);
        }
        // No native wait leads from one realm to another, nor to the host. The state of the one ahead does not
        // matter here: the proxy opens when it settles, even if it passed long ago and only its inputs' verdicts
        // are missing.
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
            // Its commands have ended or will never run: nothing to wait for. (Nothing in a domain is ever
            // `Running`.)
            State::Passed | State::Running => {}
        }
    }

    /// If the predecessor is already certain to fail, so is the newcomer.
    #[inline]
    pub(super) fn share_failure(&mut self, from: NodeId, to: NodeId, carries: u8) {
        let ahead = &self.nodes[from];
        if ahead.end.is_none() {
            return;
        }
        cold_path();
        let Some(cause) = ahead.takes_down(carries).cloned() else { return };
        // The first cause stays. Failures that become certain later find the newcomer by its edge (`doom_behind`);
        // this one was certain before the edge was there.
        let node = &mut self.nodes[to];
        if node.end.is_none() {
            node.end = Some(End::Doomed(cause));
            self.nodes[from].took_down += u32::from(!self.nodes[to].is_transfer);
            self.ends_in_lines(to);
        }
    }

    #[inline]
    pub(super) fn wait_natively(&mut self, to: NodeId, lane: LaneId, point: u64) {
        // A lane that is lost counts as passed as a whole, so that no native call names its points.
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
        // `Feeding` counts as unfed: its point exists, but the native call that records it may still be to come, and
        // a wait for a point that was not recorded is no wait at all. `confirm` opens this edge.
        let unfed = matches!(ahead.state, State::Gated | State::Queued(_) | State::Feeding(..));
        if !unfed || realm == Realm::Host || self.realm(place) != realm {
            return false;
        }
        push(&mut self.edges, &mut self.nodes[from].out_fed, to, FED);
        true
    }

    /// Links a writer behind all readers of a read set, at a cost that does not depend on how many they are.
    #[inline(never)]
    fn link_read_set(&mut self, id: ReadSetId, new: Newcomer, found: &mut Ahead, turn: &mut Turn<S>) {
        let Newcomer { id: to, realm, .. } = new;
        for at in 0..self.read_sets[id.0 as usize].groups.len() {
            self.tally.nodes_visited += 1;
            let group = &mut self.read_sets[id.0 as usize].groups[at];
            if group.unsettled == 0 {
                continue;
            }
            // The set was closed when it became a predecessor, so its counts only fall from here on: what is
            // decided now cannot be overtaken by a reader that joins later.
            if group.realm != realm || realm == Realm::Host {
                let proxy = self.proxy_from_read_set(id, at, realm, turn);
                self.wait_behind(proxy, to, turn);
                found.host += 1;
            } else if group.unfed > 0 {
                // One edge for all of them. The last reader to be fed opens it, and hands over the points
                // (`count_fed`).
                push(&mut self.edges, &mut group.waiting, to, FED);
                found.host += 1;
            } else {
                // A lane passes its points in order, so one wait per lane covers all readers on it.
                for (lane, point) in group.last.clone() {
                    self.wait_natively(to, lane, point);
                }
            }
        }
    }

    /// Opening a guard makes no native call and runs no user code, so it is done in the turn that settles the
    /// source. Any other node needs one of the shell's futures to open it.
    pub(super) fn wait_behind(&mut self, proxy: ProxyId, to: NodeId, turn: &mut Turn<S>) {
        let entry = &mut self.proxies[proxy];
        push(&mut self.edges, &mut entry.waiting, to, GATE);
        // The future is asked for once, when the first node that needs it arrives: guards may have been waiting
        // here without one. From then on it opens the guards as well, so that each gate is opened once.
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
    pub(super) fn proxy_from(&mut self, from: NodeId, realm: Realm, turn: &mut Turn<S>) -> ProxyId {
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
        // The host now waits for the end of every reader, and a lane reports only what it is asked for. Readers
        // that were fed are covered by the last point of their lane, those to be fed ask by themselves
        // (`count_fed` looks at
        // `wanted`), and those that have passed wait for verdicts of their inputs, which must be asked for one by one.
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

    /// The host waits for this node's end: its point is armed now, or when it is fed.
    pub fn want(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let Some(node) = self.nodes.get_mut(id) else { return };
        if std::mem::replace(&mut node.wanted, true) {
            return;
        }
        match node.state {
            State::Fed(lane, point) => self.ask(lane, point, turn),
            State::Passed => self.want_inputs(id, turn),
            // It may have been left there: see `may_be_left`.
            State::Queued(lane) => turn.lane_ready(lane),
            // It has no point to arm yet: `pop` and `confirm` look at the flag.
            _ => {}
        }
    }

    /// Where a node is under way, if it has been fed to a lane that has little to do besides. A guard is nowhere, but
    /// what it waits for is: the last of what it reads, most often its only copy.
    pub fn alone_on(&self, id: NodeId) -> Option<(LaneId, u64)> {
        let node = self.nodes.get(id)?;
        match node.state {
            State::Fed(lane, point) if self.lanes[lane.0 as usize].in_flight.len() <= FEW => {
                Some((lane, point))
            }
            State::Gated if node.is_guard => node.reads.iter().rev().find_map(|read| self.alone_on(*read)),
            _ => None,
        }
    }

    /// A node has passed, and waits for the verdicts of what it read. Those inputs have ended, since this node
    /// ran behind them, but their lanes may not report for a long time unless they are asked. If the host waits
    /// for this node, it asks.
    pub(super) fn await_verdicts(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let realm = self.realm(self.nodes[id].place);
        self.comes_to(id, |node| node.state = State::Passed);
        let node = &mut self.nodes[id];
        // A proxy behind one of its read sets counts as the host waiting for each reader. It asked for the
        // points of those that were fed by then; this node's own point has passed since, and only its inputs are
        // left to ask for.
        node.wanted |= node.read_sets.iter().any(|e| self.read_sets[e.0 as usize].wanted);
        if node.wanted {
            return self.want_inputs(id, turn);
        }
        // Nothing asks for them yet, but a proxy may come later and has to find this node: its own point has
        // passed, so arming the lane would tell nothing about its inputs.
        for read_set in &self.nodes[id].read_sets {
            let readers = self.read_sets[read_set.0 as usize].group(realm);
            readers.late.push(id);
            // Readers that have settled since are dropped when they are the majority: the list is bounded by the
            // readers that are outstanding, at an amortised constant cost for each.
            if readers.late.len() > 2 * readers.unsettled as usize {
                readers.late.retain(|id| self.nodes.contains(*id));
            }
        }
    }

    /// Asks for the verdicts that a node which has passed still waits for, and that those wait for in turn.
    fn want_inputs(&mut self, id: NodeId, turn: &mut Turn<S>) {
        // A list, and no recursion: a chain of nodes that have passed may be as long as a program. Taking `reads`
        // visits each edge once, however many nodes ask, as a node that is wanted has asked for its inputs already.
        let mut todo: SmallVec<[NodeId; 4]> = SmallVec::from_iter([id]);
        while let Some(id) = todo.pop() {
            for input in std::mem::take(&mut self.nodes[id].reads) {
                self.tally.nodes_visited += 1;
                let Some(node) = self.nodes.get_mut(input).filter(|n| !n.wanted) else { continue };
                node.wanted = true;
                match node.state {
                    State::Passed => todo.push(input),
                    State::Fed(lane, point) => self.ask(lane, point, turn),
                    // Not fed yet, which happens where this node only passed because its lane was lost: `pop` and
                    // `confirm` see that the input is wanted.
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
            return self.ready(id, None, turn);
        }
        if node.gates == 1 && node.is_transfer {
            // The last gate of a staged download is the shell's own: all that is outside has happened.
            self.stage(id, turn);
        }
        self.is_held_in_lines(id);
    }

    /// The last gate is open: the node goes to its lane's list, or to the host side.
    fn ready(&mut self, id: NodeId, follows: Option<LaneId>, turn: &mut Turn<S>) {
        // Nothing is queued on a lost lane, which will never be fed. The node ends by way of `pending` rather than
        // here: its end opens others, and those may be on a lost context too, in a chain of any length.
        if let Some(cause) = self.lost_under(id) {
            cold_path();
            self.nodes[id].end.get_or_insert(End::Failed(cause));
            self.note_certain(id, turn);
            return self.pending.push(id);
        }
        let node = &mut self.nodes[id];
        let Place::Device(device) = node.place else {
            // The host side has no barrier to run in the place of a doomed node. All that it comes after has
            // ended, so it may end too.
            if node.end.is_some() {
                self.pending.push(id);
            } else {
                self.comes_to(id, |node| node.state = State::Running);
                turn.start.push(id);
            }
            return;
        };
        if self.may_give_up_room(id) && self.gives_up_room(id, turn) {
            return;
        }
        let lane = follows.unwrap_or_else(|| self.choose_lane(device, id));
        self.queue(id, lane, turn);
        let mut last = id;
        while let Some(next) = self.held_by(last, lane) {
            self.queue(next, lane, turn);
            last = next;
        }
    }

    /// A node that only waits for this one, the last on its lane's list, to be fed: it can be queued right
    /// behind it, since the lane keeps them in order. Only one is taken: others may find a lane that has less to
    /// do.
    ///
    /// Its edge is removed together with the gate. It is not needed again: a node on a list is fed, takes its
    /// place there as a barrier, or is lost together with its lane and the whole list.
    fn held_by(&mut self, id: NodeId, lane: LaneId) -> Option<NodeId> {
        let place = self.nodes[id].place;
        let (mut before, mut at) = (NONE, self.nodes[id].out_fed);
        while at != NONE {
            let Edge { to, next, .. } = self.edges[at as usize];
            let node = self.nodes.get(to);
            // The edge is one open gate of `to`, so a count of one says that there is no other.
            let only = node.is_some_and(|n| n.gates == 1 && n.end.is_none() && n.place == place);
            let only = only && !self.may_give_up_room(to);
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
        self.comes_to(id, |node| node.state = State::Queued(lane));
        let node = &mut self.nodes[id];
        // The lane runs its groups in order: what stands before it there needs no wait.
        match &node.waits[..] {
            [] => {}
            [(only, _)] if *only == lane => node.waits.clear(),
            _ => node.waits.retain(|(other, _)| *other != lane),
        }
        let weight = node.weight;
        let list = &mut self.lanes[lane.0 as usize];
        list.list.push_back((id, weight));
        // A full lane is not reported: the verdict that makes room does that (`passed`).
        if list.has_room() {
            turn.lane_ready(lane);
        }
    }
}
