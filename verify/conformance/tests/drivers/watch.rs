//! Tests of this program on Oclgrind, which runs kernels item by item and watches memory, and what it reports of them.
//!
//! Oclgrind 21.10 takes some care:
//!
//! - Its calls are not safe from several threads. The backend makes most of them one at a time, but lets go of objects when it will, so it
//!   crashes now and then, or never ends. So each test has a process of its own, without Vulkan's drivers beside it, and one that crashed
//!   is run again; what Oclgrind finds wrong with a kernel it reports, and does not crash of.
//! - It interprets LLVM's code and does not know all of what the optimiser makes (`llvm.fshl`, `llvm.abs`, integers of
//!   odd widths). So kernels are built without optimising.

#![allow(dead_code, reason = "each test program says of it what is worth knowing there")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::again::{self, Ended};
use crate::find;

/// How often a test is run that crashes. Of 769 runs of the suite's cases seven did.
const TRIES: usize = 20;

/// Fewer, if they take so many times what one may: of those that end badly most do so at once, and few hang.
const PATIENT: u32 = 10;

/// Each kind of report once, with the kernel's name.
pub(crate) type Reports = BTreeSet<(String, String)>;

/// A test that ended well.
pub(crate) struct Watched {
    pub(crate) reports: Reports,
    /// How often it had been run before, and had crashed or failed.
    pub(crate) ended_badly: usize,
}

/// Where Oclgrind is, and how long it may take.
pub(crate) struct Oclgrind {
    /// A folder that names its library, and nothing else, to OpenCL's loader.
    vendors: OsString,
    /// The longest that a process may take.
    patience: Duration,
}

impl Oclgrind {
    /// Where it is missing this says so, and fails where drivers are required.
    pub(crate) fn find(patience: Duration) -> Option<Oclgrind> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.drivers/icd/oclgrind");
        if !folder.join("oclgrind.icd").exists() {
            find::missing("Oclgrind (`cargo xtask setup` installs it)");
            return None;
        }
        // The slash at its end is what tells the loader that it is a folder.
        Some(Oclgrind { vendors: folder.join("").into_os_string(), patience })
    }

    /// Runs a test until it ends well, with one variable more, and gives what Oclgrind reports of its kernels. The folder is for the log
    /// and for what the test prints.
    pub(crate) fn watch(
        &self,
        test: &str,
        folder: &Path,
        variable: (&str, OsString),
    ) -> Result<Watched, String> {
        let (log, start) = (folder.join("log.txt"), Instant::now());
        let mut has_failed = false;
        for ended_badly in 0..TRIES {
            let _ = fs::remove_file(&log);
            let variables = self.variables(&log, variable.clone());
            match again::run(test, &folder.join("output.txt"), &variables, self.patience) {
                Ended::Well => {
                    let reports = read(&fs::read_to_string(&log).unwrap_or_default());
                    return Ok(Watched { reports, ended_badly });
                }
                // What crashes now and then may be wrong now and then. It was in none of those runs, and is not to be twice.
                Ended::Failed(said) if has_failed => return Err(format!("{test} fails on Oclgrind: {said}")),
                Ended::Failed(_) => has_failed = true,
                Ended::Crashed(_) if start.elapsed() > self.patience * PATIENT => break,
                Ended::Crashed(_) => {}
            }
        }
        Err(format!("Oclgrind crashes or hangs in every run of {test}"))
    }

    fn variables<'v>(&self, log: &Path, one_more: (&'v str, OsString)) -> [(&'v str, OsString); 9] {
        [
            ("OCL_ICD_VENDORS", self.vendors.clone()),
            ("VK_DRIVER_FILES", "/nonexistent/none.json".into()),
            ("VK_ICD_FILENAMES", "/nonexistent/none.json".into()),
            ("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable".into()),
            ("OCLGRIND_DATA_RACES", "1".into()),
            // With threads of its own it crashes more often.
            ("OCLGRIND_NUM_THREADS", "1".into()),
            // It would say nothing of one kernel after so many reports of another.
            ("OCLGRIND_MAX_ERRORS", "1000000".into()),
            ("OCLGRIND_LOG", log.into()),
            one_more,
        ]
    }
}

/// Each report is a line that says what was found, and indented ones about where.
fn read(log: &str) -> Reports {
    let mut found = Reports::new();
    let mut what = "";
    for line in log.lines() {
        match line.strip_prefix("\tKernel: ") {
            Some(kernel) => {
                // The text's entry point is the kernel's name with an ending.
                let kernel = kernel.strip_suffix("_k").unwrap_or(kernel);
                found.insert((kernel.to_owned(), what.to_owned()));
                what = "";
            }
            None if !line.is_empty() && !line.starts_with('\t') => {
                if !what.is_empty() {
                    found.insert((String::new(), what.to_owned()));
                }
                what = line.split(" address").next().unwrap_or(line);
            }
            None => {}
        }
    }
    if !what.is_empty() {
        found.insert((String::new(), what.to_owned()));
    }
    found
}
