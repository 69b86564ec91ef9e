//! Panics whose payloads panic again when they are dropped, and errors that do: nobody else is to suffer.

#[path = "common/rig.rs"]
mod rig;

use std::fmt;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Wake, Waker};

use rig::{Gate, Hold, Rig, fails, until, wait};
use windlass::BoxError;
use windlass::prelude::*;

/// A payload, an error, or a part of either.
#[derive(Debug)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropping what a panic or an error left");
    }
}

impl fmt::Display for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bomb")
    }
}

impl std::error::Error for Bomb {}

/// A value whose drop panics with a bomb.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        panic_any(Bomb);
    }
}

struct Bell(AtomicUsize, bool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        if self.1 {
            panic_any(Bomb);
        }
    }
}

#[test]
fn wakers_whose_payloads_panic_keep_nobody_from_being_woken() {
    let rig = Rig::new();
    let hold = Hold::new();
    let inside = hold.clone();
    let event = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
    let bells = [true, true, true, false].map(|bad| Arc::new(Bell(AtomicUsize::new(0), bad)));
    let mut waiters = bells.each_ref().map(|_| event.clone());
    for (bell, waiter) in bells.iter().zip(&mut waiters) {
        let waker = Waker::from(bell.clone());
        assert!(std::pin::Pin::new(waiter).poll(&mut TaskContext::from_waker(&waker)).is_pending());
    }
    hold.let_go();
    until("everybody is woken", || bells.iter().all(|bell| bell.0.load(Ordering::SeqCst) == 1));
    // The threads that woke them are still there.
    wait(rig.queue.submit(|cg| cg.host_task(async |_| Ok(()))).unwrap()).unwrap();
}

#[test]
fn a_host_task_that_panics_with_a_bomb_has_panicked() {
    let rig = Rig::new();
    let task = rig.queue.submit(|cg| cg.host_task(async |_| panic_any(Bomb))).unwrap();
    let error = wait(task).unwrap_err();
    assert!(error.is_panic(), "{error}");
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let task = tokio.block_on(async { rig.queue.submit(|cg| cg.host_task(async |_| panic_any(Bomb))) });
    let error = wait(task.unwrap()).unwrap_err();
    assert!(error.is_panic(), "{error}");
}

#[test]
fn a_host_task_whose_drop_panics_with_a_bomb_ends_with_its_runtime() {
    let rig = Rig::new();
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let data = Buffer::from(vec![1_u32; 4]);
    let (started, hear) = std::sync::mpsc::channel();
    let task = tokio.block_on(async {
        rig.queue.submit(|cg| {
            let data = cg.read_write(&data);
            cg.host_task(async move |_| {
                let _mine = (Mine, data);
                started.send(()).unwrap();
                std::future::pending::<Result<(), BoxError>>().await
            })
        })
    });
    hear.recv().unwrap();
    tokio.shutdown_background();
    let error = wait(task.unwrap()).unwrap_err();
    assert!(error.is_runtime_gone(), "{error}");
    rig.settle();
}

#[test]
fn an_outside_future_whose_drop_panics_with_a_bomb_opens_its_gate() {
    let rig = Rig::new();
    let gate = Gate::new();
    let (opened, mine) = (gate.opened(), Mine);
    let event = rig.queue.submit(|cg| {
        cg.after(async move {
            let _mine = mine;
            opened.await
        });
        Ok(())
    });
    gate.open();
    let _ = wait(event.unwrap());
    rig.settle();
    wait(rig.queue.submit(|cg| cg.host_task(async |_| Ok(()))).unwrap()).unwrap();
}

#[test]
fn a_handler_that_panics_with_a_bomb_costs_no_other_queue_its_errors() {
    let rig = Rig::manual(1);
    let bad = Queue::builder().device(rig.device.clone()).handler(|_| panic_any(Bomb)).blocking_build();
    let bad = bad.unwrap();
    // Both are told in one go.
    for queue in [&bad, &rig.queue] {
        drop(queue.submit(|cg| cg.host_task(async |_| Err("unobserved".into()))).unwrap());
    }
    rig.runtime.run_until_stalled();
    assert_eq!(rig.told.so_far().len(), 1);
}

#[test]
fn errors_whose_drops_panic_are_told_in_one_batch() {
    let rig = Rig::manual(1);
    for _ in 0..4 {
        drop(rig.queue.submit(|cg| cg.host_task(async |_| Err(Bomb.into()))).unwrap());
    }
    rig.runtime.run_until_stalled();
    assert_eq!(rig.told.so_far().len(), 4);
    // What the handler kept goes as well, and this thread lives.
    drop(rig.told.take());
    drop(fails(&rig.queue, "another one"));
    until("others are told later", || {
        rig.runtime.run_until_stalled();
        rig.told.so_far().len() == 1
    });
}

#[test]
fn an_error_through_many_host_tasks_is_told_by_its_origin() {
    let rig = Rig::new();
    let mut error: BoxError = "the first".into();
    for _ in 0..100_000 {
        let task = rig.queue.submit(|cg| cg.host_task(async move |_| Err(error))).unwrap();
        error = wait(task).unwrap_err().into();
    }
    let text = error.to_string();
    assert!(text.contains("the first") && text.len() < 1000, "{} bytes", text.len());
    let debug = format!("{error:?}");
    assert!(debug.contains("the first") && debug.len() < 2000, "{} bytes", debug.len());
    drop(error);
}

#[test]
fn an_error_through_many_host_tasks_that_wait_for_each_other() {
    let rig = Rig::new();
    let mut last = rig.queue.submit(|cg| cg.host_task(async |_| Err("the first".into()))).unwrap();
    for _ in 0..1000 {
        let before = last;
        last = rig.queue.submit(|cg| cg.host_task(async move |_| Ok(before.await?))).unwrap();
    }
    let error = wait(last).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the first") && text.len() < 1000, "{} bytes", text.len());
}
