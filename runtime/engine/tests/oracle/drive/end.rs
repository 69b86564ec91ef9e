//! What must hold when nothing happens any more.

use super::*;

impl Drive<'_> {
    pub(super) fn check_end(&mut self) -> Result<Stats, Fault> {
        let waiting: Vec<usize> =
            (0..self.ids.len()).filter(|n| self.account.nodes[*n].settled.is_none()).collect();
        if !waiting.is_empty() {
            return Err(Fault::new(format!("nothing happens, and {waiting:?} wait")));
        }
        let engine = &self.engine;
        let left = (engine.live_nodes(), engine.live_links(), engine.live_roots());
        if left != (0, 0, 0) {
            return Err(Fault::new(format!("nodes, links, roots left: {left:?}")));
        }
        if self.allocated != self.freed {
            return Err(Fault::new(format!("{} allocations, {} freed", self.allocated, self.freed)));
        }
        for at in 0..self.ids.len() {
            self.account.check_outcome(at, self.any_loss)?;
        }
        let tally = engine.tally();
        if tally.inherited != self.inherited {
            return Err(Fault::new("a count of inherited memory that is wrong"));
        }
        if (tally.transfers, tally.bytes_moved) != (self.account.transfers, self.account.moved) {
            return Err(Fault::new("counts of transfers that are wrong"));
        }
        self.check_data()?;
        Ok(Stats {
            programs: 1,
            nodes: self.ids.len() as u64,
            edges: self.edges as u64,
            transfers: tally.transfers,
            bytes: tally.bytes_moved,
            inherited: self.inherited,
        })
    }

    /// Every group saw, and left, what it would have in sequential execution.
    pub(super) fn check_data(&self) -> Result<(), Fault> {
        let items = 0..self.program.items.len();
        let fates: Vec<Option<Fate>> =
            items.clone().map(|i| self.account.node_of(i).map(|at| self.account.fate(at))).collect();
        let should = World::sequential(self.program, &self.account.needs, &fates);
        for item in items.filter(|i| fates[*i] == Some(Fate::Done)) {
            if self.seen[item].is_none() {
                return Err(Fault::new(format!("item {item} is done and never ran")));
            }
            if should.seen[item] != self.seen[item] {
                return Err(Fault::new(format!("item {item} saw other data than in sequential execution")));
            }
        }
        for (e, current) in self.account.contents().enumerate() {
            let (Some(current), Some(token)) = (current, should.tokens[e]) else { continue };
            let wrong = (0..self.world.tokens.len())
                .find(|m| current & 1 << m != 0 && self.world.tokens[*m][e] != token);
            if let Some(memory) = wrong {
                return Err(Fault::new(format!("element {e} is wrong in memory {memory}")));
            }
        }
        Ok(())
    }
}
