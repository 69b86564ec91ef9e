//! What a node that is being planned comes after: collected by `hazard.rs` and others, linked by `edges.rs`.

use slab::Slab;
use smallvec::SmallVec;

use super::links::NOTHING;
use super::{Engine, NodeId, ReadSet, ReadSetId, Shell};

/// The predecessors of a node that is being planned.
#[derive(Debug, Default)]
pub(super) struct Preds {
    /// Nodes, and which failures their edges carry: [`DATA`](super::links::DATA), [`EVENT`](super::links::EVENT)
    /// or none.
    pub(super) nodes: SmallVec<[(NodeId, u8); 4]>,
    pub(super) read_sets: SmallVec<[ReadSetId; 4]>,
}

impl Preds {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.read_sets.clear();
    }

    #[inline]
    pub(super) fn node(&mut self, id: Option<NodeId>, carries: u8) {
        let Some(id) = id else { return };
        // Several boxes of one history, the common case, are caught here; `settle_duplicates` does the rest.
        // What the edges carry is united: to wait for a node and to share its failure may be asked for by
        // different boxes.
        match self.nodes.last_mut() {
            Some((last, also)) if *last == id => *also |= carries,
            _ => self.nodes.push((id, carries)),
        }
    }

    #[inline]
    fn read_set(&mut self, id: ReadSetId) {
        if self.read_sets.last() != Some(&id) {
            self.read_sets.push(id);
        }
    }

    /// Comes after all readers of a read set. This closes the read set: later readers, even of the same group,
    /// start a new one.
    pub(super) fn after_read_set(&mut self, id: ReadSetId, read_sets: &mut Slab<ReadSet>) {
        let read_set = &mut read_sets[id.0 as usize];
        // The set may still be in use by segments that this writer does not touch. If a later reader of those
        // joined it, this writer would wait for a node planned after it; and if that node also reads what this
        // one writes, each would wait for the other.
        if !read_set.is_over() {
            read_set.closed = true;
            self.read_set(id);
        }
    }

    /// Keeps each predecessor once, with the union of what its edges carry.
    #[inline]
    pub(super) fn settle_duplicates(&mut self) {
        if self.nodes.len() > 1 || self.read_sets.len() > 1 {
            self.sort();
        }
    }

    #[inline(never)]
    fn sort(&mut self) {
        if self.nodes.len() > 1 {
            self.nodes.sort_unstable_by_key(|(id, _)| id.sort_key());
            self.nodes.dedup_by(|(id, carries), (kept, also)| {
                *also |= if id == kept { *carries } else { NOTHING };
                id == kept
            });
        }
        if self.read_sets.len() > 1 {
            self.read_sets.sort_unstable_by_key(|e| e.0);
            self.read_sets.dedup();
        }
    }
}

impl<S: Shell> Engine<S> {
    /// An empty list for the predecessors of a node; its memory is reused when it is given back to `scratch`.
    pub(super) fn take_scratch(&mut self) -> Box<Preds> {
        let mut preds = self.scratch.take().unwrap_or_default();
        preds.clear();
        preds
    }
}
