//! Time-outs, cancellation and back-pressure: what a service needs when clients are slow, or gone.

use std::future::pending;
use std::time::Duration;

use windlass::prelude::*;
use windlass::{BoxError, Result};

/// Adds one to each element, once the gate is open.
fn add_one(cg: &CommandGroup<'_>, data: &Buffer<u32>) -> Result<()> {
    let data = cg.read_write(data);
    cg.host_for(data.len(), data, |item, data| data.set(item.id(0), data.get(item.id(0)) + 1))
}

/// A time-out drops its future, which cancels the group: it is skipped, for it has not started.
async fn time_out(queue: &Queue) -> Result<()> {
    let data = Buffer::from(vec![0_u32; 16]);
    let request = queue.submit(|cg| {
        // Something that never comes.
        cg.after(pending::<Result<(), BoxError>>());
        // A client that hangs up must not spoil a buffer that others use.
        cg.on_cancel(OnCancel::KeepPrevious);
        add_one(cg, &data)
    })?;
    let watcher = request.clone();
    let result = tokio::time::timeout(Duration::from_millis(20), request.cancel_on_drop()).await;
    println!("a request that waits for ever: {}", windlass::Error::from(result.expect_err("it never ends")));

    let cancelled = watcher.await.expect_err("the group was cancelled, and so all of its events say");
    assert!(cancelled.is_cancelled());
    assert_eq!(data.host_read().await?[..], [0; 16], "a skipped group writes nothing");
    println!("  its group was skipped, and its buffer is as it was before");
    Ok(())
}

/// A group that has ended is beyond recall, and cancelling says so.
async fn ended(queue: &Queue) -> Result<()> {
    let data = Buffer::from(vec![0_u32; 16]);
    let event = queue.submit(|cg| add_one(cg, &data))?;
    event.clone().await?;
    assert_eq!(event.cancel(), CancelOutcome::Done);
    assert_eq!(data.host_read().await?[..], [1; 16]);
    println!("a request that has ended cannot be cancelled: {:?}", event.cancel());
    Ok(())
}

/// Back-pressure: `ready` waits while the queue has its limit in flight, so that a burst takes bounded memory.
async fn back_pressure(device: &Device) -> Result<()> {
    let queue = Queue::builder().device(device.clone()).max_in_flight(4).build().await?;
    let data = Buffer::from(vec![0_u32; 16]);
    let mut most = 0;
    for _ in 0..1000 {
        queue.ready().await.submit(|cg| add_one(cg, &data))?;
        most = most.max(queue.in_flight());
    }
    queue.drained().await;
    assert_eq!(data.host_read().await?[..], [1000; 16]);
    assert!(most <= 4, "{most} were in flight");
    println!("1000 requests through a queue of 4: never more than {most} were in flight");

    // Without waiting: an error to turn into a 503.
    let (open, gate) = tokio::sync::oneshot::channel::<()>();
    let gated = queue.submit(|cg| {
        cg.after(gate);
        Ok(())
    })?;
    for _ in 1..4 {
        queue.submit(|cg| {
            cg.depends_on(&gated);
            Ok(())
        })?;
    }
    let refused = queue.try_submit(|cg| add_one(cg, &data)).expect_err("the queue is full");
    assert!(refused.is_saturated());
    println!("the next one, which does not want to wait: {refused}");
    let _ = open.send(());
    queue.drained().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Queue::on(Device::host()).await?;
    time_out(&queue).await?;
    ended(&queue).await?;
    back_pressure(queue.device()).await
}
