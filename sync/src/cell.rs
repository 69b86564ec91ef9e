//! The event cell: one completion, any number of waiters.
//!
//! A waiter registers its waker and looks at the value under the same lock, and the completer sets the value and takes
//! the wakers under that lock: whoever comes second sees the first. Wakers are foreign code, so the completer gets
//! them back and calls them after it has let go of everything.

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
    /// Somebody has waited at least once.
    awaited: bool,
    note: N,
}

/// Registered wakers, by key. The first has a place of its own: most cells never have two.
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
    /// Whether nobody waited.
    pub fn is_empty(&self) -> bool {
        self.0.len() == 0
    }

    /// Wakes every waiter, those after one whose waker panics as well; the first panic goes on after that.
    pub fn wake(self) {
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
    /// It is not; the waker is registered. `first` says that nobody had ever waited before.
    Pending {
        /// Nobody had waited before.
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
        let mut inner = lock(&self.inner);
        if let Some(value) = &inner.value {
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

    /// [`EventCell::poll`] for waiters that do not care who was first.
    pub fn poll_simply(&self, registration: &mut Registration, cx: &mut Context<'_>) -> Poll<T> {
        match self.poll(registration, cx.waker()) {
            Polled::Ready(value) => Poll::Ready(value),
            Polled::Pending { .. } => Poll::Pending,
        }
    }

    /// The waiter goes away.
    pub fn forget(&self, registration: &mut Registration) {
        let Some(key) = registration.0.take() else { return };
        let waker = lock(&self.inner).waiters.remove(key);
        drop(waker);
    }

    /// The value and the owner's note, for who has the cell to itself.
    pub fn parts_mut(&mut self) -> (&mut Option<T>, &mut N) {
        let inner = get_mut(&mut self.inner);
        (&mut inner.value, &mut inner.note)
    }

    /// How many waiters are registered.
    pub fn waiters(&self) -> usize {
        lock(&self.inner).waiters.len()
    }

    /// Reads or changes the owner's note, with whether anybody has waited.
    pub fn note<R>(&self, look: impl FnOnce(&mut N, bool) -> R) -> R {
        let mut inner = lock(&self.inner);
        let awaited = inner.awaited;
        look(&mut inner.note, awaited)
    }
}
