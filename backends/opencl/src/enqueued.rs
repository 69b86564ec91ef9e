//! A group at its point: its events, and what came of it.

use smallvec::SmallVec;
use windlass_backend::{BackendError, Failed, Note, Point, Timed};

use crate::sys::Event;

/// What was fed at one point.
#[derive(Debug)]
pub(crate) struct Enqueued {
    pub(crate) point: Point,
    /// The first point that its last event speaks for: its own, or that of a group before it without an event.
    pub(crate) first: Point,
    /// One for each native command, in order, or only the last one's where that shows the failures of those before. Empty for a
    /// barrier without waits.
    pub(crate) events: SmallVec<[Event; 1]>,
    /// Whether its times are to be told; its events know them then.
    pub(crate) timed: bool,
    /// Why the rest of the group was not enqueued, if that failed after the first command.
    pub(crate) error: Option<BackendError>,
    /// Host memory that the commands read.
    #[expect(dead_code, reason = "the driver reads it until the group is dropped")]
    pub(crate) sources: Vec<Vec<u8>>,
}

impl Enqueued {
    pub(crate) fn new(point: Point, events: SmallVec<[Event; 1]>) -> Self {
        Enqueued { point, first: point, events, timed: false, error: None, sources: Vec::new() }
    }

    /// Whether its last command has ended, as far as the driver says. One that cannot say has lost the device.
    pub(crate) fn has_ended(&self) -> bool {
        self.events.last().is_none_or(|event| !event.status().is_ok_and(|status| status > 0))
    }

    /// Why one of its commands failed, if one did. `lost` is the reason for commands that will never end.
    fn failure(&self, lost: Option<&BackendError>) -> Option<BackendError> {
        let status = |event: &Event| match event.status() {
            Ok(code) if code < 0 => Some(crate::error::command(code)),
            Ok(0) => None,
            // Above zero: not ended, as far as the driver says, although the callback of this or a later event came. Not a
            // failure, except on a lost lane, where the command will never end.
            Ok(_) => lost.cloned(),
            // The event is live and the query valid, so the driver must have lost the device behind it.
            Err(failure) => Some(crate::error::lost(failure)),
        };
        self.events.iter().find_map(status)
    }

    /// What is to be told of it: that it failed, or, if that was asked for, when it ran. If its commands are known to have ended
    /// well, they are not asked.
    pub(crate) fn note(&self, ended_well: bool, lost: Option<&BackendError>) -> Option<Note> {
        let failure = if ended_well { None } else { self.failure(lost) };
        match (failure, &self.error) {
            (Some(error), _) => Some(Failed::run(self.first, self.point, error).into()),
            (None, Some(error)) => Some(Failed::at(self.point, error.clone()).into()),
            (None, None) => self.times().map(Note::from),
        }
    }

    /// When it ran. A driver that does not say leaves the group untimed, as one without commands is.
    fn times(&self) -> Option<Timed> {
        let (first, last) = (self.events.first()?, self.events.last()?);
        let ([started, _], [_, ended]) =
            self.timed.then(|| Some((first.times().ok()?, last.times().ok()?)))??;
        Some(Timed::new(self.point, started, ended))
    }
}
