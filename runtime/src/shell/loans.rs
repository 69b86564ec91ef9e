//! Which of the memory that buffers have is to go back to whom when they let go of it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use windlass_backend::{Allocation, MemoryIndex};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::last::is_last;

/// Memory that may stand for other memory of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class {
    /// Which of its context's memories.
    pub(super) index: MemoryIndex,
    pub(super) bytes: usize,
}

/// Who keeps memory for the next buffer.
pub(super) trait Lender: std::fmt::Debug + Send + Sync {
    /// Takes memory that is no longer in use, and hands out what has to be freed for it.
    fn bring_back(self: Arc<Self>, class: Class, memory: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>>;

    /// Memory of a class will not come back.
    fn is_gone(&self, class: Class);
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    lent: Mutex<HashMap<usize, Loan>>,
    /// How many buffers were given memory that another one had let go of.
    reused: Mutex<u64>,
}

/// Where an allocation is to go back to. As long as it is noted here its address is nobody else's.
#[derive(Debug)]
struct Loan {
    memory: Weak<dyn Allocation>,
    lender: Weak<dyn Lender>,
    class: Class,
}

impl Loan {
    fn end(&self) {
        if let Some(lender) = self.lender.upgrade() {
            lender.is_gone(self.class);
        }
    }
}

impl Loans {
    pub(super) fn count_reused(&self) {
        *lock(&self.reused) += 1;
    }

    pub(crate) fn reused(&self) -> u64 {
        *lock(&self.reused)
    }

    pub(super) fn lend<L: Lender + 'static>(
        &self,
        memory: &Arc<dyn Allocation>,
        lender: &Arc<L>,
        class: Class,
    ) {
        let lender: Weak<dyn Lender> = Arc::<L>::downgrade(lender);
        let entry = Loan { memory: Arc::downgrade(memory), lender, class };
        let mut lent = lock(&self.lent);
        if lent.len() == lent.capacity() {
            lent.retain(|_, entry| {
                let is_there = entry.memory.strong_count() > 0;
                if !is_there {
                    entry.end();
                }
                is_there
            });
        }
        lent.insert(address(memory), entry);
    }

    /// Memory is not to go back: native code of the program's has seen it, and the program may have kept it.
    pub(super) fn forget(&self, memory: &Arc<dyn Allocation>) {
        let lent = lock(&self.lent).remove(&address(memory));
        lent.iter().for_each(Loan::end);
    }

    /// Takes memory that is let go of, and hands back what is to be freed. A recorded sequence, which keeps what it uses,
    /// or a buffer may still have it; then it does not go back here.
    pub(super) fn give_back(&self, memory: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>> {
        // With its lender it would become another buffer's while it is still in use. Two that let go at once may both see
        // the other here; then it is freed instead of kept, which costs the next buffer an allocation and nothing else.
        if !is_last(&memory) {
            return vec![memory];
        }
        let lent = lock(&self.lent).remove(&address(&memory));
        match lent.and_then(|entry| Some((entry.lender.upgrade()?, entry.class))) {
            Some((lender, class)) => lender.bring_back(class, memory),
            None => vec![memory],
        }
    }
}

fn address(memory: &Arc<dyn Allocation>) -> usize {
    Arc::as_ptr(memory).addr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::memory::heap;

    #[derive(Debug, Default)]
    struct Shelf(Mutex<Vec<usize>>);

    impl Lender for Shelf {
        fn bring_back(self: Arc<Self>, class: Class, _: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>> {
            lock(&self.0).push(class.bytes);
            Vec::new()
        }

        fn is_gone(&self, class: Class) {
            lock(&self.0).push(1000 + class.bytes);
        }
    }

    /// Seen to fail where what the program had seen went back, and where somebody else had it.
    #[test]
    fn memory_goes_back_that_is_nobody_elses() {
        let (loans, shelf) = (Loans::default(), Arc::<Shelf>::default());
        let lent = |bytes| {
            let memory = heap(bytes).unwrap();
            loans.lend(&memory, &shelf, Class { index: MemoryIndex::Heap, bytes });
            memory
        };
        let [plain, seen, shared] = [1, 2, 3].map(lent);
        loans.forget(&seen);
        let other = shared.clone();
        assert!(loans.give_back(plain).is_empty());
        assert_eq!(loans.give_back(seen).len() + loans.give_back(shared).len(), 2);
        assert_eq!(*lock(&shelf.0), [1002, 1]);
        drop(other);
    }
}
