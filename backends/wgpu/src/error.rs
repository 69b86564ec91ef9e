//! wgpu's errors as [`BackendError`]s, and the loss of a device.
//!
//! wgpu reports most errors outside the call: to the innermost error scope of the calling thread, or else to a handler.
//! [`guarded`] puts scopes around a piece of work, so that its errors are its own. The loss of a device goes to neither:
//! calls then do nothing, submissions are dropped, and their callbacks run as if all were well. Only the loss callback tells,
//! so no success can be believed before looking at [`Faults::lost`].

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};

use windlass_backend::{BackendError, ContextSink};
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::panics::{Panicked, catch};

use windlass_sync::process_exit;

/// Told by a device of the program's own that it is lost.
pub(crate) type OnLost = Box<dyn Fn(wgpu::DeviceLostReason, &str) + Send>;

/// What went wrong with a device outside any call.
#[derive(Default)]
pub(crate) struct Faults {
    lost: OnceLock<String>,
    /// Told of the loss, since an idle device has no command that could fail with it.
    sink: Option<Arc<dyn ContextSink>>,
    /// An error outside all scopes. There should be none; if there is one, it must not be swallowed.
    stray: Mutex<Option<BackendError>>,
}

impl Faults {
    /// Hears of the loss of `device` from now on.
    pub(crate) fn watch(
        device: &wgpu::Device,
        sink: Arc<dyn ContextSink>,
        on_lost: Option<OnLost>,
    ) -> Arc<Self> {
        let faults = Arc::new(Faults { sink: Some(sink), ..Faults::default() });
        let loss = Arc::clone(&faults);
        device.set_device_lost_callback(move |reason, message| {
            loss.lose(&format!("{reason:?} {message}"));
            if let Some(on_lost) = &on_lost {
                on_lost(reason, &message);
            }
        });
        faults
    }

    /// Collects what `device` reports outside all scopes, in place of wgpu's own handler, which panics.
    pub(crate) fn catch_strays(self: &Arc<Self>, device: &wgpu::Device) {
        let strays = Arc::clone(self);
        device.on_uncaptured_error(Arc::new(move |error| {
            *lock(&strays.stray) = Some(native("a wgpu call", error));
        }));
    }

    /// Records the loss.
    pub(crate) fn lose(&self, why: &str) {
        // The first reason stands, and is told once.
        if self.lost.set(why.trim().to_owned()).is_ok()
            && let (Some(sink), Some(error)) = (&self.sink, self.lost())
        {
            sink.lost(error);
        }
    }

    /// The error of a lost device, if it is lost.
    pub(crate) fn lost(&self) -> Option<BackendError> {
        self.lost.get().map(|why| BackendError::Lost(why.clone()))
    }

    /// The last error that no scope caught, once.
    pub(crate) fn take_stray(&self) -> Option<BackendError> {
        lock(&self.stray).take()
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Faults").field("lost", &self.lost).field("stray", &self.stray).finish_non_exhaustive()
    }
}

/// Runs native calls, and returns what they reported or how they panicked.
pub(crate) fn guarded<T>(
    device: &wgpu::Device,
    faults: &Faults,
    call: &'static str,
    work: impl FnOnce() -> Result<T, BackendError>,
) -> Result<T, BackendError> {
    let _inside = process_exit::enter();
    let filters =
        [wgpu::ErrorFilter::OutOfMemory, wgpu::ErrorFilter::Validation, wgpu::ErrorFilter::Internal];
    let scopes = filters.map(|filter| device.push_error_scope(filter));
    let outcome = catch(work);
    // Scopes must be popped innermost first. An error goes to the one scope with its filter; if several caught one, any of
    // them explains the failure.
    let reported = scopes.into_iter().rev().filter_map(|scope| at_once(scope.pop()).flatten()).last();
    // First, since on a lost device everything else is meaningless, an apparent success included.
    if let Some(lost) = faults.lost() {
        return Err(lost);
    }
    if let Some(error) = reported {
        return Err(native(call, error));
    }
    outcome.unwrap_or_else(|panic| Err(panicked(call, &panic)))
}

/// A wgpu error in the runtime's terms. When memory runs out, wgpu does not say how much was requested.
fn native(call: &'static str, error: wgpu::Error) -> BackendError {
    match error {
        wgpu::Error::OutOfMemory { .. } => BackendError::OutOfMemory { bytes: 0 },
        other => failed(call, other.to_string()),
    }
}

/// A native call that failed; wgpu has no error codes.
pub(crate) fn failed(call: &'static str, message: impl Into<String>) -> BackendError {
    BackendError::Native { call, code: -1, message: message.into() }
}

/// A native call that panicked.
pub(crate) fn panicked(call: &'static str, panic: &Panicked) -> BackendError {
    failed(call, format!("panicked: {panic}"))
}

pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, BackendError> {
    Err(BackendError::Unsupported(what.into()))
}

/// The output of a future that is ready at its first poll, as wgpu's are on native targets.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}
