//! Steps with memory that stays where the program has asked for it.

use windlass::MemoryKind;
use windlass_testkit::Rng;

use super::{Kind, Maker};
use crate::programs::{Group, Job, Op, Stays, Step, Storage, Thread, Window};

/// Some threads ask for such memory, all of it at one place.
pub(super) fn ask(thread: &mut Thread, own: &mut Rng, places: usize, most: usize) {
    if !own.chance(35) {
        return;
    }
    let place = own.below(places);
    for _ in 0..1 + own.below(2) {
        let shape = match own.below(3) {
            0 => [1 + own.below(5), 1 + own.below(9)],
            1 => [1, 1 + own.below(most)],
            _ => [1, 1 + own.below(24)],
        };
        let base = own.chance(50).then(|| own.word());
        let kind =
            [MemoryKind::Device, MemoryKind::Host, MemoryKind::Shared, MemoryKind::Shared][own.below(4)];
        thread.buffers.push(Storage { shape, base, stays: Some(Stays { place, kind }) });
    }
}

impl Maker<'_> {
    /// A step with it, if there is some: now and then.
    pub(super) fn add_explicit(&mut self) {
        if self.movable == self.thread.buffers.len() || !self.own.chance(50) {
            return;
        }
        let (buffer, k) = (self.there(), self.own.word());
        let is_for_host = self.thread.buffers[buffer].stays.is_some_and(|stays| stays.is_for_host());
        match self.own.below(14) {
            0 if !self.held.is_empty() => {
                let step = self.held.swap_remove(self.own.below(self.held.len()));
                self.push(Step::Decide { step });
            }
            1 => self.push(Step::Anew { buffer }),
            2 => {
                let window = self.window_of(buffer, false);
                self.decide_all();
                self.push(Step::Look { window });
            }
            3 if is_for_host => {
                let window = self.window_of(buffer, false);
                self.decide_all();
                self.push(Step::Edit { window, k });
            }
            4 if is_for_host => {
                let window = self.window_of(buffer, true);
                let fails = self.kind != Kind::Tame && self.own.chance(40);
                self.add_group_with(Job::Task { window, k, fails });
            }
            5..8 => {
                let window = self.window_of(buffer, true);
                self.add_group_with(Job::Commands(vec![Op::Bump(window)]));
            }
            _ => {
                let ops = (0..1 + self.own.below(3)).map(|_| self.op_there()).collect();
                self.add_group_with(Job::Commands(ops));
            }
        }
    }

    /// One of the buffers that stay somewhere.
    fn there(&mut self) -> usize {
        self.movable + self.own.below(self.thread.buffers.len() - self.movable)
    }

    fn window_of(&mut self, buffer: usize, in_a_row: bool) -> Window {
        Window::random(&mut self.own, buffer, self.thread.buffers[buffer].shape, in_a_row)
    }

    /// A window of something that stays, and one of anything, for what goes between them in either direction.
    fn pair_with(&mut self, buffers: usize, in_a_row: bool) -> Option<(Window, Window)> {
        (0..8).find_map(|_| {
            let there = self.there();
            let other = self.thread.buffers.len() - buffers + self.own.below(buffers);
            let (a, b) = (self.window_of(there, in_a_row), self.window_of(other, in_a_row));
            let (a, b) = a.as_large_as(b, in_a_row)?;
            Some(if self.own.chance(50) { (a, b) } else { (b, a) })
        })
    }

    fn op_there(&mut self) -> Op {
        let (buffer, k) = (self.there(), self.own.word());
        let (all, staying) = (self.thread.buffers.len(), self.thread.buffers.len() - self.movable);
        let op = match self.own.below(12) {
            0 => Some(Op::Fill(self.window_of(buffer, false), k)),
            1 => Some(Op::Count(self.window_of(buffer, true), k, k & 2 == 0)),
            2 => Some(Op::CountHalf(self.window_of(buffer, true), k)),
            3 => Some(Op::Touch(self.window_of(buffer, false))),
            4 => self.pair_with(all, true).map(|(from, to)| Op::Copy(from, to)),
            5 | 6 => self.pair_with(all, false).map(|(from, to)| Op::Move(from, to)),
            7 => self.pair_with(all, true).map(|(x, y)| Op::Fold(x, y, k)),
            8 => self.pair_with(staying, true).map(|(x, y)| Op::FoldAt(x, y, k)),
            9 => Some(Op::ChurnBy(self.window_of(buffer, true), k)),
            _ => None,
        };
        op.unwrap_or_else(|| Op::ChurnAt(self.window_of(buffer, true), k))
    }

    fn add_group_with(&mut self, job: Job) {
        let steps = self.thread.steps.iter().enumerate();
        let groups: Vec<usize> =
            steps.filter(|(_, step)| matches!(step, Step::Group(_))).map(|(at, _)| at).collect();
        let after = (!groups.is_empty() && self.own.chance(15))
            .then(|| (groups[self.own.below(groups.len())], self.own.chance(50)));
        let mut group = Group {
            place: self.own.below(self.places),
            job,
            gated: self.own.chance(15),
            cancelled: false,
            keeps_previous: self.own.chance(10),
            after,
        };
        let is_doomed = self.model.is_doomed(&group);
        let changes_at_once =
            matches!(&group.job, Job::Commands(ops) if ops.iter().any(|op| matches!(op, Op::Bump(_))));
        if changes_at_once && is_doomed {
            // What others leave that change the same memory at the same time as one that fails, and how they end, is up to the order.
            return;
        }
        group.cancelled =
            group.gated && self.kind != Kind::Tame && self.own.chance(50) && !is_doomed && !changes_at_once;
        if group.gated {
            self.held.push(self.thread.steps.len());
        }
        self.push_group(group);
    }
}
