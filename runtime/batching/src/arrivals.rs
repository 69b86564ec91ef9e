//! How items come: whether, with the device idle, more of them are worth waiting for.

use std::time::Duration;

/// Of the gaps between items, about the last so many count.
const COUNTED: u32 = 8;

/// A longer gap says no more than this one.
const LONGEST: Duration = Duration::from_millis(10);

/// How many usual gaps without an item mean that none is about to come.
const PATIENCE: u32 = 4;

/// The gaps between items, in the mean of the latest.
#[derive(Clone, Debug)]
pub struct Arrivals {
    gap: Duration,
    last: Option<Duration>,
}

impl Default for Arrivals {
    fn default() -> Self {
        Arrivals { gap: LONGEST, last: None }
    }
}

impl Arrivals {
    pub(crate) fn came(&mut self, now: Duration) {
        let gap = self.last.map_or(LONGEST, |last| now.saturating_sub(last)).min(LONGEST);
        self.gap = (self.gap * (COUNTED - 1) + gap) / COUNTED;
        self.last = Some(now);
    }

    /// Whether an item is about to come that is better waited for: the device idles for a gap, and saves what another batch costs.
    pub(crate) fn more_to_come(&self, now: Duration, fixed: Duration) -> bool {
        let since = self.last.map_or(LONGEST, |last| now.saturating_sub(last));
        2 * self.gap < fixed && since < (PATIENCE * self.gap).max(Duration::from_micros(1))
    }
}
