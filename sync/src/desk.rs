//! A lock with an inbox: state that many threads change under a mutex, and that callbacks, which may not block, reach
//! by leaving a message.
//!
//! 1. Whoever wants the state sits down (locks), works off the mail, does its own work, and gets up (unlocks).
//! 2. A poster pushes its message, then tries to sit down. If the seat is free it works off the mail itself. If not, it
//!    goes away at once.
//! 3. Whoever gets up looks at the inbox once more, and if there is mail tries to sit down again.
//!
//! The feared race: the poster finds the seat taken and leaves, while the sitter has already looked at the inbox for
//! the last time, and the message lies there for ever. It cannot happen: the poster pushes *before* it tries the seat,
//! the sitter leaves the seat *before* it looks, and a sequentially consistent fence stands between the two steps
//! on both sides. Then at least one of them sees what the other did: either the poster finds the seat free, or the
//! sitter finds the mail.

use crate::facade::{Mutex, MutexGuard, Ordering, atomic::fence, lock, try_lock};
use crate::inbox::Inbox;

/// See the module documentation.
#[derive(Debug)]
pub struct Desk<S, M> {
    state: Mutex<S>,
    inbox: Inbox<M>,
}

/// Who sits at a desk: carries what a turn there collects, and knows what to do with a message.
pub trait Clerk<S, M> {
    /// Works off one message.
    fn mail(&mut self, state: &mut S, message: M);

    /// Has sat down: called once for each turn of the lock.
    fn sits(&mut self, _state: &mut S) {}
}

impl<S, M> Desk<S, M> {
    /// A desk with this state and no mail.
    pub fn new(state: S) -> Self {
        Desk { state: Mutex::new(state), inbox: Inbox::default() }
    }

    /// Sits down, waiting for the seat, and does `work` after the mail. What came in meanwhile is worked off as well
    /// before this returns, unless somebody else sits down first and does it.
    pub fn sit<K: Clerk<S, M>, R>(&self, clerk: &mut K, work: impl FnOnce(&mut S, &mut K) -> R) -> R {
        let mut seat = lock(&self.state);
        clerk.sits(&mut seat);
        self.work_off(&mut seat, clerk);
        let result = work(&mut seat, clerk);
        self.linger();
        drop(seat);
        self.tend(clerk);
        result
    }

    /// Leaves a message, and works off the mail if nobody sits at the desk. Never blocks.
    pub fn post(&self, message: M, clerk: &mut impl Clerk<S, M>) {
        self.inbox.push(message);
        self.tend(clerk);
    }

    /// Leaves a message for whoever sits down next, who must be about to.
    pub fn leave(&self, message: M) {
        self.inbox.push(message);
    }

    /// Works off mail as long as there is any and the seat is free.
    fn tend(&self, clerk: &mut impl Clerk<S, M>) {
        loop {
            // Orders what this thread did before, pushing a message or leaving the seat, before its next look at
            // the inbox and the seat: the fence that the module's argument needs on both sides.
            fence(Ordering::SeqCst);
            if self.inbox.is_empty() {
                return;
            }
            let Some(mut seat) = try_lock(&self.state) else { return };
            clerk.sits(&mut seat);
            self.work_off(&mut seat, clerk);
            self.linger();
        }
    }

    /// Under loom, a step in which the seat is still taken and the mail has been worked off: posters are to come then,
    /// and loom does not take the unlocking for a step of its own.
    fn linger(&self) {
        #[cfg(windlass_loom)]
        self.inbox.is_empty();
    }

    #[inline(always)]
    fn work_off(&self, seat: &mut MutexGuard<'_, S>, clerk: &mut impl Clerk<S, M>) {
        if !self.inbox.is_empty() {
            self.deliver(seat, clerk);
        }
    }

    #[inline(never)]
    fn deliver(&self, seat: &mut MutexGuard<'_, S>, clerk: &mut impl Clerk<S, M>) {
        for message in self.inbox.take() {
            clerk.mail(seat, message);
        }
    }
}
