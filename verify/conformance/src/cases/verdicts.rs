//! Failure follows data, by version; and who is told of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use futures::channel::mpsc;
use windlass::{Buffer, CancelOutcome, Event, OnCancel, Queue, Status};

use super::steps::{counted, holds};
use crate::check::{Opened, Verdict, latch, refused};
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

pub(super) async fn failure_follows_data(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.away] {
        let (v, out, third) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64), Buffer::<u32>::new(64));
        s.count(queue, &v, 1)?;
        let failed = s.fail(&v, "at the root")?;
        let reader = s.copy(queue, &v, &out)?;
        let behind = s.copy(&s.home, &out, &third)?;
        let ran = Arc::new(AtomicUsize::new(0));
        let count = ran.clone();
        let task = s.home.submit(|cg| {
            cg.read(&out);
            cg.host_task(async move |_| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
        })?;
        let root = refused(failed.await)?;
        for dependent in [reader, behind, task] {
            let error = refused(dependent.await)?;
            ensure!(error.is_dependency_failed(), "{error}");
            ensure_eq!(error.root().to_string(), root.to_string());
        }
        ensure_eq!(ran.load(Ordering::Relaxed), 0, "a host task that depends on it does not run");
        ensure!(refused(third.host_read().await)?.is_dependency_failed());
        ensure!(refused(v.clone().into_vec().await)?.is_dependency_failed());
    }
    Ok(())
}

pub(super) async fn ordered_only_runs(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.away] {
        let v = Buffer::<u32>::new(64);
        let failed = s.fail(&v, "and others do not care")?;
        // Behind it in memory, and reading nothing of it.
        let writer = s.count(queue, &v, 7)?;
        let other = queue.submit(|cg| {
            cg.after_end(&failed);
            Ok(())
        })?;
        writer.await?;
        other.await?;
        ensure!(failed.await.is_err());
        holds(&v, &counted(7, 64)).await?;
    }
    Ok(())
}

pub(super) async fn explicit_dependency_carries_failure(s: &Subject) -> Verdict {
    let (v, w) = (Buffer::<u32>::new(8), Buffer::from(vec![5_u32; 8]));
    let failed = s.fail(&v, "explicitly")?;
    let dependent = |queue: &Queue| {
        queue.submit(|cg| {
            cg.depends_on(&failed);
            let to = cg.read_write(&w.range(..4));
            cg.parallel_for(4, s.call("increment").buffer(to))
        })
    };
    let early = dependent(&s.away)?;
    ensure!(refused(early.await)?.is_dependency_failed());
    // The other half is not its, and one that comes when all is over fails all the same.
    holds(&w.range(4..), &[5; 4]).await?;
    ensure!(refused(dependent(&s.home)?.await)?.is_dependency_failed());
    Ok(())
}

pub(super) async fn full_write_heals(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.away] {
        let v = Buffer::from(counted(0, 64));
        let failed = s.fail(&v, "to be healed")?;
        ensure!(failed.await.is_err());
        s.count(queue, &v.range(..32), 100)?.await?;
        holds(&v.range(..32), &counted(100, 32)).await?;
        ensure!(refused(v.range(31..33).host_read().await)?.is_dependency_failed());
        ensure!(refused(s.increment(queue, &v)?.await)?.is_dependency_failed());
        // That one has spoilt the healed half again. A write that keeps what it does not touch is no full write.
        let keeps = queue.submit(|cg| {
            let to = cg.write(&v);
            cg.parallel_for(64, s.call("fill_index").buffer(to).value(1_u32))
        })?;
        ensure!(refused(keeps.await)?.is_dependency_failed());
        s.count(queue, &v, 200)?.await?;
        s.increment(&s.home, &v)?.await?;
        holds(&v, &counted(201, 64)).await?;
    }
    Ok(())
}

pub(super) async fn versions_fail_and_regions_do_not(s: &Subject) -> Verdict {
    // A writes slowly and fails; D writes elsewhere, wants nothing of what was there, and has long succeeded.
    let (v, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
    let (gate, opened) = latch();
    let slow = s.home.submit(|cg| {
        let v = cg.read_write(&v);
        cg.host_task(async move |_| {
            let _keeps_the_claim = v;
            opened.await?;
            Err("long after".into())
        })
    })?;
    let reader = s.copy(&s.home, &v, &out)?;
    s.count(&s.away, &v, 3)?.await?;
    let second = s.copy(&s.away, &v, &Buffer::new(64))?;
    gate.open();
    ensure!(slow.await.is_err());
    ensure!(refused(reader.await)?.is_dependency_failed());
    second.await?;
    s.increment(&s.away, &v)?.await?;
    holds(&v, &counted(4, 64)).await
}

fn held(
    s: &Subject,
    queue: &Queue,
    v: &Buffer<u32>,
    gate: Opened,
    on_cancel: OnCancel,
) -> windlass::Result<Event> {
    queue.submit(|cg| {
        cg.after(gate);
        cg.on_cancel(on_cancel);
        let to = cg.overwrite(v);
        cg.parallel_for(v.len(), s.call("fill_index").buffer(to).value(900_u32))
    })
}

pub(super) async fn cancelled_group_is_skipped(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.away] {
        let (v, out) = (Buffer::from(counted(0, 64)), Buffer::<u32>::new(64));
        let (_gate, opened) = latch();
        let group = held(s, queue, &v, opened, OnCancel::Fail)?;
        let clone = group.clone();
        let reader = s.copy(queue, &v, &out)?;
        ensure_eq!(group.cancel(), CancelOutcome::Skipped);
        ensure!(refused(group.await)?.is_cancelled());
        ensure!(refused(clone.clone().await)?.is_cancelled(), "it acts on the group, not on a handle");
        ensure!(refused(reader.await)?.is_dependency_failed());
        ensure_eq!(clone.cancel(), CancelOutcome::Done);
        s.count(queue, &v, 1)?.await?;
    }
    Ok(())
}

pub(super) async fn cancel_keeps_previous(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.away] {
        let (v, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
        s.count(queue, &v, 5)?;
        let (_gate, opened) = latch();
        let group = held(s, queue, &v, opened, OnCancel::KeepPrevious)?;
        let reader = s.copy(queue, &v, &out)?;
        ensure_eq!(group.cancel(), CancelOutcome::Skipped);
        reader.await?;
        ensure!(refused(group.await)?.is_cancelled());
        s.increment(&s.home, &v)?.await?;
        holds(&out, &counted(5, 64)).await?;
        holds(&v, &counted(6, 64)).await?;
        // One that is not cancelled writes as any other.
        let (gate, opened) = latch();
        let group = held(s, queue, &v, opened, OnCancel::KeepPrevious)?;
        gate.open();
        group.await?;
        holds(&v, &counted(900, 64)).await?;
        // And a handle that is dropped cancels, where it was asked to.
        let (_gate, opened) = latch();
        drop(held(s, queue, &v, opened, OnCancel::KeepPrevious)?.cancel_on_drop());
        holds(&v, &counted(900, 64)).await?;
    }
    Ok(())
}

pub(super) async fn cancel_comes_too_late(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let event = s.count(&s.home, &v, 1)?;
    event.clone().await?;
    ensure_eq!(event.cancel(), CancelOutcome::Done);
    // A host task that has started is dropped where it waits.
    let (started, mut has_started) = mpsc::unbounded();
    let (gate, opened) = latch();
    let task = s.home.submit(|cg| {
        let mut v = cg.read_write(&v);
        cg.host_task(async move |host| {
            let _ = started.unbounded_send(());
            opened.await?;
            host.view_mut(&mut v)?.fill(4);
            Ok(())
        })
    })?;
    has_started.next().await;
    ensure_eq!(task.cancel(), CancelOutcome::Stopping);
    ensure!(task.await.is_err_and(|e| e.is_cancelled()), "it is dropped where it waits");
    gate.open();
    holds(&v, &counted(1, 64)).await
}

pub(super) async fn unobserved_error_is_told_once(s: &Subject) -> Verdict {
    let (tell, mut told) = mpsc::unbounded();
    let queue = Queue::builder()
        .device(s.device.clone())
        .handler(move |errors| {
            let heard = errors.iter().map(|e| (e.error().to_string(), e.took_down(), e.location().line()));
            let _ = tell.unbounded_send(heard.collect::<Vec<_>>());
        })
        .build()
        .await?;
    let (v, out) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8));
    let line = line!() + 1;
    let failed = queue.submit(|cg| {
        let to = cg.read_write(&v);
        cg.host_task(async move |_| {
            let _keeps_the_claim = to;
            Err("nobody looks".into())
        })
    })?;
    drop(failed);
    drop(s.copy(&queue, &v, &out)?);
    drop(s.increment(&queue, &out)?);
    queue.drained().await;
    let heard = told.next().await.unwrap_or_default();
    ensure_eq!(heard.len(), 1, "{heard:?}");
    ensure!(heard[0].0.contains("nobody looks"), "{heard:?}");
    ensure_eq!(heard[0].2, line);
    ensure!(told.try_recv().is_err(), "it is told once");
    Ok(())
}

pub(super) async fn observed_error_is_not_told(s: &Subject) -> Verdict {
    let (tell, mut told) = mpsc::unbounded();
    let queue = Queue::builder()
        .device(s.device.clone())
        .handler(move |errors| {
            let _ = tell.unbounded_send(errors.iter().map(|e| e.error().to_string()).collect::<Vec<_>>());
        })
        .build()
        .await?;
    let fail = |text: &'static str| queue.submit(|cg| cg.host_task(async move |_| Err(text.into())));
    let seen = fail("seen")?;
    ensure!(seen.clone().await.is_err());
    drop(seen);
    let (_gate, opened) = latch();
    let cancelled = held(s, &queue, &Buffer::new(8), opened, OnCancel::Fail)?;
    ensure_eq!(cancelled.cancel(), CancelOutcome::Skipped);
    ensure_eq!(cancelled.status(), Status::Failed);
    drop(cancelled);
    queue.drained().await;
    // This one comes after them, and is the first to be told.
    drop(fail("unseen")?);
    let heard = told.next().await.unwrap_or_default();
    ensure!(heard.len() == 1 && heard[0].contains("unseen"), "{heard:?}");
    Ok(())
}
