//! How much memory buffers have, memory by memory: for who is told that there is no more.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use windlass_backend::Allocation;
use windlass_sync::facade::{Mutex, lock};

use windlass_engine::MemoryId;

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct InUse {
    memories: Mutex<HashMap<MemoryId, List>>,
}

/// Allocations, those that have been freed among them, and some twice that were made for one buffer and then served another: they
/// are looked for whenever the list has doubled.
#[derive(Debug, Default)]
struct List {
    made: Vec<Weak<dyn Allocation>>,
    look_at: usize,
}

impl InUse {
    pub(super) fn made(&self, memory: MemoryId, allocation: &Arc<dyn Allocation>) {
        let mut memories = lock(&self.memories);
        let list = memories.entry(memory).or_default();
        list.made.push(Arc::downgrade(allocation));
        if list.made.len() > list.look_at.max(16) {
            list.tidy();
            list.look_at = 2 * list.made.len();
        }
    }

    /// What has not been freed. To drop it may be to free it, which takes a native call: that is the reaper's.
    pub(super) fn now(&self, memory: MemoryId) -> Vec<Arc<dyn Allocation>> {
        let mut memories = lock(&self.memories);
        let Some(list) = memories.get_mut(&memory) else { return Vec::new() };
        list.tidy();
        list.made.iter().filter_map(Weak::upgrade).collect()
    }
}

impl List {
    fn tidy(&mut self) {
        let address = |allocation: &Weak<dyn Allocation>| allocation.as_ptr().addr();
        self.made.retain(|allocation| allocation.strong_count() > 0);
        self.made.sort_unstable_by_key(address);
        self.made.dedup_by_key(|allocation| address(allocation));
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
        assert_eq!(in_use.now(HEAP).len(), 1);
        drop(memory);
        assert!(in_use.now(HEAP).is_empty());
    }
}
