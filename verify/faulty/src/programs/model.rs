//! What a program must do: its items one after the other, on plain vectors.

use super::program::{Deed, Item, Kind, Part, Program, QueuePlan, RootPlan, TaskEnd};
use crate::Memory;
use crate::kernels::stepped;

/// How an item must end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Well,
    /// It was cancelled, or its accessor let go of.
    Cancelled,
    /// It failed itself.
    Failed,
    /// Something it reads or depends on failed.
    Doomed,
    /// Both, and which of them is told first is up to the order of verdicts.
    Either,
    /// Its device is lost, or data that it reads went with one.
    Lost,
    /// It was not taken, as its device is lost.
    Refused,
}

/// How an item uses a part.
pub(super) struct Access {
    pub(super) part: Part,
    pub(super) reads: bool,
    pub(super) writes: bool,
}

/// Where data can be: the heap, or a memory of a context (`None`: the runtime's own of a device).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Heap,
    Own(Option<usize>, usize),
    /// What the devices of a context share that work on the heap, or on shared memory.
    Common(Option<usize>, Memory),
    /// Where a buffer stays.
    Home,
}

pub(super) struct Element {
    value: u32,
    pub(super) bad: bool,
    /// Somebody has written it.
    pub(super) written: bool,
    /// Where its newest version is.
    pub(super) valid: Vec<Place>,
    /// Where it may be, too: where something that failed was to have it.
    pub(super) maybe: Vec<Place>,
    /// A device was lost, and nobody can say whether there is another copy: it is there with its value, or cannot be had.
    pub(super) unsure: bool,
    /// A copy went with a device of which nobody has said yet that it is lost, and may be asked for.
    pub(super) unheard: bool,
}

/// The outcome of all items, and the data at the end.
pub(super) struct Model {
    pub(super) roots: Vec<Vec<Element>>,
    pub(super) expected: Vec<Expected>,
    /// What the accessors that read must see.
    pub(super) seen: Vec<Option<Vec<u32>>>,
    pub(super) bytes_moved: u64,
}

/// What a buffer with content starts with.
pub(super) fn initial(root: usize, at: usize) -> u32 {
    (root * 1000 + at) as u32
}

/// How an item was cancelled in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// It did not start.
    Skipped,
    /// It is a host task that had started. Ours write after their only `await`, so it has written nothing.
    Stopped,
}

impl Model {
    /// What there is before the first item.
    pub(super) fn new(program: &Program) -> Self {
        let element = |root: usize, at: usize, plan: &RootPlan| Element {
            value: if plan.data { initial(root, at) } else { 0 },
            bad: false,
            written: plan.data,
            valid: match plan.home {
                None => plan.data.then_some(Place::Heap).into_iter().collect(),
                Some(_) => vec![Place::Home],
            },
            maybe: Vec::new(),
            unsure: false,
            unheard: false,
        };
        let roots = program.roots.iter().enumerate();
        let roots = roots.map(|(r, plan)| (0..plan.len).map(|at| element(r, at, plan)).collect());
        Model { roots: roots.collect(), expected: Vec::new(), seen: Vec::new(), bytes_moved: 0 }
    }

    /// Runs the program; `cancelled` says which items were cancelled in time.
    pub(super) fn run(program: &Program, cancelled: &[Option<GivenUp>]) -> Self {
        let mut model = Self::new(program);
        for (at, item) in program.items.iter().enumerate() {
            model.item(program, item, cancelled[at]);
        }
        model
    }

    fn item(&mut self, program: &Program, item: &Item, cancelled: Option<GivenUp>) {
        let accesses = accesses(item);
        let stopped = cancelled == Some(GivenUp::Stopped);
        let reads_bad = accesses.iter().any(|a| (a.reads || item.keep) && self.part(&a.part).any(|e| e.bad));
        let event_bad =
            item.after.iter().any(|(at, carries)| *carries && self.expected[*at] != Expected::Well);
        let doomed = reads_bad || event_bad;
        let expected = match (cancelled.is_some(), doomed, fails(item)) {
            (true, ..) => Expected::Cancelled,
            (_, true, true) => Expected::Either,
            (_, true, false) => Expected::Doomed,
            (_, false, true) => Expected::Failed,
            _ => Expected::Well,
        };
        let mut seen = None;
        let accessor = matches!(item.kind, Kind::Read(_) | Kind::Write(..));
        match (&expected, &item.kind) {
            // A group may be asked to leave no trace of what was cancelled. Where what it was to have is bad, though, it
            // counts as the author of a bad version of all its part, like any other writer.
            (Expected::Cancelled, _) if stopped || !doomed && item.keep => {}
            // An accessor that is let go of or refused leaves none: what is bad was bad before.
            (Expected::Cancelled | Expected::Doomed, _) if accessor => {}
            (Expected::Well, kind) => {
                let place = self.shown_in(program, &item.kind).unwrap_or_else(|| place(program, item));
                self.arrive(program, place, &accesses);
                if let Kind::Read(part) = kind {
                    seen = Some(self.values(part));
                }
                self.apply(kind);
            }
            _ => self.spoil(&accesses),
        }
        self.expected.push(expected);
        self.seen.push(seen);
    }

    pub(super) fn part(&self, part: &Part) -> impl Iterator<Item = &Element> {
        self.roots[part.root][part.lo..part.hi].iter()
    }

    /// The elements of a part that is all well.
    pub(super) fn values(&self, part: &Part) -> Vec<u32> {
        self.part(part).map(|e| e.value).collect()
    }

    pub(super) fn part_mut(&mut self, part: &Part) -> impl Iterator<Item = &mut Element> {
        self.roots[part.root][part.lo..part.hi].iter_mut()
    }

    /// Where the host finds its data, if that is a device's memory: one that the host reaches and that holds all of it. Who only reads has
    /// it in the heap if it is there, too.
    pub(super) fn shown_in(&self, program: &Program, kind: &Kind) -> Option<Place> {
        let (Kind::Read(part) | Kind::Write(part, _) | Kind::Host(part, ..)) = kind else { return None };
        let is_current = |place: &Place| self.part(part).all(|e| e.written && e.valid.contains(place));
        if matches!(kind, Kind::Read(_)) && is_current(&Place::Heap) {
            return None;
        }
        let places = self.part(part).next()?.valid.iter().copied().filter(is_current);
        places
            .filter_map(|place| Some((rank(program, place)?, place)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, place)| place)
    }

    /// Counts what has to be moved for an item, and whom its writes make stale.
    pub(super) fn arrive(&mut self, program: &Program, place: Place, accesses: &[Access]) {
        let mut moved = 0;
        let used_at = |access: &Access| program.roots[access.part.root].home.map_or(place, |_| Place::Home);
        for access in accesses.iter().filter(|a| a.reads) {
            let place = used_at(access);
            for e in self.part_mut(&access.part).filter(|e| e.written && !e.valid.contains(&place)) {
                e.valid.push(place);
                e.unsure = false;
                moved += 4;
            }
        }
        self.bytes_moved += moved;
        for access in accesses.iter().filter(|a| a.writes) {
            let place = used_at(access);
            for e in self.part_mut(&access.part) {
                (e.written, e.bad, e.valid, e.unsure) = (true, false, vec![place], false);
                e.maybe.clear();
            }
        }
    }

    pub(super) fn spoil(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|a| a.writes) {
            self.part_mut(&access.part).for_each(|e| (e.bad, e.unsure) = (true, false));
        }
    }

    pub(super) fn apply(&mut self, kind: &Kind) {
        match kind {
            Kind::Device(deeds) => deeds.iter().for_each(|deed| self.deed(deed)),
            Kind::Host(part, k, _) | Kind::Write(part, k) => self.deed(&Deed::Step(*part, *k)),
            Kind::Read(_) => {}
        }
    }

    fn deed(&mut self, deed: &Deed) {
        let set = |(i, e): (usize, &mut Element), k: u32| e.value = (i as u32) * 7 + k;
        match deed {
            Deed::Step(part, k) => self.part_mut(part).for_each(|e| e.value = stepped(e.value, *k)),
            Deed::Set(part, k) => self.part_mut(part).enumerate().for_each(|e| set(e, *k)),
            Deed::SetHalf(part, k) => {
                self.part_mut(part).take(part.len().div_ceil(2)).enumerate().for_each(|e| set(e, *k));
            }
            Deed::Blend(x, y, k) => {
                for i in 0..x.len() {
                    let y = self.roots[y.root][y.lo + i % y.len()].value;
                    let x = &mut self.roots[x.root][x.lo + i];
                    x.value = stepped(x.value, y.wrapping_add(*k));
                }
            }
            Deed::Fill(part, v) => self.part_mut(part).for_each(|e| e.value = *v),
            Deed::Copy(from, to) => {
                let values = self.values(from);
                self.part_mut(to).zip(values).for_each(|(e, v)| e.value = v);
            }
            Deed::Panics(_) | Deed::Refused(_) => {}
        }
    }

    /// The runs of a buffer's elements that are all well or all bad, with the values of those that are well, and whether those may be gone.
    pub(super) fn runs(&self, root: usize) -> Vec<(Part, Option<Vec<u32>>, bool)> {
        let mut runs = Vec::new();
        let mut lo = 0;
        for run in self.roots[root].chunk_by(|a, b| (a.bad, a.unsure) == (b.bad, b.unsure)) {
            let part = Part { root, lo, hi: lo + run.len() };
            let values = (!run[0].bad).then(|| run.iter().map(|e| e.value).collect());
            runs.push((part, values, run[0].unsure));
            lo = part.hi;
        }
        runs
    }
}

pub(super) fn fails(item: &Item) -> bool {
    item.gate == Some(true)
        || match &item.kind {
            Kind::Device(deeds) => deeds.iter().any(|d| matches!(d, Deed::Panics(_) | Deed::Refused(_))),
            Kind::Host(_, _, end) => *end != TaskEnd::Well,
            _ => false,
        }
}

pub(super) fn accesses(item: &Item) -> Vec<Access> {
    let access = |part: Part, reads, writes| Access { part, reads, writes };
    match &item.kind {
        Kind::Read(part) => vec![access(*part, true, false)],
        Kind::Write(part, _) | Kind::Host(part, ..) => vec![access(*part, true, true)],
        Kind::Device(deeds) => deeds
            .iter()
            .flat_map(|deed| match deed {
                Deed::Step(x, _) | Deed::SetHalf(x, _) | Deed::Panics(x) | Deed::Refused(x) => {
                    vec![access(*x, true, true)]
                }
                Deed::Set(x, _) | Deed::Fill(x, _) => vec![access(*x, false, true)],
                Deed::Blend(x, y, _) => vec![access(*x, true, true), access(*y, true, false)],
                Deed::Copy(from, to) => vec![access(*from, true, false), access(*to, false, true)],
            })
            .collect(),
    }
}

/// When the runtime came to know a memory that the host reaches at any time, among such: those of the program's contexts, and then those
/// of the runtime's own, by the first queue of each.
pub(super) fn rank(program: &Program, place: Place) -> Option<(usize, usize)> {
    match place {
        Place::Own(context, device) if program.devices[device] == Memory::Visible => Some(match context {
            Some(context) => (context, program.contexts[context].iter().position(|of| *of == device)?),
            None => {
                let is_its = |queue: &QueuePlan| queue.device == device && queue.context.is_none();
                (program.contexts.len(), program.queues.iter().position(is_its)?)
            }
        }),
        // It is known with the first of the devices that work there.
        Place::Common(Some(context), Memory::Heap) => {
            let on_heap = |of: &usize| program.devices[*of] == Memory::Heap;
            Some((context, program.contexts[context].iter().position(on_heap)?))
        }
        _ => None,
    }
}

pub(super) fn place(program: &Program, item: &Item) -> Place {
    if !matches!(item.kind, Kind::Device(_)) {
        return Place::Heap;
    }
    let queue = &program.queues[item.queue];
    match (program.devices[queue.device], queue.context) {
        (Memory::Heap, None) => Place::Heap,
        (Memory::Own | Memory::Visible, context) => Place::Own(context, queue.device),
        // The runtime's own contexts have one device each.
        (Memory::Shared, None) => Place::Own(None, queue.device),
        (memory, context) => Place::Common(context, memory),
    }
}
