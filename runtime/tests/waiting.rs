//! Where a thread may block, and where waiting is refused because nothing could go on.

#[path = "common/rig.rs"]
mod rig;

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rig::{Gate, HANG, Rig, fails, wait};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_blocking};
use windlass::Result;
use windlass::prelude::*;

/// A group that ends when the gate is opened.
fn gated(rig: &Rig, gate: &Gate) -> Event {
    let opened = gate.opened();
    rig.queue
        .submit(|cg| {
            cg.after(opened);
            Ok(())
        })
        .unwrap()
}

fn soon(gate: Gate) {
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(50));
        gate.open();
    });
}

#[test]
fn a_thread_in_a_local_set_of_a_multi_thread_runtime_may_block() {
    let rig = Rig::new();
    let tokio = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let gate = Gate::new();
    let event = gated(&rig, &gate);
    soon(gate);
    LocalSet::new().block_on(&tokio, async { event.blocking_wait() }).unwrap();
    // And inside one that a worker drives.
    let gate = Gate::new();
    let event = gated(&rig, &gate);
    soon(gate);
    let handle = tokio.handle().clone();
    let nested = tokio.spawn(async move {
        tokio::task::block_in_place(|| {
            handle.block_on(LocalSet::new().run_until(async { event.blocking_wait() }))
        })
    });
    tokio.block_on(nested).unwrap().unwrap();
}

#[test]
fn a_blocking_thread_of_a_current_thread_runtime_may_block() {
    let rig = Rig::new();
    let tokio = Builder::new_current_thread().build().unwrap();
    let gate = Gate::new();
    let event = gated(&rig, &gate);
    let result = tokio.block_on(async {
        let waiting = spawn_blocking(move || event.blocking_wait());
        // The runtime itself lets it go on.
        tokio::task::yield_now().await;
        gate.open();
        waiting.await.unwrap()
    });
    result.unwrap();
}

#[test]
fn every_thread_of_a_multi_thread_runtime_may_block() {
    let rig = Rig::new();
    let tokio = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    for place in 0..3 {
        let gate = Gate::new();
        let event = gated(&rig, &gate);
        soon(gate);
        let result = tokio.block_on(async {
            match place {
                0 => event.blocking_wait(),
                1 => tokio::spawn(async move { event.blocking_wait() }).await.unwrap(),
                _ => spawn_blocking(move || event.blocking_wait()).await.unwrap(),
            }
        });
        result.unwrap();
    }
}

#[test]
fn the_thread_that_drives_a_current_thread_runtime_may_not() {
    let rig = Rig::new();
    let tokio = Builder::new_current_thread().build().unwrap();
    let other = Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let gate = Gate::new();
    let event = gated(&rig, &gate);
    let inside = async {
        assert!(event.blocking_wait().unwrap_err().is_would_block());
        let _entered = other.enter();
        assert!(event.blocking_wait().unwrap_err().is_would_block(), "also where another runtime is entered");
    };
    tokio.block_on(LocalSet::new().run_until(inside));
    gate.open();
    wait(event).unwrap();
}

/// Runs a wait inside a kernel, and says what came of it.
fn inside_a_kernel(rig: &Rig, waits: impl Fn() -> Result<()> + Send + Sync + 'static) -> Result<()> {
    let (tell, told) = channel();
    let event = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| tell.send(waits()).unwrap()));
    let result = told.recv_timeout(HANG / 4).expect("the kernel hangs");
    wait(event.unwrap()).unwrap();
    result
}

#[test]
fn waiting_inside_a_kernel_is_refused() {
    let rig = Rig::with_lanes(2);
    let gate = Gate::new();
    let (event, data) = (gated(&rig, &gate), Buffer::from(vec![1_u32; 4]));
    let held = rig.queue.submit(|cg| {
        cg.depends_on(&event);
        cg.fill(&cg.overwrite(&data), 2)
    });
    let waiting = event.clone();
    assert!(inside_a_kernel(&rig, move || waiting.blocking_wait()).unwrap_err().is_would_block());
    let read = data.clone();
    let refused = inside_a_kernel(&rig, move || read.host_read().blocking_wait().map(|_| ()));
    assert!(refused.unwrap_err().is_would_block());
    // What has ended is no wait.
    let failed = fails(&rig.queue, "it has ended");
    let _ = wait(failed.clone());
    assert!(inside_a_kernel(&rig, move || failed.blocking_wait()).unwrap_err().is_panic());
    gate.open();
    wait(held.unwrap()).unwrap();
    assert_eq!(rig::contents(&data), [2; 4]);
    rig.settle();
}

#[test]
fn a_large_kernel_and_a_host_task_without_a_runtime_are_refused_as_well() {
    let rig = Rig::with_lanes(2);
    let gate = Gate::new();
    let event = gated(&rig, &gate);
    let (tell, told) = channel();
    let waiting = event.clone();
    let large = rig.queue.submit(|cg| {
        cg.host_for(1 << 20, (), move |item, ()| {
            if item.id(0).is_multiple_of(1 << 18) {
                tell.send(waiting.blocking_wait()).unwrap();
            }
        })
    });
    for _ in 0..4 {
        assert!(told.recv_timeout(HANG / 4).expect("the kernel hangs").unwrap_err().is_would_block());
    }
    wait(large.unwrap()).unwrap();
    // It runs on the one thread that runs all host tasks without a runtime.
    let waiting = event.clone();
    let task = rig.queue.submit(|cg| cg.host_task(async move |_| Ok(waiting.blocking_wait()?)));
    let error = wait(task.unwrap()).unwrap_err();
    assert!(error.to_string().contains("waiting here"), "{error}");
    gate.open();
    wait(event).unwrap();
}
