//! Somebody needs room: what is in a memory is swapped out at any moment, and comes back.

use super::*;

impl Drive<'_> {
    /// There is no room for what was asked for, and groups behind may give theirs to it.
    pub(super) fn lack_room(&mut self) {
        let Some(rng) = &mut self.lacks else { return };
        let asked: Vec<_> = self.allocations.iter().filter(|asked| asked.memory != HEAP).collect();
        if !asked.is_empty() && rng.chance(60) {
            let Allocate { root, memory, .. } = asked[rng.below(asked.len())];
            self.engine.lacks_room(*root, *memory);
        }
    }

    /// Groups that could run have given up memory, and wait for it as others do that need it.
    pub(super) fn take_in_what_was_given_up(&mut self) {
        for (root, memory) in self.places_of_roots() {
            let there = self.engine.allocation(self.roots[root], MemoryId(memory as u32)).is_some();
            let is_known = !self.ready[root][memory] || self.leaving.contains(&(root, memory));
            if !there && !is_known && self.engine.shape(self.roots[root]).is_some() {
                self.note(|_| format!("  {root} is given up in {memory}"));
                self.note_leaving(root, memory);
            }
        }
    }

    /// Who uses what is kept up to date as it would be found now.
    pub(super) fn check_lines(&self) -> Result<(), Fault> {
        match self.checks_lines.then(|| self.engine.wrong_in_lines()).flatten() {
            Some(what) => Err(Fault::new(format!("the lines of users are wrong: {what}"))),
            None => Ok(()),
        }
    }

    /// Every root, in every device's memory.
    fn places_of_roots(&self) -> Vec<(usize, usize)> {
        let memories = if self.lacks.is_some() { self.program.memories.len() } else { 0 };
        (0..self.roots.len()).flat_map(|root| (1..=memories).map(move |memory| (root, memory))).collect()
    }

    /// Whether a memory is the one for what is swapped out while the heap's is used.
    pub(super) fn is_aside(&self, memory: usize) -> bool {
        memory == self.program.memories.len() + 1
    }

    /// Whether a root that is on its way goes aside.
    pub(super) fn goes_aside(&self, root: usize, memory: usize) -> bool {
        self.aside.contains(&(root, memory))
    }

    /// What was aside goes with the swap.
    fn see_what_is_aside(&mut self) {
        let aside = self.program.memories.len() + 1;
        for root in 0..self.roots.len() {
            let is_there = self.engine.allocation(self.roots[root], MemoryId(aside as u32)).is_some();
            if self.ready[root][aside] && !is_there {
                self.ready[root][aside] = false;
                let elements = self.program.elements_of(root);
                elements.for_each(|e| self.world.tokens[aside][e] = mix(0xa51de, e as u64));
            }
        }
    }

    fn note_leaving(&mut self, root: usize, memory: usize) {
        let is_user = |at: &usize| {
            let waits = || self.waits_for(*at).contains(&(root, memory)) && !self.swap_steps.contains(at);
            self.account.nodes[*at].settled.is_none() && !self.has_begun(*at) && waits()
        };
        let waiting = (0..self.ids.len()).filter(is_user).collect();
        self.slots[root][memory] = Some(waiting);
        self.ready[root][memory] = false;
        self.leaving.push((root, memory));
    }

    pub(super) fn swap_out(&mut self) -> Result<(), Fault> {
        let (memories, nodes) = (self.program.memories.len(), self.ids.len());
        let Some(rng) = self.swaps.as_mut().filter(|_| memories > 0) else { return Ok(()) };
        if !rng.chance(30) || nodes + 8 > MOST / 2 {
            return Ok(());
        }
        let memory = 1 + rng.below(memories);
        let id = MemoryId(memory as u32);
        let could = self.engine.could_be_swapped_out(id);
        if could.is_empty() {
            return Ok(());
        }
        let chosen = could[rng.below(could.len())];
        let root = chosen.sort_key().0 as usize;
        self.note_leaving(root, memory);
        self.note(|_| format!("swaps {root} out of {memory}"));
        self.engine.swap_out_now(chosen, id, &mut self.turn);
        self.absorb()
    }

    /// Whether a node was queued: from then on it runs with what it has.
    fn has_begun(&self, at: usize) -> bool {
        !self.engine.is_gated(self.ids[at])
    }

    /// Steps of roots that are swapped out may be planned whenever something ends, and memory be asked for that they have left.
    pub(super) fn take_in_swaps(&mut self) -> Result<(), Fault> {
        self.take_in_what_was_given_up();
        self.see_what_is_aside();
        let first = self.ids.len();
        let record = self.engine.record().ok_or_else(|| Fault::new("no record"))?;
        let mut copies = Vec::new();
        for (id, node) in &record.nodes[first..] {
            let Recorded::Swap(copy) = node else {
                return Err(Fault::new("a node that nobody has submitted"));
            };
            copies.push(*copy);
            self.ids.push(*id);
            self.fails.push(false);
        }
        self.edges = record.edges.len();
        if record.nodes.len() > MOST {
            return Err(Fault::new("too many nodes"));
        }
        let host = |memory: MemoryId| memory == HEAP || self.is_aside(memory.0 as usize);
        let place = |copy: &Transfer| {
            let memory = if host(copy.from) { copy.to } else { copy.from };
            (copy.root.sort_key().0 as usize, memory.0 as usize)
        };
        let through = |copy: &Transfer| if host(copy.from) { copy.from } else { copy.to }.0 as usize;
        let copies: Vec<(Transfer, (usize, usize), usize)> =
            copies.iter().map(|copy| (*copy, place(copy), through(copy))).collect();
        for steps in copies.chunk_by(|a, b| a.1 == b.1) {
            let (root, memory) = steps[0].1;
            let aside = steps.iter().any(|(_, _, through)| self.is_aside(*through));
            self.aside.retain(|of| *of != (root, memory));
            self.aside.extend(aside.then_some((root, memory)));
            let steps: Vec<Transfer> = steps.iter().map(|(copy, ..)| *copy).collect();
            self.account.swapped_out(root, memory, &steps);
        }
        for (at, (copy, (root, memory), through)) in (first..).zip(copies) {
            self.contexts.push(self.context_of(at));
            self.swap_steps.push(at);
            let is_back = copy.to.0 as usize == memory;
            if is_back && copy.step != Step::Upload {
                self.back.entry((root, memory)).or_default().push(at);
            }
            // Out and back, both by way of the heap, whose allocation may be missing. That aside is only asked for by who goes there.
            let asks = match self.is_aside(through) {
                true => !is_back && copy.step != Step::Upload,
                false => copy.step != Step::Clear,
            };
            if asks && !self.ready[root][through] {
                self.slots[root][through].get_or_insert_default().push(at);
            }
            self.note(|s| format!("    {at}: {}", s.name(at)));
        }
        self.note_who_left();
        Ok(())
    }

    fn note_who_left(&mut self) {
        for of in std::mem::take(&mut self.leaving) {
            let (root, memory) = (self.roots[of.0], MemoryId(of.1 as u32));
            let asked = self.turn.allocate.iter().position(|a| (a.root, a.memory) == (root, memory));
            if let Some(at) = asked {
                self.allocations.push(self.turn.allocate.remove(at));
                self.back.entry(of).or_default();
            } else if self.engine.allocation(root, memory).is_some() {
                // Somebody has come who wants it elsewhere.
                (self.ready[of.0][of.1], self.slots[of.0][of.1]) = (true, None);
            } else {
                self.leaving.push(of);
            }
        }
    }

    /// What cannot be copied to the heap stays where it is.
    pub(super) fn note_stay(&mut self, at: usize, is_done: bool) {
        let What::Copy(Transfer { root, from, to, .. }) = self.account.nodes[at].what else { return };
        let is_aside = self.is_aside(to.0 as usize);
        if is_done || !(to == HEAP || is_aside) || !self.swap_steps.contains(&at) {
            return;
        }
        let of = (root.sort_key().0 as usize, from.0 as usize);
        if is_aside {
            // What was to come back has not left.
            let back = self.back.get(&of).into_iter().flatten();
            back.for_each(|at| self.account.nodes[*at].own_failure = true);
        }
        self.leaving.retain(|leaving| *leaving != of);
        self.back.remove(&of);
        (self.ready[of.0][of.1], self.slots[of.0][of.1]) = (true, None);
    }
}
