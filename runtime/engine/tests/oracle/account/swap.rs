//! Roots that are swapped out in a memory: the heap takes in what it does not have, and gives it back.

use super::*;

impl Account<'_> {
    /// These steps have been planned for it.
    pub(crate) fn swapped_out(&mut self, root: usize, memory: usize, copies: &[Transfer]) {
        let (base, mut writer_of): (usize, Vec<Set>) =
            (self.program.base(root), vec![0; self.program.roots[root].len()]);
        for copy in copies {
            let at = self.nodes.len();
            let mut node = Self::node(What::Copy(*copy));
            node.elements = self.program.roots[root].elements(&copy.bounds).map(|e| base + e).collect();
            if !matches!(copy.step, Step::Upload | Step::Clear) {
                self.transfers += 1;
                self.moved += (node.elements.len() * self.program.roots[root].unit) as u64;
            }
            node.reads |= if copy.step == Step::Upload { bit(at - 1) } else { 0 };
            for &e in &node.elements {
                node.reads |= writer_of[e - base];
                if copy.to.0 as usize != memory && copy.step != Step::Download {
                    writer_of[e - base] = bit(at);
                    if copy.to == HEAP {
                        self.saved(e, memory, at);
                    }
                }
            }
            self.nodes.push(node);
        }
    }

    /// The heap has an element as it is in a memory: the newest version, if that has been written.
    fn saved(&mut self, e: usize, memory: usize, at: usize) {
        let may_change =
            self.elements[e].pending.iter().any(|(guard, _)| self.nodes[*guard].settled.is_none());
        let is_current = self.has_come(e, memory) && !may_change;
        let element = &mut self.elements[e];
        element.current = element.current & !1 | u16::from(is_current);
        let lineage = element.users[memory].lineage;
        element.users[0].last = Some(at);
        element.users[0].lineage = lineage | bit(at);
        element.forget(0);
    }

    /// Whether the newest version of an element is in a memory now.
    fn has_come(&self, e: usize, memory: usize) -> bool {
        self.elements[e].current & 1 << memory != 0 && self.is_settled_in(e, memory)
    }

    fn is_settled_in(&self, e: usize, memory: usize) -> bool {
        let element = &self.elements[e];
        let mut writers = members(element.users[memory].lineage).chain(element.author);
        writers.all(|node| self.nodes[node].settled.is_some())
    }

    /// There is no room any more for what is aside, and it is lost.
    pub(crate) fn is_lost_aside(&mut self, root: usize, memory: usize, back: &[usize]) {
        back.iter().for_each(|at| self.nodes[*at].own_failure = true);
        for e in self.program.elements_of(root) {
            self.lose_copy(e, memory);
        }
        self.has_lost_aside = true;
    }

    /// There is no room for it any more. What was written before is in the heap.
    pub(crate) fn stays_away(&mut self, root: usize, memory: usize, back: &[usize]) {
        back.iter().for_each(|at| self.nodes[*at].own_failure = true);
        for e in self.program.elements_of(root) {
            let (had_come, is_settled) = (self.has_come(e, memory), self.is_settled_in(e, memory));
            let element = &mut self.elements[e];
            element.users[memory].cleared = false;
            if element.content == Content::Written && had_come {
                element.current = element.current & !(1 << memory) | 1;
            }
            let pending = if is_settled { &mut element.pending[..] } else { &mut [] };
            let reserved = pending.iter_mut().filter(|(_, before)| *before & 1 << memory != 0);
            reserved.for_each(|(_, before)| *before = *before & !(1 << memory) | 1);
        }
    }
}
