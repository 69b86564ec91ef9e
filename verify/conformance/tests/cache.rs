//! `WINDLASS_CACHE`: what the devices' compilers made is kept for the next process, and used only if it is whole.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use windlass::Runtime;
use windlass::prelude::*;

#[path = "drivers/child.rs"]
mod child;
#[path = "drivers/find.rs"]
mod find;

#[windlass::kernel]
fn triple(#[spec] times: u32, v: &mut [u32]) {
    v[global_id(0)] *= times;
}

#[test]
fn compiled_kernels_are_kept_and_used_only_if_whole() {
    // Each entry is to be this test's own.
    let runtime = Runtime::builder().unprobed().build();
    let devices: Vec<Device> = [find::opencl(&runtime), find::wgpu(&runtime)].into_iter().flatten().collect();
    if child::is_one() {
        return devices.into_iter().for_each(triples);
    }
    let folder = std::env::temp_dir().join(format!("windlass-cache-test-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    run(&folder);
    let first = entries(&folder);
    assert_eq!(first.len(), devices.len(), "an entry for each device");
    run(&folder);
    assert_eq!(entries(&folder), first, "the second process compiles nothing");
    for (path, _) in &first {
        let mut damaged = fs::read(path).expect("it is there");
        let last = damaged.len() - 9;
        damaged[last] ^= 0x55;
        fs::write(path, &damaged).expect("the folder is ours");
        run(&folder);
        assert_ne!(fs::read(path).expect("it is there"), damaged, "it was compiled anew");
    }
    fs::remove_dir_all(&folder).expect("the folder is ours");
}

/// Builds the kernel for a device, and checks what it does.
fn triples(device: Device) {
    let queue = Queue::builder().device(device).blocking_build().expect("a listed device opens");
    let v = Buffer::from(vec![1_u32, 2, 3]);
    let event = queue.submit(|cg| cg.parallel_for(3, triple(3, cg.read_write(&v))));
    event.and_then(|event| event.blocking_wait()).expect("the kernel is built and runs");
    assert_eq!(v.host_read().blocking_wait().expect("it has run").to_vec(), [3, 6, 9]);
}

/// Another process that does so.
fn run(folder: &Path) {
    child::run("WINDLASS_CACHE", folder);
}

/// The entries, and when they were written.
fn entries(folder: &Path) -> Vec<(PathBuf, SystemTime)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries
        .map(|entry| {
            let written = entry.metadata().and_then(|about| about.modified()).expect("files have times");
            (entry.path(), written)
        })
        .collect();
    entries.sort();
    entries
}
