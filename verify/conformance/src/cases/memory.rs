//! Views of other types, pages, and what a program asks of memory beyond its use.

use std::sync::{Arc, Mutex, PoisonError};

use windlass::{Buffer, Context, Queue, scope};

use super::steps::{counted, holds};
use crate::check::{Verdict, refused};
use crate::subject::{Moved, Subject};
use crate::{ensure, ensure_eq};

/// So many transfers, of so many elements of four bytes altogether.
fn moves(transfers: u64, elements: u64) -> Moved {
    Moved { transfers, bytes: 4 * elements }
}

pub(super) async fn elements_of_another_type(s: &Subject) -> Verdict {
    let line = Buffer::from(counted(0, 24));
    let (grid, bytes) = (line.reinterpret::<u32, 2>([4, 6])?, line.reinterpret::<u8, 1>(96)?);
    let floats = line.reinterpret::<f32, 1>(24)?;
    let before = s.tally();
    s.away.submit(|cg| cg.fill(&cg.overwrite(&floats.range(20..)), 1.0))?;
    s.away.submit(|cg| cg.fill(&cg.overwrite(&bytes.range(..4)), 0xff))?;
    ensure_eq!(s.moved_since(before), moves(0, 0), "these are whole elements of the buffer's own");
    s.away.submit(|cg| cg.fill(&cg.overwrite(&bytes.range(5..7)), 0xaa))?;
    ensure_eq!(s.moved_since(before), moves(1, 1), "the rest of the element is kept");
    s.away.submit(|cg| cg.fill(&cg.overwrite(&grid.range((1..3, 2..4))), 7))?;
    ensure_eq!(s.moved_since(before), moves(2, 9), "on a line the part stands for all between its ends");
    let mut expected = counted(0, 24);
    expected[20..].fill(1.0_f32.to_bits());
    (expected[0], expected[1]) = (u32::MAX, u32::from_le_bytes([1, 0xaa, 0xaa, 0]));
    [8, 9, 14, 15].iter().for_each(|at| expected[*at] = 7);
    holds(&line, &expected).await?;
    // As a kernel's argument.
    let row = grid.reinterpret::<u32, 1>(24)?.range(6..12);
    s.count(&s.away, &row, 50)?;
    expected[6..12].copy_from_slice(&counted(50, 6));
    holds(&line, &expected).await
}

pub(super) async fn pages_count_as_one(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 256)).with_pages(64);
    let before = s.tally();
    s.count(&s.away, &v.range(70..80), 5000)?;
    ensure_eq!(s.moved_since(before), moves(1, 64), "what is left of the page is kept");
    s.count(&s.away, &v.range(128..), 6000)?;
    ensure_eq!(s.moved_since(before), moves(1, 64), "whole pages are overwritten");
    let mut expected = counted(0, 256);
    expected[70..80].copy_from_slice(&counted(5000, 10));
    expected[128..].copy_from_slice(&counted(6000, 128));
    holds(&v.range(..64), &expected[..64]).await?;
    ensure_eq!(s.moved_since(before), moves(1, 64));
    holds(&v.range(100..101), &expected[100..101]).await?;
    let shown = if s.shows_memory { moves(1, 64) } else { moves(2, 128) };
    ensure_eq!(s.moved_since(before), shown, "a page comes whole");
    holds(&v, &expected).await
}

pub(super) async fn evicted_and_brought_again(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 256));
    ensure!(!s.away.evict(&v).await?, "it has never been there");
    s.increment(&s.away, &v)?;
    ensure!(s.away.evict(&v.range(3..5)).await?, "all of the buffer is meant, and nobody uses it any more");
    let before = s.tally();
    holds(&v, &counted(1, 256)).await?;
    ensure_eq!(s.moved_since(before), moves(0, 0), "the host has it");
    s.increment(&s.away, &v)?.await?;
    ensure_eq!(s.moved_since(before), moves(1, 256));
    ensure!(!s.away.evict(&v).await? || s.away.evict(&v).await.is_ok_and(|again| !again));
    holds(&v, &counted(2, 256)).await
}

pub(super) async fn data_is_brought_ahead(s: &Subject) -> Verdict {
    let (v, out) = (Buffer::from(counted(0, 256)), Buffer::new(256));
    s.away.prefetch(&v)?.await?;
    let before = s.tally();
    s.copy(&s.away, &v, &out)?.await?;
    ensure_eq!(s.moved_since(before), moves(0, 0));
    s.away.submit(|cg| cg.update_host(&cg.read(&out)))?.await?;
    let before = s.tally();
    holds(&out, &counted(0, 256)).await?;
    ensure_eq!(s.moved_since(before), moves(0, 0), "the host has it already");
    let wrong = refused(s.away.submit(|cg| cg.update_host(&cg.overwrite(&out))))?;
    ensure!(wrong.is_invalid_input(), "{wrong}");
    Ok(())
}

pub(super) async fn poison_is_taken_for_good(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(3, 64));
    ensure!(s.fail(&v, "no")?.await.is_err());
    ensure!(v.poison().is_some());
    v.range(..32).clear_poison();
    ensure!(v.range(..32).poison().is_none() && v.poison().is_some(), "only the part that was meant");
    s.increment(&s.away, &v.range(..32))?.await?;
    holds(&v.range(..32), &counted(4, 32)).await?;
    v.clear_poison();
    holds(&v.range(32..), &counted(35, 32)).await
}

pub(super) async fn a_second_queue_takes_what_the_first_refuses(s: &Subject) -> Verdict {
    let context = Context::open(std::slice::from_ref(&s.device)).await?;
    let lost = Queue::in_context(&context, &s.device).await?;
    context.abandon();
    let v = Buffer::<u32>::new(64);
    lost.submit_or(&s.home, |cg| cg.fill(&cg.overwrite(&v), 7))?.await?;
    holds(&v, &[7; 64]).await?;
    s.home.submit_or(&lost, |cg| cg.fill(&cg.overwrite(&v), 8))?.await?;
    holds(&v, &[8; 64]).await?;
    let error = refused(lost.submit_or(&lost, |cg| cg.fill(&cg.overwrite(&v), 9)))?;
    let told =
        error.refusals().is_some_and(|refusals| refusals.iter().all(|refusal| refusal.is_device_lost()));
    ensure!(told, "{error}");
    let asked = std::cell::Cell::new(0);
    let error = refused(s.home.submit_or(&s.second, |cg| {
        asked.set(asked.get() + 1);
        cg.fill(&cg.overwrite(&v.range(2..99)), 9)
    }))?;
    ensure!(error.is_invalid_input(), "{error}");
    ensure_eq!(asked.get(), 1, "what is wrong anywhere is not tried again");
    holds(&v, &[8; 64]).await
}

/// A mapped file, say: a value of the program's that has some elements at an address of its own.
struct Elements(Vec<u32>);

impl AsMut<[u32]> for Elements {
    fn as_mut(&mut self) -> &mut [u32] {
        &mut self.0[3..]
    }
}

/// Memory of the program's own is a buffer's host memory: what devices change comes back there.
pub(super) async fn memory_of_the_programs_own(s: &Subject) -> Verdict {
    let v = Buffer::from_owner(Elements(counted(0, 67)));
    let before = s.tally();
    s.count(&s.away, &v.range(8..16), 50)?;
    s.count(&s.home, &v.range(32..), 70)?;
    let mut expected = counted(3, 64);
    expected[8..16].copy_from_slice(&counted(50, 8));
    expected[32..].copy_from_slice(&counted(70, 32));
    holds(&v, &expected).await?;
    ensure!(s.moved_since(before).transfers <= 4, "there and back, for each part at most");
    ensure_eq!(v.into_vec().await?[..], expected[..]);
    Ok(())
}

/// Data of the program's gets back what devices have made of it, and what nobody has written is left alone.
pub(super) async fn data_comes_home(s: &Subject) -> Verdict {
    let (written, read) = (Arc::new(Mutex::new(counted(0, 64))), Arc::new(Mutex::new(counted(7, 64))));
    let of = |home: &Arc<Mutex<Vec<u32>>>| home.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let (v, x) = (Buffer::attached(&written), Buffer::attached(&read));
    s.copy(&s.away, &x.range(..8), &v.range(8..16))?;
    s.increment(&s.home, &v.range(12..))?;
    let part = v.range(..1);
    let closed = v.close();
    ensure_eq!(of(&written), counted(0, 64), "there is a handle left");
    drop(part);
    closed.await?;
    let mut expected = counted(0, 64);
    expected[8..16].copy_from_slice(&counted(7, 8));
    expected[12..].iter_mut().for_each(|v| *v += 1);
    ensure_eq!(of(&written), expected);
    read.lock().unwrap_or_else(PoisonError::into_inner)[0] = 5;
    x.close().await?;
    ensure_eq!(of(&read)[..2], [5, 8], "what the program has made of it meanwhile");

    let mut lent = counted(0, 32);
    scope(|of| s.increment(&s.away, &of.buffer(&mut lent).range(..30)).map(drop))?;
    ensure_eq!((&lent[..30], &lent[30..]), (&counted(1, 30)[..], &counted(30, 2)[..]));
    Ok(())
}

/// What stays in one context's memory can be used there alone, unless it is the host's, where all find it.
pub(super) async fn what_stays_is_refused_elsewhere(s: &Subject) -> Verdict {
    for kind in s.home.memory_kinds() {
        let stays = s.home.buffer_in::<u32, 1>(kind, 64).await?;
        s.count(&s.home, &stays, 3)?.await?;
        match s.increment(&s.away, &stays) {
            Ok(done) if s.works_in_place() => done.await?,
            Ok(_) => ensure!(false, "{kind} memory of another context is taken"),
            Err(refused) => ensure!(refused.is_invalid_input(), "{kind}: {refused}"),
        }
        s.increment(&s.second, &stays)?.await?;
    }
    Ok(())
}
