//! Who sees to a batch when no caller does: the *keeper*, to deadlines that pass, batches that were held open and what waited
//! for another batch's end; and the *clerk*, who hands out answers where they are many.
//!
//! The keeper has the executor of our own, since the batch is everybody's and nobody's thread may hold it up. The clerk is a task of the
//! tokio runtime on which the batch was made, if that has threads of its own: those who wait for answers are most likely tasks of the
//! same, and cheap to wake from there. When that runtime ends, another clerk goes on with our own executor; and as long as batches run
//! the keeper *patrols*: what the clerk does not get to, because its runtime's threads compute or block, is not held up for more than some milliseconds.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};

use futures_lite::future::{or, pending, yield_now};
use futures_timer::Delay;
use tokio::runtime::{Handle, RuntimeFlavor};
use windlass_batching::Next;
use windlass_kernel::DeviceCopy;
use windlass_sync::forked;

use super::state::{Shared, State};

/// Tells a task that there is something for it.
#[derive(Default)]
pub(super) struct Bell {
    rung: bool,
    waker: Option<Waker>,
}

impl Bell {
    /// Who gets a waker wakes it, after the lock.
    pub(super) fn ring(&mut self) -> Option<Waker> {
        self.rung = true;
        self.waker.take()
    }
}

/// Which of a batch's bells.
type Which<T, U> = fn(&mut State<T, U>) -> &mut Bell;

pub(super) fn start<T: DeviceCopy, U: DeviceCopy>(shared: &Arc<Shared<T, U>>) {
    shared.executor().spawn(keep(Arc::downgrade(shared)));
    let tokio =
        Handle::try_current().ok().filter(|tokio| tokio.runtime_flavor() == RuntimeFlavor::MultiThread);
    let clerk = Clerk { batch: Arc::downgrade(shared), tokio: tokio.clone(), is_over: false };
    match tokio {
        Some(tokio) => drop(tokio.spawn(clerk.run())),
        None => shared.executor().spawn(clerk.run()),
    }
}

/// Hands out answers as long as somebody has the batch, and then sees to the next batch: those who had their answers may come
/// again at once, and stand before the clerk in its runtime's line, so that they have come when it is its turn.
struct Clerk<T: DeviceCopy, U: DeviceCopy> {
    batch: Weak<Shared<T, U>>,
    /// Where it runs, if not on our own executor.
    tokio: Option<Handle>,
    is_over: bool,
}

impl<T: DeviceCopy, U: DeviceCopy> Clerk<T, U> {
    async fn run(mut self) {
        while let Some(shared) = self.batch.upgrade() {
            hand_out(&shared, self.tokio.as_ref());
            drop(shared);
            while self.looks_again() {
                yield_now().await;
            }
            rung(&self.batch, |state| &mut state.clerk).await;
        }
        self.is_over = true;
    }

    /// Whether there is more to see to, when others have had their turn.
    fn looks_again(&self) -> bool {
        let Some(shared) = self.batch.upgrade() else { return false };
        match shared.look_as_clerk() {
            Next::Launch(id, queued) => shared.launch(id, queued),
            Next::LookAgain => {}
            Next::Wait => return false,
        }
        true
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Drop for Clerk<T, U> {
    /// Its runtime has ended before its work.
    fn drop(&mut self) {
        if let Some(shared) = self.batch.upgrade().filter(|_| !self.is_over && !forked::is_child()) {
            // As long as the batch is there so is its queue, and the executor with it.
            shared.executor().spawn(Clerk { batch: self.batch.clone(), tokio: None, is_over: false }.run());
        }
    }
}

/// Hands out what there is, part by part, together with other threads of the clerk's runtime: each that comes calls two more, if there are
/// parts for them. A part stays where everybody finds it until somebody hands it out.
fn hand_out<T: DeviceCopy, U: DeviceCopy>(shared: &Arc<Shared<T, U>>, tokio: Option<&Handle>) {
    let mut has_called = false;
    while let Some((landing, left)) = shared.next_landing() {
        if let Some(tokio) = tokio.filter(|_| !has_called) {
            for _ in 0..left.min(2) {
                let (shared, with) = (shared.clone(), tokio.clone());
                drop(tokio.spawn(async move { hand_out(&shared, Some(&with)) }));
            }
            has_called = true;
        }
        landing.hand_out();
    }
}

/// Runs as long as somebody has the batch, and sleeps as long as nothing is to be done.
async fn keep<T: DeviceCopy, U: DeviceCopy>(batch: Weak<Shared<T, U>>) {
    while let Some(shared) = batch.upgrade() {
        while let Some(landing) = shared.overdue_landing() {
            landing.hand_out();
        }
        match shared.look() {
            Next::Launch(id, queued) => shared.launch(id, queued),
            Next::LookAgain => {
                drop(shared);
                // Those who are about to hand something in may need this processor for it.
                std::thread::yield_now();
                yield_now().await;
            }
            Next::Wait => {
                let wait = shared.until_next();
                drop(shared);
                let time = async {
                    match wait {
                        Some(wait) => Delay::new(wait).await,
                        None => pending().await,
                    }
                };
                or(rung(&batch, |state| &mut state.keeper), time).await;
            }
        }
    }
}

/// Resolves when the bell was rung, or nobody is left.
async fn rung<T: DeviceCopy, U: DeviceCopy>(batch: &Weak<Shared<T, U>>, which: Which<T, U>) {
    poll_fn(|cx| {
        let Some(shared) = batch.upgrade() else { return Poll::Ready(()) };
        let waker = cx.waker().clone();
        // The one that was there is dropped after the lock.
        let (poll, _old) = shared.enter(|state, _| {
            let bell = which(state);
            match std::mem::take(&mut bell.rung) {
                true => (Poll::Ready(()), Some(waker)),
                false => (Poll::Pending, bell.waker.replace(waker)),
            }
        });
        poll
    })
    .await
}
