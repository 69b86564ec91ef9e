//! Credits: a count of what may be in flight, that submissions take without asking and that `ready` waits for.
//!
//! Taking never fails: the count may go below zero, and then waiters wait until the debt is repaid. A waiter that is
//! served has taken its credit already, so nobody who comes later can take it away. Waiters are served in order.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use crate::facade::{Mutex, lock};

/// See the module documentation.
#[derive(Debug)]
pub struct Credits {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    free: i64,
    next_ticket: u64,
    queue: VecDeque<(u64, Waker)>,
    /// Waiters that have been given their credit and have not come for it yet.
    served: Vec<u64>,
}

impl Inner {
    /// Where a waiter that has not been served stands. Tickets in the queue rise.
    fn in_line(&self, ticket: u64) -> Option<usize> {
        self.queue.binary_search_by_key(&ticket, |(t, _)| *t).ok()
    }
}

/// A waiter's place.
#[derive(Debug, Default)]
pub struct Place(Option<u64>);

impl Credits {
    /// This many credits.
    pub fn new(credits: i64) -> Self {
        Credits {
            inner: Mutex::new(Inner {
                free: credits,
                next_ticket: 0,
                queue: VecDeque::new(),
                served: Vec::new(),
            }),
        }
    }

    /// Takes one, going into debt if need be.
    pub fn take(&self) {
        lock(&self.inner).free -= 1;
    }

    /// Takes one if there is one and nobody waits for it.
    pub fn try_take(&self) -> bool {
        let mut inner = lock(&self.inner);
        let free = inner.free > 0 && inner.queue.is_empty();
        inner.free -= i64::from(free);
        free
    }

    /// Gives `count` back; returns the waiters that are served by it, to be woken once nothing is held.
    #[must_use]
    pub fn give(&self, count: i64) -> Vec<Waker> {
        let mut inner = lock(&self.inner);
        inner.free += count;
        match inner.queue.is_empty() {
            true => Vec::new(),
            false => serve(&mut inner),
        }
    }

    /// Takes one, or waits in line.
    pub fn poll_take(&self, place: &mut Place, waker: &Waker) -> Poll<()> {
        let mut inner = lock(&self.inner);
        let Some(ticket) = place.0 else {
            if inner.free > 0 && inner.queue.is_empty() {
                inner.free -= 1;
                return Poll::Ready(());
            }
            let ticket = inner.next_ticket;
            inner.next_ticket += 1;
            inner.queue.push_back((ticket, waker.clone()));
            place.0 = Some(ticket);
            return Poll::Pending;
        };
        if let Some(at) = inner.served.iter().position(|t| *t == ticket) {
            inner.served.swap_remove(at);
            place.0 = None;
            return Poll::Ready(());
        }
        let old = match inner.in_line(ticket) {
            Some(at) if !inner.queue[at].1.will_wake(waker) => {
                Some(std::mem::replace(&mut inner.queue[at].1, waker.clone()))
            }
            _ => None,
        };
        drop(inner);
        // A waker's drop is foreign code: it may end a task that waits here as well.
        drop(old);
        Poll::Pending
    }

    /// The waiter goes away; a credit that it was given goes to the next.
    #[must_use]
    pub fn forget(&self, place: &mut Place) -> Vec<Waker> {
        let Some(ticket) = place.0.take() else { return Vec::new() };
        let mut inner = lock(&self.inner);
        if let Some(at) = inner.served.iter().position(|t| *t == ticket) {
            inner.served.swap_remove(at);
            inner.free += 1;
        }
        let old = inner.in_line(ticket).and_then(|at| inner.queue.remove(at));
        let woken = serve(&mut inner);
        drop(inner);
        // As above.
        drop(old);
        woken
    }

    /// How many are free; negative while in debt.
    pub fn free(&self) -> i64 {
        lock(&self.inner).free
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        lock(&self.inner).queue.len()
    }
}

fn serve(inner: &mut Inner) -> Vec<Waker> {
    let mut woken = Vec::new();
    while inner.free > 0
        && let Some((ticket, waker)) = inner.queue.pop_front()
    {
        inner.free -= 1;
        inner.served.push(ticket);
        woken.push(waker);
    }
    woken
}
