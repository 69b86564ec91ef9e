//! Mistakes, gathered so that one compilation shows all of them.

use proc_macro2::Span;

/// What was wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Errors(Vec<syn::Error>);

impl Errors {
    /// Notes a mistake at a place: what is wrong there, and what to write instead.
    pub(crate) fn at(&mut self, span: Span, message: impl Into<String>) {
        self.0.push(syn::Error::new(span, message.into()));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// One error with all messages, where there are any.
    pub(crate) fn into_error(self) -> Option<syn::Error> {
        self.0.into_iter().reduce(|mut all, next| {
            all.combine(next);
            all
        })
    }
}
