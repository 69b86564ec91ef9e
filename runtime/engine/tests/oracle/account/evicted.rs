//! Memory that is given up because somebody asks.

use windlass_engine::{Box3, Mode};

use super::*;

impl Account<'_> {
    /// Whether a node that has not settled uses a root, in one memory or in any.
    pub(crate) fn is_used(&self, root: usize, memory: Option<usize>) -> bool {
        let is_meant = |at: usize| memory.is_none_or(|memory| memory == at);
        self.nodes.iter().filter(|node| node.settled.is_none()).any(|node| match node.what {
            What::Item(item) => {
                // A group that asks for nothing of a root is no user of it; a host accessor is.
                let item_of = &self.program.items[item];
                let asks = |(of, bounds, _): &(usize, Box3, Mode)| {
                    *of == root && (item_of.kind == Kind::Guard || !bounds.is_empty())
                };
                item_of.accesses.iter().any(asks) && is_meant(self.program.memory_of(item, root))
            }
            What::Copy(copy) => {
                let (from, to) = (copy.from.0 as usize, copy.to.0 as usize);
                copy.root.sort_key().0 as usize == root
                    && match copy.step {
                        Step::Download => is_meant(from),
                        Step::Upload => is_meant(to),
                        _ => is_meant(from) || is_meant(to),
                    }
            }
        })
    }

    /// Nobody counts on a root's copy in a device's memory.
    pub(crate) fn may_go(&self, root: usize, memory: usize) -> bool {
        let has_come = |element: &Element, other: usize| {
            members(element.users[other].lineage).all(|node| self.nodes[node].settled.is_some())
        };
        let is_elsewhere = |element: &Element| match element.content {
            Content::Written => {
                let reserved = element.pending.iter().fold(0, |all, (_, current)| all | current);
                let others = (0..element.users.len()).filter(|other| *other != memory);
                let mut current = others.filter(|other| element.current & 1 << other != 0);
                (element.current | reserved) & 1 << memory == 0
                    || current.any(|other| has_come(element, other))
            }
            Content::Never | Content::Poisoned(_) | Content::Lost => true,
        };
        self.program.roots[root].home.is_none()
            && self.program.elements_of(root).all(|e| is_elsewhere(&self.elements[e]))
            && !self.is_used(root, Some(memory))
    }

    pub(crate) fn evicted(&mut self, root: usize, memory: usize) {
        for e in self.program.elements_of(root) {
            let element = &mut self.elements[e];
            element.current &= !(1 << memory);
            element.pending.iter_mut().for_each(|(_, current)| *current &= !(1 << memory));
            element.users[memory] = Users::default();
        }
    }
}
