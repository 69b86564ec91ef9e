//! A batch in flight, as plain data from whoever submits it to the waiter.

use std::sync::Arc;

use windlass_backend::{BackendError, Completion, Point};

use crate::encode::Download;
use crate::stage::Stage;

/// The end of one group.
pub(crate) struct End {
    pub(crate) completion: Arc<Completion>,
    pub(crate) point: Point,
    /// Why it failed, if that is known yet.
    pub(crate) error: Option<BackendError>,
}

/// A batch that was submitted to the device, or failed to be.
pub(crate) struct Flight {
    /// The submission; `None` where none of the groups had native work.
    pub(crate) index: Result<Option<wgpu::SubmissionIndex>, BackendError>,
    /// The groups, in order.
    pub(crate) ends: Vec<End>,
    /// What it reads back.
    pub(crate) downloads: Vec<Download>,
    /// Its staging memory.
    pub(crate) stage: Stage,
}

/// What the waiter is told.
pub(crate) enum Notice {
    /// A batch is being encoded: a thread that sleeps may take as long to wake up.
    Soon,
    Flight(Box<Flight>),
}
