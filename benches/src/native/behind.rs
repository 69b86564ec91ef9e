//! What a program feels while long kernels keep its device busy for two seconds: what `submit` takes, how late timers are, and how
//! allocations and copies beside it fare, on every kind of executor.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use windlass::prelude::*;

use super::Ours;
use crate::table::Table;

/// How long the device is busy.
const BUSY: Duration = Duration::from_secs(2);
/// In so many launches: one of 2^31 turns and more takes a GPU four times as long for each.
const PARTS: u32 = 4;
/// Launches behind that.
const LAUNCHES: usize = 10_000;
/// Tasks that await one of them each.
const TASKS: usize = 1_000;
const TICK: Duration = Duration::from_millis(5);
/// The elements of what is copied beside.
const BESIDE: usize = 1 << 20;

type Sleep = fn(Duration) -> Pin<Box<dyn Future<Output = ()>>>;

/// The longest of several times.
#[derive(Clone, Default)]
struct Longest(Rc<Cell<Duration>>);

impl Longest {
    fn of<R>(&self, call: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = call();
        self.0.set(self.0.get().max(start.elapsed()));
        result
    }
}

/// What was felt.
#[derive(Clone, Default)]
struct Felt {
    submit: Longest,
    beside: Longest,
    late: Longest,
    copied: Longest,
}

pub(super) fn rows(ours: &Ours, table: &mut Table) {
    let turns = ours.turns(BUSY / PARTS);
    let tokio = |builder: &mut tokio::runtime::Builder| builder.enable_time().build().expect("threads start");
    let sleep: Sleep = |long| Box::pin(tokio::time::sleep(long));
    let single = tokio(&mut tokio::runtime::Builder::new_current_thread());
    row(table, "tokio, one thread", |felt| single.block_on(behind(ours, turns, sleep, felt)));
    let many = tokio(tokio::runtime::Builder::new_multi_thread().worker_threads(2));
    row(table, "tokio, several threads", |felt| many.block_on(behind(ours, turns, sleep, felt)));
    let sleep: Sleep = |long| {
        let (over, wait) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            std::thread::sleep(long);
            let _ = over.send(());
        });
        Box::pin(async { wait.await.unwrap_or_default() })
    };
    row(table, "no runtime", |felt| futures::executor::block_on(behind(ours, turns, sleep, felt)));
}

fn row(table: &mut Table, name: &str, run: impl FnOnce(Felt)) {
    let felt = Felt::default();
    let start = Instant::now();
    run(felt.clone());
    let all = start.elapsed();
    let Felt { submit, beside, late, copied } = felt;
    let mut text = |what: &str, longest: Longest, budget: &str| {
        table.text(
            &format!("{name}: {what}"),
            format!("{:.2?}", longest.0.get()),
            "".into(),
            "".into(),
            budget,
        );
    };
    text(
        &format!("10,000 launches behind kernels of 2 s ({all:.2?}), the longest `submit`"),
        submit,
        "< 1 ms",
    );
    text("a timer is late by at most", late, "≤ 4 ms");
    text("a `submit` of a copy of 4 MiB to fresh memory beside it", beside, "< 1 ms");
    text("that copy and its way back have ended after", copied, "");
}

async fn behind(ours: &Ours, turns: u32, sleep: Sleep, felt: Felt) {
    let other = Queue::builder().device(ours.queue.device().clone()).blocking_build().expect("it is open");
    let long: Vec<Event> = (0..PARTS).map(|_| ours.spin(turns)).collect();
    let begun = Instant::now();
    let groups = (0..TASKS).map(|_| async {
        let events: Vec<Event> = (0..LAUNCHES / TASKS).map(|_| felt.submit.of(|| ours.spin(0))).collect();
        for event in events {
            event.await.expect("nothing fails");
        }
    });
    let beside = async {
        for _ in 0..8 {
            let start = Instant::now();
            let (from, to) = (Buffer::from(vec![1_u32; BESIDE]), Buffer::<u32>::new(BESIDE));
            let group = felt.beside.of(|| other.submit(|cg| cg.copy(&cg.read(&from), &cg.overwrite(&to))));
            group.expect("nothing to refuse").await.expect("nothing fails");
            drop(to.host_read().await.expect("nothing fails"));
            felt.copied.0.set(felt.copied.0.get().max(start.elapsed()));
            sleep(TICK).await;
        }
    };
    let timer = async {
        while begun.elapsed() < BUSY {
            let start = Instant::now();
            sleep(TICK).await;
            let late = start.elapsed().saturating_sub(TICK);
            felt.late.0.set(felt.late.0.get().max(late));
        }
    };
    futures::future::join3(futures::future::join_all(groups), beside, timer).await;
    futures::future::try_join_all(long).await.expect("nothing fails");
}
