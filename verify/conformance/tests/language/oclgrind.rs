//! The kernels of these tests on Oclgrind, which runs them item by item and watches memory: none may leave its
//! arguments, and none may race but those that are to.
//!
//! That it sees what it is asked for is a test as well: [`wrong`] is a kernel of each kind.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use windlass::KernelCall;
use windlass::image::{Kernel, KernelImage, Slot, SlotAccess};
use windlass::prelude::*;

use crate::again;
use crate::everywhere::queues;
use crate::watch::{Oclgrind, Reports};

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

/// What Oclgrind reports of a test's kernels.
fn reports(oclgrind: &Oclgrind, test: &str, texts: &Path) -> Reports {
    let folder = again::folder(&format!("oclgrind-{}", test.replace("::", "-")));
    match oclgrind.watch(test, &folder, ("WINDLASS_DUMP", texts.into())) {
        Ok(watched) => watched.reports,
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn no_kernel_leaves_its_memory_and_none_races_but_by_intention() {
    let Some(oclgrind) = Oclgrind::find(PATIENCE) else { return };
    let texts = again::folder("oclgrind-texts");
    let mut racing = BTreeSet::new();
    for test in again::tests() {
        for (kernel, what) in reports(&oclgrind, &test, &texts) {
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
    let Some(oclgrind) = Oclgrind::find(PATIENCE) else { return };
    let found = reports(&oclgrind, "oclgrind::wrong", &again::folder("oclgrind-wrong"));
    let seen = |kernel: &str, what: &str| found.iter().any(|(k, w)| k == kernel && w.contains(what));
    assert!(seen("races", "data race"), "{found:?}");
    assert!(seen("leaves", "Invalid write"), "{found:?}");
}
