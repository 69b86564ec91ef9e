//! Typed ids into the engine's tables. Those of short-lived things carry a generation, so that an id that outlives
//! its slot names nothing, instead of the next occupant.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// An id into the table whose ids `T` marks.
pub struct Id<T> {
    index: u32,
    /// Never zero, so that no id at all takes no more room than one.
    generation: NonZeroU32,
    marker: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// An order in which ids may be sorted, without a meaning.
    pub fn sort_key(self) -> (u32, u32) {
        (self.index, self.generation.get())
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.index, self.generation) == (other.index, other.generation)
    }
}
impl<T> Eq for Id<T> {}
impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.index, self.generation).hash(state);
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}.{}", self.index, self.generation)
    }
}

/// Slots that are used again, and ids that notice. `K` marks the ids, so that one table's are not another's.
///
/// Slots lie in chunks that never move: a table that grows copies nothing, and has room for no more than a chunk beyond
/// what it holds. A vacant slot holds a blank value, so that a large one can be filled in and cleared in its place.
pub(crate) struct Table<K, T> {
    chunks: Vec<Box<[Slot<T>; CHUNK]>>,
    /// The first of the vacant slots, which are chained.
    vacant: u32,
    len: usize,
    /// How many slots are neither occupied nor vacant.
    reserved: usize,
    /// The one that was given out last.
    generation: NonZeroU32,
    marker: PhantomData<fn() -> K>,
}

struct Slot<T> {
    /// None of a vacant or reserved slot.
    generation: Option<NonZeroU32>,
    /// In a vacant slot, leads to the next vacant one.
    next: u32,
    value: T,
}

/// Slots of a chunk.
const CHUNK: usize = 64;

/// The end of the chain of vacant slots.
const NO_SLOT: u32 = u32::MAX;

/// A table of this many slots or more gives its memory back when it has emptied.
const KEPT_WHEN_EMPTY: usize = 4096;

impl<K, T: Default> Table<K, T> {
    pub(crate) fn new() -> Self {
        Table {
            chunks: Vec::new(),
            vacant: NO_SLOT,
            len: 0,
            reserved: 0,
            generation: NonZeroU32::MIN,
            marker: PhantomData,
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> Id<K> {
        let (id, slot) = self.occupy();
        *slot = value;
        id
    }

    /// Takes a slot, whose blank value is to be filled in.
    #[inline]
    pub(crate) fn occupy(&mut self) -> (Id<K>, &mut T) {
        let id = self.reserve();
        (id, self.occupy_reserved(id))
    }

    /// Takes a slot for later: until then its id names nothing.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Id<K> {
        self.generation = self.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        if self.vacant == NO_SLOT {
            self.grow();
        }
        let id = Id { index: self.vacant, generation: self.generation, marker: PhantomData };
        self.vacant = self.chunks[id.index as usize / CHUNK][id.index as usize % CHUNK].next;
        self.reserved += 1;
        id
    }

    /// The blank value of a reserved slot is to be filled in.
    #[inline]
    pub(crate) fn occupy_reserved(&mut self, id: Id<K>) -> &mut T {
        let slot = &mut self.chunks[id.index as usize / CHUNK][id.index as usize % CHUNK];
        debug_assert!(slot.generation.is_none(), "{id:?} was reserved, and once");
        slot.generation = Some(id.generation);
        (self.reserved, self.len) = (self.reserved - 1, self.len + 1);
        &mut slot.value
    }

    /// Gives a reserved slot back.
    pub(crate) fn give_back(&mut self, id: Id<K>) {
        let slot = &mut self.chunks[id.index as usize / CHUNK][id.index as usize % CHUNK];
        debug_assert!(slot.generation.is_none(), "{id:?} was reserved, and is given back once");
        slot.next = std::mem::replace(&mut self.vacant, id.index);
        self.reserved -= 1;
        self.trim();
    }

    /// Whether the table would give its memory back, were there no reserved slots.
    pub(crate) fn is_kept_by_reserved(&self) -> bool {
        self.len == 0 && self.reserved > 0 && self.chunks.len() * CHUNK > KEPT_WHEN_EMPTY
    }

    /// Adds a chunk of vacant slots.
    #[cold]
    fn grow(&mut self) {
        let first = u32::try_from(self.chunks.len() * CHUNK)
            .unwrap_or_else(|_| unreachable!("memory ends before 2^32 slots do"));
        let last = first + CHUNK as u32 - 1;
        let vacant =
            |i| Slot { generation: None, next: if i < last { i + 1 } else { NO_SLOT }, value: T::default() };
        let chunk = (first..=last).map(vacant).collect::<Box<[_]>>().try_into();
        self.chunks.push(chunk.unwrap_or_else(|_| unreachable!("there is one slot for each number")));
        self.vacant = first;
    }

    pub(crate) fn remove(&mut self, id: Id<K>) -> Option<T> {
        let removed = self.vacate(id).map(std::mem::take);
        self.trim();
        removed
    }

    /// Gives a slot back, whose value is to be left blank.
    #[inline]
    pub(crate) fn vacate(&mut self, id: Id<K>) -> Option<&mut T> {
        let slot = &mut self.chunks.get_mut(id.index as usize / CHUNK)?[id.index as usize % CHUNK];
        if !slot.has(id) {
            return None;
        }
        slot.generation = None;
        slot.next = std::mem::replace(&mut self.vacant, id.index);
        self.len -= 1;
        Some(&mut slot.value)
    }

    /// A table that was large once gives its memory back when it has emptied; a small one keeps its few pages.
    #[inline]
    pub(crate) fn trim(&mut self) {
        if self.len == 0 && self.reserved == 0 && self.chunks.len() * CHUNK > KEPT_WHEN_EMPTY {
            self.chunks = Vec::new();
            self.vacant = NO_SLOT;
        }
    }
}

impl<T> Slot<T> {
    #[inline(always)]
    fn has<K>(&self, id: Id<K>) -> bool {
        self.generation == Some(id.generation)
    }
}

impl<K, T> Table<K, T> {
    #[inline(always)]
    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        Some(&self.chunks.get(index as usize / CHUNK)?[index as usize % CHUNK])
    }

    #[inline(always)]
    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot<T>> {
        Some(&mut self.chunks.get_mut(index as usize / CHUNK)?[index as usize % CHUNK])
    }

    #[inline(always)]
    pub(crate) fn contains(&self, id: Id<K>) -> bool {
        self.get(id).is_some()
    }

    #[inline(always)]
    pub(crate) fn get(&self, id: Id<K>) -> Option<&T> {
        self.slot(id.index).filter(|slot| slot.has(id)).map(|slot| &slot.value)
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, id: Id<K>) -> Option<&mut T> {
        self.slot_mut(id.index).filter(|slot| slot.has(id)).map(|slot| &mut slot.value)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<K>, &T)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).zip(0..).filter_map(|(slot, index)| {
            let generation = slot.generation?;
            Some((Id { index, generation, marker: PhantomData }, &slot.value))
        })
    }
}

impl<K, T> std::ops::Index<Id<K>> for Table<K, T> {
    type Output = T;
    fn index(&self, id: Id<K>) -> &T {
        self.get(id).unwrap_or_else(|| unreachable!("{id:?} is gone"))
    }
}

impl<K, T> std::ops::IndexMut<Id<K>> for Table<K, T> {
    fn index_mut(&mut self, id: Id<K>) -> &mut T {
        self.get_mut(id).unwrap_or_else(|| unreachable!("{id:?} is gone"))
    }
}

macro_rules! dense_id {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub u32);
    )*};
}
dense_id! {
    /// Contexts whose lanes wait for each other natively.
    DomainId
    /// A native context.
    ContextId
    /// A device inside a context: (context, device) pairs are what lanes belong to.
    DeviceId
    /// A physical memory inside a context: the allocation key.
    MemoryId
    /// A lane.
    LaneId
}

/// The process's own heap, where host tasks and host accessors work.
pub const HEAP: MemoryId = MemoryId(0);
