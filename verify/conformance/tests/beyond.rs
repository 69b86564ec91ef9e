//! Groups that were submitted together, and use more than the runtime may have of their device's memory.

#[path = "drivers/find.rs"]
mod find;

use std::future::poll_fn;
use std::task::Poll;

use futures::executor::block_on;
use windlass::prelude::*;
use windlass::{Residency, Runtime};

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    /// `c += a * b`, of square tiles.
    #[kernel]
    pub fn add_product(a: &View<u32, 2>, b: &View<u32, 2>, c: &mut View<u32, 2>) {
        let (i, j) = (global_id(0), global_id(1));
        let mut sum = c[i][j];
        for k in 0..a.extent(1) {
            sum += a[i][k] * b[k][j];
        }
        c[i][j] = sum;
    }

    #[kernel]
    pub fn add_one(x: &mut View<u32, 2>) {
        let (i, j) = (global_id(0), global_id(1));
        x[i][j] += 1;
    }
}

/// Tiles of a matrix, and elements of a tile, in each direction.
const TILES: usize = 4;
const SIDE: usize = 32;
const TILE_BYTES: usize = SIDE * SIDE * 4;

/// A queue on each driver that is here, in a runtime that may have so many bytes of it. Where there is none this says so, and in CI it is a
/// failure.
fn queues(bytes: usize, residency: Residency) -> Vec<Queue> {
    let runtime = || Runtime::builder().device_memory(bytes).residency(residency).build();
    let (one, other) = (runtime(), runtime());
    let devices = find::opencl(&one).into_iter().chain(find::wgpu(&other));
    devices.map(|device| Queue::builder().device(device).blocking_build().unwrap()).collect()
}

type Tiles = Vec<Buffer<u32, 2>>;

fn element(of: u32, row: usize, column: usize) -> u32 {
    (row as u32).wrapping_mul(31).wrapping_add(column as u32 * 7 + of) % 17
}

fn tiles(of: u32) -> Tiles {
    let tile = |at: usize| {
        let (top, left) = (at / TILES * SIDE, at % TILES * SIDE);
        let elements = (0..SIDE * SIDE).map(|i| element(of, top + i / SIDE, left + i % SIDE));
        Buffer::with_shape([SIDE, SIDE], elements.collect::<Vec<u32>>()).unwrap()
    };
    (0..TILES * TILES).map(tile).collect()
}

/// Submits all groups of a product before any is waited for.
fn multiply(queue: &Queue, a: &Tiles, b: &Tiles, c: &Tiles) -> Vec<Event> {
    let mut events = Vec::new();
    for at in 0..TILES * TILES * TILES {
        let (i, j, k) = (at / (TILES * TILES), at / TILES % TILES, at % TILES);
        events.push(add_product(queue, [&a[i * TILES + k], &b[k * TILES + j], &c[i * TILES + j]]));
    }
    events
}

fn add_product(queue: &Queue, [a, b, c]: [&Buffer<u32, 2>; 3]) -> Event {
    let call = |cg: &CommandGroup<'_>| {
        let call = kernels::add_product(cg.read(a), cg.read(b), cg.read_write(c));
        cg.parallel_for([SIDE, SIDE], call)
    };
    queue.submit(call).unwrap()
}

fn check(c: &Tiles) {
    let side = TILES * SIDE;
    for (row, column) in [(0, 0), (1, side - 1), (side / 2 + 3, side / 3), (side - 1, side - 1)] {
        let product = (0..side).fold(0_u32, |sum, k| sum + element(1, row, k) * element(2, k, column));
        let tile = c[row / SIDE * TILES + column / SIDE].host_read().blocking_wait().unwrap();
        assert_eq!(tile[[row % SIDE, column % SIDE]], product, "{row}, {column}");
    }
}

/// The same products come out with room for all tiles, for half and for a quarter of them. What has room for all moves each once.
#[test]
fn a_product_of_tiles_that_do_not_fit() {
    let all = 3 * TILES * TILES;
    for room in [all, all / 2, all / 4] {
        for queue in queues(room * TILE_BYTES, Residency::Evictable) {
            let (a, b, c) = (tiles(1), tiles(2), tiles(0));
            // All zeros.
            let zeros = |tile: &Buffer<u32, 2>| queue.submit(|cg| cg.fill(&cg.overwrite(tile), 0)).unwrap();
            c.iter().for_each(|tile| drop(zeros(tile)));
            let events = multiply(&queue, &a, &b, &c);
            events.iter().for_each(|event| event.blocking_wait().unwrap());
            let stats = queue.runtime().stats();
            check(&c);
            let (name, moved) = (queue.device().name().to_owned(), stats.bytes_moved as usize / TILE_BYTES);
            println!(
                "on {name}, room for {room} of {all} tiles: {moved} moved, {} swapped out",
                stats.evictions
            );
            match room == all {
                true => assert_eq!(stats.evictions, 0, "on {name}"),
                false => assert!(stats.evictions > 0, "on {name}"),
            }
        }
    }
}

/// All results are asked for before the groups have run, so that each tile has a host accessor that waits, and none is left whose place in
/// the heap is free.
#[test]
fn results_that_are_asked_for_first() {
    let all = 3 * TILES * TILES;
    for queue in queues(all / 3 * TILE_BYTES, Residency::Evictable) {
        let (a, b, c) = (tiles(1), tiles(2), tiles(0));
        // Each changes, so that it is only on the device.
        let add = |tile: &Buffer<u32, 2>| {
            let add =
                |cg: &CommandGroup<'_>| cg.parallel_for([SIDE, SIDE], kernels::add_one(cg.read_write(tile)));
            queue.submit(add).unwrap()
        };
        let tiles: Vec<&Buffer<u32, 2>> = a.iter().chain(&b).chain(&c).collect();
        let mut events = Vec::new();
        for _ in 0..2 {
            events.extend(tiles.iter().map(|tile| add(tile)));
        }
        block_on(async {
            let mut reads: Vec<_> = tiles.iter().map(|tile| Box::pin(tile.host_read())).collect();
            let mut found = Vec::new();
            for read in &mut reads {
                found.push(poll_fn(|cx| Poll::Ready(read.as_mut().poll(cx))).await);
            }
            for (t, (read, found)) in reads.into_iter().zip(found).enumerate() {
                let found = match found {
                    Poll::Ready(found) => found.unwrap(),
                    Poll::Pending => read.await.unwrap(),
                };
                let (of, at) = ([1, 2, 0][t / (TILES * TILES)], t % (TILES * TILES));
                let (top, left) = (at / TILES * SIDE, at % TILES * SIDE);
                for (row, column) in [(0, 0), (SIDE - 1, SIDE - 1), (3, SIDE / 2)] {
                    assert_eq!(found[[row, column]], element(of, top + row, left + column) + 2, "tile {t}");
                }
            }
        });
        events.iter().for_each(|event| event.blocking_wait().unwrap());
    }
}

/// What the runtime may have of a device is its limit where nothing may be swapped out, too.
#[test]
fn a_device_is_full_where_the_runtime_says_so() {
    for queue in queues(4 * TILE_BYTES, Residency::Kept) {
        let (a, b, c) = (tiles(1), tiles(2), tiles(0));
        // Else each of several groups may get some of what there is, and none all that it needs.
        add_product(&queue, [&a[0], &b[0], &c[0]]).blocking_wait().unwrap();
        let events = multiply(&queue, &a, &b, &c);
        let full = events.iter().filter(|event| event.blocking_wait().is_err()).count();
        assert!(full > 0 && full < events.len(), "on {}: {full}", queue.device());
        let error = events.iter().find_map(|event| event.blocking_wait().err()).unwrap();
        assert!(error.to_string().contains("memory"), "{error}");
    }
}
