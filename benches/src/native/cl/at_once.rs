//! Kernels and copies, each in a queue of its own, which depend on nothing: whether the driver has them run at once.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::time::Instant;

use super::{ALLOC_HOST, FALSE, Handle, READ_WRITE, Raw, TRUE};

/// Each item takes as long as it is told.
const WORK: &CStr = c"
__kernel void work(__global uint *v, uint turns) {
    uint x = v[get_global_id(0)];
    for (uint i = 0; i < turns; i++) x = x * 1664525u + 1013904223u;
    v[get_global_id(0)] = x;
}";

/// What is to be done at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Launches one after another, of how many items and turns.
    pub(crate) launches: usize,
    pub(crate) items: usize,
    pub(crate) turns: u32,
    /// Copies of as many numbers as there are items, to the device and back.
    pub(crate) up: usize,
    pub(crate) down: usize,
}

/// Nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtOnce {
    pub(crate) launches: f64,
    pub(crate) copies: f64,
    pub(crate) both: f64,
}

/// A queue for launches and one for copies each way, each with memory of its own, and the host's side of it pinned.
struct Side<'r> {
    raw: &'r Raw,
    kernel: Handle,
    queues: [Handle; 3],
    tiles: [Handle; 3],
    host: [*mut c_void; 2],
    load: Load,
}

impl Raw {
    /// How long the launches, the copies, and both at once take: the least of so many times each.
    pub(crate) fn at_once(&self, load: Load, times: usize) -> AtOnce {
        let side = Side::new(self, load);
        let least =
            |launches, copies| (0..times).map(|_| side.run(launches, copies)).fold(f64::MAX, f64::min);
        // Memory is made and touched, and the kernel is made ready.
        side.run(true, true);
        AtOnce { launches: least(true, false), copies: least(false, true), both: least(true, true) }
    }
}

impl<'r> Side<'r> {
    fn new(raw: &'r Raw, load: Load) -> Self {
        let (api, bytes, mut code) = (&raw.api, load.items * 4, [0; 8]);
        // SAFETY: every pointer is null where the header allows that, or to a variable of ours of the size that is passed.
        unsafe {
            let program = (api.create_program)(raw.context, 1, &WORK.as_ptr(), null(), &mut code[0]);
            code[1] = (api.build)(program, 0, null(), null(), null(), null());
            let kernel = (api.create_kernel)(program, c"work".as_ptr(), &mut code[2]);
            let mut queue = || (api.create_queue)(raw.context, raw.device, 0, &mut code[3]);
            let queues = [queue(), queue(), queue()];
            let mut tile = |flags| (api.create_buffer)(raw.context, flags, bytes, null_mut(), &mut code[4]);
            let tiles = [tile(READ_WRITE), tile(READ_WRITE), tile(READ_WRITE)];
            let pinned = [tile(READ_WRITE | ALLOC_HOST), tile(READ_WRITE | ALLOC_HOST)];
            let both_ways = 3;
            let host = pinned.map(|pinned| {
                let (none, code) = (null(), &mut code[5]);
                (api.map)(raw.queue, pinned, TRUE, both_ways, 0, bytes, 0, none, null_mut(), code)
            });
            assert_eq!(code, [0; 8], "the kernel and its memory are made");
            Side { raw, kernel, queues, tiles, host, load }
        }
    }

    fn run(&self, launches: bool, copies: bool) -> f64 {
        let (api, bytes, mut code) = (&self.raw.api, self.load.items * 4, 0);
        let [compute, up, down] = self.queues;
        let start = Instant::now();
        // By turns, a few at a time, so that no queue waits for another to be filled.
        let most = self.load.launches.max(self.load.up).max(self.load.down);
        for at in 0..most {
            if launches && at < self.load.launches {
                code |= self.launch(compute);
            }
            // SAFETY: both sides have so many bytes, which no other command uses but for those of the same queue.
            unsafe {
                if copies && at < self.load.up {
                    let host = self.host[0];
                    code |= (api.write)(up, self.tiles[1], FALSE, 0, bytes, host, 0, null(), null_mut());
                }
                if copies && at < self.load.down {
                    let host = self.host[1];
                    code |= (api.read)(down, self.tiles[2], FALSE, 0, bytes, host, 0, null(), null_mut());
                }
                if at % 8 == 7 {
                    code |= self.queues.iter().fold(0, |code, queue| code | (api.flush)(*queue));
                }
            }
        }
        // SAFETY: the queues are live.
        code |= unsafe { self.queues.iter().fold(0, |code, queue| code | (api.flush)(*queue)) };
        // SAFETY: as above.
        code |= unsafe { self.queues.iter().fold(0, |code, queue| code | (api.finish)(*queue)) };
        assert_eq!(code, 0, "nothing fails");
        start.elapsed().as_nanos() as f64
    }

    fn launch(&self, queue: Handle) -> i32 {
        let (api, turns) = (&self.raw.api, self.load.turns);
        // SAFETY: the arguments are those of the kernel, and read during the calls; its memory has so many items.
        unsafe {
            (api.set_arg)(self.kernel, 0, size_of::<Handle>(), (&raw const self.tiles[0]).cast())
                | (api.set_arg)(self.kernel, 1, 4, (&raw const turns).cast())
                | (api.launch)(queue, self.kernel, 1, null(), &self.load.items, null(), 0, null(), null_mut())
        }
    }
}
