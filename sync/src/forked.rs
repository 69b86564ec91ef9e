//! Whether this process was forked from one that uses the runtime.
//!
//! Only the thread that forks goes on in the child. No lane, executor or waiter of the parent's is there, a driver's state is of no use,
//! and a lock that another thread had at that moment stays locked for ever. So whoever is called in a child has to find out *before*
//! it takes any lock: one load of a flag that the C library sets in the child, before `fork` returns there. A process that replaces
//! itself right after it was forked, as a command that is started does, never comes so far.
//!
//! A process whose first runtime is made after the fork is no such child: nobody watched when it was forked.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Watches for forks from now on; to call it again does nothing.
pub fn watch() {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(register);
}

/// Whether the process was forked from one that [watched](watch).
#[inline]
pub fn is_child() -> bool {
    // Set by the only thread that there is then; whatever threads come later are started by it.
    IS_CHILD.load(Ordering::Relaxed)
}

#[cfg(unix)]
fn register() {
    // SAFETY: this is POSIX's declaration; a missing handler is a null pointer, which is what `None` is.
    unsafe extern "C" {
        safe fn pthread_atfork(
            before: Option<extern "C" fn()>,
            in_parent: Option<extern "C" fn()>,
            in_child: Option<extern "C" fn()>,
        ) -> i32;
    }

    extern "C" fn note() {
        IS_CHILD.store(true, Ordering::Relaxed);
    }

    // Fails for lack of memory alone; then forks are merely not noticed.
    let _ = pthread_atfork(None, None, Some(note));
}

#[cfg(not(unix))]
fn register() {}
