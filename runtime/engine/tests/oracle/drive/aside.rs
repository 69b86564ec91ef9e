//! Somebody needs room: what is in a memory is set aside at any moment, and comes back.

use super::*;

impl Drive<'_> {
    pub(super) fn set_aside(&mut self) -> Result<(), Fault> {
        let (memories, first) = (self.program.memories.len(), self.ids.len());
        let Some(rng) = self.aside.as_mut().filter(|_| memories > 0) else { return Ok(()) };
        if !rng.chance(30) || first + 8 > MOST / 2 {
            return Ok(());
        }
        let memory = 1 + rng.below(memories);
        let id = MemoryId(memory as u32);
        let could = self.engine.could_be_set_aside(id);
        if could.is_empty() {
            return Ok(());
        }
        let chosen = could[rng.below(could.len())];
        let root = chosen.sort_key().0 as usize;
        self.engine.set_aside_now(chosen, id, &mut self.turn);
        let record = self.engine.record().ok_or_else(|| Fault::new("no record"))?;
        let mut copies = Vec::new();
        for (i, node) in record.nodes[first..].iter().enumerate() {
            let Recorded::Transfer(copy) = node else {
                return Err(Fault::new("setting aside plans no group"));
            };
            copies.push(*copy);
            self.ids.push(record.id(first + i).ok_or_else(|| Fault::new("a node without an id"))?);
            self.fails.push(false);
        }
        self.edges = record.edges.len();
        if record.nodes.len() > MOST {
            return Err(Fault::new("too many nodes"));
        }
        self.account.set_aside(root, memory, &copies);
        for at in first..self.ids.len() {
            self.contexts.push(self.context_of(at));
        }
        self.steps_aside.extend(first..self.ids.len());
        let is_user = |at: &usize| {
            self.account.nodes[*at].settled.is_none() && self.waits_for(*at).contains(&(root, memory))
        };
        let waiting = (0..first).filter(|at| !self.steps_aside.contains(at)).filter(is_user).collect();
        self.slots[root][memory] = Some(waiting);
        self.ready[root][memory] = false;
        let back = |at: &usize| match self.account.nodes[*at].what {
            What::Copy(copy) => copy.to.0 > 0 && copy.step != Step::Upload,
            What::Item(_) => false,
        };
        self.away.push(((root, memory), (first..self.ids.len()).filter(back).collect()));
        // Out and back, both by way of the heap, whose allocation may be missing.
        let needs_heap = |at: &usize| match self.account.nodes[*at].what {
            What::Copy(copy) => copy.step != Step::Clear,
            What::Item(_) => false,
        };
        let heaps: Vec<usize> = (first..self.ids.len()).filter(needs_heap).collect();
        if !heaps.is_empty() && !self.ready[root][0] {
            self.slots[root][0].get_or_insert_default().extend(heaps);
        }
        self.note(|s| {
            let steps: Vec<String> =
                (first..s.ids.len()).map(|n| format!("\n    {n}: {}", s.name(n))).collect();
            format!("sets {root} aside in {memory}{}", steps.concat())
        });
        self.absorb()
    }
}

impl Drive<'_> {
    /// What cannot be copied to the heap stays where it is.
    pub(super) fn note_stay(&mut self, at: usize, is_done: bool) {
        let What::Copy(Transfer { root, from, to: HEAP, .. }) = self.account.nodes[at].what else { return };
        if is_done || !self.steps_aside.contains(&at) {
            return;
        }
        let (root, memory) = (root.sort_key().0 as usize, from.0 as usize);
        self.away.retain(|(of, _)| *of != (root, memory));
        (self.ready[root][memory], self.slots[root][memory]) = (true, None);
    }
}
