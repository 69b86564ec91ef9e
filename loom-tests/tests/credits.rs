//! Credits and drains: places in line, and what happens to a place whose waiter goes away.
#![cfg(windlass_loom)]

use std::future::poll_fn;
use std::task::Poll;

use loom::future::block_on;
use windlass_loom_tests::{Bell, model, waker};
use windlass_sync::account::{Account, Generation, Place, Watch};
use windlass_sync::budget::Budget;
use windlass_sync::facade::{Arc, thread};

fn give(credits: &Account, count: i64) {
    credits.give(count).into_iter().for_each(|w| w.wake());
}

fn forget(credits: &Account, mut place: Place) {
    credits.forget(&mut place).into_iter().for_each(|w| w.wake());
}

fn taken(credits: &Account) {
    let mut place = Place::default();
    block_on(poll_fn(|cx| credits.poll_take(&mut place, cx.waker())));
}

/// A waiter meets the credit that it waits for.
///
/// - Broken in `Credits::give`, without `serve`: loom reports a deadlock.
/// - Broken in `serve`, the ticket not noted as served: the same.
#[test]
fn a_waiter_gets_the_credit() {
    model(|| {
        let credits = Arc::new(Account::new(1));
        assert!(credits.try_take());
        let giver = {
            let credits = credits.clone();
            thread::spawn(move || give(&credits, 1))
        };
        taken(&credits);
        giver.join().expect("the giver does not panic");
        assert_eq!((credits.free(), credits.waiting()), (0, 0));
    });
}

/// The first in line is served, or about to be, when it goes away: the second gets the credit.
///
/// - Broken in `Credits::forget`, the served waiter's credit not put back: loom reports a deadlock.
/// - Broken in `Credits::forget`, without `serve`: the same.
#[test]
fn the_credit_of_a_waiter_that_goes_away_goes_to_the_next() {
    model(|| {
        let credits = Arc::new(Account::new(0));
        let bell = Bell::new();
        let mut first = Place::default();
        assert!(credits.poll_take(&mut first, &waker(&bell)).is_pending());
        let giver = {
            let credits = credits.clone();
            thread::spawn(move || give(&credits, 1))
        };
        let second = {
            let credits = credits.clone();
            thread::spawn(move || taken(&credits))
        };
        forget(&credits, first);
        giver.join().expect("the giver does not panic");
        second.join().expect("the waiter does not panic");
        assert!(bell.rang() <= 1);
        assert_eq!((credits.free(), credits.waiting()), (0, 0));
    });
}

/// A debt is repaid before a waiter is served, however the credits come back.
///
/// Broken in `serve`, `>=` for `>`: a waiter is served while the queue owes one, and "the debt is repaid" finds -1.
#[test]
fn a_debt_is_repaid_first() {
    model(|| {
        let credits = Arc::new(Account::new(1));
        let generations = [credits.enter(), credits.enter()];
        assert_eq!(generations[0], generations[1]);
        assert_eq!(credits.free(), -1);
        let givers = [(), ()].map(|()| {
            let credits = credits.clone();
            thread::spawn(move || give(&credits, 1))
        });
        taken(&credits);
        assert_eq!(credits.free(), 0, "the debt is repaid");
        givers.into_iter().for_each(|g| g.join().expect("a giver does not panic"));
    });
}

/// One credit, somebody in line, and somebody who does not wait: one of the two has it, and who is in line is not
/// passed by.
///
/// Broken in `Credits::give`, the waiters served in a turn of the lock of their own, and in `Credits::try_take`, without
/// the look at the queue: "the credit is the waiter's" does not hold.
#[test]
fn nobody_jumps_the_queue() {
    model(|| {
        let credits = Arc::new(Account::new(0));
        let mut place = Place::default();
        let bell = Bell::new();
        assert!(credits.poll_take(&mut place, &waker(&bell)).is_pending());
        let giver = {
            let credits = credits.clone();
            thread::spawn(move || give(&credits, 1))
        };
        assert!(!credits.try_take(), "the credit is the waiter's");
        giver.join().expect("the giver does not panic");
        assert_eq!(bell.rang(), 1);
        assert!(credits.poll_take(&mut place, &waker(&bell)).is_ready());
    });
}

fn end(drain: &Account, generation: Generation) {
    drop(drain.over(1));
    drain.end(generation, 1).into_iter().for_each(|w| w.wake());
}

/// A waiter meets the end of what it waits for, and does not wait for what began after it.
///
/// - Broken in `Drain::end`, without taking the waiters: loom reports a deadlock.
/// - Broken in `Drain::end_of_tide`, no new generation begun: the same, since the later one never ends.
#[test]
fn a_drain_waits_for_what_began_before() {
    model(|| {
        let drain = Arc::new(Account::new(1));
        let early = drain.begin();
        let ender = {
            let drain = drain.clone();
            thread::spawn(move || end(&drain, early))
        };
        let mut watch = Watch::default();
        let mut late = None;
        block_on(poll_fn(|cx| {
            let polled = drain.poll_drained(&mut watch, cx.waker());
            late.get_or_insert_with(|| drain.begin());
            polled
        }));
        ender.join().expect("nothing there panics");
        assert_eq!(drain.under_way(), 1);
        end(&drain, late.expect("it was polled"));
        assert_eq!(drain.under_way(), 0);
    });
}

/// A waiter goes away while it is being woken, and another one may have its entry by then.
///
/// Broken in `Drain::remove`, without the comparison of generations: the other's entry is removed, and "the other is woken"
/// finds 0.
#[test]
fn a_watch_that_goes_away_leaves_the_others() {
    model(|| {
        let drain = Arc::new(Account::new(1));
        let early = drain.begin();
        let bells = [Bell::new(), Bell::new()];
        let mut first = Watch::default();
        assert!(drain.poll_drained(&mut first, &waker(&bells[0])).is_pending());
        let late = drain.begin();
        let other = {
            let (drain, bell) = (drain.clone(), bells[1].clone());
            thread::spawn(move || {
                end(&drain, early);
                let mut second = Watch::default();
                let polled = drain.poll_drained(&mut second, &waker(&bell));
                assert!(polled.is_pending(), "the late one is under way");
                second
            })
        };
        drain.unwatch(&mut first);
        let mut second = other.join().expect("nothing there panics");
        end(&drain, late);
        assert_eq!(bells[1].rang(), 1, "the other is woken");
        assert_eq!(drain.poll_drained(&mut second, &waker(&bells[1])), Poll::Ready(()));
    });
}

/// All of a budget of two comes back at once, and two wait for one each: both get it, whoever comes first.
///
/// Broken in `Credits::serve`, only the first in line served: loom reports a deadlock.
#[test]
fn what_comes_back_at_once_serves_all_whom_it_may() {
    model(|| {
        let budget = Arc::new(Budget::new(2));
        let mut place = Place::default();
        let bell = Bell::new();
        assert!(budget.poll_take(&mut place, 2, &waker(&bell)).is_ready());
        let others = [(), ()].map(|()| {
            let budget = budget.clone();
            thread::spawn(move || {
                let mut place = Place::default();
                block_on(poll_fn(|cx| budget.poll_take(&mut place, 1, cx.waker())));
            })
        });
        budget.give(2).into_iter().for_each(|w| w.wake());
        others.into_iter().for_each(|other| other.join().expect("it does not panic"));
        assert!(budget.poll_take(&mut place, 1, &waker(&bell)).is_pending(), "both have theirs");
    });
}
