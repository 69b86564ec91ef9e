//! Those who wait for one tenant.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::LineId;
use crate::caution::Promise;

/// The place of one that waits: its line, its deadline, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    line: LineId,
    place: Place,
}

/// The earliest deadline first, and those without one last; among equals the smallest number.
type Place = (Duration, u128);

impl Ticket {
    /// Of an item with this deadline and number, in this line.
    pub fn new(line: LineId, deadline: Option<Duration>, number: u128) -> Self {
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
    /// If it has a deadline.
    pub(crate) promise: Option<Promise>,
}

/// Those without a deadline, in the order of their numbers: a queue, in which who leaves from its midst leaves a gap.
#[derive(Debug)]
struct Unhurried<K> {
    /// The numbers ascend; neither the first nor the last is a gap.
    places: VecDeque<(u128, Option<Waiting<K>>)>,
    gaps: usize,
}

impl<K> Unhurried<K> {
    fn len(&self) -> usize {
        self.places.len() - self.gaps
    }

    fn insert(&mut self, number: u128, waiting: Waiting<K>) {
        // Those who came at about the same time may get here in another order: a few at the end.
        let later = self.places.iter().rev().take_while(|place| place.0 > number).count();
        self.places.insert(self.places.len() - later, (number, Some(waiting)));
    }

    fn remove(&mut self, number: u128) -> Option<Waiting<K>> {
        let at = match self.places.front()?.0 == number {
            true => 0,
            false => self.places.binary_search_by_key(&number, |place| place.0).ok()?,
        };
        let waiting = self.places[at].1.take()?;
        self.gaps += 1;
        self.close_gaps();
        Some(waiting)
    }

    fn close_gaps(&mut self) {
        while self.places.front().is_some_and(|place| place.1.is_none()) {
            self.places.pop_front();
            self.gaps -= 1;
        }
        while self.places.back().is_some_and(|place| place.1.is_none()) {
            self.places.pop_back();
            self.gaps -= 1;
        }
        // Who waits long while others behind it come and go does not have a trail of them in memory.
        if self.gaps > 64 && self.gaps > self.places.len() / 2 {
            self.places.retain(|place| place.1.is_some());
            self.gaps = 0;
        }
    }
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Line<K> {
    weight: f64,
    /// Cost that it may still have in this round.
    deficit: f64,
    hurried: BTreeMap<Place, Waiting<K>>,
    unhurried: Unhurried<K>,
    cost: f64,
    /// Nobody comes any more.
    pub(crate) closed: bool,
}

impl<K> Line<K> {
    pub(crate) fn new(weight: f64) -> Self {
        // A round gives each line its weight: with one of next to nothing it would take for ever to afford an item.
        let weight = if weight.is_nan() { 1.0 } else { weight.clamp(1e-3, 1e3) };
        let unhurried = Unhurried { places: VecDeque::new(), gaps: 0 };
        Line { weight, deficit: 0.0, hurried: BTreeMap::new(), unhurried, cost: 0.0, closed: false }
    }

    pub(crate) fn weight(&self) -> f64 {
        self.weight
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.hurried.len() + self.unhurried.len()
    }

    /// Of all who wait.
    pub(crate) fn cost(&self) -> f64 {
        self.cost
    }

    pub(crate) fn insert(&mut self, ticket: Ticket, waiting: Waiting<K>) {
        self.cost += waiting.cost;
        match ticket.deadline() {
            Some(_) => drop(self.hurried.insert(ticket.place, waiting)),
            None => self.unhurried.insert(ticket.place.1, waiting),
        }
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Waiting<K>> {
        let waiting = match ticket.deadline() {
            Some(_) => self.hurried.remove(&ticket.place)?,
            None => self.unhurried.remove(ticket.place.1)?,
        };
        self.cost -= waiting.cost;
        if self.is_empty() {
            // A line that has nothing to send saves nothing up.
            (self.cost, self.deficit) = (0.0, 0.0);
        }
        Some(waiting)
    }

    /// The one whose turn it is, with its bytes and its cost. Where there are more than can be served, those who came last have the best prospects:
    /// their deadlines are farthest, and nobody has given them up yet.
    pub(crate) fn peek(&self, line: LineId, newest_first: bool) -> Option<(Ticket, usize, f64)> {
        let (hurried, unhurried) = match newest_first {
            false => (self.hurried.first_key_value(), self.unhurried.places.front()),
            true => (self.hurried.last_key_value(), self.unhurried.places.back()),
        };
        let hurried = hurried.map(|(&place, waiting)| (place, waiting));
        let unhurried =
            unhurried.and_then(|(number, waiting)| Some(((Duration::MAX, *number), waiting.as_ref()?)));
        let next = if newest_first { unhurried.or(hurried) } else { hurried.or(unhurried) };
        next.map(|(place, waiting)| (Ticket { line, place }, waiting.bytes, waiting.cost))
    }

    pub(crate) fn earliest_deadline(&self) -> Option<Duration> {
        self.hurried.first_key_value().map(|(place, _)| place.0)
    }

    pub(crate) fn first_overdue(&self, line: LineId, now: Duration) -> Option<Ticket> {
        let (&place, _) = self.hurried.first_key_value()?;
        (place.0 <= now).then_some(Ticket { line, place })
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
