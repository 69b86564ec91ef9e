//! What goes wrong with a text.

use std::fmt;

/// What a WGSL text, or its translation, fails at, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslateError(pub(crate) String);

impl fmt::Display for TranslateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TranslateError {}

/// What a step of a translation gives.
pub(crate) type Outcome<T> = Result<T, TranslateError>;

/// The error of what C cannot say.
pub(crate) fn refuse<T>(what: impl Into<String>) -> Outcome<T> {
    Err(TranslateError(format!("no C-family language has {}", what.into())))
}
