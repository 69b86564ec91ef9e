//! The event cell with many waiters.
#![cfg(not(windlass_loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use windlass_sync::cell::{EventCell, Polled, Registration};

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn rang(bell: &Bell) -> usize {
    bell.0.load(Ordering::Relaxed)
}

#[test]
fn every_waiter_is_woken_once_and_finds_the_value() {
    let cell = EventCell::new(());
    let bells: Vec<Arc<Bell>> = (0..1000).map(|_| Arc::default()).collect();
    let mut registrations: Vec<Registration> = bells.iter().map(|_| Registration::default()).collect();
    for (i, (registration, bell)) in registrations.iter_mut().zip(&bells).enumerate() {
        let polled = cell.poll(registration, &Waker::from(bell.clone()));
        assert_eq!(polled, Polled::Pending { first: i == 0 });
    }
    assert_eq!(cell.waiters(), 1000);
    for registration in registrations.iter_mut().step_by(2) {
        cell.forget(registration);
    }
    assert_eq!(cell.waiters(), 500);
    cell.complete(7).expect("it was not complete").wake();
    assert!(bells.iter().enumerate().all(|(i, bell)| rang(bell) == i % 2));
    assert!(cell.complete(8).is_none());
    for registration in &mut registrations {
        assert_eq!(cell.poll(registration, Waker::noop()), Polled::Ready(7));
        cell.forget(registration);
    }
    assert_eq!((cell.get(), cell.waiters()), (Some(7), 0));
}

#[test]
fn polling_again_takes_no_second_place() {
    let cell = EventCell::<()>::new(());
    let bells = [Arc::<Bell>::default(), Arc::default()];
    let mut registration = Registration::default();
    for bell in [&bells[0], &bells[0], &bells[1]] {
        assert!(matches!(cell.poll(&mut registration, &Waker::from(bell.clone())), Polled::Pending { .. }));
    }
    assert_eq!((cell.waiters(), Arc::strong_count(&bells[0])), (1, 1), "the old waker was let go of");
    cell.complete(()).expect("it was not complete").wake();
    assert_eq!(bells.map(|b| rang(&b)), [0, 1]);
}

#[test]
fn a_waker_that_panics_keeps_no_other_from_being_woken() {
    struct Bad;

    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            // Without the hook's message.
            std::panic::resume_unwind(Box::new("bad waker"));
        }
    }

    let cell = EventCell::new(());
    let bell = Arc::<Bell>::default();
    let wakers = [Waker::from(Arc::new(Bad)), Waker::from(bell.clone())];
    for waker in &wakers {
        assert!(matches!(cell.poll(&mut Registration::default(), waker), Polled::Pending { .. }));
    }
    let woken = cell.complete(()).expect("it was not complete");
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| woken.wake()));
    assert_eq!(panic.expect_err("the panic goes on").downcast_ref(), Some(&"bad waker"));
    assert_eq!(rang(&bell), 1);
}

/// Seen to fail when the second payload was dropped on the way: nobody after it was woken.
#[test]
fn payloads_that_panic_when_they_are_dropped_keep_nobody_from_being_woken() {
    struct Payload;

    impl Drop for Payload {
        fn drop(&mut self) {
            panic!("the payload");
        }
    }

    struct Bad;

    impl Wake for Bad {
        fn wake(self: Arc<Self>) {
            std::panic::resume_unwind(Box::new(Payload));
        }
    }

    let cell = EventCell::new(());
    let bell = Arc::<Bell>::default();
    let bad = || Waker::from(Arc::new(Bad));
    for waker in [bad(), bad(), Waker::from(bell.clone())] {
        assert!(matches!(cell.poll(&mut Registration::default(), &waker), Polled::Pending { .. }));
    }
    let woken = cell.complete(()).expect("it was not complete");
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| woken.wake()));
    std::mem::forget(panic.expect_err("the panic goes on"));
    assert_eq!(rang(&bell), 1);
}

#[test]
fn the_note_tells_whether_anybody_waited() {
    let cell = EventCell::<(), u32>::new(5);
    assert!(cell.note(|note, awaited| *note == 5 && !awaited));
    let mut registration = Registration::default();
    assert!(matches!(cell.poll(&mut registration, Waker::noop()), Polled::Pending { first: true }));
    cell.forget(&mut registration);
    cell.note(|note, awaited| {
        assert!(awaited, "a waiter that has gone has waited");
        *note = 6;
    });
    assert_eq!(cell.note(|note, _| *note), 6);
}
