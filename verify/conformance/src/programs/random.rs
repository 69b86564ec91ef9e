//! Making programs up.

mod explicit;

use super::model::{End, Model};
use super::{Group, Job, Mode, Op, Program, Step, Storage, Thread, Window, World};
use windlass_testkit::{Rng, mix};

impl Program {
    /// The program of this seed, for the places of a world.
    pub fn random(seed: u64, world: &World) -> Program {
        let mut rng = Rng::new(seed);
        let count = if rng.chance(70) { 1 } else { 2 + rng.below(2) };
        let numbers = |thread| Rng::new(mix(seed, thread as u64));
        let (places, stays) = (world.places.len(), world.stays);
        let threads = (0..count).map(|thread| Thread::random(&mut rng, numbers(thread), places, stays));
        Program { threads: threads.collect() }
    }
}

impl Thread {
    /// What is done with memory that stays somewhere is of numbers of its own: without it a seed's program is what it ever was.
    fn random(rng: &mut Rng, mut own: Rng, places: usize, stays: Option<usize>) -> Self {
        let mut thread = Thread::default();
        for _ in 0..1 + rng.below(3) {
            // Often of one shape, so that whole buffers can be copied to each other.
            let shape = match rng.below(5) {
                4 => [2, 10],
                0 => [1 + rng.below(5), 1 + rng.below(9)],
                1 => [1, 1 + rng.below(600)],
                _ => [1, 1 + rng.below(24)],
            };
            let base = rng.chance(50).then(|| rng.word());
            thread.buffers.push(Storage { shape, base, stays: None });
        }
        let kind = match rng.below(10) {
            0..4 => Kind::Tame,
            4..7 => Kind::Late,
            _ => Kind::Told,
        };
        let movable = thread.buffers.len();
        if let Some(most) = stays {
            explicit::ask(&mut thread, &mut own, places, most);
        }
        let (model, groups, gated, held) = (Model::new(&thread), Vec::new(), Vec::new(), Vec::new());
        let mut maker = Maker { thread, model, rng, places, kind, movable, groups, gated, own, held };
        for _ in 0..3 + maker.rng.below(20) {
            maker.add();
            maker.add_explicit();
        }
        maker.decide_all();
        maker.thread
    }
}

/// What may fail, and when that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing fails and nothing is cancelled.
    Tame,
    /// Failures come to be known when others have long been planned behind them.
    Late,
    /// Each failure is awaited before the next step.
    Told,
}

struct Maker<'r> {
    thread: Thread,
    /// Runs along, so that no step is made up whose end would depend on timing.
    model: Model,
    rng: &'r mut Rng,
    places: usize,
    kind: Kind,
    /// How many buffers go where they are needed: the first ones. The others stay somewhere.
    movable: usize,
    /// Groups that use nothing but these.
    groups: Vec<usize>,
    /// Those of them that are behind gates.
    gated: Vec<usize>,
    /// Numbers for all that has to do with memory that stays somewhere.
    own: Rng,
    /// Groups behind gates that use such memory.
    held: Vec<usize>,
}

impl Maker<'_> {
    fn push(&mut self, step: Step) {
        self.model.step(&step);
        self.thread.steps.push(step);
    }

    fn decide_all(&mut self) {
        let behind = std::mem::take(&mut self.gated).into_iter().chain(std::mem::take(&mut self.held));
        behind.for_each(|step| self.push(Step::Decide { step }));
    }

    fn add(&mut self) {
        match self.rng.below(20) {
            0 | 1 if !self.gated.is_empty() => {
                let at = self.rng.below(self.gated.len());
                let step = self.gated.swap_remove(at);
                self.push(Step::Decide { step });
            }
            0 => {
                let window = self.window(false);
                // Whoever waits for data must not wait for what only this thread can let go.
                self.decide_all();
                self.push(Step::Look { window });
            }
            1 => {
                let (window, k) = (self.window(false), self.rng.word());
                self.decide_all();
                self.push(Step::Edit { window, k });
            }
            _ => self.add_group(),
        }
    }

    fn add_group(&mut self) {
        let job = match self.rng.below(8) {
            0 => {
                let (window, k) = (self.window(true), self.rng.word());
                Job::Task { window, k, fails: self.kind != Kind::Tame && self.rng.chance(40) }
            }
            _ => Job::Commands((0..1 + self.rng.below(3)).map(|_| self.op()).collect()),
        };
        let earlier = self.thread.steps.len();
        let groups = &self.groups;
        let after = (!groups.is_empty() && self.rng.chance(15))
            .then(|| (groups[self.rng.below(groups.len())], self.rng.chance(50)));
        let mut group = Group {
            place: self.rng.below(self.places),
            job,
            gated: self.rng.chance(15),
            cancelled: false,
            keeps_previous: self.rng.chance(10),
            after,
        };
        // One that is to be cancelled and would fail anyway may end either way.
        group.cancelled =
            group.gated && self.kind != Kind::Tame && self.rng.chance(50) && !self.model.is_doomed(&group);
        if group.gated {
            self.gated.push(earlier);
        }
        self.groups.push(earlier);
        self.push_group(group);
    }

    fn push_group(&mut self, group: Group) {
        let earlier = self.thread.steps.len();
        self.push(Step::Group(group));
        if self.kind == Kind::Told && self.model.ends.last() != Some(&End::Well) {
            self.decide_all();
            self.push(Step::Await { step: earlier });
        }
    }

    fn window(&mut self, in_a_row: bool) -> Window {
        let buffer = self.rng.below(self.movable);
        Window::random(self.rng, buffer, self.thread.buffers[buffer].shape, in_a_row)
    }

    /// Two windows of one shape that do not meet, if some are found.
    fn pair(&mut self, in_a_row: bool) -> Option<(Window, Window)> {
        (0..8).find_map(|_| {
            let (a, b) = (self.window(in_a_row), self.window(in_a_row));
            a.as_large_as(b, in_a_row)
        })
    }

    fn op(&mut self) -> Op {
        let k = self.rng.word();
        let op = match self.rng.below(9) {
            0 => Op::Fill(self.window(false), k),
            1 => Op::Count(self.window(true), k, self.rng.chance(30)),
            2 => Op::CountHalf(self.window(true), k),
            3 => Op::Touch(self.window(false)),
            4 | 5 => match self.pair(true) {
                Some((from, to)) if k & 1 == 0 => Op::Copy(from, to),
                Some((x, y)) => Op::Fold(x, y, k),
                None => Op::Churn(self.window(true), k),
            },
            6 => match self.pair(false) {
                Some((from, to)) => Op::Move(from, to),
                None => Op::Churn(self.window(true), k),
            },
            _ => Op::Churn(self.window(true), k),
        };
        debug_assert!(
            op.uses().iter().flatten().any(|(_, mode)| *mode != Mode::Read) || matches!(op, Op::Touch(_))
        );
        op
    }
}

impl Window {
    /// A window: of elements that follow each other, or any box.
    fn random(rng: &mut Rng, buffer: usize, [rows, columns]: [usize; 2], in_a_row: bool) -> Self {
        let mut part = |extent: usize| match rng.below(3) {
            0 => (0, extent),
            _ => {
                let lo = rng.below(extent);
                // Windows without elements are rare, and legal.
                let least = usize::from(!rng.chance(4));
                (lo, (least + rng.below(extent - lo)).min(extent - lo))
            }
        };
        let (y, x) = (part(rows), part(columns));
        let (y, x) = match in_a_row {
            true if rng.chance(50) => ((y.0, y.1.min(1)), x),
            true => (y, (0, columns)),
            false => (y, x),
        };
        Window { buffer, lo: [y.0, x.0], size: [y.1, x.1] }
    }

    /// What two windows become that are to have one shape, unless they meet, or are not in a row any more.
    fn as_large_as(mut self, mut other: Window, in_a_row: bool) -> Option<(Window, Window)> {
        let size = [self.size[0].min(other.size[0]), self.size[1].min(other.size[1])];
        if in_a_row && size[0] > 1 && self.size[1] != other.size[1] {
            return None;
        }
        (self.size, other.size) = (size, size);
        (!self.overlaps(&other)).then_some((self, other))
    }
}
