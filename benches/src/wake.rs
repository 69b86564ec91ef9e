//! From submission to the waiting task's next step.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use tokio::sync::oneshot;
use windlass::prelude::*;

use crate::table::{Table, alternate, median};

const ROUNDS: usize = 2_000;
const N: usize = 10_000;

pub(crate) fn rows(table: &mut Table, scale: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("threads can be started");
    let queue = Queue::blocking_on(Device::host()).expect("the host device is always there");
    let parked = Parked::start();
    let (ours, base) = alternate(
        scale.max(5),
        || runtime.block_on(async { median(windlass_rounds(&queue).await) }),
        || runtime.block_on(async { median(parked.rounds().await) }),
    );
    table.cost("submit → woken, host, p50", ours, Some(base), "≤ 1.3x a parked thread and a oneshot");
    let (ours, base) =
        alternate(scale.max(5), || runtime.block_on(notices(&queue)), || runtime.block_on(parked.notices()));
    table.cost("a completion notice for every task, host", ours, Some(base), "≤ 1.2x");
}

async fn windlass_rounds(queue: &Queue) -> Vec<f64> {
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let event = queue.submit(|cg| cg.host_for(1, (), |_, ()| {})).expect("nothing to refuse");
        event.await.expect("nothing fails");
        rounds.push(start.elapsed().as_nanos() as f64);
    }
    rounds
}

async fn notices(queue: &Queue) -> f64 {
    let start = Instant::now();
    let events: Vec<Event> = (0..N)
        .map(|_| queue.submit(|cg| cg.host_for(1, (), |_, ()| {})).expect("nothing to refuse"))
        .collect();
    Event::all(events).await.expect("nothing fails");
    start.elapsed().as_nanos() as f64 / N as f64
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that sleeps until there is a job: the least that anything asynchronous costs here.
struct Parked {
    shared: Arc<(Mutex<Vec<Job>>, Condvar)>,
}

impl Parked {
    fn start() -> Self {
        let shared = Arc::new((Mutex::new(Vec::<Job>::new()), Condvar::new()));
        let theirs = shared.clone();
        std::thread::spawn(move || {
            loop {
                let mut queue = theirs.0.lock().expect("no panics");
                while queue.is_empty() {
                    queue = theirs.1.wait(queue).expect("no panics");
                }
                let batch = std::mem::take(&mut *queue);
                drop(queue);
                batch.into_iter().for_each(|job| job());
            }
        });
        Parked { shared }
    }

    fn send(&self) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        let mut queue = self.shared.0.lock().expect("no panics");
        queue.push(Box::new(move || tell.send(()).unwrap_or_default()));
        let first = queue.len() == 1;
        drop(queue);
        if first {
            self.shared.1.notify_one();
        }
        told
    }

    async fn rounds(&self) -> Vec<f64> {
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            self.send().await.expect("the job tells");
            rounds.push(start.elapsed().as_nanos() as f64);
        }
        rounds
    }

    async fn notices(&self) -> f64 {
        let start = Instant::now();
        let told: Vec<_> = (0..N).map(|_| self.send()).collect();
        futures::future::join_all(told).await;
        start.elapsed().as_nanos() as f64 / N as f64
    }
}
