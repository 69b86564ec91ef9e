//! Attacks: safe programs that would read what is gone, alias what is mutable, race, or leave their memory, if the library got
//! one thing wrong. Each says what has to come instead. AddressSanitizer runs them as well (`cargo xtask sanitize`).
//!
//! They use the host's devices alone. In a second context there data has memory of its own, as on a device.

#[path = "attacks/allocators.rs"]
mod allocators;
#[path = "attacks/arguments.rs"]
mod arguments;
#[path = "attacks/bodies.rs"]
mod bodies;
#[path = "attacks/bounds.rs"]
mod bounds;
#[path = "attacks/casts.rs"]
mod casts;
#[path = "attacks/endings.rs"]
mod endings;
#[path = "attacks/guards.rs"]
mod guards;
#[path = "attacks/images.rs"]
mod images;
#[path = "attacks/kernels.rs"]
mod kernels;
#[path = "attacks/lent.rs"]
mod lent;
#[path = "attacks/panics.rs"]
mod panics;
#[path = "attacks/parts.rs"]
mod parts;
#[path = "attacks/pointers.rs"]
mod pointers;
#[path = "common/rig.rs"]
mod rig;
#[path = "attacks/served.rs"]
mod served;
#[path = "attacks/stale.rs"]
mod stale;
#[path = "attacks/threads.rs"]
mod threads;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rig::{HANG, Rig};
use windlass::prelude::*;

/// What `mem::forget` does, as far as a value can tell: it is never dropped. It is kept where who looks for leaks finds it.
fn forget(value: impl Any + Send) {
    static FORGOTTEN: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
    FORGOTTEN.lock().expect("nobody panics here").push(Box::new(value));
}

/// Runs something that may stand still for ever on a thread of its own.
#[track_caller]
fn in_time<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    let (tell, told) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || tell.send(work()));
    let done = told.recv_timeout(HANG);
    assert!(!matches!(done, Err(std::sync::mpsc::RecvTimeoutError::Timeout)), "it stands still");
    assert!(worker.join().is_ok(), "it panics");
    done.expect("it has been told")
}

/// Whether it panics.
fn panics<R>(work: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(work)).is_err()
}

/// Runs it on the usual queue and on one in a context with memory of its own.
fn everywhere(run: impl Fn(&Rig, &Queue)) {
    let rig = Rig::new();
    run(&rig, &rig.queue);
    run(&rig, &rig.elsewhere());
    rig.settle();
}

/// Counts its own drops: each must come once.
struct Token<'c>(&'c AtomicUsize);

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
