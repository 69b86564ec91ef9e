//! Whether more comes than the device can do: by how long items queue, and not by how long answers take, which
//! grows with the batches on purpose.

use std::time::Duration;

/// How long the queue has to be too long before that is no burst.
const INTERVAL: Duration = Duration::from_millis(100);

/// What waits would take the device longer than its users' patience, and did so for a while.
#[derive(Clone, Debug)]
pub(crate) struct Overload {
    patience: Duration,
    since: Option<Duration>,
    on: bool,
}

impl Overload {
    pub(crate) fn new(patience: Duration) -> Self {
        Overload { patience, since: None, on: false }
    }

    pub(crate) fn look(&mut self, now: Duration, backlog: Duration) {
        if backlog <= self.patience {
            (self.since, self.on) = (None, false);
            return;
        }
        let since = *self.since.get_or_insert(now);
        self.on |= now.saturating_sub(since) >= INTERVAL;
    }

    pub(crate) fn is_on(&self) -> bool {
        self.on
    }
}
