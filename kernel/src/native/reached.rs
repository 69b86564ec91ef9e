//! What kernels reach by addresses: parts of memory that a launch names, of which a kernel has a table for each type of elements that
//! it follows pointers to.
//!
//! An address is looked for in the table each time that it is followed, so it need not be right: it may come out of a buffer that
//! anybody has written. On the host the table says which of the launch's further spans have elements of the type, and memory is
//! reached through these, by the same atomic words as all that items share.

use smallvec::SmallVec;

use super::items::Launch;
use super::outside::Whose;
use super::views::part_of;
use crate::DeviceCopy;
use crate::memory::Elements;

/// How many parts of memory with elements of one type a launch may name.
pub const REACH_PARTS: usize = 8;

/// Bytes of a table.
pub const REACH_BYTES: usize = size_of::<Table>();

/// For each part where it starts, and twice its bytes, and one more where it may be written. Those that are used come first.
type Table = [[u64; 2]; REACH_PARTS];

/// A part of memory that a launch names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReachedPart {
    /// The address of its first element.
    pub start: u64,
    /// How long it is: whole elements, and at least one.
    pub bytes: u64,
    /// Whether the kernel may write it.
    pub writes: bool,
}

impl ReachedPart {
    fn words(self) -> [u64; 2] {
        [self.start, self.bytes << 1 | u64::from(self.writes)]
    }

    fn of([start, size]: [u64; 2]) -> Option<ReachedPart> {
        (size >> 1 != 0).then_some(ReachedPart { start, bytes: size >> 1, writes: size & 1 == 1 })
    }

    /// Which of its elements of so many bytes starts at an address.
    fn element(&self, address: u64, bytes: usize) -> Option<usize> {
        let (behind, bytes) = (address.wrapping_sub(self.start), bytes as u64);
        (behind < self.bytes && behind.is_multiple_of(bytes)).then_some((behind / bytes) as usize)
    }
}

/// The table of these parts, as kernels have it; none of more than [`REACH_PARTS`].
pub fn reach_table(parts: &[ReachedPart]) -> Option<[u8; REACH_BYTES]> {
    let mut table = Table::default();
    if parts.len() > table.len() {
        return None;
    }
    table.iter_mut().zip(parts).for_each(|(to, part)| *to = part.words());
    Some(bytemuck::cast(table))
}

/// A part, and its elements.
#[derive(Debug)]
struct Known<'a, T> {
    part: ReachedPart,
    elements: Elements<'a, T>,
}

/// What a launch reaches of one type.
#[derive(Debug)]
pub struct ReachedParts<'a, T> {
    known: SmallVec<[Known<'a, T>; 2]>,
    whose: Whose,
}

/// The same as all items have it.
#[derive(Debug)]
pub struct Reached<'v, T> {
    known: &'v [Known<'v, T>],
    whose: Whose,
}

impl<T> Clone for Reached<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Reached<'_, T> {}

impl<'a> Launch<'a> {
    /// What the launch reaches of elements of this type, by the table in a slot.
    ///
    /// # Panics
    /// If the slot is no table.
    pub fn reached<T: DeviceCopy>(&self, slot: usize) -> ReachedParts<'a, T> {
        let table: Table = Elements::new(*self.table(slot)).load(0);
        let known = table.into_iter().map_while(ReachedPart::of).filter_map(|part| {
            // Two spans of one place are of one buffer, so it is the same which of them is found, but for what may be written.
            let span = self.lent().iter().find(|span| {
                span.as_ptr().addr() as u64 == part.start
                    && span.is_writable() == part.writes
                    && span.is_contiguous()
                    && span.element_bytes() == size_of::<T>()
                    && (span.len() * span.element_bytes()) as u64 == part.bytes
            })?;
            Some(Known { part, elements: Elements::new(*span) })
        });
        ReachedParts { known: known.collect(), whose: self.whose_pointers() }
    }
}

impl<T> ReachedParts<'_, T> {
    /// For the items.
    pub fn view(&self) -> Reached<'_, T> {
        Reached { known: &self.known, whose: self.whose }
    }
}

impl<'v, T: DeviceCopy> Reached<'v, T> {
    /// The element at an address, where the launch reaches one there.
    #[inline]
    fn element(&self, address: u64, writes: bool) -> Option<(Elements<'v, T>, usize)> {
        let found = self.known.iter().find_map(|known| {
            let at = known.part.element(address, size_of::<T>())?;
            (known.part.writes || !writes).then_some((known.elements, at))
        });
        if found.is_none() {
            self.whose.outside_by_address(writes, address);
        }
        found
    }

    /// The element at an address; zero where the launch reaches none.
    #[inline]
    pub fn get(&self, address: u64) -> T {
        self.element(address, false).map_or_else(T::zero, |(elements, at)| elements.load(at))
    }

    /// Writes the element at an address.
    #[inline]
    pub fn set(&self, address: u64, value: T) {
        if let Some((elements, at)) = self.element(address, true) {
            elements.store(at, value);
        }
    }

    /// A part of the element at an address, `offset` bytes behind its start.
    #[inline]
    pub fn part<F: DeviceCopy>(&self, address: u64, offset: usize) -> F {
        part_of(&self.get(address), offset)
    }

    /// Writes a part of the element at an address.
    #[inline]
    pub fn set_part<F: DeviceCopy>(&self, address: u64, offset: usize, value: F) {
        if let Some((elements, at)) = self.element(address, true) {
            elements.store_part(at, offset, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_of_whole_elements() {
        let part = ReachedPart { start: 64, bytes: 24, writes: false };
        assert_eq!([64, 76, 84].map(|at| part.element(at, 12)), [Some(0), Some(1), None]);
        // The last one ends where the part does.
        assert_eq!([63, 88, 52, 0, u64::MAX].map(|at| part.element(at, 12)), [None; 5]);
        let last = ReachedPart { start: u64::MAX - 7, bytes: 8, writes: true };
        assert_eq!([u64::MAX - 7, u64::MAX - 3, 0].map(|at| last.element(at, 4)), [Some(0), Some(1), None]);
    }

    #[test]
    fn tables_hold_eight_parts() {
        let part = |at: u64| ReachedPart { start: 16 * at, bytes: 8, writes: at % 2 == 1 };
        let all: Vec<ReachedPart> = (1..=8).map(part).collect();
        let table: Table = bytemuck::cast(reach_table(&all).expect("eight have room"));
        assert_eq!(table.into_iter().map_while(ReachedPart::of).collect::<Vec<_>>(), all);
        let few: Table = bytemuck::cast(reach_table(&all[..2]).expect("two have room"));
        assert_eq!(few.into_iter().map_while(ReachedPart::of).count(), 2);
        assert!(reach_table(&[all, vec![part(9)]].concat()).is_none());
    }
}
