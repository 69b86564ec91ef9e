//! Transfers: that they are right, all that is needed, and no more; and what they do to the copies.

use super::*;

impl Account<'_> {
    /// What moves is what is stale, all of it and nothing else, and in the fewest pieces that do not fail for each other.
    pub(super) fn check_copies(
        &mut self,
        item: usize,
        at: usize,
        copies: &[Transfer],
        mut in_heap: Vec<bool>,
    ) -> Result<(), Fault> {
        // An allocation that has gone is nobody's any more.
        for root in (0..in_heap.len()).filter(|root| !in_heap[*root]) {
            (self.pinned[root], self.exposed[root]) = (None, false);
        }
        let handed = self.check_steps(item, copies)?;
        let mut missing: Vec<u16> = vec![0; self.elements.len()];
        let mut sources: Vec<Set> = vec![0; self.elements.len()];
        // What nobody has written, in memory that is not zeroed by itself.
        let mut rubbish: Vec<Set> = vec![0; self.elements.len()];
        let (mut poisoned, mut known) = (self.has_useless_root(item), Vec::new());
        for &root in &handed {
            // What nobody has written is cleared before the host has it.
            let home = self.program.roots[root].home.unwrap_or(0);
            if self.program.items[item].kind == Kind::Group(None)
                || self.program.items[item].kind == Kind::Guard
            {
                self.program.elements_of(root).for_each(|e| rubbish[e] = self.rubbish(e, home));
            }
        }
        for (e, _) in self.needs[item].iter().filter(|(_, n)| n.old) {
            let (element, memory) = (&self.elements[*e], self.program.memory_at(item, *e));
            poisoned |= matches!(element.content, Content::Poisoned(_) | Content::Lost);
            if element.content == Content::Written && element.current & 1 << memory == 0 {
                missing[*e] = element.current;
                sources[*e] = self.sources(*e, &mut known);
            }
            let gone = self.is_home_lost(self.program.root_of(*e));
            rubbish[*e] |= if gone { 0 } else { self.rubbish(*e, memory) };
        }
        let hands = |copy: &Transfer| handed.contains(&(copy.root.sort_key().0 as usize));
        if poisoned {
            return match copies.iter().all(hands) {
                true => Ok(()),
                false => Err(Fault::new("a group that was doomed when it was planned moves data")),
            };
        }
        let mut base = 0;
        for root in &self.program.roots {
            let range = base..base + root.len();
            let needed = fewest(root, &sources[range.clone()]);
            let count = |counts: &dyn Fn(Step) -> bool| {
                let steps = (at + 1..self.nodes.len()).filter(|&n| match self.nodes[n].what {
                    What::Copy(copy) => {
                        counts(copy.step) && self.nodes[n].elements.iter().all(|e| range.contains(e))
                    }
                    What::Item(_) => false,
                });
                steps.count()
            };
            let (clears, few) = (count(&|s| s == Step::Clear), fewest(root, &rubbish[range.clone()]));
            if clears != few && !self.blind {
                return Err(Fault::new(format!("{clears} clears where {few} are enough")));
            }
            let made = count(&|s| matches!(s, Step::Direct | Step::Download));
            let as_many = made == needed || self.program.chunk.is_some() && made > needed;
            if !as_many && !self.blind {
                return Err(Fault::new(format!("{made} transfers where {needed} are enough")));
            }
            self.transfers += needed as u64;
            base += root.len();
        }
        for (i, copy) in copies.iter().enumerate() {
            let (from, to) = (copy.from.0 as usize, copy.to.0 as usize);
            let root = copy.root.sort_key().0 as usize;
            if to != self.program.memory_of(item, root) {
                return Err(Fault::new("a transfer to where nobody needs it"));
            }
            if matches!(copy.step, Step::Map | Step::Unmap) {
                continue;
            }
            if copy.step == Step::Clear {
                let elements = &self.nodes[at + 1 + i].elements;
                if from != to || elements.iter().any(|e| std::mem::take(&mut rubbish[*e]) == 0) {
                    return Err(Fault::new("a clear of what is written, or clear already"));
                }
                continue;
            }
            if copy.step == Step::Upload {
                let ahead = &copies[i.wrapping_sub(1)];
                let pair = Transfer { step: Step::Upload, ..*ahead } == *copy && ahead.step == Step::Download;
                pair.then_some(()).ok_or_else(|| Fault::new("an upload without its download"))?;
                continue;
            }
            let unit = self.program.roots[copy.root.sort_key().0 as usize].unit;
            let bytes = copy.bounds.volume() * unit;
            if to == 0 && !std::mem::replace(&mut in_heap[root], true) {
                let source = &self.program.memories[from - 1];
                let all = self.program.roots[root].len() * unit;
                let is_small = self.program.chunk.is_none_or(|chunk| all <= chunk);
                if is_small && !source.addressable && bytes > source.limits.1 {
                    self.pinned[root] = Some(from);
                }
            }
            if self.is_staged(root, from, to, bytes) != (copy.step == Step::Download) {
                return Err(Fault::new("a transfer takes the wrong way"));
            }
            let elements = &self.nodes[at + 1 + i].elements;
            if elements.iter().any(|&e| self.pending(e, from) != self.pending(elements[0], from))
                && !self.blind
            {
                return Err(Fault::new("a transfer of what fails apart"));
            }
            let most = self.program.chunk.filter(|_| copy.step == Step::Download);
            if most.is_some_and(|most| elements.len() > 1 && elements.len() * unit > most) {
                return Err(Fault::new("a chunk that is too large"));
            }
            for &e in elements {
                self.moved += unit as u64;
                if missing[e] & 1 << from == 0 {
                    return Err(Fault::new(
                        "a transfer of what is not stale, or from where it is not current",
                    ));
                }
                missing[e] = 0;
            }
        }
        match (missing.iter().any(|s| *s != 0), rubbish.iter().any(|r| *r != 0)) {
            (true, _) => Err(Fault::new("something stale is not moved")),
            (_, true) => Err(Fault::new("something that is read, and was never written, is not cleared")),
            _ => Ok(()),
        }
    }

    /// Whether a root stays in a memory that is lost.
    pub(super) fn is_home_lost(&self, root: usize) -> bool {
        let home = self.program.roots[root].home;
        home.is_some_and(|m| self.lost.contains(&self.program.memories[m - 1].context))
    }

    /// Whether nobody knows whose a root's memory is, or it is lost: who would use it fails, and has nothing moved.
    pub(super) fn is_useless(&self, root: usize) -> bool {
        members(self.steps[root]).any(|n| self.nodes[n].fate == Some(Fate::Bad)) || self.is_home_lost(root)
    }

    pub(super) fn has_useless_root(&self, item: usize) -> bool {
        self.used_roots(item).into_iter().any(|root| self.is_useless(root))
    }

    /// Whether nobody has written an element, and fresh memory is not as good as that here.
    pub(super) fn rubbish(&self, e: usize, memory: usize) -> Set {
        let dirty = memory > 0 && !self.program.memories[memory - 1].zeroed;
        let element = &self.elements[e];
        Set::from(dirty && element.content == Content::Never && !element.users[memory].cleared)
    }

    /// Host memory is to be pinned by whom its data comes from, and cleared where none comes at once, and nowhere else.
    pub(in super::super) fn check_pinning(&self, asked: &Allocate, copies: &[Transfer]) -> Result<(), Fault> {
        let root = asked.root.sort_key().0 as usize;
        let by = self.pinned[root].filter(|_| asked.memory == HEAP);
        if asked.pinned.as_ref().map(|pinning| pinning.by.0 as usize) != by {
            return Err(Fault::new(format!("asks for {asked:?}, and {by:?} is to pin it")));
        }
        let Some(pinning) = &asked.pinned else { return Ok(()) };
        let arrives = |copy: &&Transfer| {
            copy.root == asked.root && copy.to == HEAP && matches!(copy.step, Step::Direct | Step::Upload)
        };
        let boxes =
            copies.iter().filter(arrives).map(|copy| copy.bounds).chain(pinning.clear.iter().copied());
        let mut elements: Vec<usize> =
            boxes.flat_map(|bounds| self.program.roots[root].elements(&bounds)).collect();
        elements.sort_unstable();
        match elements.into_iter().eq(0..self.program.roots[root].len()) {
            true => Ok(()),
            false => Err(Fault::new(format!("{pinning:?}, where {copies:?} arrive"))),
        }
    }

    /// Memory that host and devices have in turn is given to who is to use it, if that is not who has it; and no other is.
    /// Says which roots change hands.
    fn check_steps(&self, item: usize, copies: &[Transfer]) -> Result<Vec<usize>, Fault> {
        let step = match self.program.items[item].kind {
            Kind::Group(Some(_)) => Step::Unmap,
            _ => Step::Map,
        };
        let changes = |root: &usize| {
            let has_it = self.with_host[*root] == (step == Step::Map);
            let there = self.program.roots[*root].len() > 0;
            self.program.is_mapped(*root) && !has_it && there && !self.is_useless(*root)
        };
        let expected: Vec<usize> = self.used_roots(item).into_iter().filter(changes).collect();
        let steps = copies.iter().filter(|c| matches!(c.step, Step::Map | Step::Unmap));
        let mut made: Vec<usize> = Vec::new();
        for copy in steps {
            let root = copy.root.sort_key().0 as usize;
            if copy.step != step || copy.bounds != self.program.roots[root].extent() {
                return Err(Fault::new("memory is given to the wrong side"));
            }
            made.push(root);
        }
        made.sort_unstable();
        match made == expected {
            true => Ok(made),
            false => Err(Fault::new(format!("{made:?} change hands where {expected:?} are to"))),
        }
    }

    /// Who will have written this copy, and has not ended: the only one that can fail whoever reads it from there.
    fn pending(&self, e: usize, memory: usize) -> Option<usize> {
        self.elements[e].users[memory].last.filter(|n| self.nodes[*n].settled.is_none())
    }

    /// Where an element can be had, and whose failure it would share there, as positions among all that is `known`.
    fn sources(&self, e: usize, known: &mut Vec<(usize, Option<usize>)>) -> Set {
        let current = (0..u16::BITS as usize).filter(|m| self.elements[e].current & 1 << m != 0);
        current.fold(0, |set, memory| {
            let source = (memory, self.pending(e, memory));
            let at = known.iter().position(|k| *k == source).unwrap_or(known.len());
            if at == known.len() {
                known.push(source);
            }
            set | bit(at)
        })
    }

    pub(super) fn is_staged(&self, root: usize, from: usize, to: usize, bytes: usize) -> bool {
        let context = |m: usize| self.program.memories[m - 1].context;
        let own = |m: usize| m > 0 && self.pinned[root].is_some_and(|by| context(by) == context(m));
        if from == 0 && own(to) || to == 0 && own(from) {
            return false;
        }
        let memory = |m: usize| self.program.memories.get(m.wrapping_sub(1)).filter(|m| !m.addressable);
        match (memory(from), memory(to)) {
            (Some(_), Some(_)) => !self.program.is_linked(from, to),
            (Some(source), None) => bytes > source.limits.1,
            (None, Some(target)) => bytes > target.limits.0,
            (None, None) => false,
        }
    }

    /// The two nodes are one and the same if the transfer takes one step.
    pub(super) fn enter_copy(&mut self, reader: usize, writer: usize) {
        let What::Copy(copy) = self.nodes[reader].what else { return };
        let (from, to) = (copy.from.0 as usize, copy.to.0 as usize);
        match copy.step {
            Step::Clear => return self.enter_clear(reader, to),
            Step::Map | Step::Unmap => return self.enter_step(reader, copy),
            _ => {}
        }
        let (mut before, mut reads, mut overwrites) = (0, 0, 0);
        for &e in &self.nodes[reader].elements {
            let element = &mut self.elements[e];
            let source = &mut element.users[from];
            before |= source.writers;
            let lineage = source.lineage;
            reads |= lineage;
            source.readers |= bit(reader);
            let target = &mut element.users[to];
            overwrites |= target.readers | target.writers;
            target.writers |= bit(writer);
            target.last = Some(writer);
            target.lineage = lineage | bit(reader) | bit(writer);
            element.current |= 1 << to;
            element.forget(to);
        }
        self.nodes[reader].reads = reads;
        if reader != writer {
            self.close(reader, before);
            self.nodes[writer].reads = reads | bit(reader);
            self.close(writer, overwrites | bit(reader));
        } else {
            self.close(reader, before | overwrites);
        }
    }

    /// Memory changes hands, as a whole: behind all its users so far, and before all others, who fail if it does.
    fn enter_step(&mut self, at: usize, step: Transfer) {
        let (root, memory) = (step.root.sort_key().0 as usize, step.to.0 as usize);
        let (mut before, mut clears) = (self.steps[root], 0);
        for &e in &self.nodes[at].elements {
            let element = &mut self.elements[e];
            let users = &mut element.users[memory];
            before |= users.readers | users.writers | users.beside;
            users.writers |= bit(at);
            // The host is to find zeros where nobody has written.
            if step.step == Step::Map && element.content == Content::Never && users.cleared {
                clears |= users.lineage;
            }
        }
        self.nodes[at].reads = clears;
        self.nodes[at].shares = self.steps[root];
        self.steps[root] |= bit(at);
        self.with_host[root] = step.step == Step::Map;
        self.close(at, before);
    }

    /// A clear reads nothing, and makes no version: it only waits for whoever uses that copy.
    fn enter_clear(&mut self, at: usize, memory: usize) {
        let mut before = 0;
        for &e in &self.nodes[at].elements {
            let users = &mut self.elements[e].users[memory];
            before |= users.readers | users.writers | users.beside;
            users.writers |= bit(at);
            users.last = Some(at);
            users.lineage = bit(at);
            users.cleared = true;
        }
        self.close(at, before);
    }
}
