//! The event cell: one completion, any number of waiters.
//!
//! A waiter registers its waker and looks at the value under the same lock, and the completer sets the value and
//! takes the wakers under that lock: the second of the two sees what the first did. Wakers are foreign code, so
//! the completer gets them back and calls them when it holds no lock.

use std::task::{Context, Poll, Waker};

use slab::Slab;

use crate::facade::{Mutex, get_mut, lock};
use crate::panics::{Panicked, catch};

/// See the module documentation.
#[derive(Debug)]
pub struct EventCell<T, N = ()> {
    inner: Mutex<Inner<T, N>>,
}

#[derive(Debug)]
struct Inner<T, N> {
    value: Option<T>,
    waiters: Waiters,
    /// There has been a waiter.
    awaited: bool,
    note: N,
}

/// Registered wakers, by key. The first is stored inline: most cells never have two.
#[derive(Debug, Default)]
struct Waiters {
    /// Its key is zero.
    first: Option<Waker>,
    /// Their keys follow.
    others: Option<Box<Slab<Waker>>>,
}

impl Waiters {
    fn insert(&mut self, waker: Waker) -> usize {
        match &mut self.first {
            None => {
                self.first = Some(waker);
                0
            }
            Some(_) => self.others.get_or_insert_default().insert(waker) + 1,
        }
    }

    fn get_mut(&mut self, key: usize) -> Option<&mut Waker> {
        match key.checked_sub(1) {
            None => self.first.as_mut(),
            Some(other) => self.others.as_mut()?.get_mut(other),
        }
    }

    fn remove(&mut self, key: usize) -> Option<Waker> {
        match key.checked_sub(1) {
            None => self.first.take(),
            Some(other) => self.others.as_mut()?.try_remove(other),
        }
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.as_ref().map_or(0, |others| others.len())
    }
}

/// A waiter's registration. Give it back to [`EventCell::forget`] when the waiter goes away.
#[derive(Debug, Default)]
pub struct Registration(Option<usize>);

/// The wakers of a completed cell, to be woken once nothing is held.
#[derive(Debug, Default)]
#[must_use]
pub struct Wakers(Waiters);

impl Wakers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Wakes every waiter, those after one whose waker panics as well; the first panic goes on after that.
    pub fn wake(self) {
        // Each waker runs, or a panic of one waiter's code would leave the others asleep for ever.
        let mut first_panic: Option<Panicked> = None;
        let Waiters { first, others } = self.0;
        for waker in first.into_iter().chain(others.into_iter().flat_map(|o| *o).map(|(_, waker)| waker)) {
            if let Err(panic) = catch(|| waker.wake()) {
                first_panic.get_or_insert(panic);
            }
        }
        if let Some(panic) = first_panic {
            panic.resume();
        }
    }
}

/// What a poll found.
#[derive(Debug, PartialEq, Eq)]
pub enum Polled<T> {
    /// The cell is complete.
    Ready(T),
    /// It is not; the waker is registered.
    Pending {
        /// There had never been a waiter before.
        first: bool,
    },
}

impl<T: Clone, N> EventCell<T, N> {
    /// An incomplete cell, with a note for its owner.
    pub fn new(note: N) -> Self {
        EventCell {
            inner: Mutex::new(Inner { value: None, waiters: Waiters::default(), awaited: false, note }),
        }
    }

    /// Completes the cell. The first completion counts; a later one changes nothing and returns `None`.
    pub fn complete(&self, value: T) -> Option<Wakers> {
        let mut inner = lock(&self.inner);
        // The value that comes too late is dropped when the guard is gone (parameters outlive locals): it may be a
        // user's error, and its drop may come back to this cell.
        if inner.value.is_some() {
            return None;
        }
        inner.value = Some(value);
        Some(Wakers(std::mem::take(&mut inner.waiters)))
    }

    /// The value, if the cell is complete.
    pub fn get(&self) -> Option<T> {
        lock(&self.inner).value.clone()
    }

    /// Looks at the value, or registers the waker, replacing the one that this registration had before.
    pub fn poll(&self, registration: &mut Registration, waker: &Waker) -> Polled<T> {
        // One critical section for the look and the registration: between two, the completer could take the
        // wakers, and this one would be registered with a cell that never wakes again.
        let mut inner = lock(&self.inner);
        if let Some(value) = &inner.value {
            // The completer has taken the waker, so there is nothing left to forget.
            registration.0 = None;
            return Polled::Ready(value.clone());
        }
        let old = match registration.0.and_then(|key| inner.waiters.get_mut(key)) {
            Some(registered) if registered.will_wake(waker) => None,
            Some(registered) => Some(std::mem::replace(registered, waker.clone())),
            None => {
                registration.0 = Some(inner.waiters.insert(waker.clone()));
                None
            }
        };
        let first = !std::mem::replace(&mut inner.awaited, true);
        drop(inner);
        // A waker's drop is foreign code as well.
        drop(old);
        Polled::Pending { first }
    }

    /// [`EventCell::poll`] for waiters that do not need to know whether they were the first.
    pub fn poll_simply(&self, registration: &mut Registration, cx: &mut Context<'_>) -> Poll<T> {
        match self.poll(registration, cx.waker()) {
            Polled::Ready(value) => Poll::Ready(value),
            Polled::Pending { .. } => Poll::Pending,
        }
    }

    /// The waiter goes away.
    pub fn forget(&self, registration: &mut Registration) {
        let Some(key) = registration.0.take() else { return };
        // After completion the key names nothing, and never another's waker: none is registered any more. The
        // waker is dropped without the lock, because its drop is foreign code.
        let waker = lock(&self.inner).waiters.remove(key);
        drop(waker);
    }

    /// The value and the owner's note, given exclusive access to the cell.
    pub fn parts_mut(&mut self) -> (&mut Option<T>, &mut N) {
        let inner = get_mut(&mut self.inner);
        (&mut inner.value, &mut inner.note)
    }

    /// How many waiters are registered.
    pub fn waiters(&self) -> usize {
        lock(&self.inner).waiters.len()
    }

    /// Reads or changes the owner's note; `look` is also told whether there has been a waiter.
    pub fn note<R>(&self, look: impl FnOnce(&mut N, bool) -> R) -> R {
        let mut inner = lock(&self.inner);
        let awaited = inner.awaited;
        look(&mut inner.note, awaited)
    }
}
