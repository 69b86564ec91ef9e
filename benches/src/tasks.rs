//! Costs per tiny task.

use std::hint::black_box;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use windlass::prelude::*;

use crate::heap;
use crate::null;
use crate::table::{Table, alternate, median};

const N: usize = 10_000;

pub(crate) fn rows(table: &mut Table, scale: usize) {
    submissions(table, scale);
    let queue = Queue::blocking_on(Device::host()).expect("the host device is always there");
    for _ in 0..3 {
        independent(&queue, N);
    }
    let (ours, base) = alternate(scale.max(3), || independent(&queue, N), || jobs(N));
    table.cost(
        "host: independent groups, total",
        ours,
        Some(base),
        "≤ 500 ns (base: boxed jobs to a thread)",
    );
    let (ours, base) = alternate(scale.max(3), || event_chain(&queue, N), || jobs(N));
    table.cost("host: event chain, total", ours, Some(base), "≤ 500 ns");
    let (ours, base) = alternate(scale.max(3), || accessor_chain(&queue, N), || jobs(N));
    table.cost("host: read-write accessor chain, total", ours, Some(base), "≤ 500 ns");
    for n in [1_000, 10_000, 100_000] {
        let ours = median((0..scale.max(3)).map(|_| readers(&queue, n)).collect());
        table.cost(&format!("host: {n} readers of one buffer"), ours, None, "≤ 600 ns, flat");
    }
    for n in [1_000, 10_000, 100_000] {
        let ours = median((0..scale.max(3)).map(|_| own_buffers(&queue, n)).collect());
        table.cost(&format!("host: {n} groups on {n} buffers"), ours, None, "≤ 700 ns, flat");
    }
    outstanding(table, &queue);
    traced(table, scale);
}

/// What it costs to be watched, beside the same work when nobody does.
fn traced(table: &mut Table, scale: usize) {
    let runtime = Runtime::new();
    let queue = Queue::blocking_on(runtime.host().expect("the host is there")).expect("the host opens");
    let watched = || {
        let trace = runtime.trace(1 << 16);
        let each = accessor_chain(&queue, N);
        drop(trace);
        each
    };
    let (ours, base) = alternate(scale.max(3), watched, || accessor_chain(&queue, N));
    table.cost("host: accessor chain, traced", ours, Some(base), "(base: the same, not traced)");
}

/// Nanoseconds per call.
fn per(n: usize, start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / n as f64
}

/// A group's cost above the native calls.
/// The row of first uses alone, again and again.
pub(crate) fn first_uses(table: &mut Table, scale: usize) {
    let queue = Queue::blocking_on(Device::host()).expect("the host is there");
    let each: Vec<f64> = (0..scale.max(3)).map(|_| own_buffers(&queue, N)).collect();
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    table.cost(&format!("host: {N} groups on {N} buffers"), mean, None, "≤ 700 ns, flat");
}

pub(crate) fn submissions(table: &mut Table, scale: usize) {
    let runtime = Runtime::builder().backend(null::backend()).only_given_backends().build();
    let queue =
        Queue::builder().runtime(&runtime).max_in_flight(1 << 20).blocking_build().expect("nothing can fail");
    let (x, y) = (Buffer::<f32>::new(64), Buffer::<f32>::new(64));
    let run = || {
        let start = Instant::now();
        for _ in 0..N {
            let event = queue.submit(|cg| {
                let args = (cg.read(&x), cg.read_write(&y));
                cg.host_for(64, args, |item, (x, y)| y.set(item.id(0), x.get(item.id(0))))
            });
            drop(black_box(event));
        }
        per(N, start)
    };
    run();
    let (ours, base) = alternate(scale.max(3), run, || null::native_calls(N));
    let what = "prepare + plan + bookkeeping, two accessors, above the native calls (base)";
    table.above(what, ours, base, "≤ 400 ns");
}

fn independent(queue: &Queue, n: usize) -> f64 {
    let start = Instant::now();
    let mut events = Vec::with_capacity(n);
    for _ in 0..n {
        events.push(queue.submit(|cg| cg.host_for(1, (), |_, ()| {})).expect("nothing to refuse"));
    }
    futures::executor::block_on(queue.drained());
    drop(events);
    per(n, start)
}

fn event_chain(queue: &Queue, n: usize) -> f64 {
    let start = Instant::now();
    let mut events: Vec<Event> = Vec::with_capacity(n);
    for i in 0..n {
        let event = queue.submit(|cg| {
            if i > 0 {
                cg.depends_on(&events[i - 1]);
            }
            cg.host_for(1, (), |_, ()| {})
        });
        events.push(event.expect("nothing to refuse"));
    }
    futures::executor::block_on(queue.drained());
    drop(events);
    per(n, start)
}

fn accessor_chain(queue: &Queue, n: usize) -> f64 {
    let buffer = Buffer::from(vec![0_u32]);
    let start = Instant::now();
    let mut events: Vec<Event> = Vec::with_capacity(n);
    for _ in 0..n {
        let event = queue.submit(|cg| {
            let x = cg.read_write(&buffer);
            cg.host_for(1, x, |_, x| x.set(0, x.get(0) + 1))
        });
        events.push(event.expect("nothing to refuse"));
    }
    futures::executor::block_on(queue.drained());
    drop(events);
    let cost = per(n, start);
    assert_eq!(buffer.host_read().blocking_wait().expect("all went well")[0] as usize, n);
    cost
}

fn readers(queue: &Queue, n: usize) -> f64 {
    let buffer = Buffer::from(vec![1_u32]);
    let start = Instant::now();
    let mut events: Vec<Event> = Vec::with_capacity(n);
    for _ in 0..n {
        let event = queue.submit(|cg| {
            let x = cg.read(&buffer);
            cg.host_for(1, x, |_, x| {
                black_box(x.get(0));
            })
        });
        events.push(event.expect("nothing to refuse"));
    }
    futures::executor::block_on(queue.drained());
    drop(events);
    per(n, start)
}

fn own_buffers(queue: &Queue, n: usize) -> f64 {
    let buffers: Vec<_> = (0..n).map(|_| Buffer::<u32>::new(16)).collect();
    let start = Instant::now();
    let mut events: Vec<Event> = Vec::with_capacity(n);
    for buffer in &buffers {
        let event = queue.submit(|cg| {
            let x = cg.overwrite(buffer);
            cg.host_for(1, x, |_, x| x.set(0, 1))
        });
        events.push(event.expect("nothing to refuse"));
    }
    futures::executor::block_on(queue.drained());
    drop(events);
    per(n, start)
}

/// The base: boxed closures to one thread through a mutex and a condition variable.
fn jobs(n: usize) -> f64 {
    type Job = Box<dyn FnOnce() + Send>;
    let shared = Arc::new((Mutex::new(Vec::<Job>::new()), Condvar::new()));
    let theirs = shared.clone();
    let worker = std::thread::spawn(move || {
        let mut done = 0;
        while done < n {
            let mut queue = theirs.0.lock().expect("no panics");
            while queue.is_empty() {
                queue = theirs.1.wait(queue).expect("no panics");
            }
            let batch = std::mem::take(&mut *queue);
            drop(queue);
            done += batch.len();
            batch.into_iter().for_each(|job| job());
        }
    });
    let start = Instant::now();
    for i in 0..n {
        let mut queue = shared.0.lock().expect("no panics");
        queue.push(Box::new(move || {
            black_box(i);
        }));
        let first = queue.len() == 1;
        drop(queue);
        if first {
            shared.1.notify_one();
        }
    }
    worker.join().expect("no panics");
    per(n, start)
}

/// With everything behind a held guard: what the Nth submission costs, and what each outstanding group takes.
fn outstanding(table: &mut Table, queue: &Queue) {
    let mut costs = Vec::new();
    for n in [1_000, 10_000, 100_000] {
        let (x, y) = (Buffer::from(vec![0_u32; 16]), Buffer::from(vec![0_u32; 16]));
        let guard = y.host_write().blocking_wait().expect("nobody else has it");
        let submit = || {
            let payload = [0_u64; 8];
            let event = queue.submit(|cg| {
                let args = (cg.read(&x), cg.read_write(&y));
                cg.host_for(1, args, move |_, (x, y)| y.set(0, x.get(0) + payload[0] as u32))
            });
            drop(event);
        };
        let grown = heap::growth(|| (0..n - 500).for_each(|_| submit()));
        let start = Instant::now();
        (0..500).for_each(|_| submit());
        costs.push((n, per(500, start), grown / (n - 500)));
        drop(guard);
        futures::executor::block_on(queue.drained());
    }
    let first = costs[0].1;
    for (n, cost, bytes) in costs {
        table.cost(&format!("submission with {n} outstanding"), cost, Some(first), "flat");
        let what = format!("bytes per outstanding group, {n} of them");
        table.text(&what, format!("{bytes}"), "".into(), "".into(), "≤ 450");
    }
}
