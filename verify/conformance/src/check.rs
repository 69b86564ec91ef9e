//! What a case says of a device, and how it checks.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// How a case ends: well, or with what went wrong.
pub type Verdict = Result<(), Problem>;

/// Why a case did not end well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The device says that it cannot do this.
    Unsupported(String),
    /// The device does something else than it should.
    Wrong(String),
}

impl Problem {
    /// Something else happened than should have.
    pub fn wrong(what: impl Into<String>) -> Self {
        Problem::Wrong(what.into())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Unsupported(what) => write!(f, "unsupported: {what}"),
            Problem::Wrong(what) => f.write_str(what),
        }
    }
}

impl From<windlass::Error> for Problem {
    /// An error that a case did not expect: only those that say "unsupported" are not wrong.
    #[track_caller]
    fn from(error: windlass::Error) -> Self {
        match error.root().is_unsupported() {
            true => Problem::Unsupported(error.to_string()),
            false => Problem::Wrong(format!("{error} ({})", std::panic::Location::caller())),
        }
    }
}

/// Ends the case unless this holds.
#[macro_export]
macro_rules! ensure {
    ($holds:expr) => { $crate::ensure!($holds, "`{}` does not hold", stringify!($holds)) };
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            let why = format!($($why)+);
            return Err($crate::Problem::Wrong(format!("{why} ({}:{})", file!(), line!())));
        }
    };
}

/// Ends the case unless both are equal.
#[macro_export]
macro_rules! ensure_eq {
    ($is:expr, $should_be:expr $(, $($why:tt)+)?) => {{
        let (is, should_be) = (&$is, &$should_be);
        if *is != *should_be {
            let text = format!("`{}` is {is:?}, not {should_be:?}", stringify!($is));
            $(let text = format!("{}: {text}", format!($($why)+));)?
            return Err($crate::Problem::Wrong(format!("{text} ({}:{})", file!(), line!())));
        }
    }};
}

/// The error that this result should be.
#[track_caller]
pub(crate) fn refused<T: fmt::Debug>(result: windlass::Result<T>) -> Result<windlass::Error, Problem> {
    match result {
        Err(error) => Ok(error),
        Ok(value) => {
            let at = std::panic::Location::caller();
            Err(Problem::wrong(format!("there is no error, but {value:?} ({at})")))
        }
    }
}

/// Something that is opened once, by hand: what holds a group back until the case says so.
#[derive(Debug)]
pub(crate) struct Latch {
    opened: futures::channel::oneshot::Sender<()>,
}

/// The other end of a latch, as a future.
pub(crate) struct Opened(futures::channel::oneshot::Receiver<()>);

impl Future for Opened {
    type Output = windlass::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // A latch that is dropped counts as opened, so that a failed case leaves nothing behind.
        Pin::new(&mut self.0).poll(cx).map(|_| Ok(()))
    }
}

impl Latch {
    pub(crate) fn open(self) {
        let _ = self.opened.send(());
    }
}

/// A latch and the future that waits for it.
pub(crate) fn latch() -> (Latch, Opened) {
    let (opened, waiting) = futures::channel::oneshot::channel();
    (Latch { opened }, Opened(waiting))
}

/// Polls a future once.
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(std::task::Waker::noop()))
}
