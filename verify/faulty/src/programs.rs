//! Random programs through the whole runtime, on scripted devices, on one thread: groups of kernels, copies and fills on
//! several devices and contexts, host tasks, host accessors, futures outside, cancellations and failures, with the
//! devices' steps and the executor's polls in an order that the seed chooses.
//!
//! Each is compared with its items run one after the other on plain vectors: how every event ends, what every accessor
//! sees, every element at the end, and, where nothing fails, every byte that moved. And nothing may be left at the end,
//! in the runtime or of the devices, and no breach of the backend contract.
//!
//! [`run_with_losses`] is the same with devices that are lost at any moment, and opened again. There the model is told how each item ended
//! that could end either way, and says which of them could.

mod drive;
mod loss;
mod model;
mod program;
mod waiting;

use std::fmt;

use program::Program;

/// What a program did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// Programs.
    pub programs: u64,
    /// Groups and host accessors.
    pub items: u64,
    /// Those that ended well.
    pub well: u64,
    /// Those that failed, or were doomed by others.
    pub failed: u64,
    /// Those that were cancelled.
    pub cancelled: u64,
    /// Transfers.
    pub transfers: u64,
    /// Transfers through staging.
    pub staged: u64,
    /// Proxies.
    pub proxies: u64,
    /// Native groups.
    pub fed: u64,
    /// Programs whose moved bytes were compared.
    pub exact: u64,
    /// Items that ended with a device, or with data that went with one.
    pub lost: u64,
    /// Groups that went well on devices that were opened again.
    pub again: u64,
    /// Buffers that stayed on a device that was lost.
    pub gone: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.programs += other.programs;
        self.items += other.items;
        self.well += other.well;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.transfers += other.transfers;
        self.staged += other.staged;
        self.proxies += other.proxies;
        self.fed += other.fed;
        self.exact += other.exact;
        self.lost += other.lost;
        self.again += other.again;
        self.gone += other.gone;
    }
}

/// A program that did not do what it should, as small as could be found.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that made it.
    pub seed: u64,
    what: String,
    program: Box<Program>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, what, program } = self;
        writeln!(f, "program {seed}: {what}")?;
        let machine = Program { items: Vec::new(), ..(**program).clone() };
        writeln!(f, "{machine:?}")?;
        program.items.iter().enumerate().try_for_each(|(at, item)| writeln!(f, "{at}: {item:?}"))
    }
}

impl std::error::Error for Failure {}

/// Runs the program of a seed. One that goes wrong is made smaller as long as it still does.
pub fn run(seed: u64) -> Result<Tally, Failure> {
    run_program(Program::random(seed), seed)
}

/// The same with devices that are lost, and opened again.
pub fn run_with_losses(seed: u64) -> Result<Tally, Failure> {
    run_program(Program::with_losses(seed), seed)
}

fn run_program(mut program: Program, seed: u64) -> Result<Tally, Failure> {
    let mut what = match drive::attempt(&program, seed) {
        Ok(tally) => return Ok(tally),
        Err(what) => what,
    };
    let mut at = program.items.len();
    while at > 0 {
        at -= 1;
        let smaller = program.without(at);
        let tries = (0..8).find_map(|n| drive::attempt(&smaller, seed.wrapping_add(n)).err());
        if let Some(found) = tries {
            (program, what) = (smaller, found);
        }
    }
    Err(Failure { seed, what, program: Box::new(program) })
}
