//! The inbox and the desk, from many threads.
#![cfg(not(windlass_loom))]

use std::sync::Arc;
use std::thread;

use windlass_sync::desk::{Clerk, Desk};
use windlass_sync::inbox::Inbox;

#[test]
fn an_inbox_keeps_the_order_and_drops_what_nobody_took() {
    let inbox = Inbox::default();
    let alive = Arc::new(());
    assert!(inbox.is_empty() && inbox.take().is_empty());
    (0..5).for_each(|i| inbox.push((i, alive.clone())));
    assert!(inbox.take().iter().map(|(i, _)| *i).eq(0..5));
    (0..5).for_each(|i| inbox.push((i, alive.clone())));
    drop(inbox);
    assert_eq!(Arc::strong_count(&alive), 1);
}

/// Works off mail; may post to the same desk meanwhile.
struct Counter<'a> {
    desk: &'a Desk<Vec<usize>, usize>,
    own: usize,
}

impl Clerk<Vec<usize>, usize> for Counter<'_> {
    fn mail(&mut self, state: &mut Vec<usize>, message: usize) {
        state.push(message);
        self.own += 1;
        if message == 1000 {
            // Whoever posts from inside leaves the message, and finds it again itself.
            self.desk.post(1001, &mut Counter { desk: self.desk, own: 0 });
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "takes too long there: thirty thousand messages")]
fn every_message_is_worked_off_by_somebody() {
    let desk = Desk::new(Vec::new());
    let counts: Vec<usize> = thread::scope(|s| {
        let posters = [0, 1, 2].map(|from| {
            let desk = &desk;
            s.spawn(move || {
                let mut clerk = Counter { desk, own: 0 };
                for i in 0..10_000 {
                    match (from + i) % 3 {
                        0 => desk.sit(&mut clerk, |_, _| ()),
                        _ => desk.post(from, &mut clerk),
                    }
                }
                clerk.own
            })
        });
        posters.map(|p| p.join().expect("nobody panics")).into()
    });
    let mut late = Counter { desk: &desk, own: 0 };
    let total = desk.sit(&mut late, |state, _| state.len());
    assert_eq!((late.own, counts.iter().sum::<usize>()), (0, total), "nothing was left lying");
    assert_eq!(total, 3 * 10_000 - 10_000);
}

#[test]
fn a_message_from_inside_is_worked_off_before_the_seat_is_left_for_good() {
    let desk = Desk::new(Vec::new());
    let mut clerk = Counter { desk: &desk, own: 0 };
    desk.post(1000, &mut clerk);
    assert_eq!(clerk.own, 2);
    assert_eq!(desk.sit(&mut clerk, |state, _| state.clone()), [1000, 1001]);
}

#[test]
fn a_clerk_that_panics_does_not_close_the_desk() {
    struct Bad;

    impl Clerk<Vec<usize>, usize> for Bad {
        fn mail(&mut self, _: &mut Vec<usize>, _: usize) {
            // Without the hook's message.
            std::panic::resume_unwind(Box::new(()));
        }
    }

    let desk = Desk::new(Vec::new());
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| desk.post(1, &mut Bad)));
    assert!(caught.is_err());
    let mut clerk = Counter { desk: &desk, own: 0 };
    desk.post(2, &mut clerk);
    assert_eq!(clerk.own, 1, "a poster still gets the seat");
}
