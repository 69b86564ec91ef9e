//! A combining lock: state that many threads change under a mutex, and that callbacks, which may not block, reach by leaving a
//! message for the thread that has the mutex.
//!
//! 1. A thread that wants the state locks the mutex, works off the messages, does its own work, and unlocks it.
//! 2. A poster pushes its message, then tries to lock. If the mutex is free it works off the messages itself. If not, it
//!    returns at once.
//! 3. After unlocking, a thread sees to what the messages asked for, looks at the inbox once more, and if there are messages tries
//!    to lock it again.
//!
//! The feared race: the poster finds the mutex taken and leaves, while its holder has already looked at the inbox for the
//! last time, and the message lies there for ever. It cannot happen: the poster pushes *before* it tries the mutex, the
//! holder unlocks it *before* it looks, and a sequentially consistent fence stands between the two steps on both sides. Then
//! at least one of them sees what the other did: either the poster finds the mutex free, or the holder finds the message.

use crate::facade::{Mutex, MutexGuard, Ordering, atomic::fence, get_mut, lock, try_lock};
use crate::inbox::Inbox;

/// See the module documentation.
#[derive(Debug)]
pub struct CombiningLock<S, M> {
    state: Mutex<S>,
    inbox: Inbox<M>,
}

/// What a thread takes a combining lock with: carries what a turn of it collects, and knows what to do with a
/// message.
pub trait Combiner<S, M> {
    /// Works off one message.
    fn message(&mut self, state: &mut S, message: M);

    /// Has the lock: called once for each turn of it.
    fn locked(&mut self, _state: &mut S) {}

    /// Is about to unlock: called once for each turn, after its messages and its work.
    fn before_unlock(&mut self, _state: &mut S) {}

    /// Has unlocked: called once for each turn. Whoever posts meanwhile takes the lock, and waits for nothing that is done here.
    fn after_unlock(&mut self) {}
}

impl<S, M> CombiningLock<S, M> {
    /// A lock with this state and no messages.
    pub fn new(state: S) -> Self {
        CombiningLock { state: Mutex::new(state), inbox: Inbox::default() }
    }

    /// The state, to the lock's only owner.
    pub fn get_mut(&mut self) -> &mut S {
        get_mut(&mut self.state)
    }

    /// Takes the lock, waiting for it, and does `work` after the messages. What comes in meanwhile is worked off as well
    /// before this returns, unless another thread takes the lock first and does it.
    pub fn with<K: Combiner<S, M>, R>(&self, combiner: &mut K, work: impl FnOnce(&mut S, &mut K) -> R) -> R {
        self.turn(lock(&self.state), combiner, work)
    }

    /// The same if the lock is free, and else gives the work back: for who can leave a message instead.
    pub fn try_with<K: Combiner<S, M>, R, F: FnOnce(&mut S, &mut K) -> R>(
        &self,
        combiner: &mut K,
        work: F,
    ) -> Result<R, F> {
        match try_lock(&self.state) {
            Some(state) => Ok(self.turn(state, combiner, work)),
            None => Err(work),
        }
    }

    #[inline(always)]
    fn turn<K: Combiner<S, M>, R>(
        &self,
        mut state: MutexGuard<'_, S>,
        combiner: &mut K,
        work: impl FnOnce(&mut S, &mut K) -> R,
    ) -> R {
        combiner.locked(&mut state);
        self.work_off(&mut state, combiner);
        let result = work(&mut state, combiner);
        combiner.before_unlock(&mut state);
        self.show_taken();
        drop(state);
        combiner.after_unlock();
        self.drain(combiner);
        result
    }

    /// Leaves a message, and works off all there are if the lock is free. Never blocks.
    pub fn post(&self, message: M, combiner: &mut impl Combiner<S, M>) {
        self.inbox.push(message);
        self.drain(combiner);
    }

    /// Leaves a message for the next thread that takes the lock; the caller makes sure that one is about to.
    pub fn leave(&self, message: M) {
        self.inbox.push(message);
    }

    /// Works off messages as long as there are any and the lock is free. Never blocks: who has the lock sees to what was left before.
    pub fn drain(&self, combiner: &mut impl Combiner<S, M>) {
        loop {
            // Orders what this thread did before, pushing a message or unlocking, before its next look at the inbox and
            // the lock: the fence that the module's argument needs on both sides.
            fence(Ordering::SeqCst);
            if self.inbox.is_empty() {
                return;
            }
            // Taken: its holder comes past this loop after unlocking, and sees the messages.
            let Some(mut state) = try_lock(&self.state) else { return };
            combiner.locked(&mut state);
            self.work_off(&mut state, combiner);
            combiner.before_unlock(&mut state);
            self.show_taken();
            drop(state);
            combiner.after_unlock();
        }
    }

    /// Under loom, a step in which the lock is still taken and the messages have been worked off: posters are to come then,
    /// and loom does not take the unlocking for a step of its own.
    fn show_taken(&self) {
        #[cfg(windlass_loom)]
        self.inbox.is_empty();
    }

    #[inline(always)]
    fn work_off(&self, state: &mut MutexGuard<'_, S>, combiner: &mut impl Combiner<S, M>) {
        if !self.inbox.is_empty() {
            self.work_off_all(state, combiner);
        }
    }

    #[inline(never)]
    fn work_off_all(&self, state: &mut MutexGuard<'_, S>, combiner: &mut impl Combiner<S, M>) {
        for message in self.inbox.take() {
            combiner.message(state, message);
        }
    }
}
