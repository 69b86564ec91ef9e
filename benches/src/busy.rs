//! What waiting costs others: the longest poll, and CPU while kernels run.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use windlass::prelude::*;

use crate::table::Table;

pub(crate) fn rows(table: &mut Table, scale: usize) {
    let queue = Queue::blocking_on(Device::host()).expect("the host device is always there");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("threads can be started");
    let longest = runtime.block_on(longest_poll(&queue));
    let text = format!("{:.1} us", longest.as_nanos() as f64 / 1e3);
    table.text("longest poll, 1,000 groups in flight", text, "".into(), "".into(), "< 100 us");
    let length = Duration::from_millis(200 * scale as u64);
    let share = idle_share(&queue, length);
    let what = format!("CPU while two lanes sleep {length:?} in their kernels");
    table.text(&what, format!("{:.1} %", share * 100.0), "".into(), "".into(), "≈ 0");
}

struct Timed<'a> {
    event: Event,
    longest: &'a mut Duration,
}

impl Future for Timed<'_> {
    type Output = windlass::Result<()>;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let start = Instant::now();
        let polled = Pin::new(&mut self.event).poll(cx);
        let took = start.elapsed();
        *self.longest = took.max(*self.longest);
        polled
    }
}

async fn longest_poll(queue: &Queue) -> Duration {
    let mut longest = Duration::ZERO;
    let events: Vec<Event> = (0..1_000)
        .map(|_| {
            let body = |_: windlass::Item<1>, ()| std::thread::sleep(Duration::from_micros(20));
            queue.submit(|cg| cg.host_for(1, (), body)).expect("nothing to refuse")
        })
        .collect();
    for event in events {
        Timed { event, longest: &mut longest }.await.expect("nothing fails");
    }
    longest
}

/// The process's CPU time, as a share of one core, while kernels sleep.
fn idle_share(queue: &Queue, length: Duration) -> f64 {
    let start = (Instant::now(), cpu_time());
    let events = [(); 2].map(|()| {
        let body = move |_: windlass::Item<1>, ()| std::thread::sleep(length);
        queue.submit(|cg| cg.host_for(1, (), body)).expect("nothing to refuse")
    });
    futures::executor::block_on(Event::all(events)).expect("nothing fails");
    (cpu_time() - start.1).as_secs_f64() / start.0.elapsed().as_secs_f64()
}

/// CPU time of this process's threads, from `/proc`; zero where there is none. Those that have ended do not count.
pub(crate) fn cpu_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let of = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    };
    Duration::from_nanos(threads.filter_map(of).sum())
}
