//! Credits: a count of what may be in flight, that submissions take without asking and that `ready` waits for.
//!
//! Taking never fails: the count may go below zero, and then waiters wait until the debt is repaid. A waiter that is
//! served has taken its credits already, so a later caller cannot take them away. Waiters are served in order, and each may want
//! several: who wants more than there are is served when all are there.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Credits {
    free: i64,
    /// How many there are in all.
    all: i64,
    next_ticket: u64,
    queue: VecDeque<Waiter>,
    /// Waiters that have been given their credits and have not come for them yet, with how many.
    served: Vec<(u64, i64)>,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    wants: i64,
    waker: Waker,
}

/// A waiter's place.
#[derive(Debug, Default)]
pub struct Place(Option<u64>);

impl Credits {
    /// This many credits.
    pub(crate) fn new(credits: i64) -> Self {
        Credits { free: credits, all: credits, next_ticket: 0, queue: VecDeque::new(), served: Vec::new() }
    }

    /// Takes one, going into debt if need be.
    pub(crate) fn take(&mut self) {
        self.free -= 1;
    }

    /// Takes one if there is one and there is no waiter.
    pub(crate) fn try_take(&mut self) -> bool {
        let free = self.fits(1) && self.queue.is_empty();
        self.free -= i64::from(free);
        free
    }

    /// Whether so many may be taken now.
    fn fits(&self, wants: i64) -> bool {
        self.free > 0 && (self.free >= wants || self.free == self.all)
    }

    /// Gives `count` back; returns the waiters that are served by it.
    #[must_use]
    pub(crate) fn give(&mut self, count: i64) -> Vec<Waker> {
        self.free += count;
        match self.queue.is_empty() {
            true => Vec::new(),
            false => self.serve(),
        }
    }

    /// Takes so many, the same at each poll, or waits in line. Returns the waker that waited there before.
    pub(crate) fn poll_take(
        &mut self,
        place: &mut Place,
        wants: i64,
        waker: &Waker,
    ) -> (Poll<()>, Option<Waker>) {
        // Joining the line is left to the first poll, and later polls keep the ticket: the place in line does
        // not depend on how often a waiter is polled. A newcomer takes a free credit only if the line is empty,
        // or it would overtake.
        let Some(ticket) = place.0 else {
            if self.fits(wants) && self.queue.is_empty() {
                self.free -= wants;
                return (Poll::Ready(()), None);
            }
            let ticket = self.next_ticket;
            self.next_ticket += 1;
            self.queue.push_back(Waiter { ticket, wants, waker: waker.clone() });
            place.0 = Some(ticket);
            return (Poll::Pending, None);
        };
        if let Some(at) = self.served.iter().position(|(t, _)| *t == ticket) {
            self.served.swap_remove(at);
            place.0 = None;
            return (Poll::Ready(()), None);
        }
        let old = match self.in_line(ticket) {
            Some(at) if !self.queue[at].waker.will_wake(waker) => {
                Some(std::mem::replace(&mut self.queue[at].waker, waker.clone()))
            }
            _ => None,
        };
        (Poll::Pending, old)
    }

    /// The waiter goes away; a credit that it was given goes to the next. Returns the wakers of those that are
    /// served by it, and its own waker.
    #[must_use]
    pub(crate) fn forget(&mut self, place: &mut Place) -> (Vec<Waker>, Option<Waker>) {
        let Some(ticket) = place.0.take() else { return (Vec::new(), None) };
        // It may have been served and dropped before it was polled again. Its wake was the only one for that
        // credit, so the credit is passed on here, or it would be lost with the next waiter asleep.
        if let Some(at) = self.served.iter().position(|(t, _)| *t == ticket) {
            self.free += self.served.swap_remove(at).1;
        }
        let old = self.in_line(ticket).and_then(|at| self.queue.remove(at));
        (self.serve(), old.map(|waiter| waiter.waker))
    }

    /// How many are free; negative while in debt.
    pub(crate) fn free(&self) -> i64 {
        self.free
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Where a waiter that has not been served stands. Tickets in the queue rise.
    fn in_line(&self, ticket: u64) -> Option<usize> {
        self.queue.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    fn serve(&mut self) -> Vec<Waker> {
        // Afterwards the first waiter's credits are not there, or no waiter is left: what `poll_take` and `try_take` rely on when
        // they look at the line before they take.
        let mut woken = Vec::new();
        while let Some(first) = self.queue.front()
            && self.fits(first.wants)
            && let Some(Waiter { ticket, wants, waker }) = self.queue.pop_front()
        {
            self.free -= wants;
            self.served.push((ticket, wants));
            woken.push(waker);
        }
        woken
    }
}
