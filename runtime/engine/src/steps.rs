//! What moves, as data: `transfer.rs` plans it, and the shell carries it out.

use super::RootId;
use super::boxes::Box3;
use super::ids::MemoryId;

/// One step of moving a box of a root from one memory to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Of which root.
    pub root: RootId,
    /// Where it is.
    pub from: MemoryId,
    /// Where it goes.
    pub to: MemoryId,
    /// Which elements.
    pub bounds: Box3,
    /// How many bytes these have.
    pub bytes: usize,
    /// Which part of the way.
    pub step: Step,
}

/// Which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The whole way in one copy.
    Direct,
    /// Into host staging.
    Download,
    /// Out of host staging.
    Upload,
    /// None of these: zeros are written over bytes that were never written. From and to are the same.
    Clear,
    /// Nothing moves: memory is given to the host, as a whole. From and to are the same.
    Map,
    /// Nothing moves: memory is taken back from the host, as a whole. From and to are the same.
    Unmap,
}
