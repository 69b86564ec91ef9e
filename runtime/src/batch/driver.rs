//! What sees to a batch when no caller does: deadlines that pass, batches that were held open, and what waited for another
//! batch's end.

use std::future::poll_fn;
use std::sync::Weak;
use std::task::Poll;
use std::time::Duration;

use futures_lite::future::{or, pending, yield_now};
use futures_timer::Delay;
use windlass_kernel::DeviceCopy;

use super::state::{Shared, Then};

/// Runs as long as somebody has the batch, and sleeps as long as nothing is to be done.
pub(super) async fn drive<T: DeviceCopy, U: DeviceCopy>(batch: Weak<Shared<T, U>>) {
    while let Some(shared) = batch.upgrade() {
        let then = shared.look();
        let wait = shared.until_next();
        match then {
            Then::Launch(id, members) => shared.launch(id, members),
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
    /// How long it is until a deadline passes; until then the driver need not look by itself.
    fn until_next(&self) -> Option<Duration> {
        let mut state = self.state();
        let until = state.policy.earliest_deadline();
        state.driver.until = until;
        until.map(|until| until.saturating_sub(self.now()))
    }
}

/// Resolves when there is something to look at, or nobody is left.
async fn told<T: DeviceCopy, U: DeviceCopy>(batch: &Weak<Shared<T, U>>) {
    poll_fn(|cx| {
        let Some(shared) = batch.upgrade() else { return Poll::Ready(()) };
        let driver = &mut shared.state().driver;
        if std::mem::take(&mut driver.told) {
            return Poll::Ready(());
        }
        driver.waker = Some(cx.waker().clone());
        Poll::Pending
    })
    .await
}
