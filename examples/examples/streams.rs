//! A file of any length through a kernel and into another file, with no more than a few parts of it in memory:
//! `cargo run --release --example streams`
//!
//! What is copied may be any reader and any writer of tokio's, such as connections; `video` does the same with a stream of bytes.

use tokio::fs::File;
use tokio::io::BufReader;
use windlass::prelude::*;
use windlass::stream::Pipe;
use windlass::{Error, Result};

/// The mean of both channels of a sound.
#[windlass::kernel]
fn to_mono(stereo: &[f32], mono: &mut [f32]) {
    let i = global_id(0);
    if i < mono.len() {
        mono[i] = 0.5 * (stereo[2 * i] + stereo[2 * i + 1]);
    }
}

const SAMPLES: usize = 1 << 20;

#[tokio::main]
async fn main() -> Result<()> {
    let queue = Queue::new().await?;
    let mono = Pipe::<f32, f32>::builder(&queue)
        // A part is whole pairs of samples, and half as many come out.
        .part(1 << 16)
        .outputs_of(|samples| samples / 2)
        .build(|cg, part| {
            cg.name("to mono");
            cg.parallel_for(part.output().len(), to_mono(cg.read(part.input()), cg.overwrite(part.output())))
        });

    // Left rises while right falls.
    let folder = std::env::temp_dir();
    let name = |what: &str| folder.join(format!("windlass-{what}-{}.raw", std::process::id()));
    let (from, to) = (name("stereo"), name("mono"));
    let sound: Vec<u8> =
        (0..SAMPLES).flat_map(|i| [i as f32, 1.0 - i as f32]).flat_map(f32::to_ne_bytes).collect();
    std::fs::write(&from, &sound).map_err(Error::other)?;

    // The next part is read and the last one is written while one is computed. A slow disk slows the reading down.
    let (reader, writer) =
        (File::open(&from).await.map_err(Error::other)?, File::create(&to).await.map_err(Error::other)?);
    let written = mono.copy(BufReader::with_capacity(1 << 18, reader), writer).await?;

    let bytes = std::fs::read(&to).map_err(Error::other)?;
    let _ = (std::fs::remove_file(&from), std::fs::remove_file(&to));
    assert_eq!((written, bytes.len()), (4 * SAMPLES as u64, 4 * SAMPLES));
    let samples = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_ne_bytes(*bytes));
    assert!(samples.into_iter().all(|sample| sample == 0.5));
    println!(
        "{SAMPLES} samples became mono on {}, in {} groups",
        queue.device(),
        queue.runtime().stats().submitted
    );
    Ok(())
}
