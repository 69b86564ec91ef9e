//! The standard library's concurrency types, or loom's models of them under `--cfg windlass_loom`.
//!
//! Everything in this crate, and the runtime's shell, takes these types from here and from nowhere else, so that the
//! shipped code is what loom explores. The cfg is our own: a user's `--cfg loom` does not reach us.

use std::sync::TryLockError;

#[cfg(not(windlass_loom))]
mod imp {
    pub use std::sync::atomic::{self, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub use std::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use std::{thread, thread_local};
}

#[cfg(windlass_loom)]
mod imp {
    pub use loom::sync::atomic::{self, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
    pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
    pub use loom::{thread, thread_local as model_thread_local};

    pub use crate::const_thread_local as thread_local;
}

/// Loom's macro takes no `const` block.
#[cfg(windlass_loom)]
#[doc(hidden)]
#[macro_export]
macro_rules! const_thread_local {
    ($($(#[$attr:meta])* $vis:vis static $name:ident: $t:ty = const $init:block;)*) => {
        $($crate::facade::model_thread_local! { $(#[$attr])* $vis static $name: $t = $init })*
    };
}

pub use imp::*;

/// Locks a mutex whose protected code never runs foreign code, so that poisoning says nothing.
///
/// A panic of ours under the lock would be a bug; going on with the state as it is loses less than a second panic in
/// every thread that comes after.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// What [`lock`] would lend, to the mutex's only owner.
pub fn get_mut<T>(mutex: &mut Mutex<T>) -> &mut T {
    match mutex.get_mut() {
        Ok(inner) => inner,
        Err(poisoned) => poisoned.into_inner(),
    }
}

/// [`lock`] if that is possible at once.
pub fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
