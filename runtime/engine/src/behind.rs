//! Order through contexts that are lost.
//!
//! Others rely on the order through nodes that end with their context: with a copy between them, whoever overwrites what another reads
//! or writes waits for the copy alone.
//!
//! What has been fed waits natively, and a lost context's points count as passed. So a group waits for what such a copy has to wait for
//! as well, as long as that has not been passed: [`Engine::wait_through_others`].
//!
//! For all others, what a lost node had yet to wait for on lanes that go on is waited for behind the loss: by everything that has not
//! been fed or started, natively in that domain, and elsewhere by a gate. That is more than it would have to be, and no more than what
//! the lanes had been fed by then.

use std::hint::cold_path;

use super::ids::{ContextId, LaneId};
use super::points::{LastPoints, see};
use super::{Engine, NodeId, Place, Shell, State, Turn};

impl<S: Shell> Engine<S> {
    /// What nodes of a lost context waited for that were on its lanes.
    pub(super) fn hand_on_lanes_waits(&mut self, context: ContextId, turn: &mut Turn<S>) {
        let on_lanes =
            self.lanes.iter().filter(|lane| self.devices[lane.device.0 as usize].context == context);
        let nodes = on_lanes.flat_map(|lane| {
            let in_flight = lane.in_flight.iter().map(|flight| flight.node);
            in_flight.chain(lane.list.iter().map(|(node, _)| *node))
        });
        let nodes: Vec<NodeId> = nodes.collect();
        let mut waits = Vec::new();
        for id in nodes {
            waits.extend(self.nodes.get_mut(id).into_iter().flat_map(|node| std::mem::take(&mut node.waits)));
        }
        self.all_wait_behind(&waits, context, turn);
    }

    /// A node ends that was never fed. If that is because its context is lost, what it waited for is handed on.
    pub(super) fn hand_on_waits(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let Place::Device(device) = self.nodes[id].place else { return };
        if self.nodes[id].waits.is_empty() || self.lost(device).is_none() {
            return;
        }
        cold_path();
        let waits = std::mem::take(&mut self.nodes[id].waits);
        self.all_wait_behind(&waits, self.devices[device.0 as usize].context, turn);
    }

    fn all_wait_behind(&mut self, waits: &[(LaneId, u64)], lost: ContextId, turn: &mut Turn<S>) {
        let known = self.behind_losses.clone();
        let is_new = |&&(lane, point): &&(LaneId, u64)| {
            let goes_on = self.context_of(lane) != lost && point > self.lanes[lane.0 as usize].passed;
            goes_on && !known.iter().any(|(of, last)| *of == lane && *last >= point)
        };
        let mut new = LastPoints::new();
        waits.iter().filter(is_new).for_each(|(lane, point)| see(&mut new, *lane, *point));
        // What has not been fed waits for the others already. So however many are lost at once, few of them come past here.
        if new.is_empty() {
            return;
        }
        new.iter().for_each(|(lane, point)| see(&mut self.behind_losses, *lane, *point));
        let waiting: Vec<NodeId> =
            self.nodes.iter().filter(|(_, node)| node.is_waiting()).map(|(id, _)| id).collect();
        for id in waiting {
            let gates = self.wait_behind_all(id, &new, turn);
            self.nodes[id].gates += gates;
            if gates > 0 {
                self.is_held_in_lines(id);
            }
        }
    }

    /// Has a node that is being planned wait for what was lost had to wait for. Returns how many gates that takes.
    #[cold]
    pub(super) fn wait_behind_losses(&mut self, id: NodeId, turn: &mut Turn<S>) -> u32 {
        let Engine { lanes, behind_losses, .. } = self;
        behind_losses.retain(|(lane, point)| *point > lanes[lane.0 as usize].passed);
        let all = self.behind_losses.clone();
        self.wait_behind_all(id, &all, turn)
    }

    fn wait_behind_all(&mut self, id: NodeId, points: &LastPoints, turn: &mut Turn<S>) -> u32 {
        let (realm, state) = (self.realm(self.nodes[id].place), self.nodes[id].state);
        let mut gates = 0;
        for &(lane, point) in points {
            // No native wait leads from one realm to another, and a lane keeps what is on its list in order by itself.
            if self.realm(Place::Device(self.lanes[lane.0 as usize].device)) == realm {
                if state != State::Queued(lane) {
                    self.wait_natively(id, lane, point);
                }
            // What is on a list of another realm was held back by nothing that is lost.
            } else if state == State::Gated
                && let Some(ahead) = self.in_flight(lane, point)
            {
                let proxy = self.proxy_from(ahead, realm, turn);
                self.wait_behind(proxy, id, turn);
                gates += 1;
            }
        }
        gates
    }

    /// A node that is being fed waits for points of other contexts. They are passed if such a context is lost, whatever they had to
    /// wait for; so it waits for that as well, as far as that is of yet another context or of its own.
    #[cold]
    pub(super) fn wait_through_others(&mut self, id: NodeId, lane: LaneId) {
        let own = self.context_of(lane);
        let Engine { nodes, lanes, devices, .. } = self;
        let context_of = |lane: LaneId| devices[lanes[lane.0 as usize].device.0 as usize].context;
        let mut waits = nodes[id].waits.clone();
        let mut seen = waits.clone();
        let mut todo: LastPoints = waits.iter().filter(|(of, _)| context_of(*of) != own).copied().collect();
        while let Some((other, upto)) = todo.pop() {
            let flights = lanes[other.0 as usize].in_flight.iter().take_while(|flight| flight.point <= upto);
            for &(of, point) in flights.flat_map(|flight| &nodes[flight.node].waits) {
                let is_known = seen.iter().any(|(known, last)| *known == of && *last >= point);
                if of == lane || is_known || point <= lanes[of.0 as usize].passed {
                    continue;
                }
                see(&mut seen, of, point);
                // One context is lost as a whole.
                if context_of(of) != context_of(other) {
                    see(&mut waits, of, point);
                }
                // With the last point of a lane its flights are walked once, and not once for each that is named.
                if context_of(of) != own {
                    see(&mut todo, of, point);
                }
            }
        }
        self.nodes[id].waits = waits;
    }
}
