//! Data between the host and the device that the program would get: what a first copy costs, when memory has to be made for it,
//! and what one costs that has it.

use std::time::Instant;

use windlass::MemoryKind;
use windlass::prelude::*;

/// Prints, by size, how fast data goes up from a `Vec`, comes down to a buffer that was never on the host, comes down again,
/// and goes up again.
pub(crate) fn print(scale: usize) {
    let queue = Queue::blocking_new().expect("there is a device");
    println!("transfers with {}, GB/s: up from a `Vec`, down, down again, up again", queue.device());
    for shift in [12, 16, 20, 22, 24, 26, 28] {
        let bytes = 1_usize << shift;
        let times: Vec<[f64; 4]> = (0..3 * scale).map(|_| round(&queue, bytes / 4)).collect();
        let median = |which: usize| {
            let mut all: Vec<f64> = times.iter().map(|of| of[which]).collect();
            all.sort_by(f64::total_cmp);
            bytes as f64 / all[all.len() / 2]
        };
        let [up, down, again, back] = [0, 1, 2, 3].map(median);
        println!("{bytes:>10} bytes  {up:7.2} {down:7.2} {again:7.2} {back:7.2}");
    }
}

/// Nanoseconds of each.
pub(crate) fn round(queue: &Queue, len: usize) -> [f64; 4] {
    let wait = |event: windlass::Result<Event>| {
        event.and_then(|event| event.blocking_wait()).expect("nothing fails")
    };
    let source = Buffer::from(vec![1_u32; len]);
    let sink = Buffer::<u32>::new(len);
    let move_up = |from: &Buffer<u32>| {
        let start = Instant::now();
        wait(queue.submit(|cg| cg.copy(&cg.read(from), &cg.overwrite(&sink))));
        start.elapsed().as_nanos() as f64
    };
    let move_down = || {
        let start = Instant::now();
        drop(sink.host_read().blocking_wait().expect("nothing fails"));
        start.elapsed().as_nanos() as f64
    };
    // The device's allocations are made by copies that are not looked at.
    wait(queue.submit(|cg| cg.fill(&cg.overwrite(&source.range(..1)), 2)));
    drop(source.range(..1).host_write().blocking_wait().expect("nothing fails"));
    wait(queue.submit(|cg| cg.fill(&cg.overwrite(&sink), 2)));
    let up = move_up(&source);
    let down = move_down();
    wait(queue.submit(|cg| cg.fill(&cg.overwrite(&sink), 3)));
    let again = move_down();
    sink.host_write().blocking_wait().expect("nothing fails")[0] = 1;
    let start = Instant::now();
    wait(queue.submit(|cg| {
        cg.read(&sink);
        cg.fill(&cg.overwrite(&source.range(..1)), 4)
    }));
    [up, down, again, start.elapsed().as_nanos() as f64]
}

/// Nanoseconds for what the host has just written in memory near it to get to the device's own, and for what is there to get back and be
/// read by the host; both allocations are there before. `None` where buffers cannot stay in the one or in the other.
pub(crate) fn pinned(queue: &Queue, len: usize) -> Option<[f64; 2]> {
    let there = |kind| queue.blocking_buffer_in::<u32, 1>(kind, len).ok();
    let (host, device) = (there(MemoryKind::Host)?, there(MemoryKind::Device)?);
    let copy = |from: &Buffer<u32>, to: &Buffer<u32>| {
        queue.submit(|cg| cg.copy(&cg.read(from), &cg.overwrite(to))).expect("nothing to refuse")
    };
    let write = |value| host.host_write().blocking_wait().expect("the host has it").fill(value);
    // The device's allocation is made by the first copy.
    write(1);
    copy(&host, &device).blocking_wait().expect("nothing fails");
    write(2);
    let start = Instant::now();
    copy(&host, &device).blocking_wait().expect("nothing fails");
    let up = start.elapsed();
    let start = Instant::now();
    copy(&device, &host);
    drop(host.host_read().blocking_wait().expect("the host has it"));
    Some([up.as_nanos() as f64, start.elapsed().as_nanos() as f64])
}
