//! Groups that the data orders run in the order of submission; the others need not.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

use windlass::image::ImageFormat;
use windlass::{Aspect, Buffer, CommandGroup, Event, Queue, Status};

use super::steps::{counted, holds};
use crate::check::{Problem, Verdict, latch, poll_once};
use crate::subject::Subject;
use crate::{ensure, ensure_eq};

pub(super) async fn read_after_write(s: &Subject) -> Verdict {
    raw(s, &s.home, &s.second).await
}

pub(super) async fn read_after_write_in_another_context(s: &Subject) -> Verdict {
    raw(s, &s.home, &s.away).await?;
    raw(s, &s.away, &s.home).await
}

async fn raw(s: &Subject, first: &Queue, then: &Queue) -> Verdict {
    for round in 0..8 {
        let (v, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
        s.count_slowly(first, &v, round)?;
        s.copy(then, &v, &out)?;
        holds(&out, &counted(round, 64)).await?;
    }
    Ok(())
}

pub(super) async fn write_after_read(s: &Subject) -> Verdict {
    war(s, &s.home, &s.second).await
}

pub(super) async fn write_after_read_in_another_context(s: &Subject) -> Verdict {
    war(s, &s.home, &s.away).await?;
    war(s, &s.away, &s.home).await
}

async fn war(s: &Subject, first: &Queue, then: &Queue) -> Verdict {
    for round in 0..8 {
        let (v, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
        s.count(first, &v, round)?;
        s.copy_slowly(first, &v, &out)?;
        s.count(then, &v, 1000)?;
        holds(&out, &counted(round, 64)).await?;
        holds(&v, &counted(1000, 64)).await?;
    }
    Ok(())
}

pub(super) async fn write_after_write(s: &Subject) -> Verdict {
    for round in 0..8 {
        let v = Buffer::<u32>::new(64);
        s.count_slowly(&s.home, &v, 1000)?;
        s.count(&s.second, &v, round)?;
        s.count_slowly(&s.home, &v.range(..32), 2000)?;
        s.count(&s.away, &v.range(..16), 3000)?;
        let mut expected = counted(round, 64);
        expected[..32].copy_from_slice(&counted(2000, 32));
        expected[..16].copy_from_slice(&counted(3000, 16));
        holds(&v, &expected).await?;
    }
    Ok(())
}

pub(super) async fn submission_order_decides(s: &Subject) -> Verdict {
    for (first, then) in [(&s.home, &s.away), (&s.away, &s.home), (&s.second, &s.home)] {
        for (k, l) in [(3, 5), (5, 3)] {
            let v = Buffer::from(vec![1_u32; 64]);
            s.churn(first, &v, k)?;
            s.churn(then, &v, l)?;
            holds(&v, &[(31 + k) * 31 + l; 64]).await?;
        }
    }
    Ok(())
}

pub(super) async fn one_queue_or_three(s: &Subject) -> Verdict {
    let run = async |queues: [&Queue; 3]| -> windlass::Result<Vec<u32>> {
        let (a, b) = (Buffer::from(counted(1, 64)), Buffer::from(counted(2, 64)));
        for k in 0..30 {
            let queue = queues[k as usize % 3];
            match k % 4 {
                0 => s.churn(queue, &a, k)?,
                1 => s.copy(queue, &a.range(..32), &b.range(16..48))?,
                2 => s.churn(queue, &b, k)?,
                _ => s.copy(queue, &b.range(32..), &a.range(..32))?,
            };
        }
        let mut both = a.into_vec().await?;
        both.extend(b.into_vec().await?);
        Ok(both)
    };
    let one = run([&s.home, &s.home, &s.home]).await?;
    ensure_eq!(run([&s.home, &s.second, &s.away]).await?, one);
    ensure_eq!(run([&s.away, &s.home, &s.home]).await?, one);
    Ok(())
}

pub(super) async fn overlapping_ranges(s: &Subject) -> Verdict {
    for queues in [[&s.home, &s.second, &s.home], [&s.home, &s.away, &s.second]] {
        let v = Buffer::from(vec![1_u32; 20]);
        s.count_slowly(queues[0], &v.range(..10), 100)?;
        s.count_slowly(queues[1], &v.range(10..20), 200)?;
        s.churn(queues[2], &v.range(5..15), 1)?;
        let mut expected = counted(100, 10);
        expected.extend(counted(200, 10));
        expected[5..15].iter_mut().for_each(|v| *v = *v * 31 + 1);
        holds(&v, &expected).await?;
    }
    Ok(())
}

pub(super) async fn a_range_is_the_same_data(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let (part, deeper) = (v.range(10..40), v.range(10..40).range(5..10));
    s.count_slowly(&s.home, &v, 0)?;
    s.churn(&s.second, &part, 1)?;
    s.churn(&s.away, &deeper, 2)?;
    s.churn(&s.home, &v.clone(), 3)?;
    let mut expected = counted(0, 64);
    expected[10..40].iter_mut().for_each(|v| *v = *v * 31 + 1);
    expected[15..20].iter_mut().for_each(|v| *v = *v * 31 + 2);
    expected.iter_mut().for_each(|v| *v = *v * 31 + 3);
    holds(&v, &expected).await
}

pub(super) async fn in_order_queue(s: &Subject) -> Verdict {
    let queue = Queue::builder().device(s.device.clone()).in_order().build().await?;
    ensure!(queue.is_in_order());
    let (a, b, c) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8), Buffer::<u32>::new(8));
    let (gate, opened) = latch();
    let first = queue.submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&a);
        cg.parallel_for(8, s.call("fill_index").buffer(to).value(0_u32))
    })?;
    let mut second = s.count(&queue, &b, 0)?;
    // A group on another queue overtakes both.
    s.count(&s.home, &c, 0)?.await?;
    ensure!(poll_once(&mut second).is_pending(), "it must not overtake the one before it in its queue");
    gate.open();
    second.await?;
    ensure_eq!(first.status(), Status::Done);
    Ok(())
}

pub(super) async fn out_of_order_queue(s: &Subject) -> Verdict {
    let (a, b) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8));
    let (gate, opened) = latch();
    let mut held = s.home.submit(|cg| {
        cg.after(opened);
        let to = cg.overwrite(&a);
        cg.parallel_for(8, s.call("fill_index").buffer(to).value(0_u32))
    })?;
    for _ in 0..100 {
        s.increment(&s.home, &b)?;
    }
    s.increment(&s.home, &b)?.await?;
    ensure!(poll_once(&mut held).is_pending());
    let mut behind = s.increment(&s.home, &a)?;
    s.increment(&s.home, &b)?.await?;
    ensure!(poll_once(&mut behind).is_pending(), "it needs what the held group writes");
    gate.open();
    behind.await?;
    ensure_eq!(held.status(), Status::Done);
    holds(&b, &[102; 8]).await
}

pub(super) async fn lifted_edge_of_a_no_init_write(s: &Subject) -> Verdict {
    // A reader in one context is held; a no-init write in another has other memory, and need not wait for it.
    let (v, out) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
    s.count(&s.home, &v, 5)?.await?;
    let (gate, opened) = latch();
    let reader = s.home.submit(|cg| {
        cg.after(opened);
        let (from, to) = (cg.read(&v), cg.overwrite(&out));
        cg.parallel_for(64, s.call("copy").buffer(from).buffer(to))
    })?;
    s.count(&s.away, &v, 900)?.await?;
    s.copy(&s.away, &v, &Buffer::new(64))?.await?;
    ensure!(!reader.has_ended());
    gate.open();
    reader.await?;
    holds(&out, &counted(5, 64)).await?;
    holds(&v, &counted(900, 64)).await
}

pub(super) async fn many_threads_submit(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let own: Vec<_> = (0..4).map(|_| Buffer::<u32>::new(64)).collect();
    let results: Vec<windlass::Result<Vec<Event>>> = std::thread::scope(|scope| {
        let threads: Vec<_> = own
            .iter()
            .enumerate()
            .map(|(t, own)| {
                let (s, v) = (s.clone(), v.clone());
                scope.spawn(move || {
                    (0..50)
                        .map(|i| {
                            let queue = [&s.home, &s.second, &s.away][(t + i) % 3];
                            s.churn(queue, own, i as u32)?;
                            s.increment(queue, &v)
                        })
                        .collect()
                })
            })
            .collect();
        let panicked = || Err(windlass::Error::other("a submitting thread panicked"));
        threads.into_iter().map(|t| t.join().unwrap_or_else(|_| panicked())).collect()
    });
    for events in results {
        Event::all(events?).await?;
    }
    holds(&v, &[200; 64]).await?;
    let expected = (0..50_u32).fold(0_u32, |v, k| v.wrapping_mul(31).wrapping_add(k));
    for own in &own {
        holds(own, &[expected; 64]).await?;
    }
    Ok(())
}

pub(super) async fn group_runs_once_on_this_thread(s: &Subject) -> Verdict {
    let mut ran = Vec::new();
    let event = s.home.submit(|_| {
        ran.push(std::thread::current().id());
        Ok(())
    })?;
    ensure_eq!(ran, vec![std::thread::current().id()]);
    event.await?;
    Ok(())
}

pub(super) async fn group_is_a_value(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 64));
    let group = |cg: &CommandGroup<'_>| {
        let to = cg.read_write(&v);
        cg.parallel_for(64, s.call("increment").buffer(to))
    };
    let events = [s.home.submit(group)?, s.second.submit(group)?, s.away.submit(group)?];
    Event::all(events).await?;
    holds(&v, &counted(3, 64)).await
}

pub(super) async fn several_commands_in_one_group(s: &Subject) -> Verdict {
    let (a, b) = (Buffer::<u32>::new(64), Buffer::<u32>::new(64));
    for queue in [&s.home, &s.away] {
        queue
            .submit(|cg| {
                let x = cg.read_write(&a);
                cg.parallel_for(64, s.call("fill_index").buffer(&x).value(3_u32))?;
                cg.parallel_for(64, s.call("churn").buffer(&x).value(1_u32))?;
                let y = cg.read_write(&b);
                cg.copy(&x, &y)?;
                cg.parallel_for(64, s.call("increment").buffer(&y))?;
                cg.parallel_for(64, s.call("increment").buffer(&x))?;
                cg.parallel_for(64, s.call("increment").buffer(&y))
            })?
            .await?;
        holds(&a, &counted(3, 64).iter().map(|v| v * 31 + 2).collect::<Vec<_>>()).await?;
        holds(&b, &counted(3, 64).iter().map(|v| v * 31 + 3).collect::<Vec<_>>()).await?;
    }
    Ok(())
}

pub(super) async fn depends_on_orders(s: &Subject) -> Verdict {
    for (first, then) in [(&s.home, &s.second), (&s.home, &s.away), (&s.away, &s.home)] {
        let (a, b) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8));
        let before = s.count_slowly(first, &a, 0)?;
        let after = then.submit(|cg| {
            cg.depends_on(&before);
            let to = cg.overwrite(&b);
            cg.parallel_for(8, s.call("fill_index").buffer(to).value(0_u32))
        })?;
        after.await?;
        ensure_eq!(before.status(), Status::Done);
    }
    Ok(())
}

pub(super) async fn after_end_orders(s: &Subject) -> Verdict {
    let (gate, opened) = latch();
    let held = s.home.submit(|cg| {
        cg.after(opened);
        Ok(())
    })?;
    let mut after = s.away.submit(|cg| {
        cg.after_end(&held);
        Ok(())
    })?;
    s.count(&s.away, &Buffer::new(8), 0)?.await?;
    ensure!(poll_once(&mut after).is_pending());
    gate.open();
    after.await?;
    ensure_eq!(held.status(), Status::Done);
    Ok(())
}

pub(super) async fn after_a_future(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let (gate, opened) = latch();
    let mut held = s.home.submit(|cg| {
        cg.after(opened);
        cg.after(async { Ok::<(), std::fmt::Error>(()) });
        let to = cg.overwrite(&v);
        cg.parallel_for(64, s.call("fill_index").buffer(to).value(1_u32))
    })?;
    ensure!(poll_once(&mut held).is_pending());
    let mut behind = s.churn(&s.away, &v, 1)?;
    ensure!(poll_once(&mut behind).is_pending());
    gate.open();
    holds(&v, &counted(1, 64).iter().map(|v| v * 31 + 1).collect::<Vec<_>>()).await
}

pub(super) async fn barrier_without_commands(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(64);
    let writer = s.count_slowly(&s.home, &v, 0)?;
    let barrier = s.second.submit(|cg| {
        cg.read(&v);
        Ok(())
    })?;
    barrier.await?;
    ensure_eq!(writer.status(), Status::Done);
    s.home.submit(|_| Ok(()))?.await?;
    Ok(())
}

/// Runs two groups that wait for each other, each with one accessor of its own; where kernels cannot wait, two that run at once.
async fn meet(s: &Subject, queues: [&Queue; 2], a: &Buffer<u32>, b: &Buffer<u32>, write: bool) -> Verdict {
    if !s.device.has(Aspect::HostBodies) {
        return overlap(s, queues, [a, b], write).await;
    }
    ensure!(s.lanes() >= 2, "a host device has two lanes at least");
    let (met, both) = (AtomicUsize::new(0), Barrier::new(2));
    let shared = std::sync::Arc::new((met, both));
    let submit = |queue: &Queue, v: &Buffer<u32>| {
        let shared = shared.clone();
        let body = move || {
            shared.1.wait();
            shared.0.fetch_add(1, Ordering::Relaxed);
        };
        queue.submit(|cg| match write {
            true => cg.host_for(1, cg.read_write(v), move |_, _| body()),
            false => cg.host_for(1, cg.read(v), move |_, _| body()),
        })
    };
    let events = [submit(queues[0], a)?, submit(queues[1], b)?];
    Event::all(events).await?;
    ensure_eq!(shared.0.load(Ordering::Relaxed), 2);
    Ok(())
}

pub(super) async fn rendezvous_of_two_queues(s: &Subject) -> Verdict {
    let (a, b) = (Buffer::<u32>::new(8), Buffer::<u32>::new(8));
    meet(s, [&s.home, &s.second], &a, &b, true).await?;
    meet(s, [&s.home, &s.home], &a, &b, true).await?;
    meet(s, [&s.home, &s.away], &a, &b, true).await
}

pub(super) async fn rendezvous_of_two_readers(s: &Subject) -> Verdict {
    let v = Buffer::from(counted(0, 8));
    meet(s, [&s.home, &s.second], &v, &v, false).await?;
    meet(s, [&s.away, &s.home], &v, &v, false).await
}

pub(super) async fn rendezvous_of_two_ranges(s: &Subject) -> Verdict {
    let v = Buffer::<u32>::new(20);
    meet(s, [&s.home, &s.second], &v.range(..10), &v.range(10..), true).await?;
    meet(s, [&s.home, &s.away], &v.range(10..), &v.range(..10), true).await
}

/// Runs two long kernels, each with one accessor of its own beside a buffer that it works on, and looks at the device's clock whether each
/// began before the other had ended. That may depend on what else the machine does, so they have some attempts.
async fn overlap(s: &Subject, queues: [&Queue; 2], parts: [&Buffer<u32>; 2], write: bool) -> Verdict {
    let is_simulated = s.device.info().formats.contains(&ImageFormat::Host);
    if s.lanes() < 2 || !s.device.has(Aspect::Profiling) || is_simulated {
        return Err(Problem::Unsupported(
            "kernels of this device cannot wait for each other, nor run at once".into(),
        ));
    }
    // Intel's driver has one thread fewer than there are cores for that, unless somebody blocks in it: on two cores there are runs in
    // which they meet, and others.
    if s.device.platform_name().contains("Intel") {
        return Err(Problem::Unsupported(
            "small kernels of two queues run at once or not, as it happens".into(),
        ));
    }
    // Contexts of one device may have it in turns.
    if queues.iter().any(|queue| std::ptr::eq(*queue, &s.away)) {
        return Ok(());
    }
    let timed = || {
        let queue = Queue::builder().runtime(&s.runtime).context(&queues[0].context());
        queue.device(s.device.clone()).profiling().build()
    };
    let first = timed().await?;
    let second = if std::ptr::eq(queues[0], queues[1]) { first.clone() } else { timed().await? };
    let scratch = [(); 2].map(|()| Buffer::<u32>::new(8));
    let submit = |at: usize, rounds: u32| {
        let queue = [&first, &second][at];
        queue.submit(|cg| {
            let call = s.call("long_running");
            let call = match write {
                true => call.buffer(cg.read_write(parts[at])),
                false => {
                    cg.read(parts[at]);
                    call.buffer(cg.read_write(&scratch[at]))
                }
            };
            cg.parallel_for(8, call.value(rounds))
        })
    };
    let times = |event: &Event| event.profile().ok_or_else(|| Problem::Wrong("no times".into()));
    let one = submit(0, 1 << 16)?;
    submit(1, 1)?.await?;
    one.clone().await?;
    // Some 50 ms.
    let factor = (50e-3 / times(&one)?.duration().as_secs_f64()).clamp(1.0, 60_000.0);
    let rounds = (65_536.0 * factor) as u32;
    for _ in 0..5 {
        let events = [submit(0, rounds)?, submit(1, rounds)?];
        Event::all(events.clone()).await?;
        let [a, b] = [times(&events[0])?, times(&events[1])?];
        if a.started < b.ended && b.started < a.ended {
            return Ok(());
        }
    }
    Err(Problem::Wrong("the second kernel began when the first had ended, five times".into()))
}
