//! Lanes: where the runtime's half of the contract is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;
use windlass_backend::{BackendError, Command, Lane, Point, Wait};

use crate::kernel::{Job, Refused, name_of};
use crate::machine::{Group, Machine, Shared, Uses};
use crate::memory::is_foreign;
use crate::script::{Call, Refusal, due};

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
    fn check(&self, machine: &Machine, point: Point, waits: &[Wait]) -> Result<(), String> {
        let lane = &machine.lanes[self.at];
        if machine.contexts[self.context].closed {
            return Err("a feed after the context was closed".into());
        }
        if point.0 <= lane.fed {
            return Err(format!("{point:?} fed after {}", lane.fed));
        }
        if lane.unreported.len() >= lane.depth {
            return Err(format!("more than {} groups in flight", lane.depth));
        }
        for wait in waits {
            let other = machine.find(self.context, wait.lane);
            if wait.lane == lane.number || other.is_none_or(|l| l.fed < wait.point.0) {
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
        let named = commands.iter().filter_map(name_of).find_map(|name| {
            script.kernels.iter().find(|(n, _)| n == name).map(|(_, e)| Refusal::Error(e.clone()))
        });
        match commands.is_empty() {
            true => None,
            false => named.or_else(|| due(&mut script.feeds)),
        }
    }

    fn take(
        &self,
        point: Point,
        waits: &[Wait],
        commands: SmallVec<[Command<'_>; 1]>,
    ) -> Result<(), BackendError> {
        let mut machine = self.shared.lock();
        machine.called();
        machine.audit.feeds += 1;
        if let Err(what) = self.check(&machine, point, waits) {
            drop(machine);
            self.shared.breach(what);
        }
        let scripted = self.scripted(&mut machine, &commands);
        drop(machine);
        match scripted {
            Some(Refusal::Error(error)) => return Err(error),
            Some(Refusal::Panic) => panic!("a scripted panic in feed"),
            None => {}
        }
        let foreign = commands.iter().filter(|command| match command {
            Command::Copy(copy) => [copy.from, copy.to].into_iter().any(|m| is_foreign(m, self.context)),
            _ => false,
        });
        let foreign = foreign.count() as u64;
        let mut uses = Uses::new();
        let jobs = commands.into_iter().map(|c| Job::new(c, self.context, &mut uses));
        let jobs = match jobs.collect::<Result<SmallVec<[Job; 1]>, _>>() {
            Ok(jobs) => jobs,
            Err(Refused::Error(error)) => return Err(error),
            Err(Refused::Breach(what)) => self.shared.breach(what),
        };
        uses.iter().for_each(|block| block.hold());
        let mut machine = self.shared.lock();
        let eager = self.shared.is_eager(&machine);
        let lane = &mut machine.lanes[self.at];
        lane.fed = point.0;
        lane.queue.push_back(Group { point: point.0, waits: SmallVec::from_slice(waits), jobs });
        lane.unreported.push_back((point.0, uses));
        let depth = lane.unreported.len();
        if eager {
            lane.flushed = point.0;
        }
        machine.audit.in_flight += 1;
        machine.audit.foreign_copies += foreign;
        machine.audit.deepest = machine.audit.deepest.max(depth);
        Ok(())
    }
}

impl Lane for FaultyLane {
    fn feed(
        &self,
        point: Point,
        waits: &[Wait],
        commands: SmallVec<[Command<'_>; 1]>,
    ) -> Result<(), BackendError> {
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
        let taken = self.take(point, waits, commands);
        drop(feeding);
        self.shared.after_call();
        taken
    }

    fn flush(&self) {
        let mut machine = self.shared.lock();
        machine.called();
        machine.audit.flushes += 1;
        let panics = machine.script.panics_now(Call::Flush);
        let lane = &mut machine.lanes[self.at];
        lane.flushed = lane.fed;
        drop(machine);
        assert!(!panics, "a scripted panic in flush");
        self.shared.after_call();
    }

    fn arm(&self, point: Point) {
        let mut machine = self.shared.lock();
        machine.called();
        machine.audit.arms += 1;
        let panics = machine.script.panics_now(Call::Arm);
        let lost = machine.contexts[self.context].lost.is_some() || machine.script.all_feeds.is_some();
        let lane = &mut machine.lanes[self.at];
        if point.0 > lane.fed && !lost {
            drop(machine);
            self.shared.breach(format!("{point:?} was armed, and never fed"));
        }
        lane.armed.push(point.0.min(lane.fed));
        drop(machine);
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
