//! By how much more than what is predicted is to be allowed for: learned from those who were nearly late.
//!
//! Predictions are of what usually happens, and promises have to be kept when something unusual does: a batch that takes three times
//! as long. So promises are made by the worst that was seen lately, and that is forgotten in time. Only those count whose time was short: that an idle device's first item took twice what was predicted endangers no deadline.
//!
//! And an answer is in time when its caller has it. Where the callers' threads have more to do than they can, an answer waits for them
//! in a queue of theirs: that is allowed for as well, so that they have fewer answers to fetch, and those soon enough.

use std::time::Duration;

/// What is left of the way back to predictions after each batch: half of it after seven hundred.
const KEPT: f64 = 0.999;

/// And after this long at most, where batches are few.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// No more is allowed for than so many times what is predicted.
const MOST: f64 = 4.0;

/// Those count that were predicted to need so great a part of their time. It is half of what is let in at all times, so that what is let in
/// teaches something.
const SHORT: f64 = 0.5 / MOST;

/// Who had to be given up would have taken so many times what it had. That is more than most would: where one thing went wrong another
/// will, and a queue that is shorter than it might be costs nothing as long as there is one.
const BROKEN: f64 = 2.0;

/// What is left of how long answers wait to be fetched, after each batch: half of it after seventy.
const FETCHING_KEPT: f64 = 0.99;

/// How long an answer waits to be fetched before anything is made of it.
pub const FETCHED_SOON: Duration = Duration::from_micros(200);

#[derive(Clone, Debug)]
pub(crate) struct Caution {
    factor: f64,
    /// How long answers have waited to be fetched, of late.
    fetching: Duration,
}

impl Default for Caution {
    fn default() -> Self {
        Caution { factor: 1.0, fetching: Duration::ZERO }
    }
}

/// What one that was let in was promised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) came: Duration,
    pub(crate) deadline: Duration,
    /// How long it was predicted to take.
    pub(crate) wait: Duration,
}

impl Promise {
    /// How many times the prediction it takes, if it ends then.
    pub(crate) fn ratio(&self, end: Duration) -> f64 {
        end.saturating_sub(self.came).as_secs_f64() / self.wait.as_secs_f64().max(1e-9)
    }

    /// Its time is short.
    fn counts(&self) -> bool {
        self.wait >= self.deadline.saturating_sub(self.came).mul_f64(SHORT)
    }
}

impl Caution {
    /// The one of a batch that its time fell shortest for has its answer.
    pub(crate) fn kept(&mut self, promise: &Promise, end: Duration) {
        if !promise.counts() {
            return;
        }
        self.factor = self.factor.max(promise.ratio(end).min(MOST));
    }

    /// One had to be given up. How long it would have taken nobody knows: longer than it had.
    pub(crate) fn broken(&mut self, promise: &Promise) {
        if !promise.counts() {
            return;
        }
        let least = promise.ratio(promise.deadline) * BROKEN;
        self.factor = self.factor.max(least.min(MOST));
    }

    /// An answer has waited for so long until whoever asked for it had it. A single one that waited for very long says little: its caller
    /// had something else to do.
    pub(crate) fn fetched(&mut self, delay: Duration) {
        let most = 2 * self.fetching + FETCHED_SOON;
        self.fetching = self.fetching.max(delay.min(most));
    }

    /// A batch has ended, so long after the one before.
    pub(crate) fn ended(&mut self, since: Duration) {
        let by_time = 0.5_f64.powf(since.as_secs_f64() / HALF_LIFE.as_secs_f64());
        self.factor = 1.0 + (self.factor - 1.0) * by_time * KEPT;
        self.fetching = self.fetching.mul_f64(by_time * FETCHING_KEPT);
    }

    pub(crate) fn fetching(&self) -> Duration {
        self.fetching
    }

    pub(crate) fn factor(&self) -> f64 {
        self.factor
    }
}
