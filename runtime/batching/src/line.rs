//! Those who wait for one tenant.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::LineId;

/// The place of one that waits: its line, its deadline, and when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    line: LineId,
    place: Place,
}

/// The earliest deadline first, and those without one last; among equals the first to come.
type Place = (Duration, u64);

impl Ticket {
    pub(crate) fn new(line: LineId, deadline: Option<Duration>, number: u64) -> Self {
        Ticket { line, place: (deadline.unwrap_or(Duration::MAX), number) }
    }

    pub(crate) fn line(self) -> LineId {
        self.line
    }

    pub(crate) fn deadline(self) -> Option<Duration> {
        (self.place.0 != Duration::MAX).then_some(self.place.0)
    }
}

#[derive(Debug)]
pub(crate) struct Waiting<K> {
    pub(crate) key: K,
    pub(crate) bytes: usize,
    pub(crate) cost: f64,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Line<K> {
    weight: f64,
    /// Cost that it may still have in this round.
    deficit: f64,
    waiting: BTreeMap<Place, Waiting<K>>,
    cost: f64,
    /// Nobody comes any more.
    pub(crate) closed: bool,
}

impl<K> Line<K> {
    pub(crate) fn new(weight: f64) -> Self {
        // A round gives each line its weight: with one of next to nothing it would take for ever to afford an item.
        let weight = if weight.is_nan() { 1.0 } else { weight.clamp(1e-3, 1e3) };
        Line { weight, deficit: 0.0, waiting: BTreeMap::new(), cost: 0.0, closed: false }
    }

    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Of all who wait.
    pub(crate) fn cost(&self) -> f64 {
        self.cost
    }

    pub(crate) fn insert(&mut self, ticket: Ticket, waiting: Waiting<K>) {
        self.cost += waiting.cost;
        self.waiting.insert(ticket.place, waiting);
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiting<K>> {
        let waiting = self.waiting.remove(&ticket.place)?;
        self.cost -= waiting.cost;
        if self.waiting.is_empty() {
            // A line that has nothing to send saves nothing up.
            (self.cost, self.deficit) = (0.0, 0.0);
        }
        Some(waiting)
    }

    /// The one whose turn it is, with its bytes and its cost. Where there are more than can be served, those who came last have the best prospects:
    /// their deadlines are farthest, and nobody has given them up yet.
    pub(crate) fn peek(&self, line: LineId, newest_first: bool) -> Option<(Ticket, usize, f64)> {
        let next = match newest_first {
            false => self.waiting.first_key_value(),
            true => self.waiting.last_key_value(),
        };
        next.map(|(&place, waiting)| (Ticket { line, place }, waiting.bytes, waiting.cost))
    }

    pub(crate) fn earliest_deadline(&self) -> Option<Duration> {
        let (&(deadline, _), _) = self.waiting.first_key_value()?;
        (deadline != Duration::MAX).then_some(deadline)
    }

    pub(crate) fn first_overdue(&self, line: LineId, now: Duration) -> Option<Ticket> {
        let (&place, _) = self.waiting.first_key_value()?;
        (place.0 <= now && place.0 != Duration::MAX).then_some(Ticket { line, place })
    }

    /// How large a round's quantum would have to be for it to have something of this cost.
    pub(crate) fn lacks(&self, cost: f64) -> f64 {
        (cost - self.deficit) / self.weight
    }

    /// A round begins for it.
    pub(crate) fn give(&mut self, quantum: f64) {
        self.deficit += self.weight * quantum;
    }

    /// Whether its share allows for something of this cost; if so, it is paid.
    pub(crate) fn pay(&mut self, cost: f64) -> bool {
        // What was given in several rounds has been rounded.
        let allows = cost <= self.deficit * (1.0 + 1e-9);
        if allows {
            self.deficit = (self.deficit - cost).max(0.0);
        }
        allows
    }
}
