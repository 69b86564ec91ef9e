//! Panics of foreign code, caught in one place.
//!
//! A panic carries a value of the code that panicked, and dropping that value is foreign code as well: it may panic
//! again where that is not expected, and a value that owns two of that kind ends the process. So nothing here drops a
//! payload that is not a plain message; it is leaked. `xtask tidy` checks that `catch_unwind` is called nowhere else.

use std::any::Any;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A panic that was caught. It may be dropped anywhere.
pub struct Panicked(Option<Box<dyn Any + Send>>);

impl Panicked {
    /// What the panic said.
    pub fn message(&self) -> &str {
        let plain = self.0.as_deref().and_then(message);
        plain.unwrap_or("a panic without a message")
    }

    /// Goes on with the panic.
    pub fn resume(mut self) -> ! {
        match self.0.take() {
            Some(payload) => resume_unwind(payload),
            None => unreachable!("it is taken here and when it is dropped"),
        }
    }
}

fn message<'a>(payload: &'a (dyn Any + Send + 'static)) -> Option<&'a str> {
    let text = payload.downcast_ref::<&'static str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

impl Drop for Panicked {
    fn drop(&mut self) {
        // A payload that is not a plain message may have a `Drop` of its own, which is foreign code.
        if let Some(payload) = self.0.take()
            && message(&*payload).is_none()
        {
            mem::forget(payload);
        }
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

impl fmt::Debug for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panicked").field(&self.message()).finish()
    }
}

/// Runs code that may panic. What it was working on may be left half done; the caller sees to that.
pub fn catch<R>(code: impl FnOnce() -> R) -> Result<R, Panicked> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| Panicked(Some(payload)))
}

/// Runs code whose panic, if any, has no one to report to.
pub fn contain(code: impl FnOnce()) {
    drop(catch(code));
}
