//! The end of the process.
//!
//! A driver shuts itself down when the process exits, and it may crash if one of our threads is inside it at that moment:
//! NVIDIA's does, and so does Intel's OpenCL while it compiles. A program cannot be required to join our threads first, so they stay out by themselves:
//!
//! 1. A thread that the exit may overtake holds an [`Inside`] during native calls. Waits are cut into slices, so that it is
//!    released regularly. Long-lived objects are dropped under one too ([`Native`]).
//! 2. An exit handler, which runs before those that the driver registered when it was loaded, closes the door: a thread that
//!    tries to enter later is parked for ever, and the handler waits a bounded time for the threads inside to leave.
//!
//! The exiting thread itself may still enter, since parking it would stop the exit.
//!
//! Handlers run in reverse order, and compilers (LLVM) register more of them whenever they do something for the first time. So nothing is
//! [being built](build) any more when the first of them runs: who builds is waited for where the main thread's own values are dropped, which
//! is earlier, and nothing new is built from then on. That is refused, and nobody is parked: other values of that thread may be dropped later,
//! and wait for groups.

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crate::forked;

/// The longest that an exit is held up: compilers take their time. Waits release the door far more often.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long one wait for the device may last before it releases the door. NVIDIA's driver spins for a millisecond at the start of each.
pub const SLICE: Duration = Duration::from_millis(200);

static DOOR: Mutex<Door> = Mutex::new(Door { inside: 0, building: 0, is_ending: false, exiting: None });
static LEFT: Condvar = Condvar::new();

fn lock(door: &Mutex<Door>) -> MutexGuard<'_, Door> {
    door.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Door {
    inside: usize,
    /// Of these, threads that compile, each as often as it does.
    building: usize,
    /// Nothing new is built.
    is_ending: bool,
    exiting: Option<ThreadId>,
}

thread_local! {
    /// How many `Inside` this thread holds; only the outermost counts at the door.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// The right to make native calls on this thread.
#[derive(Debug)]
#[must_use = "the thread leaves when this is dropped"]
pub struct Inside(PhantomData<*const ()>);

/// Enters, or parks this thread for ever if the process is exiting.
pub fn enter() -> Inside {
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

/// The right to compile on this thread.
#[derive(Debug)]
#[must_use = "the thread has ended to compile when this is dropped"]
pub struct Building {
    _inside: Inside,
}

/// Enters to compile; none if the process is about to exit.
pub fn build() -> Option<Building> {
    let inside = enter();
    let mut door = lock(&DOOR);
    if door.is_ending {
        return None;
    }
    door.building += 1;
    Some(Building { _inside: inside })
}

impl Drop for Building {
    fn drop(&mut self) {
        let mut door = lock(&DOOR);
        door.building -= 1;
        if door.is_ending {
            LEFT.notify_all();
        }
    }
}

/// A native object whose drop makes native calls, on whatever thread drops it. Dropping the last object of an instance unloads
/// its driver: when that raced with an exit, exit handlers were called that were no longer mapped.
#[derive(Debug)]
pub struct Native<T>(Option<T>);

impl<T> Native<T> {
    /// From now on it is dropped inside.
    pub fn new(object: T) -> Self {
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
        if forked::is_child() {
            // A driver's objects are its parent's: to drop them there might wait for threads that are not there.
            return std::mem::forget(self.0.take());
        }
        let _inside = enter();
        drop(self.0.take());
    }
}

/// Has nothing built any more when the values of a thread are dropped.
struct EndOfBuilding;

impl Drop for EndOfBuilding {
    fn drop(&mut self) {
        if forked::is_child() {
            return;
        }
        let mut door = lock(&DOOR);
        door.is_ending = true;
        let is_building = |door: &mut Door| door.building > 0;
        drop(LEFT.wait_timeout_while(door, PATIENCE, is_building).unwrap_or_else(PoisonError::into_inner));
    }
}

thread_local! {
    static AT_END: EndOfBuilding = const { EndOfBuilding };
}

/// If this is the main thread, nothing is built any more from its end on, before any exit handler runs. Call it where something begins that
/// a thread of ours may still be building when the program ends.
pub fn watch_main() {
    if is_main() {
        // It is over if another value of this thread is dropped just now, and calls.
        let _ = AT_END.try_with(|_| ());
    }
}

#[cfg(target_os = "linux")]
fn is_main() -> bool {
    rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned() == std::process::id()
}

/// Not known; then there is the exit handler alone.
#[cfg(not(target_os = "linux"))]
fn is_main() -> bool {
    false
}

// SAFETY: this is the C standard's declaration. The handler is a function, so it lives as long as the process; it
// neither unwinds nor exits.
unsafe extern "C" {
    safe fn atexit(handler: extern "C" fn()) -> i32;
}

/// Guards the exit from now on. Call it whenever a driver may just have registered exit handlers of its own: after it was
/// loaded, and after it opened a device (Mesa's drivers do both). Handlers run in reverse order, and the door must be closed
/// before theirs run. Closing it twice does no harm.
pub fn watch() {
    // If the table of handlers is full, the exit is merely unguarded.
    let _ = atexit(close_the_door);
}

extern "C" fn close_the_door() {
    // `exit` may have been called from inside a native call's callback; that thread must not wait for itself.
    let own = usize::from(DEPTH.get() > 0);
    // A forked child's exit would wait for threads of its parent's.
    if forked::is_child() {
        return;
    }
    let mut door = lock(&DOOR);
    // A handler before this one has waited.
    if door.exiting.replace(thread::current().id()).is_some() {
        return;
    }
    let others = |door: &mut Door| door.inside > own;
    drop(LEFT.wait_timeout_while(door, PATIENCE, others).unwrap_or_else(PoisonError::into_inner));
}
