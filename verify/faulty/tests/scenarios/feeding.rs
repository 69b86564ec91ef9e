//! Decisions 1, 2 and 13: who makes native calls and when, how many, and what settles where nobody waits.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Wake, Waker};
use std::thread;
use std::time::Duration;

use windlass::prelude::*;
use windlass_faulty::{Faulty, FaultyControl, Memory};

use crate::rig::{PANICS, Rig, error, launch, native, outcome, poll, set, single, step};

/// Nothing here takes this long; what does has hung.
const HANG: Duration = Duration::from_secs(20);

/// A native call that is being made until a test lets go of it.
struct Call {
    entered: Receiver<()>,
    go_on: Sender<()>,
}

impl Call {
    /// Has another thread submit a group that writes 7 to `x[0]`, and returns when its native call is being made: the
    /// devices run what they are fed at once, on the thread that feeds them.
    fn of<'s>(
        scope: &'s thread::Scope<'s, '_>,
        queue: &Queue,
        x: &Buffer<u32>,
    ) -> (Self, thread::ScopedJoinHandle<'s, Event>) {
        let (enter, entered) = channel();
        let (go_on, gone_on) = channel();
        let gone_on = Mutex::new(gone_on);
        let (queue, x) = (queue.clone(), x.clone());
        let submitter = scope.spawn(move || {
            let group = queue.submit(|cg| {
                let x = cg.overwrite(&x);
                cg.host_for(1, x, move |_, x| {
                    enter.send(()).unwrap();
                    gone_on.lock().unwrap().recv_timeout(HANG).expect("nobody lets go: a hang");
                    x.set(0, 7);
                })
            });
            group.unwrap()
        });
        let call = Call { entered, go_on };
        call.entered.recv_timeout(HANG).expect("the group is not fed");
        (call, submitter)
    }

    fn let_go(self) {
        self.go_on.send(()).unwrap();
    }
}

fn plus_one(queue: &Queue, from: &Buffer<u32>, to: &Buffer<u32>) -> Event {
    let group = queue.submit(|cg| {
        let args = (cg.read(from), cg.overwrite(to));
        cg.host_for(1, args, |_, (from, to)| to.set(0, from.get(0) + 1))
    });
    group.unwrap()
}

/// Two threads plan X = (lane, 1) and Y = (lane, 2), Y reading X; Y's thread comes to its native call while X's is still
/// being made. Nobody makes Y's then: not on X's lane, nor, for a second reader, on another device's, where it would have to
/// wait for a point that the driver does not know.
///
/// Seen to fail when the feed token was given to whoever asked, and when waits were made for points whose native call was
/// still being made.
#[test]
fn decision_1_two_threads_plan_x_and_y_and_y_comes_to_its_native_call_first() {
    let rig = Rig::new(Faulty::builder().device(Memory::Heap).device(Memory::Heap).lanes(1).auto());
    let devices = rig.devices();
    let context = Context::blocking_open(&devices).unwrap();
    let [queue, other] = [0, 1].map(|d| Queue::blocking_in_context(&context, &devices[d]).unwrap());
    let [x, near, far] = [(); 3].map(|()| Buffer::from(vec![1_u32]));
    let (first, readers) = thread::scope(|scope| {
        let (call, submitter) = Call::of(scope, &queue, &x);
        let readers = [plus_one(&queue, &x, &near), plus_one(&other, &x, &far)];
        assert_eq!(rig.control.audit().feeds, 1, "X's native call, and no other");
        assert!(readers.iter().all(|r| !r.has_ended()));
        call.let_go();
        (submitter.join().unwrap(), readers)
    });
    rig.settle();
    assert!(outcome(&first).is_ok() && readers.iter().all(|r| outcome(r).is_ok()));
    assert_eq!(rig.control.audit().feeds, 3);
    assert_eq!((rig.values(&near), rig.values(&far)), (vec![8], vec![8]));
    drop((queue, other, context, devices, x, near, far, first, readers));
    rig.end();
}

/// Whoever holds the token makes others' native calls as well, but hands over after a bounded share of them.
///
/// Seen to fail when a share had no end, and when verdicts that came in meanwhile began a new one.
#[test]
fn decision_1_who_feeds_for_others_hands_over_after_its_share() {
    const OTHERS: u64 = 2_000;
    let rig = Rig::new(Faulty::builder().device(Memory::Heap).lanes(1).auto());
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![1_u32]), Buffer::from(vec![1_u32]));
    let first = thread::scope(|scope| {
        let (call, submitter) = Call::of(scope, &queue, &x);
        (0..OTHERS).for_each(|_| drop(plus_one(&queue, &x, &y)));
        assert_eq!(rig.control.audit().feeds, 1, "all others are listed");
        call.let_go();
        submitter.join().unwrap()
    });
    let feeds = rig.control.audit().feeds;
    assert!(feeds > 1 && feeds < OTHERS / 4, "the submitter has fed {feeds} groups");
    rig.settle();
    assert!(outcome(&first).is_ok());
    assert_eq!((rig.control.audit().feeds, queue.in_flight()), (OTHERS + 1, 0));
    drop((queue, x, y, first));
    rig.end();
}

/// Counts the device's flushes when it is woken.
struct Flushes {
    control: FaultyControl,
    seen: AtomicU64,
}

impl Wake for Flushes {
    fn wake(self: Arc<Self>) {
        self.seen.store(self.control.audit().flushes, Ordering::SeqCst);
    }
}

/// A callback that fires inside a native call of this very thread only leaves its message: wakers, which are foreign code,
/// run when the thread is through with its native calls.
///
/// Seen to fail when a report inside a native call was worked off on the spot.
#[test]
fn decision_1_wakers_run_when_the_native_calls_are_over() {
    let rig = single();
    let queue = rig.queue(0);
    let (x, y) = (Buffer::from(vec![1_u32; 4]), Buffer::from(vec![1_u32; 4]));
    drop((step(&queue, &x, 0), step(&queue, &y, 0)));
    rig.settle();
    rig.control.hold(0, true);
    let first = step(&queue, &x, 1);
    let woken = Arc::new(Flushes { control: rig.control.clone(), seen: AtomicU64::new(0) });
    let waker = Waker::from(woken.clone());
    let mut awaited = pin!(first.clone());
    assert!(awaited.as_mut().poll(&mut TaskContext::from_waker(&waker)).is_pending());
    rig.runtime.run_until_stalled();
    let before = rig.control.audit().flushes;
    rig.control.hold(0, false);
    rig.control.report_inside_feed(true);
    let second = step(&queue, &y, 1);
    assert_eq!(woken.seen.load(Ordering::SeqCst), before + 1, "feed, then flush, then the waker");
    rig.settle();
    assert!(outcome(&first).is_ok() && outcome(&second).is_ok());
    drop((queue, x, y, first, second));
    drop((woken, waker));
}

/// Lanes belong to a device of a context, not to a queue.
///
/// Seen to fail when the runtime opened a context of its own for each queue.
#[test]
fn decision_1_lanes_belong_to_the_context_and_device_and_not_to_the_queue() {
    let rig = Rig::new(Faulty::builder().lanes(3));
    let mut queues: Vec<_> = (0..5).map(|_| rig.queue(0)).collect();
    assert_eq!((rig.control.audit().contexts, rig.control.audit().lanes), (1, 3));
    let device = rig.devices().swap_remove(0);
    let context = Context::blocking_open(std::slice::from_ref(&device)).unwrap();
    queues.extend((0..5).map(|_| Queue::blocking_in_context(&context, &device).unwrap()));
    assert_eq!((rig.control.audit().contexts, rig.control.audit().lanes), (2, 6));
    drop((queues, context, device));
    rig.end();
}

/// The 1,022nd launch behind one long kernel does not block its caller, on a driver that takes 64: the others stay where
/// they can be cancelled.
///
/// Seen to fail when a lane was fed beyond its depth.
#[test]
fn decision_2_the_1022nd_launch_behind_one_long_kernel_does_not_block_the_caller() {
    let rig = Rig::new(Faulty::builder().lanes(1).depth(64));
    let queue = rig.queue(0);
    let x = Buffer::from(vec![1_u32; 4]);
    drop(step(&queue, &x, 0));
    rig.settle();
    rig.control.hold(0, true);
    let events: Vec<_> = (0..=1022).map(|k| step(&queue, &x, k)).collect();
    rig.runtime.run_until_stalled();
    assert_eq!((rig.control.waiting(), rig.control.audit().deepest), (64, 64));
    assert_eq!(events[63].cancel(), CancelOutcome::TooLate);
    assert_eq!(events[1022].cancel(), CancelOutcome::Skipped, "the 1,022nd behind the first");
    rig.control.hold(0, false);
    rig.settle();
    assert!(events[..1022].iter().all(|e| outcome(e).is_ok()));
    assert!(error(&events[1022]).is_cancelled());
    assert_eq!(rig.control.audit().deepest, 64);
    drop((queue, x, events));
    rig.end();
}

/// A lane with work keeps one sentinel at its tail, which settles memory, credits and unobserved errors where nobody waits
/// for anything; whoever waits for room, or for the end, waits for it too.
///
/// Seen to fail when no sentinel was placed.
#[test]
fn decision_13_the_tail_sentinel_settles_memory_credits_and_unobserved_errors() {
    let rig = single();
    let device = rig.devices().swap_remove(0);
    let queue = Queue::builder().runtime(&rig.runtime).device(device).max_in_flight(8).blocking_build();
    let queue = queue.unwrap();
    let warm = Buffer::<u32>::new(4);
    rig.finish(set(&queue, &warm, 0)).unwrap();
    drop(warm);
    rig.settle();
    rig.control.report_exactly(true);
    for waits in [false, true] {
        let before = rig.control.audit();
        rig.control.fail(3, native("the fourth"));
        for k in 0..8 {
            drop(set(&queue, &Buffer::<u32>::new(4), k));
        }
        assert_eq!((rig.runtime.stats().live_buffers, queue.in_flight()), (8, 8));
        let (mut ready, mut drained) = (pin!(queue.ready()), pin!(queue.drained()));
        if waits {
            assert!(poll(ready.as_mut()).is_pending() && poll(drained.as_mut()).is_pending());
        }
        rig.settle();
        let stats = rig.runtime.stats();
        assert_eq!((stats.live_nodes, stats.live_buffers, queue.in_flight()), (0, 0, 0), "waits: {waits}");
        assert_eq!(rig.control.audit().allocations, before.allocations);
        assert!(poll(ready.as_mut()).is_ready() && poll(drained.as_mut()).is_ready());
        assert_eq!(rig.told().len(), 1 + usize::from(waits), "the error is told");
        let arms = rig.control.audit().arms - before.arms;
        assert!(arms <= 2, "{arms} sentinels for eight groups of a lane of 64");
    }
    drop(queue);
    rig.end();
}

/// Errors that come together are told together.
///
/// Seen to fail when each error was handed on by itself.
#[test]
fn decision_18_errors_that_come_together_are_told_in_one_batch() {
    let rig = single();
    let batches = Arc::new(Mutex::new(Vec::new()));
    let heard = batches.clone();
    let handler = move |errors: &[windlass::AsyncError]| heard.lock().unwrap().push(errors.len());
    let queue = Queue::builder().runtime(&rig.runtime).handler(handler).blocking_build().unwrap();
    let fail = || drop(launch(&queue, &PANICS, &Buffer::<u32>::new(4), 0));
    fail();
    rig.settle();
    (0..10).for_each(|_| fail());
    rig.settle();
    assert_eq!(*batches.lock().unwrap(), [1, 10]);
    drop(queue);
    rig.end();
}
