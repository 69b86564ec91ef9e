//! Events resolve, whoever waits and however.

use futures::FutureExt;
use futures::future::join_all;
use windlass::{Buffer, Event, Status};

use super::steps::{counted, holds};
use crate::check::{Verdict, latch, poll_once};
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

pub(super) async fn await_early_late_and_twice(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let (gate, opened) = latch();
    let mut early = s.home.submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&v);
        cg.parallel_for(64, s.call("fill_index").buffer(to).value(0_u32))
    })?;
    ensure!(poll_once(&mut early).is_pending());
    gate.open();
    (&mut early).await?;
    // Again, by the same handle and by a clone that has never been polled.
    (&mut early).await?;
    early.clone().await?;
    let late = s.increment(&s.home, &v)?;
    s.home.drained().await;
    ensure_eq!(late.status(), Status::Done);
    late.await?;
    Ok(())
}

pub(super) async fn await_clones(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let event = s.count_slowly(&s.home, &v, 0)?;
    let (a, b) = (event.clone(), event.clone());
    // One that has been polled and is dropped takes nobody's wake along.
    let mut forgotten = event.clone();
    let _ = poll_once(&mut forgotten);
    drop(forgotten);
    let (a, b) = futures::join!(a, b);
    a?;
    b?;
    event.await?;
    Ok(())
}

pub(super) async fn event_of_all(s: &Subject) -> Verdict {
    let buffers: Vec<_> = (0..10).map(|_| Buffer::<u32>::new(64)).collect();
    let queues = [&s.home, &s.second, &s.away];
    let submit = |(i, v)| s.count_slowly(queues[i % 3], v, 0);
    let events = buffers.iter().enumerate().map(submit).collect::<windlass::Result<Vec<_>>>()?;
    Event::all(events.iter().cloned()).await?;
    ensure!(events.iter().all(|e| e.status() == Status::Done));
    Event::all::<Event>([]).await?;
    let failed = s.fail(&buffers[0], "one of them")?;
    let with_one_that_fails = Event::all([events[1].clone(), failed, events[2].clone()]).await;
    ensure!(with_one_that_fails.is_err_and(|e| e.to_string().contains("one of them")));
    Ok(())
}

pub(super) async fn dropped_events_run(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    for queue in [&s.home, &s.second, &s.away] {
        for _ in 0..100 {
            drop(s.increment(queue, &v)?);
        }
    }
    for queue in [&s.home, &s.second, &s.away] {
        queue.drained().await;
        ensure_eq!(queue.in_flight(), 0);
    }
    holds(&v, &[300; 64]).await
}

pub(super) async fn blocking_wait_waits(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let event = s.count_slowly(&s.home, &v, 1)?;
    event.blocking_wait()?;
    ensure_eq!(event.status(), Status::Done);
    event.blocking_wait()?;
    s.count_slowly(&s.away, &v, 1)?.blocking_wait()?;
    ensure_eq!(v.host_read().blocking_wait()?[63], 64);
    Ok(())
}

pub(super) async fn many_waiters(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let (gate, opened) = latch();
    let event = s.home.submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&v);
        cg.parallel_for(64, s.call("fill_index").buffer(to).value(0_u32))
    })?;
    let mut tasks: Vec<_> = (0..100).map(|_| event.clone()).collect();
    ensure!(tasks.iter_mut().all(|t| poll_once(t).is_pending()));
    // Half of them give up; the other half is woken, on this thread and on another.
    tasks.truncate(50);
    let elsewhere = tasks.split_off(25);
    let thread = std::thread::spawn(|| futures_lite::future::block_on(join_all(elsewhere)));
    gate.open();
    for result in join_all(tasks).await {
        result?;
    }
    let others = thread.join().unwrap_or_default();
    ensure_eq!(others.len(), 25);
    for result in others {
        result?;
    }
    Ok(())
}

pub(super) async fn status_tells(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let (gate, opened) = latch();
    let event = s.home.submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&v);
        cg.parallel_for(64, s.call("fill_index").buffer(to).value(0_u32))
    })?;
    ensure!(!event.has_ended());
    gate.open();
    event.clone().await?;
    ensure_eq!(event.status(), Status::Done);
    let failed = s.fail(&v, "for its status")?;
    ensure!(failed.clone().await.is_err());
    ensure_eq!(failed.status(), Status::Failed);
    Ok(())
}

pub(super) async fn waits_in_a_chain(s: &Subject) -> Verdict {
    // Inside one context nothing of a chain comes back to the host: no proxies, no futures.
    let v = Buffer::<u32>::new(64);
    s.increment(&s.home, &v)?.await?;
    let before = s.runtime.stats();
    for i in 0..200 {
        s.increment([&s.home, &s.second][i % 2], &v)?;
    }
    let after = s.runtime.stats();
    ensure_eq!(after.proxies - before.proxies, 0);
    ensure_eq!(after.staged_transfers - before.staged_transfers, 0);
    holds(&v, &[201; 64]).await
}

pub(super) async fn host_task_between_groups(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.away] {
        let v = Buffer::<u32>::new(64);
        s.count_slowly(queue, &v, 0)?;
        queue.submit(|cg| {
            let mut v = cg.read_write(&v);
            cg.host_task(async move |host| {
                host.view_mut(&mut v)?.iter_mut().for_each(|v| *v += 100);
                Ok(())
            })
        })?;
        s.churn(queue, &v, 1)?;
        holds(&v, &counted(100, 64).iter().map(|v| v * 31 + 1).collect::<Vec<_>>()).await?;
    }
    Ok(())
}

pub(super) async fn host_task_holds_nobody_up(s: &Subject) -> Verdict {
    let (v, other) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
    let (gate, opened) = latch();
    let mut task = s.home.submit(|cg| {
        let mut v = cg.read_write(&v);
        cg.host_task(async move |host| {
            opened.await?;
            host.view_mut(&mut v)?.fill(1);
            Ok(())
        })
    })?;
    let mut behind = s.increment(&s.home, &v)?;
    for queue in [&s.home, &s.second, &s.away] {
        s.increment(queue, &other)?.await?;
    }
    ensure!((&mut task).now_or_never().is_none());
    ensure!(poll_once(&mut behind).is_pending());
    gate.open();
    behind.await?;
    holds(&v, &[2; 64]).await
}

pub(super) async fn host_task_waits_for_readers(s: &Subject) -> Verdict {
    let (v, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
    s.count(&s.home, &v, 7)?;
    s.copy_slowly(&s.home, &v, &out)?;
    s.second.submit(|cg| {
        let mut v = cg.overwrite(&v);
        cg.host_task(async move |host| {
            host.view_mut(&mut v)?.fill(3);
            Ok(())
        })
    })?;
    s.churn(&s.away, &v, 1)?;
    holds(&out, &counted(7, 64)).await?;
    holds(&v, &[94; 64]).await
}

/// A host task has a part of what a device has written, and what it makes of it is there for the next kernel.
pub(super) async fn host_task_changes_a_part(s: &Subject) -> Verdict {
    let line = Buffer::<u32>::new(24);
    let grid = line.reinterpret::<u32, 2>([4, 6])?;
    s.count(&s.away, &line, 0)?;
    s.home.submit(|cg| {
        let part = cg.read_write(&grid.range((1..3, 2..5)));
        cg.host_task(async move |host| {
            let mut part = part;
            let mut view = host.view_mut(&mut part)?;
            let is_right = view[..] == [8, 9, 10, 14, 15, 16];
            view.iter_mut().for_each(|v| *v += 100);
            view[[1, 2]] += 100;
            if is_right { Ok(()) } else { Err("it sees something else".into()) }
        })
    })?;
    s.increment(&s.away, &line)?;
    let mut expected = counted(1, 24);
    [8, 9, 10, 14, 15, 16].iter().for_each(|at| expected[*at] += 100);
    expected[16] += 100;
    holds(&line, &expected).await
}
