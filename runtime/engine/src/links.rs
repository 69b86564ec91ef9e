//! Links between nodes, as lists in one slab: a node with no edges costs nothing for them. Which edges a node needs is
//! decided in `edges.rs`.

use slab::Slab;

use super::NodeId;

/// Ends a list.
pub(super) const NONE: u32 = u32::MAX;

/// Order only: the one behind comes after the one ahead.
pub(super) const NOTHING: u8 = 0;
/// The one behind reads what the one ahead writes: failure goes along, and verdicts are awaited.
pub(super) const DATA: u8 = 1;
/// The one behind is gated until the one ahead has been fed.
pub(super) const FED: u8 = 2;
/// The one behind is gated until the proxy that owns this edge is opened.
pub(super) const GATE: u8 = 4;
/// An explicit dependency that carries failure: like [`DATA`], but a cancellation that kept the previous data
/// counts as a failure too.
pub(super) const EVENT: u8 = 8;

/// An edge to the node behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    pub(super) to: NodeId,
    pub(super) kind: u8,
    pub(super) next: u32,
}

/// Puts an edge at the head of a list.
pub(super) fn push(edges: &mut Slab<Edge>, head: &mut u32, to: NodeId, kind: u8) {
    *head = edges.insert(Edge { to, kind, next: *head }) as u32;
}
