//! This program's tests once more, each in a process of its own: on another driver, or to see what devices are given.

#![allow(dead_code, reason = "a program that has one test to run again does not list them")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Well,
    /// The test failed, and said this.
    Failed(String),
    /// A signal ended it, since it crashed or would not end.
    Crashed(String),
}

/// The tests of this program that run kernels on every device.
pub(crate) fn tests() -> Vec<String> {
    let list = Command::new(program()).args(["--list", "--format", "terse"]).output();
    let list = list.expect("this program runs once more").stdout;
    let list = String::from_utf8_lossy(&list).into_owned();
    let names = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let ours = |name: &&str| !["oclgrind::", "cuda::"].iter().any(|module| name.starts_with(module));
    names.filter(ours).map(str::to_owned).collect()
}

fn program() -> PathBuf {
    env::current_exe().expect("a test program knows where it is")
}

/// An empty folder below the target folder.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    folder
}

/// Guards against hanging. lavapipe compiles the largest kernels for minutes where two tests share a slow machine whose shader cache is empty.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);

/// Runs a test with these variables; what it prints goes to a file. Drivers are not required there: it is for the caller
/// to see what it ran on.
pub(crate) fn run(test: &str, output: &Path, variables: &[(&str, OsString)], patience: Duration) -> Ended {
    let file = || fs::File::options().create(true).append(true).open(output).expect("it can be written");
    let mut child = Command::new(program())
        .args(["--exact", test, "--test-threads", "1"])
        .env_remove("CI")
        .env_remove("WINDLASS_REQUIRE_DRIVERS")
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(file())
        .stderr(file())
        .spawn()
        .expect("this program runs once more");
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break Some(status),
            None if start.elapsed() > patience => {
                let _ = child.kill().and_then(|()| child.wait());
                break None;
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let said = String::from_utf8_lossy(&fs::read(output).unwrap_or_default()).into_owned();
    match status {
        Some(status) if status.success() => Ended::Well,
        Some(status) if status.code().is_none() => Ended::Crashed(said),
        Some(_) => Ended::Failed(said),
        None => Ended::Crashed(format!("it had not ended after {patience:?}\n{said}")),
    }
}
