//! Handles die whenever they like.

use windlass::{Buffer, Context, Queue};

use super::steps::{counted, holds};
use crate::check::{Verdict, latch};
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

pub(super) async fn buffer_dies_before_its_groups(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.away] {
        let (v, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
        let (gate, opened) = latch();
        queue.submit(|cg| {
            cg.after(opened);
            let to = cg.overwrite(&v);
            cg.parallel_for(64, s.call("fill_index").buffer(to).value(2_u32))
        })?;
        s.churn(&s.home, &v, 1)?;
        s.copy(&s.away, &v, &out)?;
        drop(v);
        gate.open();
        holds(&out, &counted(2, 64).iter().map(|v| v * 31 + 1).collect::<Vec<_>>()).await?;
    }
    Ok(())
}

pub(super) async fn queue_dies_before_its_groups(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let queue = Queue::builder().device(s.device.clone()).build().await?;
    let (gate, opened) = latch();
    let held = queue.submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&v);
        cg.parallel_for(64, s.call("fill_index").buffer(to).value(2_u32))
    })?;
    s.increment(&queue, &v)?;
    drop(queue);
    gate.open();
    held.await?;
    holds(&v, &counted(3, 64)).await
}

pub(super) async fn buffers_are_forgotten(s: &Subject) -> Verdict {
    s.home.drained().await;
    s.away.drained().await;
    let before = s.runtime.stats().live_buffers;
    for round in 0..50 {
        let (v, out) = (Buffer::from(counted(round, 256)), Buffer::<u32>::new(256));
        s.increment(&s.home, &v)?;
        s.copy(&s.away, &v, &out)?;
        s.increment(&s.second, &out.range(..7))?;
    }
    for queue in [&s.home, &s.second, &s.away] {
        queue.drained().await;
    }
    // What a group held is given back right after its end has been told.
    for _ in 0..1000 {
        if s.runtime.stats().live_buffers <= before {
            break;
        }
        futures_lite::future::yield_now().await;
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let after = s.runtime.stats().live_buffers;
    ensure!(after <= before, "{after} buffers are known, and before it were {before}");
    Ok(())
}

pub(super) async fn context_of_its_own_dies(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 64));
    {
        let context = Context::open(std::slice::from_ref(&s.device)).await?;
        let queue = Queue::builder().context(&context).build().await?;
        ensure_eq!(*queue.device(), s.device);
        s.increment(&queue, &v)?;
        s.increment(&queue, &v)?;
    }
    s.increment(&s.home, &v)?;
    holds(&v, &counted(3, 64)).await
}
