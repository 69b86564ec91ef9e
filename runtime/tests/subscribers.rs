//! Decisions 18 and 35: what is logged, and subscribers of `tracing` that panic or go back into the runtime.

#[path = "common/rig.rs"]
mod rig;

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, OnceLock};
use std::task::{Context as TaskContext, Wake, Waker};
use std::time::Duration;

use rig::{Gate, Hold, Rig, bump, contents, fails, until, wait};
use tracing::{Event as Logged, Metadata, span};
use windlass::prelude::*;
use windlass::{Error, Result};

/// Errors that nobody observed, panics of wakers, and stalls that were logged.
static ERRORS: AtomicUsize = AtomicUsize::new(0);
static PANICS: AtomicUsize = AtomicUsize::new(0);
static STALLS: AtomicUsize = AtomicUsize::new(0);

/// What the subscriber bumps for each error that is logged.
static BUMPED: OnceLock<(Queue, Buffer<u32>)> = OnceLock::new();

/// What the subscriber lets go of: the last handle of a group that has failed.
static KEPT: Mutex<Option<Event>> = Mutex::new(None);

/// The process's subscriber: it counts, submits, and panics each time.
struct Grumpy;

impl Grumpy {
    fn subscribes() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| tracing::subscriber::set_global_default(Grumpy).expect("there is no other"));
    }
}

impl tracing::Subscriber for Grumpy {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("windlass")
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Logged<'_>) {
        let target = event.metadata().target();
        let count = match target.rsplit("::").next() {
            Some("report") => &ERRORS,
            Some("effects") => &PANICS,
            Some("stall") => &STALLS,
            _ => panic!("nobody else logs: {target}"),
        };
        count.fetch_add(1, Ordering::SeqCst);
        if let Some((queue, x)) = BUMPED.get().filter(|_| std::ptr::eq(count, &ERRORS)) {
            drop(bump(queue, x));
            let kept = KEPT.lock().unwrap().take();
            drop(kept);
        }
        panic!("the subscriber");
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Nobody set a handler, so errors are logged, each of them.
///
/// Seen to fail when a panic of the subscriber ended a batch of errors, and when the errors were locked while they were
/// logged.
#[test]
fn d18_the_default_handler_logs_every_error_to_a_subscriber_that_submits_and_panics() {
    Grumpy::subscribes();
    let runtime = Runtime::new();
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    let x = Buffer::from(vec![0_u32; 4]);
    assert!(BUMPED.set((queue.clone(), x.clone())).is_ok());
    for round in 1..=3 {
        drop(fails(&queue, "for the log"));
        until("it is logged", || ERRORS.load(Ordering::SeqCst) == round);
    }
    let gate = Gate::new();
    for _ in 0..100 {
        drop(queue.submit(|cg| {
            let opened = gate.opened();
            cg.after(async move { opened.await.and(Err(Error::other("all at once"))) });
            Ok(())
        }));
    }
    let kept = fails(&queue, "the subscriber's own to let go of");
    until("it has failed", || kept.status() == Status::Failed);
    *KEPT.lock().unwrap() = Some(kept);
    gate.open();
    until("all are logged", || ERRORS.load(Ordering::SeqCst) == 104);
    until("what the subscriber submits runs", || contents(&x) == [104; 4]);
}

/// A waker that panics is logged; where that panics as well, the others who wait are woken all the same.
///
/// Seen to fail when a panic of the subscriber went on through those who were being woken.
#[test]
fn d35_a_waker_and_a_subscriber_that_both_panic_harm_nobody() {
    struct Bell(bool, AtomicUsize);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, Ordering::SeqCst);
            assert!(!self.0, "the waker");
        }
    }
    Grumpy::subscribes();
    let rig = Rig::new();
    for place in 0..3 {
        let hold = Hold::new();
        let inside = hold.clone();
        let event = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
        let bells = [0, 1, 2].map(|i| Arc::new(Bell(i == place, AtomicUsize::new(0))));
        let mut waiters = [(); 3].map(|()| rig.queue.drained());
        for (waiter, bell) in waiters.iter_mut().zip(&bells) {
            let waker = Waker::from(bell.clone());
            assert!(pin!(waiter).poll(&mut TaskContext::from_waker(&waker)).is_pending());
        }
        hold.let_go();
        until("everybody is woken", || bells.iter().all(|bell| bell.1.load(Ordering::SeqCst) == 1));
        wait(event).unwrap();
    }
    rig.settle();
}

/// The stall report goes on after a subscriber that panics.
///
/// Seen to fail when a panic of the subscriber ended the thread that looks.
#[test]
fn d35_stalls_are_reported_after_a_subscriber_has_panicked() {
    Grumpy::subscribes();
    let runtime = Runtime::builder().stall_after(Duration::from_millis(20)).build();
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    let mut stuck = Vec::new();
    for name in ["first", "second"] {
        let before = STALLS.load(Ordering::SeqCst);
        let event = queue.submit(|cg| {
            // What waits as another one does is not told again.
            cg.name(name);
            cg.after(std::future::pending::<Result<()>>());
            Ok(())
        });
        stuck.push(event.unwrap());
        until("it is reported", || STALLS.load(Ordering::SeqCst) > before);
    }
    assert!(stuck.iter().all(|event| event.cancel() == CancelOutcome::Skipped));
}
