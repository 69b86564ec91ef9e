//! How much memory buffers have, memory by memory: for who is told that there is no more.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use windlass_backend::{Allocation, BackendError};
use windlass_sync::facade::{Mutex, lock};

use windlass_engine::MemoryId;

use super::memory::Made;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct InUse {
    memories: Mutex<HashMap<MemoryId, List>>,
}

/// Allocations, those that have been freed among them, and some twice that were made for one buffer and then served another: they
/// are looked for whenever the list has doubled.
#[derive(Debug, Default)]
struct List {
    made: Vec<(Weak<dyn Allocation>, usize)>,
    look_at: usize,
    /// Bytes of what is just being made.
    coming: usize,
    /// How often that was not made.
    not_made: u64,
}

impl InUse {
    pub(super) fn made(&self, memory: MemoryId, allocation: &Arc<dyn Allocation>) {
        let mut memories = lock(&self.memories);
        memories.entry(memory).or_default().add(allocation);
    }

    /// Makes something if there is no more than `most` of it then.
    pub(super) fn make_within(
        &self,
        memory: MemoryId,
        (bytes, most): (usize, usize),
        make: impl FnOnce() -> Made,
    ) -> Made {
        {
            let mut memories = lock(&self.memories);
            let list = memories.entry(memory).or_default();
            if list.bytes().saturating_add(list.coming).saturating_add(bytes) > most {
                return Err(BackendError::OutOfMemory { bytes });
            }
            list.coming += bytes;
        }
        // Without the lock: it is a native call.
        let made = make();
        let mut memories = lock(&self.memories);
        let list = memories.entry(memory).or_default();
        list.coming -= bytes;
        match &made {
            Ok(allocation) => list.add(allocation),
            Err(_) => list.not_made += 1,
        }
        drop(memories);
        made
    }

    /// How often something that counted as being made was not.
    pub(super) fn not_made(&self) -> u64 {
        lock(&self.memories).values().map(|list| list.not_made).sum()
    }

    /// The bytes of what has not been freed.
    pub(super) fn bytes(&self, memory: MemoryId) -> usize {
        lock(&self.memories).get_mut(&memory).map_or(0, List::bytes)
    }
}

impl List {
    fn add(&mut self, allocation: &Arc<dyn Allocation>) {
        self.made.push((Arc::downgrade(allocation), allocation.bytes()));
        if self.made.len() > self.look_at.max(16) {
            self.tidy();
            self.look_at = 2 * self.made.len();
        }
    }

    fn bytes(&mut self) -> usize {
        self.tidy();
        self.made.iter().map(|(_, bytes)| bytes).sum()
    }

    fn tidy(&mut self) {
        let address = |(allocation, _): &(Weak<dyn Allocation>, usize)| allocation.as_ptr().addr();
        self.made.retain(|(allocation, _)| allocation.strong_count() > 0);
        self.made.sort_unstable_by_key(address);
        self.made.dedup_by_key(|entry| address(entry));
    }
}

#[cfg(test)]
mod tests {
    use windlass_backend::HostMemory;
    use windlass_engine::HEAP;

    use super::*;

    /// Seen to fail, with 1,000 entries, where what was listed already was listed again.
    #[test]
    fn memory_that_serves_many_buffers_is_counted_once() {
        let (in_use, memory) = (InUse::default(), HostMemory::zeroed(8).unwrap());
        let memory: Arc<dyn Allocation> = Arc::new(memory);
        (0..1000).for_each(|_| in_use.made(HEAP, &memory));
        assert!(lock(&in_use.memories)[&HEAP].made.len() < 40);
        assert_eq!(in_use.bytes(HEAP), 8);
        drop(memory);
        assert_eq!(in_use.bytes(HEAP), 0);
    }

    /// Seen to fail where only what had been made was counted, and not what was being made.
    #[test]
    fn no_more_is_made_than_may_be() {
        let in_use = InUse::default();
        let make =
            |bytes| move || HostMemory::zeroed(bytes).map(|memory| Arc::new(memory) as Arc<dyn Allocation>);
        let first = in_use.make_within(HEAP, (60, 100), || {
            assert!(in_use.make_within(HEAP, (60, 100), make(60)).is_err());
            make(60)()
        });
        assert!(in_use.make_within(HEAP, (41, 100), make(41)).is_err());
        let second = in_use.make_within(HEAP, (40, 100), make(40));
        assert!(first.is_ok() && second.is_ok());
        drop(first);
        assert!(in_use.make_within(HEAP, (60, 100), make(60)).is_ok());
    }
}
