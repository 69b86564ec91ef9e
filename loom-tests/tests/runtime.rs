//! The runtime's own paths: feeding, waiting, cancelling, ending.
//!
//! The runtime is a manual one over a scripted backend. What nobody drives from inside a model is driven at its end,
//! when all threads have been joined: [`settle`] says that nothing was lost then.
#![cfg(windlass_loom)]

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use windlass::{Buffer, CancelOutcome, Context, Event, Queue, Runtime, Status};
use windlass_loom_tests::script::{Device, Habit};
use windlass_loom_tests::{Bell, model, waker};
use windlass_sync::facade::thread;

fn submit(queue: &Queue) -> windlass::Result<Event> {
    queue.submit(|cg| cg.host_for(1, (), |_, ()| ()))
}

fn accepted(queue: &Queue) -> Event {
    submit(queue).expect("the runtime takes groups")
}

fn join<T>(thread: thread::JoinHandle<T>) -> T {
    thread.join().expect("nothing there panics")
}

/// Polls once.
fn poll<F: Future + Unpin>(future: &mut F, bell: &std::sync::Arc<Bell>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut TaskContext::from_waker(&waker(bell)))
}

/// Lets the device end what it has, and the executors do what they have, until nothing happens any more. Nobody takes
/// the engine's lock for any other reason here: a message that was left lying stays there.
fn settle(runtime: &Runtime, device: &Device) {
    loop {
        device.finish();
        if runtime.run_until_stalled() == 0 && device.is_idle() {
            break;
        }
    }
}

/// Nothing is left of what was submitted.
fn all_gone(runtime: &Runtime, queue: &Queue) {
    assert_eq!((runtime.stats().live_nodes, queue.in_flight()), (0, 0), "everything has ended");
}

/// Two submitters, one lane, a completion inside the native call: whoever holds the feed token, one thread feeds at a
/// time, and no group is left on the list. Nobody drives the executor.
fn two_submitters(depth: usize) {
    model(move || {
        let (runtime, queue, device) = Device::runtime(Habit::AtOnce, depth);
        let other = {
            let queue = queue.clone();
            thread::spawn(move || accepted(&queue))
        };
        let events = [accepted(&queue), join(other)];
        assert!(events.iter().all(|e| e.status() == Status::Done), "{events:?}");
        assert_eq!(device.commands(), 2);
        all_gone(&runtime, &queue);
    });
}

#[test]
fn two_submitters_and_a_completion_inside_the_native_call() {
    two_submitters(2);
}

#[test]
fn two_submitters_and_a_lane_that_holds_one_group() {
    two_submitters(1);
}

/// The verdict of one group arrives while another thread is making the native call of the next: whatever is armed then,
/// the lane has been fed (the script checks). Seen to fail when sentinels were placed with no regard to the feed token.
#[test]
fn a_verdict_arrives_while_the_next_group_is_being_fed() {
    model(|| {
        let (runtime, queue, device) = Device::runtime(Habit::ByThread, 3);
        let first = accepted(&queue);
        let completion = {
            let device = device.clone();
            thread::spawn(move || device.finish_upto(1))
        };
        let second = accepted(&queue);
        join(completion);
        assert_eq!([&first, &second].map(|e| e.has_ended()), [true, false]);
        settle(&runtime, &device);
        assert_eq!(second.status(), Status::Done);
        all_gone(&runtime, &queue);
    });
}

/// A verdict is left as a message by a thread that finds the lock taken by one who only opens a lane: that one wakes the waiter.
/// Seen to fail when opening a lane worked the messages off and did nothing of what they asked for.
#[test]
fn a_verdict_arrives_while_a_lane_is_opened() {
    model(|| {
        let (runtime, queue, device) = Device::runtime(Habit::ByThread, 3);
        let mut event = accepted(&queue);
        let bell = Bell::new();
        assert!(poll(&mut event, &bell).is_pending());
        runtime.run_until_stalled();
        let completion = {
            let device = device.clone();
            thread::spawn(move || device.finish())
        };
        let other = Context::blocking_open(&[queue.device().clone()]).expect("the script opens any number");
        join(completion);
        assert_eq!((event.status(), bell.rang()), (Status::Done, 1));
        drop(other);
        all_gone(&runtime, &queue);
    });
}

/// A verdict from another thread meets a waiter. The lane's sentinel stands further on, so nobody would report this
/// group's end if the waiter did not ask.
fn waiting(habit: Habit) {
    model(move || {
        let (runtime, queue, device) = Device::runtime(habit, 3);
        let [first, mut second, third] = [(); 3].map(|()| accepted(&queue));
        device.finish_upto(1);
        let completion = {
            let device = device.clone();
            thread::spawn(move || device.finish_upto(2))
        };
        let bell = Bell::new();
        let waited = poll(&mut second, &bell).is_pending();
        runtime.run_until_stalled();
        join(completion);
        runtime.run_until_stalled();
        let ended = [&first, &second, &third].map(|e| e.has_ended());
        assert_eq!(ended, [true, true, false]);
        assert_eq!(bell.rang(), usize::from(waited), "who waits is woken once");
        settle(&runtime, &device);
        assert_eq!(third.status(), Status::Done, "what nobody waits for is reported as well");
        all_gone(&runtime, &queue);
    });
}

#[test]
fn a_waiter_and_a_verdict_from_a_thread() {
    waiting(Habit::ByThread);
}

#[test]
fn a_waiter_and_a_verdict_from_a_callback() {
    waiting(Habit::ByCallback);
}

/// Two waiters ask for reports at once: what either leaves for the executor is worked off.
#[test]
fn two_waiters_ask_for_reports() {
    model(|| {
        let (runtime, queue, device) = Device::runtime(Habit::ByThread, 4);
        let [_first, mut second, mut third, fourth] = [(); 4].map(|()| accepted(&queue));
        device.finish_upto(1);
        let bells = [Bell::new(), Bell::new()];
        let other = {
            let (runtime, bell) = (runtime.clone(), bells[0].clone());
            thread::spawn(move || {
                assert!(poll(&mut second, &bell).is_pending());
                runtime.run_until_stalled();
                second
            })
        };
        assert!(poll(&mut third, &bells[1]).is_pending());
        runtime.run_until_stalled();
        let second = join(other);
        device.finish_upto(2);
        assert_eq!([&second, &third].map(|e| e.has_ended()), [true, false]);
        device.finish_upto(3);
        assert_eq!([&third, &fourth].map(|e| e.has_ended()), [true, false]);
        assert_eq!(bells.map(|b| b.rang()), [1, 1]);
        settle(&runtime, &device);
        all_gone(&runtime, &queue);
    });
}

/// A group is cancelled while the verdict of the one before it makes room for it on the lane: it is skipped, or runs.
#[test]
fn a_group_is_fed_or_cancelled() {
    model(|| {
        let (runtime, queue, device) = Device::runtime(Habit::ByThread, 1);
        let first = accepted(&queue);
        let second = accepted(&queue);
        let completion = {
            let device = device.clone();
            thread::spawn(move || device.finish())
        };
        let answer = second.cancel();
        join(completion);
        settle(&runtime, &device);
        assert_eq!(first.status(), Status::Done);
        let (status, commands) = match answer {
            CancelOutcome::Skipped => (Status::Failed, 1),
            CancelOutcome::TooLate => (Status::Done, 2),
            CancelOutcome::Stopping | CancelOutcome::Done => {
                panic!("nobody has ended it, and it is no host task")
            }
        };
        assert_eq!((second.status(), device.commands()), (status, commands), "{answer:?}");
        all_gone(&runtime, &queue);
    });
}

/// A group is submitted behind one that is being cancelled, in another thread, while a third waits for it.
#[test]
fn a_group_is_cancelled_while_another_is_submitted() {
    model(|| {
        let (runtime, queue, device) = Device::runtime(Habit::ByThread, 1);
        let buffer = Buffer::<u32>::new(1);
        let write = |queue: &Queue, buffer: &Buffer<u32>| {
            let group = queue.submit(|cg| {
                let args = cg.read_write(buffer);
                cg.host_for(1, args, |_, _| ())
            });
            group.expect("the runtime takes groups")
        };
        let first = write(&queue, &buffer);
        let mut second = write(&queue, &buffer);
        let submitter = {
            let (queue, buffer) = (queue.clone(), buffer.clone());
            thread::spawn(move || write(&queue, &buffer))
        };
        let bell = Bell::new();
        assert!(poll(&mut second, &bell).is_pending());
        assert_eq!(second.cancel(), CancelOutcome::Skipped);
        let third = join(submitter);
        settle(&runtime, &device);
        assert_eq!(bell.rang(), 1, "who waits is woken once");
        let failed = |result: Poll<windlass::Result<()>>| match result {
            Poll::Ready(Err(error)) => error,
            other => panic!("{other:?}"),
        };
        let [mut first, mut third] = [first, third];
        assert!(matches!(poll(&mut first, &bell), Poll::Ready(Ok(()))));
        assert!(failed(poll(&mut second, &bell)).is_cancelled());
        assert!(failed(poll(&mut third, &bell)).is_dependency_failed());
        all_gone(&runtime, &queue);
    });
}

/// The runtime is ended while a group is submitted, and another one's predecessor completes: everything resolves.
#[test]
fn everything_resolves_when_the_runtime_ends() {
    model(|| {
        let (runtime, queue, device) = Device::runtime(Habit::ByThread, 1);
        let first = accepted(&queue);
        let second = accepted(&queue);
        let submitter = {
            let queue = queue.clone();
            thread::spawn(move || {
                let group = queue.submit(|cg| {
                    cg.after(std::future::pending::<windlass::Result<()>>());
                    Ok(())
                });
                group.ok()
            })
        };
        let completion = {
            let device = device.clone();
            thread::spawn(move || device.finish())
        };
        runtime.abort();
        let third = join(submitter);
        join(completion);
        settle(&runtime, &device);
        assert_eq!(first.status(), Status::Done, "what is with the device runs to its end");
        assert!(second.has_ended(), "what is on the list resolves");
        if let Some(third) = third {
            assert_eq!(third.status(), Status::Failed, "what would wait for ever does not");
        }
        assert!(submit(&queue).is_err(), "intake has stopped");
        all_gone(&runtime, &queue);
    });
}

/// A group is cancelled while the future that it waits for is ready: it is skipped, or runs, and the gate opens once.
#[test]
fn a_gate_opens_while_its_group_is_cancelled() {
    model(|| {
        let (runtime, queue, device) = Device::runtime(Habit::AtOnce, 1);
        let event = queue.submit(|cg| {
            cg.after(std::future::ready::<windlass::Result<()>>(Ok(())));
            cg.host_for(1, (), |_, ()| ())
        });
        let mut event = event.expect("the runtime takes groups");
        let bell = Bell::new();
        assert!(poll(&mut event, &bell).is_pending());
        let driver = {
            let runtime = runtime.clone();
            thread::spawn(move || runtime.run_until_stalled())
        };
        let answer = event.cancel();
        join(driver);
        settle(&runtime, &device);
        let expected = match answer {
            CancelOutcome::Skipped => (Status::Failed, 0),
            CancelOutcome::TooLate | CancelOutcome::Stopping | CancelOutcome::Done => (Status::Done, 1),
        };
        assert_eq!((event.status(), device.commands()), expected, "{answer:?}");
        assert_eq!(bell.rang(), 1, "who waits is woken once");
        all_gone(&runtime, &queue);
    });
}

/// A host accessor's future is dropped while its guard is granted: the place is given back, and who is behind it goes on.
#[test]
fn a_guard_is_dropped_or_granted() {
    model(|| {
        let (runtime, queue, device) = Device::runtime(Habit::ByThread, 2);
        let buffer = Buffer::<u32>::new(1);
        let write = || {
            queue.submit(|cg| {
                let args = cg.read_write(&buffer);
                cg.host_for(1, args, |_, _| ())
            })
        };
        let first = write().expect("the runtime takes groups");
        let bell = Bell::new();
        let mut guard = buffer.host_write();
        assert!(poll(&mut guard, &bell).is_pending());
        runtime.run_until_stalled();
        let behind = write().expect("the runtime takes groups");
        let completion = {
            let (runtime, device) = (runtime.clone(), device.clone());
            thread::spawn(move || {
                device.finish();
                // The guard opens in the verdict's turn; whoever is behind it goes on by a future.
                runtime.run_until_stalled();
            })
        };
        drop(guard);
        join(completion);
        settle(&runtime, &device);
        assert_eq!([first.status(), behind.status()], [Status::Done; 2]);
        assert!(bell.rang() <= 1);
        assert_eq!(device.commands(), 2);
        all_gone(&runtime, &queue);
    });
}
