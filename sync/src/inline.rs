//! A future that is polled where it is woken: by whoever makes the progress that it waits for, and by no executor.
//!
//! For what has next to nothing to do when it goes on, and should do it without a change of threads.
//!
//! # Its steps
//!
//! Whoever wakes it takes the future out, polls it without the lock, and puts it back. The feared race is a wake during that
//! poll, which finds no future and would be lost: it leaves a mark, and who polls looks for the mark before it puts the
//! future back, under the same lock, and polls again. A wake from inside the poll is of the same kind. When the
//! future is over its place says so, and later wakes find nothing. All of it is one mutex's state, so that the model of it is its test.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::facade::{Mutex, lock};
use crate::panics::contain;

type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task(Mutex<Place>);

enum Place {
    Idle(BoxFuture),
    /// Somebody polls it. `true`: it was woken meanwhile.
    Polled(bool),
    Over,
}

/// Polls the future here and now, and afterwards wherever it is woken. It is dropped when it is over or panics.
///
/// ```
/// use std::sync::mpsc;
/// let (send, receive) = mpsc::channel();
/// windlass_sync::inline::run(async move { send.send(1).unwrap() });
/// assert_eq!(receive.recv(), Ok(1));
/// ```
pub fn run(future: impl Future<Output = ()> + Send + 'static) {
    Arc::new(Task(Mutex::new(Place::Idle(Box::pin(future))))).wake();
}

impl Task {
    fn take(&self) -> Option<BoxFuture> {
        let mut place = lock(&self.0);
        match std::mem::replace(&mut *place, Place::Polled(false)) {
            Place::Idle(future) => Some(future),
            Place::Polled(_) => {
                *place = Place::Polled(true);
                None
            }
            Place::Over => {
                *place = Place::Over;
                None
            }
        }
    }

    /// Puts it back, unless it was woken since it was taken.
    fn put_back(&self, future: BoxFuture) -> Option<BoxFuture> {
        let mut place = lock(&self.0);
        if matches!(*place, Place::Polled(true)) {
            *place = Place::Polled(false);
            return Some(future);
        }
        *place = Place::Idle(future);
        None
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut taken = self.take();
        while let Some(mut future) = taken.take() {
            let mut poll = Poll::Ready(());
            contain(|| poll = future.as_mut().poll(&mut Context::from_waker(&waker)));
            match poll {
                Poll::Pending => taken = self.put_back(future),
                Poll::Ready(()) => {
                    *lock(&self.0) = Place::Over;
                    contain(|| drop(future));
                }
            }
        }
    }
}

#[cfg(all(test, not(windlass_loom)))]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};
    use std::task::Poll;
    use std::thread;

    /// Each wake is followed by a poll, from whatever threads they come, and from inside a poll too.
    #[test]
    fn no_wake_is_lost() {
        const WAKES: usize = 1000;
        let done = Arc::new(AtomicUsize::new(0));
        let (send, wakers) = mpsc::channel();
        let (over, is_over) = mpsc::channel();
        let counted = done.clone();
        let mut first = true;
        super::run(std::future::poll_fn(move |cx| {
            if std::mem::take(&mut first) {
                send.send(cx.waker().clone()).unwrap();
                cx.waker().wake_by_ref();
            }
            match counted.load(Ordering::SeqCst) {
                n if n == 4 * WAKES => {
                    over.send(()).unwrap();
                    Poll::Ready(())
                }
                _ => Poll::Pending,
            }
        }));
        let waker = wakers.recv().unwrap();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (waker, done) = (waker.clone(), done.clone());
                thread::spawn(move || {
                    for _ in 0..WAKES {
                        done.fetch_add(1, Ordering::SeqCst);
                        waker.wake_by_ref();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // Without the mark this waits for ever whenever the last wake falls into a poll: seen within a few runs.
        is_over.recv().unwrap();
    }

    #[test]
    fn a_panic_is_the_end() {
        super::run(async { panic!("on purpose") });
    }
}
