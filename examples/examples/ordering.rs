//! Who comes after whom: by data, by events, by futures, by the queue. `cargo run --release --example ordering`

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use windlass::prelude::*;
use windlass::{Priority, Result};

/// What has run, in the order in which it has.
type Log = Arc<Mutex<Vec<&'static str>>>;

/// A task that touches no data, so that nothing but what is asked for orders it.
fn task(cg: &CommandGroup<'_>, log: &Log, name: &'static str) -> Result<()> {
    let log = log.clone();
    cg.name(name);
    cg.host_task(async move |_| {
        // The first ones would be last, if nobody kept the order.
        tokio::time::sleep(Duration::from_millis(if name == "first" { 20 } else { 1 })).await;
        log.lock().expect("nobody panics").push(name);
        Ok(())
    })
}

fn take(log: &Log) -> Vec<&'static str> {
    std::mem::take(&mut *log.lock().expect("nobody panics"))
}

#[tokio::main]
async fn main() -> Result<()> {
    let (queue, log) = (Queue::new().await?, Log::default());

    // By data, which is what most programs need: each group comes after those that wrote what it reads.
    let (a, b, sum) = (Buffer::<u32>::new(4), Buffer::<u32>::new(4), Buffer::<u32>::new(8));
    queue.submit(|cg| cg.fill(&cg.overwrite(&a), 1))?;
    queue.submit(|cg| cg.fill(&cg.overwrite(&b), 2))?;
    // These two may run at the same time: they write different parts.
    queue.submit(|cg| cg.copy(&cg.read(&a), &cg.overwrite(&sum.range(..4))))?;
    queue.submit(|cg| cg.copy(&cg.read(&b), &cg.overwrite(&sum.range(4..))))?;
    assert_eq!(sum.host_read().await?[..], [1, 1, 1, 1, 2, 2, 2, 2]);

    // By events, where the order is about something that is no buffer. If one of them fails, so does what depends on it.
    let first = queue.submit(|cg| task(cg, &log, "first"))?;
    let second = queue.submit(|cg| {
        cg.depends_on(&first);
        task(cg, &log, "second")
    })?;
    // Several events are one, to be awaited, cancelled or depended on.
    let both = Event::all([first, second]);
    let third = queue.submit(|cg| {
        cg.depends_on(&both);
        task(cg, &log, "third")
    })?;
    third.await?;
    assert_eq!(take(&log), ["first", "second", "third"]);
    assert_eq!(both.status(), Status::Done);

    // After something has ended, however it has.
    let risky = queue.submit(|cg| cg.host_task(async |_| Err("no luck".into())))?;
    let cleanup = queue.submit(|cg| {
        cg.after_end(&risky);
        task(cg, &log, "cleanup")
    })?;
    assert!(risky.await.is_err() && cleanup.await.is_ok());
    take(&log);

    // By any future: a download, a lock, a timer. Submitted first, it runs last, and holds up nobody else.
    let (open, gate) = oneshot::channel::<()>();
    let gated = queue.submit(|cg| {
        cg.after(gate);
        task(cg, &log, "gated")
    })?;
    queue.submit(|cg| task(cg, &log, "free"))?.await?;
    open.send(()).expect("the group waits for it");
    gated.await?;
    assert_eq!(take(&log), ["free", "gated"]);

    // By the queue: one group after the other, as a stream does elsewhere.
    let in_order = Queue::builder().device(queue.device().clone()).in_order().build().await?;
    for name in ["first", "second", "third"] {
        in_order.submit(|cg| task(cg, &log, name))?;
    }
    in_order.drained().await;
    assert_eq!(take(&log), ["first", "second", "third"]);

    // What is urgent goes ahead of what is not, on devices whose drivers know of that.
    let urgent = Queue::builder().device(queue.device().clone()).priority(Priority::High).build().await;
    assert_eq!(urgent.is_ok(), queue.device().has(Aspect::Priorities));
    match urgent {
        Ok(urgent) => urgent.submit(|cg| cg.fill(&cg.overwrite(&a), 3))?.await?,
        Err(refused) => println!("no priorities: {refused}"),
    }
    println!("all in order on {}", queue.device());
    Ok(())
}
