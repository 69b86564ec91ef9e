//! The crate's one error type.

mod foreign;
mod questions;
pub(crate) mod stall;
pub(crate) mod too_large;

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windlass_backend::{BackendError, BackendId};
use windlass_sync::panics::Panicked;

pub(crate) use foreign::Foreign;
use stall::Stall;
use too_large::Excess;

/// What everything here returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of any kind that user code may return from a host task or an outside future.
pub type BoxError = Box<dyn StdError + Send + Sync>;

/// Anything that can go wrong: cheap to clone, one type for the whole crate.
///
/// Its kinds are not part of the interface; the predicates are. `source` leads to the cause where there is one: to
/// the user's own error for a host task, to the root for a dependency that failed.
///
/// ```
/// use windlass::{Buffer, Queue, Runtime};
/// # fn main() -> windlass::Result<()> {
/// let queue = Queue::blocking_new()?;
/// let x = Buffer::<f32>::new(4);
/// let error = queue.submit(|cg| {
///     cg.read(&x.range(2..9));
///     Ok(())
/// });
/// assert!(error.unwrap_err().is_invalid_input());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Error {
    told: Arc<Told>,
}

/// What went wrong, and for whom. A group's error is marked when the group ends; before that, groups that fail for the same
/// reason may share it.
struct Told {
    kind: Arc<Kind>,
    origin: OnceLock<Origin>,
}

/// The group that an error is of.
#[derive(Clone, PartialEq)]
pub(crate) struct Origin {
    pub(crate) group: Option<Box<str>>,
    pub(crate) at: &'static Location<'static>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Invalid(String),
    Unsupported(String),
    Unavailable {
        backend: BackendId,
        reason: String,
    },
    NoDevice(String),
    MixedPlatforms([String; 2]),
    TooLarge(Box<Excess>),
    /// One context cannot have these devices together.
    NotShareable {
        devices: Vec<String>,
        why: Error,
    },
    OtherRuntime {
        first: &'static Location<'static>,
    },
    Aliased(String),
    Saturated {
        limit: u32,
    },
    /// By two queues, one after the other.
    RefusedTwice {
        by: [String; 2],
        why: [Error; 2],
    },
    WouldBlock,
    Cancelled,
    DependencyFailed {
        root: Error,
    },
    Backend {
        error: BackendError,
        doing: String,
    },
    /// User code has failed: a host task, or a future that a group waited for.
    User {
        what: UserCode,
        error: Foreign,
    },
    UserPanicked {
        what: UserCode,
        message: String,
    },
    RuntimeGone,
    ShutDown,
    Forked,
    Timeout(String),
    /// More was asked for than can be done, by so much.
    Overloaded {
        what: &'static str,
        wait: Duration,
    },
    Deadlock(Stall),
    Other(Foreign),
}

/// Which code of the user's.
#[derive(Clone, Copy, Debug)]
pub(crate) enum UserCode {
    HostTask,
    Outside,
    WriteBack,
    Batch,
}

impl fmt::Display for UserCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UserCode::HostTask => "a host task",
            UserCode::Outside => "a future given to `after`",
            UserCode::Batch => "a closure that launches batches",
            UserCode::WriteBack => "a closure given to `with_write_back`",
        })
    }
}

impl Error {
    pub(crate) fn new(kind: Kind) -> Self {
        Error { told: Arc::new(Told { kind: Arc::new(kind), origin: OnceLock::new() }) }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::new(Kind::Invalid(what.into()))
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported(what.into()))
    }

    pub(crate) fn backend(error: BackendError, doing: impl Into<String>) -> Self {
        Self::new(Kind::Backend { error, doing: doing.into() })
    }

    /// What user code returned.
    pub(crate) fn user(what: UserCode, error: BoxError) -> Self {
        Self::new(Kind::User { what, error: Foreign::new(error) })
    }

    pub(crate) fn user_panicked(what: UserCode, panic: &Panicked) -> Self {
        Self::new(Kind::UserPanicked { what, message: panic.message().into() })
    }

    fn kind(&self) -> &Kind {
        &self.told.kind
    }

    /// The error as this group's. The first to end for a reason marks what those who depend on it see as the root; the loss
    /// of a device is nobody's in particular.
    pub(crate) fn of_group(self, origin: Origin) -> Self {
        let is_shared = self.is_device_lost() && !self.is_dependency_failed();
        if !is_shared && *self.told.origin.get_or_init(|| origin.clone()) == origin {
            return self;
        }
        let told = Told { kind: self.told.kind.clone(), origin: OnceLock::from(origin) };
        Error { told: Arc::new(told) }
    }

    /// The name of the group that failed, if it has one: for [`Error::root`], of the group in which it began.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_new()?;
    /// let event = queue.submit(|cg| {
    ///     cg.name("nightly");
    ///     cg.host_task(async |_| Err("no".into()))
    /// })?;
    /// let error = event.blocking_wait().unwrap_err();
    /// assert_eq!(error.group(), Some("nightly"));
    /// assert!(error.location().is_some_and(|at| at.file().ends_with(".rs")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn group(&self) -> Option<&str> {
        self.told.origin.get()?.group.as_deref()
    }

    /// Where the group that failed was submitted; `None` for errors that are not a group's.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let failed = Queue::blocking_new()?.submit(|cg| cg.host_task(async |_| Err("no".into())))?;
    /// let error = failed.blocking_wait().unwrap_err();
    /// let at = error.location().unwrap();
    /// println!("submitted in {}, line {}", at.file(), at.line());
    /// # Ok(()) }
    /// ```
    pub fn location(&self) -> Option<&'static Location<'static>> {
        self.told.origin.get().map(|origin| origin.at)
    }

    /// An error of the caller's own.
    ///
    /// ```
    /// let error = windlass::Error::other("the network is down");
    /// assert_eq!(error.to_string(), "the network is down");
    /// ```
    pub fn other(error: impl Into<BoxError>) -> Self {
        Self::new(Kind::Other(Foreign::new(error.into())))
    }

    /// Another queue may take what this says is refused: it is not what was asked for that is wrong.
    pub(crate) fn is_of_its_queue(&self) -> bool {
        let is_of_the_program = matches!(
            self.kind(),
            Kind::Invalid(_)
                | Kind::Aliased(_)
                | Kind::OtherRuntime { .. }
                | Kind::Other(_)
                | Kind::User { .. }
        );
        !is_of_the_program
    }

    /// A backend or its driver refused something, and the device is there.
    pub(crate) fn is_of_native_call(&self) -> bool {
        use BackendError::{Native, Unsupported};
        matches!(self.kind(), Kind::Backend { error: Unsupported(_) | Native { .. }, .. })
    }

    pub(crate) fn is_same(&self, other: &Error) -> bool {
        Arc::ptr_eq(&self.told.kind, &other.told.kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.told.origin.get() {
            Some(Origin { group: Some(name), at }) => write!(f, "group `{name}` submitted at {at}: ")?,
            Some(Origin { group: None, at }) => write!(f, "group submitted at {at}: ")?,
            None => {}
        }
        match self.kind() {
            Kind::Invalid(what) | Kind::NoDevice(what) | Kind::Timeout(what) => f.write_str(what),
            Kind::Unsupported(what) => write!(f, "not supported: {what}"),
            Kind::Unavailable { backend, reason } => write!(f, "backend `{backend}` cannot be used here: {reason}"),
            Kind::OtherRuntime { first } => write!(
                f,
                "a buffer belongs to the runtime of the queue that uses it first, and this one was used by another \
                 runtime's, for the group submitted at {first}"
            ),
            Kind::Aliased(what) => write!(f, "overlapping views: {what}"),
            Kind::Saturated { limit } => {
                write!(f, "the queue has its limit of {limit} groups in flight; wait with `queue.ready().await`")
            }
            Kind::TooLarge(excess) => excess.fmt(f),
            Kind::MixedPlatforms([first, other]) => {
                write!(f, "{first} and {other} are of different platforms, and a context has devices of one")
            }
            Kind::NotShareable { devices, why } => {
                write!(f, "one context cannot have {} together: {why}", devices.join(" and "))
            }
            Kind::RefusedTwice { by: [first, second], why: [a, b] } => {
                write!(f, "neither of two queues takes the group. {first}: {a}. {second}: {b}")
            }
            Kind::WouldBlock => f.write_str(
                "waiting here would block a thread that has to make progress (a current-thread tokio runtime's, or \
                 one of Windlass's own, in a kernel or host task); use `.await`, or wait on another thread",
            ),
            Kind::Cancelled => f.write_str("the work was cancelled"),
            Kind::DependencyFailed { root } => write!(f, "something this work depends on has failed: {root}"),
            // What was asked for stands in what was being done.
            Kind::Backend { error: BackendError::OutOfMemory { .. }, doing } => write!(f, "{doing}: out of memory"),
            Kind::Backend { error, doing } => write!(f, "{doing}: {error}"),
            Kind::User { what, error } => write!(f, "{what} failed: {error}"),
            Kind::UserPanicked { what, message } => write!(f, "{what} panicked: {message}"),
            Kind::RuntimeGone => f.write_str("the async runtime that this host task or future ran on has ended"),
            Kind::ShutDown => f.write_str("the Windlass runtime has been shut down"),
            Kind::Forked => f.write_str(
                "this process was forked from one that uses Windlass, whose threads and devices are not here: fork before the \
                 first runtime is made, or start a program (`std::process::Command`)",
            ),
            Kind::Overloaded { what, wait } => write!(f, "{what}: the answer would have taken {wait:?}"),
            Kind::Deadlock(stall) => write!(f, "a deadlock: {stall}; drop the guard before waiting for this"),
            Kind::Other(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_tuple("windlass::Error");
        shown.field(self.kind());
        if let Some(at) = self.location() {
            shown.field(&format_args!("{at}"));
        }
        shown.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self.kind() {
            Kind::DependencyFailed { root } => Some(root),
            Kind::Backend { error, .. } => Some(error),
            Kind::RefusedTwice { why: [error, _], .. } | Kind::NotShareable { why: error, .. } => Some(error),
            Kind::User { error, .. } => Some(&**error.get()),
            _ => None,
        }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::other(error)
    }
}

impl From<tokio::time::error::Elapsed> for Error {
    fn from(elapsed: tokio::time::error::Elapsed) -> Self {
        Error::new(Kind::Timeout(elapsed.to_string()))
    }
}

/// Why a node failed, as the engine carries it: equal when it is the same failure.
#[derive(Clone, Debug)]
pub(crate) struct Cause(pub(crate) Error);

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_same(&other.0)
    }
}
