//! Holding back what is enqueued until it is flushed, for drivers that wake a thread for each command.
//!
//! PoCL hands a command to its threads as soon as nothing is in front of it, and wakes all of them for that. A stream of small
//! commands that end faster than they are enqueued costs it a wake-up each, and the threads stand in its locks against the one that enqueues. So
//! the first of several groups waits for an event of ours, behind which the others come in the queue's order, and the flush ends
//! that event.
//!
//! What is feared is an event that nobody ends. The runtime flushes behind each group that has others behind it, and who waits for a group
//! in another way (another lane, an armed point, a lane that is dropped) flushes first: all of that goes through
//! [`Stream::flush`](crate::lane::Stream::flush) and [`Stream::finish`](crate::lane::Stream::finish), which open the gate. A
//! thread that opens it while another enqueues behind it lets that one's commands start at once, which is no harm. On a
//! lane that is given up it stays shut, and nothing that was held back starts any more.

use std::sync::Arc;

use windlass_sync::facade::{Mutex, lock};

use crate::sys::{Context, Event};

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Gate(Mutex<Option<Arc<Event>>>);

impl Gate {
    /// Shuts it, if it is open: the event that the next command has to wait for, which those behind it need not.
    pub(crate) fn shut(&self, context: &Context) -> Option<Arc<Event>> {
        let mut shut = lock(&self.0);
        if shut.is_some() {
            return None;
        }
        // Without it commands start when the driver likes.
        let event = Arc::new(context.user_event().ok()?);
        Some(shut.insert(event).clone())
    }

    /// Lets go what is behind it.
    pub(crate) fn open(&self) {
        // Taken out first: to end an event runs what others have registered with it.
        let shut = lock(&self.0).take();
        if let Some(event) = shut
            && let Err(failure) = event.complete()
        {
            tracing::warn!(?failure, "an OpenCL driver does not let go what it was to hold back");
        }
    }
}
