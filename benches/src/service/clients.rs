//! Who asks, and what becomes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::ways::{LEN, Service, Unanswered, request};
use crate::busy::cpu_time;
use crate::table::median;

/// Nanoseconds of a request: by the clock, and of all processors.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) time: f64,
    pub(crate) cpu: f64,
}

/// Clients that ask again as soon as they have their answers.
pub(crate) async fn saturated(service: &Service, clients: usize, requests: usize) -> Taken {
    saturated_with(service, clients, requests, |number, answer| assert_eq!(answer, 3.0 * number as f32)).await
}

pub(crate) async fn saturated_with(
    service: &Service,
    clients: usize,
    requests: usize,
    check: fn(usize, f32),
) -> Taken {
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
    // Threads that end meanwhile, as those for what blocks, take theirs along.
    Taken { time: of(start.elapsed()), cpu: of(cpu_time().saturating_sub(cpu)) }
}

pub(crate) fn medians(taken: &[Taken]) -> Taken {
    let of = |which: fn(&Taken) -> f64| median(taken.iter().map(which).collect());
    Taken { time: of(|taken| taken.time), cpu: of(|taken| taken.cpu) }
}

/// What became of requests that came by a clock, and whether or not others had been answered.
#[derive(Default)]
pub(crate) struct Came {
    /// From the time at which it should have come.
    latencies: Vec<Duration>,
    pub(crate) in_time: usize,
    pub(crate) admitted: usize,
    length: Duration,
    cpu: Duration,
}

impl Came {
    /// Nanoseconds in which this part of all answers came; not a number if there are none.
    pub(crate) fn percentile(&mut self, part: f64) -> f64 {
        self.latencies.sort();
        let at = (self.latencies.len() as f64 * part) as usize;
        self.latencies.get(at).map_or(f64::NAN, |latency| latency.as_nanos() as f64)
    }

    /// Answers in time, a second.
    pub(crate) fn goodput(&self) -> f64 {
        self.in_time as f64 / self.length.as_secs_f64()
    }

    /// How many were busy in the mean, with those who asked and with what was done for them.
    pub(crate) fn processors(&self) -> f64 {
        self.cpu.as_secs_f64() / self.length.as_secs_f64()
    }
}

/// One thread cannot start more than so many requests a second.
const MOST_OF_A_THREAD: f64 = 3e5;

/// Requests every so often by the clock, from threads that do nothing else.
pub(crate) async fn open(
    service: &Service,
    gap: Duration,
    requests: usize,
    within: Option<Duration>,
) -> Came {
    let (send, mut ends) = mpsc::unbounded_channel();
    // Threads that have ended are left out where time is taken.
    let counted = Arc::new(AtomicBool::new(false));
    let (begin, cpu) = (Instant::now(), cpu_time());
    let threads = (1.0 / gap.as_secs_f64() / MOST_OF_A_THREAD).ceil() as usize;
    let clocks: Vec<_> = (0..threads)
        .map(|first| {
            let (service, handle, send) = (service.clone(), Handle::current(), send.clone());
            let counted = counted.clone();
            std::thread::spawn(move || {
                for number in (first..requests).step_by(threads) {
                    let due = begin + gap.mul_f64(number as f64);
                    // Not to the microsecond: who looks at a clock all the time takes a processor from those who work.
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let (service, send) = (service.clone(), send.clone());
                    handle.spawn(async move {
                        let answer = service(request(number), within.map(|within| due + within)).await;
                        let _ = send.send((due.elapsed(), answer));
                    });
                }
                drop(send);
                while !counted.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        })
        .collect();
    drop(send);
    let mut came = Came::default();
    while let Some((took, answer)) = ends.recv().await {
        match answer {
            Ok(_) => {
                came.latencies.push(took);
                came.admitted += 1;
                came.in_time += usize::from(within.is_none_or(|within| took <= within));
            }
            Err(why) => came.admitted += usize::from(matches!(why, Unanswered::Late)),
        }
    }
    (came.length, came.cpu) = (begin.elapsed(), cpu_time().saturating_sub(cpu));
    counted.store(true, Ordering::Relaxed);
    for clock in clocks {
        clock.join().expect("the clock does not panic");
    }
    came
}
