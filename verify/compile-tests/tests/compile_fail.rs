//! What must not compile, with what the compiler says of it.

use std::process::Command;

/// The compiler whose words the snapshots hold: others say the same in other words.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn what_must_not_compile_does_not_and_says_why() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().expect("there is a compiler").stdout;
    let version = String::from_utf8_lossy(&version);
    if !version.starts_with(COMPILER) {
        assert!(std::env::var_os("CI").is_none(), "CI runs this with {COMPILER}, and this is {version}");
        eprintln!("SKIPPED: the snapshots are of {COMPILER}, and this is {version}");
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
    cases.compile_fail("tests/compile_fail/kernels/*.rs");
}
