//! Ends: failures, cancelling, dropping, shutting down.

use std::time::Duration;

use futures::FutureExt;
use windlass::prelude::*;
use windlass::{BoxError, Error, Result};

use crate::rig::{Gate, Rig, bump, fails};

crate::cases! {
    a_panic_is_an_error
    a_question_mark_works_everywhere
    readers_of_what_failed_fail
    a_failed_set_says_the_first_error
    cancelling
    cancel_on_drop
    dropped_futures
    a_dropped_runtime
    shutdown
    shutdown_with_a_future_that_is_never_ready
    refused_groups
}

async fn a_panic_is_an_error() {
    let rig = Rig::new();
    let error = fails(&rig.queue, "a kernel").await.unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("a kernel"));
    let task = rig.queue.submit(|cg| cg.host_task(async move |_| panic!("a task")));
    assert!(task.unwrap().await.unwrap_err().is_panic());
}

async fn a_question_mark_works_everywhere() {
    async fn request(rig: &Rig) -> Result<u32, BoxError> {
        let x = Buffer::from(vec!["7".parse::<u32>()?; 4]);
        bump(&rig.queue, &x).await?;
        let task = rig.queue.submit(|cg| {
            let mut x = cg.read_write(&x);
            cg.host_task(async move |host| {
                let text = String::from_utf8(vec![b'3'])?;
                host.view_mut(&mut x)?[0] = text.parse()?;
                Ok(())
            })
        })?;
        task.await?;
        Ok(x.host_read().await?[0])
    }
    assert_eq!(request(&Rig::new()).await.unwrap(), 3);
    let rig = Rig::new();
    let bad = rig.queue.submit(|cg| {
        cg.host_task(async move |_| {
            let _: u32 = "x".parse()?;
            Ok(())
        })
    });
    let error = bad.unwrap().await.unwrap_err();
    let source = std::error::Error::source(&error).and_then(|e| e.downcast_ref::<std::num::ParseIntError>());
    assert!(source.is_some(), "the user's own error is the source of {error:?}");
}

async fn readers_of_what_failed_fail() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let bad = rig.queue.submit(|cg| {
        let x = cg.read_write(&x);
        cg.host_task(async move |host| {
            host.view(&x)?;
            Err("the database is down".into())
        })
    });
    let (near, far) = (bump(&rig.queue, &x), bump(&rig.elsewhere(), &x));
    for event in [near, far] {
        let error = event.await.unwrap_err();
        assert!(error.is_dependency_failed() && error.root().to_string().contains("the database"));
    }
    assert!(bad.unwrap().await.is_err());
    assert!(x.host_read().await.unwrap_err().is_dependency_failed());
    drop(rig.queue.submit(|cg| cg.fill(&cg.overwrite(&x), 1)));
    assert_eq!(x.host_read().await.unwrap()[..], [1; 8]);
}

async fn a_failed_set_says_the_first_error() {
    let rig = Rig::new();
    let events = [rig.queue.submit(|_| Ok(())).unwrap(), fails(&rig.queue, "one"), fails(&rig.queue, "two")];
    assert!(Event::all(events).await.unwrap_err().to_string().contains("one"));
}

async fn cancelling() {
    let rig = Rig::new();
    let x = Buffer::from(vec![1_u32; 8]);
    let gate = Gate::new();
    let event = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        cg.on_cancel(OnCancel::KeepPrevious);
        cg.read_write(&x);
        Ok(())
    });
    let event = event.unwrap();
    let behind = bump(&rig.queue, &x);
    assert_eq!(event.cancel(), CancelOutcome::Skipped);
    assert!(event.await.unwrap_err().is_cancelled());
    behind.await.unwrap();
    assert_eq!(x.host_read().await.unwrap()[..], [2; 8]);
}

async fn cancel_on_drop() {
    let rig = Rig::new();
    let gate = Gate::new();
    let event = rig.queue.submit(|cg| {
        cg.after(gate.opened());
        Ok(())
    });
    let event = event.unwrap();
    let other = event.clone();
    assert!(event.cancel_on_drop().now_or_never().is_none());
    assert!(other.await.unwrap_err().is_cancelled());
}

async fn dropped_futures() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    for _ in 0..50 {
        drop(bump(&rig.queue, &x).now_or_never());
        drop(x.host_read().now_or_never());
        drop(x.host_write().now_or_never());
        let _ = rig.queue.drained().now_or_never();
        drop(rig.queue.ready().now_or_never());
    }
    assert_eq!(x.host_read().await.unwrap()[..], [50; 8]);
}

async fn a_dropped_runtime() {
    let x = Buffer::from(vec![0_u32; 8]);
    let event = {
        let rig = Rig::new();
        let mut events: Vec<Event> = (0..100).map(|_| bump(&rig.queue, &x)).collect();
        events.swap_remove(99)
    };
    event.await.unwrap();
    assert_eq!(x.host_read().await.unwrap()[..], [100; 8]);
}

async fn shutdown() {
    let rig = Rig::new();
    let x = Buffer::from(vec![0_u32; 8]);
    let events: Vec<Event> = (0..100).map(|_| bump(&rig.queue, &x)).collect();
    assert_eq!(rig.runtime.shutdown(crate::rig::HANG).await.groups, 0);
    Event::all(events).await.unwrap();
    assert!(rig.queue.submit(|_| Ok(())).unwrap_err().is_shut_down());
}

async fn shutdown_with_a_future_that_is_never_ready() {
    let rig = Rig::new();
    let event = rig.queue.submit(|cg| {
        cg.after(std::future::pending::<Result<()>>());
        Ok(())
    });
    rig.runtime.shutdown(Duration::from_millis(5)).await;
    assert!(event.unwrap().await.unwrap_err().is_cancelled());
}

async fn refused_groups() {
    let rig = Rig::new();
    let x = Buffer::<u32>::new(8);
    assert!(rig.queue.submit(|cg| cg.fill(&cg.overwrite(&x.range(4..9)), 1)).unwrap_err().is_invalid_input());
    assert!(rig.queue.submit(|_| Err(Error::other("no"))).is_err());
    rig.queue.drained().await;
}
