//! Which of the memory that buffers have is to go back to whom when they let go of it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use windlass_backend::{Allocation, MemoryIndex};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::last::is_last;

use super::kept::Piece;

/// Memory that may stand for other memory of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Class {
    /// Which of its context's memories.
    pub(super) index: MemoryIndex,
    pub(super) bytes: usize,
}

/// As what memory is lent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) class: Class,
    /// Bytes of it that its buffer does not ask for.
    pub(super) surplus: usize,
    /// Which piece it is, if it is one of other memory.
    pub(super) piece: Option<Piece>,
}

impl From<Class> for Terms {
    fn from(class: Class) -> Self {
        Terms { class, surplus: 0, piece: None }
    }
}

/// Who keeps memory for the next buffer.
pub(super) trait Lender: std::fmt::Debug + Send + Sync {
    /// Takes memory that is no longer in use, and hands out what has to be freed for it.
    fn bring_back(self: Arc<Self>, terms: Terms, memory: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>>;

    /// Memory will not come back that was lent like this: it has been freed, or somebody may use it for as long as anybody likes.
    fn is_gone(&self, terms: Terms, is_freed: bool);
}

/// See the module documentation.
#[derive(Debug, Default)]
pub(crate) struct Loans {
    lent: Mutex<HashMap<usize, Loan>>,
    reused: Mutex<Reused>,
}

/// How many buffers were given memory that another one had let go of, and how many of them a piece of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reused {
    pub(crate) all: u64,
    pub(crate) in_pieces: u64,
}

/// Where an allocation is to go back to. As long as it is noted here its address is nobody else's.
#[derive(Debug)]
struct Loan {
    memory: Weak<dyn Allocation>,
    lender: Weak<dyn Lender>,
    terms: Terms,
}

impl Loan {
    fn end(&self, is_freed: bool) {
        if let Some(lender) = self.lender.upgrade() {
            lender.is_gone(self.terms, is_freed);
        }
    }
}

impl Loans {
    /// Lends what another buffer has let go of.
    pub(super) fn lend_again<L: Lender + 'static>(
        &self,
        memory: &Arc<dyn Allocation>,
        lender: &Arc<L>,
        terms: Terms,
    ) {
        let mut reused = lock(&self.reused);
        reused.all += 1;
        reused.in_pieces += u64::from(terms.piece.is_some());
        drop(reused);
        self.lend(memory, lender, terms);
    }

    pub(crate) fn reused(&self) -> Reused {
        *lock(&self.reused)
    }

    pub(super) fn lend<L: Lender + 'static>(
        &self,
        memory: &Arc<dyn Allocation>,
        lender: &Arc<L>,
        terms: impl Into<Terms>,
    ) {
        let lender: Weak<dyn Lender> = Arc::<L>::downgrade(lender);
        let entry = Loan { memory: Arc::downgrade(memory), lender, terms: terms.into() };
        let mut lent = lock(&self.lent);
        if lent.len() == lent.capacity() {
            Self::end_freed(&mut lent);
        }
        lent.insert(address(memory), entry);
    }

    /// Says so of what was freed without having come back: where there is no room, what it was a piece of may be whole again.
    pub(super) fn look_for_freed(&self) {
        Self::end_freed(&mut lock(&self.lent));
    }

    fn end_freed(lent: &mut HashMap<usize, Loan>) {
        lent.retain(|_, entry| {
            let is_there = entry.memory.strong_count() > 0;
            if !is_there {
                entry.end(true);
            }
            is_there
        });
    }

    /// Whether memory is a piece of other memory.
    pub(super) fn is_piece(&self, memory: &Arc<dyn Allocation>) -> bool {
        lock(&self.lent).get(&address(memory)).is_some_and(|loan| loan.terms.piece.is_some())
    }

    /// Memory is not to go back: native code of the program's has seen it, and the program may have kept it.
    pub(super) fn forget(&self, memory: &Arc<dyn Allocation>) {
        let lent = lock(&self.lent).remove(&address(memory));
        lent.iter().for_each(|loan| loan.end(false));
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
        match lent.and_then(|entry| Some((entry.lender.upgrade()?, entry.terms))) {
            Some((lender, terms)) => lender.bring_back(terms, memory),
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
        fn bring_back(self: Arc<Self>, terms: Terms, _: Arc<dyn Allocation>) -> Vec<Arc<dyn Allocation>> {
            lock(&self.0).push(terms.class.bytes);
            Vec::new()
        }

        fn is_gone(&self, terms: Terms, _: bool) {
            lock(&self.0).push(1000 + terms.class.bytes);
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
