//! Faults that are planted into what the runtime does around its engine, one after the other, to see whether random programs on real
//! queues find them.

use super::{Fault, find};
use crate::Result;

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
    let of = "--package windlass-conformance --all-features";
    find(FAULTS, words, [of, "--test programs --test mixed", "-- random_programs"], "random programs")
}

#[test]
fn faults_fit_the_sources() {
    super::fit(FAULTS);
}
