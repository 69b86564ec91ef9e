//! What can go wrong, how a program hears of it, and what it can ask an error: `cargo run --release --example errors`

use std::sync::mpsc::channel;
use std::time::Duration;

use windlass::prelude::*;
use windlass::{BoxError, DeadlockPolicy, Result};

/// What an HTTP service would answer: errors are asked what they mean, and their texts are for people.
fn status(error: &windlass::Error) -> u16 {
    match error.root() {
        e if e.is_invalid_input() => 400,
        e if e.is_timeout() || e.is_cancelled() => 504,
        e if e.is_overloaded() || e.is_saturated() || e.is_out_of_memory() => 503,
        _ => 500,
    }
}

fn say(what: &str, error: &windlass::Error) {
    println!("{what} ({}): {error}\n", status(error));
}

#[tokio::main]
async fn main() -> Result<()> {
    // Errors that nobody awaits come here, once each.
    let (tell, told) = channel();
    let runtime = Runtime::builder()
        .handler(move |errors| errors.iter().for_each(|error| drop(tell.send(error.error().clone()))))
        .deadlock_policy(DeadlockPolicy::Error)
        .stall_after(Duration::from_millis(20))
        .build();
    let queue = Queue::on(runtime.host()?).await?;
    let (good, bad) = (Buffer::from(vec![1_u32; 4]), Buffer::from(vec![1_u32; 4]));

    // A group that makes no sense is refused where it is submitted, and nothing of it happens.
    let refused =
        queue.submit(|cg| cg.fill(&cg.overwrite(&good.range(2..9)), 0)).expect_err("it has four elements");
    say("outside of a buffer", &refused);
    assert_eq!(status(&refused), 400);

    // What fails later is told by the event, with the group's name and place.
    let failed = queue.submit(|cg| {
        cg.name("parse");
        let mut bad = cg.overwrite(&bad);
        cg.host_task(async move |host| {
            host.view_mut(&mut bad)?[0] = "twelve".parse()?;
            Ok(())
        })
    })?;
    // Whoever reads what it was to write fails with it, and knows why. Others never hear of it.
    let behind = queue.submit(|cg| cg.copy(&cg.read(&bad), &cg.overwrite(&good)))?;
    let error = failed.await.expect_err("that is no number");
    assert_eq!(error.group(), Some("parse"));
    say("a host task's own error", &error);
    let error = behind.await.expect_err("it reads what has failed");
    assert!(error.is_dependency_failed() && error.root().group() == Some("parse"));
    say("a group behind it", &error);

    // To write all of it makes data good again. (What is there may also be taken for good, by `clear_poison`.)
    assert!(bad.poison().is_some() && good.poison().is_some());
    queue.submit(|cg| {
        cg.fill(&cg.overwrite(&bad), 7)?;
        cg.fill(&cg.overwrite(&good), 8)
    })?;
    assert_eq!((bad.host_read().await?[3], good.host_read().await?[3]), (7, 8));

    // A deadline: the future is dropped, and so the group is cancelled.
    let never = queue.submit(|cg| {
        cg.after(std::future::pending::<std::result::Result<(), BoxError>>());
        Ok(())
    })?;
    let late = tokio::time::timeout(Duration::from_millis(10), never.cancel_on_drop()).await;
    let late = windlass::Error::from(late.expect_err("it never ends"));
    say("a deadline", &late);
    assert!(late.is_timeout() && status(&late) == 504);

    // The program waits for itself: an error, because this runtime was asked to make one of it.
    let guard = bad.host_read().await?;
    let stuck =
        queue.submit(|cg| cg.fill(&cg.overwrite(&bad), 8))?.await.expect_err("the guard is still there");
    drop(guard);
    say("a deadlock", &stuck);
    assert!(stuck.is_deadlock());

    // Its event is dropped: the handler hears of it. What is no group's error does not matter to others.
    let free = Buffer::<u32>::new(1);
    queue.submit(|cg| cg.host_for(1, cg.overwrite(&free), |_, _| panic!("a mistake")))?;
    let unheard = told.recv_timeout(Duration::from_secs(10)).expect("the handler is told");
    assert!(unheard.is_panic());
    say("what nobody awaited", &unheard);
    println!("each was what it should be");
    Ok(())
}
