//! Random kernels on Oclgrind, one process for each.
//!
//! Oclgrind is not safe to be called from several threads: about every second process with a few commands crashes there,
//! and one in some fifty finds its memory overwritten. So a kernel is run until it has agreed more often than it has
//! disagreed, and disagrees if it never comes to that. What is wrong with a kernel's text is wrong every time.

use std::path::Path;

use crate::Result;
use crate::process::Process;
use crate::wheels;

/// How long it may take, in seconds: it may hang as well.
const PATIENCE: &str = "60";

/// How the program ends where a kernel disagrees.
const DISAGREES: i32 = 1;

/// How often a kernel is run.
const TRIES: usize = 30;

/// Runs the kernels `k0` to `k{count - 1}` of a program, where Oclgrind is installed.
pub(crate) fn random_kernels(program: &Path, count: u64) -> Result<()> {
    let Some(vendors) = wheels::vendor_of("oclgrind") else {
        return match std::env::var_os("CI").is_some() {
            true => Err("Oclgrind is required here: `cargo xtask setup` installs it".into()),
            false => {
                println!("SKIPPED: Oclgrind is not installed");
                Ok(())
            }
        };
    };
    let none = "/nonexistent/none.json";
    let run = |kernel: &str| {
        let process = Process::new("timeout").args([PATIENCE]).args([program]).args([kernel]);
        let process = process.env("OCL_ICD_VENDORS", &vendors);
        // It does not know all that LLVM's optimiser makes.
        let process =
            process.env("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable").env("OCLGRIND_NUM_THREADS", "1");
        process.env("VK_DRIVER_FILES", none).env("VK_ICD_FILENAMES", none).env_remove("CI").ended()
    };
    let (mut agree, mut crashed) = (0, Vec::new());
    for kernel in (0..count).map(|at| format!("k{at}")) {
        let (mut said, mut lead) = (None, 0);
        let agrees = (0..TRIES).any(|_| {
            match run(&kernel) {
                // The host is the other one.
                Some((Some(0), text)) if text.contains("on 2 devices") => lead += 1,
                Some((Some(DISAGREES), text)) => {
                    said = Some(text);
                    lead -= 1;
                }
                _ => {}
            }
            lead > 0
        });
        match (agrees, said) {
            (true, _) => agree += 1,
            (false, Some(said)) => {
                return Err(format!("{kernel} disagrees on Oclgrind as often as it agrees:\n{said}"));
            }
            (false, None) => crashed.push(kernel),
        }
    }
    let told = format!("{agree} of {count} kernels agree on Oclgrind; it crashes every time in {crashed:?}");
    match agree * 2 >= count {
        true => {
            println!("{told}");
            Ok(())
        }
        false => Err(told),
    }
}
