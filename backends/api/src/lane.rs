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
