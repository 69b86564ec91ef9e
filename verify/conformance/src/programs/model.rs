//! What a program means: its steps one after the other, each at once.

use super::{Group, Job, Mode, Op, Step, Storage, Thread, Window};

/// How a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Well,
    /// By its own failure.
    Failed,
    /// By the failure of something it depends on.
    Dependent,
    Cancelled,
}

/// A thread's buffers, element by element; `None` is what failed to be written.
#[derive(Clone, Debug)]
pub(super) struct Model {
    buffers: Vec<Storage>,
    pub(super) data: Vec<Vec<Option<u32>>>,
    /// How the steps so far have ended.
    pub(super) ends: Vec<End>,
}

impl Model {
    pub(super) fn new(thread: &Thread) -> Self {
        let buffers = thread.buffers.clone();
        let data = buffers.iter().map(|b| b.initial().into_iter().map(Some).collect()).collect();
        Model { buffers, data, ends: Vec::new() }
    }

    fn places(&self, window: &Window) -> Vec<usize> {
        let [_, columns] = self.buffers[window.buffer].shape;
        let rows = window.lo[0]..window.lo[0] + window.size[0];
        rows.flat_map(|y| (0..window.size[1]).map(move |x| y * columns + window.lo[1] + x)).collect()
    }

    /// The elements of a window, where all of them are well.
    pub(super) fn elements(&self, window: &Window) -> Option<Vec<u32>> {
        self.places(window).into_iter().map(|at| self.data[window.buffer][at]).collect()
    }

    /// Whether a group would fail for what it depends on.
    pub(super) fn is_doomed(&self, group: &Group) -> bool {
        let explicit = group.after.is_some_and(|(step, carries)| carries && self.ends[step] != End::Well);
        let reads = |mode: &Mode| mode.reads() || group.keeps_previous;
        explicit
            || group
                .uses()
                .iter()
                .filter(|(_, mode)| reads(mode))
                .any(|(window, _)| self.elements(window).is_none())
    }

    pub(super) fn step(&mut self, step: &Step) {
        let end = match step {
            Step::Group(group) => self.group(group),
            Step::Edit { window, k } => match self.elements(window) {
                Some(_) => {
                    self.churn(window, *k);
                    End::Well
                }
                // A write guard that is refused wrote nothing: what was well stays well.
                None => End::Dependent,
            },
            Step::Look { window } => match self.elements(window) {
                Some(_) => End::Well,
                None => End::Dependent,
            },
            Step::Anew { buffer } => {
                self.data[*buffer] = self.buffers[*buffer].initial().into_iter().map(Some).collect();
                End::Well
            }
            Step::Decide { .. } | Step::Await { .. } => End::Well,
        };
        self.ends.push(end);
    }

    fn group(&mut self, group: &Group) -> End {
        let doomed = self.is_doomed(group);
        let fails = matches!(&group.job, Job::Task { fails: true, .. });
        let end = match (group.cancelled, doomed, fails) {
            (true, ..) => End::Cancelled,
            (_, true, _) => End::Dependent,
            (_, _, true) => End::Failed,
            _ => End::Well,
        };
        match end {
            End::Well => self.run(&group.job),
            End::Cancelled if group.keeps_previous => {}
            _ => {
                let written = group.uses().into_iter().filter(|(_, mode)| mode.writes());
                written.for_each(|(window, _)| self.spoil(&window));
            }
        }
        end
    }

    fn spoil(&mut self, window: &Window) {
        for at in self.places(window) {
            self.data[window.buffer][at] = None;
        }
    }

    fn run(&mut self, job: &Job) {
        match job {
            Job::Commands(ops) => ops.iter().for_each(|op| self.op(op)),
            Job::Task { window, k, .. } => self.churn(window, *k),
        }
    }

    fn each(&mut self, window: &Window, value: impl Fn(usize, u32) -> u32) {
        for (i, at) in self.places(window).into_iter().enumerate() {
            let element = &mut self.data[window.buffer][at];
            *element = Some(value(i, element.unwrap_or(0)));
        }
    }

    fn churn(&mut self, window: &Window, k: u32) {
        self.each(window, |_, v| v.wrapping_mul(31).wrapping_add(k));
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::Churn(window, k) | Op::ChurnAt(window, k) | Op::ChurnBy(window, k) => self.churn(window, *k),
            Op::Count(window, base, _) => self.each(window, |i, _| base.wrapping_add(i as u32)),
            Op::CountHalf(window, base) => {
                let half = window.len() / 2;
                self.each(window, |i, v| if i < half { base.wrapping_add(i as u32) } else { v });
            }
            Op::Fill(window, value) => self.each(window, |_, _| *value),
            Op::Bump(window) => self.each(window, |_, v| v.wrapping_add(1)),
            Op::Touch(_) => {}
            Op::Copy(from, to) | Op::Move(from, to) => {
                let from = self.elements(from).unwrap_or_default();
                self.each(to, |i, _| from[i]);
            }
            Op::Fold(x, y, k) | Op::FoldAt(x, y, k) => {
                let x = self.elements(x).unwrap_or_default();
                self.each(y, |i, v| v.wrapping_mul(31).wrapping_add(x[i]).wrapping_add(*k));
            }
        }
    }
}
