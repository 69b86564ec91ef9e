//! A queue's account of what is in flight: credits, which bound it, and generations, by which a caller waits for
//! all of it. Most groups take a credit and join a generation at the same time, so both are behind one lock.
//!
//! Wakers are returned, or dropped, when the lock is free: to wake or drop one may end a task that waits here as
//! well. They are cloned and compared under the lock: that must not come back here.

use std::task::{Poll, Waker};

use crate::credits::Credits;
pub use crate::credits::Place;
use crate::drain::Drain;
pub use crate::drain::{Generation, Watch};
use crate::facade::{Mutex, lock};

/// See the module documentation.
#[derive(Debug)]
pub struct Account {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    credits: Credits,
    drain: Drain,
    /// Things that are over, but still of their generations.
    over: u64,
}

impl Account {
    /// This many credits, and nothing in flight.
    pub fn new(credits: i64) -> Self {
        let (credits, drain) = (Credits::new(credits), Drain::default());
        Account { inner: Mutex::new(Inner { credits, drain, over: 0 }) }
    }

    /// Something begins, and takes a credit, going into debt if need be.
    pub fn enter(&self) -> Generation {
        let mut inner = lock(&self.inner);
        inner.credits.take();
        inner.drain.begin()
    }

    /// Something begins for which a credit has been taken.
    pub fn begin(&self) -> Generation {
        lock(&self.inner).drain.begin()
    }

    /// Takes a credit if there is one and there is no waiter.
    pub fn try_take(&self) -> bool {
        lock(&self.inner).credits.try_take()
    }

    /// Takes a credit, or waits in line.
    pub fn poll_take(&self, place: &mut Place, waker: &Waker) -> Poll<()> {
        let (polled, old) = lock(&self.inner).credits.poll_take(place, 1, waker);
        drop(old);
        polled
    }

    /// The waiter goes away; a credit that it was given goes to the next.
    #[must_use]
    pub fn forget(&self, place: &mut Place) -> Vec<Waker> {
        let (woken, old) = lock(&self.inner).credits.forget(place);
        drop(old);
        woken
    }

    /// Gives `count` credits back; returns the waiters that are served by it, to be woken once nothing is held.
    #[must_use]
    pub fn give(&self, count: i64) -> Vec<Waker> {
        lock(&self.inner).credits.give(count)
    }

    /// `count` things are over: their credits come back, and they are not under way any more. Whoever waits for their generations is told
    /// by [`Account::end`], when everybody else knows. Returns the waiters that are served by it, to be woken once nothing is held.
    #[must_use]
    pub fn over(&self, count: u64) -> Vec<Waker> {
        let mut inner = lock(&self.inner);
        inner.over += count;
        inner.credits.give(count as i64)
    }

    /// `count` things of a generation, which are over, have ended; returns the waiters to wake once nothing is held.
    #[must_use]
    pub fn end(&self, generation: Generation, count: u64) -> Vec<Waker> {
        let mut inner = lock(&self.inner);
        inner.over -= count;
        inner.drain.end(generation, count)
    }

    /// Something that had begun does not come to be: its credit comes back, and its generation is without it.
    #[must_use]
    pub fn take_back(&self, generation: Generation) -> Vec<Waker> {
        let mut inner = lock(&self.inner);
        let mut woken = inner.credits.give(1);
        woken.extend(inner.drain.end(generation, 1));
        woken
    }

    /// Waits until everything has ended that had begun when this watch was first polled.
    pub fn poll_drained(&self, watch: &mut Watch, waker: &Waker) -> Poll<()> {
        let (polled, old) = lock(&self.inner).drain.poll(watch, waker);
        drop(old);
        polled
    }

    /// The waiter for that goes away.
    pub fn unwatch(&self, watch: &mut Watch) {
        let old = lock(&self.inner).drain.forget(watch);
        drop(old);
    }

    /// How many credits are free; negative while in debt.
    pub fn free(&self) -> i64 {
        lock(&self.inner).credits.free()
    }

    /// How many wait for credits.
    pub fn waiting(&self) -> usize {
        lock(&self.inner).credits.waiting()
    }

    /// How many things are under way: never more than there are credits, but for debt.
    pub fn under_way(&self) -> u64 {
        let inner = lock(&self.inner);
        inner.drain.under_way() - inner.over
    }
}
