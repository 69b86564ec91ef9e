//! The group being enqueued: what its native commands wait for, and what they leave behind.

use smallvec::SmallVec;

use crate::sys::{Event, Queue, Result, WaitList};

/// A group being enqueued.
pub(crate) struct Feeding<'a> {
    queue: &'a Queue,
    /// What the next native command waits for.
    waits: WaitList<'a>,
    /// Whether the next launch has to tell when it has ended. What is not a launch always does.
    pub(crate) is_told: bool,
    /// How many native commands there are so far.
    pub(crate) commands: usize,
    /// Whether the last of them tells.
    pub(crate) ends_told: bool,
    /// One for each of them, but for launches that do not tell.
    pub(crate) events: SmallVec<[Event; 1]>,
    /// Host memory that the commands read.
    pub(crate) sources: Vec<Vec<u8>>,
}

impl<'a> Feeding<'a> {
    /// An empty group behind these events.
    pub(crate) fn new(queue: &'a Queue, waits: WaitList<'a>) -> Self {
        Feeding {
            queue,
            waits,
            is_told: true,
            commands: 0,
            ends_told: false,
            events: SmallVec::new(),
            sources: Vec::new(),
        }
    }

    /// Enqueues one native command. The first one carries the group's waits; the queue is in-order, so those after it need none.
    pub(crate) fn enqueue(
        &mut self,
        command: impl FnOnce(&Queue, &WaitList<'_>) -> Result<Event>,
    ) -> Result<()> {
        // If this fails, the waits stay for the next command: nothing that is enqueued may run ahead of them.
        let event = command(self.queue, &self.waits)?;
        self.events.push(event);
        self.took_one(true);
        Ok(())
    }

    /// The same for a command without an event.
    pub(crate) fn enqueue_untold(
        &mut self,
        command: impl FnOnce(&Queue, &WaitList<'_>) -> Result<()>,
    ) -> Result<()> {
        command(self.queue, &self.waits)?;
        self.took_one(false);
        Ok(())
    }

    fn took_one(&mut self, tells: bool) {
        self.waits.clear();
        self.commands += 1;
        self.ends_told = tells;
    }

    /// Keeps host memory, which a command is to read, until the group has ended.
    pub(crate) fn keep(&mut self, source: Vec<u8>) -> *const u8 {
        let start = source.as_ptr();
        self.sources.push(source);
        start
    }

    /// A barrier. A marker carries the waits; without any, an in-order queue needs no native command, and the barrier passes
    /// together with the group before it.
    pub(crate) fn barrier(&mut self) -> Result<()> {
        if self.waits.is_empty() { Ok(()) } else { self.enqueue(Queue::marker) }
    }
}
