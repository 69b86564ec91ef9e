//! Only stale bytes move, in the fewest transfers.

use windlass::Buffer;

use super::steps::{counted, holds};
use crate::check::Verdict;
use crate::ensure_eq;
use crate::subject::{Moved, Subject};

/// So many transfers, of so many elements of four bytes altogether.
fn moves(transfers: u64, elements: u64) -> Moved {
    Moved { transfers, bytes: 4 * elements }
}

/// Moves that are needed unless the home context works on the program's own memory.
fn unless_in_place(s: &Subject, moved: Moved) -> Moved {
    if s.works_in_place() { moves(0, 0) } else { moved }
}

impl Subject {
    /// A buffer of `n` elements, `0`, `1`, ..., that is current in the away context as well as on the host.
    async fn known_away(&self, n: usize) -> windlass::Result<Buffer<u32>> {
        let v = Buffer::from(counted(0, n));
        self.copy(&self.away, &v, &Buffer::new(n))?.await?;
        Ok(v)
    }
}

pub(super) async fn no_init_moves_nothing(s: &Subject) -> Verdict {
    let before = s.tally();
    let v = Buffer::from(counted(0, 256));
    s.count(&s.away, &v, 1)?;
    s.count(&s.home, &v, 2)?;
    s.away.submit(|cg| {
        let to = cg.read_write_uninit(&v);
        cg.parallel_for(v.len(), s.call("fill_index").buffer(to).value(3_u32))
    })?;
    s.home.submit(|cg| cg.fill(&cg.overwrite(&v.range(..128)), 0))?;
    ensure_eq!(s.moved_since(before), moves(0, 0));
    let mut expected = counted(3, 256);
    expected[..128].fill(0);
    holds(&v, &expected).await
}

pub(super) async fn never_written_moves_nothing(s: &Subject) -> Verdict {
    let before = s.tally();
    let v = Buffer::<u32>::new(256);
    s.copy(&s.home, &v, &Buffer::new(256))?.await?;
    s.copy(&s.away, &v, &Buffer::new(256))?.await?;
    s.increment(&s.away, &v.range(..64))?.await?;
    ensure_eq!(s.moved_since(before), moves(0, 0));
    s.copy(&s.home, &v, &Buffer::new(256))?.await?;
    ensure_eq!(s.moved_since(before), moves(1, 64), "the rest was never written");
    Ok(())
}

pub(super) async fn current_data_moves_nothing(s: &Subject) -> Verdict {
    let v = s.known_away(256).await?;
    let before = s.tally();
    for _ in 0..3 {
        s.copy(&s.away, &v, &Buffer::new(256))?.await?;
    }
    s.increment(&s.away, &v)?.await?;
    s.churn(&s.away, &v.range(7..99), 1)?.await?;
    ensure_eq!(s.moved_since(before), moves(0, 0));
    Ok(())
}

pub(super) async fn readers_share_one_transfer(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 1024));
    let before = s.tally();
    let outs: Vec<_> = (0..5).map(|_| Buffer::<u32>::new(1024)).collect();
    for out in &outs {
        s.copy(&s.away, &v, out)?;
    }
    ensure_eq!(s.moved_since(before), moves(1, 1024));
    for out in &outs {
        holds(out, &counted(0, 1024)).await?;
    }
    Ok(())
}

pub(super) async fn stale_ranges_only(s: &Subject) -> Verdict {
    let (v, out) = (s.known_away(1024).await?, Buffer::<u32>::new(1024));
    s.count(&s.home, &v.range(100..200), 5000)?;
    s.count(&s.home, &v.range(500..501), 6000)?;
    let before = s.tally();
    s.copy(&s.away, &v.range(200..500), &out.range(200..500))?.await?;
    ensure_eq!(s.moved_since(before), moves(0, 0));
    s.copy(&s.away, &v.range(150..), &out.range(150..))?.await?;
    ensure_eq!(s.moved_since(before), moves(2, 51));
    s.copy(&s.away, &v, &out)?.await?;
    ensure_eq!(s.moved_since(before), moves(3, 101));
    let mut expected = counted(0, 1024);
    expected[100..200].copy_from_slice(&counted(5000, 100));
    expected[500] = 6000;
    holds(&out, &expected).await
}

pub(super) async fn adjacent_ranges_in_one_transfer(s: &Subject) -> Verdict {
    let (v, out) = (s.known_away(64).await?, Buffer::<u32>::new(64));
    s.count(&s.home, &v.range(10..20), 100)?.await?;
    s.count(&s.home, &v.range(30..40), 300)?.await?;
    s.count(&s.second, &v.range(20..30), 200)?.await?;
    let before = s.tally();
    s.copy(&s.away, &v, &out)?;
    ensure_eq!(s.moved_since(before), moves(1, 30), "none of the three can fail any more");
    let mut expected = counted(0, 64);
    for (at, base) in [(10, 100), (20, 200), (30, 300)] {
        expected[at..at + 10].copy_from_slice(&counted(base, 10));
    }
    holds(&out, &expected).await
}

pub(super) async fn stale_box_of_a_grid_only(s: &Subject) -> Verdict {
    let v = Buffer::<u32, 2>::with_shape([16, 16], counted(0, 256))?;
    let out = Buffer::<u32, 2>::new([16, 16]);
    let copy = || {
        s.away.submit(|cg| {
            let (from, to) = (cg.read(&v), cg.overwrite(&out));
            cg.copy(&from, &to)
        })
    };
    copy()?.await?;
    s.home.submit(|cg| cg.fill(&cg.overwrite(&v.range((4..8, 2..6))), 9))?;
    let before = s.tally();
    copy()?.await?;
    ensure_eq!(s.moved_since(before), moves(1, 16));
    let out = out.host_read().await?;
    for (i, value) in out.iter().enumerate() {
        let inside = (4..8).contains(&(i / 16)) && (2..6).contains(&(i % 16));
        ensure_eq!(*value as usize, if inside { 9 } else { i }, "element {i}");
    }
    Ok(())
}

pub(super) async fn odd_bytes_move_by_granules(s: &Subject) -> Verdict {
    let (v, out) = (Buffer::from(vec![1_u8; 64]), Buffer::<u8>::new(64));
    let copy = || {
        s.away.submit(|cg| {
            let (from, to) = (cg.read(&v), cg.overwrite(&out));
            cg.copy(&from, &to)
        })
    };
    copy()?.await?;
    v.range(5..27).host_write().await?.fill(2);
    let before = s.tally();
    copy()?.await?;
    // Validity is exact to four bytes: 5..27 lies in 4..28.
    let moved = if s.shows_memory { moves(0, 0) } else { Moved { transfers: 1, bytes: 24 } };
    ensure_eq!(s.moved_since(before), moved);
    let expected: Vec<u8> = (0..64).map(|i| if (5..27).contains(&i) { 2 } else { 1 }).collect();
    ensure_eq!(out.host_read().await?.to_vec(), expected);
    Ok(())
}

pub(super) async fn keeping_write_fetches_its_range(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 256));
    let before = s.tally();
    s.away
        .submit(|cg| {
            let to = cg.write(&v.range(..64));
            // Half of it is written, the other half kept.
            cg.parallel_for(32, s.call("fill_index").buffer(to).value(1000_u32))
        })?
        .await?;
    ensure_eq!(s.moved_since(before), moves(1, 64));
    let mut expected = counted(0, 256);
    expected[..32].copy_from_slice(&counted(1000, 32));
    holds(&v, &expected).await
}

pub(super) async fn reading_moves_nothing_back(s: &Subject) -> Verdict {
    let v = s.known_away(256).await?;
    let before = s.tally();
    holds(&v, &counted(0, 256)).await?;
    s.copy(&s.away, &v, &Buffer::new(256))?.await?;
    holds(&v, &counted(0, 256)).await?;
    ensure_eq!(s.moved_since(before), moves(0, 0));
    Ok(())
}

pub(super) async fn writing_moves_nothing_back(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 256));
    s.increment(&s.away, &v)?.await?;
    let before = s.tally();
    s.increment(&s.away, &v)?.await?;
    ensure_eq!(s.moved_since(before), moves(0, 0), "nobody asked for it");
    holds(&v, &counted(2, 256)).await?;
    holds(&v, &counted(2, 256)).await?;
    ensure_eq!(s.moved_since(before), if s.shows_memory { moves(0, 0) } else { moves(1, 256) });
    Ok(())
}

pub(super) async fn ping_pong(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(256);
    s.count(&s.home, &v, 0)?;
    let before = s.tally();
    for _ in 0..10 {
        s.increment(&s.away, &v)?;
        s.increment(&s.home, &v)?;
    }
    ensure_eq!(s.moved_since(before), moves(20, 20 * 256));
    holds(&v, &counted(20, 256)).await
}

pub(super) async fn ping_pong_with_the_host(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 256));
    let before = s.tally();
    for _ in 0..10 {
        s.increment(&s.home, &v)?;
        v.host_write().await?.iter_mut().for_each(|v| *v *= 2);
    }
    // Where the host finds it, it goes there once, and stays.
    let moved = if s.shows_memory { moves(1, 256) } else { moves(20, 20 * 256) };
    ensure_eq!(s.moved_since(before), unless_in_place(s, moved));
    let step = |v: &u32| (0..10).fold(*v, |v, _| (v + 1) * 2);
    holds(&v, &counted(0, 256).iter().map(step).collect::<Vec<_>>()).await
}

pub(super) async fn reading_before_writing_is_no_error(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(3, 64));
    let before = s.tally();
    let increments = s.home.submit(|cg| {
        let to = cg.read_write_uninit(&v);
        cg.parallel_for(64, s.call("increment").buffer(to))
    })?;
    increments.await?;
    ensure_eq!(s.moved_since(before), moves(0, 0), "what is read is whatever is there");
    // What came of it is anybody's guess, and a whole write is good again.
    s.count(&s.home, &v, 9)?.await?;
    holds(&v, &counted(9, 64)).await
}

pub(super) async fn three_ways(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 256));
    let before = s.tally();
    let mut model = counted(0, 256);
    for round in 0..5 {
        s.churn(&s.home, &v, round)?;
        s.churn(&s.away, &v, round + 1)?;
        v.host_write().await?.iter_mut().for_each(|v| *v ^= 0x55);
        let mixed =
            |v: u32| (v.wrapping_mul(31).wrapping_add(round)).wrapping_mul(31).wrapping_add(round + 1);
        model.iter_mut().for_each(|v| *v = mixed(*v) ^ 0x55);
    }
    // Home to away, away to the host, and the host to home; or where the host finds it, or is home, just there and back.
    let (is_home, shows) = (s.works_in_place(), s.shows_memory);
    // The first time it is where home is the host, which needs nothing then.
    let count = if is_home || shows { 10 - u64::from(is_home && shows) } else { 15 };
    ensure_eq!(s.moved_since(before), moves(count, count * 256));
    // One version, three readers: two of them fetch it, or one where home is the host, or the host has it where one of them works.
    let before = s.tally();
    let (a, b) = (Buffer::<u32>::new(256), Buffer::<u32>::new(256));
    s.copy(&s.home, &v, &a)?;
    s.copy(&s.away, &v, &b)?;
    let each = if s.works_in_place() || s.shows_memory { 1 } else { 2 };
    ensure_eq!(s.moved_since(before), moves(each, each * 256));
    holds(&v, &model).await?;
    holds(&a, &model).await?;
    holds(&b, &model).await
}

pub(super) async fn union_of_modes_fetches(s: &Subject) -> Verdict {
    let out = Buffer::<u32>::new(128);
    // In either order, a read beside a no-init write of the same elements keeps what was there.
    for write_first in [false, true] {
        let before = s.tally();
        let v = Buffer::from(counted(0, 256));
        s.away
            .submit(|cg| {
                let write = write_first.then(|| cg.overwrite(&v.range(64..)));
                let read = cg.read(&v.range(..128));
                let write = write.unwrap_or_else(|| cg.overwrite(&v.range(64..)));
                let to = cg.overwrite(&out);
                cg.parallel_for(128, s.call("copy").buffer(read).buffer(to))?;
                cg.parallel_for(192, s.call("fill_index").buffer(write).value(7_u32))
            })?
            .await?;
        ensure_eq!(s.moved_since(before), moves(1, 128), "write first: {write_first}");
        holds(&out, &counted(0, 128)).await?;
        holds(&v.range(64..), &counted(7, 192)).await?;
    }
    Ok(())
}

pub(super) async fn unused_accessor_is_a_requirement(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 256));
    let before = s.tally();
    let nothing = s.away.submit(|cg| {
        cg.read(&v);
        Ok(())
    })?;
    ensure_eq!(s.moved_since(before), moves(1, 256));
    nothing.await?;
    Ok(())
}

pub(super) async fn only_what_is_written_is_stale(s: &Subject) -> Verdict {
    let (v, w) = (s.known_away(256).await?, s.known_away(256).await?);
    // Reads all of one and writes a part of the other.
    s.home.submit(|cg| {
        let (from, to) = (cg.read(&w), cg.overwrite(&v.range(..64)));
        cg.parallel_for(64, s.call("copy").buffer(from).buffer(to))
    })?;
    let before = s.tally();
    s.copy(&s.away, &w, &Buffer::new(256))?.await?;
    ensure_eq!(s.moved_since(before), moves(0, 0));
    s.copy(&s.away, &v, &Buffer::new(256))?.await?;
    ensure_eq!(s.moved_since(before), moves(1, 64));
    Ok(())
}
