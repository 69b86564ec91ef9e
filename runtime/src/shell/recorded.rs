//! Commands that were described once, and what they come to on a device.
//!
//! The commands name windows of buffers, as those of any group do; where the buffers' memory is, only a group that is
//! being fed knows. On a device that takes sequences the first such group has them recorded with that memory, and the next
//! ones run the same sequence as long as the memory is the same. Elsewhere they are fed one by one.

use std::sync::{Arc, Weak};

use smallvec::SmallVec;
use windlass_backend::{Allocation, Aspect, BackendError, Sequence};
use windlass_kernel::SlotAccess;
use windlass_sync::facade::{Mutex, lock};
use windlass_sync::forked;

use super::memory::Remains;
use super::native::Memory;
use super::work::{Binding, DeviceCommand};
use super::{Inner, LaneShell};
use crate::shell::build::Built;
use crate::shell::context::DeviceSlot;
use windlass_engine::RootId;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) commands: Vec<DeviceCommand>,
    /// For each command the earlier ones that it comes after.
    pub(super) after: Vec<Vec<usize>>,
    /// The buffers that they use, each once.
    roots: Vec<RootId>,
    slot: Arc<DeviceSlot>,
    inner: Weak<Inner>,
    /// The sequence, where the device takes such, with the memory that it was recorded with.
    sequence: Mutex<Option<Made>>,
}

/// A sequence with its memory, in the order of the roots.
#[derive(Debug)]
struct Made {
    memory: Vec<Arc<dyn Allocation>>,
    sequence: Arc<dyn Sequence>,
    /// Others that it took the place of. The reaper lets go of them when the recording goes.
    replaced: Vec<Arc<dyn Sequence>>,
}

impl Recorded {
    pub(crate) fn new(commands: Vec<DeviceCommand>, slot: Arc<DeviceSlot>, inner: &Arc<Inner>) -> Self {
        let mut roots: Vec<RootId> = Vec::new();
        for (binding, _) in commands.iter().flat_map(DeviceCommand::uses) {
            if !binding.is_empty() && !roots.contains(&binding.root) {
                roots.push(binding.root);
            }
        }
        // Nobody else asks for it.
        let after = if slot.device.has(Aspect::Sequences) { order(&commands) } else { Vec::new() };
        Recorded { commands, after, roots, slot, inner: Arc::downgrade(inner), sequence: Mutex::default() }
    }

    /// The device that it was made for.
    pub(crate) fn slot(&self) -> &Arc<DeviceSlot> {
        &self.slot
    }

    /// Whether the device takes it as one command.
    pub(crate) fn is_sequence(&self) -> bool {
        self.slot.device.has(Aspect::Sequences)
    }

    /// Native commands in flight while it runs.
    pub(crate) fn weight(&self) -> usize {
        if self.is_sequence() { 1 } else { self.commands.len() }
    }

    /// Its kernels.
    pub(crate) fn kernels(&self) -> impl Iterator<Item = &Arc<Built>> {
        self.commands.iter().filter_map(DeviceCommand::built)
    }

    /// The sequence with a group's memory, recorded here if there is none; for who may make native calls.
    pub(super) fn sequence(
        &self,
        lane: &LaneShell,
        find: Memory<'_>,
    ) -> Result<Arc<dyn Sequence>, BackendError> {
        let memory = self.roots.iter().map(|root| find.shared(*root).cloned());
        let memory = memory.collect::<Result<Vec<_>, _>>()?;
        let mut entry = lock(&self.sequence);
        let same = |made: &Made| made.memory.iter().zip(&memory).all(|(a, b)| Arc::ptr_eq(a, b));
        if let Some(made) = entry.as_ref().filter(|made| same(made)) {
            return Ok(made.sequence.clone());
        }
        let sequence = self.record(lane, find, &memory)?;
        let mut replaced = Vec::new();
        if let Some(old) = entry.take() {
            replaced = old.replaced;
            replaced.push(old.sequence);
        }
        *entry = Some(Made { memory, sequence: sequence.clone(), replaced });
        Ok(sequence)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if forked::is_child() {
            return std::mem::forget(self.sequence.get_mut().map(Option::take));
        }
        let (Some(made), Some(inner)) = (lock(&self.sequence).take(), self.inner.upgrade()) else { return };
        let mut dead = made.replaced;
        dead.push(made.sequence);
        inner.reaper.defer_drop(Remains::Sequences(dead), &inner);
        inner.free_all(made.memory);
    }
}

/// For each command those earlier ones that it has to come after, but not those that others of them come after already.
fn order(commands: &[DeviceCommand]) -> Vec<Vec<usize>> {
    let uses: Vec<SmallVec<[(Binding, SlotAccess); 4]>> =
        commands.iter().map(|command| command.uses().collect()).collect();
    let mut after: Vec<Vec<usize>> = Vec::with_capacity(uses.len());
    // Of each command all that come before it, by whatever way.
    let mut before: Vec<Vec<bool>> = Vec::with_capacity(uses.len());
    for (at, own) in uses.iter().enumerate() {
        let (mut direct, mut all) = (Vec::new(), vec![false; at]);
        for earlier in (0..at).rev() {
            if !all[earlier] && conflict(own, &uses[earlier]) {
                direct.push(earlier);
                all[earlier] = true;
                before[earlier].iter().enumerate().for_each(|(i, is)| all[i] |= is);
            }
        }
        after.push(direct);
        before.push(all);
    }
    after
}

fn conflict(a: &[(Binding, SlotAccess)], b: &[(Binding, SlotAccess)]) -> bool {
    let writes = |access: SlotAccess| access == SlotAccess::ReadWrite;
    a.iter().any(|(x, of_x)| b.iter().any(|(y, of_y)| (writes(*of_x) || writes(*of_y)) && x.overlaps(y)))
}

impl DeviceCommand {
    /// The windows that it uses, and how.
    pub(super) fn uses(&self) -> impl Iterator<Item = (Binding, SlotAccess)> {
        let uses: SmallVec<[(Binding, SlotAccess); 4]> = match self {
            DeviceCommand::Kernel(kernel) => {
                let windows = kernel.slotted().filter_map(|(arg, slot)| arg.window(slot));
                let windows = windows.map(|(binding, access)| (*binding, access));
                windows.chain(kernel.launch.reached.iter().copied()).collect()
            }
            DeviceCommand::Copy(copy) => {
                SmallVec::from_iter([(copy.from, SlotAccess::Read), (copy.to, SlotAccess::ReadWrite)])
            }
            DeviceCommand::Fill(fill) => SmallVec::from_iter([(fill.to, SlotAccess::ReadWrite)]),
        };
        uses.into_iter()
    }

    /// Its kernel, if it is a launch.
    pub(crate) fn built(&self) -> Option<&Arc<Built>> {
        match self {
            DeviceCommand::Kernel(kernel) => Some(&kernel.built),
            DeviceCommand::Copy(_) | DeviceCommand::Fill(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_engine::{Box3, Initial, RootId, RootShape};
    use windlass_kernel::{Extent, Word};

    use super::*;
    use crate::shell::work::{PlannedCopy, PlannedFill};

    fn window(root: RootId, offset: usize, bytes: usize) -> Binding {
        Binding {
            root,
            offset,
            extent: Extent::line(bytes),
            element: 1,
            word: Word::B1,
            is_cast: false,
            image: None,
        }
    }

    fn fill(to: Binding) -> DeviceCommand {
        DeviceCommand::Fill(Box::new(PlannedFill { to, pattern: SmallVec::from_slice(&[0]) }))
    }

    fn copy(from: Binding, to: Binding) -> DeviceCommand {
        DeviceCommand::Copy(Box::new(PlannedCopy { from, to }))
    }

    /// A diamond: one command, two that need it and not each other, one that needs both. Seen to fail where a command comes
    /// after all earlier ones, and where reads of the same bytes are in each other's way.
    #[test]
    fn what_is_independent_branches() {
        let mut engine = windlass_engine::Engine::<crate::shell::Windlass>::new();
        let shape = RootShape {
            extent: Box3::line(0, 64),
            unit: 1,
            bytes: 64,
            object: Default::default(),
            home: None,
        };
        let root = engine.add_root(shape, Initial::None);
        let at = |offset| window(root, offset, 8);
        let commands = [
            fill(at(0)),
            copy(at(0), at(8)),
            copy(at(0), at(16)),
            copy(at(8), at(24)),
            fill(window(root, 8, 16)),
        ];
        assert_eq!(order(&commands), [vec![], vec![0], vec![0], vec![1], vec![3, 2]]);
    }
}
