//! What decides about batches: when one closes, who is in it, who is refused, and who has waited too long.
//!
//! Nothing here has a thread, a clock, a lock or an item's data. Time is a [`Duration`] since some beginning, which whoever asks
//! brings along, so that a test's clock is as good as the real one. Items are known by the caller's keys.
//!
//! Items wait in *lines*, one for each tenant. Inside a line the earliest deadline is first. Between lines goes *deficit round
//! robin* by what the items cost on the device, so that each has its weight's share of the device and not of the
//! requests. What a batch costs is learned ([`CostModel`]): so much for each, and so much for what is in it.
//!
//! A batch closes
//! 1. when the device has nothing to do, unless more items are about to come,
//! 2. when no more fits in,
//! 3. when one item more would make it miss the earliest deadline in it.
//!
//! While one batch runs another is made ready behind it, so that the device need not wait for us, but only when it is full, or so
//! large that little is lost by its being one of its own: where the work comes from clients that wait for their answers,
//! batches that close early would be many small ones.
#![warn(missing_docs)]

mod arrivals;
mod assembly;
mod caution;
mod cost;
mod line;
mod overload;

use std::collections::VecDeque;
use std::time::Duration;

use arrivals::Arrivals;
use assembly::Assembly;
pub use caution::FETCHED_SOON;
use caution::{Caution, Promise};
pub use cost::CostModel;
pub use line::Ticket;
use line::{Line, Waiting};
use overload::Overload;

/// A batch is held open on an idle device for no longer than this: who looks whether items come has a processor to look with.
const LONGEST_HOLD: Duration = Duration::from_micros(100);

/// Nothing costs more: what is learned of it is made of squares and sums.
pub const MOST_COST: f64 = 1e12;

/// What a batch may have, and how many there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Items of a batch.
    pub items: usize,
    /// Bytes of a batch's items.
    pub bytes: usize,
    /// Items that wait; more are refused, or have the places of others that are [over their share](Batching::displaced).
    pub waiting: usize,
    /// Batches on the device at a time: the one that runs, and those behind it.
    pub in_flight: usize,
    /// How long items may queue before that is called overload, in which the newest go first.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            items: 1024,
            bytes: 64 << 20,
            waiting: 64 << 10,
            in_flight: 2,
            patience: Duration::from_millis(20),
        }
    }
}

/// One that wants to be in a batch.
#[derive(Clone, Copy, Debug)]
pub struct Item<K> {
    /// The caller's name for it.
    pub key: K,
    /// Bytes that it has in a batch.
    pub bytes: usize,
    /// What it costs on the device beside other items: in any unit, as long as all have the same.
    pub cost: f64,
    /// When its answer is of no use any more.
    pub deadline: Option<Duration>,
    /// Whose is smaller is served first where nothing else is in favour of either. No two that wait in a line have the same.
    pub number: u128,
}

/// Why an item may not wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refused {
    /// As many wait as may. It would have taken so long.
    Full(Duration),
    /// It would have taken so long, and its deadline is before that.
    Late(Duration),
    /// No batch may have so many bytes.
    TooLarge,
}

/// Which batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BatchId(u64);

/// Which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineId(usize);

/// What is to be done now.
#[derive(Debug, PartialEq)]
pub enum Next<K> {
    /// Launch these together.
    Launch(BatchId, Vec<K>),
    /// More are about to come: look again at once, after others had the processor.
    LookAgain,
    /// Nothing, before an item comes, a batch ends, or the [earliest deadline](Batching::earliest_deadline) passes.
    Wait,
}

#[derive(Debug)]
struct Flight {
    id: BatchId,
    launched: Duration,
    cost: f64,
    expected: Duration,
    /// Of its items' promises the one that is hardest to keep.
    promise: Option<Promise>,
}

/// See the crate's documentation.
#[derive(Debug)]
pub struct Batching<K> {
    limits: Limits,
    /// Free places have none.
    lines: Vec<Option<Line<K>>>,
    /// Lines in which somebody waits, the one whose turn it is first.
    turns: VecDeque<LineId>,
    /// The first of the turns has had its quantum, and was left because the batch was full.
    resumes: bool,
    items: usize,
    cost: f64,
    bytes: usize,
    flights: VecDeque<Flight>,
    /// When a batch last ended.
    last_end: Duration,
    /// Since when the next batch is held open on an idle device, and how many items it had then.
    held: Option<(Duration, usize)>,
    model: CostModel,
    arrivals: Arrivals,
    caution: Caution,
    overload: Overload,
    batches: u64,
    /// Items that a batch could not take any more in time.
    missed: Vec<K>,
    /// Items that gave their places up, with the wait that there would have been.
    displaced: Vec<(K, Duration)>,
    /// No deadline is before this one; the item whose it was may have gone.
    earliest: Duration,
}

impl<K> Batching<K> {
    /// Nobody waits.
    pub fn new(limits: Limits) -> Self {
        let [items, waiting, in_flight] =
            [limits.items, limits.waiting, limits.in_flight].map(|limit| limit.max(1));
        let limits = Limits { items, waiting, in_flight, ..limits };
        Batching {
            limits,
            lines: Vec::new(),
            turns: VecDeque::new(),
            resumes: false,
            items: 0,
            cost: 0.0,
            bytes: 0,
            flights: VecDeque::new(),
            last_end: Duration::ZERO,
            held: None,
            model: CostModel::default(),
            arrivals: Arrivals::default(),
            caution: Caution::default(),
            overload: Overload::new(limits.patience),
            batches: 0,
            missed: Vec::new(),
            displaced: Vec::new(),
            earliest: Duration::MAX,
        }
    }

    /// A line that has this share of the device beside others.
    pub fn add_line(&mut self, weight: f64) -> LineId {
        let line = Line::new(weight);
        match self.lines.iter().position(Option::is_none) {
            Some(free) => {
                self.lines[free] = Some(line);
                LineId(free)
            }
            None => {
                self.lines.push(Some(line));
                LineId(self.lines.len() - 1)
            }
        }
    }

    /// Nobody comes to this line any more. Those who wait in it are served.
    pub fn close_line(&mut self, line: LineId) {
        self.line(line).closed = true;
        self.forget(line);
    }

    /// Lines that there are.
    pub fn lines(&self) -> usize {
        self.lines.iter().flatten().count()
    }

    /// Items that wait.
    pub fn waiting(&self) -> usize {
        self.items
    }

    /// Batches that have been launched and have not ended.
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// What a batch may have.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What has been learned of a batch's cost.
    pub fn model(&self) -> &CostModel {
        &self.model
    }

    /// Whether so much waits that the newest go first.
    pub fn is_overloaded(&self) -> bool {
        self.overload.is_on()
    }

    /// An item comes, and waits unless that makes no sense; another may [have to go](Self::displaced) for it. Its ticket is [the one](Ticket::new) of its line, deadline and number. Who is refused
    /// comes back.
    pub fn offer(&mut self, now: Duration, line: LineId, item: Item<K>) -> Result<Ticket, (Refused, K)> {
        self.arrivals.came(now);
        if item.bytes > self.limits.bytes {
            return Err((Refused::TooLarge, item.key));
        }
        let cost = if item.cost.is_nan() { 0.0 } else { item.cost.clamp(0.0, MOST_COST) };
        let mut promise = None;
        if let Some(deadline) = item.deadline {
            let predicted = self.predicted_wait(now, line, cost);
            let wait = self.promised(predicted) + self.caution.fetching();
            // Where nothing waits and nothing runs, nothing would be learned if nobody was let in.
            let is_idle = self.items == 0 && self.flights.is_empty();
            if deadline < if is_idle { now } else { now + wait } {
                return Err((Refused::Late(wait), item.key));
            }
            promise = Some(Promise { came: now, deadline, wait: predicted });
        }
        // Last, so that nobody goes for one that is refused.
        if self.items >= self.limits.waiting && !self.make_room(now, line) {
            return Err((Refused::Full(self.promised(self.predicted_wait(now, line, cost))), item.key));
        }
        let ticket = Ticket::new(line, item.deadline, item.number);
        self.earliest = self.earliest.min(item.deadline.unwrap_or(Duration::MAX));
        let waiting = Waiting { key: item.key, bytes: item.bytes, cost, promise };
        self.items += 1;
        self.bytes += waiting.bytes;
        self.cost += waiting.cost;
        let at = self.line(line);
        if at.is_empty() {
            self.turns.push_back(line);
        }
        self.line(line).insert(ticket, waiting);
        Ok(ticket)
    }

    /// An item is not wanted any more. `None`: it does not wait.
    pub fn withdraw(&mut self, ticket: Ticket) -> Option<K> {
        self.remove(ticket).map(|waiting| waiting.key)
    }

    fn remove(&mut self, ticket: Ticket) -> Option<Waiting<K>> {
        let line = ticket.line();
        // Its line may be gone, and another in its place; tickets have numbers of their own, so that none is there twice.
        let waiting = self.lines[line.0].as_mut()?.remove(ticket)?;
        self.left(line, waiting.bytes, waiting.cost);
        Some(waiting)
    }

    /// Those who had to give their places to items that came since this was last asked, with the wait that there would have been: as
    /// [`Refused::Full`] when they came.
    pub fn displaced(&mut self) -> Vec<(K, Duration)> {
        std::mem::take(&mut self.displaced)
    }

    /// As many wait as may, and one comes to a line that has less than its share of the places: the line that is furthest over its
    /// share gives one up, that of the item whose turn would have come last. Else who sends without an end would have all places,
    /// and the others none, whatever their shares of the device. The places stay as they are where one more would put the line that
    /// comes over its share, so that two lines do not take each other's by turns. One place is everybody's, however small the share:
    /// nobody's last one is taken, and who has none gets one as long as anybody has two.
    fn make_room(&mut self, now: Duration, line: LineId) -> bool {
        let places = |batching: &Self, line: LineId, more: usize| {
            let at = batching.lines[line.0].as_ref();
            at.map_or(0.0, |at| (at.len() + more) as f64 / at.weight())
        };
        let waits = |line: LineId| self.lines[line.0].as_ref().map_or(0, Line::len);
        let several = self.turns.iter().copied().filter(|&line| waits(line) > 1);
        let most = several.max_by(|a, b| places(self, *a, 0).total_cmp(&places(self, *b, 0)));
        let has_none = waits(line) == 0;
        let Some(from) = most.filter(|from| has_none || places(self, line, 1) < places(self, *from, 0))
        else {
            return false;
        };
        let last = self.lines[from.0].as_ref().and_then(|at| at.peek(from, !self.overload.is_on()));
        let Some((ticket, _, cost)) = last else { return false };
        let wait = self.promised(self.predicted_wait(now, from, cost));
        let Some(displaced) = self.remove(ticket) else { return false };
        self.displaced.push((displaced.key, wait));
        true
    }

    /// Those whose deadlines have passed, and those that no batch can take in time; they do not wait any more.
    pub fn overdue(&mut self, now: Duration) -> Vec<K> {
        self.miss_overdue(now);
        self.missed()
    }

    /// Those of them that [`next`](Self::next) has found.
    pub fn missed(&mut self) -> Vec<K> {
        std::mem::take(&mut self.missed)
    }

    fn miss(&mut self, ticket: Ticket) {
        let Some(missed) = self.remove(ticket) else { return };
        if let Some(promise) = &missed.promise {
            self.caution.broken(promise);
        }
        self.missed.push(missed.key);
    }

    fn miss_overdue(&mut self, now: Duration) {
        if now < self.earliest {
            return;
        }
        for line in (0..self.lines.len()).map(LineId) {
            while let Some(ticket) = self.lines[line.0].as_ref().and_then(|at| at.first_overdue(line, now)) {
                self.miss(ticket);
            }
        }
        self.earliest = self.earliest_deadline().unwrap_or(Duration::MAX);
    }

    /// What is to be done. Who is overdue by now is in no batch.
    pub fn next(&mut self, now: Duration) -> Next<K> {
        self.miss_overdue(now);
        if self.items == 0 {
            self.overload.look(now, Duration::ZERO);
            return Next::Wait;
        }
        match self.may_close(now) {
            Close::Now => {}
            Close::Soon => return Next::LookAgain,
            Close::Later => return Next::Wait,
        }
        self.overload.look(now, self.backlog());
        let held = self.held.take();
        let Assembly { keys, cost, promise, .. } = self.assemble(now);
        if keys.is_empty() {
            // All who waited were too late.
            return Next::Wait;
        }
        if let Some((_, had)) = held {
            self.arrivals.held(had, keys.len());
        }
        Next::Launch(self.fly(now, cost, promise), keys)
    }

    /// Items go to the device again: those of a batch that failed, in parts.
    pub fn begin(&mut self, now: Duration, cost: f64) -> BatchId {
        self.fly(now, cost, None)
    }

    fn fly(&mut self, now: Duration, cost: f64, promise: Option<Promise>) -> BatchId {
        self.batches += 1;
        self.held = None;
        let id = BatchId(self.batches);
        self.flights.push_back(Flight {
            id,
            launched: now,
            cost,
            expected: self.model.predict(cost),
            promise,
        });
        id
    }

    /// A batch has ended. What it took teaches something if all went well.
    pub fn ended(&mut self, now: Duration, id: BatchId, is_ok: bool) {
        let Some(at) = self.flights.iter().position(|flight| flight.id == id) else { return };
        let flight = self.flights.remove(at);
        // What was launched while another ran has begun when that one ended.
        if let Some(flight) = flight.filter(|_| is_ok) {
            self.model.observe(flight.cost, now.saturating_sub(flight.launched.max(self.last_end)));
            if let Some(promise) = flight.promise {
                self.caution.kept(&promise, now);
            }
        }
        self.caution.ended(now.saturating_sub(self.last_end));
        self.last_end = now;
        self.arrivals.ended(now);
        self.overload.look(now, self.backlog());
    }

    /// Somebody took so long to fetch its answer. Not needed for those who took less than [`FETCHED_SOON`].
    pub fn fetched(&mut self, delay: Duration) {
        self.caution.fetched(delay);
    }

    fn may_close(&mut self, now: Duration) -> Close {
        let is_full = self.items >= self.limits.items || self.bytes >= self.limits.bytes;
        if is_full || !self.flights.is_empty() {
            let is_large = is_full || self.model.is_worth_its_own(self.cost);
            return if is_large && self.flights.len() < self.limits.in_flight {
                Close::Now
            } else {
                Close::Later
            };
        }
        // What is saved is what one more batch would take beside its items. To hold it for longer would lose more than that.
        let (held_since, _) = *self.held.get_or_insert((now, self.items));
        let is_held = now < held_since + self.model.fixed().min(LONGEST_HOLD);
        match is_held && self.arrivals.more_to_come(now, self.model.fixed(), self.items) {
            true => Close::Soon,
            false => Close::Now,
        }
    }

    /// Items that fit into a batch, of those that wait.
    fn per_batch(&self) -> usize {
        let by_bytes = (self.limits.bytes as u128 * self.items as u128).checked_div(self.bytes as u128);
        self.limits.items.min(by_bytes.map_or(usize::MAX, |items| items as usize)).max(1)
    }

    /// What the batch costs at least that is made for an item. Where full batches wait in its own line, it is a full one: one that
    /// is cut short for a single item's sake would make many others late.
    fn least_batch(&self, line: LineId, cost: f64) -> f64 {
        let (per_batch, line) = (self.per_batch(), self.lines[line.0].as_ref());
        let full = line.filter(|line| line.len() >= per_batch);
        full.map_or(cost, |line| cost.max(line.cost() * per_batch as f64 / line.len() as f64))
    }

    /// What can be promised to one that is predicted to wait so long.
    fn promised(&self, predicted: Duration) -> Duration {
        predicted.mul_f64(self.caution.factor().max(1.0 + self.model.margin()))
    }

    /// How long an item that comes to this line now would wait for its answer, if nothing unusual happens.
    fn predicted_wait(&self, now: Duration, line: LineId, cost: f64) -> Duration {
        let own = self.lines[line.0].as_ref().map_or((0.0, 1.0, 0), |at| (at.cost(), at.weight(), at.len()));
        let weights: f64 =
            self.turns.iter().filter(|&&other| other != line).map(|other| self.weight(*other)).sum();
        // Others are served beside this line by their weights, and only as long as they have something.
        let share = (own.1 + weights) / own.1;
        let ahead = (own.0 * share).min(self.cost);
        let part = if self.cost > 0.0 { ahead / self.cost } else { 0.0 };
        let items = own.2.max((part * self.items as f64) as usize);
        let per_batch = self.per_batch();
        let full = items / per_batch;
        // Others that come later will be in its batch as well, if it has to wait for its turn.
        let last = ahead * (items % per_batch) as f64 / items.max(1) as f64 + cost;
        let company = if self.flights.is_empty() { 0.0 } else { (self.model.usual_cost() - last).max(0.0) };
        self.remaining(now) + self.model.predict_all(full + 1, ahead + cost + company)
    }

    /// How long the device will take for what waits.
    fn backlog(&self) -> Duration {
        let batches = self.items.div_ceil(self.per_batch());
        self.model.predict_all(batches, self.cost)
    }

    /// How long the device has to do with what was launched.
    fn remaining(&self, now: Duration) -> Duration {
        let all: Duration = self.flights.iter().map(|flight| flight.expected).sum();
        let begun = self.flights.front().map_or(now, |first| first.launched.max(self.last_end));
        let first = self.flights.front().map_or(Duration::ZERO, |first| first.expected);
        all - first + first.saturating_sub(now.saturating_sub(begun))
    }

    /// When somebody who waits has waited too long.
    pub fn earliest_deadline(&self) -> Option<Duration> {
        self.lines.iter().flatten().filter_map(Line::earliest_deadline).min()
    }

    fn weight(&self, line: LineId) -> f64 {
        self.lines[line.0].as_ref().map_or(0.0, Line::weight)
    }

    fn line(&mut self, line: LineId) -> &mut Line<K> {
        self.lines[line.0].as_mut().expect("a line is there as long as somebody has it, or waits in it")
    }

    /// Somebody does not wait in this line any more.
    fn left(&mut self, line: LineId, bytes: usize, cost: f64) {
        self.items -= 1;
        self.bytes -= bytes;
        self.cost = if self.items == 0 { 0.0 } else { (self.cost - cost).max(0.0) };
        if self.items == 0 {
            self.held = None;
        }
        if self.line(line).is_empty() {
            self.resumes &= self.turns.front() != Some(&line);
            self.turns.retain(|&other| other != line);
            self.forget(line);
        }
    }

    fn forget(&mut self, line: LineId) {
        if self.line(line).closed && self.line(line).is_empty() {
            self.lines[line.0] = None;
        }
    }
}

/// Whether a batch is to close.
enum Close {
    Now,
    /// More are about to come.
    Soon,
    /// The device has enough to do.
    Later,
}
