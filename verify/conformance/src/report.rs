//! Running the suite, and what came of it.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use crate::cases::{Case, cases};
use crate::check::Problem;
use crate::subject::Subject;

/// How long a case may take before it counts as hanging.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is as it should be.
    Passed,
    /// The device says that it cannot do this.
    Unsupported(String),
    /// Something is wrong.
    Failed(String),
}

/// What came of the suite on one subject.
#[derive(Clone, Debug)]
pub struct Report {
    /// The subject's name.
    pub subject: String,
    /// Each case's outcome, in the order of [`cases`].
    pub outcomes: Vec<(&'static Case, Outcome)>,
}

/// Runs all cases.
pub fn run(subject: &Subject) -> Report {
    run_some(subject, |_| true)
}

/// Runs some cases.
pub fn run_some(subject: &Subject, wanted: impl Fn(&Case) -> bool) -> Report {
    let chosen = cases().iter().filter(|case| wanted(case));
    let outcomes = chosen.map(|case| (case, run_case(subject, case))).collect();
    Report { subject: subject.name.clone(), outcomes }
}

/// Runs a case on a thread of its own, so that one that hangs does not hang the suite.
fn run_case(subject: &Subject, case: &'static Case) -> Outcome {
    let (tell, told) = mpsc::channel();
    let subject = subject.clone();
    let body = move || {
        let run = || futures_lite::future::block_on((case.run)(&subject));
        let outcome = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(())) => Outcome::Passed,
            Ok(Err(Problem::Unsupported(what))) => Outcome::Unsupported(what),
            Ok(Err(Problem::Wrong(what))) => Outcome::Failed(what),
            Err(_) => Outcome::Failed("the case panicked".into()),
        };
        let _ = tell.send(outcome);
    };
    if let Err(error) = std::thread::Builder::new().name(case.name.into()).spawn(body) {
        return Outcome::Failed(format!("no thread to run on: {error}"));
    }
    told.recv_timeout(PATIENCE).unwrap_or_else(|_| Outcome::Failed(format!("no end after {PATIENCE:?}")))
}

impl Report {
    /// A table of the cases, for a backend's own documentation.
    pub fn markdown(&self) -> String {
        let mut text = format!("| rows | case | {} |\n|---|---|---|\n", self.subject);
        for (case, outcome) in &self.outcomes {
            let rows: Vec<_> = case.rows.iter().map(u8::to_string).collect();
            let cell = match outcome {
                Outcome::Passed => "passes".to_owned(),
                Outcome::Unsupported(why) => format!("unsupported: {}", why.replace(['|', '\n'], " ")),
                Outcome::Failed(what) => format!("**fails**: {}", what.replace(['|', '\n'], " ")),
            };
            let _ = writeln!(text, "| {} | `{}` | {cell} |", rows.join(", "), case.name);
        }
        text
    }

    /// Compares with the cases that are expected to be unsupported, each with its reason: a difference in either
    /// direction is an error, which lists all of them.
    pub fn compare(&self, unsupported: &[(&str, &str)]) -> Result<(), String> {
        let mut text = String::new();
        for (case, outcome) in &self.outcomes {
            let pinned = unsupported.iter().any(|(name, _)| *name == case.name);
            let _ = match (outcome, pinned) {
                (Outcome::Passed, false) | (Outcome::Unsupported(_), true) => Ok(()),
                (Outcome::Passed, true) => {
                    writeln!(text, "{}: passes, though it is expected to be unsupported", case.name)
                }
                (Outcome::Unsupported(what), false) => {
                    writeln!(text, "{}: unexpectedly unsupported: {what}", case.name)
                }
                (Outcome::Failed(what), _) => writeln!(text, "{}: {what}", case.name),
            };
        }
        match text.is_empty() {
            true => Ok(()),
            false => Err(format!("{} does not conform:\n{text}", self.subject)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome) -> Report {
        Report { subject: "mine".into(), outcomes: vec![(&cases()[0], outcome)] }
    }

    #[test]
    fn a_difference_in_either_direction_is_an_error() {
        let name = cases()[0].name;
        let lacks = || Outcome::Unsupported("no such | thing".into());
        assert_eq!(report(Outcome::Passed).compare(&[]), Ok(()));
        assert_eq!(report(lacks()).compare(&[(name, "why")]), Ok(()));
        for (outcome, pinned) in [
            (Outcome::Passed, true),
            (lacks(), false),
            (Outcome::Failed("it is wrong".into()), false),
            (Outcome::Failed("it is wrong".into()), true),
        ] {
            let pinned: &[(&str, &str)] = if pinned { &[(name, "why")] } else { &[] };
            let text = report(outcome).compare(pinned).expect_err("it differs");
            assert!(text.contains(name) && text.contains("mine"), "{text}");
        }
    }

    #[test]
    fn a_table_has_a_line_for_each_case() {
        let text = report(Outcome::Unsupported("no such | thing".into())).markdown();
        assert!(text.contains("unsupported: no such   thing |\n"), "{text}");
    }

    #[test]
    fn unknown_names_have_nothing_pinned() {
        assert!(crate::expected::of("mine").is_empty());
    }
}
