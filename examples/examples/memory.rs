//! What a buffer can be asked for beyond its use: other views of the same bytes, data from and for others, and its memory.

use std::sync::{Arc, Mutex};

use windlass::bytes::Bytes;
use windlass::prelude::*;

/// The brightness of pixels, of which each is four bytes.
#[windlass::kernel]
fn brighten(by: u32, pixels: &mut View<u32, 2>) {
    let (y, x) = (global_id(0), global_id(1));
    let pixel = pixels[y][x];
    let mut bright = 0_u32;
    for channel in 0..4_u32 {
        let value = (pixel >> (8 * channel)) & 0xff;
        let value = if value + by > 255 { 255 } else { value + by };
        bright = bright | (value << (8 * channel));
    }
    pixels[y][x] = bright;
}

#[tokio::main]
async fn main() -> windlass::Result<()> {
    let queue = Queue::new().await?;
    println!("on {}", queue.device());

    // The body of a request becomes a buffer; where nobody else has the bytes they are not copied.
    let body = Bytes::from([10_u8, 20, 30, 250].repeat(6 * 4));
    let bytes = Buffer::<u8>::from_bytes(body)?;
    // The same bytes as a picture of six rows, and as single channels of it.
    let picture = bytes.reinterpret::<u32, 2>([6, 4])?;
    let channels = bytes.reinterpret::<[u8; 4], 2>([6, 4])?;
    let border = picture.range((.., ..1));
    queue.submit(|cg| cg.parallel_for([6, 1], brighten(10, cg.read_write(&border))))?;
    queue.submit(|cg| cg.fill(&cg.overwrite(&channels.range((0..1, 1..))), [1, 2, 3, 4]))?;
    let seen = channels.host_read().await?;
    assert_eq!(
        (seen[[3, 0]], seen[0][2], seen[[5, 3]]),
        ([20, 30, 40, 255], [1, 2, 3, 4], [10, 20, 30, 250])
    );
    drop(seen);
    // The answer holds the buffer until it has been sent.
    let answer = bytes.into_bytes().await?;
    println!("{} bytes of answer, the first row {:?}", answer.len(), &answer[..16]);

    // Contents that come back by themselves once nobody has the buffer any more.
    let total = Arc::new(Mutex::new(vec![0_u32; 4]));
    let sums = Buffer::attached(&total);
    queue.submit(|cg| cg.fill(&cg.overwrite(&sums), 42))?;
    sums.close().await?;
    assert_eq!(*total.lock().expect("nobody has panicked"), [42; 4]);

    // A table that is wanted soon is brought ahead; one that is not gives its memory on the device back.
    let table = Buffer::from((0..1 << 16).collect::<Vec<u32>>()).with_pages(4096);
    queue.prefetch(&table)?.await?;
    let moved = queue.runtime().stats().transfers;
    let first = Buffer::<u32>::new(4096);
    queue.submit(|cg| cg.copy(&cg.read(&table.range(..4096)), &cg.overwrite(&first)))?.await?;
    assert_eq!(queue.runtime().stats().transfers, moved, "it was there");
    let given_back = queue.evict(&table).await?;
    println!(
        "the table's memory on the device {}",
        if given_back { "was given back" } else { "is the host's own" }
    );
    assert_eq!(first.host_read().await?[4095], 4095);

    // For code that is not async, data is lent for as long as a closure runs.
    let lent = tokio::task::spawn_blocking(move || {
        let mut samples = [1_u32, 2, 3, 4];
        windlass::scope(|scope| {
            let samples = scope.buffer(&mut samples);
            queue.submit(|cg| cg.fill(&cg.overwrite(&samples.range(2..)), 7))
        })?;
        Ok::<_, windlass::Error>(samples)
    });
    assert_eq!(lent.await.expect("it does not panic")?, [1, 2, 7, 7]);
    println!("as it should be");
    Ok(())
}
