//! Programs that use more than their device may have, beside the longer of what they compute and what is moved for them.
//!
//! `--beyond` prints a line for each program and cap: how long it takes out of core; its groups alone, with room for all and all data
//! there; the copies alone that it made out of core, tile by tile, each direction and both at once; and the first by the longer of the
//! others. At best copies and groups run at the same time and the ratio is 1.
//!
//! Whether a driver lets them is another question: one whose device is the host's own processors may copy on those that compute. So the last
//! columns have as many launches and copies by hand, in queues of their own and with nothing to wait for: each alone, and both at once, with
//! what that is beside the longer of the two; and the ratio divided by this.
//!
//! All of it is printed twice: for commands that take as long as a tile takes to be copied, and four times as long. `--turns N` says instead how
//! much a command computes, to have the same again. `--large` has programs of about 150 tiles.
//! `--trace DIRECTORY` writes a file for Perfetto for each line, and the names of programs choose some.

mod transfer;

use std::path::PathBuf;
use std::time::Instant;

use windlass::Residency;
use windlass::prelude::*;
use windlass::trace::Timeline;
use windlass_testkit::tiles::{Program, Use, cholesky, cyclic, matmul, random, stencil};

use transfer::Copies;

use crate::native::cl::{Load, Queues, Raw};

#[windlass::kernels]
mod kernels {
    use windlass::prelude::*;

    /// Takes as long as it is told.
    fn worked(x: u32, turns: u32) -> u32 {
        let mut x = x;
        for _ in 0..turns {
            x = x * 1664525 + 1013904223;
        }
        x
    }

    #[kernel]
    pub(super) fn set(x: &mut [u32], k: u32, turns: u32) {
        let i = global_id(0);
        x[i] = worked(i as u32 * 7 + k, turns);
    }

    #[kernel]
    pub(super) fn step(x: &mut [u32], k: u32, turns: u32) {
        let i = global_id(0);
        x[i] = worked(x[i] + k, turns);
    }

    #[kernel]
    pub(super) fn blend(x: &mut [u32], y: &[u32], k: u32, turns: u32) {
        let i = global_id(0);
        x[i] = worked(x[i] + y[i] + k, turns);
    }
}

/// Elements of a tile, and its bytes.
const LEN: usize = 1 << 20;
const BYTES: usize = LEN * 4;

/// Parts of a program's tiles for which there is room.
const CAPS: [(&str, f64); 3] = [("1/1.1", 1.0 / 1.1), ("1/2", 0.5), ("1/4", 0.25)];

/// More tiles than are copied at a time.
const ENOUGH: usize = 64;

/// Of 40 to 75 tiles, or of 147 to 160.
fn programs(large: bool) -> [Program; 5] {
    match large {
        false => [matmul(5), cholesky(9), stencil(20, 10), cyclic(40, 8), random(40, 240, 3)],
        true => [matmul(7), cholesky(17), stencil(80, 10), cyclic(160, 8), random(160, 960, 3)],
    }
}

pub(crate) fn print(scale: usize) {
    let queue = Queue::blocking_new().expect("there is a device");
    let device = queue.device().clone();
    println!("on {device}, tiles of {} MiB:", BYTES >> 20);
    let times = scale.clamp(1, 5);
    let after = |flag: &str| std::env::args().skip_while(|arg| arg != flag).nth(1);
    let named: Vec<String> = std::env::args().collect();
    let all = programs(named.iter().any(|arg| arg == "--large"));
    let is_any_named = all.iter().any(|program| named.iter().any(|name| name == program.name));
    let wanted = |program: &&Program| !is_any_named || named.iter().any(|name| name == program.name);
    let raw = (device.backend().as_str() == "opencl").then(|| Raw::open(device.name())).flatten();
    let by_hand = raw.map(|raw| Queues::new(raw, LEN));
    let mut bench = Bench { device, by_hand, turns: 0, traces: after("--trace").map(PathBuf::from) };
    let told = after("--turns").map(|turns| vec![turns.parse().expect("a number")]);
    for turns in told.unwrap_or_else(|| bench.calibrated([1.0, 4.0])) {
        bench.turns = turns;
        println!("\ncommands of {turns} turns:\n");
        println!("{HEAD}");
        for program in all.iter().filter(wanted) {
            bench.rows(program, times);
        }
    }
}

/// How many commands [a group](Bench::submit) has.
fn commands(used: &Use) -> usize {
    used.reads.len() + usize::from(used.replaces || used.reads.is_empty())
}

const HEAD: &str = "| program | room | tiles up, down | out of core | groups alone | copies alone: up, down, both | ratio | by hand: launches, copies, both | beside that |
|---|---|---|---|---|---|---|---|---|";

/// A device, and how much a command computes there.
struct Bench {
    device: Device,
    /// The same device, where OpenCL's library is there.
    by_hand: Option<Queues>,
    turns: u32,
    traces: Option<PathBuf>,
}

/// What a program took, what was moved for it, and some of what it has made.
struct Taken {
    ns: f64,
    copies: Copies,
    results: Vec<u32>,
}

impl Bench {
    /// How much a command has to compute to take so many times as long as a copy of a tile.
    fn calibrated(&self, works: [f64; 2]) -> Vec<u32> {
        let queue = self.queue(with_room_for(ENOUGH, &self.device));
        let [up, down, _] = transfer::alone(&queue, Copies { up: 4, down: 4 }, 40);
        let copy = (up + down) / 8.0;
        let tile = Buffer::from(vec![1_u32; LEN]);
        let taken = |turns: u32| {
            let one = || {
                let start = Instant::now();
                let call = |cg: &CommandGroup<'_>| {
                    cg.parallel_for(LEN, kernels::step(cg.read_write(&tile), 1, turns))
                };
                queue.submit(call).and_then(|event| event.blocking_wait()).expect("nothing fails");
                start.elapsed().as_nanos() as f64
            };
            best(20, one)
        };
        let (few, many) = (taken(1), taken(201));
        println!("a copy takes {:.0} us, a command of one turn {:.0} us", copy / 1e3, few / 1e3);
        let turns = |work: f64| 1 + ((work * copy - few).max(0.0) / (many - few) * 200.0) as u32;
        works.map(turns).into()
    }

    /// A queue on the device in a runtime that has built all kernels.
    fn queue(&self, runtime: Runtime) -> Queue {
        let queue = Queue::builder().runtime(&runtime).blocking_build().expect("it was there before");
        assert_eq!(queue.device().name(), self.device.name(), "the same device by default");
        let tiles = [Buffer::new(64), Buffer::new(64)];
        for (reads, replaces) in [(vec![], true), (vec![], false), (vec![1], false)] {
            self.submit(&queue, &tiles, &Use { changes: 0, reads, replaces }, 0);
        }
        queue.drained().blocking_wait().expect("nothing fails");
        queue
    }

    /// The same commands as the tests' of what is moved, with more to do in each.
    fn submit(&self, queue: &Queue, tiles: &[Buffer<u32>], used: &Use, k: u32) -> Event {
        let (tile, turns) = (&tiles[used.changes], self.turns);
        let submitted = queue.submit(|cg| {
            let len = tile.len();
            if used.replaces {
                let x = cg.read_write_uninit(tile);
                cg.parallel_for(len, kernels::set(&x, k, turns))?;
                for read in &used.reads {
                    cg.parallel_for(len, kernels::blend(&x, cg.read(&tiles[*read]), k, turns))?;
                }
                return Ok(());
            }
            let x = cg.read_write(tile);
            for read in &used.reads {
                cg.parallel_for(len, kernels::blend(&x, cg.read(&tiles[*read]), k, turns))?;
            }
            match used.reads.is_empty() {
                true => cg.parallel_for(len, kernels::step(&x, k, turns)),
                false => Ok(()),
            }
        });
        submitted.expect("nothing to refuse")
    }

    /// From the first submission to the last end, in nanoseconds.
    fn run(&self, queue: &Queue, tiles: &[Buffer<u32>], program: &Program) -> f64 {
        let start = Instant::now();
        let submit = |(k, used)| self.submit(queue, tiles, used, k);
        let events: Vec<Event> = (0..).zip(&program.uses).map(submit).collect();
        events.into_iter().for_each(|event| event.blocking_wait().expect("each fits"));
        start.elapsed().as_nanos() as f64
    }

    /// The second of two runs: all memory has been made by then, the host's and the device's, as for the others.
    fn out_of_core(&self, program: &Program, room: usize) -> (Taken, Timeline) {
        let runtime = with_room_for(room, &self.device);
        let (queue, tiles) = (self.queue(runtime.clone()), tiles(program));
        self.run(&queue, &tiles, program);
        let trace = runtime.trace(1 << 16);
        let ns = self.run(&queue, &tiles, program);
        let timeline = trace.timeline();
        drop(trace);
        let copies = Copies::of(&timeline, BYTES);
        (Taken { ns, copies, results: results(&tiles) }, timeline)
    }

    /// How long the groups take when all is there already, and what they make of the tiles when they run twice.
    fn in_core(&self, program: &Program, times: usize) -> (f64, Vec<u32>) {
        let runtime = with_room_for(program.tiles(), &self.device);
        let (queue, tiles) = (self.queue(runtime.clone()), tiles(program));
        self.run(&queue, &tiles, program);
        self.run(&queue, &tiles, program);
        let results = results(&tiles);
        let moved = runtime.stats().bytes_moved;
        let ns = best(times, || self.run(&queue, &tiles, program));
        assert_eq!(runtime.stats().bytes_moved, moved, "all is there");
        (ns, results)
    }

    fn rows(&self, program: &Program, times: usize) {
        let (compute, expected) = self.in_core(program, times);
        for (cap, part) in CAPS {
            let room = ((program.tiles() as f64 * part) as usize).max(program.most());
            let all = (0..times).map(|_| {
                let (taken, timeline) = self.out_of_core(program, room);
                assert_eq!(taken.results, expected, "{} with room for {cap}", program.name);
                self.keep(&timeline, program.name, cap);
                taken
            });
            let least = all.min_by(|a, b| a.ns.total_cmp(&b.ns)).expect("at least once");
            self.row(program, (cap, times), &least, compute);
        }
    }

    fn row(&self, program: &Program, (cap, times): (&str, usize), taken: &Taken, compute: f64) {
        let name = program.name;
        let queue = self.queue(with_room_for(ENOUGH, &self.device));
        let [up, down, both] = transfer::alone(&queue, taken.copies, times);
        // A device that copies one way at a time may take longer for both at once.
        let copies = both.min(up + down);
        let Taken { ns, copies: Copies { up: tiles_up, down: tiles_down }, .. } = taken;
        let ms = |ns: f64| format!("{:.0} ms", ns / 1e6);
        let load = Load {
            launches: program.uses.iter().map(commands).sum(),
            turns: self.turns,
            up: *tiles_up,
            down: *tiles_down,
        };
        let by_hand = self.by_hand.as_ref().map_or("| ".to_owned(), |queues| {
            let took = |launches, copies| best(times, || queues.run(load, launches, copies));
            // Memory is touched first, and the kernel made ready.
            queues.run(load, true, true);
            let (launches, moved, both) = (took(true, false), took(false, true), took(true, true));
            let more = both / launches.max(moved);
            let beside = ns / copies.max(compute) / more;
            format!("{}, {}, {} ({more:.2}x) | {beside:.2}x", ms(launches), ms(moved), ms(both))
        });
        println!(
            "| {name} | {cap} | {tiles_up}, {tiles_down} | {} | {} | {}, {}, {} | {:.2}x | {by_hand} |",
            ms(*ns),
            ms(compute),
            ms(up),
            ms(down),
            ms(both),
            ns / copies.max(compute),
        );
    }

    fn keep(&self, timeline: &Timeline, name: &str, cap: &str) {
        let Some(folder) = &self.traces else { return };
        let file = folder.join(format!("{name}-{}.json", cap.replace('/', "-")));
        std::fs::write(&file, timeline.perfetto()).expect("the folder is there");
    }
}

/// The least of so many measurements: what others do on the machine only adds.
fn best(times: usize, mut one: impl FnMut() -> f64) -> f64 {
    (0..times).map(|_| one()).fold(f64::MAX, f64::min)
}

/// A runtime with room for so many tiles, in which processors with a driver have memory apart from the host's, as other devices do.
fn with_room_for(tiles: usize, device: &Device) -> Runtime {
    // Half a tile beside those for what the runtime itself may have there.
    let runtime = Runtime::builder().device_memory(tiles * BYTES + BYTES / 2);
    let runtime = runtime.residency(Residency::Evictable);
    #[cfg(feature = "opencl")]
    if device.backend().as_str() == "opencl" {
        return runtime.backend(windlass::opencl::OpenCl::new().copying()).build();
    }
    runtime.build()
}

fn tiles(program: &Program) -> Vec<Buffer<u32>> {
    let tile = |(t, given): (usize, &bool)| match given {
        true => Buffer::from((0..LEN as u32).map(|i| i * 7 + t as u32).collect::<Vec<u32>>()),
        false => Buffer::new(LEN),
    };
    program.given.iter().enumerate().map(tile).collect()
}

/// Some of what is in each tile.
fn results(tiles: &[Buffer<u32>]) -> Vec<u32> {
    let last =
        |tile: &Buffer<u32>| tile.range(LEN - 1..).host_read().blocking_wait().expect("it was written")[0];
    tiles.iter().map(last).collect()
}
