//! A budget of bytes for all that is in flight, whoever asks for it: `cargo run --release --example back_pressure`
//!
//! `cancel` limits how many groups are on a queue; this is about how large they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use windlass::prelude::*;
use windlass::{Error, Result};

const BUDGET: usize = 1 << 20;

/// Bytes that requests have now, and the most that they have had.
#[derive(Default)]
struct Used {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// One request: it waits for room before it takes any memory, and the room comes back when its group has ended.
async fn request(queue: Queue, bytes: usize, used: Arc<Used>) -> Result<()> {
    // Who came first is served first. A future that is dropped while it waits has left the line.
    let slot = queue.ready_owned_for(bytes as u64).await;
    let work = slot.submit(|cg| {
        cg.host_task(async move |_| {
            used.most.fetch_max(used.now.fetch_add(bytes, SeqCst) + bytes, SeqCst);
            let body = vec![1_u8; bytes];
            // What is done with it: devices and the network take their time.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let sum: usize = body.iter().map(|byte| usize::from(*byte)).sum();
            used.now.fetch_sub(bytes, SeqCst);
            if sum == bytes { Ok(()) } else { Err("the body is not what it was".into()) }
        })
    })?;
    // Should its client go, the group is cancelled, and the room is there for others.
    work.cancel_on_drop().await
}

#[tokio::main]
async fn main() -> Result<()> {
    let runtime = Runtime::builder().bytes_in_flight(BUDGET as u64).build();
    // The budget is for all queues of the runtime together.
    let queues = [Queue::builder().runtime(&runtime).build().await?, Queue::on(runtime.host()?).await?];

    let used = Arc::new(Used::default());
    let sizes = (0..200).map(|i| (i * 7919) % (BUDGET / 2) + 1);
    let requests =
        sizes.zip(queues.iter().cycle()).map(|(bytes, queue)| request(queue.clone(), bytes, used.clone()));
    for done in join_all(requests).await {
        done?;
    }
    let most = used.most.load(SeqCst);
    assert!(most <= BUDGET, "{most} bytes were in use");
    println!("200 requests, never more than {} of {} KiB at a time", most >> 10, BUDGET >> 10);

    // One that is larger than the whole budget is not refused: it runs when nobody else has any of it.
    request(queues[0].clone(), 2 * BUDGET, Arc::default()).await?;

    // A place that was taken and not used comes back when it is dropped.
    let most_of_it = queues[0].ready_for(BUDGET as u64 - 1).await;
    assert!(queues[1].ready_for(2).now_or_never().is_none(), "there is room for one more byte");
    drop(most_of_it);
    let late =
        tokio::time::timeout(Duration::from_secs(10), queues[1].ready_for(2)).await.map_err(Error::from)?;
    late.submit(|_| Ok(()))?.await?;
    println!("and room that was not used was given back");
    Ok(())
}
