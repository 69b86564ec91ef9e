//! The crate's one error type.

mod foreign;
pub(crate) mod stall;

use std::error::Error as StdError;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windlass_backend::{BackendError, BackendId};
use windlass_sync::panics::Panicked;

pub(crate) use foreign::Foreign;
use stall::Stall;

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
    /// A buffer of so many bytes, where a device takes so many.
    TooLarge {
        needs: usize,
        has: u64,
        device: String,
    },
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

    /// The caller asked for something that makes no sense: a range outside its buffer, arguments that do not fit, a
    /// buffer of another runtime.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(4));
    /// let outside = queue.submit(|cg| cg.fill(&cg.overwrite(&x.range(2..9)), 0));
    /// assert!(outside.unwrap_err().is_invalid_input());
    /// # Ok(()) }
    /// ```
    pub fn is_invalid_input(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Invalid(_)
                | Kind::OtherRuntime { .. }
                | Kind::Aliased(_)
                | Kind::MixedPlatforms(_)
                | Kind::TooLarge { .. }
        )
    }

    /// Two mutable views, or a mutable and a shared one, of overlapping memory.
    pub fn is_aliased(&self) -> bool {
        matches!(self.kind(), Kind::Aliased(_))
    }

    /// The device or backend cannot do what was asked.
    ///
    /// ```
    /// use windlass::{Priority, prelude::*};
    /// let urgent = Queue::builder().device(Device::host()).priority(Priority::High).blocking_build();
    /// assert!(urgent.unwrap_err().is_unsupported());
    /// ```
    pub fn is_unsupported(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Unsupported(_)
                | Kind::NotShareable { .. }
                | Kind::Backend { error: BackendError::Unsupported(_), .. }
        )
    }

    /// A context was asked for over devices of several platforms.
    pub fn is_mixed_platforms(&self) -> bool {
        matches!(self.kind(), Kind::MixedPlatforms(_))
    }

    /// A context was asked for over devices of one platform that cannot be together in one.
    pub fn is_not_shareable(&self) -> bool {
        matches!(self.kind(), Kind::NotShareable { .. })
    }

    /// A buffer has more bytes than the device has, or takes in one piece.
    pub fn is_too_large(&self) -> bool {
        matches!(self.kind(), Kind::TooLarge { .. })
    }

    /// What the two queues of [`Queue::submit_or`](crate::Queue::submit_or) had to say that both refused a group.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let context = Context::blocking_open(&[Device::host()])?;
    /// let gone = Queue::blocking_in_context(&context, &Device::host())?;
    /// context.abandon();
    /// let error = gone.submit_or(&gone, |_| Ok(())).unwrap_err();
    /// let [first, second] = error.refusals().unwrap();
    /// assert!(first.is_device_lost() && second.is_device_lost());
    /// # Ok(())
    /// # }
    /// ```
    pub fn refusals(&self) -> Option<&[Error; 2]> {
        match self.kind() {
            Kind::RefusedTwice { why, .. } => Some(why),
            _ => None,
        }
    }

    /// There is no such device, or its backend cannot be used here.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// let abacus = Device::blocking_select(Selector::backend("abacus"));
    /// assert!(abacus.unwrap_err().is_unavailable());
    /// ```
    pub fn is_unavailable(&self) -> bool {
        matches!(self.kind(), Kind::Unavailable { .. } | Kind::NoDevice(_))
    }

    /// The work was cancelled before it ran.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.kind(), Kind::Cancelled)
    }

    /// Something that this work reads, or explicitly depends on, has failed; see [`Error::root`].
    pub fn is_dependency_failed(&self) -> bool {
        matches!(self.kind(), Kind::DependencyFailed { .. })
    }

    /// The failure at the root of a dependency's failure; for all other errors, the error itself.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, x) = (Queue::blocking_new()?, Buffer::<u32>::new(4));
    /// queue.submit(|cg| {
    ///     let _x = cg.overwrite(&x);
    ///     cg.host_task(async |_| Err("the disk is full".into()))
    /// })?;
    /// let error = x.host_read().blocking_wait().unwrap_err();
    /// assert!(error.is_dependency_failed());
    /// assert!(!error.root().is_dependency_failed());
    /// assert!(error.root().to_string().ends_with("the disk is full"));
    /// # Ok(()) }
    /// ```
    pub fn root(&self) -> &Error {
        match self.kind() {
            Kind::DependencyFailed { root } => root.root(),
            _ => self,
        }
    }

    /// The device is gone.
    pub fn is_device_lost(&self) -> bool {
        matches!(self.root().kind(), Kind::Backend { error: BackendError::Lost(_), .. })
    }

    /// There was not enough memory.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self.root().kind(), Kind::Backend { error: BackendError::OutOfMemory { .. }, .. })
    }

    /// The queue's limit of groups in flight is reached.
    pub fn is_saturated(&self) -> bool {
        matches!(self.kind(), Kind::Saturated { .. })
    }

    /// Waiting here would block a thread that may have to make the progress waited for: the one that drives a
    /// current-thread runtime, or one of Windlass's own, inside a kernel for instance.
    pub fn is_would_block(&self) -> bool {
        matches!(self.kind(), Kind::WouldBlock)
    }

    /// The async runtime that a host task or an outside future ran on has ended.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let (queue, tokio) = (Queue::blocking_new()?, tokio::runtime::Runtime::new()?);
    /// let task = tokio.block_on(async {
    ///     queue.submit(|cg| cg.host_task(async |_| Ok(std::future::pending::<()>().await)))
    /// })?;
    /// drop(tokio);
    /// assert!(task.blocking_wait().unwrap_err().is_runtime_gone());
    /// # Ok(()) }
    /// ```
    pub fn is_runtime_gone(&self) -> bool {
        matches!(self.kind(), Kind::RuntimeGone)
    }

    /// The Windlass runtime has been shut down.
    pub fn is_shut_down(&self) -> bool {
        matches!(self.kind(), Kind::ShutDown)
    }

    /// The process was forked from one that used Windlass: its threads and devices are not here, so nothing could ever end. A process
    /// that forks before it makes its first runtime has no such errors, and neither has a program that is started.
    pub fn is_forked(&self) -> bool {
        matches!(self.kind(), Kind::Forked)
    }

    /// A host kernel, a host task or a future given to `after` panicked.
    ///
    /// ```
    /// use windlass::prelude::*;
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let bad = queue.submit(|cg| cg.host_for(1, (), |_, ()| panic!("a mistake")))?;
    /// assert!(bad.blocking_wait().unwrap_err().is_panic());
    /// # Ok(()) }
    /// ```
    pub fn is_panic(&self) -> bool {
        matches!(
            self.kind(),
            Kind::UserPanicked { .. } | Kind::Backend { error: BackendError::Panicked(_), .. }
        )
    }

    /// A deadline passed.
    ///
    /// ```
    /// use windlass::prelude::*;
    ///
    /// /// A time-out of tokio's becomes such an error by `?`, and cancels the group.
    /// async fn in_time(event: Event) -> windlass::Result<()> {
    ///     tokio::time::timeout(std::time::Duration::from_millis(1), event.cancel_on_drop()).await?
    /// }
    ///
    /// # fn main() -> windlass::Result<()> {
    /// # let tokio = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// # let never = Queue::blocking_new()?.submit(|cg| Ok(cg.after(std::future::pending::<windlass::Result<()>>())))?;
    /// # let in_time = |event| tokio.block_on(in_time(event));
    /// assert!(in_time(never).unwrap_err().is_timeout());
    /// # Ok(()) }
    /// ```
    pub fn is_timeout(&self) -> bool {
        matches!(self.kind(), Kind::Timeout(_))
    }

    /// More was asked for than can be done in time; see [`Error::retry_after`].
    pub fn is_overloaded(&self) -> bool {
        matches!(self.kind(), Kind::Overloaded { .. })
    }

    /// How long it would have taken, of what was refused because it would have taken too long: a `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind() {
            Kind::Overloaded { wait, .. } => Some(*wait),
            _ => None,
        }
    }

    /// Nothing but the end of a host guard could have let this work go on, and the runtime was built to call that an
    /// error ([`DeadlockPolicy::Error`](crate::DeadlockPolicy::Error)).
    pub fn is_deadlock(&self) -> bool {
        matches!(self.root().kind(), Kind::Deadlock(_))
    }

    /// What the backend reported, where a backend did.
    ///
    /// ```
    /// use windlass::{BackendError, prelude::*};
    /// # fn main() -> windlass::Result<()> {
    /// let queue = Queue::blocking_on(Device::host())?;
    /// let bad = queue.submit(|cg| cg.host_for(1, (), |_, ()| panic!("a mistake")))?;
    /// let error = bad.blocking_wait().unwrap_err();
    /// assert!(matches!(error.backend_error(), Some(BackendError::Panicked(_))));
    /// # Ok(()) }
    /// ```
    pub fn backend_error(&self) -> Option<&BackendError> {
        match self.kind() {
            Kind::Backend { error, .. } => Some(error),
            _ => None,
        }
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
            Kind::TooLarge { needs, has, device } => {
                write!(f, "a buffer of {needs} bytes, and {device} takes {has} in one piece: use several buffers")
            }
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
