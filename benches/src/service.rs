//! Many small requests, in batches, one by one, and by hand: a semaphore, a pool of threads, and a channel back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot};
use windlass::batch::Batch;
use windlass::prelude::*;

use crate::busy::cpu_time;
use crate::table::{Table, median};

#[windlass::kernel]
fn tripled(x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if i < y.len() {
        y[i] = 3.0 * x[i];
    }
}

/// The same after so many steps: what keeps a device busy, and not those who ask.
#[windlass::kernel]
fn stepped(x: &[f32], y: &mut [f32]) {
    let i = global_id(0);
    if i < y.len() {
        let mut value = x[i];
        for _ in 0..400 {
            value = value * 0.999 + 0.001;
        }
        y[i] = value;
    }
}

/// Elements of a request: 1 KiB.
const LEN: usize = 256;

/// One way to answer a request: its data, and until when the answer is of use.
type Service = Arc<
    dyn Fn(Vec<f32>, Option<Instant>) -> BoxFuture<'static, Result<Vec<f32>, windlass::Error>> + Send + Sync,
>;

fn request(number: usize) -> Vec<f32> {
    vec![number as f32; LEN]
}

fn batched(queue: &Queue, max_items: usize) -> (Batch<f32, f32>, Service) {
    let batch = Batch::<f32, f32>::builder(queue).max_items(max_items).build(|cg, batch| {
        cg.parallel_for(batch.output().len(), tripled(cg.read(batch.input()), cg.overwrite(batch.output())))
    });
    let own = batch.clone();
    (own, asking(batch))
}

fn asking(batch: Batch<f32, f32>) -> Service {
    let service = move |x: Vec<f32>, until: Option<Instant>| {
        let call = match until {
            Some(deadline) => batch.until(deadline).call(x),
            None => batch.call(x),
        };
        async move { Ok(call.await?.to_vec()) }.boxed()
    };
    Arc::new(service)
}

fn unbatched(queue: &Queue) -> Service {
    let queue = queue.clone();
    Arc::new(move |x, _| {
        let queue = queue.clone();
        async move {
            let (x, y) = (Buffer::from(x), Buffer::<f32>::new(LEN));
            queue.ready().await.submit(|cg| cg.parallel_for(LEN, tripled(cg.read(&x), cg.overwrite(&y))))?;
            y.into_vec().await
        }
        .boxed()
    })
}

/// What one writes without Windlass, for the host.
fn by_hand() -> Service {
    let places = Arc::new(Semaphore::new(256));
    Arc::new(move |x, _| {
        let places = places.clone();
        async move {
            let _place = places.acquire().await.expect("nobody closes it");
            let (send, receive) = oneshot::channel();
            rayon::spawn(move || drop(send.send(x.iter().map(|x| 3.0 * x).collect())));
            Ok(receive.await.expect("it is computed"))
        }
        .boxed()
    })
}

/// Batches of one size, filled by who comes: the best that a size chosen beforehand does. What does not fill one goes when nobody has come
/// for a millisecond.
fn fixed(queue: &Queue, size: usize) -> Service {
    type Asked = (Vec<f32>, oneshot::Sender<Vec<f32>>);
    let (send, mut asked) = mpsc::unbounded_channel::<Asked>();
    let queue = queue.clone();
    tokio::spawn(async move {
        let mut batch: Vec<Asked> = Vec::new();
        loop {
            match tokio::time::timeout(Duration::from_millis(1), asked.recv()).await {
                Ok(Some(one)) => batch.push(one),
                Ok(None) => return,
                Err(_) => {}
            }
            if batch.is_empty() || (batch.len() < size && !asked.is_empty()) {
                continue;
            }
            if batch.len() < size {
                // Those who are about to come.
                tokio::task::yield_now().await;
                if !asked.is_empty() {
                    continue;
                }
            }
            let members = std::mem::take(&mut batch);
            let input: Vec<f32> = members.iter().flat_map(|(x, _)| x.iter().copied()).collect();
            let (len, x) = (input.len(), Buffer::from(input));
            let y = Buffer::<f32>::new(len);
            queue
                .submit(|cg| cg.parallel_for(len, tripled(cg.read(&x), cg.overwrite(&y))))
                .expect("nothing to refuse");
            let all = y.into_vec().await.expect("nothing fails");
            for ((_, send), part) in members.into_iter().zip(all.chunks(LEN)) {
                let _ = send.send(part.to_vec());
            }
        }
    });
    Arc::new(move |x, _| {
        let (answer, answered) = oneshot::channel();
        let _ = send.send((x, answer));
        async move { answered.await.map_err(windlass::Error::other) }.boxed()
    })
}

/// Nanoseconds of a request: by the clock, and of all processors.
#[derive(Clone, Copy)]
struct Taken {
    time: f64,
    cpu: f64,
}

/// Clients that ask again as soon as they have their answers.
async fn saturated(service: &Service, clients: usize, requests: usize) -> Taken {
    saturated_with(service, clients, requests, |number, answer| assert_eq!(answer, 3.0 * number as f32)).await
}

async fn saturated_with(service: &Service, clients: usize, requests: usize, check: fn(usize, f32)) -> Taken {
    let (start, cpu) = (Instant::now(), cpu_time());
    let each = requests / clients;
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let service = service.clone();
            tokio::spawn(async move {
                for number in 0..each {
                    let answer = service(request(client + number), None).await.expect("nothing is refused");
                    check(client + number, answer[LEN - 1]);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no client panics");
    }
    let of = |time: Duration| time.as_nanos() as f64 / (each * clients) as f64;
    Taken { time: of(start.elapsed()), cpu: of(cpu_time() - cpu) }
}

fn medians(taken: &[Taken]) -> Taken {
    let of = |which: fn(&Taken) -> f64| median(taken.iter().map(which).collect());
    Taken { time: of(|taken| taken.time), cpu: of(|taken| taken.cpu) }
}

/// What became of requests that came by a clock, and whether or not others had been answered.
#[derive(Default)]
struct Came {
    /// From the time at which it should have come.
    latencies: Vec<Duration>,
    in_time: usize,
    admitted: usize,
    length: Duration,
}

impl Came {
    fn p99(&mut self) -> f64 {
        self.latencies.sort();
        self.latencies[self.latencies.len() * 99 / 100].as_nanos() as f64
    }

    /// Answers in time, a second.
    fn goodput(&self) -> f64 {
        self.in_time as f64 / self.length.as_secs_f64()
    }
}

/// Requests every so often by the clock, from a thread that does nothing else.
async fn open(service: &Service, gap: Duration, requests: usize, within: Option<Duration>) -> Came {
    let (service, handle) = (service.clone(), Handle::current());
    let (send, mut ends) = mpsc::unbounded_channel();
    let begin = Instant::now();
    let clock = std::thread::spawn(move || {
        for number in 0..requests {
            let due = begin + gap * number as u32;
            // Not to the microsecond: who looks at a clock all the time takes a processor from those who work.
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let (service, send) = (service.clone(), send.clone());
            handle.spawn(async move {
                let answer = service(request(number), within.map(|within| due + within)).await;
                let _ = send.send((due.elapsed(), answer.map_err(|error| error.is_overloaded())));
            });
        }
    });
    let mut came = Came::default();
    while let Some((took, answer)) = ends.recv().await {
        match answer {
            Ok(_) => {
                came.latencies.push(took);
                came.admitted += 1;
                came.in_time += usize::from(within.is_none_or(|within| took <= within));
            }
            Err(refused) => came.admitted += usize::from(!refused),
        }
    }
    clock.join().expect("the clock does not panic");
    came.length = begin.elapsed();
    came
}

pub(crate) fn rows(table: &mut Table, scale: usize) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_time()
        .build()
        .expect("threads can be started");
    runtime.block_on(all(table, scale));
}

async fn all(table: &mut Table, scale: usize) {
    let queue = Queue::builder().max_in_flight(256).build().await.expect("there is a device");
    let device = queue.device().info().name.clone();
    let is_host = queue.device().backend().as_str() == "host";
    let (batch, ours) = batched(&queue, 1024);
    let (alone, by_hand) = (unbatched(&queue), by_hand());
    let times = scale.clamp(3, 7);
    for clients in [64, 512] {
        let requests = 4_000 * scale.max(3);
        let mut sums = [const { Vec::new() }; 3];
        for _ in 0..times {
            sums[0].push(saturated(&ours, clients, requests).await);
            sums[1].push(saturated(&alone, clients, requests / 4).await);
            sums[2].push(saturated(&by_hand, clients, requests).await);
        }
        let [ours, alone, by_hand] = sums.map(|taken| medians(&taken));
        let what =
            |than| format!("a request of 1 KiB from {clients} clients, in batches, beside {than}; {device}");
        table.speed(&what("one by one"), ours.time, alone.time, "≥ 5x");
        let hand = if is_host { "by hand" } else { "by hand on the host" };
        table.speed(&what(hand), ours.time, by_hand.time, "≥ 2x");
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
    for _ in 0..times {
        times_of.push(saturated(&ours, clients, 4_000 * scale.max(3)).await.time);
    }
    table.speed(
        &format!("the same from {clients} clients, beside the best fixed size ({best_size}); {device}"),
        median(times_of),
        best,
        "≥ 0.97x",
    );
    light(table, scale, &device, &ours, &alone).await;
    heavy(table, scale, &device, &queue).await;
    eprintln!("batches: {:?}", batch.stats());
}

/// At three tenths of what one by one can do.
async fn light(table: &mut Table, scale: usize, device: &str, ours: &Service, alone: &Service) {
    let most = saturated(alone, 64, 4_000).await.time;
    let gap = Duration::from_nanos((most / 0.3) as u64);
    let (mut batched, mut unbatched) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        batched.push(open(ours, gap, 1_000 * scale, None).await.p99());
        unbatched.push(open(alone, gap, 1_000 * scale, None).await.p99());
    }
    let what = format!("p99 at 0.3 of one by one's most, in batches beside one by one; {device}");
    table.cost(&what, median(batched), Some(median(unbatched)), "≤ 1.2x");
}

/// Up to three times as much as can be done, with answers that are of use for 20 ms.
async fn heavy(table: &mut Table, scale: usize, device: &str, queue: &Queue) {
    let batch = Batch::<f32, f32>::builder(queue).build(|cg, batch| {
        cg.parallel_for(batch.output().len(), stepped(cg.read(batch.input()), cg.overwrite(batch.output())))
    });
    let ours = &asking(batch.clone());
    let most = saturated_with(ours, 512, 4_000 * scale, |_, _| {}).await.time;
    let within = Duration::from_millis(20);
    let mut peak: f64 = 0.0;
    let mut at_three = Came::default();
    for load in [0.5, 0.8, 1.0, 1.5, 3.0] {
        let gap = Duration::from_nanos((most / load) as u64);
        let requests = (1e9 / most * load * 0.2) as usize * scale.min(5);
        let came = open(ours, gap, requests, Some(within)).await;
        eprintln!(
            "{load}: {:.0} in time a second, {} of {} let in, of {requests}; {:?}",
            came.goodput(),
            came.in_time,
            came.admitted,
            batch.stats()
        );
        peak = peak.max(came.goodput());
        at_three = came;
    }
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
