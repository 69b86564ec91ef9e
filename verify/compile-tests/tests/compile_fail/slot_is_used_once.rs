//! A reserved place is for one group.
use windlass::prelude::*;

async fn twice(queue: Queue) -> windlass::Result<()> {
    let slot = queue.ready().await;
    slot.submit(|_| Ok(()))?.await?;
    slot.submit(|_| Ok(()))?.await
}

fn main() {}
