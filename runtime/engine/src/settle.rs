//! How nodes end: settling, failure along the data, cancellation.

use slab::Slab;
use smallvec::SmallVec;

use super::edges::{DATA, EVENT, NONE};
use super::segments::Content;
use super::{
    End, Engine, NodeId, Outcome, ProxyId, ReadSet, ReadSetId, Realm, RootId, Settled, Shell, State, Turn,
    Use,
};

/// What came of a wish to cancel.
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
        let (fed, unsettled) = (matches!(node.state, State::Fed(..) | State::Passed), node.unsettled);
        if !fed {
            self.count_fed(id, None, turn);
        }
        if unsettled > 0 {
            return self.await_verdicts(id, turn);
        }
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

    /// Ends the nodes that came to their turn only to end there. One can bring on the next, in chains of any length:
    /// hence a list, and no recursion.
    pub(super) fn finish_pending(&mut self, turn: &mut Turn<S>) {
        while let Some(id) = self.pending.pop() {
            self.finish(id, turn);
        }
    }

    /// Takes a node out of the tables, and tells everyone whom that concerns.
    fn settle(&mut self, id: NodeId, ended: &mut SmallVec<[NodeId; 4]>, turn: &mut Turn<S>) {
        let node = &mut self.nodes[id];
        let (place, is_guard) = (node.place, node.is_guard);
        let outcome = match node.end.take() {
            None => Outcome::Done,
            Some(end) => self.spread(id, end, turn),
        };
        if is_guard {
            self.end_guard(id, outcome == Outcome::Done);
        }
        self.release_readers(id, ended);
        let realm = self.realm(place);
        let Engine { nodes, roots, read_sets, .. } = self;
        let Some(node) = nodes.vacate(id) else { return };
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
        for &Use { root, .. } in &node.uses {
            let entry = &mut roots[root];
            entry.users -= 1;
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

    /// Those that read what this node wrote no longer wait for its verdict.
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

    /// Everyone behind `id` on an edge that carries one of `kinds` fails with it, and everyone who reads what those
    /// write, directly or not.
    pub(super) fn doom_behind(&mut self, id: NodeId, cause: &S::Cause, kinds: u8, turn: &mut Turn<S>) {
        let mut todo: SmallVec<[(u32, u8); 8]> = SmallVec::from_iter([(self.nodes[id].out, kinds)]);
        let mut took_down = 0;
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
                todo.push((reader.out, DATA | EVENT));
                let behind = edge.to;
                self.note_certain(behind, turn);
            }
        }
        self.nodes[id].took_down += took_down;
    }

    /// Dooms everyone on a list of those held back, and all who read what they write.
    pub(super) fn doom_list(&mut self, mut head: u32, cause: &S::Cause, turn: &mut Turn<S>) {
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
            // It remains cancelled, but not even what was there before is where it should be.
            Some(End::Cancelled { leaves: leaves @ None, .. }) => *leaves = Some(cause.clone()),
            Some(_) => return false,
        }
        self.note_certain(id, turn);
        true
    }

    /// What a failed node wrote: a group's versions are poisoned where they are still the newest, a transfer's target
    /// is stale again. If its source has been lost meanwhile, the version has no copy left, and is poisoned as well.
    fn mark_failed(&mut self, id: NodeId, cause: &S::Cause, turn: &mut Turn<S>) {
        let transfer = self.nodes[id].is_transfer;
        for i in 0..self.nodes[id].uses.len() {
            let Use { root, memory, writes } = self.nodes[id].uses[i];
            if !writes {
                continue;
            }
            let segments = &mut self.roots[root].segments;
            for at in 0..segments.len() {
                let segment = segments.get_mut(at);
                let carried = transfer && segment.replica(memory).is_some_and(|r| r.fails_with == Some(id));
                if carried {
                    let never = matches!(segment.content, Content::Never);
                    let target = segment.replica_mut(memory);
                    // A clear that failed leaves bytes that nobody has written: the next reader asks for another.
                    (target.valid, target.valid_unless, target.cleared) = (never, None, false);
                    if segment.is_nowhere() {
                        segment.end_guards();
                    }
                }
                let wrote = !transfer && segment.author == Some(id);
                let last = carried && matches!(segment.content, Content::Written) && segment.is_nowhere();
                if wrote || last {
                    segment.content.become_other(Content::Poisoned(cause.clone()), &mut turn.causes);
                }
            }
        }
    }

    /// Why some of a box has no data, if that is so.
    pub fn poison(&self, root: super::RootId, bounds: &super::Box3) -> Option<&S::Cause> {
        let segments = &self.roots.get(root)?.segments;
        segments.overlapping(bounds).into_iter().find_map(|at| {
            let segment = segments.get(at);
            // Who was to write it may be known to fail, and not have settled.
            let author = segment.author.and_then(|author| self.nodes.get(author));
            segment.content.poison().or_else(|| author?.takes_down(DATA))
        })
    }

    /// Nobody wants this group any more. It is skipped if it has not been fed or started; then it keeps its place in
    /// the order, and runs nothing there.
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
        self.note_certain(id, turn);
        self.doom_behind(id, &cause, if keep { EVENT } else { DATA | EVENT }, turn);
        if self.nodes[id].is_guard {
            self.let_go_of_guard(id);
        }
        self.finish_pending(turn);
        Cancelled::Skipped
    }

    /// Has the owner told of a node that will not run, if it has been neither fed nor started.
    pub(super) fn note_certain(&mut self, id: NodeId, turn: &mut Turn<S>) {
        let node = &mut self.nodes[id];
        if node.end.is_some() && !node.certain && !node.is_transfer && node.is_waiting() {
            node.certain = true;
            turn.certain.push(id);
        }
    }

    /// What a node is, and how it is going to end, if that is certain, and was not told before. The node itself stays for
    /// the order through it, and settles when its turn comes. Nothing if it has settled meanwhile.
    pub fn tell(&mut self, id: NodeId) -> Option<(&S::Work, Outcome<S::Cause>)> {
        let node = self.nodes.get_mut(id).filter(|node| node.certain && !node.told)?;
        let (outcome, _) = outcome_of(node.end.clone()?);
        node.told = true;
        Some((node.work.as_ref()?, outcome))
    }
}

/// How a node ended that did not end well, and why what it wrote is no good, if it is none.
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
