//! Access modes, and the union of several requirements on the same data.

use smallvec::SmallVec;

use super::RootId;
use super::boxes::Box3;

/// How a group uses a box of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Reads.
    Read,
    /// Writes some of it and keeps the rest.
    Write,
    /// Reads and writes.
    ReadWrite,
    /// Writes all that matters; what was there is not wanted.
    Overwrite,
    /// Reads and writes; what was there is not wanted.
    ReadWriteUninit,
    /// Reads and writes by atomic operations.
    Atomic,
    /// Reads and writes, at the same time as others that ask for the same. Only of roots that stay in one memory.
    Concurrent,
}

impl Mode {
    /// Whether it needs the bytes that were there: keeping what it does not touch counts.
    #[inline]
    pub fn reads(self) -> bool {
        !matches!(self, Mode::Overwrite | Mode::ReadWriteUninit)
    }

    /// Whether it may change what is there.
    #[inline]
    pub fn writes(self) -> bool {
        self != Mode::Read
    }

    /// What two requirements of one group on the same data amount to.
    pub fn union(self, other: Mode) -> Mode {
        use Mode::{Atomic, Concurrent, Overwrite, Read, ReadWrite, ReadWriteUninit, Write};
        match (self, other) {
            (a, b) if a == b => a,
            (Atomic | Concurrent | ReadWrite, _) | (_, Atomic | Concurrent | ReadWrite) => ReadWrite,
            (Read, _) | (_, Read) => ReadWrite,
            (ReadWriteUninit, Overwrite) | (Overwrite, ReadWriteUninit) => ReadWriteUninit,
            (Overwrite, Write) | (Write, Overwrite) => Write,
            (ReadWriteUninit, _) | (_, ReadWriteUninit) => ReadWrite,
            _ => ReadWrite,
        }
    }
}

/// A requirement of a group: boxes of one root are disjoint.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Of which root.
    pub root: RootId,
    /// Which elements.
    pub bounds: Box3,
    /// How they are used.
    pub mode: Mode,
}

/// Adds a requirement to a list in which boxes of one root are disjoint, so that they stay disjoint and each has the
/// union of the modes that were asked for there.
pub fn merge(list: &mut SmallVec<[Access; 2]>, new: Access) {
    let Access { root, bounds, mode } = new;
    if bounds.is_empty() {
        return;
    }
    let Some(at) = list.iter().position(|a| a.root == root && a.bounds.overlaps(&bounds)) else {
        list.push(new);
        return;
    };
    let there = list[at];
    let both = there.bounds.intersection(&bounds);
    list[at] = Access { root, bounds: both, mode: mode.union(there.mode) };
    for piece in there.bounds.without(&both) {
        list.push(Access { bounds: piece, ..there });
    }
    for piece in bounds.without(&both) {
        merge(list, Access { bounds: piece, ..new });
    }
}

#[cfg(test)]
mod tests {
    use super::super::ids::Table;
    use super::Mode::*;
    use super::*;

    const ALL: [Mode; 7] = [Read, Write, ReadWrite, Overwrite, ReadWriteUninit, Atomic, Concurrent];

    #[test]
    fn row_52_union_table() {
        let table = [
            (Read, Write, ReadWrite),
            (Read, ReadWrite, ReadWrite),
            (Write, ReadWrite, ReadWrite),
            (Overwrite, ReadWriteUninit, ReadWriteUninit),
            (Overwrite, Write, Write),
            (Overwrite, Read, ReadWrite),
            (Overwrite, ReadWrite, ReadWrite),
            (ReadWriteUninit, Write, ReadWrite),
            (ReadWriteUninit, Read, ReadWrite),
            (ReadWriteUninit, ReadWrite, ReadWrite),
        ];
        for (a, b, both) in table {
            assert_eq!(a.union(b), both, "{a:?} with {b:?}");
        }
    }

    #[test]
    fn rows_53_54_union_is_a_semilattice_and_atomic_is_read_write() {
        for a in ALL {
            assert_eq!(a.union(a), a);
            for b in ALL {
                assert_eq!(a.union(b), b.union(a));
                for of in [Atomic, Concurrent] {
                    if a != of && b != of {
                        assert_eq!(of.union(b), ReadWrite.union(b));
                    }
                }
                for c in ALL {
                    assert_eq!(a.union(b).union(c), a.union(b.union(c)), "{a:?} {b:?} {c:?}");
                }
            }
        }
    }

    #[test]
    fn row_50_order_of_definition_does_not_matter() {
        let asked = [(Box3::line(0, 10), Read), (Box3::line(5, 15), Overwrite), (Box3::line(8, 9), Write)];
        let at = |order: [usize; 3], x: usize| {
            let root = Table::new().insert(());
            let mut list = SmallVec::new();
            for i in order {
                merge(&mut list, Access { root, bounds: asked[i].0, mode: asked[i].1 });
            }
            let here: Vec<Mode> =
                list.iter().filter(|a| a.bounds.overlaps(&Box3::line(x, x + 1))).map(|a| a.mode).collect();
            assert!(here.len() <= 1, "the boxes are disjoint");
            here.first().copied()
        };
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            assert_eq!(at(order, 2), Some(Read));
            assert_eq!(at(order, 6), Some(ReadWrite));
            assert_eq!(at(order, 8), Some(ReadWrite));
            assert_eq!(at(order, 12), Some(Overwrite));
            assert_eq!(at(order, 15), None);
        }
    }
}
