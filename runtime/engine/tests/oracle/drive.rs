//! Runs a program: submits it to the engine, and plays shell, drivers, devices and host, in a random order that obeys
//! only what the engine enforces.

mod end;
mod evict;
mod heirs;
mod host;
mod lanes;
mod submit;
mod swap;

use std::collections::HashMap;

use windlass_engine::{
    Access, After, Allocate, Cancelled, ContextId, Depth, DeviceId, Engine, Fed, GuardPlan, HEAP, Initial,
    LaneId, MemoryId, Mode, NodeId, Outcome, Plan, ProxyId, Recorded, RootId, RootShape, Sentinel, Shell,
    Step, Transfer, Turn, merge,
};

use super::account::{Account, MOST, Node, What};
use super::program::{Device, Kind, Program};
use super::why::{Why, dropped_inside, numbered, outside};
use super::world::{Fate, World};
use super::{Fault, Stats};
use windlass_testkit::{Rng, mix};

/// The oracle's shell: work is named by an item, causes by the node that failed.
#[derive(Debug)]
pub(super) enum Sim {}

/// What a node of the simulation does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Item,
    Copy,
}

impl Shell for Sim {
    type Work = Work;
    type Commands = ();
    type Cause = Why;
    type Memory = u32;
    type Object = ();

    fn transfer(_: Transfer) -> Work {
        Work::Copy
    }

    fn fits(_: (&(), usize), _: (&(), usize)) -> bool {
        true
    }
}

/// Causes that are no node.
const NO_MEMORY: u32 = 1_000;
const LOST: u32 = 1_001;

/// A node that has been given to a lane.
struct Entry {
    id: NodeId,
    at: usize,
    waits: Vec<(LaneId, u64)>,
    live: bool,
    refused: bool,
    /// What its commands name.
    memory: Vec<u32>,
}

struct SimLane {
    /// The engine has said that there is something to feed.
    called: bool,
    held: bool,
    fed: Vec<Entry>,
    confirmed: usize,
    /// Points the engine wants to hear of.
    armed: Vec<u64>,
    /// Points that report though nobody waits for them.
    sentinels: Vec<u64>,
    executed: usize,
    reported: usize,
    depth: Depth,
    context: usize,
    copies: bool,
    at_leisure: bool,
    lost: bool,
}

impl SimLane {
    fn new(device: &Device, depth: Depth, copies: bool) -> Self {
        SimLane {
            called: false,
            held: false,
            fed: Vec::new(),
            confirmed: 0,
            armed: Vec::new(),
            sentinels: Vec::new(),
            executed: 0,
            reported: 0,
            depth,
            context: device.context,
            copies,
            at_leisure: device.at_leisure,
            lost: false,
        }
    }

    /// A driver can report only what it has been given, and no more at a time than it says.
    fn has_recorded(&self, point: u64) -> Result<(), Fault> {
        match self.confirmed < point as usize {
            true => Err(Fault::new(format!("point {point} is armed before it is fed"))),
            false => Ok(()),
        }
    }

    /// Whether it reports a point soon. At leisure is not soon enough for who waits.
    fn reports(&self, point: u64) -> bool {
        self.armed.contains(&point) || !self.at_leisure && self.sentinels.contains(&point)
    }

    /// As many groups report as may.
    fn is_full(&self) -> bool {
        self.reporting() >= self.depth.reports as usize
    }

    fn reporting(&self) -> usize {
        let mut open: Vec<u64> = self.armed.iter().chain(&self.sentinels).copied().collect();
        open.retain(|point| *point as usize > self.reported);
        open.sort_unstable();
        open.dedup();
        open.len()
    }

    fn check_reports(&self) -> Result<(), Fault> {
        let reporting = self.reporting();
        match reporting > self.depth.reports as usize && !self.lost {
            true => Err(Fault::new(format!("{reporting} groups report, and {:?} may", self.depth))),
            false => Ok(()),
        }
    }

    /// The first point that was asked for, has been executed, and has not been reported.
    fn armed_end(&self) -> Option<usize> {
        let due = |p: &usize| self.reported < *p && *p <= self.executed;
        self.armed.iter().map(|p| *p as usize).filter(due).min()
    }
}

/// A host-side node that was started.
struct Running {
    id: NodeId,
    at: usize,
    /// What a guard saw when it began.
    seen: Option<u64>,
    /// The memory that it works on was given up: it goes on there, and nobody sees what it does.
    apart: bool,
}

struct Staging {
    download: NodeId,
    upload: NodeId,
    /// Its turn comes when there is staging; nothing outside may keep it from giving that back.
    moves: bool,
    /// How many of its two nodes the shell has opened.
    opened: u8,
    at: usize,
    tokens: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Feed(usize),
    Confirm(usize),
    Execute(usize),
    Report(usize),
    Proxy(usize),
    Open(usize),
    Allocate(usize),
    Stage(usize),
    Host(usize),
    Cancel(usize),
    Release(usize),
    Lose,
}

pub(super) struct Drive<'a> {
    program: &'a Program,
    rng: Rng,
    engine: Engine<Sim>,
    turn: Turn<Sim>,
    pub(super) account: Account<'a>,
    world: World,
    ids: Vec<NodeId>,
    /// The context each runs in.
    contexts: Vec<Option<usize>>,
    /// Which nodes fail if they run.
    fails: Vec<bool>,
    roots: Vec<RootId>,
    lanes: Vec<SimLane>,
    fired: Vec<ProxyId>,
    gates: Vec<NodeId>,
    allocations: Vec<Allocate>,
    /// Whether the host has a root's memory; nobody knows where it failed to change hands.
    mapped: Vec<Option<bool>>,
    /// Per root and memory: none was asked for, one is on its way for these nodes, or it is there.
    slots: Vec<Vec<Option<Vec<usize>>>>,
    ready: Vec<Vec<bool>>,
    staging: Vec<Staging>,
    running: Vec<Running>,
    /// Copies that the host has made.
    copied: Vec<usize>,
    cancels: Vec<usize>,
    awaited: Vec<NodeId>,
    kept_roots: Vec<usize>,
    seen: Vec<Option<u64>>,
    edges: usize,
    loss: Option<usize>,
    any_loss: bool,
    /// Memory that a device which was given up may still touch.
    hung: Vec<u32>,
    allocated: u32,
    freed: u32,
    heirs: heirs::Heirs,
    inherited: u64,
    actions: Vec<Action>,
    /// Says what is evicted; none where nothing is.
    whims: Option<Rng>,
    /// Says what is swapped out; none where nothing is.
    pub(super) swaps: Option<Rng>,
    /// Says which allocations find no room at first; none where all are made as soon as they are asked for.
    pub(super) lacks: Option<Rng>,
    /// Every eighth program looks at the lines of users after each step: to build them for that takes as long as all else.
    checks_lines: bool,
    /// Roots on their way out of a memory.
    leaving: Vec<(usize, usize)>,
    /// The first steps of their way back.
    back: HashMap<(usize, usize), Vec<usize>>,
    /// All steps of those moves.
    swap_steps: Vec<usize>,
    /// Those of the roots on their way that go aside.
    aside: Vec<(usize, usize)>,
    pub(super) log: Option<Vec<String>>,
}

impl<'a> Drive<'a> {
    pub(super) fn new(program: &'a Program, schedule: u64) -> Self {
        // An engine that ends drops what it has, the one before this too.
        let _ = dropped_inside();
        let mut engine = Engine::new();
        engine.start_record();
        program.build(&mut engine);
        let lanes = program.devices.iter().flat_map(|d| {
            let compute = d.lanes.iter().map(move |&depth| SimLane::new(d, depth, false));
            compute.chain(d.copy_lanes.iter().map(move |&depth| SimLane::new(d, depth, true)))
        });
        // The heap, the program's, and the one for what is swapped out aside.
        let memories = program.memories.len() + 2;
        let mut drive = Drive {
            program,
            rng: Rng::new(mix(schedule, 7)),
            turn: Turn::new(),
            account: Account::new(program),
            world: World::new(program),
            ids: Vec::new(),
            contexts: Vec::new(),
            fails: Vec::new(),
            roots: Vec::new(),
            lanes: lanes.collect(),
            fired: Vec::new(),
            gates: Vec::new(),
            allocations: Vec::new(),
            mapped: vec![Some(false); program.roots.len()],
            slots: vec![vec![None; memories]; program.roots.len()],
            ready: vec![vec![false; memories]; program.roots.len()],
            staging: Vec::new(),
            running: Vec::new(),
            copied: Vec::new(),
            cancels: Vec::new(),
            awaited: Vec::new(),
            kept_roots: (0..program.roots.len()).collect(),
            seen: vec![None; program.items.len()],
            edges: 0,
            loss: None,
            any_loss: false,
            hung: Vec::new(),
            allocated: 0,
            freed: 0,
            heirs: heirs::Heirs::default(),
            inherited: 0,
            actions: Vec::new(),
            whims: evict::whims(schedule),
            swaps: None,
            lacks: None,
            checks_lines: schedule.is_multiple_of(8),
            leaving: Vec::new(),
            back: HashMap::new(),
            swap_steps: Vec::new(),
            aside: Vec::new(),
            log: None,
            engine,
        };
        for (i, root) in program.roots.iter().enumerate() {
            let given = match program.pinned_by(i) {
                Some(by) => Initial::Pinned(0, MemoryId(by as u32)),
                None if root.data => Initial::Written(0),
                None => Initial::None,
            };
            drive.allocated += u32::from(root.data);
            drive.ready[i][root.home.unwrap_or(0)] = root.data;
            let shape = RootShape {
                extent: root.extent(),
                unit: root.unit,
                bytes: root.len() * root.unit,
                object: (),
                home: root.home.map(|m| MemoryId(m as u32)),
            };
            drive.roots.push(drive.engine.add_root(shape, given));
        }
        drive
    }

    pub(super) fn run(&mut self) -> Result<Stats, Fault> {
        for item in 0..self.program.items.len() {
            if let Some((context, _)) = self.program.loss.filter(|(_, at)| *at == item) {
                self.loss = Some(context);
            }
            for _ in 0..self.program.items[item].lead {
                self.step(item)?;
            }
            // In chunks one item may make two nodes for each of its elements.
            let enough = if self.program.chunk.is_some() { MOST / 4 } else { MOST / 2 };
            if self.ids.len() > enough {
                break;
            }
            if self.program.leaves_early {
                self.release_all_before(item)?;
            }
            self.submit(item)?;
        }
        while self.step(self.program.items.len())? {}
        self.check_end()
    }

    fn note(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.log.is_some() {
            let line = line(self);
            self.log.iter_mut().for_each(|log| log.push(line.clone()));
        }
    }

    /// Takes in what the engine asks for.
    fn absorb(&mut self) -> Result<(), Fault> {
        for id in std::mem::take(&mut self.turn.certain) {
            let Some(told) = self.engine.tell(id).map(|(_, outcome)| numbered(outcome)) else { continue };
            let at = self.at(id)?;
            self.note(|_| format!("  tells {at}: {told:?}"));
            self.account.told(at, told)?;
        }
        for settled in std::mem::take(&mut self.turn.settled) {
            let at = self.at(settled.node)?;
            let outcome = numbered(settled.outcome);
            self.note(|_| format!("  ends {at}: {outcome:?}"));
            self.note_stay(at, outcome == Outcome::Done);
            self.account.settled(at, outcome)?;
        }
        // They were planned behind the ends of those that used the memory.
        self.take_in_swaps()?;
        for lane in std::mem::take(&mut self.turn.ready_lanes) {
            self.lanes[lane.0 as usize].called = true;
        }
        for id in std::mem::take(&mut self.turn.start) {
            let at = self.at(id)?;
            if self.account.has_bad_input(at) {
                return Err(Fault::new(format!("{at} is started though something it reads failed")));
            }
            self.running.push(Running { id, at, seen: None, apart: false });
        }
        self.turn.proxies.clear();
        for (lane, point) in std::mem::take(&mut self.turn.arm) {
            self.lanes[lane.0 as usize].has_recorded(point)?;
            self.lanes[lane.0 as usize].armed.push(point);
            self.lanes[lane.0 as usize].check_reports()?;
        }
        for Sentinel { lane, point, .. } in std::mem::take(&mut self.turn.sentinels) {
            self.lanes[lane.0 as usize].has_recorded(point)?;
            self.lanes[lane.0 as usize].sentinels.push(point);
            self.lanes[lane.0 as usize].check_reports()?;
        }
        self.fired.append(&mut self.turn.fired);
        for staged in std::mem::take(&mut self.turn.staged) {
            let at = self.at(staged.download)?;
            let (download, upload, moves) = (staged.download, staged.upload, staged.moves);
            self.staging.push(Staging { download, upload, moves, opened: 0, at, tokens: Vec::new() });
        }
        self.allocations.append(&mut self.turn.allocate);
        self.freed += std::mem::take(&mut self.turn.leaked).len() as u32;
        for memory in std::mem::take(&mut self.turn.freed) {
            self.freed += 1;
            if memory > 0 && self.hung.contains(&memory) {
                return Err(Fault::new("memory is freed that a device may touch which was given up"));
            }
            let in_flight = self.lanes.iter().filter(|l| !l.lost).flat_map(|l| &l.fed[l.reported..]);
            // What the program began with is all called 0, and stands in the heap.
            if memory > 0 && in_flight.flat_map(|entry| &entry.memory).any(|used| *used == memory) {
                return Err(Fault::new("memory is freed while a lane may use it"));
            }
        }
        outside(|| self.turn.causes.clear());
        match dropped_inside() {
            Some(cause) => Err(Fault::new(format!("the engine drops the cause {cause}"))),
            None => Ok(()),
        }
    }

    fn at(&self, id: NodeId) -> Result<usize, Fault> {
        let record = self.engine.record();
        record.and_then(|r| r.position(id)).ok_or_else(|| Fault::new("an unknown node"))
    }

    /// One thing happens, if anything can.
    fn step(&mut self, planned: usize) -> Result<bool, Fault> {
        self.evict()?;
        self.swap_out()?;
        self.lack_room();
        self.collect(planned);
        if self.actions.is_empty() {
            return self.sentinel();
        }
        let action = self.actions[self.rng.below(self.actions.len())];
        self.note(|_| format!("{action:?}"));
        self.act(action)?;
        self.absorb()?;
        self.check_told()?;
        self.check_lines()?;
        Ok(true)
    }

    /// Whoever will not run, and has not been fed or started, is known to end badly as soon as that is certain. What a
    /// context took with it is told as it comes to light.
    fn check_told(&self) -> Result<(), Fault> {
        let begun = |at: usize| {
            let fed = self.lanes.iter().any(|lane| lane.fed.iter().any(|entry| entry.at == at));
            fed || self.running.iter().any(|running| running.at == at)
        };
        let secret = |at: &usize| self.account.is_kept_secret(*at) && !begun(*at);
        match (0..self.ids.len()).find(secret).filter(|_| !self.any_loss) {
            Some(at) => Err(Fault::new(format!("{at} will not run, and nobody is told"))),
            None => Ok(()),
        }
    }

    /// Nothing else can happen: a lane's sentinel brings the verdicts that nobody waits for.
    fn sentinel(&mut self) -> Result<bool, Fault> {
        self.check_wanted()?;
        let late = |l: &usize| {
            let lane = &self.lanes[*l];
            lane.sentinels
                .iter()
                .any(|point| (lane.reported + 1..=lane.executed).contains(&(*point as usize)))
        };
        let Some(l) = (0..self.lanes.len()).find(late) else { return Ok(false) };
        self.note(|_| format!("sentinel of {l}"));
        self.report(l);
        self.absorb()?;
        Ok(true)
    }

    /// Whatever somebody on the host waits for, and has run, is to report: an awaited group, a group that one in another
    /// domain waits behind, and, once these have been reported, all whose data they read. Or as many report on its lane as
    /// may, or one after it does that the same one waits behind: of several readers the engine asks for the last on each
    /// lane. A staged transfer's steps are the shell's to ask for.
    fn check_wanted(&self) -> Result<(), Fault> {
        let open = |at: &usize| self.account.nodes[*at].settled.is_none();
        let domain = |at: usize| self.contexts[at].map(|c| if self.program.one_domain { 0 } else { c });
        let place = |at: usize| {
            let of = |lane: &SimLane| lane.fed.iter().position(|entry| entry.at == at);
            self.lanes.iter().find_map(|lane| of(lane).map(|i| (lane, i)))
        };
        let staged =
            |at: usize| matches!(self.account.nodes[at].what, What::Copy(c) if c.step == Step::Download);
        let edges = self.engine.record().map_or(Vec::new(), |record| record.edges_from(0));
        let held = edges.iter().filter(|(from, to)| {
            let apart = domain(*to).is_none() || domain(*from) != domain(*to);
            apart && open(to) && place(*to).is_none() && !(staged(*from) && *to == from + 1)
        });
        let held: Vec<(usize, usize)> = held.copied().collect();
        // Whoever waits behind both goes on no sooner if the earlier is reported by itself.
        let covered = |&(from, to): &(usize, usize)| {
            let Some((lane, i)) = place(from).filter(|(lane, i)| *i >= lane.reported) else { return false };
            let mut after = lane.fed.iter().enumerate().skip(i + 1);
            after.any(|(j, entry)| lane.reports(j as u64 + 1) && held.contains(&(entry.at, to)))
        };
        let asked = held.iter().filter(|edge| !covered(edge));
        let awaited = self.awaited.iter().filter_map(|id| self.at(*id).ok());
        let mut wanted: Vec<usize> = awaited.chain(asked.map(|(from, _)| *from)).filter(open).collect();
        let mut seen = Vec::new();
        while let Some(at) = wanted.pop() {
            if seen.contains(&at) {
                continue;
            }
            seen.push(at);
            let Some((lane, i)) = place(at).filter(|(lane, i)| !lane.lost && *i < lane.executed) else {
                continue;
            };
            if i < lane.reported {
                let direct = edges.iter().filter(|(from, to)| *to == at && self.account.reads(at, *from));
                let inputs: Vec<usize> = direct.map(|(from, _)| *from).filter(open).collect();
                // What came by way of another input is asked for when that one has been reported.
                let first_hand = |n: &usize| !inputs.iter().any(|other| self.account.reads(*other, *n));
                wanted.extend(inputs.iter().copied().filter(first_hand));
            } else if !lane.reports(i as u64 + 1) && !lane.is_full() {
                return Err(Fault::new(format!("somebody waits for {at}, and nobody asks for its verdict")));
            }
        }
        Ok(())
    }

    fn collect(&mut self, planned: usize) {
        let mut actions = std::mem::take(&mut self.actions);
        actions.clear();
        for (l, lane) in self.lanes.iter().enumerate() {
            if lane.called {
                actions.push(Action::Feed(l));
            }
            if lane.held && (lane.confirmed < lane.fed.len() || !lane.called) {
                actions.push(Action::Confirm(l));
            }
            if !lane.lost && lane.executed < lane.fed.len() && self.may_run(&lane.fed[lane.executed]) {
                actions.push(Action::Execute(l));
            }
            if lane.reported < lane.executed && (!self.program.lazy || lane.armed_end().is_some()) {
                actions.push(Action::Report(l));
            }
        }
        actions.extend((0..self.fired.len()).map(Action::Proxy));
        actions.extend((0..self.gates.len()).map(Action::Open));
        actions.extend((0..self.allocations.len()).map(Action::Allocate));
        let over = |at: usize| self.account.nodes[at].settled.is_some();
        let used = self.staging.iter().any(|s| s.moves && s.opened > 0 && !over(s.at + 1));
        for (i, staging) in self.staging.iter().enumerate() {
            let downloaded = over(staging.at);
            let turn = !used || !staging.moves || self.program.chunk.is_none();
            if staging.opened == 0 && turn || staging.opened == 1 && downloaded {
                actions.push(Action::Stage(i));
            }
        }
        actions.extend((0..self.running.len()).map(Action::Host));
        actions.extend((0..self.cancels.len()).map(Action::Cancel));
        for (i, root) in self.kept_roots.iter().enumerate() {
            if !self.program.is_used_from(planned, *root) {
                actions.push(Action::Release(i));
            }
        }
        if self.loss.is_some() {
            actions.push(Action::Lose);
        }
        self.actions = actions;
    }

    /// Whether everything that a lane's next entry waits for natively has been executed.
    fn may_run(&self, entry: &Entry) -> bool {
        entry.waits.iter().all(|(lane, point)| {
            let lane = &self.lanes[lane.0 as usize];
            lane.lost || lane.executed as u64 >= *point
        })
    }

    fn act(&mut self, action: Action) -> Result<(), Fault> {
        match action {
            Action::Feed(l) => return self.feed(l),
            Action::Confirm(l) => self.confirm(l),
            Action::Execute(l) => return self.execute(l),
            Action::Report(l) => self.report(l),
            Action::Proxy(i) => {
                let proxy = self.fired.swap_remove(i);
                self.engine.open_proxy(proxy, &mut self.turn);
            }
            Action::Open(i) => return self.open(i),
            Action::Allocate(i) => self.allocate(i),
            Action::Stage(i) => {
                let staging = &mut self.staging[i];
                staging.opened += 1;
                let id = if staging.opened == 1 { staging.download } else { staging.upload };
                self.engine.open(id, &mut self.turn);
            }
            Action::Host(i) => return self.host(i),
            Action::Cancel(i) => return self.cancel(i),
            Action::Release(i) => {
                let root = self.kept_roots.swap_remove(i);
                self.engine.release_root(self.roots[root], &mut self.turn);
            }
            Action::Lose => self.lose(),
        }
        Ok(())
    }
}
