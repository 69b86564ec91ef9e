//! The repository's effects, as `cargo xtask <command>`.
//!
//! Plain Rust on the standard library, so that it builds at once on a machine that has only Rust. Whatever else is
//! needed, it installs or says how to.

mod checks;
mod drivers;
mod oclgrind;
mod planted;
mod process;
mod steps;
pub mod tidy;
mod tools;
mod validation;
mod watched;
mod wheels;

use std::path::{Path, PathBuf};

/// What went wrong, in words for the person at the terminal.
pub type Result<T, E = String> = std::result::Result<T, E>;

const USAGE: &str = "\
usage: cargo xtask <command>

  setup       install what the tests need: OpenCL and Vulkan for the CPU, Oclgrind, Chromium, and into .drivers/
              Intel's OpenCL runtime and NVRTC
  test        setup, then every test: unit, integration, documentation, examples, oracle, loom models
  ci          what has to pass before a change lands: format, lints, dependencies, documentation, test
  loom        the loom models alone
  sanitize    the crates with unsafe code, and programs on the host backend, under AddressSanitizer
  miri        the same, but for what takes long, in Miri; needs `rustup +nightly component add miri rust-src`
  oracle [N]  N random programs (1,000,000 unless said) through each oracle, optimised
  kernels [N [SEED [host]]]  N random kernels (20,000 unless said) on every device, in programs of 50, from a seed on, or on the host alone
  intel       the kernel language's tests on Intel's OpenCL runtime, in place of PoCL
  validation [all]  the wgpu backend's tests under Vulkan's validation layer; all: the kernel language's, too
  corpus DIR  how many of a folder's WGSL texts can be translated to OpenCL C and CUDA C++, and compile
  planted engine [WORDS]  faults planted into a copy of the engine: whether its oracle finds each, at its seed
  planted kernel [WORDS]  faults planted into the kernel macro and the writer of C: whether random kernels find each
  planted rows [WORDS]    faults planted into the ways that kernels take on the host: whether the tests of rows' edges find each
  planted memory [WORDS]  faults planted into unsafe code: whether `sanitize` finds each
  bench       the table of ratios beside the raw bases; further arguments go to the benches
  deny        licences, bans and sources of all dependencies
  tidy        the repository's own rules";

/// Runs one command.
pub fn run(command: &str, rest: &[String]) -> Result<()> {
    match command {
        "setup" => drivers::setup(),
        "test" => checks::test(),
        "ci" => checks::ci(),
        "loom" => checks::loom(),
        "sanitize" => watched::sanitize(),
        "miri" => watched::miri(),
        "oracle" => checks::oracle(rest),
        "kernels" => checks::random_kernels(rest),
        "intel" => checks::intel(),
        "validation" => validation::validation(rest),
        "corpus" => checks::corpus(rest),
        "planted" => planted::planted(rest),
        "bench" => checks::bench(rest),
        "deny" => checks::deny(),
        "tidy" => tidy::report(&root()),
        "" | "help" | "-h" | "--help" => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(format!("there is no command `{other}`\n\n{USAGE}")),
    }
}

/// The workspace's root folder.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
