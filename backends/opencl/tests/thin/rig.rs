//! Devices to test on, and a sink that waits.

use std::env;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures::executor::block_on;
use smallvec::{SmallVec, smallvec};
use windlass_backend::{
    Allocation, Arg, Backend, BackendError, BuiltKernel, Command, CompletionStrategy, Context, ContextSpec,
    CopyBox, DeviceInfo, DeviceKind, Failed, Fill, Group, HostMemory, Lane, LaneNumber, LaneSink, LaneSpec,
    Launch, MemoryIndex, MemoryObject, Point, Region, Timed, Verdict, Wait,
};
use windlass_kernel::{Kernel, KernelImage, Range, Slot};
use windlass_opencl::OpenCl;
use windlass_opencl::native::QueueHandle;

/// Far longer than anything here takes, so that a lost verdict is an error and not a hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A sink that keeps all verdicts.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    verdicts: Mutex<Vec<Verdict>>,
    changed: Condvar,
}

impl LaneSink for Sink {
    fn passed(&self, verdict: Verdict) {
        self.verdicts.lock().unwrap().push(verdict);
        self.changed.notify_all();
    }
}

impl Sink {
    /// Waits for a verdict that covers `point`.
    pub(crate) fn wait(&self, point: Point) {
        self.wait_until(&format!("{point:?}"), |all| all.iter().any(|v| v.upto >= point));
    }

    /// Waits for this many verdicts.
    pub(crate) fn wait_for(&self, count: usize) {
        self.wait_until(&format!("verdict {count}"), |all| all.len() >= count);
    }

    fn wait_until(&self, what: &str, done: impl Fn(&[Verdict]) -> bool) {
        let verdicts = self.verdicts.lock().unwrap();
        let (verdicts, timeout) =
            self.changed.wait_timeout_while(verdicts, PATIENCE, |all| !done(all)).unwrap();
        assert!(!timeout.timed_out(), "{what} never came; verdicts so far: {:?}", *verdicts);
    }

    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        self.verdicts.lock().unwrap().clone()
    }

    /// All failures of all verdicts.
    pub(crate) fn failed(&self) -> Vec<Failed> {
        self.verdicts().into_iter().flat_map(|v| v.failed).collect()
    }
}

/// One device, opened alone.
pub(crate) struct Rig {
    pub(crate) context: Arc<dyn Context>,
    pub(crate) name: String,
    pub(crate) completion: CompletionStrategy,
}

/// A lane with its sink.
pub(crate) struct Line {
    pub(crate) lane: Arc<dyn Lane>,
    pub(crate) sink: Arc<Sink>,
}

/// Says that nothing was tested.
pub(crate) fn skipped(why: &dyn std::fmt::Display) {
    // Past the capturing of the test's output, so that it is seen.
    let _ = writeln!(io::stderr(), "\n##### SKIPPED, nothing was tested: {why} #####\n");
}

/// All devices of all drivers, each once for every way in which it can learn that work has ended, and processors once more with
/// memory of their own. Without a driver the tests have nothing to say, and say so.
pub(crate) fn rigs() -> Vec<Rig> {
    let backend = OpenCl::new();
    let platforms = match block_on(backend.discover()) {
        Ok(platforms) => platforms,
        Err(why) => {
            let required = ["CI", "WINDLASS_REQUIRE_DRIVERS"].iter().any(|name| env::var_os(name).is_some());
            assert!(!required, "this machine must have an OpenCL driver: {why}");
            skipped(&why);
            return Vec::new();
        }
    };
    let open = |(info, copies): (&DeviceInfo, bool)| {
        let spec = ContextSpec::new(vec![info.key.clone()], Arc::new(()));
        let backend = if copies { OpenCl::new().copying() } else { OpenCl::new() };
        let context = block_on(backend.open(spec)).expect("a discovered device opens");
        let offered = context.info().completions.clone();
        let name = format!("{}{}", info.name, if copies { ", copying" } else { "" });
        offered.into_iter().map(move |completion| Rig {
            context: context.clone(),
            name: format!("{name} ({completion})"),
            completion,
        })
    };
    let both = |info: &DeviceInfo| (info.kind == DeviceKind::Cpu).then_some(true).into_iter().chain([false]);
    let devices = platforms.iter().flat_map(|platform| &platform.devices);
    devices.flat_map(|info| both(info).map(move |copies| (info, copies))).flat_map(open).collect()
}

impl Rig {
    pub(crate) fn line(&self, number: u32) -> Line {
        self.open(LaneSpec::new(0, LaneNumber(number)))
    }

    /// A lane for groups that are to be timed.
    pub(crate) fn timed_line(&self, number: u32) -> Line {
        self.open(LaneSpec::new(0, LaneNumber(number)).timed(true))
    }

    /// A lane over a command queue of the program's own.
    pub(crate) fn line_over(&self, number: u32, queue: QueueHandle) -> Line {
        let sink = Arc::new(Sink::default());
        let spec = LaneSpec::new(0, LaneNumber(number)).completion(self.completion);
        let lane = self.context.adopt_lane(Box::new(queue), spec, sink.clone()).expect("it is a lane");
        Line { lane, sink }
    }

    fn open(&self, spec: LaneSpec) -> Line {
        let sink = Arc::new(Sink::default());
        let spec = spec.completion(self.completion);
        let lane = self.context.open_lane(spec, sink.clone()).expect("a lane opens");
        Line { lane, sink }
    }

    pub(crate) fn memory(&self, bytes: usize) -> Arc<dyn Allocation> {
        self.context.allocate(MemoryIndex::Own(0), MemoryObject::Buffer { bytes }).expect("there is room")
    }

    pub(crate) fn build(&self, kernel: &Kernel) -> Result<Arc<dyn BuiltKernel>, BackendError> {
        block_on(self.context.build(0, kernel, &kernel.images()[0]))
    }

    /// Memory that holds these bytes.
    pub(crate) fn upload(&self, line: &Line, point: u64, bytes: &[u8]) -> Arc<dyn Allocation> {
        let (memory, host) = (self.memory(bytes.len()), HostMemory::from_vec(bytes.to_vec()));
        let whole = Region::line(0, bytes.len());
        line.run(point, copy(&host, whole, &*memory, whole));
        memory
    }
}

impl Line {
    pub(crate) fn feed<'a>(
        &self,
        point: u64,
        waits: &'a [Wait],
        command: Command<'a>,
    ) -> Result<(), BackendError> {
        self.hand_over(Group::new(Point(point), waits, smallvec![command]))
    }

    pub(crate) fn feed_all(
        &self,
        point: u64,
        commands: SmallVec<[Command<'_>; 1]>,
    ) -> Result<(), BackendError> {
        self.hand_over(Group::new(Point(point), &[], commands))
    }

    pub(crate) fn hand_over(&self, group: Group<'_>) -> Result<(), BackendError> {
        // SAFETY: the tests keep the memory of their commands until they have waited for the point.
        unsafe { self.lane.feed(group) }
    }

    /// When the group at a point ran, which has been reported.
    pub(crate) fn time(&self, point: u64) -> Timed {
        let all = self.sink.verdicts().into_iter().flat_map(|verdict| verdict.times);
        all.into_iter().find(|timed| timed.point == Point(point)).expect("it was timed")
    }

    /// Arms a point, and waits for it.
    pub(crate) fn finish(&self, point: u64) {
        self.lane.flush();
        self.lane.arm(Point(point));
        self.sink.wait(Point(point));
    }

    /// Runs one command, which must succeed.
    pub(crate) fn run(&self, point: u64, command: Command<'_>) {
        self.feed(point, &[], command).expect("the command is fine");
        self.finish(point);
        assert!(self.sink.failed().is_empty(), "{:?}", self.sink.failed());
    }

    /// What the memory holds.
    pub(crate) fn download(&self, point: u64, memory: &dyn Allocation) -> Vec<u8> {
        let host = HostMemory::zeroed(memory.bytes()).expect("there is room");
        let whole = Region::line(0, memory.bytes());
        self.run(point, copy(memory, whole, &host, whole));
        bytes_of(&host)
    }
}

/// What host memory holds.
pub(crate) fn bytes_of(host: &dyn Allocation) -> Vec<u8> {
    let start = host.host_ptr().expect("it is host memory");
    // SAFETY: the memory is live and initialised, and the command that wrote it was reported.
    unsafe { std::slice::from_raw_parts(start.as_ptr(), host.bytes()) }.to_vec()
}

pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks(4).map(|word| u32::from_ne_bytes(word.try_into().unwrap())).collect()
}

pub(crate) fn copy<'a>(
    from: &'a dyn Allocation,
    from_region: Region,
    to: &'a dyn Allocation,
    to_region: Region,
) -> Command<'a> {
    Command::Copy(CopyBox::new((from, from_region), (to, to_region)))
}

pub(crate) fn fill<'a>(memory: &'a dyn Allocation, region: Region, pattern: &'a [u8]) -> Command<'a> {
    Command::Fill(Fill::new(memory, region, pattern))
}

pub(crate) fn launch<'a>(kernel: &'a dyn BuiltKernel, range: Range, args: &'a [Arg<'a>]) -> Command<'a> {
    Command::Launch(Launch::new(kernel, range, args))
}

/// A kernel of one image in OpenCL C.
pub(crate) fn kernel(entry: &str, slots: &[Slot], text: &str) -> Kernel {
    // SAFETY: the tests' kernels stay inside their arguments.
    let image = unsafe { KernelImage::opencl_c(entry, text) };
    Kernel::new(entry, slots.iter().copied(), [image])
}
