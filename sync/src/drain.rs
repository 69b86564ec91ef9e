//! Waiting for everything that began before now, while more keeps beginning.
//!
//! Whatever begins belongs to the current *generation*. A waiter ends the current generation and waits until
//! that one and all before it are empty. Without waiters there is one generation and a count; a waiter adds one
//! entry.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use slab::Slab;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Drain {
    /// Counts of the generations from `first` on; the last is the current one. All but that one have had a waiter, and the
    /// first of those is not empty.
    generations: VecDeque<u64>,
    /// Starts at 1: there is a generation before the first.
    first: u64,
    waiters: Slab<(u64, Waker)>,
}

impl Default for Drain {
    fn default() -> Self {
        Drain { generations: VecDeque::from([0]), first: 1, waiters: Slab::new() }
    }
}

impl Drain {
    fn current(&self) -> u64 {
        self.first + self.generations.len() as u64 - 1
    }

    /// The last generation that has something in it, or had; where the current one is empty, that is an earlier one. So
    /// waiters that come without anything having begun in between share a generation.
    fn close_generation(&mut self) -> u64 {
        let current = self.current();
        if self.generations.back() == Some(&0) {
            return current - 1;
        }
        self.generations.push_back(0);
        current
    }

    /// Registers a waiter; returns the waker that it had registered before, if that was another.
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
        // `end` removes the entries it wakes, and a key may have been given out again since: for a later generation.
        let (until, _) = self.waiters.get(key)?;
        if Some(*until) != watch.until {
            return None;
        }
        Some(self.waiters.remove(key).1)
    }
}

/// To which generation something belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generation(u64);

/// A waiter's place.
#[derive(Debug, Default)]
pub struct Watch {
    until: Option<u64>,
    key: Option<usize>,
}

impl Drain {
    /// Something begins.
    pub(crate) fn begin(&mut self) -> Generation {
        let generation = self.current();
        if let Some(count) = self.generations.back_mut() {
            *count += 1;
        }
        Generation(generation)
    }

    /// `count` things of a generation have ended; returns the waiters to wake.
    #[must_use]
    pub(crate) fn end(&mut self, generation: Generation, count: u64) -> Vec<Waker> {
        // A generation with something in it is never popped, so this one is still in the list.
        let at = (generation.0 - self.first) as usize;
        self.generations[at] -= count;
        let before = self.first;
        // In order: an empty generation behind one that is not stays, since its waiters wait for both. And the
        // current one stays though it is empty, as more may begin in it.
        while self.generations.len() > 1 && self.generations[0] == 0 {
            self.generations.pop_front();
            self.first += 1;
        }
        let first = self.first;
        if first == before {
            return Vec::new();
        }
        let keys: Vec<_> =
            self.waiters.iter().filter(|(_, (until, _))| *until < first).map(|(k, _)| k).collect();
        keys.into_iter().map(|k| self.waiters.remove(k).1).collect()
    }

    /// Waits until everything has ended that had begun when this watch was first polled. Returns the waker that
    /// waited there before.
    pub(crate) fn poll(&mut self, watch: &mut Watch, waker: &Waker) -> (Poll<()>, Option<Waker>) {
        // Fixed at the first poll: if each poll closed a generation, everything that begins meanwhile would be
        // waited for as well, and under steady load the wait would never end.
        let until = match watch.until {
            Some(until) => until,
            None => *watch.until.insert(self.close_generation()),
        };
        match until < self.first {
            true => (Poll::Ready(()), self.remove(watch)),
            false => (Poll::Pending, self.register(watch, until, waker)),
        }
    }

    /// The waiter goes away; returns its waker.
    pub(crate) fn forget(&mut self, watch: &mut Watch) -> Option<Waker> {
        self.remove(watch)
    }

    /// How many things are under way.
    pub(crate) fn under_way(&self) -> u64 {
        self.generations.iter().sum()
    }
}
