//! Random programs: machines, buffers, and what is submitted to them in which order.

use std::cell::Cell;

use windlass_engine::{Box3, ContextId, Depth, Engine, MemoryId, MemoryTraits, Mode};

use super::Sim;
use windlass_testkit::{Rng, mix};

/// A machine and what is submitted to it.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) contexts: usize,
    /// All contexts are of one domain.
    pub(super) one_domain: bool,
    /// Lanes copy from other contexts' memories in their domain.
    pub(super) peers: bool,
    /// All but the heap, which is memory 0: the first of these is memory 1.
    pub(super) memories: Vec<Memory>,
    pub(super) devices: Vec<Device>,
    pub(super) roots: Vec<Root>,
    pub(super) items: Vec<Item>,
    /// How many of a hundred copies fail.
    pub(super) bad_copies: usize,
    /// How many of a hundred allocations fail.
    pub(super) bad_allocations: usize,
    /// Verdicts come only where the engine asks for them, as long as there is anything else to do.
    pub(super) lazy: bool,
    /// Staged transfers are cut into chunks of at most so many bytes, and there is staging for one chunk at a time.
    pub(super) chunk: Option<usize>,
    /// Some roots begin in memory that a driver has pinned.
    pub(super) begins_pinned: bool,
    /// Copies of up to so many bytes into a device's memory go where they are read.
    pub(super) small_copy: usize,
    /// A context that is lost, and the item before which that may happen first.
    pub(super) loss: Option<(usize, usize)>,
    /// It is given up, and may still touch what it was fed.
    pub(super) hangs: bool,
    /// A root's last handle goes as soon as no item is to come that uses it.
    pub(super) leaves_early: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub(super) context: usize,
    pub(super) addressable: bool,
    /// The host has it while it is mapped; only roots that stay there are in it.
    pub(super) mapped: bool,
    /// A fresh allocation reads as zeros.
    pub(super) zeroed: bool,
    /// Copies of more bytes than this out of what the host reaches, and into it, go through staging.
    pub(super) limits: (usize, usize),
}

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) context: usize,
    pub(super) memory: usize,
    /// The depth of each of its lanes.
    pub(super) lanes: Vec<Depth>,
    /// The same of those that only copy.
    pub(super) copy_lanes: Vec<Depth>,
    /// Its lanes report at leisure what nobody waits for.
    pub(super) at_leisure: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Root {
    pub(super) dims: [usize; 3],
    /// Has content in the heap from the start.
    pub(super) data: bool,
    /// Bytes in an element.
    pub(super) unit: usize,
    /// It stays in this memory.
    pub(super) home: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A group, on a device or as a host task.
    Group(Option<usize>),
    /// A host accessor.
    Guard,
}

/// A group or a host accessor.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    /// Requirements as they were stated, before they are merged.
    pub(super) accesses: Vec<(usize, Box3, Mode)>,
    /// Earlier items it comes after, and whether their failure is its own.
    pub(super) after: Vec<(usize, bool)>,
    /// The in-order queue it belongs to.
    pub(super) queue: Option<usize>,
    pub(super) gates: u32,
    /// What it waits for outside fails.
    pub(super) gate_fails: bool,
    pub(super) keep: bool,
    pub(super) fails: bool,
    pub(super) refused: bool,
    pub(super) cancelled: bool,
    /// How many things happen between the item before it and this one.
    pub(super) lead: usize,
    /// Somebody awaits its event.
    pub(super) awaited: bool,
    /// How many native commands it takes.
    pub(super) weight: u32,
    /// A guard that has to have its data in the heap.
    pub(super) in_heap: bool,
    /// Where the host was found to have its data of each root, once it is planned.
    pub(super) shown_in: Cell<[usize; MOST_ROOTS]>,
}

/// What an item does with one element, all its requirements taken together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    /// What was there is wanted.
    pub(super) old: bool,
    pub(super) new: bool,
    /// What was there is looked at, and not only kept.
    pub(super) look: bool,
    /// What it writes may leave some of the old.
    pub(super) partial: bool,
    /// It is changed at the same time as by others: something is added to it, in whatever order.
    pub(super) beside: bool,
}

/// How many roots an item may choose from, and how many a program may have if they follow each other.
const MOST_AT_A_TIME: usize = 3;
const MOST_ROOTS: usize = 9;

impl Root {
    pub(super) fn extent(&self) -> Box3 {
        Box3 { lo: [0; 3], hi: self.dims }
    }

    pub(super) fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// The elements of a box, by their position in the root.
    pub(super) fn elements(&self, bounds: &Box3) -> impl Iterator<Item = usize> + use<> {
        let (dims, b) = (self.dims, *bounds);
        (b.lo[0]..b.hi[0]).flat_map(move |z| {
            (b.lo[1]..b.hi[1])
                .flat_map(move |y| (b.lo[2]..b.hi[2]).map(move |x| (z * dims[1] + y) * dims[2] + x))
        })
    }
}

impl Program {
    pub(super) fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut program = Program {
            contexts: 0,
            one_domain: false,
            peers: false,
            memories: Vec::new(),
            devices: Vec::new(),
            roots: Vec::new(),
            items: Vec::new(),
            bad_copies: if rng.chance(20) { 25 } else { 0 },
            bad_allocations: if rng.chance(8) { 20 } else { 0 },
            lazy: rng.chance(35),
            chunk: None,
            begins_pinned: false,
            small_copy: [0, 6, 1 << 16][seed as usize % 3],
            loss: None,
            hangs: false,
            leaves_early: false,
        };
        for _ in 0..1 + rng.below(4) {
            program.add_device(&mut rng);
        }
        for _ in 0..1 + rng.below(MOST_AT_A_TIME) {
            let dims = match rng.below(10) {
                0 | 1 => [1, 1 + rng.below(4), 1 + rng.below(4)],
                2 => [1 + rng.below(2), 1 + rng.below(3), 1 + rng.below(3)],
                3 => [1, 1, rng.below(3)],
                _ => [1, 1, 1 + rng.below(24)],
            };
            program.roots.push(Root { dims, data: rng.chance(40), unit: 1 + rng.below(4), home: None });
        }
        let tame = rng.chance(50);
        let count = if rng.chance(5) { 12 + rng.below(20) } else { 2 + rng.below(11) };
        if rng.chance(6) && program.contexts > 0 {
            program.loss = Some((rng.below(program.contexts), rng.below(count)));
        }
        for at in 0..count {
            let item = program.random_item(&mut rng, at, tame);
            program.items.push(item);
        }
        let mut letting_go = Rng::new(mix(seed, 0x0001_e790));
        for item in program.items.iter_mut().filter(|i| i.kind == Kind::Guard) {
            item.cancelled = letting_go.chance(25);
        }
        program.refine(&mut Rng::new(mix(seed, 0x002e_f19e)));
        program.devices.iter_mut().for_each(|device| device.at_leisure = seed % 8 == 3);
        for at in count..count + rng.below(3) {
            let mut item = program.random_item(&mut rng, at, true);
            item.kind = Kind::Guard;
            let (root, bounds, _) = program.random_access(&mut rng, true);
            item.accesses = vec![(root, bounds, Mode::Read)];
            (item.gates, item.keep) = (0, false);
            (item.after, item.queue) = (Vec::new(), None);
            program.items.push(item);
        }
        program.hangs = program.loss.is_some() && rng.chance(50);
        let mut settling = Rng::new(mix(seed, 0x0005_e77e));
        if settling.chance(25) {
            program.settle_down(&mut settling);
        }
        program
    }

    /// Some roots stay in a memory of one context, of which its devices use it, and the host where that can.
    fn settle_down(&mut self, rng: &mut Rng) {
        let context = rng.below(self.contexts);
        let (addressable, mapped) =
            [(true, false), (false, true), (false, true), (false, false)][rng.below(4)];
        let zeroed = rng.chance(50);
        self.memories.push(Memory { context, addressable, mapped, zeroed, limits: NO_LIMITS });
        let home = self.memories.len();
        for root in &mut self.roots {
            root.home = rng.chance(60).then_some(home);
        }
        let devices: Vec<usize> =
            (0..self.devices.len()).filter(|d| self.devices[*d].context == context).collect();
        for item in &mut self.items {
            let settled = item.accesses.iter().any(|(root, ..)| self.roots[*root].home.is_some());
            let can = match item.kind {
                Kind::Group(Some(device)) => devices.contains(&device),
                Kind::Group(None) | Kind::Guard => addressable || mapped,
            };
            if settled && !can {
                item.kind = Kind::Group(Some(devices[rng.below(devices.len())]));
            }
        }
        // Where host and devices may use it at the same time, most who read and write do so beside each other.
        let at_once = |(root, ..): &&mut (usize, Box3, Mode)| addressable && self.roots[*root].home.is_some();
        let groups =
            self.items.iter_mut().enumerate().filter(|(at, item)| at % 4 != 1 && item.kind != Kind::Guard);
        for (_, _, mode) in groups.flat_map(|(_, item)| item.accesses.iter_mut().filter(at_once)) {
            if matches!(mode, Mode::ReadWrite | Mode::Write | Mode::Atomic) {
                *mode = Mode::Concurrent;
            }
        }
    }

    /// The context whose devices all work in a memory, if roots stay there.
    pub(super) fn is_home(&self, memory: usize) -> Option<usize> {
        let home = self.roots.iter().any(|root| root.home == Some(memory));
        home.then(|| self.memories[memory - 1].context)
    }

    /// All elements of a root, by their position among those of all roots.
    pub(super) fn elements_of(&self, root: usize) -> std::ops::Range<usize> {
        let base = self.base(root);
        base..base + self.roots[root].len()
    }

    /// The program of a seed with chunks of a few bytes, and some memories that the host's data reaches through staging.
    pub(super) fn in_chunks(seed: u64) -> Self {
        let chunk = Some(4 + seed as usize % 9);
        let mut program = Program { chunk, begins_pinned: true, ..Program::random(seed) };
        for (at, memory) in program.memories.iter_mut().enumerate() {
            let limit = |bit: usize| if seed >> (2 * at + bit) & 1 != 0 { 0 } else { usize::MAX };
            memory.limits = if memory.addressable { NO_LIMITS } else { (limit(0), limit(1)) };
        }
        program
    }

    /// The program of a seed with roots that follow each other: each serves a few items, and the first of them often writes all of it.
    pub(super) fn in_succession(seed: u64) -> Self {
        let mut program = Program { leaves_early: true, ..Program::random(seed) };
        let mut rng = Rng::new(mix(seed, 0x5cce55));
        let (at_a_time, items) = (program.roots.len(), program.items.len());
        let times = MOST_ROOTS / at_a_time;
        for root in program.roots.clone().iter().cycle().take(at_a_time * (times - 1)) {
            program.roots.push(Root { data: root.data && rng.chance(20), ..root.clone() });
        }
        program.memories.iter_mut().for_each(|memory| memory.zeroed &= rng.chance(20));
        let in_order = rng.chance(60);
        let mut begun = vec![false; program.roots.len()];
        for at in 0..items {
            let item = &mut program.items[at];
            item.accesses.iter_mut().for_each(|(root, ..)| *root += at * times / items * at_a_time);
            if in_order && item.kind != Kind::Guard {
                item.queue = Some(0);
            }
            let used: Vec<usize> = item.accesses.iter().map(|(root, ..)| *root).collect();
            for root in used.into_iter().filter(|root| !std::mem::replace(&mut begun[*root], true)) {
                if matches!(item.kind, Kind::Group(Some(_))) && rng.chance(75) {
                    item.accesses.retain(|(of, ..)| *of != root);
                    item.accesses.push((root, program.roots[root].extent(), Mode::Overwrite));
                    item.keep &= rng.chance(20);
                }
            }
        }
        program
    }

    /// What a machine has beside its shape.
    fn refine(&mut self, rng: &mut Rng) {
        self.one_domain = rng.chance(50);
        self.peers = rng.chance(80);
        for memory in &mut self.memories {
            memory.zeroed = rng.chance(40);
            if rng.chance(20) && !memory.addressable {
                memory.limits = (rng.below(12), rng.below(12));
            }
        }
        for device in &mut self.devices {
            let fewer = rng.chance(40);
            for depth in &mut device.lanes {
                depth.reports = if fewer { 1 + rng.below(2) as u32 } else { depth.commands };
            }
            if rng.chance(25) {
                let depth = |rng: &mut Rng| Depth { commands: 1 + rng.below(3) as u32, reports: 1 };
                device.copy_lanes = (0..1 + rng.below(2)).map(|_| depth(rng)).collect();
            }
        }
        if rng.chance(50) {
            self.items.iter_mut().for_each(|item| item.weight = 1 + rng.below(5) as u32);
        }
    }

    fn add_device(&mut self, rng: &mut Rng) {
        let context = rng.below(self.contexts + 1);
        self.contexts = self.contexts.max(context + 1);
        let same: Vec<usize> =
            (0..self.memories.len()).filter(|&m| self.memories[m].context == context).collect();
        let memory = match rng.below(10) {
            0 => 0,
            1 | 2 if !same.is_empty() => same[rng.below(same.len())] + 1,
            _ => {
                let addressable = rng.chance(20);
                self.memories.push(Memory {
                    context,
                    addressable,
                    mapped: false,
                    zeroed: true,
                    limits: NO_LIMITS,
                });
                self.memories.len()
            }
        };
        let lanes = (0..1 + rng.below(3)).map(|_| 1 + rng.below(4) as u32);
        let lanes = lanes.map(|commands| Depth { commands, reports: commands }).collect();
        self.devices.push(Device { context, memory, lanes, copy_lanes: Vec::new(), at_leisure: false });
    }

    fn random_item(&self, rng: &mut Rng, at: usize, tame: bool) -> Item {
        let guard = rng.chance(12);
        let device = (!rng.chance(12)).then(|| rng.below(self.devices.len()));
        let count = if guard { 1 } else { [1, 1, 1, 2, 2, 3, 0][rng.below(7)] };
        let mut accesses: Vec<_> = (0..count).map(|_| self.random_access(rng, guard)).collect();
        if !guard && count > 0 && rng.chance(15) {
            let (root, mode) = (accesses[0].0, MODES[rng.below(MODES.len())]);
            accesses.push((root, random_box(rng, &self.roots[root]), mode));
        }
        let wild = !tame && !guard;
        Item {
            kind: if guard { Kind::Guard } else { Kind::Group(device) },
            accesses,
            after: match !guard && at > 0 && rng.chance(15) {
                true => (0..1 + rng.below(2)).map(|_| (rng.below(at), rng.chance(50))).collect(),
                false => Vec::new(),
            },
            queue: (!guard && rng.chance(20)).then(|| rng.below(2)),
            gates: if !guard && rng.chance(15) { 1 + rng.below(2) as u32 } else { 0 },
            gate_fails: wild && rng.chance(10),
            keep: !guard && rng.chance(10),
            fails: wild && rng.chance(15),
            refused: wild && rng.chance(5),
            cancelled: wild && rng.chance(15),
            awaited: rng.chance(15),
            lead: if rng.chance(50) { 0 } else { rng.below(10) },
            weight: 1,
            in_heap: at % 5 == 4,
            shown_in: Cell::default(),
        }
    }

    fn random_access(&self, rng: &mut Rng, guard: bool) -> (usize, Box3, Mode) {
        let root = rng.below(self.roots.len());
        let mode = match guard {
            true => [Mode::Read, Mode::Read, Mode::ReadWrite, Mode::Overwrite][rng.below(4)],
            false => MODES[rng.below(MODES.len())],
        };
        (root, random_box(rng, &self.roots[root]), mode)
    }

    /// Where an item uses a root.
    pub(super) fn memory_of(&self, item: usize, root: usize) -> usize {
        match (self.roots[root].home, self.items[item].kind) {
            (Some(home), _) => home,
            (None, Kind::Group(Some(device))) => self.devices[device].memory,
            (None, _) => self.items[item].shown_in.get()[root],
        }
    }

    /// Where an item uses an element.
    pub(super) fn memory_at(&self, item: usize, element: usize) -> usize {
        self.memory_of(item, self.root_of(element))
    }

    /// The root of an element.
    pub(super) fn root_of(&self, element: usize) -> usize {
        (0..self.roots.len()).find(|root| self.elements_of(*root).contains(&element)).unwrap_or_default()
    }

    /// Whether the host has what stays in this memory only while it is mapped.
    pub(super) fn is_mapped(&self, root: usize) -> bool {
        self.roots[root].home.is_some_and(|m| self.memories[m - 1].mapped)
    }

    /// What an item does with each element it touches, by positions over all roots.
    pub(super) fn needs(&self, item: usize) -> Vec<(usize, Need)> {
        let item = &self.items[item];
        let mut all = vec![None::<Need>; self.roots.iter().map(Root::len).sum()];
        for (root, bounds, mode) in &item.accesses {
            let base = self.base(*root);
            for e in self.roots[*root].elements(bounds) {
                let first = Need { beside: true, ..Need::default() };
                let need = all[base + e].get_or_insert(first);
                need.beside &= *mode == Mode::Concurrent;
                need.old |= !matches!(mode, Mode::Overwrite | Mode::ReadWriteUninit)
                    || item.keep
                    || item.kind == Kind::Guard;
                need.look |= matches!(mode, Mode::Read | Mode::ReadWrite | Mode::Atomic);
                need.new |= *mode != Mode::Read;
                need.partial |= *mode == Mode::Write;
            }
        }
        all.into_iter().enumerate().filter_map(|(e, need)| need.map(|n| (e, n))).collect()
    }

    /// The position of a root's first element among all.
    pub(super) fn base(&self, root: usize) -> usize {
        self.roots[..root].iter().map(Root::len).sum()
    }

    /// The same without one item.
    pub(super) fn without(&self, item: usize) -> Self {
        let mut less = self.clone();
        less.items.remove(item);
        for other in &mut less.items {
            other.after.retain(|(at, _)| *at != item);
            other.after.iter_mut().for_each(|(at, _)| *at -= usize::from(*at > item));
        }
        if let Some((_, at)) = &mut less.loss {
            *at -= usize::from(*at > item);
        }
        less
    }

    /// The same with something about one item made simpler; every `which` below [`Program::SIMPLER`] is another.
    pub(super) fn simpler(&self, at: usize, which: usize) -> Option<Self> {
        let mut less = self.clone();
        let item = &mut less.items[at];
        let changed = match which {
            0 => item.kind != Kind::Guard && item.accesses.pop().is_some(),
            1 if item.accesses.len() > 1 => {
                item.accesses.remove(0);
                true
            }
            2 => item.after.pop().is_some(),
            3 => item.queue.take().is_some(),
            4 => std::mem::take(&mut item.gates) > 0,
            5 => std::mem::take(&mut item.gate_fails),
            6 => std::mem::take(&mut item.keep),
            7 => std::mem::take(&mut item.fails),
            8 => std::mem::take(&mut item.refused),
            9 => std::mem::take(&mut item.cancelled),
            10 => std::mem::take(&mut item.lead) > 0,
            11 => std::mem::take(&mut less.bad_copies) > 0,
            12 => std::mem::take(&mut less.bad_allocations) > 0,
            13 => less.loss.take().is_some(),
            14 => std::mem::take(&mut less.lazy),
            15 => std::mem::take(&mut item.awaited),
            16 => std::mem::replace(&mut item.weight, 1) > 1,
            17 => std::mem::take(&mut less.one_domain),
            18 => less.memories.iter_mut().any(|m| !std::mem::replace(&mut m.zeroed, true)),
            19 => less.devices.iter_mut().any(|d| d.copy_lanes.pop().is_some()),
            21 => match less.roots.iter().position(|root| root.home.is_some()) {
                // Guards of what the host does not reach have become groups, and stay that.
                Some(root) => less.roots[root].home.take().is_some(),
                None => false,
            },
            20 => less.memories.iter_mut().any(|m| std::mem::replace(&mut m.limits, NO_LIMITS) != NO_LIMITS),
            _ => false,
        };
        changed.then_some(less)
    }

    /// Whether any item from this one on uses a root.
    pub(super) fn is_used_from(&self, item: usize, root: usize) -> bool {
        let mut left = self.items[item.min(self.items.len())..].iter();
        left.any(|item| item.accesses.iter().any(|access| access.0 == root))
    }

    pub(super) const SIMPLER: usize = 22;

    /// The memory whose driver has pinned a root's content from the start, if one has: every other root's that has some in the heap, where
    /// any do.
    pub(super) fn pinned_by(&self, root: usize) -> Option<usize> {
        let of = self.roots.get(root).filter(|_| self.begins_pinned)?;
        let blocks = |memory: &Memory| !memory.addressable && !memory.mapped && memory.limits.0 < usize::MAX;
        let by = self.memories.iter().position(blocks).map(|at| at + 1);
        by.filter(|_| of.data && of.home.is_none() && root.is_multiple_of(2))
    }

    /// The same machine in an engine.
    pub(super) fn build(&self, engine: &mut Engine<Sim>) {
        engine.set_small_copy(self.small_copy);
        if let Some(chunk) = self.chunk {
            engine.set_staging_chunk(chunk);
            engine.set_pinned_most(chunk);
        }
        let domains: Vec<_> = (0..self.contexts.max(1)).map(|_| engine.add_domain()).collect();
        for context in 0..self.contexts {
            engine.add_context(domains[if self.one_domain { 0 } else { context }]);
        }
        for memory in &self.memories {
            let &Memory { addressable, mapped, zeroed, limits: (upload_limit, download_limit), .. } = memory;
            let traits = MemoryTraits { addressable, mapped, zeroed, upload_limit, download_limit };
            engine.add_memory(ContextId(memory.context as u32), traits);
        }
        let own = 1..=self.memories.len();
        for (from, to) in own.clone().flat_map(|a| own.clone().map(move |b| (a, b))) {
            if self.is_linked(from, to) {
                engine.add_link(MemoryId(from as u32), MemoryId(to as u32));
            }
        }
        for device in &self.devices {
            let context = ContextId(device.context as u32);
            let id = engine.add_device(context, MemoryId(device.memory as u32));
            if device.at_leisure {
                engine.report_at_leisure(id);
            }
            for depth in &device.lanes {
                engine.add_lane(id, *depth);
            }
            for depth in &device.copy_lanes {
                engine.add_copy_lane(id, *depth);
            }
            for home in (1..=self.memories.len()).filter(|m| self.is_home(*m) == Some(device.context)) {
                engine.add_reach(id, MemoryId(home as u32));
            }
        }
    }

    /// Whether lanes that work in one memory copy from another by themselves; the heap is none of these.
    pub(super) fn is_linked(&self, from: usize, to: usize) -> bool {
        let context = |m: usize| self.memories[m - 1].context;
        context(from) == context(to) || self.one_domain && self.peers
    }
}

const NO_LIMITS: (usize, usize) = (usize::MAX, usize::MAX);

const MODES: [Mode; 13] = [
    Mode::Read,
    Mode::Read,
    Mode::Read,
    Mode::Read,
    Mode::Overwrite,
    Mode::Overwrite,
    Mode::Overwrite,
    Mode::ReadWrite,
    Mode::ReadWrite,
    Mode::Write,
    Mode::Write,
    Mode::ReadWriteUninit,
    Mode::Atomic,
];

/// Often all of it, else any box of it.
fn random_box(rng: &mut Rng, root: &Root) -> Box3 {
    let mut bounds = root.extent();
    if root.len() == 0 || rng.chance(25) {
        return bounds;
    }
    if rng.chance(3) {
        bounds.lo[2] = rng.below(root.dims[2]);
        bounds.hi[2] = bounds.lo[2];
        return bounds;
    }
    for d in 0..3 {
        let (a, b) = (rng.below(root.dims[d]), rng.below(root.dims[d]));
        (bounds.lo[d], bounds.hi[d]) = (a.min(b), a.max(b) + 1);
    }
    bounds
}
