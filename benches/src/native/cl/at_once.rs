//! Kernels and copies, each in a queue of its own, which depend on nothing: whether the driver has them run at once.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::time::Instant;

use super::{ALLOC_HOST, FALSE, Handle, READ_WRITE, Raw, TRUE};

/// Each item takes as long as it is told.
const WORK: &CStr = c"
__kernel void work(__global uint *v, __global const uint *w, uint turns) {
    uint x = v[get_global_id(0)] + w[get_global_id(0)];
    for (uint i = 0; i < turns; i++) x = x * 1664525u + 1013904223u;
    v[get_global_id(0)] = x;
}";

/// Tiles that each queue has for itself, by turns: with one it would be at work in the processors' caches alone.
const TILES: usize = 16;

/// What is to be done at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Launches one after another, of so many turns.
    pub(crate) launches: usize,
    pub(crate) turns: u32,
    /// Copies of a tile to the device, and back.
    pub(crate) up: usize,
    pub(crate) down: usize,
}

/// A queue for launches and one for copies each way, each with tiles of its own, and the host's side of two pinned.
pub(crate) struct Queues {
    raw: Raw,
    kernel: Handle,
    queues: [Handle; 3],
    tiles: [[Handle; TILES]; 3],
    host: [[*mut c_void; TILES]; 2],
    items: usize,
}

impl Queues {
    /// With tiles of so many numbers.
    pub(crate) fn new(raw: Raw, items: usize) -> Self {
        let (api, bytes) = (&raw.api, items * 4);
        // SAFETY: every pointer is null where the header allows that, or to a variable of ours of the size that is passed.
        unsafe {
            let mut code = 0;
            let program = (api.create_program)(raw.context, 1, &WORK.as_ptr(), null(), &mut code);
            assert_eq!((api.build)(program, 0, null(), null(), null(), null()), 0, "the kernel builds");
            let kernel = (api.create_kernel)(program, c"work".as_ptr(), &mut code);
            assert_eq!(code, 0, "the kernel is made");
            let queue = || {
                let mut code = 0;
                let queue = (api.create_queue)(raw.context, raw.device, 0, &mut code);
                assert_eq!(code, 0, "a queue is made");
                queue
            };
            let tile = |flags| {
                let mut code = 0;
                let tile = (api.create_buffer)(raw.context, flags, bytes, null_mut(), &mut code);
                assert_eq!(code, 0, "a tile is made");
                tile
            };
            let pinned = || {
                let (both_ways, mut code) = (3, 0);
                let (tile, queue, none) = (tile(READ_WRITE | ALLOC_HOST), raw.queue, null());
                let address =
                    (api.map)(queue, tile, TRUE, both_ways, 0, bytes, 0, none, null_mut(), &mut code);
                assert_eq!(code, 0, "host memory is pinned");
                address
            };
            let (queues, host) =
                ([queue(), queue(), queue()], [[(); TILES]; 2].map(|all| all.map(|()| pinned())));
            let tiles = [[READ_WRITE; TILES]; 3].map(|all| all.map(tile));
            Queues { kernel, queues, tiles, host, items, raw }
        }
    }

    /// Nanoseconds for the launches, the copies, or both at once.
    pub(crate) fn run(&self, load: Load, launches: bool, copies: bool) -> f64 {
        let (api, bytes, mut code) = (&self.raw.api, self.items * 4, 0);
        let [compute, up, down] = self.queues;
        let all = |call: unsafe extern "C" fn(Handle) -> i32| {
            // SAFETY: the queues are live.
            self.queues.iter().fold(0, |code, queue| code | unsafe { call(*queue) })
        };
        let start = Instant::now();
        // By turns, a few at a time, so that no queue waits for another to be filled.
        for at in 0..load.launches.max(load.up).max(load.down) {
            if launches && at < load.launches {
                code |= self.launch(compute, at, load.turns);
            }
            // SAFETY: both sides have so many bytes, which no other command uses but for those of the same queue.
            unsafe {
                if copies && at < load.up {
                    let (tile, host) = (self.tiles[1][at % TILES], self.host[0][at % TILES]);
                    code |= (api.write)(up, tile, FALSE, 0, bytes, host, 0, null(), null_mut());
                }
                if copies && at < load.down {
                    let (tile, host) = (self.tiles[2][at % TILES], self.host[1][at % TILES]);
                    code |= (api.read)(down, tile, FALSE, 0, bytes, host, 0, null(), null_mut());
                }
            }
            if at % 8 == 7 {
                code |= all(api.flush);
            }
        }
        code |= all(api.flush) | all(api.finish);
        assert_eq!(code, 0, "nothing fails");
        start.elapsed().as_nanos() as f64
    }

    /// One that changes a tile, and reads another one.
    fn launch(&self, queue: Handle, at: usize, turns: u32) -> i32 {
        let (api, items) = (&self.raw.api, self.items);
        let [changed, read] = [at, at + TILES / 2].map(|at| &raw const self.tiles[0][at % TILES]);
        // SAFETY: the arguments are those of the kernel, and read during the calls; its memory has so many items.
        unsafe {
            (api.set_arg)(self.kernel, 0, size_of::<Handle>(), changed.cast())
                | (api.set_arg)(self.kernel, 1, size_of::<Handle>(), read.cast())
                | (api.set_arg)(self.kernel, 2, 4, (&raw const turns).cast())
                | (api.launch)(queue, self.kernel, 1, null(), &items, null(), 0, null(), null_mut())
        }
    }
}
