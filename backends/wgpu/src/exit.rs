//! The end of the process.
//!
//! A driver takes itself down when the process exits, and it may crash when one of our threads is inside it then:
//! NVIDIA's does. Nobody can be asked to join our threads first, so they stay away by themselves:
//!
//! 1. Whoever makes native calls on a thread that the exit may overtake holds an [`Inside`] meanwhile, and lets go of
//!    it every now and then where the call is a long one. Objects that live long are dropped so too ([`Native`]).
//! 2. A handler that runs at exit, before what the driver registered when it was loaded earlier, closes the door: who
//!    comes later stays outside for ever, and the handler waits a bounded time for those inside.
//!
//! The exiting thread itself is let through, since it would wait for nobody but itself.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::error::lock;

/// How long an exit may be held up. Long calls let go far more often; only a driver that blocks elsewhere needs it.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long one wait for the device may last before it lets go.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

static DOOR: Mutex<Door> = Mutex::new(Door { inside: 0, exiting: None });
static LEFT: Condvar = Condvar::new();

struct Door {
    inside: usize,
    exiting: Option<ThreadId>,
}

thread_local! {
    /// How many `Inside` this thread holds; only the first one counts at the door.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The right to make native calls on this thread.
pub(crate) struct Inside(PhantomData<*const ()>);

/// Lets this thread in; once the process is ending, it stays here for ever.
pub(crate) fn enter() -> Inside {
    if DEPTH.replace(DEPTH.get() + 1) == 0 {
        let mut door = lock(&DOOR);
        if door.exiting.is_some_and(|exiting| exiting != thread::current().id()) {
            drop(door);
            loop {
                thread::park();
            }
        }
        door.inside += 1;
    }
    Inside(PhantomData)
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0 {
            let mut door = lock(&DOOR);
            door.inside -= 1;
            if door.exiting.is_some() {
                LEFT.notify_all();
            }
        }
    }
}

/// A native object whose drop makes native calls, on whatever thread it comes to that. The last of an instance's
/// unloads its driver: where that met the exit, handlers were called that were no longer mapped.
#[derive(Debug)]
pub(crate) struct Native<T>(Option<T>);

impl<T> Native<T> {
    pub(crate) fn new(object: T) -> Self {
        Native(Some(object))
    }
}

impl<T> Deref for Native<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().unwrap_or_else(|| unreachable!("it is there until it is dropped"))
    }
}

impl<T> Drop for Native<T> {
    fn drop(&mut self) {
        let _inside = enter();
        drop(self.0.take());
    }
}

// SAFETY: this is the C standard's declaration. The handler is a function, so it lives as long as the process; it
// neither unwinds nor exits.
unsafe extern "C" {
    safe fn atexit(handler: extern "C" fn()) -> i32;
}

/// Guards the exit, from now on. To be called whenever a driver may just have registered handlers of its own, which is
/// when it is loaded and when it opens a device (Mesa's do then): handlers run in reverse order, and the door has to be
/// closed first. Closing it again does nothing.
pub(crate) fn watch() {
    // Where the table of handlers is full, the exit is as it would be without this.
    let _ = atexit(close_the_door);
}

extern "C" fn close_the_door() {
    let own = usize::from(DEPTH.get() > 0);
    let mut door = lock(&DOOR);
    door.exiting = Some(thread::current().id());
    let others = |door: &mut Door| door.inside > own;
    drop(LEFT.wait_timeout_while(door, PATIENCE, others).unwrap_or_else(PoisonError::into_inner));
}
