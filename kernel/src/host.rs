//! What a host device executes.

use std::fmt;
use std::ops;

use crate::{Range, Span};

/// A contiguous run of a launch's work-items, in row-major order, handed to one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Positions in the row-major order of `range`.
    pub items: ops::Range<usize>,
    /// The whole launch.
    pub range: Range,
}

/// Code that a host device runs: called once for each block, by several threads at once, until all items are covered.
///
/// The runtime promises that every span outlives the call, that no other group writes what this one reads, and that
/// no other group touches what this one writes. Blocks of one launch do run at the same time: how they share the
/// spans is the body's own duty, which is why [`Span`]'s accessors say what they need.
pub trait HostBody: Send + Sync {
    /// Runs `block`'s items over the launch's memory.
    fn run(&self, block: Block, spans: &[Span]);
}

impl fmt::Debug for dyn HostBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostBody")
    }
}

impl<F: Fn(Block, &[Span]) + Send + Sync> HostBody for F {
    fn run(&self, block: Block, spans: &[Span]) {
        self(block, spans)
    }
}
