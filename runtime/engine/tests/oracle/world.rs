//! Contents of memories, element by element, and what sequential execution makes of them.

use super::Fault;
use super::program::{Kind, Memory, Need, Program};
use windlass_engine::Box3;
use windlass_testkit::mix;

/// How an item counts for those after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    /// Its output is what was there before.
    Kept,
    Bad,
}

/// The bytes of all roots in every memory, one number for each element.
pub(super) struct World {
    pub(super) tokens: Vec<Vec<u64>>,
}

/// What is left by sequential execution.
pub(super) struct Sequential {
    /// What each item saw, where it counts.
    pub(super) seen: Vec<Option<u64>>,
    /// What every element holds in the end; none where the newest version failed.
    pub(super) tokens: Vec<Option<u64>>,
}

impl World {
    pub(super) fn new(program: &Program) -> Self {
        let heap = Self::first(program);
        let fresh = |(m, memory): (usize, &Memory)| (0..heap.len()).map(|e| fresh(memory, m, e)).collect();
        let rest: Vec<Vec<u64>> = program.memories.iter().enumerate().map(fresh).collect();
        let aside = (0..heap.len()).map(others).collect();
        let mut world = World { tokens: std::iter::once(heap).chain(rest).chain([aside]).collect() };
        for (at, root) in program.roots.iter().enumerate() {
            if let Some(home) = root.home.filter(|_| root.data) {
                for e in program.elements_of(at) {
                    world.tokens[home][e] = world.tokens[0][e];
                }
            }
        }
        world
    }

    /// What everything holds at first.
    fn first(program: &Program) -> Vec<u64> {
        let mut all = Vec::new();
        for (at, root) in program.roots.iter().enumerate() {
            all.extend((0..root.len()).map(|e| if root.data { mix(at as u64, e as u64) } else { 0 }));
        }
        all
    }

    /// A root has no memory there any more, and what it gets next is fresh.
    pub(super) fn forget(&mut self, program: &Program, root: usize, memory: usize) {
        let shape = &program.memories[memory - 1];
        program.elements_of(root).for_each(|e| self.tokens[memory][e] = fresh(shape, memory - 1, e));
    }

    /// Runs an item where it works; says what it saw.
    pub(super) fn run(&mut self, program: &Program, item: usize, needs: &[(usize, Need)]) -> u64 {
        let seen = self.look(program, item, needs);
        self.write(program, item, needs, seen);
        seen
    }

    pub(super) fn look(&self, program: &Program, item: usize, needs: &[(usize, Need)]) -> u64 {
        look(needs, |e| self.tokens[program.memory_at(item, e)][e])
    }

    pub(super) fn write(&mut self, program: &Program, item: usize, needs: &[(usize, Need)], seen: u64) {
        for (e, token, adds) in writes(item, needs, seen) {
            let there = &mut self.tokens[program.memory_at(item, e)][e];
            *there = if adds { there.wrapping_add(token) } else { token };
        }
    }

    /// Pinned memory for a root in the heap: it holds what others had there, but for what is cleared.
    pub(super) fn pin(&mut self, program: &Program, root: usize, clear: &[Box3]) {
        let all = program.elements_of(root);
        all.clone().for_each(|e| self.tokens[0][e] = others(e));
        let shape = &program.roots[root];
        clear
            .iter()
            .flat_map(|bounds| shape.elements(bounds))
            .for_each(|e| self.tokens[0][all.start + e] = 0);
    }

    /// A guard never shows what another root had there.
    pub(super) fn check_own(
        &self,
        program: &Program,
        item: usize,
        needs: &[(usize, Need)],
    ) -> Result<(), Fault> {
        let shows = |(e, _): &&(usize, Need)| self.tokens[program.memory_at(item, *e)][*e] == others(*e);
        match needs.iter().find(shows) {
            None => Ok(()),
            Some((e, _)) => Err(Fault::new(format!("a guard shows what another root had, as element {e}"))),
        }
    }

    /// What an item that fails leaves behind.
    pub(super) fn spoil(
        &mut self,
        program: &Program,
        item: usize,
        elements: impl Iterator<Item = usize>,
        by: usize,
    ) {
        for e in elements {
            self.tokens[program.memory_at(item, e)][e] = mix(0xbad_0bad ^ by as u64, e as u64);
        }
    }

    /// What a copy that fails leaves behind; what others had there may be seen still.
    pub(super) fn spoil_in(&mut self, elements: impl Iterator<Item = usize>, memory: usize, by: usize) {
        for e in elements {
            let token = &mut self.tokens[memory][e];
            if *token != others(e) {
                *token = mix(0xbad_0bad ^ by as u64, e as u64);
            }
        }
    }

    /// All items one at a time in the order of their submission.
    pub(super) fn sequential(
        program: &Program,
        needs: &[Vec<(usize, Need)>],
        fates: &[Option<Fate>],
    ) -> Sequential {
        let mut tokens: Vec<Option<u64>> = Self::first(program).into_iter().map(Some).collect();
        let mut seen = vec![None; fates.len()];
        for (item, fate) in fates.iter().enumerate() {
            match fate {
                None | Some(Fate::Kept) => {}
                // A guard that did not have its memory wrote nothing.
                Some(Fate::Bad) if program.items[item].kind == Kind::Guard => {}
                Some(Fate::Bad) => {
                    needs[item].iter().filter(|(_, n)| n.new).for_each(|(e, _)| tokens[*e] = None);
                }
                Some(Fate::Done) => {
                    let saw = look(&needs[item], |e| tokens[e].unwrap_or(0));
                    seen[item] = Some(saw);
                    for (e, token, adds) in writes(item, &needs[item], saw) {
                        let before = tokens[e].filter(|_| adds).unwrap_or(0);
                        tokens[e] = Some(before.wrapping_add(token));
                    }
                }
            }
        }
        Sequential { seen, tokens }
    }
}

/// What fresh memory holds.
fn fresh(memory: &Memory, at: usize, e: usize) -> u64 {
    if memory.zeroed { 0 } else { mix(0x2bb15 + at as u64, e as u64) }
}

/// What memory that is pinned for an element holds before anything is copied there.
fn others(e: usize) -> u64 {
    mix(0x07e25, e as u64)
}

fn look(needs: &[(usize, Need)], token: impl Fn(usize) -> u64) -> u64 {
    needs.iter().filter(|(_, n)| n.look).fold(0, |all, (e, _)| mix(all, token(*e)))
}

/// What an item writes, and whether that is added to what is there. What is added does not depend on what was seen beside it, as that
/// may be of either order.
fn writes(item: usize, needs: &[(usize, Need)], seen: u64) -> impl Iterator<Item = (usize, u64, bool)> {
    let chosen =
        move |e: usize, need: &Need| need.new && !(need.partial && mix(item as u64, e as u64) & 1 == 0);
    needs.iter().filter(move |(e, need)| chosen(*e, need)).map(move |(e, need)| match need.beside {
        true => (*e, mix(item as u64, *e as u64), true),
        false => (*e, mix(mix(seen, item as u64), *e as u64), false),
    })
}
