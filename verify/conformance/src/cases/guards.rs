//! Data on loan to the program.

use windlass::Buffer;

use super::steps::{counted, holds};
use crate::check::{Verdict, latch, poll_once};
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

pub(super) async fn host_read_waits_for_writers(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.away] {
        let v = Buffer::<u32>::new(64);
        s.count_slowly(queue, &v, 1)?;
        ensure_eq!(v.host_read().await?[..], counted(1, 64)[..]);
    }
    Ok(())
}

pub(super) async fn host_read_ignores_readers(s: &Subject) -> Verdict {
    let (v, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
    s.count(&s.home, &v, 1)?;
    let (gate, opened) = latch();
    let mut reader = s.home.submit(|cg| {
        cg.after(opened);
        let (from, to) = (cg.read(&v), cg.overwrite(&out));
        cg.parallel_for(64, s.call("copy").buffer(from).buffer(to))
    })?;
    ensure_eq!(v.host_read().await?[..], counted(1, 64)[..]);
    ensure!(poll_once(&mut reader).is_pending());
    gate.open();
    reader.await?;
    Ok(())
}

pub(super) async fn guard_holds_back_writers(s: &Subject) -> Verdict {
    for queue in [&s.home, &s.away] {
        let (v, other) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
        s.count(queue, &v, 1)?;
        let guard = v.host_read().await?;
        let mut writer = s.count(queue, &v, 500)?;
        let mut behind = s.increment(queue, &v)?;
        // Groups that only read go on, and so do those on other data.
        s.increment(queue, &other)?.await?;
        ensure!(poll_once(&mut writer).is_pending());
        ensure!(poll_once(&mut behind).is_pending());
        ensure_eq!(guard[..], counted(1, 64)[..]);
        drop(guard);
        behind.await?;
        holds(&v, &counted(501, 64)).await?;
    }
    Ok(())
}

pub(super) async fn write_guard_holds_back_readers(s: &Subject) -> Verdict {
    let (v, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
    s.count(&s.away, &v, 1)?;
    let mut guard = v.host_write().await?;
    let mut reader = s.copy(&s.away, &v, &out)?;
    s.increment(&s.away, &Buffer::new(8))?.await?;
    ensure!(poll_once(&mut reader).is_pending());
    guard.fill(9);
    drop(guard);
    reader.await?;
    holds(&out, &[9; 64]).await
}

pub(super) async fn dropped_guard_future_leaves_no_trace(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let (gate, opened) = latch();
    s.home.submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&v);
        cg.parallel_for(64, s.call("fill_index").buffer(to).value(1_u32))
    })?;
    // One that was never polled, and one that waits.
    drop(v.host_write());
    let mut waiting = Box::pin(v.host_write());
    ensure!(poll_once(&mut waiting).is_pending());
    let behind = s.increment(&s.away, &v)?;
    drop(waiting);
    gate.open();
    behind.await?;
    holds(&v, &counted(2, 64)).await
}

pub(super) async fn guard_of_a_part(s: &Subject) -> Verdict {
    let v = Buffer::<u32, 2>::new([8, 8]);
    s.away.submit(|cg| cg.fill(&cg.overwrite(&v), 1))?;
    {
        let mut part = v.range((2..4, 3..6)).host_write().await?;
        ensure_eq!(part.shape(), [2, 3]);
        part.copy_from_slice(&counted(10, 6));
        // The rest is free.
        let rest = v.range((5.., ..));
        s.away.submit(|cg| cg.fill(&cg.overwrite(&rest), 2))?.await?;
    }
    let whole = v.host_read().await?;
    for (i, value) in whole.iter().enumerate() {
        let (y, x) = (i / 8, i % 8);
        let expected = match (2..4).contains(&y) && (3..6).contains(&x) {
            true => 10 + (y - 2) * 3 + x - 3,
            false => 1 + usize::from(y >= 5),
        };
        ensure_eq!(*value as usize, expected, "[{y}, {x}]");
    }
    Ok(())
}

pub(super) async fn host_write_is_seen(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    s.bind(&v).await?;
    v.host_write().await?.copy_from_slice(&counted(3, 64));
    let out = Buffer::<u32>::new(64);
    for queue in [&s.home, &s.away] {
        s.copy(queue, &v, &out)?;
        holds(&out, &counted(3, 64)).await?;
    }
    Ok(())
}

pub(super) async fn into_vec_gives_all_back(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 64));
    s.increment(&s.home, &v)?;
    s.increment(&s.away, &v)?;
    let part = v.range(8..16);
    ensure_eq!(part.into_vec().await?, counted(10, 8));
    ensure_eq!(v.into_vec().await?, counted(2, 64));
    Ok(())
}
