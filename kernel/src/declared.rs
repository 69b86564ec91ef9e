//! What a text of the attribute relies on.

use crate::native::SlotUse;
use crate::shape::Shaping;
use crate::{Kernel, Slot};

/// The arguments that the attribute wrote a text for. The text compares each index with what it is told of its argument, a number of
/// elements and, for views, extents, and nobody compares it again: so both have to be of elements as large as the text's own.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    pub(crate) slots: &'static [Slot],
    pub(crate) uses: &'static [SlotUse],
    pub(crate) shaping: Shaping,
}

/// What a text relies on in an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relied {
    /// Nothing but what its slot says.
    Nothing,
    /// Elements of so many bytes.
    Elements(usize),
    /// The extents of the argument before it, in so many dimensions, as `u32`s, the outermost first.
    Extents(usize),
}

impl Declared {
    /// Whether the kernel takes what the text takes, and lays its launches out as the text has it.
    pub fn is_of(&self, kernel: &Kernel) -> bool {
        self.slots == kernel.slots() && kernel.shaping().is_none_or(|shaping| shaping == self.shaping)
    }

    /// For each slot, what the text relies on.
    pub fn relied(&self) -> impl Iterator<Item = Relied> {
        self.uses.iter().map(SlotUse::relied)
    }
}
