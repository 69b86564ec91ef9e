//! What a use of a cell must come after.

use smallvec::SmallVec;

use super::boxes::Box3;
use super::cells::{Cell, Cells, Content};
use super::edges::{DATA, NOTHING};
use super::ids::MemoryId;
use super::{Access, End, Engine, Epoch, EpochId, Mode, Mutant, NodeId, RootId, Shell};

/// The predecessors of a node that is being planned.
#[derive(Debug, Default)]
pub(super) struct Preds {
    /// Nodes, and whether failure comes along: [`DATA`], [`EVENT`](super::edges::EVENT) or none.
    pub(super) nodes: SmallVec<[(NodeId, u8); 4]>,
    pub(super) epochs: SmallVec<[EpochId; 4]>,
}

impl Preds {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.epochs.clear();
    }

    pub(super) fn node(&mut self, id: Option<NodeId>, carries: u8) {
        let Some(id) = id else { return };
        // The common case, several boxes of one history, is caught here; the rest by `settle_duplicates`.
        match self.nodes.last_mut() {
            Some((last, also)) if *last == id => *also |= carries,
            _ => self.nodes.push((id, carries)),
        }
    }

    fn epoch(&mut self, id: EpochId) {
        if self.epochs.last() != Some(&id) {
            self.epochs.push(id);
        }
    }

    /// Leaves each predecessor once, with all that its edges carry.
    pub(super) fn settle_duplicates(&mut self) {
        if self.nodes.len() > 1 {
            self.nodes.sort_unstable_by_key(|(id, _)| id.sort_key());
            self.nodes.dedup_by(|(id, carries), (kept, also)| {
                *also |= if id == kept { *carries } else { NOTHING };
                id == kept
            });
        }
        if self.epochs.len() > 1 {
            self.epochs.sort_unstable_by_key(|e| e.0);
            self.epochs.dedup();
        }
    }
}

impl<S: Shell> Engine<S> {
    /// Room for the predecessors of a node, to be given back.
    pub(super) fn take_scratch(&mut self) -> Box<Preds> {
        let mut preds = self.scratch.take().unwrap_or_default();
        preds.clear();
        preds
    }

    /// Adds what a use of these cells in `memory` comes after: the last writer of this copy, and for a write the
    /// readers since. Failure comes along if the use reads.
    pub(super) fn hazards(&mut self, cell: &Cell<S::Cause>, memory: MemoryId, mode: Mode, preds: &mut Preds) {
        for replica in &cell.replicas {
            if replica.memory != memory && !(mode.writes() && self.is(Mutant::HazardsEverywhere)) {
                continue;
            }
            if mode.reads() && !self.is(Mutant::DropReadAfterWrite) {
                preds.node(replica.basis, DATA);
                // A guard holds back those who read what it may write, and has no failure that they could share.
                if replica.writer != replica.basis {
                    preds.node(replica.writer, NOTHING);
                }
            }
            if !mode.writes() {
                continue;
            }
            if !self.is(Mutant::DropWriteAfterRead) {
                replica.epochs.iter().for_each(|e| self.after_epoch(*e, preds));
            }
            // Where there are readers they stand between: each of them is behind that writer.
            if replica.epochs.is_empty() && !self.is(Mutant::DropWriteAfterWrite) {
                preds.node(replica.writer, NOTHING);
            }
        }
    }

    /// Comes after all readers of an epoch. It is closed here and now: whoever reads later, and be it the same group
    /// elsewhere, is not among them.
    pub(super) fn after_epoch(&mut self, id: EpochId, preds: &mut Preds) {
        let stays_open = self.is(Mutant::EpochStaysOpen);
        let epoch = &mut self.epochs[id.0 as usize];
        if !epoch.is_over() {
            epoch.closed = !stays_open;
            preds.epoch(id);
        }
    }

    /// Guards conflict by region, whatever memory the other side works in.
    pub(super) fn guards_ahead(&self, root: RootId, bounds: &Box3, writes: bool, preds: &mut Preds) {
        for &(guard, held, exclusive) in &self.roots[root].guards {
            let holds = exclusive && !self.is(Mutant::WriteGuardHoldsNobody)
                || writes && !exclusive && !self.is(Mutant::GuardIgnoresReplicas);
            if holds && held.overlaps(bounds) {
                preds.node(Some(guard), NOTHING);
            }
        }
    }

    /// Enters a reader of these cells' copies in `memory`.
    pub(super) fn enter_reader(
        &mut self,
        cells: &mut Cells<S::Cause>,
        inside: &[usize],
        memory: MemoryId,
        node: NodeId,
    ) {
        let Some(&first) = inside.first() else { return };
        for &i in inside {
            cells.get_mut(i).replica_mut(memory);
        }
        let too_much = self.is(Mutant::EpochJoinsTooMuch);
        let joins = |id: &&EpochId| {
            let epoch = &self.epochs[id.0 as usize];
            let covers = |&i: &usize| cells.get(i).replica(memory).is_some_and(|r| r.epochs.contains(id));
            !epoch.closed
                && (too_much || epoch.cells as usize == inside.len())
                && (inside.len() == 1 || inside.iter().all(covers))
        };
        let shared = cells.get(first).replica(memory).and_then(|r| r.epochs.iter().find(joins).copied());
        let id = shared.unwrap_or_else(|| {
            let id = EpochId(self.epochs.insert(Epoch::new(inside.len())) as u32);
            for &i in inside {
                cells.get_mut(i).replica_mut(memory).epochs.push(id);
            }
            self.note_epoch(id);
            id
        });
        if self.is(Mutant::EpochForgetsReaders) && !self.epochs[id.0 as usize].is_over() {
            return;
        }
        let realm = self.realm(self.nodes[node].place);
        self.epochs[id.0 as usize].join(realm);
        self.nodes[node].epochs.push(id);
        self.note_reader(id, node);
    }

    /// Enters a node as the last to write these cells' copies in `memory`: earlier users are behind it now.
    pub(super) fn enter_writer(
        &mut self,
        cells: &mut Cells<S::Cause>,
        inside: &[usize],
        memory: MemoryId,
        node: NodeId,
    ) {
        for &i in inside {
            let replica = cells.get_mut(i).replica_mut(memory);
            replica.writer = Some(node);
            replica.basis = Some(node);
            replica.reserve = None;
            replica.valid = true;
            for epoch in std::mem::take(&mut replica.epochs) {
                Epoch::leave(epoch, &mut self.epochs);
            }
        }
    }

    /// Makes a group the author of a new version of these cells: all other copies are stale from here on.
    pub(super) fn enter_version(
        &mut self,
        cells: &mut Cells<S::Cause>,
        inside: &[usize],
        memory: MemoryId,
        node: NodeId,
    ) {
        self.enter_writer(cells, inside, memory, node);
        for &i in inside {
            let cell = cells.get_mut(i);
            if !(self.is(Mutant::PoisonStays) && matches!(cell.content, Content::Poisoned(_))) {
                cell.content = Content::Written;
            }
            cell.author = Some(node);
            cell.guards.clear();
            for replica in &mut cell.replicas {
                let written = replica.memory == memory;
                replica.reserve = None;
                replica.valid = written || self.is(Mutant::KeepOthersValid);
                if written {
                    replica.group = Some(node);
                }
            }
        }
    }

    /// A node that reads a poisoned version is doomed from the start. Says whether this one is.
    pub(super) fn doom_by_content(&mut self, node: NodeId, access: &Access) -> bool {
        if !access.mode.reads() {
            return false;
        }
        let cells = &self.roots[access.root].cells;
        let poison = match cells.only() {
            // A guard's box may be empty, and then reads nothing.
            Some(cell) => cell.content.poison().filter(|_| cell.bounds.overlaps(&access.bounds)),
            None => cells.overlapping(&access.bounds).into_iter().find_map(|i| cells.get(i).content.poison()),
        };
        let Some(cause) = poison.cloned() else { return false };
        self.nodes[node].end.get_or_insert(End::Doomed(cause));
        true
    }
}
