//! How items come: whether, with the device idle, more of them are worth waiting for.
//!
//! Gaps are measured from the last item, or from a batch's end if that was later: those who had their answers come
//! again then, and soon if they do at all.

use std::time::Duration;

/// Of the gaps between items, about the last so many count.
const COUNTED: u32 = 8;

/// A longer gap says no more than this one.
const LONGEST: Duration = Duration::from_millis(10);

/// A batch is held open once in so many, if it gains nothing, to see whether that is still so.
const TRIED: u32 = 32;

/// So many batches close at the size of one that was held open until nobody came any more.
const BELIEVED: u32 = 8;

/// Nobody comes again sooner than this.
const SHORTEST: Duration = Duration::from_micros(2);

/// How many usual gaps without an item mean that none is about to come.
const PATIENCE: u32 = 4;

/// The gaps between items, in the mean of the latest.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    gap: Duration,
    /// The last item, or the last end.
    last: Option<Duration>,
    /// How many items came in the mean while a batch was held open.
    gain: f64,
    /// Batches since one was held open.
    unheld: u32,
    /// The size of the last batch that was held until nobody came any more.
    usual: usize,
    /// Batches since that one that closed when they had reached its size.
    closed_at_size: u32,
}

impl Default for Arrivals {
    fn default() -> Self {
        Arrivals { gap: LONGEST, last: None, gain: 1.0, unheld: 0, usual: 0, closed_at_size: 0 }
    }
}

impl Arrivals {
    pub(crate) fn came(&mut self, now: Duration) {
        let gap = self.last.map_or(LONGEST, |last| now.saturating_sub(last)).min(LONGEST);
        self.gap = (self.gap * (COUNTED - 1) + gap) / COUNTED;
        // One that came before the last end may be heard of after it.
        self.last = self.last.max(Some(now));
    }

    /// A batch has ended.
    pub(crate) fn ended(&mut self, now: Duration) {
        self.last = Some(now);
    }

    /// A batch had so many items when it might have been held open, and was if that seemed worth it, and this many when it closed.
    pub(crate) fn held(&mut self, had: usize, items: usize) {
        if !self.is_worth_it() {
            self.unheld += 1;
            return;
        }
        self.unheld = 0;
        let (had_all, are_all) = (self.are_all(had), self.are_all(items));
        match are_all {
            true => (self.usual, self.closed_at_size) = (self.usual.max(items), self.closed_at_size + 1),
            false => (self.usual, self.closed_at_size) = (items, 0),
        }
        // One that was not held open says nothing about what that gains.
        if !had_all {
            let gained = items.saturating_sub(had);
            self.gain += (gained as f64 - self.gain) / f64::from(COUNTED);
        }
    }

    /// As many as the last time have come. Now and then that is not believed.
    fn are_all(&self, items: usize) -> bool {
        items >= self.usual && self.usual > 0 && self.closed_at_size < BELIEVED
    }

    fn is_worth_it(&self) -> bool {
        self.gain >= 0.5 || self.unheld >= TRIED
    }

    /// Whether an item is about to come that is better waited for: the device idles for a gap, and saves what another batch costs.
    pub(crate) fn more_to_come(&self, now: Duration, fixed: Duration, items: usize) -> bool {
        let since = self.last.map_or(LONGEST, |last| now.saturating_sub(last));
        self.is_worth_it()
            && !self.are_all(items)
            && 2 * self.gap < fixed
            && since < (PATIENCE * self.gap).max(SHORTEST)
    }
}
