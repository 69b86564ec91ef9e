//! Proxies: edges that native waits cannot make, as futures on the executor.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

use windlass_sync::cell::Registration;
use windlass_sync::executor::Executor;
use windlass_sync::facade::{Mutex, lock};

use super::{Inner, Signal};
use windlass_engine::ProxyId;

/// Waits for a signal.
#[derive(Debug)]
pub(crate) struct Signalled {
    signal: Arc<Signal>,
    registration: Registration,
}

impl Signalled {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Signalled { signal, registration: Registration::default() }
    }
}

impl Future for Signalled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        this.signal.poll_simply(&mut this.registration, cx)
    }
}

impl Drop for Signalled {
    fn drop(&mut self) {
        self.signal.forget(&mut self.registration);
    }
}

impl Inner {
    /// One future for each (source, target context): when the source has ended it opens the gates behind it.
    pub(super) fn spawn_proxy(self: &Arc<Self>, proxy: ProxyId, signal: Arc<Signal>) {
        let inner = self.clone();
        self.gates.spawn(async move {
            Signalled::new(signal).await;
            inner.enter(|state, turn| state.engine.open_proxy(proxy, turn));
        });
    }
}

impl Inner {
    /// Whether there is a task for the messages that polls leave.
    pub(crate) fn has_drainer(&self) -> bool {
        self.drainer.is_up()
    }
}

/// The task that works off messages which a `poll` has left: a poll reads its own cell, and makes no native call.
///
/// The task's waker and whether it was spawned stand under one lock. A caller that finds no waker yet has left its message
/// before it took that lock, and the task takes it before it first reads the messages: it will find this one.
#[derive(Debug)]
pub(super) struct Drainer {
    inner: Weak<Inner>,
    task: Mutex<Task>,
}

#[derive(Debug, Default)]
struct Task {
    spawned: bool,
    waker: Option<Waker>,
}

impl Drainer {
    pub(super) fn new(inner: Weak<Inner>) -> Self {
        Drainer { inner, task: Mutex::new(Task::default()) }
    }

    /// Whether the task was ever needed.
    fn is_up(&self) -> bool {
        lock(&self.task).spawned
    }

    /// Sees to it that messages are read soon.
    pub(super) fn call(&self, executor: &Executor) {
        let mut task = lock(&self.task);
        if let Some(waker) = task.waker.clone() {
            drop(task);
            return waker.wake();
        }
        if std::mem::replace(&mut task.spawned, true) {
            return;
        }
        drop(task);
        let inner = self.inner.clone();
        executor.spawn(std::future::poll_fn(move |cx| {
            // Only for this poll: the task never ends by itself, and would keep the runtime for ever.
            let Some(inner) = inner.upgrade() else { return Poll::Ready(()) };
            lock(&inner.drainer.task).waker.get_or_insert_with(|| cx.waker().clone());
            inner.enter(|_, _| {});
            Poll::Pending
        }));
    }
}
