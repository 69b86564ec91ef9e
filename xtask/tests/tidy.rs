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
            "tests named in docs/testing.md exist",
            &[("docs/testing.md", "| what | tests |\n|---|---|\n| it | `nowhere` |\n")],
        ),
    ];
    assert_eq!(broken.len(), RULES.len(), "a rule without a case here could be one that never fails");
    for (rule, files) in broken {
        let found = breaches(rule, &Tree::of(files));
        assert_eq!(found.len(), 1, "{rule}: {found:?}");
    }
}

#[test]
fn comments_and_unit_tests_are_no_code() {
    let text = "// unsafe is a word here\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use std::sync::atomic::AtomicU8;\n}\n";
    let tree = Tree::of(&[("runtime/src/a.rs", text)]);
    assert!(breaches("unsafe code stays in its places", &tree).is_empty());
    assert!(breaches("hand-written atomics stay in their places", &tree).is_empty());
}
