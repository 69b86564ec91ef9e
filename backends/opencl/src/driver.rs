//! What is known of drivers that no query tells, with the reason.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opencl3::device as cl;
use windlass_backend::{CompletionStrategy, LaneDepth};

use crate::device::is_nvidia;
use crate::sys::DeviceId;

/// How the lanes of a driver's devices are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Driver {
    /// How they learn that their work has ended, the best way first.
    pub(crate) completions: &'static [CompletionStrategy],
    /// How many lanes a device gets.
    pub(crate) lanes: usize,
    /// How much a lane holds.
    pub(crate) depth: LaneDepth,
    /// A command that fails takes its context with it, so that the event of any later command shows it: only a group's last
    /// command needs one.
    pub(crate) fails_as_a_whole: bool,
    /// Commands start without a flush, which only costs time.
    pub(crate) starts_unasked: bool,
    /// A launch that leaves the size of its groups open costs more than one that names it.
    pub(crate) takes_long_to_choose: bool,
    /// Its compiler must not recognise negations and complements of integers.
    pub(crate) loses_negations: bool,
    /// For how long waiters look by themselves: what ends within that time they need not be woken for.
    pub(crate) waiters_look: Duration,
    /// Whether it makes those who enqueue wait while it is asked for what it has done.
    pub(crate) is_slowed_by_questions: bool,
    /// To enqueue a launch takes it longer than it takes the runtime to have one submitted.
    pub(crate) takes_long_to_feed: bool,
    /// Its calls get into each other's way where several threads make them.
    pub(crate) calls_clash: bool,
    /// It loads its compiler, a library with exit handlers of its own, for the first program of a process.
    pub(crate) loads_its_compiler: bool,
    /// It wakes its threads for each command that is enqueued: of several those behind the first are to come at once.
    pub(crate) wakes_for_each: bool,
    /// Sub-buffers of one buffer may be made and released by several threads at once.
    pub(crate) divides: bool,
}

use CompletionStrategy::{Callback, Poller, Waiter};

/// Held by the one thread that makes native calls, where [`Driver::calls_clash`].
pub(crate) type Turn = MutexGuard<'static, ()>;

/// PoCL and Intel's runtime call back within microseconds, on a thread that sleeps until then. A lane holds as much as on
/// NVIDIA's devices, so that a group's way to the device does not depend on the driver. There are lanes for copies both ways beside a kernel, and
/// for a second kernel: processors copy on the threads that compute, and wait for their turn there.
const PROMPT: Driver = Driver {
    completions: &[Callback, Waiter, Poller],
    lanes: 4,
    depth: LaneDepth::new(256, 64),
    fails_as_a_whole: false,
    starts_unasked: false,
    takes_long_to_choose: false,
    loses_negations: false,
    waiters_look: Duration::ZERO,
    is_slowed_by_questions: false,
    takes_long_to_feed: false,
    calls_clash: false,
    loads_its_compiler: false,
    wakes_for_each: false,
    divides: true,
};

/// PoCL's threads are woken for each command that finds its queue empty: of 10,000 small launches in a row every fourth changed threads.
const POCL: Driver = Driver { wakes_for_each: true, ..PROMPT };

/// Intel's compiler gets the largest (or least) of three integers wrong of which one is a complement, `max(y, max(x, ~s))`. It is loaded for the
/// first program, and crashes in a process that exits, whose threads build others.
const INTEL: Driver = Driver { loses_negations: true, loads_its_compiler: true, ..PROMPT };

/// Oclgrind runs commands inside the flush, in the thread that calls it. One that others launch, or memory that they allocate meanwhile, gets
/// into its way (21.10: a signal ends the process, or a launch gets arguments of another).
const OCLGRIND: Driver = Driver { calls_clash: true, divides: false, ..PROMPT };

/// NVIDIA's driver keeps a processor busy for as long as an event with a callback is under way, calls back at ticks of 20 ms,
/// and keeps one busy as well where a thread waits for an event. To ask for an event's status takes it a tenth of a
/// microsecond. It blocks the caller at the 341st command with an event, or the 1,022nd without one. After a fault every call in the
/// context fails. Its queues start what is enqueued (on Linux); a flush takes it a microsecond. To choose the size of a launch's groups
/// takes it six, each time. The largest (or least) of three integers of which one is a negated one is wrong on an H100 (driver
/// 580, `max(y, max(x, -s))`): what it takes is the number before it was negated. On an H200 (580.159) it ends the process where threads make and
/// release sub-buffers of one buffer, also one after the other.
const NVIDIA: Driver = Driver {
    completions: &[Poller, Waiter, Callback],
    // Four made no difference that could be told, and only one queue has been filled to find how much it takes.
    lanes: 2,
    depth: LaneDepth::new(256, 64),
    fails_as_a_whole: true,
    starts_unasked: true,
    takes_long_to_choose: true,
    loses_negations: true,
    // A launch behind an idle while ends after 35 to 60 us.
    waiters_look: Duration::from_micros(100),
    is_slowed_by_questions: true,
    // 4 to 5 us without an event.
    takes_long_to_feed: true,
    calls_clash: false,
    loads_its_compiler: false,
    wakes_for_each: false,
    divides: false,
};

impl Driver {
    /// The driver of a device.
    pub(crate) fn of(device: DeviceId) -> Self {
        let extensions = device.text(cl::CL_DEVICE_EXTENSIONS);
        let extensions: Vec<&str> = extensions.split_whitespace().collect();
        match () {
            () if device.text(cl::CL_DEVICE_NAME).starts_with("Oclgrind") => OCLGRIND,
            () if is_nvidia(&extensions) => NVIDIA,
            () if extensions.iter().any(|name| name.starts_with("cl_intel_")) => INTEL,
            () if device.platform_name() == "Portable Computing Language" => POCL,
            () => PROMPT,
        }
    }

    /// To be held while native calls are made, but for those that let go of an object: that happens anywhere, also where it is held. Nobody
    /// who holds it takes it again. Most drivers have none.
    pub(crate) fn turn(&self) -> Option<Turn> {
        static TURN: Mutex<()> = Mutex::new(());
        self.calls_clash.then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Default for Driver {
    fn default() -> Self {
        PROMPT
    }
}
