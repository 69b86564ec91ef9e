//! Contexts that nobody can submit to any more.
//!
//! Such a context may still be needed: the only copy of some data may lie in its memory, and whoever reads that data
//! elsewhere has it fetched by the context's own lanes. So it stays until no root has an allocation there and its lanes
//! are idle. Then the shell is told to close it, and whatever is planned for it by mistake fails.

use super::ids::{ContextId, MemoryId};
use super::machine::Device;
use super::{Engine, HEAP, Shell, Turn};

/// A context that is to go.
#[derive(Debug)]
pub(super) struct Retiring<C> {
    context: ContextId,
    /// What whoever comes too late is told.
    cause: C,
}

impl<S: Shell> Engine<S> {
    /// The last handle of a context is gone.
    pub fn retire(&mut self, context: ContextId, cause: S::Cause, turn: &mut Turn<S>) {
        self.retiring.push(Retiring { context, cause });
        self.close_unused(turn);
    }

    /// Something has ended that may have kept a context.
    #[inline]
    pub(super) fn look_for_unused(&mut self, turn: &mut Turn<S>) {
        if !self.retiring.is_empty() {
            self.close_unused(turn);
        }
    }

    #[cold]
    fn close_unused(&mut self, turn: &mut Turn<S>) {
        let retiring = std::mem::take(&mut self.retiring);
        for entry in retiring {
            if self.is_used(entry.context) {
                self.retiring.push(entry);
                continue;
            }
            match &mut self.contexts[entry.context.0 as usize].lost {
                lost @ None => *lost = Some(entry.cause),
                Some(_) => turn.causes.push(entry.cause),
            }
            let of_context = self.devices.iter().filter(|d| d.context == entry.context);
            turn.closed.extend(of_context.flat_map(Device::all_lanes));
        }
    }

    fn is_used(&self, context: ContextId) -> bool {
        let mut devices = self.devices.iter().filter(|d| d.context == context);
        devices.any(|device| {
            let slots = self.memories[device.memory.0 as usize].slots;
            let busy = |lane: super::LaneId| !self.lanes[lane.0 as usize].is_idle();
            device.memory != HEAP && slots > 0 || device.all_lanes().any(busy)
        })
    }

    /// Roots have gained allocations in this memory, or lost them.
    pub(super) fn count_slots(&mut self, memory: MemoryId, change: i32) {
        let slots = &mut self.memories[memory.0 as usize].slots;
        *slots = slots.wrapping_add_signed(change);
    }
}
