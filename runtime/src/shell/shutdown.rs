//! Ending a runtime.

use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use windlass_sync::forked;

use crate::error::{Cause, Error, Kind};
use crate::shell::event::EventInner;
use crate::shell::work::Work;
use crate::shell::{Inner, NativeCalls};
use windlass_engine::Cancelled;

/// What was still under way when a runtime was ended.
///
/// ```
/// use windlass::prelude::*;
/// # fn main() -> windlass::Result<()> {
/// let runtime = Runtime::new();
/// let (queue, data) = (Queue::blocking_on(runtime.host()?)?, Buffer::<u32>::new(8));
/// queue.submit(|cg| cg.fill(&cg.overwrite(&data), 2))?.blocking_wait()?;
/// let guard = data.host_read().blocking_wait()?;
/// assert_eq!(runtime.abort().groups, 1, "the guard is still there");
/// # drop(guard);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remaining {
    /// Groups and host accessors that have not ended: they are with a device, or held by the program. What was cancelled
    /// has ended.
    pub groups: usize,
}

/// How often an ending runtime looks again: nothing reports "everything has ended", and this is no hot path.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(2);

/// How long an ending runtime waits for host tasks that it has told to stop.
const GRACE: std::time::Duration = std::time::Duration::from_secs(1);

/// Takes no more, waits, then cancels.
pub(crate) async fn shutdown(inner: &Arc<Inner>, deadline: Instant) -> Remaining {
    if forked::is_child() {
        return Remaining::default();
    }
    close(inner);
    while live(inner) > 0 && Instant::now() < deadline {
        pause(inner, LOOK_AGAIN.min(deadline.saturating_duration_since(Instant::now()))).await;
    }
    let unended = cancel_all(inner);
    // Host tasks that wait for something are gone in a moment; one that blocks its thread is not waited for.
    let patience = Instant::now() + GRACE;
    while unended.iter().any(|(event, stops)| *stops && is_open(event)) && Instant::now() < patience {
        pause(inner, LOOK_AGAIN).await;
    }
    remaining(inner, &unended)
}

/// Takes no more, and cancels all that has not been handed to a device.
pub(crate) fn abort(inner: &Arc<Inner>) -> Remaining {
    if forked::is_child() {
        return Remaining::default();
    }
    close(inner);
    let unended = cancel_all(inner);
    remaining(inner, &unended)
}

/// Cancels all that has not been handed to a device. Returns what has, and host tasks that are to stop, marked.
fn cancel_all(inner: &Arc<Inner>) -> Vec<(Arc<EventInner>, bool)> {
    // Accessors first: they are told of the end, and not of a group that is cancelled for it.
    end_accessors(inner);
    let events: Vec<Arc<EventInner>> = inner.enter_without_native_calls(|state, _| {
        let works = state.engine.works();
        works
            .filter_map(|work| match work {
                Work::Group(event) => Some(event.clone()),
                _ => None,
            })
            .collect()
    });
    let mut unended = Vec::new();
    for event in events {
        match event.cancel(NativeCalls::Elsewhere) {
            Cancelled::Skipped => {}
            Cancelled::TooLate => {
                let stops = event.stop_task();
                unended.push((event, stops));
            }
            Cancelled::Done => {
                // Its end was certain before, but its node may still wait for a future that is never ready.
                event.drop_outside();
            }
        }
    }
    unended
}

fn is_open(event: &EventInner) -> bool {
    event.cell.get().is_none()
}

fn remaining(inner: &Arc<Inner>, unended: &[(Arc<EventInner>, bool)]) -> Remaining {
    Remaining { groups: unended.iter().filter(|(event, _)| is_open(event)).count() + held(inner) }
}

/// Host accessors that the program has. Only these and what is with a device remain: a group that was cancelled keeps its
/// place in the order until all that is ahead of it has gone, but it runs nothing there, and how many nodes of that kind are
/// still there is a matter of luck.
fn held(inner: &Arc<Inner>) -> usize {
    let is_held =
        |work: &&Work| matches!(work, Work::Guard(guard) if matches!(guard.cell.get(), Some(Ok(()))));
    inner.enter_without_native_calls(|state, _| state.engine.works().filter(is_held).count())
}

/// Ends the host accessors that wait for their memory. Their nodes keep their places in the order, perhaps behind a guard
/// that the program never gives back.
fn end_accessors(inner: &Arc<Inner>) {
    let error = Error::new(Kind::ShutDown);
    inner.enter_without_native_calls(|state, turn| {
        for guard in state.engine.unstarted_guards() {
            let _: Cancelled = state.engine.cancel(guard, Cause(error.clone()), turn);
        }
    });
}

fn close(inner: &Arc<Inner>) {
    inner.enter_without_native_calls(|state, _| {
        state.closed = true;
        state.name_no_more();
    });
}

fn live(inner: &Arc<Inner>) -> usize {
    inner.enter_without_native_calls(|state, _| state.engine.live_nodes())
}

/// Lets others go on for a while, under any executor.
async fn pause(inner: &Arc<Inner>, length: std::time::Duration) {
    if inner.manual {
        let mut yielded = false;
        return std::future::poll_fn(move |cx| match std::mem::replace(&mut yielded, true) {
            true => Poll::Ready(()),
            false => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await;
    }
    blocking::unblock(move || std::thread::sleep(length)).await;
}
