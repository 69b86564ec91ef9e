//! The state behind all devices of a backend: what was fed, what has run, what was reported. Everything that happens is
//! an [`Action`], and somebody outside says which comes next.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use smallvec::SmallVec;
use windlass_backend::{
    BackendError, ContextSink, DomainId, Failed, LaneDepth, LaneNumber, LaneSink, LaneSpec, Point, Timed,
    Verdict, Wait,
};

use crate::audit::{Audit, is_inside_poll, is_inside_submit};
use crate::kernel::Job;
use crate::memory::Block;
use crate::script::{Script, due};

/// What the backend, its contexts, lanes and allocations, and its controls share.
pub(crate) struct Shared {
    machine: Mutex<Machine>,
    auto: bool,
}

#[derive(Default)]
pub(crate) struct Machine {
    pub(crate) script: Script,
    pub(crate) audit: Audit,
    pub(crate) breaches: Vec<String>,
    pub(crate) contexts: Vec<ContextState>,
    pub(crate) lanes: Vec<LaneState>,
    /// Allocations that their memory stream has not come to.
    pub(crate) coming: VecDeque<Weak<Block>>,
    /// The devices' clock, which goes on as they work.
    pub(crate) now: u64,
}

pub(crate) struct ContextState {
    pub(crate) lost: Option<String>,
    pub(crate) closed: bool,
    /// Nobody waits for it any more; it reports nothing.
    pub(crate) abandoned: bool,
    pub(crate) domain: Option<DomainId>,
    /// Most bytes of a copy from and to foreign host memory that do not block.
    pub(crate) pageable: (usize, usize),
    /// Whether waiters look by themselves.
    pub(crate) waiters_look: bool,
    pub(crate) sink: Arc<dyn ContextSink>,
}

/// The allocations that a group uses.
pub(crate) type Uses = SmallVec<[Arc<Block>; 2]>;

/// A group as it was fed.
pub(crate) struct Group {
    pub(crate) point: u64,
    pub(crate) waits: SmallVec<[Wait; 1]>,
    pub(crate) jobs: SmallVec<[Job; 1]>,
    pub(crate) timed: bool,
}

/// A group that was fed and not reported.
pub(crate) struct Unreported {
    pub(crate) point: u64,
    /// Native commands.
    pub(crate) weight: usize,
    pub(crate) uses: Uses,
}

pub(crate) struct LaneState {
    pub(crate) context: usize,
    pub(crate) spec: LaneSpec,
    pub(crate) depth: LaneDepth,
    pub(crate) sink: Option<Arc<dyn LaneSink>>,
    /// Fed and not run.
    pub(crate) queue: VecDeque<Group>,
    /// Fed and not reported.
    pub(crate) unreported: VecDeque<Unreported>,
    pub(crate) fed: u64,
    pub(crate) flushed: u64,
    pub(crate) done: u64,
    pub(crate) reported: u64,
    pub(crate) armed: Vec<u64>,
    /// Points that are to be reported, and that nobody waited for when that was said.
    pub(crate) at_leisure: Vec<u64>,
    pub(crate) failed: Vec<Failed>,
    pub(crate) times: Vec<Timed>,
    /// A group of it is being run by some thread.
    pub(crate) busy: bool,
    /// Stopped by a control.
    pub(crate) held: bool,
}

/// One thing that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// This lane's next group runs.
    Run(usize),
    /// This lane reports.
    Report(usize),
    /// The next allocation is there.
    Arrive,
}

impl LaneState {
    pub(crate) fn new(context: usize, spec: LaneSpec, depth: LaneDepth, sink: Arc<dyn LaneSink>) -> Self {
        LaneState {
            context,
            spec,
            depth,
            sink: Some(sink),
            queue: VecDeque::new(),
            unreported: VecDeque::new(),
            fed: 0,
            flushed: 0,
            done: 0,
            reported: 0,
            armed: Vec::new(),
            at_leisure: Vec::new(),
            failed: Vec::new(),
            times: Vec::new(),
            busy: false,
            held: false,
        }
    }

    /// Whether all memory of a group is there.
    fn has_memory_for(&self, point: u64) -> bool {
        let group = self.unreported.iter().find(|group| group.point == point);
        group.is_none_or(|group| group.uses.iter().all(|block| block.is_there()))
    }

    /// Commands in flight.
    pub(crate) fn weight(&self) -> usize {
        self.unreported.iter().map(|group| group.weight).sum()
    }

    /// Groups in flight that are to report.
    pub(crate) fn reports(&self) -> usize {
        let mut points: SmallVec<[u64; 64]> =
            self.armed.iter().chain(&self.at_leisure).copied().filter(|p| *p > self.reported).collect();
        points.sort_unstable();
        points.dedup();
        points.len()
    }
}

impl Machine {
    /// Counts a call that a driver may keep waiting while a kernel runs.
    pub(crate) fn may_block(&mut self) {
        let is_waited_for = is_inside_poll() || is_inside_submit();
        self.audit.blocking_calls += u64::from(is_waited_for && self.audit.in_flight > 0);
    }

    /// Counts a native call.
    pub(crate) fn called(&mut self) {
        self.audit.calls_in_poll += u64::from(is_inside_poll());
    }

    /// Counts a native call on a lane of a context.
    pub(crate) fn called_lane(&mut self, context: usize) {
        match self.contexts[context].waiters_look {
            true => self.audit.lane_calls_in_poll += u64::from(is_inside_poll()),
            false => self.called(),
        }
    }

    /// The lane that a wait of a context's lane names: one of the same context, or of its domain.
    pub(crate) fn find(&self, context: usize, number: LaneNumber) -> Option<&LaneState> {
        self.lanes
            .iter()
            .find(|l| self.reaches(context, l.context) && l.spec.number == number && l.sink.is_some())
    }

    /// Whether two contexts are the same, or of one domain.
    pub(crate) fn reaches(&self, a: usize, b: usize) -> bool {
        let domain = self.contexts[a].domain;
        a == b || domain.is_some() && domain == self.contexts[b].domain
    }

    fn may_run(&self, lane: &LaneState) -> bool {
        let passed = |w: &Wait| {
            let over = |l: &LaneState| l.done >= w.point.0 || self.contexts[l.context].lost.is_some();
            self.find(lane.context, w.lane).is_none_or(over)
        };
        !lane.busy
            && !lane.held
            && lane.queue.front().is_some_and(|g| {
                g.point <= lane.flushed && g.waits.iter().all(passed) && lane.has_memory_for(g.point)
            })
    }

    fn may_report(&self, lane: &LaneState) -> bool {
        let eager = self.script.inside && lane.done > lane.reported;
        let abandoned = self.contexts[lane.context].abandoned;
        let due = |points: &[u64]| points.iter().any(|p| *p <= lane.done);
        let at_leisure = !self.script.no_leisure && due(&lane.at_leisure);
        !self.script.delayed && !abandoned && (eager || due(&lane.armed) || at_leisure)
    }

    /// Everything that may happen next.
    pub(crate) fn actions(&self) -> SmallVec<[Action; 8]> {
        let lanes = || self.lanes.iter().enumerate();
        let reports = lanes().filter(|(_, l)| self.may_report(l)).map(|(at, _)| Action::Report(at));
        let arrives = (!self.coming.is_empty()).then_some(Action::Arrive);
        let runs = lanes().filter(|(_, l)| self.may_run(l)).map(|(at, _)| Action::Run(at));
        reports.chain(runs).chain(arrives).collect()
    }

    /// How the next group of a lane is to end, where that is not up to itself.
    fn doom(&mut self, at: usize, group: &Group) -> Option<BackendError> {
        let script = &mut self.script;
        if let Some(found) = script.points.iter().position(|(l, p, _)| (*l, *p) == (at, group.point)) {
            return Some(script.points.swap_remove(found).2);
        }
        if group.jobs.is_empty() {
            return None;
        }
        let copy = matches!(group.jobs[..], [Job::Copy(_)]);
        let of_copies = if copy { due(&mut script.copies) } else { None };
        of_copies.or(due(&mut script.groups))
    }

    /// What a lane has to say up to a point it has come to, and to whom.
    fn verdict(&mut self, at: usize) -> Option<(Arc<dyn LaneSink>, Verdict)> {
        // What a lost context has to say is of all that it was fed.
        let exact = self.script.exact && self.contexts[self.lanes[at].context].lost.is_none();
        let lane = &mut self.lanes[at];
        let armed = lane.armed.iter().chain(&lane.at_leisure);
        let first = armed.copied().filter(|p| *p <= lane.done).min();
        let upto = if exact { first.unwrap_or(lane.done).max(lane.reported) } else { lane.done };
        let (told, kept) = std::mem::take(&mut lane.failed).into_iter().partition(|f| f.last.0 <= upto);
        lane.failed = kept;
        let (times, kept) = std::mem::take(&mut lane.times).into_iter().partition(|t| t.point.0 <= upto);
        lane.times = kept;
        lane.armed.retain(|p| *p > upto);
        lane.at_leisure.retain(|p| *p > upto);
        lane.reported = upto;
        let mut over = 0;
        while let Some(group) = lane.unreported.pop_front_if(|group| group.point <= upto) {
            group.uses.iter().for_each(|block| block.release());
            over += 1;
        }
        let sink = lane.sink.clone();
        self.audit.in_flight -= over;
        self.audit.verdicts += 1;
        Some((sink?, Verdict::ok(Point(upto)).failed(told).times(times)))
    }

    /// A context's devices are gone: nothing runs there any more, and everything fed ends so. What was fed is given
    /// back, since it holds things of the user's, which are not to be dropped under a lock.
    #[must_use]
    pub(crate) fn lose(&mut self, context: usize, why: &str) -> Vec<Group> {
        let mut over = Vec::new();
        let hangs = self.contexts[context].abandoned;
        self.contexts[context].lost = Some(why.to_owned());
        for lane in self.lanes.iter_mut().filter(|l| l.context == context) {
            over.extend(lane.queue.drain(..));
            if lane.done < lane.fed {
                let (first, last) = (Point(lane.done + 1), Point(lane.fed));
                lane.failed.push(Failed::run(first, last, BackendError::Lost(why.to_owned())));
                lane.done = lane.fed;
            }
            // It touches nothing any more, reported or not. Lanes of other contexts do. One that hangs may touch it for ever.
            let uses = lane.unreported.iter_mut().flat_map(|group| group.uses.drain(..));
            uses.filter(|_| !hangs).for_each(|block| block.release());
        }
        over
    }
}

impl Shared {
    pub(crate) fn new(auto: bool) -> Self {
        Shared { machine: Mutex::default(), auto }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn build_called(&self) {
        let mut machine = self.lock();
        machine.called();
        machine.may_block();
        machine.audit.builds += 1;
    }

    /// The runtime has broken the contract. Kept, since a panic here may be caught on its way.
    pub(crate) fn breach(&self, what: String) -> ! {
        self.note_breach(&what);
        panic!("breach of the backend contract: {what}")
    }

    /// As [`Shared::breach`], where a panic would do harm.
    pub(crate) fn note_breach(&self, what: &str) {
        self.lock().breaches.push(what.to_owned());
    }

    /// Does one thing; the caller has found it among [`Machine::actions`], and nobody else has been at work since,
    /// or it is looked at again.
    pub(crate) fn perform(&self, action: Action) -> bool {
        match action {
            Action::Run(at) => self.run(at),
            Action::Report(at) => self.report(at),
            Action::Arrive => {
                let Some(block) = self.lock().coming.pop_front() else { return false };
                block.upgrade().into_iter().for_each(|block| block.arrive());
                true
            }
        }
    }

    fn run(&self, at: usize) -> bool {
        let mut machine = self.lock();
        if !machine.may_run(&machine.lanes[at]) {
            return false;
        }
        let Some(group) = machine.lanes[at].queue.pop_front() else { return false };
        let doom = machine.doom(at, &group);
        machine.now += 1;
        let started = machine.now;
        machine.lanes[at].busy = true;
        machine.audit.ran += 1;
        drop(machine);
        let (point, timed) = (Point(group.point), group.timed);
        let copied = group.jobs.iter().map(Job::bytes_copied).sum::<u64>();
        let filled = group.jobs.iter().map(Job::bytes_filled).sum::<u64>();
        if let Some(what) = group.jobs.iter().find_map(Job::is_in_hosts_way) {
            self.note_breach(what);
        }
        let result = match doom {
            Some(error) => {
                group.jobs.iter().for_each(Job::spoil);
                Err(error)
            }
            None => catch_unwind(AssertUnwindSafe(|| group.jobs.iter().for_each(Job::run)))
                .map_err(|panic| BackendError::Panicked(message(panic))),
        };
        drop(group);
        let mut machine = self.lock();
        machine.audit.bytes_copied += copied;
        machine.audit.bytes_filled += filled;
        machine.now += 1;
        let ended = machine.now;
        let lane = &mut machine.lanes[at];
        lane.busy = false;
        // Its context may have been lost meanwhile: then it is over already.
        if lane.done < point.0 {
            lane.done = point.0;
            lane.failed.extend(result.err().map(|error| Failed::at(point, error)));
            lane.times.extend(timed.then(|| Timed::new(point, started, ended)));
        }
        true
    }

    /// Reports, asked or not.
    pub(crate) fn report(&self, at: usize) -> bool {
        let mut machine = self.lock();
        let told = machine.verdict(at);
        drop(machine);
        told.map(|(sink, verdict)| sink.passed(verdict)).is_some()
    }

    /// Does everything that may happen, the first possible thing first.
    pub(crate) fn run_all(&self) -> usize {
        let mut steps = 0;
        loop {
            let Some(action) = self.lock().actions().first().copied() else { return steps };
            steps += usize::from(self.perform(action));
        }
    }

    /// After a native call: some devices go on by themselves.
    pub(crate) fn after_call(&self) {
        if self.auto || self.lock().script.inside {
            self.run_all();
        }
    }

    /// Whether groups run without being flushed.
    pub(crate) fn is_eager(&self, machine: &Machine) -> bool {
        self.auto || machine.script.inside
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("auto", &self.auto).finish_non_exhaustive()
    }
}

fn message(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| {
        // Dropping it may panic again.
        std::mem::forget(panic);
        String::new()
    })
}
