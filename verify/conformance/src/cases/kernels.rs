//! The reference kernels compute what they should, wherever their arguments start.

use windlass::{Buffer, NdRange};

use super::steps::{counted, holds};
use crate::check::Verdict;
use crate::kernels::spin;
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

pub(super) async fn reference_kernels_of_integers(s: &Subject) -> Verdict {
    let n = 100;
    let (v, out) = (Buffer::<u32>::new(n), Buffer::<u32>::new(n));
    s.count(&s.home, &v, 7)?.await?;
    holds(&v, &counted(7, n)).await?;
    s.increment(&s.home, &v)?;
    s.churn(&s.home, &v, 3)?;
    let mixed: Vec<u32> = counted(8, n).iter().map(|v| v * 31 + 3).collect();
    holds(&v, &mixed).await?;
    s.copy(&s.home, &v, &out)?;
    holds(&out, &mixed).await?;
    s.home.submit(|cg| {
        let (x, y) = (cg.read(&v), cg.read_write(&out));
        cg.parallel_for(n, s.call("fold").buffer(x).buffer(y).value(5_u32))
    })?;
    holds(&out, &mixed.iter().map(|m| m.wrapping_mul(31).wrapping_add(*m + 5)).collect::<Vec<_>>()).await?;
    s.home.submit(|cg| {
        let (x, y) = (cg.read(&v), cg.overwrite(&out));
        cg.parallel_for(n, s.call("reverse").buffer(x).buffer(y))
    })?;
    holds(&out, &mixed.iter().rev().copied().collect::<Vec<_>>()).await?;
    let (half, pairs) = (v.range(..50), Buffer::<u32>::new(n));
    s.home.submit(|cg| {
        let (x, y) = (cg.read(&half), cg.overwrite(&pairs));
        cg.parallel_for(n / 2, s.call("copy_pairs").buffer(x).buffer(y))
    })?;
    holds(&pairs, &(0..n).map(|i| mixed[i / 2]).collect::<Vec<_>>()).await
}

pub(super) async fn reference_kernels_of_floats(s: &Subject) -> Verdict {
    let n = 1000;
    let x = Buffer::from((0..n).map(|i| i as f32).collect::<Vec<_>>());
    let y = Buffer::from(vec![2.0_f32; n]);
    let out = Buffer::<f32>::new(n / 2);
    s.home.submit(|cg| {
        let v = cg.read_write(&x);
        cg.parallel_for(n, s.call("scale").value(2.0_f32).buffer(v))
    })?;
    s.home.submit(|cg| {
        let (x, y) = (cg.read(&x), cg.read_write(&y));
        cg.parallel_for(n, s.call("saxpy").value(3.0_f32).buffer(x).buffer(y))
    })?;
    s.home.submit(|cg| {
        let (v, out) = (cg.read(&y), cg.overwrite(&out));
        cg.parallel_for(n / 2, s.call("sum_pairs").buffer(v).buffer(out))
    })?;
    let out = out.host_read().await?;
    for (i, value) in out.iter().enumerate() {
        // All numbers here are whole and small, so that every way of rounding gives the same.
        ensure_eq!(*value, 4.0 + 6.0 * (4 * i + 1) as f32, "element {i}");
    }
    Ok(())
}

pub(super) async fn reference_kernel_histogram(s: &Subject) -> Verdict {
    let n = 10_000;
    let x = Buffer::from((0..n as u32).map(|i| i * i % 13).collect::<Vec<_>>());
    let bins = Buffer::from(vec![1_u32; 13]);
    s.home.submit(|cg| {
        let (x, bins) = (cg.read(&x), cg.atomic(&bins));
        cg.parallel_for(n, s.call("histogram").buffer(x).buffer(bins))
    })?;
    let mut expected = vec![1_u32; 13];
    (0..n as u32).for_each(|i| expected[(i * i % 13) as usize] += 1);
    holds(&bins, &expected).await
}

pub(super) async fn reference_kernel_long_running(s: &Subject) -> Verdict {
    let (n, rounds) = (512, 50_000);
    let v = Buffer::from(counted(0, n));
    s.home.submit(|cg| {
        let v = cg.read_write(&v);
        cg.parallel_for(n, s.call("long_running").buffer(v).value(rounds))
    })?;
    holds(&v, &counted(0, n).iter().map(|v| spin(*v, rounds)).collect::<Vec<_>>()).await
}

pub(super) async fn reference_kernel_transpose(s: &Subject) -> Verdict {
    let (rows, columns) = (7, 12);
    let x = Buffer::<u32, 2>::with_shape([rows, columns], counted(0, rows * columns))?;
    let out = Buffer::<u32, 2>::new([columns, rows]);
    s.home.submit(|cg| {
        let (x, out) = (cg.read(&x), cg.overwrite(&out));
        cg.parallel_for([rows, columns], s.call("transpose").value(rows as u32).buffer(x).buffer(out))
    })?;
    let out = out.host_read().await?;
    for (i, value) in out.iter().enumerate() {
        ensure_eq!(*value as usize, i % rows * columns + i / rows, "element {i}");
    }
    Ok(())
}

pub(super) async fn kernel_arguments_start_anywhere(s: &Subject) -> Verdict {
    let n = 200;
    for start in [1, 3, 8, 17, 64, 101] {
        let (v, out) = (Buffer::from(counted(0, n)), Buffer::from(vec![9_u32; n]));
        let len = 50;
        s.copy(&s.home, &v.range(start..start + len), &out.range(n - len - start..n - start))?;
        let mut expected = vec![9; n];
        expected[n - len - start..n - start].copy_from_slice(&counted(start as u32, len));
        holds(&out, &expected).await?;
    }
    Ok(())
}

pub(super) async fn kernel_on_two_parts_of_one_buffer(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 96));
    // Neither part starts or ends where a device might want it to, and they share a page of any size.
    s.copy(&s.home, &v.range(1..33), &v.range(50..82))?;
    let mut expected = counted(0, 96);
    expected[50..82].copy_from_slice(&counted(1, 32));
    holds(&v, &expected).await?;
    // And the same group twice: the second form of the pipeline is there already.
    s.copy(&s.home, &v.range(1..33), &v.range(60..92))?;
    expected[60..92].copy_from_slice(&counted(1, 32));
    holds(&v, &expected).await
}

pub(super) async fn kernel_over_a_grid(s: &Subject) -> Verdict {
    let v = Buffer::<u32, 3>::new([3, 5, 7]);
    s.home.submit(|cg| {
        let v = cg.overwrite(&v);
        cg.parallel_for([3, 5, 7], s.call("fill_index").buffer(v).value(0_u32))
    })?;
    let part = v.range((1..3, 2..4, 5..7)).host_read().await?;
    let at = |z: u32, y: u32, x: u32| (z * 5 + y) * 7 + x;
    let expected: Vec<u32> =
        (1..3).flat_map(|z| (2..4).flat_map(move |y| (5..7).map(move |x| at(z, y, x)))).collect();
    ensure_eq!(part.to_vec(), expected);
    Ok(())
}

pub(super) async fn kernel_over_many_items(s: &Subject) -> Verdict {
    // More work-groups of 64 than 65,535, which is what some devices take in one dimension.
    let n = 65_536 * 64 + 77;
    let v = Buffer::<u32>::new(n);
    s.count(&s.home, &v, 1)?;
    let v = v.host_read().await?;
    let wrong = v.iter().enumerate().find(|(i, v)| **v != *i as u32 + 1);
    ensure_eq!(wrong, None);
    Ok(())
}

pub(super) async fn kernel_on_a_part_of_a_grid(s: &Subject) -> Verdict {
    let v = Buffer::<u32, 2>::new([8, 8]);
    let part = v.range((2..5, 1..4));
    s.home
        .submit(|cg| {
            let v = cg.overwrite(&part);
            cg.parallel_for(9, s.call("fill_index").buffer(v).value(1_u32))
        })?
        .await?;
    ensure_eq!(part.host_read().await?.to_vec(), counted(1, 9));
    let whole = v.host_read().await?;
    ensure_eq!(whole.iter().filter(|v| **v == 0).count(), 64 - 9);
    // In three dimensions, read and written, and copied out of one part into another.
    let (from, to) = (Buffer::<u32, 3>::new([4, 6, 5]), Buffer::<u32, 2>::new([6, 9]));
    let (block, rows) = (from.range((1..3, 2..5, 1..4)), to.range((1..4, 2..8)));
    s.home.submit(|cg| {
        let v = cg.overwrite(&from);
        cg.parallel_for([4, 6, 5], s.call("fill_index").buffer(v).value(0_u32))
    })?;
    s.home.submit(|cg| {
        let v = cg.read_write(&block);
        cg.parallel_for(18, s.call("increment").buffer(v))
    })?;
    s.home.submit(|cg| {
        let (v, out) = (cg.read(&block), cg.write(&rows));
        cg.parallel_for(18, s.call("copy").buffer(v).buffer(out))
    })?;
    let at = |z: u32, y: u32, x: u32| (z * 6 + y) * 5 + x + 1;
    let expected: Vec<u32> =
        (1..3).flat_map(|z| (2..5).flat_map(move |y| (1..4).map(move |x| at(z, y, x)))).collect();
    ensure_eq!(rows.host_read().await?.to_vec(), expected);
    let untouched = to.host_read().await?.iter().filter(|v| **v == 0).count();
    ensure_eq!(untouched, 54 - 18);
    Ok(())
}

/// An argument without elements: of a buffer that has none, and of one that nobody has used.
pub(super) async fn kernel_on_nothing(s: &Subject) -> Verdict {
    let unused = Buffer::<u32>::new(8);
    for empty in [Buffer::<u32>::new(0), unused.range(3..3)] {
        s.home
            .submit(|cg| {
                let v = cg.read_write(&empty);
                cg.parallel_for(4, s.call("increment").buffer(v))
            })?
            .await?;
        ensure!(empty.poison().is_none(), "what has no elements has not failed");
    }
    holds(&unused, &[0; 8]).await
}

pub(super) async fn kernel_without_items(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(1, 8));
    s.home
        .submit(|cg| {
            let v = cg.read_write(&v);
            cg.parallel_for(0, s.call("increment").buffer(v))
        })?
        .await?;
    s.home
        .submit(|cg| {
            let v = cg.read_write(&v);
            cg.parallel_for([4, 0, 2], s.call("increment").buffer(v))
        })?
        .await?;
    holds(&v, &counted(1, 8)).await?;
    let refused = s.home.submit(|cg| {
        let v = cg.read_write(&v);
        cg.parallel_for(NdRange { global: [8], local: [3] }, s.call("increment").buffer(v))
    });
    ensure!(refused.is_err_and(|e| e.is_invalid_input()), "a work-group must divide its range");
    Ok(())
}

#[windlass::kernels]
mod bundled {
    #[kernel]
    pub(super) fn scale(#[spec] times: u32, v: &mut [u32]) {
        v[global_id(0)] *= times;
    }

    #[kernel]
    pub(super) fn shift(by: u32, v: &mut [u32]) {
        v[global_id(0)] += by;
    }
}

pub(super) async fn bundle_is_built_when_it_is_told_to(s: &Subject) -> Verdict {
    let builds = || s.runtime.stats().builds;
    let before = builds();
    let kernels = bundled::bundle().with("times", 3.0)?;
    ensure_eq!(builds(), before, "nothing is built before it is asked for");
    kernels.warm_up(&s.home).await?;
    let built = builds();
    ensure!(
        built >= before + 2,
        "each is built at least once, and once for each layout that its launches may have"
    );
    let v = Buffer::from(counted(0, 64));
    s.home.submit(|cg| {
        cg.parallel_for(64, bundled::scale(3, cg.read_write(&v)))?;
        cg.parallel_for(64, bundled::shift(1, cg.read_write(&v)))
    })?;
    let expected: Vec<u32> = counted(0, 64).iter().map(|v| 3 * v + 1).collect();
    holds(&v, &expected).await?;
    ensure_eq!(builds(), built, "both were there");
    Ok(())
}
