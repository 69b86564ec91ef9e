//! What batches promise beside being fast: each tenant its share of the device, and to those who have waited too long an answer then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use windlass::batch::Batch;
use windlass::prelude::*;

use super::ways::{LEN, Work, request};
use crate::table::{Table, median};

/// Items of a hundred times as many elements as others.
const DEAR: usize = 100;

/// Clients of each tenant who wait for their answers.
const CLIENTS: usize = 64;

/// A device that does no more small items than this in a second is one that a clock's thread can send ten times its share.
const MOST: f64 = 30_000.0;

/// Batches that are short beside a second.
fn batch_of(queue: &Queue, steps: u32) -> Batch<f32, f32> {
    Batch::<f32, f32>::builder(queue)
        .max_items(64)
        .max_waiting(4_096)
        .patience(Duration::from_secs(1))
        .build(move |cg, batch| Work::Stepped(steps).launch(cg, batch.input(), batch.output()))
}

/// How many steps it takes that a device does no more than so many small items in a second, and how many it does then.
pub(super) async fn slowed(most: f64, batch_of: impl Fn(u32) -> Batch<f32, f32>) -> (u32, f64) {
    let mut steps = 400;
    let mut done = rate(&batch_of(steps)).await;
    while done > most {
        steps *= 2;
        done = rate(&batch_of(steps)).await;
    }
    (steps, done)
}

/// Small items that it does in a second.
async fn rate(batch: &Batch<f32, f32>) -> f64 {
    // A driver takes as long as that to compile the kernel.
    batch.call(request(0)).await.expect("nothing is refused");
    let began = Instant::now();
    let clients = (0..512).map(|client| async move {
        let mut answered = 0;
        while began.elapsed() < Duration::from_millis(300) {
            batch.call(request(client)).await.expect("nothing is refused");
            answered += 1;
        }
        answered
    });
    let answered: usize = join_all(clients).await.into_iter().sum();
    answered as f64 / began.elapsed().as_secs_f64()
}

/// A tenant with items of a hundredfold cost, whose clients wait for their answers, beside one that sends ten times its share by the clock:
/// how far what the device does for them is from their weights, in the second in which it is farthest.
pub(super) async fn tenants(table: &mut Table, scale: usize, device: &str, queue: &Queue) {
    // So many steps that a small item takes long beside what it costs to send.
    let (steps, most) = slowed(MOST, |steps| batch_of(queue, steps)).await;
    let seconds = 2 + scale.clamp(2, 6);
    for weight in [1.0, 3.0] {
        let due = weight / (weight + 1.0);
        let flood = batch_of(queue, steps);
        let dear = flood.tenant(weight);
        let shares = shares(&flood, &dear, most * (1.0 - due) * 10.0, seconds).await;
        eprintln!("steps {steps}, most {most:.0}, weight {weight}: {shares:.3?}, {:?}", flood.stats());
        let off = |share: &f64| (share / due - 1.0).abs();
        let farthest = shares.iter().copied().max_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(f64::NAN);
        table.text(
            &format!(
                "a tenant's part of the device in a second, of {} in which it is farthest from its weight's; items of a hundredfold \
                 cost beside ten times the share of small ones; {device}",
                shares.len()
            ),
            format!("{farthest:.4}"),
            format!("{due:.4}"),
            format!("{:.3}x", farthest / due),
            "0.95x to 1.05x",
        );
    }
}

/// The dear tenant's part of the elements that were computed, in each second but the first.
async fn shares(flood: &Batch<f32, f32>, dear: &Batch<f32, f32>, a_second: f64, seconds: usize) -> Vec<f64> {
    let done: Arc<Vec<[AtomicU64; 2]>> = Arc::new((0..=seconds).map(|_| Default::default()).collect());
    let over = Arc::new(AtomicBool::new(false));
    let began = Instant::now();
    let count = move |done: &[[AtomicU64; 2]], tenant: usize, elements: usize| {
        if let Some(second) = done.get(began.elapsed().as_secs() as usize) {
            second[tenant].fetch_add(elements as u64, Ordering::Relaxed);
        }
    };
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (dear, done, over) = (dear.clone(), done.clone(), over.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    dear.call(vec![1.0; DEAR * LEN]).await.expect("it has places for its clients");
                    count(&done, 0, DEAR * LEN);
                }
            })
        })
        .collect();
    let clock = {
        let (flood, done, over) = (flood.clone(), done.clone(), over.clone());
        let tokio = tokio::runtime::Handle::current();
        std::thread::spawn(move || {
            let mut sent = 0_u64;
            while !over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_micros(200));
                while (sent as f64) < began.elapsed().as_secs_f64() * a_second {
                    sent += 1;
                    // It is in line from here on; what is refused needs no task.
                    let (call, done) = (flood.call(request(1)), done.clone());
                    tokio.spawn(async move {
                        if call.await.is_ok() {
                            count(&done, 1, LEN);
                        }
                    });
                }
            }
        })
    };
    tokio::time::sleep(Duration::from_secs(seconds as u64)).await;
    over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("no client panics");
    }
    clock.join().expect("the clock does not panic");
    let share = |second: &[AtomicU64; 2]| {
        let [dear, flood] = [0, 1].map(|tenant| second[tenant].load(Ordering::Relaxed) as f64);
        dear / (dear + flood)
    };
    done[1..seconds].iter().map(share).collect()
}

/// Items that wait for a device which is held up, until their time is over: how long after that they are told so.
pub(super) async fn expired(table: &mut Table, device: &str, queue: &Queue) {
    let (mut usual, mut most) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let mut late = told_late(queue).await;
        late.sort_by(f64::total_cmp);
        usual.push(late[late.len() * 99 / 100]);
        most.push(late[late.len() - 1]);
    }
    let what = |which: &str| format!("who waits too long is told so, after the deadline, {which}; {device}");
    table.cost(&what("99 of 100"), median(usual), None, "≤ 1 ms");
    table.cost(&what("the last of 2,000"), median(most), None, "≤ 1 ms");
}

async fn told_late(queue: &Queue) -> Vec<f64> {
    // Launches are made by any thread.
    let tokio = tokio::runtime::Handle::current();
    let batch = Batch::<f32, f32>::builder(queue).max_items(1).build(move |cg, batch| {
        cg.after(tokio.spawn(async { tokio::time::sleep(Duration::from_millis(200)).await }));
        cg.copy(&cg.read(batch.input()), &cg.overwrite(batch.output()))
    });
    // One is on the device, and the next behind it.
    let ahead = [batch.call(request(0)), batch.call(request(0))];
    while batch.stats().in_flight < 2 {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    let waiting: Vec<_> = (0..2_000)
        .map(|number| {
            let deadline = began + Duration::from_micros(50_000 + 30 * number);
            let call = batch.until(deadline).call(request(1));
            tokio::spawn(async move {
                let told = call.await.map(|_| ());
                let late = deadline.elapsed();
                assert!(
                    told.as_ref().is_err_and(|error| error.is_timeout()),
                    "{late:?} after the deadline: {told:?}"
                );
                late.as_nanos() as f64
            })
        })
        .collect();
    let late = join_all(waiting).await.into_iter().map(|late| late.expect("no client panics")).collect();
    for call in ahead {
        call.await.expect("it has no deadline");
    }
    assert_eq!(batch.stats().items, 2, "the others cost the device nothing");
    late
}
