//! The engine played by script: what is submitted, fed, passed and failed, in which order, and what it answers.
//!
//! Tests are named after the scenarios of the design's decisions. The script opens proxies, makes allocations and
//! works staged transfers off as soon as it is asked to, unless a test holds them back; feeding and verdicts are
//! always by hand.

mod ahead;
mod aside;
mod costs;
mod data;
mod ends;
mod evict;
mod group;
mod guards;
mod heirs;
mod lanes;
mod lost;
mod pinned;
mod stalls;
mod swap;

use std::collections::HashMap;
use std::ops::Range;

use group::Group;
use windlass_engine::{
    Access, After, Box3, Cancelled, ContextId, Depth, DeviceId, Engine, Fed, GuardPlan, HEAP, Initial,
    LaneId, MemoryId, MemoryTraits, Mode, NodeId, Outcome, Pinning, Plan, ProxyId, Recorded, RootId,
    RootShape, Shell, Staged, Step, Transfer, Turn,
};

/// The shell of a script: work and causes are names.
#[derive(Debug)]
enum Play {}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Job {
    Named(&'static str),
    Copy(Transfer),
}

impl Shell for Play {
    type Work = Job;
    /// Whether the program sees the memory.
    type Commands = bool;
    type Cause = &'static str;
    type Memory = u32;
    type Object = ();

    fn transfer(step: Transfer) -> Job {
        Job::Copy(step)
    }

    fn fits((_, old): (&(), usize), (_, new): (&(), usize)) -> bool {
        old == new
    }

    fn show_memory(shown: &bool) -> bool {
        *shown
    }
}

type End = Outcome<&'static str>;

struct Script {
    engine: Engine<Play>,
    turn: Turn<Play>,
    /// Each device's context and lanes.
    devices: HashMap<DeviceId, (ContextId, Vec<LaneId>)>,
    ended: HashMap<NodeId, End>,
    took_down: HashMap<NodeId, u32>,
    /// Of nodes that will not run, how they are going to end.
    told: HashMap<NodeId, End>,
    started: Vec<NodeId>,
    points: HashMap<NodeId, (LaneId, u64)>,
    /// Asked for and not made, while `holds_memory`.
    asked: Vec<(RootId, MemoryId)>,
    /// How memory was to be pinned.
    pinnings: Vec<Pinning>,
    holds_memory: bool,
    fired: Vec<ProxyId>,
    holds_proxies: bool,
    staged: Vec<Staged>,
    transfers: Vec<(NodeId, Transfer)>,
    noted: usize,
    armed: Vec<(LaneId, u64)>,
    /// Points armed for the lanes' own sake.
    sentinels: Vec<(LaneId, u64)>,
    freed: usize,
    /// Each allocation is given a number of its own.
    made: u32,
    /// Lanes of contexts that are to be closed.
    closed: Vec<LaneId>,
    /// Lanes of a queue's own that are to be closed.
    lanes_closed: Vec<LaneId>,
}

/// A node as it was given to a lane.
#[derive(Debug, PartialEq)]
struct Given {
    node: NodeId,
    waits: Vec<(LaneId, u64)>,
    live: bool,
}

fn line(range: Range<usize>) -> Box3 {
    Box3::line(range.start, range.end)
}

fn flat(y: Range<usize>, x: Range<usize>) -> Box3 {
    Box3 { lo: [0, y.start, x.start], hi: [1, y.end, x.end] }
}

/// Elements of one byte.
fn shape(extent: Box3, home: Option<MemoryId>) -> RootShape<Play> {
    RootShape { extent, unit: 1, bytes: extent.volume(), object: (), home }
}

impl Script {
    fn new() -> Self {
        let mut engine = Engine::new();
        engine.start_record();
        Script {
            engine,
            turn: Turn::new(),
            devices: HashMap::new(),
            ended: HashMap::new(),
            took_down: HashMap::new(),
            told: HashMap::new(),
            started: Vec::new(),
            points: HashMap::new(),
            asked: Vec::new(),
            pinnings: Vec::new(),
            holds_memory: false,
            fired: Vec::new(),
            holds_proxies: false,
            staged: Vec::new(),
            transfers: Vec::new(),
            noted: 0,
            armed: Vec::new(),
            sentinels: Vec::new(),
            freed: 0,
            made: 0,
            closed: Vec::new(),
            lanes_closed: Vec::new(),
        }
    }

    /// A device in a context and with a memory of its own.
    fn device(&mut self, lanes: usize, depth: usize) -> DeviceId {
        let domain = self.engine.add_domain();
        let context = self.engine.add_context(domain);
        self.device_in(context, lanes, depth)
    }

    /// A device with one lane of this depth.
    fn device_with(&mut self, depth: Depth) -> DeviceId {
        let device = self.device(0, 1);
        let lane = self.engine.add_lane(device, depth);
        self.devices.entry(device).and_modify(|(_, lanes)| lanes.push(lane));
        device
    }

    /// A device whose memory the host reaches.
    fn device_shown(&mut self, lanes: usize, depth: usize) -> DeviceId {
        let domain = self.engine.add_domain();
        let context = self.engine.add_context(domain);
        self.device_with_memory(context, MemoryTraits::heap(), lanes, depth)
    }

    fn device_in(&mut self, context: ContextId, lanes: usize, depth: usize) -> DeviceId {
        let traits = MemoryTraits { addressable: false, ..MemoryTraits::heap() };
        self.device_with_memory(context, traits, lanes, depth)
    }

    fn device_with_memory(
        &mut self,
        context: ContextId,
        traits: MemoryTraits,
        lanes: usize,
        depth: usize,
    ) -> DeviceId {
        let memory = self.engine.add_memory(context, traits);
        let device = self.engine.add_device(context, memory);
        let lanes = (0..lanes)
            .map(|_| self.engine.add_lane(device, Depth { commands: depth as u32, reports: depth as u32 }))
            .collect();
        for (other, (of, _)) in &self.devices {
            if *of == context {
                let there = self.engine.device_memory(*other);
                self.engine.add_link(there, memory);
                self.engine.add_link(memory, there);
            }
        }
        self.devices.insert(device, (context, lanes));
        device
    }

    /// Feeds a lane a group that reports for the lane's own sake, so that those behind it do not.
    fn fill(&mut self, device: DeviceId) {
        self.group("filler").on(device).submit();
        self.feed_all();
        self.sentinels.clear();
    }

    fn context_of(&self, device: DeviceId) -> ContextId {
        self.devices[&device].0
    }

    fn lanes_of(&self, device: DeviceId) -> Vec<LaneId> {
        self.devices[&device].1.clone()
    }

    /// A buffer of this many bytes that nobody has written.
    fn buffer(&mut self, bytes: usize) -> RootId {
        self.engine.add_root(shape(line(0..bytes), None), Initial::None)
    }

    /// A buffer with content in the heap.
    fn data(&mut self, bytes: usize) -> RootId {
        self.engine.add_root(shape(line(0..bytes), None), Initial::Written(0))
    }

    fn grid(&mut self, y: usize, x: usize) -> RootId {
        self.engine.add_root(shape(flat(0..y, 0..x), None), Initial::None)
    }

    fn group(&mut self, name: &'static str) -> Group<'_> {
        Group {
            script: self,
            weight: 1,
            name,
            device: None,
            accesses: Vec::new(),
            after: Vec::new(),
            in_order: None,
            gates: 0,
            keep: false,
            shows: false,
        }
    }

    fn guard(&mut self, name: &'static str, root: RootId, bounds: Box3, mode: Mode) -> NodeId {
        self.guard_with(name, root, bounds, mode, &mut None)
    }

    /// A guard, with memory to spare.
    fn guard_with(
        &mut self,
        name: &'static str,
        root: RootId,
        bounds: Box3,
        mode: Mode,
        spare: &mut Option<u32>,
    ) -> NodeId {
        let plan =
            GuardPlan { root, bounds, mode, in_heap: false, behind_readers: false, work: Job::Named(name) };
        let id = self.engine.plan_guard(plan, spare, &mut self.turn);
        self.absorb();
        id
    }

    /// Gives up a buffer's allocation in a device's memory, if it may go.
    fn evict(&mut self, root: RootId, device: DeviceId) -> bool {
        let memory = self.engine.device_memory(device);
        let gone = self.engine.evict(root, memory, &mut self.turn);
        self.absorb();
        gone
    }

    /// Works off what the engine asks for.
    fn absorb(&mut self) {
        loop {
            self.note_transfers();
            for settled in self.turn.settled.drain(..) {
                let told = self.told.get(&settled.node);
                assert_eq!(told.is_some(), settled.told, "{:?}", settled.node);
                assert!(
                    told.is_none_or(|told| *told == settled.outcome),
                    "{:?} ends in another way",
                    settled.node
                );
                let again = self.ended.insert(settled.node, settled.outcome);
                assert!(again.is_none(), "{:?} ends twice", settled.node);
                self.took_down.insert(settled.node, settled.took_down);
            }
            for node in std::mem::take(&mut self.turn.certain) {
                self.told.extend(self.engine.tell(node).map(|(_, outcome)| (node, outcome)));
            }
            self.started.append(&mut self.turn.start);
            self.turn.ready_lanes.clear();
            self.turn.proxies.clear();
            self.armed.extend(self.turn.arm.drain(..));
            self.sentinels.extend(self.turn.sentinels.drain(..).map(|s| (s.lane, s.point)));
            self.freed += self.turn.freed.drain(..).count();
            self.closed.append(&mut self.turn.closed);
            self.lanes_closed.append(&mut self.turn.lanes_closed);
            self.fired.append(&mut self.turn.fired);
            for asked in self.turn.allocate.drain(..) {
                self.asked.push((asked.root, asked.memory));
                self.pinnings.extend(asked.pinned);
            }
            for staged in std::mem::take(&mut self.turn.staged) {
                self.engine.open(staged.download, &mut self.turn);
                self.staged.push(staged);
            }
            if !self.holds_proxies && !self.fired.is_empty() {
                for proxy in std::mem::take(&mut self.fired) {
                    self.engine.open_proxy(proxy, &mut self.turn);
                }
            } else if !self.holds_memory && !self.asked.is_empty() {
                for (root, memory) in std::mem::take(&mut self.asked) {
                    self.made += 1;
                    self.engine.allocated(root, memory, Ok(self.made), &mut self.turn);
                }
            } else if let Some(at) = self.staged.iter().position(|s| self.ended.contains_key(&s.download)) {
                let upload = self.staged.remove(at).upload;
                self.engine.open(upload, &mut self.turn);
            } else {
                return;
            }
        }
    }

    fn note_transfers(&mut self) {
        let Some(record) = self.engine.record() else { return };
        for (id, node) in &record.nodes[self.noted..] {
            if let Recorded::Transfer(transfer) | Recorded::Swap(transfer) = node {
                self.transfers.push((*id, *transfer));
            }
        }
        self.noted = record.nodes.len();
    }

    /// The transfers that were planned since this was last asked.
    fn moved(&mut self) -> Vec<(NodeId, Transfer)> {
        std::mem::take(&mut self.transfers)
    }

    /// The boxes of the transfers planned since this was last asked, staged ones once.
    fn moved_boxes(&mut self) -> Vec<(usize, usize)> {
        let moved = self.moved();
        let steps = moved.iter().filter(|(_, t)| t.step != Step::Upload);
        steps.map(|(_, t)| (t.bounds.lo[2], t.bounds.hi[2])).collect()
    }

    /// Takes what a lane has room for, without confirming it.
    fn pop(&mut self, lane: LaneId) -> Vec<Given> {
        let mut given = Vec::new();
        if self.engine.hold_lane(lane) {
            while let Some(popped) = self.engine.pop(lane) {
                self.points.insert(popped.node, (lane, popped.point));
                match (popped.report, popped.sentinel) {
                    (true, true) => self.sentinels.push((lane, popped.point)),
                    (true, false) => self.armed.push((lane, popped.point)),
                    (false, _) => {}
                }
                let waits = self.engine.native_args(popped.node).map(|o| o.waits().to_vec());
                let waits = waits.unwrap_or_default();
                given.push(Given { node: popped.node, waits, live: popped.live });
            }
        }
        given
    }

    fn confirm(&mut self, lane: LaneId, given: &[Given]) {
        let fed = given.iter().map(|g| Fed { node: g.node, refused: None });
        self.engine.confirm(fed.collect::<Vec<_>>(), &mut self.turn);
        self.engine.release_lane(lane, &mut self.turn);
        self.absorb();
    }

    /// Feeds a lane what it has room for.
    fn feed(&mut self, lane: LaneId) -> Vec<Given> {
        let given = self.pop(lane);
        self.confirm(lane, &given);
        given
    }

    /// Feeds all lanes as long as there is something to feed.
    fn feed_all(&mut self) -> Vec<Given> {
        self.feed_all_but(None)
    }

    fn feed_all_but(&mut self, not: Option<LaneId>) -> Vec<Given> {
        let mut all = Vec::new();
        loop {
            let before = all.len();
            let mut lanes: Vec<_> = self.devices.values().flat_map(|(_, lanes)| lanes).copied().collect();
            lanes.sort_unstable();
            for lane in lanes.into_iter().filter(|lane| Some(*lane) != not) {
                all.extend(self.feed(lane));
            }
            if all.len() == before {
                return all;
            }
        }
    }

    /// Feeds all lanes, and says which nodes were fed.
    fn fed_nodes(&mut self) -> Vec<NodeId> {
        self.feed_all().into_iter().map(|g| g.node).collect()
    }

    fn point(&self, node: NodeId) -> (LaneId, u64) {
        self.points[&node]
    }

    /// A good verdict on everything up to this node.
    fn pass(&mut self, node: NodeId) {
        let (lane, point) = self.point(node);
        self.engine.passed(lane, point, |_| None, &mut self.turn);
        self.absorb();
    }

    /// A good verdict on everything before this node, and a bad one on it.
    fn fail(&mut self, node: NodeId, cause: &'static str) {
        let (lane, point) = self.point(node);
        self.engine.passed(lane, point, |p| (p == point).then_some(cause), &mut self.turn);
        self.absorb();
    }

    fn finish(&mut self, node: NodeId) {
        self.engine.finish_host(node, Ok(()), &mut self.turn);
        self.absorb();
    }

    fn open(&mut self, node: NodeId) {
        self.engine.open(node, &mut self.turn);
        self.absorb();
    }

    fn cancel(&mut self, node: NodeId) -> Cancelled {
        let answer = self.engine.cancel(node, "cancelled", &mut self.turn);
        self.absorb();
        answer
    }

    fn lose(&mut self, device: DeviceId) {
        let context = self.context_of(device);
        self.engine.lose(context, "lost", &mut self.turn);
        self.absorb();
    }

    /// Feeds and passes until nothing more happens, guards and host tasks included.
    fn run_to_the_end(&mut self) {
        loop {
            let fed = self.fed_nodes();
            for node in &fed {
                self.pass(*node);
            }
            let mut live: Vec<_> = self.points.keys().copied().collect();
            live.retain(|n| !self.ended.contains_key(n));
            let late = !live.is_empty();
            live.into_iter().for_each(|n| self.pass(n));
            let started = std::mem::take(&mut self.started);
            if fed.is_empty() && started.is_empty() && !late {
                return;
            }
            started
                .into_iter()
                .filter(|n| !self.ended.contains_key(n))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|n| {
                    self.engine.finish_host(n, Ok(()), &mut self.turn);
                    self.absorb();
                });
        }
    }

    fn end(&self, node: NodeId) -> Option<&End> {
        self.ended.get(&node)
    }

    fn is_done(&self, node: NodeId) -> bool {
        self.end(node) == Some(&Outcome::Done)
    }

    /// Nothing but an edge keeps these two in order, or a chain of them.
    fn ordered(&self, first: NodeId, then: NodeId) -> bool {
        let Some(record) = self.engine.record() else { return false };
        let mut reached = vec![first];
        let mut at = 0;
        while at < reached.len() {
            let next = record.edges.iter().filter(|(from, _)| *from == reached[at]).map(|(_, to)| *to);
            let new: Vec<_> = next.filter(|to| !reached.contains(to)).collect();
            reached.extend(new);
            at += 1;
        }
        reached.contains(&then)
    }

    /// Everything has ended and nothing is left over.
    fn assert_empty(&mut self) {
        assert_eq!((self.engine.live_nodes(), self.engine.live_links()), (0, 0));
    }
}
