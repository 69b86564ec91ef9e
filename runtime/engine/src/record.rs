//! An optional record of everything that was planned: for tests that compare it with an independent account, which keep it
//! whole, and for who follows what is planned, who takes it away from time to time.

use std::collections::HashMap;
use std::hint::cold_path;

use super::preds::Preds;
use super::{Engine, NodeId, ReadSetId, Shell, Transfer};

/// What a recorded node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// A group or a host task.
    Group,
    /// A host accessor.
    Guard,
    /// A step of a transfer.
    Transfer(Transfer),
    /// A step of one that takes data out of a memory for a while, or back.
    Swap(Transfer),
}

/// All nodes in the order of planning, and all edges between them, lane order left out.
#[derive(Debug, Default)]
pub struct Record {
    /// What each node is.
    pub nodes: Vec<(NodeId, Recorded)>,
    /// The predecessor first. Of those that were planned before the record began, or that read together with a node ahead,
    /// some may be gone.
    pub edges: Vec<(NodeId, NodeId)>,
    by_id: HashMap<NodeId, usize>,
    readers: HashMap<ReadSetId, Vec<NodeId>>,
    /// Nodes that were taken away since readers that are gone were last left out.
    taken: usize,
}

/// After how many nodes that were taken away readers are looked through: those of a buffer that is only ever read would pile up.
const SWEEP: usize = 1024;

impl Record {
    /// The position of a node among all that are in the record.
    pub fn position(&self, node: NodeId) -> Option<usize> {
        self.by_id.get(&node).copied()
    }

    /// A read set has begun.
    pub(super) fn read_set(record: &mut Option<Box<Record>>, id: ReadSetId) {
        if let Some(record) = record {
            cold_path();
            record.readers.insert(id, Vec::new());
        }
    }

    /// A node reads in a read set.
    pub(super) fn reader(record: &mut Option<Box<Record>>, id: ReadSetId, node: NodeId) {
        if let Some(record) = record {
            cold_path();
            record.readers.entry(id).or_default().push(node);
        }
    }

    /// The edges from the one at `first` on, as pairs of positions; those to nodes that are not in the record left out.
    pub fn edges_from(&self, first: usize) -> Vec<(usize, usize)> {
        let positions = |(from, to): &(NodeId, NodeId)| Some((self.position(*from)?, self.position(*to)?));
        self.edges[first..].iter().filter_map(positions).collect()
    }
}

impl<S: Shell> Engine<S> {
    pub(super) fn note_node(&mut self, id: NodeId, what: Recorded) {
        if let Some(record) = &mut self.record {
            cold_path();
            record.by_id.insert(id, record.nodes.len());
            record.nodes.push((id, what));
        }
    }

    /// Takes away what the record has.
    pub fn take_record(&mut self, nodes: &mut Vec<(NodeId, Recorded)>, edges: &mut Vec<(NodeId, NodeId)>) {
        let Some(record) = &mut self.record else { return };
        record.taken += record.nodes.len();
        record.by_id.clear();
        nodes.append(&mut record.nodes);
        edges.append(&mut record.edges);
        if record.taken >= SWEEP {
            record.taken = 0;
            let live = &self.nodes;
            record.readers.retain(|_, readers| {
                readers.retain(|reader| live.contains(*reader));
                !readers.is_empty()
            });
        }
    }

    pub(super) fn note_edge(&mut self, from: NodeId, to: NodeId) {
        if let Some(record) = &mut self.record {
            record.edges.push((from, to));
        }
    }

    #[cold]
    pub(super) fn note_edges(&mut self, to: NodeId, preds: &Preds) {
        let Some(record) = &mut self.record else { return };
        for (from, _) in preds.nodes.iter().filter(|(id, _)| self.nodes.contains(*id)) {
            record.edges.push((*from, to));
        }
        for read_set in &preds.read_sets {
            let readers = record.readers.get(read_set).into_iter().flatten();
            record.edges.extend(readers.map(|from| (*from, to)));
        }
    }
}
