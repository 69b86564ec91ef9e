//! `WINDLASS_CACHE`: what OpenCL's compilers made is kept for the next process, and used only if it is whole.

use std::fs;
use std::path::Path;
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
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return };
    if child::is_one() {
        let queue = Queue::builder().device(device).build_blocking().expect("a listed device opens");
        let v = Buffer::from(vec![1_u32, 2, 3]);
        let event = queue.submit(|cg| cg.parallel_for(3, triple(3, cg.read_write(&v))));
        event.and_then(|event| event.blocking_wait()).expect("the kernel is built and runs");
        assert_eq!(v.host_read().blocking_wait().expect("it has run").to_vec(), [3, 6, 9]);
        return;
    }
    let folder = std::env::temp_dir().join(format!("windlass-cache-test-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    run(&folder);
    let (path, first) = entry(&folder);
    run(&folder);
    assert_eq!(entry(&folder), (path.clone(), first), "the second process compiles nothing");
    let whole = fs::read(&path).expect("it is there");
    let mut damaged = whole.clone();
    let last = damaged.len() - 9;
    damaged[last] ^= 0x55;
    fs::write(&path, &damaged).expect("the folder is ours");
    run(&folder);
    assert_ne!(fs::read(&path).expect("it is there"), damaged, "it was compiled anew");
    fs::remove_dir_all(&folder).expect("the folder is ours");
}

/// Another process that builds the kernel, and checks what it does.
fn run(folder: &Path) {
    child::run("WINDLASS_CACHE", folder);
}

/// The only entry, and when it was written.
fn entry(folder: &Path) -> (std::path::PathBuf, SystemTime) {
    let entries: Vec<_> = fs::read_dir(folder).expect("the folder was made").flatten().collect();
    let [entry] = &entries[..] else { panic!("one entry, and not {}", entries.len()) };
    let written = entry.metadata().and_then(|about| about.modified()).expect("files have times");
    (entry.path(), written)
}
