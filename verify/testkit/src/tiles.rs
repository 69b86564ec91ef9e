//! Programs over tiles, of which a device may not have room for all: what is moved for them, and how long they take, is measured in several
//! places, on the same programs.

use crate::Rng;

/// A use of tiles by one group.
///
/// What a group does is up to who runs it. It is meant to be one command that sets the tile, if that is replaced; one for each tile that
/// is read; and one that changes the tile by itself, if there is neither.
#[derive(Clone, Debug)]
pub struct Use {
    /// The tile that it changes.
    pub changes: usize,
    /// Those that it reads beside that.
    pub reads: Vec<usize>,
    /// What it changes is written without being read.
    pub replaces: bool,
}

impl Use {
    /// All tiles that it needs.
    pub fn tiles(&self) -> impl Iterator<Item = usize> {
        self.reads.iter().copied().chain([self.changes])
    }
}

/// Tiles, some of which hold data at first, and who uses them in which order.
///
/// ```
/// use windlass_testkit::tiles::matmul;
/// let program = matmul(2);
/// assert_eq!((program.tiles(), program.uses.len(), program.most()), (12, 8, 3));
/// ```
#[derive(Clone, Debug)]
pub struct Program {
    /// What it is called.
    pub name: &'static str,
    /// Whether there is data in a tile before.
    pub given: Vec<bool>,
    /// The groups, in the order of their submission.
    pub uses: Vec<Use>,
}

impl Program {
    /// How many tiles there are.
    pub fn tiles(&self) -> usize {
        self.given.len()
    }

    /// How many tiles a group needs at most.
    pub fn most(&self) -> usize {
        self.uses.iter().map(|used| used.tiles().count()).max().unwrap_or(0)
    }

    /// Whether what a tile holds when a group runs is replaced before anybody reads it.
    pub fn is_dead(&self, tile: usize, at: usize) -> bool {
        let mut later = self.uses[at + 1..].iter().filter(|used| used.tiles().any(|t| t == tile));
        later.next().is_some_and(|used| used.replaces && used.changes == tile)
    }
}

/// The products of two matrices of tiles: `c[i][j] += a[i][k] * b[k][j]`.
pub fn matmul(n: usize) -> Program {
    let tile = |of: usize, i: usize, j: usize| of * n * n + i * n + j;
    let uses = (0..n * n * n).map(|at| {
        let (i, j, k) = (at / (n * n), at / n % n, at % n);
        Use { changes: tile(2, i, j), reads: vec![tile(0, i, k), tile(1, k, j)], replaces: k == 0 }
    });
    Program { name: "matmul", given: (0..3 * n * n).map(|t| t < 2 * n * n).collect(), uses: uses.collect() }
}

/// A matrix of tiles is factored in place, below its diagonal.
pub fn cholesky(n: usize) -> Program {
    let tile = |i: usize, j: usize| i * (i + 1) / 2 + j;
    let mut uses = Vec::new();
    for k in 0..n {
        uses.push(Use { changes: tile(k, k), reads: vec![], replaces: false });
        for i in k + 1..n {
            uses.push(Use { changes: tile(i, k), reads: vec![tile(k, k)], replaces: false });
        }
        for i in k + 1..n {
            for j in k + 1..=i {
                uses.push(Use { changes: tile(i, j), reads: vec![tile(i, k), tile(j, k)], replaces: false });
            }
        }
    }
    Program { name: "cholesky", given: vec![true; n * (n + 1) / 2], uses }
}

/// Each step makes every tile of one half of the other half's tile and its neighbours.
pub fn stencil(n: usize, steps: usize) -> Program {
    let uses = (0..steps * n).map(|at| {
        let (step, i) = (at / n, at % n);
        let (from, to) = (step % 2 * n, (step + 1) % 2 * n);
        let reads = (i.saturating_sub(1)..(i + 2).min(n)).map(|i| from + i).collect();
        Use { changes: to + i, reads, replaces: true }
    });
    Program { name: "stencil", given: (0..2 * n).map(|t| t < n).collect(), uses: uses.collect() }
}

/// All tiles are changed one after another, again and again: what was not used for longest is always what is wanted next.
pub fn cyclic(n: usize, rounds: usize) -> Program {
    let uses = (0..rounds * n).map(|at| Use { changes: at % n, reads: vec![], replaces: false });
    Program { name: "cyclic", given: vec![true; n], uses: uses.collect() }
}

/// Groups that each change a tile and read up to two others. Every third tile holds nothing at first.
pub fn random(n: usize, groups: usize, seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let uses = (0..groups).map(|_| {
        let changes = rng.below(n);
        let others: Vec<usize> = (0..n).filter(|t| *t != changes).collect();
        let mut reads: Vec<usize> = (0..rng.below(3)).map(|_| others[rng.below(others.len())]).collect();
        reads.sort_unstable();
        reads.dedup();
        Use { changes, reads, replaces: rng.chance(20) }
    });
    let uses = uses.collect();
    Program { name: "random", given: (0..n).map(|t| t % 3 != 2).collect(), uses }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was measured for a program is about that program for good.
    #[test]
    fn programs_are_what_they_were() {
        let reads = |program: &Program| program.uses.iter().map(|used| used.reads.len()).sum::<usize>();
        let shape = |program: Program| (program.tiles(), program.uses.len(), reads(&program), program.most());
        assert_eq!(shape(matmul(6)), (108, 216, 432, 3));
        assert_eq!(shape(cholesky(4)), (10, 20, 26, 3));
        assert_eq!(shape(stencil(6, 5)), (12, 30, 80, 4));
        assert_eq!(shape(cyclic(10, 5)), (10, 50, 0, 1));
        assert_eq!(shape(random(11, 80, 3)).0, 11);
    }

    #[test]
    fn what_is_replaced_unread_is_dead() {
        let program = stencil(4, 3);
        // The first two groups read what the second step replaces.
        assert!(!program.is_dead(0, 0) && program.is_dead(0, 1));
    }
}
