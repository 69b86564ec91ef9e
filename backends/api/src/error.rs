//! What can go wrong below the runtime.

use std::fmt;

/// A failure that a backend reports: a closed, small set, cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendError {
    /// There was no room for an allocation of this many bytes.
    OutOfMemory {
        /// How many bytes were asked for.
        bytes: usize,
    },
    /// The device is gone, with the driver's reason.
    Lost(String),
    /// The backend or the device cannot do this; says what.
    Unsupported(String),
    /// A kernel did not build.
    Build {
        /// The kernel's name.
        kernel: String,
        /// The compiler's output.
        log: String,
    },
    /// Code of the user's that ran on a host device panicked, with its message.
    Panicked(String),
    /// A native call failed.
    Native {
        /// The call.
        call: &'static str,
        /// The driver's code; zero where it is none of a driver's calls that failed.
        code: i64,
        /// What the code means, or what else is known.
        message: String,
    },
}

impl BackendError {
    /// Whether the device is gone for good.
    pub fn is_lost(&self) -> bool {
        matches!(self, BackendError::Lost(_))
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BackendError::OutOfMemory { bytes } => {
                write!(f, "out of device memory: {bytes} bytes were asked for")
            }
            BackendError::Lost(why) => write!(f, "the device is lost: {why}"),
            BackendError::Unsupported(what) => write!(f, "not supported: {what}"),
            BackendError::Build { kernel, log } => write!(f, "kernel `{kernel}` did not build: {log}"),
            BackendError::Panicked(message) => write!(f, "a host kernel panicked: {message}"),
            // What is no call of a driver's has no code.
            BackendError::Native { call, code: 0, message } => write!(f, "{call} failed: {message}"),
            BackendError::Native { call, code, message } => write!(f, "{call} failed with {code}: {message}"),
        }
    }
}

impl std::error::Error for BackendError {}

/// Why a backend cannot be used here, and what would change that.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unavailable {
    /// What is missing.
    pub reason: String,
    /// What the user can do about it.
    pub remedy: String,
}

impl Unavailable {
    /// This is missing, and that can be done about it.
    pub fn new(reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Unavailable { reason: reason.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.remedy)
    }
}

impl std::error::Error for Unavailable {}
