//! Lanes: where the runtime's half of the contract is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use windlass_backend::{Allocation, BackendError, Command, Group, Lane, LaneRole, LaneSpec, Point, Priority};

use crate::kernel::{Job, Refused, names_of};
use crate::machine::{self, LaneState, Machine, Shared, Unreported, Uses};
use crate::memory::{is_foreign, is_of_peer};
use crate::script::{Call, Refusal, due};
use crate::window::Reach;

pub(crate) struct FaultyLane {
    at: usize,
    context: usize,
    feeding: AtomicBool,
    shared: Arc<Shared>,
}

impl FaultyLane {
    pub(crate) fn new(at: usize, context: usize, shared: Arc<Shared>) -> Self {
        FaultyLane { at, context, feeding: AtomicBool::new(false), shared }
    }

    /// What the runtime may not do.
    fn check(&self, machine: &Machine, group: &Group<'_>) -> Result<(), String> {
        let (lane, point) = (&machine.lanes[self.at], group.point);
        if machine.contexts[self.context].closed {
            return Err("a feed after the context was closed".into());
        }
        if point.0 <= lane.fed {
            return Err(format!("{point:?} fed after {}", lane.fed));
        }
        let (held, more) = (lane.weight(), weight(group));
        if held > 0 && held + more > lane.depth.commands {
            return Err(format!("{more} commands beside {held}, and the depth is {}", lane.depth.commands));
        }
        if group.report && lane.reports() >= lane.depth.reports {
            return Err(format!("more than {} groups that report", lane.depth.reports));
        }
        let computes = |c: &Command<'_>| !matches!(c, Command::Copy(_) | Command::Fill(_));
        if lane.spec.role == LaneRole::Copy && group.commands.iter().any(computes) {
            return Err("a lane that only copies was fed something else".into());
        }
        // Without staging there is no other way, and a context that is lost has none to give and refuses the copy.
        let (up, down) = machine.contexts[self.context].pageable;
        let blocks = |c: &Command<'_>| {
            let Command::Copy(copy) = c else { return false };
            let bytes = copy.from_part.region().or(copy.to_part.region()).map_or(0, |region| region.bytes());
            let is_foreign = |memory| is_foreign(memory, self.context);
            let is_far = |memory: &dyn Allocation| memory.host_ptr().is_none();
            is_foreign(copy.from) && is_far(copy.to) && bytes > up
                || is_foreign(copy.to) && is_far(copy.from) && bytes > down
        };
        let has_staging = !machine.script.no_staging && machine.contexts[self.context].lost.is_none();
        if has_staging && group.commands.iter().any(blocks) {
            return Err("a copy with pageable memory that blocks who feeds it".into());
        }
        for wait in group.waits {
            let other = machine.find(self.context, wait.lane);
            if wait.lane == lane.spec.number || other.is_none_or(|l| l.fed < wait.point.0) {
                return Err(format!("a wait for {wait:?}, which was not fed"));
            }
        }
        Ok(())
    }

    /// What the script wants of this feed.
    fn scripted(&self, machine: &mut Machine, commands: &[Command<'_>]) -> Option<Refusal> {
        if let Some(why) = &machine.contexts[self.context].lost {
            return Some(Refusal::Error(BackendError::Lost(why.clone())));
        }
        let script = &mut machine.script;
        if let Some(error) = &script.all_feeds {
            return Some(Refusal::Error(error.clone()));
        }
        let named = commands.iter().flat_map(names_of).find_map(|name| {
            script.kernels.iter().find(|(n, _)| n == name).map(|(_, e)| Refusal::Error(e.clone()))
        });
        match commands.is_empty() {
            true => None,
            false => named.or_else(|| due(&mut script.feeds)),
        }
    }

    fn take(&self, group: Group<'_>) -> Result<(), BackendError> {
        let mut machine = self.shared.lock();
        machine.called_lane(self.context);
        machine.audit.feeds += 1;
        if let Err(what) = self.check(&machine, &group) {
            drop(machine);
            self.shared.breach(what);
        }
        let scripted = self.scripted(&mut machine, &group.commands);
        let peers: SmallVec<[usize; 4]> =
            (0..machine.contexts.len()).filter(|&of| machine.reaches(self.context, of)).collect();
        drop(machine);
        match scripted {
            Some(Refusal::Error(error)) => return Err(error),
            Some(Refusal::Panic) => panic!("a scripted panic in feed"),
            None => {}
        }
        let copies =
            || group.commands.iter().filter_map(|c| if let Command::Copy(c) = c { Some(c) } else { None });
        let foreign = copies().filter(|c| [c.from, c.to].into_iter().any(|m| is_foreign(m, self.context)));
        let foreign = foreign.count() as u64;
        let of_peers = copies().filter(|c| [c.from, c.to].into_iter().any(|m| is_of_peer(m, self.context)));
        let of_peers = of_peers.count() as u64;
        let weight = weight(&group);
        let Group { point, waits, commands, report, at_leisure, timed, .. } = group;
        let mut uses = Uses::new();
        let reach = Reach { context: self.context, peers: &peers };
        let jobs = commands.into_iter().map(|c| Job::new(c, reach, &mut uses));
        let jobs = match jobs.collect::<Result<SmallVec<[Job; 1]>, _>>() {
            Ok(jobs) => jobs,
            Err(Refused::Error(error)) => return Err(error),
            Err(Refused::Breach(what)) => self.shared.breach(what),
        };
        for block in &uses {
            if let Err(what) = block.hold() {
                self.shared.breach(what);
            }
        }
        let mut machine = self.shared.lock();
        let eager = self.shared.is_eager(&machine);
        let elsewhere =
            |number| machine.find(self.context, number).is_some_and(|l| l.context != self.context);
        let peer_waits = waits.iter().filter(|wait| elsewhere(wait.lane)).count() as u64;
        let lane = &mut machine.lanes[self.at];
        lane.fed = point.0;
        lane.queue.push_back(machine::Group {
            point: point.0,
            waits: SmallVec::from_slice(waits),
            jobs,
            timed,
        });
        lane.unreported.push_back(Unreported { point: point.0, weight, uses });
        match (report, at_leisure) {
            (true, false) => lane.armed.push(point.0),
            (true, true) => lane.at_leisure.push(point.0),
            (false, _) => {}
        }
        let (depth, reports) = (lane.unreported.iter().map(|u| u.weight).sum(), lane.reports());
        if eager {
            lane.flushed = point.0;
        }
        let LaneSpec { role, priority, timed: times, .. } = lane.spec;
        let audit = &mut machine.audit;
        audit.in_flight += 1;
        audit.foreign_copies += foreign;
        audit.peer_copies += of_peers;
        audit.peer_waits += peer_waits;
        audit.on_copy_lanes += u64::from(role == LaneRole::Copy);
        audit.on_urgent_lanes += u64::from(priority == Priority::High);
        audit.fed_to_report += u64::from(report);
        audit.deepest = audit.deepest.max(depth);
        audit.most_reports = audit.most_reports.max(reports);
        drop(machine);
        if timed && !times {
            self.shared.breach("a group that is to be timed, on a lane that was not opened for that".into());
        }
        Ok(())
    }
}

/// What a group weighs: its native commands. A barrier is one as well.
fn weight(group: &Group<'_>) -> usize {
    group.commands.len().max(1)
}

// SAFETY: jobs use memory by windows that lie inside their allocations, checked when they are fed. A group is reported after it
// has run on some thread, under the machine's lock, which orders what it wrote before the report.
unsafe impl Lane for FaultyLane {
    unsafe fn feed(&self, group: Group<'_>) -> Result<(), BackendError> {
        struct Feeding<'a>(&'a AtomicBool);
        impl Drop for Feeding<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::Release);
            }
        }
        if self.feeding.swap(true, Ordering::Acquire) {
            self.shared.breach("two feeds of one lane at the same time".into());
        }
        let feeding = Feeding(&self.feeding);
        let taken = self.take(group);
        drop(feeding);
        self.shared.after_call();
        taken
    }

    fn flush(&self) {
        let mut machine = self.shared.lock();
        machine.called_lane(self.context);
        machine.audit.flushes += 1;
        let panics = machine.script.panics_now(Call::Flush);
        let lane = &mut machine.lanes[self.at];
        lane.flushed = lane.fed;
        drop(machine);
        assert!(!panics, "a scripted panic in flush");
        self.shared.after_call();
    }

    fn arm(&self, point: Point) {
        self.arm_for(point, |lane| &mut lane.armed);
    }

    fn arm_at_leisure(&self, point: Point) {
        self.arm_for(point, |lane| &mut lane.at_leisure);
    }

    fn look(&self, point: Point) {
        let mut machine = self.shared.lock();
        machine.audit.looks += 1;
        let panics = machine.script.panics_now(Call::Look);
        let context = &machine.contexts[self.context];
        let (lost, abandoned) = (context.lost.is_some(), context.abandoned);
        let lane = &machine.lanes[self.at];
        let was_fed = point.0 <= lane.fed;
        let is_over = lane.done >= point.0 && lane.reported < point.0 && !abandoned;
        drop(machine);
        if !was_fed && !lost {
            self.shared.breach(format!("{point:?} was looked at, and never fed"));
        }
        assert!(!panics, "a scripted panic in look");
        if is_over {
            self.shared.report(self.at);
        }
    }
}

impl FaultyLane {
    /// Arms a point, in one way or the other.
    fn arm_for(&self, point: Point, list: impl FnOnce(&mut LaneState) -> &mut Vec<u64>) {
        let mut machine = self.shared.lock();
        machine.called_lane(self.context);
        machine.audit.arms += 1;
        let panics = machine.script.panics_now(Call::Arm);
        let lost = machine.contexts[self.context].lost.is_some() || machine.script.all_feeds.is_some();
        let lane = &mut machine.lanes[self.at];
        if point.0 > lane.fed && !lost {
            drop(machine);
            self.shared.breach(format!("{point:?} was armed, and never fed"));
        }
        let armed = point.0.min(lane.fed);
        list(lane).push(armed);
        let (reports, most) = (lane.reports(), lane.depth.reports);
        machine.audit.most_reports = machine.audit.most_reports.max(reports);
        drop(machine);
        if reports > most && !lost {
            self.shared.breach(format!("{reports} groups that report, and the depth is {most}"));
        }
        assert!(!panics, "a scripted panic in arm");
        self.shared.after_call();
    }
}

impl Drop for FaultyLane {
    fn drop(&mut self) {
        let mut machine = self.shared.lock();
        let lost = machine.contexts[self.context].lost.is_some();
        let lane = &mut machine.lanes[self.at];
        let (sink, left) = (lane.sink.take(), lane.unreported.len());
        lane.armed.clear();
        let queue = std::mem::take(&mut lane.queue);
        machine.audit.lanes -= 1;
        machine.audit.in_flight -= left;
        machine.lanes[self.at].unreported.clear();
        drop(machine);
        drop((sink, queue));
        if left > 0 && !lost {
            self.shared.note_breach(&format!("a lane was dropped before the verdicts of {left} groups"));
        }
    }
}
