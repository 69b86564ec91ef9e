//! The group that is being enqueued: what its native commands wait for, and what they leave.

use smallvec::SmallVec;

use crate::sys::{Event, Queue, Result, WaitList};

/// A group that is being enqueued.
pub(crate) struct Feeding<'a> {
    queue: &'a Queue,
    waits: WaitList<'a>,
    pub(crate) events: SmallVec<[Event; 1]>,
    pub(crate) sources: Vec<Vec<u8>>,
}

impl<'a> Feeding<'a> {
    /// Nothing yet, behind these events.
    pub(crate) fn new(queue: &'a Queue, waits: WaitList<'a>) -> Self {
        Feeding { queue, waits, events: SmallVec::new(), sources: Vec::new() }
    }

    /// Enqueues one native command. Only the group's first has waits: the queue is in-order.
    pub(crate) fn enqueue(
        &mut self,
        command: impl FnOnce(&Queue, &WaitList<'_>) -> Result<Event>,
    ) -> Result<()> {
        let event = command(self.queue, &self.waits)?;
        self.waits.clear();
        self.events.push(event);
        Ok(())
    }

    /// Keeps host memory, which a command is to read, until the group has ended.
    pub(crate) fn keep(&mut self, source: Vec<u8>) -> *const u8 {
        let start = source.as_ptr();
        self.sources.push(source);
        start
    }

    /// A barrier: behind waits a marker carries it, else the group before it does.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        if self.waits.is_empty() { Ok(()) } else { self.enqueue(Queue::marker) }
    }
}
