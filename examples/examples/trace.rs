//! What a program has its devices do, and when: a timeline as a page, a file for Perfetto and a graph, and the times of one group.
//! `cargo run --release --example trace`
//!
//! Any program can be traced without a change to it, too: `WINDLASS_TRACE=run.json` in its environment.

use windlass::prelude::*;
use windlass::trace::{EntryKind, Outcome};
use windlass::{Error, Result};

const LEN: usize = 1 << 16;

#[windlass::kernel]
fn wave(k: f32, v: &mut [f32]) {
    let i = global_id(0);
    if i < v.len() {
        v[i] = (k * v[i]).sin();
    }
}

/// A queue that notes when groups start and end by its device's own clock, where that has one.
async fn queue(runtime: &Runtime) -> Result<Queue> {
    let best = Selector::new().aspect(Aspect::Profiling);
    Queue::builder().runtime(runtime).select(best).profiling().build().await
}

#[tokio::main]
async fn main() -> Result<()> {
    let runtime = Runtime::new();
    let (queue, host) = (queue(&runtime).await?, Queue::on(runtime.host()?).await?);

    // Records from here on, the last 10,000 entries at most. Nothing is noted while no trace is kept.
    let trace = runtime.trace(10_000);
    let parts: Vec<Buffer<f32>> = (0..4).map(|at| Buffer::from(vec![at as f32; LEN])).collect();
    let mut waves = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        waves.push(queue.submit(|cg| {
            // What reports and pictures call it.
            cg.name(format!("wave {at}"));
            cg.parallel_for(LEN, wave(0.5, cg.read_write(part)))
        })?);
        host.submit(|cg| {
            cg.name(format!("check {at}"));
            let part = cg.read(part);
            cg.host_task(async move |host| match host.view(&part)?.iter().all(|v| v.abs() <= 1.0) {
                true => Ok(()),
                false => Err("that is no sine".into()),
            })
        })?;
    }
    host.drained().await;

    // The times of one group.
    let profile = waves[0].profile().expect("the queue profiles");
    println!("on {}, {LEN} sines took {:?}", queue.device(), profile.duration());

    let timeline = trace.timeline();
    for entry in timeline.entries() {
        let what = if entry.kind == EntryKind::Group { "" } else { " (moved for others)" };
        println!("{:>10}{what}: {:?} after {:?}", entry.label(), entry.ended - entry.started, entry.after);
        assert_eq!(entry.outcome, Outcome::Done);
    }
    // Each check waited for its wave.
    let id = |name: &str| timeline.entries().iter().find(|entry| entry.label() == name).map(|entry| entry.id);
    let check = timeline.entries().iter().find(|entry| entry.label() == "check 3").expect("it was submitted");
    let before = [&id("wave 3").expect("it was submitted")];
    let copies = timeline.entries().iter().filter(|entry| entry.copy_for == Some(check.id));
    assert!(before.into_iter().chain(copies.map(|copy| &copy.id)).any(|before| check.after.contains(before)));

    let folder = std::env::temp_dir();
    for (file, text) in [
        ("windlass-trace.html", timeline.html()),
        ("windlass-trace.json", timeline.perfetto()),
        ("windlass-trace.dot", timeline.dot()),
    ] {
        let file = folder.join(file);
        std::fs::write(&file, text).map_err(Error::other)?;
        println!("written to {}", file.display());
    }
    println!("open the page in a browser, the JSON in ui.perfetto.dev, and give the last one to `dot -Tsvg`");
    Ok(())
}
