//! Many small requests, in batches, one by one, and by hand: a semaphore, a pool of threads, and a channel back.

pub(crate) mod clients;
mod promises;
pub(crate) mod ways;

use std::time::Duration;

use clients::{Came, medians, open, saturated, saturated_with};
use promises::{expired, slowed, tenants};
use ways::{Service, Work, batched, by_hand, fixed, unbatched, unbatched_awaited};
use windlass::prelude::*;

use crate::load::by_hand_there;
use crate::table::{Table, median};

pub(crate) fn rows(table: &mut Table, scale: usize) {
    runtime().block_on(all(table, scale));
}

/// What a service runs on: as many threads as there are processors.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .expect("threads can be started")
}

async fn all(table: &mut Table, scale: usize) {
    let queue = Queue::builder().max_in_flight(256).build().await.expect("there is a device");
    let device = queue.device().info().name.clone();
    let is_host = queue.device().backend().as_str() == "host";
    let (batch, ours) = batched(&queue, Work::Tripled);
    let (alone, by_hand) = (unbatched(&queue, Work::Tripled), by_hand(Work::Tripled));
    let there = if is_host { None } else { by_hand_there(&queue, Work::Tripled) };
    let times = scale.clamp(3, 7);
    for clients in [64, 512] {
        let requests = 4_000 * scale.max(3);
        let mut sums = [const { Vec::new() }; 3];
        let mut sums_there = Vec::new();
        for _ in 0..times {
            sums[0].push(saturated(&ours, clients, requests).await);
            sums[1].push(saturated(&alone, clients, requests / 4).await);
            sums[2].push(saturated(&by_hand, clients, requests).await);
            if let Some((_, there)) = &there {
                sums_there.push(saturated(there, clients, requests / 4).await);
            }
        }
        let [ours, alone, by_hand] = sums.map(|taken| medians(&taken));
        let what = |than: &str| {
            format!("a request of 1 KiB from {clients} clients, in batches, beside {than}; {device}")
        };
        table.speed(&what("one by one"), ours.time, alone.time, "≥ 5x");
        let hand = if is_host { "by hand" } else { "by hand on the host" };
        table.speed(&what(hand), ours.time, by_hand.time, "≥ 2x");
        if let Some((with, _)) = &there {
            table.speed(
                &what(&format!("by hand there ({with})")),
                ours.time,
                medians(&sums_there).time,
                "≥ 2x",
            );
        }
        let cpu =
            |how| format!("CPU of a request of 1 KiB from {clients} clients, {how}, beside {hand}; {device}");
        table.cost(&cpu("in batches"), ours.cpu, Some(by_hand.cpu), "≤ 0.5x");
        table.cost(&cpu("one by one"), alone.cpu, Some(by_hand.cpu), "≤ 1.3x");
    }
    let clients = 512;
    let (mut best, mut best_size) = (f64::MAX, 0);
    for size in [16, 64, 128, 256, 512] {
        let service = fixed(&queue, size);
        let mut times_of = Vec::new();
        for _ in 0..times {
            times_of.push(saturated(&service, clients, 4_000 * scale.max(3)).await.time);
        }
        let time = median(times_of);
        if time < best {
            (best, best_size) = (time, size);
        }
    }
    let mut times_of = Vec::new();
    let before = batch.stats();
    for _ in 0..times {
        times_of.push(saturated(&ours, clients, 4_000 * scale.max(3)).await.time);
    }
    let stats = batch.stats();
    let size = (stats.items - before.items) as f64 / (stats.batches - before.batches) as f64;
    eprintln!("{size:.0} items a batch beside {best_size}: {stats:?}");
    table.speed(
        &format!("the same from {clients} clients, beside the best fixed size ({best_size}); {device}"),
        median(times_of),
        best,
        "≥ 0.97x",
    );
    between(table, scale, &device, &queue).await;
    light(table, scale, &device, &ours, &alone).await;
    heavy(table, scale, &device, &queue).await;
    expired(table, &device, &queue).await;
    tenants(table, scale, &device, &queue).await;
    eprintln!("batches: {:?}", batch.stats());
}

/// One by one, with the group awaited before its data and with its data alone awaited.
async fn between(table: &mut Table, scale: usize, device: &str, queue: &Queue) {
    let (alone, awaited) = (unbatched(queue, Work::Tripled), unbatched_awaited(queue, Work::Tripled));
    let mut sums = [const { Vec::new() }; 2];
    for _ in 0..scale.clamp(3, 7) {
        for (sum, service) in sums.iter_mut().zip([&alone, &awaited]) {
            sum.push(saturated(service, 64, 1_000 * scale.max(3)).await);
        }
    }
    let [alone, awaited] = sums.map(|taken| medians(&taken));
    let what = "a request's data awaited, beside its group and then its data, from 64 clients";
    table.cost(&format!("{what}; {device}"), alone.time, Some(awaited.time), "≤ 1.0x");
    table.cost(&format!("{what}, CPU; {device}"), alone.cpu, Some(awaited.cpu), "≤ 1.0x");
}

/// At three tenths of what one by one can do.
async fn light(table: &mut Table, scale: usize, device: &str, ours: &Service, alone: &Service) {
    let most = saturated(alone, 64, 4_000).await.time;
    let gap = Duration::from_nanos((most / 0.3) as u64);
    let (mut batched, mut unbatched) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        batched.push(open(ours, gap, 1_000 * scale, None).await.percentile(0.99));
        unbatched.push(open(alone, gap, 1_000 * scale, None).await.percentile(0.99));
    }
    let what = format!("p99 at 0.3 of one by one's most, in batches beside one by one; {device}");
    table.cost(&what, median(batched), Some(median(unbatched)), "≤ 1.2x");
}

/// Requests of which a device does no more in a second: these processors can ask it for three times as many.
const ASKABLE: f64 = 60_000.0;

/// Up to three times as much as can be done, with answers that are of use for 20 ms.
async fn heavy(table: &mut Table, scale: usize, device: &str, queue: &Queue) {
    let (steps, _) = slowed(ASKABLE, |steps| batched(queue, Work::Stepped(steps)).0).await;
    let (batch, ours) = batched(queue, Work::Stepped(steps));
    let ours = &ours;
    let most = saturated_with(ours, 512, 4_000 * scale, |_, _| {}).await.time;
    let within = Duration::from_millis(20);
    let mut peak: f64 = 0.0;
    let mut at_three = Came::default();
    for load in [0.5, 0.8, 1.0, 1.5, 3.0] {
        let gap = Duration::from_nanos((most / load) as u64);
        let requests = (1e9 / most * load * 0.2) as usize * scale.min(5);
        let came = open(ours, gap, requests, Some(within)).await;
        eprintln!(
            "{load}: {:.0} in time a second, {} of {} let in, of {requests}, {:.1} processors; {steps} steps, {:?}",
            came.goodput(),
            came.in_time,
            came.admitted,
            came.processors(),
            batch.stats()
        );
        peak = peak.max(came.goodput());
        at_three = came;
    }
    let refused =
        open(ours, Duration::from_nanos((most / 3.0) as u64), 20_000 * scale, Some(Duration::ZERO)).await;
    eprintln!("nothing but {} refusals: {:.1} processors", 20_000 * scale, refused.processors());
    let goodput = at_three.goodput();
    table.text(
        &format!("answers in 20 ms, a second, at three times what can be done, beside the most at any load; {device}"),
        format!("{goodput:.0}"),
        format!("{peak:.0}"),
        format!("{:.2}x", goodput / peak),
        "≥ 0.95x",
    );
    table.text(
        &format!("of those that were let in, answered in time; {device}"),
        format!("{}", at_three.in_time),
        format!("{}", at_three.admitted),
        format!("{:.4}", at_three.in_time as f64 / at_three.admitted.max(1) as f64),
        "≥ 0.999",
    );
}
