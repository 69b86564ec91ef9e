//! The pipeline: each frame is generated in one context, smoothed in another, and sent over the network by a host task.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use windlass::prelude::*;
use windlass::{BoxError, Stats};

use crate::wire;

/// Frames to send, and elements of each.
pub(crate) const FRAMES: usize = 64;
pub(crate) const LEN: usize = 1 << 16;

/// Frames that may be under way at once: memory stays bounded, however slow the receiver is.
const IN_FLIGHT: u32 = 16;

/// Groups of one frame: generate, smooth, send.
const GROUPS: usize = 3;

/// One element of the raw signal.
pub(crate) fn sample(frame: usize, at: usize) -> f32 {
    ((at * 31 + frame * 17) % 1009) as f32 * 0.25
}

/// One element of the smoothed signal: the mean of three neighbours; at the ends, the nearest stands in.
pub(crate) fn smooth(raw: &[f32], at: usize) -> f32 {
    let left = raw[at.saturating_sub(1)];
    let right = raw[(at + 1).min(raw.len() - 1)];
    (left + raw[at] + right) / 3.0
}

type Stream = Arc<Mutex<TcpStream>>;

/// Runs it, and says what it did.
pub(crate) async fn run() -> Result<(), BoxError> {
    // The runtime's own context of the host works on its data in place; the second has memory of its own, as a GPU
    // has.
    let host = Device::host();
    let first = Queue::builder().device(host.clone()).build().await?;
    let context = Context::open(std::slice::from_ref(&host)).await?;
    let second = Queue::builder().context(&context).max_in_flight(IN_FLIGHT).build().await?;
    println!("\nPipeline: {FRAMES} frames of {LEN} elements, two contexts of {host}, one TCP connection");

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let client = tokio::spawn(async move { wire::receive(TcpStream::connect(address).await?).await });
    let (stream, _) = listener.accept().await?;
    let stream = Arc::new(Mutex::new(stream));

    let before = Runtime::global().stats();
    let start = Instant::now();
    let sent = Arc::new(AtomicUsize::new(0));
    let mut events = Vec::new();
    for frame in 0..FRAMES {
        events.push(submit(&first, &second, frame, &stream, &sent).await?);
    }
    let submitted = start.elapsed();
    println!(
        "  all {} groups are submitted, and {} frames sent",
        FRAMES * GROUPS,
        sent.load(Ordering::Relaxed)
    );
    Event::all(events).await?;
    drop(stream);
    client.await??;
    let took = start.elapsed();

    println!("  every element of every frame arrived as it should");
    println!(
        "  submitted in {:.1} ms, done in {:.1} ms",
        1e3 * submitted.as_secs_f64(),
        1e3 * took.as_secs_f64()
    );
    check(before, Runtime::global().stats())
}

/// Submits one frame's groups. The data orders them: nothing here says who waits for whom, or copies anything.
async fn submit(
    first: &Queue,
    second: &Queue,
    frame: usize,
    stream: &Stream,
    sent: &Arc<AtomicUsize>,
) -> windlass::Result<Event> {
    let raw = Buffer::<f32>::new(LEN);
    let smoothed = Buffer::<f32>::new(LEN);

    first.submit(|cg| {
        let raw = cg.overwrite(&raw);
        cg.host_for(LEN, raw, move |item, raw| raw.set(item.id(0), sample(frame, item.id(0))))
    })?;
    second.ready().await.submit(|cg| {
        let args = (cg.read(&raw), cg.overwrite(&smoothed));
        cg.host_chunks(1, args, |chunk, (raw, smoothed)| {
            for (at, out) in chunk.range().zip(smoothed) {
                *out = smooth(raw, at);
            }
        })
    })?;
    let (stream, sent) = (stream.clone(), sent.clone());
    // On the second queue too, so that its limit counts frames that wait for the network. A host task runs on the
    // tokio runtime, and on memory that the host reaches, which is the second context's here.
    second.ready().await.submit(|cg| {
        let smoothed = cg.read(&smoothed);
        cg.host_task(async move |host| {
            let elements = host.view(&smoothed)?;
            wire::send(&mut *stream.lock().await, frame, &elements).await?;
            let sent = sent.fetch_add(1, Ordering::Relaxed) + 1;
            if sent.is_multiple_of(FRAMES / 8) {
                println!("  [{sent:>3}/{FRAMES}] frames sent");
            }
            Ok(())
        })
    })
}

/// Says what the runtime did, and compares it with what it should have done.
fn check(before: Stats, after: Stats) -> Result<(), BoxError> {
    let groups = after.submitted - before.submitted;
    let tasks = after.host_tasks - before.host_tasks;
    let transfers = after.transfers - before.transfers;
    let moved = after.bytes_moved - before.bytes_moved;
    println!(
        "\nThe runtime ran {groups} groups, {tasks} of them host tasks, and made {transfers} transfers of {moved} \
         bytes together"
    );
    // Each frame goes to the second context, where the host task finds what became of it, and nothing else moves.
    let least = (FRAMES * LEN * size_of::<f32>()) as u64;
    if (groups, moved) != ((GROUPS * FRAMES) as u64, least) {
        return Err(format!("{} groups and {least} bytes were expected", GROUPS * FRAMES).into());
    }
    println!("That is every stale byte, once. Everything is as it should be.");
    Ok(())
}
