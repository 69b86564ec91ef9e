//! Tests of what a variable of the environment does: the program runs once more, with the variable, as its own child.

use std::ffi::OsStr;
use std::process::Command;

const CHILD: &str = "WINDLASS_TEST_CHILD";

/// Whether this is the child.
pub(crate) fn is_one() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs this program with a variable, and gives what it said on the error stream. It must end well. Only the test that asks is run
/// there, so that nobody else's lines come between.
pub(crate) fn run(variable: &str, value: impl AsRef<OsStr>) -> String {
    let mut child = Command::new(std::env::current_exe().expect("a running program"));
    child.env(variable, value).env(CHILD, "1").arg("--nocapture");
    // Where tests run one after the other they have no threads of their own.
    if let Some(test) = std::thread::current().name().filter(|name| *name != "main") {
        child.args(["--exact", test]);
    }
    let output = child.output().expect("this program can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stderr)
}
