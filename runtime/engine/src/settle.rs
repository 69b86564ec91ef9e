//! How nodes end: settling, failure along the data, cancellation.

use slab::Slab;
use smallvec::SmallVec;

use super::ids::MemoryId;
use super::links::{DATA, EVENT, NONE};
use super::node::Does;
use super::segments::{Content, Replica};
use super::{
    End, Engine, HEAP, NodeId, Outcome, ProxyId, ReadSet, ReadSetId, Realm, RootId, Settled, Shell, State,
    Turn, Use,
};

/// The result of a request to cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// It will not run.
    Skipped,
    /// It has been fed or started, and runs to its end.
    TooLate,
    /// It had ended, or its end was already certain.
    Done,
}

impl<S: Shell> Engine<S> {
    /// A node's own part is over. It settles once the verdicts of all that it read are in.
    pub(super) fn finish(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let node = &self.nodes[id];
        // A node that was fed has been counted by `confirm`. One that ends without that (on the host side, or
        // with its lane) never will be, and what waits for it to be fed would wait for ever.
        let (fed, unsettled) = (matches!(node.state, State::Fed(..) | State::Passed), node.unsettled);
        if !fed {
            self.hand_on_waits(id, turn);
            self.count_fed(id, None, turn);
        }
        if unsettled > 0 {
            return self.await_verdicts(id, turn);
        }
        // Settling one node may complete readers that had passed before it. They are settled from a list: a
        // chain of them may be as long as the program, and recursion would exhaust the stack.
        let mut ended: SmallVec<[NodeId; 4]> = SmallVec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            self.settle(id, &mut ended, turn);
            next = ended.pop();
        }
    }

    /// A host-side node that was started has ended.
    pub fn finish_host(&mut self, id: NodeId, result: Result<(), S::Cause>, turn: &mut Turn<S>) {
        let Some(node) = self.nodes.get_mut(id) else { return turn.causes.extend(result.err()) };
        if let Err(cause) = result {
            node.fails(cause, turn);
        }
        self.finish(id, turn);
        self.finish_pending(turn);
        self.look_for_unused(turn);
    }

    /// Ends the nodes that became ready but will not run. Each can make others ready, in chains of any length:
    /// hence a list, and no recursion.
    pub(super) fn finish_pending(&mut self, turn: &mut Turn<S>) {
        while let Some(id) = self.pending.pop() {
            self.finish(id, turn);
        }
    }

    /// Takes a node out of the tables, with all that follows from its end.
    fn settle(&mut self, id: NodeId, ended: &mut SmallVec<[NodeId; 4]>, turn: &mut Turn<S>) {
        let node = &mut self.nodes[id];
        let (place, is_guard) = (node.place, node.is_guard);
        // Failure spreads along the edges that `release_readers` is about to drop. A reader that is released first
        // could settle as done in this very turn.
        let outcome = match node.end.take() {
            None => Outcome::Done,
            Some(end) => self.spread(id, end, turn),
        };
        if is_guard {
            self.end_guard(id, outcome == Outcome::Done);
        }
        self.release_readers(id, ended);
        let (is_done, failed) = (outcome == Outcome::Done, self.why_swap_failed(id, &outcome));
        let realm = self.realm(place);
        self.settles_in_lines(id);
        let Engine { nodes, roots, read_sets, closing_slots, .. } = self;
        let Some(node) = nodes.vacate(id) else { return };
        // Proxies are fired last, when no table shows this node any more: firing one may open guards in this
        // very turn.
        let mut fired: SmallVec<[ProxyId; 2]> = SmallVec::new();
        if !node.proxies.is_empty() {
            fired.extend(node.proxies.iter().map(|(_, proxy)| *proxy));
        }
        for read_set in &node.read_sets {
            leave_read_set(*read_set, read_sets, realm, &mut fired);
        }
        if let Some(work) = node.work.take() {
            let (commands, took_down, told) = (node.commands.take().map(Box::new), node.took_down, node.told);
            turn.settled.push(Settled { node: id, work, commands, outcome, took_down, told });
        }
        let mut released: SmallVec<[RootId; 2]> = SmallVec::new();
        let mut closing: SmallVec<[(RootId, MemoryId); 2]> = SmallVec::new();
        for &Use { root, memory, does } in &node.uses {
            if closing_slots.contains(&(root, memory)) {
                closing.push((root, memory));
            }
            let entry = &mut roots[root];
            entry.users -= 1;
            if does.writes() {
                entry.copies.write(memory, if is_done { does } else { Does::Writes });
                entry.is_unclean &= !(is_done && memory == HEAP && does == Does::Replaces);
            }
            if !entry.guards.is_empty() {
                entry.guards.retain(|(guard, ..)| *guard != id);
            }
            if entry.released {
                released.push(root);
            }
        }
        node.clear();
        nodes.trim();
        for proxy in fired {
            self.fire(proxy, turn);
        }
        closing.into_iter().for_each(|(root, memory)| self.closing_user_ended(root, memory, turn));
        if !self.swaps.is_empty() {
            self.swap_step_ended(id, failed, turn);
        }
        if !released.is_empty() {
            released.into_iter().for_each(|root| self.reap_root(root, turn));
        }
    }

    /// A node has not ended well: those that read what it wrote share that.
    #[cold]
    fn spread(&mut self, id: NodeId, end: End<S::Cause>, turn: &mut Turn<S>) -> Outcome<S::Cause> {
        let (outcome, cause) = outcome_of(end);
        if let Some(cause) = cause {
            self.doom_behind(id, &cause, DATA | EVENT, turn);
            match self.nodes[id].hands_over {
                true => self.get_stuck(id, &cause, turn),
                false => self.mark_failed(id, &cause, turn),
            }
            turn.causes.push(cause);
        } else if let Outcome::Cancelled(cause) = &outcome {
            self.doom_behind(id, cause, EVENT, turn);
        }
        outcome
    }

    /// The readers of what this node wrote no longer wait for its verdict.
    fn release_readers(&mut self, id: NodeId, ended: &mut SmallVec<[NodeId; 4]>) {
        let mut head = std::mem::replace(&mut self.nodes[id].out, NONE);
        while head != NONE {
            let edge = self.edges.remove(head as usize);
            head = edge.next;
            let Some(reader) = self.nodes.get_mut(edge.to) else { continue };
            reader.unsettled -= 1;
            if reader.state == State::Passed && reader.unsettled == 0 {
                ended.push(edge.to);
            }
        }
    }

    /// Every node behind `id` on an edge that carries one of `kinds` fails with it, and so do the nodes that
    /// read what those write, directly or not.
    pub(super) fn doom_behind(&mut self, id: NodeId, cause: &S::Cause, kinds: u8, turn: &mut Turn<S>) {
        let mut todo: SmallVec<[(u32, u8); 8]> = SmallVec::from_iter([(self.nodes[id].out, kinds)]);
        let mut took_down = 0;
        // The edges stay: they are dropped when their node settles. A doomed node keeps its place in the order,
        // as others rely on the order through it, but its event can be told now.
        while let Some((mut head, kinds)) = todo.pop() {
            while head != NONE {
                let edge = self.edges[head as usize];
                head = edge.next;
                let Some(reader) = self.nodes.get_mut(edge.to).filter(|_| edge.kind & kinds != 0) else {
                    continue;
                };
                match &mut reader.end {
                    None => {
                        reader.end = Some(End::Doomed(cause.clone()));
                        took_down += u32::from(!reader.is_transfer);
                    }
                    // What was there before is what has failed.
                    Some(End::Cancelled { leaves: leaves @ None, .. }) => *leaves = Some(cause.clone()),
                    Some(_) => continue,
                }
                // Nodes whose end was certain have taken theirs down already, so each node is expanded twice at
                // most, and the walk ends. From here on the kinds of the start do not count: this node fails for
                // good.
                todo.push((reader.out, DATA | EVENT));
                let behind = edge.to;
                self.note_certain(behind, turn);
            }
        }
        self.nodes[id].took_down += took_down;
    }

    /// Fails every node on a list of gates, and dooms all that read what those write.
    pub(super) fn doom_list(&mut self, mut head: u32, cause: &S::Cause, turn: &mut Turn<S>) {
        // Only reads the list. The caller opens its gates afterwards, and not before: a node that became ready
        // without its failure would be queued as one that runs.
        while head != NONE {
            let edge = self.edges[head as usize];
            head = edge.next;
            self.fail(edge.to, cause.clone(), turn);
        }
    }

    /// A node that has not ended will fail, for a reason of its own.
    pub fn fail(&mut self, id: NodeId, cause: S::Cause, turn: &mut Turn<S>) {
        if self.will_fail(id, &cause, turn) {
            self.doom_behind(id, &cause, DATA | EVENT, turn);
        }
        turn.causes.push(cause);
    }

    /// Notes a node's own failure. False if its end is certain already.
    pub(super) fn will_fail(&mut self, id: NodeId, cause: &S::Cause, turn: &mut Turn<S>) -> bool {
        let Some(node) = self.nodes.get_mut(id) else { return false };
        match &mut node.end {
            None => node.end = Some(End::Failed(cause.clone())),
            // It stays cancelled, but it can no longer leave the previous data: that is not where it should be.
            Some(End::Cancelled { leaves: leaves @ None, .. }) => *leaves = Some(cause.clone()),
            Some(_) => return false,
        }
        self.note_certain(id, turn);
        true
    }

    /// Marks what a failed node wrote: a group's versions are poisoned where they are still the newest; a
    /// transfer's target is stale again, and if its source has been lost meanwhile the version has no copy left,
    /// and is poisoned too.
    pub(super) fn mark_failed(&mut self, id: NodeId, cause: &S::Cause, turn: &mut Turn<S>) {
        let transfer = self.nodes[id].is_transfer;
        for i in 0..self.nodes[id].uses.len() {
            let Use { root, memory, does } = self.nodes[id].uses[i];
            if !does.writes() {
                continue;
            }
            // All segments of the root, because the box of a use is not kept: it may have been cut and joined
            // since. The segments themselves say which of them are still this node's.
            if transfer {
                self.roots[root].expose(memory);
            }
            let segments = &mut self.roots[root].segments;
            for at in 0..segments.len() {
                let segment = segments.get_mut(at);
                // If another node wrote this copy since, it stands for the copy now. If it was a reader of this
                // one (it kept some bytes), it has been doomed by its edge, and marks the segment itself.
                let carried = transfer && segment.replica(memory).is_some_and(|r| r.fails_with == Some(id));
                if carried {
                    let never = matches!(segment.content, Content::Never);
                    let target = segment.replica_mut(memory);
                    // Never-written bytes are valid everywhere, but for a clear that they may need: the next reader
                    // plans another. Written ones are stale here, and the next reader fetches them again.
                    (target.valid, target.valid_unless, target.cleared) = (never, None, false);
                    // No valid copy is left: the source is lost, or this was the copy that guards count on, and
                    // the others are in reserve for them. Those guards are doomed with the transfer and write
                    // nothing, so what is in reserve counts again.
                    if segment.is_nowhere() {
                        segment.end_guards();
                    }
                }
                // A version that was overwritten since harms no later reader. A failed transfer is not the
                // version's failure: its source still has it, unless that is gone too.
                let wrote = !transfer && segment.author == Some(id);
                // What several wrote at once is of no use without one of them.
                let is_beside = |replica: &Replica| replica.beside.contains(&id);
                let beside = matches!(segment.content, Content::Written)
                    && segment.replica(memory).is_some_and(is_beside);
                let last = carried && matches!(segment.content, Content::Written) && segment.is_nowhere();
                if wrote || beside || last {
                    segment.content.become_other(Content::Poisoned(cause.clone()), &mut turn.causes);
                }
            }
        }
    }

    /// Why some of a box has no data, if that is so. A root whose memory is of no use any more has none at all.
    pub fn poison(&self, root: super::RootId, bounds: &super::Box3) -> Option<&S::Cause> {
        let entry = self.roots.get(root)?;
        let home = || self.lost_with(entry.home?);
        if let Some(cause) = entry.stuck.as_ref().or_else(home) {
            return Some(cause);
        }
        let segments = &entry.segments;
        segments.overlapping(bounds).into_iter().find_map(|at| {
            let segment = segments.get(at);
            // Its author may be certain to fail without having settled yet.
            let beside = segment.replicas.iter().flat_map(|replica| replica.beside.iter().copied());
            let mut writers = segment.author.into_iter().chain(beside).filter_map(|id| self.nodes.get(id));
            segment.content.poison().or_else(|| writers.find_map(|node| node.takes_down(DATA)))
        })
    }

    /// Cancels a group. It is skipped if it has not been fed or started: it keeps its place in the order, and
    /// runs nothing there.
    pub fn cancel(&mut self, id: NodeId, cause: S::Cause, turn: &mut Turn<S>) -> Cancelled {
        let refusal = match self.nodes.get(id) {
            None => Some(Cancelled::Done),
            Some(node) if node.certain => Some(Cancelled::Done),
            Some(node) if !node.is_waiting() => Some(Cancelled::TooLate),
            Some(_) => None,
        };
        if let Some(refusal) = refusal {
            turn.causes.push(cause);
            return refusal;
        }
        let node = &mut self.nodes[id];
        let keep = node.keeps_previous;
        node.end = Some(End::Cancelled { cause: cause.clone(), leaves: (!keep).then(|| cause.clone()) });
        // It stays where it is, gated or on a lane's list, and is popped as a barrier in its turn: nodes behind
        // it may have no other edge to those ahead of it. Only its readers learn now.
        self.note_certain(id, turn);
        self.doom_behind(id, &cause, if keep { EVENT } else { DATA | EVENT }, turn);
        if self.nodes[id].is_guard {
            self.let_go_of_guard(id);
        }
        self.finish_pending(turn);
        Cancelled::Skipped
    }

    /// Notifies the owner, once, of a node that will not run, if it has been neither fed nor started.
    pub(super) fn note_certain(&mut self, id: NodeId, turn: &mut Turn<S>) {
        // What has been fed or started is still running, so its event waits for the real end. Transfers have no
        // event.
        let node = &mut self.nodes[id];
        if node.end.is_some() && !node.certain && !node.is_transfer && node.is_waiting() {
            node.certain = true;
            turn.certain.push(id);
        }
        if node.end.is_some() {
            self.ends_in_lines(id);
        }
    }

    /// What a node is and how it is going to end, if that is certain and has not been told before. The node
    /// itself stays for the order through it, and settles when its turn comes. None if it has settled meanwhile.
    pub fn tell(&mut self, id: NodeId) -> Option<(&S::Work, Outcome<S::Cause>)> {
        let node = self.nodes.get_mut(id).filter(|node| node.certain && !node.told)?;
        let (outcome, _) = outcome_of(node.end.clone()?);
        node.told = true;
        Some((node.work.as_ref()?, outcome))
    }
}

/// How a node ended that did not end well, and the cause that its output carries, if it is unusable.
fn outcome_of<C: Clone>(end: End<C>) -> (Outcome<C>, Option<C>) {
    match end {
        End::Failed(cause) => (Outcome::Failed(cause.clone()), Some(cause)),
        End::Doomed(cause) => (Outcome::Doomed(cause.clone()), Some(cause)),
        End::Cancelled { cause, leaves } => (Outcome::Cancelled(cause), leaves),
    }
}

/// A reader of a read set has settled.
fn leave_read_set(
    id: ReadSetId,
    read_sets: &mut Slab<ReadSet>,
    realm: Realm,
    fired: &mut SmallVec<[ProxyId; 2]>,
) {
    let read_set = &mut read_sets[id.0 as usize];
    read_set.unsettled -= 1;
    let group = read_set.group(realm);
    group.unsettled -= 1;
    if group.unsettled == 0 && !group.proxies.is_empty() {
        fired.extend(group.proxies.drain(..).map(|(_, proxy)| proxy));
    }
    if read_set.is_over() && read_set.segments == 0 {
        read_sets.remove(id.0 as usize);
    }
}
