//! Who is called by which number: the lanes of all contexts, for waits.

use std::sync::{Arc, Weak};

use windlass_backend::{Completion, LaneNumber, Point, Wait};
use windlass_sync::facade::{Mutex, lock};

/// The completion books of all lanes that a backend has opened, whatever their context: host contexts are one domain. A lane
/// keeps its book alive, and so does its worker while it has work: a number without a book belongs to a lane that has
/// ended, so all its points are passed.
#[derive(Default)]
pub(crate) struct Lanes {
    // Few, and found by a look at each.
    named: Mutex<Vec<(LaneNumber, Weak<Completion>)>>,
}

impl Lanes {
    pub(crate) fn name(&self, number: LaneNumber, book: &Arc<Completion>) {
        let mut named = lock(&self.named);
        named.retain(|(n, b)| *n != number && b.strong_count() > 0);
        named.push((number, Arc::downgrade(book)));
    }

    /// The book of the lane that a wait names, if the wait is not over.
    pub(crate) fn open(&self, wait: &Wait) -> Option<(Arc<Completion>, Point)> {
        let named = lock(&self.named);
        let book = named.iter().find(|(n, _)| *n == wait.lane)?.1.upgrade()?;
        (book.passed() < wait.point).then_some((book, wait.point))
    }
}
