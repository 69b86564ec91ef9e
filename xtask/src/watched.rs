//! Tests that run under something that watches what `unsafe` code does: Miri, or AddressSanitizer.
//!
//! AddressSanitizer gets the crates with unsafe code and the programs on the host backend that reach it: memory of every kind, guards,
//! host tasks, kernels, cancellation, shutdown, batches and streams. Miri gets the same crates, and those programs that are not too much
//! for it. There is no ThreadSanitizer: docs/testing.md says why.

use crate::Result;
use crate::process::Process;

/// The crates with unsafe code that need no driver, and the runtime, which has the host backend alone by default; with it the bytes that
/// streams and servers hand on.
const CRATES: &str = "-p windlass-sync -p windlass-kernel -p windlass-backend -p windlass-host";
const RUNTIME: &str = "-p windlass --features windlass/bytes";

/// The crates' own test programs.
const TESTS: &[&str] = &["cell", "combining", "credits", "drain", "executor", "lane"];

/// The runtime's test programs that are quick and reach memory: the program's own and attached, as other elements and in pages, changed
/// by several at the same time, kept for the next buffer, and what batches and streams hold. `soak` counts memory by itself; the
/// others are about what is refused, said or scheduled.
const PROGRAMS: &[&str] = &[
    "async_runtimes",
    "attached",
    "attacks",
    "batch",
    "cancel",
    "certain_ends",
    "concurrent",
    "endings",
    "errors",
    "guards",
    "host_kernels",
    "host_memory",
    "invariants",
    "life",
    "order",
    "overlap",
    "owned",
    "owning_errors",
    "payloads",
    "ranges",
    "reaper",
    "rendezvous",
    "stream",
    "user_code",
    "versions",
    "views",
    "waiting",
];

/// Those of them that Miri, which is hundreds of times slower, gets. A test in them that is too much for it says so by
/// `cfg_attr(miri, ignore = "…")`. None of them has been run in Miri yet, so how long they take there is not known: they were built under
/// `cfg(miri)` and run natively, and call nothing foreign.
const PROGRAMS_FOR_MIRI: &[&str] = &[
    "attached",
    "attacks",
    "cancel",
    "certain_ends",
    "guards",
    "host_kernels",
    "life",
    "overlap",
    "owned",
    "owning_errors",
    "ranges",
    "rendezvous",
    "user_code",
    "versions",
    "views",
];

/// Tests that AddressSanitizer does not get, and why.
const SKIPPED: &[(&str, &str)] = &[
    (
        "d33_main_returning_with_work_in_flight_exits_cleanly_100_times_of_100",
        "its processes end with memory in use, which is what it is about",
    ),
    (
        "d06_a_writer_behind_100_000_readers_costs_one_entry",
        "it counts entries, for up to a minute and a half",
    ),
    (
        "an_error_through_many_host_tasks_is_told_by_its_origin",
        "its 100,000 tasks take half as long as all else",
    ),
];

/// All of them under AddressSanitizer, which finds accesses outside of what was allocated or after it was freed, and leaks.
///
/// It is a part of every toolchain, behind a switch of nightly ones; `RUSTC_BOOTSTRAP` opens it in this one.
pub(crate) fn sanitize() -> Result<()> {
    let tests = sanitized()?.words("--lib").args(targets(TESTS)).args(targets(PROGRAMS));
    tests.words("--").args(SKIPPED.iter().flat_map(|(test, _)| ["--skip", test])).run()
}

/// `cargo test` of all packages, with AddressSanitizer in them. Which tests is left to say; other packages would be other
/// features of what they share, and so another build.
pub(crate) fn sanitized() -> Result<Process> {
    // A target is named so that build scripts and macros, which the compiler loads, are built without it.
    let host = host()?;
    let test = Process::cargo().words("test --profile sanitize --no-fail-fast --target-dir target/sanitize");
    let test = test.args(["--target", &host]).words(CRATES).words(RUNTIME);
    let test =
        test.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", "-Zsanitizer=address --cfg windlass_watched");
    // Some tests ask for more memory than there is, and are to be told so.
    Ok(test.env("ASAN_OPTIONS", "detect_leaks=1:allocator_may_return_null=1"))
}

/// [`miri`] where the component is installed, which stable toolchains do not have and not every registry offers. Elsewhere it says
/// loudly that nothing was tested, and fails if `WINDLASS_REQUIRE_MIRI` is set.
pub(crate) fn miri_if_installed() -> Result<()> {
    if is_miri_installed() || std::env::var_os("WINDLASS_REQUIRE_MIRI").is_some() {
        return miri();
    }
    println!("\n*** SKIPPED, nothing was tested: Miri is not installed ***\n");
    Ok(())
}

fn is_miri_installed() -> bool {
    miri_command().words("--version").output().is_some()
}

/// Tests in Miri, an interpreter that knows what Rust forbids.
pub(crate) fn miri() -> Result<()> {
    if !is_miri_installed() {
        return Err("Miri is not here, so nothing was tested. It is a component of nightly toolchains:\n\
                    \n    rustup toolchain install nightly\n    rustup +nightly component add miri rust-src\n"
            .into());
    }
    let test = miri_command().words("test --no-fail-fast").words(CRATES).words(RUNTIME).words("--lib");
    test.args(targets(TESTS)).args(targets(PROGRAMS_FOR_MIRI)).env("MIRIFLAGS", MIRI_FLAGS).run()
}

/// Tests look at clocks and at the environment. Threads of the runtime and of the pool for what blocks go on for a moment
/// when a test is over, and Miri takes what they hold for leaked; leaks are the sanitizer's.
const MIRI_FLAGS: &str = "-Zmiri-disable-isolation -Zmiri-ignore-leaks";

/// `cargo miri` of the nightly toolchain, by rustup: the cargo that runs us is of another one.
fn miri_command() -> Process {
    Process::new("rustup").words("run nightly cargo miri")
}

fn targets(tests: &'static [&'static str]) -> impl Iterator<Item = &'static str> {
    tests.iter().flat_map(|test| ["--test", test])
}

/// The target that the compiler builds for if it is told nothing.
fn host() -> Result<String> {
    let says =
        Process::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).words("-vV").output();
    let host = says.as_deref().and_then(|says| says.lines().find_map(|line| line.strip_prefix("host: ")));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say what it builds for".into())
}

#[test]
fn what_is_skipped_exists() {
    let text = |name: &&str| std::fs::read_to_string(crate::root().join(format!("runtime/tests/{name}.rs")));
    let texts: String = PROGRAMS.iter().map(|name| text(name).unwrap()).collect();
    for (test, _) in SKIPPED {
        assert!(texts.contains(&format!("fn {test}()")), "{test}");
    }
}
