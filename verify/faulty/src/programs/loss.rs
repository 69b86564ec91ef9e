//! What programs must do whose devices are lost at any moment: how an item ended that could end either way is seen, and whether it could
//! is worked out.

use super::model::{Access, Expected, GivenUp, Model, Place, accesses, fails, place, rank};
use super::program::{Item, Kind, Loss, Program};

/// How an item was seen to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Well,
    /// Its own failure, or that of something else.
    Failed,
    /// `submit` was told that the device is lost.
    Refused,
}

/// What was so at the moment of a loss.
#[derive(Clone, Debug, Default)]
pub(super) struct Moment {
    /// Which items had not ended.
    pub(super) pending: Vec<bool>,
    /// Which of them still waited for a future outside, and so had not begun.
    pub(super) gated: Vec<bool>,
}

/// A program that was run, as it was seen.
pub(super) struct Past<'p> {
    pub(super) program: &'p Program,
    pub(super) cancelled: &'p [Option<GivenUp>],
    pub(super) seen: &'p [Seen],
    /// By loss.
    pub(super) moments: &'p [Moment],
}

/// What may become of an item.
struct Chances {
    must_fail: bool,
    may_be_lost: bool,
    /// Nothing but a loss keeps it from going well.
    only_loss: bool,
}

impl Loss {
    /// Whether a queue is of the context.
    pub(super) fn is_of(&self, program: &Program, queue: usize) -> bool {
        program.shares(self.queue, queue)
    }

    fn takes(&self, program: &Program, place: Place) -> bool {
        let queue = &program.queues[self.queue];
        match place {
            Place::Own(context, device) => {
                context == queue.context && (context.is_some() || device == queue.device)
            }
            Place::Common(context, _) => context.is_some() && context == queue.context,
            Place::Heap | Place::Home => false,
        }
    }
}

impl Past<'_> {
    /// The outcome of all items, or what cannot be.
    pub(super) fn run(&self) -> Result<Model, String> {
        let mut model = Model::new(self.program);
        for at in 0..=self.program.items.len() {
            for loss in self.program.losses.iter().filter(|loss| loss.at == at) {
                model.lose(self.program, loss);
            }
            if at < self.program.items.len() {
                self.item(&mut model, at).map_err(|what| format!("item {at} {what}"))?;
            }
        }
        Ok(model)
    }

    fn item(&self, model: &mut Model, at: usize) -> Result<(), String> {
        let (program, item) = (self.program, &self.program.items[at]);
        let mut accesses = accesses(item);
        // It has what was there brought, to leave it if it is cancelled.
        accesses.iter_mut().for_each(|access| access.reads |= item.keep);
        let chances = self.chances(model, at, &accesses);
        let is_accessor = matches!(item.kind, Kind::Read(_) | Kind::Write(..));
        let mut values = None;
        let expected = match (self.seen[at], self.cancelled[at]) {
            // A device that is opened again does not reach what stayed on it before.
            (Seen::Refused, _) if self.is_on_lost(at) || self.uses_gone(at, &accesses) => Expected::Refused,
            (Seen::Refused, _) => return Err("is refused, though its device is there".into()),
            (_, Some(how)) => {
                model.may_arrive(program, item, &accesses);
                match how {
                    // It may have had its guard, and what was there counts as written then.
                    _ if is_accessor => model.leave_as_it_was(program, item, &accesses),
                    GivenUp::Skipped if item.keep => {
                        model.keep(program, item, &accesses, chances.may_be_lost);
                    }
                    GivenUp::Skipped => model.spoil(&accesses),
                    GivenUp::Stopped => model.leave_as_it_was(program, item, &accesses),
                }
                Expected::Cancelled
            }
            (Seen::Well, _) if chances.must_fail => return Err("goes well, and should not".into()),
            (Seen::Well, _) => {
                let (host, places) = model.where_host_is(program, &item.kind);
                let is_clear = places.len() < 2;
                if is_clear || accesses.iter().any(|access| access.writes) {
                    model.arrive(program, host.unwrap_or_else(|| place(program, item)), &accesses);
                }
                if let Kind::Read(part) = &item.kind {
                    values = Some(model.values(part));
                }
                model.apply(&item.kind);
                // It may have worked in any of several.
                for access in accesses.iter().filter(|_| !is_clear) {
                    for e in model.part_mut(&access.part) {
                        if access.writes {
                            e.valid.clear();
                        }
                        e.maybe.extend(&places);
                    }
                }
                Expected::Well
            }
            (Seen::Failed, _) if !chances.must_fail && !chances.may_be_lost => {
                return Err("fails, though nothing of it was lost".into());
            }
            (Seen::Failed, _) => {
                model.may_arrive(program, item, &accesses);
                match is_accessor {
                    true => model.may_have_been_had(program, &accesses),
                    false => model.spoil(&accesses),
                }
                match chances.only_loss {
                    true => Expected::Lost,
                    false if fails(item) => Expected::Either,
                    false => Expected::Doomed,
                }
            }
        };
        model.expected.push(expected);
        model.seen.push(values);
        Ok(())
    }

    /// Whether an item was submitted to a queue whose context was lost at that moment.
    fn is_on_lost(&self, at: usize) -> bool {
        let (program, queue) = (self.program, self.program.items[at].queue);
        program.losses.iter().any(|loss| (loss.at..loss.reopened).contains(&at) && loss.is_of(program, queue))
    }

    /// Whether an item uses a buffer that is gone with the device on which it stayed.
    fn uses_gone(&self, at: usize, accesses: &[Access]) -> bool {
        accesses.iter().any(|access| self.program.is_gone(access.part.root, at))
    }

    fn chances(&self, model: &Model, at: usize, accesses: &[Access]) -> Chances {
        let (program, item) = (self.program, &self.program.items[at]);
        let is_group = matches!(item.kind, Kind::Device(_));
        let reads = || accesses.iter().filter(|a| a.reads).flat_map(|a| model.part(&a.part));
        let not_well = |other: usize| !matches!(model.expected[other], Expected::Well | Expected::Refused);
        let is_doomed =
            reads().any(|e| e.bad) || item.after.iter().any(|(other, carries)| *carries && not_well(*other));
        let is_dead = self.is_on_lost(at) && is_group || self.uses_gone(at, accesses);
        let (mut is_dead, mut may_be_lost) = (is_dead, self.is_on_lost(at));
        let is_unheard = |loss: &Loss| !loss.told && (loss.at..loss.reopened).contains(&at);
        let may_ask = program.losses.iter().any(is_unheard);
        may_be_lost |= reads().any(|e| e.unsure || may_ask && e.unheard);
        let (_, shown) = model.where_host_is(program, &item.kind);
        let place = place(program, item);
        for (loss, moment) in program.losses.iter().zip(self.moments).filter(|(loss, _)| at < loss.at) {
            // One that was cancelled has its place among the others, and cannot leave what is not there any more.
            if !moment.pending[at] && self.cancelled[at].is_none() {
                continue;
            }
            let home = |access: &Access| program.roots[access.part.root].home;
            let mut homes = accesses.iter().filter_map(home);
            let is_its =
                is_group && loss.is_of(program, item.queue) || homes.any(|home| loss.is_of(program, home));
            is_dead |= is_its && moment.gated[at];
            let takes = |place: &Place| loss.takes(program, *place);
            // Where there may be a copy the newest one may have been to come from, as far as was known when the item was planned.
            let comes_from_there = reads()
                .any(|e| e.maybe.iter().any(takes) || !e.valid.contains(&place) && e.valid.iter().any(takes));
            may_be_lost |= is_its || comes_from_there || shown.iter().any(takes);
        }
        may_be_lost |= is_dead;
        let only_loss = !is_doomed && !fails(item);
        Chances { must_fail: !only_loss || is_dead, may_be_lost, only_loss }
    }
}

impl Model {
    /// What was there alone is gone.
    fn lose(&mut self, program: &Program, loss: &Loss) {
        for (root, elements) in self.roots.iter_mut().enumerate() {
            if program.is_gone(root, loss.at) {
                elements.iter_mut().for_each(|e| (e.bad, e.unsure) = (true, false));
            }
        }
        for e in self.roots.iter_mut().flatten().filter(|e| !e.bad && e.written) {
            let before = e.valid.len() + e.maybe.len();
            e.valid.retain(|place| !loss.takes(program, *place));
            e.maybe.retain(|place| !loss.takes(program, *place));
            let went = before > e.valid.len() + e.maybe.len();
            e.unheard |= went && !loss.told;
            if e.valid.is_empty() && went {
                (e.bad, e.unsure) = (e.maybe.is_empty() && !e.unsure, !e.maybe.is_empty() || e.unsure);
            }
        }
    }

    /// What an item was to read that did not go well may have come to where it would have been all the same.
    fn may_arrive(&mut self, program: &Program, item: &Item, accesses: &[Access]) {
        let (_, mut places) = self.where_host_is(program, &item.kind);
        places.push(place(program, item));
        for access in accesses.iter().filter(|access| access.reads && may_move(program, access)) {
            self.part_mut(&access.part).for_each(|e| e.maybe.extend(&places));
        }
    }

    /// Who was submitted behind an accessor that may write counts on what that was to have, wherever it was to come from, and on no
    /// other copy, unless the accessor's end is known by then.
    fn may_have_been_had(&mut self, program: &Program, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.writes && may_move(program, access)) {
            self.part_mut(&access.part).for_each(|e| e.maybe.extend_from_slice(&e.valid));
        }
    }

    /// A task that was stopped leaves what was there, and counts as its author all the same: it is where the task worked. So does an
    /// accessor that was let go of.
    fn leave_as_it_was(&mut self, program: &Program, item: &Item, accesses: &[Access]) {
        let (_, places) = self.where_host_is(program, &item.kind);
        for access in accesses.iter().filter(|access| access.writes && may_move(program, access)) {
            for e in self.part_mut(&access.part).filter(|e| e.written) {
                let before = std::mem::take(&mut e.valid);
                e.maybe.extend(before.iter().chain(&places));
            }
        }
    }

    /// A group that was cancelled leaves what was there, where it would have worked. Whether a loss came before its place in the order was
    /// taken, and took that along, nobody sees.
    fn keep(&mut self, program: &Program, item: &Item, accesses: &[Access], may_be_lost: bool) {
        if accesses.iter().any(|access| self.part(&access.part).any(|e| e.bad)) {
            return self.spoil(accesses);
        }
        self.leave_as_it_was(program, item, accesses);
        let place = place(program, item);
        for access in accesses.iter().filter(|access| access.writes) {
            let moves = may_move(program, access);
            for e in self.part_mut(&access.part) {
                e.written = true;
                e.unsure |= may_be_lost;
                e.maybe.extend(moves.then_some(place));
            }
        }
    }

    /// Where the host has its data, if that is not the heap, and all places where it may have it.
    fn where_host_is(&self, program: &Program, kind: &Kind) -> (Option<Place>, Vec<Place>) {
        let (Kind::Read(part) | Kind::Write(part, _) | Kind::Host(part, ..)) = kind else {
            return (None, Vec::new());
        };
        let shown = self.shown_in(program, kind);
        let mut places = vec![shown.unwrap_or(Place::Heap)];
        let others = self.part(part).flat_map(|e| e.valid.iter().chain(&e.maybe)).copied();
        for other in others.chain([Place::Heap]).filter(|p| *p == Place::Heap || rank(program, *p).is_some())
        {
            // Without anything that failed there is no doubt.
            if self.part(part).any(|e| !e.maybe.is_empty() || e.unsure) && !places.contains(&other) {
                places.push(other);
            }
        }
        (shown, places)
    }
}

/// What stays where it is does not move.
fn may_move(program: &Program, access: &Access) -> bool {
    program.roots[access.part.root].home.is_none()
}
