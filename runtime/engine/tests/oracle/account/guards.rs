//! What guards make of the data. Until one has ended, the heap's copy is the one that counts, for the guard may write
//! it; one that never had its memory wrote nothing, and then every copy counts that did before.

use super::*;

impl Element {
    pub(super) fn await_guard(&mut self, at: usize, memory: usize) {
        self.content = Content::Written;
        self.pending.push((at, self.current & !(1 << memory)));
        self.current = 1 << memory;
    }

    fn end_guard(&mut self, at: usize, wrote: bool) {
        let Some(place) = self.pending.iter().position(|(guard, _)| *guard == at) else { return };
        let (_, before) = self.pending.remove(place);
        match self.pending.get_mut(place) {
            _ if wrote => {}
            Some((_, next)) => *next |= before,
            None => self.current |= before,
        }
    }

    /// Nothing holds the newest version any more. If guards were to have it, none of them will write.
    pub(super) fn fall_back(&mut self) {
        if self.current == 0 {
            self.current = self.pending.drain(..).fold(0, |all, (_, before)| all | before);
        }
    }

    /// A copy is overwritten, or gone.
    pub(super) fn forget(&mut self, memory: usize) {
        self.pending.iter_mut().for_each(|(_, before)| *before &= !(1 << memory));
    }
}

impl Account<'_> {
    /// Where what runs on the host is to have its data of each root: in a memory that the host reaches and that holds all of it, unless it
    /// only reads and finds it in the heap; and in the heap where there is none.
    pub(in super::super) fn choose(&mut self, item: usize) {
        let spec = &self.program.items[item];
        let shown_in = |root: usize| {
            let range = self.program.elements_of(root);
            let needs = || self.needs[item].iter().filter(|(e, _)| range.contains(e));
            let holds = |memory: usize| {
                let current = |e: &Element| e.content == Content::Written && e.current & 1 << memory != 0;
                needs().count() > 0 && needs().all(|(e, _)| current(&self.elements[*e]))
            };
            let shown = |memory: &usize| self.program.memories[*memory - 1].addressable && holds(*memory);
            let stays = spec.kind == Kind::Guard && spec.in_heap || self.program.roots[root].home.is_some();
            let in_heap = stays || needs().all(|(_, need)| !need.new) && holds(0);
            (1..=self.program.memories.len()).find(shown).filter(|_| !in_heap).unwrap_or(0)
        };
        let mut all = spec.shown_in.get();
        (0..self.program.roots.len()).for_each(|root| all[root] = shown_in(root));
        spec.shown_in.set(all);
    }

    /// Whether a guard would have data that is known to be no good.
    pub(super) fn is_refused(&self, item: usize) -> bool {
        let bad = |e: usize| matches!(self.elements[e].content, Content::Poisoned(_) | Content::Lost);
        self.needs[item].iter().any(|(e, need)| need.old && bad(*e)) || self.has_useless_root(item)
    }

    /// A guard that overwrites, where there is memory for it: it has that at once if nobody uses the root, and then what was
    /// there is of no interest.
    pub(in super::super) fn overwrites_at_once(&mut self, item: usize, root: usize) {
        let uses = |what: &What| match what {
            What::Item(other) => {
                let spec = &self.program.items[*other];
                let of_root = |(r, bounds, _): &(usize, windlass_engine::Box3, _)| {
                    let some = self.program.roots[*r].elements(bounds).next().is_some();
                    *r == root && (some || spec.kind == Kind::Guard)
                };
                spec.accesses.iter().any(of_root)
            }
            What::Copy(copy) => copy.root.sort_key().0 as usize == root,
        };
        let is_exposed = self.exposed[root] && self.program.memory_of(item, root) == 0;
        let is_used = self.nodes.iter().any(|node| node.settled.is_none() && uses(&node.what));
        let elsewhere = self.program.is_mapped(root) && !self.with_host[root];
        let rubbish = |(e, _): &(usize, Need)| self.rubbish(*e, self.program.memory_at(item, *e)) != 0;
        let is_clear = !self.needs[item].iter().any(rubbish);
        if !is_used && !elsewhere && is_clear && !is_exposed && !self.is_useless(root) {
            self.needs[item].iter_mut().for_each(|(_, need)| need.old = false);
        }
    }

    /// The roots of which an item uses some.
    pub(in super::super) fn used_roots(&self, item: usize) -> Vec<usize> {
        let used =
            |root: &usize| self.needs[item].iter().any(|(e, _)| self.program.elements_of(*root).contains(e));
        (0..self.program.roots.len()).filter(used).collect()
    }

    /// A guard is let go of before it has its memory: groups that come later need not come after it, but where it was to be, and
    /// guards find it there like a group.
    pub(in super::super) fn let_go_of_guard(&mut self, at: usize) {
        self.end_guard(at, false);
        for element in &mut self.elements {
            let was = (element.guard_readers & bit(at), element.guard_writers & bit(at));
            element.guard_readers &= !was.0;
            element.guard_writers &= !was.1;
            element.group_readers |= was.0;
            element.group_writers |= was.1;
        }
    }

    /// A guard has ended, or will never have its memory.
    pub(in super::super) fn end_guard(&mut self, at: usize, wrote: bool) {
        if let What::Item(item) = self.nodes[at].what
            && self.program.items[item].kind == Kind::Guard
        {
            self.elements.iter_mut().for_each(|e| e.end_guard(at, wrote));
        }
    }
}
