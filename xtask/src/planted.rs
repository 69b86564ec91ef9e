//! Faults that are planted into sources, one after the other, to see whether the tests that should find them do.

mod engine;
mod kernel;
mod memory;
mod programs;
mod rows;

use std::fs;

use crate::Result;
use crate::checks::PROFILE;
use crate::process::Process;

pub(crate) use engine::sample as sample_of_engine;
pub(crate) use kernel::sample as sample_of_kernels;

/// `planted engine|kernel|memory|programs|rows [WORDS]`: those faults whose description has these words.
pub(crate) fn planted(rest: &[String]) -> Result<()> {
    let (of, words) = match rest {
        [of] => (of.as_str(), String::new()),
        [of, words @ ..] => (of.as_str(), words.join(" ")),
        [] => ("", String::new()),
    };
    match of {
        "engine" => engine::plant(&words),
        "kernel" => kernel::plant(&words),
        "memory" => memory::plant(&words),
        "programs" => programs::plant(&words),
        "rows" => rows::plant(&words),
        _ => Err("usage: cargo xtask planted engine|kernel|memory|programs|rows [WORDS]".into()),
    }
}

/// A fault: what it is, where, and which text becomes which.
struct Fault(&'static str, &'static str, &'static str, &'static str);

/// Whether faults can still be planted into the sources as they are.
#[cfg(test)]
fn fit(faults: &[Fault]) {
    for Fault(what, file, right, wrong) in faults {
        let text = fs::read_to_string(crate::root().join(file)).unwrap_or_default();
        replaced(what, file, &text, right, wrong).unwrap();
    }
}

/// The text of a file with a fault in it. The right text has to stand there once, so that it is clear where the fault is.
fn replaced(what: &str, file: &str, text: &str, right: &str, wrong: &str) -> Result<String> {
    match text.matches(right).count() {
        1 => Ok(text.replace(right, wrong)),
        0 => Err(format!("`{right}` is not in {file}: the fault \"{what}\" has to be written anew")),
        n => Err(format!("`{right}` is in {file} {n} times: the fault \"{what}\" has to be written anew")),
    }
}

/// Runs something with a fault in a file of the checkout, and takes the fault out again.
fn with_fault<T>(what: &str, file: &str, right: &str, wrong: &str, run: impl FnOnce() -> T) -> Result<T> {
    let path = crate::root().join(file);
    let failed = |error: std::io::Error| format!("{file}: {error}");
    let text = fs::read_to_string(&path).map_err(failed)?;
    fs::write(&path, replaced(what, file, &text, right, wrong)?).map_err(failed)?;
    let ended = run();
    fs::write(&path, text).map_err(failed)?;
    Ok(ended)
}

/// Plants those faults whose description has these words, one after the other, and runs tests with each: of what, in which programs, and
/// which of them. They are built first, since what is not built finds nothing.
fn find(faults: &[Fault], words: &str, [of, programs, which]: [&str; 3], called: &str) -> Result<()> {
    let mut missed = Vec::new();
    for Fault(what, file, right, wrong) in faults.iter().filter(|fault| fault.0.contains(words)) {
        let test = |then: &str| {
            let cargo = Process::cargo().words("test").words(of).words(PROFILE);
            cargo.words(programs).words(then).run()
        };
        let look = || {
            test("--no-run")?;
            Ok::<bool, String>(test(which).is_err())
        };
        match with_fault(what, file, right, wrong, look)? {
            Ok(true) => println!("FOUND   {what}"),
            Ok(false) => {
                println!("MISSED  {what}");
                missed.push(*what);
            }
            Err(_) => return Err(format!("with the fault \"{what}\" nothing is built")),
        }
    }
    verdict(called, &missed)
}

/// What a run has come to.
fn verdict(tests: &str, missed: &[&str]) -> Result<()> {
    match missed {
        [] => Ok(()),
        _ => Err(format!("{tests} did not find: {}", missed.join("; "))),
    }
}
