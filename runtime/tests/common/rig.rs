//! What the tests of the runtime share: a runtime of one's own, things that hold groups back until a test lets go, and
//! waiting with a guard against hangs.
#![allow(dead_code, reason = "each test file uses its own part of it")]

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::Shared;
use windlass::prelude::*;
use windlass::{AsyncError, Result, Stats};
use windlass_host::Host;

/// Nothing here takes this long, or in Miri this long; what does has hung.
pub(crate) const HANG: Duration = Duration::from_secs(if cfg!(miri) { 600 } else { 20 });

/// Runs a future to its end on this thread. One that is never woken fails the test.
#[track_caller]
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let deadline = Instant::now() + HANG;
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            return value;
        }
        thread::park_timeout(deadline.saturating_duration_since(Instant::now()));
        assert!(Instant::now() < deadline, "this future was not woken: a hang");
    }
}

/// Polls once, for nobody.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut TaskContext::from_waker(Waker::noop()))
}

/// Looks again until it is so.
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + HANG;
    while !so() {
        assert!(Instant::now() < deadline, "this never came: {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

/// A runtime of its own with host devices, a queue on the first, and what its handler was told.
pub(crate) struct Rig {
    pub(crate) runtime: Runtime,
    pub(crate) device: Device,
    pub(crate) queue: Queue,
    pub(crate) told: Told,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with_lanes(4)
    }

    pub(crate) fn with_lanes(lanes: usize) -> Self {
        Self::of(Runtime::builder(), lanes)
    }

    /// A runtime without threads of its own. Its lanes have theirs.
    pub(crate) fn manual(lanes: usize) -> Self {
        Self::of(Runtime::builder().manual(), lanes)
    }

    /// With more said about the runtime.
    pub(crate) fn of(builder: windlass::RuntimeBuilder, lanes: usize) -> Self {
        let told = Told::default();
        let runtime = builder.backend(Host::new().with_lanes(lanes)).handler(told.handler()).build();
        let device = runtime.host().expect("the host backend is given");
        let queue = Queue::blocking_on(device.clone()).expect("the host device opens");
        Rig { runtime, device, queue, told }
    }

    /// A queue in a new context: a memory domain of its own.
    pub(crate) fn elsewhere(&self) -> Queue {
        let context = Context::blocking_open(std::slice::from_ref(&self.device)).expect("a context opens");
        Queue::blocking_in_context(&context, &self.device).expect("a queue in a context")
    }

    pub(crate) fn stats(&self) -> Stats {
        self.runtime.stats()
    }

    /// Waits until nothing is under way any more, and checks that nothing is kept for it.
    #[track_caller]
    pub(crate) fn settle(&self) {
        until("everything has ended", || self.stats().live_nodes == 0);
        until("nothing is kept for what has ended", || {
            let Stats { live_links, frees_waiting, .. } = self.stats();
            live_links == 0 && frees_waiting == 0
        });
    }
}

/// What a handler was told.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<Mutex<Vec<AsyncError>>>);

impl Told {
    pub(crate) fn handler(&self) -> impl Fn(&[AsyncError]) + Send + Sync + 'static {
        let told = self.0.clone();
        move |errors| told.lock().expect("nobody panics here").extend_from_slice(errors)
    }

    pub(crate) fn so_far(&self) -> Vec<AsyncError> {
        self.0.lock().expect("nobody panics here").clone()
    }

    /// Hands out what was told so far, and forgets it.
    pub(crate) fn take(&self) -> Vec<AsyncError> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics here"))
    }

    /// Everything told up to now: makes a queue's group fail unobserved, and waits until that was told as well.
    #[track_caller]
    pub(crate) fn up_to_now(&self, queue: &Queue) -> Vec<AsyncError> {
        const MARK: &str = "the mark up to which the handler was told";
        let marked = |e: &AsyncError| e.error().to_string().contains(MARK);
        drop(fails(queue, MARK));
        until("the mark is told", || self.so_far().iter().any(marked));
        let mut told = self.0.lock().expect("nobody panics here");
        told.retain(|e| !marked(e));
        told.clone()
    }
}

/// Holds groups back by `cg.after(gate.opened())` until it is opened.
pub(crate) struct Gate {
    sender: Option<oneshot::Sender<()>>,
    receiver: Shared<oneshot::Receiver<()>>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = oneshot::channel();
        Gate { sender: Some(sender), receiver: receiver.shared() }
    }

    pub(crate) fn opened(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        self.receiver.clone().map(|gone| gone.map_err(windlass::Error::other))
    }

    pub(crate) fn open(mut self) {
        if let Some(sender) = self.sender.take() {
            sender.send(()).expect("groups wait for the gate");
        }
    }
}

/// A kernel body that stays inside the device until it is let go.
#[derive(Clone, Default)]
pub(crate) struct Hold {
    entered: Arc<AtomicBool>,
    free: Arc<AtomicBool>,
}

impl Hold {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Called in a kernel or host task.
    pub(crate) fn here(&self) {
        self.entered.store(true, Ordering::SeqCst);
        spin("the hold is let go", || self.free.load(Ordering::SeqCst));
    }

    #[track_caller]
    pub(crate) fn wait_until_entered(&self) {
        until("the held group has started", || self.entered.load(Ordering::SeqCst));
    }

    pub(crate) fn was_entered(&self) -> bool {
        self.entered.load(Ordering::SeqCst)
    }

    pub(crate) fn let_go(&self) {
        self.free.store(true, Ordering::SeqCst);
    }
}

/// Several groups that can only end if they run at the same time.
#[derive(Clone)]
pub(crate) struct Meeting {
    there: Arc<AtomicUsize>,
    expected: usize,
}

impl Meeting {
    pub(crate) fn of(expected: usize) -> Self {
        Meeting { there: Arc::default(), expected }
    }

    /// Called in a kernel: waits for all the others.
    pub(crate) fn join(&self) {
        self.there.fetch_add(1, Ordering::SeqCst);
        spin("everybody has come", || self.there.load(Ordering::SeqCst) >= self.expected);
    }
}

fn spin(what: &str, so: impl Fn() -> bool) {
    let deadline = Instant::now() + HANG;
    while !so() {
        assert!(Instant::now() < deadline, "this never came: {what}");
        thread::yield_now();
    }
}

/// Submits a group that fails.
#[track_caller]
pub(crate) fn fails(queue: &Queue, why: &str) -> Event {
    let why = why.to_owned();
    queue.submit(|cg| cg.host_for(1, (), move |_, ()| panic!("{why}"))).expect("a group is taken")
}

/// Submits a group that adds one to each element.
#[track_caller]
pub(crate) fn bump(queue: &Queue, buffer: &Buffer<u32>) -> Event {
    let len = buffer.len();
    queue
        .submit(|cg| {
            let x = cg.read_write(buffer);
            cg.host_for(len, x, |item, x| x.set(item.id(0), x.get(item.id(0)).wrapping_add(1)))
        })
        .expect("a group is taken")
}

/// Submits a group that overwrites each element.
#[track_caller]
pub(crate) fn put(queue: &Queue, buffer: &Buffer<u32>, value: u32) -> Event {
    let len = buffer.len();
    queue
        .submit(|cg| {
            let x = cg.overwrite(buffer);
            cg.host_for(len, x, move |item, x| x.set(item.id(0), value))
        })
        .expect("a group is taken")
}

/// Submits a group that only reads the buffer, and hands on what it saw.
#[track_caller]
pub(crate) fn look(queue: &Queue, buffer: &Buffer<u32>) -> (Event, Arc<Mutex<Vec<u32>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    let event = queue
        .submit(|cg| {
            let x = cg.read(buffer);
            cg.host_for(1, x, move |_, x| {
                *into.lock().expect("one item") = (0..x.len()).map(|i| x.get(i)).collect();
            })
        })
        .expect("a group is taken");
    (event, seen)
}

/// What the buffer holds now.
#[track_caller]
pub(crate) fn contents(buffer: &Buffer<u32>) -> Vec<u32> {
    wait(buffer.host_read()).expect("the data is well").to_vec()
}
