//! Cargo's helpers that the checks use, at the versions that were tried, in the target folder: nothing is left behind
//! elsewhere, and `cargo clean` takes them away.

use std::path::PathBuf;

use crate::Result;
use crate::process::Process;

/// A program that `cargo install` can build.
#[derive(Clone, Copy)]
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
}

pub(crate) const DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2" };
pub(crate) const MACHETE: Tool = Tool { name: "cargo-machete", version: "0.9.2" };

impl Tool {
    /// The program: from the path if it is there at this version, else built once.
    pub(crate) fn ready(self) -> Result<Process> {
        let folder = target().join("tools");
        let built = folder.join("bin").join(self.name);
        for program in [PathBuf::from(self.name), built.clone()] {
            if self.is(&program) {
                return Ok(Process::new(program));
            }
        }
        println!("building {} {}, once", self.name, self.version);
        Process::cargo()
            // The checks read a few files: what optimising takes is never earned back.
            .words("install --locked --quiet --debug --root")
            .args([&folder])
            .args([self.name, "--version", self.version])
            .env("CARGO_TARGET_DIR", folder.join("build"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .run()?;
        match self.is(&built) {
            true => Ok(Process::new(built)),
            false => Err(format!("{} was built, and does not run as {}", self.name, self.version)),
        }
    }

    fn is(self, program: &PathBuf) -> bool {
        // cargo-machete prints its version alone, cargo-deny its name before it.
        let said = Process::new(program).args(["--version"]).output();
        said.is_some_and(|said| said.split_whitespace().next_back() == Some(self.version))
    }
}

fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => crate::root().join(folder),
        None => crate::root().join("target"),
    }
}
