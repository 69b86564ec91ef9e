//! Lanes: the hot half of the contract.

use std::any::Any;
use std::fmt;

use smallvec::SmallVec;

use crate::{BackendError, Command};

/// A place in a lane's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point(pub u64);

/// What the runtime calls a lane among the lanes of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneNumber(pub u32);

/// Which lane to open.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LaneSpec {
    /// The position of its device in [`ContextInfo::devices`](crate::ContextInfo::devices).
    pub device: usize,
    /// How [`Wait`]s of other lanes of the context will call it.
    pub number: LaneNumber,
    /// How it learns that its work has ended: one of [`ContextInfo::completions`](crate::ContextInfo::completions), or, if
    /// there is none here, the first of them.
    pub completion: Option<CompletionStrategy>,
}

impl LaneSpec {
    /// A lane of a device that learns of its work's end in the way that suits the driver best.
    pub fn new(device: usize, number: LaneNumber) -> Self {
        LaneSpec { device, number, completion: None }
    }

    /// It is to learn of its work's end like this.
    pub fn completion(self, completion: CompletionStrategy) -> Self {
        LaneSpec { completion: Some(completion), ..self }
    }
}

/// How a lane learns that its work has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompletionStrategy {
    /// Whoever ends the work says so: the driver, on a thread of its own or inside another call, or a host worker.
    Callback,
    /// A thread of the lane's own waits for it. Costs a thread for each lane, and suits drivers whose callbacks are late,
    /// or fail to come.
    Waiter,
}

impl fmt::Display for CompletionStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompletionStrategy::Callback => "callback",
            CompletionStrategy::Waiter => "waiter thread",
        })
    }
}

/// A point of another lane of the same context, fed earlier, that must be passed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The lane.
    pub lane: LaneNumber,
    /// Its point.
    pub point: Point,
}

/// How a run of points ended.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Everything up to here has ended.
    pub upto: Point,
    /// Those among them that failed and that no earlier verdict covered. Empty costs nothing.
    pub failed: Vec<Failed>,
}

impl Verdict {
    /// Everything up to `upto` went well.
    pub fn ok(upto: Point) -> Self {
        Verdict { upto, failed: Vec::new() }
    }
}

/// Points of a lane that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// The first of them.
    pub first: Point,
    /// The last of them.
    pub last: Point,
    /// Why.
    pub error: BackendError,
}

/// An in-order stream of work on one device. See the crate documentation for the contract.
pub trait Lane: Any + Send + Sync {
    /// Hands over the group of commands at `point`. Never waits for the device.
    fn feed(
        &self,
        point: Point,
        waits: &[Wait],
        commands: SmallVec<[Command<'_>; 1]>,
    ) -> Result<(), BackendError>;

    /// Makes sure that everything fed will run without a further call.
    fn flush(&self);

    /// Asks for a call of [`LaneSink::passed`] once `point`, which has been fed, is passed.
    fn arm(&self, point: Point);
}

impl fmt::Debug for dyn Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lane")
    }
}

/// Where a lane reports: the runtime's end of the completion bridge.
pub trait LaneSink: Send + Sync {
    /// Everything up to the verdict's point has ended. Never blocks.
    fn passed(&self, verdict: Verdict);
}
