//! What is checked, and how.

use std::path::PathBuf;
use std::time::Duration;

use crate::process::Process;
use crate::steps::Steps;
use crate::{Result, drivers, oclgrind, planted, tidy, tools, validation, watched, wheels};

/// The profile of all checks: optimised, so that the oracle's counts are affordable, and with debug assertions. One
/// profile for all of them means that every dependency is compiled once.
pub(crate) const PROFILE: &str = "--profile ci";

/// Random programs that every change has to get right.
const ORACLE: u64 = 100_000;

/// Random kernels that every change has to get right.
const KERNELS: u64 = 50;

/// Everything that has to pass before a change lands.
pub(crate) fn ci() -> Result<()> {
    let mut steps = Steps::default();
    steps.step("format", || Process::cargo().words("fmt --all --check").run());
    steps.step("the repository's rules", || tidy::report(&crate::root()));
    steps.step("licences, bans, sources", deny);
    steps.step("unused dependencies", machete);
    steps.step("clippy", || {
        let all = Process::cargo().words("clippy --workspace --all-targets --all-features").words(PROFILE);
        all.words("-- -D warnings").run()
    });
    steps.step("clippy, host backend alone", || {
        Process::cargo().words("clippy -p windlass").words(PROFILE).words("-- -D warnings").run()
    });
    steps.step("what the host backend alone does not need", host_alone);
    steps.step("clippy, no backend", || {
        let bare = Process::cargo().words("clippy -p windlass --no-default-features").words(PROFILE);
        bare.words("-- -D warnings").run()
    });
    steps.step("documentation", || {
        let doc = Process::cargo().words("doc --workspace --all-features --no-deps --document-private-items");
        doc.words(PROFILE).env("RUSTDOCFLAGS", "-D warnings").run()
    });
    tests(&mut steps);
    // Not before, since what is built with a fault has to be built again without.
    steps.step("faults planted into kernels, some", planted::sample_of_kernels);
    steps.step("unsafe code, with memory watched", watched::sanitize);
    steps.step("unsafe code in Miri, where that is installed", watched::miri_if_installed);
    steps.finish()
}

/// Every test.
pub(crate) fn test() -> Result<()> {
    let mut steps = Steps::default();
    tests(&mut steps);
    steps.finish()
}

fn tests(steps: &mut Steps) {
    steps.step("drivers", drivers::setup);
    steps.step("tests", || {
        // All suites run even if one fails: one run is to show everything that is wrong.
        Process::cargo().words("test --workspace --all-features --no-fail-fast").words(PROFILE).run()
    });
    steps.step("oracle", || random_programs(ORACLE));
    steps.step("faults planted into the engine, some", planted::sample_of_engine);
    steps.step("random kernels", || kernels(KERNELS, 1));
    steps.step("random kernels as CUDA C++", cuda);
    steps.step("the kernel language on Intel's runtime", intel);
    steps.step("wgpu under Vulkan's validation layer", || validation::validation(&[]));
    steps.step("loom models", loom);
}

/// `kernels [N [SEED [host]]]`.
pub(crate) fn random_kernels(rest: &[String]) -> Result<()> {
    let number = |at: usize, otherwise: u64| match rest.get(at) {
        Some(text) => text.parse().map_err(|_| format!("`{text}` is no number")),
        None => Ok(otherwise),
    };
    let (count, seed) = (number(0, 20_000)?, number(1, 1)?);
    match rest.get(2).map(String::as_str) {
        None => kernels(count, seed),
        Some("host") => kernels_on_the_host(count, seed),
        Some(other) => Err(format!("`{other}` is none of the devices that can be asked for: `host`")),
    }
}

/// The same on the host alone, in programs that are large, since running them is nothing there.
fn kernels_on_the_host(count: u64, seed: u64) -> Result<()> {
    const EACH: u64 = 250;
    let none = "/nonexistent/";
    for (at, seed) in (seed..seed + count.div_ceil(EACH)).enumerate() {
        if !build_random_program(seed, EACH)? {
            return Err(format!("seed {seed} is not built; its program is {PROGRAM}"));
        }
        let run = Process::new(program()).env(VENDORS, none).env("VK_DRIVER_FILES", none);
        if run.env("VK_ICD_FILENAMES", none).env_remove("CI").run().is_err() {
            return Err(format!("seed {seed} disagrees; its program is {PROGRAM}"));
        }
        println!("{} kernels agree", (at as u64 + 1) * EACH);
    }
    without_program()
}

/// Kernels of one program, so that one build serves many.
const KERNELS_EACH: u64 = 50;

/// A hundred times what it takes where nothing else runs (2.7 s).
const PROGRAM_MAY_TAKE: Duration = Duration::from_mins(5);

/// What a program of random kernels found.
pub(crate) enum Found {
    Nothing,
    Disagreement,
    /// It was not built.
    NoProgram,
}

/// Random kernels on every device that is here, in programs of [`KERNELS_EACH`], from a seed on.
pub(crate) fn kernels(count: u64, seed: u64) -> Result<()> {
    for seed in seed..seed + count.div_ceil(KERNELS_EACH) {
        match random_program(seed)? {
            Found::Nothing => oclgrind::random_kernels(&program(), KERNELS_EACH)?,
            Found::Disagreement => return Err(format!("seed {seed} disagrees; its program is {PROGRAM}")),
            Found::NoProgram => return Err(format!("seed {seed} is not built; its program is {PROGRAM}")),
        }
    }
    without_program()
}

/// The last program is of no use to the next `--all-targets`.
pub(crate) fn without_program() -> Result<()> {
    std::fs::remove_file(crate::root().join(PROGRAM)).map_err(|error| format!("{PROGRAM}: {error}"))
}

const PROGRAM: &str = "verify/kernel-fuzz/examples/generated.rs";

/// Where cargo puts what it builds.
fn built() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), Into::into).join("ci")
}

/// The last program, built.
fn program() -> PathBuf {
    built().join("examples/generated")
}

/// Writes and builds a program of so many kernels; whether that succeeds.
fn build_random_program(seed: u64, each: u64) -> Result<bool> {
    // The whole workspace's features, so that nothing is compiled a second time.
    let build = |what: &str| {
        Process::cargo().words("build --workspace --all-features").words(PROFILE).words(what).run()
    };
    let program = crate::root().join(PROGRAM);
    build("--bin windlass-kernel-fuzz")?;
    std::fs::create_dir_all(program.parent().unwrap_or(&program)).map_err(|error| error.to_string())?;
    let print =
        Process::new(built().join("windlass-kernel-fuzz")).args([&seed.to_string(), &each.to_string()]);
    let text = print.output().ok_or("the random kernels could not be printed")?;
    std::fs::write(&program, text).map_err(|error| format!("{PROGRAM}: {error}"))?;
    println!("random kernels, seed {seed}");
    Ok(build("--example generated").is_ok())
}

/// Writes, builds and runs one program.
pub(crate) fn random_program(seed: u64) -> Result<Found> {
    if !build_random_program(seed, KERNELS_EACH)? {
        return Ok(Found::NoProgram);
    }
    // What devices are given is kept, for those compilers that have no device here.
    let texts = texts();
    let _ = std::fs::remove_dir_all(&texts);
    let run = || Process::new(self::program()).env("WINDLASS_DUMP", &texts);
    // A kernel that never ends is a disagreement, too.
    let ends_well = |run: Process| match run.run_within(PROGRAM_MAY_TAKE) {
        Ok(()) => true,
        Err(why) => {
            println!("{why}");
            false
        }
    };
    let agrees = ends_well(run());
    let elsewhere = wheels::intel().is_none_or(|intel| ends_well(run().env(VENDORS, intel)));
    Ok(if agrees && elsewhere { Found::Nothing } else { Found::Disagreement })
}

/// What tells OpenCL's loader which platforms there are.
const VENDORS: &str = "OCL_ICD_VENDORS";

/// The texts that devices were given of the last program of random kernels.
fn texts() -> PathBuf {
    crate::root().join("target/random-kernels")
}

/// The kernel language's tests alone, with more to say to them.
fn language() -> Process {
    Process::cargo().words("test --workspace --all-features --test language").words(PROFILE)
}

/// The last program of random kernels, to NVIDIA's compiler.
fn cuda() -> Result<()> {
    let test = language().words("-- --nocapture kernels_from_elsewhere_compile_as_cuda");
    test.env("WINDLASS_TEXTS", texts()).run()
}

/// The kernel language's tests and the suite with Intel's OpenCL runtime in PoCL's place, and kernels in forms that were made ahead. Random kernels run there in their own step.
/// It has halves; PoCL is the device of these tests that has none.
pub(crate) fn intel() -> Result<()> {
    match wheels::intel() {
        Some(intel) => {
            let skipped = "-- --skip oclgrind:: --skip cuda:: --skip a_device_without_halves";
            language().words(skipped).env(VENDORS, &intel).run()?;
            let suite = Process::cargo()
                .words("test --workspace --all-features --test opencl --test soak")
                .words(PROFILE)
                .words("-- intel_conforms the_process_does_not_grow");
            suite.env(VENDORS, &intel).env("WINDLASS_REQUIRE_INTEL", "1").run()?;
            // It is the one that takes SPIR-V; a built-in kernel that it does not have ends its process.
            let native =
                Process::cargo().words("test --workspace --all-features --test native").words(PROFILE);
            native.words("-- a_kernel_in a_kernel_that_was").env(VENDORS, intel).run()
        }
        None if cfg!(target_arch = "x86_64") => Err("it is not there: `cargo xtask setup`".into()),
        None => {
            println!("Intel's runtime is for Intel's architecture; nothing was tested");
            Ok(())
        }
    }
}

/// WGSL texts from elsewhere.
pub(crate) fn corpus(rest: &[String]) -> Result<()> {
    let [folder] = rest else { return Err("usage: cargo xtask corpus DIR".into()) };
    let folder = std::path::absolute(folder).map_err(|error| format!("{folder}: {error}"))?;
    // The whole workspace's features, so that nothing is compiled a second time.
    Process::cargo().words("build --workspace --all-features --example corpus").words(PROFILE).run()?;
    Process::new(built().join("examples/corpus")).args([folder]).run()
}

/// The model checks: the same sources under our own cfg, in a target folder of their own so that the two builds do not
/// undo each other.
pub(crate) fn loom() -> Result<()> {
    let loom =
        Process::cargo().words("test --release --package windlass-loom-tests --target-dir target/loom");
    loom.env("RUSTFLAGS", "--cfg windlass_loom").run()
}

/// Licences, bans and sources of all dependencies.
pub(crate) fn deny() -> Result<()> {
    tools::DENY.ready()?.words("--workspace --all-features check bans licenses sources").run()
}

/// A program for the host alone compiles neither drivers nor what translates kernels for them.
fn host_alone() -> Result<()> {
    let tree = Process::cargo().words("tree -p windlass -e normal --prefix none").printed()?;
    let not_needed = ["naga ", "wgpu ", "opencl3 ", "windlass-kernel-translate "];
    let found = tree.lines().find(|line| not_needed.iter().any(|name| line.starts_with(name)));
    match found {
        Some(line) => Err(format!("`windlass` with its default features depends on {line}")),
        None => Ok(()),
    }
}

/// Dependencies that nothing uses.
fn machete() -> Result<()> {
    tools::MACHETE.ready()?.args(["--with-metadata", "."]).run()
}

/// The table of ratios beside the raw bases.
pub(crate) fn bench(rest: &[String]) -> Result<()> {
    Process::cargo()
        .words("run --profile bench --package windlass-benches --all-features --")
        .args(rest)
        .run()
}

/// Random programs through every oracle: the tests whose names begin so read how many from `WINDLASS_ORACLE`.
pub(crate) fn oracle(rest: &[String]) -> Result<()> {
    let count = match rest {
        [] => 1_000_000,
        [count] => {
            count.replace('_', "").parse().map_err(|_| format!("`{count}` is no number of programs"))?
        }
        _ => return Err("usage: cargo xtask oracle [N]".into()),
    };
    random_programs(count)
}

fn random_programs(count: u64) -> Result<()> {
    // All members, although few have an oracle: other features of shared dependencies would be another build.
    let tests = Process::cargo().words("test --workspace --all-features --lib --tests").words(PROFILE);
    let tests = tests.words("-- --nocapture random_programs").env("WINDLASS_ORACLE", count.to_string());
    match wheels::both() {
        Some(both) => tests.env(VENDORS, both).run(),
        None => tests.run(),
    }
}
