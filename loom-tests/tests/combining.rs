//! The inbox and the combining lock.
#![cfg(windlass_loom)]

use windlass_loom_tests::model;
use windlass_sync::combining::{Combiner, CombiningLock};
use windlass_sync::facade::{Arc, AtomicUsize, Ordering, thread};
use windlass_sync::inbox::Inbox;

/// A message with something inside that only the message itself publishes.
struct Message {
    from: usize,
    number: usize,
    written: AtomicUsize,
}

fn message(from: usize, number: usize) -> Message {
    let message = Message { from, number, written: AtomicUsize::new(0) };
    message.written.store(1, Ordering::Relaxed);
    message
}

/// Every message arrives once, whole, and in the order of its sender.
///
/// - Broken in `Inbox::push`, `Relaxed` for `Release`: loom reports a causality violation, the message read while it is
///   being written.
/// - Broken in `Inbox::take`, `Relaxed` for `Acquire` in the swap and in `is_empty`: the same.
/// - Broken in `Inbox::take`, a load and a store for the swap: "every message arrives" does not hold.
/// - Broken in `Inbox::push`, a load and a store for the exchange: the same.
#[test]
fn messages_arrive_once_and_whole() {
    model(|| {
        let inbox = Arc::new(Inbox::default());
        inbox.push(message(0, 1));
        let senders = [1, 2].map(|from| {
            let inbox = inbox.clone();
            thread::spawn(move || {
                inbox.push(message(from, 1));
                if from == 1 {
                    inbox.push(message(from, 2));
                }
            })
        });
        let mut messages: Vec<_> = inbox.take().collect();
        assert!(messages.iter().all(|l| l.written.load(Ordering::Relaxed) == 1), "the message is whole");
        senders.into_iter().for_each(|s| s.join().expect("a sender does not panic"));
        messages.extend(inbox.take());
        let of = |from| messages.iter().filter(|l| l.from == from).map(|l| l.number).collect::<Vec<_>>();
        assert_eq!((of(0), of(1), of(2)), (vec![1], vec![1, 2], vec![1]), "every message arrives, in order");
        assert!(inbox.is_empty());
    });
}

/// What has been worked off, by number.
type State = Vec<usize>;

/// Counts what it worked off itself.
#[derive(Default)]
struct Counter(usize);

impl Combiner<State, Message> for Counter {
    fn message(&mut self, state: &mut State, message: Message) {
        assert_eq!(message.written.load(Ordering::Relaxed), 1, "the message is whole");
        state.push(message.number);
        self.0 += 1;
    }
}

fn worked_off(lock: &CombiningLock<State, Message>) -> State {
    let mut late = Counter::default();
    let state = lock.with(&mut late, |state, _| state.clone());
    assert_eq!(late.0, 0, "nothing was left lying");
    state
}

/// The feared race: a poster finds the lock taken just as its holder lets go. The message is worked off before both
/// have gone, by one of them.
///
/// - Broken in `CombiningLock::drain`, without the fence: "one of the two works it off" finds 0.
/// - Broken in `CombiningLock::with`, without the call of `drain`: the same.
#[test]
fn a_message_is_never_left_lying() {
    model(|| {
        let lock = Arc::new(CombiningLock::new(State::new()));
        let poster = {
            let lock = lock.clone();
            thread::spawn(move || {
                let mut combiner = Counter::default();
                lock.post(message(1, 1), &mut combiner);
                combiner.0
            })
        };
        let mut combiner = Counter::default();
        lock.with(&mut combiner, |_, _| ());
        let by_poster = poster.join().expect("the poster does not panic");
        assert_eq!(combiner.0 + by_poster, 1, "one of the two works it off");
        assert_eq!(worked_off(&lock), [1]);
    });
}

/// A poster that works off its message is the holder for another one.
///
/// Broken in `CombiningLock::drain`, no second look after the messages were worked off: "nothing was left lying" finds 1.
#[test]
fn a_poster_that_finds_a_poster_with_the_lock() {
    model(|| {
        let lock = Arc::new(CombiningLock::new(State::new()));
        let other = {
            let lock = lock.clone();
            thread::spawn(move || {
                lock.post(message(1, 1), &mut Counter::default());
            })
        };
        lock.post(message(2, 2), &mut Counter::default());
        other.join().expect("a poster does not panic");
        let mut state = worked_off(&lock);
        state.sort_unstable();
        assert_eq!(state, [1, 2]);
    });
}

/// Two posters and a holder.
///
/// Broken in `CombiningLock::drain`, without the fence: "nothing was left lying" finds 2.
#[test]
fn two_posters_and_a_holder() {
    model(|| {
        let lock = Arc::new(CombiningLock::new(State::new()));
        let posters = [1, 2].map(|number| {
            let lock = lock.clone();
            thread::spawn(move || {
                lock.post(message(number, number), &mut Counter::default());
            })
        });
        lock.with(&mut Counter::default(), |_, _| ());
        posters.into_iter().for_each(|p| p.join().expect("a poster does not panic"));
        let mut state = worked_off(&lock);
        state.sort_unstable();
        assert_eq!(state, [1, 2]);
    });
}

/// A message that was left for somebody who is about to take the lock is worked off before that one's own work.
///
/// Broken in `CombiningLock::with`, the messages worked off after `work`: "messages come first" does not hold.
#[test]
fn the_mail_comes_before_the_work() {
    model(|| {
        let lock = Arc::new(CombiningLock::new(State::new()));
        let other = {
            let lock = lock.clone();
            thread::spawn(move || lock.post(message(2, 2), &mut Counter::default()))
        };
        lock.leave(message(1, 1));
        let seen = lock.with(&mut Counter::default(), |state, _| state.clone());
        assert!(seen.contains(&1), "messages come first: {seen:?}");
        other.join().expect("the poster does not panic");
        assert_eq!(worked_off(&lock).len(), 2);
    });
}
