//! Lanes: the hot half of the contract.

use std::any::Any;
use std::fmt;

use smallvec::SmallVec;

use crate::{BackendError, Command};

/// A place in a lane's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point(pub u64);

/// What the runtime calls a lane, among all the lanes that it has opened of any backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneNumber(pub u32);

/// What a lane is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LaneRole {
    /// Anything.
    #[default]
    Compute,
    /// Copies and fills alone: where the hardware has engines for them, they run beside what computes.
    Copy,
}

/// How a lane's work stands to that of other lanes of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Priority {
    /// Behind others.
    Low,
    /// As the driver has it.
    #[default]
    Normal,
    /// Before others.
    High,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Priority::Low => "low",
            Priority::Normal => "normal",
            Priority::High => "high",
        })
    }
}

/// Which lane to open.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LaneSpec {
    /// The position of its device in [`ContextInfo::devices`](crate::ContextInfo::devices).
    pub device: usize,
    /// How [`Wait`]s of other lanes of the domain will call it.
    pub number: LaneNumber,
    /// How it learns that its work has ended: one of [`ContextInfo::completions`](crate::ContextInfo::completions), or, if
    /// there is none here, the first of them.
    pub completion: Option<CompletionStrategy>,
    /// What it is for. Copy lanes are opened only on devices that say they have some.
    pub role: LaneRole,
    /// How its work stands to others'. Other than normal only on devices with
    /// [`Aspect::Priorities`](crate::Aspect::Priorities).
    pub priority: Priority,
    /// Whether its groups are to be timed: no group that is comes to another lane. Only on devices with
    /// [`Aspect::Profiling`](crate::Aspect::Profiling). Some drivers time all commands of a queue or none, and take fewer of
    /// them when they do.
    pub timed: bool,
}

impl LaneSpec {
    /// A lane for anything, of normal priority, that learns of its work's end in the way that suits the driver best.
    pub fn new(device: usize, number: LaneNumber) -> Self {
        let (role, priority) = (LaneRole::Compute, Priority::Normal);
        LaneSpec { device, number, completion: None, role, priority, timed: false }
    }

    /// It is to learn of its work's end like this.
    pub fn completion(self, completion: CompletionStrategy) -> Self {
        LaneSpec { completion: Some(completion), ..self }
    }

    /// What it is for.
    pub fn role(self, role: LaneRole) -> Self {
        LaneSpec { role, ..self }
    }

    /// How its work stands to others'.
    pub fn priority(self, priority: Priority) -> Self {
        LaneSpec { priority, ..self }
    }

    /// Whether its groups are to be timed.
    pub fn timed(self, timed: bool) -> Self {
        LaneSpec { timed, ..self }
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
    /// A thread of the lane's own asks whether it has ended, at intervals that grow with the time it takes. Suits drivers whose
    /// callbacks are late and that keep a processor busy while anyone waits.
    Poller,
}

impl fmt::Display for CompletionStrategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CompletionStrategy::Callback => "callback",
            CompletionStrategy::Waiter => "waiter thread",
            CompletionStrategy::Poller => "poller",
        })
    }
}

/// A point of another lane of the same domain, fed earlier, that must be passed first. Points of a lane that is lost, or
/// was dropped, are passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait {
    /// The lane.
    pub lane: LaneNumber,
    /// Its point.
    pub point: Point,
}

impl Wait {
    /// For a point of a lane.
    pub fn new(lane: LaneNumber, point: Point) -> Self {
        Wait { lane, point }
    }
}

/// What is fed at one point.
#[derive(Debug)]
#[non_exhaustive]
pub struct Group<'a> {
    /// Where it stands in its lane's order.
    pub point: Point,
    /// Points of other lanes that must be passed first.
    pub waits: &'a [Wait],
    /// What to do, in this order. A group without commands is a barrier.
    pub commands: SmallVec<[Command<'a>; 1]>,
    /// Its point is to be reported once it is passed, as if it were armed right after this call. Some drivers have to be told
    /// when the work is handed over; to arm it later may cost them another native command.
    pub report: bool,
    /// Nobody waits for that report yet: it may come later by some tenths of a millisecond, unless its point is armed meanwhile. Only
    /// in contexts with [`ContextInfo::reports_at_leisure`](crate::ContextInfo::reports_at_leisure).
    pub at_leisure: bool,
    /// The verdict that covers its point is to say when it started and ended. Only for devices with
    /// [`Aspect::Profiling`](crate::Aspect::Profiling).
    pub timed: bool,
    /// Another group is fed right behind it, and the lane is flushed only after that one: until then this one need not start.
    pub more: bool,
}

impl<'a> Group<'a> {
    /// A group that is neither reported nor timed.
    pub fn new(point: Point, waits: &'a [Wait], commands: SmallVec<[Command<'a>; 1]>) -> Self {
        Group { point, waits, commands, report: false, at_leisure: false, timed: false, more: false }
    }

    /// Whether its point is to be reported.
    pub fn report(self, report: bool) -> Self {
        Group { report, ..self }
    }

    /// Whether the report may take its time.
    pub fn at_leisure(self, at_leisure: bool) -> Self {
        Group { at_leisure, ..self }
    }

    /// Whether its times are to be told.
    pub fn timed(self, timed: bool) -> Self {
        Group { timed, ..self }
    }

    /// Whether another one comes before the flush.
    pub fn more(self, more: bool) -> Self {
        Group { more, ..self }
    }
}

/// How a run of points ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Verdict {
    /// Everything up to here has ended.
    pub upto: Point,
    /// Those among them that failed and that no earlier verdict covered. Empty costs nothing.
    pub failed: Vec<Failed>,
    /// When those among them that were to be timed started and ended.
    pub times: Vec<Timed>,
}

impl Verdict {
    /// Everything up to `upto` went well.
    pub fn ok(upto: Point) -> Self {
        Verdict { upto, failed: Vec::new(), times: Vec::new() }
    }

    /// These failed.
    pub fn failed(self, failed: Vec<Failed>) -> Self {
        Verdict { failed, ..self }
    }

    /// These were timed.
    pub fn times(self, times: Vec<Timed>) -> Self {
        Verdict { times, ..self }
    }
}

/// Points of a lane that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Failed {
    /// The first of them.
    pub first: Point,
    /// The last of them.
    pub last: Point,
    /// Why.
    pub error: BackendError,
}

impl Failed {
    /// One point failed.
    pub fn at(point: Point, error: BackendError) -> Self {
        Failed { first: point, last: point, error }
    }

    /// All points from the first to the last failed.
    pub fn run(first: Point, last: Point, error: BackendError) -> Self {
        Failed { first, last, error }
    }
}

/// When a group started and ended, by its device's clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timed {
    /// The group's point.
    pub point: Point,
    /// When its first command started.
    pub started: u64,
    /// When its last command had ended.
    pub ended: u64,
}

impl Timed {
    /// The times of the group at `point`.
    pub fn new(point: Point, started: u64, ended: u64) -> Self {
        Timed { point, started, ended }
    }
}

/// An in-order stream of work on one device. See the crate documentation for the contract.
///
/// # Safety
///
/// - A lane uses the memory that its commands name within the regions that they name, and not after it has reported their
///   point as passed, or their context as lost.
/// - It runs the kernel that a launch names over the launch's range, no more and no less.
/// - It reports a point as passed only when it and all before it have ended, and what they wrote is visible to the thread
///   that it tells.
pub unsafe trait Lane: Any + Send + Sync {
    /// Hands over a group of commands. Never waits for the device.
    ///
    /// It uses memory after it has returned, so to call it is a promise:
    ///
    /// ```compile_fail,E0133
    /// use windlass_backend::{Group, Lane};
    /// fn feed(lane: &dyn Lane, group: Group<'_>) { lane.feed(group).unwrap() }
    /// ```
    ///
    /// # Safety
    ///
    /// The memory that the commands name stays alive until a verdict of this lane covers the group's point, or its context
    /// is lost; their regions lie inside it, and arguments are of the kinds of the kernel's slots. Until then nobody else writes
    /// what they read, or touches what they write, but groups that the lane's order or their waits keep apart from this one.
    unsafe fn feed(&self, group: Group<'_>) -> Result<(), BackendError>;

    /// Makes sure that everything fed will run without a further call.
    fn flush(&self);

    /// Asks for a call of [`LaneSink::passed`] once `point`, which has been fed, is passed.
    fn arm(&self, point: Point);

    /// As [`Lane::arm`], for a point that nobody waits for yet: the report may come later by some tenths of a millisecond, unless the
    /// point is armed meanwhile. Called only in contexts with
    /// [`ContextInfo::reports_at_leisure`](crate::ContextInfo::reports_at_leisure).
    fn arm_at_leisure(&self, point: Point) {
        self.arm(point);
    }

    /// A waiter looks whether `point`, which has been fed, is passed by now: if so, that is reported in this very call. It is
    /// called over and over for the time of [`ContextInfo::waiters_look`](crate::ContextInfo::waiters_look), and on the threads of a
    /// program's executor: it asks the driver once at most, and neither waits nor flushes.
    fn look(&self, _point: Point) {}
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
