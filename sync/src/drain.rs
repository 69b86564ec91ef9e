//! Waiting for everything that began before now, while more keeps beginning.
//!
//! Whatever begins belongs to the current *tide*. A waiter ends the current tide and waits until that tide and all
//! before it are empty. Without waiters there is one tide and a count; a waiter adds one entry.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use slab::Slab;

use crate::facade::{Mutex, lock};

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Drain {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Counts of the tides from `first` on; the last is the current one. All but that one have had a waiter, and the
    /// first of those is not empty.
    tides: VecDeque<u64>,
    /// Starts at 1: there is a tide before the first.
    first: u64,
    waiters: Slab<(u64, Waker)>,
}

impl Default for Inner {
    fn default() -> Self {
        Inner { tides: VecDeque::from([0]), first: 1, waiters: Slab::new() }
    }
}

impl Inner {
    fn current(&self) -> u64 {
        self.first + self.tides.len() as u64 - 1
    }

    /// The last tide that has something in it, or had; where the current one is empty, that is an earlier one. So
    /// waiters that come without anything having begun in between share a tide.
    fn end_of_tide(&mut self) -> u64 {
        let current = self.current();
        if self.tides.back() == Some(&0) {
            return current - 1;
        }
        self.tides.push_back(0);
        current
    }

    /// Notes who waits; returns the waker that was noted before, if it was another.
    fn register(&mut self, watch: &mut Watch, until: u64, waker: &Waker) -> Option<Waker> {
        match watch.key.and_then(|key| self.waiters.get_mut(key)) {
            Some((_, registered)) if registered.will_wake(waker) => None,
            Some((_, registered)) => Some(std::mem::replace(registered, waker.clone())),
            None => {
                watch.key = Some(self.waiters.insert((until, waker.clone())));
                None
            }
        }
    }

    fn remove(&mut self, watch: &mut Watch) -> Option<Waker> {
        let key = watch.key.take()?;
        // `end` removes the entries it wakes, and a key may have been given out again since: for a later tide.
        let (until, _) = self.waiters.get(key)?;
        if Some(*until) != watch.until {
            return None;
        }
        Some(self.waiters.remove(key).1)
    }
}

/// To which tide something belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tide(u64);

/// A waiter's place.
#[derive(Debug, Default)]
pub struct Watch {
    until: Option<u64>,
    key: Option<usize>,
}

impl Drain {
    /// Something begins.
    pub fn begin(&self) -> Tide {
        let mut inner = lock(&self.inner);
        let tide = inner.current();
        if let Some(count) = inner.tides.back_mut() {
            *count += 1;
        }
        Tide(tide)
    }

    /// `count` things of a tide have ended; returns the waiters to wake once nothing is held.
    #[must_use]
    pub fn end(&self, tide: Tide, count: u64) -> Vec<Waker> {
        let mut inner = lock(&self.inner);
        let at = (tide.0 - inner.first) as usize;
        inner.tides[at] -= count;
        let before = inner.first;
        while inner.tides.len() > 1 && inner.tides[0] == 0 {
            inner.tides.pop_front();
            inner.first += 1;
        }
        let first = inner.first;
        if first == before {
            return Vec::new();
        }
        let keys: Vec<_> =
            inner.waiters.iter().filter(|(_, (until, _))| *until < first).map(|(k, _)| k).collect();
        keys.into_iter().map(|k| inner.waiters.remove(k).1).collect()
    }

    /// Waits until everything has ended that had begun when this watch was first polled.
    pub fn poll(&self, watch: &mut Watch, waker: &Waker) -> Poll<()> {
        let mut inner = lock(&self.inner);
        let until = match watch.until {
            Some(until) => until,
            None => *watch.until.insert(inner.end_of_tide()),
        };
        let (polled, old) = if until < inner.first {
            (Poll::Ready(()), inner.remove(watch))
        } else {
            (Poll::Pending, inner.register(watch, until, waker))
        };
        drop(inner);
        // A waker's drop is foreign code: it may end a task that waits here as well.
        drop(old);
        polled
    }

    /// The waiter goes away.
    pub fn forget(&self, watch: &mut Watch) {
        let old = lock(&self.inner).remove(watch);
        drop(old);
    }

    /// How many things are under way.
    pub fn under_way(&self) -> u64 {
        lock(&self.inner).tides.iter().sum()
    }
}
