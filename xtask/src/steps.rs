//! A run of several steps: a header for each, its time, and a table at the end.

use std::time::{Duration, Instant};

use crate::Result;

/// The steps so far.
#[derive(Default)]
pub(crate) struct Steps {
    done: Vec<(&'static str, Duration, Result<()>)>,
}

impl Steps {
    /// Runs a step, whatever became of those before it: one run is to show everything that is wrong.
    pub(crate) fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) {
        println!("\n==== {name} ====");
        let start = Instant::now();
        let result = work();
        let took = start.elapsed();
        match &result {
            Ok(()) => println!("---- {name}: ok in {:.1} s", took.as_secs_f64()),
            Err(problem) => println!("---- {name}: FAILED after {:.1} s: {problem}", took.as_secs_f64()),
        }
        self.done.push((name, took, result));
    }

    /// Prints the table; fails if a step did.
    pub(crate) fn finish(self) -> Result<()> {
        println!("\n==== steps ====");
        let mut total = Duration::ZERO;
        for (name, took, result) in &self.done {
            total += *took;
            let verdict = if result.is_ok() { "ok" } else { "FAILED" };
            println!("{name:<44} {:>8.1} s  {verdict}", took.as_secs_f64());
        }
        println!("{:<44} {:>8.1} s", "together", total.as_secs_f64());
        let failed: Vec<&str> =
            self.done.iter().filter(|(.., result)| result.is_err()).map(|(name, ..)| *name).collect();
        match failed.is_empty() {
            true => Ok(()),
            false => Err(format!("failed: {}", failed.join(", "))),
        }
    }
}
