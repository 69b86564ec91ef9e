//! What a batch takes on the device: so much for each batch, and so much for each unit of cost in it; and how much longer
//! than usual it takes just now.
//!
//! The two are learned apart, because they change at different times. How a batch's time grows with its cost is the kernel's and
//! the device's nature: it is remembered for long, since a steady load sends batches of one size, which tell nothing about
//! others. How fast the device is at present is what its latest batches say.

use std::time::Duration;

/// How much of the shape is kept with each new batch: about the last five hundred count.
const SHAPE_KEPT: f64 = 0.998;

/// How many times what each batch takes by itself the items of a large one do.
const LARGE: f64 = 8.0;

/// What the latest batch counts for the present speed.
const LATEST: f64 = 0.15;

/// A batch that took more than so many times what was expected has met something else (a page fault, another process),
/// and counts as one that took so many times; one that took a part as small ran beside another.
const SURPRISE: f64 = 4.0;

/// A line through what batches took over what they cost, by least squares of the relative errors, in which older batches count less;
/// and how the latest compare with it.
///
/// ```
/// use std::time::Duration;
/// use windlass_batching::CostModel;
/// let mut model = CostModel::default();
/// for items in [1.0, 8.0, 64.0, 2.0, 16.0] {
///     model.observe(items, Duration::from_micros(20 + 3 * items as u64));
/// }
/// let (fixed, unit) = (model.fixed().as_nanos() as f64, model.unit().as_nanos() as f64);
/// assert!((fixed / 20_000.0 - 1.0).abs() < 0.01 && (unit / 3_000.0 - 1.0).abs() < 0.01);
/// ```
#[derive(Clone, Debug)]
pub struct CostModel {
    weight: f64,
    cost: f64,
    time: f64,
    cost_cost: f64,
    cost_time: f64,
    /// The line.
    fixed: f64,
    unit: f64,
    /// How many times the line's the present times are.
    level: f64,
    /// How far off predictions are, in the mean, as a part of them.
    error: f64,
    usual_cost: f64,
}

impl Default for CostModel {
    fn default() -> Self {
        CostModel {
            weight: 0.0,
            cost: 0.0,
            time: 0.0,
            cost_cost: 0.0,
            cost_time: 0.0,
            fixed: 0.0,
            unit: 0.0,
            level: 1.0,
            error: 0.0,
            usual_cost: 0.0,
        }
    }
}

impl CostModel {
    /// A batch of this cost has taken so long.
    pub fn observe(&mut self, cost: f64, time: Duration) {
        let mut time = (time.as_nanos() as f64).max(1.0);
        let is_first = self.weight == 0.0;
        if is_first {
            self.usual_cost = cost;
        } else {
            let line = self.line(cost).max(1.0);
            let expected = self.level * line;
            time = time.clamp(expected / SURPRISE, SURPRISE * expected);
            self.error += LATEST * ((time - expected).abs() / expected - self.error);
            self.level += LATEST * (time / line - self.level);
            self.usual_cost += LATEST * (cost - self.usual_cost);
        }
        // An error of a tenth is as bad for a small batch as for a large one.
        let weight = 1.0 / (time * time);
        for sum in
            [&mut self.weight, &mut self.cost, &mut self.time, &mut self.cost_cost, &mut self.cost_time]
        {
            *sum *= SHAPE_KEPT;
        }
        self.weight += weight;
        self.cost += weight * cost;
        self.time += weight * time;
        self.cost_cost += weight * cost * cost;
        self.cost_time += weight * cost * time;
        self.fit();
    }

    fn fit(&mut self) {
        let (mean_cost, mean_time) = (self.cost / self.weight, self.time / self.weight);
        let spread = self.cost_cost / self.weight - mean_cost * mean_cost;
        let both = self.cost_time / self.weight - mean_cost * mean_time;
        // Batches that were all alike tell nothing of others: they are taken for all a batch's own time.
        let tells = spread > 1e-4 * mean_cost * mean_cost;
        let most = if mean_cost > 0.0 { mean_time / mean_cost } else { 0.0 };
        self.unit = if tells { (both / spread).clamp(0.0, most) } else { 0.0 };
        self.fixed = mean_time - self.unit * mean_cost;
    }

    fn line(&self, cost: f64) -> f64 {
        self.fixed + self.unit * cost
    }

    /// What a batch of no items would take, where nothing disturbs it.
    pub fn fixed(&self) -> Duration {
        nanos(self.fixed)
    }

    /// What a unit of cost adds, where nothing disturbs it.
    pub fn unit(&self) -> Duration {
        nanos(self.unit)
    }

    /// How long a batch of this cost is expected to take at present.
    pub fn predict(&self, cost: f64) -> Duration {
        self.predict_all(1, cost)
    }

    /// How long so many batches are expected to take that cost so much together.
    pub(crate) fn predict_all(&self, batches: usize, cost: f64) -> Duration {
        nanos(self.level * (batches as f64 * self.fixed + self.unit * cost))
    }

    /// Whether a batch is so large that what each batch takes by itself is small beside what is in it.
    pub(crate) fn is_worth_its_own(&self, cost: f64) -> bool {
        self.unit * cost > LARGE * self.fixed
    }

    /// By what part of them times may be longer than is expected: for what has to be in time.
    pub(crate) fn margin(&self) -> f64 {
        2.0 * self.error
    }

    /// What batches cost lately.
    pub(crate) fn usual_cost(&self) -> f64 {
        self.usual_cost
    }
}

fn nanos(nanos: f64) -> Duration {
    Duration::from_nanos(nanos.clamp(0.0, 1e18) as u64)
}
