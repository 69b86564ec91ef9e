//! Products of tiles for which a device has room for all, half or a quarter.

use std::time::Instant;

use windlass::prelude::*;
use windlass::{Residency, Stats};

use crate::table::Table;

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    /// `c += a * b`, of square tiles.
    #[kernel]
    pub(super) fn add_product(a: &View<f32, 2>, b: &View<f32, 2>, c: &mut View<f32, 2>) {
        let (i, j) = (global_id(0), global_id(1));
        let mut sum = c[i][j];
        for k in 0..a.extent(1) {
            sum += a[i][k] * b[k][j];
        }
        c[i][j] = sum;
    }
}

/// Tiles of a matrix, and elements of a tile, in each direction.
const TILES: usize = 6;
const SIDE: usize = 256;
const ALL: usize = 3 * TILES * TILES;
const BYTES: usize = SIDE * SIDE * 4;

/// What a product took, from the first submission to the last end, and what was moved for it.
fn product(device: &Device, room: usize) -> (f64, Stats) {
    let runtime = Runtime::builder().device_memory(room * BYTES).residency(Residency::Evictable).build();
    let queue = Queue::builder().runtime(&runtime).blocking_build().expect("it was there before");
    assert_eq!(queue.device().name(), device.name(), "the same device by default");
    let tile =
        |value: f32| Buffer::with_shape([SIDE, SIDE], vec![value; SIDE * SIDE]).expect("it has so many");
    let tiles = |value: f32| (0..TILES * TILES).map(|_| tile(value)).collect::<Vec<Buffer<f32, 2>>>();
    let (a, b, c) = (tiles(1.0), tiles(2.0), tiles(0.0));
    let start = Instant::now();
    let mut events = Vec::new();
    for at in 0..TILES * TILES * TILES {
        let (i, j, k) = (at / (TILES * TILES), at / TILES % TILES, at % TILES);
        let (a, b, c) = (&a[i * TILES + k], &b[k * TILES + j], &c[i * TILES + j]);
        let call = |cg: &CommandGroup<'_>| {
            cg.parallel_for([SIDE, SIDE], kernels::add_product(cg.read(a), cg.read(b), cg.read_write(c)))
        };
        events.push(queue.submit(call).expect("nothing to refuse"));
    }
    events.into_iter().for_each(|event| event.blocking_wait().expect("each fits"));
    let took = start.elapsed().as_nanos() as f64;
    let last = c[TILES * TILES - 1].host_read().blocking_wait().expect("it was written");
    assert_eq!(last[[SIDE - 1, SIDE - 1]], 2.0 * (TILES * SIDE) as f32);
    (took, runtime.stats())
}

pub(super) fn rows(device: &Device, table: &mut Table, scale: usize) {
    product(device, ALL);
    for (what, room) in [("half", ALL / 2), ("a quarter", ALL / 4)] {
        let (mut ours, mut base, mut moved) = (f64::MAX, f64::MAX, 0);
        for _ in 0..scale.max(3) {
            let (took, stats) = product(device, room);
            (ours, moved) = (ours.min(took), stats.bytes_moved as usize / BYTES);
            base = base.min(product(device, ALL).0);
        }
        let what = format!(
            "{} products of {ALL} tiles of {} KiB with room for {what}, {moved} moved, beside room for all",
            TILES * TILES * TILES,
            BYTES >> 10
        );
        table.cost(&what, ours, Some(base), "≤ 1.2x");
    }
}
