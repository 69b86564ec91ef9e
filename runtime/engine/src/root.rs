//! Roots: what a buffer is to the engine.

use smallvec::SmallVec;

use super::boxes::Box3;
use super::cells::Cells;
use super::ids::MemoryId;
use super::{Engine, HEAP, NodeId, RootId, Shell, Turn};

/// An allocation of a root in one memory.
#[derive(Debug)]
pub(super) enum Slot<M> {
    /// Asked for; the edges lead to those that wait.
    Pending(u32),
    Ready(M),
}

/// A root buffer.
pub(super) struct Root<S: Shell> {
    pub(super) cells: Cells<S::Cause>,
    pub(super) extent: Box3,
    pub(super) bytes: usize,
    /// Bytes in one element of a box.
    pub(super) unit: usize,
    pub(super) slots: SmallVec<[(MemoryId, Slot<S::Memory>); 1]>,
    pub(super) guards: Vec<(NodeId, Box3, bool)>,
    pub(super) users: u32,
    pub(super) released: bool,
}

impl<S: Shell> Default for Root<S> {
    fn default() -> Self {
        Root {
            cells: Cells::default(),
            extent: Box3::line(0, 0),
            bytes: 0,
            unit: 0,
            slots: SmallVec::new(),
            guards: Vec::new(),
            users: 0,
            released: false,
        }
    }
}

impl<S: Shell> Root<S> {
    pub(super) fn allocation(&self, memory: MemoryId) -> Option<&S::Memory> {
        self.slots.iter().find_map(|(m, slot)| match slot {
            Slot::Ready(found) if *m == memory => Some(found),
            _ => None,
        })
    }
}

impl<S: Shell> Engine<S> {
    /// A root buffer of this shape. With `data` its content stands in the heap already; without, it has never been
    /// written.
    pub fn add_root(&mut self, extent: Box3, unit: usize, bytes: usize, data: Option<S::Memory>) -> RootId {
        let written = data.is_some();
        self.count_slots(HEAP, i32::from(written));
        let slots = data.map(|m| (HEAP, Slot::Ready(m))).into_iter().collect();
        let cells = Cells::new(extent, written);
        self.roots.insert(Root { cells, extent, bytes, unit, slots, ..Root::default() })
    }

    /// The last handle is gone: the root goes when its last user does.
    pub fn release_root(&mut self, root: RootId, turn: &mut Turn<S>) {
        self.roots[root].released = true;
        self.reap_root(root, turn);
    }

    pub(super) fn reap_root(&mut self, id: RootId, turn: &mut Turn<S>) {
        let Some(root) = self.roots.get(id) else { return };
        if root.released && root.users == 0 {
            let Some(mut root) = self.roots.remove(id) else { return };
            root.cells.clear(&mut self.epochs, &mut turn.causes);
            for (memory, slot) in root.slots {
                self.count_slots(memory, -1);
                if let Slot::Ready(allocation) = slot {
                    turn.freed.push(allocation);
                }
            }
            self.look_for_unused(turn);
        }
    }

    /// The allocation of a root in a memory, if it has been made.
    pub fn allocation(&self, root: RootId, memory: MemoryId) -> Option<&S::Memory> {
        self.roots.get(root)?.allocation(memory)
    }

    /// A root's extent in its units, the bytes of a unit, and the bytes of all.
    pub fn shape(&self, root: RootId) -> Option<(Box3, usize, usize)> {
        self.roots.get(root).map(|r| (r.extent, r.unit, r.bytes))
    }
}
