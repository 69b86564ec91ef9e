//! Load curves: requests that come by a clock, from a trickle to three times what can be answered, and what becomes of them; in
//! batches, one by one, and as one would write it without Windlass.
//!
//! `--load` prints a line for each way and load, with commas; `--draw FILE` makes a picture of such lines, `FILE` with `.svg` behind
//! it. With `--heavy` a request is work enough to keep the host's processors busy, and with `--http` there is a server between those who
//! ask and those who answer: with `--server-on CPUS` on processors of its own (`taskset -c 8-15 windlass-benches --load --http --server-on 0-7`). Requests come whether or not others have been answered, and an answer's time is counted from when its request should have come.

mod health;
mod http;
#[cfg(feature = "opencl")]
mod opencl;
mod picture;
#[cfg(feature = "wgpu")]
mod wgpu;

use std::net::SocketAddr;
use std::time::Duration;

use health::Probe;
use http::Apart;
pub(crate) use picture::draw;
use windlass::prelude::*;

use crate::service::clients::{open, saturated_with};
use crate::service::runtime;
use crate::service::ways::{Service, Work, batched, by_hand, unbatched};

/// An answer is of use for so long.
const WITHIN: Duration = Duration::from_millis(20);

/// Parts of what clients get who ask again as soon as they are answered.
const LOADS: [f64; 11] = [0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.85, 1.0, 1.5, 2.0, 3.0];

/// The columns, in order.
const COLUMNS: &str = "way,requests a second,answered in 20 ms a second,p50 us,p99 us,let in,in time,requests,health p50 us,health p99 us";

/// Where the server is.
#[derive(Clone, Copy)]
pub(crate) enum Server<'a> {
    /// There is none.
    None,
    /// On the processors of those who ask.
    Beside,
    /// On these.
    On(&'a str),
}

pub(crate) fn print(scale: usize, is_heavy: bool, server: Server<'_>) {
    runtime().block_on(async {
        let queue = queue().await;
        eprintln!("{}", queue.device());
        println!("{COLUMNS}");
        for (name, service) in ways(&queue, work(is_heavy)) {
            match server {
                Server::None => curve(name, &service, None, scale).await,
                Server::Beside => {
                    let address = http::beside(service);
                    curve(name, &http::clients(address), Some(address), scale).await;
                }
                Server::On(processors) => {
                    let server = Apart::start(name, is_heavy, processors);
                    curve(name, &http::clients(server.address), Some(server.address), scale).await;
                }
            }
        }
    });
}

/// Is the server that another process has started.
pub(crate) fn serve(way: &str, is_heavy: bool) -> ! {
    let queue = futures::executor::block_on(queue());
    let named = ways(&queue, work(is_heavy)).into_iter().find(|(name, _)| *name == way);
    Apart::be(named.expect("there is such a way").1)
}

async fn queue() -> Queue {
    Queue::builder().max_in_flight(256).build().await.expect("there is a device")
}

fn work(is_heavy: bool) -> Work {
    if is_heavy { Work::Stepped(400) } else { Work::Tripled }
}

/// The service as one writes it by hand for the queue's device, and with what.
pub(crate) fn by_hand_there(queue: &Queue, work: Work) -> Option<(&'static str, Service)> {
    let device = queue.device();
    match device.backend().as_str() {
        "host" => Some(("semaphore, rayon, oneshot", by_hand(work))),
        // Their kernels are of the light kind.
        _ if matches!(work, Work::Stepped(_)) => None,
        #[cfg(feature = "opencl")]
        "opencl" => opencl::by_hand(&device.info().name).map(|way| ("opencl3, spawn_blocking", way)),
        #[cfg(feature = "wgpu")]
        "wgpu" => wgpu::by_hand(&device.info().name).map(|way| ("wgpu, a thread that polls", way)),
        _ => None,
    }
}

/// What there is for the queue's device.
fn ways(queue: &Queue, work: Work) -> Vec<(&'static str, Service)> {
    let ours = [("in batches", batched(queue, work).1), ("one by one", unbatched(queue, work))];
    ours.into_iter().chain(by_hand_there(queue, work)).collect()
}

async fn curve(name: &str, service: &Service, health: Option<SocketAddr>, scale: usize) {
    // Once for what is made at first use.
    saturated_with(service, 512, 4_096, |_, _| {}).await;
    let most = saturated_with(service, 512, 4_096 * scale, |_, _| {}).await.time;
    let length = Duration::from_millis(100 * scale as u64).as_nanos() as f64;
    for load in LOADS {
        let (gap, requests) = (most / load, (length / most * load) as usize);
        let probe = health.map(Probe::start);
        let mut came =
            open(service, Duration::from_secs_f64(gap / 1e9), requests.max(200), Some(WITHIN)).await;
        let (usual, most) = probe.map_or((f64::NAN, f64::NAN), Probe::stop);
        println!(
            "\"{name}\",{:.0},{:.0},{:.1},{:.1},{},{},{requests},{usual:.1},{most:.1}",
            1e9 / gap,
            came.goodput(),
            came.percentile(0.5) / 1e3,
            came.percentile(0.99) / 1e3,
            came.admitted,
            came.in_time,
        );
    }
}
