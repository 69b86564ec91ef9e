//! The inbox and the combining lock, from many threads.
#![cfg(not(windlass_loom))]

use std::sync::Arc;
use std::thread;

use windlass_sync::combining::{Combiner, CombiningLock};
use windlass_sync::inbox::Inbox;

#[test]
fn an_inbox_keeps_the_order_and_drops_what_nobody_took() {
    let inbox = Inbox::default();
    let alive = Arc::new(());
    assert!(inbox.is_empty() && inbox.take().next().is_none());
    (0..5).for_each(|i| inbox.push((i, alive.clone())));
    assert!(inbox.take().map(|(i, _)| i).eq(0..5));
    (0..5).for_each(|i| inbox.push((i, alive.clone())));
    // What is left of those that were taken goes with them.
    assert_eq!(inbox.take().next().map(|(i, _)| i), Some(0));
    assert_eq!(Arc::strong_count(&alive), 1);
    (0..5).for_each(|i| inbox.push((i, alive.clone())));
    drop(inbox);
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// Works off messages; may post to the same lock meanwhile.
struct Counter<'a> {
    lock: &'a CombiningLock<Vec<usize>, usize>,
    own: usize,
}

impl Combiner<Vec<usize>, usize> for Counter<'_> {
    fn message(&mut self, state: &mut Vec<usize>, message: usize) {
        state.push(message);
        self.own += 1;
        if message == 1000 {
            // Whoever posts from inside leaves the message, and finds it again itself.
            self.lock.post(1001, &mut Counter { lock: self.lock, own: 0 });
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long there: thirty thousand messages")]
fn every_message_is_worked_off_by_somebody() {
    let lock = CombiningLock::new(Vec::new());
    let counts: Vec<usize> = thread::scope(|s| {
        let posters = [0, 1, 2].map(|from| {
            let lock = &lock;
            s.spawn(move || {
                let mut combiner = Counter { lock, own: 0 };
                for i in 0..10_000 {
                    match (from + i) % 3 {
                        0 => lock.with(&mut combiner, |_, _| ()),
                        _ => lock.post(from, &mut combiner),
                    }
                }
                combiner.own
            })
        });
        posters.map(|p| p.join().expect("nobody panics")).into()
    });
    let mut late = Counter { lock: &lock, own: 0 };
    let total = lock.with(&mut late, |state, _| state.len());
    assert_eq!((late.own, counts.iter().sum::<usize>()), (0, total), "nothing was left lying");
    assert_eq!(total, 3 * 10_000 - 10_000);
}

#[test]
fn a_message_from_inside_is_worked_off_before_the_seat_is_left_for_good() {
    let lock = CombiningLock::new(Vec::new());
    let mut combiner = Counter { lock: &lock, own: 0 };
    lock.post(1000, &mut combiner);
    assert_eq!(combiner.own, 2);
    assert_eq!(lock.with(&mut combiner, |state, _| state.clone()), [1000, 1001]);
}

#[test]
fn a_combiner_that_panics_does_not_close_the_lock() {
    struct Bad;

    impl Combiner<Vec<usize>, usize> for Bad {
        fn message(&mut self, _: &mut Vec<usize>, _: usize) {
            // Without the hook's message.
            std::panic::resume_unwind(Box::new(()));
        }
    }

    let lock = CombiningLock::new(Vec::new());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lock.post(1, &mut Bad)));
    assert!(caught.is_err());
    let mut combiner = Counter { lock: &lock, own: 0 };
    lock.post(2, &mut combiner);
    assert_eq!(combiner.own, 1, "a poster still gets the lock");
}

/// What is left to do after a turn is done before the next one, and with the lock free: what others post meanwhile does not
/// wait for it.
#[test]
fn each_turn_ends_once_with_the_lock_held_and_once_without() {
    struct Turns<'a> {
        lock: &'a CombiningLock<Vec<usize>, usize>,
        steps: Vec<&'static str>,
    }

    impl Combiner<Vec<usize>, usize> for Turns<'_> {
        fn message(&mut self, state: &mut Vec<usize>, message: usize) {
            state.push(message);
            self.steps.push("message");
        }

        fn before_unlock(&mut self, _: &mut Vec<usize>) {
            self.steps.push("before");
        }

        fn after_unlock(&mut self) {
            self.steps.push("after");
            if self.steps.len() < 5 {
                // Nobody has it, so this is worked off at once and not by the turn that has just ended.
                let mut other = Counter { lock: self.lock, own: 0 };
                self.lock.post(2, &mut other);
                assert_eq!(other.own, 1);
                self.lock.leave(3);
            }
        }
    }

    let lock = CombiningLock::new(Vec::new());
    let mut turns = Turns { lock: &lock, steps: Vec::new() };
    lock.leave(1);
    lock.with(&mut turns, |state, turns| {
        assert_eq!(state[..], [1]);
        turns.steps.push("work");
    });
    let steps = ["message", "work", "before", "after", "message", "before", "after"];
    assert_eq!(turns.steps, steps);
    assert_eq!(lock.with(&mut turns, |state, _| state.clone()), [1, 2, 3]);
}
