//! A device, clients and a clock.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use windlass_batching::{BatchId, Batching, Item, Limits, LineId, Next};
use windlass_testkit::Rng;

/// One that takes so much for each batch, and so much for each unit of cost in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) batch: Duration,
    pub(crate) unit: Duration,
    /// By how many per cent it may take longer.
    pub(crate) jitter: usize,
    /// One batch of so many takes three times as long; with 0 none does.
    pub(crate) hiccups: usize,
    /// The first batch from then on takes so much longer.
    pub(crate) stall: Option<(Duration, Duration)>,
}

impl Device {
    pub(crate) fn time(&self, cost: f64) -> Duration {
        self.batch + self.unit.mul_f64(cost)
    }

    fn takes(&self, cost: f64, rng: &mut Rng) -> Duration {
        let usual = self.time(cost).mul_f64(1.0 + rng.below(self.jitter + 1) as f64 / 100.0);
        let hiccups = self.hiccups > 0 && rng.below(self.hiccups) == 0;
        if hiccups { 3 * usual } else { usual }
    }
}

/// A tenant's clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    arrivals: Arrivals,
    items: usize,
    cost: f64,
    weight: f64,
    within: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// One each time this has passed.
    Every(Duration),
    /// In the mean, by chance.
    Random(Duration),
    /// So many clients, who come again so long after each answer.
    Closed(usize, Duration),
}

impl Load {
    fn new(arrivals: Arrivals, items: usize) -> Self {
        Load { arrivals, items, cost: 1.0, weight: 1.0, within: None }
    }

    pub(crate) fn open(gap: Duration, items: usize) -> Self {
        Self::new(Arrivals::Every(gap), items)
    }

    pub(crate) fn random(gap: Duration, items: usize) -> Self {
        Self::new(Arrivals::Random(gap), items)
    }

    pub(crate) fn closed(clients: usize, pause: Duration, items: usize) -> Self {
        Self::new(Arrivals::Closed(clients, pause), items)
    }

    pub(crate) fn costing(self, cost: f64) -> Self {
        Load { cost, ..self }
    }

    pub(crate) fn weighing(self, weight: f64) -> Self {
        Load { weight, ..self }
    }

    pub(crate) fn within(self, within: Duration) -> Self {
        Load { within: Some(within), ..self }
    }
}

/// What became of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Answered { tenant: usize, came: Duration, end: Duration, within: Option<Duration>, cost: f64 },
    Refused,
    Expired,
}

pub(crate) struct Run {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) batches: usize,
    end: Duration,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |kind: fn(&Outcome) -> bool| self.outcomes.iter().filter(|outcome| kind(outcome)).count();
        f.debug_struct("Run")
            .field("answered", &of(|outcome| matches!(outcome, Outcome::Answered { .. })))
            .field("refused", &of(|outcome| matches!(outcome, Outcome::Refused)))
            .field("expired", &of(|outcome| matches!(outcome, Outcome::Expired)))
            .field("batches", &self.batches)
            .field("end", &self.end)
            .finish()
    }
}

impl Run {
    pub(crate) fn answered(&self) -> impl Iterator<Item = (Duration, Duration)> {
        self.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Answered { came, end, .. } => Some((*came, *end)),
            _ => None,
        })
    }

    pub(crate) fn latencies_of(&self, wanted: usize) -> impl Iterator<Item = Duration> {
        self.outcomes.iter().filter_map(move |outcome| match outcome {
            Outcome::Answered { tenant, came, end, .. } if *tenant == wanted => Some(*end - *came),
            _ => None,
        })
    }

    pub(crate) fn in_time(&self) -> usize {
        let in_time = |outcome: &&Outcome| match outcome {
            Outcome::Answered { came, end, within, .. } => within.is_none_or(|within| *end - *came <= within),
            _ => false,
        };
        self.outcomes.iter().filter(in_time).count()
    }

    pub(crate) fn percentile(&self, part: f64) -> Duration {
        let mut all: Vec<_> = self.answered().map(|(came, end)| end - came).collect();
        all.sort();
        all[(part * (all.len() - 1) as f64) as usize]
    }

    pub(crate) fn length(&self) -> Duration {
        self.end
    }

    pub(crate) fn seconds(&self) -> usize {
        self.end.as_secs() as usize
    }

    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        self.answered().count() as f64 / self.end.as_secs_f64()
    }

    /// What the device did for a tenant in one second.
    pub(crate) fn cost_of(&self, wanted: usize, second: usize) -> f64 {
        let of = |outcome: &Outcome| match outcome {
            Outcome::Answered { tenant, end, cost, .. }
                if *tenant == wanted && end.as_secs() as usize == second =>
            {
                *cost
            }
            _ => 0.0,
        };
        self.outcomes.iter().map(of).sum()
    }
}

struct World {
    device: Device,
    batching: Batching<usize>,
    loads: Vec<(Load, LineId, usize)>,
    rng: Rng,
    /// When who comes.
    coming: BinaryHeap<Reverse<(Duration, usize)>>,
    /// Batches in the order in which the device runs them, with their ends.
    running: Vec<(Duration, BatchId, Vec<usize>)>,
    /// Tenant and time of each item that was let in.
    items: BTreeMap<usize, (usize, Duration)>,
    outcomes: Vec<Outcome>,
    batches: usize,
    now: Duration,
}

/// Runs the loads to their ends.
pub(crate) fn simulate(device: Device, limits: Limits, loads: &[Load]) -> Run {
    let mut batching = Batching::new(limits);
    let loads = loads.iter().map(|load| (*load, batching.add_line(load.weight), load.items)).collect();
    let mut world = World {
        device,
        batching,
        loads,
        rng: Rng::new(1),
        coming: BinaryHeap::new(),
        running: Vec::new(),
        items: BTreeMap::new(),
        outcomes: Vec::new(),
        batches: 0,
        now: Duration::ZERO,
    };
    world.begin();
    while world.step() {}
    Run { outcomes: world.outcomes, batches: world.batches, end: world.now }
}

impl World {
    fn begin(&mut self) {
        for tenant in 0..self.loads.len() {
            match self.loads[tenant].0.arrivals {
                Arrivals::Closed(clients, _) => (0..clients).for_each(|_| self.comes(tenant, Duration::ZERO)),
                Arrivals::Every(_) | Arrivals::Random(_) => self.comes(tenant, Duration::ZERO),
            }
        }
    }

    fn comes(&mut self, tenant: usize, at: Duration) {
        let left = &mut self.loads[tenant].2;
        if *left > 0 {
            *left -= 1;
            self.coming.push(Reverse((at, tenant)));
        }
    }

    /// The next thing that happens; `false`: nothing does any more.
    fn step(&mut self) -> bool {
        let looks_again = self.look();
        let soon = looks_again.then(|| self.now + Duration::from_micros(1));
        let coming = self.coming.peek().map(|Reverse((at, _))| *at);
        let ending = self.running.first().map(|(end, ..)| *end);
        let next = [soon, coming, ending, self.batching.earliest_deadline()].into_iter().flatten().min();
        let Some(next) = next else { return false };
        self.now = self.now.max(next);
        if ending.is_some_and(|end| end <= self.now) {
            self.ends();
        } else if coming.is_some_and(|at| at <= self.now) {
            self.arrives();
        }
        true
    }

    fn arrives(&mut self) {
        let Some(Reverse((_, tenant))) = self.coming.pop() else { return };
        let (load, line, _) = self.loads[tenant];
        let key = self.outcomes.len() + self.items.len();
        let deadline = load.within.map(|within| self.now + within);
        let item = Item { key, bytes: 4, cost: load.cost, deadline, number: key as u128 };
        match self.batching.offer(self.now, line, item) {
            Ok(_) => drop(self.items.insert(key, (tenant, self.now))),
            Err(_) => self.outcomes.push(Outcome::Refused),
        }
        match load.arrivals {
            Arrivals::Every(gap) => self.comes(tenant, self.now + gap),
            Arrivals::Random(gap) => {
                let chance = (self.rng.below(1_000_000) + 1) as f64 / 1e6;
                self.comes(tenant, self.now + gap.mul_f64(-chance.ln()));
            }
            Arrivals::Closed(..) => {}
        }
    }

    fn ends(&mut self) {
        let (_, id, keys) = self.running.remove(0);
        self.batching.ended(self.now, id, true);
        for (place, key) in keys.into_iter().enumerate() {
            let (tenant, came) = self.items.remove(&key).expect("an item is in one batch");
            let load = self.loads[tenant].0;
            let outcome =
                Outcome::Answered { tenant, came, end: self.now, within: load.within, cost: load.cost };
            self.outcomes.push(outcome);
            if let Arrivals::Closed(_, pause) = load.arrivals {
                // Answers are handed out one after the other.
                self.comes(tenant, self.now + pause + Duration::from_nanos(100 * place as u64));
            }
        }
    }

    fn look(&mut self) -> bool {
        loop {
            let next = self.batching.next(self.now);
            for key in self.batching.overdue(self.now) {
                self.items.remove(&key);
                self.outcomes.push(Outcome::Expired);
            }
            match next {
                Next::Launch(id, keys) => {
                    self.batches += 1;
                    let cost = keys.iter().map(|key| self.loads[self.items[key].0].0.cost).sum();
                    let start = self.running.last().map_or(self.now, |(end, ..)| *end);
                    let stall = self.device.stall.take_if(|(at, _)| start >= *at);
                    let stall = stall.map_or(Duration::ZERO, |(_, length)| length);
                    let end = start + self.device.takes(cost, &mut self.rng) + stall;
                    self.running.push((end, id, keys));
                }
                Next::LookAgain => return true,
                Next::Wait => return false,
            }
        }
    }
}

/// What a fixed size would do for clients who wait for their answers: answers a second.
pub(crate) fn fixed_size(device: Device, size: usize, clients: usize, pause: Duration, items: usize) -> f64 {
    let mut coming: BinaryHeap<Reverse<Duration>> = (0..clients).map(|_| Reverse(Duration::ZERO)).collect();
    let (mut idle, mut answered) = (Duration::ZERO, 0);
    while answered < items {
        let batch: Vec<_> = (0..size).filter_map(|_| coming.pop()).collect();
        let Some(Reverse(last)) = batch.last() else { break };
        idle = idle.max(*last) + device.time(batch.len() as f64);
        answered += batch.len();
        let again =
            (0..batch.len()).map(|place| Reverse(idle + pause + Duration::from_nanos(100 * place as u64)));
        coming.extend(again);
    }
    answered as f64 / idle.as_secs_f64()
}
