//! Faults that are planted into the engine. Each is found by a random program of the oracle, named by its seed, or by a
//! script.
//!
//! They are planted into a copy of the crate in the target folder, and built there: the checkout is never touched,
//! however a run ends.

mod data;
mod ends;
mod heirs;
mod homes;
mod order;
mod swap;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{replaced, verdict};
use crate::Result;
use crate::process::Process;

/// A fault: what it is, what finds it, and which text of which source of the engine becomes which.
struct Fault {
    what: &'static str,
    found: &'static [Found],
    changes: &'static [Change],
}

/// What finds a fault.
#[derive(Clone, Copy)]
enum Found {
    /// The oracle, in the program of this seed.
    Seed(u64),
    /// The oracle in the program of this seed, with nobody looking at edges: the data shows it.
    OnData(u64),
    /// The oracle in the program of this seed, where roots are swapped out.
    Swapped(u64),
    /// The oracle in the program of this seed, in chunks, and with roots that begin in pinned memory.
    InChunks(u64),
    /// The oracle in the program of this seed, with roots that follow each other.
    InSuccession(u64),
    /// A test of those by script.
    Script(&'static str),
}

/// A file of `runtime/engine/src`, the right text, and the wrong one.
type Change = (&'static str, &'static str, &'static str);

/// All of them.
fn faults() -> impl Iterator<Item = &'static Fault> {
    let lists = [order::FAULTS, data::FAULTS, ends::FAULTS, homes::FAULTS, heirs::FAULTS, swap::FAULTS];
    lists.into_iter().flatten()
}

/// Plants those faults whose description has these words.
pub(super) fn plant(words: &str) -> Result<()> {
    look_for(&faults().filter(|fault| fault.what.contains(words)).collect::<Vec<_>>())
}

/// How many faults there are for each in the sample.
const EACH: usize = 8;

/// Plants some of the faults: enough to see that faults are found at all.
pub(crate) fn sample() -> Result<()> {
    look_for(&faults().step_by(EACH).collect::<Vec<_>>())
}

fn look_for(faults: &[&Fault]) -> Result<()> {
    let copy = Copy::new();
    copy.restore()?;
    let tests = copy.build("the engine as it is")?;
    for found in faults.iter().flat_map(|fault| fault.found) {
        if !tests.pass(*found)? {
            return Err(format!("{} fails without any fault", found.name()));
        }
    }
    let mut missed = Vec::new();
    for fault in faults {
        copy.restore()?;
        copy.plant(fault)?;
        let tests = copy.build(fault.what)?;
        for found in fault.found {
            let passes = tests.pass(*found)?;
            println!("{}  {}: {}", if passes { "MISSED" } else { "FOUND " }, fault.what, found.name());
            if passes {
                missed.push(fault.what);
            }
        }
    }
    println!("{} faults", faults.len());
    verdict("the engine's tests", &missed)
}

/// The tests of the copy, built.
struct Tests {
    oracle: PathBuf,
    script: PathBuf,
}

/// A test that takes longer has been sent round in circles by a fault.
const TIME: Duration = Duration::from_secs(60);

impl Tests {
    /// Whether what should find a fault finds none.
    fn pass(&self, found: Found) -> Result<bool> {
        let oracle = |test: &str, seed: u64| {
            let one = Process::new(&self.oracle).env("WINDLASS_ORACLE", "1");
            let one = one.env("WINDLASS_ORACLE_FROM", seed.to_string()).env("WINDLASS_ORACLE_UNSHRUNK", "1");
            one.args(["--exact", test])
        };
        let test = match found {
            Found::Seed(seed) => oracle("random_programs_agree", seed),
            Found::OnData(seed) => oracle("programs_agree_on_data_alone", seed),
            Found::Swapped(seed) => oracle("programs_agree_when_roots_are_swapped_out", seed),
            Found::InSuccession(seed) => oracle("random_programs_agree_in_succession", seed),
            Found::InChunks(seed) => oracle("random_programs_agree_in_chunks", seed),
            Found::Script(test) => Process::new(&self.script).args(["--exact", test]),
        };
        match test.quietly_within(TIME)? {
            Some(0) => Ok(true),
            Some(_) => Ok(false),
            None => Err(format!("{} does not end", found.name())),
        }
    }
}

impl Found {
    fn name(self) -> String {
        match self {
            Found::Seed(seed) => format!("seed {seed}"),
            Found::OnData(seed) => format!("seed {seed} on data alone"),
            Found::Swapped(seed) => format!("seed {seed} where roots are swapped out"),
            Found::InSuccession(seed) => format!("seed {seed} in succession"),
            Found::InChunks(seed) => format!("seed {seed} in chunks"),
            Found::Script(test) => test.to_owned(),
        }
    }
}

/// A workspace in the target folder that has copies of the engine, and of what its tests use, as its only members.
struct Copy {
    root: PathBuf,
}

/// The engine's folder.
const ENGINE: &str = "runtime/engine";

/// What its tests use.
const TESTKIT: &str = "verify/testkit";

impl Copy {
    fn new() -> Self {
        Copy { root: crate::root().join("target/planted") }
    }

    /// Makes the copy equal to the checkout. Files that are equal are left alone, so that nothing is built in vain.
    fn restore(&self) -> Result<()> {
        let manifest = read(&crate::root().join("Cargo.toml"))?;
        write(&self.root.join("Cargo.toml"), &workspace_of_copies(&manifest)?)?;
        let lock = self.root.join("Cargo.lock");
        if !lock.exists() {
            write(&lock, &read(&crate::root().join("Cargo.lock"))?)?;
        }
        mirror(&crate::root().join(TESTKIT), &self.root.join(TESTKIT))?;
        mirror(&crate::root().join(ENGINE), &self.root.join(ENGINE))
    }

    fn plant(&self, fault: &Fault) -> Result<()> {
        for (file, right, wrong) in fault.changes {
            let path = self.root.join(ENGINE).join("src").join(file);
            write(&path, &replaced(fault.what, file, &read(&path)?, right, wrong)?)?;
        }
        Ok(())
    }

    fn build(&self, what: &str) -> Result<Tests> {
        let cargo = Process::cargo()
            .words("test --quiet --no-run --test oracle --test script --message-format=json --manifest-path");
        let cargo = cargo.args([self.root.join("Cargo.toml")]).words("--target-dir");
        let cargo = cargo.args([self.root.join("target")]);
        // Each build differs by a few lines from the one before. What is unused with a fault is so on purpose.
        let cargo = cargo.env("CARGO_INCREMENTAL", "1").env("RUSTFLAGS", "--cap-lints=allow");
        let messages = cargo.printed().map_err(|error| format!("{what} is not built: {error}"))?;
        let executable = |test: &str| {
            let of_test = messages.lines().find(|line| line.contains(&format!("tests/{test}/main.rs")))?;
            let path = of_test.split("\"executable\":\"").nth(1)?.split('"').next()?;
            Some(PathBuf::from(path))
        };
        match (executable("oracle"), executable("script")) {
            (Some(oracle), Some(script)) => Ok(Tests { oracle, script }),
            _ => Err(format!("with {what} cargo does not say where the tests are")),
        }
    }
}

/// The workspace's manifest with the copies as its only members, and a profile in which it is built at once.
fn workspace_of_copies(manifest: &str) -> Result<String> {
    let part = |from: &str, to: &str| {
        let (_, rest) = manifest.split_once(from)?;
        Some(format!("{from}{}", rest.split_once(to)?.0))
    };
    let shared = part("[workspace.package]", "[profile.").ok_or("Cargo.toml has no `[workspace.package]`")?;
    let members = format!("[workspace]\nresolver = \"3\"\nmembers = [\"{ENGINE}\", \"{TESTKIT}\"]\n\n");
    Ok(format!(
        "{members}{shared}[profile.dev]\ndebug = false\n\n[profile.dev.package.\"*\"]\nopt-level = 1\n"
    ))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes a file that is to have this text, if it has another.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Makes one folder of text files equal to another.
fn mirror(from: &Path, to: &Path) -> Result<()> {
    let failed = |at: &Path| {
        let at = at.display().to_string();
        move |error: std::io::Error| format!("{at}: {error}")
    };
    fs::create_dir_all(to).map_err(failed(to))?;
    for entry in fs::read_dir(to).map_err(failed(to))? {
        let there = entry.map_err(failed(to))?.path();
        let source = from.join(there.file_name().unwrap_or_default());
        if there.is_dir() && !source.is_dir() {
            fs::remove_dir_all(&there).map_err(failed(&there))?;
        } else if there.is_file() && !source.is_file() {
            fs::remove_file(&there).map_err(failed(&there))?;
        }
    }
    for entry in fs::read_dir(from).map_err(failed(from))? {
        let source = entry.map_err(failed(from))?.path();
        let there = to.join(source.file_name().unwrap_or_default());
        match source.is_dir() {
            true => mirror(&source, &there)?,
            false => write(&there, &read(&source)?)?,
        }
    }
    Ok(())
}

#[test]
fn faults_fit_the_sources() {
    let mut unfit = Vec::new();
    for fault in faults() {
        assert!(!fault.found.is_empty() && !fault.changes.is_empty(), "{}", fault.what);
        for (file, right, wrong) in fault.changes {
            let text = read(&crate::root().join(ENGINE).join("src").join(file)).unwrap();
            unfit.extend(replaced(fault.what, file, &text, right, wrong).err());
        }
    }
    assert!(unfit.is_empty(), "{}", unfit.join("\n"));
}
