//! Waiters that look by themselves before they sleep.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::sleep;
use std::time::Duration;

use windlass::prelude::*;
use windlass_faulty::{Call, Faulty};

use crate::rig::{Rig, native, outcome, step, stepped};

/// Long beside what a test does meanwhile.
const LONG: Duration = Duration::from_secs(600);

/// A rig whose waiters look for so long, and a buffer of it that is on the device, so that steps of it are fed at once.
fn rig(long: Duration) -> (Rig, Queue, Buffer<u32>) {
    let rig = Rig::new(Faulty::builder().lanes(1).waiters_look(long));
    let (queue, x) = (rig.queue(0), Buffer::from(vec![1_u32; 8]));
    drop(step(&queue, &x, 0));
    rig.settle();
    (rig, queue, x)
}

/// A task that counts how often it is woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn poll<F: Future + Unpin>(self: &Arc<Self>, future: &mut F) -> Poll<F::Output> {
        let waker = Waker::from(self.clone());
        Pin::new(future).poll(&mut Context::from_waker(&waker))
    }

    fn woken(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Seen to fail with waiters that do not look.
#[test]
fn a_waiter_that_looks_needs_no_report() {
    let (rig, queue, x) = rig(LONG);
    rig.control.delay_verdicts(true);
    let task = Arc::<Task>::default();
    let mut event = step(&queue, &x, 3);
    for polls in 1..4 {
        assert!(task.poll(&mut event).is_pending());
        assert_eq!(task.woken(), polls, "it asks to be polled again");
    }
    while rig.control.run_one() {}
    // Nobody has reported: it finds out by itself, and wakes nobody.
    assert!(matches!(task.poll(&mut event), Poll::Ready(Ok(()))));
    assert_eq!((task.woken(), rig.control.audit().looks), (3, 4));
    rig.control.delay_verdicts(false);
    assert_eq!(rig.values(&x), [stepped(1, [0, 3]); 8]);
    drop((event, queue, x));
    rig.end();
}

/// Seen to fail with looks that never end.
#[test]
fn when_the_time_is_over_it_sleeps_and_is_woken() {
    let (rig, queue, x) = rig(Duration::from_millis(1));
    rig.control.delay_verdicts(true);
    let task = Arc::<Task>::default();
    let mut event = step(&queue, &x, 3);
    assert!(task.poll(&mut event).is_pending());
    sleep(Duration::from_millis(2));
    let before = task.woken();
    assert!(task.poll(&mut event).is_pending());
    assert!(task.poll(&mut event).is_pending());
    assert_eq!(task.woken(), before, "nobody asks to be polled for nothing");
    rig.control.delay_verdicts(false);
    rig.control.run_all();
    assert_eq!(task.woken(), before + 1);
    assert!(matches!(task.poll(&mut event), Poll::Ready(Ok(()))));
    drop((event, queue, x));
    rig.end();
}

/// Seen to fail with waiters that look whatever is before them.
#[test]
fn behind_many_others_nobody_looks() {
    let (rig, queue, x) = rig(LONG);
    let task = Arc::<Task>::default();
    let mut events: Vec<Event> = (0..20).map(|k| step(&queue, &x, k)).collect();
    let mut last = events.pop().expect("there are twenty");
    assert!(task.poll(&mut last).is_pending());
    assert_eq!((task.woken(), rig.control.audit().looks), (0, 0));
    rig.settle();
    assert!(outcome(&last).is_ok());
    drop((events, last, queue, x));
    rig.end();
}

/// Seen to fail with waiters that do not look.
#[test]
fn a_failure_is_found_by_looking() {
    let (rig, queue, x) = rig(LONG);
    rig.control.delay_verdicts(true);
    rig.control.fail_next(native("it broke"));
    let task = Arc::<Task>::default();
    let mut event = step(&queue, &x, 3);
    assert!(task.poll(&mut event).is_pending());
    while rig.control.run_one() {}
    let Poll::Ready(Err(error)) = task.poll(&mut event) else { panic!("it has failed") };
    assert!(error.to_string().contains("it broke"), "{error}");
    rig.control.delay_verdicts(false);
    drop((event, queue, x));
    rig.end();
}

/// Seen to fail with waiters that do not look.
#[test]
fn a_lane_that_panics_when_looked_at_is_lost() {
    let (rig, queue, x) = rig(LONG);
    rig.control.panic_in(Call::Look);
    let task = Arc::<Task>::default();
    let mut event = step(&queue, &x, 3);
    let Poll::Ready(Err(error)) = task.poll(&mut event) else { panic!("the lane is lost") };
    assert!(error.is_device_lost() && error.to_string().contains("looking at a lane"), "{error}");
    drop((event, queue, x));
    rig.end();
}

/// Seen to fail with readers that do not look, and with copies that are left to another thread.
#[test]
fn who_reads_asks_for_the_copy_and_looks() {
    let (rig, queue, x) = rig(LONG);
    drop(step(&queue, &x, 3));
    rig.settle();
    rig.control.delay_verdicts(true);
    let (task, before) = (Arc::<Task>::default(), rig.control.audit().feeds);
    let mut read = x.host_read();
    assert!(task.poll(&mut read).is_pending());
    assert_eq!(
        (rig.control.audit().feeds - before, task.woken()),
        (1, 1),
        "the copy has been fed in the poll"
    );
    while rig.control.run_one() {}
    let Poll::Ready(Ok(values)) = task.poll(&mut read) else { panic!("it finds out by itself") };
    assert_eq!((&values[..], task.woken()), (&[stepped(1, [0, 3]); 8][..], 1));
    rig.control.delay_verdicts(false);
    drop((read, values, queue, x));
    rig.end();
}

/// Copies of what four groups have written that may each still fail are four. Seen to fail with a poll that feeds as much
/// as a submission does.
#[test]
fn a_poll_feeds_little() {
    let (rig, queue, x) = rig(LONG);
    rig.control.delay_verdicts(true);
    for at in 0..4 {
        drop(step(&queue, &x.range(2 * at..2 * at + 2), 3));
    }
    let (task, before) = (Arc::<Task>::default(), rig.control.audit().feeds);
    let mut read = x.host_read();
    assert!(task.poll(&mut read).is_pending());
    assert_eq!(rig.control.audit().feeds - before, 2);
    rig.control.delay_verdicts(false);
    assert_eq!(rig.finish(read).expect("nothing fails")[..], [stepped(1, [0, 3]); 8]);
    assert_eq!(rig.control.audit().feeds - before, 4);
    drop((queue, x));
    rig.end();
}
