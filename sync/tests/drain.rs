//! Drains: generations, and who waits for which.
#![cfg(not(windlass_loom))]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};

use windlass_sync::account::{Account, Generation, Watch};

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn end(drain: &Account, generation: Generation) -> usize {
    drop(drain.over(1));
    let woken = drain.end(generation, 1);
    let count = woken.len();
    woken.into_iter().for_each(Waker::wake);
    count
}

fn watch(drain: &Account) -> (Watch, Arc<Bell>) {
    let (mut watch, bell) = (Watch::default(), Arc::<Bell>::default());
    assert!(drain.poll_drained(&mut watch, &Waker::from(bell.clone())).is_pending());
    (watch, bell)
}

#[test]
fn nothing_under_way_is_nothing_to_wait_for() {
    let drain = Account::new(1);
    let mut fresh = Watch::default();
    assert!(drain.poll_drained(&mut fresh, Waker::noop()).is_ready());
    let generation = drain.begin();
    assert!(drain.poll_drained(&mut fresh, Waker::noop()).is_ready(), "what began later does not matter");
    assert_eq!(drain.under_way(), 1);
    assert_eq!(end(&drain, generation), 0);
}

/// Its credit may be taken again before all that wait for its end have been told, and then it is not counted beside who has that.
#[test]
fn what_is_over_is_not_under_way() {
    let account = Account::new(1);
    assert!(account.try_take());
    let generation = account.begin();
    let (mut waits, _) = watch(&account);
    assert!(account.over(1).is_empty());
    assert!(account.try_take());
    let next = account.begin();
    assert_eq!(account.under_way(), 1, "never more than there are credits");
    assert!(account.poll_drained(&mut waits, Waker::noop()).is_pending(), "nobody has told it yet");
    assert_eq!(account.end(generation, 1).len(), 1);
    assert!(account.poll_drained(&mut waits, Waker::noop()).is_ready());
    assert_eq!((end(&account, next), account.under_way(), account.free()), (0, 0, 1));
}

#[test]
fn a_waiter_waits_for_its_tide_and_all_before() {
    let drain = Account::new(1);
    let first = [drain.begin(), drain.begin()];
    let (mut early, early_bell) = watch(&drain);
    let second = drain.begin();
    let (mut late, late_bell) = watch(&drain);
    let third = drain.begin();

    assert_eq!(end(&drain, second), 0, "the first generation is under way, and the second waits for it");
    assert_eq!(end(&drain, first[0]), 0);
    assert_eq!(end(&drain, first[1]), 2, "both generations are empty now");
    assert_eq!([early_bell, late_bell].map(|b| b.0.load(Ordering::Relaxed)), [1, 1]);
    for watch in [&mut early, &mut late] {
        assert_eq!(drain.poll_drained(watch, Waker::noop()), Poll::Ready(()));
    }
    assert_eq!(drain.under_way(), 1);
    assert_eq!(end(&drain, third), 0);
}

#[test]
#[cfg_attr(miri, ignore = "takes too long there: a hundred thousand waiters")]
fn waiters_that_come_and_go_leave_nothing() {
    let drain = Account::new(1);
    let generation = drain.begin();
    for _ in 0..100_000 {
        let (mut watch, bell) = watch(&drain);
        drain.unwatch(&mut watch);
        assert_eq!(Arc::strong_count(&bell), 1);
    }
    let size = format!("{drain:?}").len();
    assert!(size < 1000, "the drain grows with waiters that are gone: {size}");
    let (mut last, bell) = watch(&drain);
    assert_eq!(end(&drain, generation), 1);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(drain.poll_drained(&mut last, Waker::noop()).is_ready());
}

#[test]
fn a_watch_that_was_woken_does_not_take_its_successor_along() {
    let drain = Account::new(1);
    let first = drain.begin();
    let (mut early, _) = watch(&drain);
    let second = drain.begin();
    assert_eq!(end(&drain, first), 1);
    // The new waiter has the entry that the first one had.
    let (mut late, bell) = watch(&drain);
    drain.unwatch(&mut early);
    assert_eq!(end(&drain, second), 1);
    assert_eq!(bell.0.load(Ordering::Relaxed), 1);
    assert!(drain.poll_drained(&mut late, Waker::noop()).is_ready());
}

/// A waker may be the last to hold a task, and that task may wait for the same drain.
struct Holds(Arc<Account>, Option<Watch>);

impl Wake for Holds {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Holds {
    fn drop(&mut self) {
        if let Some(mut watch) = self.1.take() {
            self.0.unwatch(&mut watch);
        }
    }
}

#[test]
fn a_wakers_drop_may_give_up_a_watch_of_the_same_drain() {
    let drain = Arc::new(Account::new(1));
    let generation = drain.begin();
    let holding = || {
        let (watch, bell) = watch(&drain);
        (Waker::from(Arc::new(Holds(drain.clone(), Some(watch)))), bell)
    };
    let mut watch = Watch::default();
    let bells = [(); 2].map(|()| {
        let (waker, bell) = holding();
        assert!(drain.poll_drained(&mut watch, &waker).is_pending());
        bell
    });
    assert_eq!(bells.each_ref().map(Arc::strong_count), [1, 2], "the first waker's watch is given up");
    drain.unwatch(&mut watch);
    assert_eq!(bells.each_ref().map(Arc::strong_count), [1, 1]);
    assert_eq!(end(&drain, generation), 0);
}
