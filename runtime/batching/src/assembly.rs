//! Who is in a batch: deficit round robin between lines, as far as the batch's room and its items' deadlines go.

use std::time::Duration;

use crate::caution::Promise;
use crate::{Batching, LineId};

/// A batch while it is made.
pub(crate) struct Assembly<K> {
    pub(crate) keys: Vec<K>,
    bytes: usize,
    pub(crate) cost: f64,
    deadline: Duration,
    /// Of its items' promises the one that is hardest to keep.
    pub(crate) promise: Option<Promise>,
}

/// Why a batch has taken no more out of a line.
enum Taken {
    LineIsEmpty,
    HasHadItsShare,
    BatchIsFull,
}

impl<K> Batching<K> {
    /// The next batch.
    pub(crate) fn assemble(&mut self, now: Duration) -> Assembly<K> {
        let start = now + self.remaining(now);
        let mut batch =
            Assembly { keys: Vec::new(), bytes: 0, cost: 0.0, deadline: Duration::MAX, promise: None };
        // A round lets the line whose next item is cheapest have it; others save up for theirs.
        let cheapest = self.heads().map(|(_, cost)| cost).filter(|cost| *cost > 0.0).fold(f64::MAX, f64::min);
        let quantum = if cheapest < f64::MAX { cheapest } else { f64::MIN_POSITIVE };
        let mut without = 0;
        while let Some(&line) = self.turns.front() {
            if !std::mem::take(&mut self.resumes) {
                self.line(line).give(quantum);
            }
            let had = batch.keys.len();
            match self.take_from(line, start, &mut batch) {
                Taken::LineIsEmpty => {}
                Taken::HasHadItsShare => self.turns.rotate_left(1),
                Taken::BatchIsFull => {
                    self.resumes = true;
                    break;
                }
            }
            without = if batch.keys.len() == had { without + 1 } else { 0 };
            if without > self.turns.len() {
                // Light lines with dear items would take many rounds in which nobody gets anything: those are had at once.
                self.skip_rounds(quantum);
                without = 0;
            }
        }
        batch
    }

    /// Lines in which somebody waits, with what the next of each costs.
    fn heads(&self) -> impl Iterator<Item = (LineId, f64)> {
        let newest_first = self.overload.is_on();
        self.turns.iter().filter_map(move |&line| {
            let (_, _, cost) = self.lines[line.0].as_ref()?.peek(line, newest_first)?;
            Some((line, cost))
        })
    }

    /// Gives every line what it would have after as many rounds as it takes until one can have its next item.
    fn skip_rounds(&mut self, quantum: f64) {
        let lacks = |(line, cost): (LineId, f64)| self.lines[line.0].as_ref().map(|at| at.lacks(cost));
        let least = self.heads().filter_map(lacks).fold(f64::MAX, f64::min).max(quantum);
        if least < f64::MAX {
            let lines: Vec<LineId> = self.turns.iter().copied().collect();
            lines.into_iter().for_each(|line| self.line(line).give(least));
        }
    }

    /// Moves items of a line into the batch, as far as the line's share and the batch's room go.
    fn take_from(&mut self, line: LineId, start: Duration, batch: &mut Assembly<K>) -> Taken {
        loop {
            let newest_first = self.overload.is_on();
            // A closed line is gone when its last item is.
            let next = self.lines[line.0].as_ref().and_then(|at| at.peek(line, newest_first));
            let Some((ticket, bytes, cost)) = next else { return Taken::LineIsEmpty };
            let deadline = ticket.deadline().unwrap_or(Duration::MAX);
            let is_first = self.flights.is_empty() && batch.keys.is_empty();
            let ends = |batching: &Self, cost| start.saturating_add(batching.model.predict(cost));
            if !is_first && deadline < Duration::MAX && ends(self, self.least_batch(line, cost)) > deadline {
                self.miss(ticket);
                continue;
            }
            let is_full = batch.keys.len() >= self.limits.items || batch.bytes + bytes > self.limits.bytes;
            let earliest = batch.deadline.min(deadline);
            let would_miss = !batch.keys.is_empty()
                && earliest < Duration::MAX
                && ends(self, batch.cost + cost) > earliest;
            if is_full || would_miss {
                return Taken::BatchIsFull;
            }
            if !self.line(line).pay(cost) {
                return Taken::HasHadItsShare;
            }
            let Some(taken) = self.remove(ticket) else { continue };
            if let Some(promise) = taken.promise {
                let end = ends(self, batch.cost + cost);
                if batch.promise.is_none_or(|hardest| promise.ratio(end) > hardest.ratio(end)) {
                    batch.promise = Some(promise);
                }
            }
            batch.keys.push(taken.key);
            batch.bytes += bytes;
            batch.cost += cost;
            // One that was let in for want of anything better, and will be late, is no reason for others to be.
            if deadline < Duration::MAX && ends(self, cost) <= deadline {
                batch.deadline = earliest;
            }
        }
    }
}
