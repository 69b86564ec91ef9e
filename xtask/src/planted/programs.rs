//! Faults that are planted into what the runtime does around its engine, one after the other, to see whether random programs on real
//! queues find them, and into how it takes the loss of devices, which random programs on scripted devices have to find.

use super::{Fault, find};
use crate::Result;

const ATTACHED: &str = "runtime/src/buffer/attached.rs";
const ELEMENTS: &str = "backends/api/src/memory/host.rs";
const FALLBACK: &str = "runtime/src/queue/fallback.rs";
const GRID: &str = "runtime/src/buffer/grid.rs";
const PLACED: &str = "runtime/src/buffer/placed.rs";
const REINTERPRET: &str = "runtime/src/buffer/reinterpret.rs";

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
    Fault(
        "the address of a part is that of the whole",
        PLACED,
        "memory?.device_address()? + binding.offset as u64",
        "memory?.device_address()? + binding.offset as u64 % 4",
    ),
    Fault(
        "a page that is written in part counts as written",
        GRID,
        "hi: each(down_to, hi)",
        "hi: each(up, hi)",
    ),
    Fault(
        "bytes that are seen as a grid are used as far as its first row",
        GRID,
        "(start % row_bytes + end - start).div_ceil(self.unit)",
        "(start % row_bytes + bytes.width).div_ceil(self.unit)",
    ),
    Fault(
        "a grid's rows are seen as far apart as it has rows",
        REINTERPRET,
        "pitch: [size[1] * size[2], size[2]]",
        "pitch: [size[1] * size[2], size[1]]",
    ),
];

/// Those in what becomes of lost devices.
const LOSSES: &[Fault] = &[
    Fault(
        "a lost device is not opened again",
        "runtime/src/runtime.rs",
        "if opened.as_ref().is_ok_and(|context| context.is_lost()) {",
        "if opened.as_ref().is_ok_and(|context| context.is_lost() && false) {",
    ),
    Fault(
        "what was on a lost device alone is not missed",
        "runtime/engine/src/segments.rs",
        "if matches!(self.content, Content::Written) && self.is_nowhere() {",
        "if false && self.is_nowhere() {",
    ),
    Fault(
        "who was cancelled leaves what was to be there, and did not come",
        "runtime/engine/src/settle.rs",
        "leaves @ None, .. }) => *leaves = Some(cause.clone()),\n                    Some(_) => continue,",
        "None, .. }) => continue,\n                    Some(_) => continue,",
    ),
    Fault(
        "what stayed on a lost device is used all the same",
        "runtime/engine/src/mapping.rs",
        "entry.stuck.as_ref().or_else(|| self.lost_with(home)).cloned()",
        "entry.stuck.as_ref().cloned()",
    ),
];

/// Plants each fault, and takes it out again.
pub(super) fn plant(words: &str) -> Result<()> {
    let of = "--package windlass-conformance --all-features";
    find(FAULTS, words, [of, "--test programs --test mixed", "-- random_programs"], "random programs")?;
    let of = "--package windlass-faulty --all-features";
    find(
        LOSSES,
        words,
        [of, "--test programs", "-- random_programs_lose"],
        "random programs that lose devices",
    )
}

#[test]
fn faults_fit_the_sources() {
    super::fit(FAULTS);
    super::fit(LOSSES);
}
