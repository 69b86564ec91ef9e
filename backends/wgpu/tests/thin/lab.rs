//! One device on the bench: a lane, a sink that collects verdicts, and kernels to run.

use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::time::Duration;

use futures::executor::block_on;
use smallvec::{SmallVec, smallvec};
use windlass_backend::{
    Allocation, Arg, Backend, BackendError, BufferArg, BuiltKernel, Command, Context, ContextSpec, CopyBox,
    Group, HostMemory, Lane, LaneNumber, LaneSink, LaneSpec, Launch, MemoryIndex, MemoryObject, Point,
    Region, Verdict,
};
use windlass_kernel::SlotAccess::{Read, ReadWrite};
use windlass_kernel::{DeviceCopy, Kernel, KernelImage, Range, Slot, SlotAccess, Word};
use windlass_wgpu::Wgpu;

/// How long a report may take before it counts as never coming.
const NEVER: Duration = Duration::from_secs(120);

/// Collects verdicts; arms a point from inside `passed` where a test asks for it.
#[derive(Default)]
pub(crate) struct Sink {
    pub(crate) verdicts: Mutex<Vec<Verdict>>,
    told: Condvar,
    pub(crate) arm_again: Mutex<Option<Point>>,
    lane: OnceLock<Weak<dyn Lane>>,
}

impl LaneSink for Sink {
    fn passed(&self, verdict: Verdict) {
        let again = self.arm_again.lock().unwrap().take();
        if let (Some(point), Some(lane)) = (again, self.lane.get().and_then(Weak::upgrade)) {
            lane.arm(point);
        }
        self.verdicts.lock().unwrap().push(verdict);
        self.told.notify_all();
    }
}

impl Sink {
    pub(crate) fn count(&self) -> usize {
        self.verdicts.lock().unwrap().len()
    }

    pub(crate) fn wait_for(&self, done: impl Fn(&[Verdict]) -> bool) -> Vec<Verdict> {
        let verdicts = self.verdicts.lock().unwrap();
        let (verdicts, late) = self.told.wait_timeout_while(verdicts, NEVER, |v| !done(v)).unwrap();
        assert!(!late.timed_out(), "a report never came; there are {verdicts:?}");
        verdicts.clone()
    }

    /// Waits until `point` was reported, and returns why it failed, if it did.
    pub(crate) fn outcome(&self, point: Point) -> Result<(), BackendError> {
        let verdicts = self.wait_for(|v| v.iter().any(|v| v.upto >= point));
        let failed = verdicts.iter().flat_map(|v| &v.failed).find(|f| f.first <= point && point <= f.last);
        failed.map_or(Ok(()), |failed| Err(failed.error.clone()))
    }
}

/// An open device with one lane.
pub(crate) struct Lab {
    pub(crate) context: Arc<dyn Context>,
    pub(crate) lane: Arc<dyn Lane>,
    pub(crate) sink: Arc<Sink>,
    last: Mutex<u64>,
}

impl Drop for Lab {
    /// As the contract has it. Whoever does not close a context leaks its device.
    fn drop(&mut self) {
        block_on(self.context.close());
    }
}

/// A device, or the loud end of a test on a machine without one.
pub(crate) fn lab() -> Option<Lab> {
    let context = open()?;
    let sink = Arc::new(Sink::default());
    let lane =
        context.open_lane(LaneSpec::new(0, LaneNumber(0)), sink.clone()).expect("the first lane opens");
    let _ = sink.lane.set(Arc::downgrade(&lane));
    Some(Lab { context, lane, sink, last: Mutex::new(0) })
}

/// The first device's context.
pub(crate) fn open() -> Option<Arc<dyn Context>> {
    let backend = Wgpu::new();
    let found = block_on(backend.discover());
    if let Err(why) = &found {
        let required = ["CI", "WINDLASS_REQUIRE_DRIVERS"].iter().any(|name| std::env::var_os(name).is_some());
        assert!(!required, "a Vulkan driver is required here: {why}");
        eprintln!("\n*** SKIPPED, nothing was tested: {why} ***\n");
        return None;
    }
    let key = found.into_iter().flatten().flat_map(|p| p.devices).map(|info| info.key).next()?;
    let spec = ContextSpec::new(vec![key], Arc::new(()));
    Some(block_on(backend.open(spec)).expect("a device that was just listed opens"))
}

impl Lab {
    pub(crate) fn allocate(&self, bytes: usize) -> Arc<dyn Allocation> {
        self.context.allocate(MemoryIndex::Own(0), MemoryObject::Buffer { bytes }).expect("there is room")
    }

    pub(crate) fn upload<T: DeviceCopy>(&self, data: &[T]) -> Arc<dyn Allocation> {
        let host = HostMemory::from_vec(data.to_vec());
        let memory = self.allocate(host.bytes());
        self.run(smallvec![line(&host, &*memory)]).expect("a copy to the device");
        memory
    }

    pub(crate) fn download<T: DeviceCopy>(&self, memory: &dyn Allocation) -> Vec<T> {
        let host = HostMemory::from_vec(vec![T::zeroed(); memory.bytes() / size_of::<T>()]);
        self.run(smallvec![line(memory, &host)]).expect("a copy from the device");
        host.try_into_vec().expect("the layout is the vector's own")
    }

    /// Feeds a group without flushing.
    pub(crate) fn feed(&self, commands: SmallVec<[Command<'_>; 1]>) -> Result<Point, BackendError> {
        let mut last = self.last.lock().unwrap();
        *last += 1;
        let group = Group::new(Point(*last), &[], commands);
        // SAFETY: the tests keep the memory of their commands until they have waited for the point.
        unsafe { self.lane.feed(group) }.map(|()| Point(*last))
    }

    /// Flushes, and waits for the outcome of a point that was fed.
    pub(crate) fn end(&self, point: Point) -> Result<(), BackendError> {
        self.lane.flush();
        self.lane.arm(point);
        self.sink.outcome(point)
    }

    pub(crate) fn run(&self, commands: SmallVec<[Command<'_>; 1]>) -> Result<(), BackendError> {
        self.end(self.feed(commands)?)
    }

    pub(crate) fn build(&self, kernel: &Kernel) -> Result<Arc<dyn BuiltKernel>, BackendError> {
        block_on(self.context.build(0, kernel, &kernel.images()[0]))
    }
}

pub(crate) fn line<'a>(from: &'a dyn Allocation, to: &'a dyn Allocation) -> Command<'a> {
    let region = Region::line(0, from.bytes());
    Command::Copy(CopyBox::new((from, region), (to, region)))
}

pub(crate) fn copy<'a>(from: (&'a dyn Allocation, Region), to: (&'a dyn Allocation, Region)) -> Command<'a> {
    Command::Copy(CopyBox::new((from.0, from.1), (to.0, to.1)))
}

pub(crate) fn words(memory: &dyn Allocation, first: usize, count: usize, access: SlotAccess) -> Arg<'_> {
    Arg::Buffer(BufferArg::new(memory, Region::line(first * 4, count * 4), 4, access, Word::B4))
}

pub(crate) fn launch<'a>(kernel: &'a Arc<dyn BuiltKernel>, range: Range, args: &'a [Arg<'a>]) -> Command<'a> {
    Command::Launch(Launch::new(&**kernel, range, args))
}

/// `y[i] = a * x[i] + y[i]` over windows.
pub(crate) fn saxpy() -> Kernel {
    let text = "
        struct Args { x: u32, x_len: u32, y: u32, y_len: u32, e0: u32, e1: u32, e2: u32, a: f32 }
        @group(0) @binding(0) var<storage, read> x: array<f32>;
        @group(0) @binding(1) var<storage, read_write> y: array<f32>;
        @group(0) @binding(2) var<uniform> args: Args;
        @compute @workgroup_size(64)
        fn saxpy(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                 @builtin(local_invocation_id) local: vec3u) {
            let i = (group.y * groups.x + group.x) * 64 + local.x;
            if i >= args.e0 || i >= args.x_len || i >= args.y_len { return; }
            y[args.y + i] = args.a * x[args.x + i] + y[args.y + i];
        }";
    let slots = [Slot::Buffer(Read), Slot::Buffer(ReadWrite), Slot::Value(4)];
    Kernel::new("saxpy", slots, [KernelImage::wgsl("saxpy", text)])
}

/// Adds one to every word, `turns` times.
pub(crate) fn count() -> Kernel {
    let text = "
        struct Args { at: u32, len: u32, e0: u32, e1: u32, e2: u32, turns: u32 }
        @group(0) @binding(0) var<storage, read_write> data: array<u32>;
        @group(0) @binding(1) var<uniform> args: Args;
        @compute @workgroup_size(64)
        fn count(@builtin(workgroup_id) group: vec3u, @builtin(num_workgroups) groups: vec3u,
                 @builtin(local_invocation_id) local: vec3u) {
            let i = (group.y * groups.x + group.x) * 64 + local.x;
            if i >= args.e0 * args.e1 * args.e2 || i >= args.len { return; }
            for (var turn = 0u; turn < args.turns; turn++) { data[args.at + i] += 1; }
        }";
    let slots = [Slot::Buffer(ReadWrite), Slot::Value(4)];
    Kernel::new("count", slots, [KernelImage::wgsl("count", text)])
}

/// Steps every word through a generator that no compiler shortens, for long. lavapipe ends a loop after 65,535 turns,
/// so the turns are wide.
pub(crate) fn slow() -> Kernel {
    let step = "word = (word ^ (word >> 7)) * 1664525 + turn;".repeat(16);
    let text = format!(
        "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
        @compute @workgroup_size(64)
        fn slow(@builtin(global_invocation_id) at: vec3u) {{
            var word = at.x;
            for (var turn = 0u; turn < 60000; turn++) {{ {step} }}
            data[at.x] = word;
        }}"
    );
    Kernel::new("slow", [Slot::Buffer(ReadWrite)], [KernelImage::wgsl("slow", &text)])
}
