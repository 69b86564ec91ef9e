//! Errors that no handle has returned: told once, to a handler, as user code.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use windlass_sync::facade::{Mutex, lock};
use windlass_sync::panics::contain;

use super::Inner;
use super::queue::SharedHandler;
use crate::error::Error;

/// A failure of submitted work that nobody awaited.
///
/// ```
/// use windlass::{Queue, prelude::*};
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::builder()
///     .handler(|errors: &[windlass::AsyncError]| {
///         for e in errors {
///             eprintln!("{} (submitted at {}, took down {} more)", e.error(), e.location(), e.took_down());
///         }
///     })
///     .blocking_build()?;
/// # drop(queue);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AsyncError {
    error: Error,
    took_down: u32,
    at: &'static Location<'static>,
}

impl AsyncError {
    pub(super) fn new(error: Error, took_down: u32, at: &'static Location<'static>) -> Self {
        AsyncError { error, took_down, at }
    }

    /// What went wrong.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let serious = move |error: &windlass::Error| {
    ///     // Requests that were given up are no news.
    ///     if !error.is_cancelled() {
    ///         tell.send(error.to_string()).unwrap();
    ///     }
    /// };
    /// let queue = Queue::builder().handler(move |all| all.iter().for_each(|one| serious(one.error()))).blocking_build()?;
    /// queue.submit(|cg| Ok(cg.after(std::future::pending::<windlass::Result<()>>())))?.cancel();
    /// queue.submit(|cg| cg.host_task(async |_| Err("the disk is full".into())))?;
    /// assert!(told.recv().unwrap().contains("the disk is full"));
    /// # Ok(()) }
    /// ```
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// How many other groups failed because of it.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let queue = Queue::builder()
    ///     .handler(move |errors| errors.iter().for_each(|e| tell.send(e.took_down()).unwrap()))
    ///     .blocking_build()?;
    /// let (x, y) = (Buffer::<u32>::new(4), Buffer::<u32>::new(4));
    /// let (send, receive) = futures::channel::oneshot::channel::<()>();
    /// queue.submit(|cg| {
    ///     cg.after(receive);
    ///     cg.fill(&cg.overwrite(&x), 1)
    /// })?;
    /// queue.submit(|cg| cg.copy(&cg.read(&x), &cg.overwrite(&y)))?;
    /// // The first group fails by it, and the second has nothing to read.
    /// drop(send);
    /// assert_eq!(told.recv().unwrap(), 1);
    /// # Ok(()) }
    /// ```
    pub fn took_down(&self) -> u32 {
        self.took_down
    }

    /// Where the group was submitted.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let queue = Queue::builder()
    ///     .handler(move |errors| errors.iter().for_each(|e| tell.send(e.location().line()).unwrap()))
    ///     .blocking_build()?;
    /// let here = line!() + 1;
    /// queue.submit(|cg| cg.host_task(async |_| Err("nobody awaits this".into())))?;
    /// assert_eq!(told.recv().unwrap(), here);
    /// # Ok(()) }
    /// ```
    pub fn location(&self) -> &'static Location<'static> {
        self.at
    }
}

/// A handler as a queue or a runtime keeps it.
#[derive(Clone)]
pub(crate) struct Handler(pub(crate) SharedHandler);

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handler")
    }
}

/// Collects errors, and hands them on in batches where user code may run.
#[derive(Debug, Default)]
pub(crate) struct Reporter {
    queue: Mutex<Queue>,
    default: Mutex<Option<Handler>>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: Vec<(Option<Handler>, AsyncError)>,
    scheduled: bool,
}

impl Reporter {
    /// The runtime's handler, for queues without one.
    pub(crate) fn set_default(&self, handler: Handler) {
        *lock(&self.default) = Some(handler);
    }

    pub(super) fn report(&self, inner: &Arc<Inner>, handler: Option<Handler>, error: AsyncError) {
        let mut queue = lock(&self.queue);
        queue.waiting.push((handler, error));
        if std::mem::replace(&mut queue.scheduled, true) {
            return;
        }
        drop(queue);
        let task = inner.clone();
        inner.user.spawn(async move { task.reporter.deliver() });
    }

    /// Calls the handlers: those of one handler that follow each other as one batch.
    fn deliver(&self) {
        let mut queue = lock(&self.queue);
        let waiting = std::mem::take(&mut queue.waiting);
        queue.scheduled = false;
        drop(queue);
        let default = lock(&self.default).clone();
        let same = |a: &Option<Handler>, b: &Option<Handler>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(&a.0, &b.0),
            (None, None) => true,
            _ => false,
        };
        for batch in waiting.chunk_by(|(a, _), (b, _)| same(a, b)) {
            let errors: Vec<AsyncError> = batch.iter().map(|(_, e)| e.clone()).collect();
            let handler = batch[0].0.as_ref().or(default.as_ref());
            // A handler that panics has had its chance; the others have theirs.
            contain(|| match handler {
                Some(handler) => (handler.0)(&errors),
                None => errors.iter().for_each(|error| log(|| logged(error))),
            });
        }
    }
}

fn logged(error: &AsyncError) {
    tracing::error!(
        error = %error.error,
        submitted_at = %error.at,
        took_down = error.took_down,
        "work failed, and nobody awaited it"
    );
}

/// Tells a subscriber of `tracing`, which is foreign code as well: of one that panics nobody can be told.
pub(crate) fn log(tell: impl FnOnce()) {
    contain(tell);
}
