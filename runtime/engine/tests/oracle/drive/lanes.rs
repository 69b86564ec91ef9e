//! Lanes: feeding, native calls, devices that run what they were given, verdicts.

use super::*;

impl Drive<'_> {
    pub(super) fn feed(&mut self, l: usize) -> Result<(), Fault> {
        let id = LaneId(l as u32);
        if !self.lanes[l].held {
            if !self.engine.hold_lane(id) {
                self.lanes[l].called = false;
                return Ok(());
            }
            self.lanes[l].held = true;
        }
        let Some(popped) = self.engine.pop(id) else {
            self.lanes[l].called = false;
            return Ok(());
        };
        let at = self.at(popped.node)?;
        let waits = self.engine.native_args(popped.node).map(|o| o.waits().to_vec()).unwrap_or_default();
        self.note(|_| format!("  feeds {at} at {} behind {waits:?}, live: {}", popped.point, popped.live));
        let lane = &self.lanes[l];
        if popped.point != lane.fed.len() as u64 + 1 {
            return Err(Fault::new("a point out of order"));
        }
        let weight = |at: usize| match self.account.nodes[at].what {
            What::Item(item) => self.program.items[item].weight,
            What::Copy(_) => 1,
        };
        let held: u32 = lane.fed[lane.reported..].iter().map(|entry| weight(entry.at)).sum();
        if held > 0 && held + weight(at) > lane.depth.commands {
            return Err(Fault::new("a lane is fed beyond its depth"));
        }
        let copies = match self.account.nodes[at].what {
            What::Item(_) => false,
            What::Copy(copy) if matches!(copy.step, Step::Map | Step::Unmap) => false,
            What::Copy(copy) => !self.is_small(l, copy),
        };
        if lane.copies != (copies && self.has_copy_lanes(l)) {
            return Err(Fault::new("a group on the wrong kind of lane"));
        }
        let unknown = |(lane, point): &(LaneId, u64)| self.lanes[lane.0 as usize].confirmed < *point as usize;
        if waits.iter().any(unknown) {
            return Err(Fault::new("a native wait for what has not been recorded"));
        }
        for (root, memory) in self.places(at) {
            // What was queued before the memory was closed to others runs with it.
            let there = self.engine.allocation(self.roots[root], MemoryId(memory as u32)).is_some()
                || self.leaving.contains(&(root, memory));
            if popped.live && !there && !self.swap_steps.contains(&at) {
                return Err(Fault::new(format!("{at} is fed without its memory")));
            }
        }
        let refused = popped.live
            && match self.account.nodes[at].what {
                What::Item(item) => self.program.items[item].refused,
                What::Copy(_) => false,
            };
        let live = popped.live;
        let used = self.engine.native_args(popped.node).filter(|_| live && !refused);
        let memory = used.map(|o| o.memory().map(|(.., memory)| *memory).collect()).unwrap_or_default();
        let lane = &mut self.lanes[l];
        lane.fed.push(Entry { id: popped.node, at, waits, live, refused, memory });
        if popped.at_leisure != (popped.sentinel && lane.at_leisure) {
            return Err(Fault::new("what is waited for reports at leisure, or what is not does at once"));
        }
        match (popped.report, popped.sentinel) {
            (true, true) => lane.sentinels.push(popped.point),
            (true, false) => lane.armed.push(popped.point),
            (false, _) => {}
        }
        lane.check_reports()
    }

    /// What is used is with the host where that is right, and not with it elsewhere.
    pub(super) fn check_side(&self, at: usize, with_host: bool) -> Result<(), Fault> {
        let used = match self.account.nodes[at].what {
            What::Item(item) => self.account.used_roots(item),
            What::Copy(copy) => vec![copy.root.sort_key().0 as usize],
        };
        // What was fed behind a step that fails runs, and fails in the end; the host never starts on such memory.
        let wrong = |root: &usize| {
            let other = self.mapped[*root] != Some(with_host);
            self.program.is_mapped(*root) && other && (with_host || self.mapped[*root].is_some())
        };
        match used.iter().any(wrong) {
            true => Err(Fault::new(format!("{at} uses memory that is not its own to use"))),
            false => Ok(()),
        }
    }

    /// Whether the device of a lane has others for copies.
    fn has_copy_lanes(&self, l: usize) -> bool {
        !self.device_of(l).copy_lanes.is_empty()
    }

    /// Whether a copy is to go where it is read: it is small, and comes to the memory of the lane's device.
    fn is_small(&self, l: usize, copy: Transfer) -> bool {
        let unit = self.program.roots[copy.root.sort_key().0 as usize].unit;
        let comes = copy.to.0 as usize == self.device_of(l).memory;
        comes && copy.bounds.volume() * unit <= self.program.small_copy
    }

    fn device_of(&self, l: usize) -> &Device {
        let mut left = l;
        let of = |device: &&Device| {
            let count = device.lanes.len() + device.copy_lanes.len();
            let own = left < count;
            left = left.saturating_sub(count);
            own
        };
        self.program.devices.iter().find(of).unwrap_or_else(|| panic!("lane {l} is of no device"))
    }

    pub(super) fn confirm(&mut self, l: usize) {
        let lane = &mut self.lanes[l];
        let left = lane.fed.len() - lane.confirmed;
        if left == 0 {
            lane.held = false;
            self.engine.release_lane(LaneId(l as u32), &mut self.turn);
            return;
        }
        let count = 1 + self.rng.below(left);
        let from = lane.confirmed;
        lane.confirmed += count;
        let mut fed = Vec::new();
        for entry in &lane.fed[from..from + count] {
            if entry.refused {
                self.account.nodes[entry.at].own_failure |= self.account.nodes[entry.at].settled.is_none();
            }
            fed.push(Fed { node: entry.id, refused: entry.refused.then(|| Why::new(entry.at as u32)) });
        }
        self.engine.confirm(fed, &mut self.turn);
    }

    pub(super) fn execute(&mut self, l: usize) -> Result<(), Fault> {
        let lane = &mut self.lanes[l];
        let entry = &lane.fed[lane.executed];
        lane.executed += 1;
        let (at, runs) = (entry.at, entry.live && !entry.refused);
        if !runs {
            return Ok(());
        }
        let used = entry.memory.clone();
        self.check_heirs(at, &used)?;
        let fails = self.fails[at];
        match self.account.nodes[at].what {
            What::Item(item) => {
                self.check_guards(at, item)?;
                self.check_side(at, false)?;
                let needs = &self.account.needs[item];
                if fails {
                    let written = needs.iter().filter(|(_, n)| n.new).map(|(e, _)| *e);
                    self.world.spoil(self.program, item, written, at);
                } else {
                    self.seen[item] = Some(self.world.run(self.program, item, needs));
                }
            }
            What::Copy(copy) => {
                let unmaps =
                    copy.step == Step::Unmap && self.mapped[copy.root.sort_key().0 as usize].is_some();
                self.check_side(at, unmaps)?;
                self.copy(at, copy, fails);
            }
        }
        Ok(())
    }

    pub(super) fn copy(&mut self, at: usize, copy: Transfer, fails: bool) {
        let Node { elements, .. } = &self.account.nodes[at];
        let (from, to) = (copy.from.0 as usize, copy.to.0 as usize);
        match copy.step {
            Step::Map | Step::Unmap => {
                let root = copy.root.sort_key().0 as usize;
                self.mapped[root] = (!fails).then_some(copy.step == Step::Map);
            }
            _ if fails && copy.step != Step::Download => {
                self.world.spoil_in(elements.iter().copied(), to, at);
            }
            Step::Clear => elements.iter().for_each(|&e| self.world.tokens[to][e] = 0),
            Step::Direct => {
                for &e in elements {
                    self.world.tokens[to][e] = self.world.tokens[from][e];
                }
            }
            Step::Download => {
                let tokens = elements.iter().map(|&e| self.world.tokens[from][e]).collect();
                if let Some(staging) = self.staging.iter_mut().find(|s| s.at == at) {
                    staging.tokens = tokens;
                }
            }
            Step::Upload => {
                let id = self.ids[at];
                if let Some(i) = self.staging.iter().position(|s| s.upload == id) {
                    for (&e, token) in elements.iter().zip(&self.staging[i].tokens) {
                        self.world.tokens[to][e] = *token;
                    }
                }
            }
        }
    }

    pub(super) fn report(&mut self, l: usize) {
        let lane = &mut self.lanes[l];
        let from = lane.reported;
        let least = lane.armed_end().filter(|_| self.program.lazy).unwrap_or(lane.reported + 1);
        lane.reported = least + self.rng.below(lane.executed - least + 1);
        let upto = lane.reported as u64;
        let failing = |entry: &Entry| entry.live && !entry.refused && self.fails[entry.at];
        for entry in lane.fed[from..lane.reported].iter().filter(|e| failing(e)) {
            self.account.nodes[entry.at].own_failure |= self.account.nodes[entry.at].settled.is_none();
        }
        let fed = &lane.fed;
        let failure = |point: u64| {
            let entry = &fed[point as usize - 1];
            failing(entry).then(|| Why::new(entry.at as u32))
        };
        self.engine.passed(LaneId(l as u32), upto, failure, &mut self.turn);
    }
}
