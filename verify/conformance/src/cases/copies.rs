//! Copies and fills as commands, and where memory comes from.

use windlass::texel::R32Uint;
use windlass::{Buffer, DeviceCopy, Image, MemoryKind};

use super::steps::{counted, holds};
use crate::check::{Verdict, refused};
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

pub(super) async fn copy_and_fill_are_commands(s: &Subject) -> Verdict {
    let (v, out) = (Buffer::from(counted(0, 64)), Buffer::<u32>::new(64));
    s.home.submit(|cg| {
        let (from, to) = (cg.read(&v), cg.overwrite(&out));
        cg.copy(&from, &to)?;
        let middle = cg.read_write(&out.range(10..20));
        cg.fill(&middle, 7)
    })?;
    let mut expected = counted(0, 64);
    expected[10..20].fill(7);
    holds(&out, &expected).await?;
    // A copy inside one buffer.
    s.home.submit(|cg| {
        let (from, to) = (cg.read(&out.range(5..15)), cg.overwrite(&out.range(40..50)));
        cg.copy(&from, &to)
    })?;
    expected.copy_within(5..15, 40);
    holds(&out, &expected).await?;
    let shapes = s.home.submit(|cg| {
        let (from, to) = (cg.read(&v.range(..10)), cg.overwrite(&out.range(..11)));
        cg.copy(&from, &to)
    });
    ensure!(refused(shapes)?.is_invalid_input());
    let overlap = s.home.submit(|cg| {
        let (from, to) = (cg.read(&v.range(..10)), cg.overwrite(&v.range(5..15)));
        cg.copy(&from, &to)
    });
    ensure!(refused(overlap)?.is_invalid_input());
    Ok(())
}

pub(super) async fn copy_of_a_box(s: &Subject) -> Verdict {
    let from = Buffer::<u32, 3>::with_shape([4, 5, 6], counted(0, 120))?;
    let to = Buffer::<u32, 3>::new([3, 4, 8]);
    s.home.submit(|cg| {
        let a = cg.read(&from.range((1..3, 2..5, 1..4)));
        let b = cg.overwrite(&to.range((0..2, 1..4, 4..7)));
        cg.copy(&a, &b)
    })?;
    let to = to.host_read().await?;
    for (i, value) in to.iter().enumerate() {
        let (z, y, x) = (i / 32, i / 8 % 4, i % 8);
        let inside = z < 2 && (1..4).contains(&y) && (4..7).contains(&x);
        let expected = if inside { ((z + 1) * 5 + y + 1) * 6 + x - 3 } else { 0 };
        ensure_eq!(*value as usize, expected, "[{z}, {y}, {x}]");
    }
    Ok(())
}

/// Parts of which neither's rows follow each other, and one has a dimension more: row-major order says which goes where.
pub(super) async fn copy_between_parts_of_two_ranks(s: &Subject) -> Verdict {
    let from = Buffer::<u32, 3>::with_shape([3, 4, 5], counted(0, 60))?;
    for queue in [&s.home, &s.away] {
        let to = Buffer::<u32, 2>::with_shape([5, 7], vec![99; 35])?;
        queue.submit(|cg| {
            let a = cg.read(&from.range((1..3, 1..3, 1..4)));
            cg.copy(&a, &cg.overwrite(&to.range((1..4, 2..6))))
        })?;
        let part = (0..12).map(|i| ((1 + i / 6) * 4 + 1 + i / 3 % 2) * 5 + 1 + i % 3);
        let mut expected = [99; 35];
        part.enumerate().for_each(|(at, value)| expected[(1 + at / 4) * 7 + 2 + at % 4] = value);
        ensure_eq!(to.host_read().await?[..], expected[..]);
    }
    Ok(())
}

async fn filled<T: DeviceCopy + PartialEq + std::fmt::Debug>(s: &Subject, value: T) -> Verdict {
    let v = Buffer::<T>::new(24);
    for queue in [&s.home, &s.away] {
        queue.submit(|cg| cg.fill(&cg.overwrite(&v), T::zero()))?;
        // The ends are multiples of four bytes for every size of element.
        queue.submit(|cg| cg.fill(&cg.overwrite(&v.range(4..20)), value))?;
        let is = v.host_read().await?;
        let wrong =
            is.iter().enumerate().find(|(i, v)| **v != if (4..20).contains(i) { value } else { T::zero() });
        ensure!(wrong.is_none(), "{wrong:?} of {}", std::any::type_name::<T>());
    }
    Ok(())
}

pub(super) async fn fill_of_every_element_size(s: &Subject) -> Verdict {
    filled(s, 0xa5_u8).await?;
    filled(s, -2_i16).await?;
    filled(s, 1.5_f32).await?;
    filled(s, 0x0123_4567_89ab_cdef_u64).await?;
    filled(s, -7.25_f64).await?;
    filled(s, [1_u16, 2, 3]).await?;
    filled(s, [1.0_f32, 2.0, 3.0]).await?;
    filled(s, [1_u32, 2, 3, 4]).await?;
    filled(s, [9_u64; 5]).await
}

pub(super) async fn odd_bytes_by_commands(s: &Subject) -> Verdict {
    let (v, out) = (Buffer::from((0..64).collect::<Vec<u8>>()), Buffer::<u8>::new(64));
    s.home.submit(|cg| cg.fill(&cg.overwrite(&v.range(5..27)), 0xff))?.await?;
    s.home
        .submit(|cg| {
            let (from, to) = (cg.read(&v.range(3..33)), cg.overwrite(&out.range(21..51)));
            cg.copy(&from, &to)
        })?
        .await?;
    let mut expected = vec![0_u8; 64];
    (3..33).for_each(|i| expected[i + 18] = if (5..27).contains(&i) { 0xff } else { i as u8 });
    ensure_eq!(out.host_read().await?.to_vec(), expected);
    Ok(())
}

pub(super) async fn zero_elements(s: &Subject) -> Verdict {
    let before = s.tally();
    let (none, flat) = (Buffer::<u32>::new(0), Buffer::<f32, 3>::new([4, 0, 3]));
    ensure!(none.is_empty() && flat.is_empty());
    s.count(&s.home, &none, 1)?.await?;
    s.increment(&s.away, &none)?.await?;
    s.home.submit(|cg| cg.fill(&cg.overwrite(&flat), 1.0))?.await?;
    s.away
        .submit(|cg| {
            let (a, b) = (cg.read(&none), cg.overwrite(&none));
            cg.copy(&a, &b)
        })?
        .await?;
    ensure!(none.host_read().await?.is_empty());
    ensure!(flat.host_write().await?.is_empty());
    let v = Buffer::from(counted(0, 8));
    s.increment(&s.away, &v.range(8..8))?.await?;
    ensure_eq!(s.moved_since(before).transfers, 0);
    holds(&v, &counted(0, 8)).await?;
    ensure_eq!(none.into_vec().await?, vec![]);
    Ok(())
}

pub(super) async fn never_written_reads_as_zeros(s: &Subject) -> Verdict {
    // Memory that was somebody else's is not shown.
    for _ in 0..4 {
        s.count(&s.home, &Buffer::<u32>::new(4096), 1)?.await?;
        s.count(&s.away, &Buffer::<u32>::new(4096), 1)?.await?;
    }
    let (v, a, b) = (Buffer::<u32>::new(4096), Buffer::<u32>::new(4096), Buffer::<u32>::new(4096));
    s.copy(&s.home, &v, &a)?;
    s.copy(&s.away, &v, &b)?;
    holds(&a, &vec![0; 4096]).await?;
    holds(&b, &vec![0; 4096]).await?;
    // What a no-init write leaves out is zeros as well, in memory that is fresh.
    let half = Buffer::<u32>::new(64);
    s.count(&s.away, &half.range(..32), 1)?;
    holds(&half.range(32..), &[0; 32]).await?;
    holds(&half.range(..32), &counted(1, 32)).await
}

pub(super) async fn allocation_is_lazy_and_kept(s: &Subject) -> Verdict {
    let made = || s.runtime.stats().allocations;
    let before = made();
    let v = Buffer::<u32>::new(1024);
    s.bind(&v).await?;
    ensure_eq!(made(), before, "no memory is taken before the first use");
    s.count(&s.home, &v.range(..16), 1)?.await?;
    ensure_eq!(made(), before + 1);
    s.count(&s.second, &v, 1)?.await?;
    s.increment(&s.home, &v)?.await?;
    ensure_eq!(made(), before + 1, "one allocation for all queues of a context");
    s.increment(&s.away, &v)?.await?;
    ensure_eq!(made(), before + 2);
    s.increment(&s.home, &v)?.await?;
    s.increment(&s.away, &v)?.await?;
    ensure_eq!(made(), before + 2, "memory is kept until the buffer dies");
    Ok(())
}

pub(super) async fn buffer_from_host_data(s: &Subject) -> Verdict {
    let slice = counted(5, 100);
    let (a, b) = (Buffer::from_slice(&slice), Buffer::from(slice.clone()));
    s.increment(&s.home, &a)?;
    s.increment(&s.away, &b)?;
    holds(&a, &counted(6, 100)).await?;
    holds(&b, &counted(6, 100)).await?;
    ensure_eq!(slice, counted(5, 100));
    Ok(())
}

pub(super) async fn last_bytes_inside_a_granule(s: &Subject) -> Verdict {
    for len in 1..=9_u8 {
        let v = Buffer::from((1..=len).collect::<Vec<u8>>());
        let (a, b) = (Buffer::<u8>::new(v.len()), Buffer::<u8>::new(v.len()));
        for (queue, from, to) in [(&s.home, &v, &a), (&s.away, &a, &b)] {
            queue
                .submit(|cg| {
                    let (from, to) = (cg.read(from), cg.overwrite(to));
                    cg.copy(&from, &to)
                })?
                .await?;
        }
        ensure_eq!(b.host_read().await?.to_vec(), (1..=len).collect::<Vec<u8>>());
    }
    Ok(())
}

/// A buffer that stays in one memory of the device is used there; the host uses it where it reaches that memory, and is refused
/// elsewhere.
pub(super) async fn buffer_stays_where_it_is_put(s: &Subject) -> Verdict {
    for kind in s.home.memory_kinds() {
        stays_in(s, kind).await?;
    }
    ensure!(!s.home.memory_kinds().is_empty());
    Ok(())
}

async fn stays_in(s: &Subject, kind: MemoryKind) -> Verdict {
    let stays = s.home.buffer_in::<u32, 1>(kind, 64).await?;
    let (v, out) = (Buffer::from(counted(0, 64)), Buffer::<u32>::new(64));
    s.home.submit(|cg| cg.copy(&cg.read(&v.range(8..)), &cg.write(&stays.range(8..))))?;
    s.home.submit(|cg| cg.fill(&cg.write(&stays.range(..4)), 9))?;
    s.home.submit(|cg| cg.copy(&cg.read(&stays), &cg.overwrite(&out)))?;
    let mut expected = counted(0, 64);
    expected[..4].fill(9);
    expected[4..8].fill(0);
    holds(&out, &expected).await?;
    let host = stays.host_read().await.map(|read| ensure_same(&read, &expected));
    match host {
        Ok(same) => same?,
        Err(refused) => ensure!(refused.is_unsupported()),
    }
    // The host's turn comes and goes, also for a part.
    if let Ok(mut part) = stays.range(8..16).host_write().await {
        part.fill(3);
        drop(part);
        expected[8..16].fill(3);
        ensure_same(&stays.host_read().await?, &expected)?;
    }
    s.home.submit(|cg| cg.copy(&cg.read(&stays), &cg.overwrite(&out)))?;
    holds(&out, &expected).await?;
    let mine = s.home.import(kind, counted(5, 8)).await?;
    let copy = Buffer::<u32>::new(8);
    s.home.submit(|cg| cg.copy(&cg.read(&mine), &cg.overwrite(&copy)))?;
    holds(&copy, &counted(5, 8)).await
}

fn ensure_same(found: &[u32], expected: &[u32]) -> Verdict {
    ensure_eq!(found[..], expected[..]);
    Ok(())
}

/// Texels are the same wherever an image is kept.
pub(super) async fn image_texels_move_as_elements(s: &Subject) -> Verdict {
    let texels = counted(0, 48).into_iter().map(|texel| R32Uint::new([texel])).collect();
    let image = Image::with_shape([8, 6], texels)?;
    let elements = image.reinterpret::<u32, 2>([8, 6])?;
    let part = Buffer::<u32, 2>::new([3, 2]);
    s.home.submit(|cg| {
        cg.fill(&cg.write(&image.range((7.., ..))), R32Uint::new([5]))?;
        cg.copy(&cg.read(&elements.range((1..4, 2..4))), &cg.overwrite(&part))
    })?;
    ensure_eq!(part.host_read().await?[..], [8, 9, 14, 15, 20, 21]);
    let mut expected = counted(0, 48);
    expected[42..].fill(5);
    ensure_eq!(elements.host_read().await?[..], expected[..]);
    Ok(())
}
