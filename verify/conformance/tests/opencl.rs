//! The suite on OpenCL: PoCL, Intel's driver for processors, and NVIDIA's, where they are installed.

#[path = "drivers/find.rs"]
mod find;

use windlass::Runtime;
use windlass_opencl::OpenCl;

#[test]
fn opencl_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::opencl(&runtime) else { return };
    find::conform("opencl", &device);
}

/// As devices do that have memory of their own.
#[test]
fn opencl_conforms_with_copies() {
    let runtime = Runtime::builder().backend(OpenCl::new().copying()).build();
    let Some(device) = find::opencl(&runtime) else { return };
    find::conform("opencl", &device);
}

#[test]
fn intel_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::intel(&runtime) else { return };
    find::conform("intel", &device);
}

#[test]
fn nvidia_conforms() {
    let runtime = Runtime::new();
    let Some(device) = find::nvidia(&runtime, "opencl") else { return };
    find::conform("nvidia", &device);
}
