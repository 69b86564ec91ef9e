//! An optional record of everything that was planned, for tests that compare it with an independent account.

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
    pub nodes: Vec<Recorded>,
    /// Pairs of positions, the predecessor first.
    pub edges: Vec<(usize, usize)>,
    ids: Vec<NodeId>,
    by_id: HashMap<NodeId, usize>,
    readers: HashMap<ReadSetId, Vec<usize>>,
}

impl Record {
    /// The position of a node among all recorded ones.
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
            let position = record.by_id[&node];
            record.readers.entry(id).or_default().push(position);
        }
    }

    /// The node at a position, gone or not.
    pub fn id(&self, position: usize) -> Option<NodeId> {
        self.ids.get(position).copied()
    }
}

impl<S: Shell> Engine<S> {
    pub(super) fn note_node(&mut self, id: NodeId, what: Recorded) {
        if let Some(record) = &mut self.record {
            cold_path();
            record.by_id.insert(id, record.nodes.len());
            record.nodes.push(what);
            record.ids.push(id);
        }
    }

    pub(super) fn note_edge(&mut self, from: NodeId, to: NodeId) {
        if let Some(record) = &mut self.record {
            record.edges.push((record.by_id[&from], record.by_id[&to]));
        }
    }

    #[cold]
    pub(super) fn note_edges(&mut self, to: NodeId, preds: &Preds) {
        let Some(record) = &mut self.record else { return };
        let to = record.by_id[&to];
        for (from, _) in preds.nodes.iter().filter(|(id, _)| self.nodes.contains(*id)) {
            record.edges.push((record.by_id[from], to));
        }
        for read_set in &preds.read_sets {
            let readers = record.readers.get(read_set).into_iter().flatten();
            record.edges.extend(readers.map(|from| (*from, to)));
        }
    }
}
