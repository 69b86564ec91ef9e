//! Random programs as data: a machine, buffers, and what is submitted in which order.

use windlass_testkit::{Rng, mix};

use crate::Memory;

/// A machine, and what is submitted to it.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) devices: Vec<Memory>,
    pub(super) lanes: usize,
    pub(super) depth: usize,
    /// Groups of a lane that may report at a time.
    pub(super) reports: usize,
    /// Lanes of each device that only copy.
    pub(super) copy_lanes: usize,
    /// All contexts are of one domain.
    pub(super) one_domain: bool,
    /// And yet its contexts cannot copy each other's memory.
    pub(super) no_peer_copies: bool,
    /// Fresh memory holds zeros.
    pub(super) zeroed: bool,
    /// Devices take recorded sequences as one command.
    pub(super) sequences: bool,
    /// What stays in one memory is the host's only while it is mapped.
    pub(super) mapped: bool,
    /// Devices' own memory comes when their memory stream has come so far.
    pub(super) stream_ordered: bool,
    pub(super) callbacks: bool,
    pub(super) slow_allocate: bool,
    /// Transfers through staging go in chunks of a few bytes, with room for two at a time.
    pub(super) chunks: bool,
    pub(super) slow_pageable_copies: bool,
    pub(super) exact: bool,
    pub(super) inside: bool,
    /// Contexts of the program's own: their devices.
    pub(super) contexts: Vec<Vec<usize>>,
    pub(super) queues: Vec<QueuePlan>,
    pub(super) roots: Vec<RootPlan>,
    pub(super) items: Vec<Item>,
    /// Nothing fails, nothing is cancelled: then what is moved is known to the byte.
    pub(super) tame: bool,
    /// Contexts that are lost, and opened again: one after the other.
    pub(super) losses: Vec<Loss>,
}

/// A context is lost, with all devices of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loss {
    /// One of its queues.
    pub(super) queue: usize,
    /// Before which item that happens, and before which it is opened again. What is submitted in between is refused, or fails.
    pub(super) at: usize,
    pub(super) reopened: usize,
    /// The context says so; else it is found out by the next that uses it.
    pub(super) told: bool,
}

#[derive(Clone, Debug)]
pub(super) struct QueuePlan {
    /// One of the program's own contexts, or the runtime's own.
    pub(super) context: Option<usize>,
    pub(super) device: usize,
    pub(super) in_order: bool,
}

#[derive(Clone, Debug)]
pub(super) struct RootPlan {
    pub(super) len: usize,
    /// It has content from the start.
    pub(super) data: bool,
    /// It stays in memory that this queue's context has for such.
    pub(super) home: Option<usize>,
}

/// A range of a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) root: usize,
    pub(super) lo: usize,
    pub(super) hi: usize,
}

/// A command.
#[derive(Clone, Debug)]
pub(super) enum Deed {
    /// `x = x * 31 + k`.
    Step(Part, u32),
    /// `x = i * 7 + k`, and nothing is kept.
    Set(Part, u32),
    /// The same for the first half, and the rest is kept.
    SetHalf(Part, u32),
    /// `x = x * 31 + y + k`.
    Blend(Part, Part, u32),
    Fill(Part, u32),
    /// From the first to the second, which are equally long and apart.
    Copy(Part, Part),
    /// A kernel that panics.
    Panics(Part),
    /// A kernel that the device does not take.
    Refused(Part),
}

/// How a host task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TaskEnd {
    Well,
    Error,
    Panic,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A group of commands.
    Device(Vec<Deed>),
    /// A host task that steps its part.
    Host(Part, u32, TaskEnd),
    /// A host accessor that reads.
    Read(Part),
    /// A host accessor that steps its part, or is let go of before it does.
    Write(Part, u32),
}

#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) queue: usize,
    /// Earlier groups it comes after, and whether their failure is its own.
    pub(super) after: Vec<(usize, bool)>,
    /// It waits for a future outside, which may fail.
    pub(super) gate: Option<bool>,
    pub(super) keep: bool,
    /// After how many more items it is cancelled; for an accessor, dropped.
    pub(super) cancel: Option<usize>,
    /// Nobody keeps its event.
    pub(super) detached: bool,
    /// After how many more items an accessor ends, or the future outside is ready.
    pub(super) hold: usize,
    /// How much else happens before the next item.
    pub(super) lead: usize,
}

impl Deed {
    /// What it uses.
    fn parts(&self) -> Vec<Part> {
        match self {
            Deed::Step(x, _) | Deed::Set(x, _) | Deed::SetHalf(x, _) | Deed::Fill(x, _) => vec![*x],
            Deed::Panics(x) | Deed::Refused(x) => vec![*x],
            Deed::Blend(x, y, _) | Deed::Copy(x, y) => vec![*x, *y],
        }
    }
}

impl Part {
    pub(super) fn len(&self) -> usize {
        self.hi - self.lo
    }

    fn overlaps(&self, other: &Part) -> bool {
        self.root == other.root && self.lo < other.hi && other.lo < self.hi
    }
}

impl Item {
    pub(super) fn is_group(&self) -> bool {
        matches!(self.kind, Kind::Device(_) | Kind::Host(..))
    }
}

impl Program {
    pub(super) fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let kinds = [Memory::Heap, Memory::Own, Memory::Own, Memory::Own, Memory::Visible, Memory::Shared];
        let devices: Vec<_> = (0..1 + rng.below(3)).map(|_| kinds[rng.below(kinds.len())]).collect();
        let mut contexts = Vec::new();
        for _ in 0..rng.below(3).saturating_sub(rng.below(2)) {
            let mut of: Vec<_> = (0..devices.len()).filter(|_| rng.chance(60)).collect();
            if of.is_empty() {
                of.push(rng.below(devices.len()));
            }
            contexts.push(of);
        }
        let queues = (0..1 + rng.below(4)).map(|_| random_queue(&mut rng, &devices, &contexts)).collect();
        let roots = (0..1 + rng.below(3)).map(|_| RootPlan {
            len: 1 + rng.below(16),
            data: rng.chance(60),
            home: None,
        });
        // Of numbers of their own.
        let mut shape = Rng::new(!seed);
        let mut program = Program {
            roots: roots.collect(),
            devices,
            lanes: 1 + rng.below(3),
            depth: 1 + rng.below(4),
            reports: 1 + shape.below(4),
            copy_lanes: shape.below(6).saturating_sub(3),
            one_domain: shape.chance(50),
            no_peer_copies: shape.chance(20),
            zeroed: shape.chance(25),
            sequences: shape.chance(50),
            mapped: false,
            stream_ordered: shape.chance(30),
            callbacks: rng.chance(30),
            slow_allocate: rng.chance(30),
            chunks: seed % 2 == 1,
            slow_pageable_copies: seed % 3 == 1,
            exact: rng.chance(30),
            inside: rng.chance(15),
            contexts,
            queues,
            items: Vec::new(),
            tame: rng.chance(35),
            losses: Vec::new(),
        };
        for at in 0..3 + rng.below(12) {
            let item = program.random_item(&mut rng, at);
            program.items.push(item);
        }
        if shape.chance(35) {
            program.settle_down(&mut shape);
        }
        program
    }

    /// The program of this seed with devices that are lost.
    pub(super) fn with_losses(seed: u64) -> Self {
        let (mut program, mut rng) = (Program::random(seed), Rng::new(mix(seed, 0x1057)));
        // What is moved depends on when it happens.
        (program.mapped, program.tame) = (false, false);
        let (mut from, items) = (1, program.items.len());
        // Lanes that work on the heap copy for others, and who needs them then is not worked out here.
        let candidates: Vec<usize> =
            (0..program.queues.len()).filter(|queue| !program.works_on_heap(*queue)).collect();
        while !candidates.is_empty() && from < items && program.losses.len() < 2 {
            let at = from + rng.below(items - from);
            let reopened = (at + rng.below(5)).min(items);
            let (queue, told) = (candidates[rng.below(candidates.len())], rng.chance(50));
            // What the host looks at without a call is there for it until somebody says that it is not, and so is what other contexts of a
            // domain copy.
            let is_seen = program.one_domain || program.memories(queue).any(|of| of == Memory::Visible);
            let told = told || is_seen || program.is_home(queue);
            program.losses.push(Loss { queue, at, reopened, told });
            from = reopened + 1;
        }
        program
    }

    /// Some buffers stay in one memory, which the queues of one context reach, and the host.
    fn settle_down(&mut self, rng: &mut Rng) {
        let home = rng.below(self.queues.len());
        for root in &mut self.roots {
            root.home = rng.chance(60).then_some(home);
        }
        // Devices that run host code have what they reach at any time.
        let on_host = |device: &Memory| matches!(device, Memory::Heap | Memory::Visible);
        self.mapped = rng.chance(70) && !self.devices.iter().any(on_host);
        for at in 0..self.items.len() {
            let Kind::Device(deeds) = &self.items[at].kind else { continue };
            let mut parts = deeds.iter().flat_map(Deed::parts);
            if parts.any(|part| self.roots[part.root].home.is_some())
                && !self.shares(self.items[at].queue, home)
            {
                self.items[at].queue = home;
            }
        }
    }

    /// Whether buffers stay in memory of a queue's context. The host looks at them without a call.
    fn is_home(&self, queue: usize) -> bool {
        self.roots.iter().any(|root| root.home.is_some_and(|home| self.shares(home, queue)))
    }

    /// Whether a buffer has stayed on a device that is lost before this item, and is gone with it for good.
    pub(super) fn is_gone(&self, root: usize, item: usize) -> bool {
        let home = self.roots[root].home;
        home.is_some_and(|home| self.losses.iter().any(|loss| loss.at <= item && loss.is_of(self, home)))
    }

    /// Whether a group on a queue may use a buffer, lost devices aside.
    pub(super) fn may_use(&self, root: usize, queue: usize) -> bool {
        self.roots[root].home.is_none_or(|home| self.shares(home, queue))
    }

    /// The memories of a queue's context.
    fn memories(&self, queue: usize) -> impl Iterator<Item = Memory> {
        let QueuePlan { context, device, .. } = self.queues[queue];
        let its = context.map_or(vec![device], |context| self.contexts[context].clone());
        its.into_iter().map(|device| self.devices[device])
    }

    /// Whether a queue's context works on the heap.
    fn works_on_heap(&self, queue: usize) -> bool {
        self.memories(queue).any(|memory| memory == Memory::Heap)
    }

    /// Whether two queues are in one context.
    pub(super) fn shares(&self, a: usize, b: usize) -> bool {
        let (a, b) = (&self.queues[a], &self.queues[b]);
        a.context == b.context && (a.context.is_some() || a.device == b.device)
    }

    fn random_item(&self, rng: &mut Rng, at: usize) -> Item {
        let wild = !self.tame;
        let k = rng.below(1000) as u32;
        let kind = match rng.below(100) {
            0..8 => Kind::Read(self.random_part(rng)),
            8..14 => Kind::Write(self.random_part(rng), k),
            14..26 => {
                let end = match rng.below(10) {
                    0 if wild => TaskEnd::Error,
                    1 if wild => TaskEnd::Panic,
                    _ => TaskEnd::Well,
                };
                Kind::Host(self.random_part(rng), k, end)
            }
            _ => Kind::Device(
                (0..[1, 1, 1, 1, 2, 2, 0][rng.below(7)]).map(|_| self.random_deed(rng)).collect(),
            ),
        };
        let mut item = Item {
            kind,
            queue: rng.below(self.queues.len()),
            after: Vec::new(),
            gate: None,
            keep: false,
            cancel: (wild && rng.chance(18)).then(|| rng.below(4)),
            detached: false,
            hold: rng.below(5),
            lead: if rng.chance(50) { 0 } else { rng.below(12) },
        };
        if item.is_group() {
            item.gate = rng.chance(12).then(|| wild && rng.chance(25));
            item.detached = rng.chance(20);
            item.keep = wild && rng.chance(15);
            let groups: Vec<usize> = (0..at).filter(|i| self.items[*i].is_group()).collect();
            // What a cancelled group leaves behind that keeps what was there, and depends on what fails only by
            // name, is up to the order of the two.
            if !groups.is_empty() && !item.keep && rng.chance(20) {
                item.after.push((groups[rng.below(groups.len())], rng.chance(50)));
            }
        }
        item
    }

    fn random_part(&self, rng: &mut Rng) -> Part {
        let root = rng.below(self.roots.len());
        let len = self.roots[root].len;
        if rng.chance(35) {
            return Part { root, lo: 0, hi: len };
        }
        let (a, b) = (rng.below(len), rng.below(len));
        Part { root, lo: a.min(b), hi: a.max(b) + 1 }
    }

    fn random_deed(&self, rng: &mut Rng) -> Deed {
        let (part, other, k) = (self.random_part(rng), self.random_part(rng), rng.below(1000) as u32);
        match rng.below(if self.tame { 90 } else { 100 }) {
            0..25 => Deed::Step(part, k),
            25..40 => Deed::Set(part, k),
            40..48 => Deed::SetHalf(part, k),
            48..70 => Deed::Blend(part, other, k),
            70..78 => Deed::Fill(part, k),
            78..90 => {
                let len = part.len().min(other.len());
                let from = Part { hi: part.lo + len, ..part };
                let to = Part { hi: other.lo + len, ..other };
                if from.overlaps(&to) { Deed::Step(part, k) } else { Deed::Copy(from, to) }
            }
            90..95 => Deed::Panics(part),
            _ => Deed::Refused(part),
        }
    }

    /// The same without one item.
    pub(super) fn without(&self, item: usize) -> Self {
        let mut less = self.clone();
        less.items.remove(item);
        for loss in &mut less.losses {
            loss.at -= usize::from(loss.at > item);
            loss.reopened -= usize::from(loss.reopened > item);
        }
        for other in &mut less.items {
            other.after.retain(|(at, _)| *at != item);
            other.after.iter_mut().for_each(|(at, _)| *at -= usize::from(*at > item));
        }
        less
    }
}

fn random_queue(rng: &mut Rng, devices: &[Memory], contexts: &[Vec<usize>]) -> QueuePlan {
    let context = (!contexts.is_empty() && rng.chance(50)).then(|| rng.below(contexts.len()));
    let device = match context {
        Some(context) => contexts[context][rng.below(contexts[context].len())],
        None => rng.below(devices.len()),
    };
    QueuePlan { context, device, in_order: rng.chance(20) }
}
