//! Submitting: what is planned with an item, and whether the engine asks for the memory it needs.

use super::*;

impl Drive<'_> {
    pub(super) fn submit(&mut self, item: usize) -> Result<(), Fault> {
        let spec = &self.program.items[item];
        let lost = |d: usize| self.engine.lost(DeviceId(d as u32)).is_some();
        let device = match spec.kind {
            Kind::Group(Some(device)) if lost(device) => return Ok(()),
            Kind::Group(device) => device,
            Kind::Guard => None,
        };
        if device.is_none() {
            self.account.choose(item);
        }
        let first = self.ids.len();
        let id = match spec.kind {
            Kind::Guard => {
                let (root, bounds, mode) = spec.accesses[0];
                let in_heap = spec.in_heap;
                let plan = GuardPlan {
                    root: self.roots[root],
                    bounds,
                    mode,
                    in_heap,
                    behind_readers: false,
                    work: Work::Item,
                };
                self.engine.plan_guard(plan, &mut None, &mut self.turn)
            }
            Kind::Group(_) => self.submit_group(item, device),
        };
        let record = self.engine.record().ok_or_else(|| Fault::new("no record"))?;
        let copies: Vec<Transfer> = record.nodes[first + 1..]
            .iter()
            .filter_map(|(_, n)| match n {
                Recorded::Transfer(copy) => Some(*copy),
                _ => None,
            })
            .collect();
        if record.nodes.len() > MOST {
            return Err(Fault::new("too many nodes"));
        }
        let in_heap: Vec<bool> =
            (0..self.roots.len()).map(|r| self.ready[r][0] || self.slots[r][0].is_some()).collect();
        let ready = |root: usize| self.ready[root][self.program.memory_of(item, root)];
        if let (Kind::Guard, [(root, _, Mode::Overwrite)]) = (spec.kind, &spec.accesses[..])
            && ready(*root)
            && self.turn.start.contains(&id)
        {
            self.account.overwrites_at_once(item, *root);
        }
        let result = self.account.planned(item, &copies, &record.edges_from(self.edges), in_heap);
        self.edges = record.edges.len();
        self.ids.push(id);
        self.fails.push(spec.fails);
        for (i, _) in copies.iter().enumerate() {
            let at = first + 1 + i;
            let seed = mix(mix(0xc0_b1e5, item as u64), i as u64);
            self.fails.push(self.program.bad_copies > 0 && Rng::new(seed).chance(self.program.bad_copies));
            self.ids.push(record.nodes.get(at).ok_or_else(|| Fault::new("a node without an id"))?.0);
        }
        let pinning =
            self.turn.allocate.iter().try_for_each(|asked| self.account.check_pinning(asked, &copies));
        self.note(|s| {
            let nodes: Vec<String> =
                (first..s.ids.len()).map(|n| format!("\n    {n}: {}", s.name(n))).collect();
            format!("submit item {item}: {:?}{}", s.program.items[item].accesses, nodes.concat())
        });
        result.and(pinning)?;
        if spec.awaited {
            self.awaited.push(id);
            self.engine.want(id, &mut self.turn);
        }
        for at in first..self.ids.len() {
            self.contexts.push(self.context_of(at));
        }
        self.expect_allocations(first)?;
        if spec.cancelled {
            self.cancels.push(item);
        }
        self.absorb()
    }

    pub(super) fn name(&self, at: usize) -> String {
        match self.account.nodes[at].what {
            What::Item(item) => format!("{:?} of item {item}", self.program.items[item].kind),
            What::Copy(c) => format!("{:?} {:?} -> {:?} {:?}", c.step, c.from, c.to, c.bounds),
        }
    }

    pub(super) fn submit_group(&mut self, item: usize, device: Option<usize>) -> NodeId {
        let spec = &self.program.items[item];
        let mut accesses = smallvec::SmallVec::new();
        for root in 0..self.roots.len() {
            for (_, bounds, mode) in spec.accesses.iter().filter(|a| a.0 == root) {
                merge(&mut accesses, Access { root: self.roots[root], bounds: *bounds, mode: *mode });
            }
        }
        let earlier = |i: &usize| self.account.node_of(*i);
        let after: Vec<After> = spec
            .after
            .iter()
            .filter_map(|(i, carries)| {
                earlier(i).map(|n| After { node: self.ids[n], carries_failure: *carries })
            })
            .collect();
        let bad_after = spec.after.iter().any(|(i, carries)| {
            *carries
                && earlier(i).is_some_and(|n| {
                    self.account.nodes[n].settled.is_some() && self.account.fate(n) != Fate::Done
                })
        });
        let in_order = spec.queue.and_then(|q| self.account.in_queue(q)).map(|n| self.ids[n]);
        let outside = spec.gates + u32::from(bad_after);
        let plan = Plan {
            device: device.map(|d| DeviceId(d as u32)),
            accesses: &accesses,
            after: &after,
            in_order,
            gates: outside,
            doomed: None,
            keep_previous: spec.keep,
            weight: spec.weight,
            commands: (),
        };
        let id = self.engine.plan(plan, |_| Work::Item, &mut self.turn);
        // The last gate of a group whose predecessor had failed already fails it.
        (0..outside).for_each(|_| self.gates.push(id));
        id
    }

    /// The engine asked for just those allocations that are missing.
    pub(super) fn expect_allocations(&mut self, first: usize) -> Result<(), Fault> {
        let mut expected = Vec::new();
        for at in first..self.ids.len() {
            for (root, memory) in self.waits_for(at) {
                // Nothing is asked of a context that is lost: who wants memory there fails.
                if self.ready[root][memory] || self.is_lost(memory) || self.has_inherited(root, memory)? {
                    continue;
                }
                let waiting = self.slots[root][memory].get_or_insert_with(|| {
                    expected.push((self.roots[root], MemoryId(memory as u32)));
                    Vec::new()
                });
                waiting.push(at);
            }
        }
        self.take_in_what_was_given_up();
        let left = |root: RootId, memory: MemoryId| {
            let of = (root.sort_key().0 as usize, memory.0 as usize);
            self.leaving.contains(&of) || self.is_aside(of.1)
        };
        let asked = self.turn.allocate.iter().map(|a| (a.root, a.memory));
        let mut asked: Vec<_> = asked.filter(|(root, memory)| !left(*root, *memory)).collect();
        let key = |(r, m): &(RootId, MemoryId)| (r.sort_key(), *m);
        asked.sort_by_key(key);
        expected.sort_by_key(key);
        match asked == expected {
            true => Ok(()),
            false => Err(Fault::new(format!("asks for {asked:?} where {expected:?} is missing"))),
        }
    }

    /// The allocations that have to be there before a node is let go. There is no staging for what could not leave it again.
    pub(super) fn waits_for(&self, at: usize) -> Vec<(usize, usize)> {
        let mut places = self.places(at);
        if let What::Copy(Transfer { root, to, step: Step::Download, .. }) = self.account.nodes[at].what {
            places.push((root.sort_key().0 as usize, to.0 as usize));
        }
        places
    }

    /// The allocations that a node works on.
    pub(super) fn places(&self, at: usize) -> Vec<(usize, usize)> {
        let mut places: Vec<_> = match self.account.nodes[at].what {
            What::Item(item) => {
                let guard = self.program.items[item].kind == Kind::Guard;
                let used = |(root, bounds, _): &&(usize, _, _)| {
                    guard || self.program.roots[*root].elements(bounds).next().is_some()
                };
                self.program.items[item]
                    .accesses
                    .iter()
                    .filter(used)
                    .map(|a| (a.0, self.program.memory_of(item, a.0)))
                    .collect()
            }
            What::Copy(c) => {
                let root = c.root.sort_key().0 as usize;
                let (from, to) = (c.from.0 as usize, c.to.0 as usize);
                match c.step {
                    Step::Direct => vec![(root, from), (root, to)],
                    Step::Download | Step::Clear | Step::Map | Step::Unmap => vec![(root, from)],
                    Step::Upload => vec![(root, to)],
                }
            }
        };
        places.sort_unstable();
        places.dedup();
        places
    }

    /// The context a node runs in.
    pub(super) fn context_of(&self, at: usize) -> Option<usize> {
        let of = |device: usize| self.program.devices[device].context;
        let alive = |d: &usize| self.engine.lost(DeviceId(*d as u32)).is_none();
        let devices = &self.program.devices;
        let works_in =
            |d: &Device, memory: usize| d.memory == memory || self.program.is_home(memory) == Some(d.context);
        let first = |memory: usize| devices.iter().position(|d| works_in(d, memory)).filter(alive);
        match self.account.nodes[at].what {
            What::Item(item) => match self.program.items[item].kind {
                Kind::Group(Some(device)) => Some(of(device)),
                _ => None,
            },
            What::Copy(c) => {
                let (from, to) = (c.from.0 as usize, c.to.0 as usize);
                let open = |m: usize| m == 0 || self.is_aside(m) || self.program.memories[m - 1].addressable;
                let on_host = match c.step {
                    Step::Direct | Step::Clear | Step::Map | Step::Unmap => false,
                    Step::Download => open(from),
                    Step::Upload => open(to),
                };
                if on_host {
                    return None;
                }
                let at_source = match c.step {
                    Step::Direct => first(to).is_none() || !open(from) && open(to),
                    Step::Download => true,
                    Step::Upload | Step::Clear | Step::Map | Step::Unmap => false,
                };
                first(if at_source { from } else { to }).map(of)
            }
        }
    }
}
