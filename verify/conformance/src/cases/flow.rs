//! Back-pressure.

use windlass::{Buffer, Queue};

use super::steps::{counted, holds};
use crate::check::{Verdict, latch, poll_once, refused};
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

async fn narrow(s: &Subject) -> windlass::Result<Queue> {
    Queue::builder().device(s.device.clone()).max_in_flight(2).build().await
}

pub(super) async fn saturation(s: &Subject) -> Verdict {
    let queue = narrow(s).await?;
    let v = Buffer::<u32>::new(8);
    let (gate, opened) = latch();
    let first = queue.try_submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&v);
        cg.parallel_for(8, s.call("fill_index").buffer(to).value(0_u32))
    })?;
    let group = |cg: &windlass::CommandGroup<'_>| {
        let to = cg.read_write(&v);
        cg.parallel_for(8, s.call("increment").buffer(to))
    };
    queue.try_submit(group)?;
    ensure_eq!(queue.in_flight(), 2);
    ensure!(refused(queue.try_submit(group))?.is_saturated());
    ensure_eq!(queue.in_flight(), 2);
    let mut ready = queue.ready();
    ensure!(poll_once(&mut ready).is_pending());
    gate.open();
    ready.await.submit(group)?.await?;
    first.await?;
    queue.try_submit(group)?.await?;
    Ok(())
}

pub(super) async fn slot_reserves(s: &Subject) -> Verdict {
    let queue = narrow(s).await?;
    let (a, b) = (queue.ready().await, queue.ready().await);
    ensure!(refused(queue.try_submit(|_| Ok(())))?.is_saturated());
    let mut third = queue.ready();
    ensure!(poll_once(&mut third).is_pending());
    drop(a);
    let c = third.await;
    // A group that is refused gives its place back as well.
    ensure!(b.submit(|_| Err(windlass::Error::other("no"))).is_err());
    queue.try_submit(|_| Ok(()))?.await?;
    drop(c);
    // Nor does a refused group count as one under way.
    queue.drained().await;
    ensure_eq!(queue.in_flight(), 0);
    Ok(())
}

pub(super) async fn drained_waits_for_all(s: &Subject) -> Verdict {
    let queue = Queue::builder().device(s.device.clone()).build().await?;
    queue.drained().await;
    let v = Buffer::<u32>::new(8);
    let (gate, opened) = latch();
    queue.submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&v);
        cg.parallel_for(8, s.call("fill_index").buffer(to).value(0_u32))
    })?;
    // Its dependants in other queues do not matter, and those in this one do.
    s.increment(&s.away, &v)?;
    s.increment(&queue, &v)?;
    s.increment(&queue, &Buffer::new(8))?.await?;
    let mut drained = queue.drained();
    ensure!(poll_once(&mut drained).is_pending());
    gate.open();
    drained.await;
    ensure_eq!(queue.in_flight(), 0);
    Ok(())
}

pub(super) async fn submit_is_never_refused(s: &Subject) -> Verdict {
    let queue = narrow(s).await?;
    let v = Buffer::<u32>::new(8);
    for _ in 0..20 {
        s.increment(&queue, &v)?;
    }
    // It has taken more than there is; the first slot comes when that is repaid.
    let slot = queue.ready().await;
    ensure!(queue.in_flight() <= 2);
    drop(slot);
    queue.drained().await;
    Ok(())
}

pub(super) async fn later_accessor_counts_for_the_whole_group(s: &Subject) -> Verdict {
    let (early, late, copy) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64), Buffer::<u32>::new(64));
    // Built, allocated and done, so that nothing but the gate holds anybody back.
    s.count(&s.home, &early, 1)?.await?;
    s.copy(&s.home, &early, &copy)?.await?;
    s.count(&s.home, &late, 1)?.await?;
    for queue in [&s.home, &s.second, &s.away] {
        queue.drained().await;
    }
    let fed = || s.runtime.stats().fed;
    let before = fed();
    let (gate, opened) = latch();
    s.home.submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&late);
        cg.parallel_for(64, s.call("fill_index").buffer(to).value(7_u32))
    })?;
    let group = s.second.submit(|cg| {
        let to = cg.overwrite(&early);
        cg.parallel_for(64, s.call("fill_index").buffer(&to).value(5_u32))?;
        let (from, to) = (cg.read(&late), cg.overwrite(&copy));
        cg.parallel_for(64, s.call("copy").buffer(from).buffer(to))
    })?;
    ensure_eq!(fed(), before, "its first kernel waits for what was asked for after it");
    gate.open();
    group.await?;
    holds(&early, &counted(5, 64)).await?;
    holds(&copy, &counted(7, 64)).await
}
