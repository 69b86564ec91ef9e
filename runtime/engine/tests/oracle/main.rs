//! A second account of what the engine has to do, and random programs on which the two must agree.
//!
//! A program is a machine (contexts, memories, devices, lanes), buffers, and a list of groups and host accessors. It
//! is planned by the engine and *run* by a simulation that does what shell, drivers, devices and host would, in a
//! random order that obeys only what the engine enforces: the order of a lane's list, native waits, gates. Checked:
//!
//! - [`account`]: edges, transfers, bytes and outcomes against a brute-force account of decisions 3 to 5, which keeps
//!   its books for every single element;
//! - [`world`]: what every group saw, and what is left, against sequential execution;
//! - [`drive`]: that everything ends, and nothing is left over.

mod account;
mod drive;
mod fewest;
mod program;
mod why;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use drive::Sim;
use program::Program;
use windlass_testkit::mix;

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stats {
    /// Programs.
    programs: u64,
    /// Groups, host accessors and steps of transfers.
    nodes: u64,
    /// Edges between them.
    edges: u64,
    /// Transfers.
    transfers: u64,
    /// Bytes that they moved, at one byte an element.
    bytes: u64,
    /// How often a root had memory from one that was going.
    inherited: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.programs += other.programs;
        self.nodes += other.nodes;
        self.edges += other.edges;
        self.transfers += other.transfers;
        self.bytes += other.bytes;
        self.inherited += other.inherited;
    }
}

/// A program on which the engine and the account differ, made as small as it goes.
struct Failure {
    /// Names the program.
    seed: u64,
    /// What is wrong.
    what: String,
    /// The smallest program found that shows it, and what happened.
    reproduction: String,
}

impl Failure {
    fn new(seed: u64, Fault(what): Fault) -> Self {
        Failure { seed, what, reproduction: String::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}\n{}", self.seed, self.what, self.reproduction)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

/// Something that is wrong.
#[derive(Debug)]
struct Fault(String);

impl Fault {
    fn new(what: impl Into<String>) -> Self {
        Fault(what.into())
    }
}

/// Runs the program with this seed.
fn agrees(seed: u64) -> Result<Stats, Failure> {
    let program = Program::random(seed);
    attempt(&program, seed, None).map_err(|fault| shrink(program, seed, fault))
}

/// The same program with every staged transfer cut into chunks of a few bytes, and staging for one at a time.
fn agrees_in_chunks(seed: u64) -> Result<Stats, Failure> {
    let program = Program::in_chunks(seed);
    attempt(&program, seed, None).map_err(|fault| shrink(program, seed, fault))
}

/// The same with roots that follow each other, some of which have memory from those before them.
fn agrees_in_succession(seed: u64) -> Result<Stats, Failure> {
    let program = Program::in_succession(seed);
    attempt(&program, seed, None).map_err(|fault| shrink(program, seed, fault))
}

/// The same with nobody looking at edges, nor at what goes in one transfer: whether groups see the right data, leave it,
/// and end as they should.
fn agrees_on_data(seed: u64) -> Result<Stats, Failure> {
    let program = Program::random(seed);
    let mut drive = drive::Drive::new(&program, seed);
    drive.account.blind = true;
    guarded(&mut drive).map_err(|fault| Failure::new(seed, fault))
}

fn attempt(program: &Program, schedule: u64, log: Option<&mut Vec<String>>) -> Result<Stats, Fault> {
    let mut drive = drive::Drive::new(program, schedule);
    drive.log = log.is_some().then(Vec::new);
    let result = guarded(&mut drive);
    if let (Some(log), Some(lines)) = (log, drive.log.take()) {
        *log = lines;
    }
    result
}

/// A panic is a fault like others.
fn guarded(drive: &mut drive::Drive<'_>) -> Result<Stats, Fault> {
    catch_unwind(AssertUnwindSafe(|| drive.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(Fault(format!("panic: {}", text.unwrap_or_default())))
    })
}

/// Drops items, and what is special about them, for as long as the engine is still wrong.
fn shrink(mut program: Program, seed: u64, fault: Fault) -> Failure {
    if std::env::var_os(UNSHRUNK).is_some() {
        return Failure::new(seed, fault);
    }
    let mut schedule = seed;
    let fails = |program: &Program, schedule: u64| {
        (0..12u64)
            .map(|i| if i == 0 { schedule } else { mix(schedule, i) })
            .find(|s| attempt(program, *s, None).is_err())
    };
    let mut smaller = true;
    while std::mem::take(&mut smaller) {
        let mut at = program.items.len();
        while at > 0 {
            at -= 1;
            let without = std::iter::once(program.without(at));
            let candidates = without.chain((0..Program::SIMPLER).filter_map(|w| program.simpler(at, w)));
            for candidate in candidates.collect::<Vec<_>>() {
                if let Some(found) = fails(&candidate, schedule) {
                    (program, schedule, smaller) = (candidate, found, true);
                    break;
                }
            }
            at = at.min(program.items.len());
        }
    }
    let mut log = Vec::new();
    let what = match attempt(&program, schedule, Some(&mut log)) {
        Ok(_) => "passes when it is run again".to_owned(),
        Err(Fault(what)) => what,
    };
    let machine = format!("{:?}\n{:?}\n{:?}", program.memories, program.devices, program.roots);
    let items: Vec<String> = program.items.iter().enumerate().map(|(i, x)| format!("{i}: {x:?}")).collect();
    let rest = format!("loss {:?}, bad copies {}", program.loss, program.bad_copies);
    let reproduction = format!("{machine}\n{rest}\n{}\n{}", items.join("\n"), log.join("\n"));
    Failure { seed, what, reproduction }
}

/// Says how many programs, from which seed on, and not to look for a smaller program that is wrong too.
const COUNT: &str = "WINDLASS_ORACLE";
const FROM: &str = "WINDLASS_ORACLE_FROM";
const UNSHRUNK: &str = "WINDLASS_ORACLE_UNSHRUNK";

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn all(run: impl Fn(u64) -> Result<Stats, Failure>) {
    let (from, count) = (number(FROM).unwrap_or(0), number(COUNT).unwrap_or(2_000));
    let mut all = Stats::default();
    for seed in from..from + count {
        all += run(seed).unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{all:?}");
}

#[test]
fn random_programs_agree() {
    all(agrees);
}

/// The same, where roots are swapped out at any moment, as if others needed the room.
fn agrees_when_swapped_out(seed: u64) -> Result<Stats, Failure> {
    agrees_with_less_room(seed, false)
}

/// The same, where some of what is asked for finds no room at first, and what is about to be replaced is given up for it.
fn agrees_when_given_up(seed: u64) -> Result<Stats, Failure> {
    agrees_with_less_room(seed, true)
}

fn agrees_with_less_room(seed: u64, lacks: bool) -> Result<Stats, Failure> {
    let mut program = Program::random(seed);
    // How those moves fail is looked at in scripts.
    (program.loss, program.bad_copies) = (None, 0);
    program.begins_pinned = lacks;
    let run = |log: bool| {
        let mut drive = drive::Drive::new(&program, seed);
        drive.account.blind = true;
        drive.swaps = Some(windlass_testkit::Rng::new(mix(seed, 0xa51de)));
        drive.lacks = lacks.then(|| windlass_testkit::Rng::new(mix(seed, 0x1ac5)));
        drive.log = log.then(Vec::new);
        (guarded(&mut drive), drive.log.take().unwrap_or_default())
    };
    run(false)
        .0
        .map_err(|fault| Failure { reproduction: run(true).1.join("\n"), ..Failure::new(seed, fault) })
}

/// Chunks move the same bytes in as many transfers and more steps, and one chunk's staging is enough for everything
/// to end.
#[test]
fn random_programs_agree_in_chunks() {
    all(agrees_in_chunks);
}

/// Memory is handed on from one root to the next where nobody waits for that who would not wait anyway, and nobody uses it who is not
/// to have it any more.
#[test]
fn random_programs_agree_in_succession() {
    all(agrees_in_succession);
}

/// What groups see, and how they end, is enough to find many faults in the order: the account of edges is not all that
/// finds them.
#[test]
fn programs_agree_on_data_alone() {
    all(agrees_on_data);
}

/// Where memory is emptied for others and filled again, nobody sees any of it.
#[test]
fn programs_agree_when_roots_are_swapped_out() {
    all(agrees_when_swapped_out);
}

/// Where groups leave what they are about to replace to others, nobody sees any of it.
#[test]
fn programs_agree_when_memory_is_given_up() {
    all(agrees_when_given_up);
}
