//! Random programs: any mix of queues, compared with the same steps done one after the other.
//!
//! A [`Program`] is named by its seed and the number of places it runs on. It has one to three threads, each with
//! buffers of its own, so that the order of conflicting steps is fixed however the threads are scheduled. Its groups
//! run kernels, copies and fills on parts of lines and grids, in all access modes; some are host tasks, some fail, some
//! wait behind gates and are let go or cancelled later, some depend on others by name. Between them the thread looks at
//! data and changes it through host accessors, and asks for memory back. Some buffers are seen as elements of other types than
//! their own, or have pages; some are images, whose texels kernels load and store, and some have three dimensions.
//!
//! Some threads ask a place for memory that stays there, of one kind or another, and let go of it for new memory while groups use
//! it. Their kernels are given its address, as an argument or as a number, and some groups change it at the same time. A place that
//! has no such memory, or whose memory has no addresses, has to say so; then the same steps are done on a buffer like others.
//!
//! Compared with the model are every step's end (well, failed, failed by dependency, cancelled), everything the program
//! looks at, and in the end every element of every buffer, or that it cannot be had.

mod model;
mod random;
mod replay;

use std::fmt;
use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

use windlass::{MemoryKind, Queue};

use crate::kernels::Kernels;

/// Where programs run: queues of one runtime, on whatever devices and contexts.
#[derive(Clone, Debug)]
pub struct World {
    /// The queues.
    pub places: Vec<Queue>,
    /// The reference kernels, of which programs use some.
    pub kernels: Kernels,
    /// How many elements lines of memory that stays somewhere have at most, if programs ask for such memory. Where there is little room,
    /// much of it would take all that groups need.
    pub stays: Option<usize>,
}

/// A random program.
#[derive(Clone, Debug)]
pub struct Program {
    threads: Vec<Thread>,
}

/// What one thread does, on buffers of its own.
#[derive(Clone, Debug, Default)]
struct Thread {
    buffers: Vec<Storage>,
    steps: Vec<Step>,
}

impl Thread {
    /// Whether nothing of it fails or is cancelled.
    fn is_tame(&self) -> bool {
        self.steps.iter().all(|step| match step {
            Step::Group(group) => !group.cancelled && !matches!(group.job, Job::Task { fails: true, .. }),
            _ => true,
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Storage {
    shape: [usize; 2],
    /// What its first element holds, if it starts with data.
    base: Option<u32>,
    /// Where it stays for good.
    stays: Option<Stays>,
}

/// Memory that a program asks for by its place and its kind.
#[derive(Clone, Copy, Debug)]
struct Stays {
    place: usize,
    kind: MemoryKind,
}

impl Stays {
    /// Whether the host may look at it; what is a device's own it reaches on some devices only.
    fn is_for_host(&self) -> bool {
        self.kind != MemoryKind::Device
    }
}

impl Storage {
    fn len(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    fn initial(&self) -> Vec<u32> {
        (0..self.len() as u32).map(|i| self.base.map_or(0, |base| base.wrapping_add(i))).collect()
    }
}

/// A box of a buffer.
#[derive(Clone, Copy, Debug)]
struct Window {
    buffer: usize,
    lo: [usize; 2],
    size: [usize; 2],
}

impl Window {
    fn len(&self) -> usize {
        self.size[0] * self.size[1]
    }

    fn overlaps(&self, other: &Window) -> bool {
        let meets =
            |d: usize| self.lo[d] < other.lo[d] + other.size[d] && other.lo[d] < self.lo[d] + self.size[d];
        self.buffer == other.buffer && self.len() > 0 && other.len() > 0 && meets(0) && meets(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Read,
    /// Writes and keeps, or reads and writes.
    Keep,
    /// What was there is not wanted.
    Over,
}

impl Mode {
    fn reads(self) -> bool {
        self != Mode::Over
    }

    fn writes(self) -> bool {
        self != Mode::Read
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// `v = 31 v + k`.
    Churn(Window, u32),
    /// `v = base + i`; whether by the mode that may also read.
    Count(Window, u32, bool),
    /// The first half of it, and the rest is kept.
    CountHalf(Window, u32),
    /// By a kernel.
    Copy(Window, Window),
    /// `y = 31 y + x + k`.
    Fold(Window, Window, u32),
    /// By the copy command.
    Move(Window, Window),
    Fill(Window, u32),
    /// Only says that it reads.
    Touch(Window),
    /// As `Churn`, by a kernel that is given the address.
    ChurnAt(Window, u32),
    /// As `Churn`, by a kernel that is given the address as a number, and of which is said that it reaches the memory.
    ChurnBy(Window, u32),
    /// As `Fold`, by a kernel that is given two addresses.
    FoldAt(Window, Window, u32),
    /// `v = v + 1`, while other groups may do the same.
    Bump(Window),
}

impl Op {
    fn uses(&self) -> [Option<(Window, Mode)>; 2] {
        match *self {
            Op::Churn(w, _) | Op::CountHalf(w, _) => [Some((w, Mode::Keep)), None],
            Op::ChurnAt(w, _) | Op::ChurnBy(w, _) | Op::Bump(w) => [Some((w, Mode::Keep)), None],
            Op::Count(w, ..) | Op::Fill(w, _) => [Some((w, Mode::Over)), None],
            Op::Touch(w) => [Some((w, Mode::Read)), None],
            Op::Copy(from, to) | Op::Move(from, to) => [Some((from, Mode::Read)), Some((to, Mode::Over))],
            Op::Fold(x, y, _) | Op::FoldAt(x, y, _) => [Some((x, Mode::Read)), Some((y, Mode::Keep))],
        }
    }
}

#[derive(Clone, Debug)]
enum Job {
    Commands(Vec<Op>),
    Task { window: Window, k: u32, fails: bool },
}

#[derive(Clone, Debug)]
struct Group {
    place: usize,
    job: Job,
    /// Waits behind a gate until its [`Step::Decide`].
    gated: bool,
    cancelled: bool,
    keeps_previous: bool,
    /// A step it comes after, and whether that one's failure is its own.
    after: Option<(usize, bool)>,
}

impl Group {
    fn uses(&self) -> Vec<(Window, Mode)> {
        match &self.job {
            Job::Commands(ops) => ops.iter().flat_map(Op::uses).flatten().collect(),
            Job::Task { window, .. } => vec![(*window, Mode::Keep)],
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Group(Group),
    /// Opens the gate of an earlier group, or cancels it.
    Decide {
        step: usize,
    },
    /// Waits until an earlier group has ended.
    Await {
        step: usize,
    },
    /// Changes data through a host accessor.
    Edit {
        window: Window,
        k: u32,
    },
    /// Looks at data through a host accessor.
    Look {
        window: Window,
    },
    /// Lets go of memory that stays somewhere, and asks for such memory again.
    Anew {
        buffer: usize,
    },
}

/// A program that did not do what it means.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The program's seed.
    pub seed: u64,
    /// What was different.
    pub what: String,
    /// The program.
    pub program: Program,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "program {}: {}", self.seed, self.what)?;
        for (t, thread) in self.program.threads.iter().enumerate() {
            writeln!(f, "thread {t}: {:?}", thread.buffers)?;
            for (i, step) in thread.steps.iter().enumerate() {
                writeln!(f, "  {i}: {step:?}")?;
            }
        }
        Ok(())
    }
}

/// What programs have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Programs.
    pub programs: u64,
    /// Steps of all kinds.
    pub steps: u64,
    /// Steps that failed or were cancelled, as they should.
    pub failed: u64,
    /// Memory that stays where the program has asked for it.
    pub placed: u64,
    /// Memory that a place had to refuse, and did.
    pub unplaced: u64,
    /// Kernels that were given addresses.
    pub by_address: u64,
    /// Groups that changed memory at the same time as others might.
    pub at_once: u64,
    /// How often commands used all of an image by its texels, and a box of three dimensions.
    pub by_texel: u64,
    /// See [`Tally::by_texel`].
    pub in_space: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.programs += other.programs;
        self.steps += other.steps;
        self.failed += other.failed;
        self.placed += other.placed;
        self.unplaced += other.unplaced;
        self.by_address += other.by_address;
        self.at_once += other.at_once;
        self.by_texel += other.by_texel;
        self.in_space += other.in_space;
    }
}

/// How long a program may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the programs with these seeds, until one does not do what it means.
pub fn run(world: &World, seeds: Range<u64>) -> Result<Tally, Box<Failure>> {
    let (tell, told) = mpsc::channel();
    let (worker, range) = (world.clone(), seeds.clone());
    std::thread::spawn(move || {
        for seed in range {
            let program = Program::random(seed, &worker);
            let ended = replay::run(&worker, &program);
            let bad = ended.is_err();
            if tell.send((program, ended)).is_err() || bad {
                return;
            }
        }
    });
    let mut tally = Tally::default();
    for seed in seeds {
        let failure = |what: String, program| Err(Box::new(Failure { seed, what, program }));
        match told.recv_timeout(PATIENCE) {
            Ok((_, Ok(one))) => tally += one,
            Ok((program, Err(what))) => return failure(what, program),
            Err(_) => {
                let program = Program::random(seed, world);
                return failure(format!("no end after {PATIENCE:?}"), program);
            }
        }
    }
    Ok(tally)
}
