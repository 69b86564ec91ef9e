//! A batch in flight, as plain data from whoever submits it to the waiter.

use std::sync::Arc;

use windlass_backend::{BackendError, Completion, Point};

use crate::encode::Download;
use crate::stage::Stage;
use crate::times::Times;

/// The end of one group.
pub(crate) struct End {
    pub(crate) completion: Arc<Completion>,
    pub(crate) point: Point,
    /// Why it failed, if that is known yet.
    pub(crate) error: Option<BackendError>,
    /// When it started and ended, if that was asked for and is known by now.
    pub(crate) times: Option<[u64; 2]>,
}

/// A batch that was submitted to the device, or failed to be.
pub(crate) struct Flight {
    /// The submission; `None` where none of the groups had native work.
    pub(crate) index: Result<Option<wgpu::SubmissionIndex>, BackendError>,
    /// The groups, in order.
    pub(crate) ends: Vec<End>,
    /// What it reads back.
    pub(crate) downloads: Vec<Download>,
    /// When its groups ran.
    pub(crate) times: Vec<Times>,
    /// Its staging memory.
    pub(crate) stage: Stage,
}

/// What the waiter is told.
pub(crate) enum Notice {
    /// A batch is being encoded: a thread that sleeps may take as long to wake up.
    Soon,
    Flight(Box<Flight>),
}
