//! The backend of `docs/backend.md`, put through what a backend has to pass: the suite, random programs beside the host, and
//! what the contract says of loss and of being given up.

#[path = "example_backend/backend.rs"]
mod backend;
#[path = "example_backend/device.rs"]
mod device;
#[path = "example_backend/lane.rs"]
mod lane;
#[path = "example_backend/memory.rs"]
mod memory;
#[path = "example_backend/work.rs"]
mod work;

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};

use futures_lite::future::block_on;
use windlass::{Buffer, Context, Queue, Runtime};
use windlass_backend::{
    Backend, BackendError, Command, ContextSink, ContextSpec, DeviceKey, Group, LaneNumber, LaneSink,
    LaneSpec, Launch, MemoryIndex, MemoryObject, Point, Verdict,
};
use windlass_conformance::programs::{World, run as run_programs};
use windlass_conformance::{Kernels, PATIENCE, Subject, run};
use windlass_kernel::{Block, HostBody, Kernel, KernelImage, LaunchRange};

use backend::{Example, ID};

fn open(runtime: &Runtime) -> Subject {
    let device = Subject::find(runtime, |device| *device.backend() == ID).expect("it is always there");
    Subject::open("example", &device, Kernels::new()).expect("it opens")
}

/// What the device is not expected to do, each with its reason.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("rendezvous_of_two_queues", "one thread runs all kernels, one after the other"),
    ("rendezvous_of_two_readers", "one thread runs all kernels, one after the other"),
    ("rendezvous_of_two_ranges", "one thread runs all kernels, one after the other"),
    ("build_error_tells_kernel_and_log", "a host image is built by rustc, and cannot fail to build"),
];

#[test]
fn the_example_conforms() {
    let runtime = Runtime::builder().backend(Example::new()).build();
    run(&open(&runtime)).compare(UNSUPPORTED).unwrap_or_else(|text| panic!("{text}"));
}

#[test]
fn random_programs_on_the_example() {
    let runtime = Runtime::builder().backend(Example::new()).build();
    let example = Subject::find(&runtime, |device| *device.backend() == ID).expect("it is always there");
    let own = Context::blocking_open(std::slice::from_ref(&example)).expect("a second context opens");
    let queue = |builder: windlass::QueueBuilder| builder.handler(|_| {}).blocking_build().expect("it opens");
    let places = vec![
        queue(Queue::builder().device(example.clone())),
        queue(Queue::builder().device(example.clone()).in_order()),
        queue(Queue::builder().context(&own)),
        queue(Queue::builder().device(runtime.host().expect("the host is built in"))),
    ];
    let world = World { places, kernels: Kernels::new(), stays: Some(600) };
    let tally = run_programs(&world, 0..500).unwrap_or_else(|failure| panic!("{failure}"));
    let stats = runtime.stats();
    // If the programs did nothing, this test would say nothing.
    assert!(tally.steps > 5_000 && tally.failed > 500, "{tally:?}");
    assert!(stats.transfers > 1_000, "{stats:?}");
}

#[test]
fn an_unplugged_example_is_lost_and_opened_anew() {
    let example = Example::new();
    let plug = example.plug();
    let runtime = Runtime::builder().only_given_backends().backend(example).build();
    let subject = open(&runtime);
    let data = Buffer::from(vec![1_u32; 64]);
    let fill = |queue: &Queue| queue.submit(|cg| cg.fill(&cg.overwrite(&data), 6));
    fill(&subject.home).and_then(|done| done.blocking_wait()).expect("the device is there");
    plug.pull();
    // If the thread has not come to the loss yet, the group is fed, and its verdict tells.
    let error = fill(&subject.home).and_then(|done| done.blocking_wait()).expect_err("it is gone");
    assert!(error.is_device_lost() && error.to_string().contains("unplugged"), "{error}");

    let again =
        Context::blocking_open(std::slice::from_ref(&subject.device)).expect("it is plugged in again");
    let queue = Queue::blocking_in_context(&again, &subject.device).expect("a queue opens");
    fill(&queue).and_then(|done| done.blocking_wait()).expect("the new context is well");
    assert_eq!(data.host_read().blocking_wait().expect("it was overwritten").to_vec(), [6; 64]);
}

/// A sink that passes on what it is told.
struct Tells<T>(Mutex<Sender<T>>);

impl<T> Tells<T> {
    fn new() -> (Arc<Self>, Receiver<T>) {
        let (tell, told) = channel();
        (Arc::new(Tells(Mutex::new(tell))), told)
    }

    fn tell(&self, what: T) {
        // The test may have heard enough.
        let _ = self.0.lock().expect("nobody panics with it").send(what);
    }
}

impl LaneSink for Tells<Verdict> {
    fn passed(&self, verdict: Verdict) {
        self.tell(verdict);
    }
}

impl ContextSink for Tells<BackendError> {
    fn lost(&self, error: BackendError) {
        self.tell(error);
    }
}

#[test]
fn an_idle_context_tells_its_loss_once() {
    let example = Example::new();
    let (sink, told) = Tells::new();
    let spec = ContextSpec::new(vec![DeviceKey::new("example-0")], sink);
    let context = block_on(example.open(spec)).expect("it opens");
    example.plug().pull();
    example.plug().pull();
    assert!(told.recv_timeout(PATIENCE).expect("it is told").is_lost());
    let refused = context.allocate(MemoryIndex::Own(0), MemoryObject::Buffer { bytes: 4 });
    assert!(matches!(refused, Err(BackendError::Lost(_))), "{refused:?}");
    drop((context, example));
    assert_eq!(told.recv_timeout(PATIENCE).err(), Some(RecvTimeoutError::Disconnected), "it was told once");
}

/// A kernel that says when it runs, and then hangs until it is let go.
struct Hangs {
    runs: Mutex<Sender<()>>,
    let_go: Mutex<Receiver<()>>,
}

impl HostBody for Hangs {
    fn run(&self, _: Block<'_>) {
        self.runs.lock().expect("no test panics with it").send(()).expect("the test listens");
        let _ = self.let_go.lock().expect("no test panics with it").recv();
    }
}

#[test]
fn an_abandoned_example_reports_nothing_and_takes_nothing() {
    let example = Example::new();
    let spec = ContextSpec::new(vec![DeviceKey::new("example-0")], Arc::new(()));
    let context = block_on(example.open(spec)).expect("it opens");
    let (sink, heard) = Tells::new();
    let lane = context.open_lane(LaneSpec::new(0, LaneNumber(0)), sink).expect("a lane opens");
    // SAFETY: no group here names memory.
    let feed = |point, commands| unsafe {
        lane.feed(Group::new(Point(point), &[], commands).report(true).timed(true))
    };
    feed(1, Default::default()).expect("a barrier is taken");
    let verdict = heard.recv_timeout(PATIENCE).expect("it is reported");
    assert_eq!((verdict.upto, verdict.failed.len(), verdict.times.len()), (Point(1), 0, 1));

    let (runs, running) = channel();
    let (let_go, wait) = channel();
    let hangs = Hangs { runs: Mutex::new(runs), let_go: Mutex::new(wait) };
    let kernel = Kernel::new("hangs", [], [KernelImage::host(Arc::new(hangs))]);
    let built = block_on(context.build(0, &kernel, &kernel.images()[0])).expect("a body is built");
    let launch = || [Command::Launch(Launch::new(&*built, 1.range(), &[]))].into_iter().collect();
    feed(2, launch()).expect("it is taken");
    feed(3, launch()).expect("it is taken");
    running.recv_timeout(PATIENCE).expect("the first of them runs");

    context.abandon();
    let refused = feed(4, Default::default());
    assert!(matches!(refused, Err(BackendError::Lost(_))), "{refused:?}");
    // None of this may wait for the kernel.
    block_on(context.close());
    drop((built, kernel, lane, context, example));
    drop(let_go);
    assert_eq!(
        heard.recv_timeout(PATIENCE).err(),
        Some(RecvTimeoutError::Disconnected),
        "something was reported"
    );
    assert_eq!(
        running.recv_timeout(PATIENCE).err(),
        Some(RecvTimeoutError::Disconnected),
        "what had not started has run"
    );
}

#[test]
fn the_examples_memory_is_counted_and_bounded() {
    let example = Example::new();
    let spec = ContextSpec::new(vec![DeviceKey::new("example-0")], Arc::new(()));
    let context = block_on(example.open(spec)).expect("it opens");
    let own = MemoryIndex::Own(0);
    let allocate = |bytes| context.allocate(own, MemoryObject::Buffer { bytes });
    let used = || context.usage(own).map(|usage| (usage.used, usage.total));
    let half = allocate(128 << 20).expect("there is room");
    assert_eq!(used(), Some((128 << 20, 256 << 20)));
    let refused = allocate(129 << 20);
    assert!(matches!(refused, Err(BackendError::OutOfMemory { bytes }) if bytes == 129 << 20), "{refused:?}");
    drop(half);
    assert_eq!(used(), Some((0, 256 << 20)));
}
