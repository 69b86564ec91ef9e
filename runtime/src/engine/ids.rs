//! Typed ids into the engine's tables. Those of short-lived things carry a generation, so that an id that outlives
//! its slot names nothing, instead of whoever came next.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use slab::Slab;

/// An id into the [`Table`] whose ids `T` marks.
pub(crate) struct Id<T> {
    index: u32,
    generation: u32,
    marker: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// An order in which ids may be sorted, without a meaning.
    pub(crate) fn sort_key(self) -> (u32, u32) {
        (self.index, self.generation)
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
pub(crate) struct Table<K, T> {
    slots: Slab<(u32, T)>,
    generation: u32,
    /// For a deliberate fault: takes an id for whoever has its slot.
    #[cfg(any(test, feature = "mutants"))]
    pub(super) forgetful: bool,
    marker: PhantomData<fn() -> K>,
}

impl<K, T> Table<K, T> {
    pub(crate) fn new() -> Self {
        Table {
            slots: Slab::new(),
            generation: 0,
            #[cfg(any(test, feature = "mutants"))]
            forgetful: false,
            marker: PhantomData,
        }
    }

    /// Whether the slot that an id names is still the one it was given for.
    #[inline(always)]
    fn names(&self, id: Id<K>, generation: u32) -> bool {
        #[cfg(any(test, feature = "mutants"))]
        if self.forgetful {
            return true;
        }
        id.generation == generation
    }

    pub(crate) fn insert(&mut self, value: T) -> Id<K> {
        self.generation = self.generation.wrapping_add(1);
        let index = self.slots.insert((self.generation, value));
        let index = u32::try_from(index).unwrap_or_else(|_| unreachable!("memory ends before 2^32 slots do"));
        Id { index, generation: self.generation, marker: PhantomData }
    }

    pub(crate) fn contains(&self, id: Id<K>) -> bool {
        self.get(id).is_some()
    }

    pub(crate) fn get(&self, id: Id<K>) -> Option<&T> {
        match self.slots.get(id.index as usize) {
            Some((generation, value)) if self.names(id, *generation) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, id: Id<K>) -> Option<&mut T> {
        let generation = self.slots.get(id.index as usize)?.0;
        if !self.names(id, generation) {
            return None;
        }
        self.slots.get_mut(id.index as usize).map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, id: Id<K>) -> Option<T> {
        self.get(id)?;
        let (_, value) = self.slots.remove(id.index as usize);
        // A table that was large once gives its memory back when it has emptied; a small one keeps its few pages.
        if self.slots.is_empty() && self.slots.capacity() > 4096 {
            self.slots.shrink_to_fit();
        }
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<K>, &T)> {
        self.slots.iter().map(|(i, (generation, v))| {
            (Id { index: i as u32, generation: *generation, marker: PhantomData }, v)
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
        pub(crate) struct $name(pub(crate) u32);
    )*};
}
dense_id! {
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
pub(crate) const HEAP: MemoryId = MemoryId(0);
