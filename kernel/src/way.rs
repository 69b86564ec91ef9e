//! How a kernel's host code reaches a slot.

use std::fmt;

/// How the code that `#[kernel]` makes for the host reaches an argument, as far as the kernel itself decides it. A launch whose
/// arguments overlap, or do not lie in one piece, takes the slower way of atomic words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// As a slice, since nobody writes it.
    Read,
    /// As a slice of which each item has its own element.
    Own,
    /// As plain memory in launches whose numbers keep the items apart, which each launch finds out.
    Tested,
    /// As plain memory, since the kernel's author promises that its items keep apart.
    Promised,
    /// By atomic words, since items may meet there: the line of an index that does not tell where.
    Meeting(Option<u32>),
    /// By the atomic operations that the kernel asks for.
    Atomics,
    /// At the end only, with what a block of items comes to.
    Reduced,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Read => "a slice that is read",
            Way::Own => "a slice, each item at its own element",
            Way::Tested => "plain memory where the launch's numbers keep its items apart",
            Way::Promised => "plain memory, as the kernel's author promises",
            Way::Meeting(Some(line)) => {
                return write!(f, "atomic words, since items may meet there: see the index in line {line}");
            }
            Way::Meeting(None) => "atomic words, since items may meet there",
            Way::Atomics => "the kernel's own atomic operations",
            Way::Reduced => "once for each block of items, at its end",
        })
    }
}
