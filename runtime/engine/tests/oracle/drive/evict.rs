//! Somebody asks for memory back, at any moment: it goes where nobody counts on it, and nowhere else.

use super::*;

/// In every fourth run something is evicted now and then. By numbers of their own, so that all other runs stay what they were.
pub(super) fn whims(schedule: u64) -> Option<Rng> {
    let mut rng = Rng::new(mix(schedule, 0xe71c7));
    rng.chance(25).then_some(rng)
}

impl Drive<'_> {
    pub(super) fn evict(&mut self) -> Result<(), Fault> {
        let (roots, memories) = (self.roots.len(), self.program.memories.len());
        let Some(whims) = self.whims.as_mut().filter(|_| roots > 0 && memories > 0) else { return Ok(()) };
        if !whims.chance(25) {
            return Ok(());
        }
        let (root, memory) = (whims.below(roots), 1 + whims.below(memories));
        let is_there = self.kept_roots.contains(&root) || self.account.is_used(root, None);
        let expected = is_there && self.ready[root][memory] && self.account.may_go(root, memory);
        let gone = self.engine.evict(self.roots[root], MemoryId(memory as u32), &mut self.turn);
        self.note(|_| format!("evicts {root} from {memory}: {gone}"));
        if gone != expected {
            return Err(Fault::new(format!(
                "root {root} goes from memory {memory}: {gone}, to be {expected}"
            )));
        }
        if gone {
            self.ready[root][memory] = false;
            self.account.evicted(root, memory);
            self.world.forget(self.program, root, memory);
        }
        self.absorb()
    }
}
