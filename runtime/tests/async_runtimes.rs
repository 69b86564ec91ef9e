//! Decisions 15 and 16: blocking inside an async runtime, and async runtimes that die.

#[path = "common/rig.rs"]
mod rig;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::join;
use rig::{HANG, Hold, Rig, bump, contents, wait};
use tokio::runtime::{Builder, Runtime as Tokio};
use windlass::Error;
use windlass::prelude::*;

fn multi_thread() -> Tokio {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn current_thread() -> Tokio {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// One task holds a guard and awaits what needs it, and drops it in time.
async fn by_hand(rig: &Rig) {
    let x = Buffer::from(vec![1_u32; 8]);
    bump(&rig.queue, &x).await.unwrap();
    let mut guard = x.host_write().await.unwrap();
    let event = bump(&rig.queue, &x);
    let sleeper = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        guard[0] = 40;
        drop(guard);
    };
    let ((), result) = join!(sleeper, event);
    result.unwrap();
    assert_eq!(x.host_read().await.unwrap()[..2], [41, 3]);
}

#[test]
fn d15_join_of_sleep_and_drop_guard_with_the_event_behind_it_is_correct() {
    let rig = Rig::new();
    multi_thread().block_on(by_hand(&rig));
    current_thread().block_on(by_hand(&rig));
}

#[test]
fn d15_blocking_wait_on_a_current_thread_runtime_would_block() {
    let rig = Rig::new();
    let hold = Hold::new();
    let inside = hold.clone();
    let event = rig.queue.submit(|cg| cg.host_for(1, (), move |_, ()| inside.here())).unwrap();
    let x = Buffer::from(vec![1_u32; 8]);
    let tokio = current_thread();
    tokio.block_on(async {
        assert!(event.blocking_wait().unwrap_err().is_would_block());
        let guard = x.host_write().await.unwrap();
        assert!(x.host_read().blocking_wait().unwrap_err().is_would_block());
        drop(guard);
        assert_eq!(x.host_read().blocking_wait().unwrap()[..], [1; 8], "what is at hand does not block");
        hold.let_go();
        event.clone().await.unwrap();
        event.blocking_wait().unwrap();
    });
}

#[test]
fn d15_blocking_wait_on_a_multi_thread_worker_lets_the_others_go_on() {
    let rig = Rig::new();
    let tokio = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let result = tokio.block_on(async {
        let (queue, x) = (rig.queue.clone(), Buffer::from(vec![1_u32; 8]));
        let worker = tokio::spawn(async move {
            // The only worker blocks on a host task, which runs on this same runtime.
            let event = queue.submit(|cg| {
                let mut x = cg.read_write(&x);
                cg.host_task(async move |host| {
                    tokio::task::yield_now().await;
                    host.view_mut(&mut x)?[0] = 5;
                    Ok(())
                })
            })?;
            event.blocking_wait()?;
            Ok::<_, Error>(x.host_read().await?[0])
        });
        tokio::time::timeout(HANG, worker).await
    });
    assert_eq!(result.expect("it does not hang").unwrap().unwrap(), 5);
}

#[test]
fn d15_blocking_wait_without_any_runtime_blocks() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    bump(&rig.queue, &x).blocking_wait().unwrap();
    assert_eq!(contents(&x), [2; 8]);
}

#[test]
fn d16_a_host_task_whose_runtime_dies_resolves_as_runtime_gone() {
    for r1 in [multi_thread as fn() -> Tokio, current_thread] {
        let rig = Rig::new();
        let x = Buffer::from(vec![1_u32; 8]);
        let started = Hold::new();
        started.let_go();
        let r1 = r1();
        let (task, reader) = r1.block_on(async {
            let inside = started.clone();
            let task = rig.queue.submit(|cg| {
                let x = cg.read_write(&x);
                cg.host_task(async move |host| {
                    let _view = host.view(&x)?;
                    inside.here();
                    std::future::pending::<()>().await;
                    Ok(())
                })
            });
            tokio::task::yield_now().await;
            (task.unwrap(), bump(&rig.queue, &x))
        });
        let r2 = multi_thread();
        let waiting = r2.spawn(task.clone());
        r1.shutdown_background();
        let error = r2.block_on(waiting).unwrap().unwrap_err();
        assert!(error.is_runtime_gone(), "{error}");
        assert!(r2.block_on(reader).unwrap_err().root().is_runtime_gone());
        assert!(wait(x.host_read()).unwrap_err().root().is_runtime_gone());
        rig.settle();
    }
}

#[test]
fn d16_a_host_task_that_had_not_started_when_its_runtime_died() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    wait(bump(&rig.queue, &x)).unwrap();
    let guard = wait(x.host_write()).unwrap();
    let ran = Arc::new(AtomicBool::new(false));
    let r1 = multi_thread();
    let task = r1.block_on(async {
        let ran = ran.clone();
        rig.queue.submit(|cg| {
            let x = cg.read(&x);
            cg.host_task(async move |host| {
                host.view(&x)?;
                ran.store(true, Ordering::SeqCst);
                Ok(())
            })
        })
    });
    drop(r1);
    let r2 = current_thread();
    let task = task.unwrap();
    assert!(!task.has_ended());
    drop(guard);
    assert!(r2.block_on(task).unwrap_err().is_runtime_gone());
    assert!(!ran.load(Ordering::SeqCst));
    rig.settle();
}

#[test]
fn d16_an_after_future_whose_runtime_dies_resolves_as_runtime_gone() {
    for r1 in [multi_thread as fn() -> Tokio, current_thread] {
        let rig = Rig::new();
        let r1 = r1();
        let event = r1.block_on(async {
            rig.queue.submit(|cg| {
                cg.after(std::future::pending::<windlass::Result<()>>());
                cg.host_for(1, (), |_, ()| unreachable!("it does not run"))
            })
        });
        drop(r1);
        let error = multi_thread().block_on(event.unwrap()).unwrap_err();
        assert!(error.is_runtime_gone(), "{error}");
        rig.settle();
    }
}

#[test]
fn d16_runtimes_that_die_at_any_moment() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    for round in 0..100 {
        let r1 = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let events: Vec<Event> = r1.block_on(async {
            let group = |i: u64| {
                let event = rig.queue.submit(|cg| {
                    cg.on_cancel(OnCancel::KeepPrevious);
                    let x = cg.read_write(&x);
                    cg.after(async move {
                        tokio::time::sleep(Duration::from_micros(10 * i)).await;
                        Ok::<_, Error>(())
                    });
                    cg.host_task(async move |host| {
                        tokio::time::sleep(Duration::from_micros(10 * (round % 7))).await;
                        host.view(&x)?;
                        Ok(())
                    })
                });
                event.unwrap()
            };
            let events = (0..10).map(group).collect();
            tokio::time::sleep(Duration::from_micros(50 * (round % 10))).await;
            events
        });
        r1.shutdown_background();
        for event in events {
            if let Err(error) = wait(event) {
                assert!(error.root().is_runtime_gone(), "{error}");
            }
        }
    }
    rig.settle();
    // Read once: that task may end between two looks.
    let live = rig.stats().live_tasks;
    assert!(live <= 1, "only the drainer's own task stays: {live}");
}
