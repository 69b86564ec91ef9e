//! What kernels say, as a program that listens to `tracing` hears it.

use std::fmt::{self, Write};
use std::mem;
use std::sync::{Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::Subscriber;
use tracing::{Event, Metadata, span};

static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Listens from now on.
pub(crate) fn listen() {
    tracing::subscriber::set_global_default(Listener).expect("nobody else listens");
}

/// What was heard since the last call.
pub(crate) fn all() -> Vec<String> {
    mem::take(&mut HEARD.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Forgets what was heard.
pub(crate) fn forget() {
    drop(all());
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "windlass::kernel"
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Message(String::new());
        event.record(&mut text);
        HEARD.lock().unwrap_or_else(PoisonError::into_inner).push(text.0);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// An event's text.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.0, "{value:?}");
        }
    }
}
