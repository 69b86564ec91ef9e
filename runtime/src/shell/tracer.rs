//! Follows nodes from where they are planned to where they have ended, for who asked for that: a trace, a subscriber of `tracing`,
//! or a [`Sink`]. Where nobody did, there is no [`Tracer`], and each place that would tell it something costs a look.
//!
//! All that a tracer is told, it is told under the engine's lock, in the turn in which it happens, and in which the event is
//! resolved; so who finds an event resolved finds its group in the trace. What is foreign, subscribers, sinks and the texts of errors, comes after the
//! lock: [`Ended`] carries it there.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::panic::{Location, RefUnwindSafe};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use smallvec::SmallVec;
use tracing::Span;
use windlass_engine::{self as engine, HEAP, LaneId, MemoryId, NodeId, Recorded, Settled, Step, Transfer};

use super::waking::catch_foreign;
use super::work::Work;
use super::{Effects, Inner, LaneShell, State, Windlass};
use crate::error::{Cause, Error};

/// What a node is, for who reads a trace.
#[derive(Debug)]
pub(crate) struct What {
    pub(crate) kind: EntryKind,
    /// What the program calls it.
    pub(crate) name: Option<Box<str>>,
    /// The commands of a group.
    pub(crate) commands: Commands,
    /// Where it was asked for. A transfer was asked for by nobody.
    pub(crate) at: Option<&'static Location<'static>>,
}

/// What a group's commands are called.
pub(crate) type Commands = SmallVec<[Box<str>; 1]>;

/// What an [`Entry`](crate::trace::Entry) is about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryKind {
    /// A submitted group.
    Group,
    /// A host accessor, from its request to the end of its guard.
    HostAccessor,
    /// A copy that a group or an accessor needed.
    Copy {
        /// How much.
        bytes: usize,
        /// Out of the memory of this device; of the host if there is none.
        from: Option<String>,
        /// Into the memory of this device; of the host if there is none.
        to: Option<String>,
    },
    /// Memory is cleared, or handed to the host or back.
    Upkeep {
        /// How much.
        bytes: usize,
        /// What is done.
        does: &'static str,
    },
}

/// How an [`Entry`](crate::trace::Entry) ended.
///
/// ```
/// use windlass::{prelude::*, trace::Outcome};
/// # fn main() -> windlass::Result<()> {
/// let runtime = Runtime::new();
/// let (queue, trace) = (Queue::blocking_on(runtime.host()?)?, runtime.trace(100));
/// let never = queue.submit(|cg| Ok(cg.after(std::future::pending::<windlass::Result<()>>())))?;
/// never.cancel();
/// assert!(never.blocking_wait().is_err());
/// assert_eq!(trace.timeline().entries()[0].outcome, Outcome::Cancelled);
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// As it should.
    Done,
    /// It failed itself.
    Failed,
    /// It did not run, or does not count, since something that it reads has failed.
    DependencyFailed,
    /// Nobody wanted it any more.
    Cancelled,
}

/// A node that has ended, or is on its way there.
#[derive(Clone, Debug)]
pub(crate) struct Traced {
    /// Counted in the order of planning.
    pub(crate) id: u64,
    pub(crate) what: Arc<What>,
    /// Those that were under way when it was planned and that it had to wait for.
    pub(crate) after: Vec<u64>,
    /// Some of them.
    pub(crate) named_after: SmallVec<[Arc<What>; 2]>,
    /// What a transfer was planned for.
    pub(crate) of: Option<u64>,
    /// How many bytes had to be moved for it.
    pub(crate) brought: usize,
    pub(crate) planned: Instant,
    /// What the device is called that it was for; none where that is the host's own threads.
    pub(crate) device: Option<Arc<str>>,
    /// On which it was fed.
    pub(crate) lane: Option<LaneId>,
    /// It was fed, or started on the host.
    pub(crate) has_begun: bool,
    /// When it began, or was known never to: by its device's clock; else when it had been handed to its lane and what was ahead of it there had ended, or
    /// where it was started on the host.
    pub(crate) started: Instant,
    /// When it had ended: by its device's clock, or when its end was heard of.
    pub(crate) ended: Instant,
    pub(crate) is_by_device_clock: bool,
    pub(crate) outcome: Outcome,
    /// Why it failed.
    pub(crate) error: OnceLock<Box<str>>,
}

/// What a submission knows that its node does not.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) commands: Commands,
    pub(crate) span: Option<Span>,
}

/// A node that has ended, for those who may only be told when the lock is free.
#[derive(Debug)]
pub(crate) struct Ended {
    traced: Arc<Traced>,
    span: Option<Span>,
    error: Option<Error>,
}

/// Somebody who is told of each node that ends.
pub(crate) trait Sink: fmt::Debug + Send + Sync + RefUnwindSafe {
    fn ended(&self, traced: &Traced);
}

/// A node under way.
#[derive(Debug)]
struct Followed {
    traced: Traced,
    span: Option<Span>,
    /// It stays for the order through it, and how it ends has been told.
    is_told: bool,
}

/// How many of those that it waited for a span names. A writer may come behind thousands of readers.
const NAMED: usize = 8;

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// What submissions of this turn have told.
    told: Vec<(NodeId, Told)>,
    live: HashMap<NodeId, Followed>,
    /// How many of these have spans.
    spans: usize,
    /// When the last that has ended on a lane did.
    free: HashMap<LaneId, Instant>,
    next: u64,
    /// The latest that have ended.
    kept: VecDeque<Arc<Traced>>,
    /// For each trace that goes on, how many it wants kept.
    traces: Vec<usize>,
    /// There are sinks, which want each one.
    has_sinks: bool,
    nodes: Vec<(NodeId, Recorded)>,
    edges: Vec<(NodeId, NodeId)>,
}

impl Tracer {
    fn new() -> Self {
        Tracer {
            told: Vec::new(),
            live: HashMap::new(),
            spans: 0,
            free: HashMap::new(),
            next: 0,
            kept: VecDeque::new(),
            traces: Vec::new(),
            has_sinks: false,
            nodes: Vec::new(),
            edges: Vec::new(),
        }
    }

    fn most(&self) -> usize {
        self.traces.iter().copied().max().unwrap_or(0)
    }

    /// Those that have ended since a trace began.
    pub(crate) fn ended_since(&self, first: u64) -> Vec<Arc<Traced>> {
        self.kept.iter().filter(|traced| traced.id >= first).cloned().collect()
    }

    /// A submission tells of its group, in the turn that plans it.
    pub(crate) fn tell(&mut self, node: NodeId, told: Told) {
        self.told.push((node, told));
    }

    /// A lane takes it.
    #[cold]
    pub(super) fn fed(&mut self, node: NodeId, lane: &LaneShell) {
        if let Some(Followed { traced, .. }) = self.live.get_mut(&node) {
            traced.begin();
            (traced.device, traced.lane) = (Some(lane.device.clone()), Some(lane.id));
        }
    }

    /// It starts on the host.
    fn started(&mut self, node: NodeId) {
        // A node stays on the list of those that start until the lock is free, and other turns may come before.
        if let Some(Followed { traced, .. }) = self.live.get_mut(&node).filter(|of| !of.traced.has_begun) {
            traced.begin();
        }
    }

    /// It will certainly not run, as its event is about to say; its node stays for the order through it.
    #[cold]
    pub(super) fn told(&mut self, node: NodeId, end: &engine::Outcome<Cause>) -> Option<Ended> {
        let followed = self.live.get_mut(&node)?;
        followed.is_told = true;
        let (traced, span) = (followed.traced.clone(), followed.span.take());
        self.ended(traced, span, None, end)
    }

    fn settled(&mut self, settled: &Settled<Windlass>) -> Option<Ended> {
        let Followed { traced, span, is_told } = self.live.remove(&settled.node)?;
        let times = settled.work.event().and_then(|event| event.times());
        if is_told { None } else { self.ended(traced, span, times, &settled.outcome) }
    }

    fn ended(
        &mut self,
        mut traced: Traced,
        span: Option<Span>,
        times: Option<(Instant, Instant)>,
        end: &engine::Outcome<Cause>,
    ) -> Option<Ended> {
        traced.ended = Instant::now();
        if !traced.has_begun {
            traced.started = traced.ended;
        }
        if let Some((started, ended)) = times {
            // Some driver may say otherwise, and whoever subtracts is not to panic.
            (traced.started, traced.ended) = (started, ended.max(started));
            traced.is_by_device_clock = true;
        }
        if let Some(lane) = traced.lane {
            // A lane runs in order.
            let free = self.free.entry(lane).or_insert(traced.started);
            if times.is_none() {
                traced.started = traced.started.max(*free).min(traced.ended);
            }
            *free = traced.ended.max(*free);
        }
        let (outcome, error) = match end {
            engine::Outcome::Done => (Outcome::Done, None),
            engine::Outcome::Failed(Cause(error)) => (Outcome::Failed, Some(error.clone())),
            engine::Outcome::Doomed(Cause(error)) => (Outcome::DependencyFailed, Some(error.clone())),
            // A host accessor is always told so when its program has let go of it before it had its memory.
            engine::Outcome::Cancelled(_) => (Outcome::Cancelled, None),
        };
        traced.outcome = outcome;
        traced.after.sort_unstable();
        traced.after.dedup();
        self.spans -= usize::from(span.is_some());
        let traced = Arc::new(traced);
        let most = self.most();
        if most > 0 {
            while self.kept.len() >= most {
                self.kept.pop_front();
            }
            self.kept.push_back(traced.clone());
        }
        let is_awaited = self.has_sinks || span.is_some() || error.is_some();
        is_awaited.then_some(Ended { traced, span, error })
    }

    /// Nobody wants anything of it.
    fn is_idle(&self) -> bool {
        self.traces.is_empty() && !self.has_sinks && self.spans == 0
    }
}

impl State {
    /// A trace begins that wants this many nodes kept. Returns the first of them that it may have.
    pub(crate) fn begin_trace(&mut self, most: usize) -> u64 {
        let tracer = self.trace();
        tracer.traces.push(most);
        tracer.next
    }

    /// From here on everything is followed, whoever ends a trace.
    pub(super) fn trace_for_sinks(&mut self) {
        self.trace().has_sinks = true;
    }

    /// The tracer, which is there until nobody wants anything of it.
    pub(crate) fn trace(&mut self) -> &mut Tracer {
        self.engine.start_record();
        self.tracer.get_or_insert_with(|| Box::new(Tracer::new()))
    }

    /// A trace ends.
    pub(crate) fn end_trace(&mut self, most: usize) {
        let Some(tracer) = &mut self.tracer else { return };
        if let Some(at) = tracer.traces.iter().position(|other| *other == most) {
            tracer.traces.swap_remove(at);
        }
        let most = tracer.most();
        let surplus = tracer.kept.len().saturating_sub(most);
        tracer.kept.drain(..surplus);
        self.end_idle_tracer();
    }

    /// What is dropped here has no spans, which would be a subscriber's to drop.
    fn end_idle_tracer(&mut self) {
        if self.tracer.as_ref().is_some_and(|tracer| tracer.is_idle()) {
            self.engine.end_record();
            self.tracer = None;
        }
    }

    /// Takes in what was planned since. Comes before anything in the same turn that starts or settles.
    #[cold]
    pub(super) fn trace_planned(&mut self) {
        let Some(mut tracer) = self.tracer.take() else { return };
        let (mut nodes, mut edges) = (std::mem::take(&mut tracer.nodes), std::mem::take(&mut tracer.edges));
        self.engine.take_record(&mut nodes, &mut edges);
        let planned = Instant::now();
        // Transfers stand behind what they were planned for.
        let mut author = None;
        for (node, recorded) in nodes.drain(..) {
            let told =
                tracer.told.iter().position(|(of, _)| *of == node).map(|at| tracer.told.swap_remove(at).1);
            let Told { commands, span } = told.unwrap_or(Told { commands: Commands::new(), span: None });
            tracer.spans += usize::from(span.is_some());
            let (what, device) = match recorded {
                Recorded::Group | Recorded::Guard => self.submitted(node, commands),
                Recorded::Transfer(step) | Recorded::Swap(step) => (self.transferred(&step), None),
            };
            let (id, mut of) = (tracer.next, None);
            match recorded {
                Recorded::Group | Recorded::Guard => author = Some(node),
                Recorded::Swap(_) => {}
                Recorded::Transfer(step) => {
                    let author = author.and_then(|author| tracer.live.get_mut(&author));
                    if let Some(Followed { traced: author, .. }) = author {
                        of = Some(author.id);
                        // Of the two steps of a staged transfer the first counts.
                        let is_moved = matches!(step.step, Step::Direct | Step::Download);
                        author.brought += if is_moved { step.bytes } else { 0 };
                    }
                }
            }
            tracer.next += 1;
            let traced = Traced {
                id,
                what: Arc::new(what),
                after: Vec::new(),
                named_after: SmallVec::new(),
                of,
                brought: 0,
                planned,
                device,
                lane: None,
                has_begun: false,
                started: planned,
                ended: planned,
                is_by_device_clock: false,
                outcome: Outcome::Done,
                error: OnceLock::new(),
            };
            tracer.live.insert(node, Followed { traced, span, is_told: false });
        }
        for (from, to) in edges.drain(..) {
            let ahead = tracer.live.get(&from).map(|ahead| (ahead.traced.id, ahead.traced.what.clone()));
            if let (Some((id, what)), Some(behind)) = (ahead, tracer.live.get_mut(&to)) {
                behind.traced.after.push(id);
                if behind.traced.named_after.len() < NAMED {
                    behind.traced.named_after.push(what);
                }
            }
        }
        (tracer.nodes, tracer.edges) = (nodes, edges);
        self.tracer = Some(tracer);
    }

    /// What a group or an accessor is, and the device that it is for.
    fn submitted(&mut self, node: NodeId, commands: Commands) -> (What, Option<Arc<str>>) {
        match self.engine.work_mut(node) {
            Some(Work::Group(event)) => {
                let name = event.cell.note(|note, _| note.name());
                let device = event.task().is_none().then(|| event.queue.slot.called());
                (What { kind: EntryKind::Group, name, commands, at: Some(event.at) }, device)
            }
            Some(Work::Guard(guard)) => {
                (What { kind: EntryKind::HostAccessor, name: None, commands, at: Some(guard.at) }, None)
            }
            Some(Work::Transfer(_)) | None => {
                (What { kind: EntryKind::Group, name: None, commands, at: None }, None)
            }
        }
    }

    fn transferred(&self, step: &Transfer) -> What {
        let named = |memory: MemoryId| match memory {
            HEAP => None,
            _ => self.memories.get(&memory).and_then(super::MemoryShell::device_name),
        };
        let upkeep = |does| EntryKind::Upkeep { bytes: step.bytes, does };
        let kind = match step.step {
            Step::Direct => EntryKind::Copy { bytes: step.bytes, from: named(step.from), to: named(step.to) },
            Step::Download => EntryKind::Copy { bytes: step.bytes, from: named(step.from), to: None },
            Step::Upload => EntryKind::Copy { bytes: step.bytes, from: None, to: named(step.to) },
            Step::Clear => upkeep("clear"),
            Step::Map => upkeep("give to the host"),
            Step::Unmap => upkeep("take back from the host"),
        };
        What { kind, name: None, commands: Commands::new(), at: None }
    }

    /// What is about to start on the host.
    #[cold]
    pub(super) fn trace_started(&mut self, effects: &Effects) {
        if let Some(tracer) = &mut self.tracer {
            effects.turn.start.iter().for_each(|node| tracer.started(*node));
        }
    }

    /// What has ended.
    #[cold]
    pub(super) fn trace_settled(&mut self, effects: &mut Effects) {
        if let Some(tracer) = &mut self.tracer {
            effects.traced.extend(effects.turn.settled.iter().filter_map(|settled| tracer.settled(settled)));
            self.end_idle_tracer();
        }
    }
}

impl Inner {
    /// Tells those who may not be told under the lock. Before the wakers: who awaits an event may look for its span.
    #[cold]
    pub(super) fn tell_ended(&self, effects: &mut Effects) {
        for Ended { traced, span, error } in effects.traced.drain(..) {
            if let Some(error) = error {
                catch_foreign(|| drop(traced.error.set(error.to_string().into())));
                catch_foreign(|| drop(error));
            }
            for sink in &self.sinks {
                catch_foreign(|| sink.ended(&traced));
            }
            if let Some(span) = span {
                // Apart: a subscriber that panicked over both in one unwinding would end the process.
                catch_foreign(|| conclude(&span, &traced));
                catch_foreign(|| drop(span));
            }
        }
    }
}

/// A group's span, below the caller's own; none unless somebody listens.
pub(crate) fn open_span(name: Option<&str>, at: &'static Location<'static>) -> Option<Span> {
    let span = tracing::debug_span!(
        target: "windlass::group",
        "group",
        otel.name = name,
        name,
        at = %at,
        device = tracing::field::Empty,
        commands = tracing::field::Empty,
        waited_for = tracing::field::Empty,
        bytes_moved = tracing::field::Empty,
        waited_us = tracing::field::Empty,
        ran_us = tracing::field::Empty,
        outcome = tracing::field::Empty,
        error = tracing::field::Empty,
    );
    (!span.is_disabled()).then_some(span)
}

/// A span says what has become of its group.
fn conclude(span: &Span, traced: &Traced) {
    let Traced { what, after, named_after, device, brought, outcome, .. } = traced;
    if let Some(device) = device {
        span.record("device", &**device);
    }
    if !what.commands.is_empty() {
        span.record("commands", what.commands.join(", "));
    }
    if !after.is_empty() {
        let mut named: Vec<String> = named_after.iter().map(ToString::to_string).collect();
        if after.len() > named.len() {
            named.push(format!("and {} more", after.len() - named.len()));
        }
        span.record("waited_for", named.join(", "));
    }
    if *brought > 0 {
        span.record("bytes_moved", *brought as u64);
    }
    let micros = |from: Instant, to: Instant| to.saturating_duration_since(from).as_micros() as u64;
    span.record("waited_us", micros(traced.planned, traced.started));
    span.record("ran_us", micros(traced.started, traced.ended));
    span.record("outcome", outcome.name());
    if let Some(error) = traced.error.get() {
        span.record("error", &**error);
    }
}

impl Traced {
    fn begin(&mut self) {
        (self.has_begun, self.started) = (true, Instant::now());
    }
}

impl Outcome {
    /// What traces call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::DependencyFailed => "dependency failed",
            Outcome::Cancelled => "cancelled",
        }
    }
}

/// What it is called, and where it was asked for.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&what_it_is(self.name.as_deref(), &self.kind, &self.commands))?;
        match self.at {
            Some(at) => write!(f, " ({at})"),
            None => Ok(()),
        }
    }
}

/// What the program calls it, else what it does.
pub(crate) fn what_it_is(name: Option<&str>, kind: &EntryKind, commands: &[impl Borrow<str>]) -> String {
    match (kind, name) {
        (_, Some(name)) => name.into(),
        (EntryKind::Group, None) if commands.is_empty() => "group".into(),
        (EntryKind::Group, None) => commands.join(", "),
        (EntryKind::HostAccessor, None) => "host accessor".into(),
        (EntryKind::Copy { bytes, .. }, None) => format!("copy {bytes} B"),
        (EntryKind::Upkeep { bytes, does }, None) => format!("{does} {bytes} B"),
    }
}
