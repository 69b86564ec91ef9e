//! The host's side: gates, allocations, host tasks, guards, cancelling, a context that is lost.

use super::*;

impl Drive<'_> {
    pub(super) fn open(&mut self, i: usize) -> Result<(), Fault> {
        let id = self.gates.swap_remove(i);
        let at = self.at(id)?;
        let What::Item(item) = self.account.nodes[at].what else { return Ok(()) };
        let spec = &self.program.items[item];
        let sick = spec.gate_fails
            || spec.after.iter().any(|(other, carries)| {
                let node = self.account.node_of(*other);
                *carries
                    && node.is_some_and(|n| {
                        let node = &self.account.nodes[at];
                        node.settled.is_none()
                            && !self.account.shares(at, n)
                            && self.account.fate(n) != Fate::Done
                    })
            });
        if sick {
            self.account.nodes[at].own_failure = true;
            self.engine.fail(id, Why::new(at as u32), &mut self.turn);
        }
        self.engine.open(id, &mut self.turn);
        Ok(())
    }

    /// Whether a memory's context is lost by now.
    pub(super) fn is_lost(&self, memory: usize) -> bool {
        let of = |context| self.program.memories[memory - 1].context == context;
        memory > 0
            && !self.is_aside(memory)
            && self.any_loss
            && self.program.loss.is_some_and(|(context, _)| of(context))
    }

    pub(super) fn allocate(&mut self, i: usize) {
        let Allocate { root, memory, pinned, .. } = self.allocations.swap_remove(i);
        let (r, m) = (root.sort_key().0 as usize, memory.0 as usize);
        // Who was to pin it is gone: other memory was asked for in its place.
        let by = pinned.as_ref().map(|pinning| pinning.by);
        let late = by.is_some_and(|by| self.is_lost(by.0 as usize));
        let waiting = if late { None } else { self.slots[r][m].take() }.unwrap_or_default();
        let bad = self.is_lost(m) || self.rng.chance(self.program.bad_allocations);
        let back = self.back.remove(&(r, m));
        if back.is_some() {
            self.world.forget(self.program, r, m);
        }
        let made = if bad { Err(Why::new(NO_MEMORY)) } else { Ok(self.allocated + 1) };
        if bad {
            waiting.iter().for_each(|&at| {
                self.account.nodes[at].own_failure |= self.account.nodes[at].settled.is_none();
            });
            if let Some(back) = back {
                match self.goes_aside(r, m) {
                    true => self.account.is_lost_aside(r, m, &back),
                    false => self.account.stays_away(r, m, &back),
                }
            }
        } else {
            self.allocated += 1;
            self.ready[r][m] |= !late;
            if let Some(pinning) = pinned.filter(|_| !late) {
                self.world.pin(self.program, r, &pinning.clear);
            }
        }
        self.note(|_| format!("  of {root:?} in {memory:?}: {made:?}, for {waiting:?}"));
        match by {
            Some(by) => {
                let is_pinned = made.is_ok();
                self.engine.pinned(root, by, made, is_pinned, &mut self.turn);
            }
            None => self.engine.allocated(root, memory, made, &mut self.turn),
        }
    }

    /// A host task runs; a guard begins, or ends.
    pub(super) fn host(&mut self, i: usize) -> Result<(), Fault> {
        let Running { id, at, seen, apart } = self.running[i];
        if !apart {
            self.check_heirs_on_host(at)?;
        }
        let item = match self.account.nodes[at].what {
            What::Item(item) => item,
            What::Copy(copy) => {
                self.host_copy(i, copy);
                return Ok(());
            }
        };
        if apart {
            self.running.swap_remove(i);
            self.engine.finish_host(id, Ok(()), &mut self.turn);
            return Ok(());
        }
        let guard = self.program.items[item].kind == Kind::Guard;
        let needs = &self.account.needs[item];
        if guard && seen.is_none() {
            self.check_guards(at, item)?;
            self.check_side(at, true)?;
            self.world.check_own(self.program, item, needs)?;
            self.running[i].seen = Some(self.world.look(self.program, item, needs));
            return Ok(());
        }
        self.running.swap_remove(i);
        let fails = self.fails[at];
        if fails {
            self.account.nodes[at].own_failure = true;
            let written = needs.iter().filter(|(_, n)| n.new).map(|(e, _)| *e);
            self.world.spoil(self.program, item, written, at);
        } else if let Some(seen) = seen {
            self.check_side(at, true)?;
            if self.world.look(self.program, item, needs) != seen {
                return Err(Fault::new(format!("what {at} holds changed under it")));
            }
            self.world.write(self.program, item, needs, seen);
            self.seen[item] = Some(seen);
        } else {
            self.check_guards(at, item)?;
            self.check_side(at, true)?;
            let needs = &self.account.needs[item];
            self.seen[item] = Some(self.world.run(self.program, item, needs));
        }
        let result = if fails { Err(Why::new(at as u32)) } else { Ok(()) };
        self.engine.finish_host(id, result, &mut self.turn);
        Ok(())
    }

    /// The host's half of a staged transfer.
    fn host_copy(&mut self, i: usize, copy: Transfer) {
        let Running { id, at, apart, .. } = self.running.swap_remove(i);
        let fails = self.fails[at];
        self.account.nodes[at].own_failure |= fails && self.account.nodes[at].settled.is_none();
        if !apart {
            self.copy(at, copy, fails);
        }
        self.copied.push(at);
        self.engine.finish_host(id, if fails { Err(Why::new(at as u32)) } else { Ok(()) }, &mut self.turn);
    }

    /// Nobody who conflicts with a guard runs while it is held.
    pub(super) fn check_guards(&self, at: usize, item: usize) -> Result<(), Fault> {
        for held in self.running.iter().filter(|r| r.seen.is_some()) {
            let What::Item(guard) = self.account.nodes[held.at].what else { continue };
            let conflict = self.account.needs[guard].iter().any(|(e, theirs)| {
                self.account.needs[item].iter().any(|(f, ours)| e == f && (theirs.new || ours.new))
            });
            if conflict {
                return Err(Fault::new(format!("{at} runs while {} is held", held.at)));
            }
        }
        Ok(())
    }

    pub(super) fn cancel(&mut self, i: usize) -> Result<(), Fault> {
        let item = self.cancels.swap_remove(i);
        let Some(at) = self.account.node_of(item) else { return Ok(()) };
        let given = self.lanes.iter().any(|l| l.fed.iter().any(|e| e.at == at));
        let started = given || self.running.iter().any(|r| r.at == at);
        let settled = self.account.nodes[at].settled.is_some();
        let certain = settled || self.account.fate(at) == Fate::Bad;
        let answer = self.engine.cancel(self.ids[at], Why::new(at as u32), &mut self.turn);
        self.note(|_| format!("  cancel {at}: {answer:?}"));
        let right = match answer {
            Cancelled::Skipped => {
                // If its device is lost, it would have failed for that alone, and now does not.
                self.account.nodes[at].own_failure = false;
                self.account.nodes[at].cancelled = true;
                self.account.let_go_of_guard(at);
                !started && !settled
            }
            Cancelled::TooLate => started && !settled,
            Cancelled::Done => certain,
        };
        right.then_some(()).ok_or_else(|| Fault::new(format!("cancelling {at} says {answer:?}")))
    }

    pub(super) fn lose(&mut self) {
        let Some(context) = self.loss.take() else { return };
        self.any_loss = true;
        let touched = if self.program.hangs { self.give_up(context) } else { Vec::new() };
        for at in 0..self.ids.len() {
            let passed = self.lanes.iter().any(|l| l.fed[..l.reported].iter().any(|e| e.at == at));
            let passed = passed || self.copied.contains(&at);
            let of_context =
                |m: usize| self.program.memories.get(m - 1).is_some_and(|of| of.context == context);
            let there = |(_, m): &(usize, usize)| *m > 0 && of_context(*m);
            let node = &self.account.nodes[at];
            let runs_there = self.contexts[at] == Some(context) && !node.cancelled;
            let given_up = |place: &(usize, usize)| touched.contains(place);
            let hit = runs_there || self.places(at).iter().any(|place| there(place) || given_up(place));
            if node.settled.is_none() && !passed && hit {
                self.account.nodes[at].own_failure = true;
            }
        }
        for (i, memory) in self.program.memories.iter().enumerate() {
            if memory.context == context {
                self.ready.iter_mut().for_each(|slots| slots[i + 1] = false);
            }
        }
        for &(root, memory) in &touched {
            self.ready[root][memory] = false;
        }
        for i in 0..self.running.len() {
            let on_host = self.places(self.running[i].at).into_iter().filter(|(_, memory)| *memory == 0);
            self.running[i].apart = on_host.into_iter().any(|place| touched.contains(&place));
        }
        // Guards that have not got what is lost will write nothing: what was kept in case of that counts again, and is not lost with it.
        for at in 0..self.ids.len() {
            let waits = !self.running.iter().any(|running| running.at == at);
            let is_hit = self.account.nodes[at].own_failure && self.account.nodes[at].settled.is_none();
            if waits && is_hit {
                self.account.end_guard(at, false);
            }
        }
        let id = ContextId(context as u32);
        if self.program.hangs {
            self.engine.will_abandon(id);
        }
        self.engine.lose(id, Why::new(LOST), &mut self.turn);
        let waits_for_heap = (0..self.roots.len()).filter(|root| self.slots[*root][0].is_some());
        self.account.lost(context, &touched, waits_for_heap);
        for &(root, memory) in touched.iter().filter(|(_, memory)| *memory == 0) {
            // The next allocation there is a fresh one.
            let elements = self.program.elements_of(root);
            elements.for_each(|e| self.world.tokens[memory][e] = 0);
        }
        for lane in self.lanes.iter_mut().filter(|l| l.context == context) {
            lane.lost = true;
            lane.called = false;
            lane.executed = lane.fed.len();
            lane.reported = lane.fed.len();
        }
    }

    /// What commands in flight on a context's lanes may touch for ever.
    fn give_up(&mut self, context: usize) -> Vec<(usize, usize)> {
        let lanes = self.lanes.iter().filter(|lane| lane.context == context);
        let hung: Vec<_> = lanes.flat_map(|lane| &lane.fed[lane.reported..]).collect();
        self.hung = hung.iter().flat_map(|entry| entry.memory.iter().copied()).collect();
        let mut touched: Vec<_> = hung.iter().flat_map(|entry| self.places(entry.at)).collect();
        touched.sort_unstable();
        touched.dedup();
        touched
    }
}
