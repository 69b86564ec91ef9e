//! The repository keeps its own rules, and each rule sees what breaks it.

use xtask::tidy::{RULES, Tree};

fn breaches(rule: &str, tree: &Tree) -> Vec<String> {
    let (_, check) = RULES.iter().find(|(name, _)| *name == rule).expect("a rule is asked for by its name");
    check(tree)
}

#[test]
fn the_repository_is_tidy() {
    let tree = Tree::read(&xtask::root()).expect("the repository can be read");
    let broken: Vec<String> = RULES
        .iter()
        .flat_map(|(name, rule)| rule(&tree).into_iter().map(move |b| format!("{name}: {b}")))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

const CONTRACT: &str = "the contract has nothing that only one side uses";

const TIMED: &str =
    "/// x\n#[non_exhaustive]\npub struct Timed {\n    /// Nanoseconds.\n    pub started: u64,\n}\n";

/// For each rule a tree that breaks it, once, so that no rule is one that cannot fail.
#[test]
fn every_rule_can_be_broken() {
    let long = "\n".repeat(601);
    let broken: &[(&str, &[(&str, &str)])] = &[
        ("files stay short enough to read", &[("sync/src/a.rs", &long)]),
        ("modules are name.rs beside name/, never mod.rs", &[("sync/src/a/mod.rs", "")]),
        (
            "hand-written atomics stay in their places",
            &[("runtime/src/a.rs", "use std::sync::atomic::AtomicU8;")],
        ),
        ("unsafe code stays in its places", &[("runtime/src/a.rs", "// SAFETY: none.\nunsafe { f() }")]),
        ("panics are caught in one place", &[("backends/x/src/a.rs", "let _ = catch_unwind(f);")]),
        ("every unsafe block says why it is sound", &[("sync/src/a.rs", "unsafe { f() }")]),
        ("nothing is left unfinished or switched off", &[("sync/src/a.rs", "todo!()")]),
        (
            "the shell stands below the user types",
            &[("runtime/src/shell/a.rs", "use crate::buffer::Buffer;")],
        ),
        ("the engine is pure", &[("runtime/engine/src/a.rs", "use std::sync::Mutex;")]),
        (
            "the runtime names its backends in one place",
            &[("runtime/src/queue.rs", "windlass_host::Host::new()")],
        ),
        (
            "crates depend downwards only",
            &[("sync/Cargo.toml", "[dependencies]\nwindlass-kernel.workspace = true\n")],
        ),
        (
            "kernels' texts are read in two places",
            &[("kernel/Cargo.toml", "[dependencies]\nnaga = { workspace = true, optional = true }\n")],
        ),
        (
            "crates share the workspace's lints and dependencies",
            &[("sync/Cargo.toml", "[dependencies]\nslab = \"0.4\"\n[lints]\nworkspace = true\n")],
        ),
        ("documents link to files that exist", &[("docs/a.md", "see [b](b.md)")]),
        (
            "tests named in docs/testing.md and the guide exist",
            &[
                ("docs/testing.md", ""),
                ("docs/guide/production.md", "| what | tests |\n|---|---|\n| it | `nowhere` |\n"),
            ],
        ),
        (
            "the contract has nothing that only one side uses",
            &[
                ("backends/api/src/a.rs", TIMED),
                ("backends/x/src/a.rs", ""),
                ("runtime/src/a.rs", "f(timed.started);"),
            ],
        ),
        (
            "docs/backend.md quotes what is compiled and run",
            &[("docs/backend.md", "```rust\nfn f() {}\n```\n```sh\ncargo test\n```\n")],
        ),
    ];
    assert_eq!(broken.len(), RULES.len(), "a rule without a case here could be one that never fails");
    for (rule, files) in broken {
        let found = breaches(rule, &Tree::of(files));
        assert_eq!(found.len(), 1, "{rule}: {found:?}");
    }
}

/// A function that only helps tests is named in no table of them, nor is a string that reads like a name.
#[test]
fn what_is_named_as_a_test_is_one() {
    let page = "| what | tests |\n|---|---|\n| it | `named` |\n";
    let named = |path: &str, text: &str| {
        let tree = Tree::of(&[("docs/testing.md", page), ("docs/guide/production.md", page), (path, text)]);
        breaches("tests named in docs/testing.md and the guide exist", &tree).is_empty()
    };
    assert!(named("runtime/tests/a.rs", "/// It is.\n#[test]\n#[allow(unused)]\nfn named() {}\n"));
    assert!(named("runtime/tests/a.rs", "#[tokio::test]\nasync fn named() {}\n"));
    assert!(named(
        "verify/conformance/src/cases/a.rs",
        "pub(super) async fn named(s: &Subject) -> Verdict {}\n"
    ));
    assert!(!named("runtime/tests/a.rs", "#[test]\nfn other() {}\n\nfn named() {}\n"));
    assert!(!named("runtime/tests/a.rs", "const NAMES: &[&str] = &[\"named\"];\n"));
}

#[test]
fn comments_and_unit_tests_are_no_code() {
    let text = "// unsafe is a word here\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use std::sync::atomic::AtomicU8;\n}\n";
    let tree = Tree::of(&[("runtime/src/a.rs", text)]);
    assert!(breaches("unsafe code stays in its places", &tree).is_empty());
    assert!(breaches("hand-written atomics stay in their places", &tree).is_empty());
}

/// A contract of one descriptor of each direction and one trait, with both sides.
const DECLARED: &str = "
#[derive(Debug)]
#[non_exhaustive]
pub struct Timed {
    /// Nanoseconds.
    pub started: u64,
    /// Nanoseconds.
    pub ended: u64,
    /// Nanoseconds.
    pub point: u64,
}

impl Timed {
    /// So long.
    pub fn new(started: u64, ended: u64) -> Self {
        Timed { started, ended: ended.max(started), point: 0 }
    }

    /// So long.
    pub fn point(self, point: u64) -> Self {
        Timed { point, ..self }
    }
}

pub struct Wait {
    pub lane: u32,
}

pub unsafe trait Lane: Send {
    /// Hands over.
    unsafe fn feed(&self, wait: Wait);

    /// Nothing.
    fn flush(&self) {}
}
";

const BACKEND: &str = "
// SAFETY: none.
unsafe impl Lane for Mine {
    unsafe fn feed(&self, wait: Wait) {
        f(wait.lane, Timed::new(1, 2).point(3));
    }

    fn flush(&self) {}
}
";

const RUNTIME: &str = "
fn f(lane: &dyn Lane, timed: Timed) {
    lane.feed(Wait { lane: 1 });
    lane.flush();
    let Timed { started, .. } = timed;
    f(started, timed.ended, timed.point);
}
";

fn contract(backend: &str, runtime: &str) -> Vec<String> {
    let files = [
        ("backends/api/src/a.rs", DECLARED),
        ("backends/host/src/a.rs", backend),
        ("runtime/src/a.rs", runtime),
    ];
    breaches(CONTRACT, &Tree::of(&files))
}

#[test]
fn a_contract_that_both_sides_use_is_tidy() {
    assert_eq!(contract(BACKEND, RUNTIME), [""; 0]);
}

#[test]
fn what_one_side_of_the_contract_does_not_use_is_found() {
    // What is taken away from which side, and what is missing then.
    let planted = [
        (
            "runtime",
            "timed.ended",
            "self.ended",
            "`Timed::ended` is in the contract, but no runtime reads it",
        ),
        (
            "runtime",
            "timed.ended",
            "timed.ended()",
            "`Timed::ended` is in the contract, but no runtime reads it",
        ),
        ("runtime", "timed.point", "0", "`Timed::point` is in the contract, but no runtime reads it"),
        (
            "runtime",
            "Timed { started, .. }",
            "Timed { .. }",
            "`Timed::started` is in the contract, but no runtime reads it",
        ),
        ("runtime", "Wait { lane: 1 }", "wait", "`Wait::lane` is in the contract, but no runtime sets it"),
        (
            "runtime",
            "lane.flush()",
            "// lane.flush()",
            "`Lane::flush` is in the contract, but no runtime calls it",
        ),
        ("backend", ".point(3)", "", "`Timed::point` is in the contract, but no backend sets it"),
        ("backend", "wait.lane", "0", "`Wait::lane` is in the contract, but no backend reads it"),
        (
            "backend",
            "    fn flush(&self) {}",
            "",
            "`Lane::flush` is in the contract, but no backend implements it",
        ),
    ];
    for (side, text, instead, missing) in planted {
        let found = match side {
            "runtime" => contract(BACKEND, &RUNTIME.replacen(text, &format!("\n{instead}"), 1)),
            _ => contract(&BACKEND.replacen(text, instead, 1), RUNTIME),
        };
        assert!(found.len() == 1 && found[0].ends_with(missing), "without `{text}`: {found:?}");
    }
}

#[test]
fn an_excuse_that_is_not_needed_is_found() {
    // Nothing is declared here, so that every excuse is one too many.
    let found = breaches(CONTRACT, &Tree::of(&[("backends/api/src/lib.rs", "")]));
    assert!(found.iter().any(|b| b.starts_with("`DeviceInfo::driver` ")), "{found:?}");
    assert!(found.iter().all(|b| b.ends_with("which is no longer needed")), "{found:?}");
}

#[test]
fn what_is_declared_in_no_direction_is_found() {
    let files = [("backends/api/src/a.rs", "pub struct Sampler {\n    pub wrap: bool,\n}\n")];
    let found = breaches(CONTRACT, &Tree::of(&files));
    assert!(found.len() == 1 && found[0].contains("`Sampler` is in no list"), "{found:?}");
}

#[test]
fn quotes_of_the_example_are_tidy() {
    let example = ("verify/conformance/tests/example_backend/a.rs", "fn f() {\n    g();\n}\n");
    let page = |text| Tree::of(&[example, ("docs/backend.md", text)]);
    let rule = "docs/backend.md quotes what is compiled and run";
    assert_eq!(breaches(rule, &page("a\n```rust\nfn f() {\n    g();\n}\n```\nb\n")), [""; 0]);
    assert_eq!(breaches(rule, &page("```rust\nfn f() {\n    h();\n}\n```\n")).len(), 1);
}
