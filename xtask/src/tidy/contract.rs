//! Rules about the contract between the runtime and its backends: there is nothing in it that nobody uses, and the page on it
//! quotes code that is compiled and run.
//!
//! What is looked at is found in the text of `backends/api/src/`: the public fields of its structs and the methods of its
//! traits. A field has to be *set* on the side that makes its struct, and *read* on the other side; a method has to be
//! *implemented* on the one side, and *called* on the other.
//!
//! This is a search for words, not for types, and so it cannot see everything:
//!
//! - It knows no receivers but `self`, which is never a thing of the contract's. `.name` on any other value passes for a read of
//!   every field that is called `name`, whosever it is, and `.open(` for a call of every method that is called `open`. It finds
//!   what nobody names, and not what is named for something else.
//! - A read whose value is then ignored is a read; so is one in code that never runs.
//! - A field counts as set where a function of its struct's that takes its value is called, whatever value that is; where it
//!   is assigned to; and, if other crates may write the struct out, where a literal (or a pattern, which looks the same) names it.
//! - Enums, tuple structs and functions outside traits are not looked at.

use super::Breach;
use super::declared::{Declared, Kind, declared};
use super::tree::{File, Tree};
use super::words::{ends_with_word, has_word, literals, words};

/// Structs that backends make and the runtime reads.
const TOLD_BY_BACKENDS: &[&str] = &[
    "ClockSample",
    "ContextInfo",
    "DeviceInfo",
    "Failed",
    "ImageLimits",
    "KernelLimits",
    "KernelReport",
    "LaneDepth",
    "Limits",
    "MemoryInfo",
    "NativeQueue",
    "Platform",
    "Timed",
    "Unavailable",
    "Usage",
    "Verdict",
];

/// Structs that backends make and programs read, which the runtime only hands on.
const TOLD_TO_PROGRAMS: &[&str] = &["Cache", "Details", "Floats", "VectorWidths"];

/// Structs that the runtime makes and backends read.
const TOLD_BY_THE_RUNTIME: &[&str] = &[
    "BufferArg",
    "ContextSpec",
    "CopyBox",
    "Fill",
    "Group",
    "HostLaunch",
    "ImageArg",
    "ImageShape",
    "Keeps",
    "LaneSpec",
    "Launch",
    "Node",
    "Region",
    "Texels",
    "Wait",
];

/// Traits that backends implement and the runtime calls.
const DONE_BY_BACKENDS: &[&str] = &["Allocation", "Backend", "BuiltKernel", "Context", "Lane"];

/// Traits that the runtime implements and backends call.
const DONE_BY_THE_RUNTIME: &[&str] = &["ContextSink", "LaneSink", "NativeCode"];

/// What is in the contract and not used on both sides, and why. An entry that is not needed any more is a breach.
const EXCUSED: &[(&str, &str)] = &[
    ("DeviceInfo::details", FOR_PROGRAMS),
    ("DeviceInfo::driver", FOR_PROGRAMS),
    ("Unavailable::remedy", "programs read it, through `Runtime::backends`, and its `Display` says it"),
];
const FOR_PROGRAMS: &str = "programs read it, through `Device::info`";

/// Where the traits and descriptors are.
const CONTRACT: &str = "backends/api/src/";

/// The runtime's sources.
const RUNTIME: &[&str] = &["runtime/src/"];

/// The backends' sources, with the book that all of them report through.
const BACKENDS: &[&str] = &[
    "backends/api/src/completion.rs",
    "backends/host/src/",
    "backends/opencl/src/",
    "backends/wgpu/src/",
    "verify/faulty/src/",
];

/// Random programs are users of the runtime, and stand beside the scripted backend.
const NO_BACKEND: &str = "verify/faulty/src/programs";

pub(super) fn used_on_both_sides(tree: &Tree) -> Vec<Breach> {
    let (runtime, backends) = (Side::of(tree, RUNTIME), Side::of(tree, BACKENDS));
    let mut breaches = Vec::new();
    let mut unused = Vec::new();
    for item in tree.shipped().filter(|file| file.path.starts_with(CONTRACT)).flat_map(declared) {
        let owner = item.owner.as_str();
        let handed_on = TOLD_TO_PROGRAMS.contains(&owner);
        let backends_give = handed_on || [TOLD_BY_BACKENDS, DONE_BY_BACKENDS].concat().contains(&owner);
        let (giver, taker, names) = match backends_give {
            true => (&backends, &runtime, ["backend", "runtime"]),
            false if [TOLD_BY_THE_RUNTIME, DONE_BY_THE_RUNTIME].concat().contains(&owner) => {
                (&runtime, &backends, ["runtime", "backend"])
            }
            false => {
                breaches.push(format!("{}: `{owner}` is in no list of xtask/src/tidy/contract.rs", item.at));
                continue;
            }
        };
        let [given, taken] = match item.kind {
            Kind::Field { .. } => ["sets", "reads"],
            Kind::Method => ["implements", "calls"],
        };
        let wrong = match (giver.gives(&item), handed_on || taker.takes(&item)) {
            (true, true) => continue,
            (false, _) => format!("no {} {given} it", names[0]),
            (true, false) => format!("no {} {taken} it", names[1]),
        };
        unused.push((format!("{owner}::{}", item.name), format!("{}: ", item.at), wrong));
    }
    let is_listed = |name: &str| EXCUSED.iter().any(|(listed, _)| *listed == name);
    let found = unused.iter().filter(|(name, ..)| !is_listed(name));
    breaches.extend(found.map(|(name, at, wrong)| format!("{at}`{name}` is in the contract, but {wrong}")));
    // A tree without the contract's first page is a test's, which has no need for what is missing in it.
    if tree.has(&format!("{CONTRACT}lib.rs")) {
        let stale = EXCUSED.iter().filter(|(listed, _)| !unused.iter().any(|(name, ..)| name == listed));
        breaches.extend(stale.map(|(name, why)| {
            format!("`{name}` is listed in xtask/src/tidy/contract.rs ({why}), which is no longer needed")
        }));
    }
    breaches
}

/// The code of one side, file by file, without comments and unit tests.
struct Side(Vec<String>);

impl Side {
    fn of(tree: &Tree, folders: &[&str]) -> Side {
        let own = |file: &&File| folders.iter().any(|folder| file.path.starts_with(folder));
        let files = tree.shipped().filter(own).filter(|file| !file.path.starts_with(NO_BACKEND));
        Side(files.map(|file| file.code().map(|(_, line)| format!("{line}\n")).collect()).collect())
    }

    fn any(&self, found: impl Fn(&str) -> bool) -> bool {
        self.0.iter().any(|text| found(text))
    }

    /// Whether this side sets the field or implements the method.
    fn gives(&self, item: &Declared) -> bool {
        let Declared { owner, name, kind, .. } = item;
        match kind {
            Kind::Method => self.any(|text| implements(text, owner, name)),
            Kind::Field { setters, open } => {
                let calls = |text: &str| setters.iter().any(|setter| has_word(text, setter));
                let assigns = [format!(".{name} = "), format!(".{name}.push("), format!(".{name} |= ")];
                let assigned = |text: &str| assigns.iter().any(|form| text.contains(form.as_str()));
                self.any(|text| calls(text) || assigned(text) || *open && names_in_literal(text, owner, name))
            }
        }
    }

    /// Whether this side reads the field or calls the method.
    fn takes(&self, item: &Declared) -> bool {
        let Declared { owner, name, kind, .. } = item;
        self.any(|text| match kind {
            Kind::Method => calls(text, name),
            Kind::Field { .. } => reads(text, name) || names_in_literal(text, owner, name),
        })
    }
}

/// Whether an implementation of this trait has a function of this name.
fn implements(text: &str, owner: &str, name: &str) -> bool {
    let head = format!(" {owner} for ");
    text.match_indices(&head).any(|(at, _)| {
        let body = &text[at..];
        let body = &body[..body.find("\n}").unwrap_or(body.len())];
        has_word(body, &format!("fn {name}(")) || has_word(body, &format!("fn {name}<"))
    })
}

/// Whether some value's field of this name is named, and not to be assigned to.
fn reads(text: &str, name: &str) -> bool {
    behind(text, &format!(".{name}")).any(|rest| {
        let longer = rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '(');
        !longer && !rest.starts_with(" = ")
    })
}

/// Whether some value's method of this name is called.
fn calls(text: &str, name: &str) -> bool {
    behind(text, &format!(".{name}(")).next().is_some()
}

/// What stands behind each place where something other than `self` is accessed like this.
fn behind<'a>(text: &'a str, access: &'a str) -> impl Iterator<Item = &'a str> {
    let others = text.match_indices(access).filter(|(at, _)| !ends_with_word(&text[..*at], "self"));
    others.map(|(at, _)| &text[at + access.len()..])
}

/// Whether a literal or a pattern of this struct names the field.
fn names_in_literal(text: &str, owner: &str, name: &str) -> bool {
    literals(text, owner).any(|inside| words(inside).any(|word| word == name))
}

/// The page on backends, and the example that it quotes.
const PAGE: &str = "docs/backend.md";
const EXAMPLE: &str = "verify/conformance/tests/example_backend";

pub(super) fn page_quotes_the_example(tree: &Tree) -> Vec<Breach> {
    let Some(page) = tree.text(PAGE) else { return vec![format!("{PAGE} is not there")] };
    let mut breaches = Vec::new();
    let mut quote: Option<(usize, String)> = None;
    for (i, line) in page.lines().enumerate() {
        match quote.take() {
            None if line.starts_with("```rust") => quote = Some((i + 1, String::new())),
            None => {}
            Some((at, text)) if line.starts_with("```") => {
                let example = tree.rust().filter(|file| file.path.starts_with(EXAMPLE));
                if !example.into_iter().any(|file| file.text.contains(text.trim_end())) {
                    breaches.push(format!("{PAGE}:{at}: this is not in {EXAMPLE}/"));
                }
            }
            Some((at, text)) => quote = Some((at, text + line + "\n")),
        }
    }
    breaches
}
