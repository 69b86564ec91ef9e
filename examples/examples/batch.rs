//! Small requests that share launches: each caller hands in an item and awaits its own answer. `cargo run --release --example batch`
//!
//! `server` is a service over HTTP that does this, and the guide's page on batching has the smallest one.

use std::time::Duration;

use futures::future::join_all;
use windlass::Result;
use windlass::batch::Batch;
use windlass::prelude::*;

/// The length of each vector. Items are of different lengths, and `starts` says where each begins and ends.
#[windlass::kernel]
fn lengths(starts: &[u32], x: &[f32], lengths: &mut [f32]) {
    let i = global_id(0);
    if i < lengths.len() {
        let mut sum = 0.0;
        for at in starts[i]..starts[i + 1] {
            sum += x[at as usize] * x[at as usize];
        }
        lengths[i] = sum.sqrt();
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Queue::new().await?;
    let batch = Batch::<f32, f32>::builder(&queue).name("lengths").with_starts().answers_of(|_| 1).build(
        |cg, batch| {
            let (starts, x) = (cg.read(batch.starts()), cg.read(batch.input()));
            cg.parallel_for(batch.items(), lengths(starts, x, cg.overwrite(batch.output())))
        },
    );

    // A thousand callers at once, each a task of its own. Nothing says how large a batch is to be, or how long it may wait for more.
    let callers = (0..1000_u32).map(|caller| {
        let batch = batch.clone();
        tokio::spawn(async move {
            let item = vec![2.0_f32; caller as usize % 7 + 1];
            let expected = 2.0 * (item.len() as f32).sqrt();
            let answer = batch.within(Duration::from_secs(30)).call(item).await?;
            assert!((answer[0] - expected).abs() < 1e-4, "{} is not {expected}", answer[0]);
            Ok::<_, windlass::Error>(())
        })
    });
    for caller in join_all(callers).await {
        caller.expect("it does not panic")?;
    }
    let stats = batch.stats();
    println!("{} items in {} batches on {}", stats.items, stats.batches, queue.device());
    assert!(stats.batches < 1000, "some have shared one");

    // What cannot be answered in time is refused when it comes, with how long it would have taken, or is answered with a time-out then.
    let late = batch.within(Duration::ZERO).call([3.0, 4.0]).await.expect_err("nothing is that fast");
    assert!(late.is_overloaded() || late.is_timeout());
    println!("too late: {late}");
    // Who drops the future leaves the line.
    drop(batch.call([1.0]));

    // Lines of their own, each with a share of the device's time, whatever the others send.
    let (paying, free) = (batch.tenant(4.0), batch.tenant(1.0));
    let (first, second) = futures::join!(paying.call([3.0, 4.0]), free.call([6.0, 8.0]));
    assert_eq!((first?[0].round(), second?[0].round()), (5.0, 10.0));
    Ok(())
}
