//! Faults that are planted into unsafe code, and into what it relies on, one after the other, to see whether
//! AddressSanitizer finds them in the tests that it is given.

use super::{verdict, with_fault};
use crate::Result;
use crate::watched::sanitized;

/// A fault: what it is, where, which text becomes which, which tests look for it, and what has to be said of it.
struct Fault {
    what: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    tests: &'static str,
    said: &'static str,
}

const OUTSIDE: &str = "buffer-overflow";
const FREED: &str = "heap-use-after-free";
const LEAKED: &str = "LeakSanitizer";

const HOST_MEMORY: &str = "backends/api/src/memory/host.rs";
const HOST_KERNEL: &str = "backends/host/src/kernel.rs";
const HOST_COPIES: &str = "backends/host/src/memory.rs";
const INBOX: &str = "sync/src/inbox.rs";

const FAULTS: &[Fault] = &[
    Fault {
        what: "a span has one element too many",
        file: "kernel/src/memory/span.rs",
        right: "if at >= self.len() {",
        wrong: "if at > self.len() {",
        tests: "--test host_kernels",
        said: OUTSIDE,
    },
    Fault {
        what: "a vector's memory is given back and freed",
        file: HOST_MEMORY,
        right: "let this = std::mem::ManuallyDrop::new(self);",
        wrong: "let this = self;",
        tests: "--lib",
        said: FREED,
    },
    Fault {
        what: "memory is never freed",
        file: HOST_MEMORY,
        right: "if self.layout.size() != 0 {",
        wrong: "if self.layout.size() == 1 {",
        tests: "--lib",
        said: LEAKED,
    },
    Fault {
        what: "a dropped buffer's memory is freed under the groups that use it",
        file: "runtime/engine/src/root.rs",
        right: "entry.released = true;",
        wrong: "entry.released = true;
                for (_, slot) in std::mem::take(&mut entry.slots) {
                    if let Slot::Ready(memory) = slot {
                        turn.freed.push(memory);
                    }
                }",
        tests: "--test endings",
        said: FREED,
    },
    Fault {
        what: "a kernel's values are freed before it runs",
        file: HOST_KERNEL,
        right: "Some(values) => kernel.body.keeping(Arc::new(values)),",
        wrong: "Some(values) => kernel.body.keeping(Arc::new(drop(values))),",
        tests: "--test lane",
        said: FREED,
    },
    Fault {
        what: "a pattern is written beyond its row",
        file: HOST_COPIES,
        right: "let more = done.min(width - done);",
        wrong: "let more = done;",
        tests: "--test lane",
        said: OUTSIDE,
    },
    Fault {
        what: "a copied row is a byte too long",
        file: HOST_COPIES,
        right: "unsafe { ptr::copy(from, to, self.from.region.width) }",
        wrong: "unsafe { ptr::copy(from, to, self.from.region.width + 1) }",
        tests: "--test lane",
        said: OUTSIDE,
    },
    Fault {
        what: "a message's node is not freed",
        file: INBOX,
        right: "let owned = unsafe { Box::from_raw(self.first) };",
        wrong: "let owned = unsafe { self.first.read() };",
        tests: "--test combining",
        said: LEAKED,
    },
    Fault {
        what: "a closed executor keeps its tasks",
        file: "sync/src/executor.rs",
        right: "for (_, task) in tasks {\n            task.end();\n        }",
        wrong: "drop(tasks);",
        tests: "--test executor",
        said: LEAKED,
    },
];

/// Plants each fault, and takes it out again.
pub(super) fn plant(words: &str) -> Result<()> {
    let faults: Vec<&Fault> = FAULTS.iter().filter(|fault| fault.what.contains(words)).collect();
    for tests in faults.iter().map(|fault| fault.tests) {
        if !sanitized()?.words(tests).complained()?.0 {
            return Err(format!("{tests} fails without any fault"));
        }
    }
    let mut missed = Vec::new();
    for fault in faults {
        let found = fault.is_found()?;
        println!("{}  {}: {}", if found { "FOUND " } else { "MISSED" }, fault.what, fault.said);
        if !found {
            missed.push(fault.what);
        }
    }
    verdict("tests under AddressSanitizer", &missed)
}

impl Fault {
    fn is_found(&self) -> Result<bool> {
        let look = || sanitized().and_then(|tests| tests.words(self.tests).complained());
        let (passes, said) = with_fault(self.what, self.file, self.right, self.wrong, look)??;
        match said.contains("could not compile") {
            true => Err(format!("with the fault \"{}\" nothing is built:\n{said}", self.what)),
            // Other tests may fail as well: only what the sanitizer itself says counts.
            false => Ok(!passes && said.contains(self.said)),
        }
    }
}

#[test]
fn faults_fit_the_sources() {
    for Fault { what, file, right, wrong, .. } in FAULTS {
        let text = std::fs::read_to_string(crate::root().join(file)).unwrap_or_default();
        super::replaced(what, file, &text, right, wrong).unwrap();
    }
}
