//! A runtime on scripted devices, driven by hand.

use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};

use windlass::image::Kernel;
use windlass::prelude::*;
use windlass::{AsyncError, BackendError, Error, KernelCall, Result, RuntimeBuilder};
use windlass_faulty::{Faulty, FaultyBuilder, FaultyControl, Memory, inside_poll, inside_submit, kernels};

pub(crate) static STEP: LazyLock<Kernel> = LazyLock::new(kernels::step);
pub(crate) static SET: LazyLock<Kernel> = LazyLock::new(kernels::set);
pub(crate) static BLEND: LazyLock<Kernel> = LazyLock::new(kernels::blend);
pub(crate) static PANICS: LazyLock<Kernel> = LazyLock::new(kernels::panics);

/// A runtime, what its devices hang by, and what its handler was told.
pub(crate) struct Rig {
    pub(crate) control: FaultyControl,
    pub(crate) runtime: Runtime,
    told: Arc<Mutex<Vec<AsyncError>>>,
}

/// One device with memory of its own, and one lane: everything in a fixed order.
pub(crate) fn single() -> Rig {
    Rig::new(Faulty::builder().lanes(1))
}

/// Two devices with memories of their own.
pub(crate) fn pair() -> Rig {
    Rig::new(Faulty::builder().device(Memory::Own).device(Memory::Own))
}

impl Rig {
    pub(crate) fn new(builder: FaultyBuilder) -> Self {
        Rig::with(builder, |runtime| runtime)
    }

    /// With more said about the runtime.
    pub(crate) fn with(builder: FaultyBuilder, more: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Self {
        let faulty = builder.build();
        let control = faulty.control();
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = told.clone();
        let runtime = Runtime::builder()
            .backend(faulty)
            .only_given_backends()
            .manual()
            .handler(move |errors| heard.lock().unwrap().extend_from_slice(errors));
        let runtime = more(runtime).build();
        Rig { control, runtime, told }
    }

    pub(crate) fn devices(&self) -> Vec<Device> {
        self.finish(self.runtime.devices()).unwrap()
    }

    /// A queue on a device, in the runtime's own context of it.
    pub(crate) fn queue(&self, device: usize) -> Queue {
        let device = self.devices().swap_remove(device);
        Queue::builder().runtime(&self.runtime).device(device).blocking_build().unwrap()
    }

    /// Everything goes on until nothing more happens by itself.
    pub(crate) fn settle(&self) {
        while self.control.run_all() + self.runtime.run_until_stalled() > 0 {}
    }

    /// Polls a future, everything else going on in between, until it is ready.
    pub(crate) fn finish<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        for _ in 0..1000 {
            if let Poll::Ready(value) = poll(future.as_mut()) {
                return value;
            }
            self.settle();
        }
        panic!("stalled: {:?}\n{:?}", self.runtime.stats(), self.control.audit());
    }

    pub(crate) fn values(&self, buffer: &Buffer<u32>) -> Vec<u32> {
        self.finish(buffer.host_read()).unwrap().to_vec()
    }

    /// What the runtime's handler was told so far.
    pub(crate) fn told(&self) -> Vec<AsyncError> {
        self.settle();
        self.told.lock().unwrap().clone()
    }

    /// The end: nothing is left in the runtime, and, once it is gone, nothing of its devices.
    pub(crate) fn end(self) {
        self.settle();
        let stats = self.runtime.stats();
        let left =
            (stats.live_nodes, stats.live_links, stats.live_buffers, stats.live_tasks, stats.frees_waiting);
        assert_eq!(left, (0, 0, 0, 0, 0), "nodes, links, buffers, tasks, frees");
        let Rig { control, runtime, .. } = self;
        drop(runtime);
        assert_clean(&control);
    }
}

/// Nothing native is left, and the runtime kept the contract.
pub(crate) fn assert_clean(control: &FaultyControl) {
    assert_eq!(control.breaches(), Vec::<String>::new());
    let audit = control.audit();
    assert_eq!((audit.live(), audit.bytes, audit.in_flight), (0, 0, 0), "{audit:?}");
    assert_eq!(audit.calls_in_poll, 0, "native calls inside a poll");
    assert_eq!(audit.blocking_calls, 0, "calls that a kernel may hold up, inside a poll or a submission");
}

pub(crate) fn poll<T>(future: std::pin::Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Poll<T> {
    inside_poll(|| future.poll(&mut TaskContext::from_waker(Waker::noop())))
}

/// The outcome of an event that must have one by now.
#[track_caller]
pub(crate) fn outcome(event: &Event) -> Result<()> {
    let mut event = event.clone();
    match poll(std::pin::Pin::new(&mut event)) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the event is still pending"),
    }
}

#[track_caller]
pub(crate) fn error(event: &Event) -> Error {
    outcome(event).unwrap_err()
}

/// `x = x * 31 + k` over the whole buffer.
#[track_caller]
pub(crate) fn step(queue: &Queue, x: &Buffer<u32>, k: u32) -> Event {
    launch(queue, &STEP, x, k)
}

/// A kernel of one buffer, which it reads and writes, and a value.
#[track_caller]
pub(crate) fn launch(queue: &Queue, kernel: &Kernel, x: &Buffer<u32>, k: u32) -> Event {
    inside_submit(|| queue.submit(|cg| call(cg, kernel, x, k))).unwrap()
}

/// The commands of [`launch`].
pub(crate) fn call(cg: &CommandGroup<'_>, kernel: &Kernel, x: &Buffer<u32>, k: u32) -> Result<()> {
    cg.parallel_for(x.len(), KernelCall::new(kernel).buffer(cg.read_write(x)).value(k))
}

/// `x = index * 7 + k` over the whole buffer; what was there is not wanted.
#[track_caller]
pub(crate) fn set(queue: &Queue, x: &Buffer<u32>, k: u32) -> Event {
    let group = |cg: &CommandGroup<'_>| {
        cg.parallel_for(x.len(), KernelCall::new(&SET).buffer(cg.overwrite(x)).value(k))
    };
    inside_submit(|| queue.submit(group)).unwrap()
}

/// `x = x * 31 + y + k`.
#[track_caller]
pub(crate) fn blend(queue: &Queue, x: &Buffer<u32>, y: &Buffer<u32>, k: u32) -> Event {
    let group = |cg: &CommandGroup<'_>| {
        let call = KernelCall::new(&BLEND).buffer(cg.read_write(x)).buffer(cg.read(y)).value(k);
        cg.parallel_for(x.len(), call)
    };
    inside_submit(|| queue.submit(group)).unwrap()
}

/// What a number of steps make of a value.
pub(crate) fn stepped(x: u32, ks: impl IntoIterator<Item = u32>) -> u32 {
    ks.into_iter().fold(x, kernels::stepped)
}

/// An error of a driver.
pub(crate) fn native(message: &str) -> BackendError {
    BackendError::Native { call: "scripted", code: -5, message: message.to_owned() }
}

/// A future that is done when it is told to, and counts how often it was polled and whether it was dropped.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    state: Arc<Mutex<OutsideState>>,
}

#[derive(Default)]
struct OutsideState {
    result: Option<std::result::Result<(), String>>,
    waker: Option<Waker>,
    dropped: bool,
}

impl Outside {
    pub(crate) fn future(&self) -> impl Future<Output = std::result::Result<(), String>> + Send + 'static {
        struct Waiting(Arc<Mutex<OutsideState>>);
        impl Drop for Waiting {
            fn drop(&mut self) {
                self.0.lock().unwrap().dropped = true;
            }
        }
        let waiting = Waiting(self.state.clone());
        std::future::poll_fn(move |cx| {
            let mut state = waiting.0.lock().unwrap();
            state.waker = Some(cx.waker().clone());
            state.result.clone().map_or(Poll::Pending, Poll::Ready)
        })
    }

    pub(crate) fn resolve(&self, result: std::result::Result<(), &str>) {
        let mut state = self.state.lock().unwrap();
        state.result = Some(result.map_err(str::to_owned));
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn was_dropped(&self) -> bool {
        self.state.lock().unwrap().dropped
    }
}
