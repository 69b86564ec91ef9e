//! What a batch takes on the device: so much for each batch, and so much for each unit of cost in it.

use std::time::Duration;

/// How much of what was learned is kept with each new batch: about the last fifty count.
const KEPT: f64 = 0.98;

/// A batch that took more than so many times what was expected has met something else (a page fault, another process),
/// and counts as one that took so many times.
const SURPRISE: f64 = 4.0;

/// A line through what the latest batches took over what they cost, by least squares in which older batches count less.
///
/// ```
/// use std::time::Duration;
/// use windlass_batching::CostModel;
/// let mut model = CostModel::default();
/// for items in [1.0, 8.0, 64.0, 2.0, 16.0] {
///     model.observe(items, Duration::from_micros(20 + 3 * items as u64));
/// }
/// assert_eq!(model.predict(100.0).as_nanos().div_ceil(1_000), 320);
/// ```
#[derive(Clone, Debug, Default)]
pub struct CostModel {
    weight: f64,
    mean_cost: f64,
    mean_time: f64,
    variance: f64,
    covariance: f64,
    /// How far off predictions are, in the mean.
    error: f64,
}

impl CostModel {
    /// A batch of this cost has taken so long.
    pub fn observe(&mut self, cost: f64, time: Duration) {
        let mut time = time.as_nanos() as f64;
        if self.weight > 2.0 {
            let expected = self.nanos(cost);
            time = time.min(SURPRISE * expected.max(1.0));
            self.error += 0.1 * ((time - expected).abs() - self.error);
        }
        self.weight = KEPT * self.weight + 1.0;
        let step = 1.0 / self.weight;
        let (off_cost, off_time) = (cost - self.mean_cost, time - self.mean_time);
        self.mean_cost += step * off_cost;
        self.mean_time += step * off_time;
        self.variance = (1.0 - step) * (self.variance + step * off_cost * off_cost);
        self.covariance = (1.0 - step) * (self.covariance + step * off_cost * off_time);
    }

    /// What each unit of cost adds, in nanoseconds.
    fn slope(&self) -> f64 {
        // Batches that were all alike tell nothing of it.
        if self.variance <= 1e-6 * self.mean_cost * self.mean_cost {
            return 0.0;
        }
        let most = if self.mean_cost > 0.0 { self.mean_time / self.mean_cost } else { 0.0 };
        (self.covariance / self.variance).clamp(0.0, most)
    }

    fn nanos(&self, cost: f64) -> f64 {
        self.mean_time + self.slope() * (cost - self.mean_cost)
    }

    /// What a batch of no items would take.
    pub fn fixed(&self) -> Duration {
        nanos(self.nanos(0.0))
    }

    /// What a unit of cost adds.
    pub fn unit(&self) -> Duration {
        nanos(self.slope())
    }

    /// How long a batch of this cost is expected to take.
    pub fn predict(&self, cost: f64) -> Duration {
        nanos(self.nanos(cost))
    }

    /// By how much a batch may take longer than is expected: for what has to be in time.
    pub fn margin(&self) -> Duration {
        nanos(3.0 * self.error)
    }

    /// What batches cost lately.
    pub(crate) fn usual_cost(&self) -> f64 {
        self.mean_cost
    }
}

fn nanos(nanos: f64) -> Duration {
    Duration::from_nanos(nanos.clamp(0.0, 1e18) as u64)
}
