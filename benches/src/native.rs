//! What launches, waits and copies cost on a device, beside its driver by hand.

mod behind;
mod beyond;
pub(crate) mod cl;
mod fresh;
#[cfg(feature = "wgpu")]
mod vk;

use std::time::{Duration, Instant};

use windlass::KernelCall;
use windlass::image::Kernel;
use windlass::prelude::*;

use crate::busy::cpu_time;
use crate::table::{Table, alternate, median};

/// Launches in a row.
const LAUNCHES: usize = 10_000;
/// Launches that are awaited one by one.
const ROUNDS: usize = 1_000;

/// A time without work, after which a device, and the threads that watch it, may have gone to sleep.
const IDLE: Duration = Duration::from_millis(2);

/// Takes as long as it is told.
#[windlass::kernel]
fn spin(v: &mut [u32], turns: u32) {
    if global_id(0) == 0 {
        let mut x = v[0];
        for _ in 0..turns {
            x = x * 1664525 + 1013904223;
        }
        v[0] = x;
    }
}

/// How many turns of a kernel take so long, by how long some take.
fn turns(long: Duration, taken: impl Fn(u32) -> Duration) -> u32 {
    let (few, many) = (100_000, 1_100_000);
    let least = |turns| (0..5).map(|_| taken(turns)).min().unwrap_or_default();
    let (first, second) = (least(few), least(many));
    let per_turn = second.saturating_sub(first).as_secs_f64() / f64::from(many - few);
    (long.as_secs_f64() / per_turn) as u32
}

/// A device's driver, with nothing between. Ways are numbered, and the first is the one to be compared with, but of waits the
/// best is.
trait ByHand {
    /// Ways of launching many in a row.
    fn chains(&self) -> &[&str];

    /// Nanoseconds for each of so many.
    fn chain(&self, way: usize, n: usize) -> f64;

    /// Ways of waiting for a launch.
    fn waits(&self) -> &[&str];

    /// From a launch until a thread goes on behind it.
    fn awaited(&self, way: usize, turns: u32) -> Duration;

    /// Ways of copying.
    fn copies(&self) -> &[&str];

    /// Nanoseconds for a copy up, and for one down: the medians of so many.
    fn copied(&self, way: usize, bytes: usize, times: usize) -> [f64; 2];

    /// Nanoseconds for each of some reads of 4 KiB that have just been written.
    fn reads(&self, times: usize) -> Vec<f64>;
}

fn by_hand(queue: &Queue) -> Option<Box<dyn ByHand>> {
    match queue.device().backend().to_string().as_str() {
        "opencl" => cl::Raw::open(queue.device().name()).map(|raw| Box::new(raw) as _),
        #[cfg(feature = "wgpu")]
        "wgpu" => vk::Raw::open(queue.device().name()).map(|raw| Box::new(raw) as _),
        _ => None,
    }
}

/// All rows, on the device that a program would get; or those that are named: `launches`, `waits`, `tasks`, `behind`,
/// `fresh`, `beyond`, `transfers`.
pub(crate) fn rows(table: &mut Table, scale: usize) {
    let queue = Queue::blocking_new().expect("there is a device");
    println!("on {}:", queue.device());
    let raw = by_hand(&queue);
    let raw = raw.as_deref();
    let is_opencl = queue.device().backend().to_string() == "opencl";
    let by_hand = is_opencl.then(cl::kernel);
    let ours = Ours { queue, number: Buffer::from(vec![0]), by_hand };
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let wanted = |what: &str| named.is_empty() || named.iter().any(|name| name == what);
    if wanted("launches") {
        ours.launches(table, raw, scale);
    }
    if wanted("waits") {
        ours.waits(table, raw, scale);
    }
    if wanted("tasks") {
        ours.many(table);
    }
    if wanted("behind") {
        behind::rows(&ours, table);
    }
    if wanted("fresh") {
        fresh::rows(&ours, table, scale);
    }
    if wanted("beyond") {
        beyond::rows(ours.queue.device(), table, scale);
    }
    if wanted("transfers") {
        ours.transfers(table, raw, scale);
    }
}

/// The device with Windlass on it.
struct Ours {
    queue: Queue,
    number: Buffer<u32>,
    /// The same kernel as is launched by hand, where there is one.
    by_hand: Option<Kernel>,
}

impl Ours {
    fn spin(&self, turns: u32) -> Event {
        let group = self.queue.submit(|cg| {
            let number = cg.read_write(&self.number);
            match &self.by_hand {
                Some(kernel) => cg.parallel_for(1, KernelCall::new(kernel).buffer(number).value(turns)),
                None => cg.parallel_for(1, spin(number, turns)),
            }
        });
        group.expect("nothing to refuse")
    }

    async fn awaited(&self, turns: u32) -> Duration {
        let start = Instant::now();
        self.spin(turns).await.expect("nothing fails");
        start.elapsed()
    }

    fn turns(&self, long: Duration) -> u32 {
        turns(long, |turns| futures::executor::block_on(self.awaited(turns)))
    }

    fn chain(&self, n: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..n {
            self.spin(0);
        }
        futures::executor::block_on(self.queue.drained());
        start.elapsed().as_nanos() as f64 / n as f64
    }

    fn launches(&self, table: &mut Table, raw: Option<&dyn ByHand>, scale: usize) {
        self.chain(100);
        let times = scale.max(3);
        let Some(raw) = raw else {
            let ours = median((0..times).map(|_| self.chain(LAUNCHES)).collect());
            return table.cost("a launch, of 10,000 in a chain", ours, None, "");
        };
        let (ours, base) = alternate(times, || self.chain(LAUNCHES), || raw.chain(0, LAUNCHES));
        table.cost("a launch, of 10,000 in a chain", ours, Some(base), "raw + 0.5 us; wgpu 1.2x");
        for (way, name) in raw.chains().iter().enumerate() {
            let by_hand = median((0..times).map(|_| raw.chain(way, LAUNCHES)).collect());
            table.cost(&format!("the same by hand, {name}"), by_hand, Some(base), "");
        }
    }

    fn waits(&self, table: &mut Table, raw: Option<&dyn ByHand>, scale: usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("threads can be started");
        // Before all callbacks by hand, behind which a thread of the driver's may be busy for a while.
        let turns = self.turns(Duration::from_millis(500));
        let start = (Instant::now(), cpu_time());
        runtime.block_on(self.awaited(turns));
        let share = (cpu_time() - start.1).as_secs_f64() / start.0.elapsed().as_secs_f64();
        let what = format!("CPU while a kernel of {:?} is awaited", start.0.elapsed());
        table.text(&what, format!("{:.1} %", share * 100.0), "".into(), "".into(), "≤ 2 %");
        for (what, long, rounds) in
            [("nothing", 0, ROUNDS), ("0.2 ms", 200, 200), ("0.64 ms", 640, 100), ("2 ms", 2_000, 50)]
        {
            let long = Duration::from_micros(long);
            let turns = if long.is_zero() { 0 } else { self.turns(long) };
            let ours = || {
                runtime.block_on(async {
                    let mut all = Vec::new();
                    for _ in 0..rounds {
                        all.push(self.awaited(turns).await.as_nanos() as f64);
                    }
                    all
                })
            };
            let ours: Vec<f64> = (0..scale.max(2)).flat_map(|_| ours()).collect();
            let ours = Quantiles::of(ours);
            let base = Base::of(raw, rounds, Duration::ZERO, |raw| match long.is_zero() {
                true => 0,
                false => by_hand_turns(raw, long),
            });
            table.text(
                &format!("submit → awaited, a kernel of {what}, p50 (p99)"),
                ours.to_string(),
                base.text(),
                base.ratio(ours),
                "≤ 1.15x",
            );
        }
        runtime.block_on(async {
            // After a time without work, too.
            let mut all = Vec::new();
            for _ in 0..200 {
                tokio::task::yield_now().await;
                std::thread::sleep(IDLE);
                all.push(self.awaited(0).await.as_nanos() as f64);
            }
            let (ours, base) = (Quantiles::of(all), Base::of(raw, 200, IDLE, |_| 0));
            table.text(
                "submit → awaited after 2 ms without work",
                ours.to_string(),
                base.text(),
                base.ratio(ours),
                "≤ 1.15x",
            );
        });
    }

    /// A thousand tasks of one thread, each with a group of a millisecond.
    fn many(&self, table: &mut Table) {
        let turns = self.turns(Duration::from_millis(1));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("threads can be started");
        let local = tokio::task::LocalSet::new();
        let mut longest = Duration::ZERO;
        let mut late = Duration::ZERO;
        let begun = Instant::now();
        local.block_on(&runtime, async {
            let (ended, mut all_ended) = tokio::sync::oneshot::channel::<()>();
            let submits = async {
                let groups = (0..1_000).map(|_| async {
                    let start = Instant::now();
                    let event = self.spin(turns);
                    let taken = start.elapsed();
                    event.await.expect("nothing fails");
                    taken
                });
                longest = futures::future::join_all(groups).await.into_iter().max().unwrap_or_default();
                let _ = ended.send(());
            };
            let timer = async {
                while all_ended.try_recv().is_err() {
                    let start = Instant::now();
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    late = late.max(start.elapsed().saturating_sub(Duration::from_millis(5)));
                }
            };
            futures::future::join(submits, timer).await;
        });
        let what = format!(
            "1,000 groups of 1 ms from 1,000 tasks of one thread ({:.2?}): longest `submit`",
            begun.elapsed()
        );
        table.text(&what, format!("{longest:.1?}"), "".into(), "".into(), "< 1 ms");
        table.text(
            "the same: a timer is late by at most",
            format!("{late:.1?}"),
            "".into(),
            "".into(),
            "≤ 4 ms",
        );
    }

    /// Between memory that the driver has pinned and the device's.
    fn pinned(&self, table: &mut Table, raw: Option<&dyn ByHand>, times: usize) {
        const BYTES: usize = 256 << 20;
        let round = |_| crate::transfers::pinned(&self.queue, BYTES / 4);
        let Some(all) = (0..times).map(round).collect::<Option<Vec<_>>>() else { return };
        let base = raw.filter(|raw| raw.copies()[0] == "pinned").map(|raw| raw.copied(0, BYTES, times));
        let gigabytes = |ns: f64| format!("{:.1} GB/s", BYTES as f64 / ns);
        for (at, way) in ["up from pinned memory", "down to pinned memory"].into_iter().enumerate() {
            let ours = median(all.iter().map(|of| of[at]).collect());
            let text = base.map_or(String::new(), |base| format!("pinned {}", gigabytes(base[at])));
            let ratio = base.map_or(String::new(), |base| format!("{:.2}x", base[at] / ours));
            table.text(&format!("256 MiB {way}"), gigabytes(ours), text, ratio, "≥ 0.9x");
        }
    }

    fn transfers(&self, table: &mut Table, raw: Option<&dyn ByHand>, scale: usize) {
        let times = 2 * scale + 1;
        let gigabytes = |bytes: usize, ns: f64| format!("{:.1} GB/s", bytes as f64 / ns);
        for (what, bytes) in [("16 MiB", 16 << 20), ("256 MiB", 256 << 20)] {
            let all: Vec<_> = (0..times).map(|_| crate::transfers::round(&self.queue, bytes / 4)).collect();
            let of = |which: usize| median(all.iter().map(|of| of[which]).collect());
            let base = raw.map(|raw| {
                let way = |way| raw.copied(way, bytes, times);
                (0..raw.copies().len()).map(way).collect::<Vec<_>>()
            });
            for (way, which, at) in
                [("up from a `Vec`", 0, 0), ("up again", 3, 0), ("down", 1, 1), ("down again", 2, 1)]
            {
                let names = raw.map_or(&[][..], |raw| raw.copies());
                let each = names.iter().zip(base.iter().flatten());
                let each = each.map(|(name, ns)| format!("{name} {}", gigabytes(bytes, ns[at])));
                let text = each.collect::<Vec<_>>().join(", ");
                let ratio =
                    base.as_ref().map_or(String::new(), |all| format!("{:.2}x", all[0][at] / of(which)));
                table.text(&format!("{what} {way}"), gigabytes(bytes, of(which)), text, ratio, "≥ 35 GB/s");
            }
        }
        self.pinned(table, raw, times);
        let small = Buffer::<u32>::new(1024);
        let fresh = || {
            let filled =
                self.queue.submit(|cg| cg.fill(&cg.overwrite(&small), 2)).expect("nothing to refuse");
            filled.blocking_wait().expect("nothing fails");
            let start = Instant::now();
            drop(futures::executor::block_on(small.host_read()).expect("nothing fails"));
            start.elapsed().as_nanos() as f64
        };
        let ours = Quantiles::of((0..ROUNDS).map(|_| fresh()).collect());
        let base = raw.map(|raw| Quantiles::of(raw.reads(ROUNDS)));
        let text = base.map_or(String::new(), |base| base.to_string());
        let ratio = base.map_or(String::new(), |base| format!("{:.2}x", ours.half / base.half));
        table.text("4 KiB of fresh data, awaited, p50 (p99)", ours.to_string(), text, ratio, "≤ 15 us");
    }
}

/// How many turns of the kernel by hand take so long.
fn by_hand_turns(raw: &dyn ByHand, long: Duration) -> u32 {
    turns(long, |turns| raw.awaited(0, turns))
}

/// Every way of waiting by hand, with what it took.
struct Base(Vec<(String, Quantiles)>);

impl Base {
    fn of(
        raw: Option<&dyn ByHand>,
        rounds: usize,
        idle: Duration,
        turns: impl Fn(&dyn ByHand) -> u32,
    ) -> Self {
        let Some(raw) = raw else { return Base(Vec::new()) };
        let turns = turns(raw);
        let by = |way| {
            let one = |_| {
                std::thread::sleep(idle);
                raw.awaited(way, turns).as_nanos() as f64
            };
            Quantiles::of((0..rounds).map(one).collect())
        };
        Base(raw.waits().iter().enumerate().map(|(way, name)| ((*name).to_owned(), by(way))).collect())
    }

    fn text(&self) -> String {
        self.0.iter().map(|(name, taken)| format!("{name} {taken}")).collect::<Vec<_>>().join(", ")
    }

    /// Ours beside the best of them.
    fn ratio(&self, ours: Quantiles) -> String {
        let best = self.0.iter().map(|(_, taken)| taken.half).min_by(f64::total_cmp);
        best.map_or(String::new(), |best| format!("{:.2}x", ours.half / best))
    }
}

/// What half and nearly all of the measurements do not exceed, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Quantiles {
    half: f64,
    most: f64,
}

impl Quantiles {
    fn of(mut all: Vec<f64>) -> Self {
        all.sort_by(f64::total_cmp);
        Quantiles { half: all[all.len() / 2], most: all[all.len() * 99 / 100] }
    }
}

impl std::fmt::Display for Quantiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} us ({:.0})", self.half / 1e3, self.most / 1e3)
    }
}
