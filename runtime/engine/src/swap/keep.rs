//! Keeps [the lines of users](super::Lines) up to date, where there are any. Who changes what they say of a node or a slot says so here.

use super::super::ids::MemoryId;
use super::super::{Engine, Node, NodeId, RootId, Shell, State, Use};
use super::Lines;

impl<S: Shell> Engine<S> {
    /// Has the lines of users kept from here on. To build them takes as long as there are nodes and roots.
    pub(in super::super) fn keep_lines(&mut self) {
        if self.lines.is_none() {
            self.lines = Some(Box::new(self.built_lines()));
        }
    }

    #[cold]
    fn built_lines(&self) -> Lines {
        let mut lines = Lines::new(self.nodes.len() + self.roots.len());
        for (root, entry) in self.roots.iter() {
            for (memory, _) in &entry.slots {
                lines.slot((root, *memory), entry.allocation(*memory).is_some(), entry.home.is_some());
            }
        }
        for (id, node) in self.nodes.iter() {
            lines.enter_node(node);
            node.uses.iter().for_each(|used| lines.enter_use(id, node, *used, self.slot_of(used)));
            if node.state == State::Gated {
                lines.hold(id, node, !self.lacks_only_memory(id));
            }
        }
        for (root, entry) in self.roots.iter() {
            for (memory, slot) in &entry.slots {
                for id in slot.waiting().map(|waiting| self.listed_in(waiting)).unwrap_or_default() {
                    if let Some(node) = self.nodes.get(id) {
                        lines.wait(id, node, (root, *memory));
                    }
                }
            }
        }
        lines
    }

    /// Whether the root of a use has memory there, and whether it is never anywhere else.
    fn slot_of(&self, used: &Use) -> (bool, bool) {
        let entry = &self.roots[used.root];
        (entry.allocation(used.memory).is_some(), entry.home.is_some())
    }

    #[cold]
    fn change_lines(&mut self, change: impl FnOnce(&mut Lines, &Self)) {
        if let Some(mut lines) = self.lines.take() {
            change(&mut lines, self);
            self.lines = Some(lines);
        }
    }

    /// A use of a node is planned.
    #[inline]
    pub(in super::super) fn joins_line(&mut self, id: NodeId, used: Use) {
        if self.lines.is_some() {
            self.change_lines(|lines, engine| {
                lines.enter_use(id, &engine.nodes[id], used, engine.slot_of(&used));
            });
        }
    }

    /// A node is planned.
    #[inline]
    pub(in super::super) fn is_born_in_lines(&mut self, id: NodeId) {
        if self.lines.is_some() {
            self.change_lines(|lines, engine| lines.enter_node(&engine.nodes[id]));
        }
    }

    /// Changes how far a node has come. Whoever does so in another way leaves the lines wrong.
    #[inline]
    pub(in super::super) fn comes_to(&mut self, id: NodeId, change: impl FnOnce(&mut Node<S>)) {
        if self.lines.is_some() {
            self.change_lines(|lines, engine| lines.leave_node(id, &engine.nodes[id]));
        }
        change(&mut self.nodes[id]);
        if self.lines.is_some() {
            self.change_lines(|lines, engine| {
                let node = &engine.nodes[id];
                lines.enter_node(node);
                node.uses.iter().for_each(|used| lines.enter_use(id, node, *used, engine.slot_of(used)));
            });
        }
    }

    /// The end of a node is certain.
    #[inline]
    pub(in super::super) fn ends_in_lines(&mut self, id: NodeId) {
        if self.lines.is_some() {
            self.change_lines(|lines, engine| lines.end(id, &engine.nodes[id]));
        }
    }

    /// A node is about to settle. The lines go with it, if nobody has lacked room for long.
    #[inline]
    pub(in super::super) fn settles_in_lines(&mut self, id: NodeId) {
        if self.lines.is_some() {
            self.change_lines(|lines, engine| {
                let node = &engine.nodes[id];
                lines.end(id, node);
                lines.leave_node(id, node);
                lines.quiet = if engine.lacking.is_empty() { lines.quiet + 1 } else { 0 };
            });
            self.lines.take_if(|lines| lines.is_over());
        }
    }

    /// What holds a node back has changed.
    #[inline]
    pub(in super::super) fn is_held_in_lines(&mut self, id: NodeId) {
        if self.lines.is_some() {
            self.change_lines(|lines, engine| {
                let node = &engine.nodes[id];
                lines.hold(id, node, !engine.lacks_only_memory(id));
            });
        }
    }

    /// A node waits for a slot.
    #[inline]
    pub(in super::super) fn waits_in_line(&mut self, id: NodeId, root: RootId, memory: MemoryId) {
        if self.lines.is_some() {
            self.change_lines(|lines, engine| {
                let node = &engine.nodes[id];
                lines.wait(id, node, (root, memory));
                lines.hold(id, node, !engine.lacks_only_memory(id));
            });
        }
    }

    /// A root has memory somewhere, or has none there any more.
    #[inline]
    pub(in super::super) fn slot_has_changed(&mut self, root: RootId, memory: MemoryId) {
        if self.lines.is_some() {
            self.change_lines(|lines, engine| {
                let Some(entry) = engine.roots.get(root) else { return };
                let slot = entry.slots.iter().find(|(of, _)| *of == memory);
                if slot.is_none_or(|(_, slot)| slot.waiting().is_none()) {
                    lines.nobody_waits((root, memory));
                }
                lines.slot((root, memory), entry.allocation(memory).is_some(), entry.home.is_some());
            });
        }
    }
}

impl<S: Shell> Engine<S> {
    /// What the lines of users say that they would not if they were built now, for tests.
    pub fn wrong_in_lines(&self) -> Option<String> {
        let is_live = |node: &Node<S>| node.state == State::Gated && node.end.is_none();
        let needs = |id| self.nodes.get(id).is_some_and(is_live);
        self.lines.as_ref()?.differs_from(&self.built_lines(), needs)
    }
}
