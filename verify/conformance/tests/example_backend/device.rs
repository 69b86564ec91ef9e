//! What the contexts of the device share, and which of them can still be used.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use windlass_backend::{BackendError, ContextSink};

use crate::backend::MEMORY;

/// What is known of one context.
pub(crate) struct ContextState {
    sink: Arc<dyn ContextSink>,
    life: Mutex<Life>,
}

enum Life {
    Open,
    Lost(BackendError),
    Abandoned,
}

impl ContextState {
    /// An error if the context takes no more work.
    pub(crate) fn check(&self) -> Result<(), BackendError> {
        match &*lock(&self.life) {
            Life::Open => Ok(()),
            Life::Lost(error) => Err(error.clone()),
            Life::Abandoned => Err(BackendError::Lost("it was given up".into())),
        }
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(&*lock(&self.life), Life::Abandoned)
    }

    pub(crate) fn abandon(&self) {
        *lock(&self.life) = Life::Abandoned;
    }

    /// Ends the context, and says so with no lock held.
    fn lose(&self) {
        let error = BackendError::Lost("it was unplugged".into());
        let mut life = lock(&self.life);
        if matches!(&*life, Life::Open) {
            *life = Life::Lost(error.clone());
            drop(life);
            self.sink.lost(error);
        }
    }
}

/// The device itself: who has it open, how much of its memory is in use, and its clock.
pub(crate) struct Device {
    contexts: Mutex<Vec<Weak<ContextState>>>,
    used: Mutex<u64>,
    /// When its clock was zero.
    zero: Instant,
}

impl Default for Device {
    fn default() -> Self {
        Device { contexts: Mutex::default(), used: Mutex::default(), zero: Instant::now() }
    }
}

impl Device {
    pub(crate) fn open(&self, sink: Arc<dyn ContextSink>) -> Arc<ContextState> {
        let state = Arc::new(ContextState { sink, life: Mutex::new(Life::Open) });
        let mut contexts = lock(&self.contexts);
        contexts.retain(|context| context.strong_count() > 0);
        contexts.push(Arc::downgrade(&state));
        state
    }

    /// Takes the device away from all who have it open. Who opens it later has it anew.
    pub(crate) fn lose_all(&self) {
        let open = mem::take(&mut *lock(&self.contexts));
        open.iter().filter_map(Weak::upgrade).for_each(|context| context.lose());
    }

    /// The device's clock at a moment, in nanoseconds.
    pub(crate) fn clock(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.zero).as_nanos() as u64
    }

    pub(crate) fn used(&self) -> u64 {
        *lock(&self.used)
    }

    pub(crate) fn take(&self, bytes: usize) -> Result<(), BackendError> {
        let mut used = lock(&self.used);
        match used.checked_add(bytes as u64) {
            Some(sum) if sum <= MEMORY => *used = sum,
            _ => return Err(BackendError::OutOfMemory { bytes }),
        }
        Ok(())
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        *lock(&self.used) -= bytes as u64;
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
