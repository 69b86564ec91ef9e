//! Rules about Rust sources.

use super::Breach;
use super::tree::{File, Tree, is_comment};
use super::words::has_word;

/// Lines that a source may have. The aim is 400; at this many it surely holds a second idea.
const LINES: usize = 600;

pub(super) fn short_files(tree: &Tree) -> Vec<Breach> {
    let lines = |file: &File| file.text.lines().count();
    let long = tree.rust().filter(|file| lines(file) > LINES);
    long.map(|file| format!("{} has {} lines, more than {LINES}", file.path, lines(file))).collect()
}

pub(super) fn no_mod_files(tree: &Tree) -> Vec<Breach> {
    // What several integration tests share is `tests/common/…`, which cargo would take for a test of its own if it
    // were a file in `tests/`.
    let mod_files = tree.rust().filter(|file| file.path.ends_with("/mod.rs"));
    mod_files.map(|file| file.path.clone()).collect()
}

/// Where atomics may be written by hand: the cells, and memory that work-items share.
const ATOMICS: &[&str] = &["sync/src/", "kernel/src/memory/"];

/// Crates that test others with the means a stranger has: they count with plain atomics.
const TESTERS: &[&str] = &["verify/faulty/", "verify/conformance/"];

pub(super) fn atomics(tree: &Tree) -> Vec<Breach> {
    let elsewhere = tree.shipped().filter(|file| !starts_with(file, ATOMICS) && !starts_with(file, TESTERS));
    let words = ["std::sync::atomic", "core::sync::atomic", "loom::"];
    elsewhere.flat_map(|file| mentions(file, &words, "outside sync/")).collect()
}

/// Where `unsafe` may stand: the cells, what a kernel's memory is, native calls, and the two places where the runtime
/// turns that memory into slices.
const UNSAFE: &[&str] = &[
    "sync/src/",
    "kernel/macros/src/device_copy.rs",
    "kernel/macros/src/promise.rs",
    "kernel/src/attribute.rs",
    "kernel/src/body.rs",
    "kernel/src/here.rs",
    "kernel/src/host.rs",
    "kernel/src/image.rs",
    "kernel/src/memory/",
    "kernel/src/native/",
    "backends/api/src/",
    "backends/host/src/",
    "backends/opencl/src/",
    "backends/wgpu/src/",
    "verify/faulty/src/",
    "verify/conformance/examples/corpus.rs",
    "verify/conformance/src/kernels",
    "runtime/src/host_view.rs",
    "runtime/src/shell/native.rs",
    "runtime/src/shell/work.rs",
];

pub(super) fn unsafe_places(tree: &Tree) -> Vec<Breach> {
    let elsewhere = tree.shipped().filter(|file| !starts_with(file, UNSAFE));
    elsewhere
        .flat_map(|file| {
            let lines = file.code().filter(|(_, line)| has_word(line, "unsafe"));
            lines.map(|(at, _)| file.at(at, "unsafe code outside its places")).collect::<Vec<_>>()
        })
        .collect()
}

/// Where panics are caught: what else catches one has a payload to drop, and dropping it may panic again.
const PANICS: &str = "sync/src/panics.rs";

pub(super) fn panics(tree: &Tree) -> Vec<Breach> {
    // The oracle is a test.
    let aside = |file: &File| file.path == PANICS || file.path.contains("engine/oracle");
    let elsewhere = tree.shipped().filter(|file| !aside(file) && !starts_with(file, TESTERS));
    elsewhere.flat_map(|file| mentions(file, &["catch_unwind"], "outside sync/src/panics.rs")).collect()
}

/// How far above an unsafe block its reason may begin.
const REASON_WITHIN: usize = 12;

pub(super) fn safety_comments(tree: &Tree) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for file in tree.rust() {
        let lines: Vec<&str> = file.text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let opens =
                ["unsafe {", "unsafe impl", "unsafe extern"].iter().any(|start| has_word(line, start));
            if !opens || is_comment(line) || line.contains('"') {
                continue;
            }
            let above = &lines[i.saturating_sub(REASON_WITHIN)..=i];
            if !above.iter().any(|line| line.contains("SAFETY:") || line.contains("# Safety")) {
                breaches.push(file.at(i + 1, "an unsafe block without a `// SAFETY:` above it"));
            }
        }
    }
    breaches
}

pub(super) fn finished(tree: &Tree) -> Vec<Breach> {
    // This rule and its tests have to name them.
    let others = tree.rust().filter(|file| !file.path.starts_with("xtask/") || !file.path.contains("/tidy"));
    let words = ["todo!(", "unimplemented!(", "dbg!(", "FIXME", "XXX", "#[ignore"];
    others.flat_map(|file| mentions(file, &words, "is left in the code")).collect()
}

pub(super) fn pure_engine(tree: &Tree) -> Vec<Breach> {
    let engine = tree.rust().filter(|file| file.path.starts_with("runtime/engine/src/"));
    let words = [
        "std::thread",
        "std::time",
        "Mutex",
        "sync::atomic",
        "Arc<",
        "windlass_backend",
        "windlass_sync",
        "async ",
        "tokio",
        "Future",
    ];
    engine.flat_map(|file| mentions(file, &words, "in the engine, which only decides")).collect()
}

/// What the shell may use of the runtime: itself, and errors.
const BELOW_THE_USER: &[&str] = &["crate::shell", "crate::error"];

/// User types use the shell, and the shell uses the engine; never the other way round. The engine is a crate of its own.
pub(super) fn shell_below_user_types(tree: &Tree) -> Vec<Breach> {
    let shell = |path: &str| path.starts_with("runtime/src/shell/") || path == "runtime/src/shell.rs";
    let mut breaches = Vec::new();
    for file in tree.shipped().filter(|file| shell(&file.path)) {
        for (at, line) in file.code() {
            let used = line.match_indices("crate::").map(|(from, _)| &line[from..]);
            let above = used.filter(|used| !BELOW_THE_USER.iter().any(|below| used.starts_with(below)));
            breaches.extend(above.map(|used| {
                let path = used.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).next();
                file.at(at, &format!("the shell uses {}", path.unwrap_or_default()))
            }));
        }
    }
    breaches
}

pub(super) fn backends_in_one_place(tree: &Tree) -> Vec<Breach> {
    let runtime = tree.shipped().filter(|file| file.path.starts_with("runtime/src/"));
    let others = runtime.filter(|file| file.path != "runtime/src/runtime/builder.rs");
    let words = ["windlass_host::", "windlass_opencl::", "windlass_wgpu::"];
    others.flat_map(|file| mentions(file, &words, "outside runtime/builder.rs")).collect()
}

fn starts_with(file: &File, places: &[&str]) -> bool {
    places.iter().any(|place| file.path.starts_with(place))
}

/// The lines of code that have one of these words.
fn mentions(file: &File, words: &[&str], what: &str) -> Vec<Breach> {
    let found = |line: &str| words.iter().find(|word| line.contains(**word)).copied();
    let lines = file.code().filter_map(|(at, line)| Some((at, found(line)?)));
    lines.map(|(at, word)| file.at(at, &format!("`{word}` {what}"))).collect()
}
