//! Account: who is served when.
#![cfg(not(windlass_loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

use windlass_sync::account::{Account, Place};
use windlass_sync::budget::Budget;

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn wake(wakers: Vec<Waker>) -> usize {
    let count = wakers.len();
    wakers.into_iter().for_each(Waker::wake);
    count
}

/// This many waiters in line, each with its bell.
fn line<const N: usize>(credits: &Account) -> ([Place; N], [Arc<Bell>; N]) {
    let bells = [(); N].map(|()| Arc::<Bell>::default());
    let places = std::array::from_fn(|i| {
        let mut place = Place::default();
        assert!(credits.poll_take(&mut place, &Waker::from(bells[i].clone())).is_pending());
        place
    });
    (places, bells)
}

fn rang<const N: usize>(bells: &[Arc<Bell>; N]) -> [usize; N] {
    std::array::from_fn(|i| bells[i].0.load(Ordering::Relaxed))
}

#[test]
fn waiters_are_served_in_order() {
    let credits = Account::new(0);
    let (mut places, bells) = line::<4>(&credits);
    assert_eq!(wake(credits.give(1)), 1);
    assert_eq!(rang(&bells), [1, 0, 0, 0]);
    assert!(!credits.try_take(), "the credit is the first waiter's");
    assert_eq!(wake(credits.give(2)), 2);
    assert_eq!(rang(&bells), [1, 1, 1, 0]);
    // They may come for it in any order.
    for i in [2, 0, 1] {
        assert!(credits.poll_take(&mut places[i], Waker::noop()).is_ready());
    }
    assert!(credits.poll_take(&mut places[3], Waker::noop()).is_pending());
    assert_eq!((credits.free(), credits.waiting()), (0, 1));
}

#[test]
fn a_place_goes_to_the_next_whether_it_was_served_or_not() {
    let credits = Account::new(0);
    let ([mut a, mut b, mut c], bells) = line::<3>(&credits);
    assert_eq!(wake(credits.forget(&mut b)), 0, "nothing is free");
    assert_eq!(wake(credits.give(1)), 1);
    assert_eq!(rang(&bells), [1, 0, 0]);
    assert_eq!(wake(credits.forget(&mut a)), 1, "what the first was given is the third's");
    assert_eq!(rang(&bells), [1, 0, 1]);
    assert!(credits.poll_take(&mut c, Waker::noop()).is_ready());
    assert_eq!(wake(credits.forget(&mut c)), 0, "who has come for it has no place any more");
    assert_eq!((credits.free(), credits.waiting()), (0, 0));
}

#[test]
fn a_debt_is_repaid_before_anybody_is_served() {
    let credits = Account::new(1);
    (0..3).for_each(|_| _ = credits.enter());
    assert_eq!(credits.free(), -2);
    let ([mut place], bells) = line::<1>(&credits);
    assert_eq!(wake(credits.give(2)), 0);
    assert_eq!((credits.free(), rang(&bells)), (0, [0]));
    assert!(credits.poll_take(&mut place, Waker::noop()).is_pending());
    assert_eq!(wake(credits.give(1)), 1);
    assert!(credits.poll_take(&mut place, Waker::noop()).is_ready());
}

/// A waker may be the last to hold a task, and that task may wait in the same line.
struct Holds(Arc<Account>, Option<Place>);

impl Wake for Holds {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Holds {
    fn drop(&mut self) {
        if let Some(mut place) = self.1.take() {
            wake(self.0.forget(&mut place));
        }
    }
}

#[test]
fn a_wakers_drop_may_give_up_a_place_in_the_same_line() {
    let credits = Arc::new(Account::new(0));
    let holding = || {
        let ([place], _) = line::<1>(&credits);
        Waker::from(Arc::new(Holds(credits.clone(), Some(place))))
    };
    let mut place = Place::default();
    assert!(credits.poll_take(&mut place, &holding()).is_pending());
    assert!(credits.poll_take(&mut place, &holding()).is_pending(), "the first waker is dropped");
    assert_eq!(credits.waiting(), 2, "and the place that it held is given up");
    assert_eq!(wake(credits.forget(&mut place)), 0);
    assert_eq!(credits.waiting(), 0);
}

/// Seen to fail where the second in line was served because it wanted less, and where who wanted too much never was.
#[test]
fn who_wants_much_is_not_passed_by_and_too_much_is_had_alone() {
    let budget = Budget::new(10);
    let take = |place: &mut Place, wants| budget.poll_take(place, wants, Waker::noop()).is_ready();
    let [mut a, mut b, mut c, mut d] = [(); 4].map(|()| Place::default());
    assert!(take(&mut a, 4));
    assert!(!take(&mut b, 8) && !take(&mut c, 1), "the second waits behind the first");
    assert_eq!(wake(budget.give(4)), 2);
    assert!(take(&mut c, 1) && take(&mut b, 8));
    assert!(!take(&mut d, 25));
    assert_eq!(wake(budget.give(8)), 0, "one is still out");
    assert_eq!(wake(budget.give(1)), 1);
    assert!(take(&mut d, 25));
    assert!(!take(&mut a, 1), "nobody is beside it");
    assert_eq!(wake(budget.give(25)), 1);
    assert_eq!(wake(budget.forget(&mut a)), 0);
    assert!(take(&mut b, 10), "what a waiter was given came back when it went away");
}
