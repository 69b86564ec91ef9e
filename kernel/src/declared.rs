//! What code of the attribute relies on.

use crate::native::SlotUse;

/// The arguments that the attribute wrote code for. A text for devices compares each index with what it is told of its argument, a number of
/// elements and, for views, extents, and nobody compares it again: so both have to be of elements as large as the text's own.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    pub(crate) uses: &'static [SlotUse],
}

/// What code relies on in an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relied {
    /// Nothing but what its slot says.
    Nothing,
    /// Elements.
    Elements {
        /// How many bytes each has.
        bytes: usize,
        /// It changes them by atomic operations alone, so that others may do so at the same time.
        is_atomic: bool,
    },
    /// The extents of the argument before it, in so many dimensions, as `u32`s, the outermost first.
    Extents(usize),
}

impl Declared {
    /// For each slot, what the code relies on.
    pub fn relied(&self) -> impl Iterator<Item = Relied> {
        self.uses.iter().map(SlotUse::relied)
    }

    /// Whether the code is told the extents of a slot's argument, and how far apart its rows are.
    pub fn is_view(&self, slot: usize) -> bool {
        self.uses.get(slot + 1).is_some_and(|next| matches!(next.relied(), Relied::Extents(_)))
    }
}
