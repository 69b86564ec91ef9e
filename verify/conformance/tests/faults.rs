//! What devices are known to get wrong, and that it is found when they are opened.

#[path = "drivers/find.rs"]
mod find;

use std::time::Instant;

use windlass::prelude::*;
use windlass::{Fault, Result};

fn faults(device: &Device) -> Result<Vec<Fault>> {
    assert!(device.faults().is_empty(), "{device} has not been opened");
    let start = Instant::now();
    let queue = Queue::builder().device(device.clone()).blocking_build()?;
    eprintln!("{device} was opened in {:?}: {:?}", start.elapsed(), device.faults());
    assert_eq!(queue.runtime().stats().builds, 0, "probes are nobody's work");
    Ok(device.faults().to_vec())
}

/// Lavapipe is the device that the probes are about. Were it mended, its version would have to be pinned here.
#[test]
fn known_faults_are_found_where_they_are() -> Result<()> {
    let runtime = Runtime::new();
    if let Some(host) = find::host(&runtime) {
        assert_eq!(faults(&host)?, []);
    }
    if let Some(device) = find::opencl(&runtime) {
        assert_eq!(faults(&device)?, []);
    }
    if let Some(device) = find::wgpu(&runtime).filter(|device| device.name().contains("llvmpipe")) {
        let all = [Fault::LoopsEnd, Fault::FloatsReordered, Fault::WideComparisons];
        assert_eq!(faults(&device)?, all);
        // Another runtime's device is the same one, and is not asked again.
        let other = find::wgpu(&Runtime::new()).expect("it was there");
        assert_eq!(faults(&other)?, device.faults());
    }
    Ok(())
}

#[test]
fn a_runtime_may_do_without() -> Result<()> {
    let runtime = Runtime::builder().unprobed().build();
    if let Some(device) = find::wgpu(&runtime) {
        assert_eq!(faults(&device)?, []);
    }
    Ok(())
}
