//! The event cell.
#![cfg(windlass_loom)]

use std::task::{Poll, Waker};

use loom::future::block_on;
use windlass_loom_tests::{Bell, model, waker};
use windlass_sync::cell::{EventCell, Polled, Registration};
use windlass_sync::facade::{Arc, AtomicUsize, Ordering, thread};

fn complete(cell: &EventCell<u32>, value: u32) -> bool {
    match cell.complete(value) {
        Some(wakers) => {
            wakers.wake();
            true
        }
        None => false,
    }
}

/// A waiter that comes while the cell is being completed is woken once or finds the value, and sees what was done
/// before.
///
/// - Broken in `EventCell::complete`, the waiters taken in a turn of the lock of their own, before the value is set:
///   loom reports a deadlock.
/// - Broken in `EventCell::poll`, the value looked at in a turn of the lock of its own, before the waker is put in:
///   the same.
#[test]
fn a_waiter_meets_the_completion() {
    model(|| {
        let cell = Arc::new(EventCell::new(()));
        let wrote = Arc::new(AtomicUsize::new(0));
        let completer = {
            let (cell, wrote) = (cell.clone(), wrote.clone());
            thread::spawn(move || {
                wrote.store(1, Ordering::Relaxed);
                assert!(complete(&cell, 7));
            })
        };
        let mut registration = Registration::default();
        let value = block_on(std::future::poll_fn(|cx| cell.poll_simply(&mut registration, cx)));
        assert_eq!((value, wrote.load(Ordering::Relaxed)), (7, 1));
        completer.join().expect("the completer does not panic");
    });
}

/// A waiter that polls again with another waker: only the last one that was left in the cell is woken, once.
///
/// Broken in `EventCell::poll`, the old waker kept where the registration has one: "the last waker is woken" finds
/// `[1, 0]`.
#[test]
fn a_replaced_waker_is_not_woken() {
    model(|| {
        let cell = Arc::new(EventCell::new(()));
        let bells = [Bell::new(), Bell::new()];
        let mut registration = Registration::default();
        assert_eq!(cell.poll(&mut registration, &waker(&bells[0])), Polled::Pending { first: true });
        let completer = {
            let cell = cell.clone();
            thread::spawn(move || assert!(complete(&cell, 7)))
        };
        let polled = cell.poll(&mut registration, &waker(&bells[1]));
        completer.join().expect("the completer does not panic");
        match polled {
            Polled::Pending { first } => {
                assert!(!first);
                assert_eq!([bells[0].rang(), bells[1].rang()], [0, 1], "the last waker is woken");
            }
            Polled::Ready(value) => {
                assert_eq!((value, bells[0].rang(), bells[1].rang()), (7, 1, 0), "the first one was");
            }
        }
    });
}

/// A waiter that goes away while the cell is being completed takes nobody else's registration along.
///
/// Broken in `EventCell::forget`, the key left in the registration: its second call removes the other waiter, which
/// has the same key, and loom reports a deadlock.
#[test]
fn a_waiter_that_goes_away_leaves_the_others() {
    model(|| {
        let cell = Arc::new(EventCell::new(()));
        let gone = {
            let cell = cell.clone();
            thread::spawn(move || {
                let bell = Bell::new();
                let mut registration = Registration::default();
                let pending = matches!(cell.poll(&mut registration, &waker(&bell)), Polled::Pending { .. });
                cell.forget(&mut registration);
                cell.forget(&mut registration);
                (bell, pending)
            })
        };
        let completer = {
            let cell = cell.clone();
            thread::spawn(move || assert!(complete(&cell, 7)))
        };
        let mut registration = Registration::default();
        let value = block_on(std::future::poll_fn(|cx| cell.poll_simply(&mut registration, cx)));
        assert_eq!(value, 7);
        let (bell, pending) = gone.join().expect("nothing there panics");
        completer.join().expect("the completer does not panic");
        assert!(bell.rang() <= usize::from(pending), "who was not registered is not woken, and nobody twice");
        assert_eq!(cell.waiters(), 0);
    });
}

/// Of two completions one counts, and everybody sees that one.
///
/// Broken in `EventCell::complete`, without the check for a value: "one of the two counts" does not hold.
#[test]
fn a_cell_is_completed_once() {
    model(|| {
        let cell = Arc::new(EventCell::new(()));
        let bell = Bell::new();
        let mut registration = Registration::default();
        assert_eq!(cell.poll(&mut registration, &waker(&bell)), Polled::Pending { first: true });
        let other = {
            let cell = cell.clone();
            thread::spawn(move || complete(&cell, 1))
        };
        let ours = complete(&cell, 2);
        let seen = cell.get();
        let theirs = other.join().expect("the completer does not panic");
        assert!(ours != theirs, "one of the two counts");
        assert_eq!(cell.get(), Some(if ours { 2 } else { 1 }));
        assert_eq!(seen, cell.get(), "a value does not change");
        assert_eq!(bell.rang(), 1, "the waiter is woken once");
    });
}

/// Of several waiters exactly one is the first, whoever that is: it asks for the report.
///
/// Broken in `EventCell::poll`, `awaited` read in a turn of the lock of its own: "one of the two is first" does not hold.
#[test]
fn one_waiter_is_the_first() {
    model(|| {
        let cell = Arc::new(EventCell::<u32>::new(()));
        let poll = |cell: &EventCell<u32>| {
            let polled = cell.poll(&mut Registration::default(), Waker::noop());
            matches!(polled, Polled::Pending { first: true })
        };
        let other = {
            let cell = cell.clone();
            thread::spawn(move || poll(&cell))
        };
        let first = poll(&cell);
        assert!(first != other.join().expect("the waiter does not panic"), "one of the two is first");
        assert_eq!(cell.waiters(), 2);
        let mut late = Registration::default();
        assert!(complete(&cell, 1));
        let mut cx = std::task::Context::from_waker(Waker::noop());
        assert_eq!(cell.poll_simply(&mut late, &mut cx), Poll::Ready(1));
    });
}
