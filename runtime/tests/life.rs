//! Decisions 31, 32 and 33: what a runtime is, what touches drivers, and how a runtime or a process ends.

#[path = "common/rig.rs"]
mod rig;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use rig::{Gate, HANG, Hold, Rig, bump, contents, fails, look, until, wait};
use windlass::prelude::*;
use windlass::{BackendError, BackendId, Result, Unavailable};
use windlass_backend::{Backend, ContextSpec, Platform, async_trait};
use windlass_host::Host;

#[test]
fn d31_a_buffer_of_another_runtime_is_an_error() {
    let (one, other) = (Rig::new(), Rig::new());
    let x = Buffer::from(vec![1_u32; 8]);
    wait(bump(&one.queue, &x)).unwrap();
    for part in [x.clone(), x.range(2..4)] {
        let error = other.queue.submit(|cg| {
            cg.read(&part);
            Ok(())
        });
        assert!(error.unwrap_err().is_invalid_input());
    }
    let event = bump(&one.queue, &x);
    let error = other.queue.submit(|cg| {
        cg.depends_on(&event);
        Ok(())
    });
    assert!(error.unwrap_err().is_invalid_input(), "and so is its event");
    // A device of another runtime cannot be opened here either.
    let queue = Queue::builder().runtime(&other.runtime).device(one.device.clone()).blocking_build();
    assert!(queue.unwrap_err().is_invalid_input());
    assert_eq!(other.stats().submitted, 0);
    assert_eq!(contents(&x), [3; 8]);
}

#[test]
fn d31_an_event_of_another_runtime_can_be_waited_for_from_outside() {
    let (one, other) = (Rig::new(), Rig::new());
    let hold = Hold::new();
    let inside = hold.clone();
    let first = one.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
    let second = other.queue.submit(|cg| {
        cg.after(first.clone());
        Ok(())
    });
    let second = second.unwrap();
    assert!(!second.has_ended());
    hold.let_go();
    wait(second).unwrap();
    let bad = other.queue.submit(|cg| {
        cg.after(fails(&one.queue, "in the other runtime"));
        Ok(())
    });
    assert!(wait(bad.unwrap()).unwrap_err().to_string().contains("in the other runtime"));
}

#[test]
#[cfg_attr(miri, ignore = "takes too long there: a thousand rounds")]
fn d31_an_event_keeps_its_result_after_its_slot_was_reused() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 4]);
    let (bad, good) = (fails(&rig.queue, "the first"), bump(&rig.queue, &x));
    until("both have ended", || bad.status() == Status::Failed && good.status() == Status::Done);
    for _ in 0..1000 {
        let _ = wait(bump(&rig.queue, &x));
        let _ = wait(fails(&rig.queue, "another"));
    }
    assert_eq!(
        (bad.cancel(), good.cancel()),
        (CancelOutcome::Done, CancelOutcome::Done),
        "no stranger is cancelled"
    );
    assert!(wait(bad).unwrap_err().to_string().contains("the first"));
    wait(good).unwrap();
    assert_eq!(contents(&x), [1001; 4]);
}

/// Seen to fail when each call that asks for the default runtime got a new one.
#[test]
fn d31_there_is_one_default_runtime_in_a_process() {
    let [one, other] = [(); 2].map(|()| Queue::blocking_on(Device::host()).unwrap());
    let x = Buffer::from(vec![1_u32; 8]);
    for queue in [&one, &other] {
        wait(bump(queue, &x)).unwrap();
    }
    assert_eq!(contents(&x), [3; 8]);
    assert!(Runtime::global().stats().submitted >= 2);
    let own = Rig::new().queue.submit(|cg| {
        cg.read(&x);
        Ok(())
    });
    assert!(own.unwrap_err().is_invalid_input(), "one that was made by hand is another");
}

/// A backend that counts how often its driver is looked for.
struct Probe(Arc<AtomicUsize>);

// SAFETY: it opens nothing.
#[async_trait]
unsafe impl Backend for Probe {
    fn id(&self) -> BackendId {
        BackendId::new("probe")
    }

    async fn discover(&self) -> std::result::Result<Vec<Platform>, Unavailable> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(Unavailable::new("there is no such driver", "none"))
    }

    async fn open(
        &self,
        _: ContextSpec,
    ) -> std::result::Result<Arc<dyn windlass_backend::Context>, BackendError> {
        unreachable!("nothing was found")
    }
}

#[test]
fn d32_making_a_runtime_touches_no_driver() {
    let looks = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::builder().backend(Probe(looks.clone())).build();
    let _ = runtime.stats();
    let _ = format!("{runtime:?}");
    let _ = Queue::builder().runtime(&runtime);
    let x = Buffer::from(vec![1_u32; 4]);
    let queue = Queue::blocking_on(runtime.host().unwrap()).unwrap();
    wait(bump(&queue, &x)).unwrap();
    assert_eq!(looks.load(Ordering::SeqCst), 0, "a queue on the host asks the host alone");
    let found = wait(runtime.devices()).unwrap();
    assert!(found.iter().any(|d| *d.backend() == BackendId::new("host")));
    assert_eq!(looks.load(Ordering::SeqCst), 1);
    let _ = wait(runtime.platforms());
    let status = wait(runtime.backends());
    assert!(status.iter().any(|(id, s)| id.as_str() == "probe" && s.is_err()), "with a reason: {status:?}");
    assert_eq!(looks.load(Ordering::SeqCst), 1, "once");
}

#[test]
fn d32_discovery_and_opening_can_be_awaited() {
    let looks = Arc::new(AtomicUsize::new(0));
    let runtime = Runtime::builder().backend(Probe(looks.clone())).build();
    let queue = wait(Queue::builder().runtime(&runtime).build()).unwrap();
    assert_eq!(*queue.device().backend(), BackendId::new("host"));
    let missing = wait(Queue::builder().runtime(&runtime).select(Selector::backend("probe")).build());
    let error = missing.unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("no such driver"), "{error}");
}

/// The host's backend by another name, which notes the threads that it is asked on.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Vec<ThreadId>>>);

impl Noting {
    fn note(&self) {
        self.0.lock().unwrap().push(thread::current().id());
    }
}

// SAFETY: its contexts are the host backend's.
#[async_trait]
unsafe impl Backend for Noting {
    fn id(&self) -> BackendId {
        BackendId::new("noting")
    }

    async fn discover(&self) -> std::result::Result<Vec<Platform>, Unavailable> {
        self.note();
        Host::new().discover().await
    }

    async fn open(
        &self,
        spec: ContextSpec,
    ) -> std::result::Result<Arc<dyn windlass_backend::Context>, BackendError> {
        self.note();
        Host::new().open(spec).await
    }
}

/// Seen to fail when `devices`, and when `build`, did their work where they were polled.
#[test]
fn d32_what_is_awaited_blocks_another_thread() {
    for blocking in [false, true] {
        let noting = Noting::default();
        let runtime = Runtime::builder().backend(noting.clone()).only_given_backends().build();
        let builder = Queue::builder().runtime(&runtime);
        let queue = match blocking {
            true => builder.blocking_build(),
            false => {
                assert_eq!(wait(runtime.devices()).unwrap().len(), 1);
                wait(builder.build())
            }
        };
        let x = Buffer::from(vec![1_u32; 4]);
        wait(bump(&queue.unwrap(), &x)).unwrap();
        let threads = noting.0.lock().unwrap().clone();
        assert_eq!(threads.len(), 2, "one discovery, and one context");
        assert!(threads.iter().all(|id| (*id == thread::current().id()) == blocking), "blocking: {blocking}");
    }
}

#[test]
fn d33_drained_waits_for_what_was_submitted_before() {
    let rig = Rig::new();
    let (first, second) = (Hold::new(), Hold::new());
    let held = |hold: &Hold| {
        let inside = hold.clone();
        rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap()
    };
    let early = held(&first);
    let mut drained = rig.queue.drained();
    assert!(rig::poll_once(&mut drained).is_pending());
    let late = held(&second);
    first.let_go();
    wait(drained);
    assert_eq!((early.status(), late.status()), (Status::Done, Status::Submitted));
    assert_eq!(rig.queue.in_flight(), 1);
    second.let_go();
    wait(rig.queue.drained());
    assert_eq!(rig.queue.in_flight(), 0);
    wait(rig.queue.drained());
}

#[test]
fn d33_shutdown_drains_and_takes_no_more() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 64]);
    let elsewhere = rig.elsewhere();
    let events: Vec<Event> =
        (0..1000).map(|i| bump(if i % 2 == 0 { &rig.queue } else { &elsewhere }, &x)).collect();
    let left = wait(rig.runtime.shutdown(HANG));
    assert_eq!(left.groups, 0);
    for event in events {
        wait(event).unwrap();
    }
    assert!(rig.queue.submit(|_| Ok(())).unwrap_err().is_shut_down());
    assert!(rig.queue.try_submit(|_| Ok(())).unwrap_err().is_shut_down());
    assert!(wait(x.host_read()).unwrap_err().is_shut_down());
    assert_eq!(rig.queue.in_flight(), 0);
}

#[test]
fn d33_a_future_that_is_never_ready_does_not_block_shutdown() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 64]);
    let never = |cg: &CommandGroup<'_>| {
        cg.after(std::future::pending::<Result<()>>());
        cg.read_write(&x);
        Ok(())
    };
    let first = rig.queue.submit(never).unwrap();
    // One that is certain to fail waits for such a future as well.
    let bad = fails(&rig.queue, "no");
    let doomed = rig.queue.submit(|cg| {
        cg.depends_on(&bad);
        cg.after(std::future::pending::<Result<()>>());
        Ok(())
    });
    let behind = bump(&rig.elsewhere(), &x);
    until("the bad one has failed", || bad.status() == Status::Failed);
    let left = wait(rig.runtime.shutdown(Duration::from_millis(20)));
    assert!(wait(first).unwrap_err().is_cancelled());
    assert!(wait(doomed.unwrap()).unwrap_err().is_dependency_failed());
    assert!(wait(behind).unwrap_err().root().is_cancelled());
    until("nothing remains", || rig.runtime.abort().groups == 0);
    assert!(left.groups <= 4);
    until("the futures are dropped", || rig.stats().live_tasks == 0);
}

#[test]
fn d33_shutdown_says_what_remains_on_a_device() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 64]);
    let hold = Hold::new();
    let inside = hold.clone();
    let running = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, move |_, _| inside.here())
    });
    hold.wait_until_entered();
    let gate = Gate::new();
    let waiting = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        Ok(())
    });
    let left = wait(rig.runtime.shutdown(Duration::from_millis(20)));
    assert!(left.groups >= 1, "the one that runs");
    assert!(wait(waiting.unwrap()).unwrap_err().is_cancelled());
    hold.let_go();
    wait(running.unwrap()).unwrap();
    until("nothing remains", || rig.runtime.abort().groups == 0);
}

#[test]
fn d33_abort_ends_all_that_is_not_on_a_device() {
    let rig = Rig::with_lanes(1);
    let x = Buffer::from(vec![0_u32; 64]);
    let hold = Hold::new();
    let inside = hold.clone();
    let running = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, move |_, _| inside.here())
    });
    hold.wait_until_entered();
    let behind: Vec<Event> = (0..2000).map(|_| bump(&rig.queue, &x)).collect();
    let left = rig.runtime.abort();
    assert!(left.groups > 0);
    hold.let_go();
    wait(running.unwrap()).unwrap();
    let (mut done, mut cancelled) = (0, 0);
    for event in behind {
        match wait(event) {
            Ok(()) => done += 1,
            Err(error) => {
                assert!(error.root().is_cancelled(), "{error}");
                cancelled += 1;
            }
        }
    }
    assert!(cancelled >= 1000 && done + cancelled == 2000, "{done} had been handed over");
    rig.settle();
}

#[test]
#[cfg_attr(miri, ignore = "takes too long there: twelve thousand groups")]
fn d33_a_runtime_may_go_with_work_in_flight() {
    for round in 0..50 {
        let rig = Rig::new();
        let x = Buffer::from(vec![0_u32; 64]);
        let events: Vec<Event> = (0..round * 10).map(|_| bump(&rig.queue, &x)).collect();
        let (last, seen) = look(&rig.queue, &x);
        drop((rig, x));
        wait(Event::all(events)).unwrap();
        wait(last).unwrap();
        assert_eq!(*seen.lock().unwrap(), [round * 10; 64]);
    }
}

/// Seen to fail by a race: what was cancelled had not ended when it was counted.
#[test]
#[cfg_attr(miri, ignore = "takes too long there: three hundred runtimes")]
fn d33_what_was_cancelled_does_not_remain() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    for round in 0..300 {
        let rig = Rig::new();
        let x = Buffer::from(vec![0_u32; 8]);
        let never = || {
            let group = rig.queue.submit(|cg| {
                cg.after(std::future::pending::<Result<()>>());
                let x = cg.read_write(&x);
                cg.host_for(8, x, |_, _| {})
            });
            group.unwrap()
        };
        // Every other one with a tokio runtime for its future.
        let entered = (round % 2 == 1).then(|| tokio.enter());
        let waiting = never();
        drop(entered);
        let behind = bump(&rig.elsewhere(), &x);
        assert_eq!(wait(rig.runtime.shutdown(Duration::ZERO)).groups, 0, "round {round}");
        assert!(wait(waiting).unwrap_err().is_cancelled());
        assert!(wait(behind).unwrap_err().root().is_cancelled());
    }
}

#[test]
fn d33_what_the_device_has_remains() {
    for _ in 0..50 {
        let rig = Rig::new();
        let (x, hold) = (Buffer::from(vec![0_u32; 8]), Hold::new());
        let inside = hold.clone();
        let held = rig.queue.submit(|cg| {
            let x = cg.read_write(&x);
            cg.host_for(1, x, move |_, _| inside.here())
        });
        hold.wait_until_entered();
        // By now with its device as well, which has it wait there.
        let behind = bump(&rig.elsewhere(), &x);
        let gated = rig.queue.submit(|cg| {
            cg.after(std::future::pending::<windlass::Result<()>>());
            Ok(())
        });
        assert_eq!(wait(rig.runtime.shutdown(Duration::ZERO)).groups, 2);
        assert!(wait(gated.unwrap()).is_err());
        hold.let_go();
        wait(held.unwrap()).unwrap();
        let _ = wait(behind);
    }
}

/// What the child process runs: it leaves work of every kind behind.
#[test]
fn child_leaves_work_in_flight() {
    if std::env::var_os("WINDLASS_TEST_CHILD").is_none() {
        return;
    }
    let queue = Queue::blocking_on(Device::host()).unwrap();
    let context = Context::blocking_open(&[Device::host()]).unwrap();
    let elsewhere = Queue::blocking_in_context(&context, &Device::host()).unwrap();
    let x = Buffer::from(vec![0_u32; 1 << 12]);
    for i in 0..500_u32 {
        let _ = bump(if i.is_multiple_of(2) { &queue } else { &elsewhere }, &x);
        let _ = queue.submit(|cg| cg.host_task(async move |_| Ok(()))).unwrap();
    }
    let _ = queue.submit(|cg| {
        cg.after(std::future::pending::<Result<()>>());
        Ok(())
    });
    let guard = wait(Buffer::from(vec![1_u32; 8]).host_write()).unwrap();
    let _ = queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_for(1, x, |_, _| std::thread::sleep(HANG))
    });
    drop(fails(&queue, "nobody hears of it"));
    std::mem::forget(guard);
}

#[test]
#[cfg_attr(miri, ignore = "it starts processes")]
fn d33_main_returning_with_work_in_flight_exits_cleanly_100_times_of_100() {
    let program = std::env::current_exe().unwrap();
    for round in 0..100 {
        let mut child = Command::new(&program)
            .args(["--exact", "child_leaves_work_in_flight", "--test-threads=1"])
            .env("WINDLASS_TEST_CHILD", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + HANG / 2;
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > deadline => {
                    child.kill().unwrap();
                    panic!("round {round}: the process does not end");
                }
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(status.success(), "round {round}: {status}, {said}");
        // A program that knows no such test succeeds as well.
        let told = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
        assert!(told.contains("1 passed"), "round {round}: {told}");
    }
}
