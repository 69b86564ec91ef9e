//! Credits that are asked for in any number: bytes, for one. Wakers are returned or dropped when the lock is free, as an
//! [`Account`](crate::account::Account) does.

use std::task::{Poll, Waker};

use crate::credits::{Credits, Place};
use crate::facade::{Mutex, lock};

/// See the module documentation.
#[derive(Debug)]
pub struct Budget {
    credits: Mutex<Credits>,
}

impl Budget {
    /// A budget of this much.
    pub fn new(all: i64) -> Self {
        Budget { credits: Mutex::new(Credits::new(all)) }
    }

    /// Takes so much, the same at each poll, or waits in line. What is more than there is in all is had alone.
    pub fn poll_take(&self, place: &mut Place, wants: i64, waker: &Waker) -> Poll<()> {
        let (polled, old) = lock(&self.credits).poll_take(place, wants, waker);
        drop(old);
        polled
    }

    /// The waiter goes away; what it was given goes to the next.
    #[must_use]
    pub fn forget(&self, place: &mut Place) -> Vec<Waker> {
        let (woken, old) = lock(&self.credits).forget(place);
        drop(old);
        woken
    }

    /// Gives so much back; returns the waiters that are served by it, to be woken once nothing is held.
    #[must_use]
    pub fn give(&self, count: i64) -> Vec<Waker> {
        lock(&self.credits).give(count)
    }
}
