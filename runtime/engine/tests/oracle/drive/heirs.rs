//! Memory that a root has from one whose last user has not ended: whose it is goes one way only.

use super::*;

/// Allocations that several roots have had: which, in the order in which they came to have it, and how many of those have had their turn.
#[derive(Debug, Default)]
pub(super) struct Heirs {
    of: HashMap<u32, (Vec<usize>, usize)>,
}

impl Drive<'_> {
    /// Lets go of what no item from this one on uses.
    pub(super) fn release_all_before(&mut self, item: usize) -> Result<(), Fault> {
        let program = self.program;
        while let Some(at) = self.kept_roots.iter().position(|root| !program.is_used_from(item, *root)) {
            self.act(Action::Release(at))?;
        }
        self.absorb()
    }

    /// A root that lacked memory somewhere may have been given that of another. Says whether it has.
    pub(super) fn has_inherited(&mut self, root: usize, memory: usize) -> Result<bool, Fault> {
        let there = MemoryId(memory as u32);
        let Some(&allocation) = self.engine.allocation(self.roots[root], there) else { return Ok(false) };
        let has_it = |other: &usize| {
            *other != root && self.engine.allocation(self.roots[*other], there) == Some(&allocation)
        };
        let before: Vec<usize> = (0..self.roots.len()).filter(has_it).collect();
        let is_fit = memory > 0 && !self.program.memories[memory - 1].zeroed;
        if !is_fit || before.is_empty() || before.iter().any(|other| self.kept_roots.contains(other)) {
            return Err(Fault::new(format!("{root} has memory in {memory} that is not for it: {before:?}")));
        }
        self.inherited += 1;
        self.ready[root][memory] = true;
        let (roots, _) = self.heirs.of.entry(allocation).or_insert((before, 0));
        roots.push(root);
        self.note(|_| format!("  {root} has the memory {allocation} in {memory} that others have"));
        Ok(true)
    }

    /// A node runs that uses these allocations: none of them has become another's for good.
    pub(super) fn check_heirs(&mut self, at: usize, used: &[u32]) -> Result<(), Fault> {
        if self.heirs.of.is_empty() {
            return Ok(());
        }
        let places = self.places(at);
        for used in used {
            let Some((roots, reached)) = self.heirs.of.get_mut(used) else { continue };
            for (root, _) in &places {
                let Some(turn) = roots.iter().position(|of| of == root) else { continue };
                if turn < *reached {
                    return Err(Fault::new(format!("{at} uses memory of {root} that has become another's")));
                }
                *reached = turn;
            }
        }
        Ok(())
    }

    /// The same of a node on the host.
    pub(super) fn check_heirs_on_host(&mut self, at: usize) -> Result<(), Fault> {
        let there = |(root, memory): &(usize, usize)| {
            self.engine.allocation(self.roots[*root], MemoryId(*memory as u32)).copied()
        };
        let used: Vec<u32> = self.places(at).iter().filter_map(there).collect();
        self.check_heirs(at, &used)
    }
}
