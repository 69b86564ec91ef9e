//! What the models share.
//!
//! Run with `RUSTFLAGS="--cfg windlass_loom" cargo test -p windlass-loom-tests --release --target-dir target/loom`.
//!
//! Each model runs the shipped code, and says which line of it was broken, and what loom then found.
#![cfg(windlass_loom)]

pub mod script;

use std::task::{Wake, Waker};

use loom::model::Builder;
use windlass_sync::facade::{AtomicUsize, Ordering};

/// Explores a model: every run with at most three preemptions, or `LOOM_MAX_PREEMPTIONS`.
pub fn model(run: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.max_branches = 20_000;
    builder.check(run);
}

/// Counts its wakes. The count is a model's atomic: to make it is a point where threads may change.
#[derive(Debug)]
pub struct Bell(AtomicUsize);

impl Bell {
    /// A bell that has not rung.
    pub fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Bell(AtomicUsize::new(0)))
    }

    /// How often it rang, once those who ring it have been joined.
    pub fn rang(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A waker that rings this bell.
pub fn waker(bell: &std::sync::Arc<Bell>) -> Waker {
    Waker::from(bell.clone())
}
