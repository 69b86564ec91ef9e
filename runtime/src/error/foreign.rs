//! Errors of the program's own, kept inside ours.

use std::fmt;

use windlass_sync::panics::contain;

use super::{BoxError, Error, Kind};

/// An error of user code. Dropping it is user code as well, and happens wherever the last clone of ours goes: many at a
/// time, or while a panic unwinds, where a second panic would end the process. So a panic in there ends there.
pub(crate) struct Foreign(Option<BoxError>);

impl Foreign {
    /// An error that one of ours has passed through, perhaps many times, is kept as the first of ours had it: what is
    /// nested does not grow with the number of host tasks that hand an error on.
    pub(crate) fn new(error: BoxError) -> Self {
        Foreign(Some(match error.downcast::<Error>() {
            Ok(ours) => ours.innermost().clone().into(),
            Err(theirs) => theirs,
        }))
    }

    pub(crate) fn get(&self) -> &BoxError {
        match &self.0 {
            Some(error) => error,
            None => unreachable!("it is taken only when this is dropped"),
        }
    }
}

impl Error {
    /// Where an error that was handed on began.
    fn innermost(&self) -> &Error {
        let mut error = self;
        loop {
            error = match error.kind() {
                Kind::DependencyFailed { root } => root,
                Kind::User { error: inner, .. } => match inner.get().downcast_ref::<Error>() {
                    Some(ours) => ours,
                    None => return error,
                },
                _ => return error,
            };
        }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let error = self.0.take();
        contain(|| drop(error));
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

impl fmt::Debug for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}
