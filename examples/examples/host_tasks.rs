//! Files and kernels in one pipeline: host tasks read and write while devices compute. `cargo run --release --example host_tasks`
//!
//! A host task is an async closure with a place in the order of groups. It may await whatever it likes: here files, in `tour` the network.

use std::path::PathBuf;
use std::time::Duration;

use windlass::prelude::*;
use windlass::{BoxError, Result};

const FILES: usize = 8;
const LEN: usize = 1 << 14;

#[windlass::kernel]
fn add_up(bytes: &[u8], sums: &mut [u32]) {
    let i = global_id(0);
    if i < sums.len() {
        let mut sum = 0_u32;
        for k in 0..256_u32 {
            sum += bytes[256 * i + k] as u32;
        }
        sums[i] = sum;
    }
}

fn path(number: usize, what: &str) -> PathBuf {
    std::env::temp_dir().join(format!("windlass-host-tasks-{}-{number}.{what}", std::process::id()))
}

/// Reads a file, adds up each 256 bytes of it, and writes the sums to another file. Nothing waits here: the data says what comes after what.
fn submit(queue: &Queue, number: usize) -> Result<Event> {
    let (bytes, sums) = (Buffer::<u8>::new(LEN), Buffer::<u32>::new(LEN / 256));
    queue.submit(|cg| {
        cg.name("read");
        let mut bytes = cg.overwrite(&bytes);
        cg.host_task(async move |host| {
            let read = tokio::fs::read(path(number, "in")).await?;
            host.view_mut(&mut bytes)?.copy_from_slice(&read);
            Ok(())
        })
    })?;
    queue.submit(|cg| cg.parallel_for(LEN / 256, add_up(cg.read(&bytes), cg.overwrite(&sums))))?;
    queue.submit(|cg| {
        cg.name("write");
        let sums = cg.read(&sums);
        cg.host_task(async move |host| {
            let text: String = host.view(&sums)?.iter().map(|sum| format!("{sum}\n")).collect();
            Ok(tokio::fs::write(path(number, "out"), text).await?)
        })
    })
}

#[tokio::main]
async fn main() -> std::result::Result<(), BoxError> {
    let queue = Queue::new().await?;
    for number in 0..FILES {
        std::fs::write(path(number, "in"), vec![number as u8; LEN])?;
    }
    // One that is not there: its own groups fail, and nobody else's.
    std::fs::remove_file(path(3, "in"))?;

    let ends: Vec<Event> = (0..FILES).map(|number| submit(&queue, number)).collect::<Result<_>>()?;
    for (number, end) in ends.into_iter().enumerate() {
        match end.await {
            Ok(()) => {
                let text = std::fs::read_to_string(path(number, "out"))?;
                assert_eq!(text.lines().count(), LEN / 256);
                assert!(text.lines().all(|sum| sum == (256 * number).to_string()));
                std::fs::remove_file(path(number, "in"))?;
                std::fs::remove_file(path(number, "out"))?;
            }
            Err(error) => {
                assert!(number == 3 && error.is_dependency_failed(), "{error}");
                println!("file 3: {}", error.root());
            }
        }
    }

    // A group can wait for any future before it begins: here for what another task of the program's sends.
    let (send, receive) = tokio::sync::oneshot::channel::<()>();
    let (flag, began) = (Buffer::<u32>::new(1), tokio::time::Instant::now());
    let group = queue.submit(|cg| {
        cg.after(receive);
        cg.fill(&cg.overwrite(&flag), 1)
    })?;
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(10)).await;
        send.send(()).expect("the group waits for it");
    });
    group.await?;
    assert!(began.elapsed() >= Duration::from_millis(10) && flag.host_read().await?[0] == 1);
    println!("{} of {FILES} files were added up on {}", FILES - 1, queue.device());
    Ok(())
}
