//! What a host device hands out, and to whom.

use std::fmt;
use std::ops;

use crate::{Range, RawSpan, Span};

/// A contiguous run of a launch's work-items, in row-major order, handed to one worker together with the launch's
/// memory.
///
/// In a launch with work-groups its length and its start are multiples of their size, so that a body that works by
/// groups may take it for as many groups, those of which that many come before, instead of the items. All blocks of a
/// launch have to be read the same way.
///
/// Who has a block may run these items over that memory: it is made by a device, once for each run of items, and
/// cannot be copied.
#[derive(Debug)]
pub struct Block<'a> {
    items: ops::Range<usize>,
    range: Range,
    spans: &'a [Span<'a>],
}

impl<'a> Block<'a> {
    /// The right to run `items`, positions in the row-major order of `range`, over `spans`.
    ///
    /// # Safety
    /// - All blocks of one launch have the same range and the same spans, and no two of them have an item in common.
    /// - During `'a`, and until the code that gets the block has returned from it, each span may be lent as
    ///   [`RawSpan::lend`] says.
    /// - Until the last of the launch's blocks is gone, nobody but the launch writes what its spans show, and what the
    ///   launch writes nobody else reads.
    pub unsafe fn new(items: ops::Range<usize>, range: Range, spans: &'a [RawSpan]) -> Self {
        // SAFETY: the second promise.
        Block { items, range, spans: unsafe { RawSpan::lend_all(spans) } }
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
    pub fn spans(&self) -> &'a [Span<'a>] {
        self.spans
    }
}

/// Code that a host device runs: called once for each block, by several threads at once, until all items are covered.
///
/// A launch's blocks do run at the same time. Through [`View`](crate::View)s on the spans they may share all of the
/// memory; a body that wants slices has to promise, for each of them, what [`Span`] asks for.
///
/// ```
/// use windlass_kernel::{Block, Kernel, KernelImage, Slot, SlotAccess, View, ViewMut};
/// use windlass_kernel::{Here, LaunchRange, run_here};
/// let body = |block: Block<'_>| {
///     let [x, y] = block.spans() else { panic!("the kernel has two arguments") };
///     let (x, y) = (View::<u32>::new(*x), ViewMut::<u32>::new(*y));
///     block.items().for_each(|i| y.set(i, x.get(i) * 2));
/// };
/// let slots = [Slot::Buffer(SlotAccess::Read), Slot::Buffer(SlotAccess::ReadWrite)];
/// let kernel = Kernel::new("double", slots, [KernelImage::host(std::sync::Arc::new(body))]);
/// let mut y = [0_u32; 3];
/// run_here(&kernel, &mut [Here::read(&[1_u32, 2, 3]), Here::write(&mut y)], 3.range()).unwrap();
/// assert_eq!(y, [2, 4, 6]);
/// ```
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
