//! Programs of tiles on scripted devices, and what they must leave.

use std::task::Poll;

use windlass::image::Kernel;
use windlass::prelude::*;
use windlass::{KernelCall, Residency, Stats};
use windlass_faulty::FaultyBuilder;
use windlass_testkit::Rng;
use windlass_testkit::tiles::{Program, Use};

use crate::rig::{BLEND, Rig, SET, STEP, outcome, poll, stepped};

/// Bytes of a buffer here.
pub(super) const BYTES: usize = 64;

pub(super) fn evictable(builder: FaultyBuilder) -> Rig {
    Rig::with(builder, |runtime| runtime.residency(Residency::Evictable))
}

/// Leaves room for so many buffers, beside what the device has for itself.
pub(super) fn leave_room_for(rig: &Rig, buffers: usize) {
    rig.control.cap_buffers(Some(rig.control.audit().bytes + buffers * BYTES + BYTES / 2));
}

/// What so many groups make of the tiles, one after another.
fn results(program: &Program, groups: usize) -> Vec<Vec<u32>> {
    let tile = |t: usize| (0..BYTES as u32 / 4).map(|i| i * 7 + t as u32).collect();
    let mut tiles: Vec<Vec<u32>> = program
        .given
        .iter()
        .enumerate()
        .map(|(t, given)| if *given { tile(t) } else { vec![0; BYTES / 4] })
        .collect();
    for (k, used) in program.uses[..groups].iter().enumerate() {
        if used.replaces {
            tiles[used.changes] = (0..BYTES as u32 / 4).map(|i| i * 7 + k as u32).collect();
        }
        for &read in &used.reads {
            let other = tiles[read].clone();
            tiles[used.changes].iter_mut().zip(other).for_each(|(x, y)| *x = stepped(*x, [y + k as u32]));
        }
        if used.reads.is_empty() && !used.replaces {
            tiles[used.changes].iter_mut().for_each(|x| *x = stepped(*x, [k as u32]));
        }
    }
    tiles
}

/// The tiles of a program, as they are at first.
fn given(program: &Program) -> Vec<Buffer<u32>> {
    let tile = |(t, given): (usize, &bool)| match given {
        true => Buffer::from((0..BYTES as u32 / 4).map(|i| i * 7 + t as u32).collect::<Vec<u32>>()),
        false => Buffer::new(BYTES / 4),
    };
    program.given.iter().enumerate().map(tile).collect()
}

/// The commands of one group: what they make of the tiles is what [`results`] says.
pub(super) fn group(queue: &Queue, tiles: &[Buffer<u32>], used: &Use, k: u32) -> Event {
    let x = &tiles[used.changes];
    let submitted = queue.submit(|cg| {
        let to = |kernel: &Kernel| match used.replaces {
            true => KernelCall::new(kernel).buffer(cg.overwrite(x)),
            false => KernelCall::new(kernel).buffer(cg.read_write(x)),
        };
        if used.replaces {
            cg.parallel_for(x.len(), to(&SET).value(k))?;
        }
        for &read in &used.reads {
            cg.parallel_for(x.len(), to(&BLEND).buffer(cg.read(&tiles[read])).value(k))?;
        }
        if used.reads.is_empty() && !used.replaces {
            cg.parallel_for(x.len(), to(&STEP).value(k))?;
        }
        Ok(())
    });
    submitted.unwrap()
}

/// Has all kernels built: groups that wait for theirs do not run ahead.
fn build(rig: &Rig, queue: &Queue) {
    let tiles = [Buffer::new(BYTES / 4), Buffer::new(BYTES / 4)];
    for (changes, reads, replaces) in
        [(0, vec![], true), (1, vec![], true), (0, vec![1], false), (0, vec![], false)]
    {
        drop(group(queue, &tiles, &Use { changes, reads, replaces }, 0));
    }
    rig.settle();
    drop(tiles);
    rig.settle();
}

/// A runtime in which room for so many buffers counts as much.
pub(super) fn evictable_with_many(builder: FaultyBuilder, many: usize) -> Rig {
    Rig::with(builder, |runtime| runtime.residency(Residency::Evictable).room_for_many(many))
}

pub(super) fn copies(stats: &Stats) -> usize {
    stats.bytes_moved as usize / BYTES
}

/// A program that is to be run.
pub(super) struct Run<'p> {
    program: &'p Program,
    room: usize,
    /// Behind how many groups each tile is asked for, if it is.
    asked: Vec<Option<usize>>,
}

impl<'p> Run<'p> {
    /// With room for so many tiles.
    pub(super) fn new(program: &'p Program, room: usize) -> Self {
        Run { program, room, asked: vec![None; program.tiles()] }
    }

    /// Each tile is asked for when all groups have been submitted, and none has run.
    pub(super) fn asks_for_all_results(mut self) -> Self {
        self.asked.fill(Some(self.program.uses.len()));
        self
    }

    /// Some tiles are asked for behind some groups.
    pub(super) fn asks_for_some(mut self, rng: &mut Rng) -> Self {
        let groups = self.program.uses.len();
        self.asked.fill_with(|| rng.chance(40).then(|| rng.below(groups + 1)));
        self
    }

    /// Submits all groups before any runs, lets everything go on, and checks what they have left.
    pub(super) fn on(self, rig: Rig) -> Stats {
        self.by(rig, Rig::settle)
    }

    /// The same, where what goes on does so in this way.
    pub(super) fn by(self, rig: Rig, mut settle: impl FnMut(&Rig)) -> Stats {
        let Run { program, room, asked } = self;
        let queue = rig.queue(0);
        leave_room_for(&rig, room);
        build(&rig, &queue);
        let tiles = given(program);
        let (mut events, mut reads) = (Vec::new(), Vec::new());
        for k in 0..=program.uses.len() {
            for t in (0..tiles.len()).filter(|t| asked[*t] == Some(k)) {
                let mut read = Box::pin(tiles[t].host_read());
                // Now, so that those behind it come later.
                let found = poll(read.as_mut());
                reads.push((k, t, read, found));
            }
            events.extend(program.uses.get(k).map(|used| group(&queue, &tiles, used, k as u32)));
        }
        settle(&rig);
        // Whoever changes a tile waits until what was seen of it before has been let go of.
        while !reads.is_empty() {
            let waiting = reads.len();
            reads.retain_mut(|(k, t, read, found)| {
                let found = std::mem::replace(found, Poll::Pending);
                let found = if found.is_ready() { found } else { poll(read.as_mut()) };
                let Poll::Ready(found) = found else { return true };
                let place = format!("{}, tile {t} behind {k}", program.name);
                assert_eq!(found.expect(&place).to_vec(), results(program, *k)[*t], "{place}");
                false
            });
            assert!(reads.len() < waiting, "{}: {waiting} wait for ever", program.name);
            settle(&rig);
        }
        for (k, event) in events.iter().enumerate() {
            assert!(outcome(event).is_ok(), "{}, group {k}: {:?}", program.name, outcome(event));
        }
        let stats = rig.runtime.stats();
        for (t, (tile, expected)) in tiles.iter().zip(results(program, program.uses.len())).enumerate() {
            assert_eq!(rig.values(tile), expected, "{}, tile {t}", program.name);
        }
        drop((queue, tiles, events));
        rig.end();
        stats
    }
}
