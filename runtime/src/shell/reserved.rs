//! Bytes that a group has reserved of its runtime's budget, until it has ended.

use std::sync::Arc;
use std::task::Waker;

use windlass_sync::budget::Budget;
use windlass_sync::forked;

use super::waking::wake_all;

/// A part of the budget, given back when it is dropped: where wakers may be run.
#[derive(Debug)]
pub(crate) struct Reserved {
    budget: Arc<Budget>,
    bytes: i64,
}

impl Reserved {
    pub(crate) fn new(budget: Arc<Budget>, bytes: i64) -> Self {
        Reserved { budget, bytes }
    }

    /// Gives it back, and returns whom to wake when nothing is held.
    pub(crate) fn end(mut self) -> Vec<Waker> {
        self.budget.give(std::mem::take(&mut self.bytes))
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if self.bytes > 0 && !forked::is_child() {
            wake_all(self.budget.give(self.bytes));
        }
    }
}
