//! Work that never ends: after a while its device is given up, everything on it fails, and the program goes on with what is there then.
//! `cargo run --release --example hanging`

use std::sync::mpsc;
use std::time::Duration;

use windlass::Result;
use windlass::prelude::*;

#[tokio::main]
async fn main() -> Result<()> {
    // Longer than anything takes that is to end: here that is nothing.
    let runtime = Runtime::builder().hang_timeout(Duration::from_secs(2)).build();
    let queue = Queue::on(runtime.host()?).await?;
    let (kept, lost) = (Buffer::from(vec![1_u32; 8]), Buffer::<u32>::new(8));
    // What has been read is the host's as well, and outlives the device.
    queue.submit(|cg| cg.fill(&cg.overwrite(&kept), 7))?;
    assert_eq!(kept.host_read().await?[..], [7; 8]);

    // A closure that waits for what does not come, and a group behind it that needs its data.
    let (release, never) = mpsc::channel::<()>();
    let never = std::sync::Mutex::new(never);
    let hangs = queue.submit(|cg| {
        cg.host_for(1, cg.overwrite(&lost), move |_, _| drop(never.lock().map(|never| never.recv())))
    })?;
    let behind = queue.submit(|cg| cg.copy(&cg.read(&lost), &cg.overwrite(&kept)))?;
    let error = hangs.await.expect_err("it does not end");
    assert!(error.is_device_lost(), "{error}");
    println!("given up: {error}");
    assert!(behind.await.expect_err("so is all that was behind it").root().is_device_lost());

    // The device is asked for again. On a GPU the driver may have to end the kernel first.
    let found = runtime.rediscover().await?;
    let host = found.into_iter().find(|device| device == queue.device()).expect("the host is always there");
    let again = Queue::on(host.reopen().await?).await?;
    kept.clear_poison();
    again.submit(|cg| cg.fill(&cg.overwrite(&kept), 8))?;
    assert_eq!(kept.host_read().await?[..], [8; 8]);
    println!("{} works again", again.device());
    drop(release);
    Ok(())
}
