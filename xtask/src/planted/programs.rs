//! Faults that are planted into what the runtime does around its engine, one after the other, to see whether random programs on real
//! queues find them.

use super::{Fault, verdict, with_fault};
use crate::Result;
use crate::checks::PROFILE;
use crate::process::Process;

const ATTACHED: &str = "runtime/src/buffer/attached.rs";
const ELEMENTS: &str = "backends/api/src/memory/host.rs";
const FALLBACK: &str = "runtime/src/queue/fallback.rs";

const FAULTS: &[Fault] = &[
    Fault("what is attached is as it was", ATTACHED, "if !self.is_written() {", "if self.is_written() {"),
    Fault(
        "what comes home is zeros",
        ATTACHED,
        "buffer.into_vec_from_now_on()",
        "async move { Ok(vec![T::zero(); buffer.len()]) }",
    ),
    Fault(
        "an owner's elements begin later",
        ELEMENTS,
        "let start = NonNull::from(elements).cast();",
        "let start = NonNull::from(elements.split_at_mut(elements.len().min(1)).1).cast();",
    ),
    Fault("the first queue is asked twice", FALLBACK, "submit(other).map_err(", "submit(self).map_err("),
];

/// Plants each fault, and takes it out again.
pub(super) fn plant(words: &str) -> Result<()> {
    let mut missed = Vec::new();
    for Fault(what, file, right, wrong) in FAULTS.iter().filter(|fault| fault.0.contains(words)) {
        let test = |then: &str| {
            let all = "test --package windlass-conformance --all-features";
            Process::cargo().words(all).words(PROFILE).words("--test programs --test mixed").words(then).run()
        };
        let look = || {
            test("--no-run")?;
            Ok::<bool, String>(test("-- random_programs").is_err())
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
    verdict("random programs", &missed)
}

#[test]
fn faults_fit_the_sources() {
    super::fit(FAULTS);
}
