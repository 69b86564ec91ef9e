//! What a host device executes.

use std::fmt;
use std::ops;

use crate::{Range, Span};

/// A contiguous run of a launch's work-items, in row-major order, handed to one worker together with the launch's
/// memory.
///
/// Who has a block may run these items over that memory: it is made by a device, once for each run of items, and
/// cannot be copied.
#[derive(Debug)]
pub struct Block<'a> {
    items: ops::Range<usize>,
    range: Range,
    spans: &'a [Span],
}

impl<'a> Block<'a> {
    /// The right to run `items`, positions in the row-major order of `range`, over `spans`.
    ///
    /// # Safety
    /// All blocks of one launch have the same range and the same spans, and no two of them have an item in common.
    /// Until the last of them is gone the spans' memory lives, and nobody but the launch writes what they show; what
    /// the launch writes nobody else reads.
    pub unsafe fn new(items: ops::Range<usize>, range: Range, spans: &'a [Span]) -> Self {
        Block { items, range, spans }
    }

    /// The items' positions in the row-major order of the range.
    pub fn items(&self) -> ops::Range<usize> {
        self.items.clone()
    }

    /// The whole launch.
    pub fn range(&self) -> Range {
        self.range
    }

    /// The launch's memory, one span for each argument.
    pub fn spans(&self) -> &'a [Span] {
        self.spans
    }
}

/// Code that a host device runs: called once for each block, by several threads at once, until all items are covered.
///
/// How a launch's blocks, which do run at the same time, share the memory is the body's own duty, which is why
/// [`Span`]'s accessors say what they need.
pub trait HostBody: Send + Sync {
    /// Runs the block's items over the launch's memory.
    fn run(&self, block: Block<'_>);
}

impl fmt::Debug for dyn HostBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostBody")
    }
}

impl<F: Fn(Block<'_>) + Send + Sync> HostBody for F {
    fn run(&self, block: Block<'_>) {
        self(block)
    }
}
