//! Copies of tiles, and nothing else: how long what a program moved takes by itself.

use std::time::Instant;

use windlass::prelude::*;
use windlass::trace::{EntryKind, Timeline};

use super::{LEN, best};

/// So many tiles in each direction at a time. More would be more memory than a program has, and fewer would stay in caches.
const AT_ONCE: usize = 16;

/// Tiles that are copied to the device, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Copies {
    pub(super) up: usize,
    pub(super) down: usize,
}

impl Copies {
    /// What was moved in tiles of so many bytes.
    pub(super) fn of(timeline: &Timeline, bytes: usize) -> Self {
        // By way of staging a copy has a second step, which has the host's memory on both sides.
        let moved = |is_up: bool| {
            let of = timeline.entries().iter().filter_map(|entry| match &entry.kind {
                EntryKind::Copy { bytes, from, to } if (to.is_some(), from.is_some()) == (is_up, !is_up) => {
                    Some(*bytes)
                }
                _ => None,
            });
            of.sum::<usize>() / bytes
        };
        Copies { up: moved(true), down: moved(false) }
    }
}

/// Nanoseconds for the copies up, for those down, and for both at once: the least of so many times.
pub(super) fn alone(queue: &Queue, copies: Copies, times: usize) -> [f64; 3] {
    let there = Tiles::new(queue);
    there.copy(Copies { up: AT_ONCE, down: AT_ONCE });
    let Copies { up, down } = copies;
    [Copies { up, down: 0 }, Copies { up: 0, down }, copies].map(|copies| best(times, || there.copy(copies)))
}

/// Tiles that go up, and tiles that come down. All have memory on both sides.
struct Tiles<'a> {
    queue: &'a Queue,
    up: Vec<Buffer<u32>>,
    down: Vec<Buffer<u32>>,
}

impl<'a> Tiles<'a> {
    fn new(queue: &'a Queue) -> Self {
        let tiles = || (0..AT_ONCE).map(|_| Buffer::from(vec![1_u32; LEN])).collect();
        Tiles { queue, up: tiles(), down: tiles() }
    }

    /// So many at a time, until all have been copied. What makes the next ones necessary is not counted.
    fn copy(&self, copies: Copies) -> f64 {
        let rounds = copies.up.max(copies.down).div_ceil(AT_ONCE);
        let share = |of: usize, round: usize| of * (round + 1) / rounds - of * round / rounds;
        (0..rounds).map(|round| self.round(share(copies.up, round), share(copies.down, round))).sum()
    }

    fn round(&self, up: usize, down: usize) -> f64 {
        let (up, down) = (&self.up[..up], &self.down[..down]);
        up.iter().for_each(|tile| drop(tile.host_write().blocking_wait().expect("the host has it")));
        let filled = down.iter().map(|tile| self.queue.submit(|cg| cg.fill(&cg.overwrite(tile), 2)));
        wait_for(filled.collect());
        let start = Instant::now();
        let mut events = Vec::new();
        for at in 0..up.len().max(down.len()) {
            events.extend(up.get(at).map(|tile| self.queue.prefetch(tile)));
            events.extend(down.get(at).map(|tile| self.queue.submit(|cg| cg.update_host(&cg.read(tile)))));
        }
        wait_for(events);
        start.elapsed().as_nanos() as f64
    }
}

fn wait_for(events: Vec<windlass::Result<Event>>) {
    let wait = |event: windlass::Result<Event>| event.and_then(|event| event.blocking_wait());
    events.into_iter().for_each(|event| wait(event).expect("nothing fails"));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is counted of a program is what was moved for it, each way.
    #[test]
    fn copies_are_counted_each_way() {
        // Its memory is always apart from the host's.
        let device = windlass_faulty::Faulty::builder().auto().build();
        let runtime = Runtime::builder().backend(device).only_given_backends().build();
        let devices = futures::executor::block_on(runtime.devices()).unwrap();
        let queue = Queue::blocking_on(devices[0].clone()).unwrap();
        let trace = runtime.trace(100);
        let there = Tiles::new(&queue);
        there.copy(Copies { up: 3, down: 2 });
        assert_eq!(Copies::of(&trace.timeline(), LEN * 4), Copies { up: 3, down: 2 });
    }
}
