//! What sees to a batch when no caller does: deadlines that pass, batches that were held open, and what waited for another
//! batch's end.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use futures_lite::future::{or, pending, yield_now};
use futures_timer::Delay;
use tokio::runtime::{Handle, RuntimeFlavor};
use windlass_kernel::DeviceCopy;

use super::state::{Shared, Then};

/// Starts what looks after a batch. On the tokio runtime that is current, if its threads run by themselves: those who wait for answers
/// are most likely tasks of the same, so that they are cheap to wake, and whoever yields to them yields to those who
/// are about to come. Else, and when that runtime ends, on an executor of our own.
pub(super) fn start<T: DeviceCopy, U: DeviceCopy>(shared: &Arc<Shared<T, U>>) {
    let keeping = |successor| Keeping { batch: Arc::downgrade(shared), successor };
    match Handle::try_current() {
        Ok(tokio) if tokio.runtime_flavor() == RuntimeFlavor::MultiThread => {
            drop(tokio.spawn(keeping(Successor::OnOurs).run()))
        }
        _ => shared.executor().spawn(keeping(Successor::Callers).run()),
    }
}

/// A keeper at work.
struct Keeping<T: DeviceCopy, U: DeviceCopy> {
    batch: Weak<Shared<T, U>>,
    successor: Successor,
}

/// Who does a keeper's work when it is dropped, which is what happens to a task when its runtime ends.
enum Successor {
    /// Another, on our own executor.
    OnOurs,
    /// That one has ended too: those who hand items in, and whoever notices a batch's end.
    Callers,
    /// Nobody: it is done.
    Nobody,
}

impl<T: DeviceCopy, U: DeviceCopy> Keeping<T, U> {
    async fn run(mut self) {
        keep(self.batch.clone()).await;
        self.successor = Successor::Nobody;
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Drop for Keeping<T, U> {
    fn drop(&mut self) {
        let Some(shared) = self.batch.upgrade() else { return };
        match self.successor {
            Successor::OnOurs => {
                let keeping = Keeping { batch: self.batch.clone(), successor: Successor::Callers };
                shared.executor().spawn(keeping.run());
            }
            Successor::Callers => {
                shared.state().keeper.is_gone = true;
                shared.see_to();
            }
            Successor::Nobody => {}
        }
    }
}

/// Runs as long as somebody has the batch, and sleeps as long as nothing is to be done.
async fn keep<T: DeviceCopy, U: DeviceCopy>(batch: Weak<Shared<T, U>>) {
    while let Some(shared) = batch.upgrade() {
        let then = shared.look();
        let wait = shared.until_next();
        match then {
            Then::Launch(id, queued) => shared.launch(id, queued),
            Then::LookAgain => {
                drop(shared);
                // Those who are about to hand something in may need this processor for it.
                std::thread::yield_now();
                yield_now().await;
            }
            Then::Wait => {
                drop(shared);
                let time = async {
                    match wait {
                        Some(wait) => Delay::new(wait).await,
                        None => pending().await,
                    }
                };
                or(told(&batch), time).await;
            }
        }
    }
}

impl<T: DeviceCopy, U: DeviceCopy> Shared<T, U> {
    /// Does what there is to be done, here.
    pub(super) fn see_to(self: &Arc<Self>) {
        loop {
            match self.look() {
                Then::Launch(id, queued) => self.launch(id, queued),
                Then::LookAgain => std::thread::yield_now(),
                Then::Wait => return,
            }
        }
    }

    /// How long it is until a deadline passes; until then the keeper need not look by itself.
    fn until_next(&self) -> Option<Duration> {
        let mut state = self.state();
        let until = state.policy.earliest_deadline();
        state.keeper.until = until;
        until.map(|until| until.saturating_sub(self.now()))
    }
}

/// Resolves when there is something to look at, or nobody is left.
async fn told<T: DeviceCopy, U: DeviceCopy>(batch: &Weak<Shared<T, U>>) {
    poll_fn(|cx| {
        let Some(shared) = batch.upgrade() else { return Poll::Ready(()) };
        let keeper = &mut shared.state().keeper;
        if std::mem::take(&mut keeper.told) {
            return Poll::Ready(());
        }
        keeper.waker = Some(cx.waker().clone());
        Poll::Pending
    })
    .await
}
