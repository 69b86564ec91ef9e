//! How programs that use devices are tested: kernels without a device, order without threads, waits that never end.
//! `cargo run --release --example testing`

use std::time::Duration;

use windlass::prelude::*;
use windlass::{DeadlockPolicy, Holder, NdRange, Result};

/// The largest of each row.
#[windlass::kernel]
fn largest(rows: &View<i32, 2>, out: &mut [i32]) {
    let y = global_id(0);
    let mut largest = rows[y][0];
    for x in 1..rows.extent(1) {
        largest = largest.max(rows[y][x]);
    }
    out[y] = largest;
}

/// Each group of items turned around.
#[windlass::kernel]
fn turned(v: &mut [u32], #[local] tile: &mut [u32]) {
    let l = local_id(0);
    tile[l] = v[global_id(0)];
    barrier();
    v[global_id(0)] = tile[local_size(0) - 1 - l];
}

/// A kernel is a function of slices: it runs here and now, on this thread, in a debugger if need be.
fn a_kernel_by_itself() -> Result<()> {
    let (rows, mut out) = ([1, 5, 2, -1, -7, -3], [0; 2]);
    // A view of several dimensions is a slice with its shape.
    largest((&rows[..], [2, 3]), &mut out[..]).run_here(2)?;
    assert_eq!(out, [5, -1]);

    let mut v = [1, 2, 3, 4];
    turned(&mut v[..], 2).run_here(NdRange { global: [4], local: [2] })?;
    assert_eq!(v, [2, 1, 4, 3]);
    Ok(())
}

/// A runtime without threads of its own: nothing happens but where the test says so, and in the same order each time.
fn step_by_step() -> Result<()> {
    let runtime = Runtime::builder().manual().build();
    let queue = Queue::blocking_on(runtime.host()?)?;
    let data = Buffer::<u32>::new(4);
    let event = queue.submit(|cg| {
        let mut data = cg.overwrite(&data);
        cg.host_task(async move |host| {
            host.view_mut(&mut data)?.fill(3);
            Ok(())
        })
    })?;
    assert!(!event.has_ended());
    runtime.run_until_stalled();
    assert_eq!(event.status(), Status::Done);
    Ok(())
}

/// A program that waits for itself fails its test in place of hanging, and says who holds up whom.
fn a_deadlock_is_an_error() -> Result<()> {
    let runtime = Runtime::builder()
        .deadlock_policy(DeadlockPolicy::Error)
        .stall_after(Duration::from_millis(20))
        .build();
    let queue = Queue::blocking_on(runtime.host()?)?;
    let data = Buffer::from(vec![0_u32; 4]);
    queue.submit(|cg| cg.fill(&cg.overwrite(&data), 1))?.blocking_wait()?;
    let guard = data.host_read().blocking_wait()?;
    let stuck = queue.submit(|cg| cg.fill(&cg.overwrite(&data), 2))?;
    // What is held up can be asked for at any time, too.
    assert!(runtime.stalls().iter().all(|stall| stall.holder == Holder::Guard));
    let error = stuck.blocking_wait().expect_err("the guard is still there");
    assert!(error.is_deadlock());
    println!("{error}");
    drop(guard);
    Ok(())
}

/// Counts say what a program has its devices do, so that a test notices when it is more than it was.
fn nothing_is_moved_twice() -> Result<()> {
    let runtime = Runtime::new();
    let queue = Queue::builder().runtime(&runtime).blocking_build()?;
    let (rows, out) = (Buffer::with_shape([64, 32], vec![1_i32; 64 * 32])?, Buffer::<i32>::new(64));
    let launch = || queue.submit(|cg| cg.parallel_for(64, largest(cg.read(&rows), cg.overwrite(&out))));
    launch()?.blocking_wait()?;
    let (before, builds) = (runtime.stats().bytes_moved, runtime.stats().builds);
    launch()?.blocking_wait()?;
    assert_eq!((runtime.stats().bytes_moved, runtime.stats().builds), (before, builds));
    println!("{before} bytes moved and {builds} kernels built for {}", queue.device());
    Ok(())
}

fn main() -> Result<()> {
    a_kernel_by_itself()?;
    step_by_step()?;
    a_deadlock_is_an_error()?;
    nothing_is_moved_twice()?;
    println!("all tests pass");
    Ok(())
}
