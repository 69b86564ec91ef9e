//! How a script says what a group does.

use super::*;

/// A group to be submitted.
pub(super) struct Group<'a> {
    pub(super) script: &'a mut Script,
    pub(super) name: &'static str,
    pub(super) device: Option<DeviceId>,
    pub(super) accesses: Vec<Access>,
    pub(super) after: Vec<After>,
    pub(super) in_order: Option<NodeId>,
    pub(super) gates: u32,
    pub(super) keep: bool,
    pub(super) weight: u32,
    pub(super) shows: bool,
}

impl Group<'_> {
    pub(super) fn on(mut self, device: DeviceId) -> Self {
        self.device = Some(device);
        self
    }

    pub(super) fn uses(mut self, root: RootId, bounds: Box3, mode: Mode) -> Self {
        self.accesses.push(Access { root, bounds, mode });
        self
    }

    pub(super) fn whole(self, root: RootId, mode: Mode) -> Self {
        let bytes = self.script.engine.shape(root).map_or(0, |(_, _, bytes)| bytes);
        self.uses(root, line(0..bytes), mode)
    }

    pub(super) fn reads(self, root: RootId) -> Self {
        self.whole(root, Mode::Read)
    }

    /// A write that wants nothing of what was there.
    pub(super) fn writes(self, root: RootId) -> Self {
        self.whole(root, Mode::Overwrite)
    }

    pub(super) fn updates(self, root: RootId) -> Self {
        self.whole(root, Mode::ReadWrite)
    }

    pub(super) fn depends_on(mut self, node: NodeId) -> Self {
        self.after.push(After { node, carries_failure: true });
        self
    }

    pub(super) fn after_end(mut self, node: NodeId) -> Self {
        self.after.push(After { node, carries_failure: false });
        self
    }

    pub(super) fn in_order(mut self, node: NodeId) -> Self {
        self.in_order = Some(node);
        self
    }

    pub(super) fn weighs(mut self, commands: u32) -> Self {
        self.weight = commands;
        self
    }

    pub(super) fn gates(mut self, gates: u32) -> Self {
        self.gates = gates;
        self
    }

    /// The program sees the memory that it uses.
    pub(super) fn shows(mut self) -> Self {
        self.shows = true;
        self
    }

    pub(super) fn keep_previous(mut self) -> Self {
        self.keep = true;
        self
    }

    pub(super) fn submit(self) -> NodeId {
        let plan = Plan {
            weight: self.weight,
            device: self.device,
            accesses: &self.accesses,
            after: &self.after,
            in_order: self.in_order,
            gates: self.gates,
            doomed: None,
            keep_previous: self.keep,
            commands: self.shows,
        };
        let id = self.script.engine.plan(plan, |_| Job::Named(self.name), &mut self.script.turn);
        self.script.absorb();
        id
    }
}
