//! The kernels of these tests on Oclgrind, which runs them item by item and watches memory: none may leave its
//! arguments, and none may race but those that are to.
//!
//! Oclgrind 21.10 takes some care:
//!
//! - Its calls are not safe from several threads, and it crashes now and then, or never ends. So each test has a process of
//!   its own, without Vulkan's drivers beside it, and one that crashed is run again; what Oclgrind finds wrong with a kernel it
//!   reports, and does not crash of.
//! - It interprets LLVM's code and does not know all of what the optimiser makes (`llvm.fshl`, `llvm.abs`, integers of
//!   odd widths). So kernels are built without optimising.
//!
//! That it sees what it is asked for is a test as well: [`wrong`] is a kernel of each kind.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use windlass::KernelCall;
use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};
use windlass::prelude::*;

use crate::again::{self, Ended};
use crate::everywhere::queues;
use crate::find;

/// The kernels that race on purpose, by name, and why.
const ON_PURPOSE: &[(&str, &str)] = &[
    ("shift", "its arguments overlap, and the test says what may be found then"),
    (
        "exchanges",
        "OpenCL C 1.2 has no atomic load: one is a volatile read, which meets the exchanges of other items",
    ),
    ("edges", "neighbours add to the same elements of `other`, which is never read for the result"),
];

/// The longest test takes a second there, and one in a hundred never ends.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a test is run that crashes, or that is said to write what the host has mapped. One with two kernels crashes in two runs of
/// three.
const TRIES: usize = 50;

/// A folder that names Oclgrind's library, and nothing else, to OpenCL's loader.
fn vendors() -> Option<OsString> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.drivers/icd/oclgrind");
    if !folder.join("oclgrind.icd").exists() {
        find::missing("Oclgrind (`cargo xtask setup` installs it)");
        return None;
    }
    // The slash at its end is what tells the loader that it is a folder.
    Some(folder.join("").into_os_string())
}

/// What Oclgrind reports of a test's kernels: each kind once, with the kernel's name.
fn reports(test: &str, vendors: &OsString, texts: &Path) -> BTreeSet<(String, String)> {
    let folder = again::folder(&format!("oclgrind-{}", test.replace("::", "-")));
    let log = folder.join("log.txt");
    let (mut mapped, mut failed) = (None, None);
    for _ in 0..TRIES {
        let _ = fs::remove_file(&log);
        let ended = again::run(
            test,
            &folder.join("output.txt"),
            &[
                ("OCL_ICD_VENDORS", vendors.clone()),
                ("VK_DRIVER_FILES", "/nonexistent/none.json".into()),
                ("VK_ICD_FILENAMES", "/nonexistent/none.json".into()),
                ("OCLGRIND_BUILD_OPTIONS", "-cl-opt-disable".into()),
                ("OCLGRIND_DATA_RACES", "1".into()),
                // It would say nothing of one kernel after so many reports of another.
                ("OCLGRIND_MAX_ERRORS", "1000000".into()),
                ("OCLGRIND_LOG", log.clone().into()),
                ("WINDLASS_DUMP", texts.into()),
            ],
            PATIENCE,
        );
        match ended {
            Ended::Well => {
                let found = read(&fs::read_to_string(&log).unwrap_or_default());
                if !found.iter().any(|(_, what)| what.contains("mapped buffer")) {
                    return found;
                }
                // Only staging is ever mapped, and no kernel gets it. But Oclgrind looks for a free buffer number without a lock, so that two
                // threads which allocate at once may get the same one: then a kernel's buffer lies where a mapped one does. What is so every
                // time is a fault.
                mapped = Some(found);
            }
            // Oclgrind runs kernels of two queues at once, and does not keep them apart: it ends by a signal, or a launch gets arguments of
            // the other (one in ten runs of two reductions into parts of one buffer). A kernel that is wrong is so every time.
            Ended::Failed(said) => failed = Some(said),
            Ended::Crashed(_) => {}
        }
    }
    mapped.unwrap_or_else(|| match failed {
        Some(said) => panic!("{test} fails on Oclgrind: {said}"),
        None => panic!("Oclgrind crashed {TRIES} times in {test}"),
    })
}

/// Each report is a line that says what was found, and indented ones about where.
fn read(log: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
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

#[test]
fn no_kernel_leaves_its_memory_and_none_races_but_by_intention() {
    let Some(vendors) = vendors() else { return };
    let texts = again::folder("oclgrind-texts");
    let mut racing = BTreeSet::new();
    for test in again::tests() {
        for (kernel, what) in reports(&test, &vendors, &texts) {
            let meant = ON_PURPOSE.iter().any(|(name, _)| *name == kernel) && what.contains("data race");
            assert!(meant, "{test}: Oclgrind reports of kernel `{kernel}`: {what}");
            racing.insert(kernel);
        }
    }
    let meant: BTreeSet<String> = ON_PURPOSE.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(racing, meant, "who races on purpose is seen to");
    // Were another driver asked in its place, nothing would be reported either.
    let names = fs::read_dir(&texts).expect("it is there").flatten().map(|entry| entry.file_name());
    let kernels = names.filter(|name| name.to_string_lossy().contains("Oclgrind")).count();
    assert!(kernels >= 30, "Oclgrind was given {kernels} kernels");
}

#[windlass::kernel]
fn races(out: &mut [u32]) {
    out[0] = global_id(0);
}

/// Runs a kernel that races and one that leaves its buffer, on Oclgrind and on nothing else.
#[test]
fn wrong() {
    for queue in queues().iter().filter(|queue| queue.device().platform_name() == "Oclgrind") {
        let out = Buffer::<u32>::new(8);
        queue
            .submit(|cg| cg.parallel_for(8, races(cg.overwrite(&out))))
            .and_then(|event| event.blocking_wait())
            .expect("it runs");
        let text = "@group(0) @binding(0) var<storage, read_write> v: array<u32>;
            @compute @workgroup_size(8) fn leaves(@builtin(global_invocation_id) id: vec3<u32>) { v[id.x + 12u] = 1u; }";
        // SAFETY: it is not so, the last four of eight items write behind the buffer, and behind what its size was rounded up to; Oclgrind, which interprets the
        // kernel, reports that and leaves it.
        let image = unsafe { KernelImage::guarded_wgsl("leaves", text) };
        let kernel = Kernel::new("leaves", [Slot::Buffer(SlotAccess::ReadWrite)], [image]);
        queue
            .submit(|cg| cg.parallel_for(8, KernelCall::new(&kernel).buffer(cg.read_write(&out))))
            .and_then(|event| event.blocking_wait())
            .expect("it runs");
    }
}

#[test]
fn what_is_wrong_is_reported() {
    let Some(vendors) = vendors() else { return };
    let found = reports("oclgrind::wrong", &vendors, &again::folder("oclgrind-wrong"));
    let seen = |kernel: &str, what: &str| found.iter().any(|(k, w)| k == kernel && w.contains(what));
    assert!(seen("races", "data race"), "{found:?}");
    assert!(seen("leaves", "Invalid write"), "{found:?}");
}
